"""The OAMS memory: its fields and limits, its times, and its form in the API (sections 2, 3, 5 and 6).

A memory is a typed dictionary, stored as it was sent. Unknown fields are stored too, with a warning, because a later
minor version may have added them (section 8). Two members are never stored: `metadata.score`, which a response to
RECALL adds, and `metadata["memoranda:tags"]`, which gives the original spelling of tags in responses.

Checks are strict for what has an effect here (key, namespace, times, our own keys in metadata) and lenient for the
rest, which is stored and returned unchanged. A problem that makes a memory useless raises; one that only looks wrong
becomes a warning, because section 8 asks servers to warn about unknown values. The order of the members is kept: a
client that compares texts finds its memory as it sent it. A new key with our prefix must be added to `_OWN_KEYS`, or it
is refused as misspelt.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict, cast, get_args

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, TooLarge
from memoranda.model.instant import LATEST, Instant, format_instant, parse_instant
from memoranda.model.memory import CLAIMED_KEY, KINDS, NATIVE_KEY, VISIBILITIES
from memoranda.standards.oams.namespace import Namespace, adapt_namespace, read_namespace
from memoranda.standards.port import Embedding

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
# Our own strategy: facts that people stated in conversations.
STATEMENTS: Final = "vendor:statements"
RunStrategy = Literal[Strategy, "vendor:statements"]
VENDOR_PREFIX: Final = "vendor:"
SCORE_KEY: Final = "score"
TAGS_KEY: Final = "memoranda:tags"
KIND_KEY: Final = "memoranda:kind"
VISIBILITY_KEY: Final = "memoranda:visibility"
EXPIRES_KEY: Final = "memoranda:expires_at"
VALID_FROM_KEY: Final = "memoranda:valid_from"
VALID_TO_KEY: Final = "memoranda:valid_to"
# The conversation of the memory.
SESSION_KEY: Final = "memoranda:session"
# The agent that the memory was written for.
AGENT_KEY: Final = "memoranda:agent"
# The writer, if not the owner; set by the store.
ACTOR_KEY: Final = "memoranda:actor"
# The namespace as it was spelled, if it did not follow the convention of section 4.
NAMESPACE_KEY: Final = "memoranda:namespace"
# On the result of a consolidation run: a digest of the run's inputs.
DREAM_KEY: Final = "memoranda:dream"

# Bytes. A memory is read completely into a model's context, and a mebibyte is a thick book.
MAX_VALUE_BYTES: Final = 1_048_576
# Bytes of one memory as compact JSON: its value, its longest embedding and plenty of metadata. It still fits in a
# grain, which shows it in base64 within four MiB.
MAX_MEMORY_BYTES: Final = 2 * 1_048_576
# Bytes. A memory of another standard contains its original in base64 next to its text.
MAX_VIEW_BYTES: Final = 4 * 1_048_576
# Characters. Keys are part of URLs and of index entries.
MAX_KEY_CHARS: Final = 1024
# Tags per memory, and characters per tag; each tag is an index entry.
MAX_TAGS: Final = 256
MAX_TAG_CHARS: Final = 256
# Dimensions of an embedding. The longest embeddings in use have 4096.
MAX_DIMENSIONS: Final = 8192
# Characters. Servers accept URLs of up to 8 KiB.
MAX_REFERENCE_CHARS: Final = 8192
# Characters of a model's name.
MAX_MODEL_CHARS: Final = 256
# Characters. The longest RFC 3339 time, with nine decimals and an offset, has 35.
_MAX_TIME_CHARS: Final = 40
# Characters of a client's value in a message.
_QUOTED_CHARS: Final = 40

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UTC: Final = ("Z", "z", "+00:00", "-00:00")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


class Memory(TypedDict):
    """A checked memory (section 2). A null member counts as missing; fields of later versions are kept."""

    key: str
    namespace: str
    value: str
    tags: NotRequired[list[str]]
    # Any JSON, except for the reserved keys.
    metadata: NotRequired[dict[str, Any]]
    # Both are present in memories of the store.
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    embedding_model: NotRequired[str | None]
    embedding: NotRequired[list[float] | None]
    parent_id: NotRequired[str | None]
    source_id: NotRequired[str | None]


# Section 2: the fields in the order of the standard.
FIELD_ORDER: Final = tuple(Memory.__annotations__)
_AFTER_TIMES: Final = frozenset(FIELD_ORDER[FIELD_ORDER.index("updated_at") + 1 :])
# A memory as received, before validation.
Unchecked = dict[str, Any]


# --- checking ----------------------------------------------------------------------------------------


def check(value: object, *, complete: bool) -> tuple[Memory, Warnings]:
    """Check untrusted JSON; return the memory and warnings. Raises InvalidInput that names the field.

    `complete` requires both times, as in files; otherwise they may be missing, as in STORE. The result is the same
    object unless members had to be removed.

    The warnings are sentences for people and are returned to the client in the answer.
    """
    if not isinstance(value, dict):
        raise InvalidInput("a memory must be an object")
    memory = _strip_response_members(cast("Memory", value))
    warnings: list[str] = []
    for name in ("key", "namespace", "value"):
        # Section 2: a memory is valid if it has these.
        if memory.get(name) is None:
            raise InvalidInput(f"{name} is required")
    for name in ("created_at", "updated_at") if complete else ():
        if memory.get(name) is None:
            raise InvalidInput(f"{name} is required")
    for name, member in memory.items():
        check_member = _CHECKERS.get(name)
        if check_member is None:
            # Section 8: a minor version may add optional fields, and existing implementations must continue to
            # interoperate.
            warnings.append(f"the field {_quote(name)} is not in OAMS 0.1; it is stored unchanged")
        elif member is not None:
            check_member(member, warnings)
        elif name not in _NULLABLE:
            warnings.append(f"{name} is null, which counts as missing")
    if memory.get("embedding") is not None and memory.get("embedding_model") is None:
        # Section 2: required if embedding is present.
        raise InvalidInput("embedding_model is required with an embedding")
    _check_relations(memory, warnings)
    _check_size(memory)
    return memory, tuple(warnings)


def with_namespace(memory: Memory, namespace: Namespace) -> Memory:
    """Return a memory in another namespace; a spelling outside of the convention is kept in its metadata."""
    copy = cast("Memory", {**memory, "namespace": str(namespace)})
    if not read_namespace(memory["namespace"]).owner:
        copy["metadata"] = {**metadata_of(memory), NAMESPACE_KEY: memory["namespace"]}
    return copy


def adapt_memory(memory: Memory, tenant: str) -> Memory:
    """Return a memory in a namespace of the convention; the same object if it is in one."""
    namespace = read_namespace(memory["namespace"])
    return memory if namespace.owner else with_namespace(memory, adapt_namespace(namespace, tenant))


def check_key(value: object) -> str:
    """Return the value if it is a valid key: any characters except control characters. Raises InvalidInput."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_KEY_CHARS:
        raise InvalidInput(f"key must be a string of 1 to {MAX_KEY_CHARS} characters")
    if _CONTROL.search(value) or not json_text.is_unicode(value):
        raise InvalidInput("key must have no control character and no lone surrogate")
    return value


