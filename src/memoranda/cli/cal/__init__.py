"""The command `memoranda cal`, its prompt and its output."""
