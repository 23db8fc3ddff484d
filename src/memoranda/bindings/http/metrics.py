"""GET /metrics: the numbers of this server for Prometheus, for whoever runs it (see measures.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from memoranda import __version__
from memoranda.bindings.http.call import HttpAnswer, HttpCall
from memoranda.bindings.http.operation import Operation
from memoranda.bindings.http.ump import UMP
from memoranda.errors import ForbiddenScope, MemorandaError
from memoranda.measures import (
    BUILD,
    CPU_SECONDS,
    EMBEDDING_ASIDE,
    EMBEDDING_BACKLOG,
    EMBEDDING_FAILING,
    OPEN_FILES,
    RESIDENT_BYTES,
    STORE_BYTES,
    Family,
    Labels,
    exposition,
    process_ids,
)
from memoranda.service.service import Service

# Who may read them: with a credential of the operator's, anyone who reaches the port, or nobody.
Readers = Literal["operator", "open", "off"]
MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PROCESSES: Final = Path("/proc")

Number = tuple[Family, Labels, float]


def metrics(service: Service, call: HttpCall, _asked: None) -> HttpAnswer:
    """For the operator alone: what all owners do together tells of each of them."""
    access = call.access
    access.require("read")
    if access.is_peer or access.is_narrowed or access.tenant not in (None, service.operator_did):
        raise ForbiddenScope("the numbers of this server are the operator's to read")
    return _exposition(service)


def _exposition(service: Service) -> HttpAnswer:
    return HttpAnswer(
        body=exposition((*_of_store(service), *_of_processes(process_ids()))), media_type=MEDIA_TYPE
    )


OPERATION: Final = UMP.row(
    "GET",
    "/metrics",
    "metrics",
    "The numbers of this server, for Prometheus; for the operator, unless told otherwise",
    metrics,
    gives={"text/plain": {"schema": {"type": "string"}}},
    answer="",
)


def select_operations(operations: Iterable[Operation], readers: Readers) -> tuple[Operation, ...]:
    """The operations, with this one for these readers."""
    if readers == "off":
        return tuple(each for each in operations if each is not OPERATION)
    is_open = replace(
        OPERATION, is_public=True, serve=lambda service, _call, _asked: _exposition(service)
    )
    return tuple(
        is_open if each is OPERATION and readers == "open" else each for each in operations
    )


def _of_store(service: Service) -> Iterator[Number]:
    """Yield the numbers that the store is asked for; none of them while it is away."""
    yield BUILD, (__version__,), 1.0
    counts: list[tuple[Family, Callable[[], float]]] = [
        (STORE_BYTES, service.context.engine.system.measure_size)
    ]
    if service.context.semantic_search.is_enabled:
        queue = service.embedding
        counts += [
            (EMBEDDING_BACKLOG, queue.count_waiting),
            (EMBEDDING_ASIDE, queue.count_set_aside),
        ]
        counts.append((EMBEDDING_FAILING, lambda: (queue.failing_since() or 0) / 1_000))
    for family, count in counts:
        with suppress(MemorandaError):
            yield family, (), float(count())


def _of_processes(numbers: Sequence[int]) -> Iterator[Number]:
    """Of all server processes together, where the system tells."""
    if not _PROCESSES.is_dir():
        return
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu = resident = files = 0.0
    for number in numbers:
        with suppress(OSError, ValueError, IndexError):
            folder = _PROCESSES / str(number)
            # The name of the program stands in brackets, and may hold anything.
            times = (
                (folder / "stat")
                .read_text(encoding="utf-8", errors="replace")
                .rpartition(")")[2]
                .split()
            )
            cpu += (int(times[11]) + int(times[12])) / tick
            resident += int((folder / "statm").read_text(encoding="ascii").split()[1]) * page
            files += sum(1 for _ in (folder / "fd").iterdir())
    if cpu:
        yield CPU_SECONDS, (), cpu
        yield RESIDENT_BYTES, (), resident
        yield OPEN_FILES, (), files
