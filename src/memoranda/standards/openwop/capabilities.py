"""`GET /.well-known/openwop`: the capabilities of this host, all at the root of the document (RFC 0073).

A host must honour every capability that it advertises, so the document is built from what is enabled. The eight
dimensions of memory (RFC 0080 §A) are computed from the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from memoranda.errors import InvalidInput
from memoranda.model.instant import parse_duration_ms

Discovery = dict[str, Any]
# The signature of deliveries: HMAC-SHA256 (webhooks.md, signature recipe).
SIGNATURE_ALGORITHM: Final = "v1"
Dimension = Literal[
    "read",
    "write",
    "search",
    "long-term-durability",
    "compaction",
    "attribution",
    "replay-snapshot",
    "retention",
]
Schedule = Literal["host-managed", "scheduled", "on-demand"]
Activation = Literal["approval-gate", "direct-rbac"]

TokenCounter = Literal["o200k_base", "cl100k_base", "chars", "host-defined"]

TOKEN_COUNTERS: Final[tuple[TokenCounter, ...]] = get_args(TokenCounter)
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
PROTOCOL_VERSION: Final = "1.1"
LONG_TERM: Final = "long-term"
# From this execution model version on, forks read memory as of their position in the log (MAE-3).
SNAPSHOT_MODEL_VERSION: Final = 2
_ROUNDS: Final = ("clarificationRounds", "schemaRounds", "envelopesPerTurn")


class DistillationCapability(msgspec.Struct, frozen=True, kw_only=True):
    """The block `memory.distillation`. `tokenizer` is the counter that is really used."""

    max_token_budget: int
    tokenizer: str
    archive_retention: str
    scheduled: bool = False
    index_emitted: bool = False

    def to_block(self) -> dict[str, object]:
        """Return the block for the document. Raises InvalidInput."""
        try:
            is_duration = parse_duration_ms(self.archive_retention) > 0
        except ValueError:
            is_duration = False
        if not is_duration or self.max_token_budget < 1:
            raise InvalidInput(
                "a distillation needs a budget of at least 1 and an archive retention such as P365D"
            )
        return {
            "supported": True,
            "maxTokenBudget": self.max_token_budget,
            "scheduled": self.scheduled,
            "indexEmitted": self.index_emitted,
            "tokenizerName": self.tokenizer,
            "archiveRetention": self.archive_retention,
        }


class Proposals(msgspec.Struct, frozen=True, kw_only=True):
    """The block `agents.proposals`: the supported kinds and the method of activation."""

    kinds: tuple[str, ...]
    activation: Activation
    detects_duplicates: bool = False

    def to_block(self) -> dict[str, object]:
        """Return the block for the document."""
        return {
            "artifactKinds": list(self.kinds),
            "activation": self.activation,
            "duplicationDetection": self.detects_duplicates,
        }


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """The block `workspace`: versioned files with limits of size and number."""

    max_file_bytes: int
    max_files: int
    max_versions: int

    def to_block(self) -> dict[str, object]:
        """Return the block for the document."""
        return {
            "supported": True,
            "versioned": self.max_versions > 1,
            "maxFileBytes": self.max_file_bytes,
            "maxFiles": self.max_files,
            "maxVersions": self.max_versions,
        }


class CapabilityOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities that are enabled; the default of each is off."""

    memory: bool = False
    writable: bool = True
    max_entry_size_bytes: int | None = None
    ttl: bool = False
    forget: bool = False
    search_modes: tuple[Literal["semantic", "filter"], ...] = ()
    compaction: bool = False
    max_input_entries: int | None = None
    distillation: DistillationCapability | None = None
    attribution: bool = False
    # The token counter for `tokenBudget` of list (RFC 0113).
    injection_counter: str | None = None
    long_term: bool = False
    consolidation: Schedule | None = None
    commitments: tuple[Literal["time", "predicate"], ...] = ()
    proposals: Proposals | None = None
    manifest_runtime: bool = False
    execution_model_version: int | None = None
    child_concurrency: Literal["strict", "advisory"] | None = None
    workspace: Workspace | None = None
    replay_modes: tuple[Literal["replay", "branch"], ...] = ()
    webhooks: bool = False
    fixtures: tuple[str, ...] = ()
    max_request_bytes: int | None = None
    # Other root members, such as the implementation's name; they must not replace those above.
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


def build_discovery(offer: CapabilityOffer) -> Discovery:
    """Build the document. Raises InvalidInput for a contradictory offer."""
    _check_offer(offer)
    limits: dict[str, int] = dict.fromkeys(_ROUNDS, 0)
    if offer.max_request_bytes is not None:
        limits["maxRequestBodyBytes"] = offer.max_request_bytes
    document: Discovery = {
        "protocolVersion": PROTOCOL_VERSION,
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": limits,
    }
    if offer.fixtures:
        document["fixtures"] = list(dict.fromkeys(offer.fixtures))
    blocks = {
        "memory": _build_memory(offer),
        "agents": _build_agents(offer),
        "multiAgent": _build_multi_agent(offer),
        "workspace": offer.workspace.to_block() if offer.workspace else None,
        "replay": {"supported": True, "modes": list(offer.replay_modes)}
        if offer.replay_modes
        else None,
        "webhooks": {"supported": True, "signatureAlgorithms": [SIGNATURE_ALGORITHM]}
        if offer.webhooks
        else None,
    }
    # A missing block means that the capability is not offered.
    document.update((name, block) for name, block in blocks.items() if block)
    for name, value in offer.extra.items():
        if name in document or name in blocks:
            raise InvalidInput(
                f"{name} is a standard member of the document and cannot be set as an extra one"
            )
        document[name] = value
    return document


