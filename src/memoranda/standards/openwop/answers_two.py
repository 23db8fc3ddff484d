"""The responses of openwop 2 as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Final

from memoranda.encoding.shapes import (
    COUNT,
    FLAG,
    MOMENT,
    OBJECT,
    TEXT,
    Schema,
    array_of,
    closed_object,
    one_of,
    open_object,
    ref,
)
from memoranda.standards.openwop.runs import MODES, STATUSES

_STATUS: Final = one_of(STATUSES)
_STARTED: Final[dict[str, Schema]] = {
    "runId": TEXT,
    "status": _STATUS,
    "eventsUrl": TEXT,
    "statusUrl": TEXT,
}

ANSWERS_TWO: Final[dict[str, Schema]] = {
    "Openwop2Started": closed_object("runId status eventsUrl", **_STARTED),
    "Openwop2Run": closed_object(
        "runId workflowId status owner eventLogSchemaVersion",
        runId=TEXT,
        workflowId=TEXT,
        status=_STATUS,
        owner=closed_object("tenant subject", tenant=TEXT, subject=OBJECT),
        eventLogSchemaVersion=COUNT,
        startedAt=MOMENT,
        variables=OBJECT,
        agent=OBJECT,
        error=OBJECT,
        tags=array_of(TEXT),
        metadata=OBJECT,
    ),
    "Openwop2Runs": closed_object("runs", runs=array_of(ref("Openwop2Run")), nextCursor=TEXT),
    "Openwop2Cancelled": closed_object("runId status", runId=TEXT, status=_STATUS),
    "Openwop2Forked": closed_object(
        "runId sourceRunId mode status eventsUrl",
        **_STARTED,
        sourceRunId=TEXT,
        mode=one_of(MODES),
        fromSeq=COUNT,
    ),
    "Openwop2Event": closed_object(
        "eventId runId type payload timestamp sequence schemaVersion",
        eventId=TEXT,
        runId=TEXT,
        type=TEXT,
        payload=OBJECT,
        timestamp=MOMENT,
        sequence=COUNT,
        schemaVersion=COUNT,
        nodeId=TEXT,
        causationId=TEXT,
    ),
    "Openwop2Events": closed_object(
        "events isComplete", events=array_of(ref("Openwop2Event")), isComplete=FLAG
    ),
    "Openwop2Poll": closed_object(
        "runId events lastSequence status isTerminal",
        runId=TEXT,
        events=array_of(ref("Openwop2Event")),
        lastSequence={"type": "integer", "minimum": -1},
        status=_STATUS,
        isTerminal=FLAG,
    ),
    "Openwop2Webhook": closed_object(
        "webhookId secret",
        webhookId=TEXT,
        subscriptionId={**TEXT, "description": "The same as `webhookId`."},
        url=TEXT,
        secret=TEXT,
        eventTypes=array_of(TEXT),
        createdAt=MOMENT,
    ),
    "Openwop2Proposal": open_object(
        "id kind state artifact artifactDigest provenance owner createdAt",
        id=TEXT,
        kind=TEXT,
        state=TEXT,
        artifact=OBJECT,
        artifactDigest=TEXT,
        provenance=OBJECT,
        owner=OBJECT,
        createdAt=MOMENT,
    ),
    "Openwop2Proposals": closed_object(
        "items", items=array_of(ref("Openwop2Proposal")), nextCursor=TEXT
    ),
}
