"""The storage contract and the one SQL logic behind it: snapshots, units of work, selections, the queue of writers."""
