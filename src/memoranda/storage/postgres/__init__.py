"""PostgreSQL: connections, statements, notifications, elections and pgvector."""
