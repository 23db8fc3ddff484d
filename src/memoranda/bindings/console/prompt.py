"""The page that shows what an agent receives for a prompt: the framed block, its size, and what was left out and why.

Agents get the block from the same verb, over MCP and HTTP. A memory that is switched off or on changes only this page.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
from markupsafe import Markup

from memoranda.bindings.console.looks import explain_result, matched_words
from memoranda.bindings.console.visit import Answer, TemplatePage, Visit
from memoranda.retrieval.analysis import query_terms
from memoranda.service.core.ranking import RankedRecord
from memoranda.standards.ump.requests import (
    Hints,
    RecallRequest,
    RehydrateRequest,
    ScopeFilter,
)
from memoranda.standards.ump.shapes import Record

# Memories that an agent gets if it asks without a limit, as the tool `ump_recall` does.
_LIMIT: Final = 8
# Characters of one memory in the block, as in that tool.
_MEMORY_CHARS: Final = 500
# Budgets to choose from, in tokens; 0 for no budget.
BUDGETS: Final = (0, 300, 600, 1200, 2400)
# Characters of a token, on average of English text.
_TOKEN_CHARS: Final = 4
# Memories that are shown as left out.
_LEFT_OUT: Final = 12
_PROJECTS: Final = 200


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is in the block or left out of it: its size in tokens, and why it is there or not."""

    record: Record
    tokens: int
    why: Markup | str


class Tryout(msgspec.Struct, frozen=True, kw_only=True):
    """A text for an agent: the block, its size in tokens, and the memories inside and outside of it."""

    text: str
    tokens: int
    budget: int
    included: list[Choice]
    left_out: list[Choice]


def count_tokens(text: str) -> int:
    """Return the size of a text in tokens, estimated."""
    return (len(text) + _TOKEN_CHARS - 1) // _TOKEN_CHARS


def show_prompt(visit: Visit) -> Answer:
    """Show what an agent would receive for the prompt in the URL."""
    question = visit.query_value("q")[: _query_chars()]
    project, budget = visit.query_value("project"), _parse_budget(visit)
    return TemplatePage(
        template="try.html",
        is_streamed=True,
        context={
            "question": question,
            "project": project,
            "projects": visit.service.projects(visit.access)[:_PROJECTS],
            "budgets": BUDGETS,
            "budget": budget,
            # After the head of the page was sent.
            "load_tryout": partial(_try, visit, question, project, budget),
        },
    )


def _query_chars() -> int:
    from memoranda.standards.ump.requests import MAX_QUERY_BYTES

    return MAX_QUERY_BYTES // 4


def _parse_budget(visit: Visit) -> int:
    budget = visit.parse_number(visit.query_value("budget"))
    return budget if budget in BUDGETS else 0


def _try(visit: Visit, question: str, project: str, budget: int) -> Tryout:
    """Return what an agent would receive, with the memories that the person switched off and on."""
    service, access = visit.service, visit.access
    scope = ScopeFilter(project=project) if project else None
    request = RehydrateRequest(
        query=question,
        scope_filter=scope,
        requested_limit=_LIMIT,
        max_visibility="public",
        max_chars=_MEMORY_CHARS,
        budget_chars=budget * _TOKEN_CHARS or None,
        ids=True,
    )
    block = service.for_prompt(access, request)
    candidates = _recall(visit, question, scope)
    names, is_chosen = list(block.injected), visit.query_value("asked") == question
    if is_chosen:
        # The switches of the page; those of an earlier prompt do not count.
        switches = {*visit.query.get("keep", ()), *visit.query.get("on", ())}
        names = [name for name in candidates if name in switches]
    off = set(block.injected).difference(names)
    text = block.text
    if is_chosen and names != list(block.injected):
        records = [candidates[name].record for name in names]
        text = service.framed(access, records, max_chars=_MEMORY_CHARS).text if records else ""
    dropped = dict(block.dropped)
    included = [
        _choose(visit, candidates[name], question, scope) for name in names if name in candidates
    ]
    left_out = [
        Choice(
            record=result.record,
            tokens=count_tokens(str(result.record["body"]["text"])[:_MEMORY_CHARS]),
            why=_objection(visit, name, dropped, off, number),
        )
        for number, (name, result) in enumerate(candidates.items())
        if name not in names
    ]
    return Tryout(
        text=text,
        tokens=count_tokens(text),
        budget=budget,
        included=included,
        left_out=left_out[:_LEFT_OUT],
    )


def _recall(visit: Visit, question: str, scope: ScopeFilter | None) -> dict[str, RankedRecord]:
    """Return the memories that come near the prompt, best first.

    If there are few, weak matches and those of other projects follow.
    """
    candidates: dict[str, RankedRecord] = {}
    for hints, within in (
        (Hints(explain=True), scope),
        (Hints(explain=True, floor=False), scope),
        (Hints(explain=True), None),
    ):
        request = RecallRequest(
            query=question, scope_filter=within, requested_limit=2 * _LIMIT, ranking_hints=hints
        )
        for result in visit.service.recall(visit.access, request):
            candidates.setdefault(result.record["id"], result)
        if len(candidates) >= _LIMIT + _LEFT_OUT // 2:
            break
    return candidates


def _choose(visit: Visit, result: RankedRecord, question: str, scope: ScopeFilter | None) -> Choice:
    """Return a memory in the block, with the reason why it is there."""
    text = str(result.record["body"]["text"])
    conditions = {} if scope is None else scope.conditions()
    return Choice(
        record=result.record,
        tokens=count_tokens(text[:_MEMORY_CHARS]),
        why=explain_result(
            result, matched_words(text, query_terms(question)), conditions, visit.text
        ),
    )


def _objection(visit: Visit, name: str, dropped: dict[str, str], off: set[str], number: int) -> str:
    """Return why a memory is not in the block."""
    if name in off:
        return visit.text("try.switched_off")
    reason = dropped.get(name)
    if reason in ("budget", "visibility"):
        return visit.text(f"try.{reason}")
    if reason == "limit" or number >= _LIMIT:
        return visit.text("try.limit", n=_LIMIT)
    return visit.text("try.weak")
