"""Proposals (RFC 0096): additions that an agent suggests, inert until a person applies them.

    draft ──► revised ──► applied
      │          │
      └──────────┴──────► rejected ──► archived
                 └──────────────────────► archived

`applied` is final: to undo it, uninstall the artifact; the record stays. A draft may be applied, rejected or archived
without a revision. Rejected proposals may be archived.

Checks of artifacts are here, decisions about them in `service/openwop/proposals.py`. An artifact is data and is never
run by Memoranda.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from memoranda.encoding import json_text
from memoranda.errors import Conflict, InvalidInput, TooLarge, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.openwop.artifacts import Artifact, check_artifact
from memoranda.standards.openwop.entry import MAX_ID_CHARS, check_id
from memoranda.standards.openwop.events import PROPOSAL_ACTIVATED, PROPOSAL_CREATED, PROPOSAL_KINDS
from memoranda.standards.openwop.fields import (
    OpenwopShape,
    check_closed_object,
    check_object,
    check_text,
    check_texts,
    check_time,
    check_word,
    require_fields,
    text_limit,
)
from memoranda.standards.openwop.problem import MALFORMED_ARTIFACT
from memoranda.standards.openwop.redaction import Secrets, detect, hide
from memoranda.standards.openwop.runs import MAX_RUN_ID_CHARS, check_owner

Proposal = dict[str, Any]
State = Literal["draft", "revised", "applied", "rejected", "archived"]

STATES: Final[tuple[State, ...]] = ("draft", "revised", "applied", "rejected", "archived")
TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    "draft": frozenset({"revised", "applied", "rejected", "archived"}),
    "revised": frozenset({"revised", "applied", "rejected", "archived"}),
    "applied": frozenset(),
    "rejected": frozenset({"archived"}),
    "archived": frozenset(),
}

# Characters of a title and of a rationale.
MAX_TITLE_CHARS: Final = 200
MAX_RATIONALE_CHARS: Final = 10_000
# Bytes. A person reviews the artifact: a pack of prompts and graphs, not a library.
MAX_ARTIFACT_BYTES: Final = 524_288
# Runs that show the pattern; nobody reads more.
MAX_SOURCE_RUNS: Final = 1000

_FIELDS: Final = (
    "id",
    "kind",
    "state",
    "artifact",
    "provenance",
    "owner",
    "createdAt",
    "title",
    "rationale",
    "duplicateOf",
    "activation",
    "updatedAt",
)


class ProposedArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact to propose, with the texts that explain it to a reviewer."""

    kind: str
    artifact: Mapping[str, object]
    title: str | None = None
    rationale: str | None = None
    source_run_ids: tuple[str, ...] = ()


def build_proposal(
    proposed: ProposedArtifact,
    *,
    id: str,  # noqa: A002
    tenant: str,
    created: Instant,
    duplicate_of: str | None = None,
) -> Proposal:
    """Build a proposal as a draft. Its artifact must be well-formed, so that our own proposals can be applied."""
    artifact = dict(proposed.artifact)
    draft: Proposal = {
        "id": id,
        "kind": proposed.kind,
        "state": "draft",
        "artifact": artifact,
        "provenance": {"sourceRunIds": list(proposed.source_run_ids)},
        "owner": {"tenant": tenant},
        "createdAt": format_instant(created),
        "duplicateOf": duplicate_of,
    }
    if proposed.title:
        draft["title"] = proposed.title
    if proposed.rationale:
        draft["rationale"] = proposed.rationale
    check_artifact(proposed.kind, artifact)
    return check_proposal(draft)


