"""Exports of a store that is being written: each memory is in the export once, whoever revises it meanwhile.

Every memory has a number in its text, which no revision changes. What an export does not state as superseded is current
in it.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange
from memoranda.service.exchange import export_run
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Report
from memoranda.standards.oams.namespace import parse_namespace
from memoranda.standards.oms.grains import decode
from memoranda.standards.openwop.entry import Draft
from tests.bindings.files.test_adoption import OAMS_FORMS
from tests.bindings.files.test_forms import FORMS, write

WRITERS: Final = 8
REF: Final = "mem://support/agent-1"
# Exports in pages, as a server sends them, and files of another system.
PAGED: Final = ("ump pages", "ump pages of heads", "grain pages", "grain pages of heads", "oams pages", "csv")
EXPORTS: Final = (*FORMS, *(f"{form} of heads" for form in FORMS if form not in OAMS_FORMS), *PAGED)
_NUMBER: Final = re.compile(r"memory number(\d+) ")


def number_of(text: str) -> int:
    """Return the number of a memory by its text."""
    match = _NUMBER.search(text)
    assert match is not None, text
    return int(match[1])


class NumberedStore:
    """A store with numbered memories of every standard, each of which is revised by one writer at a time."""

    def __init__(self, m: Memoranda, count: int) -> None:
        self.m = m
        self.count = count
        self.revisions = 0
        starts = (self._remember, self._store, self._put, self._enter)
        for number in range(count):
            starts[number % len(starts)](f"memory number{number} at first")
        self._ids = {number_of(record["body"]["text"]): record["id"] for record in m.export()}
        self._keys = {
            number_of(memory["value"]): (memory["key"], namespace)
            for namespace in m.oams.namespaces
            for memory in m.oams.list(namespace=namespace, limit=500).memories
        }
        assert len(self._ids) == len(self._keys) == count
        # The memories whose head is a record: to remember its text again merges the evidence.
        self._records = set(range(0, count, len(starts)))

    def _remember(self, text: str) -> None:
        self.m.remember(text, project="p" if number_of(text) % 8 else None)

    def _store(self, text: str) -> None:
        self.m.oams.store(f"key {number_of(text)}", text)

    def _put(self, text: str) -> None:
        self.m.grains.put(self._fields(text))

    def _enter(self, text: str) -> None:
        self.m.service.openwop.put_entry(self.m.access, REF, Draft(content=text))

    def _fields(self, text: str) -> dict[str, object]:
        at = self.m.service.context.clock()
        fields = {"type": "belief", "subject": "ada", "relation": "notes", "object": text, "confidence": 0.5}
        return {**fields, "created_at": at}

    def revise(self, number: int, choice: random.Random) -> None:
        """Give a memory another wording, through one of three standards, or repeat it, which merges evidence."""
        text = f"memory number{number} wording{choice.getrandbits(40)}"
        name = self._ids[number]
        change = choice.randrange(4 if number in self._records else 3)
        self._records.discard(number)
        if change == 0:
            key, namespace = self._keys[number]
            self.m.oams.store(key, text, namespace=namespace)
        elif change == 1:
            address = self._names(name)["oms"]
            old = self.m.grains.get(address).grain.fields
            scope = {field: old[field] for field in ("namespace", "user_id") if field in old}
            self.m.grains.supersede(address, {**self._fields(text), **scope})
        elif change == 2:
            self.m.revise(name, text)
            self._records.add(number)
        else:
            self._records.add(number)
            record = self.m.ump.get(name)
            repeated = self.m.remember(record["body"]["text"], project=record["scope"].get("project"))
            assert repeated.result == "merged"
        self._ids[number] = self._head_of(name)
        self.revisions += 1

    def _names(self, name: str) -> Mapping[str, str]:
        with self.m.service.context.engine.open_snapshot(self.m.owner) as snapshot:
            version = snapshot.find_by_name("ump", name)
            assert version is not None
            return snapshot.load_names(version.version_id)

    def _head_of(self, name: str) -> str:
        with self.m.service.context.engine.open_snapshot(self.m.owner) as snapshot:
            version = snapshot.find_by_name("ump", name)
            assert version is not None
            return snapshot.load_names(snapshot.load_newest(version.memory_id).version_id)["ump"]

    def revise_all(self, choice: random.Random) -> None:
        """Revise every memory once."""
        for number in range(self.count):
            self.revise(number, choice)

    @contextmanager
    def writing(self, seed: str, revisions: int) -> Iterator[None]:
        """Let eight writers revise memories at once, each its own and so many times."""

        def write_on(writer: int) -> None:
            choice = random.Random(f"{seed} {writer}")
            for _ in range(revisions):
                self.revise(choice.randrange(writer, self.count, WRITERS), choice)

        with ThreadPoolExecutor(WRITERS) as pool:
            writers = [pool.submit(write_on, writer) for writer in range(WRITERS)]
            yield
            for writer in writers:
                writer.result()


class Finding(msgspec.Struct, frozen=True):
    """The memories that an export has twice or not at all."""

    form: str
    twice: list[int]
    missing: list[int]


def compare(form: str, numbers: Counter[int], count: int) -> Finding | None:
    """Return what is wrong with the current memories of an export; None if each is there once."""
    twice = sorted(number for number, times in numbers.items() if times > 1)
    missing = sorted(set(range(count)) - set(numbers))
    return Finding(form, twice, missing) if twice or missing else None


def read_export(store: NumberedStore, form: str, folder: Path) -> Counter[int]:
    """Export a store in a form, and return how often each memory is current in it."""
    folder.mkdir()
    m, plain, history = store.m, form.removesuffix(" of heads"), not form.endswith(" of heads")
    if plain == "csv":
        exchange.export_system(m.service, m.access, str(folder / "all.csv"), "csv", Report())
        lines = (folder / "all.csv").read_text("utf-8").splitlines()
        return Counter(number_of(line) for line in lines if _NUMBER.search(line))
    if plain in PAGED:
        items = list(_PAGES[plain](m, history))
    else:
        write(m, folder / plain, plain, history=history)
        items = list(exchange.read_sources([str(folder / plain)], None, "", Report()))
    return Counter(number_of(_text_of(item)) for item in items if _is_current(item))


def _is_current(item: Item) -> bool:
    """Return True unless an item states that another one superseded it."""
    assert item.error is None
    if item.form == "ump":
        return not item.value["superseded_by"]
    return item.index.superseded_by is None and item.index.system_valid_to is None


def _text_of(item: Item) -> str:
    if item.form == "ump":
        return str(item.value["body"]["text"])
    return str(item.value["value"] if item.form == "oams" else decode(item.value).fields)


def _read_records(m: Memoranda, history: bool) -> Iterator[Item]:
    after: str | None = None
    while True:
        records, after, _ = m.ump.export_page(history=history, after=after)
        yield from number_items("ump", records)
        if after is None:
            return


def _read_grains(m: Memoranda, history: bool) -> Iterator[Item]:
    after: str | None = None
    while True:
        grains, after, _ = m.service.grains.export_page(m.access, history=history, after=after)
        for delivery, index in grains:
            yield Item(form="oms", value=delivery, index=index)
        if after is None:
            return


def _read_memories(m: Memoranda, _: bool) -> Iterator[Item]:
    start: str | None = None
    for namespace in map(parse_namespace, m.oams.namespaces):
        after = start
        while True:
            page = m.service.oams.export_page(m.access, namespace, after=after)
            for raw, memory in page.lines:
                yield Item(form="oams", value=memory, raw=raw)
            after = page.following
            if after is None:
                break
        start = page.start


_PAGES: Final[Mapping[str, Callable[[Memoranda, bool], Iterator[Item]]]] = {
    "ump pages": _read_records,
    "grain pages": _read_grains,
    "oams pages": _read_memories,
}


@contextmanager
def small_pages(limit: int) -> Iterator[None]:
    """Let exports read few versions at a time, so that a small store has many pages."""
    sizes = {name: getattr(export_run, name) for name in ("PAGE_LIMIT", "SENT_LIMIT")}
    export_run.__dict__.update(dict.fromkeys(sizes, limit))
    try:
        yield
    finally:
        export_run.__dict__.update(sizes)
