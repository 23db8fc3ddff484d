"""Results of consolidation runs as memories of OAMS (sections 5 and 6).

A result cites the strongest of its inputs, at most CITED_LIMIT of them, and states how many there were. It is never
less protected than its inputs: it belongs to the same user, expires with the first of them, and carries their flags of
personal data.

The details of a result are stored in its metadata under DETAILS_KEY. Among them is a digest of everything except the
run and the times. It tells whether somebody edited a stored result, and whether two runs gave the same result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from memoranda.consolidation.strategies.dream import Dream
from memoranda.consolidation.text.note import MemoryNote, shorten, to_one_line
from memoranda.encoding import json_text
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.service.core import compliance
from memoranda.service.oams.views import Location
from memoranda.standards.oams import mapping, memory
from memoranda.standards.oams.consolidated import digest_of, synthetic_source
from memoranda.standards.oams.memory import Memory

KEY_PREFIX: Final = "dream-"
TAG: Final = "dream"
DETAILS_KEY: Final = memory.DREAM_KEY
# Inputs that a result cites: enough to check it, while the result of 100,000 inputs still fits into a memory of 2 MiB.
CITED_LIMIT: Final = 1_000
# Bytes of the citations as JSON, for the same reason.
_CITED_BYTES_LIMIT: Final = 512 * 1024
# Items of a list in the details.
_DETAIL_ITEMS_LIMIT: Final = 100
# Tags of personal data that a result takes over from its inputs.
_SENSITIVE_TAGS_LIMIT: Final = 64
_SENSITIVE_TAGS: Final = ("pii:", "phi:")
# Characters of a hash in a key.
_KEY_CHARS: Final = 24
# Inputs that an output shows, and characters of each.
_EXCERPTS_LIMIT: Final = 20
_EXCERPT_CHARS: Final = 120
# Strategies with one result about all inputs of a user: it stays one memory, with a history.
_SUMMARY_STRATEGIES: Final = ("reflect", "compress")
# Details that tell two results with the same inputs apart.
_FINDING_DETAILS: Final = ("pattern", "insight", "finding", "forecast")


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that a run reads, and its protection."""

    note: MemoryNote
    memory_id: int
    user: str = ""
    expires: Instant | None = None
    tags: tuple[str, ...] = ()
    is_personal: bool = False
    basis: str = ""
    is_opted_out: bool = False


def build_input(
    note: MemoryNote, memory_id: int, user: str, expires: Instant | None, fields: Mapping[str, Any]
) -> Input:
    """Return an input with the protection that the compliance fields of its memory state."""
    basis = fields.get("processing_basis")
    # `pii:declared` names no kind of personal data; `is_personal` has the same meaning.
    tags = [
        tag
        for tag in fields.get("structural_tags", ())
        if isinstance(tag, str) and tag != "pii:declared"
    ]
    return Input(
        note=note,
        memory_id=memory_id,
        user=user,
        expires=expires,
        tags=tuple(tag.lower() for tag in tags if tag.startswith(_SENSITIVE_TAGS)),
        is_personal=bool(user) or compliance.is_personal(fields),
        basis=basis if isinstance(basis, str) else "",
        is_opted_out=fields.get("con:ccpa_opted_out") is True,
    )


class ResultBuilder:
    """Builder of the memories of one run, each under a key of its own."""

    def __init__(
        self, location: Location, strategy: str, run_id: str, inputs: Mapping[str, Input]
    ) -> None:
        self.namespace = location.namespace
        self.strategy = strategy
        self.run_id = run_id
        self.inputs = inputs
        self._key_counts: dict[str, int] = {}

    def make_key(self, dream: Dream, user: str) -> str:
        """Return a key that a later run gives to the same result. Call it once per result: a second gets a number."""
        name = _identify(self.strategy, dream, user)
        self._key_counts[name] = count = self._key_counts.get(name, 0) + 1
        return f"{KEY_PREFIX}{self.strategy}-{name}" + (f"-{count}" if count > 1 else "")

    def build_memory(self, dream: Dream, key: str, user: str, *, plain_digest: str = "") -> Memory:
        """Return a result as a memory. `plain_digest` is the digest of the result before it was reworded."""
        inputs = [self.inputs[name] for name in dream.inputs]
        citations = _cite(self.namespace, dream.inputs)
        details: dict[str, object] = {"kind": dream.kind}
        if dream.revises:
            details["revises"] = dream.revises
        details |= _shorten_lists(dream.detail)
        if len(citations) < len(dream.inputs):
            details["inputs"] = len(dream.inputs)
        if user:
            details["user"] = user
        if plain_digest:
            details["found"] = plain_digest
        metadata: dict[str, Any] = {
            "dream_strategy": self.strategy,
            "dream_inputs": citations,
            "dream_run_id": self.run_id,
            **_combine_protection(inputs),
            DETAILS_KEY: details,
        }
        if dream.confidence is not None:
            metadata["confidence"] = round(dream.confidence, 4)
        # A result is as old as its newest input.
        newest = format_instant(Instant(max(item.note.at for item in inputs)))
        result: Memory = {
            "key": key,
            "namespace": self.namespace,
            "value": dream.text,
            "tags": _build_tags(dream.tags, inputs),
            "metadata": metadata,
            # Section 5: MUST set parent_id to the input memory key.
            "parent_id": _format_parent(dream.inputs[0], self.namespace) if dream.inputs else None,
            # Section 5: SHOULD preserve the source of the strongest input, or have a synthetic one.
            "source_id": dream.source or synthetic_source(self.strategy, self.run_id),
            "created_at": newest,
            "updated_at": newest,
        }
        details["digest"] = digest_of(result)
        return result


