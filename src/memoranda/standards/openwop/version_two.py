"""Documents of openwop 2, made from those of version 1.1, which is the version that is stored.

    ids         with their tenant: `<tenant>/<opaque>`, in paths as one segment (identity.md §5)
    events      with their new types and payloads (the code map of events.md, logs of era 2)
    snapshots   with the closed block `owner`
    discovery   a record for each family of capabilities (capabilities.md §2, §3)
    errors      under their new codes

Nothing here is stored. A document of 1.1 is translated whenever a client of version 2 reads it.

Rule: version 1.1 is what is stored and what the services know. This module has three kinds of functions: `show_…` turn
a stored document into one of version 2, `…Request` classes parse requests of version 2 and turn into those of version
1, and helpers convert ids and event types. Routes call them (`bindings/http/openwop_two.py`). A feature of both
versions is built in version 1 first. Ids deserve care: version 2 binds an id to its tenant, and an id of another tenant
must be refused without revealing if it exists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from memoranda.encoding.bases import base32_encode
from memoranda.errors import InvalidInput, NotFound, WorkflowError
from memoranda.standards.openwop import problem
from memoranda.standards.openwop.entry import MAX_ID_CHARS
from memoranda.standards.openwop.events import (
    COMMITMENT_FIRED,
    HOST_PROPOSAL_KINDS,
    PROPOSAL_CREATED,
    PROPOSAL_KINDS,
    Event,
)
from memoranda.standards.openwop.fields import OpenwopShape, text_limit, word_choice
from memoranda.standards.openwop.problem import Problem
from memoranda.standards.openwop.proposals import (
    MAX_RATIONALE_CHARS,
    MAX_TITLE_CHARS,
    STATES,
    digest_artifact,
)
from memoranda.standards.openwop.requests import MAX_COUNT, FollowRequest, PollRequest, Seconds
from memoranda.standards.openwop.runs import (
    MAX_WORKFLOW_ID_CHARS,
    TOKEN_BUDGET_KEY,
    RunRequest,
    RunTags,
)

# The versions that a client may state, and the one for clients that state none (versioning.md §1.1).
PROTOCOL_VERSIONS: Final = ("1.1", "2.0")
PREFERRED_VERSION: Final = "1.1"
VERSION_HEADER: Final = "OpenWOP-Version"
# The era of logs that are written in the form of version 1 and translated when they are read (events.md, Era-2 logs).
EVENT_LOG_ERA: Final = 2
# identity.md §2.2: the lane of a principal, by the first part of its id; others are bearers of a token.
_LANES: Final[Mapping[str, str]] = {"key": "api-key", "local": "session"}
# Runs and proposals per page.
PAGE_LIMIT: Final = 100
# Seconds that a poll waits by default, and at most; events.md allows a minute.
POLL_SECONDS: Final = (30, 55)

_TENANT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_ESCAPE: Final = re.compile(r"[~%]([0-9A-Fa-f]{2})", re.ASCII)
_OUTSIDE_SEGMENT: Final = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)
# Characters of an opaque part, at least. Shorter ids of hosts are filled with hyphens, with which none begins.
_OPAQUE_CHARS: Final = 16
_IDEMPOTENCY_KEY: Final = re.compile(r"[A-Za-z0-9._~-]{22,128}", re.ASCII)
_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))?", re.ASCII)


# --- versions ------------------------------------------------------------------------------------------------


def select_major(stated_version: str | None, *, default: str = PREFERRED_VERSION) -> int:
    """Return the major version of a request. Raises WorkflowError (406) for one that is not served.

    `stated_version` is the header as it came, or None. `default` is the version for requests without the header.
    """
    match = _VERSION.fullmatch(default if stated_version is None else stated_version.strip())
    major = None if match is None else match[1]
    if major not in {version.partition(".")[0] for version in PROTOCOL_VERSIONS}:
        raise WorkflowError(
            f"{VERSION_HEADER}: this server speaks {' and '.join(PROTOCOL_VERSIONS)}",
            openwop_code=problem.VERSION_UNSUPPORTED,
            details={"protocolVersions": list(PROTOCOL_VERSIONS)},
        )
    return int(major)


def require_first_major(stated_version: str | None) -> None:
    """Raise WorkflowError (400) if a request to a path under /v1 states another version."""
    if stated_version is not None and select_major(stated_version) != 1:
        raise WorkflowError(
            f"{VERSION_HEADER}: paths under /v1 are for version 1; version 2 has none in its paths",
            openwop_code=problem.VERSION_MISMATCH,
        )


# --- ids -----------------------------------------------------------------------------------------------------


def tenant_id(tenant: str) -> str:
    """Return the id of a tenant: its name, or a digest of a name that is no id, such as a DID."""
    if _TENANT.fullmatch(tenant):
        return tenant
    digest = hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).digest()
    return f"t-{base32_encode(digest)[:32]}"


def bind_id(name: str, tenant: str) -> str:
    """Return the id of a run or a webhook with its tenant.

    The opaque part is filled with hyphens on the left to the minimum length; `read_id` removes them again.
    """
    return f"{tenant_id(tenant)}/{name.rjust(_OPAQUE_CHARS, '-')}"


def path_segment(bound_id: str) -> str:
    """Return an id as one segment of a path: other characters are `~` and two hexadecimal digits."""
    return _OUTSIDE_SEGMENT.sub(
        lambda match: "".join(f"~{byte:02X}" for byte in match[0].encode("utf-8")), bound_id
    )


def read_id(text: str, tenant: str) -> str:
    """Return the name of a run or a webhook, from a segment of a path or a bound id.

    An id without a tenant is the caller's. Raises WorkflowError (403) for one of another tenant.
    """
    if "/" not in text:
        try:
            text = _unescape(text)
        except UnicodeDecodeError:
            raise NotFound("no such id") from None
    owner, slash, opaque = text.rpartition("/")
    if slash and owner != tenant_id(tenant):
        # The answer is the same whether there is such a run or not.
        raise WorkflowError(
            "the id belongs to another tenant", openwop_code=problem.ID_TENANT_MISMATCH
        )
    return opaque.lstrip("-")


def _unescape(text: str) -> str:
    data, end = bytearray(), 0
    for match in _ESCAPE.finditer(text):
        data += text[end : match.start()].encode("utf-8") + bytes((int(match[1], 16),))
        end = match.end()
    return (bytes(data) + text[end:].encode("utf-8")).decode("utf-8")


def _event_id(name: str) -> str:
    """Return the id of an event; colons are not allowed in version 2."""
    return name.replace(":", ".").rjust(_OPAQUE_CHARS, "-")


# --- events and runs -----------------------------------------------------------------------------------------

# Types with another name in version 2; all others keep theirs.
_RENAMED_TYPES: Final[Mapping[str, str]] = {
    "agent.memory.consolidated": "agent.memory-consolidated",
    "agent.toolCalled": "agent.tool-called",
    "agent.toolReturned": "agent.tool-returned",
    "agent.invocation.started": "agent.invocation-started",
    "agent.invocation.completed": "agent.invocation-completed",
    "run.resuming": "run.resume-started",
    "run.dead_lettered": "run.dead-lettered",
    "replay.divergedAtRefusal": "replay.diverged-at-refusal",
}
_V2_TYPE: Final = re.compile(
    r"[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z][a-z0-9]*(-[a-z0-9]+)*)?",
    re.ASCII,
)
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+", re.ASCII)


def event_type(name: str) -> str:
    """Return the type of an event in version 2: words in lower case, joined by hyphens, in at most three parts.

    Unknown types of vendors are converted by the same rule, so that every event has a valid type.
    """
    renamed = _RENAMED_TYPES.get(name, name)
    if _V2_TYPE.fullmatch(renamed):
        return renamed
    parts = [_WORD_START.sub("-", part).strip("-").lower() for part in renamed.split(".")]
    filled_parts = [part for part in parts if part]
    return ".".join(
        [*filled_parts[:2], *(["-".join(filled_parts[2:])] if len(filled_parts) > 2 else [])]
    )


def show_event(event: Event, tenant: str) -> dict[str, Any]:
    """Return an event of version 2."""
    document: dict[str, Any] = {
        **event,
        "eventId": _event_id(event["eventId"]),
        "runId": bind_id(event["runId"], tenant),
        "type": event_type(event["type"]),
        "payload": _show_payload(event, tenant),
        "schemaVersion": event.get("schemaVersion") or 1,
    }
    if "causationId" in event:
        document["causationId"] = _event_id(event["causationId"])
    # Strings of hosts, which version 2 has as integers.
    document.pop("engineVersion", None)
    return document


def _show_payload(event: Event, tenant: str) -> dict[str, Any]:
    payload = dict(event["payload"])
    if event["type"] == "run.started":
        payload |= {"owner": _owner(tenant, payload.get("owner")), "transport": "rest"}
    elif event["type"] == "run.completed":
        # events.md: an empty object is a valid value; an absent key is not.
        payload.setdefault("outputs", {})
    elif event["type"] == COMMITMENT_FIRED and "enqueuedRunId" in payload:
        payload["enqueuedRunId"] = bind_id(payload["enqueuedRunId"], tenant)
    elif event["type"] == PROPOSAL_CREATED and "sourceRunIds" in payload:
        payload["sourceRunIds"] = [bind_id(name, tenant) for name in payload["sourceRunIds"]]
    return payload


def _owner(tenant: str, first: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the owner of a run, from its owner in version 1 (identity.md §1.1, §2.2).

    One without a principal started by itself, or before principals were recorded (the legacy subject, §1.2).
    """
    name, owner = tenant_id(tenant), first or {}
    principal = owner.get("principal")
    lane = "api-key" if principal is None else _LANES.get(principal.partition("-")[0], "oauth2")
    subject = {
        "issuer": "urn:openwop:legacy" if principal is None else f"urn:memoranda:{lane}",
        "subjectId": principal or name,
        "tenant": name,
        "lane": lane,
        "kind": owner.get("principalKind", "user"),
    }
    return {"tenant": name, "subject": subject}


