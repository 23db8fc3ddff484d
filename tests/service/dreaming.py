"""A namespace with something to find for every strategy, and the verbs of consolidation with short names.

python -m tests.service.dreaming DATABASE     what every strategy says there, dry, as JSON: for other processes
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from memoranda.consolidation.strategies.dream import DEFAULT_OPTIONS, Options, Writer
from memoranda.encoding.json_text import dump
from memoranda.service.consolidation.dreams import DreamRun
from memoranda.service.consolidation.runs import Undone
from memoranda.service.core.access import Access
from memoranda.standards.oams.memory import STRATEGIES
from memoranda.standards.oams.namespace import parse_namespace
from tests.service.oams_verbs import Memory, Oams
from tests.service.world import World

# Key, day, value, and whatever else a memory has.
SAMPLES: Final[tuple[tuple[str, str, str, dict[str, Any]], ...]] = (
    (
        "port then",
        "2026-03-02",
        "The staging database runs on port 5432. It is backed up every night.",
        {"source_id": "https://wiki.example/db"},
    ),
    ("port now", "2026-05-11", "The staging database runs on port 5433.", {"metadata": {"confidence": 0.9}}),
    ("billing", "2026-04-01", "Billing uses PostgreSQL.", {}),
    ("postgres", "2026-04-02", "PostgreSQL requires OpenSSL.", {}),
    ("search", "2026-04-03", "Search uses PostgreSQL.", {}),
    ("reports", "2026-04-05", "Reporting uses PostgreSQL.", {}),
    ("tea", "2026-04-06", "Ada prefers green tea in the morning.", {"tags": ["People"]}),
    (
        "tea again",
        "2026-04-07",
        "Ada prefers green tea in the morning. She never drinks coffee.",
        {"tags": ["people", "drinks"], "metadata": {"confidence": 0.8}, "source_id": "slack:C1:1700000000.1"},
    ),
    ("release", "2026-06-01", "Release 2.0 is planned for 2026-07-15.", {"tags": ["plans"]}),
    *(
        (f"sync {day}", f"2026-05-{day}", "Met with the design team.", {"tags": ["weekly"]})
        for day in ("04", "11", "18", "25")
    ),
)
KEYS: Final = {key for key, *_ in SAMPLES}


class Dreams(Oams):
    """One caller's consolidation of one namespace."""

    def fill(self) -> None:
        for key, day, value, fields in SAMPLES:
            self.store(key, value, created_at=f"{day}T09:00:00Z", **fields)

    def run(
        self,
        strategy: str = "synthesize",
        *,
        dry: bool = False,
        options: Options = DEFAULT_OPTIONS,
        writer: Writer | None = None,
    ) -> DreamRun:
        return self.verbs.consolidate(
            self.access, parse_namespace(self.namespace), strategy, is_dry=dry, options=options, writer=writer
        )

    def undo(self, run: DreamRun | str) -> Undone:
        return self.verbs.undo(self.access, run if isinstance(run, str) else run.run_id)

    def runs(self) -> list[dict[str, Any]]:
        return self.verbs.dream_runs(self.access)

    def results(self) -> dict[str, Memory]:
        """What passes made, by key."""
        return {each["key"]: each for each in self.listed(tags=["dream"])}

    def values(self) -> set[str]:
        return {each["value"] for each in self.results().values()}

    def audited(self, *ops: str) -> list[dict[str, Any]]:
        self.world.engine.flush()
        return [each for each in self.world.service.audit(self.access, {}) if each["op"] in ops]

    def as_(self, access: Access) -> Dreams:
        """The same namespace for somebody else."""
        return Dreams(self.world, self.namespace, access)


def outcome(run: DreamRun) -> dict[str, str]:
    """What became of each result, by key."""
    return {each.memory["key"]: each.result for each in run.outputs}


def main() -> None:
    world = World(path=Path(sys.argv[1]))
    dreams = Dreams(world)
    said = [dreams.run(strategy, dry=True).document() for strategy in STRATEGIES]
    world.service.close()
    sys.stdout.buffer.write(dump(said))


if __name__ == "__main__":
    main()
