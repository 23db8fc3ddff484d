"""The review page: an inbox of what a scan found, proposals of agents, and checks on request.

Nothing on this page changes a memory by itself. A suggestion was computed by a consolidation that wrote nothing;
accepting it runs the same strategy again for its key alone, so the notes are used as they are then. Every accepted run
can be undone in one step.

A finding can be settled, or dismissed until one of its memories changes. Findings that need all memories to be read are
searched only when the person asks, a page at a time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlencode

from memoranda.bindings.console.details import parse_day
from memoranda.bindings.console.inbox import KINDS, list_undecided
from memoranda.bindings.console.memories import REASON
from memoranda.bindings.console.visit import (
    ROOT,
    Answer,
    Redirect,
    TemplatePage,
    Visit,
    undoable,
)
from memoranda.encoding.json_text import parse
from memoranda.errors import Conflict, InvalidInput
from memoranda.model.instant import parse_instant
from memoranda.service.consolidation.dreams import DreamRun, Output
from memoranda.service.core.lookup import ID_PREFIX
from memoranda.service.ump.findings import dismiss_finding
from memoranda.standards.oams.memory import STRATEGIES
from memoranda.standards.openwop.proposals import Revision

# Suggestions on the page, and earlier runs that can be undone.
_SUGGESTIONS: Final = 50
_RUNS: Final = 10
# The kinds of checks, contradictions first.
ORDERED_STRATEGIES: Final = ("validate", *(name for name in STRATEGIES if name != "validate"))


def show_review(visit: Visit) -> Answer:
    """Show everything that waits for a decision. Checks that read all memories run only on request."""
    service, access = visit.service, visit.access
    project, strategy = visit.query_value("project"), visit.query_value("strategy")
    outputs = _run(visit, project, strategy, is_dry=True).outputs if strategy else ()
    suggested = [output for output in outputs if output.result in ("created", "updated")]
    after = visit.parse_number(visit.query_value("after"))
    secrets = orders = None
    # These searches return a page at a time, because a full search of a large memory takes long.
    if visit.query_value("secrets"):
        secrets = service.suspects_page(access, after=after)
    if visit.query_value("orders"):
        orders = service.orders_page(access, after=after)
    runs = service.oams.dream_runs(access)
    is_inbox = not strategy and secrets is None and orders is None
    inbox = visit.inboxes.refresh(service, access) if is_inbox else visit.inbox
    suggestions = [output.document() for output in suggested[:_SUGGESTIONS]] if strategy else None
    return TemplatePage(
        template="review.html",
        context={
            "proposals": list_undecided(service, access),
            "inbox": inbox,
            "is_inbox": is_inbox,
            "chosen": visit.query_value("item"),
            "waiting_kinds": KINDS,
            "secrets": secrets,
            "orders": orders,
            "after": after,
            "projects": service.projects(access),
            "project": project,
            "strategy": strategy,
            "strategies": ORDERED_STRATEGIES,
            "suggested": suggestions,
            "runs": [run for run in runs if run["can_be_undone"]][:_RUNS],
            "refused": sum(output.result == "refused" for output in outputs),
        },
    )


def _run(
    visit: Visit,
    project: str,
    strategy: str,
    *,
    is_dry: bool = False,
    only: Collection[str] | None = None,
) -> DreamRun:
    """Run a consolidation of a project. `only` limits it to the suggestions with these keys."""
    service, access = visit.service, visit.access
    if strategy not in STRATEGIES:
        raise InvalidInput(visit.text("wrong.no_strategy"))
    namespace = service.oams.namespace(access, project or None)
    return service.oams.consolidate(access, namespace, strategy, is_dry=is_dry, only=only)


def _back_to_suggestions(visit: Visit, notice: str) -> Answer:
    """Return the redirect to the suggestions from which the form came."""
    visit.inboxes.drop(visit.access, visit.form_value("key"))
    query = urlencode(
        {"project": visit.form_value("project"), "strategy": visit.form_value("strategy")}
    )
    return Redirect(visit.next_path(f"/review?{query}"), notice)


def accept_suggestions(visit: Visit) -> Answer:
    """Write all suggestions, or one of them, with the text that the person entered."""
    key, text = visit.form_value("key"), visit.form_value("text").replace("\r\n", "\n").strip()
    run = _run(
        visit,
        visit.form_value("project"),
        visit.form_value("strategy"),
        only=[key] if key else None,
    )
    if text:
        for output in run.outputs:
            _reword(visit, output, text)
    notice = visit.text("said.accepted") if key else visit.text("said.written", n=run.written_count)
    return _back_to_suggestions(visit, notice)


def _reword(visit: Visit, output: Output, text: str) -> None:
    """Replace the text of a written suggestion. Later consolidation runs leave a changed memory alone."""
    if output.memory["value"] != text:
        times = ("created_at", "updated_at")
        fields = {name: value for name, value in output.memory.items() if name not in times}
        visit.service.oams.store(visit.access, {**fields, "value": text})


def undo_run(visit: Visit) -> Answer:
    """Undo a consolidation run."""
    undone = visit.service.oams.undo(visit.access, visit.form_value("run"))
    return Redirect(f"{ROOT}/review", visit.text("said.run_undone", n=len(undone.taken_back)))


def refuse_suggestion(visit: Visit) -> Answer:
    """Refuse a suggestion, so that it is not made again with the same text."""
    service, access = visit.service, visit.access
    namespace = service.oams.namespace(access, visit.form_value("project") or None)
    service.oams.refuse(access, namespace, visit.form_value("strategy"), [visit.form_value("key")])
    return _back_to_suggestions(visit, visit.text("said.refused"))


def keep_one_statement(visit: Visit) -> Answer:
    """Keep one of several contradicting memories, and forget the others.

    Raises Conflict if none of the others could be forgotten.
    """
    service, access = visit.service, visit.access
    namespace = service.oams.namespace(access, visit.form_value("project") or None)
    right = visit.form_value("right")
    wrong = visit.form_values("wrong") or [
        key for key in visit.form_values("input") if right and key != right
    ]
    names = [key for key in wrong if key.startswith(ID_PREFIX)]
    if names:
        result = service.forget_many(access, names, reason=REASON)
        if result.errors and not result.forgotten:
            raise Conflict(result.errors[0])
    for key in wrong:
        if key not in names:
            service.oams.forget(access, namespace, key)
    return _back_to_suggestions(visit, undoable(visit.text("said.kept_right")))


def keep_one_duplicate(visit: Visit) -> Answer:
    """Keep one of several memories that say the same, and forget the others in one action.

    Raises InvalidInput without a choice, and Conflict if none of the others could be forgotten.
    """
    right, names = visit.form_value("right"), visit.form_values("input")
    if right not in names:
        raise InvalidInput(visit.text("wrong.no_choice"))
    duplicates = [name for name in names if name != right]
    result = visit.service.forget_many(visit.access, duplicates, reason=REASON)
    if result.errors and not result.forgotten:
        raise Conflict(result.errors[0])
    visit.inboxes.drop(visit.access, visit.form_value("key"))
    notice = visit.text("said.kept_one", n=len(result.forgotten))
    return Redirect(visit.next_path("/review"), undoable(notice))


def end_stale_fact(visit: Visit) -> Answer:
    """Set the end of validity of a memory whose day has passed."""
    service, access = visit.service, visit.access
    record: Any = service.get(access, visit.form_value("id"))
    day = parse_day(visit, visit.form_value("day"))
    # A memory cannot end before it begins.
    begins = record["time"].get("valid_from") or record["time"]["created"]
    span = {"valid_from": begins, "valid_to": max(day, begins, key=parse_instant)}
    service.change(access, record["id"], patch={"time": span})
    visit.inboxes.drop(access, visit.form_value("key"))
    return Redirect(visit.next_path("/review"), undoable(visit.text("said.ended")))


def dismiss(visit: Visit) -> Answer:
    """Let a finding not be reported again until one of its memories changes."""
    key = visit.form_value("key")
    if key.partition(":")[0] not in KINDS:
        raise InvalidInput(visit.text("wrong.no_choice"))
    dismiss_finding(visit.service.context, visit.access, key)
    visit.inboxes.drop(visit.access, key)
    return Redirect(visit.next_path("/review"), visit.text("said.allowed"))


def redact_secret(visit: Visit) -> Answer:
    """Remove a likely secret from a memory for good."""
    visit.service.redact(visit.access, visit.form_value("id"))
    visit.inboxes.drop(visit.access, visit.form_value("id"))
    return Redirect(visit.next_path(_search_path(visit, "secrets")), visit.text("said.taken_out"))


def allow_memory(visit: Visit) -> Answer:
    """Keep a memory that looked like prompt injection, and do not report it again."""
    visit.service.allow_orders(visit.access, visit.form_value("id"))
    visit.inboxes.drop(visit.access, visit.form_value("id"))
    return Redirect(visit.next_path(_search_path(visit, "orders")), visit.text("said.allowed"))


def _search_path(visit: Visit, search: str) -> str:
    """Return the path of the search results from which the form came, without the root."""
    after = visit.parse_number(visit.form_value("after"))
    return f"/review?{search}=yes" + (f"&after={after}" if after else "")


def reject_proposal(visit: Visit) -> Answer:
    """Reject a proposal of an agent."""
    visit.service.openwop.reject_proposal(
        visit.access, visit.names["id"], reason=visit.form_value("reason")
    )
    return Redirect(f"{ROOT}/review", visit.text("said.refused"))


def revise_proposal(visit: Visit) -> Answer:
    """Change the artifact of a proposal, or the text of a candidate; it still waits for a decision."""
    try:
        if text := visit.form_value("text"):
            artifact: Any = {"text": text.replace("\r\n", "\n").strip()}
        else:
            artifact = parse(visit.form_value("artifact").encode())
        revision = Revision.parse({"artifact": artifact})
    except ValueError:
        raise InvalidInput(visit.text("wrong.no_json")) from None
    visit.service.openwop.revise_proposal(visit.access, visit.names["id"], revision)
    return Redirect(f"{ROOT}/review", visit.text("said.changed"))


def approve_proposal(visit: Visit) -> Answer:
    """Apply a proposal of an agent, or accept a candidate, with the person's right to activate."""
    visit.service.openwop.apply_proposal(visit.access, visit.names["id"])
    return Redirect(f"{ROOT}/review", visit.text("said.accepted"))