def _identify(strategy: str, dream: Dream, user: str) -> str:
    """Return the part of a key that identifies a result by its strategy, user, kind and inputs."""
    user_hash = ""
    if user:
        user_hash = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARS]
    if strategy in _SUMMARY_STRATEGIES:
        return f"all-{user_hash}" if user_hash else "all"
    findings = (str(dream.detail[name]) for name in _FINDING_DETAILS if name in dream.detail)
    subjects = [dream.revises] if dream.revises else sorted(dream.inputs)
    identity = "\x00".join((strategy, dream.kind, next(findings, ""), user_hash, *subjects))
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARS]


def _cite(namespace: str, names: Sequence[str]) -> list[list[str]]:
    """Return the citations of the first inputs, as pairs of namespace and key, up to both limits."""
    citations: list[list[str]] = []
    size_bytes = 0
    for name in names[:CITED_LIMIT]:
        size_bytes += len(json_text.dump([namespace, name]))
        if citations and size_bytes > _CITED_BYTES_LIMIT:
            break
        citations.append([namespace, name])
    return citations


def _shorten_lists(detail: Mapping[str, object]) -> dict[str, object]:
    """Return details with the first items of each long list, and its length under NAME_count."""
    shortened: dict[str, object] = {}
    for name, value in detail.items():
        shortened[name] = value
        if isinstance(value, list | tuple) and len(value) > _DETAIL_ITEMS_LIMIT:
            shortened[name] = list(value[:_DETAIL_ITEMS_LIMIT])
            shortened[f"{name}_count"] = len(value)
    return shortened


def _build_tags(result_tags: Iterable[str], inputs: Iterable[Input]) -> list[str]:
    """Return the tags of a result: its own, those of personal data of its inputs, and `dream`."""
    sensitive = sorted({tag for item in inputs for tag in item.tags})[:_SENSITIVE_TAGS_LIMIT]
    tags = memory.lower_tags([*result_tags, *sensitive, TAG])
    return [tag for tag in tags if 0 < len(tag) <= memory.MAX_TAG_CHARS]


def _combine_protection(inputs: Sequence[Input]) -> dict[str, object]:
    """Return the metadata that protects a result as strictly as the strictest of its inputs."""
    metadata: dict[str, Any] = {}
    ends = min((item.expires for item in inputs if item.expires is not None), default=None)
    if ends is not None:
        metadata[mapping.EXPIRES_KEY] = format_instant(ends)
    bases = {item.basis for item in inputs if item.is_personal}
    if bases:
        metadata["pii"] = True
        if len(bases) == 1 and "" not in bases:
            # A result of memories with two purposes has no one legal basis.
            metadata["processing_basis"] = bases.pop()
    if any(item.is_opted_out for item in inputs):
        metadata["con:ccpa_opted_out"] = True
    return metadata


def _format_parent(key: str, namespace: str) -> str:
    """Return a key as a parent id; in full if it looks like a reference into another namespace."""
    is_plain = mapping.parse_reference(key, namespace) == (namespace, key)
    return key if is_plain else mapping.format_reference(namespace, key)


def date_after(result: Memory, previous: Memory | None) -> Memory:
    """Return a result dated after the previous version under its key, because versions are ordered by time."""
    if previous is None:
        return result
    previous_update = parse_instant(previous["updated_at"])
    updated = result["updated_at"]
    if parse_instant(updated) <= previous_update:
        updated = format_instant(Instant(previous_update + 1))
    return {**result, "created_at": previous["created_at"], "updated_at": updated}


# --- reading stored results ----------------------------------------------------------------------------------


def details_of(result: Memory) -> dict[str, Any]:
    """Return the details of a result: its kind, the figures behind it, and its digest."""
    details: dict[str, object] = memory.metadata_of(result)[DETAILS_KEY]
    return details


def user_of(result: Memory) -> str:
    """Return the user whose memories a result rests on; empty if it rests on memories of no user."""
    user = details_of(result).get("user")
    return user if isinstance(user, str) else ""


def cited_keys(result: Memory) -> list[str]:
    """Return the keys of the inputs that a result cites, the strongest first."""
    pairs = (memory.parse_pair(item) for item in memory.metadata_of(result).get("dream_inputs", ()))
    return [pair[1] for pair in pairs if pair is not None]


def excerpts(result: Memory, inputs: Mapping[str, Input]) -> tuple[tuple[str, str], ...]:
    """Return the keys and the first characters of the strongest inputs."""
    keys = [key for key in cited_keys(result) if key in inputs][:_EXCERPTS_LIMIT]
    return tuple((key, shorten(to_one_line(inputs[key].note.text), _EXCERPT_CHARS)) for key in keys)
