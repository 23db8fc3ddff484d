"""MemoryEntry, drafts of entries, and MemoryListOptions.

An entry is a plain dict with exactly five fields: `id`, `content`, `tags`, `createdAt` and optionally `expiresAt`.
Times are compared in whole milliseconds; the strings are stored as received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    Final,
    Literal,
    NotRequired,
    Self,
    TypedDict,
    cast,
)

from msgspec import Meta, field

from memoranda.encoding.json_text import is_unicode
from memoranda.encoding.shapes import Custom, Schema, parse_value
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import Instant, Moment, format_instant, parse_instant
from memoranda.standards.openwop.fields import (
    CONTROL,
    OpenwopShape,
    check_closed_object,
    check_integer,
    check_text,
    check_time,
    text_limit,
)


class Entry(TypedDict):
    """A MemoryEntry (memory-entry.schema.json). The schema is closed: no further fields."""

    id: str
    content: str
    tags: list[str]
    createdAt: str
    expiresAt: NotRequired[str]


Rank = Literal["recency", "relevance"]

FIELDS: Final = ("id", "content", "tags", "createdAt", "expiresAt")

# Characters; memory-entry.schema.json.
MAX_ID_CHARS: Final = 1500
MAX_TAG_CHARS: Final = 256
# Prefix of the tag of a distillation's archive; a digest of its content follows.
ARCHIVE_TAG: Final = "archive:"
# Bytes, advertised as `memory.maxEntrySizeBytes`. Content is read completely into a model's context, and a mebibyte is
# a thick book.
MAX_CONTENT_BYTES: Final = 1_048_576
# Tags per entry; each tag is an index entry.
MAX_TAGS: Final = 256
# Entries that `list` returns by default.
DEFAULT_LIMIT: Final = 100
# Entries per page, which is rendered in memory. Options: "the host MAY further bound".
MAX_LIMIT: Final = 1000
# Characters; RFC 0113.
MAX_QUERY_CHARS: Final = 4096


# --- entries -----------------------------------------------------------------------------------------


def check_entry(value: object) -> Entry:
    """Check an entry from untrusted JSON and return it unchanged. Raises InvalidInput that names the field."""
    entry = check_closed_object(value, FIELDS, "entry")
    for name in ("id", "content", "tags", "createdAt"):
        if name not in entry:
            raise InvalidInput(f"entry.{name} is required")
    check_id(entry["id"], "entry.id")
    check_content(entry["content"], "entry.content")
    check_tags(entry["tags"], "entry.tags")
    check_time(entry["createdAt"], "entry.createdAt")
    if "expiresAt" in entry:
        check_time(entry["expiresAt"], "entry.expiresAt")
    return cast(Entry, entry)


def build_entry(
    *,
    id: str,  # noqa: A002
    content: str,
    tags: Iterable[str] = (),
    created: Instant,
    expires: Instant | None = None,
) -> Entry:
    """Build a checked entry. Empty tags are dropped."""
    draft: Entry = {
        "id": id,
        "content": content,
        "tags": drop_empty_tags(tags),
        "createdAt": format_instant(created),
    }
    if expires is not None:
        draft["expiresAt"] = format_instant(expires)
    return check_entry(draft)


def created_of(entry: Entry) -> Instant:
    """Return the creation time of a checked entry."""
    return parse_instant(entry["createdAt"])


def expires_of(entry: Entry) -> Instant | None:
    """Return the expiry of a checked entry, or None."""
    return parse_instant(entry["expiresAt"]) if "expiresAt" in entry else None


def is_archive(tags: Iterable[str]) -> bool:
    """Return True if the tags mark an archive of a distillation, which never changes."""
    return any(tag.startswith(ARCHIVE_TAG) for tag in tags)


def drop_empty_tags(tags: Iterable[str]) -> list[str]:
    """Return the tags without empty ones: "empty strings SHOULD be dropped on write"."""
    return [tag for tag in tags if tag]


# --- what a host sends to be put ---------------------------------------------------------------------

if TYPE_CHECKING:
    Tags = tuple[str, ...]
    PageLimit = int
else:

    class Tags(Custom):
        """The tags of an entry; empty ones are dropped."""

        EXPECTED: ClassVar[str] = f"an array of at most {MAX_TAGS} strings"
        SCHEMA: ClassVar[Schema] = {
            "type": "array",
            "items": {"type": "string", "maxLength": MAX_TAG_CHARS},
        }

        @classmethod
        def from_json(cls, value: object) -> tuple[str, ...]:
            """Check an array of tags. Raises InvalidInput."""
            return tuple(drop_empty_tags(check_tags(value, "tags")))

    Tags.register(tuple)

    class PageLimit(int):
        """The maximum number of entries per page."""

        EXPECTED: ClassVar[str] = "an integer of at least 0"
        SCHEMA: ClassVar[Schema] = {"type": "integer", "minimum": 0}

        @classmethod
        def from_json(cls, value: object) -> PageLimit:
            """Check a limit and apply the default and our maximum. Raises InvalidInput."""
            # 0 is the same as absent.
            return cls(min(check_integer(value, "limit", least=0), MAX_LIMIT) or DEFAULT_LIMIT)


class Draft(OpenwopShape):
    """An entry to write; the host assigns its id and time (RFC 0004)."""

    content: Annotated[str, Meta(description="At most a mebibyte of UTF-8.")]
    tags: Tags = ()
    expires: (
        Annotated[Moment, Meta(description="The time from which the entry is no longer returned.")]
        | None
    ) = field(default=None, name="expiresAt")

    def __post_init__(self) -> None:
        check_content(self.content, "content")

    @classmethod
    def parse(cls, value: object, *, now: Instant | None = None) -> Self:
        """Parse a draft from untrusted JSON.

        With `now`, a past expiry is refused (RFC 0004 §E). Raises InvalidInput.
        """
        draft = parse_value(value, cls)
        if draft.expires is not None and now is not None and draft.expires <= now:
            raise InvalidInput("expiresAt is already past")
        return draft


# --- options of list ---------------------------------------------------------------------------------


class ListOptions(OpenwopShape):
    """MemoryListOptions, with those of RFC 0113. `limit` includes our own maximum."""

    limit: Annotated[
        PageLimit,
        Meta(
            description=f"Entries per page, at most {MAX_LIMIT}; default, also for 0: {DEFAULT_LIMIT}."
        ),
    ] = DEFAULT_LIMIT
    tag: Annotated[str, text_limit(MAX_TAG_CHARS, "Only entries with this tag.")] | None = None
    token_budget: (
        Annotated[
            int,
            Meta(ge=1, description="Maximum tokens; an entry that exceeds this alone is skipped."),
        ]
        | None
    ) = None
    rank: Annotated[Rank, Meta(description="The order: by time, or with `query` by relevance.")] = (
        "recency"
    )
    query: Annotated[str, text_limit(MAX_QUERY_CHARS, "The question or keywords.")] | None = None

    def __post_init__(self) -> None:
        if self.rank == "relevance" and self.query is None:
            raise InvalidInput("query is required with rank relevance")

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parse options from untrusted JSON; null stands for no options. Raises InvalidInput."""
        fields = {} if value is None else value
        try:
            null_names = (
                [name for name in fields if fields[name] is None]
                if isinstance(fields, dict)
                else []
            )
            if null_names:
                raise InvalidInput(f"{null_names[0][:40]!a} must not be null")
            return parse_value(fields, cls)
        except InvalidInput as error:
            raise InvalidInput(f"options: {error.message}") from None


