"""The parameters of the OAMS operations, parsed from untrusted JSON and from query strings (section 3).

Each request is a shape. `parse` accepts any JSON value and returns a request that needs no further checks, or raises
InvalidInput with the field and the expected value. REST and JSON-RPC use the same names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from msgspec import UNSET, Meta, UnsetType, field

from memoranda.encoding import json_text
from memoranda.encoding.shapes import (
    Custom,
    Schema,
    Shape,
    check_field_names,
    fields_of,
    parse_value,
)
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
    RunStrategy,
    lower_tags,
)
from memoranda.standards.oams.namespace import MAX_NAME_CHARS, Namespace, read_namespace

# Section 3, RECALL: results by default.
DEFAULT_K: Final = 8
# Results. More than a model reads; use LIST for everything.
MAX_K: Final = 100
# Results per page.
DEFAULT_LIMIT: Final = 50
# Results per page, which is rendered in memory; memories may be large.
MAX_LIMIT: Final = 500
# Memories per batch, which is one transaction; a larger one would block others for too long.
MAX_BATCH: Final = 10_000
# Namespaces per request; each needs separate queries of the index.
MAX_NAMESPACES: Final = 64
# Bytes. A query is a question, not a document; a longer one costs the index more than it contributes.
MAX_QUERY_BYTES: Final = 8192
# Characters; ours are far shorter.
MAX_CURSOR_CHARS: Final = 1024
MAX_ETAG_CHARS: Final = 256
MAX_RUN_CHARS: Final = 64
# Results of one consolidation run, and tokens of a compressed text: as much as a person reads at once.
DEFAULT_DREAMS: Final = 50
DEFAULT_BUDGET: Final = 400
# Digits of a number in a query string.
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
        """A namespace in a request."""

        EXPECTED: ClassVar[str] = "a namespace such as user-x123ab:personal"
        SCHEMA: ClassVar[Schema] = {
            "type": "string",
            "pattern": f"^[^{_CONTROL}]+$",
            "description": "`<owner-hash>:<scope>`, without slash or further colon (OAMS §4). Any other name (§2), of "
            f"at most {MAX_NAME_CHARS} characters, is a scope of the caller's own.",
        }
        from_json = staticmethod(read_namespace)

    NamespaceName.register(Namespace)

    class Key(str):
        """A key in a request."""

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
            """Check a key. Raises InvalidInput."""
            return cls(memories.check_key(value))

    class Tags(Custom):
        """Tags in lower case, all of which must match."""

        EXPECTED: ClassVar[str] = f"an array of at most {MAX_TAGS} strings"
        SCHEMA: ClassVar[Schema] = {"type": "array", "items": _TAG, "maxItems": MAX_TAGS}

        @classmethod
        def from_json(cls, value: object) -> tuple[str, ...]:
            """Check an array of tags and convert them to lower case. Raises ValueError or InvalidInput."""
            if not isinstance(value, list) or len(value) > MAX_TAGS:
                raise ValueError(f"must be {cls.EXPECTED}")
            for index, tag in enumerate(value):
                if not isinstance(tag, str) or len(tag) > MAX_TAG_CHARS:
                    raise InvalidInput(
                        f"tags[{index}] must be a string of at most {MAX_TAG_CHARS} characters"
                    )
            return tuple(lower_tags(value))

    Tags.register(tuple)


ETag = Annotated[str, Meta(min_length=1, max_length=MAX_ETAG_CHARS)]
Count = Annotated[int, Meta(ge=1)]


# --- a memory ----------------------------------------------------------------------------------------------


class Metadata(Shape, forbid_unknown_fields=False):
    """Any JSON members; these names are reserved (section 2)."""

    value_type: str | None = None
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    last_used_at: Annotated[str, Meta(extra_json_schema=_MOMENT)] | None = None
    decay_score: float | None = None
    language: str | None = None
    pii: bool | None = None


class MemoryBody(Shape, forbid_unknown_fields=False):
    """A memory to store (section 2). Key and namespace may be in the path; the server can assign the times."""

    value: Annotated[str, Meta(description="Text or Markdown; at most a mebibyte of UTF-8.")]
    key: Key | UnsetType = UNSET
    namespace: NamespaceName | UnsetType = UNSET
    tags: Annotated[Tags, Meta(description="Returned in lower case.")] | None = None
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


class AddressedMemory(MemoryBody):
    """A memory to store, with its namespace and key."""

    key: Key
    namespace: NamespaceName


class MemoryShape(AddressedMemory):
    """A memory (OAMS §2). Fields that OAMS does not define are kept."""

    created_at: Annotated[str, Meta(extra_json_schema=_MOMENT)]
    updated_at: Annotated[str, Meta(extra_json_schema=_MOMENT)]


# --- the operations ----------------------------------------------------------------------------------------


class RecallRequest(Shape):
    """RECALL. Without a namespace it searches the caller's default one. An empty query returns the newest memories.

    `since` and `until` apply to `updated_at`: since <= updated_at < until.
    """

    query: Annotated[
        str,
        Meta(
            max_length=MAX_QUERY_BYTES,
            description=f"The question or keywords; at most {MAX_QUERY_BYTES} bytes.",
            extra={"expected": f"a string of at most {MAX_QUERY_BYTES} bytes"},
        ),
    ]
    namespace: NamespaceName | None = None
    namespace_list: (
        Annotated[list[NamespaceName], Meta(min_length=1, max_length=MAX_NAMESPACES)] | None
    ) = field(default=None, name="namespaces")
    requested_k: (
        Annotated[Count, Meta(description=f"Maximum number of results, at most {MAX_K}.")] | None
    ) = field(default=None, name="k")
    tag_filter: (
        Annotated[Tags, Meta(description="Only memories with all of these tags.")] | None
    ) = field(default=None, name="tags")
    since: (
        Annotated[Moment, Meta(description="Only memories updated at this time or later.")] | None
    ) = None
    until: Annotated[Moment, Meta(description="Only memories updated before this time.")] | None = (
        None
    )

    def __post_init__(self) -> None:
        if self.namespace is not None and self.namespace_list is not None:
            raise InvalidInput("give namespace or namespaces, not both")
        if len(self.query.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
            raise InvalidInput(f"query must be at most {MAX_QUERY_BYTES} bytes")

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """The namespaces to search, without duplicates; empty for the default."""
        if self.namespace_list is None:
            return () if self.namespace is None else (self.namespace,)
        return tuple(dict.fromkeys(self.namespace_list))

    @property
    def k(self) -> int:
        """The maximum number of results."""
        return DEFAULT_K if self.requested_k is None else min(self.requested_k, MAX_K)

    @property
    def tags(self) -> tuple[str, ...]:
        """The required tags, in lower case."""
        return self.tag_filter or ()


class ConsentedRecall(RecallRequest):
    """RECALL over namespaces of several owners (section 4)."""

    consents: (
        Annotated[
            list[Annotated[str, Meta(extra_json_schema={"pattern": "^umpcap\\."})]],
            Meta(
                max_length=MAX_NAMESPACES,
                description="A capability token of every owner, for a query over several owners.",
                extra={"expected": "an array of capability tokens"},
            ),
        ]
        | UnsetType
    ) = UNSET


class ListRequest(Shape):
    """LIST. `since` applies to `updated_at`, inclusive."""

    namespace: NamespaceName
    cursor: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_CURSOR_CHARS,
                description="`next_cursor` of the previous page.",
            ),
        ]
        | None
    ) = None
    requested_limit: (
        Annotated[Count, Meta(description=f"Results per page, at most {MAX_LIMIT}.")] | None
    ) = field(default=None, name="limit")
    since: (
        Annotated[Moment, Meta(description="Only memories updated at this time or later.")] | None
    ) = None
    tag_filter: (
        Annotated[Tags, Meta(description="Only memories with all of these tags.")] | None
    ) = field(default=None, name="tags")

    @property
    def limit(self) -> int:
        """The number of results per page."""
        return (
            DEFAULT_LIMIT if self.requested_limit is None else min(self.requested_limit, MAX_LIMIT)
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """The required tags, in lower case."""
        return self.tag_filter or ()

    @classmethod
    def parse_query(cls, namespace: str, pairs: Iterable[tuple[str, str]]) -> Self:
        """Parse a path and a decoded query string; an empty parameter counts as missing. Raises InvalidInput."""
        fields: dict[str, Any] = {"namespace": namespace}
        for name, text in pairs:
            if name == "namespace" or (name in fields and name != "tags"):
                raise InvalidInput(f"{name} is given twice")
            check_field_names({name: text}, fields_of(cls), "the query")
            if name == "tags" and text:
                fields["tags"] = fields.get("tags", []) + _parse_tags(text)
            elif text:
                fields[name] = _parse_limit(text) if name == "limit" else text
        return cls.parse(fields)


class StoreRequest(Shape):
    """STORE. `if_match` is the version to replace; `*` stands for any existing version."""

    memory: Annotated[Any, Meta(extra={"shape": AddressedMemory})]
    if_match: ETag | None = None
    # Store the memory only if it does not exist.
    if_none_match: Literal["*"] | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parse the request, and its memory by the rules of memories. Raises InvalidInput."""
        request = parse_value(value, cls)
        memory, _ = memories.check(request.memory, complete=False)
        return request.replace_fields(memory=memory)

    @classmethod
    def parse_body(
        cls,
        namespace: str,
        key: str,
        body: object,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Self:
        """Parse a path and a body. The body may omit what is in the path, but must not contradict it.

        Raises InvalidInput for a body that is no object or contradicts the path.
        """
        if not isinstance(body, dict):
            raise InvalidInput("a memory must be an object")
        for name, path_value in (("namespace", namespace), ("key", key)):
            if body.get(name, path_value) != path_value:
                raise InvalidInput(f"{name} in the body differs from the path")
        addressed = (
            body
            if "key" in body and "namespace" in body
            else {"key": key, "namespace": namespace, **body}
        )
        return cls.parse(
            {"memory": addressed, "if_match": if_match, "if_none_match": if_none_match}
        )


class BatchRequest(Shape):
    """BATCH_STORE: memories with different `(namespace, key)` pairs."""

    memories: Annotated[
        list[Annotated[Any, Meta(extra={"shape": AddressedMemory})]],
        Meta(min_length=1, max_length=MAX_BATCH),
    ]

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parse the request; an error names the memory by its index. Raises InvalidInput."""
        checked_memories: list[Memory] = []
        position_by_key: dict[tuple[str, str], int] = {}
        for index, item in enumerate(parse_value(value, cls).memories):
            try:
                memory, _ = memories.check(item, complete=False)
            except MemorandaError as error:
                raise type(error)(f"memories[{index}]: {error.message}") from None
            # Section 2: the pair is unique, and choosing one of two would be a guess.
            first = position_by_key.setdefault((memory["namespace"], memory["key"]), index)
            if first != index:
                raise InvalidInput(
                    f"memories[{index}] has the namespace and key of memories[{first}]"
                )
            checked_memories.append(memory)
        return cls(memories=checked_memories)


class GetRequest(Shape):
    """A request for one memory."""

    namespace: NamespaceName
    key: Key


class ForgetRequest(GetRequest):
    """FORGET. `if_match` works as in STORE."""

    if_match: ETag | None = None


DreamKey = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARS)]


class DreamRequest(Shape):
    """A consolidation run over a namespace (section 6), by default the caller's own."""

    strategy: RunStrategy
    namespace: NamespaceName | None = None
    dry_run: Annotated[bool, Meta(description="Report the results without writing them.")] = False
    only: (
        Annotated[
            list[DreamKey],
            Meta(min_length=1, description="Write only the results with these keys."),
        ]
        | None
    ) = None
    refuse: (
        Annotated[
            list[DreamKey],
            Meta(
                min_length=1,
                description="Write nothing, and never suggest the results with these keys again.",
            ),
        ]
        | None
    ) = None
    limit: Annotated[
        Count, Meta(description=f"Maximum number of results; default: {DEFAULT_DREAMS}.")
    ] = DEFAULT_DREAMS
    budget: Annotated[
        Count, Meta(description=f"Maximum tokens of a compressed text; default: {DEFAULT_BUDGET}.")
    ] = DEFAULT_BUDGET
    least: Annotated[int, Meta(ge=2, description="Minimum number of occurrences of a pattern.")] = 3
    likeness: Annotated[
        float, Meta(gt=0, le=1, description="Minimum similarity of two memories to link them.")
    ] = 0.25


class ExportRequest(Shape):
    """A request to export a namespace in file form."""

    namespace: NamespaceName
    cursor: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,18}\.[0-9]{1,18}$",
                description="`next_cursor` of the previous page.",
            ),
        ]
        | None
    ) = None


class NamespacesRequest(Shape):
    """A request for the list of namespaces."""


class DreamsRequest(Shape):
    """A request for the consolidation runs that can be undone."""


class UndoRequest(Shape):
    """A request to undo a consolidation run."""

    run_id: Annotated[
        str, Meta(min_length=1, max_length=MAX_RUN_CHARS, description="The id of the run.")
    ]


def _parse_limit(text: str) -> int:
    """Parse the value of `limit`. Raises InvalidInput."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise InvalidInput("limit must be a whole number of at least 1")
    return int(text)


def _parse_tags(text: str) -> list[Any]:
    """Parse tags in a query string: separated by commas, or a JSON array if a tag contains a comma."""
    if text.startswith("["):
        value = json_text.parse(text)
        return value if isinstance(value, list) else [value]
    return [tag for tag in text.split(",") if tag]
