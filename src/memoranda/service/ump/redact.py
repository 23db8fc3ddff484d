"""What somebody should look at in what is stored already: secrets, which can be taken out, and orders to a model.

Nothing is marked when it is written: documents are signed, and what is a secret is a guess that gets better. So whoever
asks is told what the rules of today find, in what was written under the rules of yesterday, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast

import msgspec

from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.find import find_own, whole_name
from memoranda.service.core.screening import hidden, suspected, texts
from memoranda.service.core.views import unless_damaged, view
from memoranda.service.ump.remember import said
from memoranda.service.ump.revise import forget, revise
from memoranda.service.verify import versions
from memoranda.standards.ump import rules
from memoranda.standards.ump.requests import ForgetRequest, ReviseRequest
from memoranda.standards.ump.shapes import Body, Record
from memoranda.storage.engine import Unit

REASON = "what looked like a secret was taken out"
# Events of logs that are read at once, each of at most 64 KiB.
_EVENTS_LIMIT = 100
# What may read like orders, by its id.
_CLEARED: Final = "orders allowed"


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A version that looks as if it held a secret, and then `text` is without it, or as if it gave orders."""

    id: str
    kinds: tuple[str, ...]
    text: str
    is_current: bool


def suspects(context: Context, access: Access, *, progress: Callable[[int], None] | None = None) -> Iterator[Suspect]:
    """Every version of one's own that looks as if it held a secret, superseded and forgotten ones, too."""
    for record, is_current in _read(context, access, progress):
        if kinds := suspected(said(record)):
            text = cast("Body", hidden(said(record))["body"])["text"]
            yield Suspect(id=record["id"], kinds=kinds, text=text, is_current=is_current)


def orders(context: Context, access: Access, *, progress: Callable[[int], None] | None = None) -> Iterator[Suspect]:
    """Every memory of one's own that reads as if it gave orders to a model, unless somebody said that it may."""
    from memoranda.encoding import injection

    with context.engine.read(access.default_tenant) as snapshot:
        cleared = snapshot.items(_CLEARED)
    for record, is_current in _read(context, access, progress):
        if not is_current or record["id"] in cleared:
            continue
        if kinds := injection.orders("\n".join(texts(said(record)))):
            yield Suspect(id=record["id"], kinds=kinds, text=record["body"]["text"], is_current=True)


def allow_orders(context: Context, access: Access, name: str) -> None:
    """Say that a memory may read as it does: it is not listed again while it says the same."""
    now, name = context.clock(), whole_name(context, access, name)
    found = find_own(context, access, name, now)
    entry = audit_entry(access, "allow", now=now, targets=(name,), result="ok")

    def work(unit: Unit) -> None:
        unit.put_item(_CLEARED, name, b"")
        unit.record(entry)

    context.engine.write(found.tenant, work)


def _read(context: Context, access: Access, progress: Callable[[int], None] | None) -> Iterator[tuple[Record, bool]]:
    """All that is there, each with whether it is current."""
    now = context.clock()
    for count, version in enumerate(versions(context, access.default_tenant), 1):
        if progress is not None:
            progress(count)
        if version.state.erased:
            continue
        record = unless_damaged(version, lambda version=version: view(context, version, now))  # type: ignore[misc]
        if record is not None:
            yield record, version.state.is_head and version.state.tombstoned is None


class SuspectBeside(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a workspace file, or an event in the log of a run, that looks as if it held a secret."""

    where: str
    kinds: tuple[str, ...]


def suspects_beside(context: Context, access: Access) -> Iterator[SuspectBeside]:
    """What looks like a secret beside memories: in files, which are removed, and in logs, which end with their runs."""
    # Needed here alone: no other verb of UMP loads openwop.
    from memoranda.service.openwop import workspace

    tenant = access.default_tenant
    with context.engine.read(tenant) as snapshot:
        heads = {file["path"]: int(file["version"]) for file in workspace.listing(snapshot)}
    for path, last in heads.items():
        for number in range(last, max(0, last - workspace.MAX_VERSIONS), -1):
            with context.engine.read(tenant) as snapshot:
                kept = workspace.read(snapshot, path, number)
            if kept is not None and (kinds := suspected({"content": kept["content"]})):
                yield SuspectBeside(where=f"file {path}, version {number}", kinds=kinds)
    place, page = 0, list[tuple[int, bytes]]()
    while place == 0 or page:
        with context.engine.read(tenant) as snapshot:
            page = snapshot.run_events_after(place, _EVENTS_LIMIT)
        for event in (parse(data) for _, data in page):
            if kinds := suspected({"payload": event["payload"]}):
                yield SuspectBeside(where=f"log of {event['runId']}, event {event['sequence']}", kinds=kinds)
        place = page[-1][0] if page else -1


def redact(context: Context, access: Access, name: str) -> str:
    """Write a memory anew without what looks like a secret, and erase what it said before; the id it has now.

    What is not current any more is erased alone, and keeps its id. Only its owner may: it is an erasure.
    """
    name = whole_name(context, access, name)
    found = find_own(context, access, name, context.clock())
    access.require_erase(found.tenant)
    if found.state.erased:
        return name
    record: Record = rules.without_original(view(context, found, context.clock()))
    if not suspected(said(record)):
        raise InvalidInput("id: nothing in it looks like a secret")
    new = name
    if found.state.is_head and found.state.tombstoned is None:
        if suspected({"provenance": record.get("provenance", {})}):
            raise InvalidInput("id: it stands in the provenance, which is not rewritten; erase it with forget --hard")
        body = hidden({"body": record["body"]})["body"]
        new = revise(context, access, ReviseRequest.parse({"id": name, "patch": {"body": body}})).id
    forget(context, access, ForgetRequest.parse({"id": name, "hard": True, "reason": REASON}))
    return new
