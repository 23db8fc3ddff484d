"""openwop: the memory adapter, runs, background work, proposals."""
