"""memoranda oams."""
