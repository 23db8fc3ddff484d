"""The routes of OAMS in the OpenAPI document: schemas, and examples that run."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.oams_rpc import METHODS
from memoranda.bindings.http.operation import Operation, in_query
from memoranda.bindings.http.schemas import TEXT, Schema, closed, one_of, opened, ref, some
from memoranda.standards.oams.codes import MEANINGS
from memoranda.standards.oams.memory import (
    MAX_DIMENSIONS,
    MAX_KEY_CHARS,
    MAX_MODEL_CHARS,
    MAX_REFERENCE_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
)
from memoranda.standards.oams.requests import (
    DEFAULT_K,
    DEFAULT_LIMIT,
    MAX_BATCH,
    MAX_CURSOR_CHARS,
    MAX_ETAG_CHARS,
    MAX_K,
    MAX_LIMIT,
    MAX_NAMESPACES,
)
from memoranda.standards.oams.rpc import MAX_BATCH as MAX_CALLS
from memoranda.standards.oams.rpc import MAX_ID_CHARS

EXAMPLE_NAMESPACE: Final = "user-x123ab:personal"
EXAMPLE_KEY: Final = "drinks/morning"
EXAMPLE_MEMORY: Final[dict[str, Any]] = {
    "value": "Ada drinks green tea in the **morning**.",
    "tags": ["tea", "habits"],
    "metadata": {"confidence": 0.9, "language": "en"},
    "source_id": "transcript:call-7:93",
}
_WHOLE: Final[dict[str, Any]] = {"key": EXAMPLE_KEY, "namespace": EXAMPLE_NAMESPACE, **EXAMPLE_MEMORY}

_CONTROL: Final = "\\u0000-\\u001f\\u007f-\\u009f"
_NAMESPACE: Final[Schema] = {
    "type": "string",
    "pattern": f"^[^:/\\s{_CONTROL}]+:[^:/{_CONTROL}]+$",
    "description": "`<owner-hash>:<scope>`, without slash or further colon (OAMS §4).",
}
_KEY: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": f"^[^{_CONTROL}]+$"}
# Whoever sends an offset other than UTC's is told; `format` cannot say that.
_MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
_ETAG: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_ETAG_CHARS}
_TAG: Final[Schema] = {"type": "string", "maxLength": MAX_TAG_CHARS}
_TAGS: Final[Schema] = {"type": ["array", "null"], "items": _TAG, "maxItems": MAX_TAGS}
_FLOAT32: Final[Schema] = {"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38}
_CONSENTS: Final[Schema] = {
    **some({"type": "string", "pattern": "^umpcap\\."}),
    "maxItems": MAX_NAMESPACES,
    "description": "Capability tokens of every owner, for a query that spans owners.",
}


def _maybe(kind: str, **rules: Any) -> Schema:
    return {"type": [kind, "null"], **rules}


_FIELDS: Final[dict[str, Schema]] = {
    "key": _KEY,
    "namespace": _NAMESPACE,
    "value": {"type": "string", "description": "Text or Markdown; at most a mebibyte of UTF-8."},
    "tags": {**_TAGS, "description": "Given back in lower case."},
    "metadata": _maybe(
        "object",
        properties={
            "value_type": _maybe("string"),
            "confidence": _maybe("number", minimum=0, maximum=1),
            "last_used_at": _maybe("string", format="date-time"),
            "decay_score": _maybe("number"),
            "language": _maybe("string"),
            "pii": _maybe("boolean"),
        },
    ),
    "created_at": _MOMENT,
    "updated_at": _MOMENT,
    "embedding_model": _maybe("string", minLength=1, maxLength=MAX_MODEL_CHARS),
    "embedding": _maybe("array", items=_FLOAT32, minItems=1, maxItems=MAX_DIMENSIONS),
    "parent_id": _maybe("string", maxLength=MAX_REFERENCE_CHARS),
    "source_id": _maybe("string", maxLength=MAX_REFERENCE_CHARS),
}
_SENT: Final[dict[str, Schema]] = {
    **_FIELDS,
    "created_at": _maybe("string", format="date-time"),
    "updated_at": _maybe("string", format="date-time"),
}
_WITH_MODEL: Final[Schema] = {
    # OAMS §2: required if `embedding` is present.
    "if": {"properties": {"embedding": {"type": "array"}}, "required": ["embedding"]},
    "then": {"properties": {"embedding_model": {"type": "string"}}, "required": ["embedding_model"]},
}
_ERROR: Final = closed("code message", code={"enum": sorted(MEANINGS)}, message=TEXT, data={"type": "object"})
_ID: Final[Schema] = {"type": ["string", "number", "null"], "maxLength": MAX_ID_CHARS}
_CALL: Final = closed(
    "jsonrpc method",
    jsonrpc={"const": "2.0"},
    method={**one_of(tuple(METHODS)), "description": "The parameters are those of the same operation in REST."},
    params={"type": "object"},
    id={**_ID, "description": "Without one it is a notification, which is not answered."},
)
_REPLY: Final = {
    "anyOf": [
        closed("jsonrpc result id", jsonrpc={"const": "2.0"}, result={}, id=_ID),
        closed("jsonrpc error id", jsonrpc={"const": "2.0"}, error=_ERROR, id=_ID),
    ]
}

OAMS_SCHEMAS: Final[dict[str, Schema]] = {
    "OamsMemory": {
        **opened("key namespace value created_at updated_at", **_FIELDS),
        "description": "One memory (OAMS §2). Fields that OAMS does not have are kept.",
    },
    "OamsSent": {
        **opened("value", **_SENT),
        **_WITH_MODEL,
        "description": "A memory to be stored; key and namespace may be left to the path, the times to the server.",
    },
    "OamsWhole": {**opened("key namespace value", **_SENT), **_WITH_MODEL},
    "OamsMemories": some(ref("OamsMemory")),
    "OamsBatch": closed("memories", memories={**some(ref("OamsWhole")), "minItems": 1, "maxItems": MAX_BATCH}),
    "OamsRecall": closed(
        "query",
        query={"type": "string", "minLength": 1, "description": "What to look for, in words. At most 8192 bytes."},
        namespace=_maybe("string", pattern=_NAMESPACE["pattern"]),
        namespaces=_maybe("array", items=_NAMESPACE, minItems=1, maxItems=MAX_NAMESPACES),
        k=_maybe("integer", minimum=1, default=DEFAULT_K, description=f"More than {MAX_K} is {MAX_K}."),
        tags={**_TAGS, "description": "All of them."},
        since=_maybe("string", format="date-time", description="Updated then or later."),
        until=_maybe("string", format="date-time", description="Updated before."),
        consents=_CONSENTS,
    ),
    "OamsPage": closed(
        "memories next_cursor",
        memories=some(ref("OamsMemory")),
        next_cursor=_maybe("string", description="null: this was the last page."),
    ),
    "OamsCalls": {"anyOf": [_CALL, {**some(_CALL), "minItems": 1, "maxItems": MAX_CALLS}]},
    "OamsReplies": {"anyOf": [_REPLY, some(_REPLY)]},
    "OamsError": {
        **closed("error", error=_ERROR, jsonrpc={"const": "2.0"}, id={"type": "null"}),
        "description": "OAMS §3: the error of JSON-RPC. Of /v1/oams/rpc with `jsonrpc` and `id`.",
    },
}

OAMS_ERRORS: Final = {
    "400": "Not JSON (-32700)",
    "401": "No credential, or one that does not hold (-32096)",
    "403": "A credential, a consent, a Host or an Origin that does not reach this far (-32005)",
    "404": "Nothing was ever stored in the namespace (-32001), or nothing is under the key (-32002)",
    "409": "Something else is there already (-32097)",
    "412": "Not the version that If-Match or If-None-Match asked for (-32095)",
    "413": "Over a stated limit (-32003)",
    "422": "Not well-formed; the message says where (-32003)",
    "429": "More than a tenant may keep or do (-32004), with Retry-After",
    "503": "The store cannot be used right now (-32098)",
}

_ETAG_GIVEN: Final = {"ETag": {"description": "The version of the memory.", "schema": TEXT}}
_STORE_GIVEN: Final = {
    **_ETAG_GIVEN,
    "X-OAMS-Warning": {"description": "What is odd about the memory, which was stored all the same.", "schema": TEXT},
}


def _in_path(name: str, schema: Schema, description: str, example: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": schema,
        "description": description,
        "example": example,
    }


def _in_header(name: str, schema: Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": schema, "description": description}


_NAMESPACE_IN_PATH: Final = _in_path("namespace", _NAMESPACE, "Percent-encoded.", EXAMPLE_NAMESPACE)
_PATH: Final = (
    _NAMESPACE_IN_PATH,
    _in_path("key", _KEY, "Percent-encoded, its slashes too; any character but control characters.", EXAMPLE_KEY),
)
_IF_MATCH: Final = _in_header("If-Match", _ETAG, "The `ETag` of the version that is meant; `*` for any.")
_CONSENT: Final = _in_header(
    "X-OAMS-Consent",
    {"type": "string", "pattern": "^[ ,]*($|umpcap\\.)"},
    "The same as `consents`, separated by commas.",
)

OAMS_OPERATIONS: Final = (
    Operation(
        method="put",
        path="/v1/oams/memories/{namespace}/{key}",
        name="oams_store",
        summary="STORE: write a memory; the same content again is no news (OAMS §3)",
        parameters=(
            *_PATH,
            _IF_MATCH,
            _in_header("If-None-Match", {"const": "*"}, "Only if there is no such memory yet."),
        ),
        asks="OamsSent",
        example=EXAMPLE_MEMORY,
        answer="OamsMemory",
        success=("200", "201"),
        headers=_STORE_GIVEN,
        errors="OamsError",
    ),
    Operation(
        method="get",
        path="/v1/oams/memories/{namespace}/{key}",
        name="oams_get",
        summary="One memory by its key",
        parameters=_PATH,
        answer="OamsMemory",
        headers=_ETAG_GIVEN,
        errors="OamsError",
    ),
    Operation(
        method="delete",
        path="/v1/oams/memories/{namespace}/{key}",
        name="oams_forget",
        summary="FORGET: never again in any answer (OAMS §3)",
        parameters=(*_PATH, _IF_MATCH),
        answer="",
        success=("204",),
        errors="OamsError",
    ),
    Operation(
        method="get",
        path="/v1/oams/memories/{namespace}",
        name="oams_list",
        summary="LIST: everything in a namespace, last updated first (OAMS §3)",
        parameters=(
            _NAMESPACE_IN_PATH,
            in_query("cursor", {"type": "string", "maxLength": MAX_CURSOR_CHARS}, "`next_cursor` of the page before."),
            in_query(
                "limit",
                {"type": "integer", "minimum": 1, "maximum": 999_999_999, "default": DEFAULT_LIMIT},
                f"How many on a page; more than {MAX_LIMIT} is {MAX_LIMIT}.",
                10,
            ),
            in_query("since", _MOMENT, "Updated then or later.", "2026-01-15T10:00:00Z"),
            in_query("tags", TEXT, "All of them: separated by commas, a JSON array, or given several times.", "tea"),
        ),
        answer="OamsPage",
        errors="OamsError",
    ),
    Operation(
        method="post",
        path="/v1/oams/memories/batch",
        name="oams_batch_store",
        summary="BATCH_STORE: write many memories, all or none (OAMS §3)",
        asks="OamsBatch",
        example={
            "memories": [_WHOLE, {**_WHOLE, "key": "drinks/evening", "value": "Ada drinks water in the evening."}]
        },
        answer="OamsMemories",
        errors="OamsError",
    ),
    Operation(
        method="post",
        path="/v1/oams/recall",
        name="oams_recall",
        summary="RECALL: the best memories for a query, each with `metadata.score` (OAMS §3, §4)",
        parameters=(_CONSENT,),
        asks="OamsRecall",
        example={"namespace": EXAMPLE_NAMESPACE, "query": "what does Ada drink?", "k": 3, "tags": ["tea"]},
        answer="OamsMemories",
        errors="OamsError",
    ),
    Operation(
        method="post",
        path="/v1/oams/rpc",
        name="oams_rpc",
        summary="The same operations as JSON-RPC 2.0: one call, or a batch of them (OAMS §3)",
        parameters=(_CONSENT,),
        asks="OamsCalls",
        example={
            "jsonrpc": "2.0",
            "method": "oams.list",
            "params": {"namespace": EXAMPLE_NAMESPACE, "limit": 10},
            "id": 1,
        },
        answer="OamsReplies",
        success=("200", "204"),
        errors="OamsError",
    ),
)
