"""A service with openwop's verbs under short names, as one host of one tenant; two of them may share one store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.service.openwop.openwop import Openwop
from memoranda.service.openwop.runs import Run
from memoranda.service.openwop.secrets import Vault
from memoranda.service.service import Service
from memoranda.standards.openwop.entry import Draft, Entry, ListOptions
from memoranda.standards.openwop.events import Event
from tests.service.world import World
from tests.standards.openwop.logs import check_log

REF = "mem://support/agent-1"


class Wop(World):
    """The world of one host. `vault` has its secrets."""

    def __init__(self, *, path: Path | None = None, vault: Vault | None = None, **how: Any) -> None:
        super().__init__(path=path, **how)
        if vault is not None:
            self.context = replace(self.context, secrets=vault)
            self.service = Service(self.context)
            self.owner = self.service.gate.local()

    @property
    def wop(self) -> Openwop[None]:
        return self.service.openwop

    def write(
        self,
        content: str,
        *tags: str,
        ref: str = REF,
        run: Run | None = None,
        access: Access | None = None,
        expires: int | None = None,
        **attribution: Any,
    ) -> Entry:
        draft = Draft(content=content, tags=tags, expires=None if expires is None else Instant(expires))
        if run is not None:
            attribution["run_id"] = run.run_id
        return self.wop.put_entry(access or self.owner, ref, draft, **attribution)

    def entries(
        self, *, ref: object = REF, run: Run | None = None, access: Access | None = None, **options: Any
    ) -> list[Entry]:
        asked = ListOptions.parse(options)
        return self.wop.list_entries(access or self.owner, ref, asked, run_id=None if run is None else run.run_id)

    def contents(self, **how: Any) -> list[str]:
        return [entry["content"] for entry in self.entries(**how)]

    def read(
        self, name: object, *, ref: object = REF, run: Run | None = None, access: Access | None = None
    ) -> Entry | None:
        return self.wop.get_entry(access or self.owner, ref, name, run_id=None if run is None else run.run_id)

    def begin(self, *, access: Access | None = None, **about: Any) -> Run:
        return self.wop.begin_run(access or self.owner, "tests.workflow", **about)

    def finish(self, run: Run, **how: Any) -> Run:
        return self.wop.finish_run(self.owner, run.run_id, **how)

    def log(self, run: Run | str, *, access: Access | None = None) -> list[Event]:
        """A run's log; it is one by the standard's own rules, whenever it is looked at."""
        run_id = run if isinstance(run, str) else run.run_id
        events, _ = self.wop.events(access or self.owner, run_id)
        check_log(events)
        return events

    def all_logs(self, *, access: Access | None = None) -> list[Event]:
        runs = self.wop.runs(access or self.owner)
        return [event for run in runs for event in self.log(run, access=access)]

    def facts(self, type_: str, *, access: Access | None = None) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.all_logs(access=access) if event["type"] == type_]

    def close(self) -> None:
        self.service.close()
