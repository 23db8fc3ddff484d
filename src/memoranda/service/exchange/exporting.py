"""Moving memories out: what may leave is read page by page in the order it was written, judged once, and shown.

What stays behind although it might have left is reported by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError, StoreCorrupt, Unsupported
from memoranda.model import native
from memoranda.model.bounds import encode, is_binding
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Version, is_over
from memoranda.model.native import NATIVE_KEY, STATE_KEY
from memoranda.model.selection import Selection
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.service.core.consent import may_read_personal
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.lifecycle import with_remote_successor
from memoranda.service.core.lookup import find_visible
from memoranda.service.core.views import (
    find_first_version,
    is_intact,
    outline_record,
    project,
    redact_record,
    scope_of,
    view_record,
)
from memoranda.service.exchange.report import Report
from memoranda.service.oams import memories
from memoranda.service.oams import views as oams_views
from memoranda.service.oms import grains
from memoranda.service.oms import views as grain_views
from memoranda.service.retrieve import read_page, sees_everything
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import Memory
from memoranda.standards.oams.namespace import Namespace, namespace_of, parse_namespace
from memoranda.standards.oams.port import load_memory
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.manifest import MAX_SUPERSEDED, UNVERIFIED, IndexState
from memoranda.standards.port import load, port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules, signature
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Snapshot

PAGE_LIMIT: Final = 1_000
# As many go into one answer over a network.
SENT_LIMIT: Final = 50


class _Export(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes what out."""

    context: Context
    access: Access
    tenant: str
    now: Instant
    report: Report
    history: bool
    # Its owner asks for everything, and no preset is in force.
    is_owner: bool
    # Which versions of the last page nothing can keep here: that is asked of each twice.
    unrestricted: set[int] = msgspec.field(default_factory=set)
    # Names of the earlier versions of those of the last page, where they do not come along.
    earlier: dict[int, list[tuple[str, str]]] = msgspec.field(default_factory=dict)

    def iterate_pages(self, space: str | None = None) -> Iterator[list[Version]]:
        """What may leave, page by page; the store is not being read while someone takes a page, who may take time."""
        after: int | None = 0
        while after is not None:
            leaving, after = self.load_page(space, after, PAGE_LIMIT)
            yield leaving

    def load_page(
        self, space: str | None, after: int, limit: int
    ) -> tuple[list[Version], int | None]:
        """What of the versions after one may leave, and after which the next page begins; None after the last."""
        everything = Selection(status_filter="all", space=space)
        self.unrestricted.clear()
        self.earlier.clear()
        with self.context.engine.read(self.tenant) as snapshot:
            page = read_page(snapshot, everything, after=after, limit=limit, now=self.now)
            exported = [
                with_remote_successor(snapshot, each)
                for each in page
                if self.may_export(snapshot, each)
            ]
            if not self.history:
                self._load_earlier_names(snapshot, exported)
                exported = [self._as_keyed_memory(snapshot, version) for version in exported]
        return exported, page[-1].version_id if page else None

    def _load_earlier_names(self, snapshot: Snapshot, leaving: Sequence[Version]) -> None:
        for version in leaving:
            if version.version_id != version.memory_id:
                self.earlier[version.version_id] = snapshot.list_earlier_names(
                    version, MAX_SUPERSEDED
                )

    def earlier_names(self, version: Version, *standards: str) -> list[str]:
        """Return the names, in some standards, of the earlier versions that do not come along."""
        return [
            name
            for standard, name in self.earlier.get(version.version_id, ())
            if standard in standards
        ]

    def with_earlier_names(self, version: Version, index: IndexState) -> IndexState:
        """Return what the index of an `.mg` file says of a version: the names of earlier versions, too."""
        names = self.earlier_names(version, oms.STANDARD, ump.STANDARD)
        return replace(index, supersedes=tuple(names)) if names else index

    def _as_keyed_memory(self, snapshot: Snapshot, version: Version) -> Version:
        """A head without its history, as the OAMS memory under whose key it is known, if somebody gave it one.

        openwop has no such way: that the id stays behind with the first version is said.
        """
        if version.version_id == version.memory_id or oams.owns(version.document):
            return version
        root = find_first_version(snapshot, version)
        port = port_of(root.document.standard)
        if not is_intact(root) or not port.names_line:
            return version
        reference = port.reference(root.document)
        if reference is None:
            name = outline_record(self.context, version)["id"]
            self.report.warn(
                name,
                f"{root.document.name}, its id in {port.name}, stays behind with its first version",
            )
            return version
        location = memories.locate_namespace(
            self.access, parse_namespace(reference[0]), tenant=self.tenant
        )
        memory = oams_views.to_memory(self.context, snapshot, version, location)
        name = memories.stored_name(self.context, location, memory["key"])
        document = Document(
            standard=oams.STANDARD, media_type=oams.MEDIA_TYPE, name=name, native=dump(memory)
        )
        return replace(version, document=document)

    def may_export(self, snapshot: Snapshot, version: Version) -> bool:
        """Whether a version goes out. What was forgotten does not; what was superseded does, with its history."""
        state = version.state
        if is_over(state, self.now):
            return False
        if not self.history and (state.superseded_by or state.closed is not None):
            return False
        if not is_intact(version):
            self.report.refuse(
                "", version.document.name, StoreCorrupt("damaged; run 'memoranda verify'")
            )
            return False
        if self._is_unrestricted(version):
            self.unrestricted.add(version.version_id)
            return True
        record = outline_record(self.context, version)
        scope = scope_of(record)
        if scope["visibility"] not in self.access.visibilities(
            self.tenant
        ) or not self.access.allows_scope(scope):
            return False
        if not may_read_personal(self.context, self.access, snapshot, version):
            return False
        why = compliance.find_export_refusal(self.context.presets_in(snapshot), version)
        if why is None and record.get("consent", {}).get("exportable") is False:
            why = "its consent keeps it here"
        if why is not None:
            self.report.keep(record["id"], why)
        return why is None

    def _is_unrestricted(self, version: Version) -> bool:
        """Whether nothing can keep it here: its owner asks, no preset is in force, and it has no word for consent."""
        document = version.document
        if not self.is_owner or port_of(document.standard).states_consent:
            return False
        return not (is_binding(version.bounds) or compliance.may_declare_domain(document.native))

    def check_unredacted(self, version: Version) -> bool:
        """Whether it may leave uncut (UMP §2.7): a form that cannot be cut refuses it by name."""
        if (
            version.version_id in self.unrestricted
            or not rules.redact(outline_record(self.context, version))[1]
        ):
            return True
        error = Unsupported(
            "its consent cuts it when it leaves, and this form only holds what is whole"
        )
        self.report.refuse("", self._find_record_id(version), error)
        return False

    def check_bounds(self, version: Version, user: str | None = None) -> bool:
        """Whether a form without history and without room for it can say what earlier versions bind a head to.

        `user` is whoever the namespace of an OAMS memory names; a view as a grain names its user itself.
        """
        bounds = version.bounds
        if bounds is None or self.history or not is_binding(bounds):
            return True
        is_expressible = not (bounds.agent or bounds.session or bounds.policy_fields)
        names_user = not port_of(version.document.standard).has_own_fields
        is_expressible &= names_user if user is None else bounds.user in ("", user)
        if not is_expressible:
            name = self._find_record_id(version)
            self.report.refuse(
                "",
                name,
                Unsupported("what earlier versions bind it to cannot be said in this form"),
            )
        return is_expressible

    def check_stated(self, version: Version) -> bool:
        """Whether it is not retracted: OAMS has no word for verdicts, and must not state what is not stated here."""
        verdict = version.state.verification
        if verdict == UNVERIFIED:
            return True
        name = self._find_record_id(version)
        if verdict == "retracted":
            self.report.keep(name, "it is retracted, which this form cannot say")
            return False
        self.report.warn(name, f"that it is {verdict} stays behind; this form cannot say it")
        return True

    def _find_record_id(self, version: Version) -> str:
        """What UMP calls it here, whatever it leaves as."""
        with self.context.engine.read(self.tenant) as snapshot:
            return (
                snapshot.load_names(version.version_id).get(ump.STANDARD)
                or outline_record(self.context, version)["id"]
            )

    def audit(self, op: str, unit_name: str, scope: dict[str, str]) -> None:
        count = self.report.exported
        result = f"{count} {unit_name}"
        entry = audit_entry(
            self.access, op, now=self.now, scope=scope, result=result, meta={"count": count}
        )
        self.context.audit_read(self.tenant, entry)


