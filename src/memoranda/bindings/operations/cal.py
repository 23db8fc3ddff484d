"""The operations of CAL (section 26): a query as text or as JSON, its check, its plan and its execution."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.operations.row import in_header, row_constructor
from memoranda.encoding.shapes import NAME, OBJECT, ref
from memoranda.encoding.shapes import TEXT as STRING
from memoranda.standards.cal.requests import (
    OwnedExecuteRequest,
    PagedQuery,
    Query,
    TemplateRequest,
    TokenRequest,
)

JSON_FORM: Final = "application/json+cal"
TEXT: Final = "text/cal"
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
EXAMPLE_QUERY: Final = 'RECALL beliefs ABOUT "ada" WHERE confidence >= $least | LIMIT 5 AS markdown'
EXAMPLE_ASSEMBLE: Final = (
    'ASSEMBLE FROM known: (RECALL beliefs ABOUT "ada") BUDGET 500 tokens FORMAT markdown'
)
_EXAMPLE: Final[dict[str, object]] = {
    "query": EXAMPLE_QUERY,
    "params": {"least": 0.5},
    "namespace": "kitchen",
}
_EXAMPLE_FORM: Final = {
    "cal_version": 1,
    "statement": "recall",
    "grain_type": "beliefs",
    "about": "ada",
    "recent": 5,
}
_BODIES: Final[dict[str, object]] = {
    TEXT: {"schema": STRING, "example": 'RECALL beliefs ABOUT "ada" RECENT 5'},
    JSON_FORM: {"schema": OBJECT, "example": _EXAMPLE_FORM},
}
STREAM: Final[dict[str, object]] = {
    EVENTS: {
        "schema": STRING,
        "example": 'event: chunk\ndata: {"type":"chunk","assembly_id":"asm_a1b2c3d4","seq":5,"content":"…"}\n\n',
    },
    LINES: {
        "schema": STRING,
        "example": '{"type":"chunk","assembly_id":"asm_a1b2c3d4","seq":5,"content":"…"}\n',
    },
}
TOKEN: Final = in_header(
    "X-CAL-Token",
    NAME,
    "A capability token of CAL (section 18), which narrows what the credential may do.",
)

row: Final = row_constructor("cal")

OPERATIONS: Final = (
    row(
        "POST",
        "/cal",
        "cal",
        "Run a query (CAL §15, §26); an ASSEMBLE is streamed as events if Accept prefers them",
        "CalAnswer",
        PagedQuery,
        _EXAMPLE,
        verb="run",
        is_in_url=True,
        parameters=(TOKEN,),
        takes=_BODIES,
        gives={JSON_FORM: {"schema": ref("CalAnswer")}, **STREAM},
        streams=(EVENTS, LINES),
    ),
    row(
        "POST",
        "/cal/check",
        "cal_check",
        "Check if a text is a valid query, and return its first error; nothing is run",
        "CalCheckAnswer",
        Query,
        _EXAMPLE,
        verb="check",
        is_in_url=True,
        takes=_BODIES,
    ),
    row(
        "POST",
        "/cal/prepare",
        "cal_prepare",
        "Fix a query and show what it would do; its token executes it once (CAL §18)",
        "CalPrepareAnswer",
        Query,
        _EXAMPLE,
        verb="prepare",
        is_in_url=True,
        parameters=(TOKEN,),
        takes=_BODIES,
    ),
    row(
        "POST",
        "/cal/execute",
        "cal_execute",
        "Execute a prepared query exactly as it was prepared (CAL §18)",
        "CalAnswer",
        OwnedExecuteRequest,
        {"token": "calprep.…"},
        verb="execute",
    ),
    row(
        "POST",
        "/cal/tokens",
        "cal_token",
        "Issue a capability token that limits what its bearer may query, and how often (CAL §18); for `X-CAL-Token`",
        "CalTokenAnswer",
        TokenRequest,
        {"namespace": "kitchen", "operations": ["Recall"], "uses": 10},
        verb="issue",
        under="token",
    ),
    row(
        "DELETE",
        "/cal/templates/{name}",
        "cal_remove_template",
        "Remove a template stored by DEFINE TEMPLATE; only the owner may",
        "",
        TemplateRequest,
        verb="remove_template",
        missing="no such template",
        success=(204,),
    ),
    row(
        "POST",
        "/cal/stream",
        "cal_stream",
        "Stream an ASSEMBLE as events; closing the connection cancels it (CAL §11)",
        "",
        Query,
        {"query": EXAMPLE_ASSEMBLE, "namespace": "kitchen"},
        verb="stream",
        is_in_url=True,
        parameters=(TOKEN,),
        takes={
            TEXT: {"schema": STRING, "example": EXAMPLE_ASSEMBLE},
            JSON_FORM: {"schema": OBJECT},
        },
        gives=STREAM,
    ),
)
