"""GET /metrics: the numbers of this server for Prometheus (see measures.py), for its operator.

Numbers are collected when they are asked for, and none is kept here. Numbers about a process are sums over all server
processes. While the store is unavailable the other numbers are still answered: a monitor needs them most then. A label
must have few values, and never a name from a request.
"""

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
    KEY_EXPIRY,
    KEYS_EXPIRING,
    OPEN_FILES,
    RESIDENT_BYTES,
    STORE_BYTES,
    Family,
    Labels,
    exposition,
    process_ids,
)
from memoranda.service.service import Service

# Readers of the metrics: the operator with a credential, everybody who reaches the port, or nobody.
Readers = Literal["operator", "open", "off"]
MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Expiring keys with a number of their own, so that many keys do not make many series.
_KEYS_LIMIT: Final = 100
_PROCESSES: Final = Path("/proc")

Number = tuple[Family, Labels, float]


def metrics(service: Service, call: HttpCall, _request: None) -> HttpAnswer:
    """Return the metrics to the operator. Numbers of all owners together reveal something about each of them.

    Raises ForbiddenScope for everyone but the operator, also for a token of the operator that is limited to a part of
    the memory.
    """
    access = call.access
    access.require("read")
    if access.is_peer or access.is_narrowed or access.tenant not in (None, service.operator_did):
        raise ForbiddenScope("only the operator may read the metrics of this server")
    return _exposition(service)


def _exposition(service: Service) -> HttpAnswer:
    return HttpAnswer(
        body=exposition((*_store_numbers(service), *_process_numbers(process_ids()))),
        media_type=MEDIA_TYPE,
    )


OPERATION: Final = UMP.row(
    "GET",
    "/metrics",
    "metrics",
    "Return the metrics of this server, for Prometheus; for the operator, unless configured otherwise",
    metrics,
    gives={"text/plain": {"schema": {"type": "string"}}},
    answer="",
)


def select_operations(operations: Iterable[Operation], readers: Readers) -> tuple[Operation, ...]:
    """Return the operations, with /metrics for these readers only."""
    if readers == "off":
        return tuple(operation for operation in operations if operation is not OPERATION)
    open_operation = replace(
        OPERATION, is_public=True, serve=lambda service, _call, _request: _exposition(service)
    )
    return tuple(
        open_operation if operation is OPERATION and readers == "open" else operation
        for operation in operations
    )


def _store_numbers(service: Service) -> Iterator[Number]:
    """Yield the numbers that come from the store; none of them while it is unavailable."""
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
    with suppress(MemorandaError):
        expiring_keys = service.gate.expiring_keys()
        yield KEYS_EXPIRING, (), float(len(expiring_keys))
        for expiring in expiring_keys[:_KEYS_LIMIT]:
            yield KEY_EXPIRY, (expiring.key.key_id,), expiring.expires / 1_000
    for family, count in counts:
        with suppress(MemorandaError):
            yield family, (), float(count())


def _process_numbers(numbers: Sequence[int]) -> Iterator[Number]:
    """Yield the sums over all server processes, on systems with /proc."""
    if not _PROCESSES.is_dir():
        return
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu = resident = files = 0.0
    for number in numbers:
        with suppress(OSError, ValueError, IndexError):
            folder = _PROCESSES / str(number)
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            # The name of the program stands in parentheses, and may hold any character.
            times = stat.rpartition(")")[2].split()
            cpu += (int(times[11]) + int(times[12])) / tick
            resident += int((folder / "statm").read_text(encoding="ascii").split()[1]) * page
            files += sum(1 for _ in (folder / "fd").iterdir())
    if cpu:
        yield CPU_SECONDS, (), cpu
        yield RESIDENT_BYTES, (), resident
        yield OPEN_FILES, (), files
