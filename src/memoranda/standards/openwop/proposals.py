"""Proposals (RFC 0096): what an agent would like to learn, inert until somebody applies it.

    draft ──► revised ──► applied
      │          │
      └──────────┴──────► rejected ──► archived
                 └──────────────────────► archived

`applied` is the end: what was installed is taken back by uninstalling it, not by changing the record of how it came.
A draft may be applied, rejected or archived without having been revised. Rejected ones may be cleared away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from memoranda.encoding import json_text
from memoranda.errors import Conflict, InvalidInput, TooLarge, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.openwop.artifacts import Artifact, check_artifact
from memoranda.standards.openwop.entry import MAX_ID_CHARS, check_id
from memoranda.standards.openwop.events import PROPOSAL_ACTIVATED, PROPOSAL_CREATED, PROPOSAL_KINDS
from memoranda.standards.openwop.fields import (
    OpenwopShape,
    an_object,
    chars,
    check_text,
    check_texts,
    check_time,
    check_word,
    closed_object,
    require,
)
from memoranda.standards.openwop.problem import MALFORMED_ARTIFACT
from memoranda.standards.openwop.redaction import Secrets, detect, hide
from memoranda.standards.openwop.runs import MAX_RUN_ID_CHARS, check_owner

Proposal = dict[str, Any]
State = Literal["draft", "revised", "applied", "rejected", "archived"]

STATES: Final[tuple[State, ...]] = ("draft", "revised", "applied", "rejected", "archived")
MOVES: Final[Mapping[State, frozenset[State]]] = {
    "draft": frozenset({"revised", "applied", "rejected", "archived"}),
    "revised": frozenset({"revised", "applied", "rejected", "archived"}),
    "applied": frozenset(),
    "rejected": frozenset({"archived"}),
    "archived": frozenset(),
}

MAX_TITLE_CHARS: Final = 200
MAX_RATIONALE_CHARS: Final = 10_000
# What a person reviews before it acts: a pack of prompts and graphs, not a library.
MAX_ARTIFACT_BYTES: Final = 524_288
# The runs that show the pattern; more would be counted, not read.
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


def proposal(
    *,
    id: str,  # noqa: A002
    kind: str,
    artifact: Artifact,
    tenant: str,
    created: Instant,
    source_run_ids: tuple[str, ...] = (),
    title: str | None = None,
    rationale: str | None = None,
    duplicate_of: str | None = None,
    principal: str | None = None,
    synthesizer: str | None = None,
) -> Proposal:
    """A new draft. It must be well-formed for its kind: what we propose ourselves can be applied."""
    made: Proposal = {
        "id": id,
        "kind": kind,
        "state": "draft",
        "artifact": artifact,
        "provenance": {"sourceRunIds": list(source_run_ids)},
        "owner": {"tenant": tenant},
        "createdAt": format_instant(created),
        "duplicateOf": duplicate_of,
    }
    if principal is not None:
        made["owner"]["principal"] = principal
    if synthesizer is not None:
        made["provenance"]["synthesizerModel"] = synthesizer
    made.update((name, text) for name, text in (("title", title), ("rationale", rationale)) if text)
    check_artifact(kind, artifact)
    return check_proposal(made)


def check_proposal(value: object) -> Proposal:
    """A Proposal from untrusted JSON, as it was given. The artifact need not be well-formed until it is applied."""
    found = closed_object(value, _FIELDS, "proposal")
    require(found, _FIELDS[:7], "proposal")
    check_id(found["id"], "proposal.id")
    check_word(found["kind"], PROPOSAL_KINDS, "proposal.kind")
    check_word(found["state"], STATES, "proposal.state")
    _check_size(an_object(found["artifact"], "proposal.artifact"))
    _check_provenance(found["provenance"])
    check_owner(found["owner"], "proposal.owner")
    for name in ("createdAt", "updatedAt"):
        if name in found:
            check_time(found[name], f"proposal.{name}")
    for name, limit in (("title", MAX_TITLE_CHARS), ("rationale", MAX_RATIONALE_CHARS)):
        if name in found:
            check_text(found[name], f"proposal.{name}", limit)
    if found.get("duplicateOf") is not None:
        check_id(found["duplicateOf"], "proposal.duplicateOf")
    _check_activation(found.get("activation"), found["state"])
    return found


def _check_size(artifact: Artifact) -> None:
    size_bytes = len(json_text.dump(artifact))
    if size_bytes > MAX_ARTIFACT_BYTES:
        raise TooLarge(f"proposal.artifact has {size_bytes} bytes; the limit is {MAX_ARTIFACT_BYTES}")


def _check_provenance(value: object) -> None:
    found = closed_object(value, ("sourceRunIds", "synthesizerModel"), "proposal.provenance")
    require(found, ("sourceRunIds",), "proposal.provenance")
    check_texts(
        found["sourceRunIds"],
        "proposal.provenance.sourceRunIds",
        max_items=MAX_SOURCE_RUNS,
        max_chars=MAX_RUN_ID_CHARS,
    )
    if "synthesizerModel" in found:
        check_text(found["synthesizerModel"], "proposal.provenance.synthesizerModel", MAX_TITLE_CHARS)


def _check_activation(value: object, state: str) -> None:
    if value is None:
        return
    if state != "applied":
        raise InvalidInput("proposal.activation must only be there when the proposal was applied")
    found = closed_object(value, ("approvalId", "installedArtifactRef"), "proposal.activation")
    for name, text in found.items():
        if text is not None or name != "approvalId":
            check_text(text, f"proposal.activation.{name}", MAX_ID_CHARS)


# --- moves -------------------------------------------------------------------------------------------


class Revision(OpenwopShape):
    """What a PATCH may change; it never activates."""

    title: Annotated[str, chars(MAX_TITLE_CHARS)] | None = None
    rationale: Annotated[str, chars(MAX_RATIONALE_CHARS)] | None = None
    artifact: Artifact | None = None

    def __post_init__(self) -> None:
        if self.title is None and self.rationale is None and self.artifact is None:
            raise InvalidInput("the request must change title, rationale or artifact")
        if self.artifact is not None:
            _check_size(self.artifact)


def revised(current: Proposal, revision: Revision, at: Instant) -> Proposal:
    """The proposal with other words or another artifact."""
    changes = {"title": revision.title, "rationale": revision.rationale, "artifact": revision.artifact}
    given = {name: value for name, value in changes.items() if value is not None}
    return _moved(current, "revised", at, **given)


def applied(current: Proposal, at: Instant, *, installed_ref: str, approval_id: str | None = None) -> Proposal:
    """The proposal after its artifact was installed. Whoever calls this has been authorised; see `check_applicable`."""
    check_applicable(current)
    activation = {"approvalId": approval_id, "installedArtifactRef": installed_ref}
    return _moved(current, "applied", at, activation=activation)


def rejected(current: Proposal, at: Instant) -> Proposal:
    """The proposal, declined. Why is a matter for the audit log; the record has no room for it."""
    return _moved(current, "rejected", at)


def archived(current: Proposal, at: Instant) -> Proposal:
    """The proposal, put away."""
    return _moved(current, "archived", at)


def check_applicable(current: Proposal) -> None:
    """Raises Conflict for a proposal that is past applying, WorkflowError (422) for a malformed artifact."""
    _check_move(current, "applied")
    try:
        check_artifact(current["kind"], current["artifact"])
    except InvalidInput as error:
        raise WorkflowError(
            error.message,
            openwop_code=MALFORMED_ARTIFACT,
            details={"proposalId": current["id"], "kind": current["kind"]},
        ) from None


def artifact_bytes(current: Proposal) -> bytes:
    """What is installed, byte for byte what is kept (proposal-no-resynthesis); in the order that it came in."""
    return json_text.dump(current["artifact"])


def created_payload(current: Proposal) -> dict[str, Any]:
    """The payload of `proposal.created`: ids, no artifact, no words."""
    return {
        "proposalId": current["id"],
        "kind": current["kind"],
        "sourceRunIds": list(current["provenance"]["sourceRunIds"]),
        "duplicateOf": current.get("duplicateOf"),
    }


def activated_payload(current: Proposal) -> dict[str, Any]:
    """The payload of `proposal.activated`."""
    activation = current["activation"]
    return {
        "proposalId": current["id"],
        "kind": current["kind"],
        "installedArtifactRef": activation["installedArtifactRef"],
        "approvalId": activation["approvalId"],
    }


CREATED: Final = PROPOSAL_CREATED
ACTIVATED: Final = PROPOSAL_ACTIVATED


def _check_move(current: Proposal, state: State) -> None:
    allowed = next(moves for name, moves in MOVES.items() if name == current["state"])
    if state not in allowed:
        raise Conflict(f"a proposal that is {current['state']} cannot be {state}")


def _moved(current: Proposal, state: State, at: Instant, **changes: object) -> Proposal:
    _check_move(current, state)
    return check_proposal({**current, **changes, "state": state, "updatedAt": format_instant(at)})


# --- redaction ---------------------------------------------------------------------------------------


def unsafe_fields(current: Proposal, secrets: Secrets | None = None) -> list[str]:
    """Where a proposal says what it must not (SR-1): values of the run's secrets, or what looks like a secret."""
    return [
        where for where, text in _texts(current) if (secrets is not None and secrets.is_in(text)) or bool(detect(text))
    ]


