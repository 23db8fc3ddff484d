"""What consolidation found, as memories of OAMS (sections 5 and 6), and how to tell that nobody changed one since.

A result cites the strongest of its inputs, at most CITED_LIMIT of them, and says how many there were. It is never
less protected than what it rests on: it belongs to the same user, expires with the first of its inputs, and carries
their marks of personal data. A digest over all but the pass and the times tells whether a result is still what a pass
wrote, and whether two passes came to the same.
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
MARK: Final = memory.DREAM_KEY
# Enough to check a result by; a reflection over a hundred thousand memories must still be a memory of two MiB.
CITED_LIMIT: Final = 1_000
_CITED_BYTES_LIMIT: Final = 512 * 1024
_DETAIL_ITEMS_LIMIT: Final = 100
_SENSITIVE_TAGS_LIMIT: Final = 64
_SENSITIVE_TAGS: Final = ("pii:", "phi:")
_KEY_CHARS: Final = 24
_EXCERPTS_LIMIT: Final = 20
_EXCERPT_CHARS: Final = 120
# These come to one result about everything that was read: it stays one memory, with a history.
_ABOUT_ALL: Final = ("reflect", "compress")
# What kind of finding it is, where two may rest on the same inputs.
_FINDINGS: Final = ("pattern", "insight", "finding", "forecast")


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that a pass reads, and what protects it."""

    note: MemoryNote
    memory_id: int
    user: str = ""
    expires: Instant | None = None
    tags: tuple[str, ...] = ()
    is_personal: bool = False
    basis: str = ""
    is_opted_out: bool = False


def protected(
    note: MemoryNote, memory_id: int, user: str, expires: Instant | None, fields: Mapping[str, Any]
) -> Input:
    """An input from its note and what compliance reads in it."""
    basis = fields.get("processing_basis")
    # That it is personal without saying how is said by `pii` again.
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


class Maker:
    """Makes memories of what one pass found; no two of them under one key."""

    def __init__(
        self, place: Location, strategy: str, run_id: str, inputs: Mapping[str, Input]
    ) -> None:
        self.index = place
        self.strategy = strategy
        self.run_id = run_id
        self.inputs = inputs
        self._names: dict[str, int] = {}

    def key(self, made: Dream, user: str) -> str:
        """A key that a later pass gives to the same finding; call it once for each."""
        name = _identity(self.strategy, made, user)
        self._names[name] = count = self._names.get(name, 0) + 1
        return f"{KEY_PREFIX}{self.strategy}-{name}" + (f"-{count}" if count > 1 else "")

    def memory(self, made: Dream, key: str, user: str, *, found: str = "") -> Memory:
        """The memory. Raises InvalidInput for what cannot be one. `found` is the digest before it was reworded."""
        rests_on = [self.inputs[name] for name in made.inputs]
        cited = _cited(self.index.namespace, made.inputs)
        mark = {
            "kind": made.kind,
            **({"revises": made.revises} if made.revises else {}),
            **_bounded(made.detail),
        }
        if len(cited) < len(made.inputs):
            mark["inputs"] = len(made.inputs)
        mark |= {**({"user": user} if user else {}), **({"found": found} if found else {})}
        metadata: dict[str, Any] = {
            "dream_strategy": self.strategy,
            "dream_inputs": cited,
            "dream_run_id": self.run_id,
            **_protection(rests_on),
            MARK: mark,
        }
        if made.confidence is not None:
            metadata["confidence"] = round(made.confidence, 4)
        written = format_instant(Instant(max(each.note.at for each in rests_on)))
        result: Memory = {
            "key": key,
            "namespace": self.index.namespace,
            "value": made.text,
            "tags": _tags(made.tags, rests_on),
            "metadata": metadata,
            # Section 5: MUST set parent_id to the input memory key.
            "parent_id": _parent(made.inputs[0], self.index.namespace) if made.inputs else None,
            # Section 5: SHOULD preserve the source of the strongest input, or have a synthetic one.
            "source_id": made.source or synthetic_source(self.strategy, self.run_id),
            # It says nothing newer than its newest input.
            "created_at": written,
            "updated_at": written,
        }
        mark["digest"] = digest_of(result)
        return result


