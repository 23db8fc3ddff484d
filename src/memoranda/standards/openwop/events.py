"""RunEventDoc: the documents of a run's append-only log, and the payloads of memory events.

An event contains ids, never the content of memories. Therefore payloads are built from the table below and from nothing
else: the builder refuses further keys even if the schema permits them, so its events cannot contain content. Documents
from elsewhere are checked with `check_event`, which accepts whatever the schema accepts.

To add an event type of the standard: add its constant and its rule in `_RULES` (or its name in `RUN_TYPES`), and decide
in `_DEBUG_TYPES` if `updates` streams it. Events are stored for ever in the log of their run, and streamed to clients
and webhooks, so a payload with content would copy a secret to places where erasure cannot reach.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict, cast, get_args

import msgspec

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.openwop.entry import MAX_ID_CHARS, MAX_TAG_CHARS
from memoranda.standards.openwop.fields import (
    check_boolean,
    check_integer,
    check_text,
    check_texts,
    check_time,
    check_word,
    quote_name,
)
from memoranda.standards.openwop.problem import UNSUPPORTED_STREAM_MODE
from memoranda.standards.openwop.refs import MAX_REF_CHARS

# The payload of an event; the table of rules defines it by type.
Payload = dict[str, Any]


class Event(TypedDict):
    """A RunEventDoc (run-event.schema.json)."""

    eventId: str
    runId: str
    type: str
    payload: Payload
    timestamp: str
    sequence: int
    nodeId: NotRequired[str]
    engineVersion: NotRequired[str]
    causationId: NotRequired[str]
    schemaVersion: NotRequired[int]


MEMORY_WRITTEN: Final = "memory.written"
MEMORY_COMPACTED: Final = "memory.compacted"
MEMORY_CONSOLIDATED: Final = "agent.memory.consolidated"
COMMITMENT_FIRED: Final = "commitment.fired"
PROPOSAL_CREATED: Final = "proposal.created"
PROPOSAL_ACTIVATED: Final = "proposal.activated"
WORKSPACE_UPDATED: Final = "workspace.updated"

TRIGGERS: Final = ("host-managed", "client-requested", "both")
SCHEDULES: Final = ("host-managed", "scheduled", "on-demand")
CONDITIONS: Final = ("time", "predicate")
# A kind of this host, of which no event tells: candidates of the memory.
HOST_PROPOSAL_KINDS: Final = ("memory",)
PROPOSAL_KINDS: Final = ("agent-pack", "workflow-chain-pack", "prompt-template", "automation")
# First segments that vendors must not use for their own types.
RESERVED_SEGMENTS: Final = frozenset({"openwop", "core", "community", "vendor", "private", "local"})
# Types of the standard that are not about memory; their payloads describe the course of a run.
RUN_TYPES: Final = frozenset(
    "run.started run.completed run.failed run.cancelled run.paused run.resumed run.resuming run.dead_lettered "
    "run.restored-from-snapshot node.started node.completed node.failed node.skipped node.cancelled node.retried "
    "node.suspended node.suspend-failed node.resumed node.dispatched approval.requested approval.received "
    "approval.granted approval.rejected approval.overridden artifact.created variable.changed log.appended "
    "version.pinned cap.breached replay.diverged replay.divergedAtRefusal agent.toolCalled agent.toolReturned "
    "agent.handoff agent.decided agent.reasoned agent.invocation.started agent.invocation.completed "
    "authorization.decided".split()
)
# stream-modes.md: the types that only `debug` streams, in addition to those of vendors.
_DEBUG_TYPES: Final = frozenset(
    "node.started node.retried variable.changed version.pinned log.appended cap.breached replay.diverged "
    "replay.divergedAtRefusal agent.toolCalled agent.toolReturned agent.handoff agent.decided agent.reasoned "
    "agent.invocation.started agent.invocation.completed authorization.decided".split()
)
StreamMode = Literal["values", "updates", "messages", "debug"]
STREAM_MODES: Final[tuple[StreamMode, ...]] = get_args(StreamMode)
# Keys that carry content elsewhere; our payloads never have them, at any depth.
CONTENT_KEYS: Final = frozenset(
    {"content", "text", "intention", "rationale", "artifact", "plaintext", "secret"}
)

# Characters; run-event.schema.json.
MAX_EVENT_ID_CHARS: Final = 128
# Ids. A list of sources must be complete; longer lists are omitted.
MAX_LISTED_SOURCES: Final = 100
# Ids in a list of an event; the rest is counted only.
MAX_IDS: Final = 10_000
# Bytes of a payload about a run, which has a few fields.
MAX_PAYLOAD_BYTES: Final = 65_536

_TYPE: Final = re.compile(r"[a-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)+", re.ASCII)
# Characters.
_MAX_TYPE_CHARS: Final = 128
_FIELDS: Final = (
    "eventId",
    "runId",
    "type",
    "payload",
    "timestamp",
    "sequence",
    "nodeId",
    "schemaVersion",
    "engineVersion",
    "causationId",
)

Check = Callable[[object, str], object]


# --- what a field may be -----------------------------------------------------------------------------


def _text_check(max_chars: int) -> Check:
    """Return a check for a text of limited length."""
    return lambda value, location: check_text(value, location, max_chars)


def _check_text_or_null(value: object, location: str) -> None:
    """Raise InvalidInput unless the value is null or a text."""
    if value is not None:
        check_text(value, location, MAX_ID_CHARS)


def _integer_check(least: int) -> Check:
    """Return a check for an integer of at least `least`."""
    return lambda value, location: check_integer(value, location, least=least)


def _word_check(words: tuple[str, ...]) -> Check:
    """Return a check for one of these words."""
    return lambda value, location: check_word(value, words, location)


def _texts_check(max_chars: int) -> Check:
    """Return a check for an array of texts."""
    return lambda value, location: check_texts(
        value, location, max_items=MAX_IDS, max_chars=max_chars
    )


def _check_distillation(value: object, location: str) -> None:
    """Check the result of a distillation. Raises InvalidInput."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{location} must be an object")
    _check_fields(value, _DISTILLATION, location, refuse_unknown=True)
    if value["tokensUsed"] > value["tokenBudget"]:
        raise InvalidInput(f"{location}.tokensUsed must not be more than tokenBudget")


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a payload. `closed` if the schema permits no others."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check]
    closed: bool = False


