"""The parameters of our extensions to UMP: browsing, rules of an owner, audit pruning, and imports in parts.

None of these is in UMP 0.1. They are structs like those of `requests.py`, checked in the same way, and have names that
the standard does not use, so that a later version of it does not collide with them. Positions are those of the store
and mean nothing to a client, who only sends them back.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from memoranda.encoding.shapes import Shape
from memoranda.model.instant import Moment
from memoranda.standards.ump.requests import (
    MAX_IMPORT,
    MAX_POSITION,
    MAX_REASON_CHARS,
    AuditVerifyRequest,
)
from memoranda.standards.ump.shapes import Name

# Ids per request.
MAX_IDS: Final = 500
# Characters of the name of an import.
MAX_LABEL_CHARS: Final = 200
# The largest limit that an owner can set, in the unit of the rule.
MAX_RULE: Final = 1 << 53

PositionCursor = Annotated[
    str, Meta(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the previous page.")
]
Limit = Annotated[int, Meta(ge=0, le=MAX_RULE, description="0: no limit.")]


class PageRequest(Shape):
    """A page of a listing."""

    cursor: PositionCursor | None = None

    @property
    def after(self) -> int:
        """The position of the last entry on the previous page."""
        return int(self.cursor or 0)


class IdsRequest(Shape):
    """The ids of several memories."""

    ids: Annotated[list[Name], Meta(max_length=MAX_IDS, description="Ids of memories.")]


class ForgetManyRequest(IdsRequest):
    """The ids of the memories to forget together, and the reason."""

    reason: Annotated[
        str,
        Meta(
            max_length=MAX_REASON_CHARS,
            description="The reason, in one line; kept in the audit log.",
        ),
    ] = ""
    hard: Annotated[bool, Meta(description="true: erase the content permanently.")] = False


class RulesRequest(Shape):
    """The rules of an owner, in addition to the server's."""

    presets: Annotated[
        tuple[Literal["gdpr", "ccpa", "hipaa"], ...], Meta(description="Compliance presets.")
    ] = ()
    memories: Limit = 0
    bytes: Limit = 0
    writes_per_minute: Limit = 0


class PruneRequest(AuditVerifyRequest):
    """A request to remove old events from an audit log."""

    before: Annotated[Moment, Meta(description="Remove the events before this time.")]


class ImportedIndex(Shape):
    """The index state of a grain in another store (OMS §5.6)."""

    superseded_by: str | None = None
    system_valid_to: int | None = None
    verification_status: str | None = None
    successor_name: str | None = None
    record: str | None = None
    supersedes: list[str] | None = None
    valid_from: int | None = None


class ImportedItem(Shape):
    """A memory to import."""

    form: Annotated[Literal["ump", "oams", "oms"], Meta(description="The standard of its form.")]
    value: Annotated[
        Any, Meta(description="A UMP record, an OAMS memory, or the bytes of a grain in base64.")
    ] = None
    line: (
        Annotated[
            str, Meta(description="Instead of `value`: JSON of an OAMS memory, stored unchanged.")
        ]
        | None
    ) = None
    where: Annotated[str, Meta(max_length=4096, description="Its location, for the report.")] = ""
    number: Annotated[
        int, Meta(ge=0, le=MAX_POSITION, description="Its number in the source, for the report.")
    ] = 0
    index: ImportedIndex | None = None


class ImportPartRequest(Shape):
    """A part of an import."""

    items: Annotated[list[ImportedItem], Meta(max_length=MAX_IMPORT)]
    label: (
        Annotated[
            str,
            Meta(
                max_length=MAX_LABEL_CHARS,
                description="A name for the import, such as a file name. A named import can be undone.",
            ),
        ]
        | None
    ) = field(default=None, name="what")
    id: (
        Annotated[Name, Meta(description="`import` of the previous part, to continue it.")] | None
    ) = None
    adopt: Annotated[bool, Meta(description="Make yourself the owner of all memories.")] = False
    namespace: (
        Annotated[Name, Meta(description="The namespace for OAMS memories, instead of their own.")]
        | None
    ) = None
    restore: Annotated[bool, Meta(description="Import memories that were forgotten here, too.")] = (
        False
    )
    dry_run: Annotated[bool, Meta(description="Report the effects without writing anything.")] = (
        False
    )
