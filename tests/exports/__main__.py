"""Exports while eight writers revise: `python -m tests.exports [--rounds 50] [--memories 64] [--seed 1]`.

Each round exports a store in every form. MEMORANDA_TEST_STORE=postgres uses PostgreSQL. Exit status 1 if a memory was
in an export twice, or not at all.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from memoranda.app import Memoranda
from tests import stores
from tests.exports.moment import EXPORTS, WRITERS, Finding, NumberedStore, compare, read_export, small_pages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exports", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--memories", type=int, default=64, help="memories in the store")
    parser.add_argument("--revisions", type=int, default=3, help="revisions of each writer during an export")
    parser.add_argument("--seed", type=int, default=1, help="what the writers write")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    stores.install()
    findings: list[Finding] = []
    begin = time.monotonic()
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder, Memoranda.open(Path(folder) / "one") as m:
            store = NumberedStore(m, arguments.memories)
            for form in EXPORTS:
                target = Path(folder) / f"of {form.rstrip('/')}"
                with (
                    small_pages(7),
                    store.writing(f"{arguments.seed} {number} {form}", arguments.revisions),
                ):
                    numbers = read_export(store, form, target)
                finding = compare(form, numbers, store.count)
                findings += [] if finding is None else [finding]
        print(f"round {number + 1}: {store.revisions} revisions, {len(findings)} findings", flush=True)
    for finding in findings:
        print("FINDING", finding)
    exports = arguments.rounds * len(EXPORTS)
    print(
        f"{exports} exports in {len(EXPORTS)} forms while {WRITERS} writers revised: "
        f"{sum(len(finding.twice) for finding in findings)} twice, "
        f"{sum(len(finding.missing) for finding in findings)} missing; {time.monotonic() - begin:.0f} s"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