def _begin_export(
    context: Context, access: Access, owner: str | None, report: Report | None, history: bool
) -> _Export:
    tenant = access.tenant_for(owner)
    access.require_reach(tenant)
    return _Export(
        context=context,
        access=access,
        tenant=tenant,
        now=context.clock(),
        report=report if report is not None else Report(),
        history=history,
        is_owner=not context.presets_of(tenant) and sees_everything(access, tenant),
    )


def export_records(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    names: Sequence[str] | None = None,
    carry: bool = True,
    report: Report | None = None,
) -> Iterator[Record]:
    """Everything that may leave as records, in the order it was written (UMP §2.7: `exportable`, and `redact` always).

    With `names`, only the records of these ids, in this order. A record that another document stands behind carries
    it, unless `carry` is false.
    """
    export = _begin_export(context, access, owner, report, history)
    tenant = export.tenant
    scope = {"owner": tenant, **({"project": project} if project else {})}
    access.require_scope({"visibility": access.limits.get("visibility"), **scope})
    pages = export.iterate_pages(project) if names is None else _load_named(export, names, project)
    for page in pages:
        for version in page:
            export.report.exported += 1
            yield _create_exported_record(export, version, carry=carry and names is None)
    export.audit("export", "records", scope)


def export_page(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    carry: bool = True,
    after: int = 0,
) -> tuple[list[Record], int | None, Report]:
    """A page of the same, after which version the next begins, and what of it stays behind."""
    export = _begin_export(context, access, owner, None, history)
    scope = {"owner": export.tenant, **({"project": project} if project else {})}
    access.require_scope({"visibility": access.limits.get("visibility"), **scope})
    versions, following = export.load_page(project, after, SENT_LIMIT)
    export.report.exported = len(versions)
    records = [_create_exported_record(export, version, carry=carry) for version in versions]
    export.audit("export", "records", scope)
    return records, following, export.report


