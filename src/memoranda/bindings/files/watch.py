"""Synchronising for as long as someone wants: the system tells of files, the store of memories.

One thread waits for the file system (watchfiles), the store's notifier calls from its own, and both wake the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

# Not `watchfiles.watch`, which begins to watch only when it is asked for the first change, after our first look.
from watchfiles._rust_notify import RustNotify

from memoranda.bindings.files.sync import FolderForm, FolderSync, SyncReport
from memoranda.service.core.access import Access
from memoranda.service.service import Service

# An editor is done when nothing changed for a moment; one that never stops is read all the same.
QUIET_MS: Final = 100
RESTLESS_MS: Final = 1_600


def watch(
    service: Service,
    access: Access,
    folder: Path,
    *,
    states: Path,
    project: str | None,
    form: FolderForm = "notes",
    stop: threading.Event,
    on_report: Callable[[SyncReport], None],
) -> None:
    """Synchronise now, and again whenever a file or a memory has changed, until told to stop."""
    sync = FolderSync(service, access, folder, states=states, project=project, form=form)
    scope = {"project": project} if project else {}
    woken, files_changed = threading.Event(), threading.Event()
    files_changed.set()

    def follow() -> None:
        # Forever: it looks at `stop` every QUIET_MS.
        while isinstance(changes := notified.watch(RESTLESS_MS, QUIET_MS, 0, stop), set):
            if any(_counts(path, root) for _, path in changes):
                files_changed.set()
                woken.set()
        stop.set()
        woken.set()

    # Paths are told from there.
    root = str(folder.resolve())
    # Watch and listen first, look second: nothing that changes in between is missed.
    notified = _notified(root)
    after = service.feed_end(access, scope)
    silence = service.notifier.listen(woken.set)
    follower = threading.Thread(target=follow, name="memoranda-folder")
    follower.start()
    try:
        while not stop.is_set():
            # The notifier calls at every write, audit entries of our own reading among them.
            page = service.changes(access, scope, after)
            if page.next != after or files_changed.is_set():
                after = page.next
                files_changed.clear()
                on_report(sync.run())
            else:
                woken.wait()
                woken.clear()
    finally:
        stop.set()
        silence()
        follower.join()
        notified.close()


def _notified(folder: str) -> RustNotify:
    """What the system tells of the files of a folder and of those below it."""
    return RustNotify(
        [folder],
        debug=False,
        force_polling=False,
        poll_delay_ms=0,
        recursive=True,
        ignore_permission_denied=False,
    )


def _counts(path: str, root: str) -> bool:
    """Whether a change may be one of a note; a folder that came or went may hold some, whatever it is called."""
    is_hidden = any(part.startswith(".") for part in Path(path.removeprefix(root)).parts)
    return not is_hidden and (path.lower().endswith(".md") or not Path(path).is_file())