_ID: Final = _text_check(MAX_ID_CHARS)
_IDS: Final = _texts_check(MAX_ID_CHARS)
_REF: Final = _text_check(MAX_REF_CHARS)
_DISTILLATION: Final = _Rule(
    required={"tokenBudget": _integer_check(1), "tokensUsed": _integer_check(0)},
    optional={"indexUpdated": check_boolean},
    closed=True,
)
_RULES: Final[Mapping[str, _Rule]] = {
    MEMORY_WRITTEN: _Rule(
        required={"memoryRef": _REF, "memoryId": _ID},
        optional={"nodeId": _ID, "agentId": _ID, "tags": _texts_check(MAX_TAG_CHARS)},
    ),
    MEMORY_COMPACTED: _Rule(
        required={
            "memoryRef": _REF,
            "outputId": _ID,
            "sourceCount": _integer_check(1),
            "trigger": _word_check(TRIGGERS),
            "byteSize": _integer_check(0),
        },
        optional={"sourceIds": _IDS, "distillation": _check_distillation},
    ),
    MEMORY_CONSOLIDATED: _Rule(
        required={
            "memoryRef": _REF,
            "inputCount": _integer_check(0),
            "outputCount": _integer_check(0),
        },
        optional={"mergedIds": _IDS, "trigger": _word_check(SCHEDULES)},
    ),
    COMMITMENT_FIRED: _Rule(
        required={"commitmentId": _ID, "memoryRef": _REF, "condition": _word_check(CONDITIONS)},
        optional={"memoryId": _ID, "enqueuedRunId": _ID},
    ),
    PROPOSAL_CREATED: _Rule(
        required={"proposalId": _ID, "kind": _word_check(PROPOSAL_KINDS)},
        optional={"sourceRunIds": _IDS, "duplicateOf": _check_text_or_null},
        closed=True,
    ),
    PROPOSAL_ACTIVATED: _Rule(
        required={
            "proposalId": _ID,
            "kind": _word_check(PROPOSAL_KINDS),
            "installedArtifactRef": _ID,
        },
        optional={"approvalId": _check_text_or_null},
        closed=True,
    ),
    WORKSPACE_UPDATED: _Rule(
        required={"path": _REF, "version": _integer_check(1)}, optional={}, closed=True
    ),
}
MEMORY_TYPES: Final = frozenset(_RULES)
_STANDARD_SEGMENTS: Final = frozenset(name.partition(".")[0] for name in RUN_TYPES | MEMORY_TYPES)


