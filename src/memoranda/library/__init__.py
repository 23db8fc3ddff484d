"""Results of the library's front door, and the two backends behind it: a store of this process, and a server."""
