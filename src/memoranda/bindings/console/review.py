"""What waits for a person: proposals, and memories that look as if they held a secret."""

from __future__ import annotations

from itertools import islice

from memoranda.bindings.console.visit import ROOT, Answer, Page, Redirect, Visit

_SUSPECTS = 50


def waiting(visit: Visit) -> Answer:
    """Everything that waits."""
    proposals = visit.service.openwop.proposals(visit.access, state="pending")
    # All memories are looked through for these: only if somebody asks.
    suspects = list(islice(visit.service.suspects(visit.access), _SUSPECTS)) if visit.asked("secrets") else None
    return Page(template="review.html", told={"proposals": proposals, "suspects": suspects})


def reject(visit: Visit) -> Answer:
    visit.service.openwop.reject_proposal(visit.access, visit.names["id"], reason=visit.given("reason"))
    return Redirect(f"{ROOT}/review", "Refused.")


def approve(visit: Visit) -> Answer:
    name = visit.names["id"]
    approval = visit.service.openwop.approve_proposal(visit.access, name)
    visit.service.openwop.apply_proposal(visit.access, name, approval_id=approval)
    return Redirect(f"{ROOT}/review", "Accepted.")
