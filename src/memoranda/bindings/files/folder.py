"""Files, handled with care: never through a link, never half-written, never larger than stated."""

from __future__ import annotations

import codecs
import errno
import io
import itertools
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Self

from memoranda.encoding.terminal import escape_controls
from memoranda.errors import InvalidInput, NotFound, StoreUnavailable, TooLarge, words_of

# Links are refused at the moment of opening, so that nobody can swap a file for one in between.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
# What leaves the store is as private as the store; whoever wants to share it says so.
PRIVATE: Final = 0o600
# Less the umask: a person's own files, with the permissions they chose for such.
DEFAULT_MODE: Final = 0o666

STANDARD_STREAM: Final = "-"
# The files of a database that SQLite locks: the database itself, and the index of its log.
_LOCKED_ENDINGS: Final = ("", "-shm")
# Of folders in folders; deeper ones are left alone.
MAX_DEPTH: Final = 32


def display_name(source: str) -> str:
    """What a person named, as messages name it."""
    return "standard input" if source == STANDARD_STREAM else source


@contextmanager
def open_source(source: str, stream: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open what a person named for reading; `stream` replaces standard input if something of it was read already.

    Raises MemorandaError.
    """
    if source == STANDARD_STREAM:
        yield sys.stdin.buffer if stream is None else stream
        return
    try:
        file = open_path(Path(source))
    except FileNotFoundError:
        raise NotFound("there is no such file or folder") from None
    except OSError as error:
        raise InvalidInput(error.strerror or str(error)) from None
    with file:
        yield file


def open_path(path: Path) -> IO[bytes]:
    """Open a file that a person named for reading. Raises OSError, and InvalidInput for a database in use here."""
    _refuse_open_database(path)
    return path.open("rb")


def _is_open_database(path: str | os.PathLike[str], *, within: int | None = None) -> bool:
    """Return True if SQLite has this file open in this process; `within` is the open folder that the path starts in.

    POSIX drops all locks that a process has on a file as soon as the process closes any descriptor of that file.
    Without its locks, another program takes the database for unused and deletes its write-ahead log under us. So only
    SQLite may open a database that is open in this process.
    """
    # Loading SQLite takes longer than most commands, and a process that has not loaded it has no database open.
    apsw: Any = sys.modules.get("apsw")
    if apsw is None:
        return False
    try:
        status = os.stat(path, dir_fd=within)
    except OSError:
        return False
    # Our connections are `FileConnection`s. SQLite tells the file of a connection only to the thread that uses it.
    databases = {getattr(connection, "path", None) for connection in apsw.connections()} - {None}
    return any(
        _is_same_file(f"{database}{ending}", status)
        for database in databases
        for ending in _LOCKED_ENDINGS
    )


def _is_same_file(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)  # noqa: PTH116 - a path as SQLite knows it
    except OSError:
        return False


def _refuse_open_database(path: Path, within: int | None = None) -> None:
    """Raise InvalidInput for a database that is open in this process: only SQLite may open it once more."""
    if _is_open_database(path, within=within):
        raise InvalidInput(
            f"{path.name}: this is the database of the store in use; copy it with `memoranda backup`, or move its "
            "memories with `memoranda export`"
        )


def _refuse_device(path: Path, within: int | None) -> None:
    """Raise InvalidInput for a device, a pipe or a socket, in whose place a file would be put."""
    with suppress(OSError):
        mode = os.stat(path, dir_fd=within).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InvalidInput(
                f"{path}: not a file that can be replaced; - writes to standard output"
            )


@contextmanager
def standard_output() -> Iterator[IO[bytes]]:
    """Standard output for bytes of text; on a terminal, without what that would obey."""
    sys.stdout.flush()
    file = (
        io.BufferedWriter(_EscapingTerminal(sys.stdout.buffer))
        if sys.stdout.isatty()
        else sys.stdout.buffer
    )
    yield file
    file.flush()


class _EscapingTerminal(io.RawIOBase):
    def __init__(self, terminal: IO[bytes]) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._terminal.write(escape_controls(self._decoder.decode(bytes(data))).encode("utf-8"))
        self._terminal.flush()
        return len(data)


def rejoin_stream(seen: bytes, file: IO[bytes]) -> IO[bytes]:
    """A stream as if nothing had been read of it yet."""
    return io.BufferedReader(_RejoinedStream(seen, file))


class _RejoinedStream(io.RawIOBase):
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


def open_regular(path: Path, *, within: int | None = None) -> IO[bytes]:
    """Open a regular file that is not a link for reading. Raises NotFound or InvalidInput, which name the file.

    `within` is the open folder that the path starts from.
    """
    _refuse_open_database(path, within)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NO_LINKS, dir_fd=within)
    except FileNotFoundError:
        raise NotFound(f"{path.name}: there is no such file") from None
    except OSError as error:
        why = (
            "a symbolic link, which is not followed"
            if error.errno == errno.ELOOP
            else error.strerror or str(error)
        )
        raise InvalidInput(f"{path.name}: {why}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidInput(f"{path.name}: not a regular file")
    return os.fdopen(descriptor, "rb")


def read_file(path: Path, *, max_bytes: int, within: int | None = None) -> bytes:
    """All of a regular file that is not a link."""
    with open_regular(path, within=within) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise TooLarge(f"{path.name}: over the limit of {max_bytes} bytes")
    return data


def create(path: Path, *, mode: int = PRIVATE, within: int | None = None) -> IO[bytes]:
    """A file that was not there, open for writing and to be read again; readable by its owner alone unless said."""
    return os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINKS, mode, dir_fd=within), "w+b"
    )


@contextmanager
def atomic_writer(
    path: Path, *, mode: int = PRIVATE, within: int | None = None
) -> Iterator[IO[bytes]]:
    """Write a file that appears at `path` complete, or not at all.

    Raises StoreUnavailable, and InvalidInput for a database in use here and for what is neither a file nor a folder.
    """
    _refuse_open_database(path, within)
    _refuse_device(path, within)
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    # From here on, because an interrupt may come as soon as the file is there.
    try:
        with create(draft, mode=mode, within=within) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path, src_dir_fd=within, dst_dir_fd=within)
    except OSError as error:
        raise StoreUnavailable(words_of(error), path=path) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=within)


def replace_file(
    path: Path, data: bytes, *, mode: int = PRIVATE, within: int | None = None
) -> None:
    """Replace a file at once."""
    with atomic_writer(path, mode=mode, within=within) as file:
        file.write(data)


class Folder:
    """One folder, held open, that others may write to as well.

    A file is reached by its name in this folder and in no other way: no name leads elsewhere, no link is followed, and
    a folder that takes its place meanwhile is not looked at.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise NotFound(f"{path}: there is no such folder") from None
        except OSError as error:
            raise InvalidInput(f"{path}: {error.strerror}") from None
        # The same folder by whichever path it is named.
        self.path = path.resolve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """What there is directly in it, in order."""
        with os.scandir(self._descriptor) as found:
            return sorted(each.name for each in found)

    def files(self) -> list[str]:
        """Everything that is not a folder, in it and in the folders below, by path and in order; nothing hidden."""
        return sorted(self._walk(self._descriptor, "", 0))

    def _walk(self, descriptor: int, path: str, depth: int) -> Iterator[str]:
        with os.scandir(descriptor) as found:
            listed = [
                (each.name, each.is_dir(follow_symlinks=False))
                for each in found
                if each.name[0] != "."
            ]
        for name, is_folder in listed:
            if not is_folder:
                yield path + name
            elif depth < MAX_DEPTH:
                with (
                    suppress(FileNotFoundError, NotADirectoryError),
                    _open_subfolder(name, descriptor) as inner,
                ):
                    yield from self._walk(inner, f"{path}{name}/", depth + 1)

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """All of a regular file. Raises NotFound, InvalidInput or TooLarge, which name it."""
        with self._parent(name) as (parent, path):
            return read_file(path, max_bytes=max_bytes, within=parent)

    def write(self, name: str, data: bytes, *, mode: int = PRIVATE) -> None:
        """Replace a file, or the link that has its name, at once; a file keeps its permissions."""
        with self._parent(name) as (parent, path):
            kept: int | None = None
            with suppress(FileNotFoundError):
                found = os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode
                kept = stat.S_IMODE(found) if stat.S_ISREG(found) else None
            with atomic_writer(path, mode=mode if kept is None else PRIVATE, within=parent) as file:
                if kept is not None:
                    os.fchmod(file.fileno(), kept)
                file.write(data)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(NotFound, FileNotFoundError), self._parent(name) as (parent, path):
            os.unlink(path, dir_fd=parent)

    def move_into(self, name: str, folder: str) -> None:
        """Move a file into a folder directly in this one, under a name that is free there."""
        with suppress(FileExistsError):
            os.mkdir(_require_plain_name(folder), 0o700, dir_fd=self._descriptor)
        with self._parent(name) as (parent, path), self._parent(f"{folder}/-") as (aside, _):
            with os.scandir(aside) as found:
                taken = {each.name for each in found}
            names = (
                f"{path.stem}{f' {count}' if count > 1 else ''}{path.suffix}"
                for count in itertools.count(1)
            )
            free = next(each for each in names if each not in taken)
            os.rename(path, free, src_dir_fd=parent, dst_dir_fd=aside)

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, Path]]:
        """The folder that a file is in, and its name there; no folder on the way is a link."""
        *folders, last = name.split("/")
        path = _require_plain_name(last)
        with ExitStack() as stack:
            descriptor = self._descriptor
            for each in folders:
                try:
                    descriptor = stack.enter_context(
                        _open_subfolder(str(_require_plain_name(each)), descriptor)
                    )
                except FileNotFoundError:
                    raise NotFound(f"{name}: there is no such folder") from None
                except NotADirectoryError:
                    raise InvalidInput(
                        f"{name}: {each} is not a folder, or a symbolic link"
                    ) from None
            yield descriptor, path


@contextmanager
def _open_subfolder(name: str, parent: int) -> Iterator[int]:
    """A folder, open; NotADirectoryError for anything else, links among it."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _NO_LINKS, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise NotADirectoryError(name) from None
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _require_plain_name(name: str) -> Path:
    """A name that names something directly in a folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InvalidInput(f"{name[:80]!a} is not the name of a file")
    return Path(name)