def parse_utc(value: object, location: str) -> Instant:
    """Parse a time of section 2: RFC 3339, in UTC. `location` names the field in errors. Raises InvalidInput."""
    time = parse_time(value, location)
    if not str(value).endswith(_UTC):
        raise InvalidInput(f"{location} must be in UTC: end it with Z")
    return time


def parse_time(value: object, location: str) -> Instant:
    """Parse an RFC 3339 time with any offset. `location` names the field in errors. Raises InvalidInput."""
    try:
        if isinstance(value, str) and len(value) <= _MAX_TIME_CHARS:
            return parse_instant(value)
    except ValueError:
        pass
    raise InvalidInput(f"{location} must be an RFC 3339 time such as 2026-04-27T12:00:00Z")


def _strip_response_members(value: Memory) -> Memory:
    """Return the memory without the members that only responses have, so that a stored response changes nothing."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not (SCORE_KEY in metadata or TAGS_KEY in metadata):
        return value
    own_metadata = {name: member for name, member in metadata.items() if name != SCORE_KEY}
    stripped: dict[str, Any] = {**value, "metadata": own_metadata}
    spelling, tags = _as_strings(own_metadata.get(TAGS_KEY)), _as_strings(value.get("tags"))
    if spelling is not None and tags is not None and lower_tags(spelling) == lower_tags(tags):
        del own_metadata[TAGS_KEY]
        stripped["tags"] = spelling
    if not own_metadata:
        # The response added metadata to a memory without any, so remove it.
        del stripped["metadata"]
    return cast("Memory", stripped)


def _as_strings(value: object) -> list[str] | None:
    """Return the value if it is a list of strings, else None."""
    return (
        value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None
    )


def _check_key(value: object, _: list[str]) -> None:
    check_key(value)


def _check_namespace(value: object, _: list[str]) -> None:
    read_namespace(value)


def _check_value(value: object, _: list[str]) -> None:
    """Check the value, a text of limited size. Raises InvalidInput or TooLarge."""
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
    """Check the tags. Raises InvalidInput."""
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise InvalidInput(f"tags must be an array of at most {MAX_TAGS} strings")
    for index, tag in enumerate(value):
        if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS:
            raise InvalidInput(
                f"tags[{index}] must be a string of at most {MAX_TAG_CHARS} characters"
            )


def _check_created(value: object, _: list[str]) -> None:
    parse_utc(value, "created_at")


def _check_updated(value: object, _: list[str]) -> None:
    parse_utc(value, "updated_at")


def _check_model(value: object, _: list[str]) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_MODEL_CHARS:
        raise InvalidInput(f"embedding_model must be a string of 1 to {MAX_MODEL_CHARS} characters")


def _check_embedding(value: object, _: list[str]) -> None:
    """Check the numbers of an embedding. Raises InvalidInput."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_DIMENSIONS:
        raise InvalidInput(f"embedding must be an array of 1 to {MAX_DIMENSIONS} numbers")
    for index, number in enumerate(value):
        if type(number) is not float and type(number) is not int:
            raise InvalidInput(f"embedding[{index}] must be a number")
    try:
        pack_vector(value)
        is_finite = all(map(math.isfinite, value))
    except (OverflowError, struct.error):
        is_finite = False
    if not is_finite:
        raise InvalidInput("embedding must contain finite numbers in the range of float32")


