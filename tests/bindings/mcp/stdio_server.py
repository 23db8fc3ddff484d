"""Serves a data directory over standard input and output: what `memoranda mcp` does, without the command line.

What is offered is said as in the query of /mcp: `tools=all`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from memoranda.bindings.mcp.offer import ToolOffer
from memoranda.bindings.mcp.server import run_stdio
from memoranda.opening import open_service
from memoranda.settings import load_settings

if __name__ == "__main__":
    opened = open_service(load_settings(home=Path(sys.argv[1])))
    asked = dict(each.split("=") for each in sys.argv[2:])
    run_stdio(opened, opened.gate.local(actor_kind="agent"), ToolOffer().with_query(asked))
