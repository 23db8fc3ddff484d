"""The tools for consolidation (OAMS section 6): what many memories come to, written down and undone."""

from __future__ import annotations

from typing import Final

from memoranda.bindings.mcp.operation import Answer, operation, result
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.oams.answers import ANSWERS
from memoranda.standards.oams.requests import DreamRequest, DreamsRequest, UndoRequest

PREFIX: Final = "oams."


def _consolidate(service: Service, access: Access, asked: DreamRequest) -> Answer:
    return service.oams.dream(access, asked).document()


def _dreams(service: Service, access: Access, _: DreamsRequest) -> Answer:
    return {"runs": service.oams.dream_runs(access)}


def _undo(service: Service, access: Access, asked: UndoRequest) -> Answer:
    return service.oams.undo(access, asked.run_id).document()


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
