"""The page that shows what an agent receives: the framed block, its size, and what was left out and why.

For a prompt, agents get the block from the same verb over MCP and HTTP. When a session starts, the hooks of some hosts
give it to them, chosen by the same functions (service/ump/session_start.py). A memory that is switched off or on
changes only this page.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec
from markupsafe import Markup

from memoranda.bindings.console.looks import explain_result, matched_words
from memoranda.bindings.console.visit import Answer, TemplatePage, Visit
from memoranda.retrieval.analysis import query_terms
from memoranda.service.core.ranking import RankedRecord
from memoranda.service.ump.session_start import (
    CANDIDATES,
    GENERAL_KINDS,
    MEMORY_CHARS,
    SESSION_TAG,
    SESSIONS,
    SessionCandidate,
    choose_for_session,
    context_text,
)
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
# The value of the field `when` for the start of a session.
_START: Final = "start"
# The hosts whose hooks give an agent the text, by the moment at which they do. Others have no hook for it.
HOOKED_HOSTS: Final[Mapping[str, tuple[str, ...]]] = {
    "session-start": ("Claude Code", "Codex CLI"),
    "prompt": ("Gemini CLI",),
}


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
    """Show what an agent would receive for the prompt in the URL, or when a session starts."""
    question = visit.query_value("q")[: _query_chars()]
    project, budget = visit.query_value("project"), _parse_budget(visit)
    is_start = visit.query_value("when") == _START
    load = partial(_start, visit, project)
    if not is_start:
        load = partial(_try, visit, question, project, budget)
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
            "load_tryout": load,
            "is_start": is_start,
            "hooked_hosts": HOOKED_HOSTS,
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
    is_chosen = visit.query_value("asked") == question
    names = _switched(visit, candidates, list(block.injected), is_chosen=is_chosen)
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


def _switched(
    visit: Visit, candidates: Iterable[str], names: list[str], *, is_chosen: bool
) -> list[str]:
    """Return the memories that are switched on; at first those of the text. `is_chosen`: the page has switches."""
    if not is_chosen:
        return names
    switches = {*visit.query.get("keep", ()), *visit.query.get("on", ())}
    return [name for name in candidates if name in switches]


def _start(visit: Visit, project: str) -> Tryout:
    """Return what an agent would receive when a session starts in a project, with the switches of the page."""
    service, access = visit.service, visit.access
    of_project: list[Record] = []
    sessions: list[Record] = []
    if project:
        of_project = service.list_records(access, project=project, limit=CANDIDATES)[0]
        tags = (SESSION_TAG,)
        sessions = service.list_records(access, project=project, tags=tags, limit=SESSIONS)[0]
    general = service.list_records(access, kinds=GENERAL_KINDS, limit=CANDIDATES)[0]
    candidates = {
        candidate.record["id"]: candidate
        for candidate in choose_for_session(of_project, sessions, general)
    }
    suggested = [name for name, candidate in candidates.items() if not candidate.objection]
    # The switches of another project do not count.
    is_chosen = visit.query_value("asked") == f"{_START} {project}"
    names = _switched(visit, candidates, suggested, is_chosen=is_chosen)
    records = [candidates[name].record for name in names]
    block = service.framed(access, records, max_chars=MEMORY_CHARS).text if records else ""
    text = context_text(block, project or None)
    included = [_describe_start(visit, candidates[name], suggested, is_on=True) for name in names]
    left_out = [
        _describe_start(visit, candidate, suggested, is_on=False)
        for name, candidate in candidates.items()
        if name not in names
    ]
    return Tryout(
        text=text,
        tokens=count_tokens(text),
        budget=0,
        included=included,
        left_out=left_out[:_LEFT_OUT],
    )


def _describe_start(
    visit: Visit, candidate: SessionCandidate, suggested: Container[str], *, is_on: bool
) -> Choice:
    """Return a memory of the text for the start of a session, or one left out, with the reason."""
    record = candidate.record
    if is_on:
        name = "of_project" if record["scope"].get("project") else "of_you"
        if candidate.objection:
            name = "switched_on"
    else:
        name = "switched_off" if record["id"] in suggested else f"start_{candidate.objection}"
    return Choice(
        record=record,
        tokens=count_tokens(str(record["body"]["text"])[:MEMORY_CHARS]),
        why=visit.text(f"try.{name}"),
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
