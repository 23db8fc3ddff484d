"""The shapes of openwop agent memory v1 that a host must keep, in our words, as JSON Schemas."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"type": "array", "items": TEXT}
MOMENT: Schema = {"type": "string", "format": "date-time"}
FLAG: Schema = {"type": "boolean"}


def number(least: int) -> Schema:
    return {"type": "integer", "minimum": least}


def shape(required: str, *, closed: bool = True, **properties: Schema) -> Schema:
    made: Schema = {"type": "object", "required": required.split(), "properties": properties}
    return {**made, "additionalProperties": False} if closed else made


ENTRY = shape(
    "id content tags createdAt",
    id={**TEXT, "maxLength": 1500},
    content={"type": "string"},
    tags={"type": "array", "items": {"type": "string", "maxLength": 256}},
    createdAt=MOMENT,
    expiresAt=MOMENT,
)
EVENT = shape(
    "eventId runId type payload timestamp sequence",
    closed=False,
    eventId={**TEXT, "maxLength": 128},
    runId={**TEXT, "maxLength": 128},
    type=TEXT,
    payload={"type": "object"},
    timestamp=MOMENT,
    sequence=number(0),
)
ERROR = shape(
    "error message", error={"type": "string", "pattern": "^[a-z][a-z0-9_]*$"}, message=TEXT, details={"type": "object"}
)
RUN = shape(
    "runId workflowId status",
    closed=False,
    runId=TEXT,
    workflowId=TEXT,
    status={
        "enum": "pending running paused waiting-approval waiting-input waiting-external completed failed cancelling "
        "cancelled".split()
    },
    variables={"type": "object"},
)
PROPOSAL = shape(
    "id kind state artifact provenance owner createdAt",
    id=TEXT,
    kind={"enum": ["agent-pack", "workflow-chain-pack", "prompt-template", "automation"]},
    state={"enum": ["draft", "revised", "applied", "rejected", "archived"]},
    artifact={"type": "object"},
    provenance=shape("sourceRunIds", sourceRunIds=TEXTS, synthesizerModel=TEXT),
    owner=shape("tenant", tenant=TEXT, workspace=TEXT, principal=TEXT),
    createdAt=MOMENT,
    updatedAt=MOMENT,
    title={"type": "string"},
    rationale={"type": "string"},
    duplicateOf={"type": ["string", "null"]},
    activation={"type": ["object", "null"]},
)
FILE = shape(
    "path content version updatedAt",
    path={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._/-]{0,255}$"},
    content={"type": "string"},
    version=number(1),
    updatedAt=MOMENT,
    contentType=TEXT,
    etag=TEXT,
)
AGENT = shape(
    "agentId persona label modelClass packName packVersion toolAllowlist hasHandoffSchemas",
    closed=False,
    toolAllowlist={"type": "array", "items": TEXT},
    hasHandoffSchemas=FLAG,
    memoryDegraded=FLAG,
    degradedMemoryDimensions={
        "type": "array",
        "uniqueItems": True,
        "items": {
            "enum": [
                "read",
                "write",
                "search",
                "long-term-durability",
                "compaction",
                "attribution",
                "replay-snapshot",
                "retention",
            ]
        },
    },
)
PAYLOADS: dict[str, Schema] = {
    "memory.written": shape(
        "memoryRef memoryId", closed=False, memoryRef=TEXT, memoryId=TEXT, nodeId=TEXT, agentId=TEXT, tags=TEXTS
    ),
    "memory.compacted": shape(
        "memoryRef outputId sourceCount trigger byteSize",
        closed=False,
        memoryRef=TEXT,
        outputId=TEXT,
        sourceCount=number(1),
        trigger={"enum": ["host-managed", "client-requested", "both"]},
        byteSize=number(0),
        sourceIds=TEXTS,
        distillation=shape("tokenBudget tokensUsed", tokenBudget=number(1), tokensUsed=number(0), indexUpdated=FLAG),
    ),
    "agent.memory.consolidated": shape(
        "memoryRef inputCount outputCount",
        closed=False,
        memoryRef=TEXT,
        inputCount=number(0),
        outputCount=number(0),
        mergedIds=TEXTS,
        trigger={"enum": ["host-managed", "scheduled", "on-demand"]},
    ),
    "commitment.fired": shape(
        "commitmentId memoryRef condition",
        closed=False,
        commitmentId=TEXT,
        memoryRef=TEXT,
        condition={"enum": ["time", "predicate"]},
        memoryId=TEXT,
        enqueuedRunId=TEXT,
    ),
    "proposal.created": shape(
        "proposalId kind", proposalId=TEXT, kind=TEXT, sourceRunIds=TEXTS, duplicateOf={"type": ["string", "null"]}
    ),
    "proposal.activated": shape(
        "proposalId kind installedArtifactRef",
        proposalId=TEXT,
        kind=TEXT,
        installedArtifactRef=TEXT,
        approvalId={"type": ["string", "null"]},
    ),
    "workspace.updated": shape("path version", path=TEXT, version=number(1)),
}
ROOT = shape(
    "protocolVersion supportedEnvelopes schemaVersions limits",
    closed=False,
    protocolVersion={"type": "string", "pattern": "^1\\."},
    supportedEnvelopes={"type": "array"},
    schemaVersions={"type": "object"},
    limits=shape(
        "clarificationRounds schemaRounds envelopesPerTurn",
        closed=False,
        clarificationRounds=number(0),
        schemaRounds=number(0),
        envelopesPerTurn=number(0),
    ),
    fixtures={**TEXTS, "uniqueItems": True},
    memory=shape(
        "supported",
        closed=False,
        supported=FLAG,
        writable=FLAG,
        maxEntrySizeBytes=number(1),
        ttlSupported=FLAG,
        search=shape(
            "supported",
            supported=FLAG,
            modes={"type": "array", "uniqueItems": True, "items": {"enum": ["semantic", "filter"]}},
        ),
        retention=shape("", ttl=FLAG, forget=FLAG),
        compaction=shape(
            "supported trigger",
            supported=FLAG,
            trigger={"const": "host-managed"},
            maxInputEntries=number(1),
            maxOutputBytes=number(1),
        ),
        distillation=shape(
            "supported",
            supported=FLAG,
            maxTokenBudget=number(1),
            scheduled=FLAG,
            indexEmitted=FLAG,
            tokenizerName=TEXT,
            archiveRetention={"type": "string", "pattern": "^P"},
        ),
        attribution=shape("supported", supported={"const": True}, emitsWriteEvents=FLAG),
        injectionBudget=shape(
            "supported tokenCounter",
            supported=FLAG,
            tokenCounter={"enum": ["o200k_base", "cl100k_base", "chars", "host-defined"]},
        ),
    ),
    agents=shape(
        "",
        closed=False,
        memoryBackends={"type": "array", "items": {"const": "long-term"}},
        memoryConsolidation=shape(
            "supported", supported=FLAG, schedule={"enum": ["host-managed", "scheduled", "on-demand"]}
        ),
        commitments=shape(
            "supported", supported=FLAG, fireConditions={"type": "array", "items": {"enum": ["time", "predicate"]}}
        ),
        proposals=shape(
            "artifactKinds activation",
            artifactKinds=TEXTS,
            activation={"enum": ["approval-gate", "direct-rbac"]},
            duplicationDetection=FLAG,
        ),
    ),
    workspace=shape(
        "supported", supported=FLAG, versioned=FLAG, maxFileBytes=number(1), maxFiles=number(1), maxVersions=number(1)
    ),
)


def has_shape(value: object, schema: Schema) -> bool:
    """Whether a value is as a schema says; times are checked, too."""
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value)


def is_content_free(payload: object) -> bool:
    """Whether a payload has no member, at any depth, under which words could stand."""
    if isinstance(payload, dict):
        return not {"content", "text", "intention", "rationale", "artifact"} & set(payload) and all(
            is_content_free(value) for value in payload.values()
        )
    return not isinstance(payload, list) or all(is_content_free(value) for value in payload)


def is_valid_event(event: dict[str, Any]) -> bool:
    """Whether an event is one, and its payload, if it is about memory, as its type asks and without content."""
    if not has_shape(event, EVENT):
        return False
    schema = PAYLOADS.get(event["type"])
    return schema is None or (has_shape(event["payload"], schema) and is_content_free(event["payload"]))