def check_safe(current: Proposal, secrets: Secrets | None = None) -> None:
    """Raises InvalidInput that names the fields, and never what stands in them."""
    unsafe = unsafe_fields(current, secrets)
    if unsafe:
        raise InvalidInput(f"a proposal must hold no secret, but something looks like one in {', '.join(unsafe[:5])}")


def redacted_words(text: str, secrets: Secrets | None = None) -> str:
    """A title or a rationale that is safe to keep."""
    clean = text if secrets is None else secrets.redact(text).text
    return hide(clean, detect(clean))


def _texts(current: Proposal) -> Iterator[tuple[str, str]]:
    """Every string of a proposal that somebody wrote or that was taken from a run, with where it stands."""
    parts = {name: current[name] for name in ("title", "rationale", "provenance", "artifact") if name in current}
    pending: list[tuple[str, object]] = list(reversed(parts.items()))
    while pending:
        where, value = pending.pop()
        if isinstance(value, str):
            yield where, value
        elif isinstance(value, dict):
            yield from ((f"{where}'s names", str(name)) for name in value)
            pending.extend((f"{where}.{name}", member) for name, member in reversed(value.items()))
        elif isinstance(value, list):
            pending.extend((f"{where}[{index}]", item) for index, item in reversed(list(enumerate(value))))
