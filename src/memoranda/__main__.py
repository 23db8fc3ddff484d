"""`python -m memoranda` is `memoranda`."""

from __future__ import annotations

import sys

from memoranda.cli import main

# Commands that print how to start Memoranda read the name of the program here; by default it is this file's path.
sys.argv[0] = "memoranda"
sys.exit(main())
