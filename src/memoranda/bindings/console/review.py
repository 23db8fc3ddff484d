"""What waits for a person: proposals of agents, what follows from memories, secrets, and orders to a model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlencode

from memoranda.bindings.console.memories import REASON
from memoranda.bindings.console.visit import ROOT, Answer, Page, Redirect, Visit
from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput
from memoranda.service.consolidation.dreams import DreamRun, Output
from memoranda.standards.oams.memory import STRATEGIES
from memoranda.standards.openwop.proposals import Revision
from memoranda.standards.ump.requests import ForgetRequest

_SUGGESTIONS: Final = 50
_RUNS: Final = 10
# Neither applied nor refused nor put away.
_OPEN: Final = ("draft", "revised")
# Contradictions first.
ORDERED: Final = ("validate", *(name for name in STRATEGIES if name != "validate"))


def waiting(visit: Visit) -> Answer:
    """Everything that waits. What takes a look at all memories is done only if somebody asks."""
    proposals = [
        each for each in visit.service.openwop.proposals(visit.access) if each["state"] in _OPEN
    ]
    project, strategy = visit.asked("project"), visit.asked("strategy")
    outputs = _run(visit, project, strategy, is_dry=True).outputs if strategy else ()
    suggested = [each for each in outputs if each.result in ("created", "updated")][:_SUGGESTIONS]
    after = visit.number(visit.asked("after"))
    return Page(
        template="review.html",
        told={
            "proposals": proposals,
            # A page at a time: whoever has a hundred thousand memories is not to wait for all of them.
            "secrets": visit.service.suspects_page(visit.access, after=after)
            if visit.asked("secrets")
            else None,
            "orders": visit.service.orders_page(visit.access, after=after)
            if visit.asked("orders")
            else None,
            "after": after,
            "projects": visit.service.projects(visit.access),
            "project": project,
            "strategy": strategy,
            "strategies": ORDERED,
            "suggested": [each.document() for each in suggested] if strategy else None,
            "runs": [
                each
                for each in visit.service.oams.dream_runs(visit.access)
                if each["can_be_undone"]
            ][:_RUNS],
            "refused": sum(each.result == "refused" for each in outputs),
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
    if strategy not in STRATEGIES:
        raise InvalidInput(visit.text("wrong.no_strategy"))
    namespace = visit.service.oams.namespace(visit.access, project or None)
    return visit.service.oams.consolidate(
        visit.access, namespace, strategy, is_dry=is_dry, only=only
    )


def _back(visit: Visit, said: str) -> Answer:
    """To the same suggestions."""
    query = urlencode({"project": visit.given("project"), "strategy": visit.given("strategy")})
    return Redirect(f"{ROOT}/review?{query}", said)


def conclude(visit: Visit) -> Answer:
    """Write what was suggested: all of it, or one, in the words of whoever accepts it."""
    key, text = visit.given("key"), visit.given("text").replace("\r\n", "\n").strip()
    run = _run(visit, visit.given("project"), visit.given("strategy"), only=[key] if key else None)
    if text:
        for each in run.outputs:
            _reword(visit, each, text)
    return _back(
        visit, visit.text("said.accepted") if key else visit.text("said.written", n=run.written)
    )


def _reword(visit: Visit, output: Output, text: str) -> None:
    """From then on it is theirs, and no pass touches it."""
    if output.memory["value"] != text:
        said = {
            name: value
            for name, value in output.memory.items()
            if name not in ("created_at", "updated_at")
        }
        visit.service.oams.store(visit.access, {**said, "value": text})


def undo(visit: Visit) -> Answer:
    """Take back what was written of what had been suggested."""
    undone = visit.service.oams.undo(visit.access, visit.given("run"))
    return Redirect(f"{ROOT}/review", visit.text("said.run_undone", n=len(undone.taken_back)))


def refuse(visit: Visit) -> Answer:
    """Do not suggest it again while it says the same."""
    namespace = visit.service.oams.namespace(visit.access, visit.given("project") or None)
    visit.service.oams.refuse(
        visit.access, namespace, visit.given("strategy"), [visit.given("key")]
    )
    return _back(visit, visit.text("said.refused"))


def keep_right(visit: Visit) -> Answer:
    """Of memories that contradict each other, forget all but one."""
    namespace = visit.service.oams.namespace(visit.access, visit.given("project") or None)
    for key in visit.chosen("wrong"):
        if key.startswith("urn:ump:"):
            visit.service.forget(visit.access, ForgetRequest(id=key, reason=REASON))
        else:
            visit.service.oams.forget(visit.access, namespace, key)
    return _back(visit, visit.text("said.kept_right"))


def take_out(visit: Visit) -> Answer:
    """Take what looks like a secret out of a memory, for good."""
    visit.service.redact(visit.access, visit.given("id"))
    return Redirect(_same_look(visit, "secrets"), visit.text("said.taken_out"))


def allow(visit: Visit) -> Answer:
    """Say that a memory may read as it does."""
    visit.service.allow_orders(visit.access, visit.given("id"))
    return Redirect(_same_look(visit, "orders"), visit.text("said.allowed"))


def _same_look(visit: Visit, what: str) -> str:
    """The page of what was found that somebody decided on."""
    after = visit.number(visit.given("after"))
    return f"{ROOT}/review?{what}=yes" + (f"&after={after}" if after else "")


def reject(visit: Visit) -> Answer:
    visit.service.openwop.reject_proposal(
        visit.access, visit.names["id"], reason=visit.given("reason")
    )
    return Redirect(f"{ROOT}/review", visit.text("said.refused"))


def revise(visit: Visit) -> Answer:
    """Change what a proposal would install; it still waits."""
    try:
        revision = Revision.parse({"artifact": parse(visit.given("artifact").encode())})
    except ValueError:
        raise InvalidInput(visit.text("wrong.no_json")) from None
    visit.service.openwop.revise_proposal(visit.access, visit.names["id"], revision)
    return Redirect(f"{ROOT}/review", visit.text("said.changed"))


def approve(visit: Visit) -> Answer:
    name = visit.names["id"]
    approval = visit.service.openwop.approve_proposal(visit.access, name)
    visit.service.openwop.apply_proposal(visit.access, name, approval_id=approval)
    return Redirect(f"{ROOT}/review", visit.text("said.accepted"))
