"""The nine strategies of OAMS section 6."""
