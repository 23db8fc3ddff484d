"""The long run: `python -m tests.fuzz --minutes 10 [--only file] [--seed 1] [--keep FOLDER]`.

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
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed gives the same inputs")
    parser.add_argument("--keep", type=Path, help="a folder for inputs that found something")
    parser.add_argument("--only", choices=[target.name for target in targets()], help="one target")
    arguments = parser.parse_args()
    campaign = Campaign(arguments.seed, arguments.only)
    # Caches and imports fill first; what grows after that would grow for ever.
    campaign.run(seconds=min(20.0, arguments.minutes * 10))
    settled = resident_bytes()
    print(f"seed {arguments.seed}; {settled >> 20} MiB after {campaign.executions} warming executions", flush=True)
    deadline = time.monotonic() + arguments.minutes * 60
    while (left := deadline - time.monotonic()) > 0:
        campaign.run(seconds=min(60.0, left))
        print(
            f"{campaign.executions} executions, {len(campaign.findings)} findings, {resident_bytes() >> 20} MiB, "
            f"slowest {campaign.slowest_seconds:.3f} s",
            flush=True,
        )
    print(f"outcomes: {campaign.outcomes()}; growth {(resident_bytes() - settled) / 2**20:.1f} MiB")
    for what in sorted({(finding.target, finding.what) for finding in campaign.findings}):
        print("FINDING", *what)
    for finding in campaign.findings if arguments.keep else ():
        arguments.keep.mkdir(parents=True, exist_ok=True)
        name = f"{finding.target}-{hashlib.sha256(finding.data).hexdigest()[:12]}"
        (arguments.keep / name).write_bytes(finding.data)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
