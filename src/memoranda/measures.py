"""Observation of the process: metrics for /metrics, ids of requests for the access log, and spans for a tracer.

All metric families are defined in the middle of this module. Code adds to a metric where an event happens, which takes
less than a microsecond. Labels are names of this project (standards, operations, verbs, codes), never an owner, stored
content or a query.

Several server processes of one port report together. Each writes its numbers to a page of shared memory, and the
process that answers /metrics adds up all pages. A page is a list of entries, each with a name and its numbers. It only
grows, so it can be read while it is written. A process that replaces another one continues its page.

Spans surround slow operations. Without a tracer, spans are empty context managers that cost almost nothing.
`telemetry.py` installs a tracer with `trace_with`. Spans contain only names of this project (standards, operations,
verbs, status codes), never an owner, stored content or a query.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Literal, Protocol

# Upper bounds of the histogram buckets in seconds, from a cached read to the patience of a person.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Bytes of a page: room for every operation and verb with its buckets. Unused pages of memory are never allocated.
PAGE_BYTES: Final = 1_048_576

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
FAMILIES: Final[dict[str, Family]] = {}

# Header of a page: bytes in use, process id. Header of an entry: bytes of its name, count of its numbers.
_HEAD: Final = struct.Struct("=QQ")
_ENTRY: Final = struct.Struct("=II")
_WORD: Final = 8


class Family:
    """A metric family: a number for each combination of labels, or the buckets and the sum of a histogram."""

    def __init__(self, kind: Kind, name: str, help_text: str, *labels: str) -> None:
        self.kind, self.name, self.help_text, self.labels = kind, name, help_text, labels
        # A histogram has two more numbers: values above all buckets, and the sum.
        self.size = len(BUCKETS) + 2 if kind == "histogram" else 1
        self._cells: dict[Labels, memoryview[float]] = {}
        FAMILIES[name] = self

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Add an amount to a counter or gauge."""
        with _pages.lock:
            cells = self._cells.get(labels) or self._create_cells(labels)
            cells[0] += amount

    def observe(self, seconds: float, *labels: str) -> None:
        """Record a duration in a histogram."""
        bucket = bisect_left(BUCKETS, seconds)
        with _pages.lock:
            cells = self._cells.get(labels) or self._create_cells(labels)
            cells[bucket] += 1.0
            cells[-1] += seconds

    def forget_cells(self) -> None:
        """Drop the cached views of the page, after the page was replaced."""
        self._cells.clear()

    def _create_cells(self, labels: Labels) -> memoryview[float]:
        assert len(labels) == len(self.labels), self.name
        cells = self._cells[labels] = _pages.own_page.cells(
            "\0".join((self.name, *labels)), self.size
        )
        return cells


class MeasurePage:
    """A page of memory with the numbers of one process."""

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory
        if not self._used_bytes:
            self._use(_HEAD.size)

    @property
    def _used_bytes(self) -> int:
        used_bytes: int = _HEAD.unpack_from(self._memory)[0]
        return used_bytes

    @property
    def process(self) -> int:
        """The id of the process that writes the page."""
        process: int = _HEAD.unpack_from(self._memory)[1]
        return process

    def _use(self, used_bytes: int) -> None:
        _HEAD.pack_into(self._memory, 0, used_bytes, os.getpid())

    def take_over(self) -> None:
        """Continue the page of another process. Gauges start at 0, because the work of that process has ended."""
        self._use(self._used_bytes)
        self.clear_gauges()

    def clear_gauges(self) -> None:
        """Forget the work under way in a process that has ended."""
        for name, cells in self.entries():
            if FAMILIES[name.partition("\0")[0]].kind == "gauge":
                cells[0] = 0.0

    def entries(self) -> Iterator[tuple[str, memoryview[float]]]:
        """Yield the name and the numbers of each entry."""
        at, end = _HEAD.size, self._used_bytes
        memory = memoryview(self._memory)
        while at < end:
            length, count = _ENTRY.unpack_from(self._memory, at)
            name = bytes(memory[at + _ENTRY.size : at + _ENTRY.size + length])
            at += _ENTRY.size + _padded(length)
            yield name.decode("utf-8"), memory[at : at + count * _WORD].cast("d")
            at += count * _WORD

    def cells(self, name: str, count: int) -> memoryview[float]:
        """Return the numbers of an entry, created if missing. If the page is full, they are not reported."""
        for entry_name, cells in self.entries():
            if entry_name == name:
                return cells
        key, at = name.encode("utf-8"), self._used_bytes
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


