"""JSON Schemas (2020-12) of everything the HTTP binding takes and gives, by name, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from memoranda.standards.oms.registry import ERROR_CODES
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.record import ACTOR_KINDS, KINDS, OUTCOMES, STATUSES, VISIBILITIES
from memoranda.standards.ump.requests import MAX_BUDGET_CHARS, MAX_CHARS_PER_RECORD

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1024}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
OMS_CODES: Final = tuple(sorted(ERROR_CODES))
FRACTION: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}


def one_of(values: tuple[str, ...]) -> Schema:
    return {"type": "string", "enum": list(values)}


def some(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def opened(required: str, **properties: Schema) -> Schema:
    """An object of these properties and maybe others: what a later minor version adds is kept."""
    shape: Schema = {"type": "object", "properties": properties}
    return {**shape, "required": required.split()} if required else shape


def closed(required: str, **properties: Schema) -> Schema:
    """An object of these properties and no others; the required ones are given in one string."""
    return {**opened(required, **properties), "additionalProperties": False}


_SCOPE_FIELDS: Final[dict[str, Schema]] = {
    **dict.fromkeys(("owner", "user", "project", "agent", "session"), NAME),
    "visibility": one_of(VISIBILITIES),
}

_BODY: Final = opened("text", text={"type": "string", "minLength": 1}, structured={"type": ["object", "null"]})
_LIFECYCLE: Final = opened("", confidence=FRACTION, salience=FRACTION, decay=NAME, status=one_of(STATUSES))
_RELATIONS: Final = some(opened("type target", type=NAME, target=NAME))
_TIME: Final[dict[str, Schema]] = {
    "created": MOMENT,
    "observed": MOMENT,
    "valid_from": MOMENT,
    "valid_to": {"type": ["string", "null"], "format": "date-time"},
}
_PROVENANCE: Final = opened(
    "actor actor_kind method",
    actor=NAME,
    actor_kind=one_of(ACTOR_KINDS),
    method=NAME,
    source=opened("", ref=NAME, provider=NAME),
    evidence=some(opened("ref", ref=NAME, weight=NUMBER)),
)
_INTEGRITY: Final = opened(
    "content_hash signature signer",
    content_hash={"type": "string", "pattern": "^blake3:"},
    signature={"type": "string", "pattern": "^ed25519:"},
    signer={"type": "string", "pattern": "^did:"},
)
_RECORD_FIELDS: Final[dict[str, Schema]] = {
    "ump": one_of(("0.1", "1.0")),
    "id": {"type": "string", "pattern": "^urn:ump:[a-z2-7]+$"},
    "kind": one_of(KINDS),
    "body": _BODY,
    "scope": ref("Scope"),
    "time": opened("", **_TIME),
    "lifecycle": _LIFECYCLE,
    "supersedes": some(NAME),
    "superseded_by": some(NAME),
    "relations": _RELATIONS,
    "provenance": _PROVENANCE,
    "consent": opened("", retention=TEXT, exportable=FLAG, redact=some(NAME)),
    "integrity": _INTEGRITY,
}
_ACTOR: Final = {"type": "object", "properties": {"did": NAME, "kind": one_of(ACTOR_KINDS)}, "required": ["did"]}
_RECALL_FIELDS: Final[dict[str, Schema]] = {
    "query": {"type": "string", "minLength": 1, "description": "What to look for, in words. At most 8192 bytes."},
    "scope": {**closed("", **_SCOPE_FIELDS), "description": "Only memories whose scope has exactly these values."},
    "filter": closed(
        "",
        kind=some(one_of(KINDS)),
        status=some(one_of(STATUSES)),
        valid_at={**MOMENT, "description": "What was true then."},
        known_at={**MOMENT, "description": "What this store knew then."},
    ),
    "limit": {**COUNT, "default": 8, "description": f"More than {MAX_RECALL} is {MAX_RECALL}."},
    "ranking_hints": {"type": "object", "properties": {"prefer": some(NAME)}},
    "actor": _ACTOR,
}


SCHEMAS: Final[dict[str, Schema]] = {
    "Scope": opened("owner", **_SCOPE_FIELDS),
    "Record": {
        **opened("ump id kind body scope time", **_RECORD_FIELDS),
        "description": "One memory, signed (UMP §2).",
    },
    "Draft": {
        **opened("kind body scope provenance", **_RECORD_FIELDS),
        "description": "A record to be written. What is left out is filled in; visibility is private unless stated.",
    },
    "RecallRequest": opened("query", **_RECALL_FIELDS),
    "RecallAnswer": closed(
        "results",
        results=some(
            closed(
                "record signals score",
                record=ref("Record"),
                signals={"type": "object", "additionalProperties": NUMBER},
                score=NUMBER,
            )
        ),
    ),
    "RehydrateRequest": opened(
        "query",
        **{
            **_RECALL_FIELDS,
            "limit": {**COUNT, "default": 12},
            "max_visibility": {**one_of(VISIBILITIES), "default": "private"},
            "max_chars": {"type": "integer", "minimum": 1, "maximum": MAX_CHARS_PER_RECORD, "default": 500},
            "budget_chars": {"type": "integer", "minimum": 1, "maximum": MAX_BUDGET_CHARS},
        },
    ),
    "RehydrateAnswer": closed(
        "text injected", text=TEXT, injected=some(NAME), dropped=some(closed("id reason", id=TEXT, reason=NAME))
    ),
    "RememberRequest": {
        "anyOf": [ref("Draft"), {"type": "object", "properties": {"record": ref("Draft")}, "required": ["record"]}]
    },
    "RememberAnswer": closed("id result", id=NAME, result=one_of(("created", "merged"))),
    "GetAnswer": closed("record", record=ref("Record")),
    "HistoryAnswer": closed(
        "versions",
        versions=some(
            closed(
                "record recorded replaced verified",
                record=ref("Record"),
                recorded=MOMENT,
                replaced={"type": ["string", "null"], "format": "date-time"},
                verified=FLAG,
            )
        ),
    ),
    "ReviseRequest": opened(
        "id patch",
        id=NAME,
        patch={
            **closed(
                "",
                body=_BODY,
                lifecycle=_LIFECYCLE,
                relations=_RELATIONS,
                time=closed("", valid_from=_TIME["valid_from"], valid_to=_TIME["valid_to"]),
            ),
            "minProperties": 1,
        },
        actor=_ACTOR,
    ),
    "ReviseAnswer": closed("id supersedes", id=NAME, supersedes=some(NAME)),
    "ForgetRequest": opened("id", id=NAME, reason={"type": "string", "maxLength": 1024}, hard=FLAG, actor=_ACTOR),
    "ForgetAnswer": closed("result", result=one_of(("tombstoned", "erased"))),
    "FeedbackRequest": opened("id outcome", id=NAME, outcome=one_of(OUTCOMES), session=NAME),
    "FeedbackAnswer": closed("ok", ok={"const": True}),
    "AuditRequest": closed(
        "",
        op={"anyOf": [NAME, some(NAME)]},
        **dict.fromkeys(("actor", "target", "owner", "project"), NAME),
        since=MOMENT,
        until=MOMENT,
        limit={"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    ),
    "AuditAnswer": closed("events", events=some({"type": "object", "required": ["seq", "ts", "op", "prev", "hash"]})),
    "AuditVerifyAnswer": closed("ok count", ok=FLAG, count=COUNT, brokenAt=COUNT, reason=NAME),
    "Capabilities": opened(
        "server ump conformance kinds bindings",
        server=closed("name version", name=NAME, version=NAME),
        ump=NAME,
        conformance=NAME,
        kinds=some(one_of(KINDS)),
        bindings=some(NAME),
        retrieval_signals=some(NAME),
        max_recall=COUNT,
        writable=FLAG,
        audit=FLAG,
    ),
    "Manifest": opened("ump conformance bindings kinds", ump=NAME, conformance=NAME, endpoint=NAME),
    "Health": closed("status", status=NAME),
    "OpenApi": {"type": "object", "required": ["openapi", "info", "paths"]},
    "Error": closed(
        "error",
        error=closed("code message", code=NAME, message={"type": "string", "minLength": 1}, oms_code=one_of(OMS_CODES)),
    ),
}
