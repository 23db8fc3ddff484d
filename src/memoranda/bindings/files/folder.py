"""Files, handled with care: never through a link, never half-written, never larger than stated."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from memoranda.errors import InvalidInput, NotFound, StoreUnavailable, TooLarge

# Links are refused at the moment of opening, so that nobody can swap a file for one in between.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def read_whole(path: Path, *, max_bytes: int) -> bytes:
    """All of a regular file that is not a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NO_LINKS)
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"{path}: {_why(path, error)}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidInput(f"{path}: not a regular file")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise TooLarge(f"{path}: over the limit of {max_bytes} bytes")
    return data


def _why(path: Path, error: OSError) -> str:
    return "a symbolic link, which is not followed" if path.is_symlink() else error.strerror or str(error)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that appears at `path` whole, or not at all."""
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        # 0o666 less the umask: a person's own files, with the permissions they chose for such.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o666)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        draft.replace(path)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file at once."""
    with writing(path) as file:
        file.write(data)
