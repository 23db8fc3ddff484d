"""Memories moved in and out: imports, exports, conversion and adoption, for every file form."""