def check_proposal(value: object) -> Proposal:
    """Check a Proposal from untrusted JSON and return it unchanged. Raises InvalidInput or TooLarge.

    A malformed artifact is accepted; applying it is not.
    """
    proposal = check_closed_object(value, _FIELDS, "proposal")
    require_fields(proposal, _FIELDS[:7], "proposal")
    check_id(proposal["id"], "proposal.id")
    check_word(proposal["kind"], PROPOSAL_KINDS, "proposal.kind")
    check_word(proposal["state"], STATES, "proposal.state")
    _check_size(check_object(proposal["artifact"], "proposal.artifact"))
    _check_provenance(proposal["provenance"])
    check_owner(proposal["owner"], "proposal.owner")
    for name in ("createdAt", "updatedAt"):
        if name in proposal:
            check_time(proposal[name], f"proposal.{name}")
    for name, limit in (("title", MAX_TITLE_CHARS), ("rationale", MAX_RATIONALE_CHARS)):
        if name in proposal:
            check_text(proposal[name], f"proposal.{name}", limit)
    if proposal.get("duplicateOf") is not None:
        check_id(proposal["duplicateOf"], "proposal.duplicateOf")
    _check_activation(proposal.get("activation"), proposal["state"])
    return proposal


def _check_size(artifact: Artifact) -> None:
    """Raise TooLarge if the artifact is too large."""
    size_bytes = len(json_text.dump(artifact))
    if size_bytes > MAX_ARTIFACT_BYTES:
        raise TooLarge(
            f"proposal.artifact has {size_bytes} bytes; the limit is {MAX_ARTIFACT_BYTES}"
        )


def _check_provenance(value: object) -> None:
    """Check the provenance of a proposal. Raises InvalidInput."""
    provenance = check_closed_object(
        value, ("sourceRunIds", "synthesizerModel"), "proposal.provenance"
    )
    require_fields(provenance, ("sourceRunIds",), "proposal.provenance")
    check_texts(
        provenance["sourceRunIds"],
        "proposal.provenance.sourceRunIds",
        max_items=MAX_SOURCE_RUNS,
        max_chars=MAX_RUN_ID_CHARS,
    )
    if "synthesizerModel" in provenance:
        check_text(
            provenance["synthesizerModel"], "proposal.provenance.synthesizerModel", MAX_TITLE_CHARS
        )


def _check_activation(value: object, state: str) -> None:
    """Check the activation of a proposal, which only an applied one has. Raises InvalidInput."""
    if value is None:
        return
    if state != "applied":
        raise InvalidInput("proposal.activation is only valid for a proposal that was applied")
    activation = check_closed_object(
        value, ("approvalId", "installedArtifactRef"), "proposal.activation"
    )
    for name, text in activation.items():
        if text is not None or name != "approvalId":
            check_text(text, f"proposal.activation.{name}", MAX_ID_CHARS)


# --- moves -------------------------------------------------------------------------------------------


class Revision(OpenwopShape):
    """The changes of a PATCH, which never activates a proposal."""

    title: Annotated[str, text_limit(MAX_TITLE_CHARS)] | None = None
    rationale: Annotated[str, text_limit(MAX_RATIONALE_CHARS)] | None = None
    artifact: Artifact | None = None

    def __post_init__(self) -> None:
        if self.title is None and self.rationale is None and self.artifact is None:
            raise InvalidInput("the request must change title, rationale or artifact")
        if self.artifact is not None:
            _check_size(self.artifact)


def revise(current: Proposal, revision: Revision, at: Instant) -> Proposal:
    """Return the proposal with the changes of a revision. Raises Conflict."""
    changes = {
        "title": revision.title,
        "rationale": revision.rationale,
        "artifact": revision.artifact,
    }
    set_fields = {name: value for name, value in changes.items() if value is not None}
    return _move(current, "revised", at, **set_fields)


def mark_applied(
    current: Proposal, at: Instant, *, installed_ref: str, approval_id: str | None = None
) -> Proposal:
    """Return the proposal after the installation of its artifact.

    The caller has checked authorization. Raises Conflict.
    """
    check_applicable(current)
    activation = {"approvalId": approval_id, "installedArtifactRef": installed_ref}
    return _move(current, "applied", at, activation=activation)


def mark_rejected(current: Proposal, at: Instant) -> Proposal:
    """Return the proposal as rejected. The reason goes to the audit log only. Raises Conflict."""
    return _move(current, "rejected", at)


def mark_archived(current: Proposal, at: Instant) -> Proposal:
    """Return the proposal as archived. Raises Conflict."""
    return _move(current, "archived", at)


