"""Commitments and the conditions for them, found in memory text by rules."""
