"""The nine consolidation strategies of OAMS section 6, and one of this project."""
