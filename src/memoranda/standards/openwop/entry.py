"""MemoryEntry, what a caller may send to become one, and MemoryListOptions.

An entry is a plain dict with exactly five fields: `id`, `content`, `tags`, `createdAt` and, if it ends, `expiresAt`.
Times are compared as whole milliseconds; the strings are kept as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, NotRequired, Self, TypedDict, cast

from msgspec import Meta, field

from memoranda.encoding.json_text import is_unicode
from memoranda.encoding.shapes import Custom, Schema, read
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import Instant, Moment, format_instant, parse_instant
from memoranda.standards.openwop.fields import (
    CONTROL,
    OpenwopShape,
    chars,
    check_integer,
    check_text,
    check_time,
    closed_object,
)


class Entry(TypedDict):
    """A MemoryEntry: closed, so nothing else can be in it (memory-entry.schema.json)."""

    id: str
    content: str
    tags: list[str]
    createdAt: str
    expiresAt: NotRequired[str]


Rank = Literal["recency", "relevance"]

FIELDS: Final = ("id", "content", "tags", "createdAt", "expiresAt")

# memory-entry.schema.json.
MAX_ID_CHARS: Final = 1500
MAX_TAG_CHARS: Final = 256
# The tag of an archive of a distillation, with the digest of what it says.
ARCHIVE_TAG: Final = "archive:"
# Advertised as `memory.maxEntrySizeBytes`: content is read whole into a model's context; a mebibyte is a thick book.
MAX_CONTENT_BYTES: Final = 1_048_576
# Labels for filtering, each an index entry.
MAX_TAGS: Final = 256
# The adapter's usual cap: what `list` answers when nobody says how many.
DEFAULT_LIMIT: Final = 100
# Options: "the host MAY further bound". A page that is rendered in memory.
MAX_LIMIT: Final = 1000
# RFC 0113.
MAX_QUERY_CHARS: Final = 4096


# --- entries -----------------------------------------------------------------------------------------


def check_entry(value: object) -> Entry:
    """An entry from untrusted JSON, as it was given. Raises InvalidInput that names the field."""
    found = closed_object(value, FIELDS, "entry")
    for name in ("id", "content", "tags", "createdAt"):
        if name not in found:
            raise InvalidInput(f"entry.{name} is required")
    check_id(found["id"], "entry.id")
    check_content(found["content"], "entry.content")
    check_tags(found["tags"], "entry.tags")
    check_time(found["createdAt"], "entry.createdAt")
    if "expiresAt" in found:
        check_time(found["expiresAt"], "entry.expiresAt")
    return cast(Entry, found)


def entry(
    *,
    id: str,  # noqa: A002
    content: str,
    tags: Iterable[str] = (),
    created: Instant,
    expires: Instant | None = None,
) -> Entry:
    """A checked entry. Tags that say nothing are dropped, as they should be on a write."""
    made: Entry = {"id": id, "content": content, "tags": without_empty(tags), "createdAt": format_instant(created)}
    if expires is not None:
        made["expiresAt"] = format_instant(expires)
    return check_entry(made)


def created_of(found: Entry) -> Instant:
    """When a checked entry was created."""
    return parse_instant(found["createdAt"])


def expires_of(found: Entry) -> Instant | None:
    """When a checked entry ends, if it does."""
    return parse_instant(found["expiresAt"]) if "expiresAt" in found else None


def is_archive(tags: Iterable[str]) -> bool:
    """Whether tags are those of an archive of a distillation, which never changes."""
    return any(tag.startswith(ARCHIVE_TAG) for tag in tags)


def without_empty(tags: Iterable[str]) -> list[str]:
    """Tags as they are written: "empty strings SHOULD be dropped on write"."""
    return [tag for tag in tags if tag]


# --- what a host sends to be put ---------------------------------------------------------------------

if TYPE_CHECKING:
    Tags = tuple[str, ...]
    PageLimit = int
else:

    class Tags(Custom):
        """Labels; those that say nothing are dropped."""

        EXPECTED: ClassVar[str] = f"an array of at most {MAX_TAGS} strings"
        SCHEMA: ClassVar[Schema] = {"type": "array", "items": {"type": "string", "maxLength": MAX_TAG_CHARS}}

        @classmethod
        def from_json(cls, value: object) -> tuple[str, ...]:
            return tuple(without_empty(check_tags(value, "tags")))

    Tags.register(tuple)

    class PageLimit(int):
        """How many are answered at most."""

        EXPECTED: ClassVar[str] = "an integer of at least 0"
        SCHEMA: ClassVar[Schema] = {"type": "integer", "minimum": 0}

        @classmethod
        def from_json(cls, value: object) -> PageLimit:
            # 0 is the same as absent.
            return cls(min(check_integer(value, "limit", least=0), MAX_LIMIT) or DEFAULT_LIMIT)


class Draft(OpenwopShape):
    """An entry to be: the host gives it its id and its time (RFC 0004)."""

    content: Annotated[str, Meta(description="At most a mebibyte of UTF-8.")]
    tags: Tags = ()
    expires: Annotated[Moment, Meta(description="Never shown from this very millisecond on.")] | None = field(
        default=None, name="expiresAt"
    )

    def __post_init__(self) -> None:
        check_content(self.content, "content")

    @classmethod
    def parse(cls, value: object, *, now: Instant | None = None) -> Self:
        """Read it from untrusted JSON. With `now`, an expiry that is already past is refused (RFC 0004 §E)."""
        draft = read(value, cls)
        if draft.expires is not None and now is not None and draft.expires <= now:
            raise InvalidInput("expiresAt is already past")
        return draft


# --- options of list ---------------------------------------------------------------------------------


class ListOptions(OpenwopShape):
    """MemoryListOptions, with those of RFC 0113. `limit` is what will be answered at most, after our own bound."""

    limit: Annotated[
        PageLimit, Meta(description=f"0 or none is {DEFAULT_LIMIT}, more than {MAX_LIMIT} is {MAX_LIMIT}.")
    ] = DEFAULT_LIMIT
    tag: Annotated[str, chars(MAX_TAG_CHARS, "Only entries with this tag.")] | None = None
    token_budget: (
        Annotated[int, Meta(ge=1, description="As many as fit; one that alone does not is left out.")] | None
    ) = None
    rank: Annotated[Rank, Meta(description="By time, or with `query` by relevance.")] = "recency"
    query: Annotated[str, chars(MAX_QUERY_CHARS, "What is looked for.")] | None = None

    def __post_init__(self) -> None:
        if self.rank == "relevance" and self.query is None:
            raise InvalidInput("query is required with rank relevance")

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read options from untrusted JSON; no options at all are fine."""
        given = {} if value is None else value
        try:
            if isinstance(given, dict) and (absent := [name for name in given if given[name] is None]):
                raise InvalidInput(f"{absent[0][:40]!a} must not be null")
            return read(given, cls)
        except InvalidInput as error:
            raise InvalidInput(f"options: {error.message}") from None


