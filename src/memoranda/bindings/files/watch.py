"""Synchronising for as long as someone wants: files are polled, the store notifies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from memoranda.bindings.files.formats import MARKDOWN_ENDING
from memoranda.bindings.files.sync import FolderSync, SyncReport
from memoranda.service.core.access import Access
from memoranda.service.service import Service

# Soon enough for a person, rarely enough for a laptop.
POLL_SECONDS = 0.5

Look = dict[str, tuple[int, int, int]]


def watch(
    service: Service,
    access: Access,
    folder: Path,
    *,
    project: str | None,
    stop: threading.Event,
    on_report: Callable[[SyncReport], None],
) -> None:
    """Synchronise now, and again whenever a file or a memory has changed, until told to stop."""
    sync = FolderSync(service, access, folder, project=project)
    scope = {"project": project} if project else {}
    rung = threading.Event()
    after = service.feed_end(access, scope)
    silence = service.notifier.listen(rung.set)
    try:
        while not stop.is_set():
            on_report(sync.run())
            seen = look(folder)
            while not stop.is_set():
                rung.wait(POLL_SECONDS)
                if rung.is_set():
                    # The bell rings for every write, audit entries of our own reading among them.
                    rung.clear()
                    page = service.changes(access, scope, after)
                    if page.next != after:
                        after = page.next
                        break
                if (now := look(folder)) != seen and _settled(folder, now, stop):
                    break
    finally:
        silence()


def look(folder: Path) -> Look:
    """Size and time of every file that counts, without opening one."""
    found: Look = {}
    for entry in os.scandir(folder):
        if entry.name.endswith(MARKDOWN_ENDING) and not entry.name.startswith("."):
            status = entry.stat(follow_symlinks=False)
            found[entry.name] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _settled(folder: Path, before: Look, stop: threading.Event) -> bool:
    """Whether an editor is done: nothing changed for a moment."""
    while not stop.wait(POLL_SECONDS / 5):
        now = look(folder)
        if now == before:
            return True
        before = now
    return False
