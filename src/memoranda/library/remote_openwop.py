"""openwop over a server: entries, files, schedules and proposals, with the verbs that they have over a store.

Runs, their logs and secrets, and what a host does in between, are the host's own: its programs speak openwop with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import to_builtins

from memoranda.errors import NotFound, Unsupported

if TYPE_CHECKING:
    from memoranda.library.connection import Connection
    from memoranda.standards.openwop.entry import Draft, Entry, ListOptions
    from memoranda.standards.openwop.proposals import Proposal, Revision

_FILES: Final = "/v1/host/workspace/files"
_PROPOSALS: Final = "/v1/host/sample/proposals"
_SCHEDULES: Final = "/v1/host/schedules"


class RemoteOpenwop:
    """openwop over a server."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(
            f"openwop.{name}: this memory is on a server, and runs and what a host does by itself are its own"
        )

    def agents(self) -> dict[str, Any]:
        """The agents that were installed, and which of them get less memory than they ask for."""
        return dict(self._server.get("/v1/agents"))

    def list_entries(self, ref: str, options: ListOptions | None = None) -> list[Entry]:
        """The entries of a ref, the newest first."""
        found: list[Entry] = self._server.get(_entries(ref), **({} if options is None else _said(options)))["entries"]
        return found

    def get_entry(self, ref: str, entry_id: str) -> Entry | None:
        """One entry of a ref, or None."""
        try:
            found: Entry = self._server.get(_entries(ref, entry_id))
        except NotFound:
            return None
        return found

    def put_entry(self, ref: str, draft: Draft, *, entry_id: str | None = None) -> Entry:
        """Write an entry; under an id, if one is chosen."""
        method, path = ("POST", _entries(ref)) if entry_id is None else ("PUT", _entries(ref, entry_id))
        found: Entry = self._server.ask(method, path, _said(draft)).document
        return found

    def delete_entry(self, ref: str, entry_id: str) -> bool:
        """Take an entry out of every later answer; whether there was one."""
        return self._removed(_entries(ref, entry_id))

    def forget(self, ref: str, subject: str) -> int:
        """Forget what is about a subject; how many went."""
        asked = {"memoryRef": ref, "subject": subject}
        return int(self._server.post("/v1/host/memory/forget", asked)["forgotten"])

    def file(self, path: str, version: int | None = None) -> dict[str, Any]:
        """A workspace file, as it is or as it was. Raises NotFound."""
        return dict(self._server.get(_file(path), version=version))

    def files(self, prefix: str = "") -> list[dict[str, Any]]:
        """All workspace files that begin so."""
        return list(self._server.get(_FILES, prefix=prefix or None)["files"])

    def write_file(
        self,
        path: str,
        content: str,
        *,
        content_type: str = "text/markdown",
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> dict[str, Any]:
        """Write the next version of a workspace file."""
        asked = {"content": content, "contentType": content_type}
        headers = _given({"If-Match": if_match, "If-None-Match": if_none_match})
        return dict(self._server.ask("PUT", _file(path), asked, headers=headers).document)

    def remove_file(self, path: str, *, if_match: str | None = None) -> bool:
        """Take a workspace file away; whether there was one."""
        return self._removed(_file(path), headers=_given({"If-Match": if_match}))

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

    def _removed(self, path: str, *, body: object = None, headers: Mapping[str, str] | None = None) -> bool:
        try:
            self._server.ask("DELETE", path, body, headers=headers)
        except NotFound:
            return False
        return True


def _entries(ref: str, *entry_id: str) -> str:
    return "/".join(("/v1/memory", *(quote(each, safe="") for each in (ref, *entry_id))))


def _file(path: str) -> str:
    return f"{_FILES}/{quote(path)}"


def _proposal(proposal_id: str) -> str:
    return f"{_PROPOSALS}/{quote(proposal_id, safe='')}"


def _said(shape: Any) -> dict[str, Any]:
    """What was said of it, in the words of openwop."""
    return _given(to_builtins(shape))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
