"""The tools for consolidation (OAMS section 6): what many memories come to, written down and undone."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.mcp.operation import RowCall, operation, result
from memoranda.bindings.operations.oams import OPERATIONS as ROWS
from memoranda.bindings.operations.row import row_named
from memoranda.standards.oams.answers import ANSWERS
from memoranda.standards.oams.requests import DreamRequest, DreamsRequest, UndoRequest

PREFIX: Final = "oams."
_consolidate: Final = RowCall(row_named(ROWS, "oams_consolidate"), DreamRequest)
_dreams: Final = RowCall(row_named(ROWS, "oams_dreams"), DreamsRequest)
_undo: Final = RowCall(row_named(ROWS, "oams_undo_dream"), UndoRequest)


OPERATIONS: Final = (
    operation(
        f"{PREFIX}consolidate",
        "Consolidate",
        "What the memories of a namespace come to together, without a model: contradictions (validate), what says the "
        "same (synthesize), what recurs, what follows, what is ahead. Results are memories of their own that name what "
        "they rest on; nothing else is changed. Try it with dry_run: true first, and ask the user before writing.",
        DreamRequest,
        result(ANSWERS["OamsDream"]),
        _consolidate,
        read_only_hint=False,
        destructive_hint=False,
        idempotent_hint=True,
    ),
    operation(
        f"{PREFIX}dreams",
        "Consolidations",
        "Which consolidations wrote something and were not undone, the last first.",
        DreamsRequest,
        result(ANSWERS["OamsDreams"]),
        _dreams,
        read_only_hint=True,
        idempotent_hint=True,
    ),
    operation(
        f"{PREFIX}undo_dream",
        "Undo a consolidation",
        "Take back what a consolidation wrote, and bring again what it took back. What somebody changed since is left.",
        UndoRequest,
        result(ANSWERS["OamsUndone"]),
        _undo,
        read_only_hint=False,
        destructive_hint=False,
        idempotent_hint=False,
    ),
)
