"""What waits for a person: proposals of agents, what could be concluded from memories, and what looks like a secret."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from memoranda.bindings.console.visit import ROOT, Answer, Page, Redirect, Visit
from memoranda.errors import InvalidInput
from memoranda.standards.oams.memory import STRATEGIES

_SUSPECTS: Final = 50
_SUGGESTIONS: Final = 50
# In the words of a person; contradictions first.
WORDS: Final = {
    "validate": "What contradicts itself",
    "compress": "What says the same",
    "pattern_extract": "What is always so",
    "synthesize": "What belongs together",
    "associate": "What is related",
    "evolve": "What has changed",
    "insight_generate": "What follows from it",
    "forecast": "What may come",
    "reflect": "What it is all about",
}


def waiting(visit: Visit) -> Answer:
    """Everything that waits. What takes a look at all memories is done only if somebody asks."""
    proposals = visit.service.openwop.proposals(visit.access, state="pending")
    project, strategy = visit.asked("project"), visit.asked("strategy")
    suspects = list(islice(visit.service.suspects(visit.access), _SUSPECTS)) if visit.asked("secrets") else None
    return Page(
        template="review.html",
        told={
            "proposals": proposals,
            "suspects": suspects,
            "projects": visit.service.projects(visit.access),
            "project": project,
            "strategy": strategy,
            "strategies": WORDS,
            "suggested": _suggested(visit, project, strategy) if strategy else None,
        },
    )


def _suggested(visit: Visit, project: str, strategy: str) -> list[dict[str, Any]]:
    run = _run(visit, project, strategy, is_dry=True)
    new = (each.document() for each in run.outputs if each.result in ("created", "updated"))
    return list(islice(new, _SUGGESTIONS))


def _run(visit: Visit, project: str, strategy: str, *, is_dry: bool) -> Any:
    if strategy not in STRATEGIES:
        raise InvalidInput("there is no such way to look at memories")
    namespace = visit.service.oams.namespace(visit.access, project or None)
    return visit.service.oams.consolidate(visit.access, namespace, strategy, is_dry=is_dry)


def conclude(visit: Visit) -> Answer:
    """Write what was suggested. It can be taken back as a whole."""
    run = _run(visit, visit.given("project"), visit.given("strategy"), is_dry=False)
    said = f"{run.written} written. To take them back: memoranda consolidate undo {run.run_id}"
    return Redirect(f"{ROOT}/review", said)


def reject(visit: Visit) -> Answer:
    visit.service.openwop.reject_proposal(visit.access, visit.names["id"], reason=visit.given("reason"))
    return Redirect(f"{ROOT}/review", "Refused.")


def approve(visit: Visit) -> Answer:
    name = visit.names["id"]
    approval = visit.service.openwop.approve_proposal(visit.access, name)
    visit.service.openwop.apply_proposal(visit.access, name, approval_id=approval)
    return Redirect(f"{ROOT}/review", "Accepted.")
