"""memoranda oms."""