def _check_parent(value: object, _: list[str]) -> None:
    _check_reference(value, "parent_id")


def _check_source(value: object, _: list[str]) -> None:
    # Section 5: preserved as-is, even if it cannot be resolved. So any form is valid.
    _check_reference(value, "source_id")


def _check_reference(value: object, location: str) -> None:
    """Check a reference of limited length. Raises InvalidInput."""
    if not isinstance(value, str) or len(value) > MAX_REFERENCE_CHARS:
        raise InvalidInput(
            f"{location} must be null or a string of at most {MAX_REFERENCE_CHARS} characters"
        )


def _check_metadata(value: object, warnings: list[str]) -> None:
    """Check the reserved keys of metadata and our own."""
    if not isinstance(value, dict):
        raise InvalidInput("metadata must be an object")
    for name, (is_valid, expected) in _CHECKED_KEYS.items():
        member = value.get(name)
        if member is not None and not is_valid(member):
            raise InvalidInput(f"metadata.{name} must be {expected}")
        if member is None and name in value:
            warnings.append(f"metadata.{name} is null, which counts as missing")
    unknown = next(
        (name for name in value if name.startswith(_PREFIX) and name not in _OWN_KEYS), None
    )
    if unknown:
        # A misspelt key would have no effect, so refuse it.
        known_names = ", ".join(sorted(_OWN_KEYS))
        raise InvalidInput(
            f"metadata.{_quote(unknown)} is not a known name; the names with this prefix are {known_names}"
        )
    if value.get("last_used_at") is not None:
        parse_time(value["last_used_at"], "metadata.last_used_at")
    _check_dream(value, warnings)


def _check_dream(metadata: Mapping[str, object], warnings: list[str]) -> None:
    """Warn about values of a consolidation that are not those of OAMS."""
    # Section 8: warn (not error) on unknown enum values.
    strategy = metadata.get("dream_strategy")
    if strategy is not None and not is_strategy(strategy):
        warnings.append(
            f"metadata.dream_strategy {_quote(strategy)} is not in OAMS 0.1; it is stored unchanged"
        )
    inputs = metadata.get("dream_inputs")
    has_pairs = isinstance(inputs, list) and all(parse_pair(item) is not None for item in inputs)
    if inputs is not None and not has_pairs:
        warnings.append("metadata.dream_inputs should be an array of [namespace, key] pairs")
    run = metadata.get("dream_run_id")
    if run is not None and not (isinstance(run, str) and _UUID.fullmatch(run)):
        warnings.append("metadata.dream_run_id should be a UUID")


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_fraction(value: Any) -> bool:
    """Return True for a number from 0 to 1."""
    return _is_number(value) and 0 <= value <= 1


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_instant(value: object) -> bool:
    try:
        parse_time(value, EXPIRES_KEY)
    except InvalidInput:
        return False
    return True


