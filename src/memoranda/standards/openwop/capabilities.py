"""`GET /.well-known/openwop`: what this host claims, all at the root of the document (RFC 0073).

Advertising is a claim that must be honoured end to end, so the document is built from what is really on. The eight
dimensions of memory (RFC 0080 §A) are not claimed beside it but computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from memoranda.errors import InvalidInput
from memoranda.model.instant import parse_duration_ms

Discovery = dict[str, Any]
# How deliveries are signed: HMAC-SHA256 (webhooks.md, signature recipe).
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
# From this version of the execution model on, forks serve memory as of their place in the log (MAE-3).
SNAPSHOT_MODEL_VERSION: Final = 2
_ROUNDS: Final = ("clarificationRounds", "schemaRounds", "envelopesPerTurn")


class Distillation(msgspec.Struct, frozen=True, kw_only=True):
    """`memory.distillation`. `tokenizer` names the counter that is really used."""

    max_token_budget: int
    tokenizer: str
    archive_retention: str
    scheduled: bool = False
    index_emitted: bool = False

    def block(self) -> dict[str, Any]:
        """As it stands in the document."""
        try:
            is_duration = parse_duration_ms(self.archive_retention) > 0
        except ValueError:
            is_duration = False
        if not is_duration or self.max_token_budget < 1:
            raise InvalidInput("a distillation needs a budget of at least 1 and an archive retention such as P365D")
        return {
            "supported": True,
            "maxTokenBudget": self.max_token_budget,
            "scheduled": self.scheduled,
            "indexEmitted": self.index_emitted,
            "tokenizerName": self.tokenizer,
            "archiveRetention": self.archive_retention,
        }


class Proposals(msgspec.Struct, frozen=True, kw_only=True):
    """`agents.proposals`: which kinds may be proposed, and how one is activated."""

    kinds: tuple[str, ...]
    activation: Activation
    detects_duplicates: bool = False

    def block(self) -> dict[str, Any]:
        """As it stands in the document."""
        return {
            "artifactKinds": list(self.kinds),
            "activation": self.activation,
            "duplicationDetection": self.detects_duplicates,
        }


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """`workspace`: versioned files, and how large and how many."""

    max_file_bytes: int
    max_files: int
    max_versions: int

    def block(self) -> dict[str, Any]:
        """As it stands in the document."""
        return {
            "supported": True,
            "versioned": self.max_versions > 1,
            "maxFileBytes": self.max_file_bytes,
            "maxFiles": self.max_files,
            "maxVersions": self.max_versions,
        }


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What is really on. Everything is off unless it is said here."""

    memory: bool = False
    writable: bool = True
    max_entry_size_bytes: int | None = None
    ttl: bool = False
    forget: bool = False
    search_modes: tuple[Literal["semantic", "filter"], ...] = ()
    compaction: bool = False
    max_input_entries: int | None = None
    distillation: Distillation | None = None
    attribution: bool = False
    # The counter in which `tokenBudget` of list is denominated (RFC 0113).
    injection_counter: str | None = None
    long_term: bool = False
    consolidation: Schedule | None = None
    commitments: tuple[Literal["time", "predicate"], ...] = ()
    proposals: Proposals | None = None
    manifest_runtime: bool = False
    execution_model_version: int | None = None
    workspace: Workspace | None = None
    replay_modes: tuple[Literal["replay", "branch"], ...] = ()
    webhooks: bool = False
    fixtures: tuple[str, ...] = ()
    max_request_bytes: int | None = None
    # Further root members, such as the implementation's name; none of the above may be among them.
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


def discovery(offer: Offer) -> Discovery:
    """The document. Raises InvalidInput for an offer that contradicts itself."""
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
        "memory": _memory(offer),
        "agents": _agents(offer),
        "multiAgent": _multi_agent(offer),
        "workspace": offer.workspace.block() if offer.workspace else None,
        "replay": {"supported": True, "modes": list(offer.replay_modes)} if offer.replay_modes else None,
        "webhooks": {"supported": True, "signatureAlgorithms": [SIGNATURE_ALGORITHM]} if offer.webhooks else None,
    }
    # A block that is not there is a claim that is not made.
    document.update((name, block) for name, block in blocks.items() if block)
    for name, value in offer.extra.items():
        if name in document or name in blocks:
            raise InvalidInput(f"{name} has its own place in the document")
        document[name] = value
    return document


def token_counter(name: str) -> TokenCounter:
    """The unit of a budget as RFC 0113 calls it: a tokenizer by its name, whatever else a host counts by as its own."""
    return next((each for each in TOKEN_COUNTERS if each == name), "host-defined")


def dimensions(document: Mapping[str, Any]) -> frozenset[Dimension]:
    """The dimensions of memory that a document claims, from where each is advertised (RFC 0080 §A)."""
    memory, retention = _block(document, "memory"), _block(document, "memory", "retention")
    model = _block(document, "multiAgent", "executionModel")
    is_read = memory.get("supported") is True
    is_durable = _is_long_term(document)
    version = model.get("version")
    claimed: dict[Dimension, bool] = {
        "read": is_read,
        # The four-operation contract is read and write; a host that only reads says so.
        "write": is_read and memory.get("writable") is not False,
        "search": _supports(document, "memory", "search"),
        "long-term-durability": is_durable,
        "compaction": _supports(document, "memory", "compaction") or _supports(document, "memory", "distillation"),
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


def _check_offer(offer: Offer) -> None:
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
        raise InvalidInput("an index is emitted into the workspace, which is not offered")


def _memory(offer: Offer) -> dict[str, Any] | None:
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
        # v1 normates only host-managed, and `trigger` is required when supported.
        block["compaction"] = {"supported": True, "trigger": "host-managed"}
        if offer.max_input_entries is not None:
            block["compaction"]["maxInputEntries"] = offer.max_input_entries
    if offer.distillation:
        block["distillation"] = offer.distillation.block()
    if offer.attribution:
        block["attribution"] = {"supported": True, "emitsWriteEvents": True}
    if offer.injection_counter:
        block["injectionBudget"] = {"supported": True, "tokenCounter": token_counter(offer.injection_counter)}
    return block


def _agents(offer: Offer) -> dict[str, Any]:
    block: dict[str, Any] = {}
    if offer.long_term:
        # The only value that the schema allows; RFC 0004 still says longTerm.
        block["memoryBackends"] = [LONG_TERM]
    if offer.consolidation:
        block["memoryConsolidation"] = {"supported": True, "schedule": offer.consolidation}
    if offer.commitments:
        block["commitments"] = {"supported": True, "fireConditions": list(dict.fromkeys(offer.commitments))}
    if offer.proposals:
        block["proposals"] = offer.proposals.block()
    if offer.manifest_runtime:
        block["manifestRuntime"] = {"supported": True}
    return block


def _multi_agent(offer: Offer) -> dict[str, Any] | None:
    if offer.execution_model_version is None:
        return None
    return {"executionModel": {"supported": True, "version": offer.execution_model_version}}


def _block(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _supports(document: Mapping[str, Any], *path: str) -> bool:
    return _block(document, *path).get("supported") is True


def _is_long_term(document: Mapping[str, Any]) -> bool:
    # RFC 0080: a validator MUST NOT look for memoryBackends under memory.
    backends = _block(document, "agents").get("memoryBackends")
    return isinstance(backends, list) and LONG_TERM in backends
