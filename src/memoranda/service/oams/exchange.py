"""OAMS memories in and out, many at a time and in bounded memory (section 7).

What was stored through OAMS leaves in the bytes in which it came. A line that is taken in keeps its bytes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant, parse_instant
from memoranda.model.memory import Version
from memoranda.model.native import NATIVE_KEY
from memoranda.model.selection import Selection
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.views import holds, load, outline, unless_damaged
from memoranda.service.oams import memories
from memoranda.service.oams.memories import Given, Place
from memoranda.service.retrieve import read_page
from memoranda.standards.oams import mapping
from memoranda.standards.oams.memory import same_content
from memoranda.standards.oams.namespace import Namespace, namespace_of, parse_namespace
from memoranda.standards.ump import rules
from memoranda.storage.engine import Snapshot, Unit

PAGE_LIMIT = 1_000
# Large enough to be fast, small enough that others get their turn.
BATCH_LIMIT = 1_000
REFUSALS_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A memory that was not taken in, by its line, and why."""

    line: int
    key: str
    code: str
    message: str


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What an import did. The first refusals and warnings are listed, the counts are of all."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    refused: int = 0
    warned: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, line: int, key: object, error: MemorandaError) -> None:
        self.refused += 1
        if len(self.refusals) < REFUSALS_LIMIT:
            shown = key if isinstance(key, str) else ""
            self.refusals.append(Refusal(line=line, key=shown, code=error.code, message=error.message))

    def warn(self, line: int, warnings: Sequence[str]) -> None:
        self.warned += len(warnings)
        for warning in warnings:
            if len(self.warnings) < REFUSALS_LIMIT:
                self.warnings.append(f"line {line}: {warning}")


@dataclass(frozen=True, slots=True)
class Line:
    """A memory to take in: where it stood, the bytes in which it came, and what they say."""

    number: int
    raw: bytes | None
    memory: dict[str, Any]


# The bytes of a line, and what they say.
_Exported = tuple[bytes, dict[str, Any]]
# What became of each memory of a batch: a count of the report, or why it was refused.
Written = list[tuple[Line, Given, str | MemorandaError]]


def namespaces(context: Context, access: Access) -> list[str]:
    """The namespaces in which the caller's tenant has anything."""
    return _open_namespaces(context, access)


def _open_namespaces(context: Context, access: Access) -> list[str]:
    tenant = access.default_tenant
    with context.engine.read(tenant) as snapshot:
        found = [namespace_of(space, tenant) for space in snapshot.spaces()]
    return sorted(name for name in found if _is_open(access, name))


def _is_open(access: Access, name: str) -> bool:
    try:
        memories.place_of(access, parse_namespace(name))
    except MemorandaError:
        return False
    return True


