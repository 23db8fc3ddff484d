"""Standing commitments in memory text."""
