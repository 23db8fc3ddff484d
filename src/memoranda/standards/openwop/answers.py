"""The responses of a host as JSON Schema, for the OpenAPI document.

ANSWERS has the schemas by the names under which the rows of `bindings/operations` and other schemas refer to them.

ANSWERS_TWO has those of version 2.
"""

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
from memoranda.standards.openwop.capabilities import DIMENSIONS
from memoranda.standards.openwop.entry import MAX_TAG_CHARS
from memoranda.standards.openwop.events import CONDITIONS, HOST_PROPOSAL_KINDS, PROPOSAL_KINDS
from memoranda.standards.openwop.proposals import STATES
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.runs import MODES, STATUSES

_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 128}
_REF: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_REF_CHARS}
_TAGS: Final = array_of({"type": "string", "maxLength": MAX_TAG_CHARS})
_ENTRY: Final = closed_object(
    "id content tags createdAt",
    id=TEXT,
    content=TEXT,
    tags=_TAGS,
    createdAt=MOMENT,
    expiresAt=MOMENT,
)
_AGENT: Final = open_object("agentId", agentId={"type": "string", "minLength": 3}, memoryRef=_REF)
_RUN: Final[dict[str, Schema]] = {
    "runId": _NAME,
    "workflowId": TEXT,
    "status": one_of(STATUSES),
    "owner": open_object("tenant", tenant=TEXT),
    "startedAt": MOMENT,
    "agent": _AGENT,
    "error": open_object("code message", code=TEXT, message=TEXT),
    "tags": array_of(TEXT),
    "sourceRunId": _NAME,
}
_COMMITMENT: Final = closed_object(
    "commitmentId memoryRef memoryId condition dueAt repeats state fired",
    commitmentId=TEXT,
    memoryRef=_REF,
    memoryId=TEXT,
    condition=one_of(CONDITIONS),
    dueAt={"type": ["string", "null"], "format": "date-time"},
    repeats=FLAG,
    state=one_of(("open", "fired", "cancelled", "lapsed")),
    fired=COUNT,
    zoneUnknown={
        **FLAG,
        "description": "The memory names a time zone that does not exist; dueAt is in UTC.",
    },
)
_FILE: Final[dict[str, Schema]] = {
    "path": TEXT,
    "content": TEXT,
    "version": {"type": "integer", "minimum": 1},
    "updatedAt": MOMENT,
    "contentType": TEXT,
    "etag": TEXT,
}
_PROPOSAL: Final = closed_object(
    "id kind state artifact provenance owner createdAt",
    id=TEXT,
    kind=one_of((*PROPOSAL_KINDS, *HOST_PROPOSAL_KINDS)),
    state=one_of(STATES),
    artifact=OBJECT,
    provenance=closed_object("sourceRunIds", sourceRunIds=array_of(TEXT), synthesizerModel=TEXT),
    owner=open_object("tenant", tenant=TEXT),
    createdAt=MOMENT,
    updatedAt=MOMENT,
    title=TEXT,
    rationale=TEXT,
    duplicateOf={"type": ["string", "null"]},
    activation={"type": ["object", "null"]},
)
_SHAPE: Final = closed_object("", scratchpad=FLAG, conversation=FLAG, longTerm=FLAG)
_INVENTORY_ENTRY: Final = closed_object(
    "agentId persona label modelClass packName packVersion toolAllowlist hasHandoffSchemas",
    **dict.fromkeys(
        ("agentId", "persona", "label", "modelClass", "packName", "packVersion", "description"),
        TEXT,
    ),
    toolAllowlist=array_of(TEXT),
    hasHandoffSchemas=FLAG,
    memoryShape=_SHAPE,
    memoryDegraded=FLAG,
    degradedMemoryDimensions=array_of(one_of(DIMENSIONS)),
)