# The types that `updates` streams: transitions of runs and nodes, and memory events, which its table omits.
_UPDATE_TYPES: Final = (RUN_TYPES - _DEBUG_TYPES) | MEMORY_TYPES


def parse_stream_modes(
    text: str, *, supported: Sequence[StreamMode] = STREAM_MODES
) -> frozenset[StreamMode]:
    """Return the requested modes. `values` cannot be combined with others.

    Raises WorkflowError `unsupported_stream_mode` (400) with the supported modes.

    `supported` is narrower for hosts without snapshots.
    """
    names = text.split(",")
    modes = frozenset(mode for mode in supported if mode in names)
    if len(modes) < len(set(names)) or ("values" in modes and len(names) > 1):
        raise WorkflowError(
            f"streamMode {quote_name(text)} is not supported",
            openwop_code=UNSUPPORTED_STREAM_MODE,
            details={"supported": list(supported)},
        )
    return modes


def is_streamed(event: Event, modes: Collection[StreamMode]) -> bool:
    """Return True if one of the modes streams an event.

    `messages` streams the output of models, which no log here has. `values` has a snapshot for each update.
    """
    if "debug" in modes:
        return True
    return ("updates" in modes or "values" in modes) and event["type"] in _UPDATE_TYPES


# --- building ----------------------------------------------------------------------------------------


def build_event(
    type: str,  # noqa: A002
    payload: Mapping[str, object],
    run_id: str,
    sequence: int,
    at: Instant,
    *,
    node_id: str | None = None,
) -> Event:
    """Build an event for the log of a run. Raises InvalidInput for a payload that breaks its rule.

    The id of the event consists of the run's id and the event's sequence number, so it is as unique as the run's id.

    `at` is the instant of the event; `sequence` counts from 0 within a run without gaps.
    """
    document: Event = {
        "eventId": default_event_id(run_id, sequence),
        "runId": run_id,
        "type": type,
        "payload": check_payload(check_type(type), payload, refuse_unknown=True),
        "timestamp": format_instant(at),
        "sequence": sequence,
    }
    if node_id is not None:
        document["nodeId"] = node_id
    return check_event(document)


def default_event_id(run_id: str, sequence: int) -> str:
    """Return `<runId>:<sequence>`, or a digest of it if that is too long."""
    name = f"{run_id}:{sequence}"
    if len(name) <= MAX_EVENT_ID_CHARS:
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def copy_for_replay(source: Event, run_id: str, sequence: int) -> Event:
    """Return a copy of an event for the log of a replay fork: the same type, ids and time.

    Event ids are globally unique, so the copy has its own; its `causationId` is the id of the original.

    A replay fork repeats a run up to a point; its log begins with copies of the original events.
    """
    copy = {
        **source,
        "eventId": default_event_id(run_id, sequence),
        "runId": run_id,
        "sequence": sequence,
    }
    copy["causationId"] = source["eventId"]
    return check_event(copy)


def encode(document: Event) -> bytes:
    """Encode a document as canonical bytes (RFC 8785)."""
    return json_text.canonical(document)


# --- checking ----------------------------------------------------------------------------------------