def export(
    context: Context, access: Access, *, namespaces: Sequence[Namespace] | None = None
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every memory that is there now and may leave: the bytes of its line, and what they say."""
    tenant, now = access.default_tenant, context.clock()
    listed = (
        namespaces if namespaces is not None else [parse_namespace(name) for name in _open_namespaces(context, access)]
    )
    count = 0
    for place in [memories.place_of(access, each) for each in listed]:
        for lines in _pages(context, access, place, now):
            count += len(lines)
            yield from lines
    scope = {"owner": tenant}
    entry = audit_entry(access, "oams.export", now=now, scope=scope, result=f"{count} memories", meta={"count": count})
    context.audit_read(tenant, entry)


def _pages(context: Context, access: Access, place: Place, now: Instant) -> Iterator[list[_Exported]]:
    """Page by page; the store is not being read while someone takes a page, who may take time."""
    after = 0
    while True:
        lines: list[_Exported] = []
        with context.engine.read(place.tenant) as snapshot:
            leaving = Selection(space=place.space, exportable=True)
            page = read_page(snapshot, leaving, after=after, limit=PAGE_LIMIT, now=now)
            for version in page:
                if holds(version) and _may_leave(context, access, version):
                    line = unless_damaged(version, lambda v=version, s=snapshot: _line(context, s, v, place))  # type: ignore[misc]
                    lines += [] if line is None else [line]
        yield lines
        if len(page) < PAGE_LIMIT:
            return
        after = page[-1].version_id


def _may_leave(context: Context, access: Access, version: Version) -> bool:
    """Whether its own consent, the presets and the caller's credential let it out, and let it out whole."""
    if not memories.may_see(context, access, version) or not compliance.may_leave(context.presets, version):
        return False
    is_plain = version.document.standard == mapping.STANDARD and NATIVE_KEY.encode() not in version.document.native
    # UMP §2.7: what leaves is cut where the record says so, and cut it is not that record any more.
    if not is_plain and rules.redact(outline(context, version))[1]:
        return False
    return may_read_personal(context, access, version)


def _line(context: Context, snapshot: Snapshot, version: Version, place: Place) -> _Exported:
    if version.document.standard == mapping.STANDARD:
        return version.document.native, load(version.document.native)
    made = memories.as_memory(context, snapshot, version, place)
    return dump(made), made


def import_lines(
    context: Context,
    access: Access,
    lines: Iterable[Line],
    *,
    is_dry: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Take memories in. A bad one is reported and left out, the rest go on; what is older than ours changes nothing.

    A dry run writes nothing and says what would become of each, compared with what is there now.
    """
    report = ImportReport()
    batch: list[tuple[Line, Given]] = []
    settle = _foresee if is_dry else _write
    # The next batch is read and checked while the last one is written.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="memoranda-import") as writer:
        writing: Future[Written] | None = None
        for line in lines:
            try:
                given = memories.accept(context, access, line.memory, raw=line.raw, complete=True)
            except MemorandaError as error:
                report.refuse(line.number, line.memory.get("key"), error)
                continue
            report.warn(line.number, given.warnings)
            batch.append((line, given))
            if len(batch) == BATCH_LIMIT:
                _settle(writing, report, progress)
                writing, batch = writer.submit(settle, context, access, batch), []
        _settle(writing, report, progress)
        if batch:
            _settle(writer.submit(settle, context, access, batch), report, progress)
    return report


def _settle(writing: Future[Written] | None, report: ImportReport, progress: Callable[[int], None] | None) -> None:
    """Wait for a batch and count what became of it."""
    if writing is None:
        return
    written = writing.result()
    for line, given, result in written:
        if isinstance(result, MemorandaError):
            report.refuse(line.number, given.memory["key"], result)
        else:
            setattr(report, result, getattr(report, result) + 1)
    if progress:
        progress(written[-1][0].number)


def _write(context: Context, access: Access, batch: list[tuple[Line, Given]]) -> Written:
    now, tenant = context.clock(), batch[0][1].place.tenant

    def work(unit: Unit) -> list[str | MemorandaError]:
        results: list[str | MemorandaError] = []
        heads = memories.Heads(context, unit, [given for _, given in batch])
        for _, given in batch:
            try:
                results.append(_take(context, unit, given, heads.of(given), now))
            except MemorandaError as error:  # raised before anything of this memory was written
                results.append(error)
        written = sum(isinstance(each, str) for each in results)
        unit.record(audit_entry(access, "oams.import", now=now, scope={"owner": tenant}, result=f"{written} memories"))
        return results

    results = context.engine.write(tenant, work)
    memories.finish_withdrawals(context, [given for _, given in batch])
    return [(line, given, result) for (line, given), result in zip(batch, results, strict=True)]


def _take(context: Context, unit: Unit, given: Given, prior: Version | None, now: Instant) -> str:
    is_stale = prior is not None and _is_stale(prior, given)
    return "unchanged" if is_stale else memories.follow(context, unit, given, prior, now).result


def _is_stale(prior: Version, given: Given) -> bool:
    """Bringing an old bundle in again must not undo what happened since, whichever standard did it."""
    return parse_instant(given.memory["updated_at"]) < prior.state.updated


def _foresee(context: Context, access: Access, batch: list[tuple[Line, Given]]) -> Written:
    """What `_write` would say."""
    now = context.clock()
    foreseen: Written = []
    with context.engine.read(access.default_tenant) as snapshot:
        for line, given in batch:
            try:
                foreseen.append((line, given, _foreseen(context, snapshot, given, now)))
            except MemorandaError as error:
                foreseen.append((line, given, error))
    return foreseen


def _foreseen(context: Context, snapshot: Snapshot, given: Given, now: Instant) -> str:
    prior = memories.find(context, snapshot, given.place, given.memory["key"])
    if prior is None:
        return "created"
    current = memories.show(context, snapshot, prior, given.place).memory
    if _is_stale(prior, given) or same_content(current, given.memory):
        return "unchanged"
    check_supersession(snapshot, prior, {}, now=now)
    return "updated"