ANSWERS: Final[dict[str, Schema]] = {
    "OpenwopDiscovery": open_object(
        "protocolVersion supportedEnvelopes schemaVersions limits memory agents",
        protocolVersion=TEXT,
        supportedEnvelopes=array_of(TEXT),
        schemaVersions=OBJECT,
        limits=OBJECT,
        memory=OBJECT,
        agents=OBJECT,
        workspace=OBJECT,
        replay=OBJECT,
        fixtures=array_of(TEXT),
    ),
    "OpenwopEntry": _ENTRY,
    "OpenwopEntries": closed_object("entries", entries=array_of(ref("OpenwopEntry"))),
    "OpenwopForgotten": closed_object("forgotten", forgotten=COUNT),
    "OpenwopStarted": closed_object(
        "runId status eventsUrl statusUrl",
        runId=_NAME,
        status=one_of(STATUSES),
        eventsUrl=TEXT,
        statusUrl=TEXT,
    ),
    "OpenwopCancelled": closed_object("runId status", runId=_NAME, status=one_of(STATUSES)),
    "OpenwopRun": open_object("runId workflowId status variables", **_RUN, variables=OBJECT),
    "OpenwopRuns": closed_object(
        "runs", runs=array_of(open_object("runId workflowId status", **_RUN)), nextCursor=TEXT
    ),
    "OpenwopHostRun": open_object(
        "runId workflowId status variables metadata isReplay",
        **_RUN,
        variables={
            **OBJECT,
            "description": "The variables as given; references in them are not resolved.",
        },
        metadata=OBJECT,
        isReplay=FLAG,
    ),
    "OpenwopIds": closed_object("ids", ids=array_of(_NAME)),
    "OpenwopPass": closed_object(
        "run event",
        run=ref("OpenwopHostRun"),
        event=ref("OpenwopEvent"),
        entryId={**_NAME, "description": "The id of the new entry."},
        checksum=TEXT,
        index=open_object("", path=TEXT, version=COUNT),
        taken=array_of(
            {
                **OBJECT,
                "description": "The removed entries with their replacements and the reasons.",
            }
        ),
        contradictions=array_of(array_of(_NAME)),
        strengthened={"type": "object", "additionalProperties": COUNT},
    ),
    "OpenwopFired": closed_object("commitment", event=ref("OpenwopEvent"), commitment=_COMMITMENT),
    "OpenwopForked": closed_object(
        "runId sourceRunId fromSeq mode status eventsUrl statusUrl",
        runId=_NAME,
        sourceRunId=_NAME,
        fromSeq=COUNT,
        mode=one_of(MODES),
        status=one_of(STATUSES),
        eventsUrl=TEXT,
        statusUrl=TEXT,
    ),
    "OpenwopEvent": open_object(
        "eventId runId type payload timestamp sequence",
        eventId=_NAME,
        runId=_NAME,
        type=TEXT,
        payload=OBJECT,
        timestamp=MOMENT,
        sequence=COUNT,
        nodeId=_NAME,
        causationId=_NAME,
    ),
    "OpenwopEvents": closed_object(
        "events isComplete", events=array_of(ref("OpenwopEvent")), isComplete=FLAG
    ),
    "OpenwopAllEvents": closed_object(
        "events places lastSequence end",
        events=array_of(ref("OpenwopEvent")),
        places={
            **array_of(COUNT),
            "description": "The position of each event in all logs together.",
        },
        lastSequence=COUNT,
        end={**COUNT, "description": "The current end of the logs."},
    ),
    "OpenwopRegisteredWebhook": closed_object(
        "webhookId subscriptionId url eventTypes createdAt secret secretFingerprint signatureAlgorithm",
        subscriptionId={**TEXT, "description": "The same as `webhookId`."},
        url=TEXT,
        eventTypes=array_of(TEXT),
        createdAt=MOMENT,
        webhookId=_NAME,
        secret={**TEXT, "description": "The key of the signatures; only returned here."},
        secretFingerprint=TEXT,
        signatureAlgorithm={"const": "v1"},
    ),
    "OpenwopWebhooks": closed_object(
        "webhooks",
        webhooks=array_of(
            closed_object(
                "webhookId url events tags state failures dropped",
                webhookId=_NAME,
                url=TEXT,
                events=array_of(TEXT),
                tags=array_of(TEXT),
                state={"enum": ["active", "failed"]},
                failures=COUNT,
                dropped=COUNT,
            )
        ),
    ),
    "OpenwopRegistered": closed_object(
        "registered",
        registered={
            **FLAG,
            "description": "false: shorter than eight characters, so it is never redacted.",
        },
    ),
    "OpenwopRestored": closed_object("restored", restored=COUNT),
    "OpenwopInventory": closed_object(
        "agents total", agents=array_of(_INVENTORY_ENTRY), total=COUNT
    ),
    "OpenwopAgent": _INVENTORY_ENTRY,
    "OpenwopFile": closed_object("path content version updatedAt", **_FILE),
    "OpenwopFiles": closed_object(
        "files", files=array_of(open_object("path version updatedAt", **_FILE))
    ),
    "OpenwopWatch": closed_object("memoryRef", memoryRef=_REF, watched={**FLAG, "default": True}),
    "OpenwopCommitment": _COMMITMENT,
    "OpenwopCommitments": closed_object("commitments", commitments=array_of(_COMMITMENT)),
    "OpenwopSchedule": closed_object(
        "memoryRef cron timezone nextAt",
        memoryRef=_REF,
        cron=TEXT,
        timezone=TEXT,
        tokenBudget=COUNT,
        nextAt=MOMENT,
    ),
    "OpenwopSchedules": closed_object("schedules", schedules=array_of(ref("OpenwopSchedule"))),
    "OpenwopProposal": _PROPOSAL,
    "OpenwopProposals": closed_object("proposals", proposals=array_of(ref("OpenwopProposal"))),
    "OpenwopApproved": closed_object("approvalId", approvalId=TEXT),
    "OpenwopInstalled": closed_object("installedArtifactRef", installedArtifactRef=TEXT),
    "OpenwopArtifacts": closed_object(
        "artifacts", artifacts={"type": "object", "additionalProperties": OBJECT}
    ),
    "OpenwopOpen": OBJECT,
    "OpenwopError": {
        **closed_object(
            "error message",
            error={"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
            message=TEXT,
            details=OBJECT,
        ),
        "description": "openwop's error envelope: a code, a message, and details for programs.",
    },
}


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
