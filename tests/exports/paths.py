"""Random paths of one to four file forms: each memory ends with its bytes, names and state, or a report names the loss.

A path begins in a store with memories of every standard, some of them revised, superseded, forgotten or judged. The
store is exported in the first form and imported into an empty store of the same owner, which is exported in the second
form, and so on. What the last store holds is compared with what the first one held.

`python -m tests.exports.paths [--paths 300] [--seed 1]` takes many paths. Exit status 1 if one has a loss that no
report names.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from memoranda.app import Memoranda
from memoranda.encoding.json_text import dump, parse
from memoranda.model.memory import NATIVE_KEY, STATE_KEY, UMP, Document, Version
from memoranda.service.core.views import view_record
from memoranda.service.exchange.report import Report
from memoranda.service.oams.views import Location, to_memory
from memoranda.service.oms.views import to_stored_grain
from memoranda.standards.oams.namespace import namespace_of
from memoranda.standards.port import port_of
from tests.bindings.files.test_forms import CHANGES, FORMS, NEW, REF, WHOLE, Writer, read, versions, write

MAX_FORMS: Final = 4
MAX_STEPS: Final = 8
# Members of a body that say in what form a memory travelled.
_CARRIED: Final = (NATIVE_KEY, STATE_KEY)


class FilePath(msgspec.Struct, frozen=True, kw_only=True):
    """What is written first, and the forms that it travels through, each with its history or without."""

    steps: tuple[tuple[str, int], ...]
    forms: tuple[tuple[str, bool], ...]

    @property
    def keeps_history(self) -> bool:
        """True if every form holds the earlier versions, too."""
        return all(form in WHOLE and history for form, history in self.forms)


class Loss(msgspec.Struct, frozen=True):
    """A difference between the first store and the last one that no report names."""

    name: str
    what: str


def make_path(choice: random.Random) -> FilePath:
    """Return a random path."""
    steps = [(kind, 0) for kind in choice.sample(sorted(NEW), choice.randint(1, len(NEW)))]
    changes = [*NEW, *CHANGES, "revise", "store_again"]
    steps += [(choice.choice(changes), choice.randrange(8)) for _ in range(choice.randint(0, MAX_STEPS))]
    forms = [(choice.choice(FORMS), choice.random() < 0.7) for _ in range(choice.randint(1, MAX_FORMS))]
    return FilePath(steps=tuple(steps), forms=tuple(forms))


def hold(m: Memoranda, *, history: bool) -> dict[str, dict[str, object]]:
    """Return what a store shows of each version, by its id as a record; without `history` only the current ones."""
    entries = {entry["id"]: entry for entry in m.service.openwop.list_entries(m.access, REF)}
    shown: dict[str, dict[str, object]] = {}
    for version in versions(m):
        if version.state.is_head or (history and not version.state.is_forgotten):
            parts = _show(m, version, entries, history=history)
            shown[str(parts["id"])] = parts
    return shown


def _show(m: Memoranda, version: Version, entries: Mapping[str, object], *, history: bool) -> dict[str, object]:
    """Return the names, the bytes and the state of a version, by what they are called."""
    context, space, is_head = m.service.context, version.state.space, version.state.is_head
    record = cast("dict[str, Any]", view_record(context, version, context.clock()))
    address = to_stored_grain(context, version).address
    parts: dict[str, object] = {"id": record["id"], "address": address, "verdict": version.state.verification}
    origin = innermost(version.document)
    parts["bytes"] = (origin.standard, origin.native)
    if is_head and origin.standard == UMP:
        # The record of its author, with his signature.
        parts["record"] = dump(record)
    structured = {
        name: value for name, value in (record["body"].get("structured") or {}).items() if name not in _CARRIED
    }
    skipped = ("integrity", "ump") if history else ("integrity", "ump", "supersedes")
    stated = {name: value for name, value in record.items() if name not in skipped}
    parts["fields"] = {**stated, "body": {**record["body"], "structured": structured}}
    if is_head:
        location = Location(namespace=namespace_of(space, m.owner), tenant=m.owner, space=space)
        with context.engine.open_snapshot(m.owner) as snapshot:
            memory = cast("dict[str, Any]", to_memory(context, snapshot, version, location))
        metadata = {name: value for name, value in memory.get("metadata", {}).items() if name != NATIVE_KEY}
        parts["key"] = f"{memory['namespace']}/{memory['key']}"
        parts["memory"] = {**memory, "metadata": metadata}
        parts["entry"] = next((entry for name, entry in entries.items() if name == origin.name), None)
    return parts


def innermost(document: Document) -> Document:
    """Return the document that was written first: inside one that carries another, that one."""
    port = port_of(document.standard)
    inner = port.carried(document)
    return document if inner is None else innermost(inner)


class Walked(msgspec.Struct, frozen=True):
    """What a path lost in silence, and the number of memories whose losses were named."""

    losses: list[Loss]
    named: int


def walk(path: FilePath, folder: Path) -> Walked:
    """Take a path, and return what was lost."""
    folder.mkdir()
    with Memoranda.open(folder / "first") as first:
        writer = Writer(first)
        for step, which in path.steps:
            writer.step(step, which)
        before, owner = hold(first, history=path.keeps_history), first.owner
        source, reports = first, list[Report]()
        with ExitStack() as stores:
            for number, (form, history) in enumerate(path.forms):
                (folder / str(number)).mkdir()
                target = folder / str(number) / form
                reports.append(write(source, target, form, history=history))
                source = stores.enter_context(Memoranda.open(folder / f"store{number}", owner=owner))
                reports.append(read(source, target))
            after = hold(source, history=path.keeps_history)
        named = {name for name, parts in before.items() if is_named(parts, reports)}
        return Walked(list(find_losses(before, after, named)), len(named))


def is_named(parts: Mapping[str, object], reports: Iterable[Report]) -> bool:
    """Return True if a report on the way names a memory."""
    lines = [line for report in reports for line in report.warnings]
    lines += [f"{refusal.id} {refusal.message}" for report in reports for refusal in report.refusals]
    names = [parts["id"], parts["address"], *([str(parts["key"]).partition("/")[2]] if "key" in parts else ())]
    return any(str(name) in line for name in names for line in lines)


def find_losses(
    before: Mapping[str, Mapping[str, object]], after: Mapping[str, Mapping[str, object]], named: Collection[str]
) -> Iterator[Loss]:
    """Yield what the last store lacks or shows differently, of memories that no report names."""
    for name, parts in before.items():
        if name in named:
            continue
        if name not in after:
            yield Loss(name, "missing")
            continue
        for part, value in parts.items():
            if after[name].get(part) != value:
                yield Loss(name, f"{part}: {_describe_change(value, after[name].get(part))}")
    # What is exported under another id is named by its old one.
    if len(after) > len(before):
        yield from (Loss(name, "is new, or lives again") for name in after.keys() - before.keys())


def _describe_change(before: object, after: object) -> str:
    """Return the difference of two values, of maps only by the members that differ."""
    if isinstance(before, bytes) and isinstance(after, bytes) and before[:1] == after[:1] == b"{":
        before, after = parse(before), parse(after)
    if isinstance(before, dict) and isinstance(after, dict):
        names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        before, after = ({name: each.get(name) for name in names} for each in (before, after))
    return f"{before!r} became {after!r}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exports.paths", description=__doc__)
    parser.add_argument("--paths", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    outcomes: Counter[str] = Counter()
    for number in range(arguments.paths):
        path = make_path(random.Random(f"{arguments.seed} {number}"))
        with tempfile.TemporaryDirectory() as folder:
            walked = walk(path, Path(folder) / "path")
        outcomes["silent" if walked.losses else "named" if walked.named else "lossless"] += 1
        for loss in walked.losses:
            print(f"LOSS on path {number}, {path}: {loss.name} {loss.what}", flush=True)
    print(
        f"{arguments.paths} paths: {outcomes['lossless']} lossless, {outcomes['named']} name what they lose, "
        f"{outcomes['silent']} lose something in silence"
    )
    return 1 if outcomes["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
