"""What the library's front door gives and takes: results, and keywords in Python's own types."""