def check_event(value: object) -> Event:
    """Check a RunEventDoc from untrusted JSON and return it unchanged. Raises InvalidInput that names the field."""
    if not isinstance(value, dict):
        raise InvalidInput("an event must be an object")
    for name in _FIELDS[:6]:
        if name not in value:
            raise InvalidInput(f"event.{name} is required")
    for name in ("eventId", "runId", "nodeId", "engineVersion", "causationId"):
        if name in value:
            check_text(value[name], f"event.{name}", MAX_EVENT_ID_CHARS)
    check_integer(value["sequence"], "event.sequence", least=0)
    if "schemaVersion" in value:
        check_integer(value["schemaVersion"], "event.schemaVersion", least=0)
    check_time(value["timestamp"], "event.timestamp")
    type_name = value["type"]
    if (
        not isinstance(type_name, str)
        or len(type_name) > _MAX_TYPE_CHARS
        or not _TYPE.fullmatch(type_name)
    ):
        raise InvalidInput("event.type must be dotted words such as memory.written")
    # Readers must accept unknown types, so only known types have rules.
    if type_name in _RULES:
        check_payload(type_name, value["payload"])
    return cast(Event, value)


def check_type(value: str) -> str:
    """Return a type that we may emit: one of the standard's, or a vendor's own. Raises InvalidInput."""
    segment = value.partition(".")[0]
    if (
        value not in _RULES
        and value not in RUN_TYPES
        and segment in RESERVED_SEGMENTS | _STANDARD_SEGMENTS
    ):
        raise InvalidInput(
            f"event.type {quote_name(value)} is not a standard type, and vendors must not use the segment {segment}"
        )
    return value


def check_payload(type: str, payload: object, *, refuse_unknown: bool = False) -> Payload:  # noqa: A002
    """Check a payload by the rule of its type and return it. Raises InvalidInput.

    With `refuse_unknown`, keys outside the table are refused for every type.
    """
    if not isinstance(payload, dict):
        raise InvalidInput("event.payload must be an object")
    rule = _RULES.get(type)
    if rule is None:
        if refuse_unknown and len(json_text.dump(payload)) > MAX_PAYLOAD_BYTES:
            raise InvalidInput(f"event.payload must have at most {MAX_PAYLOAD_BYTES} bytes")
    else:
        _refuse_content(payload)
        _check_fields(payload, rule, "event.payload", refuse_unknown=refuse_unknown)
        _check_counts(payload)
    return payload


def _check_fields(payload: Payload, rule: _Rule, location: str, *, refuse_unknown: bool) -> None:
    """Check the fields of a payload by a rule. Raises InvalidInput."""
    for name in rule.required:
        if name not in payload:
            raise InvalidInput(f"{location}.{name} is required")
    for name, value in payload.items():
        check = rule.required.get(name) or rule.optional.get(name)
        if check is not None:
            check(value, f"{location}.{name}")
        elif refuse_unknown or rule.closed:
            raise InvalidInput(f"{location} must not have the field {quote_name(name)}")


def _check_counts(payload: Payload) -> None:
    """Check the counts in a payload. Raises InvalidInput."""
    if (
        "sourceIds" in payload
        and "sourceCount" in payload
        and len(payload["sourceIds"]) != payload["sourceCount"]
    ):
        # memoryCompacted: sourceIds, if present, is exhaustive.
        raise InvalidInput("event.payload.sourceIds must name all sources")
    if "inputCount" in payload and payload["outputCount"] > payload["inputCount"]:
        # RFC 0068: a consolidation run merges and supersedes; it never adds.
        raise InvalidInput("event.payload.outputCount must not be more than inputCount")


def _refuse_content(payload: Payload) -> None:
    """Raise InvalidInput if a payload has a content key at any depth."""
    pending: list[object] = [payload]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for name in item:
                if name in CONTENT_KEYS:
                    # RFC 0057: identifiers only, never entry content.
                    raise InvalidInput(
                        f"event.payload must not have the field {quote_name(name)}: events carry no content"
                    )
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
