"""What is written with a version so that every standard finds it: its fields, and the names that its views have.

Both follow from the document alone, so they are made before the writer's turn, and no reader ever has to make them.
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
from memoranda.model.native import NATIVE_KEY
from memoranda.retrieval.entry import NOTHING, Indexed
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
from memoranda.storage.engine.contract import Unit

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain

# Only a record that says this can carry a document of another standard.
_NATIVE: Final = NATIVE_KEY.encode()


class NewVersion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document that is to be written, with everything that can be read from it before the writer's turn."""

    document: Document
    projection: Projection
    # The search words of its text.
    indexed: Indexed
    field_index: FieldIndex
    # (standard, name)
    view_names: tuple[tuple[str, str], ...]
    quotas: Quotas
    # What it was bound by already: the version before it.
    follows: Version | None = None

    def append(
        self, unit: Unit, *, now: Instant, cause: bytes | None = None, follow_head: bool = False
    ) -> Version:
        """Write it in a unit of work: as a new memory, or after the version that it is bound by.

        Every standard writes so, and what follows a version is made by `succession` alone: nothing comes into a memory
        without what binds it.
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
            field_index=self.field_index,
            view_names=self.view_names,
            follow_head=follow_head,
            indexed=self.indexed,
        )


def prepare(
    context: Context,
    document: Document,
    projection: Projection,
    *,
    grain: Grain | None = None,
    indexed: Indexed | None = None,
) -> NewVersion:
    """Return a document, read as `projection`, with all that is written with it.

    `grain` is the document itself where it is one; `indexed` are the search words of its text where they are known.
    """
    from memoranda.standards.cal.field_index import field_index_of

    _refuse_foreign_namespace(projection.scope)
    if grain is not None:
        field_index, names = (
            field_index_of(grain),
            [(UMP, _derive_record_name(context, document, projection, grain))],
        )
    else:
        carried = _resolve_carrier(context, document, projection.scope.tenant)
        try:
            field_index = field_index_of(_grain_of_carrier(context, carried, lambda: projection)[0])
        except MemorandaError:
            # It says more than a grain may hold: nobody can ask for it as one.
            field_index = FieldIndex(at=Instant(0))
        names = [(OMS, field_index.address)] if field_index.address else []
        if not ump.owns(document):
            names.append((UMP, _derive_view_name(carried, projection)))
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
    """What the rows of a version were made of when it was written."""
    document, projection = version.document, project(context, version)
    grain = port_of(document.standard).grain(document)
    if grain is not None:
        # Restrictions of a grain stand beside it: its fields and names are its own.
        read_alone = project_document(context, document, version.tenant, version.state.space)
        new = prepare(context, document, read_alone, grain=grain, indexed=NOTHING)
    else:
        new = prepare(context, document, projection, indexed=NOTHING)
    return DocumentReading(
        projection, new.field_index, ((document.standard, document.name), *new.view_names)
    )


def _refuse_foreign_namespace(scope: Scope) -> None:
    """OAMS section 4: a namespace is an access envelope; what is written into another's would be read by nobody."""
    if scope.space.startswith("o-"):
        from memoranda.standards.oams.namespace import is_foreign_space

        if is_foreign_space(scope.space, scope.tenant):
            raise ForbiddenScope("namespace: under the owner hash of another tenant")


def with_bounds(context: Context, new: NewVersion, bounds: Bounds) -> NewVersion:
    """The same, as tightly as it is bound: so it is read, and a grain that shows it says so."""
    followed = replace(apply_bounds(new.projection, bounds), bounds=bounds)
    if port_of(new.document.standard).has_own_fields:
        return replace(new, projection=followed)
    scope = followed.scope
    projection = apply_bounds(
        project_document(context, new.document, scope.tenant, scope.space), bounds
    )
    return replace(
        prepare(context, new.document, projection, indexed=new.indexed), projection=followed
    )


def as_grain(context: Context, version: Version) -> tuple[Grain, bytes]:
    """A version as a grain, and the bytes it travels in."""
    opened = version.opened
    if opened is None:
        return _build_grain(context, version)
    if opened.grain is None:
        opened.grain = _build_grain(context, version)
    pair: tuple[Grain, bytes] = opened.grain
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
    """A document under the name it has in every store, and the one that it is the view of, if it is one."""

    document: Document
    inner: Document | None
    # How that one is read, if this is its view and nothing else.
    projection: Projection | None


def _resolve_carrier(context: Context, document: Document, tenant: str) -> _Carrier:
    port = port_of(document.standard)
    record = port.record(document) if _NATIVE in document.native else None
    if record is not None:
        return _Carrier(document, find_viewed_document(context, record), None)
    original = port.original(document, tenant, ump_version=context.ump_version)
    if original is None:
        return _Carrier(port.exported(document), None, None)
    return _Carrier(port.exported(document), original.document, original.projection)


def _grain_of_carrier(
    context: Context, carried: _Carrier, project_document: Callable[[], Projection]
) -> tuple[Grain, bytes]:
    from memoranda.standards.oms import mapping as oms

    inner = carried.inner
    delivery = (
        None if inner is None else port_of(inner.standard).delivery(inner, context.did_documents)
    )
    if delivery is not None:
        return delivery
    if inner is not None and carried.projection is not None:
        grain = oms.from_projection(carried.projection, inner)
    else:
        grain = oms.from_projection(project_document(), carried.document)
    return grain, grain.blob


def _derive_view_name(carried: _Carrier, projection: Projection) -> str:
    if carried.inner is None or carried.projection is None:
        return ump.derive_view_id(projection.scope, carried.document)
    return (
        carried.inner.name
        if ump.owns(carried.inner)
        else ump.derive_view_id(carried.projection.scope, carried.inner)
    )


def _derive_record_name(
    context: Context, document: Document, projection: Projection, grain: Grain
) -> str:
    from memoranda.standards.oms import mapping as oms

    if oms.unwrap(grain) is None:
        return ump.derive_view_id(projection.scope, document)
    return str(
        create_record(
            context, document, projection.scope.tenant, projection.scope.space, (grain, projection)
        )["id"]
    )
