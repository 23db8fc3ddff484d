"""memoranda cal."""
