"""The parts that all importers share: the interface, drafts of memories, and readers of unchecked documents.

An `Importer` reads a `Source` as a stream of drafts; `build_memory` turns each draft into a memory of OAMS, in the same
way for all systems. The original document is kept in the memory's metadata, so nothing that a draft leaves out is lost.

To write an importer: a function that says how sure it is that a source is of its system (0 to 1), a function that
yields drafts, and the table of fields for the documentation; then add it to `registry.py`, and a sample file to
`tests/samples`. Never guess: a field that means something else here is left in the original document. Never stop at a
bad document: yield `Unreadable` and go on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from memoranda.bindings.files.importers.source import ImportSource
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
from memoranda.standards.oms.manifest import IndexState

# The metadata field with the origin of a memory: the system, the id there, and the original document.
ORIGIN_KEY: Final = "imported_from"
# The field in which our exports keep the project, for systems that have no field of their own.
PROJECT_KEY: Final = "memoranda:project"
# From this number on a time is in milliseconds: as seconds since 1970 it would be after the year 5138.
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
    """A memory of another system, in fields that all importers share.

    Only `where`, `id`, `text` and `original` are needed. `id` must be the same in every export of the system, because
    importing again recognises memories by it.
    """

    # The position in the source, for messages.
    where: str
    # The id in the other system, which stays the same in later exports.
    id: str
    text: str
    # The original document.
    original: object
    # The user that the memory belongs to; empty if the system has only one.
    user: str = ""
    # The scope of the namespace: a session, a project or a folder; by default the name of the system.
    scope: str = ""
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
    # The id of the memory that this one was made from; and another origin, such as a file.
    parent: str = ""
    source: str = ""
    # The ids of all memories that this one was made from, if there are several.
    inputs: Sequence[str] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class ImportGrain(msgspec.Struct, kw_only=True, frozen=True):
    """A grain of another system, which is imported as what it is."""

    where: str
    delivery: bytes
    index: IndexState
    # Its address in the other system, if its bytes had to be written again.
    alias: str = ""
    user: str = ""


class Unreadable(msgspec.Struct, frozen=True):
    """The position and the error of a document that cannot be imported."""

    where: str
    error: MemorandaError


DraftResult = ImportDraft | ImportGrain | Unreadable


class FieldMapping(NamedTuple):
    """The target of a field: a line of the table in the documentation."""

    theirs: str
    ours: str


class Importer(NamedTuple):
    """The reader of memories of one system."""

    # The name for `--format`, and the name for people.
    name: str
    title: str
    # Returns the probability that a source is of this system, from 0 to 1.
    recognise: Callable[[ImportSource], float]
    read_drafts: Callable[[ImportSource], Iterator[DraftResult]]
    mapping: tuple[FieldMapping, ...]
    # True if its memories are grains, which keep their namespaces.
    has_grains: bool = False


class Survey(NamedTuple):
    """The counts of the contents of a source."""

    memories: int
    users: int
    unreadable: int

    @classmethod
    def of(cls, results: Iterator[DraftResult]) -> Survey:
        memories, unreadable, users = 0, 0, set[str]()
        for result in results:
            if isinstance(result, Unreadable):
                unreadable += 1
            else:
                memories += 1
                users.add(result.user)
        return cls(memories, len(users - {""}), unreadable)


def build_memory(draft: ImportDraft, system: str, own_hash: str) -> Memory:
    """Return a draft as a memory of OAMS; `own_hash` is the owner hash of the importing owner, used without a user.

    OAMS 7: what the other system calls a user is the owner of its namespace.

    Raises InvalidInput if nothing tells when the memory was written; importers then state the time of the file.
    """
    origin = {"system": system, "id": draft.id, "document": draft.original}
    times = {
        VALID_FROM_KEY: draft.valid_from,
        VALID_TO_KEY: draft.valid_to,
        EXPIRES_KEY: draft.expires,
    }
    metadata: dict[str, object] = {
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
        raise InvalidInput("the time of writing is missing")
    created = format_instant(draft.created)
    namespace = (
        f"{_namespace_owner(draft.user) or own_hash}:{_namespace_scope(draft.scope or system)}"
    )
    if draft.inputs:
        metadata["dream_inputs"] = [
            [namespace, memory_key(input_name)] for input_name in draft.inputs
        ]
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
    """Return an id as a key of OAMS: the id, or its digest if it cannot be a key.

    A key in OAMS is limited in length and characters; other ids become digests.
    """
    if 0 < len(name) <= MAX_KEY_CHARS and not _CONTROL.search(name) and json_text.is_unicode(name):
        return name
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _namespace_owner(user: str) -> str:
    """Return a user as the owner of a namespace, percent-encoded where needed."""
    return _escape_name(user, MAX_OWNER_CHARS)


def _namespace_scope(scope: str) -> str:
    return _escape_name(scope, MAX_SCOPE_CHARS)


def unescape_name(name: str) -> str:
    """Return the name that a part of a namespace stands for: without percent-encoding that we added."""
    plain_name = (
        unquote(name, errors="strict") if "%" in name and _PERCENT.fullmatch(name) else name
    )
    return plain_name if _escape_name(plain_name, MAX_SCOPE_CHARS) == name else name


def _escape_name(name: str, limit: int) -> str:
    fit = _UNFIT.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), name
    )
    fit = fit.encode("utf-8", "replace").decode("utf-8")
    # A name that looks like the owner hash of a store would be taken for one.
    is_reserved = fit.startswith("o-")
    if len(fit) <= limit and not is_reserved:
        return fit
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def valid_tags(values: Sequence[object]) -> list[str]:
    """Return the tags without duplicates, empty and too long ones; the original document keeps all."""
    texts = (tag.strip() for tag in values if isinstance(tag, str))
    return [tag for tag in dict.fromkeys(texts) if 0 < len(tag) <= MAX_TAG_CHARS][:MAX_TAGS]


# --- reading unchecked documents -------------------------------------------------------------------------------------


def read_drafts(
    documents: Iterable[tuple[str, object]], draft: Callable[[dict[str, Any], str], ImportDraft]
) -> Iterator[DraftResult]:
    """Yield the drafts of documents with their positions; for an invalid document its position and error.

    An invalid document is yielded as an error and never raised, so the documents after it are still read.
    """
    for location, document in documents:
        try:
            if isinstance(document, MemorandaError):
                raise document
            if not isinstance(document, dict):
                raise InvalidInput("not an object")
            yield draft(document, location)
        except MemorandaError as error:
            yield Unreadable(location, error)


def draft_turn(
    message: dict[str, object],
    location: str,
    *,
    name: str,
    speaker: str,
    text: str,
    session: str,
    created: Instant,
    **metadata: str,
) -> ImportDraft:
    """Return the draft for one message of a conversation; empty values of `metadata` are left out."""
    return ImportDraft(
        where=location,
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
    kind = document.get(name)
    return next((memory_kind for memory_kind in KINDS if memory_kind == kind), "semantic")


def read_share(document: Any, name: str) -> float | None:
    """Return a field that is a number from 0 to 1."""
    share = document.get(name)
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    return float(share) if is_number and 0 <= share <= 1 else None


def read_object(document: Any, name: str) -> dict[str, object]:
    """Return a field that is an object; an empty one for any other value."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def join_blocks(content: object) -> str:
    """Return the text of a message: a text, or the joined texts of its blocks, without images and the like."""
    blocks = content if isinstance(content, list) else [content]
    texts = (read_text(block, "text") if isinstance(block, dict) else block for block in blocks)
    return "\n\n".join(block for block in texts if isinstance(block, str) and block.strip())


def read_texts(document: Any, name: str) -> list[str]:
    """Return the non-empty texts in a field that is a list."""
    values = document.get(name)
    return (
        [value for value in values if isinstance(value, str) and value.strip()]
        if isinstance(values, list)
        else []
    )


def read_text(document: Any, *names: str) -> str:
    """Return the first of some fields that is a non-empty text; else an empty text."""
    for name in names:
        value = document.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def read_moment(document: Any, *names: str) -> Instant | None:
    """Return the first of some fields that is a time; else None."""
    return next(
        (instant for name in names if (instant := parse_moment(document.get(name))) is not None),
        None,
    )


def first_moment(*moments: Instant | None) -> Instant:
    """Return the first that is not None; the last one never is. (0, the start of 1970, is a time, too.)"""
    first = next((candidate for candidate in moments if candidate is not None), None)
    assert first is not None
    return first


def parse_moment(value: object) -> Instant | None:
    """Return a time as systems write it; None for anything else.

    It may be RFC 3339, the same without an offset (UTC), or seconds or milliseconds since 1970.

    Numbers below 100 billion are seconds, others milliseconds.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        milliseconds = value if abs(value) >= _MILLISECONDS else value * 1_000
        # A number out of the range of a calendar is no time.
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