class _PageTable:
    """The page of this process and those of its sibling processes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.own_page = MeasurePage(bytearray(PAGE_BYTES))
        self.all = [self.own_page]

    def share(self, count: int) -> None:
        """Create the shared pages; see `share_pages`."""
        self.all = [MeasurePage(mmap.mmap(-1, PAGE_BYTES)) for _ in range(count + 1)]
        self._use(self.all[count])

    def take_over(self, number: int) -> None:
        """Use a shared page as the own page; see `take_page`."""
        # The thread that may have held the lock during the fork does not exist in this process.
        self.lock = threading.Lock()
        self._use(self.all[number])
        self.own_page.take_over()

    def _use(self, page: MeasurePage) -> None:
        self.own_page = page
        for family in FAMILIES.values():
            family.forget_cells()


_pages: Final = _PageTable()


def share_pages(count: int) -> None:
    """Create a page for each of `count` workers that are about to be forked, and one for this process."""
    _pages.share(count)


def take_page(number: int) -> None:
    """Use page `number` as the page of this process, after the fork."""
    _pages.take_over(number)


def reset_gauges(number: int) -> None:
    """Set the gauges of worker `number` to 0, after it ended."""
    _pages.all[number].clear_gauges()


def process_ids() -> list[int]:
    """Return the ids of the processes whose numbers are added up.

    A page that no worker has taken over yet has the id of the first process, so ids are made unique.
    """
    return list(dict.fromkeys(page.process for page in _pages.all))


# --- reading ------------------------------------------------------------------------------------------


def totals() -> dict[tuple[str, ...], list[float]]:
    """Return the sums of the numbers of all processes, by name and labels."""
    sums: dict[tuple[str, ...], list[float]] = {}
    for page in _pages.all:
        for name, cells in page.entries():
            key = tuple(name.split("\0"))
            before = sums.get(key)
            sums[key] = (
                list(cells)
                if before is None
                else [a + b for a, b in zip(before, cells, strict=True)]
            )
    return sums


def exposition(samples: Iterable[tuple[Family, Labels, float]] = ()) -> bytes:
    """Return all metrics in the Prometheus text format (version 0.0.4).

    `samples` are values measured now for all processes, such as the size of the database, which replace the sums.
    """
    numbers: dict[str, dict[Labels, list[float]]] = {name: {} for name in FAMILIES}
    for (name, *labels), cells in totals().items():
        numbers[name][tuple(labels)] = cells
    for family, labels_values, value in samples:
        numbers[family.name][labels_values] = [value]
    lines: list[str] = []
    for name, family in FAMILIES.items():
        if numbers[name]:
            lines += [f"# HELP {name} {family.help_text}", f"# TYPE {name} {family.kind}"]
            for labels_values, cells in sorted(numbers[name].items()):
                lines += _lines(family, labels_values, cells)
    return ("\n".join(lines) + "\n").encode("utf-8")


def _lines(family: Family, labels: Labels, cells: Sequence[float]) -> Iterator[str]:
    pairs = [f'{name}="{value}"' for name, value in zip(family.labels, labels, strict=True)]
    if family.kind != "histogram":
        yield f"{family.name}{_braced(pairs)} {cells[0]:.17g}"
        return
    count = 0
    for bound, cell in zip((*map(str, BUCKETS), "+Inf"), cells[:-1], strict=True):
        count += int(cell)
        bucket = [*pairs, f'le="{bound}"']
        yield f"{family.name}_bucket{_braced(bucket)} {count}"
    yield f"{family.name}_sum{_braced(pairs)} {cells[-1]:.17g}"
    yield f"{family.name}_count{_braced(pairs)} {count}"


def _braced(labels: Sequence[str]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


# --- all there is -------------------------------------------------------------------------------------

HTTP_REQUESTS: Final = Family(
    "counter",
    "memoranda_http_requests_total",
    "Answered HTTP requests, by operation and status.",
    *("standard", "operation", "code"),
)
HTTP_SECONDS: Final = Family(
    "histogram",
    "memoranda_http_request_seconds",
    "Time from a request to the head of its response.",
    *("standard", "operation"),
)
VERB_SECONDS: Final = Family(
    "histogram",
    "memoranda_verb_seconds",
    "Duration of a verb, called over HTTP, MCP or the console.",
    *("standard", "verb"),
)
VERB_FAILURES: Final = Family(
    "counter",
    "memoranda_verb_failures_total",
    "Verbs that failed, by error code.",
    *("standard", "verb", "code"),
)
IN_PROGRESS: Final = Family(
    "gauge",
    "memoranda_requests_in_progress",
    "Requests that have a thread or wait for one, by thread pool.",
    "pool",
)
STREAMS: Final = Family("gauge", "memoranda_streams", "Clients connected to a stream of events.")
FEED_LAG: Final = Family(
    "histogram",
    "memoranda_feed_lag_seconds",
    "Time from a noticed change until it was sent to a connected client.",
)
WRITES_WAITING: Final = Family(
    "gauge", "memoranda_writes_waiting", "Write operations that wait for a writer."
)
WRITER_WAIT: Final = Family(
    "histogram", "memoranda_writer_wait_seconds", "Time that a write operation waited for a writer."
)
WRITE_SECONDS: Final = Family(
    "histogram", "memoranda_write_seconds", "Duration of a write transaction with its commit."
)
WORKERS_READY: Final = Family(
    "gauge", "memoranda_workers_ready", "Server processes that answer requests (`serve --workers`)."
)
WORKER_ENDS: Final = Family(
    "counter",
    "memoranda_worker_ends_total",
    "Server processes that ended unexpectedly and are started again, by their state: `ready` or `starting`.",
    "state",
)
EMBEDDING_BACKLOG: Final = Family(
    "gauge",
    "memoranda_embedding_backlog",
    "Versions without vectors yet, found only by keyword search.",
)
EMBEDDING_FAILING: Final = Family(
    "gauge",
    "memoranda_embedding_failing_since_seconds",
    "Time since which embedding fails, in seconds since 1970; 0 while it works.",
)
EMBEDDING_ASIDE: Final = Family(
    "gauge",
    "memoranda_embedding_aside",
    "Versions that could not be embedded, found only by keyword search until they are tried again.",
)
KEYS_EXPIRING: Final = Family(
    "gauge",
    "memoranda_keys_expiring",
    "API keys that expire within two weeks, or expired in the last two, and were not replaced.",
)
KEY_EXPIRY: Final = Family(
    "gauge",
    "memoranda_key_expiry_timestamp_seconds",
    "Time at which such an API key expires, in seconds since 1970.",
    "key",
)
STORE_BYTES: Final = Family("gauge", "memoranda_store_bytes", "Size of the database in bytes.")
BUILD: Final = Family(
    "gauge", "memoranda_build_info", "Always 1, with the running version as a label.", "version"
)
CPU_SECONDS: Final = Family(
    "counter", "process_cpu_seconds_total", "Processor time of all server processes."
)
RESIDENT_BYTES: Final = Family(
    "gauge", "process_resident_memory_bytes", "Memory of all server processes."
)
OPEN_FILES: Final = Family(
    "gauge", "process_open_fds", "Files and connections that all server processes have open."
)


# The id of the current request, chosen by its caller or by us; empty outside a request.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("memoranda_request_id", default="")

# Verbs that one line of the access log names; a request that uses more has used them many times.
_LOGGED_VERBS_LIMIT: Final = 8


class RequestRecord:
    """The caller and the verbs of a request, noted where they are authorised, whatever the request came through."""

    __slots__ = ("credential", "tenant", "verbs")

    def __init__(self) -> None:
        self.credential = ""
        self.tenant = ""
        self.verbs: list[str] = []

    def add_verb(self, credential: str, tenant: str, verb: str) -> None:
        """Note a verb with its caller; repeated verbs are noted once."""
        self.credential, self.tenant = credential, tenant
        if verb not in self.verbs and len(self.verbs) < _LOGGED_VERBS_LIMIT:
            self.verbs.append(verb)


# The record of the current request; None if requests are not logged.
REQUEST_RECORD: Final[ContextVar[RequestRecord | None]] = ContextVar(
    "memoranda_request_record", default=None
)

Headers = Iterable[tuple[bytes, bytes]]


class RequestSpan(Protocol):
    """The span of a request. It starts when only the headers are known."""

    def finish(self, method: str, standard: str, operation: str, status: int) -> None:
        """Record the operation and the status, which are known only at the end."""
        ...


class Tracer(Protocol):
    """A receiver of spans."""

    def span(self, name: str, *, may_begin: bool) -> AbstractContextManager[object]: ...

    def request(self, headers: Headers) -> AbstractContextManager[RequestSpan]: ...


class _IgnoredRequestSpan:
    def finish(self, method: str, standard: str, operation: str, status: int) -> None:
        """Ignore the result of a request."""


_IGNORED_SPAN: Final = nullcontext()
_IGNORED_REQUEST: Final = nullcontext(_IgnoredRequestSpan())
_tracer: Tracer | None = None


def trace_with(tracer: Tracer | None) -> None:
    """Send all spans of this process to a tracer; None turns tracing off."""
    global _tracer
    _tracer = tracer


def span(name: str, *, may_begin: bool = False) -> AbstractContextManager[object]:
    """Return a context manager that measures its body as a span. `may_begin`: it may be the root of a trace."""
    return _IGNORED_SPAN if _tracer is None else _tracer.span(name, may_begin=may_begin)


def request_span(headers: Headers) -> AbstractContextManager[RequestSpan]:
    """Return a context manager for a request, as part of the trace in its headers (W3C Trace Context)."""
    return _IGNORED_REQUEST if _tracer is None else _tracer.request(headers)
