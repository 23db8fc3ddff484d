"""The parameters of the five operations, read from untrusted JSON and from query strings (section 3).

Each `parse` takes any JSON value and returns a value that needs no further checks, or raises InvalidInput that names
the field and what was expected there. The same names are used in REST and in JSON-RPC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Instant
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.memory import MAX_TAG_CHARS, MAX_TAGS, Memory, Warnings, lowered
from memoranda.standards.oams.namespace import Namespace, parse_namespace

# Section 3, RECALL.
DEFAULT_K: Final = 8
# More than a model reads; whoever wants everything lists it.
MAX_K: Final = 100
DEFAULT_LIMIT: Final = 50
# A page that is rendered in memory; memories may be large.
MAX_LIMIT: Final = 500
# One transaction; with more the others wait too long.
MAX_BATCH: Final = 10_000
# Each namespace is a question of its own to the index.
MAX_NAMESPACES: Final = 64
# A question, not a document; longer ones cost the index more than they tell it.
MAX_QUERY_BYTES: Final = 8192
# Ours are far shorter.
MAX_CURSOR_CHARS: Final = 1024
MAX_ETAG_CHARS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """RECALL. Without any namespace the caller's own default is meant; an empty query asks for whatever is newest.

    Tags are lower case, and all must match.
    `since` and `until` are about `updated_at`: since <= updated_at < until.
    """

    query: str
    namespaces: tuple[Namespace, ...] = ()
    k: int = DEFAULT_K
    tags: tuple[str, ...] = ()
    since: Instant | None = None
    until: Instant | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, ("namespace", "namespaces", "query", "k", "tags", "since", "until"))
        return cls(
            query=_query(fields.get("query")),
            namespaces=_namespaces(fields),
            k=_count(fields.get("k"), "k", DEFAULT_K, MAX_K),
            tags=_tags(fields.get("tags")),
            since=_instant(fields.get("since"), "since"),
            until=_instant(fields.get("until"), "until"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """LIST. Tags are lower case, and all must match; `since` is about `updated_at`, inclusive."""

    namespace: Namespace
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT
    since: Instant | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, ("namespace", "cursor", "limit", "since", "tags"))
        return cls(
            namespace=parse_namespace(_required(fields, "namespace")),
            cursor=_name(fields.get("cursor"), "cursor", MAX_CURSOR_CHARS),
            limit=_count(fields.get("limit"), "limit", DEFAULT_LIMIT, MAX_LIMIT),
            since=_instant(fields.get("since"), "since"),
            tags=_tags(fields.get("tags")),
        )

    @classmethod
    def parse_query(cls, namespace: str, pairs: Iterable[tuple[str, str]]) -> Self:
        """Read it from a path and a decoded query string; an empty parameter is as good as none."""
        fields: dict[str, Any] = {"namespace": namespace}
        for name, text in pairs:
            if name == "namespace" or (name in fields and name != "tags"):
                raise InvalidInput(f"{name} is given twice")
            if name == "tags":
                fields["tags"] = fields.get("tags", []) + _listed(text)
            elif text:
                fields[name] = _whole(text, name) if name == "limit" else text
            else:
                _check_known((name,), ("cursor", "limit", "since"))
        return cls.parse(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """STORE. `if_match` is the version that is to be replaced; `*` means that there must be one."""

    memory: Memory
    warnings: Warnings = ()
    if_match: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the parameters of `oams.store`."""
        fields = _object(value, ("memory", "if_match"))
        memory, warnings = memories.check(_required(fields, "memory"), complete=False)
        return cls(memory=memory, warnings=warnings, if_match=_name(fields.get("if_match"), "if_match", MAX_ETAG_CHARS))

    @classmethod
    def parse_body(cls, namespace: str, key: str, body: object, *, if_match: str | None = None) -> Self:
        """Read it from a path and a body, which may leave out what the path says but not contradict it."""
        if not isinstance(body, dict):
            raise InvalidInput("a memory must be an object")
        for name, said in (("namespace", namespace), ("key", key)):
            if body.get(name, said) != said:
                raise InvalidInput(f"{name} in the body is another than in the path")
        named = body if "key" in body and "namespace" in body else {"key": key, "namespace": namespace, **body}
        return cls.parse({"memory": named, "if_match": if_match})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """BATCH_STORE: memories with their warnings, each `(namespace, key)` once."""

    memories: tuple[tuple[Memory, Warnings], ...]

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request; a complaint names the memory by its index."""
        given = _required(_object(value, ("memories",)), "memories")
        if not isinstance(given, list) or not 0 < len(given) <= MAX_BATCH:
            raise InvalidInput(f"memories must be an array of 1 to {MAX_BATCH} memories")
        checked: list[tuple[Memory, Warnings]] = []
        seen: dict[tuple[str, str], int] = {}
        for index, item in enumerate(given):
            memory, warnings = _placed(item, index)
            # Section 2: the pair is unique; which of two would stay is not for us to guess.
            first = seen.setdefault((memory["namespace"], memory["key"]), index)
            if first != index:
                raise InvalidInput(f"memories[{index}] has the namespace and key of memories[{first}]")
            checked.append((memory, warnings))
        return cls(memories=tuple(checked))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """FORGET, and how one memory is asked for. `if_match` as in STORE."""

    namespace: Namespace
    key: str
    if_match: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, ("namespace", "key", "if_match"))
        return cls(
            namespace=parse_namespace(_required(fields, "namespace")),
            key=memories.check_key(_required(fields, "key")),
            if_match=_name(fields.get("if_match"), "if_match", MAX_ETAG_CHARS),
        )


def _placed(item: object, index: int) -> tuple[Memory, Warnings]:
    try:
        return memories.check(item, complete=False)
    except MemorandaError as error:
        raise type(error)(f"memories[{index}]: {error.message}") from None


def _object(value: object, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput("the request must be an object")
    _check_known(value, known)
    return value


def _check_known(names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            # A filter that is not understood would widen the answer; refusing is the only safe reading.
            raise InvalidInput(f"unknown parameter {name[:40]!a}; there are {', '.join(known)}")


def _required(fields: Mapping[str, Any], name: str) -> Any:
    if fields.get(name) is None:
        raise InvalidInput(f"{name} is required")
    return fields[name]


def _namespaces(fields: Mapping[str, Any]) -> tuple[Namespace, ...]:
    one, several = fields.get("namespace"), fields.get("namespaces")
    if one is not None and several is not None:
        raise InvalidInput("give namespace or namespaces, not both")
    if several is None:
        return () if one is None else (parse_namespace(one),)
    if not isinstance(several, list) or not 0 < len(several) <= MAX_NAMESPACES:
        raise InvalidInput(f"namespaces must be an array of 1 to {MAX_NAMESPACES} namespaces")
    return tuple(dict.fromkeys(map(parse_namespace, several)))


def _query(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput("query must be a string")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
        raise InvalidInput(f"query must be at most {MAX_QUERY_BYTES} bytes")
    return value


def _count(value: object, where: str, default: int, most: int) -> int:
    """How many are desired; whoever desires more than we give gets what we give."""
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        # JSON has one kind of number; some clients write 8 as 8.0.
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(f"{where} must be a whole number of at least 1")
    return min(value, most)


def _whole(text: str, where: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidInput(f"{where} must be a whole number of at least 1")
    return int(text)


def _tags(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        raise InvalidInput(f"tags must be an array of at most {MAX_TAGS} strings")
    for index, tag in enumerate(value):
        if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS:
            raise InvalidInput(f"tags[{index}] must be a string of at most {MAX_TAG_CHARS} characters")
    return tuple(lowered(value))


def _listed(text: str) -> list[Any]:
    """Tags in a query string: separated by commas, or a JSON array where a tag itself has a comma."""
    if text.startswith("["):
        value = json_text.parse(text)
        return value if isinstance(value, list) else [value]
    return [tag for tag in text.split(",") if tag]


def _instant(value: object, where: str) -> Instant | None:
    return None if value is None else memories.instant(value, where)


def _name(value: object, where: str, max_chars: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= max_chars:
        raise InvalidInput(f"{where} must be a string of 1 to {max_chars} characters")
    return value
