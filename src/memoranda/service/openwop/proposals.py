"""Reviewable learning (openwop): what an agent would like to learn is proposed, and inert until somebody applies it.

Proposals are synthesised from recorded runs. Nothing here reads an artifact except to check, show and install it: in
any state but applied it influences nothing. Applying needs the activation right: a credential that has it (direct), or
an approval that such a credential gave (approval gate). What is installed is, byte for byte, what was kept.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memoranda.encoding import json_text
from memoranda.encoding.bases import base32_encode
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry, retry_on_conflict
from memoranda.service.openwop import runs as run_log
from memoranda.standards.openwop import proposals
from memoranda.standards.openwop.proposals import Proposal, Revision
from memoranda.storage.engine.contract import Snapshot, Unit

if TYPE_CHECKING:
    from memoranda.consolidation.habits.habits import HabitDraft, RunTrace, ToolCall

KIND: Final = "openwop proposal"
INSTALLED: Final = "openwop artifact"
APPROVALS: Final = "openwop approval"
# The verb of an API key or token that lets it activate what an agent learned.
ACTIVATION: Final = "activate"
# What is looked at for habits.
RUNS_LIMIT: Final = 5_000
_log = logging.getLogger(__name__)


def synthesise_proposals(context: Context, access: Access) -> list[Proposal]:
    """Look for habits in the recorded runs and propose what they suggest; only what is new."""
    return retry_on_conflict(lambda: _synthesise(context, access))


def _synthesise(context: Context, access: Access) -> list[Proposal]:
    from memoranda.consolidation.habits.habits import draft_habits

    tenant, now = access.default_tenant, context.clock()
    with context.engine.read(tenant) as snapshot:
        kept, traces = snapshot.load_items(KIND), _traces(snapshot)
    there = [json_text.parse(value) for value in kept.values()]
    known = {_fingerprint(each) for each in there}
    artifacts = [(each["id"], each["kind"], each["artifact"]) for each in there]
    drafts = [
        draft
        for draft in draft_habits(traces, known_artifacts=artifacts)
        if draft.fingerprint not in known
        and _fingerprint_of(draft.kind, draft.artifact) not in known
    ]

    def work(unit: Unit) -> list[Proposal]:
        _require_unmoved(unit, kept)
        # A habit is proposed once, also if what was proposed has been revised since.
        fresh = [
            draft
            for draft in drafts
            if unit.claim_once(f"habit {draft.kind} {draft.fingerprint}", now=now)
        ]
        made = [new for draft in fresh if (new := _propose(unit, draft, now)) is not None]
        _record(unit, access, "synthesise", now, f"{len(made)} proposals")
        context.quotas_of(unit).check_bytes(unit)
        return made

    return context.engine.write(tenant, work)


def _require_unmoved(unit: Unit, kept: Mapping[str, bytes]) -> None:
    if unit.load_items(KIND) != kept:
        raise Conflict("other proposals were made or changed meanwhile; try again")


def _propose(unit: Unit, draft: HabitDraft, now: Instant) -> Proposal | None:
    """A proposal of what was found; None for what would hold a secret or could not be applied."""
    try:
        made = proposals.build_proposal(
            id=f"prop_{base32_encode(secrets.token_bytes(15))}",
            kind=draft.kind,
            artifact=dict(draft.artifact),
            tenant=unit.tenant,
            created=now,
            source_run_ids=draft.source_runs,
            title=proposals.redact_text(draft.title),
            rationale=proposals.redact_text(draft.rationale),
            duplicate_of=draft.duplicate_of,
        )
        proposals.check_safe(made)
    except InvalidInput as error:
        # One of them must not keep anyone from the others.
        _log.warning("openwop proposals: %s", error)
        return None
    _keep(unit, made)
    run_log.host_run(
        unit, "proposal", now, (proposals.CREATED, proposals.build_created_payload(made))
    )
    return made


def propose(
    context: Context,
    access: Access,
    kind: str,
    artifact: Mapping[str, Any],
    *,
    title: str | None = None,
    rationale: str | None = None,
    source_run_ids: tuple[str, ...] = (),
) -> Proposal:
    """Propose something by hand."""
    draft = _ByHand(kind, artifact, title, rationale, source_run_ids)
    return retry_on_conflict(lambda: _propose_by_hand(context, access, draft))


class _ByHand(NamedTuple):
    kind: str
    artifact: Mapping[str, Any]
    title: str | None
    rationale: str | None
    source_run_ids: tuple[str, ...]


def _propose_by_hand(context: Context, access: Access, draft: _ByHand) -> Proposal:
    tenant, now = access.default_tenant, context.clock()
    with context.engine.read(tenant) as snapshot:
        kept = snapshot.load_items(KIND)
    said = _fingerprint_of(draft.kind, draft.artifact)
    there = (json_text.parse(value) for value in kept.values())
    made = proposals.build_proposal(
        id=f"prop_{base32_encode(secrets.token_bytes(15))}",
        kind=draft.kind,
        artifact=dict(draft.artifact),
        tenant=tenant,
        created=now,
        source_run_ids=draft.source_run_ids,
        title=draft.title,
        rationale=draft.rationale,
        duplicate_of=next((each["id"] for each in there if _fingerprint(each) == said), None),
    )
    proposals.check_safe(made)

    def work(unit: Unit) -> Proposal:
        _require_unmoved(unit, kept)
        _keep(unit, made)
        run_log.host_run(
            unit, "proposal", now, (proposals.CREATED, proposals.build_created_payload(made))
        )
        _record(unit, access, "propose", now, made["id"])
        context.quotas_of(unit).check_bytes(unit)
        return made

    return context.engine.write(tenant, work)


def listing(
    context: Context, access: Access, *, state: str | None = None, kind: str | None = None
) -> list[Proposal]:
    """The proposals there are, oldest first."""
    with context.engine.read(access.default_tenant) as snapshot:
        found = _all(snapshot)
    chosen = [
        each for each in found if state in (None, each["state"]) and kind in (None, each["kind"])
    ]
    return sorted(chosen, key=lambda each: (parse_instant(each["createdAt"]), each["id"]))


def get(context: Context, access: Access, proposal_id: str) -> Proposal:
    """One proposal. Raises NotFound."""
    with context.engine.read(access.default_tenant) as snapshot:
        return _load(snapshot, proposal_id)


def revise(context: Context, access: Access, proposal_id: str, revision: Revision) -> Proposal:
    """Change its words or its artifact; it stays inert."""
    now = context.clock()

    def work(unit: Unit) -> Proposal:
        changed = proposals.revise(_load(unit, proposal_id), revision, now)
        proposals.check_safe(changed)
        moved = _moved(unit, access, "revise", changed, now)
        context.quotas_of(unit).check_bytes(unit)
        return moved

    return context.engine.write(access.default_tenant, work)


def reject(context: Context, access: Access, proposal_id: str, *, reason: str = "") -> Proposal:
    """Decline it; why goes into the audit log."""
    now, reason = context.clock(), proposals.redact_text(reason)

    def work(unit: Unit) -> Proposal:
        return _moved(
            unit,
            access,
            "reject",
            proposals.mark_rejected(_load(unit, proposal_id), now),
            now,
            reason,
        )

    return context.engine.write(access.default_tenant, work)


def archive(context: Context, access: Access, proposal_id: str) -> Proposal:
    """Put it away."""
    now = context.clock()

    def work(unit: Unit) -> Proposal:
        return _moved(
            unit, access, "archive", proposals.mark_archived(_load(unit, proposal_id), now), now
        )

    return context.engine.write(access.default_tenant, work)


def approve(context: Context, access: Access, proposal_id: str) -> str:
    """Give the approval that the gate waits for; its id. Only for a credential with the activation right."""
    now = context.clock()

    def work(unit: Unit) -> str:
        current = _load(unit, proposal_id)
        proposals.check_applicable(current)
        approval_id = f"appr_{base32_encode(secrets.token_bytes(15))}"
        given = {
            "proposal": proposal_id,
            "artifact": _digest(current),
            "by": access.actor,
            "at": format_instant(now),
        }
        unit.put_item(APPROVALS, approval_id, json_text.dump(given))
        _record(unit, access, "approve", now, proposal_id)
        return approval_id

    return context.engine.write(access.default_tenant, work)


def apply(
    context: Context, access: Access, proposal_id: str, *, approval_id: str | None = None
) -> Proposal:
    """Install its artifact: with the activation right, or with an approval of exactly what is kept."""
    now = context.clock()
    access.require(ACTIVATION if approval_id is None else "derive")

    def work(unit: Unit) -> Proposal:
        current = _load(unit, proposal_id)
        if approval_id is not None:
            _check_approval(unit, approval_id, current)
        proposals.check_applicable(current)
        installed = f"{current['kind']}:{_digest(current)[:32]}"
        done = proposals.mark_applied(
            current, now, installed_ref=installed, approval_id=approval_id
        )
        unit.put_item(INSTALLED, installed, proposals.encode_artifact(current))
        if approval_id is not None:
            unit.delete_item(APPROVALS, approval_id)
        run_log.host_run(
            unit, "activation", now, (proposals.ACTIVATED, proposals.build_activated_payload(done))
        )
        moved = _moved(unit, access, "apply", done, now)
        context.quotas_of(unit).check_bytes(unit)
        return moved

    return context.engine.write(access.default_tenant, work)


def installed(context: Context, access: Access) -> dict[str, Any]:
    """The artifacts in force, by their refs: what a host loads. Proposals that are not applied are not among them."""
    with context.engine.read(access.default_tenant) as snapshot:
        return {
            ref: json_text.parse(value) for ref, value in snapshot.load_items(INSTALLED).items()
        }


# --- inside --------------------------------------------------------------------------------------------------


def _check_approval(unit: Unit, approval_id: str, current: Proposal) -> None:
    kept = unit.load_item(APPROVALS, approval_id)
    given = None if kept is None else json_text.parse(kept)
    if given is None or given["proposal"] != current["id"] or given["artifact"] != _digest(current):
        # What was revised since was not approved.
        raise ForbiddenScope("there is no such approval of this proposal as it is now")


def _digest(current: Proposal) -> str:
    return hashlib.sha256(proposals.encode_artifact(current)).hexdigest()


def _fingerprint(current: Proposal) -> str:
    return _fingerprint_of(current["kind"], current["artifact"])


def _fingerprint_of(kind: str, artifact: Mapping[str, Any]) -> str:
    return hashlib.sha256(kind.encode() + b"\x00" + json_text.canonical(dict(artifact))).hexdigest()


def _traces(snapshot: Snapshot) -> list[RunTrace]:
    """The recorded runs of hosts, without our own."""
    from memoranda.consolidation.habits.habits import RunTrace

    found = []
    for kept in snapshot.list_runs(before=None, limit=RUNS_LIMIT):
        run = run_log.decode_run(kept)
        # A replay is the same run told again.
        if run.is_replay or run.workflow_id.startswith(run_log.HOST_WORKFLOW):
            continue
        logged = [
            json_text.parse(event)
            for event in snapshot.list_run_events(run.run_id, after=-1, limit=1_000)
        ]
        steps = tuple(_steps(logged))
        corrections = tuple(
            str(text) for text in run.metadata.get("corrections", ()) if isinstance(text, str)
        )
        found.append(
            RunTrace(
                run_id=run.run_id,
                workflow=run.workflow_id,
                at=run.started,
                steps=steps,
                corrections=corrections,
                owner=run.tenant,
            )
        )
    return found


def _steps(logged: list[dict[str, Any]]) -> list[ToolCall]:
    from memoranda.consolidation.habits.habits import ToolCall

    found = []
    for event in logged:
        payload = event["payload"]
        tool = payload.get("toolName") or payload.get("toolId") or payload.get("tool")
        if event["type"] == "agent.toolCalled" and isinstance(tool, str):
            names = payload.get("argumentNames")
            arguments = tuple(str(name) for name in names) if isinstance(names, list) else ()
            found.append(
                ToolCall(tool=tool, arguments=arguments, ok=payload.get("ok") is not False)
            )
    return found


def _all(snapshot: Snapshot) -> list[Proposal]:
    return [json_text.parse(value) for value in snapshot.load_items(KIND).values()]


def _load(snapshot: Snapshot, proposal_id: str) -> Proposal:
    kept = snapshot.load_item(KIND, proposal_id)
    if kept is None:
        raise NotFound("no such proposal")
    found: Proposal = json_text.parse(kept)
    return found


def _keep(unit: Unit, current: Proposal) -> None:
    unit.put_item(KIND, current["id"], json_text.dump(current))


def _moved(
    unit: Unit, access: Access, op: str, changed: Proposal, now: Instant, reason: str = ""
) -> Proposal:
    _keep(unit, changed)
    _record(
        unit,
        access,
        op,
        now,
        changed["state"],
        {"proposal": changed["id"], **({"reason": reason} if reason else {})},
    )
    return changed


def _record(
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
