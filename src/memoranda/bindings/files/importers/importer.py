"""What an importer is, what it reads, and how that becomes a memory of OAMS: one way for all systems."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from memoranda.bindings.files.importers.source import Source
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import EARLIEST, LATEST, Instant, format_instant, parse_instant
from memoranda.model.memory import KINDS, Kind
from memoranda.standards.oams.memory import (
    AGENT_KEY,
    EXPIRES_KEY,
    KIND_KEY,
    MAX_KEY_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    SESSION_KEY,
    VALID_FROM_KEY,
    VALID_TO_KEY,
    Memory,
)
from memoranda.standards.oams.namespace import MAX_OWNER_CHARS, MAX_SCOPE_CHARS

# Under which a memory says where it came from: the system, what it was called there, and all that was said of it.
ORIGIN_KEY: Final = "imported_from"
# Under which our exports tell a system its project, where the system has no word for that.
PROJECT_KEY: Final = "memoranda:project"
# From this number on, seconds since 1970 would be in the year 5138: so these are milliseconds.
_MILLISECONDS: Final = 100_000_000_000
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f-\x9f/:%\s]")
_PERCENT: Final = re.compile(r"(?:[^%]|%[0-9A-F]{2})*+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# RFC 3339 but for a space instead of the T, a missing offset, or an offset without its colon.
_LOOSE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))?)?\s*(Z|[+-]\d\d:?(?:\d\d)?)?",
    re.ASCII,
)


class ImportDraft(msgspec.Struct, kw_only=True, frozen=True):
    """What another system remembered."""

    # Where it stood in the source.
    where: str
    # What its system calls it: the same in a later export.
    id: str
    text: str
    # The document as it came.
    original: Any
    # Whose it is, if its system tells users apart.
    user: str = ""
    # Which of theirs: a session, a project, a folder; the system itself where it does not tell.
    place: str = ""
    session: str = ""
    agent: str = ""
    kind: Kind = "semantic"
    tags: Sequence[str] = ()
    created: Instant | None = None
    updated: Instant | None = None
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    expires: Instant | None = None
    confidence: float | None = None
    # The id of the memory that this one was made from, and whatever else it is made from that is no memory.
    parent: str = ""
    source: str = ""
    # All that it was made from, where that is more than one.
    inputs: Sequence[str] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class Unreadable(msgspec.Struct, frozen=True):
    """What stood in a source and cannot be taken in."""

    where: str
    error: MemorandaError


DraftResult = ImportDraft | Unreadable


class FieldMapping(NamedTuple):
    """What becomes of a field: a line of the table in the documentation."""

    theirs: str
    ours: str


class Importer(NamedTuple):
    """How memories of one system are read."""

    # What `--format` calls it, and people.
    name: str
    title: str
    # How sure it is that a source is one of these, from 0 to 1.
    recognise: Callable[[Source], float]
    read: Callable[[Source], Iterator[DraftResult]]
    mapping: tuple[FieldMapping, ...]


class Survey(NamedTuple):
    """What a source holds."""

    memories: int
    users: int
    unreadable: int

    @classmethod
    def of(cls, results: Iterator[DraftResult]) -> Survey:
        memories, unreadable, users = 0, 0, set[str]()
        for each in results:
            if isinstance(each, ImportDraft):
                memories += 1
                users.add(each.user)
            else:
                unreadable += 1
        return cls(memories, len(users - {""}), unreadable)


def build_memory(draft: ImportDraft, system: str, own: str) -> Memory:
    """A draft as a memory of OAMS; `own` is the owner hash of whoever takes in what belongs to no user.

    OAMS 7: what the other system calls a user is the owner of its namespace.
    """
    origin = {"system": system, "id": draft.id, "document": draft.original}
    times = {
        VALID_FROM_KEY: draft.valid_from,
        VALID_TO_KEY: draft.valid_to,
        EXPIRES_KEY: draft.expires,
    }
    metadata: dict[str, Any] = {
        **({} if draft.kind == "semantic" else {KIND_KEY: draft.kind}),
        **({SESSION_KEY: draft.session} if draft.session else {}),
        **({AGENT_KEY: draft.agent} if draft.agent else {}),
        **{name: format_instant(at) for name, at in times.items() if at is not None},
        **(
            {} if draft.confidence is None else {"confidence": min(1.0, max(0.0, draft.confidence))}
        ),
        **draft.metadata,
        ORIGIN_KEY: origin,
    }
    if draft.created is None:
        raise InvalidInput("nothing tells when it was written")
    created = format_instant(draft.created)
    namespace = f"{_namespace_owner(draft.user) or own}:{_namespace_scope(draft.place or system)}"
    if draft.inputs:
        metadata["dream_inputs"] = [[namespace, memory_key(each)] for each in draft.inputs]
    memory: Memory = {
        "key": memory_key(draft.id),
        "namespace": namespace,
        "value": draft.text,
        "metadata": metadata,
        "created_at": created,
        "updated_at": created
        if draft.updated is None
        else format_instant(max(draft.created, draft.updated)),
    }
    if tags := valid_tags(draft.tags):
        memory["tags"] = tags
    if draft.parent:
        memory["parent_id"] = memory_key(draft.parent)
    if draft.source:
        memory["source_id"] = draft.source
    return memory


def memory_key(name: str) -> str:
    """What a memory is called, as a key; a name that is none is known by its digest."""
    if 0 < len(name) <= MAX_KEY_CHARS and not _CONTROL.search(name) and json_text.is_unicode(name):
        return name
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _namespace_owner(user: str) -> str:
    """A user as the owner of a namespace, which has no space, slash or colon."""
    return _escape_name(user, MAX_OWNER_CHARS)


def _namespace_scope(place: str) -> str:
    return _escape_name(place, MAX_SCOPE_CHARS)


def unescape_name(name: str) -> str:
    """What stands for itself in a part of a namespace, as its system calls it."""
    plain = unquote(name, errors="strict") if "%" in name and _PERCENT.fullmatch(name) else name
    return plain if _escape_name(plain, MAX_SCOPE_CHARS) == name else name


def _escape_name(name: str, most: int) -> str:
    fit = _UNFIT.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), name
    )
    fit = fit.encode("utf-8", "replace").decode("utf-8")
    # One that looks like the owner hash of a store would be taken for it.
    is_reserved = fit.startswith("o-")
    if len(fit) <= most and not is_reserved:
        return fit
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def valid_tags(values: Sequence[object]) -> list[str]:
    """Tags, each once; what is too long or empty is none, for the original document keeps it."""
    texts = (each.strip() for each in values if isinstance(each, str))
    return [each for each in dict.fromkeys(texts) if 0 < len(each) <= MAX_TAG_CHARS][:MAX_TAGS]


# --- reading documents that nobody checked ---------------------------------------------------------------------------


def read_drafts(
    documents: Iterable[tuple[str, Any]], draft: Callable[[dict[str, Any], str], ImportDraft]
) -> Iterator[DraftResult]:
    """What some documents say; one that is no object, or that `draft` refuses, is told with its place."""
    for where, document in documents:
        try:
            if isinstance(document, MemorandaError):
                raise document
            if not isinstance(document, dict):
                raise InvalidInput("not an object")
            yield draft(document, where)
        except MemorandaError as error:
            yield Unreadable(where, error)


def draft_turn(
    message: dict[str, Any],
    where: str,
    *,
    name: str,
    speaker: str,
    text: str,
    session: str,
    created: Instant,
    **metadata: str,
) -> ImportDraft:
    """What somebody said in a conversation; of `said`, what says something."""
    return ImportDraft(
        where=where,
        id=name,
        text=f"{speaker}: {text}",
        original=message,
        session=session,
        kind="episodic",
        created=created,
        metadata={name: value for name, value in metadata.items() if value},
    )


def read_kind(document: Any, name: str) -> Kind:
    """Return the kind of memory that a field names; semantic, if it names none."""
    found = document.get(name)
    return next((known for known in KINDS if known == found), "semantic")


def read_share(document: Any, name: str) -> float | None:
    """Return a field that is a number from 0 to 1."""
    found = document.get(name)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number and 0 <= found <= 1 else None


def read_object(document: Any, name: str) -> dict[str, Any]:
    """A field that is an object; an empty one where it is none."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def join_blocks(content: Any) -> str:
    """What a message says: a text, or the texts among its blocks; images and the like are left to the original."""
    blocks = content if isinstance(content, list) else [content]
    texts = (read_text(each, "text") if isinstance(each, dict) else each for each in blocks)
    return "\n\n".join(each for each in texts if isinstance(each, str) and each.strip())