def _load_named(
    leaving: _Export, names: Sequence[str], project: str | None
) -> Iterator[list[Version]]:
    for name in names:
        version, record = find_visible(leaving.context, leaving.access, name, leaving.now)
        is_here = version.tenant == leaving.tenant and project in (
            None,
            scope_of(record).get("project"),
        )
        with leaving.context.engine.read(version.tenant) as snapshot:
            leaves = is_here and leaving.may_export(snapshot, version)
        if leaves:
            yield [version]


def _create_exported_record(leaving: _Export, version: Version, *, carry: bool) -> Record:
    context = leaving.context
    record = view_record(context, version, leaving.now)
    redacted = redact_record(record, context.operator)
    document = version.document
    if redacted is not record:
        extra = {
            name: value
            for name, value in _collect_extra_state(version).items()
            if name == "verification"
        }
        leaving.report.redact(record["id"])
        # What binds it stays in its own words: its consent and its scope are never cut.
        return _with_structured(context, redacted, {STATE_KEY: extra} if extra else {})
    if not carry:
        return record
    port = port_of(document.standard)
    is_itself, stored = port.record(document) == record, port.exported(document)
    extra = _collect_extra_state(version, leaving.earlier_names(version, ump.STANDARD), record)
    if not extra and (is_itself or ump.unwrap(record) == stored):
        return record
    # Closed or judged since, or the view of a document that stands in another: the stored document goes along.
    return _with_structured(
        context, record, {NATIVE_KEY: native.wrap(stored), **({STATE_KEY: extra} if extra else {})}
    )


def _with_structured(context: Context, record: Record, more: Mapping[str, object]) -> Record:
    """A record with what it has no word for in its structured body, signed anew."""
    if not more:
        return record
    structured = {**(record["body"].get("structured") or {}), **more}
    return signature.sign(
        {**record, "body": {**record["body"], "structured": structured}}, context.operator
    )


def _collect_extra_state(
    version: Version, earlier: Sequence[str] = (), record: Record | None = None
) -> dict[str, object]:
    """Return what a record has no word for.

    A verdict, when and by which grain it was superseded, what binds it, and the ids of all earlier versions, if they
    are more than those that it says it supersedes.
    """
    state = version.state
    extra: dict[str, object] = (
        {} if state.verification == UNVERIFIED else {"verification": state.verification}
    )
    if record is not None and not set(earlier) <= set(record.get("supersedes", ())):
        extra["supersedes"] = list(earlier)
    if version.bounds is not None:
        extra["bounds"] = load(encode(version.bounds))
    if (address := state.successor_names.get(oms.STANDARD)) is not None:
        extra["successor"] = address
    return {**extra, "closed": state.closed} if state.closed is not None else extra


