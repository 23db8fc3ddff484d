"""openwop for bindings and hosts: the adapter, runs and their logs, workspace, and what is done in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.openwop import commitments as wop_commitments
from memoranda.service.openwop import distill as wop_distill
from memoranda.service.openwop import host, memory, probes, workspace
from memoranda.service.openwop import proposals as wop_proposals
from memoranda.service.openwop import runs as wop_runs
from memoranda.service.openwop import schedule as wop_schedule
from memoranda.service.openwop.commitments import Commitment
from memoranda.service.openwop.runs import Run
from memoranda.standards.openwop.entry import Draft, Entry, ListOptions
from memoranda.standards.openwop.events import MEMORY_TYPES, Event
from memoranda.standards.openwop.proposals import Proposal, Revision

# What is in a log because it was done here, and cannot be claimed.
RECORDED: Final = MEMORY_TYPES | {"run.started", *(f"run.{status}" for status in wop_runs.TERMINAL)}


class Probes:
    """What a conformance suite asks for; for a server that is started for one."""

    fixtures: Final = tuple(probes.FIXTURES)

    def __init__(self, context: Context) -> None:
        self._context = context

    def run(self, access: Access, workflow_id: str, **about: Any) -> Run:
        """Do what a fixture says. `about`: tags, metadata."""
        return probes.run_fixture(self._context, access, workflow_id, **about)

    def seed(self, access: Access, ref: str, drafts: list[Draft]) -> list[str]:
        """Write entries; their ids."""
        return probes.seed(self._context, access, ref, drafts)

    def distill(self, access: Access, ref: str, **how: Any) -> wop_distill.Distilled:
        """Distil given sources. `how`: token_budget, given, is_indexed, has_canary."""
        return probes.distill(self._context, access, ref, **how)

    def consolidate(
        self, access: Access, ref: str, *, has_canary: bool
    ) -> tuple[wop_distill.Consolidated, bool | None]:
        """Consolidate, and whether a secret came out of it."""
        return probes.consolidate(self._context, access, ref, has_canary=has_canary)

    def fire(self, access: Access, ref: str, condition: str) -> tuple[Event | None, Commitment, str]:
        """State a commitment, find it, fire it twice; what came of it, and words that it holds."""
        return probes.fire(self._context, access, ref, condition)


class RunMemory:
    """What a node of a run gets as `ctx.memory`: list and get, as the store was when the run began (read only)."""

    def __init__(self, context: Context, access: Access, run_id: str) -> None:
        self._context, self._access, self._run_id = context, access, run_id

    def list(self, memory_ref: str, options: object = None) -> list[Entry]:
        """The entries of a ref, the newest first; `options` as MemoryListOptions."""
        asked = options if isinstance(options, ListOptions) else ListOptions.parse(options)
        return memory.list_entries(self._context, self._access, memory_ref, asked, run_id=self._run_id)

    def get(self, memory_ref: str, memory_id: str) -> Entry | None:
        """One entry, or None."""
        return memory.get_entry(self._context, self._access, memory_ref, memory_id, run_id=self._run_id)


class Openwop:
    """One tenant's side of openwop, for whoever calls."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.probes = Probes(context)

    # --- the host ----------------------------------------------------------------------------------------

    def discovery(self, *, is_attended: bool, fixtures: tuple[str, ...] = ()) -> dict[str, Any]:
        """What this host claims. `is_attended`: an upkeep thread does what falls due."""
        return host.discovery(self._context, is_attended=is_attended, fixtures=fixtures)

    def agents(self, access: Access) -> dict[str, Any]:
        """The agents that were installed, and which of them get less memory than they ask for."""
        access.require_all()
        return host.agents(self._context, wop_proposals.installed(self._context, access))

    # --- memory ------------------------------------------------------------------------------------------

    def list_entries(
        self, access: Access, ref: object, options: ListOptions | None = None, *, run_id: str | None = None
    ) -> list[Entry]:
        """The entries of a ref, the newest first."""
        return memory.list_entries(self._context, access, ref, options, run_id=run_id)

    def get_entry(self, access: Access, ref: object, entry_id: object, *, run_id: str | None = None) -> Entry | None:
        """One entry of a ref, or None."""
        return memory.get_entry(self._context, access, ref, entry_id, run_id=run_id)

    def put_entry(self, access: Access, ref: str, draft: Draft, **attribution: Any) -> Entry:
        """Write an entry. `attribution`: run_id, node_id, agent_id."""
        return memory.put_entry(self._context, access, ref, draft, **attribution)

    def put_entries(self, access: Access, ref: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Write many entries, all or none."""
        return memory.put_entries(self._context, access, ref, drafts)

    def delete_entry(self, access: Access, ref: str, entry_id: str) -> bool:
        """Take an entry out of later answers."""
        return memory.delete_entry(self._context, access, ref, entry_id)

    def forget(self, access: Access, ref: str, subject: str) -> int:
        """Take all entries about a subject out of later answers; how many."""
        return host.forget(self._context, access, ref, subject)

    # --- runs --------------------------------------------------------------------------------------------

    def begin_run(self, access: Access, workflow_id: str, **about: Any) -> Run:
        """Start a host's run; its view of the store is what is there now. `about`: run_id, agent, tags, metadata."""
        access.require("write")
        access.require_all()
        now = self._context.clock()
        return self._context.engine.write(
            access.default_tenant, lambda unit: wop_runs.begin(unit, workflow_id=workflow_id, now=now, **about)
        )

    def memory_of(self, access: Access, run_id: str) -> RunMemory:
        """`ctx.memory` for the nodes of a run."""
        wop_runs.get(self._context, access, run_id)
        return RunMemory(self._context, access, run_id)

    def resolve_secret(self, access: Access, run_id: str, secret_id: str) -> str:
        """A secret for a run; what the run writes from now on does not hold it."""
        access.require_all()
        return host.resolve_secret(self._context, access, run_id, secret_id)

    def emit(
        self,
        access: Access,
        run_id: str,
        type: str,  # noqa: A002
        payload: dict[str, Any],
        *,
        node_id: str | None = None,
    ) -> Event:
        """Append an event to a run's log: whatever a host has to say that is not the record of something done here."""
        access.require("write")
        access.require_all()
        if type in RECORDED:
            raise InvalidInput(f"type: {type} is written by what it reports")
        now, run = self._context.clock(), (access.default_tenant, run_id)
        clean, node = (self._context.secrets.redacted_value(value, run) for value in (payload, node_id))

        def work(unit: Any) -> Event:
            wop_runs.load_open(unit, run_id)
            return wop_runs.emit(unit, run_id, type, clean, now=now, node_id=node)

        return self._context.engine.write(access.default_tenant, work)

    def finish_run(
        self,
        access: Access,
        run_id: str,
        *,
        status: str = "completed",
        variables: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> Run:
        """End a run; its secrets are forgotten."""
        access.require("write")
        access.require_all()
        if status not in wop_runs.TERMINAL:
            raise InvalidInput(f"status must be one of {', '.join(sorted(wop_runs.TERMINAL))}")
        now, key, secrets = self._context.clock(), (access.default_tenant, run_id), self._context.secrets
        shown, failure = secrets.redacted_value(variables, key), secrets.redacted_value(error, key)

        def work(unit: Any) -> Run:
            run = wop_runs.load_open(unit, run_id)
            return wop_runs.finish(unit, run, now=now, status=status, variables=shown, error=failure)

        done = self._context.engine.write(access.default_tenant, work)
        secrets.end(key)
        return done

    def run(self, access: Access, run_id: str) -> Run:
        """One run. Raises NotFound."""
        access.require_all()
        return wop_runs.get(self._context, access, run_id)

    def runs(self, access: Access, *, before: Instant | None = None, limit: int = host.MAX_RUNS) -> list[Run]:
        """Runs, the last started first."""
        access.require_all()
        return host.runs(self._context, access, before=before, limit=limit)

    def snapshot(self, access: Access, run_id: str) -> dict[str, Any]:
        """A run as others see it, with the memories that its variables name. Raises NotFound."""
        access.require_all()
        return host.snapshot(self._context, access, run_id)

    def register_secret(self, access: Access, run_id: str, secret_id: str, value: str) -> bool:
        """Let a value that the host resolved for a run never be stored by it; False if it is too short to be told."""
        access.require_all()
        return host.register_secret(self._context, access, run_id, secret_id, value)

    def events(self, access: Access, run_id: str, *, after: int = -1) -> tuple[list[Event], bool]:
        """The events of a run after a sequence, and whether there will be no more."""
        access.require_all()
        return wop_runs.read_events(self._context, access, run_id, after=after)

    def fork(self, access: Access, run_id: str, *, mode: str, from_seq: int) -> Run:
        """Another run with the facts of this one."""
        access.require_all()
        return wop_runs.fork(self._context, access, run_id, mode=mode, from_seq=from_seq)

    # --- background --------------------------------------------------------------------------------------

    def compact(self, access: Access, ref: str) -> wop_distill.Compacted:
        """Put one entry in the place of all entries of a ref."""
        return wop_distill.compact(self._context, access, ref)

    def distill(
        self,
        access: Access,
        ref: str,
        *,
        token_budget: int | None = None,
        is_indexed: bool = True,
        given: Sequence[str] | None = None,
        run_id: str | None = None,
        of_archives: bool = False,
    ) -> wop_distill.Distilled:
        """Make an archive of a ref, or of its archives, within a budget of tokens."""
        return wop_distill.distill(
            self._context,
            access,
            ref,
            token_budget=token_budget,
            is_indexed=is_indexed,
            given=given,
            run_id=run_id,
            of_archives=of_archives,
        )

    def consolidate(self, access: Access, ref: str, *, trigger: str = "on-demand") -> wop_distill.Consolidated:
        """Take out of a ref what is said twice and what was overtaken."""
        return wop_distill.consolidate(self._context, access, ref, trigger=trigger)

    def undo_consolidation(self, access: Access, run_id: str) -> int:
        """Bring back what a consolidation took out."""
        access.require_all()
        return wop_distill.undo(self._context, access, run_id)

    def schedule(self, access: Access, ref: str, cron: str, *, token_budget: int | None = None) -> dict[str, Any]:
        """Distil a ref whenever a cron expression says."""
        access.require_all()
        return wop_schedule.schedule(self._context, access, ref, cron, token_budget=token_budget)

    def unschedule(self, access: Access, ref: str) -> bool:
        """Distil it no longer by itself."""
        access.require_all()
        return wop_schedule.unschedule(self._context, access, ref)

    def schedules(self, access: Access) -> list[dict[str, Any]]:
        """What is distilled by itself, and when next."""
        access.require_all()
        return wop_schedule.schedules(self._context, access)

    def tick(self) -> int:
        """Do what is due now in every tenant; the upkeep thread does this by itself."""
        return wop_schedule.tick(self._context)

    # --- commitments -------------------------------------------------------------------------------------

    def watch_commitments(self, access: Access, ref: str, *, is_watched: bool = True) -> None:
        """Look for commitments in what is written to a ref, or no longer."""
        access.require_all()
        wop_schedule.watch(self._context, access, ref, is_watched=is_watched)

    def infer_commitments(self, access: Access, ref: str) -> list[Commitment]:
        """Find the commitments in the memories of a ref, now."""
        return wop_commitments.infer(self._context, access, ref)

    def commitments(self, access: Access, ref: str | None = None) -> list[Commitment]:
        """The commitments that are known."""
        access.require_all()
        return wop_commitments.listing(self._context, access, ref)

    def cancel_commitment(self, access: Access, commitment_id: str) -> Commitment:
        """It is not to fire any more."""
        access.require_all()
        return wop_commitments.cancel(self._context, access, commitment_id)

    def snooze_commitment(self, access: Access, commitment_id: str, until: Instant) -> Commitment:
        """It is to fire later."""
        access.require_all()
        return wop_commitments.snooze(self._context, access, commitment_id, until)

    def fire_commitment(
        self, access: Access, commitment_id: str, *, condition: str | None = None
    ) -> tuple[Event | None, Commitment]:
        """Fire one as if its condition held now; at most once for it."""
        access.require_all()
        return wop_commitments.fire_now(self._context, access, commitment_id, condition=condition)

    # --- proposals ---------------------------------------------------------------------------------------

    def synthesise_proposals(self, access: Access) -> list[Proposal]:
        """Propose what the recorded runs suggest; only what is new."""
        access.require_all()
        return wop_proposals.synthesise_proposals(self._context, access)

    def propose(self, access: Access, kind: str, artifact: Mapping[str, Any], **words: Any) -> Proposal:
        """Propose something by hand. `words`: title, rationale, source_run_ids."""
        access.require_all()
        return wop_proposals.propose(self._context, access, kind, artifact, **words)

    def proposals(self, access: Access, *, state: str | None = None, kind: str | None = None) -> list[Proposal]:
        """The proposals there are, oldest first."""
        access.require_all()
        return wop_proposals.listing(self._context, access, state=state, kind=kind)

    def proposal(self, access: Access, proposal_id: str) -> Proposal:
        """One proposal. Raises NotFound."""
        access.require_all()
        return wop_proposals.get(self._context, access, proposal_id)

    def revise_proposal(self, access: Access, proposal_id: str, revision: Revision) -> Proposal:
        """Change its words or its artifact; it stays inert."""
        access.require_all()
        return wop_proposals.revise(self._context, access, proposal_id, revision)

    def reject_proposal(self, access: Access, proposal_id: str, *, reason: str = "") -> Proposal:
        """Decline it."""
        access.require_all()
        return wop_proposals.reject(self._context, access, proposal_id, reason=reason)

    def archive_proposal(self, access: Access, proposal_id: str) -> Proposal:
        """Put it away."""
        access.require_all()
        return wop_proposals.archive(self._context, access, proposal_id)

    def approve_proposal(self, access: Access, proposal_id: str) -> str:
        """Approve it as it is now; the approval's id. Needs the activation right."""
        access.require_all()
        return wop_proposals.approve(self._context, access, proposal_id)

    def apply_proposal(self, access: Access, proposal_id: str, *, approval_id: str | None = None) -> Proposal:
        """Install its artifact: with the activation right, or an approval of exactly what is kept."""
        access.require_all()
        return wop_proposals.apply(self._context, access, proposal_id, approval_id=approval_id)

    def installed(self, access: Access) -> dict[str, Any]:
        """The artifacts in force, by their refs."""
        access.require_all()
        return wop_proposals.installed(self._context, access)

    # --- workspace ---------------------------------------------------------------------------------------

    def file(self, access: Access, path: str, version: int | None = None) -> dict[str, Any]:
        """A workspace file, as it is or as it was. Raises NotFound."""
        access.require_all()
        access.require("read")
        with self._context.engine.read(access.default_tenant) as snapshot:
            found = workspace.read(snapshot, path, version)
        if found is None:
            raise NotFound("no such workspace file")
        return found

    def files(self, access: Access, prefix: str = "") -> list[dict[str, Any]]:
        """All workspace files that begin so."""
        access.require_all()
        access.require("read")
        with self._context.engine.read(access.default_tenant) as snapshot:
            return workspace.listing(snapshot, prefix)

    def write_file(
        self,
        access: Access,
        path: str,
        content: str,
        *,
        content_type: str = "text/markdown",
        if_match: str | None = None,
        if_none_match: str | None = None,
        run_id: str | None = None,
    ) -> dict[str, Any]:
        """Write the next version of a workspace file: for a run, without its secrets and on its log (WSR-1)."""
        access.require("write")
        access.require_all()
        now, secrets = self._context.clock(), self._context.secrets
        key = None if run_id is None else (access.default_tenant, run_id)
        if key is not None and secrets.holds(path, key):
            raise InvalidInput("path: holds a secret of the run")
        clean = secrets.redacted_text(content, key, "file")
        how: dict[str, Any] = {"content_type": content_type, "if_match": if_match, "if_none_match": if_none_match}

        def work(unit: Any) -> dict[str, Any]:
            if run_id is not None:
                wop_runs.load_open(unit, run_id)
                return workspace.write(unit, path, clean, now=now, run_id=run_id, **how)
            run = wop_runs.begin(unit, workflow_id=f"{wop_runs.HOST_WORKFLOW}workspace", now=now)
            file = workspace.write(unit, path, clean, now=now, run_id=run.run_id, **how)
            wop_runs.finish(unit, run, now=now)
            return file

        return self._context.engine.write(access.default_tenant, work)

    def remove_file(self, access: Access, path: str, *, if_match: str | None = None) -> bool:
        """Take a workspace file away."""
        access.require("write")
        access.require_all()
        return self._context.engine.write(
            access.default_tenant, lambda unit: workspace.remove(unit, path, if_match=if_match)
        )
