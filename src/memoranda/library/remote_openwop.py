"""openwop over a server: entries, files, schedules, commitments and proposals, with the verbs that a store has.

Runs are in `remote_runs`. What only the process that has the store can do is said in `NOT_OVER_A_WIRE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import to_builtins

from memoranda.errors import NotFound, Unsupported
from memoranda.library.remote_runs import RemoteRuns, host_run
from memoranda.model.instant import Instant, format_instant

if TYPE_CHECKING:
    from memoranda.service.openwop.commitments import Commitment
    from memoranda.standards.openwop.entry import Draft, Entry, ListOptions
    from memoranda.standards.openwop.events import Event
    from memoranda.standards.openwop.proposals import Proposal, Revision

_FILES: Final = "/v1/host/workspace/files"
_COMMITMENTS: Final = "/v1/host/commitments"
_PROPOSALS: Final = "/v1/host/sample/proposals"
_SCHEDULES: Final = "/v1/host/schedules"


# Why a server does not do it for others.
NOT_OVER_A_WIRE: Final = {
    "resolve_secret": "the secrets that a server's resolvers know never leave it; register_secret tells it of one",
    "claim": "what was done under an Idempotency-Key, a server keeps by itself",
    "settle": "what was done under an Idempotency-Key, a server keeps by itself",
    "registered_webhook": "the secret of a webhook is told once, to who registers it",
    "tick": "what falls due for all owners, a server does by itself",
}


class RemoteOpenwop(RemoteRuns):
    """openwop over a server."""

    def __getattr__(self, name: str) -> Any:
        if (why := NOT_OVER_A_WIRE.get(name)) is None:
            raise AttributeError(f"openwop has no verb {name!r}")
        raise Unsupported(f"openwop.{name}: this memory is on a server, and {why}")

    def discovery(self, *, is_attended: bool = True, fixtures: tuple[str, ...] = ()) -> dict[str, Any]:
        """What the server claims; it knows itself whether it is attended."""
        del is_attended, fixtures
        return dict(self._server.get("/.well-known/openwop"))

    def agents(self) -> dict[str, Any]:
        """The agents that were installed, and which of them get less memory than they ask for."""
        return dict(self._server.get("/v1/agents"))

    def list_entries(self, ref: str, options: ListOptions | None = None, *, run_id: str | None = None) -> list[Entry]:
        """The entries of a ref, the newest first; or as a run sees them."""
        asked = {} if options is None else _said(options)
        found: list[Entry] = self._server.get(_entries(ref, run_id=run_id), **asked)["entries"]
        return found

    def get_entry(self, ref: str, entry_id: str, *, run_id: str | None = None) -> Entry | None:
        """One entry of a ref, or None; or as a run sees it."""
        try:
            found: Entry = self._server.get(_entries(ref, entry_id, run_id=run_id))
        except NotFound:
            if run_id is not None:
                # Of a run that is not there it is said.
                self.run(run_id)
            return None
        return found

    def put_entry(
        self,
        ref: str,
        draft: Draft,
        *,
        entry_id: str | None = None,
        run_id: str | None = None,
        node_id: str | None = None,
        agent_id: str | None = None,
    ) -> Entry:
        """Write an entry; under an id, if one is chosen, and in a run, if one is named."""
        named = () if entry_id is None else (entry_id,)
        said = {**_said(draft), **_given({"nodeId": node_id, "agentId": agent_id})}
        path = _entries(ref, *named, run_id=run_id)
        found: Entry = self._server.ask("PUT" if named else "POST", path, said).document
        return found

    def put_entries(self, ref: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Write many entries, all or none."""
        asked = {"memoryRef": ref, "entries": [_said(draft) for draft in drafts]}
        made = self._server.post("/v1/host/memory/entries", asked)["ids"]
        return [self._server.get(_entries(ref, each)) for each in made]

    def delete_entry(self, ref: str, entry_id: str) -> bool:
        """Take an entry out of every later answer; whether there was one."""
        return self._removed(_entries(ref, entry_id))

    def forget(self, ref: str, subject: str) -> int:
        """Forget what is about a subject; how many went."""
        asked = {"memoryRef": ref, "subject": subject}
        return int(self._server.post("/v1/host/memory/forget", asked)["forgotten"])

    def file(self, path: str, version: int | None = None, *, run_id: str | None = None) -> dict[str, Any]:
        """A workspace file, as it is, as it was, or as a run sees it. Raises NotFound."""
        return dict(self._server.get(_file(path, run_id), version=version))

    def files(self, prefix: str = "", *, run_id: str | None = None) -> list[dict[str, Any]]:
        """All workspace files that begin so."""
        return list(self._server.get(_files(run_id), prefix=prefix or None)["files"])

    def write_file(
        self,
        path: str,
        content: str,
        *,
        content_type: str = "text/markdown",
        if_match: str | None = None,
        if_none_match: str | None = None,
        run_id: str | None = None,
    ) -> dict[str, Any]:
        """Write the next version of a workspace file."""
        asked = {"content": content, "contentType": content_type}
        headers = _given({"If-Match": if_match, "If-None-Match": if_none_match})
        return dict(self._server.ask("PUT", _file(path, run_id), asked, headers=headers).document)

    def remove_file(self, path: str, *, if_match: str | None = None, run_id: str | None = None) -> bool:
        """Take a workspace file away; whether there was one."""
        return self._removed(_file(path, run_id), headers=_given({"If-Match": if_match}))

    def commitments(self, ref: str | None = None) -> list[Commitment]:
        """The commitments that are known, of a ref or of all."""
        return _promises(self._server.get(_COMMITMENTS, memoryRef=ref))

    def infer_commitments(self, ref: str) -> list[Commitment]:
        """Find the commitments in the memories of a ref; all that are known of it."""
        return _promises(self._server.post(f"{_COMMITMENTS}/infer", {"memoryRef": ref}))

    def cancel_commitment(self, commitment_id: str) -> Commitment:
        """It is not to fire any more."""
        return _promise(self._server.ask("POST", f"{_commitment(commitment_id)}/cancel").document)

    def snooze_commitment(self, commitment_id: str, until: Instant) -> Commitment:
        """It is to fire later."""
        asked = {"until": format_instant(until)}
        return _promise(self._server.post(f"{_commitment(commitment_id)}/snooze", asked))

    def fire_commitment(self, commitment_id: str, *, condition: str | None = None) -> tuple[Event | None, Commitment]:
        """Fire one as if its condition held now; None if it was fired for this already."""
        said = self._server.post(f"{_commitment(commitment_id)}/fire", _given({"condition": condition}))
        return said.get("event"), _promise(said["commitment"])

    def watch_commitments(self, ref: str, *, is_watched: bool = True) -> None:
        """Look for commitments in what is written to a ref, or look no more."""
        self._server.post("/v1/host/commitments/watch", {"memoryRef": ref, "watched": is_watched})

    def schedules(self) -> list[dict[str, Any]]:
        """What is distilled by itself, and when."""
        return list(self._server.get(_SCHEDULES)["schedules"])

    def schedule(
        self, ref: str, cron: str, *, timezone: str | None = None, token_budget: int | None = None
    ) -> dict[str, Any]:
        """Distil a ref again and again."""
        asked = {"memoryRef": ref, "cron": cron, **_given({"timezone": timezone, "tokenBudget": token_budget})}
        return dict(self._server.ask("PUT", _SCHEDULES, asked).document)

    def unschedule(self, ref: str) -> bool:
        """Do it no more; whether it was."""
        return self._removed(_SCHEDULES, body={"memoryRef": ref})

    def proposals(self, *, state: str | None = None, kind: str | None = None) -> list[Proposal]:
        """The proposals there are, oldest first."""
        return list(self._server.get(_PROPOSALS, state=state, kind=kind)["proposals"])

    def proposal(self, proposal_id: str) -> Proposal:
        """One proposal. Raises NotFound."""
        found: Proposal = self._server.get(_proposal(proposal_id))
        return found

    def propose(
        self,
        kind: str,
        artifact: Mapping[str, Any],
        *,
        title: str | None = None,
        rationale: str | None = None,
        source_run_ids: tuple[str, ...] = (),
    ) -> Proposal:
        """Propose something by hand."""
        asked = {"kind": kind, "artifact": dict(artifact), **_given({"title": title, "rationale": rationale})}
        if source_run_ids:
            asked["sourceRunIds"] = list(source_run_ids)
        found: Proposal = self._server.post(_PROPOSALS, asked)
        return found

    def synthesise_proposals(self) -> list[Proposal]:
        """Look for habits in the recorded runs and propose what they suggest; only what is new."""
        return list(self._server.ask("POST", f"{_PROPOSALS}/synthesise").document["proposals"])

    def revise_proposal(self, proposal_id: str, revision: Revision) -> Proposal:
        """Change its words or its artifact; it stays inert."""
        found: Proposal = self._server.ask("PATCH", _proposal(proposal_id), _said(revision)).document
        return found

    def archive_proposal(self, proposal_id: str) -> Proposal:
        """Put it away."""
        found: Proposal = self._server.ask("DELETE", _proposal(proposal_id)).document
        return found

    def reject_proposal(self, proposal_id: str, *, reason: str = "") -> Proposal:
        """Decline it; why goes into the audit log."""
        found: Proposal = self._server.post(f"{_proposal(proposal_id)}/reject", {"reason": reason} if reason else {})
        return found

    def approve_proposal(self, proposal_id: str) -> str:
        """Approve it as it is now; the id of the approval."""
        return str(self._server.ask("POST", f"{_proposal(proposal_id)}/approve").document["approvalId"])

    def apply_proposal(self, proposal_id: str, *, approval_id: str | None = None) -> Proposal:
        """Install what it proposes."""
        self._server.post(f"{_proposal(proposal_id)}/apply", _given({"approvalId": approval_id}))
        return self.proposal(proposal_id)

    def installed(self) -> dict[str, Any]:
        """The artifacts in force, by their refs."""
        return dict(self._server.get("/v1/host/artifacts")["artifacts"])


def _promise(said: Mapping[str, Any]) -> Commitment:
    from memoranda.service.openwop.commitments import Commitment

    return Commitment.of(said)


def _promises(said: Mapping[str, Any]) -> list[Commitment]:
    return [_promise(each) for each in said["commitments"]]


def _commitment(commitment_id: str) -> str:
    return f"{_COMMITMENTS}/{quote(commitment_id, safe='')}"


def _entries(ref: str, *entry_id: str, run_id: str | None = None) -> str:
    begin = "/v1/memory" if run_id is None else f"{host_run(run_id)}/memory"
    return "/".join((begin, *(quote(each, safe="") for each in (ref, *entry_id))))


def _files(run_id: str | None) -> str:
    return _FILES if run_id is None else f"{host_run(run_id)}/workspace/files"


def _file(path: str, run_id: str | None) -> str:
    return f"{_files(run_id)}/{quote(path)}"


def _proposal(proposal_id: str) -> str:
    return f"{_PROPOSALS}/{quote(proposal_id, safe='')}"


def _said(shape: Any) -> dict[str, Any]:
    """What was said of it, in the words of openwop."""
    return _given(to_builtins(shape))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
