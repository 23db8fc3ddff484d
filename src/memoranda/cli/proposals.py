"""proposals: review what agents propose to learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from memoranda.cli.options import read_json_object
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, one_line, table
from memoranda.encoding.json_text import dump_pretty
from memoranda.errors import InvalidInput
from memoranda.standards.openwop.proposals import Revision

ProposalId = Annotated[str, Parameter(name="ID", help="The proposal's id.")]
# Characters of a title.
_TITLE_CHARS = 160


def list_proposals(
    *,
    state: Annotated[
        str | None, Parameter(help="Only draft, revised, applied, rejected or archived ones.")
    ] = None,
    kind: Annotated[str | None, Parameter(help="Only of this kind.")] = None,
    run: GivenRun,
) -> None:
    """List the proposals."""
    with run.open() as memoranda:
        proposals = memoranda.openwop.proposals(state=state, kind=kind)
    rows = [
        (proposal["id"], proposal["state"], proposal["kind"], _title(proposal))
        for proposal in proposals
    ]
    run.answer(
        {"proposals": proposals},
        lambda: table(("id", "state", "kind", "title"), rows, when_empty="no proposals"),
    )


def show(proposal_id: ProposalId, /, *, run: GivenRun) -> None:
    """Show one proposal, with the artifact that it would install."""
    with run.open() as memoranda:
        proposal = memoranda.openwop.proposal(proposal_id)
    run.answer(proposal, lambda: _show(proposal))


def synthesise(*, run: GivenRun) -> None:
    """Search the recorded runs for habits, and propose an artifact for each."""
    with run.open() as memoranda:
        proposals = memoranda.openwop.synthesise_proposals()
    run.answer({"proposals": proposals}, lambda: line(count_phrase(len(proposals), "new proposal")))


def revise(
    proposal_id: ProposalId,
    /,
    *,
    title: Annotated[str | None, Parameter(help="The new title.")] = None,
    rationale: Annotated[str | None, Parameter(help="The new rationale.")] = None,
    artifact: Annotated[Path | None, Parameter(help="A JSON file with the new artifact.")] = None,
    run: GivenRun,
) -> None:
    """Change a proposal. It still has no effect until it is applied."""
    changes: dict[str, object] = {}
    if title is not None:
        changes["title"] = title
    if rationale is not None:
        changes["rationale"] = rationale
    if artifact is not None:
        try:
            changes["artifact"] = read_json_object(artifact.read_text("utf-8"), "--artifact")
        except OSError as error:
            raise InvalidInput(f"--artifact: {error.strerror}") from None
    with run.open() as memoranda:
        proposal = memoranda.openwop.revise_proposal(proposal_id, Revision.parse(changes))
    run.answer(proposal, lambda: _show(proposal))


def apply(
    proposal_id: ProposalId,
    /,
    *,
    approval: Annotated[
        str | None, Parameter(help="The id of its approval, if one is required.")
    ] = None,
    run: GivenRun,
) -> None:
    """Install the artifact of a proposal, byte for byte."""
    with run.open() as memoranda:
        proposal = memoranda.openwop.apply_proposal(proposal_id, approval_id=approval)
    run.answer(
        proposal, lambda: line(f"installed as {proposal['activation']['installedArtifactRef']}")
    )


def approve(proposal_id: ProposalId, /, *, run: GivenRun) -> None:
    """Approve the current version of a proposal, for someone else to apply."""
    with run.open() as memoranda:
        approval = memoranda.openwop.approve_proposal(proposal_id)
    run.answer({"approvalId": approval}, lambda: line(approval))


def reject(
    proposal_id: ProposalId,
    /,
    *,
    reason: Annotated[str, Parameter(help="The reason; kept in the audit log.")] = "",
    run: GivenRun,
) -> None:
    """Reject a proposal."""
    with run.open() as memoranda:
        proposal = memoranda.openwop.reject_proposal(proposal_id, reason=reason)
    run.answer(proposal, lambda: line(proposal["state"]))


def archive(proposal_id: ProposalId, /, *, run: GivenRun) -> None:
    """Archive a proposal."""
    with run.open() as memoranda:
        proposal = memoranda.openwop.archive_proposal(proposal_id)
    run.answer(proposal, lambda: line(proposal["state"]))


def _title(proposal: dict[str, Any]) -> str:
    return one_line(proposal.get("title", ""))[:_TITLE_CHARS]


def _show(proposal: dict[str, Any]) -> None:
    line(f"{proposal['kind']}, {proposal['state']}: {_title(proposal)}")
    if proposal.get("rationale"):
        line(proposal["rationale"])
    line(dump_pretty(proposal["artifact"]))
