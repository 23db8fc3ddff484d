"""MemoryEntry, what a caller may send to become one, and MemoryListOptions.

An entry is a plain dict with exactly five fields: `id`, `content`, `tags`, `createdAt` and, if it ends, `expiresAt`.
Times are compared as whole milliseconds; the strings are kept as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from memoranda.encoding.json_text import is_unicode
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.standards.openwop.fields import CONTROL, check_integer, check_text, check_time, closed_object

Entry = dict[str, Any]
Rank = Literal["recency", "relevance"]

FIELDS: Final = ("id", "content", "tags", "createdAt", "expiresAt")
RANKS: Final[tuple[Rank, ...]] = ("recency", "relevance")

# memory-entry.schema.json.
MAX_ID_CHARS: Final = 1500
MAX_TAG_CHARS: Final = 256
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
    return found


def entry(
    *,
    id: str,  # noqa: A002
    content: str,
    tags: Iterable[str] = (),
    created: Instant,
    expires: Instant | None = None,
) -> Entry:
    """A checked entry. Tags that say nothing are dropped, as they should be on a write."""
    made: Entry = {"id": id, "content": content, "tags": kept_tags(tags), "createdAt": format_instant(created)}
    if expires is not None:
        made["expiresAt"] = format_instant(expires)
    return check_entry(made)


def created_of(found: Entry) -> Instant:
    """When a checked entry was created."""
    return parse_instant(found["createdAt"])


def expires_of(found: Entry) -> Instant | None:
    """When a checked entry ends, if it does."""
    return parse_instant(found["expiresAt"]) if "expiresAt" in found else None


def kept_tags(tags: Iterable[str]) -> list[str]:
    """Tags as they are written: "empty strings SHOULD be dropped on write"."""
    return [tag for tag in tags if tag]


# --- what a host sends to be put ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry to be: the host gives it its id and its time (RFC 0004)."""

    content: str
    tags: tuple[str, ...] = ()
    expires: Instant | None = None

    @classmethod
    def parse(cls, value: object, *, now: Instant | None = None) -> Self:
        """Read it from untrusted JSON. With `now`, an expiry that is already past is refused (RFC 0004 §E)."""
        fields = closed_object(value, ("content", "tags", "expiresAt"), "entry")
        if "content" not in fields:
            raise InvalidInput("entry.content is required")
        expires = check_time(fields["expiresAt"], "entry.expiresAt") if "expiresAt" in fields else None
        if expires is not None and now is not None and expires <= now:
            raise InvalidInput("entry.expiresAt is already past")
        return cls(
            content=check_content(fields["content"], "entry.content"),
            tags=tuple(kept_tags(check_tags(fields.get("tags", []), "entry.tags"))),
            expires=expires,
        )


# --- options of list ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """MemoryListOptions, with those of RFC 0113. `limit` is what will be answered at most, after our own bound."""

    limit: int = DEFAULT_LIMIT
    tag: str | None = None
    token_budget: int | None = None
    rank: Rank = "recency"
    query: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read options from untrusted JSON; no options at all are fine."""
        fields = closed_object({} if value is None else value, _OPTIONS, "options")
        rank = fields.get("rank", "recency")
        if rank not in RANKS:
            raise InvalidInput('options.rank must be "recency" or "relevance"')
        if rank == "relevance" and "query" not in fields:
            raise InvalidInput("options.query is required with rank relevance")
        limit = check_integer(fields.get("limit", 0), "options.limit", least=0)
        return cls(
            # 0 is the same as absent.
            limit=min(limit, MAX_LIMIT) or DEFAULT_LIMIT,
            tag=check_text(fields["tag"], "options.tag", MAX_TAG_CHARS) if "tag" in fields else None,
            token_budget=(
                check_integer(fields["tokenBudget"], "options.tokenBudget", least=1)
                if "tokenBudget" in fields
                else None
            ),
            rank=rank,
            query=check_text(fields["query"], "options.query", MAX_QUERY_CHARS) if "query" in fields else None,
        )

    @classmethod
    def parse_query(cls, parameters: Mapping[str, str]) -> Self:
        """The same from a query string, where numbers are text."""
        fields: dict[str, object] = dict(parameters)
        for name in ("limit", "tokenBudget"):
            text = parameters.get(name)
            if text is not None:
                if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
                    raise InvalidInput(f"options.{name} must be a whole number")
                fields[name] = int(text)
        return cls.parse(fields)


_OPTIONS: Final = ("limit", "tag", "tokenBudget", "rank", "query")
_MAX_DIGITS: Final = 15


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
