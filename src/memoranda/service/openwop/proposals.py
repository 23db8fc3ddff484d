"""Reviewable learning (openwop): proposals of new skills and habits, which have no effect until somebody applies them.

Proposals are synthesised from recorded runs, or made by hand. An artifact is only checked, shown and installed here; it
is never executed. `apply` needs the activation right, or an approval that a credential with that right gave for exactly
this artifact. The installed bytes are those of the proposal.

The store has three kinds of items: proposals by id, installed artifacts by reference, and approvals by id.

A proposal waits for a person. Its artifact is bound by a digest to the approval, so that what is installed is what was
read.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from memoranda.encoding import json_text
from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound, WorkflowError
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, describe_count, retry_on_conflict
from memoranda.service.openwop import learned
from memoranda.service.openwop import runs as run_log
from memoranda.standards.openwop import proposals
from memoranda.standards.openwop.problem import PROPOSAL_STALE
from memoranda.standards.openwop.proposals import Proposal, ProposedArtifact, Revision
from memoranda.storage.engine.contract import Snapshot, Unit

if TYPE_CHECKING:
    from memoranda.consolidation.habits.habits import HabitDraft, RunTrace, ToolCall

# The search for habits is imported where it is used: few commands need it.

KIND: Final = "openwop proposal"
INSTALLED: Final = "openwop artifact"
APPROVALS: Final = "openwop approval"
# The verb that a key or token must have to activate what an agent learned.
ACTIVATION: Final = "activate"
# Runs that are searched for habits, the latest.
RUNS_LIMIT: Final = 5_000
# Events of a run that are searched.
_EVENTS_LIMIT: Final = 1_000
_log = logging.getLogger(__name__)


def synthesise_proposals(context: Context, access: Access) -> list[Proposal]:
    """Find habits in the recorded runs and propose those that were not proposed before."""
    return retry_on_conflict(lambda: _synthesise(context, access))


def _synthesise(context: Context, access: Access) -> list[Proposal]:
    """Propose new habits once. Raises Conflict if other proposals change before the new ones are written."""
    from memoranda.consolidation.habits.habits import draft_habits

    tenant, now = access.default_tenant, context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        items, traces = snapshot.load_items(KIND), _load_traces(snapshot)
    existing = [json_text.parse(data) for data in items.values()]
    fingerprints = {_fingerprint(proposal) for proposal in existing}
    artifacts = [(item["id"], item["kind"], item["artifact"]) for item in existing]
    drafts = [
        draft
        for draft in draft_habits(traces, known_artifacts=artifacts)
        if draft.fingerprint not in fingerprints
        and _fingerprint_artifact(draft.kind, draft.artifact) not in fingerprints
    ]

    def work(unit: Unit) -> list[Proposal]:
        _require_unchanged(unit, items)
        created = []
        for draft in drafts:
            # The claim outlives changes of the proposal, so that no habit is proposed twice.
            if unit.claim_once(f"habit {draft.kind} {draft.fingerprint}", now=now):
                proposal = _propose_draft(unit, draft, now)
                if proposal is not None:
                    created.append(proposal)
        _audit(unit, access, "synthesise", now, describe_count(len(created), "proposal"))
        context.quotas_of(unit).check_bytes(unit)
        return created

    return context.engine.write(tenant, work)


def _require_unchanged(unit: Unit, items: Mapping[str, bytes]) -> None:
    """Raise Conflict unless the stored proposals are the given ones."""
    if unit.load_items(KIND) != items:
        raise Conflict("other proposals were made or changed meanwhile; try again")


def _propose_draft(unit: Unit, draft: HabitDraft, now: Instant) -> Proposal | None:
    """Store a habit as a proposal; None if it would contain a secret or could not be applied."""
    try:
        proposal = proposals.build_proposal(
            ProposedArtifact(
                kind=draft.kind,
                artifact=draft.artifact,
                title=proposals.redact_text(draft.title),
                rationale=proposals.redact_text(draft.rationale),
                source_run_ids=draft.source_runs,
            ),
            id=_new_id(),
            tenant=unit.tenant,
            created=now,
            duplicate_of=draft.duplicate_of,
        )
        proposals.check_safe(proposal)
    except InvalidInput as error:
        # One unusable habit must not hide the others.
        _log.warning("openwop proposals: %s", error)
        return None
    _store_new(unit, proposal, now)
    return proposal


def propose(
    context: Context,
    access: Access,
    kind: str,
    artifact: Mapping[str, object],
    *,
    title: str | None = None,
    rationale: str | None = None,
    source_run_ids: tuple[str, ...] = (),
) -> Proposal:
    """Propose an artifact by hand. Raises InvalidInput if it is malformed or contains a secret."""
    proposed = ProposedArtifact(
        kind=kind,
        artifact=artifact,
        title=title,
        rationale=rationale,
        source_run_ids=source_run_ids,
    )
    return retry_on_conflict(lambda: _propose_by_hand(context, access, proposed))


def _new_id() -> str:
    """Return a random id of a proposal."""
    return f"prop_{base32_encode(secrets.token_bytes(15))}"


def _propose_by_hand(context: Context, access: Access, proposed: ProposedArtifact) -> Proposal:
    """Propose once. Raises Conflict if other proposals change before the new one is written."""
    tenant, now = access.default_tenant, context.clock()
    with context.engine.open_snapshot(tenant) as snapshot:
        items = snapshot.load_items(KIND)
    fingerprint = _fingerprint_artifact(proposed.kind, proposed.artifact)
    existing = (json_text.parse(data) for data in items.values())
    duplicates = (other["id"] for other in existing if _fingerprint(other) == fingerprint)
    proposal = proposals.build_proposal(
        proposed,
        id=_new_id(),
        tenant=tenant,
        created=now,
        duplicate_of=next(duplicates, None),
    )
    proposals.check_safe(proposal)

    def work(unit: Unit) -> Proposal:
        _require_unchanged(unit, items)
        _store_new(unit, proposal, now)
        _audit(unit, access, "propose", now, proposal["id"])
        context.quotas_of(unit).check_bytes(unit)
        return proposal

    return context.engine.write(tenant, work)


# --- review --------------------------------------------------------------------------------------------------


def list_proposals(
    context: Context, access: Access, *, state: str | None = None, kind: str | None = None
) -> list[Proposal]:
    """Return the proposals with a state and a kind, if they are given, oldest first."""
    if kind == learned.KIND:
        return learned.list_learned(context, access, state=state)
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        items = snapshot.load_items(KIND)
    matches = [
        proposal
        for proposal in map(json_text.parse, items.values())
        if state in (None, proposal["state"]) and kind in (None, proposal["kind"])
    ]
    return sorted(matches, key=lambda match: (parse_instant(match["createdAt"]), match["id"]))


def get(context: Context, access: Access, proposal_id: str) -> Proposal:
    """Return one proposal. Raises NotFound."""
    if learned.is_learned(proposal_id):
        return learned.get_learned(context, access, proposal_id)
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return _load(snapshot, proposal_id)


def revise(context: Context, access: Access, proposal_id: str, revision: Revision) -> Proposal:
    """Change the texts or the artifact of a proposal; approvals of the earlier artifact do not hold any more."""
    if learned.is_learned(proposal_id):
        return learned.revise_learned(context, access, proposal_id, revision)
    now = context.clock()

    def work(unit: Unit) -> Proposal:
        revised_proposal = proposals.revise(_load(unit, proposal_id), revision, now)
        proposals.check_safe(revised_proposal)
        _store_changed(unit, access, "revise", revised_proposal, now)
        context.quotas_of(unit).check_bytes(unit)
        return revised_proposal

    return context.engine.write(access.default_tenant, work)


def reject(context: Context, access: Access, proposal_id: str, *, reason: str = "") -> Proposal:
    """Reject a proposal; the reason goes into the audit log."""
    if learned.is_learned(proposal_id):
        reason = proposals.redact_text(reason)
        return learned.reject_learned(context, access, proposal_id, reason=reason, state="rejected")
    now, reason = context.clock(), proposals.redact_text(reason)

    def work(unit: Unit) -> Proposal:
        rejected_proposal = proposals.mark_rejected(_load(unit, proposal_id), now)
        _store_changed(unit, access, "reject", rejected_proposal, now, reason)
        return rejected_proposal

    return context.engine.write(access.default_tenant, work)


def archive(context: Context, access: Access, proposal_id: str) -> Proposal:
    """Archive a proposal."""
    if learned.is_learned(proposal_id):
        return learned.reject_learned(context, access, proposal_id, reason="", state="archived")
    now = context.clock()

    def work(unit: Unit) -> Proposal:
        archived_proposal = proposals.mark_archived(_load(unit, proposal_id), now)
        _store_changed(unit, access, "archive", archived_proposal, now)
        return archived_proposal

    return context.engine.write(access.default_tenant, work)


# --- activation ----------------------------------------------------------------------------------------------


def approve(context: Context, access: Access, proposal_id: str) -> str:
    """Approve the artifact of a proposal as it is now, so that a caller without the activation right may apply it once.

    Return the id of the approval. The verb itself requires the activation right.
    """
    now = context.clock()

    def work(unit: Unit) -> str:
        current = _load(unit, proposal_id)
        proposals.check_applicable(current)
        approval_id = f"appr_{base32_encode(secrets.token_bytes(15))}"
        approval = {
            "proposal": proposal_id,
            "artifact": _digest(current),
            "by": access.actor,
            "at": format_instant(now),
        }
        unit.put_item(APPROVALS, approval_id, json_text.dump(approval))
        _audit(unit, access, "approve", now, proposal_id)
        return approval_id

    return context.engine.write(access.default_tenant, work)


def apply(
    context: Context,
    access: Access,
    proposal_id: str,
    *,
    approval_id: str | None = None,
    artifact_digest: str | None = None,
) -> Proposal:
    """Install the artifact of a proposal, with the activation right or with an approval of the artifact as it is now.

    Raises ForbiddenScope without either, and an error if the proposal is in no state to be applied, or if its artifact
    has another digest than `artifact_digest`.
    """
    now = context.clock()
    if learned.is_learned(proposal_id):
        access.require(ACTIVATION)
        return learned.apply_learned(context, access, proposal_id, artifact_digest)
    access.require(ACTIVATION if approval_id is None else "derive")

    def work(unit: Unit) -> Proposal:
        current = _load(unit, proposal_id)
        if approval_id is not None:
            _check_approval(unit, approval_id, current)
        if artifact_digest not in (None, proposals.digest_artifact(current["artifact"])):
            raise WorkflowError(
                "the artifact was revised since it was read", openwop_code=PROPOSAL_STALE
            )
        proposals.check_applicable(current)
        installed_ref = f"{current['kind']}:{_digest(current)[:32]}"
        applied_proposal = proposals.mark_applied(
            current, now, installed_ref=installed_ref, approval_id=approval_id
        )
        unit.put_item(INSTALLED, installed_ref, proposals.encode_artifact(current))
        if approval_id is not None:
            unit.delete_item(APPROVALS, approval_id)
        fact = (proposals.ACTIVATED, proposals.build_activated_payload(applied_proposal))
        run_log.host_run(unit, "activation", now, fact, access=access)
        _store_changed(unit, access, "apply", applied_proposal, now)
        context.quotas_of(unit).check_bytes(unit)
        return applied_proposal

    return context.engine.write(access.default_tenant, work)


def installed(context: Context, access: Access) -> dict[str, Any]:
    """Return the artifacts that were applied, by reference, for a host to load."""
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        return {ref: json_text.parse(data) for ref, data in snapshot.load_items(INSTALLED).items()}


def _check_approval(unit: Unit, approval_id: str, current: Proposal) -> None:
    """Raise ForbiddenScope unless an approval is for the present artifact of a proposal."""
    data = unit.load_item(APPROVALS, approval_id)
    approval = {} if data is None else json_text.parse(data)
    is_same_proposal = approval.get("proposal") == current["id"]
    if not is_same_proposal or approval["artifact"] != _digest(current):
        raise ForbiddenScope("the current version of this proposal has no such approval")


def _digest(current: Proposal) -> str:
    """Return the digest of an artifact's bytes, to which an approval is bound."""
    return hashlib.sha256(proposals.encode_artifact(current)).hexdigest()