def read_texts(document: Any, name: str) -> list[str]:
    """The texts of a list."""
    found = document.get(name)
    return (
        [each for each in found if isinstance(each, str) and each.strip()]
        if isinstance(found, list)
        else []
    )


def read_text(document: Any, *names: str) -> str:
    """The first of some fields that is a text and says something."""
    for name in names:
        value = document.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def read_moment(document: Any, *names: str) -> Instant | None:
    """The first of some fields that is a time."""
    return next(
        (found for name in names if (found := parse_moment(document.get(name))) is not None), None
    )


def first_moment(*moments: Instant | None) -> Instant:
    """The first that is a time, and be it the beginning of 1970; the last always is one."""
    found = next((each for each in moments if each is not None), None)
    assert found is not None
    return found


def parse_moment(value: Any) -> Instant | None:
    """Return a time as systems write it; None for anything else.

    It may be RFC 3339, the same without an offset (UTC), or seconds or milliseconds since 1970.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        milliseconds = value if abs(value) >= _MILLISECONDS else value * 1_000
        # A number that no calendar reaches is no time: it counts something else.
        return Instant(int(milliseconds)) if EARLIEST <= milliseconds <= LATEST else None
    match = _LOOSE.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= 40 else None
    if match is None:
        return None
    day, clock, fraction, offset = match.groups()
    clock = f"{clock}:00" if clock and len(clock) == 5 else clock or "00:00:00"
    offset = offset or "Z"
    if offset != "Z":
        digits = offset[1:].replace(":", "").ljust(4, "0")
        offset = f"{offset[0]}{digits[:2]}:{digits[2:]}"
    try:
        return parse_instant(f"{day}T{clock}{f'.{fraction}' if fraction else ''}{offset}")
    except ValueError:
        return None