def within_budget(entries: Iterable[Entry], token_budget: int, count: Callable[[str], int]) -> list[Entry]:
    """The longest prefix of the ranked entries that stays within the budget (RFC 0113).

    One that alone is over the budget is left out whole, never cut, and does not end the prefix.
    """
    kept: list[Entry] = []
    left = token_budget
    for each in entries:
        tokens = count(each["content"])
        if tokens > token_budget:
            continue
        if tokens > left:
            break
        kept.append(each)
        left -= tokens
    return kept


# --- fields of an entry ------------------------------------------------------------------------------


def check_id(value: object, where: str) -> str:
    """An id; hosts issue them, and ours have no control characters."""
    text = check_text(value, where, MAX_ID_CHARS)
    if CONTROL.search(text):
        raise InvalidInput(f"{where} must have no control character")
    return text


def check_content(value: object, where: str) -> str:
    """A body: any text up to the advertised size."""
    if not isinstance(value, str):
        raise InvalidInput(f"{where} must be a string")
    try:
        size_bytes = len(value) if value.isascii() else len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidInput(f"{where} must have no lone surrogate") from None
    if size_bytes > MAX_CONTENT_BYTES:
        # RFC 0004: above memory.maxEntrySizeBytes SHOULD be refused with validation_error.
        raise TooLarge(f"{where} has {size_bytes} bytes; the limit is {MAX_CONTENT_BYTES}")
    return value


def check_tags(value: object, where: str) -> list[str]:
    """An array of tags; empty ones are tolerated."""
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise InvalidInput(f"{where} must be an array of at most {MAX_TAGS} strings")
    for index, tag in enumerate(value):
        if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS or not is_unicode(tag):
            raise InvalidInput(f"{where}[{index}] must be a string of at most {MAX_TAG_CHARS} characters")
    return value
