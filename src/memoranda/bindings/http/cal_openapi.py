"""The routes of CAL in the OpenAPI document: schemas, and examples that run."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.cal import EVENTS, JSON_FORM, LINES, TEXT
from memoranda.bindings.http.operation import Operation, in_query
from memoranda.bindings.http.schemas import COUNT, FLAG, NAME, Schema, closed, one_of, opened, ref, some
from memoranda.bindings.http.schemas import TEXT as STRING
from memoranda.service.cal.cal import STATEMENT_TYPES
from memoranda.standards.cal.codes import ERRORS

EXAMPLE_QUERY: Final = 'RECALL beliefs ABOUT "ada" WHERE confidence >= $least | LIMIT 5 AS markdown'
EXAMPLE_ASSEMBLE: Final = 'ASSEMBLE FROM known: (RECALL beliefs ABOUT "ada") BUDGET 500 tokens FORMAT markdown'
_EXAMPLE: Final[dict[str, Any]] = {"query": EXAMPLE_QUERY, "params": {"least": 0.5}, "namespace": "kitchen"}
_EXAMPLE_FORM: Final = {"cal_version": 1, "statement": "recall", "grain_type": "beliefs", "about": "ada", "recent": 5}
_EXAMPLE_TEXT: Final = 'RECALL beliefs ABOUT "ada" RECENT 5'

_MAYBE_NAME: Final[Schema] = {"type": ["string", "null"]}
_CODE: Final = one_of(("CAL-E000", *sorted(ERRORS)))
_BESIDE: Final[dict[str, tuple[Schema, str]]] = {
    "namespace": (NAME, "Where; by default the credential's project, else `shared`. A capability token's own counts."),
    "user": (NAME, "On whose behalf, for MY and $current_user_id; by default the owner."),
    "owner": (NAME, "Whose memory, for a credential that reaches several; by default its own."),
    "agent": (NAME, "Which agent asks; kept in the audit log."),
}
_ASKED: Final[dict[str, Schema]] = {
    "query": {"type": ["string", "object"], "description": "The text of a query, or its JSON form."},
    "params": {"type": "object", "description": "A value for each $name: text, number, boolean, or a list of these."},
    **{name: {**schema, "description": text} for name, (schema, text) in _BESIDE.items()},
}
_CURSOR: Final[Schema] = {**NAME, "description": "`next_cursor` of the page before, with the same query."}
_URL: Final = tuple(in_query(name, *described) for name, described in _BESIDE.items())
_TOKEN: Final = {
    "name": "X-CAL-Token",
    "in": "header",
    "schema": NAME,
    "description": "A capability token of CAL (section 18), which narrows what the credential may do.",
}
_META: Final = closed(
    "version statement_type tier query_hash duration_ms budget",
    version={"const": "1.0"},
    statement_type=one_of(tuple(STATEMENT_TYPES.values())),
    tier={"enum": [0, 1]},
    query_hash={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    duration_ms=COUNT,
    budget=closed(
        "tokens_used grains_returned grains_scanned", tokens_used=COUNT, grains_returned=COUNT, grains_scanned=COUNT
    ),
)
_CHECKED: Final = closed(
    "code line column suggestion message", code=_CODE, line=COUNT, column=COUNT, suggestion=_MAYBE_NAME, message=STRING
)

CAL_SCHEMAS: Final[dict[str, Schema]] = {
    "CalRequest": closed("query", **_ASKED, cursor=_CURSOR),
    "CalQuery": closed("query", **_ASKED),
    "CalAnswer": {
        **opened(
            "_cal warnings",
            _cal=_META,
            results=some({"type": "object"}),
            total=COUNT,
            next_cursor=_MAYBE_NAME,
            format=NAME,
            formatted=STRING,
            formatted_context=closed("format text", format=NAME, text=STRING),
            warnings=some(closed("code message", code=NAME, message=STRING)),
        ),
        "description": "The envelope (CAL §15): which other members there are depends on the statement.",
    },
    "CalCheckAnswer": closed("valid error", valid=FLAG, error={"anyOf": [_CHECKED, {"type": "null"}]}),
    "CalPrepareAnswer": closed(
        "token plan tier side_effects",
        token={**NAME, "maxLength": 2_097_152},
        plan={"type": "object"},
        tier={"enum": [0, 1]},
        side_effects=some({"type": "object"}),
    ),
    "CalExecuteRequest": closed("token", token={**NAME, "maxLength": 2_097_152}),
    "CalCapabilities": opened("cal_conformance cal_version features limits", features=some(NAME)),
    "CalCancelAnswer": closed("assembly_id result", assembly_id=NAME, result={"const": "cancelled"}),
    "CalError": closed(
        "error",
        error=closed(
            "code message position suggestion",
            code=_CODE,
            message=STRING,
            position=closed("start end line col", start=COUNT, end=COUNT, line=COUNT, col=COUNT),
            suggestion=STRING,
            reason=NAME,
            oms_error=NAME,
            expected=some(STRING),
            example=STRING,
            valid_values=some(STRING),
        ),
    ),
}

CAL_ERRORS: Final = {
    "400": "Not a query that can be run; `position` says where, `suggestion` what to write instead",
    "401": "No credential, or one that does not hold",
    "403": "A credential or a token that does not reach this far, or changes that are not enabled (CAL-E044, E045)",
    "404": "No such grain, template or stream",
    "409": "Something else is there already, or cannot be changed (CAL-E040, E041, E042, E088)",
    "429": "Too often, or too many streams at once (then with Retry-After)",
    "501": "Only ASSEMBLE can be streamed (CAL-E079)",
    "502": "Every source of an ASSEMBLE failed (CAL-E076)",
    "503": "The store cannot be used right now, or CAL is switched off (CAL-E000)",
    "504": "It took too long (CAL-E031, E075)",
}

_QUERY_BODIES: Final[dict[str, Any]] = {
    TEXT: {"schema": STRING, "example": _EXAMPLE_TEXT},
    JSON_FORM: {"schema": {"type": "object"}, "example": _EXAMPLE_FORM},
}
_STREAM: Final[dict[str, Any]] = {
    EVENTS: {
        "schema": STRING,
        "example": 'event: chunk\ndata: {"type":"chunk","assembly_id":"asm_a1b2c3d4","seq":5,"content":"…"}\n\n',
    },
    LINES: {"schema": STRING, "example": '{"type":"chunk","assembly_id":"asm_a1b2c3d4","seq":5,"content":"…"}\n'},
}

CAL_OPERATIONS: Final = (
    Operation(
        method="post",
        path="/cal",
        name="cal",
        summary="Run a query (CAL §15, §26); an ASSEMBLE comes as events if Accept asks for them",
        parameters=(*_URL, in_query("cursor", NAME, "The same, where the body is the query itself."), _TOKEN),
        asks="CalRequest",
        also_takes=_QUERY_BODIES,
        example=_EXAMPLE,
        answer="CalAnswer",
        also_gives={JSON_FORM: {"schema": ref("CalAnswer")}, **_STREAM},
        errors="CalError",
    ),
    Operation(
        method="post",
        path="/cal/check",
        name="cal_check",
        summary="Whether this is a query, and if not, the first thing wrong with it; nothing is run",
        parameters=_URL,
        asks="CalQuery",
        also_takes=_QUERY_BODIES,
        example=_EXAMPLE,
        answer="CalCheckAnswer",
        errors="CalError",
    ),
    Operation(
        method="post",
        path="/cal/prepare",
        name="cal_prepare",
        summary="Fix a query and say what it would do; its token executes it, once (CAL §18)",
        parameters=(*_URL, _TOKEN),
        asks="CalQuery",
        also_takes=_QUERY_BODIES,
        example=_EXAMPLE,
        answer="CalPrepareAnswer",
        errors="CalError",
    ),
    Operation(
        method="post",
        path="/cal/execute",
        name="cal_execute",
        summary="Run what was prepared, as it was prepared (CAL §18)",
        asks="CalExecuteRequest",
        example={"token": "calprep.…"},
        answer="CalAnswer",
        errors="CalError",
    ),
    Operation(
        method="post",
        path="/cal/stream",
        name="cal_stream",
        summary="An ASSEMBLE as events; closing the connection cancels it (CAL §11)",
        parameters=(*_URL, _TOKEN),
        asks="CalQuery",
        also_takes={TEXT: {"schema": STRING, "example": EXAMPLE_ASSEMBLE}, JSON_FORM: {"schema": {"type": "object"}}},
        example={"query": EXAMPLE_ASSEMBLE, "namespace": "kitchen"},
        answer="",
        also_gives=_STREAM,
        errors="CalError",
    ),
    Operation(
        method="delete",
        path="/cal/stream/{assembly_id}",
        name="cal_cancel",
        summary="Cancel a stream of the same credential; it ends with the event `cancelled` (CAL-E082)",
        parameters=(
            {"name": "assembly_id", "in": "path", "required": True, "schema": NAME, "example": "asm_a1b2c3d4"},
        ),
        answer="CalCancelAnswer",
        errors="CalError",
    ),
    Operation(
        method="get",
        path="/cal/card",
        name="cal_card",
        summary="The language on one card, for a model's prompt (CAL §27)",
        answer="",
        also_gives={"text/plain": {"schema": STRING}},
        errors="CalError",
    ),
    Operation(
        method="get",
        path="/cal/capabilities",
        name="cal_capabilities",
        summary="What of CAL there is here: DESCRIBE capabilities (CAL §24)",
        answer="CalCapabilities",
        errors="CalError",
    ),
)
