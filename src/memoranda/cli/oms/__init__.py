"""The commands below `memoranda oms`."""
