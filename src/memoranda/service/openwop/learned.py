"""Candidates as proposals: an extension of this host, for clients that ask for the kind `memory`.

What was learnt from sessions waits as a candidate in the store of memories, and nowhere else. A client of openwop sees
each as a proposal: to apply it accepts the candidate, to revise it changes the text, and to reject or archive it
forgets the candidate. The kinds of the standard are listed without them, because their readers need not know this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.errors import Conflict, InvalidInput, NotFound
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.lookup import get_record, list_records
from memoranda.service.ump import revise as revisions
from memoranda.standards.openwop.proposals import MAX_TITLE_CHARS, Proposal, Revision, State
from memoranda.standards.ump.mapping import CANDIDATE_TAG
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.requests import ForgetRequest

KIND: Final = "memory"
# The beginning of the ids of such proposals, before the id of the record without its own beginning.
_PREFIX: Final = "memory_"
_RECORD_PREFIX: Final = "urn:ump:"
# Candidates of a listing: more than a person decides at once.
_LISTED: Final = 500


def is_learned(proposal_id: str) -> bool:
    """Return True if an id is that of a candidate."""
    return proposal_id.startswith(_PREFIX)


def list_learned(context: Context, access: Access, *, state: str | None) -> list[Proposal]:
    """Return the candidates that wait for a decision, oldest first."""
    if state not in (None, "draft"):
        return []
    records, _ = list_records(context, access, tags=(CANDIDATE_TAG,), limit=_LISTED)
    return [_to_proposal(record, "draft") for record in reversed(records)]


def get_learned(context: Context, access: Access, proposal_id: str) -> Proposal:
    """Return one candidate as a proposal, also after it was decided. Raises NotFound."""
    record = get_record(context, access, _record_id(proposal_id))
    lifecycle, successors = record.get("lifecycle", {}), record.get("superseded_by", ())
    if lifecycle.get("status") == "tombstoned":
        return _to_proposal(record, "rejected")
    if lifecycle.get("status") != "candidate":
        raise NotFound("no such proposal")
    if successors:
        return _to_proposal(record, "applied", installed=successors[0])
    return _to_proposal(record, "draft")


def revise_learned(
    context: Context, access: Access, proposal_id: str, revision: Revision
) -> Proposal:
    """Change the text of a candidate, which gets another id. Raises InvalidInput without a text."""
    current = _require_open(context, access, proposal_id)
    text = (revision.artifact or {}).get("text")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("artifact.text is missing; of a memory only the text can be revised")
    revised = revisions.change(context, access, current["id"], text)
    return _to_proposal(get_record(context, access, revised.id), "revised")


def apply_learned(
    context: Context, access: Access, proposal_id: str, artifact_digest: str | None
) -> Proposal:
    """Accept a candidate. Raises ForbiddenScope without the activation right, Conflict if it changed since."""
    from memoranda.standards.openwop.proposals import digest_artifact

    current = _require_open(context, access, proposal_id)
    if artifact_digest not in (None, digest_artifact(_artifact_of(current))):
        raise Conflict("the memory was revised since it was read")
    patch = {"lifecycle": {"status": "active"}}
    accepted = revisions.change(context, access, current["id"], patch=patch)
    return _to_proposal(current, "applied", installed=accepted.id)


def reject_learned(
    context: Context, access: Access, proposal_id: str, *, reason: str, state: State
) -> Proposal:
    """Forget a candidate, and return it as rejected or archived."""
    current = _require_open(context, access, proposal_id)
    request = {"id": current["id"], "reason": reason or state}
    revisions.forget(context, access, ForgetRequest.parse(request))
    return _to_proposal(current, state)


def _record_id(proposal_id: str) -> str:
    return _RECORD_PREFIX + proposal_id.removeprefix(_PREFIX)


def _require_open(context: Context, access: Access, proposal_id: str) -> Record:
    """Return the record of a candidate that waits for a decision. Raises NotFound, Conflict."""
    state = get_learned(context, access, proposal_id)["state"]
    if state != "draft":
        raise Conflict(f"a proposal that is {state} cannot be decided again")
    return get_record(context, access, _record_id(proposal_id))


def _artifact_of(record: Record) -> dict[str, Any]:
    scope: Mapping[str, Any] = record["scope"]
    fields = {name: scope.get(name) for name in ("project", "agent", "session")}
    return {
        "text": record["body"]["text"],
        "kind": record["kind"],
        **{name: value for name, value in fields.items() if value},
    }


def _to_proposal(record: Record, state: State, *, installed: str = "") -> Proposal:
    """Return a record as a proposal in a state."""
    source = record.get("provenance", {}).get("source", {}).get("ref", "")
    proposal: Proposal = {
        "id": _PREFIX + record["id"].removeprefix(_RECORD_PREFIX),
        "kind": KIND,
        "state": state,
        "artifact": _artifact_of(record),
        "provenance": {"sourceRunIds": []},
        "owner": {"tenant": record["scope"]["owner"]},
        "createdAt": record["time"]["created"],
        "title": record["body"]["text"][:MAX_TITLE_CHARS],
        "duplicateOf": None,
    }
    if source:
        proposal["rationale"] = f"stated in {source}"
    if installed:
        proposal["activation"] = {"approvalId": None, "installedArtifactRef": installed}
    return proposal