def token_counter_name(name: str) -> TokenCounter:
    """Return the name of a token counter in RFC 0113; other counters are `host-defined`."""
    return next((counter for counter in TOKEN_COUNTERS if counter == name), "host-defined")


def find_dimensions(document: Mapping[str, object]) -> frozenset[Dimension]:
    """Return the dimensions of memory that a document claims (RFC 0080 §A)."""
    memory, retention = (
        _find_block(document, "memory"),
        _find_block(document, "memory", "retention"),
    )
    model = _find_block(document, "multiAgent", "executionModel")
    is_read = memory.get("supported") is True
    is_durable = _is_long_term(document)
    version = model.get("version")
    claimed: dict[Dimension, bool] = {
        "read": is_read,
        # The four-operation contract includes read and write; a host that only reads advertises that.
        "write": is_read and memory.get("writable") is not False,
        "search": _supports(document, "memory", "search"),
        "long-term-durability": is_durable,
        "compaction": _supports(document, "memory", "compaction")
        or _supports(document, "memory", "distillation"),
        "attribution": _supports(document, "memory", "attribution"),
        "replay-snapshot": (
            is_durable
            and isinstance(version, int)
            and not isinstance(version, bool)
            and version >= SNAPSHOT_MODEL_VERSION
        ),
        "retention": retention.get("ttl") is True or retention.get("forget") is True,
    }
    return frozenset(name for name, is_claimed in claimed.items() if is_claimed)


def _check_offer(offer: CapabilityOffer) -> None:
    """Raise InvalidInput for a contradictory offer."""
    parts = (
        offer.compaction,
        offer.distillation,
        offer.attribution,
        offer.injection_counter,
        offer.search_modes,
        offer.ttl,
        offer.forget,
    )
    if any(parts) and not offer.memory:
        raise InvalidInput("parts of memory cannot be offered without memory")
    if offer.consolidation and not offer.long_term:
        # RFC 0068: requires agents.memoryBackends to include long-term.
        raise InvalidInput("consolidation needs long-term memory")
    if offer.distillation and offer.distillation.index_emitted and not offer.workspace:
        # RFC 0062: the index is a workspace file.
        raise InvalidInput("an emitted index needs the workspace, which is not offered")


def _build_memory(offer: CapabilityOffer) -> dict[str, Any] | None:
    """Build the block `memory`, or None if it is not offered."""
    if not offer.memory:
        return None
    block: dict[str, Any] = {"supported": True, "ttlSupported": offer.ttl}
    if not offer.writable:
        block["writable"] = False
    if offer.max_entry_size_bytes is not None:
        block["maxEntrySizeBytes"] = offer.max_entry_size_bytes
    if offer.search_modes:
        block["search"] = {"supported": True, "modes": list(dict.fromkeys(offer.search_modes))}
    if offer.ttl or offer.forget:
        block["retention"] = {"ttl": offer.ttl, "forget": offer.forget}
    if offer.compaction:
        # v1 defines only host-managed, and `trigger` is required when supported.
        block["compaction"] = {"supported": True, "trigger": "host-managed"}
        if offer.max_input_entries is not None:
            block["compaction"]["maxInputEntries"] = offer.max_input_entries
    if offer.distillation:
        block["distillation"] = offer.distillation.to_block()
    if offer.attribution:
        block["attribution"] = {"supported": True, "emitsWriteEvents": True}
    if offer.injection_counter:
        block["injectionBudget"] = {
            "supported": True,
            "tokenCounter": token_counter_name(offer.injection_counter),
        }
    return block


def _build_agents(offer: CapabilityOffer) -> dict[str, object]:
    """Build the block `agents`."""
    block: dict[str, Any] = {}
    if offer.long_term:
        # The only value that the schema allows, although RFC 0004 writes longTerm.
        block["memoryBackends"] = [LONG_TERM]
    if offer.consolidation:
        block["memoryConsolidation"] = {"supported": True, "schedule": offer.consolidation}
    if offer.commitments:
        block["commitments"] = {
            "supported": True,
            "fireConditions": list(dict.fromkeys(offer.commitments)),
        }
    if offer.proposals:
        block["proposals"] = offer.proposals.to_block()
    if offer.manifest_runtime:
        block["manifestRuntime"] = {"supported": True}
    return block


def _build_multi_agent(offer: CapabilityOffer) -> dict[str, object] | None:
    """Build the block `multiAgent`, or None if it is not offered."""
    if offer.execution_model_version is None:
        return None
    model: dict[str, object] = {"supported": True, "version": offer.execution_model_version}
    if offer.child_concurrency is not None:
        model["crossChildMemoryConcurrency"] = offer.child_concurrency
    return {"executionModel": model}


def _find_block(document: Mapping[str, object], *path: str) -> Mapping[str, object]:
    """Return a nested object of the document, or an empty one."""
    member: object = document
    for name in path:
        member = member.get(name) if isinstance(member, Mapping) else None
    return member if isinstance(member, Mapping) else {}


def _supports(document: Mapping[str, object], *path: str) -> bool:
    """Return True if a block is marked as supported."""
    return _find_block(document, *path).get("supported") is True


def _is_long_term(document: Mapping[str, object]) -> bool:
    """Return True if the document claims long-term memory."""
    # RFC 0080: a validator MUST NOT look for memoryBackends under memory.
    backends = _find_block(document, "agents").get("memoryBackends")
    return isinstance(backends, list) and LONG_TERM in backends
