"""The OAMS memory: its fields and limits, its times, and how the API shows it (sections 2, 3, 5 and 6).

A memory is a typed dictionary, kept as it was sent. Fields that we do not know are kept too, with a warning: a later
minor version may have added them (section 8). Two things are never kept: `metadata.score`, which an answer of RECALL
adds, and `metadata["memoranda:tags"]`, under which an answer gives tags as they were spelt.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict, cast, get_args

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import LATEST, Instant, format_instant, parse_instant
from memoranda.model.memory import KINDS, VISIBILITIES
from memoranda.model.native import CLAIMED_KEY, NATIVE_KEY
from memoranda.standards.oams.namespace import parse_namespace

Warnings = tuple[str, ...]

# Section 6.
Strategy = Literal[
    "synthesize",
    "pattern_extract",
    "insight_generate",
    "compress",
    "associate",
    "validate",
    "evolve",
    "forecast",
    "reflect",
]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
# And ours: what people stated in conversations.
STATEMENTS: Final = "vendor:statements"
Pass = Literal[Strategy, "vendor:statements"]
VENDOR_PREFIX: Final = "vendor:"
SCORE_KEY: Final = "score"
TAGS_KEY: Final = "memoranda:tags"
KIND_KEY: Final = "memoranda:kind"
VISIBILITY_KEY: Final = "memoranda:visibility"
EXPIRES_KEY: Final = "memoranda:expires_at"
VALID_FROM_KEY: Final = "memoranda:valid_from"
VALID_TO_KEY: Final = "memoranda:valid_to"
# The conversation that it was said in.
SESSION_KEY: Final = "memoranda:session"
# The agent that it was told to.
AGENT_KEY: Final = "memoranda:agent"
# Who wrote it, if that was not its owner; the store says so.
ACTOR_KEY: Final = "memoranda:actor"
# On what a pass made: a digest of what it read.
DREAM_KEY: Final = "memoranda:dream"

# A memory is read whole into a model's context; a mebibyte is a thick book.
MAX_VALUE_BYTES: Final = 1_048_576
# One memory as compact JSON: its value, its longest embedding and plenty of metadata. Shown as a grain (base64 inside
# four MiB) it still fits.
MAX_MEMORY_BYTES: Final = 2 * 1_048_576
# A memory of another standard carries its original in base64 beside its text.
MAX_VIEW_BYTES: Final = 4 * 1_048_576
# Keys are part of URLs and of index entries.
MAX_KEY_CHARS: Final = 1024
# Labels for filtering, each an index entry.
MAX_TAGS: Final = 256
MAX_TAG_CHARS: Final = 256
# The longest embeddings in use have 4096 numbers.
MAX_DIMENSIONS: Final = 8192
# URLs of up to 8 KiB are what servers accept.
MAX_REFERENCE_CHARS: Final = 8192
MAX_MODEL_CHARS: Final = 256
# The longest RFC 3339 time, with nine decimals and an offset, has 35.
_MAX_TIME_CHARS: Final = 40
_SHOWN_CHARS: Final = 40

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UTC: Final = ("Z", "z", "+00:00", "-00:00")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class Memory(TypedDict):
    """A memory that was checked (section 2). What is null is as good as missing; fields of later versions are kept."""

    key: str
    namespace: str
    value: str
    tags: NotRequired[list[str]]
    # Whatever a client keeps there, beside the reserved keys.
    metadata: NotRequired[dict[str, Any]]
    # The store's own memories have both.
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    embedding_model: NotRequired[str | None]
    embedding: NotRequired[list[float] | None]
    parent_id: NotRequired[str | None]
    source_id: NotRequired[str | None]


# What a file or a client says before anybody looked at it.
Unchecked = dict[str, Any]


# --- checking ----------------------------------------------------------------------------------------


def check(value: object, *, complete: bool) -> tuple[Memory, Warnings]:
    """A memory from untrusted JSON, and what is odd about it. Raises InvalidInput that names the field.

    `complete` asks for both times, as in files; without it they may be missing, as in STORE. The memory is the very
    object that was given if nothing had to be taken out of it.
    """
    if not isinstance(value, dict):
        raise InvalidInput("a memory must be an object")
    memory = _received(cast("Memory", value))
    warnings: list[str] = []
    for name in ("key", "namespace", "value"):
        # Section 2: a memory is valid if it has these.
        if memory.get(name) is None:
            raise InvalidInput(f"{name} is required")
    for name in ("created_at", "updated_at") if complete else ():
        if memory.get(name) is None:
            raise InvalidInput(f"{name} is required")
    for name, member in memory.items():
        checker = _CHECKERS.get(name)
        if checker is None:
            # Section 8: a minor version may add optional fields; existing implementations continue to interoperate.
            warnings.append(f"the field {_quoted(name)} is not in OAMS 0.1; it is kept")
        elif member is not None:
            checker(member, warnings)
        elif name not in _NULLABLE:
            warnings.append(f"{name} is null, which is read as not given")
    if memory.get("embedding") is not None and memory.get("embedding_model") is None:
        # Section 2: required if embedding is present.
        raise InvalidInput("embedding_model is required when there is an embedding")
    _check_relations(memory, warnings)
    _check_whole(memory)
    return memory, tuple(warnings)


def check_key(value: object) -> str:
    """A key: any characters but control characters."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_KEY_CHARS:
        raise InvalidInput(f"key must be a string of 1 to {MAX_KEY_CHARS} characters")
    if _CONTROL.search(value) or not json_text.is_unicode(value):
        raise InvalidInput("key must have no control character and no lone surrogate")
    return value


