"""The routes that move or look through a whole memory: out, in and back again; what looks like a secret; the check."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

from memoranda.bindings.http.call import Call
from memoranda.bindings.http.ump import EXAMPLE_ID, UMP
from memoranda.errors import RateLimited
from memoranda.service.service import Service
from memoranda.standards.ump.requests import ExportRequest, GetRequest, ImportRequest, UndoImportRequest

# How many may have everything read at once; the other threads are for who asks for less.
LONG_LIMIT: Final = 2
# Whoever has more redacts these, and asks again.
MAX_SUSPECTS: Final = 1000
_TEXT_CHARS: Final = 2000
_turns = threading.BoundedSemaphore(LONG_LIMIT)
Asked = TypeVar("Asked")


@contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(blocking=False):
        raise RateLimited("others are having everything read just now; try again", retry_after_seconds=5.0)
    try:
        yield
    finally:
        _turns.release()


def _long(verb: Callable[[Service, Call, Asked], dict[str, Any]]) -> Callable[[Service, Call, Asked], dict[str, Any]]:
    """The same, a few at once. Raises RateLimited."""

    def in_turn(service: Service, call: Call, asked: Asked) -> dict[str, Any]:
        with _turn():
            return verb(service, call, asked)

    return in_turn


def export(service: Service, call: Call, asked: ExportRequest) -> dict[str, Any]:
    records, following, report = service.export_page(
        call.access, project=asked.project, history=asked.history, after=asked.after
    )
    cursor = None if following is None else str(following)
    return {"records": records, "report": report.document(), "next_cursor": cursor}


def import_records(service: Service, call: Call, asked: ImportRequest) -> dict[str, Any]:
    from memoranda.service.exchange import numbered

    items = numbered("ump", asked.records, first=asked.first)
    return service.import_items(call.access, items, restore=asked.restore).document()


def imports(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"imports": service.imports(call.access)}


def undo_import(service: Service, call: Call, asked: UndoImportRequest) -> dict[str, Any]:
    return service.undo_import(call.access, asked.id).document()


def suspects(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    found = islice(service.suspects(call.access), MAX_SUSPECTS)
    return {
        "suspects": [
            {"id": each.id, "kinds": each.kinds, "text": each.text[:_TEXT_CHARS], "is_current": each.is_current}
            for each in found
        ]
    }


def redact(service: Service, call: Call, asked: GetRequest) -> dict[str, Any]:
    return {"id": service.redact(call.access, asked.id)}


def verify(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    # It counts all that an owner has, and reads the whole database.
    call.access.require_all()
    return service.verify(call.access).document()


_row: Final = UMP.row
OPERATIONS: Final = (
    _row(
        "GET",
        "/ump/export",
        "export",
        "Every record that may leave, page by page, in the order written",
        export,
        "ExportAnswer",
        asks=ExportRequest,
        example={"project": "p"},
    ),
    _row(
        "POST",
        "/ump/import",
        "import_records",
        "Take records in, as an export has them; what is here already changes nothing",
        import_records,
        "Report",
        ImportRequest,
        {"records": [], "restore": False},
    ),
    _row(
        "GET", "/ump/imports", "imports", "The imports that can be taken back, the last first", imports, "ImportsAnswer"
    ),
    _row(
        "POST",
        "/ump/imports/undo",
        "undo_import",
        "Take back an import, the last unless it is named; what was changed since stays",
        _long(undo_import),
        "UndoImportAnswer",
        UndoImportRequest,
        {},
    ),
    _row(
        "GET",
        "/ump/suspects",
        "suspects",
        f"Memories that look as if they held a secret, which is not shown; the first {MAX_SUSPECTS}",
        _long(suspects),
        "SuspectsAnswer",
    ),
    _row(
        "POST",
        "/ump/redact",
        "redact",
        "Take out of a memory what looks like a secret, for good; its owner may",
        redact,
        "RedactAnswer",
        GetRequest,
        {"id": EXAMPLE_ID},
    ),
    _row(
        "GET",
        "/ump/verify",
        "verify",
        "Check every signature, the audit chain and the database",
        _long(verify),
        "VerifyAnswer",
    ),
)
