"""The responses of a host as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Final

from memoranda.encoding.shapes import COUNT, FLAG, MOMENT, OBJECT, TEXT, Schema, closed, one_of, opened, ref, some
from memoranda.standards.openwop.capabilities import DIMENSIONS
from memoranda.standards.openwop.entry import MAX_TAG_CHARS
from memoranda.standards.openwop.events import CONDITIONS, PROPOSAL_KINDS
from memoranda.standards.openwop.proposals import STATES
from memoranda.standards.openwop.refs import MAX_REF_CHARS
from memoranda.standards.openwop.runs import MODES, STATUSES

_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 128}
_REF: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_REF_CHARS}
_TAGS: Final = some({"type": "string", "maxLength": MAX_TAG_CHARS})
_ENTRY: Final = closed(
    "id content tags createdAt", id=TEXT, content=TEXT, tags=_TAGS, createdAt=MOMENT, expiresAt=MOMENT
)
_AGENT: Final = opened("agentId", agentId={"type": "string", "minLength": 3}, memoryRef=_REF)
_RUN: Final[dict[str, Schema]] = {
    "runId": _NAME,
    "workflowId": TEXT,
    "status": one_of(STATUSES),
    "owner": opened("tenant", tenant=TEXT),
    "startedAt": MOMENT,
    "agent": _AGENT,
    "error": opened("code message", code=TEXT, message=TEXT),
    "tags": some(TEXT),
    "sourceRunId": _NAME,
}
_COMMITMENT: Final = closed(
    "commitmentId memoryRef memoryId condition dueAt repeats state fired",
    commitmentId=TEXT,
    memoryRef=_REF,
    memoryId=TEXT,
    condition=one_of(CONDITIONS),
    dueAt={"type": ["string", "null"], "format": "date-time"},
    repeats=FLAG,
    state=one_of(("open", "fired", "cancelled", "lapsed")),
    fired=COUNT,
)
_FILE: Final[dict[str, Schema]] = {
    "path": TEXT,
    "content": TEXT,
    "version": {"type": "integer", "minimum": 1},
    "updatedAt": MOMENT,
    "contentType": TEXT,
    "etag": TEXT,
}
_PROPOSAL: Final = closed(
    "id kind state artifact provenance owner createdAt",
    id=TEXT,
    kind=one_of(PROPOSAL_KINDS),
    state=one_of(STATES),
    artifact=OBJECT,
    provenance=closed("sourceRunIds", sourceRunIds=some(TEXT), synthesizerModel=TEXT),
    owner=opened("tenant", tenant=TEXT),
    createdAt=MOMENT,
    updatedAt=MOMENT,
    title=TEXT,
    rationale=TEXT,
    duplicateOf={"type": ["string", "null"]},
    activation={"type": ["object", "null"]},
)
_SHAPE: Final = closed("", scratchpad=FLAG, conversation=FLAG, longTerm=FLAG)
_INVENTORY_ENTRY: Final = closed(
    "agentId persona label modelClass packName packVersion toolAllowlist hasHandoffSchemas",
    **dict.fromkeys(("agentId", "persona", "label", "modelClass", "packName", "packVersion", "description"), TEXT),
    toolAllowlist=some(TEXT),
    hasHandoffSchemas=FLAG,
    memoryShape=_SHAPE,
    memoryDegraded=FLAG,
    degradedMemoryDimensions=some(one_of(DIMENSIONS)),
)

ANSWERS: Final[dict[str, Schema]] = {
    "OpenwopDiscovery": opened(
        "protocolVersion supportedEnvelopes schemaVersions limits memory agents",
        protocolVersion=TEXT,
        supportedEnvelopes=some(TEXT),
        schemaVersions=OBJECT,
        limits=OBJECT,
        memory=OBJECT,
        agents=OBJECT,
        workspace=OBJECT,
        replay=OBJECT,
        fixtures=some(TEXT),
    ),
    "OpenwopEntry": _ENTRY,
    "OpenwopEntries": closed("entries", entries=some(ref("OpenwopEntry"))),
    "OpenwopForgotten": closed("forgotten", forgotten=COUNT),
    "OpenwopStarted": closed(
        "runId status eventsUrl statusUrl", runId=_NAME, status=one_of(STATUSES), eventsUrl=TEXT, statusUrl=TEXT
    ),
    "OpenwopRun": opened("runId workflowId status variables", **_RUN, variables=OBJECT),
    "OpenwopRuns": closed("runs", runs=some(opened("runId workflowId status", **_RUN)), nextCursor=TEXT),
    "OpenwopHostRun": opened(
        "runId workflowId status variables metadata isReplay",
        **_RUN,
        variables={**OBJECT, "description": "The variables as given; references in them are not resolved."},
        metadata=OBJECT,
        isReplay=FLAG,
    ),
    "OpenwopIds": closed("ids", ids=some(_NAME)),
    "OpenwopPass": closed(
        "run event",
        run=ref("OpenwopHostRun"),
        event=ref("OpenwopEvent"),
        entryId={**_NAME, "description": "The id of the new entry."},
        checksum=TEXT,
        index=opened("", path=TEXT, version=COUNT),
        taken=some({**OBJECT, "description": "The removed entries with their replacements and the reasons."}),
        contradictions=some(some(_NAME)),
        strengthened={"type": "object", "additionalProperties": COUNT},
    ),
    "OpenwopFired": closed("commitment", event=ref("OpenwopEvent"), commitment=_COMMITMENT),
    "OpenwopForked": closed(
        "runId sourceRunId fromSeq mode status eventsUrl statusUrl",
        runId=_NAME,
        sourceRunId=_NAME,
        fromSeq=COUNT,
        mode=one_of(MODES),
        status=one_of(STATUSES),
        eventsUrl=TEXT,
        statusUrl=TEXT,
    ),
    "OpenwopEvent": opened(
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
    "OpenwopEvents": closed("events isComplete", events=some(ref("OpenwopEvent")), isComplete=FLAG),
    "OpenwopAllEvents": closed(
        "events places lastSequence end",
        events=some(ref("OpenwopEvent")),
        places={**some(COUNT), "description": "The position of each event in all logs together."},
        lastSequence=COUNT,
        end={**COUNT, "description": "The current end of the logs."},
    ),
    "OpenwopRegisteredWebhook": closed(
        "webhookId secret secretFingerprint signatureAlgorithm",
        webhookId=_NAME,
        secret={**TEXT, "description": "The key of the signatures; only returned here."},
        secretFingerprint=TEXT,
        signatureAlgorithm={"const": "v1"},
    ),
    "OpenwopWebhooks": closed(
        "webhooks",
        webhooks=some(
            closed(
                "webhookId url events tags state failures dropped",
                webhookId=_NAME,
                url=TEXT,
                events=some(TEXT),
                tags=some(TEXT),
                state={"enum": ["active", "failed"]},
                failures=COUNT,
                dropped=COUNT,
            )
        ),
    ),
    "OpenwopRegistered": closed(
        "registered",
        registered={**FLAG, "description": "false: shorter than eight characters, so it is never redacted."},
    ),
    "OpenwopRestored": closed("restored", restored=COUNT),
    "OpenwopInventory": closed("agents total", agents=some(_INVENTORY_ENTRY), total=COUNT),
    "OpenwopFile": closed("path content version updatedAt", **_FILE),
    "OpenwopFiles": closed("files", files=some(opened("path version updatedAt", **_FILE))),
    "OpenwopWatch": closed("memoryRef", memoryRef=_REF, watched={**FLAG, "default": True}),
    "OpenwopCommitment": _COMMITMENT,
    "OpenwopCommitments": closed("commitments", commitments=some(_COMMITMENT)),
    "OpenwopSchedule": closed(
        "memoryRef cron timezone nextAt", memoryRef=_REF, cron=TEXT, timezone=TEXT, tokenBudget=COUNT, nextAt=MOMENT
    ),
    "OpenwopSchedules": closed("schedules", schedules=some(ref("OpenwopSchedule"))),
    "OpenwopProposal": _PROPOSAL,
    "OpenwopProposals": closed("proposals", proposals=some(ref("OpenwopProposal"))),
    "OpenwopApproved": closed("approvalId", approvalId=TEXT),
    "OpenwopInstalled": closed("installedArtifactRef", installedArtifactRef=TEXT),
    "OpenwopArtifacts": closed("artifacts", artifacts={"type": "object", "additionalProperties": OBJECT}),
    "OpenwopOpen": OBJECT,
    "OpenwopError": {
        **closed(
            "error message", error={"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}, message=TEXT, details=OBJECT
        ),
        "description": "openwop's error envelope: a code, a message, and details for programs.",
    },
}