_PREFIX: Final = "memoranda:"
_OWN_KEYS: Final = frozenset(
    (
        *(
            TAGS_KEY,
            KIND_KEY,
            VISIBILITY_KEY,
            EXPIRES_KEY,
            VALID_FROM_KEY,
            VALID_TO_KEY,
            ACTOR_KEY,
            DREAM_KEY,
            NAMESPACE_KEY,
        ),
        *(SESSION_KEY, AGENT_KEY, NATIVE_KEY, CLAIMED_KEY),
    )
)
# Section 2: the reserved keys of metadata, with their checks.
_CHECKED_KEYS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "value_type": (_is_text, "a string"),
    "confidence": (_is_fraction, "a number from 0 to 1"),
    "decay_score": (_is_number, "a number"),
    "language": (_is_text, "a string"),
    "pii": (lambda value: isinstance(value, bool), "true or false"),
    # Our own keys are checked: a misspelt value could keep a memory forever, or hide it from everybody.
    KIND_KEY: (KINDS.__contains__, f"one of {'|'.join(KINDS)}"),
    VISIBILITY_KEY: (VISIBILITIES.__contains__, f"one of {'|'.join(VISIBILITIES)}"),
    **dict.fromkeys(
        (ACTOR_KEY, SESSION_KEY, AGENT_KEY, NAMESPACE_KEY),
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
    """Warn about contradictions between fields."""
    created, updated = memory.get("created_at"), memory.get("updated_at")
    if (
        created is not None
        and updated is not None
        and parse_instant(updated) < parse_instant(created)
    ):
        warnings.append("updated_at is before created_at")
    metadata = memory.get("metadata")
    if metadata and metadata.get("dream_strategy") is not None and memory.get("parent_id") is None:
        # Section 5: consolidated memories MUST set parent_id. A reader cannot add a missing one.
        warnings.append("a consolidated memory should have a parent_id")


def _check_size(memory: Memory) -> None:
    """Check the size, depth and numbers of the complete memory."""
    data = json_text.dump(memory)
    metadata = memory.get("metadata")
    limit_bytes = MAX_VIEW_BYTES if metadata and NATIVE_KEY in metadata else MAX_MEMORY_BYTES
    if len(data) > limit_bytes:
        raise TooLarge(f"a memory of {len(data)} bytes is over the limit of {limit_bytes}")
    if data.count(b"{") + data.count(b"[") > json_text.MAX_DEPTH:
        # A memory in a batch or a call was parsed with a few more levels than a line of an export may have.
        json_text.check_depth(data.decode("utf-8"))
    # A number that JSON cannot represent is written as null. A value from Python may have one.
    if b"null" in data and not _is_finite(memory):
        raise InvalidInput("a memory must contain finite numbers only")


def _is_finite(value: object) -> bool:
    """Return True if all floats in the value are finite."""
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


def _quote(value: object) -> str:
    """Return the value for a message: quoted, escaped and shortened."""
    text = value if isinstance(value, str) else type(value).__name__
    return ascii(text[:_QUOTED_CHARS])


# --- parts -------------------------------------------------------------------------------------------


def is_strategy(value: object) -> bool:
    """Return True for the nine strategies and for a vendor's own (section 6)."""
    if not isinstance(value, str):
        return False
    return value in STRATEGIES or (
        value.startswith(VENDOR_PREFIX) and len(value) > len(VENDOR_PREFIX)
    )


def parse_pair(value: object) -> tuple[str, str] | None:
    """Parse a `(namespace, key)` pair of `dream_inputs`: an array of two, or an object with these names."""
    if isinstance(value, dict):
        value = [value.get("namespace"), value.get("key")]
    if isinstance(value, list | tuple) and len(value) == 2:
        namespace, key = value
        if isinstance(namespace, str) and isinstance(key, str):
            return namespace, key
    return None


def embedding_of(memory: Mapping[str, Any]) -> Embedding | None:
    """Return the embedding of a memory, if it has one. Only queries by the same model can use it.

    The vector is not normalised here; `retrieval/entry.py` does that.
    """
    numbers = memory.get("embedding")
    return Embedding(memory["embedding_model"], pack_vector(numbers)) if numbers else None


def pack_vector(vector: Iterable[float]) -> bytes:
    """Pack an embedding as little-endian float32. Raises OverflowError for a number that does not fit."""
    numbers = list(vector)
    return struct.pack(f"<{len(numbers)}f", *numbers)


def lower_tags(tags: Iterable[str]) -> list[str]:
    """Return the tags in lower case (section 2), for comparison, without duplicates."""
    return list(dict.fromkeys(tag.lower() for tag in tags))


def tags_of(memory: Mapping[str, Any]) -> list[str]:
    """Return the tags of a memory in lower case."""
    return lower_tags(memory.get("tags") or ())


def metadata_of(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a memory; empty if it has none."""
    return memory.get("metadata") or {}


# --- times and versions ------------------------------------------------------------------------------


def assign_times(memory: Memory, now: int, previous: Memory | None) -> Memory:
    """Return a checked memory with both times as the server assigns them (section 3, STORE).

    `created_at` keeps its value of the previous version. `updated_at` always increases: to the given time, if it is
    later than the previous version's, else to now.

    `now` is in milliseconds since 1970. The result always has both times, and the same object is returned if nothing
    changed.
    """
    if previous is None:
        created, updated = _first_times(memory, now)
    else:
        created = previous["created_at"]
        updated = _next_update(memory, now, parse_instant(previous["updated_at"]))
    if memory.get("created_at") == created and memory.get("updated_at") == updated:
        return memory
    return _with_times(memory, created, updated)


def _with_times(memory: Memory, created: str, updated: str) -> Memory:
    """Return a memory with both times. New ones come before the fields that section 2 lists after them."""
    times = {"created_at": created, "updated_at": updated}
    if memory.keys() & times.keys():
        return cast("Memory", {**memory, **times})
    names = list(memory)
    index = next((index for index, name in enumerate(names) if name in _AFTER_TIMES), len(names))
    parts: Unchecked = {**memory}
    before = {name: parts[name] for name in names[:index]}
    return cast("Memory", {**before, **times, **parts})


def _first_times(memory: Memory, now: int) -> tuple[str, str]:
    """Return both times of a first version."""
    created, updated = memory.get("created_at"), memory.get("updated_at")
    if created is None:
        # The creation cannot be later than the last update.
        created = (
            format_instant(now) if updated is None or parse_instant(updated) >= now else updated
        )
    # Section 2: updated_at is equal to created_at if never updated.
    return created, created if updated is None else updated


def _next_update(memory: Memory, now: int, last: Instant) -> str:
    """Return `updated_at` of a later version."""
    requested = memory.get("updated_at")
    if requested is not None and parse_instant(requested) > last:
        return str(requested)
    # A previous version may have a time in the future. Times still increase from version to version.
    return format_instant(min(max(now, last + 1), LATEST))


def same_content(first: Memory, second: Memory, *, ignored_fields: Collection[str] = ()) -> bool:
    """Return True if two memories are equal except for times, response members and `ignored_fields`.

    Used to recognise a STORE that changes nothing, which then writes no version.
    """
    return _same_json(
        _comparable_members(first, ignored_fields), _comparable_members(second, ignored_fields)
    )


def _comparable_members(memory: Memory, ignored_fields: Collection[str]) -> dict[str, object]:
    """Return the members to compare."""
    excluded = {"created_at", "updated_at", *ignored_fields}
    content = {
        name: member
        for name, member in _strip_response_members(memory).items()
        if name not in excluded
    }
    if content.get("metadata") == {}:
        del content["metadata"]
    return content


def _same_json(first: Any, second: Any) -> bool:
    """Return True if two JSON values are equal."""
    # True == 1 in Python, but not in JSON.
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _same_json(first[name], second[name]) for name in first
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same_json, first, second))
    if (
        isinstance(first, float) != isinstance(second, float)
        and _is_number(first)
        and _is_number(second)
    ):
        # Some readers turn an integer of more than 64 bits into a double; ours keeps its digits.
        try:
            return float(first) == float(second)
        except OverflowError:
            return False
    return bool(first == second)


# --- answers -----------------------------------------------------------------------------------------


def to_response(memory: Memory, *, score: float | None = None) -> Memory:
    """Return the memory for a response: tags in lower case, their spelling and the score in its metadata.

    Never store the result: the two members that it adds are removed again when a client sends it back.
    """
    additions: dict[str, object] = {}
    tags = memory.get("tags")
    if tags and (lower := lower_tags(tags)) != tags:
        memory = {**memory, "tags": lower}
        additions[TAGS_KEY] = tags
    if score is not None:
        # Section 3, RECALL: servers SHOULD include score in metadata of returned objects.
        additions[SCORE_KEY] = score
    return {**memory, "metadata": {**metadata_of(memory), **additions}} if additions else memory