def check_applicable(current: Proposal) -> None:
    """Raise Conflict if the proposal's state forbids applying, WorkflowError (422) for a malformed artifact."""
    _check_transition(current, "applied")
    try:
        check_artifact(current["kind"], current["artifact"])
    except InvalidInput as error:
        raise WorkflowError(
            error.message,
            openwop_code=MALFORMED_ARTIFACT,
            details={"proposalId": current["id"], "kind": current["kind"]},
        ) from None


def digest_artifact(artifact: Mapping[str, object]) -> str:
    """Return the digest of an artifact, to which a request to apply it may be bound."""
    return f"sha256:{hashlib.sha256(json_text.canonical(dict(artifact))).hexdigest()}"


def encode_artifact(current: Proposal) -> bytes:
    """Return the bytes to install: exactly the stored artifact (proposal-no-resynthesis), in its original order."""
    return json_text.dump(current["artifact"])


def build_created_payload(current: Proposal) -> dict[str, Any]:
    """Return the payload of `proposal.created`: ids only."""
    return {
        "proposalId": current["id"],
        "kind": current["kind"],
        "sourceRunIds": list(current["provenance"]["sourceRunIds"]),
        "duplicateOf": current.get("duplicateOf"),
    }


def build_activated_payload(current: Proposal) -> dict[str, Any]:
    """Return the payload of `proposal.activated`."""
    activation = current["activation"]
    return {
        "proposalId": current["id"],
        "kind": current["kind"],
        "installedArtifactRef": activation["installedArtifactRef"],
        "approvalId": activation["approvalId"],
    }


CREATED: Final = PROPOSAL_CREATED
ACTIVATED: Final = PROPOSAL_ACTIVATED


def _check_transition(current: Proposal, state: State) -> None:
    """Raise Conflict if the proposal cannot change to this state."""
    allowed = next(moves for name, moves in TRANSITIONS.items() if name == current["state"])
    if state not in allowed:
        raise Conflict(f"a proposal that is {current['state']} cannot be {state}")


def _move(current: Proposal, state: State, at: Instant, **changes: object) -> Proposal:
    """Return the proposal in a new state with these changes. Raises Conflict."""
    _check_transition(current, state)
    return check_proposal({**current, **changes, "state": state, "updatedAt": format_instant(at)})


# --- redaction ---------------------------------------------------------------------------------------


def find_unsafe_fields(current: Proposal, secrets: Secrets | None = None) -> list[str]:
    """Return the locations of secrets in a proposal (SR-1): secrets of the run, or text that looks like one."""
    return [
        location
        for location, text in _walk_texts(current)
        if (secrets is not None and secrets.occurs_in(text)) or bool(detect(text))
    ]


def check_safe(current: Proposal, secrets: Secrets | None = None) -> None:
    """Raise InvalidInput that names the fields with secrets, without their content."""
    unsafe = find_unsafe_fields(current, secrets)
    if unsafe:
        raise InvalidInput(
            f"a proposal must not contain secrets; remove those in {', '.join(unsafe[:5])}"
        )


def redact_text(text: str, secrets: Secrets | None = None) -> str:
    """Return a title or a rationale without secrets."""
    clean = text if secrets is None else secrets.redact(text).text
    return hide(clean, detect(clean))


def _walk_texts(current: Proposal) -> Iterator[tuple[str, str]]:
    """Yield the location and text of every string that a person or a run contributed."""
    parts = {
        name: current[name]
        for name in ("title", "rationale", "provenance", "artifact")
        if name in current
    }
    pending: list[tuple[str, object]] = list(reversed(parts.items()))
    while pending:
        location, value = pending.pop()
        if isinstance(value, str):
            yield location, value
        elif isinstance(value, dict):
            yield from ((f"{location}'s names", str(name)) for name in value)
            pending.extend(
                (f"{location}.{name}", member) for name, member in reversed(value.items())
            )
        elif isinstance(value, list):
            pending.extend(
                (f"{location}[{index}]", item) for index, item in reversed(list(enumerate(value)))
            )
