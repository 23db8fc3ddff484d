"""python -m tests.chaos --minutes 30 [--seed 1] [--nodes 3]; python -m tests.chaos --soak [--clients 64]"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests import postgres
from tests.chaos import nodes, soak, storm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--soak", action="store_true", help="many clients and no faults")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=200_000, help="with --soak, at least so many, however long")
    parser.add_argument("--nodes", type=int, default=0, help="so many servers on a PostgreSQL with a standby")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.soak:
            return soak.main(Path(folder), clients=asked.clients, minutes=asked.minutes, requests=asked.requests)
        outcome: storm.Outcome | nodes.Outcome
        if asked.nodes:
            outcome = nodes.run(Path(folder), seed=asked.seed, minutes=asked.minutes, count=asked.nodes)
        else:
            outcome = storm.run(Path(folder), seed=asked.seed, minutes=asked.minutes)
    if asked.nodes:
        print(f"on PostgreSQL {', '.join(postgres.versions)}")
    print(outcome)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