def show_run(snapshot: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """Return the snapshot of a run in version 2, a closed object."""
    names = ("workflowId", "status", "startedAt", "variables", "agent", "error", "tags", "metadata")
    document = {name: snapshot[name] for name in names if name in snapshot}
    return {
        "runId": bind_id(snapshot["runId"], tenant),
        **document,
        "owner": _owner(tenant, snapshot.get("owner")),
        "eventLogSchemaVersion": EVENT_LOG_ERA,
    }


def show_started(run_id: str, tenant: str) -> dict[str, Any]:
    """Return the answer to the start of a run, or of a fork. Only active states are allowed in it (runs.md)."""
    bound_id = bind_id(run_id, tenant)
    path = f"/runs/{path_segment(bound_id)}"
    return {
        "runId": bound_id,
        "status": "running",
        "eventsUrl": f"{path}/events",
        "statusUrl": path,
    }


# --- proposals -----------------------------------------------------------------------------------------------


def show_proposal(proposal: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """Return a proposal of version 2."""
    provenance = dict(proposal["provenance"])
    provenance["sourceRunIds"] = [bind_id(name, tenant) for name in provenance["sourceRunIds"]]
    return {
        **proposal,
        "provenance": provenance,
        "owner": _owner(tenant),
        "artifactDigest": digest_artifact(proposal["artifact"]),
    }


# --- discovery -----------------------------------------------------------------------------------------------

# Families, and how a suite can witness them (capabilities.md §5).
_FAMILIES: Final[Mapping[str, str]] = {
    "memory": "witnessable-gated",
    "agents": "witnessable-gated",
    "multiAgent": "claims-check",
    "workspace": "witnessable-gated",
    "replay": "witnessable-gated",
    "webhooks": "witnessable-gated",
}


def show_discovery(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the root of version 2: a record for each family that this host offers, and nothing of version 1."""
    root: dict[str, Any] = {
        "protocolVersions": list(PROTOCOL_VERSIONS),
        "preferredVersion": PREFERRED_VERSION,
        "eventLogSchemaVersion": EVENT_LOG_ERA,
    }
    for name in ("implementation", "fixtures"):
        if name in document:
            root[name] = document[name]
    for name, witness in _FAMILIES.items():
        if name in document:
            root[name] = _record("1.1", witness, _without_supported(document[name]))
    if "proposals" in root["agents"]:
        root["agents"]["proposals"]["clientDrafts"] = True
    root["runList"] = _record("2.0", "witnessable-gated", {"maxPageSize": PAGE_LIMIT})
    query = document.get("x-host-memoranda-memory-query")
    if query is not None:
        root["extensions"] = {"memoranda.memory-query": _without_supported(query)}
    return root


def add_versions(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of version 1 with the versions that this server speaks (versioning.md §1.1)."""
    return {
        **document,
        "protocolVersions": list(PROTOCOL_VERSIONS),
        "preferredVersion": PREFERRED_VERSION,
    }


def _record(since: str, witness: str, facets: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": "stable", "since": since, "witness": witness, **facets}


def _without_supported(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block without the flags `supported`: in version 2 the presence of a block is the claim."""
    return {
        name: _without_supported(value) if isinstance(value, Mapping) else value
        for name, value in block.items()
        if name != "supported"
        and not (isinstance(value, Mapping) and value.get("supported") is False)
    }


# --- errors --------------------------------------------------------------------------------------------------

# Codes of version 1 that version 2 does not have, and those with another status.
_CODES: Final[Mapping[str, tuple[str, int]]] = {
    problem.SUBSCRIPTION_NOT_FOUND: (problem.NOT_FOUND, 404),
    problem.INVALID_FROM_SEQ: ("fork_point_invalid", 422),
    problem.SNAPSHOT_UNAVAILABLE: (problem.SNAPSHOT_UNAVAILABLE, 409),
    problem.MALFORMED_ARTIFACT: (problem.VALIDATION_ERROR, 400),
    problem.SECRET_LEAKAGE: (problem.VALIDATION_ERROR, 400),
    problem.CAPABILITY_NOT_PROVIDED: (problem.CAPABILITY_NOT_PROVIDED, 422),
    problem.UNAVAILABLE: ("service_unavailable", 503),
}
_CONFLICTS: Final = {"/proposals": "proposal_state_conflict", "/webhooks": "storage_limit_exceeded"}


def check_idempotency_key(key: str) -> None:
    """Raise WorkflowError `idempotency_key_invalid` for a key of another form (idempotency.md, Layer 1)."""
    if _IDEMPOTENCY_KEY.fullmatch(key) is None:
        raise WorkflowError(
            "Idempotency-Key must have 22 to 128 of the characters A-Z a-z 0-9 . _ ~ -",
            openwop_code=problem.IDEMPOTENCY_KEY_INVALID,
        )


def show_problem(status: int, envelope: Problem, path: str) -> tuple[int, Problem]:
    """Return the status and the envelope of an error in version 2."""
    code = envelope["error"]
    if code == problem.CONFLICT:
        prefix = "/" + path.split("/", 2)[1]
        code = _CONFLICTS.get(prefix, "run_state_conflict")
        status = 422 if code == "storage_limit_exceeded" else status
    else:
        code, status = _CODES.get(code, (code, status))
    return status, {**envelope, "error": code}


# --- requests ------------------------------------------------------------------------------------------------


class RunSection(OpenwopShape):
    """Limits of a run. The workflows of this host have no nodes and no loops, so none of them is reached."""

    recursion_limit: Annotated[int, Meta(ge=1)] | None = None
    run_timeout_ms: Annotated[int, Meta(ge=1)] | None = None
    max_loop_iterations: Annotated[int, Meta(ge=1)] | None = None
    escalation_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None


class DistillationSection(OpenwopShape):
    """The budget of a distillation."""

    token_budget: Annotated[int, Meta(ge=1)] | None = None


class Configurable(OpenwopShape):
    """Options of a run. The official client sends null for sections that are absent.

    This host calls no models and keeps no budgets, so it refuses `ai` and `budget` with a content.
    """

    version: Literal[1]
    run: RunSection | None = None
    distillation: DistillationSection | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    ai: None = None
    budget: None = None


class CreateRunRequest(OpenwopShape):
    """`POST /runs`: a workflow of this host to start."""

    workflow_id: Annotated[str, text_limit(MAX_WORKFLOW_ID_CHARS)]
    inputs: Annotated[
        dict[str, Any], Meta(description="`memoryRef`: the ref of the memory to work on.")
    ] = field(default_factory=dict)
    tenant_id: (
        Annotated[
            str, text_limit(MAX_ID_CHARS, "The tenant of the credential; another one is refused.")
        ]
        | None
    ) = None
    scope_id: Annotated[str, text_limit(MAX_ID_CHARS)] | None = None
    configurable: Configurable | None = None
    tags: RunTags = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_first(self) -> RunRequest:
        """Return the request of version 1."""
        document: dict[str, Any] = {
            "workflowId": self.workflow_id,
            "inputs": self.inputs,
            "tags": list(self.tags),
            "metadata": self.metadata,
        }
        distillation = None if self.configurable is None else self.configurable.distillation
        if distillation is not None and distillation.token_budget is not None:
            document["configurable"] = {TOKEN_BUDGET_KEY: distillation.token_budget}
        return RunRequest.parse(document)


class ListRequest(OpenwopShape):
    """A request for a page."""

    limit: Annotated[int, Meta(ge=1, description="At most 100.")] | None = None
    cursor: (
        Annotated[str, text_limit(MAX_ID_CHARS, "`nextCursor` of the previous page.")] | None
    ) = None


class ListRunsRequest(ListRequest):
    """A request for a page of runs. Its filters have no effect, as `runList.filters` names none."""

    workflow_id: Annotated[str, text_limit(MAX_WORKFLOW_ID_CHARS)] | None = None
    status: Annotated[str, text_limit(MAX_ID_CHARS)] | None = None


class ListProposalsRequest(ListRequest):
    """A request for a page of proposals."""

    state: Annotated[str, word_choice(STATES, "Only proposals in this state.")] | None = None
    kind: (
        Annotated[
            str,
            word_choice(
                (*PROPOSAL_KINDS, *HOST_PROPOSAL_KINDS),
                "Only proposals of this kind; without one, those of the standard.",
            ),
        ]
        | None
    ) = None


class FollowEventsRequest(FollowRequest):
    """A request to stream the events of a run."""

    resumable: Annotated[bool, Meta(description="Streams always continue after Last-Event-ID.")] = (
        False
    )


class PollEventsRequest(PollRequest):
    """A request to wait for events of a run."""

    last_sequence: (
        Annotated[int, Meta(ge=0, le=MAX_COUNT, description="Only later events.")] | None
    ) = field(default=None, name="afterSequence")
    timeout: (
        Annotated[Seconds, Meta(description="Seconds to wait, at most 55; default: 30.")] | None
    ) = None


class RegisterWebhookRequest(OpenwopShape):
    """A webhook and its filters."""

    url: Annotated[str, text_limit(2048, "The public https URL that receives the events.")]
    events: Annotated[
        tuple[Annotated[str, text_limit(MAX_ID_CHARS)], ...],
        Meta(min_length=1, max_length=64, description="The event types to deliver."),
    ]
    tags: Annotated[RunTags, Meta(description="Only events of runs with one of these tags.")] = ()


class SubmitProposalRequest(OpenwopShape):
    """A draft of a client."""

    kind: Annotated[str, word_choice(PROPOSAL_KINDS)]
    artifact: dict[str, Any]
    title: Annotated[str, text_limit(MAX_TITLE_CHARS)] | None = None
    rationale: Annotated[str, text_limit(MAX_RATIONALE_CHARS)] | None = None


class ApplyProposalRequest(OpenwopShape):
    """A request to apply a proposal, as long as its artifact is the one that was read."""

    artifact_digest: (
        Annotated[str, text_limit(MAX_ID_CHARS, "`artifactDigest` of the proposal.")] | None
    ) = None


class EmptyRequest(OpenwopShape):
    """A request without fields."""


def check_tenant(stated_tenant: str | None, tenant: str) -> None:
    """Raise WorkflowError (403) for another tenant than the caller's."""
    if stated_tenant is not None and stated_tenant not in (tenant, tenant_id(tenant)):
        raise WorkflowError(
            "tenantId: this credential belongs to another tenant",
            openwop_code=problem.ID_TENANT_MISMATCH,
        )


def first_event_type(name: str) -> str:
    """Return the type of version 1 for a type of version 2."""
    return _FIRST_TYPES.get(name, name)


_FIRST_TYPES: Final = {second: first for first, second in _RENAMED_TYPES.items()}


def slice_page(
    items: list[dict[str, Any]], request: ListRequest
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of documents with ids, and the cursor of the next. Raises InvalidInput for a foreign cursor.

    The cursor is the id of the last item. If that item was deleted meanwhile, the cursor is refused and the client
    starts again.
    """
    start = 0
    if request.cursor is not None:
        ids = [item["id"] for item in items]
        if request.cursor not in ids:
            raise InvalidInput("cursor: send the nextCursor of the previous page")
        start = ids.index(request.cursor) + 1
    limit = min(request.limit or PAGE_LIMIT, PAGE_LIMIT)
    page = items[start : start + limit]
    is_more = start + limit < len(items)
    return page, page[-1]["id"] if is_more else None
