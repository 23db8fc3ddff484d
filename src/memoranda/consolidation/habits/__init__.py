"""Habits in recorded runs, and drafts of artifacts that automate them."""