def _fingerprint(proposal: Proposal) -> str:
    return _fingerprint_artifact(proposal["kind"], proposal["artifact"])


def _fingerprint_artifact(kind: str, artifact: Mapping[str, object]) -> str:
    """Return a hash that is equal for proposals of the same artifact."""
    return hashlib.sha256(kind.encode() + b"\x00" + json_text.canonical(dict(artifact))).hexdigest()


# --- reading runs --------------------------------------------------------------------------------------------


def _load_traces(snapshot: Snapshot) -> list[RunTrace]:
    """Return the latest runs of hosts with their tool calls, without our own runs and without replays."""
    from memoranda.consolidation.habits.habits import RunTrace

    traces = []
    for data in snapshot.list_runs(before=None, limit=RUNS_LIMIT):
        run = run_log.decode_run(data)
        if run.is_replay or run.workflow_id.startswith(run_log.HOST_WORKFLOW):
            continue
        page = snapshot.list_run_events(run.run_id, after=-1, limit=_EVENTS_LIMIT)
        corrections = run.metadata.get("corrections", ())
        trace = RunTrace(
            run_id=run.run_id,
            workflow=run.workflow_id,
            at=run.started,
            steps=tuple(_find_tool_calls([json_text.parse(event) for event in page])),
            corrections=tuple(str(text) for text in corrections if isinstance(text, str)),
            owner=run.tenant,
        )
        traces.append(trace)
    return traces


