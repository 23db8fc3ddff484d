"""The parameters of the five operations, declared once; read from untrusted JSON and from query strings (section 3).

Each is a shape: `parse` takes any JSON value and returns what needs no further checks, or raises InvalidInput that
names the field and what was expected there. The same names are used in REST and in JSON-RPC.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.encoding import json_text
from memoranda.encoding.shapes import Custom, Schema, Shape, check_known, fields_of, read
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.model.instant import Moment
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.memory import (
    MAX_DIMENSIONS,
    MAX_KEY_CHARS,
    MAX_MODEL_CHARS,
    MAX_REFERENCE_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    Memory,
    Pass,
    lowered,
)
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
MAX_RUN_CHARS: Final = 64
# More results of one pass than this nobody reads; and a compressed text is to be read at one go.
DEFAULT_DREAMS: Final = 50
DEFAULT_BUDGET: Final = 400
# Of a number in a query string.
MAX_DIGITS: Final = 18

_CONTROL: Final = "\\u0000-\\u001f\\u007f-\\u009f"
_MOMENT: Final[Schema] = {"format": "date-time"}
_TAG: Final[Schema] = {"type": "string", "maxLength": MAX_TAG_CHARS}

# --- types that read themselves ----------------------------------------------------------------------------

if TYPE_CHECKING:
    NamespaceName = Namespace
    Key = str
    Tags = tuple[str, ...]
else:

    class NamespaceName(Custom):
        EXPECTED: ClassVar[str] = "a namespace such as user-x123ab:personal"
        SCHEMA: ClassVar[Schema] = {
            "type": "string",
            "pattern": f"^[^:/\\s{_CONTROL}]+:[^:/{_CONTROL}]+$",
            "description": "`<owner-hash>:<scope>`, without slash or further colon (OAMS §4).",
        }
        from_json = staticmethod(parse_namespace)

    NamespaceName.register(Namespace)

    class Key(str):
        __slots__ = ()
        EXPECTED: ClassVar[str] = "a key"
        SCHEMA: ClassVar[Schema] = {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_KEY_CHARS,
            "pattern": f"^[^{_CONTROL}]+$",
        }

        @classmethod
        def from_json(cls, value: object) -> Key:
            return cls(memories.check_key(value))

    class Tags(Custom):
        """Lower case, and all must match."""

        EXPECTED: ClassVar[str] = f"an array of at most {MAX_TAGS} strings"
        SCHEMA: ClassVar[Schema] = {"type": "array", "items": _TAG, "maxItems": MAX_TAGS}

        @classmethod
        def from_json(cls, value: object) -> tuple[str, ...]:
            if not isinstance(value, list) or len(value) > MAX_TAGS:
                raise ValueError(f"must be {cls.EXPECTED}")
            for index, tag in enumerate(value):
                if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS:
                    raise InvalidInput(f"tags[{index}] must be a string of at most {MAX_TAG_CHARS} characters")
            return tuple(lowered(value))

    Tags.register(tuple)


ETag = Annotated[str, Meta(min_length=1, max_length=MAX_ETAG_CHARS)]
Count = Annotated[int, Meta(ge=1)]


# --- a memory ----------------------------------------------------------------------------------------------


class Metadata(Shape, forbid_unknown_fields=False):
    """Whatever its author likes; these names mean the same to everyone (section 2)."""

    value_type: str | None = None
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    last_used_at: Annotated[str, Meta(extra_json_schema=_MOMENT)] | None = None
    decay_score: float | None = None
    language: str | None = None
    pii: bool | None = None


class Sent(Shape, forbid_unknown_fields=False):
    """A memory to be stored (section 2); key and namespace may be left to the path, the times to the server."""

    value: Annotated[str, Meta(description="Text or Markdown; at most a mebibyte of UTF-8.")]
    key: Key | UnsetType = UNSET
    namespace: NamespaceName | UnsetType = UNSET
    tags: Annotated[Tags, Meta(description="Given back in lower case.")] | None = None
    metadata: Metadata | None = None
    created_at: Annotated[str, Meta(extra_json_schema=_MOMENT)] | None = None
    updated_at: Annotated[str, Meta(extra_json_schema=_MOMENT)] | None = None
    embedding_model: Annotated[str, Meta(min_length=1, max_length=MAX_MODEL_CHARS)] | None = None
    embedding: (
        Annotated[
            list[Annotated[float, Meta(ge=-3.4028234663852886e38, le=3.4028234663852886e38)]],
            Meta(min_length=1, max_length=MAX_DIMENSIONS),
        ]
        | None
    ) = None
    parent_id: Annotated[str, Meta(max_length=MAX_REFERENCE_CHARS)] | None = None
    source_id: Annotated[str, Meta(max_length=MAX_REFERENCE_CHARS)] | None = None


class Whole(Sent):
    """A memory to be stored, wherever it belongs."""

    key: Key
    namespace: NamespaceName


class MemoryShape(Whole):
    """One memory (OAMS §2). Fields that OAMS does not have are kept."""

    created_at: Annotated[str, Meta(extra_json_schema=_MOMENT)]
    updated_at: Annotated[str, Meta(extra_json_schema=_MOMENT)]


# --- the operations ----------------------------------------------------------------------------------------


class RecallRequest(Shape):
    """RECALL. Without any namespace the caller's own default is meant; an empty query asks for whatever is newest.

    `since` and `until` are about `updated_at`: since <= updated_at < until.
    """

    query: Annotated[
        str,
        Meta(
            max_length=MAX_QUERY_BYTES,
            description=f"What to look for, in words. At most {MAX_QUERY_BYTES} bytes.",
            extra={"expected": f"a string of at most {MAX_QUERY_BYTES} bytes"},
        ),
    ]
    namespace: NamespaceName | None = None
    several: Annotated[list[NamespaceName], Meta(min_length=1, max_length=MAX_NAMESPACES)] | None = field(
        default=None, name="namespaces"
    )
    asked_k: Annotated[Count, Meta(description=f"More than {MAX_K} is {MAX_K}.")] | None = field(default=None, name="k")
    asked_tags: Annotated[Tags, Meta(description="All of them.")] | None = field(default=None, name="tags")
    since: Annotated[Moment, Meta(description="Updated then or later.")] | None = None
    until: Annotated[Moment, Meta(description="Updated before.")] | None = None

    def __post_init__(self) -> None:
        if self.namespace is not None and self.several is not None:
            raise InvalidInput("give namespace or namespaces, not both")
        if len(self.query.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
            raise InvalidInput(f"query must be at most {MAX_QUERY_BYTES} bytes")

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        if self.several is None:
            return () if self.namespace is None else (self.namespace,)
        return tuple(dict.fromkeys(self.several))

    @property
    def k(self) -> int:
        return DEFAULT_K if self.asked_k is None else min(self.asked_k, MAX_K)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.asked_tags or ()


class ConsentedRecall(RecallRequest):
    """RECALL over namespaces of several owners (section 4)."""

    consents: (
        Annotated[
            list[Annotated[str, Meta(extra_json_schema={"pattern": "^umpcap\\."})]],
            Meta(
                max_length=MAX_NAMESPACES,
                description="Capability tokens of every owner, for a query that spans owners.",
                extra={"expected": "an array of capability tokens"},
            ),
        ]
        | UnsetType
    ) = UNSET


class ListRequest(Shape):
    """LIST. `since` is about `updated_at`, inclusive."""

    namespace: NamespaceName
    cursor: (
        Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR_CHARS, description="`next_cursor` of the page before.")]
        | None
    ) = None
    asked_limit: (
        Annotated[Count, Meta(description=f"How many on a page; more than {MAX_LIMIT} is {MAX_LIMIT}.")] | None
    ) = field(default=None, name="limit")
    since: Annotated[Moment, Meta(description="Updated then or later.")] | None = None
    asked_tags: Annotated[Tags, Meta(description="All of them.")] | None = field(default=None, name="tags")

    @property
    def limit(self) -> int:
        return DEFAULT_LIMIT if self.asked_limit is None else min(self.asked_limit, MAX_LIMIT)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.asked_tags or ()

    @classmethod
    def parse_query(cls, namespace: str, pairs: Iterable[tuple[str, str]]) -> Self:
        """Read it from a path and a decoded query string; an empty parameter is as good as none."""
        fields: dict[str, Any] = {"namespace": namespace}
        for name, text in pairs:
            if name == "namespace" or (name in fields and name != "tags"):
                raise InvalidInput(f"{name} is given twice")
            check_known({name: text}, fields_of(cls), "the query")
            if name == "tags" and text:
                fields["tags"] = fields.get("tags", []) + _listed(text)
            elif text:
                fields[name] = _whole(text) if name == "limit" else text
        return cls.parse(fields)


class StoreRequest(Shape):
    """STORE. `if_match` is the version that is to be replaced; `*` means that there must be one."""

    memory: Annotated[Any, Meta(extra={"shape": Whole})]
    if_match: ETag | None = None
    # Only if there is no such memory yet.
    if_none_match: Literal["*"] | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request, and the memory by its own rules."""
        found = read(value, cls)
        memory, _ = memories.check(found.memory, complete=False)
        return found.replaced(memory=memory)

    @classmethod
    def parse_body(
        cls, namespace: str, key: str, body: object, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Self:
        """Read it from a path and a body, which may leave out what the path says but not contradict it."""
        if not isinstance(body, dict):
            raise InvalidInput("a memory must be an object")
        for name, said in (("namespace", namespace), ("key", key)):
            if body.get(name, said) != said:
                raise InvalidInput(f"{name} in the body is another than in the path")
        named = body if "key" in body and "namespace" in body else {"key": key, "namespace": namespace, **body}
        return cls.parse({"memory": named, "if_match": if_match, "if_none_match": if_none_match})


class BatchRequest(Shape):
    """BATCH_STORE: memories, each `(namespace, key)` once."""

    memories: Annotated[list[Annotated[Any, Meta(extra={"shape": Whole})]], Meta(min_length=1, max_length=MAX_BATCH)]

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request; a complaint names the memory by its index."""
        found: list[Memory] = []
        seen: dict[tuple[str, str], int] = {}
        for index, item in enumerate(read(value, cls).memories):
            try:
                memory, _ = memories.check(item, complete=False)
            except MemorandaError as error:
                raise type(error)(f"memories[{index}]: {error.message}") from None
            # Section 2: the pair is unique; which of two would stay is not for us to guess.
            first = seen.setdefault((memory["namespace"], memory["key"]), index)
            if first != index:
                raise InvalidInput(f"memories[{index}] has the namespace and key of memories[{first}]")
            found.append(memory)
        return cls(memories=found)


class GetRequest(Shape):
    """Which memory."""

    namespace: NamespaceName
    key: Key


class ForgetRequest(GetRequest):
    """FORGET. `if_match` as in STORE."""

    if_match: ETag | None = None


DreamKey = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARS)]


class DreamRequest(Shape):
    """One pass of consolidation over a namespace (section 6). Without a namespace the caller's own default is meant."""

    strategy: Pass
    namespace: NamespaceName | None = None
    dry_run: Annotated[bool, Meta(description="Only say what would be written.")] = False
    only: Annotated[list[DreamKey], Meta(min_length=1, description="Write only what is under these keys.")] | None = (
        None
    )
    refuse: (
        Annotated[list[DreamKey], Meta(min_length=1, description="Write nothing, and do not suggest these again.")]
        | None
    ) = None
    limit: Annotated[Count, Meta(description=f"At most so many results; {DEFAULT_DREAMS} unless said.")] = (
        DEFAULT_DREAMS
    )
    budget: Annotated[
        Count, Meta(description=f"At most so many tokens in a compressed text; {DEFAULT_BUDGET} unless said.")
    ] = DEFAULT_BUDGET
    least: Annotated[int, Meta(ge=2, description="How often something must occur to be called recurring.")] = 3
    likeness: Annotated[float, Meta(gt=0, le=1, description="How alike two memories must be to be linked.")] = 0.25


class ExportRequest(Shape):
    """What leaves of a namespace, as it stands in a file."""

    namespace: NamespaceName
    cursor: (
        Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,17}$", description="`next_cursor` of the page before.")] | None
    ) = None


class NamespacesRequest(Shape):
    """Which namespaces there are."""


class DreamsRequest(Shape):
    """Which passes can be undone."""


class UndoRequest(Shape):
    """Which pass is to be undone."""

    run_id: Annotated[str, Meta(min_length=1, max_length=MAX_RUN_CHARS, description="The id of the pass.")]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise InvalidInput("limit must be a whole number of at least 1")
    return int(text)


def _listed(text: str) -> list[Any]:
    """Tags in a query string: separated by commas, or a JSON array where a tag itself has a comma."""
    if text.startswith("["):
        value = json_text.parse(text)
        return value if isinstance(value, list) else [value]
    return [tag for tag in text.split(",") if tag]
