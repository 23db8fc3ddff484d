"""Review of stored memories: likely secrets, which can be redacted, and likely prompt injection.

Findings are not stored with the memories. Documents are signed, and the rules of detection improve with every release,
so each review applies the current rules to all versions. The reviews of memories have two forms: an iterator for
callers in this process, and pages for callers over a network. `SuspectBeside` is a finding outside of memories: in a
workspace file or in the log of a run.
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
# Events of logs that are loaded at once, each of at most 64 KiB.
_EVENTS_LIMIT = 100
# Events that are examined for a page.
_PAGE_EVENTS: Final = 20_000
# A page ends with the first of these: findings, characters of their texts, or versions examined.
_PAGE_SUSPECTS: Final = 500
_PAGE_CHARS: Final = 1_048_576
_PAGE_VERSIONS: Final = 20_000
# Items of this kind, by record id: memories that are no prompt injection, as their owner decided.
_CLEARED: Final = "orders allowed"


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A version with likely secrets, and `text` without them; or a memory with likely instructions to a model."""

    id: str
    # The kinds of secrets or instructions.
    kinds: tuple[str, ...]
    text: str
    is_current: bool


# A function that examines a record, and whether it is current, and returns a finding or None.
Judge = Callable[[Record, bool], Suspect | None]


class SuspectPage(msgspec.Struct, frozen=True, kw_only=True):
    """Findings, and the version after which the next page starts; None after the last page."""

    suspects: list[Suspect]
    next: int | None


def suspects(
    context: Context, access: Access, *, progress: Callable[[int], None] | None = None
) -> Iterator[Suspect]:
    """Yield the caller's versions with likely secrets, superseded and forgotten ones included."""
    return _iterate_suspects(context, access, _judge_secrets, progress)


def suspects_page(context: Context, access: Access, *, after: int = 0) -> SuspectPage:
    """Return a page of what `suspects` yields, after a version."""
    return _load_page(context, access, _judge_secrets, after)


def orders(
    context: Context, access: Access, *, progress: Callable[[int], None] | None = None
) -> Iterator[Suspect]:
    """Yield the caller's current memories with likely instructions to a model, except those that were cleared."""
    return _iterate_suspects(context, access, _build_order_judge(context, access), progress)


def orders_page(context: Context, access: Access, *, after: int = 0) -> SuspectPage:
    """Return a page of what `orders` yields, after a version."""
    return _load_page(context, access, _build_order_judge(context, access), after)


def _judge_secrets(record: Record, is_current: bool) -> Suspect | None:
    """Return a finding if a record has likely secrets."""
    parts = free_parts(record)
    kinds = detect_kinds(parts)
    if not kinds:
        return None
    text = cast("Body", redact_fields(parts)["body"])["text"]
    return Suspect(id=record["id"], kinds=kinds, text=text, is_current=is_current)


def _build_order_judge(context: Context, access: Access) -> Judge:
    """Return a function that finds instructions to a model in memories that were not cleared by now."""
    # The patterns are slow to compile, and only this review needs them.
    from memoranda.encoding import injection

    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        cleared = snapshot.load_items(_CLEARED)

    def judge_orders(record: Record, is_current: bool) -> Suspect | None:
        if not is_current or record["id"] in cleared:
            return None
        kinds = injection.find_instructions("\n".join(iterate_texts(free_parts(record))))
        if not kinds:
            return None
        return Suspect(id=record["id"], kinds=kinds, text=record["body"]["text"], is_current=True)

    return judge_orders


def _iterate_suspects(
    context: Context, access: Access, judge: Judge, progress: Callable[[int], None] | None
) -> Iterator[Suspect]:
    """Yield the findings in all versions of the caller's tenant, and report each version to `progress`."""
    for count, version in enumerate(iterate_versions(context, access.default_tenant), 1):
        if progress is not None:
            progress(count)
        suspect = _judge_version(context, version, judge)
        if suspect is not None:
            yield suspect


def _load_page(context: Context, access: Access, judge: Judge, after: int) -> SuspectPage:
    """Return the findings after a version, up to the limits of a page."""
    results: list[Suspect] = []
    chars = 0
    for count, version in enumerate(
        iterate_versions(context, access.default_tenant, after=after), 1
    ):
        suspect = _judge_version(context, version, judge)
        if suspect is not None:
            results.append(suspect)
            chars += len(suspect.text)
        if len(results) >= _PAGE_SUSPECTS or chars >= _PAGE_CHARS or count >= _PAGE_VERSIONS:
            return SuspectPage(suspects=results, next=version.version_id)
    return SuspectPage(suspects=results, next=None)


