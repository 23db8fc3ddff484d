"""What the operations give, as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from memoranda.encoding.shapes import TEXT, Schema, closed, maybe, one_of, ref, said, schema, some
from memoranda.standards.oams.codes import MEANINGS
from memoranda.standards.oams.memory import STATEMENTS, STRATEGIES
from memoranda.standards.oams.requests import BatchRequest, MemoryShape, Sent, Whole
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


_KEYS: Final = some(TEXT)
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
# Of a memory that a model is shown: what it says and what it rests on.
BRIEF_MEMORY: Final = said({"type": "object"}, "A memory of OAMS: key, value, tags, metadata, parent_id, source_id.")

ANSWERS: Final[dict[str, Schema]] = {
    "OamsDream": closed(
        "run_id namespace strategy dry_run inputs stayed written outputs taken_back left_out",
        run_id=said(TEXT, "By which it can be undone, if anything was written."),
        namespace=TEXT,
        strategy=one_of((*STRATEGIES, STATEMENTS)),
        dry_run={"type": "boolean"},
        inputs=said(_COUNT, "How many memories were read."),
        stayed=said(_COUNT, "How many were not, because their consent keeps their words as they are."),
        written=said(_COUNT, "How many results are new or say something new."),
        outputs=some(
            closed(
                "result memory inputs",
                result=said(one_of(DREAM_RESULTS), "`kept`: somebody changed what is under its key, or it is on hold."),
                memory=ref("OamsMemory"),
                inputs=said(some(closed("key text", key=TEXT, text=TEXT)), "The beginnings of what it rests on."),
            )
        ),
        taken_back=said(_KEYS, "Keys of earlier results that no longer follow."),
        left_out=said(_KEYS, "Why some results cannot be memories here."),
    ),
    "OamsNamespaces": closed(
        "default namespaces",
        default=said(TEXT, "The caller's own: where memories go that name no other."),
        namespaces=said(some(TEXT), "Those in which there is anything, by name."),
    ),
    "OamsExport": closed(
        "lines report next_cursor",
        lines=said(some(TEXT), "Memories as they stand in a file, each the JSON of one."),
        report=said(ref("Report"), "What stayed behind of this page, and why."),
        next_cursor=said(maybe(TEXT), "null: this was the last page."),
    ),
    "OamsDreams": closed(
        "runs",
        runs=some(
            closed(
                "run_id namespace strategy at created updated taken_back can_be_undone",
                run_id=TEXT,
                namespace=TEXT,
                strategy=one_of((*STRATEGIES, STATEMENTS)),
                at={"type": "string", "format": "date-time"},
                created=_KEYS,
                updated=_KEYS,
                taken_back=_KEYS,
                can_be_undone=said({"type": "boolean"}, "Only the last of a strategy over a namespace can."),
            )
        ),
    ),
    "OamsUndone": closed(
        "run_id taken_back brought_again left",
        run_id=TEXT,
        taken_back=_KEYS,
        brought_again=_KEYS,
        left=said(_KEYS, "Changed or held since, or what they rest on was forgotten."),
    ),
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
