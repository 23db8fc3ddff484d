"""A mutable RECALL while it is being parsed, and the table of clauses that exclude each other.

Clauses may come in different orders, and some of them forbid others, so the parser collects them in this object and
makes the immutable tree at the end. It has also what is needed only while parsing: the positions for errors and the
number of stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memoranda.standards.cal.fields import Field
from memoranda.standards.cal.language.syntax import (
    Between,
    Count,
    NamespaceFilter,
    Option,
    Recall,
    Stage,
    Text,
    Thread,
    WhereCondition,
)

# Section 9.8: clause → clauses that exclude it. Lower-case names are conditions on that field.
CONFLICTS: Final[Mapping[str, tuple[str, ...]]] = {
    "ABOUT": ("LIKE",),
    "LIKE": ("ABOUT", "query"),
    "query": ("LIKE", "query"),
    "SINCE": ("BETWEEN", "time"),
    "BETWEEN": ("SINCE", "time"),
    "time": ("SINCE", "BETWEEN"),
    "user_id": ("MY",),
    "RECENT": ("LIMIT", "ORDER"),
    "LIMIT": ("RECENT",),
    "ORDER": ("RECENT",),
}


class PartialRecall:
    """The clauses of a RECALL that have been parsed so far."""

    __slots__ = (
        "about", "between", "contradictions", "depth", "extractor_position", "fields", "format", "grain_type",
        "in_coalesce", "like", "my", "namespace", "options", "recent", "seen_clauses", "selected_fields", "since",
        "stage_count", "stages", "thread", "where",
    )  # fmt: skip

    def __init__(self, depth: int, *, in_coalesce: bool) -> None:
        self.depth = depth
        self.in_coalesce = in_coalesce
        self.fields: Mapping[str, Field] = {}
        # Clauses and fields parsed so far, to refuse repeated clauses and conflicts.
        self.seen_clauses: set[str] = set()
        self.stage_count = 0
        self.selected_fields: tuple[str, ...] = ()
        # Index of the token of the first SUBJECTS or OBJECTS; -1 if there is none.
        self.extractor_position = -1
        self.my = False
        self.grain_type: str | None = None
        self.namespace: NamespaceFilter | None = None
        self.about: Text | None = None
        self.like: Text | None = None
        self.since: Text | None = None
        self.between: Between | None = None
        self.thread: Thread | None = None
        self.where: tuple[WhereCondition, ...] = ()
        self.options: tuple[Option, ...] = ()
        self.stages: list[Stage] = []
        self.recent: Count | None = None
        self.contradictions = False
        self.format: str | None = None

    def to_recall(self) -> Recall:
        """Return the finished RECALL."""
        return Recall(
            my=self.my,
            grain_type=self.grain_type,
            namespace=self.namespace,
            about=self.about,
            like=self.like,
            since=self.since,
            between=self.between,
            thread=self.thread,
            where=self.where,
            options=self.options,
            stages=tuple(self.stages),
            recent=self.recent,
            contradictions=self.contradictions,
            format=self.format,
        )
