"""The routes of OAMS: five operations as REST and as JSON-RPC, and reading one memory (section 3).

The body of a memory's answer is the memory and nothing else; its version is in `ETag`, and what was odd about it in
`X-OAMS-Warning`. Whatever could be read as JSON-RPC is answered with status 200, errors too; nothing but notifications
with 204. A single call has the headers of the same operation in REST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import Answer, Call
from memoranda.bindings.http.operation import Refusal, Standard, Verb, in_header
from memoranda.encoding.json_text import MAX_DEPTH, dump
from memoranda.encoding.shapes import TEXT, Shape
from memoranda.errors import CrossNamespace, InvalidInput, MemorandaError, TooLarge, Unauthorized, VersionMismatch
from memoranda.service.core.access import Access
from memoranda.service.oams.memories import Stored
from memoranda.service.oams.views import Shown
from memoranda.service.service import Service
from memoranda.standards.oams import codes, rpc
from memoranda.standards.oams.answers import ANSWERS
from memoranda.standards.oams.requests import (
    MAX_ETAG_CHARS,
    MAX_NAMESPACES,
    BatchRequest,
    ConsentedRecall,
    DreamRequest,
    DreamsRequest,
    ExportRequest,
    ForgetRequest,
    GetRequest,
    ListRequest,
    NamespacesRequest,
    StoreRequest,
    UndoRequest,
)

RPC_PATH: Final = "/v1/oams/rpc"
EXAMPLE_NAMESPACE: Final = "user-x123ab:personal"
EXAMPLE_KEY: Final = "drinks/morning"
EXAMPLE_DREAM: Final = "0b6a2f0e-8d7c-5c39-9c55-6f2f1d7f3a11"
EXAMPLE_MEMORY: Final[dict[str, Any]] = {
    "value": "Ada drinks green tea in the **morning**.",
    "tags": ["tea", "habits"],
    "metadata": {"confidence": 0.9, "language": "en"},
    "source_id": "transcript:call-7:93",
}
# Capability tokens of the owners of all namespaces of a query, separated by commas (section 4).
CONSENT_HEADER: Final = b"x-oams-consent"
WARNING_HEADER: Final = b"x-oams-warning"
# A memory may have thousands of fields that nobody knows; headers have less room.
WARNINGS_LIMIT, WARNING_CHARS_LIMIT = 8, 200
# What stands around a memory in a batch: the request and its array.
BATCH_DEPTH: Final = MAX_DEPTH + 2


# --- errors ------------------------------------------------------------------------------------------------


def problem(error: MemorandaError) -> tuple[int, str, dict[str, Any]]:
    """Code, message and data of an error (section 3)."""
    code = codes.code_of(error)
    reason = "version_conflict" if isinstance(error, VersionMismatch) else error.code
    return code, f"{codes.MEANINGS[code]}: {error.message}", {"reason": reason}


def refuse(error: MemorandaError, path: str) -> Refusal:
    """The error object of JSON-RPC; of an error that is not about one call of several."""
    # RFC 9110 15.5.14 has a status of its own for what is well-formed but too large.
    status = 413 if isinstance(error, TooLarge) else codes.http_status(codes.code_of(error))
    return status, _error(path, *problem(error))


def no_route(status: int, path: str) -> Refusal:
    message = "no route" if status == 404 else "this path is not for that method"
    return status, _error(path, codes.METHOD_NOT_FOUND, message)


def _error(path: str, code: int, message: str, data: object = None) -> object:
    if path == RPC_PATH:
        # JSON-RPC 2.0, section 5: null where the id is not known.
        return rpc.build_failure(rpc.Call(), code, message, data)
    return {"error": rpc.build_error(code, message, data)}


OAMS: Final = Standard(
    name="oams",
    prefixes=("/v1/oams/",),
    refuse=refuse,
    no_route=no_route,
    responses="oams",
    schemas="Oams",
    errors={
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
    },
    error_schemas=("OamsError",),
    answers=ANSWERS,
    names={
        "namespace": {"description": "Percent-encoded.", "example": EXAMPLE_NAMESPACE},
        "key": {
            "description": "Percent-encoded, its slashes too; any character but control characters.",
            "example": EXAMPLE_KEY,
        },
        "run_id": {"description": "The id of a pass of consolidation.", "example": EXAMPLE_DREAM},
    },
    # Further slashes belong to a key, as some proxies decode them.
    rest=frozenset({"key"}),
    # BATCH_STORE takes ten thousand memories: so many times as much as one request of the other standards.
    body_factor=8,
)


# --- the operations, as both bindings call them ------------------------------------------------------------


def store(service: Service, call: Call, asked: StoreRequest) -> Answer:
    is_new = asked.if_none_match is not None
    stored = service.oams.store(call.access, asked.memory, if_match=asked.if_match, if_absent=is_new)
    headers = (*_version(stored), *_warnings(stored), (b"x-oams-result", stored.result.encode("ascii")))
    return Answer(result=stored.memory, status=201 if stored.result == "created" else 200, headers=headers)


def batch_store(service: Service, call: Call, asked: BatchRequest) -> Answer:
    return Answer(result=[each.memory for each in service.oams.batch_store(call.access, asked.memories)])


def recall(service: Service, call: Call, asked: ConsentedRecall) -> Answer:
    beside = [] if asked.consents is UNSET else asked.consents
    consents = _consents(service, [*consents_in_header(call), *beside])
    return Answer(result=service.oams.recall(call.access, asked, consents=consents))


def list_memories(service: Service, call: Call, asked: ListRequest) -> Answer:
    page = service.oams.list_memories(call.access, asked)
    return Answer(result={"memories": page.memories, "next_cursor": page.next_cursor})


def get(service: Service, call: Call, asked: GetRequest) -> Answer:
    """One memory by its key; an operation that OAMS lets us add."""
    found = service.oams.get(call.access, asked.namespace, asked.key)
    return Answer(result=found.memory, headers=_version(found))


def forget(service: Service, call: Call, asked: ForgetRequest) -> Answer:
    service.oams.forget(call.access, asked.namespace, asked.key, if_match=asked.if_match)
    return Answer(status=204)


def consolidate(service: Service, call: Call, asked: DreamRequest) -> Answer:
    return Answer(result=service.oams.dream(call.access, asked).document())


def namespaces(service: Service, call: Call, _: NamespacesRequest) -> Answer:
    own = service.oams.namespace(call.access)
    return Answer(result={"default": str(own), "namespaces": [*service.oams.namespaces(call.access)]})


def export(service: Service, call: Call, asked: ExportRequest) -> Answer:
    lines, following, report = service.oams.export_page(call.access, asked.namespace, after=int(asked.cursor or 0))
    shown = [raw.decode("utf-8") for raw, _ in lines]
    cursor = None if following is None else str(following)
    return Answer(result={"lines": shown, "report": report.document(), "next_cursor": cursor})


def dreams(service: Service, call: Call, _: DreamsRequest) -> Answer:
    return Answer(result={"runs": service.oams.dream_runs(call.access)})


def undo_dream(service: Service, call: Call, asked: UndoRequest) -> Answer:
    return Answer(result=service.oams.undo(call.access, asked.run_id).document())


def consents_in_header(call: Call) -> list[str]:
    """The capability tokens in X-OAMS-Consent, which may be given more than once."""
    lines = [value.decode("latin-1") for name, value in call.scope["headers"] if name == CONSENT_HEADER]
    return [token for line in lines for part in line.split(",") if (token := part.strip())]


def _consents(service: Service, tokens: Sequence[str]) -> list[Access]:
    if len(tokens) > MAX_NAMESPACES:
        raise InvalidInput(f"there may be at most {MAX_NAMESPACES} consents")
    found = []
    for number, token in enumerate(tokens):
        if not token.startswith("umpcap."):
            # An API key tells what its bearer may do, not what an owner agreed to.
            raise CrossNamespace(f"consents[{number}] is no capability token")
        try:
            found.append(service.gate.authenticate(token))
        except Unauthorized as error:
            raise CrossNamespace(f"consents[{number}] does not hold: {error.message}") from None
    return found


def _version(shown: Shown) -> tuple[wire.Header, ...]:
    return ((b"etag", f'"{shown.etag}"'.encode("ascii")),)


def _warnings(stored: Stored) -> tuple[wire.Header, ...]:
    said = list(stored.warnings[:WARNINGS_LIMIT])
    if more := len(stored.warnings) - len(said):
        said.append(f"and {more} more")
    return tuple((WARNING_HEADER, _printable(text)) for text in said)


def _printable(text: str) -> bytes:
    shown = "".join(char if char.isprintable() else " " for char in text[:WARNING_CHARS_LIMIT])
    return shown.encode("ascii", "backslashreplace")


# --- REST --------------------------------------------------------------------------------------------------


def read_store(call: Call) -> StoreRequest:
    _only_path(call)
    return StoreRequest.parse_body(
        call.name("namespace"),
        call.name("key"),
        call.json(),
        if_match=call.header(b"if-match"),
        if_none_match=call.header(b"if-none-match"),
    )


def read_forget(call: Call) -> ForgetRequest:
    _only_path(call)
    names = {"namespace": call.name("namespace"), "key": call.name("key")}
    return ForgetRequest.parse({**names, "if_match": call.header(b"if-match")})


def read_list(call: Call) -> ListRequest:
    return ListRequest.parse_query(call.name("namespace"), wire.query_pairs(call.scope))


def read_batch(call: Call) -> BatchRequest:
    _only_path(call)
    return BatchRequest.parse(call.json(max_depth=BATCH_DEPTH))


def _only_path(call: Call) -> None:
    if call.scope["query_string"]:
        raise InvalidInput("nothing can be asked for in the query here")


# --- JSON-RPC ----------------------------------------------------------------------------------------------

METHODS: Final[Mapping[str, tuple[Verb, type[Shape]]]] = {
    "oams.store": (store, StoreRequest),
    "oams.recall": (recall, ConsentedRecall),
    "oams.list": (list_memories, ListRequest),
    "oams.forget": (forget, ForgetRequest),
    "oams.batch_store": (batch_store, BatchRequest),
    "oams.get": (get, ForgetRequest),
    "oams.consolidate": (consolidate, DreamRequest),
    "oams.namespaces": (namespaces, NamespacesRequest),
    "oams.dreams": (dreams, DreamsRequest),
    "oams.undo_dream": (undo_dream, UndoRequest),
}


def read_calls(call: Call) -> rpc.Envelope:
    _only_path(call)
    if call.media_type != wire.JSON:
        raise InvalidInput("content-type must be application/json")
    return rpc.parse_body(call.raw, max_bytes=call.max_body_bytes)


def call_methods(service: Service, call: Call, envelope: rpc.Envelope) -> Answer:
    """Make the calls one after the other."""
    answers: list[dict[str, Any]] = []
    headers: tuple[wire.Header, ...] = ()
    for each in envelope.calls:
        answer, headers = _call(service, call, each)
        if not each.is_notification:
            answers.append(answer)
    closed = rpc.build_response(envelope, answers)
    headers = () if envelope.is_batch else headers
    return Answer(status=204, headers=headers) if closed is None else Answer(body=dump(closed), headers=headers)


def _call(service: Service, call: Call, each: rpc.Call) -> tuple[dict[str, Any], tuple[wire.Header, ...]]:
    if each.problem is not None:
        return rpc.build_refusal(each), ()
    if each.method not in METHODS:
        message = f"there is no method {each.method[:40]!a}; there are {', '.join(METHODS)}"
        return rpc.build_failure(each, codes.METHOD_NOT_FOUND, message), ()
    verb, shape = METHODS[each.method]
    try:
        answer = verb(service, call, shape.parse(each.params))
    except MemorandaError as error:
        return rpc.build_failure(each, *problem(error)), ()
    assert isinstance(answer, Answer)
    return rpc.build_result(each, answer.result), answer.headers


# --- the table ---------------------------------------------------------------------------------------------

_WHOLE: Final[dict[str, Any]] = {"key": EXAMPLE_KEY, "namespace": EXAMPLE_NAMESPACE, **EXAMPLE_MEMORY}
_ETAG: Final = {"ETag": {"description": "The version of the memory.", "schema": TEXT}}
_WARNING: Final = {"description": "What is odd about the memory, which was stored all the same.", "schema": TEXT}
_IF_MATCH: Final = in_header(
    "If-Match",
    {"type": "string", "minLength": 1, "maxLength": MAX_ETAG_CHARS},
    "The `ETag` of the version that is meant; `*` for any.",
)
_CONSENT: Final = in_header(
    "X-OAMS-Consent",
    {"type": "string", "pattern": "^[ ,]*($|umpcap\\.)"},
    "The same as `consents`, separated by commas.",
)
_MEMORY: Final = "/v1/oams/memories/{namespace}/{key}"
_row: Final = OAMS.row

OPERATIONS: Final = (
    _row(
        "PUT",
        _MEMORY,
        "oams_store",
        "STORE: write a memory; the same content again is no news (OAMS §3)",
        store,
        "OamsMemory",
        GetRequest,
        EXAMPLE_MEMORY,
        reads=read_store,
        body="OamsSent",
        parameters=(_IF_MATCH, in_header("If-None-Match", {"const": "*"}, "Only if there is no such memory yet.")),
        success=(200, 201),
        headers={**_ETAG, "X-OAMS-Warning": _WARNING},
    ),
    _row("GET", _MEMORY, "oams_get", "One memory by its key", get, "OamsMemory", GetRequest, headers=_ETAG),
    _row(
        "DELETE",
        _MEMORY,
        "oams_forget",
        "FORGET: never again in any answer (OAMS §3)",
        forget,
        "",
        GetRequest,
        reads=read_forget,
        parameters=(_IF_MATCH,),
        success=(204,),
    ),
    _row(
        "GET",
        "/v1/oams/memories/{namespace}",
        "oams_list",
        "LIST: everything in a namespace, last updated first (OAMS §3)",
        list_memories,
        "OamsPage",
        ListRequest,
        {"limit": 10, "since": "2026-01-15T10:00:00Z", "tags": "tea"},
        reads=read_list,
    ),
    _row(
        "GET",
        "/v1/oams/export/{namespace}",
        "oams_export",
        "What may leave of a namespace, as it stands in a file, page by page",
        export,
        "OamsExport",
        ExportRequest,
    ),
    _row(
        "GET",
        "/v1/oams/namespaces",
        "oams_namespaces",
        "The caller's own namespace, and those in which there is anything",
        namespaces,
        "OamsNamespaces",
        NamespacesRequest,
    ),
    _row(
        "POST",
        "/v1/oams/memories/batch",
        "oams_batch_store",
        "BATCH_STORE: write many memories, all or none (OAMS §3)",
        batch_store,
        "OamsMemories",
        BatchRequest,
        {"memories": [_WHOLE, {**_WHOLE, "key": "drinks/evening", "value": "Ada drinks water in the evening."}]},
        reads=read_batch,
        body="OamsBatch",
    ),
    _row(
        "POST",
        "/v1/oams/recall",
        "oams_recall",
        "RECALL: the best memories for a query, each with `metadata.score` (OAMS §3, §4)",
        recall,
        "OamsMemories",
        ConsentedRecall,
        {"namespace": EXAMPLE_NAMESPACE, "query": "what does Ada drink?", "k": 3, "tags": ["tea"]},
        parameters=(_CONSENT,),
    ),
    _row(
        "POST",
        "/v1/oams/dreams",
        "oams_consolidate",
        "Consolidate a namespace: one pass of one strategy, dry or written down (OAMS §6)",
        consolidate,
        "OamsDream",
        DreamRequest,
        {"namespace": EXAMPLE_NAMESPACE, "strategy": "reflect", "dry_run": True},
    ),
    _row(
        "GET",
        "/v1/oams/dreams",
        "oams_dreams",
        "The passes that changed something and were not undone, the last first",
        dreams,
        "OamsDreams",
        DreamsRequest,
    ),
    _row(
        "DELETE",
        "/v1/oams/dreams/{run_id}",
        "oams_undo_dream",
        "Undo a pass: take back what it made, bring again what it took back",
        undo_dream,
        "OamsUndone",
        UndoRequest,
    ),
    _row(
        "POST",
        RPC_PATH,
        "oams_rpc",
        "The same operations as JSON-RPC 2.0: one call, or a batch of them (OAMS §3)",
        call_methods,
        "OamsReplies",
        None,
        {"jsonrpc": "2.0", "method": "oams.list", "params": {"namespace": EXAMPLE_NAMESPACE, "limit": 10}, "id": 1},
        reads=read_calls,
        body="OamsCalls",
        parameters=(_CONSENT,),
        success=(200, 204),
    ),
)
