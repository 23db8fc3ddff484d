"""The routes of OAMS: five operations as REST and as JSON-RPC, and reading one memory (section 3).

An answer with a memory has the memory as its body and nothing else; its version is in `ETag`, and warnings about it are
in `X-OAMS-Warning`. Every well-formed JSON-RPC request is answered with status 200, errors too; one with notifications
only, with 204. A single call gets the headers of the same operation in REST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from memoranda.bindings.http import wire
from memoranda.bindings.http.call import HttpAnswer, HttpCall, Serve
from memoranda.bindings.http.operation import Refusal, Standard
from memoranda.bindings.operations import oams as rows
from memoranda.bindings.operations.oams import CONSENT, EXAMPLE_KEY, EXAMPLE_NAMESPACE
from memoranda.encoding.json_text import MAX_DEPTH, dump
from memoranda.encoding.shapes import Shape
from memoranda.errors import (
    CrossNamespace,
    InvalidInput,
    MemorandaError,
    TooLarge,
    Unauthorized,
    VersionMismatch,
)
from memoranda.service.core.access import Access
from memoranda.service.oams.memories import StoreResult
from memoranda.service.oams.views import TaggedMemory
from memoranda.service.service import Service
from memoranda.standards.oams import codes, rpc
from memoranda.standards.oams.answers import ANSWERS
from memoranda.standards.oams.requests import (
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
EXAMPLE_DREAM: Final = "0b6a2f0e-8d7c-5c39-9c55-6f2f1d7f3a11"
# Capability tokens of the owners of all namespaces of a query, separated by commas (section 4).
CONSENT_HEADER: Final = b"x-oams-consent"
WARNING_HEADER: Final = b"x-oams-warning"
# Warnings per answer, and characters of each: a memory may have thousands of unknown fields, but headers are small.
WARNINGS_LIMIT, WARNING_CHARS_LIMIT = 8, 200
# Levels of nesting: the request and its array stand around a memory.
BATCH_DEPTH: Final = MAX_DEPTH + 2


# --- errors ------------------------------------------------------------------------------------------------


def describe_error(error: MemorandaError) -> tuple[int, str, dict[str, object]]:
    """Return the code, message and data of an error (section 3)."""
    code = codes.code_of(error)
    reason = "version_conflict" if isinstance(error, VersionMismatch) else error.code
    return code, f"{codes.MEANINGS[code]}: {error.message}", {"reason": reason}


def refuse(error: MemorandaError, path: str) -> Refusal:
    """Return an error that concerns the complete request, as a JSON-RPC error object."""
    # RFC 9110 15.5.14 has a status of its own for a body that is well-formed but too large.
    status = 413 if isinstance(error, TooLarge) else codes.http_status(codes.code_of(error))
    return status, _error(path, *describe_error(error))


def refuse_route(status: int, path: str) -> Refusal:
    """Return the refusal of an unknown path or method."""
    message = "no route" if status == 404 else "this path is not for that method"
    return status, _error(path, codes.METHOD_NOT_FOUND, message)


def _error(path: str, code: int, message: str, data: object = None) -> object:
    if path == RPC_PATH:
        # JSON-RPC 2.0, section 5: the id is null if it is not known.
        return rpc.build_failure(rpc.RpcCall(), code, message, data)
    return {"error": rpc.build_error(code, message, data)}


OAMS: Final = Standard(
    name="oams",
    prefixes=("/v1/oams/",),
    refuse=refuse,
    refuse_route=refuse_route,
    responses="oams",
    schemas="Oams",
    errors={
        "400": "Not JSON (-32700)",
        "401": "No credential, or an invalid one (-32096)",
        "403": "The credential, consent, Host or Origin does not allow this (-32005)",
        "404": "Nothing was ever stored in the namespace (-32001), or there is no memory with the key (-32002)",
        "409": "Conflicts with something that exists (-32097)",
        "412": "Not the version that If-Match or If-None-Match requires (-32095)",
        "413": "Over a stated limit (-32003)",
        "422": "Malformed; the message says where (-32003)",
        "429": "A limit of the owner is reached (-32004), with Retry-After",
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
        "run_id": {"description": "The id of a consolidation run.", "example": EXAMPLE_DREAM},
    },
    # Further slashes belong to a key, as some proxies decode them.
    slash_names=frozenset({"key"}),
    # BATCH_STORE takes ten thousand memories, so its bodies may be this many times larger than others.
    body_factor=8,
)


# --- verbs with more than their row says: headers, consents, files -----------------------------------------


def store(service: Service, call: HttpCall, request: StoreRequest) -> HttpAnswer:
    """Store a memory, and return it. Headers name its version, its warnings, and the result."""
    is_new = request.if_none_match is not None
    stored_memory = service.oams.store(
        call.access, request.memory, if_match=request.if_match, if_absent=is_new
    )
    headers = (
        *_version_headers(stored_memory),
        *_warning_headers(stored_memory),
        (b"x-oams-result", stored_memory.result.encode("ascii")),
    )
    return HttpAnswer(
        result=stored_memory.memory,
        status=201 if stored_memory.result == "created" else 200,
        headers=headers,
    )


def batch_store(service: Service, call: HttpCall, request: BatchRequest) -> list[object]:
    """Store many memories, and return them."""
    stored_memories = service.oams.batch_store(call.access, request.memories)
    return [entry.memory for entry in stored_memories]


def recall(service: Service, call: HttpCall, request: ConsentedRecall) -> object:
    """Recall memories, with the consents in the body and in the header."""
    in_body = [] if request.consents is UNSET else request.consents
    consents = _consents(service, [*consents_in_header(call), *in_body])
    return service.oams.recall(call.access, request, consents=consents)


def get(service: Service, call: HttpCall, request: GetRequest) -> HttpAnswer:
    """Return one memory by its key; its version is in a header."""
    stored_memory = service.oams.get(call.access, request.namespace, request.key)
    return HttpAnswer(result=stored_memory.memory, headers=_version_headers(stored_memory))


def forget(service: Service, call: HttpCall, request: ForgetRequest) -> HttpAnswer:
    """Forget a memory."""
    service.oams.forget(call.access, request.namespace, request.key, if_match=request.if_match)
    return HttpAnswer(status=204)


def namespaces(service: Service, call: HttpCall, _request: NamespacesRequest) -> dict[str, object]:
    """Return the default namespace of the caller, and all namespaces."""
    return {
        "default": str(service.oams.namespace(call.access)),
        "namespaces": service.oams.namespaces(call.access),
    }


def export(service: Service, call: HttpCall, request: ExportRequest) -> dict[str, object]:
    """Return a page of lines as an export file has them."""
    page = service.oams.export_page(call.access, request.namespace, after=request.cursor)
    return {
        "lines": [raw.decode("utf-8") for raw, _ in page.lines],
        "report": page.report.document(),
        "next_cursor": page.following,
        "start_cursor": page.start,
    }


def consents_in_header(call: HttpCall) -> list[str]:
    """Return the capability tokens in X-OAMS-Consent, a header that may occur more than once."""
    tokens: list[str] = []
    for name, value in call.scope["headers"]:
        if name == CONSENT_HEADER:
            tokens += (part.strip() for part in value.decode("latin-1").split(","))
    return [token for token in tokens if token]


def _consents(service: Service, tokens: Sequence[str]) -> list[Access]:
    """Return the access that each consent gives. Raises CrossNamespace for one that is invalid."""
    if len(tokens) > MAX_NAMESPACES:
        raise InvalidInput(f"there may be at most {MAX_NAMESPACES} consents")
    consents = []
    for number, token in enumerate(tokens):
        if not token.startswith("umpcap."):
            # An API key shows the rights of its bearer, not the consent of an owner.
            raise CrossNamespace(f"consents[{number}] is not a capability token")
        try:
            consents.append(service.gate.authenticate(token))
        except Unauthorized as error:
            raise CrossNamespace(f"consents[{number}] is invalid: {error.message}") from None
    return consents


def _version_headers(memory: TaggedMemory) -> tuple[wire.Header, ...]:
    return ((b"etag", f'"{memory.etag}"'.encode("ascii")),)


def _warning_headers(stored_memory: StoreResult) -> tuple[wire.Header, ...]:
    """Return the headers with the warnings about a memory, as far as they fit."""
    texts = list(stored_memory.warnings[:WARNINGS_LIMIT])
    if omitted_count := len(stored_memory.warnings) - len(texts):
        texts.append(f"and {omitted_count} more")
    return tuple((WARNING_HEADER, _header_text(text)) for text in texts)


def _header_text(text: str) -> bytes:
    """Return a text as ASCII for a header, without control characters."""
    printable = "".join(char if char.isprintable() else " " for char in text[:WARNING_CHARS_LIMIT])
    return printable.encode("ascii", "backslashreplace")


# --- REST --------------------------------------------------------------------------------------------------


def parse_store(call: HttpCall) -> StoreRequest:
    """Return a store request: names in the path, a memory in the body, conditions in headers."""
    _refuse_query(call)
    return StoreRequest.parse_body(
        call.path_name("namespace"),
        call.path_name("key"),
        call.parse_json(),
        if_match=call.header(b"if-match"),
        if_none_match=call.header(b"if-none-match"),
    )


def parse_forget(call: HttpCall) -> ForgetRequest:
    """Return a forget request: names in the path, a condition in a header."""
    _refuse_query(call)
    names = {"namespace": call.path_name("namespace"), "key": call.path_name("key")}
    return ForgetRequest.parse({**names, "if_match": call.header(b"if-match")})


def parse_list(call: HttpCall) -> ListRequest:
    """Return a list request: the namespace in the path, filters in the query."""
    return ListRequest.parse_query(call.path_name("namespace"), wire.parse_query_pairs(call.scope))


def parse_batch(call: HttpCall) -> BatchRequest:
    """Return a batch of memories."""
    _refuse_query(call)
    return BatchRequest.parse(call.parse_json(max_depth=BATCH_DEPTH))


def _refuse_query(call: HttpCall) -> None:
    """Raise InvalidInput if the URL has a query."""
    if call.scope["query_string"]:
        raise InvalidInput("this path takes no query in its URL")


_ROWS: Final = OAMS.operations(
    rows.OPERATIONS,
    parsers={
        "oams_store": parse_store,
        "oams_forget": parse_forget,
        "oams_list": parse_list,
        "oams_batch_store": parse_batch,
    },
    serve={
        "oams_store": store,
        "oams_batch_store": batch_store,
        "oams_recall": recall,
        "oams_get": get,
        "oams_forget": forget,
        "oams_namespaces": namespaces,
        "oams_export": export,
    },
)


# --- JSON-RPC ----------------------------------------------------------------------------------------------

# The method, its operation, and the shape of its parameters.
_METHODS: Final[Sequence[tuple[str, str, type[Shape]]]] = (
    ("oams.store", "oams_store", StoreRequest),
    ("oams.recall", "oams_recall", ConsentedRecall),
    ("oams.list", "oams_list", ListRequest),
    ("oams.forget", "oams_forget", ForgetRequest),
    ("oams.batch_store", "oams_batch_store", BatchRequest),
    ("oams.get", "oams_get", ForgetRequest),
    ("oams.consolidate", "oams_consolidate", DreamRequest),
    ("oams.namespaces", "oams_namespaces", NamespacesRequest),
    ("oams.dreams", "oams_dreams", DreamsRequest),
    ("oams.undo_dream", "oams_undo_dream", UndoRequest),
)
_SERVE: Final = {row.name: row.serve for row in _ROWS}
METHODS: Final[Mapping[str, tuple[Serve | None, type[Shape]]]] = {
    method: (_SERVE[name], shape) for method, name, shape in _METHODS
}


def parse_calls(call: HttpCall) -> rpc.Envelope:
    """Return the JSON-RPC calls in a body.

    Raises InvalidInput for a media type other than JSON.
    """
    _refuse_query(call)
    if call.media_type != wire.JSON:
        raise InvalidInput("content-type must be application/json")
    return rpc.parse_body(call.raw, max_bytes=call.max_body_bytes)


def call_methods(service: Service, call: HttpCall, envelope: rpc.Envelope) -> HttpAnswer:
    """Perform the calls one after the other, and return their replies."""
    answers: list[dict[str, object]] = []
    headers: tuple[wire.Header, ...] = ()
    for rpc_call in envelope.calls:
        answer, headers = _perform_call(service, call, rpc_call)
        if not rpc_call.is_notification:
            answers.append(answer)
    response = rpc.build_response(envelope, answers)
    if envelope.is_batch:
        headers = ()
    if response is None:
        return HttpAnswer(status=204, headers=headers)
    return HttpAnswer(body=dump(response), headers=headers)


def _perform_call(
    service: Service, call: HttpCall, rpc_call: rpc.RpcCall
) -> tuple[dict[str, object], tuple[wire.Header, ...]]:
    """Perform one call, and return its reply with the headers of the operation."""
    if rpc_call.problem is not None:
        return rpc.build_refusal(rpc_call), ()
    if rpc_call.method not in METHODS:
        message = f"there is no method {rpc_call.method[:40]!a}; there are {', '.join(METHODS)}"
        return rpc.build_failure(rpc_call, codes.METHOD_NOT_FOUND, message), ()
    serve, shape = METHODS[rpc_call.method]
    assert serve is not None
    try:
        result = serve(service, call, shape.parse(rpc_call.params))
    except MemorandaError as error:
        return rpc.build_failure(rpc_call, *describe_error(error)), ()
    answer = result if isinstance(result, HttpAnswer) else HttpAnswer(result=result)
    return rpc.build_result(rpc_call, answer.result), answer.headers


OPERATIONS: Final = (
    *_ROWS,
    OAMS.row(
        "POST",
        RPC_PATH,
        "oams_rpc",
        "Call the same operations by JSON-RPC 2.0: one call, or a batch of them (OAMS §3)",
        call_methods,
        "OamsReplies",
        None,
        example={
            "jsonrpc": "2.0",
            "method": "oams.list",
            "params": {"namespace": EXAMPLE_NAMESPACE, "limit": 10},
            "id": 1,
        },
        parser=parse_calls,
        body="OamsCalls",
        parameters=(CONSENT,),
        success=(200, 204),
    ),
)
