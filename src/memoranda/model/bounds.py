"""Restrictions that a version inherits from earlier versions of its memory. They can only be tightened.

A document states some restrictions itself. Those of an earlier version that the later document does not state, for
instance because its standard has no field for them, are stored next to the document as `Bounds`.

The direction is always the same: of two restrictions the tighter one applies, and nothing here can loosen one. Callers
that may loosen something, such as an owner who widens the visibility, do so before they combine.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import StoreCorrupt
from memoranda.model.memory import VISIBILITIES, Bounds, Projection, Visibility

UNBOUND: Final = Bounds()
# Prefixes of tags that flag a memory for the rules of a preset or a domain.
FLAG_PREFIXES: Final = ("pii:", "phi:", "legal:", "profile:")


def encode(bounds: Bounds) -> bytes:
    """Serialize bounds for the store; empty fields are left out."""
    return _ENCODER.encode(bounds)


def is_binding(bounds: Bounds | None) -> bool:
    """Return True if any restriction is set; the author is none."""
    return (
        bounds is not None and (replace(bounds, writer="") if bounds.writer else bounds) != UNBOUND
    )


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Bounds)


def combine(one: Bounds, other: Bounds) -> Bounds:
    """Combine two bounds; for each field the tighter one applies.

    An empty field restricts nothing, so the other one is taken.
    """
    expiries = [bounds.expires for bounds in (one, other) if bounds.expires is not None]
    return Bounds(
        user=one.user or other.user,
        agent=one.agent or other.agent,
        session=one.session or other.session,
        visibility=narrower_visibility(one.visibility, other.visibility),
        exportable=one.exportable and other.exportable,
        redact=tuple(dict.fromkeys((*one.redact, *other.redact))),
        expires=min(expiries, default=None),
        tags=tuple(dict.fromkeys((*one.tags, *other.tags))),
        policy_fields={**other.policy_fields, **one.policy_fields},
        writer=one.writer or other.writer,
    )


def bounds_of_view(view: Projection, own_projection: Projection) -> Bounds:
    """Return the restrictions that a view states beyond the document inside it."""
    at = view.scope
    return remaining_bounds(
        Bounds(
            user=at.user,
            agent=at.agent,
            session=at.session,
            visibility=at.visibility,
            exportable=view.exportable,
            expires=view.expires,
            tags=tuple(tag for tag in view.tags if tag.startswith(FLAG_PREFIXES)),
        ),
        Bounds(
            user=own_projection.scope.user,
            agent=own_projection.scope.agent,
            session=own_projection.scope.session,
            visibility=own_projection.scope.visibility,
            exportable=own_projection.exportable,
            expires=own_projection.expires,
            tags=own_projection.tags,
        ),
    )


def decode(data: bytes) -> Bounds:
    """Parse bounds from the store. Raises StoreCorrupt."""
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(
            "the stored restrictions of a memory are damaged; run 'memoranda verify'"
        ) from error


def remaining_bounds(earlier_bounds: Bounds, own_bounds: Bounds) -> Bounds:
    """Return the bounds of an earlier version that the document of a later one does not state itself.

    What the later document states itself is left out, so a document is never restricted twice in different words.
    """
    ends = earlier_bounds.expires
    is_later = ends is not None and (own_bounds.expires is None or own_bounds.expires > ends)
    return Bounds(
        user="" if own_bounds.user else earlier_bounds.user,
        agent="" if own_bounds.agent else earlier_bounds.agent,
        session="" if own_bounds.session else earlier_bounds.session,
        visibility=earlier_bounds.visibility
        if _is_wider(own_bounds.visibility, earlier_bounds.visibility)
        else UNBOUND.visibility,
        exportable=earlier_bounds.exportable or not own_bounds.exportable,
        redact=()
        if set(earlier_bounds.redact) <= set(own_bounds.redact)
        else earlier_bounds.redact,
        expires=ends if is_later else None,
        tags=tuple(tag for tag in earlier_bounds.tags if tag not in own_bounds.tags),
        policy_fields={
            name: value
            for name, value in earlier_bounds.policy_fields.items()
            if not own_bounds.policy_fields.get(name)
        },
    )


def apply_bounds(projection: Projection, bounds: Bounds) -> Projection:
    """Return a projection with the inherited restrictions applied.

    The projection that results is what search and access use; the document stays as it is.
    """
    scope, ends = projection.scope, bounds.expires
    own_end = projection.expires
    return replace(
        projection,
        scope=replace(
            scope,
            user=scope.user or bounds.user,
            agent=scope.agent or bounds.agent,
            session=scope.session or bounds.session,
            visibility=narrower_visibility(scope.visibility, bounds.visibility),
        ),
        exportable=projection.exportable and bounds.exportable,
        redacted=projection.redacted or bool(bounds.redact),
        expires=own_end if ends is None or (own_end is not None and own_end < ends) else ends,
        tags=(*projection.tags, *(tag for tag in bounds.tags if tag not in projection.tags)),
        basis=projection.basis or str(bounds.policy_fields.get("processing_basis", "")),
    )


def narrower_visibility(one: Visibility, other: Visibility) -> Visibility:
    """Return the narrower of two visibilities."""
    return other if _is_wider(one, other) else one


def _is_wider(one: Visibility, other: Visibility) -> bool:
    # VISIBILITIES is sorted, the narrowest first.
    return VISIBILITIES.index(one) > VISIBILITIES.index(other)
