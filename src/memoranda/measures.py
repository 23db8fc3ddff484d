"""What is counted and timed in a process, for /metrics: everything that there is stands here, with its meaning.

A number is added to where it happens, in well under a microsecond, and read when somebody asks. Labels are names of our
own (standards, operations, verbs, codes), never of an owner, and never anything that was stored or asked.

Several server processes of one port answer as one: each writes to a page of memory that all of them can read, and
whoever is asked adds them up. A page is a list of entries, each a name and its numbers; it only grows, so it can be
read while it is written. A process that takes the place of another goes on where that stopped.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

# Seconds, from a read that was in the cache to what a person gives up waiting for.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Room for all there can be: each operation and verb with its buckets. Of what is not used nothing is taken.
PAGE_BYTES: Final = 1_048_576

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
FAMILIES: Final[dict[str, Family]] = {}

# At the start of a page: bytes in use, and whose it is. Before each entry: bytes of its name, and how many numbers.
_HEAD: Final = struct.Struct("=QQ")
_ENTRY: Final = struct.Struct("=II")
_WORD: Final = 8


class Family:
    """One measure: its name, and a number (or, of times, one for each bucket and their sum) for each of its labels."""

    def __init__(self, kind: Kind, name: str, meaning: str, *labels: str) -> None:
        self.kind, self.name, self.meaning, self.labels = kind, name, meaning, labels
        # The last two of a histogram: longer than all buckets, and the sum.
        self.size = len(BUCKETS) + 2 if kind == "histogram" else 1
        self._cells: dict[Labels, memoryview[float]] = {}
        FAMILIES[name] = self

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Count something."""
        with _pages.lock:
            cells = self._cells.get(labels) or self._made(labels)
            cells[0] += amount

    def observe(self, seconds: float, *labels: str) -> None:
        """Put down how long something took."""
        bucket = bisect_left(BUCKETS, seconds)
        with _pages.lock:
            cells = self._cells.get(labels) or self._made(labels)
            cells[bucket] += 1.0
            cells[-1] += seconds

    def forget_cells(self) -> None:
        self._cells.clear()

    def _made(self, labels: Labels) -> memoryview[float]:
        assert len(labels) == len(self.labels), self.name
        cells = self._cells[labels] = _pages.own.cells("\0".join((self.name, *labels)), self.size)
        return cells


class Page:
    """The numbers of one process."""

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory
        if not self._used:
            self._use(_HEAD.size)

    @property
    def _used(self) -> int:
        used: int = _HEAD.unpack_from(self._memory)[0]
        return used

    @property
    def process(self) -> int:
        """Whose numbers these are."""
        process: int = _HEAD.unpack_from(self._memory)[1]
        return process

    def _use(self, used: int) -> None:
        _HEAD.pack_into(self._memory, 0, used, os.getpid())

    def take(self) -> None:
        """Go on where another process stopped; nothing is left of the work it had under way."""
        self._use(self._used)
        self.clear_gauges()

    def clear_gauges(self) -> None:
        """Forget the work under way in a process that has ended."""
        for name, cells in self.entries():
            if FAMILIES[name.partition("\0")[0]].kind == "gauge":
                cells[0] = 0.0

    def entries(self) -> Iterator[tuple[str, memoryview[float]]]:
        at, end = _HEAD.size, self._used
        whole = memoryview(self._memory)
        while at < end:
            length, count = _ENTRY.unpack_from(self._memory, at)
            name = bytes(whole[at + _ENTRY.size : at + _ENTRY.size + length])
            at += _ENTRY.size + _padded(length)
            yield name.decode("utf-8"), whole[at : at + count * _WORD].cast("d")
            at += count * _WORD

    def cells(self, name: str, count: int) -> memoryview[float]:
        """The numbers of that name, made if there are none. Where there is no room, what is added is lost."""
        for known, cells in self.entries():
            if known == name:
                return cells
        key, at = name.encode("utf-8"), self._used
        start = at + _ENTRY.size + _padded(len(key))
        end = start + count * _WORD
        if end > len(self._memory):
            return memoryview(bytearray(count * _WORD)).cast("d")
        _ENTRY.pack_into(self._memory, at, len(key), count)
        self._memory[at + _ENTRY.size : at + _ENTRY.size + len(key)] = key
        self._use(end)
        return memoryview(self._memory)[start:end].cast("d")


def _padded(length: int) -> int:
    return (length + _WORD - 1) // _WORD * _WORD


class _Pages:
    """The page of this process, and those of its siblings."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.own = Page(bytearray(PAGE_BYTES))
        self.all = [self.own]

    def share(self, count: int) -> None:
        self.all = [Page(mmap.mmap(-1, PAGE_BYTES)) for _ in range(count + 1)]
        self._use(self.all[count])

    def take(self, number: int) -> None:
        # Whoever had the lock when the processes parted is not here.
        self.lock = threading.Lock()
        self._use(self.all[number])
        self.own.take()

    def _use(self, page: Page) -> None:
        self.own = page
        for family in FAMILIES.values():
            family.forget_cells()


_pages: Final = _Pages()


def share(count: int) -> None:
    """Allocate a page for each of so many workers that are about to be forked, and one for this process."""
    _pages.share(count)


def take(number: int) -> None:
    """Count as the worker of this number from now on."""
    _pages.take(number)


def leave(number: int) -> None:
    """Forget the work under way in the worker of this number, which has ended."""
    _pages.all[number].clear_gauges()


def processes() -> list[int]:
    """Return the processes whose numbers are added up. A page that no worker has taken yet is the first process's."""
    return list(dict.fromkeys(page.process for page in _pages.all))


