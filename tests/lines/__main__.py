"""Random sequences of verbs, compared with a plain model of memories with lines of versions.

    python -m tests.lines --sequences 5000 --store sqlite --seed 1
    python -m tests.lines --replay FILE

Exit status 1 if the store and the model differed. The first sequence of each kind of difference is made minimal and
printed as JSON, which --replay performs again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lines", description=__doc__)
    parser.add_argument("--sequences", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1, help="the number of the first sequence")
    parser.add_argument("--length", type=int, default=16, help="steps of a sequence")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--embedded", action="store_true", help="start no servers")
    parser.add_argument("--seconds", type=float, help="stop after this processor time")
    parser.add_argument("--keep-going", action="store_true", help="do not make sequences minimal, and list all kinds")
    parser.add_argument("--replay", type=Path, help="perform the sequence of a file instead")
    arguments = parser.parse_args()
    os.environ["MEMORANDA_EMBEDDER"] = "off"
    if arguments.store == "postgres":
        os.environ["MEMORANDA_TEST_STORE"] = "postgres"
    # The store is chosen when these are imported.
    from tests import stores
    from tests.lines.sequence import generate, perform, shrink

    stores.install()
    if arguments.replay is not None:
        document = json.loads(arguments.replay.read_text())
        finding = perform(document["steps"], document["seed"])
        print(finding or "no difference")
        return 1 if finding else 0
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    done, began = 0, time.process_time()
    for seed in range(arguments.seed, arguments.seed + arguments.sequences):
        if arguments.seconds is not None and time.process_time() - began > arguments.seconds:
            break
        steps = generate(seed, arguments.length, is_embedded=arguments.embedded)
        finding = perform(steps, seed, counts)
        done += 1
        if finding is not None:
            kinds[finding.kind] += 1
            if kinds[finding.kind] == 1:
                if not arguments.keep_going:
                    steps, finding = shrink(steps, seed, finding)
                print(f"sequence {seed}: {finding}")
                print(json.dumps({"seed": seed, "steps": steps}), flush=True)
        if done % 500 == 0:
            print(f"{done} sequences, {kinds.total()} with differences", flush=True)
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")
    for kind, count in kinds.most_common():
        print(f"{count:8} DIFFERENCE {kind}")
    seconds = time.process_time() - began
    print(f"{done} sequences from {arguments.seed} on {arguments.store}: {kinds.total()} differences, {seconds:.0f} s")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