def export_grains(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    namespace: str | None = None,
    history: bool = True,
    report: Report | None = None,
) -> Iterator[tuple[bytes, IndexState]]:
    """Every grain that may leave, as it travels, with what the index knows; other memories as their views."""
    export = _begin_export(context, access, owner, report, history)
    space = None if namespace is None else grains.space_of(namespace)
    scope = {"owner": export.tenant, **({"project": space} if space else {})}
    access.require_scope({**access.limits, **scope})
    for page in export.iterate_pages(space):
        versions = [
            each for each in page if export.check_unredacted(each) and export.check_bounds(each)
        ]
        for version, (delivery, index) in zip(
            versions, grain_views.deliver(context, versions), strict=True
        ):
            export.report.exported += 1
            yield delivery, export.with_earlier_names(version, index)
    export.audit("oms.export", "grains", scope)


def export_grains_page(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    namespace: str | None = None,
    history: bool = True,
    after: int = 0,
) -> tuple[list[tuple[bytes, IndexState]], int | None, Report]:
    """A page of the same, after which version the next begins, and what of it stays behind."""
    export = _begin_export(context, access, owner, None, history)
    space = None if namespace is None else grains.space_of(namespace)
    scope = {"owner": export.tenant, **({"project": space} if space else {})}
    access.require_scope({**access.limits, **scope})
    versions, following = export.load_page(space, after, SENT_LIMIT)
    complete = [
        each for each in versions if export.check_unredacted(each) and export.check_bounds(each)
    ]
    export.report.exported = len(complete)
    export.audit("oms.export", "grains", scope)
    delivered = zip(complete, grain_views.deliver(context, complete), strict=True)
    pairs = [
        (delivery, export.with_earlier_names(version, index))
        for version, (delivery, index) in delivered
    ]
    return pairs, following, export.report


def export_memories_page(
    context: Context, access: Access, namespace: Namespace, *, after: int = 0
) -> tuple[list[tuple[bytes, Memory]], int | None, Report]:
    """A page of what may leave of a namespace as OAMS, after which version the next begins, and what stays behind."""
    export = _begin_export(context, access, None, None, history=False)
    location = memories.locate_namespace(access, namespace)
    versions, following = export.load_page(location.space, after, SENT_LIMIT)
    lines = _create_lines(export, location, _select_for_oams(export, location, versions))
    export.report.exported = len(lines)
    export.audit("oams.export", "memories", {"owner": export.tenant})
    return lines, following, export.report


def _select_for_oams(
    leaving: _Export,
    location: oams_views.Location,
    versions: Sequence[Version],
    *,
    for_others: bool = False,
) -> list[Version]:
    """Return the versions that OAMS can say completely, and another system what is stated of them."""
    return [
        version
        for version in versions
        if leaving.check_stated(version)
        and leaving.check_unredacted(version)
        and (for_others or leaving.check_bounds(version, location.user))
    ]


def export_memories(
    context: Context,
    access: Access,
    *,
    namespaces: Sequence[Namespace] | None = None,
    report: Report | None = None,
    for_others: bool = False,
) -> Iterator[tuple[bytes, Memory]]:
    """Yield every memory that is there now and may leave, as OAMS: the bytes of its line, and what they say.

    `for_others`, for other systems, completes each memory by all that is said of it elsewhere. What earlier versions
    bind it to is said as its own then: no other system keeps the two apart.
    """
    export = _begin_export(context, access, None, report, history=False)
    open_names = _open_namespaces(context, access) if namespaces is None else ()
    chosen = [parse_namespace(name) for name in open_names] if namespaces is None else namespaces
    for location in [memories.locate_namespace(access, namespace) for namespace in chosen]:
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
    leaving: _Export, location: oams_views.Location, versions: Sequence[Version]
) -> list[tuple[bytes, Memory]]:
    lines: list[tuple[bytes, Memory]] = []
    with leaving.context.engine.read(location.tenant) as snapshot:
        for version in versions:
            if oams.owns(version.document):
                lines.append((version.document.native, load_memory(version.document.native)))
            else:
                memory = oams_views.to_memory(leaving.context, snapshot, version, location)
                lines.append((dump(memory), memory))
    return lines


def list_namespaces(context: Context, access: Access) -> list[str]:
    """The namespaces in which the caller's tenant has anything."""
    return _open_namespaces(context, access)


def _open_namespaces(context: Context, access: Access) -> list[str]:
    tenant = access.default_tenant
    with context.engine.read(tenant) as snapshot:
        names = [namespace_of(space, tenant) for space in snapshot.list_spaces()]
    return sorted(name for name in names if _can_read_namespace(access, name))


def _can_read_namespace(access: Access, name: str) -> bool:
    try:
        memories.locate_namespace(access, parse_namespace(name))
    except MemorandaError:
        return False
    return True
