"""What the operations give, as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from memoranda.encoding.shapes import TEXT, Schema, closed, maybe, one_of, ref, said, schema, some
from memoranda.standards.oams.codes import MEANINGS
from memoranda.standards.oams.requests import BatchRequest, MemoryShape, Sent, Whole
from memoranda.standards.oams.rpc import MAX_BATCH, MAX_ID_CHARS

METHODS: Final = ("oams.store", "oams.recall", "oams.list", "oams.forget", "oams.batch_store", "oams.get")

_WITH_MODEL: Final[Schema] = {
    # OAMS §2: required if `embedding` is present.
    "if": {"properties": {"embedding": {"type": "array"}}, "required": ["embedding"]},
    "then": {"properties": {"embedding_model": {"type": "string"}}, "required": ["embedding_model"]},
}
_ERROR: Final = closed("code message", code={"enum": sorted(MEANINGS)}, message=TEXT, data={"type": "object"})
_VERSION: Final[Schema] = {"const": "2.0"}
_ID: Final[Schema] = {"type": ["string", "number", "null"], "maxLength": MAX_ID_CHARS}
_CALL: Final = closed(
    "jsonrpc method",
    jsonrpc=_VERSION,
    method=said(one_of(METHODS), "The parameters are those of the same operation in REST."),
    params={"type": "object"},
    id=said(_ID, "Without one it is a notification, which is not answered."),
)
_REPLY: Final = {
    "anyOf": [
        closed("jsonrpc result id", jsonrpc=_VERSION, result={}, id=_ID),
        closed("jsonrpc error id", jsonrpc=_VERSION, error=_ERROR, id=_ID),
    ]
}


def _batch() -> Schema:
    found: dict[str, Any] = schema(BatchRequest)
    found["properties"]["memories"]["items"] = ref("OamsWhole")
    return found


ANSWERS: Final[dict[str, Schema]] = {
    "OamsMemory": schema(MemoryShape),
    "OamsSent": {**schema(Sent), **_WITH_MODEL},
    "OamsWhole": {**schema(Whole), **_WITH_MODEL},
    "OamsMemories": some(ref("OamsMemory")),
    "OamsBatch": _batch(),
    "OamsPage": closed(
        "memories next_cursor",
        memories=some(ref("OamsMemory")),
        next_cursor=said(maybe(TEXT), "null: this was the last page."),
    ),
    "OamsCalls": {"anyOf": [_CALL, {**some(_CALL), "minItems": 1, "maxItems": MAX_BATCH}]},
    "OamsReplies": {"anyOf": [_REPLY, some(_REPLY)]},
    "OamsError": said(
        closed("error", error=_ERROR, jsonrpc=_VERSION, id={"type": "null"}),
        "OAMS §3: the error of JSON-RPC. Of /v1/oams/rpc with `jsonrpc` and `id`.",
    ),
}
