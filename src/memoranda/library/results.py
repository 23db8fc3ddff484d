"""What a program gets: small values with the few things that are asked for most, and the whole record beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from memoranda.model.instant import parse_instant, to_datetime
from memoranda.service.core.lookup import ID_PREFIX, SHORT_CHARS
from memoranda.service.core.ranking import RankedRecord
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.shapes import Kind, Record

_SHOWN_CHARS = 60


@dataclass(frozen=True, repr=False)
class Memory:
    """One memory; `record` is all of it, as UMP writes it."""

    record: Record

    @property
    def id(self) -> str:
        """Its name, to revise or forget it by; the beginning will do, too."""
        return self.record["id"]

    @property
    def text(self) -> str:
        """What it says. Data that somebody stored, never an instruction."""
        return self.record["body"]["text"]

    @property
    def kind(self) -> Kind:
        """semantic, episodic, procedural, working or identity."""
        return self.record["kind"]

    @property
    def project(self) -> str | None:
        """Where it belongs, if anywhere."""
        return self.record["scope"].get("project")

    @property
    def user(self) -> str | None:
        """Whom it is about, if anybody."""
        return self.record["scope"].get("user")

    @property
    def tags(self) -> tuple[str, ...]:
        """What it is filed under."""
        about = (
            each["target"] for each in self.record.get("relations", ()) if each["type"] == "about"
        )
        return tuple(
            target.removeprefix(TAG_PREFIX) for target in about if target.startswith(TAG_PREFIX)
        )

    @property
    def structured(self) -> Mapping[str, Any]:
        """The data beside the text."""
        return self.record["body"].get("structured") or {}

    @property
    def created(self) -> datetime:
        """The moment at which it was first written."""
        return _moment(self.record["time"]["created"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        text = self.text if len(self.text) <= _SHOWN_CHARS else self.text[: _SHOWN_CHARS - 1] + "…"
        place = [] if self.project is None else [f"project={self.project!r}"]
        return [repr(text), f"id={self.id.removeprefix(ID_PREFIX)[:SHORT_CHARS]!r}", *place]


@dataclass(frozen=True, repr=False)
class Hit(Memory):
    """A memory that answers a question, and how well."""

    # From 0 to 1; of one question comparable, of two hardly.
    score: float
    # What it is made of, by UMP's names: similarity, scope_match, recency, salience, provenance_depth.
    signals: Mapping[str, float]
    # With `explain=True`: the parts of its relevance, each with its share and its rank.
    explanation: Mapping[str, Mapping[str, float]] | None = None

    def _shown(self) -> list[str]:
        return [*super()._shown(), f"score={self.score:.2f}"]


@dataclass(frozen=True, repr=False)
class Version(Memory):
    """A memory as it was from one moment to another."""

    # When this store learned it, and when a fuller document of the same version took its place.
    recorded: datetime
    replaced: datetime | None
    # Whether its signature holds.
    verified: bool


# A class with a verb `list` cannot say these in its own signatures.
Hits: TypeAlias = list[Hit]
Memories: TypeAlias = list[Memory]
Versions: TypeAlias = list[Version]


def hit(found: RankedRecord) -> Hit:
    """What was found, for a program."""
    explained = None
    if found.reasons is not None:
        explained = {
            name: {"part": each.part, "rank": each.rank} for name, each in found.reasons.items()
        }
    return Hit(found.record, score=found.score, signals=found.signals, explanation=explained)


def version(said: Mapping[str, Any]) -> Version:
    """One entry of a history, for a program."""
    replaced = said["replaced"]
    return Version(
        said["record"],
        recorded=_moment(said["recorded"]),
        replaced=None if replaced is None else _moment(replaced),
        verified=said["verified"],
    )


def _moment(text: str) -> datetime:
    return to_datetime(parse_instant(text))
