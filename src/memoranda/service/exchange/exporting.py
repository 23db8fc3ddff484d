"""Exports: versions are read page by page in the order written, judged once, and shown in the form of a standard.

`Export.load_page` (`export_run.py`) reads a page and keeps the versions that may leave (`may_export`): those that are
current or history was requested for, intact, visible to the caller, and not restricted by consent or a compliance
preset. The functions for each form then drop what that form cannot express: `check_unredacted`, `check_bounds`,
`check_stated`. Everything that is not exported for a reason other than its age is reported by name.

A record has no field for a verdict, for inherited restrictions and for the names of earlier versions. These travel
under reserved keys in its structured body (`_collect_extra_state`), and imports read them back.

What may leave is decided in one place (`export_run.Export.may_export`), for every form. An export is consistent: it
ends at the last version that existed when it began, and pages carry that position, so a memory that is revised
meanwhile appears exactly once. Every export is recorded in the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError
from memoranda.model.bounds import encode
from memoranda.model.instant import format_instant
from memoranda.model.memory import NATIVE_KEY, STATE_KEY, Version, wrap_document
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.lookup import find_visible
from memoranda.service.core.views import (
    outline_record,
    project,
    redact_record,
    scope_of,
    view_record,
)
from memoranda.service.exchange.export_run import (
    Export,
    Position,
    begin_export,
    continue_export,
    find_unstated_start,
)
from memoranda.service.exchange.report import OamsExportPage, Report
from memoranda.service.oams import memories
from memoranda.service.oams import views as oams_views
from memoranda.service.oms import grains
from memoranda.service.oms import views as grain_views
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import Namespace, namespace_of, parse_namespace
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import UNVERIFIED, IndexState
from memoranda.standards.port import load, port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import Record


def export_records(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    carry: bool = True,
    report: Report | None = None,
) -> Iterator[Record]:
    """Yield every memory that may be exported as a record, in the order written (UMP §2.7: `exportable`, `redact`).

    A record that was translated from another document carries it, unless `carry` is false.

    The report is complete only after the last record was taken from the iterator.
    """
    export = begin_export(context, access, owner, report, history)
    yield from _create_records(export, export.iterate_pages(project), project, carry=carry)


def export_named(
    context: Context,
    access: Access,
    names: Sequence[str],
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    report: Report | None = None,
) -> Iterator[Record]:
    """Yield the records of some ids, in their order, if they may be exported."""
    export = begin_export(context, access, owner, report, history)
    yield from _create_records(export, _load_named(export, names, project), project, carry=False)


def _create_records(
    export: Export, pages: Iterable[list[Version]], project: str | None, *, carry: bool
) -> Iterator[Record]:
    """Yield the records of pages of versions, and record the export in the audit log."""
    scope = _require_scope(export, project)
    for page in pages:
        for version in page:
            export.report.exported += 1
            yield _create_exported_record(export, version, carry=carry)
    export.audit("export", "records", scope)


def _require_scope(export: Export, project: str | None) -> dict[str, str]:
    """Return the scope of an export. Raises ForbiddenScope if the caller may not read it."""
    scope = {"owner": export.tenant, **({"project": project} if project else {})}
    access = export.access
    access.require_scope({"visibility": access.limits.get("visibility"), **scope})
    return scope


def export_page(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    carry: bool = True,
    after: str | None = None,
) -> tuple[list[Record], str | None, Report]:
    """Return a page of records, the position of the next page, and the report of what was not exported.

    `after` is the position returned by the previous page, None at the beginning. An invalid position raises
    InvalidInput.
    """
    export, position = continue_export(context, access, owner, history, after)
    scope = _require_scope(export, project)
    versions, next_position = export.load_sent_page(project, position)
    export.report.exported = len(versions)
    records = [_create_exported_record(export, version, carry=carry) for version in versions]
    export.audit("export", "records", scope)
    return records, next_position, export.report


def _load_named(
    export: Export, names: Sequence[str], project: str | None
) -> Iterator[list[Version]]:
    """Yield the versions of some names that may be exported."""
    for name in names:
        version, record = find_visible(export.context, export.access, name, export.now)
        is_here = version.tenant == export.tenant and project in (
            None,
            scope_of(record).get("project"),
        )
        with export.context.engine.open_snapshot(version.tenant) as snapshot:
            is_exported = is_here and export.may_export(snapshot, version)
        if is_exported:
            yield [version]


def _create_exported_record(export: Export, version: Version, *, carry: bool) -> Record:
    """Return a version as the record that is exported."""
    context = export.context
    record = view_record(context, version, export.now, is_for_file=True)
    redacted = redact_record(record, context.operator)
    document = version.document
    if redacted is not record:
        verdict = _collect_extra_state(version).get("verification")
        extra = {} if verdict is None else {"verification": verdict}
        export.report.redact(record["id"])
        # Consent and scope are never redacted, so the record states its restrictions itself.
        return _with_structured(context, redacted, {STATE_KEY: extra} if extra else {})
    if not carry:
        return record
    port = port_of(document.standard)
    is_itself, exported_document = port.record(document) == record, port.exported(document)
    extra = _collect_extra_state(version, export.earlier_names(version, ump.STANDARD))
    if "supersedes" in extra:
        extra["supersedes"] = export.earlier_names(version, ump.STANDARD, oms.STANDARD)
    begins = find_unstated_start(context, version)
    if begins is not None:
        extra["valid_from"] = format_instant(begins)
    if not extra and (is_itself or ump.unwrap(record) == exported_document):
        return record
    # The record was closed or judged since, or is the view of a carried document: the stored document is added.
    members: dict[str, object] = {NATIVE_KEY: wrap_document(exported_document)}
    if extra:
        members[STATE_KEY] = extra
    return _with_structured(context, record, members)


def _with_structured(context: Context, record: Record, members: Mapping[str, object]) -> Record:
    """Return a record with more members in its structured body, signed again."""
    if not members:
        return record
    structured = {**(record["body"].get("structured") or {}), **members}
    return signature.sign(
        {**record, "body": {**record["body"], "structured": structured}}, context.operator
    )


def _collect_extra_state(version: Version, earlier_names: Sequence[str] = ()) -> dict[str, object]:
    """Return the state of a version that a record cannot state.

    It consists of a verdict, the time and the grain of its successor, inherited restrictions, and the ids of all
    earlier versions, if they are more than those that the stored document supersedes itself.
    """
    state = version.state
    extra: dict[str, object] = {}
    if state.verification != UNVERIFIED:
        extra["verification"] = state.verification
    own_record = port_of(version.document.standard).record(version.document)
    # The view of another document names the version before it, but its import reads the document alone.
    if not set(earlier_names) <= set(
        () if own_record is None else own_record.get("supersedes", ())
    ):
        extra["supersedes"] = list(earlier_names)
    if version.bounds is not None:
        extra["bounds"] = load(encode(version.bounds))
    if (address := state.successor_names.get(oms.STANDARD)) is not None:
        extra["successor"] = address
    if state.closed is not None:
        extra["closed"] = state.closed
    return extra


def export_grains(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    namespace: str | None = None,
    history: bool = True,
    report: Report | None = None,
) -> Iterator[tuple[bytes, IndexState]]:
    """Yield every grain that may be exported, as it travels, with its index entry; other memories as their views.

    Yields pairs of the bytes and the entry for the container's index.
    """
    export = begin_export(context, access, owner, report, history)
    space = None if namespace is None else grains.space_of(namespace)
    scope = {"owner": export.tenant, **({"project": space} if space else {})}
    access.require_scope({**access.limits, **scope})
    for page in export.iterate_pages(space):
        versions = _select_for_grains(export, page)
        delivered = grain_views.deliver(context, versions)
        for version, (delivery, index) in zip(versions, delivered, strict=True):
            export.report.exported += 1
            yield delivery, export.complete_index(version, index)
    export.audit("oms.export", "grains", scope)


def export_grains_page(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    namespace: str | None = None,
    history: bool = True,
    after: str | None = None,
) -> tuple[list[tuple[bytes, IndexState]], str | None, Report]:
    """Return a page of grains, the position of the next page, and the report of what was not exported."""
    export, position = continue_export(context, access, owner, history, after)
    space = None if namespace is None else grains.space_of(namespace)
    scope = {"owner": export.tenant, **({"project": space} if space else {})}
    access.require_scope({**access.limits, **scope})
    versions, next_position = export.load_sent_page(space, position)
    complete = _select_for_grains(export, versions)
    export.report.exported = len(complete)
    export.audit("oms.export", "grains", scope)
    delivered = zip(complete, grain_views.deliver(context, complete), strict=True)
    pairs = [
        (delivery, export.complete_index(version, index))
        for version, (delivery, index) in delivered
    ]
    return pairs, next_position, export.report


def _select_for_grains(export: Export, versions: Sequence[Version]) -> list[Version]:
    """Return the versions that grains can express completely; the others are reported."""
    return [
        version
        for version in versions
        if export.check_unredacted(version) and export.check_bounds(version)
    ]


def export_memories_page(
    context: Context, access: Access, namespace: Namespace, *, after: str | None = None
) -> OamsExportPage:
    """Return a page of a namespace as OAMS."""
    export, position = continue_export(context, access, None, False, after)
    export = replace(export, holds_keys=True)
    location = memories.locate_namespace(access, namespace)
    versions, next_position = export.load_sent_page(location.space, position)
    lines = _create_lines(export, location, _select_for_oams(export, location, versions))
    export.report.exported = len(lines)
    export.audit("oams.export", "memories", {"owner": export.tenant})
    return OamsExportPage(
        lines=lines,
        following=next_position,
        start=str(Position(0, export.last_version)),
        report=export.report,
    )


def _select_for_oams(
    export: Export,
    location: oams_views.Location,
    versions: Sequence[Version],
    *,
    for_others: bool = False,
) -> list[Version]:
    """Return the versions that OAMS can express completely; for other systems, those that are stated at all."""
    return [
        version
        for version in versions
        if export.check_stated(version)
        and export.check_unredacted(version)
        and (for_others or export.check_bounds(version, location.user))
    ]


def export_memories(
    context: Context,
    access: Access,
    *,
    namespaces: Sequence[Namespace] | None = None,
    report: Report | None = None,
    for_others: bool = False,
) -> Iterator[tuple[bytes, Memory]]:
    """Yield every current memory that may be exported as OAMS: the bytes of its line, and the parsed memory.

    `for_others`, for other systems, adds to each memory what other fields state about it. Inherited restrictions are
    then stated as its own, as no other system separates the two.

    Only current memories: OAMS has no history. `namespaces` None means all that the caller may see.
    """
    export = replace(begin_export(context, access, None, report, history=False), holds_keys=True)
    if namespaces is None:
        namespaces = [parse_namespace(name) for name in list_namespaces(context, access)]
    for location in [memories.locate_namespace(access, namespace) for namespace in namespaces]:
        for page in export.iterate_pages(location.space):
            versions = _select_for_oams(export, location, page, for_others=for_others)
            lines = _create_lines(export, location, versions)
            export.report.exported += len(lines)
            if not for_others:
                yield from lines
                continue
            for version, (raw, memory) in zip(versions, lines, strict=True):
                yield raw, oams.with_projection(memory, project(context, version))
    export.audit("oams.export", "memories", {"owner": export.tenant})


def _create_lines(
    export: Export, location: oams_views.Location, versions: Sequence[Version]
) -> list[tuple[bytes, Memory]]:
    """Return versions as lines of an OAMS bundle, and the parsed memories."""
    lines: list[tuple[bytes, Memory]] = []
    with export.context.engine.open_snapshot(location.tenant) as snapshot:
        for version in versions:
            if oams.owns(version.document):
                memory = load_memory(version.document.native)
                limited_memory = oams.with_limits(memory, project(export.context, version))
                if limited_memory is memory:
                    lines.append((version.document.native, memory))
                    continue
                lines.append((dump(limited_memory), limited_memory))
                export.report.warn(
                    outline_record(export.context, version)["id"],
                    "exported with the restrictions of earlier versions in its metadata, so under another id",
                )
            else:
                memory = oams_views.to_memory(export.context, snapshot, version, location)
                lines.append((dump(memory), memory))
    return lines


def list_namespaces(context: Context, access: Access) -> list[str]:
    """Return the namespaces in which the caller's tenant has memories and which the caller may read."""
    tenant = access.default_tenant
    with context.engine.open_snapshot(tenant) as snapshot:
        names = [namespace_of(space, tenant) for space in snapshot.list_spaces()]
    return sorted(name for name in names if _can_read_namespace(access, name))


def _can_read_namespace(access: Access, name: str) -> bool:
    """Return True if the caller may read a namespace."""
    try:
        memories.locate_namespace(access, parse_namespace(name))
    except MemorandaError:
        return False
    return True