def fit_budget(
    entries: Iterable[Entry], token_budget: int, count: Callable[[str], int]
) -> list[Entry]:
    """Return the longest prefix of the ranked entries that fits the budget (RFC 0113).

    An entry that exceeds the budget alone is skipped, never cut, and does not end the prefix.
    """
    fitting: list[Entry] = []
    remaining = token_budget
    for ranked in entries:
        tokens = count(ranked["content"])
        if tokens > token_budget:
            continue
        if tokens > remaining:
            break
        fitting.append(ranked)
        remaining -= tokens
    return fitting


# --- fields of an entry ------------------------------------------------------------------------------


def check_id(value: object, location: str) -> str:
    """Check an id and return it. Hosts issue ids; ours have no control characters. Raises InvalidInput."""
    text = check_text(value, location, MAX_ID_CHARS)
    if CONTROL.search(text):
        raise InvalidInput(f"{location} must have no control character")
    return text


def check_content(value: object, location: str) -> str:
    """Check the content, any text up to the advertised size, and return it. Raises InvalidInput or TooLarge."""
    if not isinstance(value, str):
        raise InvalidInput(f"{location} must be a string")
    try:
        size_bytes = len(value) if value.isascii() else len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidInput(f"{location} must have no lone surrogate") from None
    if size_bytes > MAX_CONTENT_BYTES:
        # RFC 0004: above memory.maxEntrySizeBytes SHOULD be refused with validation_error.
        raise TooLarge(f"{location} has {size_bytes} bytes; the limit is {MAX_CONTENT_BYTES}")
    return value


def check_tags(value: object, location: str) -> list[str]:
    """Check an array of tags and return it; empty tags are accepted. Raises InvalidInput."""
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise InvalidInput(f"{location} must be an array of at most {MAX_TAGS} strings")
    for index, tag in enumerate(value):
        if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS or not is_unicode(tag):
            raise InvalidInput(
                f"{location}[{index}] must be a string of at most {MAX_TAG_CHARS} characters"
            )
    return value
