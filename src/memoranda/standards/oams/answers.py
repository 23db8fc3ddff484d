"""The responses of the OAMS operations as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from memoranda.encoding.shapes import (
    TEXT,
    Schema,
    array_of,
    closed_object,
    described,
    nullable,
    one_of,
    ref,
    schema,
)
from memoranda.standards.oams.codes import MEANINGS
from memoranda.standards.oams.memory import STATEMENTS, STRATEGIES
from memoranda.standards.oams.requests import AddressedMemory, BatchRequest, MemoryBody, MemoryShape
from memoranda.standards.oams.rpc import MAX_BATCH, MAX_ID_CHARS

METHODS: Final = (
    "oams.store",
    "oams.recall",
    "oams.list",
    "oams.forget",
    "oams.batch_store",
    "oams.get",
    "oams.consolidate",
    "oams.dreams",
    "oams.undo_dream",
)
DREAM_RESULTS: Final = ("created", "updated", "unchanged", "kept", "refused")

_WITH_MODEL: Final[Schema] = {
    # OAMS §2: required if `embedding` is present.
    "if": {"properties": {"embedding": {"type": "array"}}, "required": ["embedding"]},
    "then": {
        "properties": {"embedding_model": {"type": "string"}},
        "required": ["embedding_model"],
    },
}
_ERROR: Final = closed_object(
    "code message", code={"enum": sorted(MEANINGS)}, message=TEXT, data={"type": "object"}
)
_VERSION: Final[Schema] = {"const": "2.0"}
_ID: Final[Schema] = {"type": ["string", "number", "null"], "maxLength": MAX_ID_CHARS}
_CALL: Final = closed_object(
    "jsonrpc method",
    jsonrpc=_VERSION,
    method=described(one_of(METHODS), "The parameters are the same as in REST."),
    params={"type": "object"},
    id=described(_ID, "Without an id the call is a notification, which has no response."),
)
_REPLY: Final = {
    "anyOf": [
        closed_object("jsonrpc result id", jsonrpc=_VERSION, result={}, id=_ID),
        closed_object("jsonrpc error id", jsonrpc=_VERSION, error=_ERROR, id=_ID),
    ]
}


def _batch_schema() -> Schema:
    """Return the schema of a batch, with its memories as a reference."""
    batch: dict[str, Any] = schema(BatchRequest)
    batch["properties"]["memories"]["items"] = ref("OamsWhole")
    return batch


_KEYS: Final = array_of(TEXT)
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
# The memory of a result, for a model.
BRIEF_MEMORY: Final = described(
    {"type": "object"}, "An OAMS memory: key, value, tags, metadata, parent_id, source_id."
)

ANSWERS: Final[dict[str, Schema]] = {
    "OamsDream": closed_object(
        "run_id namespace strategy dry_run inputs stayed written outputs taken_back left_out",
        run_id=described(TEXT, "The id for undoing the run, if it wrote anything."),
        namespace=TEXT,
        strategy=one_of((*STRATEGIES, STATEMENTS)),
        dry_run={"type": "boolean"},
        inputs=described(_COUNT, "The number of memories read."),
        stayed=described(
            _COUNT, "The number of memories skipped because their consent forbids it."
        ),
        written=described(_COUNT, "The number of new or changed results."),
        outputs=array_of(
            closed_object(
                "result memory inputs",
                result=described(
                    one_of(DREAM_RESULTS),
                    "`kept`: the memory with its key was edited or is on hold.",
                ),
                memory=ref("OamsMemory"),
                inputs=described(
                    array_of(closed_object("key text", key=TEXT, text=TEXT)),
                    "The beginnings of its sources.",
                ),
            )
        ),
        taken_back=described(_KEYS, "Keys of earlier results that are no longer valid."),
        left_out=described(_KEYS, "The reasons why some results cannot be stored."),
    ),
    "OamsNamespaces": closed_object(
        "default namespaces",
        default=described(TEXT, "The caller's own namespace, used if a request names none."),
        namespaces=described(array_of(TEXT), "The namespaces with memories, by name."),
    ),
    "OamsExport": closed_object(
        "lines report next_cursor start_cursor",
        lines=described(array_of(TEXT), "Memories in file form, one JSON text each."),
        report=described(
            ref("Report"), "The memories of this page that were not exported, with reasons."
        ),
        next_cursor=described(
            nullable(TEXT), "The cursor of the next page; null on the last page."
        ),
        start_cursor=described(
            TEXT, "The cursor for the first page of another namespace, as of the same moment."
        ),
    ),
    "OamsDreams": closed_object(
        "runs",
        runs=array_of(
            closed_object(
                "run_id namespace strategy at created updated taken_back can_be_undone",
                run_id=TEXT,
                namespace=TEXT,
                strategy=one_of((*STRATEGIES, STATEMENTS)),
                at={"type": "string", "format": "date-time"},
                created=_KEYS,
                updated=_KEYS,
                taken_back=_KEYS,
                can_be_undone=described(
                    {"type": "boolean"}, "true for the last run of a strategy over a namespace."
                ),
            )
        ),
    ),
    "OamsUndone": closed_object(
        "run_id taken_back brought_again left",
        run_id=TEXT,
        taken_back=_KEYS,
        brought_again=_KEYS,
        left=described(
            _KEYS,
            "Keys of memories that were edited or put on hold since, or whose sources were forgotten.",
        ),
    ),
    "OamsMemory": schema(MemoryShape),
    "OamsSent": {**schema(MemoryBody), **_WITH_MODEL},
    "OamsWhole": {**schema(AddressedMemory), **_WITH_MODEL},
    "OamsMemories": array_of(ref("OamsMemory")),
    "OamsBatch": _batch_schema(),
    "OamsPage": closed_object(
        "memories next_cursor",
        memories=array_of(ref("OamsMemory")),
        next_cursor=described(
            nullable(TEXT), "The cursor of the next page; null on the last page."
        ),
    ),
    "OamsCalls": {"anyOf": [_CALL, {**array_of(_CALL), "minItems": 1, "maxItems": MAX_BATCH}]},
    "OamsReplies": {"anyOf": [_REPLY, array_of(_REPLY)]},
    "OamsError": described(
        closed_object("error", error=_ERROR, jsonrpc=_VERSION, id={"type": "null"}),
        "OAMS §3: the JSON-RPC error, with `jsonrpc` and `id` in /v1/oams/rpc.",
    ),
}
