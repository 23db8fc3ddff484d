"""New versions: everything that is stored with a document, so that every standard finds it.

A version is stored with its standard-free reading (`Projection`), its search words, its fields as a grain, and the
names of its views in the other standards. All of this follows from the document alone. `prepare` derives it before the
writer's turn, so that writers hold the store for a short time and readers never derive anything.

The document of a view (a record or grain that was translated from another document) is resolved first: `_Carrier` names
the document that a view carries, and the view then shares that document's names.

Order of a write: the verb builds the document, `prepare` derives the rest, `lifecycle.follow` adds restrictions, and
`NewVersion.append` stores everything in the unit. Deriving happens outside the unit, so that many writers can derive at
the same time.

`derive_facts` must derive exactly the same from a stored version, because `verify` compares both. Change them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import ForbiddenScope, MemorandaError
from memoranda.model.bounds import apply_bounds
from memoranda.model.instant import Instant
from memoranda.model.memory import (
    NATIVE_KEY,
    OMS,
    UMP,
    Bounds,
    Document,
    DocumentReading,
    FieldIndex,
    Projection,
    Scope,
    Version,
)
from memoranda.retrieval.entry import NO_TEXT, IndexedText
from memoranda.service.core.context import Context
from memoranda.service.core.limits import Quotas, tighten_quotas
from memoranda.service.core.views import (
    create_record,
    find_viewed_document,
    project,
    project_document,
)
from memoranda.standards.port import port_of
from memoranda.standards.ump import mapping as ump
from memoranda.storage.engine.contract import Unit, VersionIndex

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain

# Bytes in every record that carries a document of another standard.
_NATIVE: Final = NATIVE_KEY.encode()


class NewVersion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document to be written, with everything that was derived from it beforehand.

    Immutable; `replace` makes a changed copy. `quotas` are those of the server; limits of the owner are applied when it
    is appended, since they are read in the unit.
    """

    document: Document
    projection: Projection
    # The search words of the text.
    indexed: IndexedText
    field_index: FieldIndex
    # (standard, name)
    view_names: tuple[tuple[str, str], ...]
    quotas: Quotas
    # The version before it, whose restrictions it has inherited.
    follows: Version | None = None

    def append(
        self, unit: Unit, *, now: Instant, cause: bytes | None = None, follow_head: bool = False
    ) -> Version:
        """Write it in a unit of work, as a new memory or after the version in `follows`. Raises QuotaExceeded.

        Every standard writes through this method. Only `lifecycle` sets `follows`, so that no version is added without
        the restrictions of the one before it.
        """
        quotas = tighten_quotas(self.quotas, unit.rules) if unit.rules else self.quotas
        quotas.check_room(unit, is_new=self.follows is None, size=len(self.document.native))
        quotas.count_write(unit, now)
        return unit.append(
            self.document,
            self.projection,
            now=now,
            follows=self.follows,
            cause=cause,
            index=VersionIndex(self.field_index, self.indexed, self.view_names),
            follow_head=follow_head,
        )


def prepare(
    context: Context,
    document: Document,
    projection: Projection,
    *,
    grain: Grain | None = None,
    indexed: IndexedText | None = None,
    like: NewVersion | None = None,
) -> NewVersion:
    """Return a document, read as `projection`, with everything that is stored with it. Raises ForbiddenScope.

    `grain` is the document itself if it is one; `indexed` are the search words of its text if they are known. `like` is
    a version whose search words are used again if text and titles are the same.

    Raises ForbiddenScope for a namespace of another owner. A document whose content does not fit a grain gets an empty
    field index: it is found by text and name, but not by CAL.
    """
    from memoranda.standards.cal.item import field_index_of

    _refuse_foreign_namespace(projection.scope)
    if like is not None and like.projection.indexed_parts == projection.indexed_parts:
        indexed = like.indexed
    if grain is not None:
        field_index, names = (
            field_index_of(grain),
            [(UMP, _derive_record_name(context, document, projection, grain))],
        )
    else:
        carrier = _resolve_carrier(context, document, projection.scope.tenant)
        try:
            field_index = field_index_of(_grain_of_carrier(context, carrier, lambda: projection)[0])
        except MemorandaError:
            # Its content exceeds a grain, so no query for grains can return it.
            field_index = FieldIndex(at=Instant(0))
        names = [(OMS, field_index.address)] if field_index.address else []
        if not ump.owns(document):
            names.append((UMP, _derive_view_name(carrier, projection)))
    return NewVersion(
        document=document,
        projection=projection,
        indexed=context.engine.index_text(projection.scope.tenant, projection)
        if indexed is None
        else indexed,
        field_index=field_index,
        view_names=tuple(names),
        quotas=context.quotas,
    )


