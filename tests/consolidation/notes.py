"""Notes for tests, written shortly."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from memoranda.consolidation.strategies.dream import Dream
from memoranda.consolidation.text.note import MemoryNote
from memoranda.model.instant import DAY_MS, parse_instant

NOW = parse_instant("2026-04-01T12:00:00Z")


def at(day: str) -> int:
    return parse_instant(f"{day}T10:00:00Z")


def note(
    text: str, day: str = "2026-03-01", *, name: str | None = None, tags: Sequence[str] = (), **rest: object
) -> MemoryNote:
    """A note named after its text, unless told otherwise."""
    return MemoryNote(name or text, text, at(day), tuple(tags), **rest)  # type: ignore[arg-type]


def texts(dreams: Sequence[Dream]) -> list[str]:
    return [dream.text for dream in dreams]


_SUBJECTS = [
    "The port",
    "Billing",
    "Alice",
    "The search service",
    "PostgreSQL",
    "Port of billing",
    "Это",
    "数据库",
    "It",
]
_VERBS = ["is", "uses", "does not use", "lives in", "prefers", "requires", "is not", "will use", "has", "moved to"]
_VALUES = [
    "8080",
    "9090 in staging",
    "PostgreSQL 16",
    "Paris",
    "3 cats",
    "dark mode",
    "Redis, Kafka and Go",
    "blue",
    "50%",
]
_DAYS = ["", " on 2026-02-03", " tomorrow", " by 1 June 2026", " every Friday at 16:00"]
_ENDS = [".", "", "!", "?", "。", "\n", ".\n- "]
_STATEMENTS = st.builds(
    lambda *parts: f"{parts[0]} {parts[1]} {parts[2]}{parts[3]}{parts[4]}",
    *(st.sampled_from(words) for words in (_SUBJECTS, _VERBS, _VALUES, _DAYS, _ENDS)),
)
_READINGS = st.integers(0, 100).map(lambda number: f"Disk usage of alpha was {number}%.")
# Statements that meet one another, beside whatever people and attackers write.
TEXTS = st.one_of(
    st.lists(st.one_of(_STATEMENTS, _READINGS), min_size=1, max_size=4).map(" ".join),
    _STATEMENTS,
    st.text(max_size=60),
    st.text(alphabet="ab .!?\n-*#>`“”\"'\x00\u202e\u200b\ud800é不是。", max_size=60),
)
TAGS = st.lists(st.sampled_from(["db", "ops", "Ops", "weekly", "日本", ""]), max_size=3).map(tuple)
NOTES = st.lists(
    st.builds(
        MemoryNote,
        name=st.integers(0, 30).map(lambda number: f"me:work\x00k{number}"),
        text=TEXTS,
        at=st.one_of(st.integers(0, 60).map(lambda day: NOW - day * DAY_MS), st.integers(-(2**62), 2**62)),
        tags=TAGS,
        confidence=st.one_of(st.none(), st.floats()),
        weight=st.floats(),
        source=st.sampled_from(["", "https://a.example/x", "slack:C1"]),
    ),
    max_size=14,
)
