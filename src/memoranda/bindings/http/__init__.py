"""UMP over HTTP (UMP §4.2): parse, one service call, render."""
