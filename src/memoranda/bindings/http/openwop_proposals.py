"""Proposals of openwop (reviewable learning): looked at, revised, applied or refused. Nothing but applying acts."""

from __future__ import annotations

from typing import Any, Final

from memoranda.bindings.http.openwop_wire import Asked, Paths
from memoranda.bindings.http.request import Answer
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import MAX_ID_CHARS
from memoranda.standards.openwop.events import PROPOSAL_KINDS
from memoranda.standards.openwop.fields import an_object, check_text, check_texts, check_word
from memoranda.standards.openwop.proposals import (
    MAX_RATIONALE_CHARS,
    MAX_SOURCE_RUNS,
    MAX_TITLE_CHARS,
    STATES,
    Revision,
)
from memoranda.standards.openwop.runs import MAX_RUN_ID_CHARS

MAX_REASON_CHARS: Final = 2000


def list_proposals(service: Service, asked: Asked) -> Answer:
    fields = asked.query("state", "kind")
    state = check_word(fields["state"], STATES, "state") if "state" in fields else None
    kind = check_word(fields["kind"], PROPOSAL_KINDS, "kind") if "kind" in fields else None
    return Answer(result={"proposals": service.openwop.proposals(asked.access, state=state, kind=kind)})


def propose(service: Service, asked: Asked) -> Answer:
    fields = asked.only("kind", "artifact", "title", "rationale", "sourceRunIds")
    words: dict[str, Any] = {
        name: check_text(fields[name], name, limit)
        for name, limit in (("title", MAX_TITLE_CHARS), ("rationale", MAX_RATIONALE_CHARS))
        if name in fields
    }
    runs = check_texts(
        fields.get("sourceRunIds", []), "sourceRunIds", max_items=MAX_SOURCE_RUNS, max_chars=MAX_RUN_ID_CHARS
    )
    kind = check_word(fields.get("kind"), PROPOSAL_KINDS, "kind")
    artifact = an_object(fields.get("artifact"), "artifact")
    made = service.openwop.propose(asked.access, kind, artifact, source_run_ids=tuple(runs), **words)
    return Answer(result=made, status=201)


def synthesise(service: Service, asked: Asked) -> Answer:
    asked.only()
    return Answer(result={"proposals": service.openwop.synthesise_proposals(asked.access)})


def get_proposal(service: Service, asked: Asked) -> Answer:
    asked.query()
    return Answer(result=service.openwop.proposal(asked.access, asked.name("proposal_id")))


def revise(service: Service, asked: Asked) -> Answer:
    revision = Revision.parse(asked.json())
    return Answer(result=service.openwop.revise_proposal(asked.access, asked.name("proposal_id"), revision))


def archive(service: Service, asked: Asked) -> Answer:
    asked.query()
    return Answer(result=service.openwop.archive_proposal(asked.access, asked.name("proposal_id")))


def approve(service: Service, asked: Asked) -> Answer:
    asked.only()
    return Answer(result={"approvalId": service.openwop.approve_proposal(asked.access, asked.name("proposal_id"))})


def apply(service: Service, asked: Asked) -> Answer:
    fields = asked.only("approvalId")
    approval_id = fields.get("approvalId")
    if approval_id is not None:
        check_text(approval_id, "approvalId", MAX_ID_CHARS)
    done = service.openwop.apply_proposal(asked.access, asked.name("proposal_id"), approval_id=approval_id)
    return Answer(result={"installedArtifactRef": done["activation"]["installedArtifactRef"]})


def reject(service: Service, asked: Asked) -> Answer:
    fields = asked.only("reason")
    reason = check_text(fields["reason"], "reason", MAX_REASON_CHARS) if "reason" in fields else ""
    return Answer(result=service.openwop.reject_proposal(asked.access, asked.name("proposal_id"), reason=reason))


def installed(service: Service, asked: Asked) -> Answer:
    asked.query()
    return Answer(result={"artifacts": service.openwop.installed(asked.access)})


PATHS: Final[Paths] = {
    "/v1/host/artifacts": {"GET": installed},
    "/v1/host/sample/proposals": {"GET": list_proposals, "POST": propose},
    "/v1/host/sample/proposals/synthesise": {"POST": synthesise},
    "/v1/host/sample/proposals/{proposal_id}": {"GET": get_proposal, "PATCH": revise, "DELETE": archive},
    "/v1/host/sample/proposals/{proposal_id}/apply": {"POST": apply},
    "/v1/host/sample/proposals/{proposal_id}/approve": {"POST": approve},
    "/v1/host/sample/proposals/{proposal_id}/reject": {"POST": reject},
}
