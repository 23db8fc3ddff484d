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
from memoranda.model.memory import Version
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lookup import find_own, resolve_name
from memoranda.service.core.secret_screening import detect_kinds, iterate_texts, redact_fields
from memoranda.service.core.views import run_unless_damaged, view_record
from memoranda.service.ump.remember import free_parts
from memoranda.service.ump.revise import forget, revise
from memoranda.service.verify import iterate_versions
from memoranda.standards.ump import rules
from memoranda.standards.ump.requests import ForgetRequest, ReviseRequest
from memoranda.standards.ump.shapes import Body, Record
from memoranda.storage.engine.contract import Unit

REASON = "what looked like a secret was taken out"
# Events of logs that are read at once, each of at most 64 KiB.
_EVENTS_LIMIT = 100
_PAGE_EVENTS: Final = 20_000
# A page ends with so many found, after so much text, or when so many versions were looked at.
_PAGE_SUSPECTS: Final = 500
_PAGE_CHARS: Final = 1_048_576
_PAGE_VERSIONS: Final = 20_000
# What may read like orders, by its id.
_CLEARED: Final = "orders allowed"


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A version that looks as if it held a secret, and then `text` is without it, or as if it gave orders."""

    id: str
    kinds: tuple[str, ...]
    text: str
    is_current: bool


Judge = Callable[[Record, bool], Suspect | None]


class SuspectPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of what was found, and after which version to look on; None: everything was looked at."""

    suspects: list[Suspect]
    next: int | None


def suspects(
    context: Context, access: Access, *, progress: Callable[[int], None] | None = None
) -> Iterator[Suspect]:
    """Every version of one's own that looks as if it held a secret, superseded and forgotten ones, too."""
    return _found(context, access, _secret, progress)


def suspects_page(context: Context, access: Access, *, after: int = 0) -> SuspectPage:
    """Some of them, after a version."""
    return _page(context, access, _secret, after)


def orders(
    context: Context, access: Access, *, progress: Callable[[int], None] | None = None
) -> Iterator[Suspect]:
    """Every memory of one's own that reads as if it gave orders to a model, unless somebody said that it may."""
    return _found(context, access, _order_in(context, access), progress)


def orders_page(context: Context, access: Access, *, after: int = 0) -> SuspectPage:
    """Some of them, after a version."""
    return _page(context, access, _order_in(context, access), after)


def _secret(record: Record, is_current: bool) -> Suspect | None:
    if not (kinds := detect_kinds(free_parts(record))):
        return None
    text = cast("Body", redact_fields(free_parts(record))["body"])["text"]
    return Suspect(id=record["id"], kinds=kinds, text=text, is_current=is_current)


def _order_in(context: Context, access: Access) -> Judge:
    from memoranda.encoding import injection

    with context.engine.read(access.default_tenant) as snapshot:
        cleared = snapshot.load_items(_CLEARED)

    def order(record: Record, is_current: bool) -> Suspect | None:
        if not is_current or record["id"] in cleared:
            return None
        kinds = injection.find_instructions("\n".join(iterate_texts(free_parts(record))))
        return (
            Suspect(id=record["id"], kinds=kinds, text=record["body"]["text"], is_current=True)
            if kinds
            else None
        )

    return order


def _found(
    context: Context, access: Access, judge: Judge, progress: Callable[[int], None] | None
) -> Iterator[Suspect]:
    for count, version in enumerate(iterate_versions(context, access.default_tenant), 1):
        if progress is not None:
            progress(count)
        if (found := _judged(context, version, judge)) is not None:
            yield found


def _page(context: Context, access: Access, judge: Judge, after: int) -> SuspectPage:
    found: list[Suspect] = []
    size = 0
    for count, version in enumerate(
        iterate_versions(context, access.default_tenant, after=after), 1
    ):
        if (each := _judged(context, version, judge)) is not None:
            found.append(each)
            size += len(each.text)
        if len(found) >= _PAGE_SUSPECTS or size >= _PAGE_CHARS or count >= _PAGE_VERSIONS:
            return SuspectPage(suspects=found, next=version.version_id)
    return SuspectPage(suspects=found, next=None)


