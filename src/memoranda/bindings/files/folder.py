"""Safe access to files: never through a link, never half-written, never larger than a limit.

A file that a person names may be a link (`open_path`, `open_source`). A file that was found in a folder which others
may write to must be a regular one (`open_regular`, `Folder`). A file is written under a temporary name and then moved
(`atomic_writer`). `within` is always the descriptor of an open folder from which a path starts.
"""

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

# The system refuses links when it opens a file, so that nobody can swap a file for a link after a check.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
# The mode of exported files: as private as the store, until their owner shares them.
PRIVATE: Final = 0o600
# The mode of notes, reduced by the umask: a person's own files, with the permissions chosen for such.
DEFAULT_MODE: Final = 0o666

STANDARD_STREAM: Final = "-"
# The files of a database that SQLite locks: the database itself, and the index of its log.
_LOCKED_ENDINGS: Final = ("", "-shm")
# Levels of folders within a folder that are searched for notes; deeper ones are ignored.
MAX_DEPTH: Final = 32


def display_name(source: str) -> str:
    """Return the name of a source for messages."""
    return "standard input" if source == STANDARD_STREAM else source


@contextmanager
def open_source(source: str, stream: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a named file or standard input for reading; `stream` replaces standard input if it was partly read.

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
    """Return standard output for bytes of text; on a terminal with control characters escaped."""
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


def rejoin_stream(first_bytes: bytes, file: IO[bytes]) -> IO[bytes]:
    """Return a stream that first yields the bytes already read from it."""
    return io.BufferedReader(_RejoinedStream(first_bytes, file))


class _RejoinedStream(io.RawIOBase):
    def __init__(self, first_bytes: bytes, file: IO[bytes]) -> None:
        self._first_bytes = memoryview(first_bytes)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = (
            self._first_bytes[: len(buffer)] if self._first_bytes else self._file.read(len(buffer))
        )
        self._first_bytes = self._first_bytes[len(data) :]
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
    """Return the bytes of a regular file. Raises NotFound, InvalidInput for a link, or TooLarge."""
    with open_regular(path, within=within) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise TooLarge(f"{path.name}: over the limit of {max_bytes} bytes")
    return data


def create(path: Path, *, mode: int = PRIVATE, within: int | None = None) -> IO[bytes]:
    """Create a file, and open it for writing and reading; by default readable by its owner alone."""
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
    """Write a file that replaces another one in a single step."""
    with atomic_writer(path, mode=mode, within=within) as file:
        file.write(data)


class Folder:
    """An open folder that others may write to as well.

    All paths start from its descriptor: no name leads out of it, no link is followed, and a folder that replaces it
    under the same name is not opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise NotFound(f"{path}: there is no such folder") from None
        except OSError as error:
            raise InvalidInput(f"{path}: {error.strerror}") from None
        # The resolved path, equal for every way to name the folder.
        self.path = path.resolve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """Return the names directly in the folder, sorted."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries)

    def files(self) -> list[str]:
        """Return the paths of all files in the folder and below it, sorted, without hidden ones."""
        return sorted(self._walk(self._descriptor, "", 0))

    def files_in(self, name: str) -> list[str]:
        """Return the paths of the files in one folder and below it, also if it is hidden; none if it is missing."""
        try:
            with _open_subfolder(str(_require_plain_name(name)), self._descriptor) as inner:
                return sorted(self._walk(inner, f"{name}/", 1))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _walk(self, descriptor: int, path: str, depth: int) -> Iterator[str]:
        with os.scandir(descriptor) as entries:
            visible = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if entry.name[0] != "."
            ]
        for name, is_folder in visible:
            if not is_folder:
                yield path + name
            elif depth < MAX_DEPTH:
                with (
                    suppress(FileNotFoundError, NotADirectoryError),
                    _open_subfolder(name, descriptor) as inner,
                ):
                    yield from self._walk(inner, f"{path}{name}/", depth + 1)

    def read_bytes(self, name: str, *, max_bytes: int) -> bytes:
        """Return the bytes of a regular file. Raises NotFound, InvalidInput or TooLarge, with its name."""
        with self._parent(name) as (parent, path):
            return read_file(path, max_bytes=max_bytes, within=parent)

    def write(self, name: str, data: bytes, *, mode: int = PRIVATE) -> None:
        """Write a file in place of a file or a link of that name; a replaced file's permissions stay."""
        with self._parent(name) as (parent, path):
            permissions: int | None = None
            with suppress(FileNotFoundError):
                old_mode = os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode
                permissions = stat.S_IMODE(old_mode) if stat.S_ISREG(old_mode) else None
            new_mode = mode if permissions is None else PRIVATE
            with atomic_writer(path, mode=new_mode, within=parent) as file:
                if permissions is not None:
                    os.fchmod(file.fileno(), permissions)
                file.write(data)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(NotFound, FileNotFoundError), self._parent(name) as (parent, path):
            os.unlink(path, dir_fd=parent)

    def move_into(self, name: str, folder: str) -> str:
        """Move a file into a folder directly in this one, under a name that is free there; return its new path."""
        with suppress(FileExistsError):
            os.mkdir(_require_plain_name(folder), 0o700, dir_fd=self._descriptor)
        with self._parent(name) as (parent, path), self._parent(f"{folder}/-") as (target, _):
            with os.scandir(target) as entries:
                used_names = {entry.name for entry in entries}
            names = (
                f"{path.stem}{f' {count}' if count > 1 else ''}{path.suffix}"
                for count in itertools.count(1)
            )
            free = next(name for name in names if name not in used_names)
            os.rename(path, free, src_dir_fd=parent, dst_dir_fd=target)
        return f"{folder}/{free}"

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, Path]]:
        """Open the folder of a file; yield its descriptor and the name of the file. Refuses links on the way."""
        *folders, last = name.split("/")
        path = _require_plain_name(last)
        with ExitStack() as stack:
            descriptor = self._descriptor
            for folder in folders:
                try:
                    descriptor = stack.enter_context(
                        _open_subfolder(str(_require_plain_name(folder)), descriptor)
                    )
                except FileNotFoundError:
                    raise NotFound(f"{name}: there is no such folder") from None
                except NotADirectoryError:
                    raise InvalidInput(
                        f"{name}: {folder} is not a folder, or a symbolic link"
                    ) from None
            yield descriptor, path


@contextmanager
def _open_subfolder(name: str, parent: int) -> Iterator[int]:
    """Open a folder within another one. Raises NotADirectoryError for anything else, links included."""
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
    """Return a name as a path directly in a folder. Raises InvalidInput for a name that leads elsewhere."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InvalidInput(f"{name[:80]!a} is not the name of a file")
    return Path(name)
