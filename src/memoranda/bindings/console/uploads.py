"""Uploaded files that wait for their import: sent whole or in parts, previewed, and imported without another upload.

A script sends a large file in parts, because proxies limit the size of a request, and a part that failed is sent again.
The files are in a temporary folder that only this user can read, so that all workers of a server find them, until they
are imported, or for an hour.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from memoranda.errors import InvalidInput, NotFound, TooLarge

# Bytes of one file, and of all files that wait on a machine.
FILE_BYTES: Final = 1_073_741_824
_TOTAL_BYTES: Final = 4 * FILE_BYTES
# Files of one import, and files that wait on a machine.
FILES_LIMIT: Final = 50
_WAITING_LIMIT: Final = 500
# Seconds after which a file that nobody imported is deleted.
_KEPT_SECONDS: Final = 3_600
_ID: Final = re.compile(r"[A-Za-z0-9]{16,40}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", re.ASCII)


class WaitingFile(NamedTuple):
    """A file that waits for its import."""

    id: str
    path: Path


class Uploads:
    """The files of one session that wait for their import."""

    def __init__(self, session: str) -> None:
        self._name = hashlib.blake2b(session.encode(), digest_size=16).hexdigest()

    def append(self, name: str, upload: str, offset: int, part: BinaryIO) -> int:
        """Write a part at the end of a file, and return its size. A part for another position is not written.

        The first part, at 0, begins the file. Raises InvalidInput and TooLarge.
        """
        if not _ID.fullmatch(upload):
            raise InvalidInput("upload: 16 to 40 letters and digits expected")
        folder = self._folder() / upload
        path = next(_list_files(folder), None)
        if path is None:
            if offset:
                return 0
            _make_room()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The name of a file often shows its format, so an acceptable one is kept.
            path = folder / (name if _NAME.fullmatch(name) else "file")
        size = path.stat().st_size if path.exists() else 0
        if offset != size:
            return size
        with path.open("ab") as target:
            shutil.copyfileobj(part, target)
            size = target.tell()
        if size > FILE_BYTES:
            shutil.rmtree(folder, ignore_errors=True)
            raise TooLarge(f"file: at most {FILE_BYTES} bytes")
        return size

    def find(self, ids: Iterable[str]) -> list[WaitingFile]:
        """Return the files with these ids. Raises NotFound."""
        files = []
        for upload in ids:
            path = (
                next(_list_files(self._folder() / upload), None) if _ID.fullmatch(upload) else None
            )
            if path is None:
                raise NotFound("upload: the file is not here any more; choose it again")
            files.append(WaitingFile(upload, path))
        return files

    def delete(self, files: Iterable[WaitingFile]) -> None:
        """Delete files."""
        for file in files:
            shutil.rmtree(file.path.parent, ignore_errors=True)

    def _folder(self) -> Path:
        return _root() / self._name


def _root() -> Path:
    """Return the folder of all uploads of this user. Raises TooLarge if somebody else made it."""
    root = (
        Path(tempfile.gettempdir())
        / f"memoranda-uploads-{os.getuid() if hasattr(os, 'getuid') else 0}"
    )
    root.mkdir(mode=0o700, exist_ok=True)
    status = root.lstat()
    is_ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if not is_ours or not stat.S_ISDIR(status.st_mode):
        raise TooLarge("upload: the temporary folder of this server belongs to somebody else")
    return root


def _list_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder; none if it does not exist."""
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.is_file())


def _make_room() -> None:
    """Delete files that nobody imported. Raises TooLarge if too many wait."""
    oldest = time.time() - _KEPT_SECONDS
    total = count = 0
    for folder in _root().glob("*/*"):
        for path in _list_files(folder):
            status = path.stat()
            if status.st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                total, count = total + status.st_size, count + 1
    if count >= _WAITING_LIMIT or total > _TOTAL_BYTES - FILE_BYTES:
        raise TooLarge(
            "upload: too many files wait for their import; import them first, or wait an hour"
        )
