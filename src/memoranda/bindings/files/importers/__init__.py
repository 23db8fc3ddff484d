"""Memories of other systems, read from the files those systems leave: one module each.

A module says by what it knows a source (`recognise`, from 0 to 1), and reads it as drafts: what was remembered, in
plain words. From there on all go one way: a draft becomes a memory of OAMS (section 7 says how those of four systems
map), which keeps the original document, and is taken in like any other.
"""
