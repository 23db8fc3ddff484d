"""Following the changes of files that were imported, for `import --watch`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from memoranda.bindings.files.importers.registry import recognise_importer
from memoranda.bindings.files.sync import watch_files
from memoranda.errors import InvalidInput

# Milliseconds: changes are collected until none came for the second time, at most for the first. A host writes a line
# at a time, and a person waits for none of them.
_RESTLESS_MS: Final = 10_000
_QUIET_MS: Final = 1_000


def follow_sources(
    names: Iterable[str], stop: threading.Event | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the files that have to be imported again, after each change. Raises InvalidInput for standard input.

    Of a folder these are the changed files of a known form; a changed log of a database stands for the database.
    """
    sources = [Path(name).resolve() for name in names]
    if not all(source.exists() for source in sources):
        raise InvalidInput("--watch needs files or folders that exist")
    watched = {str(source if source.is_dir() else source.parent) for source in sources}
    watcher = watch_files(sorted(watched))
    try:
        ending = stop or threading.Event()
        while isinstance(changes := watcher.watch(_RESTLESS_MS, _QUIET_MS, 0, ending), set):
            changed_sources = select_changed(sources, {path for _, path in changes})
            if changed_sources:
                yield changed_sources
    finally:
        watcher.close()


def select_changed(sources: Iterable[Path], paths: Iterable[str]) -> tuple[str, ...]:
    """Return the files to import after these paths changed."""
    selected_paths: dict[str, None] = {}
    for name in sorted(paths):
        path = Path(name)
        for source in sources:
            if not source.is_dir():
                if name.startswith(str(source)):
                    selected_paths[str(source)] = None
            elif (
                path.is_relative_to(source)
                and path.is_file()
                and recognise_importer(path) is not None
            ):
                selected_paths[name] = None
    return tuple(selected_paths)
