"""OAMS: memories under keys in namespaces."""
