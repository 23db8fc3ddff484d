"""A folder and the store, brought together once: `sync_pass` decides, `sync_state` keeps what was agreed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from memoranda.bindings.files.folder import Folder
from memoranda.bindings.files.record_files import RecordPass
from memoranda.bindings.files.sync_pass import Pass, Step
from memoranda.bindings.files.sync_state import SyncState
from memoranda.bindings.files.vault import NotePass
from memoranda.service.core.access import Access
from memoranda.service.service import Service

# In the data directory.
STATES_FOLDER: Final = "sync"
# Notes as people write them, or records in the form of the standard.
FolderForm = Literal["notes", "records"]
_PASSES: Final[dict[FolderForm, type[Pass[Any]]]] = {"notes": NotePass, "records": RecordPass}


class SyncReport(msgspec.Struct, kw_only=True):
    """Everything that was done, or with a dry run would be."""

    steps: list[Step] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(step.did not in ("refused", "conflict") for step in self.steps)


class FolderSync:
    """One folder, one form, one owner and, if named, one project."""

    def __init__(
        self,
        service: Service,
        access: Access,
        folder: Path,
        *,
        states: Path,
        project: str | None = None,
        form: FolderForm = "notes",
    ) -> None:
        self._service = service
        self._access = access
        self._folder = folder
        # Where in the data directory it is kept what both sides agreed on.
        self._states = states
        self._project = project
        self._form: FolderForm = form

    def run(self, *, dry_run: bool = False) -> SyncReport:
        """Bring both sides together once."""
        report = SyncReport()
        with Folder(self._folder) as folder:
            owner = self._access.default_tenant
            state = SyncState.load(
                self._states, folder, owner=owner, project=self._project, form=self._form
            )
            before = dict(state.entries)
            try:
                one = _PASSES[self._form](self._service, self._access, folder, self._project, state)
                for each in one.plans():
                    report.steps.extend(each.steps if dry_run else each.take())
            finally:
                if not dry_run and state.entries != before:
                    state.save(folder)
        return report
