"""SQLite: its file, its locks, and copies of it."""