def _judged(context: Context, version: Version, judge: Judge) -> Suspect | None:
    if version.state.erased:
        return None
    record = run_unless_damaged(version, lambda: view_record(context, version, context.clock()))
    return (
        None
        if record is None
        else judge(record, version.state.is_head and version.state.tombstoned is None)
    )


def allow_orders(context: Context, access: Access, name: str) -> None:
    """Say that a memory may read as it does: it is not listed again while it says the same."""
    now, name = context.clock(), resolve_name(context, access, name)
    found = find_own(context, access, name, now)
    entry = audit_entry(access, "allow", now=now, targets=(name,), result="ok")

    def work(unit: Unit) -> None:
        unit.put_item(_CLEARED, name, b"")
        unit.record_audit(entry)

    context.engine.write(found.tenant, work)


class SuspectBeside(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a workspace file, or an event in the log of a run, that looks as if it held a secret."""

    where: str
    kinds: tuple[str, ...]


class BesidePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of what was found, and after which event of all logs to look on; None: everything was looked at."""

    suspects: list[SuspectBeside]
    next: int | None


def suspects_beside(context: Context, access: Access) -> Iterator[SuspectBeside]:
    """What looks like a secret beside memories: in files, which are removed, and in logs, which end with their runs."""
    page = suspects_beside_page(context, access)
    yield from page.suspects
    while page.next is not None:
        page = suspects_beside_page(context, access, after=page.next)
        yield from page.suspects


def suspects_beside_page(context: Context, access: Access, *, after: int = 0) -> BesidePage:
    """Some of it: all files first, then the logs, after an event of them."""
    found = [] if after else list(_in_files(context, access))
    place, tenant = after, access.default_tenant
    for _ in range(_PAGE_EVENTS // _EVENTS_LIMIT):
        with context.engine.read(tenant) as snapshot:
            page = snapshot.list_run_events_after(place, _EVENTS_LIMIT)
        if not page:
            return BesidePage(suspects=found, next=None)
        for event in (parse(data) for _, data in page):
            if kinds := detect_kinds({"payload": event["payload"]}):
                where = f"log of {event['runId']}, event {event['sequence']}"
                found.append(SuspectBeside(where=where, kinds=kinds))
        place = page[-1][0]
    return BesidePage(suspects=found, next=place)


def _in_files(context: Context, access: Access) -> Iterator[SuspectBeside]:
    # Needed here alone: no other verb of UMP loads openwop.
    from memoranda.service.openwop import workspace

    tenant = access.default_tenant
    with context.engine.read(tenant) as snapshot:
        heads = {file["path"]: int(file["version"]) for file in workspace.list_heads(snapshot)}
    for path, last in heads.items():
        for number in workspace.stored_numbers(last):
            with context.engine.read(tenant) as snapshot:
                kept = workspace.read_version(snapshot, path, number)
            if kept is not None and (kinds := detect_kinds({"content": kept["content"]})):
                yield SuspectBeside(where=f"file {path}, version {number}", kinds=kinds)


def redact(context: Context, access: Access, name: str) -> str:
    """Write a memory anew without what looks like a secret, and erase what it said before; the id it has now.

    What is not current any more is erased alone, and keeps its id. Only its owner may: it is an erasure.
    """
    name = resolve_name(context, access, name)
    found = find_own(context, access, name, context.clock())
    access.require_erase(found.tenant)
    if found.state.erased:
        return name
    shown = view_record(context, found, context.clock())
    record: Record = rules.drop_original(shown)
    if not detect_kinds(free_parts(record)):
        raise InvalidInput("id: nothing in it looks like a secret")
    new = name
    if found.state.is_head and found.state.tombstoned is None:
        if detect_kinds({"provenance": record.get("provenance", {})}):
            raise InvalidInput(
                "id: it stands in the provenance, which is not rewritten; erase it with forget --hard"
            )
        rules.require_complete(shown, ("body",))
        body = redact_fields({"body": record["body"]})["body"]
        new = revise(context, access, ReviseRequest.parse({"id": name, "patch": {"body": body}})).id
    forget(context, access, ForgetRequest.parse({"id": name, "hard": True, "reason": REASON}))
    return new