def _judge_version(context: Context, version: Version, judge: Judge) -> Suspect | None:
    """Examine a version as a record; erased and damaged versions have no findings."""
    if version.state.erased:
        return None
    record = run_unless_damaged(version, lambda: view_record(context, version, context.clock()))
    if record is None:
        return None
    return judge(record, version.state.is_head and version.state.tombstoned is None)


def allow_orders(context: Context, access: Access, name: str) -> None:
    """Clear a memory of prompt injection: it is not listed again until it is revised."""
    now, name = context.clock(), resolve_name(context, access, name)
    version = find_own(context, access, name, now)
    entry = audit_entry(access, "allow", now=now, targets=(name,), result="ok")

    def work(unit: Unit) -> None:
        unit.put_item(_CLEARED, name, b"")
        unit.record_audit(entry)

    context.engine.write(version.tenant, work)


# --- files and logs ------------------------------------------------------------------------------------------


class SuspectBeside(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a workspace file, or an event in the log of a run, with likely secrets."""

    where: str
    kinds: tuple[str, ...]


class BesidePage(msgspec.Struct, frozen=True, kw_only=True):
    """Findings, and the event after which the next page starts; None after the last page."""

    suspects: list[SuspectBeside]
    next: int | None


def suspects_beside(context: Context, access: Access) -> Iterator[SuspectBeside]:
    """Yield the workspace files and log events with likely secrets.

    They cannot be redacted: a file can be removed, and a log is deleted at the end of its retention period.
    """
    page = suspects_beside_page(context, access)
    yield from page.suspects
    while page.next is not None:
        page = suspects_beside_page(context, access, after=page.next)
        yield from page.suspects


def suspects_beside_page(context: Context, access: Access, *, after: int = 0) -> BesidePage:
    """Return a page of what `suspects_beside` yields: first all files, then the logs after an event."""
    results = [] if after else list(_find_in_files(context, access))
    position, tenant = after, access.default_tenant
    for _ in range(_PAGE_EVENTS // _EVENTS_LIMIT):
        with context.engine.open_snapshot(tenant) as snapshot:
            page = snapshot.list_run_events_after(position, _EVENTS_LIMIT)
        if not page:
            return BesidePage(suspects=results, next=None)
        for _, data in page:
            event = parse(data)
            kinds = detect_kinds({"payload": event["payload"]})
            if kinds:
                location = f"log of {event['runId']}, event {event['sequence']}"
                results.append(SuspectBeside(where=location, kinds=kinds))
        position = page[-1][0]
    return BesidePage(suspects=results, next=position)


def _find_in_files(context: Context, access: Access) -> Iterator[SuspectBeside]:
    """Yield the findings in all stored versions of the workspace files, each read in a snapshot of its own."""
    # No other verb of UMP needs the modules of openwop.
    from memoranda.service.openwop import workspace

    tenant = access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        heads = {file["path"]: int(file["version"]) for file in workspace.list_heads(snapshot)}
    for path, last in heads.items():
        for number in workspace.stored_numbers(last):
            with context.engine.open_snapshot(tenant) as snapshot:
                file = workspace.read_version(snapshot, path, number)
            if file is None:
                continue
            kinds = detect_kinds({"content": file["content"]})
            if kinds:
                yield SuspectBeside(where=f"file {path}, version {number}", kinds=kinds)


# --- redaction -----------------------------------------------------------------------------------------------


def redact(context: Context, access: Access, name: str) -> str:
    """Revise a memory without its likely secrets, and erase its earlier versions. Return the id that it has now.

    A memory that is superseded or forgotten is erased only, and keeps its id. The caller must be allowed to erase.
    Raises InvalidInput if there is no likely secret, or if one stands in the provenance, which cannot be revised.
    """
    name = resolve_name(context, access, name)
    version = find_own(context, access, name, context.clock())
    access.require_erase(version.tenant)
    if version.state.erased:
        return name
    original = view_record(context, version, context.clock())
    record: Record = rules.drop_original(original)
    if not detect_kinds(free_parts(record)):
        raise InvalidInput("id: nothing in it looks like a secret")
    new_id = name
    if version.state.is_head and version.state.tombstoned is None:
        if detect_kinds({"provenance": record.get("provenance", {})}):
            raise InvalidInput(
                "id: the secret is in the provenance, which is not rewritten; erase it with forget --hard"
            )
        rules.require_complete(original, ("body",))
        body = redact_fields({"body": record["body"]})["body"]
        request = ReviseRequest.parse({"id": name, "patch": {"body": body}})
        new_id = revise(context, access, request).id
    forget(context, access, ForgetRequest.parse({"id": name, "hard": True, "reason": REASON}))
    return new_id
