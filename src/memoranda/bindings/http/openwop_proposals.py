"""Proposals of openwop (reviewable learning): looked at, revised, applied or refused. Nothing but applying acts."""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from memoranda.bindings.http.call import Call
from memoranda.bindings.http.openwop import OPENWOP
from memoranda.service.service import Service
from memoranda.standards.openwop.proposals import Revision
from memoranda.standards.openwop.requests import ApplyRequest, ListProposalsRequest, ProposeRequest, RejectRequest

EXAMPLE_PROPOSAL: Final[dict[str, Any]] = {
    "kind": "automation",
    "title": "Report every Monday",
    "artifact": {"workflowId": "acme.report", "schedule": {"cron": "0 9 * * 1"}},
}


def list_proposals(service: Service, call: Call, asked: ListProposalsRequest) -> dict[str, Any]:
    return {"proposals": service.openwop.proposals(call.access, state=asked.state, kind=asked.kind)}


def propose(service: Service, call: Call, asked: ProposeRequest) -> Any:
    words = {"title": asked.title, "rationale": asked.rationale}
    said: dict[str, Any] = {name: text for name, text in words.items() if text is not UNSET}
    return service.openwop.propose(call.access, asked.kind, asked.artifact, source_run_ids=asked.source_run_ids, **said)


def synthesise(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"proposals": service.openwop.synthesise_proposals(call.access)}


def get_proposal(service: Service, call: Call, _asked: None) -> Any:
    return service.openwop.proposal(call.access, call.name("proposal_id"))


def revise(service: Service, call: Call, asked: Revision) -> Any:
    return service.openwop.revise_proposal(call.access, call.name("proposal_id"), asked)


def archive(service: Service, call: Call, _asked: None) -> Any:
    return service.openwop.archive_proposal(call.access, call.name("proposal_id"))


def approve(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"approvalId": service.openwop.approve_proposal(call.access, call.name("proposal_id"))}


def apply(service: Service, call: Call, asked: ApplyRequest) -> dict[str, Any]:
    done = service.openwop.apply_proposal(call.access, call.name("proposal_id"), approval_id=asked.approval_id)
    return {"installedArtifactRef": done["activation"]["installedArtifactRef"]}


def reject(service: Service, call: Call, asked: RejectRequest) -> Any:
    return service.openwop.reject_proposal(call.access, call.name("proposal_id"), reason=asked.reason or "")


def installed(service: Service, call: Call, _asked: None) -> dict[str, Any]:
    return {"artifacts": service.openwop.installed(call.access)}


_ALL, _ONE = "/v1/host/sample/proposals", "/v1/host/sample/proposals/{proposal_id}"
_ARTIFACTS: Final = "/v1/host/artifacts"
_row: Final = OPENWOP.row

OPERATIONS: Final = (
    _row(
        "GET",
        _ALL,
        "openwop_proposals",
        "What agents propose to learn",
        list_proposals,
        "OpenwopProposals",
        ListProposalsRequest,
        {"state": "draft"},
    ),
    _row(
        "POST",
        _ALL,
        "openwop_propose",
        "Propose something by hand",
        propose,
        "OpenwopProposal",
        ProposeRequest,
        EXAMPLE_PROPOSAL,
        success=(201,),
    ),
    _row(
        "POST",
        f"{_ALL}/synthesise",
        "openwop_synthesise",
        "Propose what the recorded runs suggest; only what is new is given",
        synthesise,
        "OpenwopProposals",
    ),
    _row("GET", _ONE, "openwop_proposal", "One proposal", get_proposal, "OpenwopProposal"),
    _row(
        "PATCH",
        _ONE,
        "openwop_revise",
        "Change its words or its artifact; it stays inert",
        revise,
        "OpenwopProposal",
        Revision,
        {"title": "Report every Monday at nine"},
    ),
    _row("DELETE", _ONE, "openwop_archive", "Put a proposal away", archive, "OpenwopProposal"),
    _row(
        "POST",
        f"{_ONE}/approve",
        "openwop_approve",
        "Approve it as it is now; needs `activate`",
        approve,
        "OpenwopApproved",
    ),
    _row(
        "POST",
        f"{_ONE}/apply",
        "openwop_apply",
        "Install its artifact; needs `activate`, or an approval of exactly this",
        apply,
        "OpenwopInstalled",
        ApplyRequest,
    ),
    _row(
        "POST",
        f"{_ONE}/reject",
        "openwop_reject",
        "Decline it; why goes into the audit log",
        reject,
        "OpenwopProposal",
        RejectRequest,
        {"reason": "not needed"},
    ),
    _row(
        "GET", _ARTIFACTS, "openwop_artifacts", "The artifacts in force, by their refs", installed, "OpenwopArtifacts"
    ),
)
