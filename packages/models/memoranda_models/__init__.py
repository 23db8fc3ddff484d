"""The files of embedding models for Memoranda; it finds them by the name of this package."""