def utc_instant(value: object, where: str) -> Instant:
    """A time of section 2: RFC 3339, in UTC."""
    moment = instant(value, where)
    if not str(value).endswith(_UTC):
        raise InvalidInput(f"{where} must be in UTC: end it with Z")
    return moment


def instant(value: object, where: str) -> Instant:
    """A time with any offset."""
    try:
        if isinstance(value, str) and len(value) <= _MAX_TIME_CHARS:
            return parse_instant(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{where} must be an RFC 3339 time such as 2026-04-27T12:00:00Z")


def _received(value: Memory) -> Memory:
    """Without what only answers have, so that storing an answer stores what was stored before."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (SCORE_KEY in metadata or TAGS_KEY in metadata):
        return value
    kept = {name: member for name, member in metadata.items() if name != SCORE_KEY}
    changed: dict[str, Any] = {**value, "metadata": kept}
    spelt, tags = _strings(kept.get(TAGS_KEY)), _strings(value.get("tags"))
    if spelt is not None and tags is not None and lowered(spelt) == lowered(tags):
        del kept[TAGS_KEY]
        changed["tags"] = spelt
    if not kept:
        # Where an answer added metadata to a memory without any, there is none again.
        del changed["metadata"]
    return cast("Memory", changed)


def _strings(value: object) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _check_key(value: object, _: list[str]) -> None:
    check_key(value)


def _check_namespace(value: object, _: list[str]) -> None:
    parse_namespace(value)


def _check_value(value: object, _: list[str]) -> None:
    if not isinstance(value, str):
        # Section 2: Markdown is permitted; binary is not.
        raise InvalidInput("value must be a string")
    try:
        size_bytes = len(value) if value.isascii() else len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidInput("value must have no lone surrogate") from None
    if size_bytes > MAX_VALUE_BYTES:
        raise TooLarge(f"value has {size_bytes} bytes; the limit is {MAX_VALUE_BYTES}")


def _check_tags(value: object, _: list[str]) -> None:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise InvalidInput(f"tags must be an array of at most {MAX_TAGS} strings")
    for index, tag in enumerate(value):
        if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS:
            raise InvalidInput(f"tags[{index}] must be a string of at most {MAX_TAG_CHARS} characters")


def _check_created(value: object, _: list[str]) -> None:
    utc_instant(value, "created_at")


def _check_updated(value: object, _: list[str]) -> None:
    utc_instant(value, "updated_at")


def _check_model(value: object, _: list[str]) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_MODEL_CHARS:
        raise InvalidInput(f"embedding_model must be a string of 1 to {MAX_MODEL_CHARS} characters")


def _check_embedding(value: object, _: list[str]) -> None:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_DIMENSIONS:
        raise InvalidInput(f"embedding must be an array of 1 to {MAX_DIMENSIONS} numbers")
    for index, number in enumerate(value):
        if type(number) is not float and type(number) is not int:
            raise InvalidInput(f"embedding[{index}] must be a number")
    try:
        packed_vector(value)
        is_finite = all(map(math.isfinite, value))
    except (OverflowError, struct.error):
        is_finite = False
    if not is_finite:
        raise InvalidInput("embedding must hold finite numbers that fit float32")


def _check_parent(value: object, _: list[str]) -> None:
    _check_reference(value, "parent_id")


def _check_source(value: object, _: list[str]) -> None:
    # Section 5: preserved as-is, even if it cannot be resolved; so nothing is asked of its form.
    _check_reference(value, "source_id")


def _check_reference(value: object, where: str) -> None:
    if not isinstance(value, str) or len(value) > MAX_REFERENCE_CHARS:
        raise InvalidInput(f"{where} must be null or a string of at most {MAX_REFERENCE_CHARS} characters")


def _check_metadata(value: object, warnings: list[str]) -> None:
    if not isinstance(value, dict):
        raise InvalidInput("metadata must be an object")
    for name, (is_right, expected) in _RESERVED.items():
        member = value.get(name)
        if member is not None and not is_right(member):
            raise InvalidInput(f"metadata.{name} must be {expected}")
        if member is None and name in value:
            warnings.append(f"metadata.{name} is null, which is read as not given")
    if unknown := next((name for name in value if name.startswith(_PREFIX) and name not in _OURS), None):
        # Misspelt, it would mean nothing, and what it was to say would not hold.
        known = ", ".join(sorted(_OURS))
        raise InvalidInput(f"metadata.{_quoted(unknown)} means nothing here; of names that begin so there are {known}")
    if value.get("last_used_at") is not None:
        instant(value["last_used_at"], "metadata.last_used_at")
    _check_dream(value, warnings)


def _check_dream(metadata: Mapping[str, Any], warnings: list[str]) -> None:
    # Section 8: warn (not error) on unknown enum values.
    strategy = metadata.get("dream_strategy")
    if strategy is not None and not is_strategy(strategy):
        warnings.append(f"metadata.dream_strategy {_quoted(strategy)} is none of OAMS 0.1; it is kept")
    inputs = metadata.get("dream_inputs")
    if inputs is not None and not (isinstance(inputs, list) and all(pair_of(item) is not None for item in inputs)):
        warnings.append("metadata.dream_inputs should be an array of [namespace, key] pairs")
    run = metadata.get("dream_run_id")
    if run is not None and not (isinstance(run, str) and _UUID.fullmatch(run)):
        warnings.append("metadata.dream_run_id should be a UUID")


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# Section 2: the reserved keys of metadata.
def _is_instant(value: object) -> bool:
    try:
        instant(value, EXPIRES_KEY)
    except InvalidInput:
        return False
    return True


_PREFIX: Final = "memoranda:"
_OURS: Final = frozenset(
    (
        *(TAGS_KEY, KIND_KEY, VISIBILITY_KEY, EXPIRES_KEY, VALID_FROM_KEY, VALID_TO_KEY, ACTOR_KEY, DREAM_KEY),
        *(SESSION_KEY, AGENT_KEY, NATIVE_KEY, CLAIMED_KEY),
    )
)
_RESERVED: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "value_type": (_is_text, "a string"),
    "confidence": (_is_share, "a number from 0 to 1"),
    "decay_score": (_is_number, "a number"),
    "language": (_is_text, "a string"),
    "pii": (lambda value: isinstance(value, bool), "true or false"),
    # Our own: a misspelt one would mean that it is kept for ever, or seen by nobody.
    KIND_KEY: (KINDS.__contains__, f"one of {'|'.join(KINDS)}"),
    VISIBILITY_KEY: (VISIBILITIES.__contains__, f"one of {'|'.join(VISIBILITIES)}"),
    **dict.fromkeys(
        (ACTOR_KEY, SESSION_KEY, AGENT_KEY),
        (lambda value: isinstance(value, str) and 0 < len(value) <= MAX_REFERENCE_CHARS, "a name"),
    ),
    **dict.fromkeys(
        (EXPIRES_KEY, VALID_FROM_KEY, VALID_TO_KEY),
        (_is_instant, "an RFC 3339 time such as 2026-04-27T12:00:00Z"),
    ),
}
_CHECKERS: Final[dict[str, Callable[[object, list[str]], None]]] = {
    "key": _check_key,
    "namespace": _check_namespace,
    "value": _check_value,
    "tags": _check_tags,
    "metadata": _check_metadata,
    "created_at": _check_created,
    "updated_at": _check_updated,
    "embedding_model": _check_model,
    "embedding": _check_embedding,
    "parent_id": _check_parent,
    "source_id": _check_source,
}
_NULLABLE: Final = ("parent_id", "source_id")


def _check_relations(memory: Memory, warnings: list[str]) -> None:
    """What two fields say together."""
    created, updated = memory.get("created_at"), memory.get("updated_at")
    if created is not None and updated is not None and parse_instant(updated) < parse_instant(created):
        warnings.append("updated_at is before created_at")
    metadata = memory.get("metadata")
    if metadata and metadata.get("dream_strategy") is not None and memory.get("parent_id") is None:
        # Section 5: consolidated memories MUST set parent_id; a reader cannot make up for one that did not.
        warnings.append("a consolidated memory should have a parent_id")


def _check_whole(memory: Memory) -> None:
    data = json_text.dump(memory)
    metadata = memory.get("metadata")
    limit_bytes = MAX_VIEW_BYTES if metadata and NATIVE_KEY in metadata else MAX_MEMORY_BYTES
    if len(data) > limit_bytes:
        raise TooLarge(f"a memory of {len(data)} bytes is over the limit of {limit_bytes}")
    if data.count(b"{") + data.count(b"[") > json_text.MAX_DEPTH:
        # What comes inside a batch or a call was read with a few levels more than a line of an export may have.
        json_text.check_depth(data.decode("utf-8"))
    # What is no JSON number is written as null; a value from Python may hold one.
    if b"null" in data and not _is_finite(memory):
        raise InvalidInput("a memory must hold no number that is not finite")


def _is_finite(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif isinstance(item, float) and not math.isfinite(item):
            return False
    return True


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else type(value).__name__
    return ascii(text[:_SHOWN_CHARS])


# --- parts -------------------------------------------------------------------------------------------


def is_strategy(value: object) -> bool:
    """Whether the value is one of the nine strategies or a vendor's own (section 6)."""
    if not isinstance(value, str):
        return False
    return value in STRATEGIES or (value.startswith(VENDOR_PREFIX) and len(value) > len(VENDOR_PREFIX))


def pair_of(value: object) -> tuple[str, str] | None:
    """A `(namespace, key)` pair of `dream_inputs`: an array of two, or an object with these two names."""
    if isinstance(value, dict):
        value = [value.get("namespace"), value.get("key")]
    if isinstance(value, list | tuple) and len(value) == 2:
        namespace, key = value
        if isinstance(namespace, str) and isinstance(key, str):
            return namespace, key
    return None


class Embedding(NamedTuple):
    """The vector that came with a memory, as little-endian float32, and the model that made it."""

    model: str
    packed: bytes


def embedding_of(memory: Mapping[str, Any]) -> Embedding | None:
    """The embedding that a memory brought, if it did; which model's it is, decides who may use it."""
    numbers = memory.get("embedding")
    return Embedding(memory["embedding_model"], packed_vector(numbers)) if numbers else None


def packed_vector(vector: Iterable[float]) -> bytes:
    """An embedding as little-endian float32. Raises OverflowError for a number that does not fit."""
    numbers = list(vector)
    return struct.pack(f"<{len(numbers)}f", *numbers)


def lowered(tags: Iterable[str]) -> list[str]:
    """Tags as they are matched: lower case (section 2), each once."""
    return list(dict.fromkeys(tag.lower() for tag in tags))


def tags_of(memory: Mapping[str, Any]) -> list[str]:
    """The tags of a memory as they are matched."""
    return lowered(memory.get("tags") or ())


def metadata_of(memory: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a memory; empty if it has none."""
    return memory.get("metadata") or {}


# --- times and versions ------------------------------------------------------------------------------


def with_times(memory: Memory, now: int, previous: Memory | None) -> Memory:
    """A checked memory with both times, as the server assigns them (section 3, STORE).

    `created_at` stays what it was in the previous version. `updated_at` always moves: to what is given, if that is
    later than the previous version's, else to now.
    """
    if previous is None:
        created, updated = _first_times(memory, now)
    else:
        created = previous["created_at"]
        updated = _next_update(memory, now, parse_instant(previous["updated_at"]))
    if memory.get("created_at") == created and memory.get("updated_at") == updated:
        return memory
    return {**memory, "created_at": created, "updated_at": updated}


def _first_times(memory: Memory, now: int) -> tuple[str, str]:
    created, updated = memory.get("created_at"), memory.get("updated_at")
    if created is None:
        # Nothing is written after its last write.
        created = format_instant(now) if updated is None or parse_instant(updated) >= now else updated
    # Section 2: updated_at is equal to created_at if never updated.
    return created, created if updated is None else updated


def _next_update(memory: Memory, now: int, last: Instant) -> str:
    given = memory.get("updated_at")
    if given is not None and parse_instant(given) > last:
        return str(given)
    # A previous version may come from the future; the order of versions still shows in their times.
    return format_instant(min(max(now, last + 1), LATEST))


def same_content(left: Memory, right: Memory, *, but_for: Collection[str] = ()) -> bool:
    """Whether two memories differ in nothing but their times, in what is never stored, and in some fields."""
    return _same_json(_content(left, but_for), _content(right, but_for))


def _content(memory: Memory, but_for: Collection[str]) -> dict[str, Any]:
    left_out = {"created_at", "updated_at", *but_for}
    content = {name: member for name, member in _received(memory).items() if name not in left_out}
    if content.get("metadata") == {}:
        del content["metadata"]
    return content


def _same_json(left: Any, right: Any) -> bool:
    # Python holds True == 1; JSON does not.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same_json(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same_json, left, right))
    if isinstance(left, float) != isinstance(right, float) and _is_number(left) and _is_number(right):
        # An integer of more than 64 bits is a double to some readers; ours keep its digits.
        try:
            return float(left) == float(right)
        except OverflowError:
            return False
    return bool(left == right)


# --- answers -----------------------------------------------------------------------------------------


def shown(memory: Memory, *, score: float | None = None) -> Memory:
    """The memory as the API answers it: tags in lower case, with their spelling and the score in its metadata."""
    added: dict[str, Any] = {}
    tags = memory.get("tags")
    if tags and (lower := lowered(tags)) != tags:
        memory = {**memory, "tags": lower}
        added[TAGS_KEY] = tags
    if score is not None:
        # Section 3, RECALL: servers SHOULD include score in metadata of returned objects.
        added[SCORE_KEY] = score
    return {**memory, "metadata": {**metadata_of(memory), **added}} if added else memory
