"""Habits in recorded runs, and what could be learned from them."""
