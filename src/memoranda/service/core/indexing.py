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
from memoranda.model.facts import DocumentReading, FieldIndex
from memoranda.model.instant import Instant
from memoranda.model.memory import Bounds, Document, Projection, Scope, Version
from memoranda.model.native import NATIVE_KEY
from memoranda.model.standard import OMS, UMP
from memoranda.retrieval.entry import NOTHING, Indexed
from memoranda.service.core.context import Context
from memoranda.service.core.limits import Quotas, tightened
from memoranda.service.core.views import project, project_document, record_of, viewed
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
        quotas = tightened(self.quotas, unit.rules) if unit.rules else self.quotas
        quotas.check_room(unit, is_new=self.follows is None, size=len(self.document.native))
        quotas.spend(unit, now)
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

    _refuse_place_of_another(projection.scope)
    if grain is not None:
        found, names = (
            field_index_of(grain),
            [(UMP, _name_of_grain(context, document, projection, grain))],
        )
    else:
        carried = _carried(context, document, projection.scope.tenant)
        try:
            found = field_index_of(_grain(context, carried, lambda: projection)[0])
        except MemorandaError:
            # It says more than a grain may hold: nobody can ask for it as one.
            found = FieldIndex(at=Instant(0))
        names = [(OMS, found.address)] if found.address else []
        if not ump.owns(document):
            names.append((UMP, _name_of_view(carried, projection)))
    return NewVersion(
        document=document,
        projection=projection,
        indexed=context.engine.index_text(projection.scope.tenant, projection)
        if indexed is None
        else indexed,
        field_index=found,
        view_names=tuple(names),
        quotas=context.quotas,
    )


def said_of(context: Context, version: Version) -> DocumentReading:
    """What the rows of a version were made of when it was written."""
    document, read = version.document, project(context, version)
    grain = port_of(document.standard).grain(document)
    if grain is not None:
        # Restrictions of a grain stand beside it: its fields and names are its own.
        read_alone = project_document(context, document, version.tenant, version.state.space)
        new = prepare(context, document, read_alone, grain=grain, indexed=NOTHING)
    else:
        new = prepare(context, document, read, indexed=NOTHING)
    return DocumentReading(
        read, new.field_index, ((document.standard, document.name), *new.view_names)
    )


def _refuse_place_of_another(scope: Scope) -> None:
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
    read = apply_bounds(project_document(context, new.document, scope.tenant, scope.space), bounds)
    return replace(prepare(context, new.document, read, indexed=new.indexed), projection=followed)


def whole(context: Context, version: Version) -> tuple[Grain, bytes]:
    """A version as a grain, and the bytes it travels in."""
    opened = version.opened
    if opened is None:
        return _whole(context, version)
    if opened.grain is None:
        opened.grain = _whole(context, version)
    found: tuple[Grain, bytes] = opened.grain
    return found


def _whole(context: Context, version: Version) -> tuple[Grain, bytes]:
    document = version.document
    grain = port_of(document.standard).grain(document, is_sealed=version.is_sealed)
    if grain is not None:
        return grain, document.native
    return _grain(
        context, _carried(context, document, version.tenant), lambda: project(context, version)
    )


class _Carried(msgspec.Struct, frozen=True):
    """A document under the name it has in every store, and the one that it is the view of, if it is one."""

    outside: Document
    inner: Document | None
    # How that one is read, if this is its view and nothing else.
    read: Projection | None


def _carried(context: Context, document: Document, tenant: str) -> _Carried:
    port = port_of(document.standard)
    record = port.record(document) if _NATIVE in document.native else None
    if record is not None:
        return _Carried(document, viewed(context, record), None)
    original = port.original(document, tenant, ump_version=context.ump_version)
    if original is None:
        return _Carried(port.exported(document), None, None)
    return _Carried(port.exported(document), original.document, original.projection)


def _grain(
    context: Context, carried: _Carried, read: Callable[[], Projection]
) -> tuple[Grain, bytes]:
    from memoranda.standards.oms import mapping as oms

    inner = carried.inner
    delivery = (
        None if inner is None else port_of(inner.standard).delivery(inner, context.did_documents)
    )
    if delivery is not None:
        return delivery
    if inner is not None and carried.read is not None:
        grain = oms.from_projection(carried.read, inner)
    else:
        grain = oms.from_projection(read(), carried.outside)
    return grain, grain.blob


def _name_of_view(carried: _Carried, projection: Projection) -> str:
    if carried.inner is None or carried.read is None:
        return ump.derive_view_id(projection.scope, carried.outside)
    return (
        carried.inner.name
        if ump.owns(carried.inner)
        else ump.derive_view_id(carried.read.scope, carried.inner)
    )


def _name_of_grain(
    context: Context, document: Document, projection: Projection, grain: Grain
) -> str:
    from memoranda.standards.oms import mapping as oms

    if oms.unwrap(grain) is None:
        return ump.derive_view_id(projection.scope, document)
    return str(
        record_of(
            context, document, projection.scope.tenant, projection.scope.space, (grain, projection)
        )["id"]
    )
