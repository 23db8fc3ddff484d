"""`python -m memoranda` is `memoranda`."""

from __future__ import annotations

import sys

from memoranda.cli import main

# What the parser's help calls the program.
sys.argv[0] = "memoranda"
sys.exit(main())
