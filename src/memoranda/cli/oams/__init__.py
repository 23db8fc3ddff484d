"""The commands below `memoranda oams`."""