# --- reading ------------------------------------------------------------------------------------------


def totals() -> dict[tuple[str, ...], list[float]]:
    """The numbers of all processes together, by name and labels."""
    found: dict[tuple[str, ...], list[float]] = {}
    for page in _pages.all:
        for name, cells in page.entries():
            key = tuple(name.split("\0"))
            before = found.get(key)
            found[key] = (
                list(cells)
                if before is None
                else [a + b for a, b in zip(before, cells, strict=True)]
            )
    return found


def exposition(asked: Iterable[tuple[Family, Labels, float]] = ()) -> bytes:
    """Everything in the text format of Prometheus (version 0.0.4); `asked` are numbers that are nobody's to add up."""
    numbers: dict[str, dict[Labels, list[float]]] = {name: {} for name in FAMILIES}
    for (name, *labels), cells in totals().items():
        numbers[name][tuple(labels)] = cells
    for family, given, value in asked:
        numbers[family.name][given] = [value]
    lines: list[str] = []
    for name, family in FAMILIES.items():
        if numbers[name]:
            lines += [f"# HELP {name} {family.meaning}", f"# TYPE {name} {family.kind}"]
            for given, cells in sorted(numbers[name].items()):
                lines += _lines(family, given, cells)
    return ("\n".join(lines) + "\n").encode("utf-8")


def _lines(family: Family, labels: Labels, cells: Sequence[float]) -> Iterator[str]:
    said = [f'{name}="{value}"' for name, value in zip(family.labels, labels, strict=True)]
    if family.kind != "histogram":
        yield f"{family.name}{_braced(said)} {cells[0]:.17g}"
        return
    count = 0
    for bound, cell in zip((*map(str, BUCKETS), "+Inf"), cells[:-1], strict=True):
        count += int(cell)
        bucket = [*said, f'le="{bound}"']
        yield f"{family.name}_bucket{_braced(bucket)} {count}"
    yield f"{family.name}_sum{_braced(said)} {cells[-1]:.17g}"
    yield f"{family.name}_count{_braced(said)} {count}"


def _braced(labels: Sequence[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


# --- all there is -------------------------------------------------------------------------------------

HTTP_REQUESTS: Final = Family(
    "counter",
    "memoranda_http_requests_total",
    "Requests over HTTP that were answered, by operation and status.",
    *("standard", "operation", "code"),
)
HTTP_SECONDS: Final = Family(
    "histogram",
    "memoranda_http_request_seconds",
    "From a request to the head of its answer.",
    *("standard", "operation"),
)
VERB_SECONDS: Final = Family(
    "histogram",
    "memoranda_verb_seconds",
    "What a verb took, whoever called it: HTTP, MCP, the console.",
    *("standard", "verb"),
)
VERB_FAILURES: Final = Family(
    "counter",
    "memoranda_verb_failures_total",
    "Verbs that ended with an error, by its code.",
    *("standard", "verb", "code"),
)
IN_PROGRESS: Final = Family(
    "gauge",
    "memoranda_requests_in_progress",
    "Work that has a thread or waits for one, by the pool it waits at.",
    "pool",
)
STREAMS: Final = Family("gauge", "memoranda_streams", "Clients that listen to a stream of events.")
FEED_LAG: Final = Family(
    "histogram",
    "memoranda_feed_lag_seconds",
    "From a change that was noticed until a client that listens was sent all of it.",
)
WRITES_WAITING: Final = Family(
    "gauge", "memoranda_writes_waiting", "Pieces of work that wait for a writer."
)
WRITER_WAIT: Final = Family(
    "histogram",
    "memoranda_writer_wait_seconds",
    "How long somebody waited for a writer to begin with his work.",
)
WRITE_SECONDS: Final = Family(
    "histogram",
    "memoranda_write_seconds",
    "What a transaction took, with everything in it and its commit.",
)
WORKERS_READY: Final = Family(
    "gauge", "memoranda_workers_ready", "Server processes that answer requests (`serve --workers`)."
)
WORKER_ENDS: Final = Family(
    "counter",
    "memoranda_worker_ends_total",
    "Server processes that ended by themselves and are started again, by their state: `ready` or `starting`.",
    "state",
)
EMBEDDING_BACKLOG: Final = Family(
    "gauge",
    "memoranda_embedding_backlog",
    "Versions that have no vectors yet, and are found by their words.",
)
EMBEDDING_FAILING: Final = Family(
    "gauge",
    "memoranda_embedding_failing_since_seconds",
    "Since when no vectors could be made, in seconds since 1970; 0 while they are made.",
)
EMBEDDING_ASIDE: Final = Family(
    "gauge",
    "memoranda_embedding_aside",
    "Versions that could not be embedded, and are found by their words until they are tried again.",
)
STORE_BYTES: Final = Family("gauge", "memoranda_store_bytes", "The size of the database.")
BUILD: Final = Family("gauge", "memoranda_build_info", "1, with the version that runs.", "version")
CPU_SECONDS: Final = Family(
    "counter", "process_cpu_seconds_total", "Processor time of all server processes."
)
RESIDENT_BYTES: Final = Family(
    "gauge", "process_resident_memory_bytes", "Memory of all server processes."
)
OPEN_FILES: Final = Family(
    "gauge", "process_open_fds", "Files and connections that all server processes have open."
)
