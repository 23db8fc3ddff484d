"""The long run: `python -m tests.fuzz [--minutes 10 | --executions N] [--only file …] [--seed 1] [--keep FOLDER]`.

For queries: `python -m tests.fuzz --only cal cal-json --executions 1000000`.

Exit status 1 if anything was found.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.fuzz.targets import targets


def resident_bytes() -> int:
    """What this process holds in memory now; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--executions", type=int, help="stop after so many inputs instead")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed gives the same inputs")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that found something")
    parser.add_argument("--only", nargs="+", choices=[target.name for target in targets()], help="some targets")
    parser.add_argument("--grow", action="store_true", help="add what led somewhere new to the corpus (corpus.py)")
    arguments = parser.parse_args()
    campaign = Campaign(arguments.seed, tuple(arguments.only or ()))
    begin = time.monotonic()
    # Caches and imports fill first; what grows after that would grow for ever.
    warming = None if arguments.executions is None else arguments.executions // 10
    campaign.run(executions=warming, seconds=min(20.0, arguments.minutes * 10))
    campaign.replay()
    settled = resident_bytes()
    print(f"seed {arguments.seed}; {settled >> 20} MiB after {campaign.executions} warming executions", flush=True)
    deadline = begin + arguments.minutes * 60
    while (
        campaign.executions < arguments.executions if arguments.executions is not None else time.monotonic() < deadline
    ):
        left = None if arguments.executions is None else arguments.executions - campaign.executions
        campaign.run(executions=left, seconds=60.0 if left is not None else min(60.0, deadline - time.monotonic()))
        print(
            f"{campaign.executions} executions, {campaign.accepted} accepted, {len(campaign.findings)} findings, "
            f"{resident_bytes() >> 20} MiB, "
            f"slowest {campaign.slowest_seconds:.3f} s",
            flush=True,
        )
    print(f"{time.monotonic() - begin:.0f} s; the slowest input: {campaign.slowest[:200]!r}")
    print(f"outcomes: {campaign.outcomes()}; growth {(resident_bytes() - settled) / 2**20:.1f} MiB")
    for what in sorted({(finding.target, finding.what) for finding in campaign.findings}):
        print("FINDING", *what)
    if arguments.grow:
        campaign.grow()
    for finding in campaign.findings if arguments.keep else ():
        arguments.keep.mkdir(parents=True, exist_ok=True)
        name = f"{finding.target}-{hashlib.sha256(finding.data).hexdigest()[:12]}"
        (arguments.keep / name).write_bytes(finding.data)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