def derive_facts(context: Context, version: Version) -> DocumentReading:
    """Derive again the facts that were stored with a version when it was written, for comparison."""
    document, projection = version.document, project(context, version)
    grain = port_of(document.standard).grain(document)
    if grain is not None:
        # Restrictions are stored beside a grain: its fields and names are its own.
        read_alone = project_document(context, document, version.tenant, version.state.space)
        new_version = prepare(context, document, read_alone, grain=grain, indexed=NO_TEXT)
    else:
        new_version = prepare(context, document, projection, indexed=NO_TEXT)
    return DocumentReading(
        projection,
        new_version.field_index,
        ((document.standard, document.name), *new_version.view_names),
    )


def _refuse_foreign_namespace(scope: Scope) -> None:
    """Raise ForbiddenScope for a space under another tenant's hash: nobody could read it (OAMS section 4)."""
    if scope.space.startswith("o-"):
        from memoranda.standards.oams.namespace import is_foreign_space

        if is_foreign_space(scope.space, scope.tenant):
            raise ForbiddenScope("namespace: under the owner hash of another tenant")


def with_bounds(context: Context, new_version: NewVersion, bounds: Bounds) -> NewVersion:
    """Return a new version with restrictions applied: to its reading, and to the grain that shows it."""
    followed = replace(apply_bounds(new_version.projection, bounds), bounds=bounds)
    if port_of(new_version.document.standard).has_own_fields:
        return replace(new_version, projection=followed)
    scope = followed.scope
    projection = apply_bounds(
        project_document(context, new_version.document, scope.tenant, scope.space), bounds
    )
    return replace(
        prepare(context, new_version.document, projection, like=new_version),
        projection=followed,
    )


def as_grain(context: Context, version: Version) -> tuple[Grain, bytes]:
    """Return a version as a grain, and the bytes in which it travels. Both are cached with an opened document.

    The caller must not change the fields of the grain, because all readers share it.
    """
    opened_document = version.opened
    if opened_document is None:
        return _build_grain(context, version)
    if opened_document.grain is None:
        opened_document.grain = _build_grain(context, version)
    pair: tuple[Grain, bytes] = opened_document.grain
    return pair


def _build_grain(context: Context, version: Version) -> tuple[Grain, bytes]:
    document = version.document
    grain = port_of(document.standard).grain(document, is_sealed=version.is_sealed)
    if grain is not None:
        return grain, document.native
    return _grain_of_carrier(
        context,
        _resolve_carrier(context, document, version.tenant),
        lambda: project(context, version),
    )


class _Carrier(msgspec.Struct, frozen=True):
    """A document under its portable name, and the document that it is a view of, if any."""

    document: Document
    inner: Document | None
    # The reading of `inner`, if the document is its view and nothing else.
    projection: Projection | None


def _resolve_carrier(context: Context, document: Document, tenant: str) -> _Carrier:
    """Return a document, and the original inside it if the document is a view of another one."""
    port = port_of(document.standard)
    record = port.record(document) if _NATIVE in document.native else None
    if record is not None:
        return _Carrier(document, find_viewed_document(context, record), None)
    original = port.original(document, tenant, ump_version=context.ump_version)
    if original is None:
        return _Carrier(port.exported(document), None, None)
    return _Carrier(port.exported(document), original.document, original.projection)


def _grain_of_carrier(
    context: Context, carrier: _Carrier, project_document: Callable[[], Projection]
) -> tuple[Grain, bytes]:
    """Return the grain that shows a document, and its bytes: the carried grain itself, or a translation."""
    from memoranda.standards.oms import mapping as oms

    inner = carrier.inner
    delivery = (
        None if inner is None else port_of(inner.standard).delivery(inner, context.did_documents)
    )
    if delivery is not None:
        return delivery
    if inner is not None and carrier.projection is not None:
        grain = oms.from_projection(carrier.projection, inner)
    else:
        grain = oms.from_projection(project_document(), carrier.document)
    return grain, grain.blob


def _derive_view_name(carrier: _Carrier, projection: Projection) -> str:
    """Return the name of the record that shows a document."""
    if carrier.inner is None or carrier.projection is None:
        return ump.derive_view_id(projection.scope, carrier.document)
    return (
        carrier.inner.name
        if ump.owns(carrier.inner)
        else ump.derive_view_id(carrier.projection.scope, carrier.inner)
    )


def _derive_record_name(
    context: Context, document: Document, projection: Projection, grain: Grain
) -> str:
    """Return the name of the record that shows a grain: its own if it carries a record, else a derived one."""
    from memoranda.standards.oms import mapping as oms

    if oms.unwrap(grain) is None:
        return ump.derive_view_id(projection.scope, document)
    return str(
        create_record(
            context, document, projection.scope.tenant, projection.scope.space, (grain, projection)
        )["id"]
    )
