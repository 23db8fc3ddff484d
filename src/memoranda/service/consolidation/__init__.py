"""Consolidation of a namespace, written down and undone."""
