"""What binds a memory binds every later version, whoever writes it, and can only be tightened.

A document says some of this itself. What an earlier version said and a later one, of whichever standard, does not say
is kept beside that document: these bounds.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import StoreCorrupt
from memoranda.model.memory import VISIBILITIES, Bounds, Projection, Visibility

FREE: Final = Bounds()
# How the tags begin that mark a memory for the rules of a preset or a domain.
MARKS: Final = ("pii:", "phi:", "legal:", "profile:")


def encode(bounds: Bounds) -> bytes:
    """As the store keeps them: what is empty is left out."""
    return _ENCODER.encode(bounds)


def is_binding(bounds: Bounds | None) -> bool:
    """Whether they bind a memory to anything: who wrote it does not."""
    return bounds is not None and (replace(bounds, writer="") if bounds.writer else bounds) != FREE


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Bounds)


def both(one: Bounds, other: Bounds) -> Bounds:
    """What is bound by two, as tightly as either says."""
    ends = [each.expires for each in (one, other) if each.expires is not None]
    return Bounds(
        user=one.user or other.user,
        agent=one.agent or other.agent,
        session=one.session or other.session,
        visibility=narrower(one.visibility, other.visibility),
        exportable=one.exportable and other.exportable,
        redact=tuple(dict.fromkeys((*one.redact, *other.redact))),
        expires=min(ends, default=None),
        tags=tuple(dict.fromkeys((*one.tags, *other.tags))),
        said={**other.said, **one.said},
        writer=one.writer or other.writer,
    )


def bounds_of_view(view: Projection, own: Projection) -> Bounds:
    """What a view says beyond the document inside it, as far as every form can say it."""
    at = view.scope
    return beyond(
        Bounds(
            user=at.user,
            agent=at.agent,
            session=at.session,
            visibility=at.visibility,
            exportable=view.exportable,
            expires=view.expires,
            tags=tuple(tag for tag in view.tags if tag.startswith(MARKS)),
        ),
        Bounds(
            user=own.scope.user,
            agent=own.scope.agent,
            session=own.scope.session,
            visibility=own.scope.visibility,
            exportable=own.exportable,
            expires=own.expires,
            tags=own.tags,
        ),
    )


def decode(stored: bytes) -> Bounds:
    """The bounds that the store kept. Raises StoreCorrupt."""
    try:
        return _DECODER.decode(stored)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(
            "what binds a memory cannot be read any more; run 'memoranda verify'"
        ) from error


def beyond(earlier: Bounds, own: Bounds) -> Bounds:
    """What the earlier version is bound to and the later one's own document does not say."""
    ends = earlier.expires
    is_later = ends is not None and (own.expires is None or own.expires > ends)
    return Bounds(
        user="" if own.user else earlier.user,
        agent="" if own.agent else earlier.agent,
        session="" if own.session else earlier.session,
        visibility=earlier.visibility
        if _is_wider(own.visibility, earlier.visibility)
        else FREE.visibility,
        exportable=earlier.exportable or not own.exportable,
        redact=() if set(earlier.redact) <= set(own.redact) else earlier.redact,
        expires=ends if is_later else None,
        tags=tuple(tag for tag in earlier.tags if tag not in own.tags),
        said={name: value for name, value in earlier.said.items() if not own.said.get(name)},
    )


def bound(projection: Projection, bounds: Bounds) -> Projection:
    """What a document says, as tightly as it is bound."""
    scope, ends = projection.scope, bounds.expires
    own = projection.expires
    return replace(
        projection,
        scope=replace(
            scope,
            user=scope.user or bounds.user,
            agent=scope.agent or bounds.agent,
            session=scope.session or bounds.session,
            visibility=narrower(scope.visibility, bounds.visibility),
        ),
        exportable=projection.exportable and bounds.exportable,
        redacted=projection.redacted or bool(bounds.redact),
        expires=own if ends is None or (own is not None and own < ends) else ends,
        tags=(*projection.tags, *(tag for tag in bounds.tags if tag not in projection.tags)),
        basis=projection.basis or str(bounds.said.get("processing_basis", "")),
    )


def narrower(one: Visibility, other: Visibility) -> Visibility:
    return other if _is_wider(one, other) else one


def _is_wider(one: Visibility, other: Visibility) -> bool:
    # The narrowest is the first.
    return VISIBILITIES.index(one) > VISIBILITIES.index(other)
