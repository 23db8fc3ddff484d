"""Synchronising a folder with the store: once (`FolderSync`), or after every change (`watch`).

`sync_pass.py` compares both sides and plans the changes. While a folder is watched, one thread waits for the file
system (watchfiles), the store's notifier calls from its own thread, and both wake the thread that synchronises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from memoranda.bindings.files.folder import Folder
from memoranda.bindings.files.ignore import IGNORE_FILE
from memoranda.bindings.files.note import ENDINGS
from memoranda.bindings.files.record_files import RecordFolder
from memoranda.bindings.files.sync_pass import FolderPass, SyncState, SyncStep
from memoranda.bindings.files.vault import NoteFolder
from memoranda.errors import Unsupported
from memoranda.service.core.access import Access
from memoranda.service.service import Service

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

# The folder of the states, in the data directory.
STATES_FOLDER: Final = "sync"
# Notes as people write them, or records in the form of the standard.
FolderForm = Literal["notes", "records"]
_PASSES: Final[dict[FolderForm, type[FolderPass[Any]]]] = {
    "notes": NoteFolder,
    "records": RecordFolder,
}
# Milliseconds without a change after which an editor has finished writing.
QUIET_MS: Final = 100
# Milliseconds after which the files are read although they still change.
RESTLESS_MS: Final = 1_600


class SyncReport(msgspec.Struct, kw_only=True):
    """The steps that a run took, or with a dry run would take."""

    steps: list[SyncStep] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if no step was refused, and none is a conflict."""
        return all(step.did not in ("refused", "conflict") for step in self.steps)


class FolderSync:
    """A folder that is synchronised in one form for one owner and, if stated, one project."""

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
        # The folder in the data directory that has the states of all synchronised folders.
        self._states = states
        self._project = project
        self._form: FolderForm = form

    def run(self, *, dry_run: bool = False) -> SyncReport:
        """Bring both sides in step once, and return the steps."""
        report = SyncReport()
        with Folder(self._folder) as folder:
            owner = self._access.default_tenant
            state = SyncState.load(
                self._states, folder, owner=owner, project=self._project, form=self._form
            )
            before = dict(state.entries), dict(state.copies)
            folder_pass = _PASSES[self._form](
                self._service, self._access, folder, self._project, state
            )
            try:
                for plan in folder_pass.plans():
                    report.steps.extend(plan.steps if dry_run else plan.execute())
            finally:
                if not dry_run and (state.entries, state.copies) != before:
                    state.save(folder)
        return report

    def watch(self, *, stop: threading.Event, on_report: Callable[[SyncReport], None]) -> None:
        """Run now, and again after every change of a file or a memory, until `stop` is set."""
        scope = {"project": self._project} if self._project else {}
        woken, files_changed = threading.Event(), threading.Event()
        files_changed.set()

        def follow_files() -> None:
            # Each call waits without an end; it checks `stop` every QUIET_MS.
            while isinstance(changes := watcher.watch(RESTLESS_MS, QUIET_MS, 0, stop), set):
                if any(_is_relevant(path, root) for _, path in changes):
                    files_changed.set()
                    woken.set()
            stop.set()
            woken.set()

        # Changes are reported with paths below the resolved folder.
        root = str(self._folder.resolve())
        # Watch and listen before the first run, so that no change in between is missed.
        watcher = watch_files([root])
        position = self._service.feed_end(self._access, scope)
        stop_listening = self._service.notifier.listen(woken.set)
        follower = threading.Thread(target=follow_files, name="memoranda-folder")
        follower.start()
        try:
            while not stop.is_set():
                # The notifier calls at every write, also for the audit entries of our own reads.
                page = self._service.changes(self._access, scope, position)
                if page.next != position or files_changed.is_set():
                    position = page.next
                    files_changed.clear()
                    on_report(self.run())
                else:
                    woken.wait()
                    woken.clear()
        finally:
            stop.set()
            stop_listening()
            follower.join()
            watcher.close()


def watch_files(paths: list[str]) -> RustNotify:
    """Start to collect the changes of files, and of the files in folders and below them.

    Raises Unsupported if the package that watches folders is not installed.
    """
    # Imported here: only watching needs it. `watchfiles.watch` would begin with the first wait, after our first run.
    try:
        from watchfiles._rust_notify import RustNotify
    except ModuleNotFoundError as error:
        raise Unsupported(
            "to watch a folder needs a package more: pip install 'memoranda[watch]'"
        ) from error

    return RustNotify(
        paths,
        debug=False,
        force_polling=False,
        poll_delay_ms=0,
        recursive=True,
        ignore_permission_denied=False,
    )


def _is_relevant(path: str, root: str) -> bool:
    """Return True if a change may concern a note: a Markdown file, a folder that came or went, or the ignore list."""
    is_hidden = any(part.startswith(".") for part in Path(path.removeprefix(root)).parts)
    if path.removeprefix(root).lstrip("/") == IGNORE_FILE:
        return True
    return not is_hidden and (path.lower().endswith(ENDINGS) or not Path(path).is_file())
