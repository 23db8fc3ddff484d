"""Runs of openwop over a server: begun, told and ended by a host that is elsewhere; their logs, passes and webhooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from memoranda.errors import NotFound, WorkflowError
from memoranda.model.instant import Instant, format_instant
from memoranda.standards.openwop.problem import TOKEN_BUDGET_EXCEEDED

if TYPE_CHECKING:
    from memoranda.library.connection import Connection
    from memoranda.service.openwop.distill import Compacted, Consolidated, Distilled
    from memoranda.service.openwop.runs import Run
    from memoranda.service.openwop.webhooks import Subscription
    from memoranda.standards.openwop.entry import Entry, ListOptions
    from memoranda.standards.openwop.events import Event
    from memoranda.storage.engine import RunPlace

_RUNS: Final = "/v1/host/runs"
_WEBHOOKS: Final = "/v1/webhooks"
# A log as JSON, and everything in it.
_AS_JSON: Final = {"Accept": "application/json"}
_EVERYTHING: Final = "debug"
# Later than any event.
_AT_THE_END: Final = 999_999_999
MAX_RUNS: Final = 100


class RemoteRuns(ABC):
    """The part of openwop that is about runs."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    @abstractmethod
    def list_entries(self, ref: str, options: ListOptions | None = None, *, run_id: str | None = None) -> list[Entry]:
        """The entries of a ref."""

    @abstractmethod
    def get_entry(self, ref: str, entry_id: str, *, run_id: str | None = None) -> Entry | None:
        """One entry of a ref."""

    @abstractmethod
    def file(self, path: str, version: int | None = None, *, run_id: str | None = None) -> dict[str, Any]:
        """A workspace file."""

    def begin_run(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        agent: Mapping[str, Any] | None = None,
        tags: tuple[str, ...] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Run:
        """Start a host's run; its view of the store is what is there now."""
        known = {"runId": run_id, "agent": agent, "tags": list(tags) or None, "metadata": metadata}
        asked = {name: value for name, value in known.items() if value is not None}
        return self.run(self._server.post(_RUNS, {"workflowId": workflow_id, **asked})["runId"])

    def memory_of(self, run_id: str) -> RemoteRunMemory:
        """`ctx.memory` for the nodes of a run."""
        self.run(run_id)
        return RemoteRunMemory(self, run_id)

    def emit(
        self,
        run_id: str,
        type: str,  # noqa: A002
        payload: dict[str, Any],
        *,
        node_id: str | None = None,
    ) -> Event:
        """Append an event to a run's log."""
        node = {} if node_id is None else {"nodeId": node_id}
        made: Event = self._server.post(f"{host_run(run_id)}/events", {"type": type, "payload": payload, **node})
        return made

    def finish_run(
        self,
        run_id: str,
        *,
        status: str = "completed",
        variables: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> Run:
        """End a run; its secrets are forgotten."""
        told = {"variables": variables, "error": error}
        said = {name: dict(value) for name, value in told.items() if value is not None}
        self._server.post(f"{host_run(run_id)}/finish", {"status": status, **said})
        return self.run(run_id)

    def fork(self, run_id: str, *, mode: str, from_seq: int) -> Run:
        """Another run with the facts of this one."""
        said = self._server.post(f"{_run(run_id)}:fork", {"mode": mode, "fromSeq": from_seq})
        return self.run(said["runId"])

    def run(self, run_id: str) -> Run:
        """One run."""
        from memoranda.service.openwop.runs import Run

        return Run.of(self._server.get(host_run(run_id)))

    def runs(self, *, before: Instant | RunPlace | None = None, limit: int = MAX_RUNS) -> list[Run]:
        """The runs, the last started first: before an instant, or after a place in the list."""
        from memoranda.service.openwop.runs import Run

        found: list[Run] = []
        asked: dict[str, Any] = {"whole": "true"}
        if isinstance(before, tuple):
            asked["cursor"] = "{}.{}".format(*before)
        elif before is not None:
            asked["before"] = format_instant(before)
        wanted = min(limit, MAX_RUNS)
        while len(found) < wanted:
            said = self._server.get(_RUNS, **asked, limit=wanted - len(found))
            found += [Run.of(each) for each in said["runs"]]
            if "nextCursor" not in said:
                break
            asked = {"whole": "true", "cursor": said["nextCursor"]}
        return found

    def snapshot(self, run_id: str) -> dict[str, Any]:
        """A run as others see it, with the memories that its variables name."""
        return dict(self._server.get(_run(run_id)))

    def events(self, run_id: str, *, after: int = -1) -> tuple[list[Event], bool]:
        """The events of a run after a sequence, and whether there will be no more."""
        asked = {"lastSequence": after if after >= 0 else None, "streamMode": _EVERYTHING}
        said = self._server.ask("GET", f"{_run(run_id)}/events", query=asked, headers=_AS_JSON).document
        return said["events"], said["isComplete"]

    def all_events(self, *, after: int | None = None) -> tuple[list[tuple[int, Event]], int]:
        """The events of all runs after a place among them, and where they end; None: from now on."""
        asked = {"lastSequence": _AT_THE_END if after is None else after, "streamMode": _EVERYTHING}
        said = self._server.ask("GET", "/v1/host/events", query=asked, headers=_AS_JSON).document
        return list(zip(said["places"], said["events"], strict=True)), said["end"]

    def register_secret(self, run_id: str, secret_id: str, value: str) -> bool:
        """Let a value that the host resolved for a run never be stored by it."""
        asked = {"secretId": secret_id, "value": value}
        return bool(self._server.post(f"{host_run(run_id)}/secrets", asked)["registered"])

    # --- passes ------------------------------------------------------------------------------------------------------

    def compact(self, ref: str) -> Compacted:
        """Put one entry in the place of the entries of a ref."""
        from memoranda.service.openwop.distill import Compacted
        from memoranda.service.openwop.runs import Run

        said = self._pass("compaction", ref)
        return Compacted(run=Run.of(said["run"]), event=said["event"], entry=self._made(ref, said["entryId"]))

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
        """Make an archive of a ref within a budget of tokens."""
        from memoranda.service.openwop.distill import Distilled, TokenBudgetExceededError
        from memoranda.service.openwop.runs import Run

        asked = {"tokenBudget": token_budget, "texts": None if given is None else list(given), "runId": run_id}
        try:
            said = self._pass("distillation", ref, **asked, isIndexed=is_indexed, ofArchives=of_archives)
        except WorkflowError as error:
            if error.openwop_code != TOKEN_BUDGET_EXCEEDED:
                raise
            budget, least = (int(str(error.details[name])) for name in ("budget", "minimumRequired"))
            raise TokenBudgetExceededError(budget, least) from None
        place = said.get("index")
        return Distilled(
            run=Run.of(said["run"]),
            event=said["event"],
            entry=self._made(ref, said["entryId"]),
            checksum=said["checksum"],
            index=None if place is None else self.file(place["path"], place["version"]),
        )

    def consolidate(self, ref: str) -> Consolidated:
        """Take out of a ref what another entry says, too."""
        from memoranda.service.openwop.distill import Consolidated
        from memoranda.service.openwop.runs import Run

        said = self._pass("consolidation", ref)
        return Consolidated(
            run=Run.of(said["run"]),
            event=said["event"],
            taken=tuple(said["taken"]),
            contradictions=tuple((one, other) for one, other in said["contradictions"]),
            strengthened=said["strengthened"],
        )

    def undo_consolidation(self, run_id: str) -> int:
        """Bring back what a pass took out; how many."""
        return int(self._server.ask("POST", f"{host_run(run_id)}/undo").document["restored"])

    def _pass(self, act: str, ref: str, **more: Any) -> Any:
        asked = {"act": act, "memoryRef": ref, **{name: value for name, value in more.items() if value is not None}}
        return self._server.post("/v1/host/passes", asked)

    def _made(self, ref: str, entry_id: str) -> Entry:
        found = self.get_entry(ref, entry_id)
        if found is None:
            raise NotFound("what the pass made is gone already")
        return found

    # --- who is told -------------------------------------------------------------------------------------------------

    def register_webhook(self, url: str, events: Sequence[str], tags: Sequence[str] = ()) -> dict[str, Any]:
        """Tell a URL of events from now on; the secret is told here and never again."""
        asked = {"url": url, "events": list(events), **({"tags": list(tags)} if tags else {})}
        return dict(self._server.post(_WEBHOOKS, asked))

    def webhooks(self) -> list[Subscription]:
        """Who is told what."""
        from memoranda.service.openwop.webhooks import Subscription

        return [Subscription.of(each) for each in self._server.get(_WEBHOOKS)["webhooks"]]

    def unregister_webhook(self, webhook_id: str) -> bool:
        """Send nothing more; whether there was such a subscription."""
        return self._removed(f"{_WEBHOOKS}/{quote(webhook_id, safe='')}")

    def _removed(self, path: str, *, body: object = None, headers: Mapping[str, str] | None = None) -> bool:
        try:
            self._server.ask("DELETE", path, body, headers=headers)
        except NotFound:
            return False
        return True


class RemoteRunMemory:
    """What a node of a run gets as `ctx.memory`, over a server."""

    def __init__(self, host: RemoteRuns, run_id: str) -> None:
        self._host, self._run_id = host, run_id

    def list(self, memory_ref: str, options: object = None) -> list[Entry]:
        """The entries of a ref, the newest first; `options` as MemoryListOptions."""
        from memoranda.standards.openwop.entry import ListOptions

        asked = options if isinstance(options, ListOptions) else ListOptions.parse(options)
        return self._host.list_entries(memory_ref, asked, run_id=self._run_id)

    def get(self, memory_ref: str, memory_id: str) -> Entry | None:
        """One entry, or None."""
        return self._host.get_entry(memory_ref, memory_id, run_id=self._run_id)


def host_run(run_id: str) -> str:
    """The path of a run of a host's own."""
    return f"{_RUNS}/{quote(run_id, safe='')}"


def _run(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"
