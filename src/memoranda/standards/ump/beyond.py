"""Parameters of operations that the standard does not have: looking around and through, rules, moving in parts."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from memoranda.encoding.shapes import Shape
from memoranda.model.instant import Moment
from memoranda.standards.ump.requests import MAX_IMPORT, MAX_PLACE, AuditVerifyRequest
from memoranda.standards.ump.shapes import Name

# As many are named in one request.
MAX_NAMES: Final = 500
MAX_LABEL_CHARS: Final = 200
# What an owner can ask for.
MAX_RULE: Final = 1 << 53

Place = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the page before.")]
Limit = Annotated[int, Meta(ge=0, le=MAX_RULE, description="0: no limit of one's own.")]


class PageRequest(Shape):
    """Where to go on."""

    cursor: Place | None = None

    @property
    def after(self) -> int:
        """After what the page before ended with."""
        return int(self.cursor or 0)


class NamesRequest(Shape):
    """Some memories."""

    ids: Annotated[list[Name], Meta(max_length=MAX_NAMES, description="Ids of memories.")]


class RulesRequest(Shape):
    """What an owner asks for beyond what the server does."""

    presets: Annotated[tuple[Literal["gdpr", "ccpa", "hipaa"], ...], Meta(description="Compliance presets.")] = ()
    memories: Limit = 0
    bytes: Limit = 0
    writes_per_minute: Limit = 0


class PruneRequest(AuditVerifyRequest):
    """Which events of an audit log go."""

    before: Annotated[Moment, Meta(description="Those from before this moment.")]


class ImportedIndex(Shape):
    """What another store knew about a grain beside its bytes (OMS §5.6)."""

    superseded_by: str | None = None
    system_valid_to: int | None = None
    verification_status: str | None = None
    successor_name: str | None = None
    record: str | None = None
    supersedes: list[str] | None = None


class ImportedItem(Shape):
    """One memory that is brought from elsewhere."""

    form: Annotated[Literal["ump", "oams", "oms"], Meta(description="The standard whose form it has.")]
    value: Annotated[Any, Meta(description="A record, a memory of OAMS, or the bytes of a grain in base64.")] = None
    line: (
        Annotated[str, Meta(description="Instead of `value`: the JSON of a memory of OAMS, kept as it is.")] | None
    ) = None
    where: Annotated[str, Meta(max_length=4096, description="Where it stood, for the report.")] = ""
    number: Annotated[int, Meta(ge=0, le=MAX_PLACE, description="The how manyth it was, for the report.")] = 0
    index: ImportedIndex | None = None


class ImportPartRequest(Shape):
    """A part of what somebody brings from elsewhere."""

    items: Annotated[list[ImportedItem], Meta(max_length=MAX_IMPORT)]
    what: (
        Annotated[
            str,
            Meta(
                max_length=MAX_LABEL_CHARS,
                description="What it is, such as the name of a file; then it is on record, and can be taken back.",
            ),
        ]
        | None
    ) = None
    id: Annotated[Name, Meta(description="`import` of the part before, to go on with it.")] | None = None
    adopt: Annotated[bool, Meta(description="Make it all one's own.")] = False
    namespace: Annotated[Name, Meta(description="Where memories of OAMS go instead.")] | None = None
    restore: Annotated[bool, Meta(description="Also what was forgotten here.")] = False
    dry_run: Annotated[bool, Meta(description="Only say what would become of it.")] = False
