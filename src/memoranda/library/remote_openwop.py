"""openwop over a server.

The body of the class has the verbs that take several requests, and those that need state of a host.

Most verbs of this class are not written here: the rows of the operations generate them (`library/remote_verbs.py`). A
verb is written by hand only if it takes several requests, or returns something other than the body of one answer. Names
and arguments must equal those of the local class, because `tests/test_library_parity.py` compares both.

A verb that no server offers is listed in NOT_OVER_A_WIRE with its reason, and raises an error that says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from memoranda.bindings.operations.openwop import OPERATIONS
from memoranda.errors import NotFound, WorkflowError
from memoranda.library.remote_verbs import RemoteVerbs
from memoranda.model.instant import Instant
from memoranda.service.openwop.commitments import Commitment
from memoranda.service.openwop.distill import (
    Compacted,
    Consolidated,
    Distilled,
    TokenBudgetExceededError,
)
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop.entry import Draft, Entry, ListOptions
from memoranda.standards.openwop.problem import TOKEN_BUDGET_EXCEEDED

if TYPE_CHECKING:
    from memoranda.standards.openwop.events import Event
    from memoranda.standards.openwop.proposals import Proposal
    from memoranda.storage.engine.contract import RunPosition

# The answer is JSON instead of a stream of events, with the events of every level.
_AS_JSON: Final = {"Accept": "application/json"}
_EVERYTHING: Final = "debug"
# Later than any event.
_AT_THE_END: Final = 999_999_999
# Runs in one answer.
MAX_RUNS: Final = 100
# Verbs that a server does not offer, and the reason.
NOT_OVER_A_WIRE: Final[Mapping[str, str]] = {
    "resolve_secret": "the secrets that a server's resolvers know never leave it; register_secret tells it of one",
    "claim": "what was done under an Idempotency-Key, a server keeps by itself",
    "settle": "what was done under an Idempotency-Key, a server keeps by itself",
    "registered_webhook": "the secret of a webhook is told once, to who registers it",
    "tick": "what falls due for all owners, a server does by itself",
}


class RemoteOpenwop(RemoteVerbs, rows=OPERATIONS, refused=NOT_OVER_A_WIRE):
    """openwop over a server."""

    def discovery(
        self, *, is_attended: bool = True, fixtures: tuple[str, ...] = ()
    ) -> dict[str, object]:
        """Return the claims of the server, which ignores the arguments: it has its own."""
        del is_attended, fixtures
        return dict(self._server.get("/.well-known/openwop"))

    # --- entries, commitments, proposals -----------------------------------------------------------------------------

    def get_entry(self, ref: str, entry_id: str, *, run_id: str | None = None) -> Entry | None:
        """Return an entry of a ref as a run sees it, or as it is now; None if there is none. Raises NotFound."""
        try:
            entry: Entry = self._document("get_entry", ref=ref, entry_id=entry_id, run_id=run_id)
        except NotFound:
            if run_id is not None:
                self.run(run_id)
            return None
        return entry

    def put_entries(self, ref: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Write many entries, all or none."""
        ids = self._document("put_entries", ref=ref, drafts=drafts)["ids"]
        return [self._document("get_entry", ref=ref, entry_id=entry_id) for entry_id in ids]

    def fire_commitment(
        self, commitment_id: str, *, condition: str | None = None
    ) -> tuple[Event | None, Commitment]:
        """Fire a commitment as if its condition held now; the event is None if it was fired for this already."""
        answer = self._document("fire_commitment", commitment_id=commitment_id, condition=condition)
        return answer.get("event"), Commitment.of(answer["commitment"])

    def watch_commitments(self, ref: str, *, is_watched: bool = True) -> None:
        """Search every later entry of a ref for commitments, or stop that."""
        self._answer("watch_commitments", ref=ref, is_watched=is_watched)

    def apply_proposal(
        self,
        proposal_id: str,
        *,
        approval_id: str | None = None,
        artifact_digest: str | None = None,
    ) -> Proposal:
        """Install the artifact of a proposal."""
        self._answer(
            "apply_proposal",
            proposal_id=proposal_id,
            approval_id=approval_id,
            artifact_digest=artifact_digest,
        )
        proposal: Proposal = self.proposal(proposal_id)
        return proposal

    # --- runs --------------------------------------------------------------------------------------------------------

    def begin_run(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        agent: Mapping[str, object] | None = None,
        tags: tuple[str, ...] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> Run:
        """Begin a host's run; its view of the store is the present one."""
        fields = {
            "workflow_id": workflow_id,
            "run_id": run_id,
            "agent": agent,
            "metadata": metadata,
        }
        return self._run(self._document("begin_run", **fields, tags=tags or None)["runId"])

    def _run(self, run_id: str) -> Run:
        run: Run = self.run(run_id)
        return run

    def memory_of(self, run_id: str) -> RemoteRunMemory:
        """Return `ctx.memory` for the nodes of a run."""
        self.run(run_id)
        return RemoteRunMemory(self, run_id)

    def cancel_run(self, run_id: str) -> Run:
        """Cancel a run."""
        self._answer("cancel_run", run_id=run_id)
        return self._run(run_id)

    def finish_run(
        self,
        run_id: str,
        *,
        status: str = "completed",
        variables: Mapping[str, object] | None = None,
        error: Mapping[str, object] | None = None,
    ) -> Run:
        """End a run; its secrets are forgotten."""
        self._answer("finish_run", run_id=run_id, status=status, variables=variables, error=error)
        return self._run(run_id)

    def fork(self, run_id: str, *, mode: str, from_seq: int) -> Run:
        """Start another run with the facts of this one."""
        return self._run(
            self._document("fork", run_id=run_id, mode=mode, from_seq=from_seq)["runId"]
        )

    def runs(
        self, *, before: Instant | RunPosition | None = None, limit: int = MAX_RUNS
    ) -> list[Run]:
        """Return the runs, the last started first: before an instant, or after a position in the list."""
        results: list[Run] = []
        start: dict[str, object] = {}
        if isinstance(before, tuple):
            start["cursor"] = "{}.{}".format(*before)
        elif before is not None:
            start["before"] = before
        wanted_count = min(limit, MAX_RUNS)
        while len(results) < wanted_count:
            answer = self._document("runs", whole=True, limit=wanted_count - len(results), **start)
            results += [Run.of(run) for run in answer["runs"]]
            if "nextCursor" not in answer:
                break
            start = {"cursor": answer["nextCursor"]}
        return results

    def events(self, run_id: str, *, after: int = -1) -> tuple[list[Event], bool]:
        """Return the events of a run after a sequence, and True if there will be no more."""
        last = after if after >= 0 else None
        how = {"run_id": run_id, "after": last, "stream_mode": _EVERYTHING}
        answer = self._answer("events", _headers=_AS_JSON, **how).document
        return answer["events"], answer["isComplete"]

    def all_events(self, *, after: int | None = None) -> tuple[list[tuple[int, Event]], int]:
        """Return the events of all runs after a position, and their end; None: from now on."""
        how = {"after": _AT_THE_END if after is None else after, "stream_mode": _EVERYTHING}
        answer = self._answer("all_events", _headers=_AS_JSON, **how).document
        return list(zip(answer["places"], answer["events"], strict=True)), answer["end"]

    # --- passes over the memory of a ref -----------------------------------------------------------------------------

    def compact(self, ref: str) -> Compacted:
        """Replace the entries of a ref by one."""
        answer = self._pass("compaction", ref)
        entry = self._entry_made(ref, answer["entryId"])
        return Compacted(run=Run.of(answer["run"]), event=answer["event"], entry=entry)

    def distill(
        self,
        ref: str,
        *,
        token_budget: int | None = None,
        is_indexed: bool = True,
        given: Sequence[str] | None = None,
        run_id: str | None = None,
        of_archives: bool = False,
    ) -> Distilled:
        """Make an archive of a ref within a budget of tokens.

        Raises TokenBudgetExceededError if the budget is too small for any summary.
        """
        how = {
            "token_budget": token_budget,
            "texts": None if given is None else list(given),
            "run_id": run_id,
        }
        try:
            answer = self._pass(
                "distillation", ref, **how, is_indexed=is_indexed, of_archives=of_archives
            )
        except WorkflowError as error:
            if error.openwop_code != TOKEN_BUDGET_EXCEEDED:
                raise
            budget, least = (
                int(str(error.details[name])) for name in ("budget", "minimumRequired")
            )
            raise TokenBudgetExceededError(budget, least) from None
        index = answer.get("index")
        return Distilled(
            run=Run.of(answer["run"]),
            event=answer["event"],
            entry=self._entry_made(ref, answer["entryId"]),
            checksum=answer["checksum"],
            index=None if index is None else self.file(index["path"], index["version"]),
        )

    def consolidate(self, ref: str) -> Consolidated:
        """Remove the entries of a ref that another entry makes redundant."""
        answer = self._pass("consolidation", ref)
        return Consolidated(
            run=Run.of(answer["run"]),
            event=answer["event"],
            taken=tuple(answer["taken"]),
            contradictions=tuple((one, other) for one, other in answer["contradictions"]),
            strengthened=answer["strengthened"],
        )

    def _pass(self, act: str, ref: str, **extra: object) -> Any:
        return self._document("openwop_pass", act=act, memory_ref=ref, **extra)

    def _entry_made(self, ref: str, entry_id: str) -> Entry:
        entry = self.get_entry(ref, entry_id)
        if entry is None:
            raise NotFound("the result of the run was deleted already")
        return entry


class RemoteRunMemory:
    """The `ctx.memory` of a node of a run, over a server."""

    def __init__(self, host: RemoteOpenwop, run_id: str) -> None:
        self._host, self._run_id = host, run_id

    def list(self, memory_ref: str, options: object = None) -> list[Entry]:
        """Return the entries of a ref, the newest first; `options` as MemoryListOptions."""
        request = options if isinstance(options, ListOptions) else ListOptions.parse(options)
        entries: list[Entry] = self._host.list_entries(memory_ref, request, run_id=self._run_id)
        return entries

    def get(self, memory_ref: str, memory_id: str) -> Entry | None:
        """Return one entry, or None."""
        return self._host.get_entry(memory_ref, memory_id, run_id=self._run_id)