def _find_tool_calls(log: list[dict[str, Any]]) -> list[ToolCall]:
    """Return the tool calls in a log; hosts name the tool in one of three fields."""
    from memoranda.consolidation.habits.habits import ToolCall

    calls = []
    for event in log:
        payload = event["payload"]
        tool = payload.get("toolName") or payload.get("toolId") or payload.get("tool")
        if event["type"] == "agent.toolCalled" and isinstance(tool, str):
            names = payload.get("argumentNames")
            arguments = tuple(str(name) for name in names) if isinstance(names, list) else ()
            is_ok = payload.get("ok") is not False
            calls.append(ToolCall(tool=tool, arguments=arguments, ok=is_ok))
    return calls


# --- storing -------------------------------------------------------------------------------------------------


def _load(snapshot: Snapshot, proposal_id: str) -> Proposal:
    """Return a stored proposal. Raises NotFound."""
    data = snapshot.load_item(KIND, proposal_id)
    if data is None:
        raise NotFound("no such proposal")
    proposal: Proposal = json_text.parse(data)
    return proposal


def _store(unit: Unit, proposal: Proposal) -> None:
    unit.put_item(KIND, proposal["id"], json_text.dump(proposal))


def _store_new(unit: Unit, proposal: Proposal, now: Instant) -> None:
    """Store a new proposal, with a run of our own that logs it."""
    _store(unit, proposal)
    fact = (proposals.CREATED, proposals.build_created_payload(proposal))
    run_log.host_run(unit, "proposal", now, fact)


def _store_changed(
    unit: Unit, access: Access, op: str, proposal: Proposal, now: Instant, reason: str = ""
) -> None:
    """Store a changed proposal, with an audit entry."""
    _store(unit, proposal)
    meta = {"proposal": proposal["id"], **({"reason": reason} if reason else {})}
    _audit(unit, access, op, now, proposal["state"], meta)


def _audit(
    unit: Unit,
    access: Access,
    op: str,
    now: Instant,
    result: str,
    meta: Mapping[str, object] | None = None,
) -> None:
    scope = {"owner": access.default_tenant}
    unit.record_audit(
        audit_entry(
            access, f"openwop.proposals.{op}", now=now, scope=scope, result=result, meta=meta
        )
    )
