"""The operations of OAMS (section 3), and those beyond it: reading one memory, consolidation, export."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.operations.row import in_header, row_constructor
from memoranda.encoding.shapes import TEXT
from memoranda.standards.oams.requests import (
    MAX_ETAG_CHARS,
    BatchRequest,
    ConsentedRecall,
    DreamRequest,
    DreamsRequest,
    ExportRequest,
    GetRequest,
    ListRequest,
    NamespacesRequest,
    UndoRequest,
)

EXAMPLE_NAMESPACE: Final = "user-x123ab:personal"
EXAMPLE_KEY: Final = "drinks/morning"
EXAMPLE_MEMORY: Final[dict[str, object]] = {
    "value": "Ada drinks green tea in the **morning**.",
    "tags": ["tea", "habits"],
    "metadata": {"confidence": 0.9, "language": "en"},
    "source_id": "transcript:call-7:93",
}
_WHOLE: Final[dict[str, object]] = {
    "key": EXAMPLE_KEY,
    "namespace": EXAMPLE_NAMESPACE,
    **EXAMPLE_MEMORY,
}
_ETAG: Final = {"ETag": {"description": "The version of the memory.", "schema": TEXT}}
_WARNING: Final = {
    "description": "A warning about the stored memory.",
    "schema": TEXT,
}
_IF_MATCH: Final = in_header(
    "If-Match",
    {"type": "string", "minLength": 1, "maxLength": MAX_ETAG_CHARS},
    "The `ETag` of the version that is meant; `*` for any.",
)
CONSENT: Final = in_header(
    "X-OAMS-Consent",
    {"type": "string", "pattern": "^[ ,]*($|umpcap\\.)"},
    "The same as `consents`, separated by commas.",
)
_MEMORY: Final = "/v1/oams/memories/{namespace}/{key}"

row: Final = row_constructor("oams")

OPERATIONS: Final = (
    row(
        "PUT",
        _MEMORY,
        "oams_store",
        "STORE: write a memory; storing the same content again changes nothing (OAMS §3)",
        "OamsMemory",
        GetRequest,
        EXAMPLE_MEMORY,
        verb="store",
        request="value",
        conditions={"if_match": "If-Match", "if_absent": "If-None-Match"},
        body="OamsSent",
        parameters=(
            _IF_MATCH,
            in_header("If-None-Match", {"const": "*"}, "Only if the memory does not exist."),
        ),
        success=(200, 201),
        headers={**_ETAG, "X-OAMS-Warning": _WARNING},
    ),
    row(
        "GET",
        _MEMORY,
        "oams_get",
        "Return one memory by its key",
        "OamsMemory",
        GetRequest,
        verb="get",
        headers=_ETAG,
    ),
    row(
        "DELETE",
        _MEMORY,
        "oams_forget",
        "FORGET: remove a memory from all answers (OAMS §3)",
        "",
        GetRequest,
        verb="forget",
        conditions={"if_match": "If-Match"},
        parameters=(_IF_MATCH,),
        success=(204,),
    ),
    row(
        "GET",
        "/v1/oams/memories/{namespace}",
        "oams_list",
        "LIST: list the memories of a namespace, last updated first (OAMS §3)",
        "OamsPage",
        ListRequest,
        {"limit": 10, "since": "2026-01-15T10:00:00Z", "tags": "tea"},
        verb="list_memories",
        request="request",
    ),
    row(
        "GET",
        "/v1/oams/export/{namespace}",
        "oams_export",
        "Export a namespace as lines of an export file, page by page; consent may exclude memories",
        "OamsExport",
        ExportRequest,
        verb="export_page",
        fields={"after": "cursor"},
    ),
    row(
        "GET",
        "/v1/oams/namespaces",
        "oams_namespaces",
        "List the caller's own namespace, and those that have memories",
        "OamsNamespaces",
        NamespacesRequest,
        verb="namespaces",
        under="namespaces",
    ),
    row(
        "POST",
        "/v1/oams/memories/batch",
        "oams_batch_store",
        "BATCH_STORE: write many memories, all or none (OAMS §3)",
        "OamsMemories",
        BatchRequest,
        {
            "memories": [
                _WHOLE,
                {**_WHOLE, "key": "drinks/evening", "value": "Ada drinks water in the evening."},
            ]
        },
        verb="batch_store",
        fields={"values": "memories"},
        body="OamsBatch",
    ),
    row(
        "POST",
        "/v1/oams/recall",
        "oams_recall",
        "RECALL: find the best memories for a query, each with `metadata.score` (OAMS §3, §4)",
        "OamsMemories",
        ConsentedRecall,
        {"namespace": EXAMPLE_NAMESPACE, "query": "what does Ada drink?", "k": 3, "tags": ["tea"]},
        verb="recall",
        request="request",
        parameters=(CONSENT,),
    ),
    row(
        "POST",
        "/v1/oams/dreams",
        "oams_consolidate",
        "Consolidate a namespace: run one strategy, as a preview or for good (OAMS §6)",
        "OamsDream",
        DreamRequest,
        {"namespace": EXAMPLE_NAMESPACE, "strategy": "reflect", "dry_run": True},
        verb="dream",
        request="request",
    ),
    row(
        "GET",
        "/v1/oams/dreams",
        "oams_dreams",
        "List the consolidation runs that changed something and were not undone, the last first",
        "OamsDreams",
        DreamsRequest,
        verb="dream_runs",
        under="runs",
    ),
    row(
        "DELETE",
        "/v1/oams/dreams/{run_id}",
        "oams_undo_dream",
        "Undo a consolidation: remove its results, restore what it removed",
        "OamsUndone",
        UndoRequest,
        verb="undo",
    ),
)
