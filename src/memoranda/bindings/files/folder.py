"""Files, handled with care: never through a link, never half-written, never larger than stated."""

from __future__ import annotations

import io
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from memoranda.errors import InvalidInput, MemorandaError, NotFound, StoreUnavailable, TooLarge

# Links are refused at the moment of opening, so that nobody can swap a file for one in between.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


STANDARD_STREAM: Final = "-"


def shown_name(source: str) -> str:
    """What a person named, as messages name it."""
    return "standard input" if source == STANDARD_STREAM else source


@contextmanager
def opened(source: str, stream: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """What a person named, open for reading; `stream` is standard input, if it was looked at. Raises MemorandaError."""
    if source == STANDARD_STREAM:
        yield sys.stdin.buffer if stream is None else stream
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115
    except FileNotFoundError:
        raise NotFound("there is no such file or folder") from None
    except OSError as error:
        raise InvalidInput(error.strerror or str(error)) from None
    with file:
        yield file


def rejoined(seen: bytes, file: IO[bytes]) -> IO[bytes]:
    """A stream as if nothing had been read of it yet."""
    return io.BufferedReader(_Rejoined(seen, file))


class _Rejoined(io.RawIOBase):
    def __init__(self, seen: bytes, file: IO[bytes]) -> None:
        self._seen = memoryview(seen)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._seen[: len(buffer)] if self._seen else self._file.read(len(buffer))
        self._seen = self._seen[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def open_regular(path: Path) -> IO[bytes]:
    """A regular file that is not a link, open for reading. Raises NotFound or InvalidInput, which name it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NO_LINKS)
    except FileNotFoundError:
        raise NotFound(f"{path.name}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"{path.name}: {_why(path, error)}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidInput(f"{path.name}: not a regular file")
    return os.fdopen(descriptor, "rb")


def read_whole(path: Path, *, max_bytes: int) -> bytes:
    """All of a regular file that is not a link."""
    try:
        with open_regular(path) as file:
            data = file.read(max_bytes + 1)
    except MemorandaError as error:
        error.message = f"{path.parent}/{error.message}"
        raise
    if len(data) > max_bytes:
        raise TooLarge(f"{path}: over the limit of {max_bytes} bytes")
    return data


def _why(path: Path, error: OSError) -> str:
    return "a symbolic link, which is not followed" if path.is_symlink() else error.strerror or str(error)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that appears at `path` whole, or not at all."""
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    # From here on, because an interrupt may come as soon as the file is there.
    try:
        # 0o666 less the umask: a person's own files, with the permissions they chose for such.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o666)
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