def _identity(strategy: str, made: Dream, user: str) -> str:
    whose = (
        hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_CHARS]
        if user
        else ""
    )
    if strategy in _ABOUT_ALL:
        return f"all-{whose}" if whose else "all"
    finding = next((str(made.detail[name]) for name in _FINDINGS if name in made.detail), "")
    about = [made.revises] if made.revises else sorted(made.inputs)
    said = "\x00".join((strategy, made.kind, finding, whose, *about)).encode(
        "utf-8", "surrogatepass"
    )
    return hashlib.sha256(said).hexdigest()[:_KEY_CHARS]


def _cited(namespace: str, names: Sequence[str]) -> list[list[str]]:
    cited: list[list[str]] = []
    size_bytes = 0
    for name in names[:CITED_LIMIT]:
        size_bytes += len(json_text.dump([namespace, name]))
        if cited and size_bytes > _CITED_BYTES_LIMIT:
            break
        cited.append([namespace, name])
    return cited


def _bounded(detail: Mapping[str, Any]) -> dict[str, Any]:
    """The figures behind a result; of a long list the beginning, and how long it was."""
    kept: dict[str, Any] = {}
    for name, value in detail.items():
        kept[name] = value
        if isinstance(value, list | tuple) and len(value) > _DETAIL_ITEMS_LIMIT:
            kept[name], kept[f"{name}_count"] = list(value[:_DETAIL_ITEMS_LIMIT]), len(value)
    return kept


def _tags(found: Iterable[str], rests_on: Iterable[Input]) -> list[str]:
    sensitive = sorted({tag for each in rests_on for tag in each.tags})[:_SENSITIVE_TAGS_LIMIT]
    tags = memory.lower_tags([*found, *sensitive, TAG])
    return [tag for tag in tags if 0 < len(tag) <= memory.MAX_TAG_CHARS]


def _protection(rests_on: Iterable[Input]) -> dict[str, Any]:
    """What the strictest of the inputs asks for."""
    inputs = list(rests_on)
    ends = min((each.expires for each in inputs if each.expires is not None), default=None)
    said: dict[str, Any] = {} if ends is None else {mapping.EXPIRES_KEY: format_instant(ends)}
    personal = [each for each in inputs if each.is_personal]
    if personal:
        said["pii"] = True
        bases = {each.basis for each in personal}
        if len(bases) == 1 and "" not in bases:
            # What was taken in for one purpose may be worked with for that; for two purposes there is no one basis.
            said["processing_basis"] = bases.pop()
    if any(each.is_opted_out for each in inputs):
        said["con:ccpa_opted_out"] = True
    return said


def _parent(key: str, namespace: str) -> str:
    # A key may look like a reference into another namespace; then it is written out.
    is_plain = mapping.parse_reference(key, namespace) == (namespace, key)
    return key if is_plain else mapping.format_reference(namespace, key)


def dated(result: Memory, previous: Memory | None) -> Memory:
    """The result with the time of its newest input; behind a previous version's, because versions come in order."""
    if previous is None:
        return result
    last = parse_instant(previous["updated_at"])
    updated = (
        result["updated_at"]
        if parse_instant(result["updated_at"]) > last
        else format_instant(Instant(last + 1))
    )
    return {**result, "created_at": previous["created_at"], "updated_at": updated}


# --- results that are there ----------------------------------------------------------------------------------


def mark_of(result: Memory) -> dict[str, Any]:
    """Why, and the figures behind it."""
    mark: dict[str, Any] = memory.metadata_of(result)[MARK]
    return mark


def user_of(result: Memory) -> str:
    """Whose memories it rests on; empty unless they are of a user."""
    user = mark_of(result).get("user")
    return user if isinstance(user, str) else ""


def cited_keys(result: Memory) -> list[str]:
    """The keys of the inputs that it cites, the strongest first."""
    pairs = (memory.parse_pair(item) for item in memory.metadata_of(result).get("dream_inputs", ()))
    return [pair[1] for pair in pairs if pair is not None]


def excerpts(result: Memory, inputs: Mapping[str, Input]) -> tuple[tuple[str, str], ...]:
    """Key and beginning of the first inputs."""
    keys = [key for key in cited_keys(result) if key in inputs][:_EXCERPTS_LIMIT]
    return tuple((key, shorten(to_one_line(inputs[key].note.text), _EXCERPT_CHARS)) for key in keys)
