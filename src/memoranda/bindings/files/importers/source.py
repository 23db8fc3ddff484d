"""What a person names for an import: a file, a folder, a zip archive or a database; read, never written or run.

Everything in it may be hostile. Sizes are bounded before they are read, members of archives are read where they stand
and never unpacked, links are not followed, and of a database only its own tables are read.
"""

from __future__ import annotations

import json
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, Self

import apsw
import msgspec

from memoranda.bindings.files.folder import open_regular
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, TooLarge
from memoranda.model.instant import Instant
from memoranda.storage.sqlite.file import open_to_read

# What is looked at to tell what a file is.
HEAD_BYTES: Final = 65_536
# A file that is read whole. Its memories stand in it as they are until each is read.
MAX_FILE_BYTES: Final = 1_073_741_824
# One document of it.
MAX_DOCUMENT_BYTES: Final = 4 * 1_048_576
# Files of a folder or an archive, and how deep they lie.
MAX_MEMBERS: Final = 100_000
MAX_DEPTH: Final = 32
# What a member of an archive comes to for each of its bytes there: text and JSON do ten, rarely thirty.
_MAX_RATIO: Final = 100
_SQLITE: Final = b"SQLite format 3\x00"
_UNREAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Damaged, encrypted, or packed in a way that is not known, as zipfile and what it unpacks with say it.
_UNPACKED: Final = (
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
)
_ZIP: Final = b"PK\x03\x04"
# What a query may do before it is given up: some seconds of work.
_STEPS: Final = 100_000
_MAX_STEPS: Final = 20_000


class Source:
    """One file, folder or archive.

    Within its context an archive is opened once, for all of its members: its directory is read whole each time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self._stack: ExitStack | None = None
        self._archive: zipfile.ZipFile | None = None

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        return self

    def __exit__(self, *_: object) -> None:
        stack, self._stack, self._archive = self._stack, None, None
        if stack is not None:
            stack.close()

    @cached_property
    def is_folder(self) -> bool:
        return self.path.is_dir() and not self.path.is_symlink()

    @cached_property
    def is_archive(self) -> bool:
        return self.head.startswith(_ZIP)

    @cached_property
    def is_database(self) -> bool:
        return self.head.startswith(_SQLITE)

    @cached_property
    def head(self) -> bytes:
        """The first bytes; of a folder and of what cannot be read none."""
        if self.is_folder:
            return b""
        try:
            with open_regular(self.path) as file:
                return file.read(HEAD_BYTES)
        except (MemorandaError, OSError):
            return b""

    @cached_property
    def _head_text(self) -> bytes:
        return self.head.removeprefix(b"\xef\xbb\xbf").lstrip()

    def starts_with(self, *marks: bytes) -> bool:
        """Whether a file begins with one of these, but for white space."""
        return self._head_text.startswith(marks)

    @cached_property
    def first(self) -> Any:
        """The document on the first line, or the first of an array, if it is in the first bytes; else None."""
        if self.starts_with(b"["):
            text = self._head_text[1:].decode("utf-8", "ignore").lstrip()
            try:
                return json.JSONDecoder().raw_decode(text)[0]
            except (ValueError, RecursionError):
                return None
        line, _, _ = self._head_text.partition(b"\n")
        found = _parse_document(line) if line.startswith(b"{") else None
        return None if isinstance(found, MemorandaError) else found

    @cached_property
    def modified(self) -> Instant:
        """When it was last written: the time of memories whose system keeps none."""
        return Instant(int(self.path.stat().st_mtime * 1_000))

    # --- files in it -------------------------------------------------------------------------------------------------

    @cached_property
    def members(self) -> dict[str, int]:
        """The names of what is in a folder or an archive, with their sizes; what is hidden, or a link, is not."""
        if self.is_folder:
            return dict(self._walk_files())
        if not self.is_archive:
            return {}
        with self._open_archive() as archive:
            if len(archive.filelist) > MAX_MEMBERS:
                raise TooLarge(f"{self.name}: more than {MAX_MEMBERS} files")
            return {
                each.filename: each.file_size
                for each in archive.filelist
                if _is_plain_name(each.filename)
            }

    def _walk_files(self) -> Iterator[tuple[str, int]]:
        count = 0
        for folder, folders, names in os.walk(self.path):
            depth = len(Path(folder).relative_to(self.path).parts)
            folders[:] = (
                sorted(each for each in folders if not each.startswith("."))
                if depth < MAX_DEPTH
                else []
            )
            for name in sorted(names):
                found = Path(folder) / name
                status = found.lstat()
                if name.startswith(".") or not stat.S_ISREG(status.st_mode):
                    continue
                count += 1
                if count > MAX_MEMBERS:
                    raise TooLarge(f"{self.name}: more than {MAX_MEMBERS} files")
                yield found.relative_to(self.path).as_posix(), status.st_size

    def read(self, member: str | None = None, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Return all of the file, or of a member. Raises TooLarge, InvalidInput."""
        with self.open_member(member) as file:
            # Room is made at once for as many bytes as are asked for.
            data = file.read(min(max_bytes, _file_size(file, max_bytes)) + 1)
        if len(data) > max_bytes:
            raise TooLarge(f"{self.where(member)}: over the limit of {max_bytes} bytes")
        return data

    def member_head(self, member: str) -> bytes:
        """The first bytes of a member."""
        with self.open_member(member) as file:
            return file.read(HEAD_BYTES)

    def where(self, member: str | None = None) -> str:
        return self.name if member is None else f"{self.name}/{member}"

    def modified_at(self, member: str | None) -> Instant:
        """When a file of a folder was last written; those of an archive have its time."""
        if member is None or self.is_archive:
            return self.modified
        return Instant(int((self.path / member).stat().st_mtime * 1_000))

    @contextmanager
    def open_member(self, member: str | None = None) -> Iterator[IO[bytes]]:
        """The file, or a member, open for reading."""
        if member is None:
            with open_regular(self.path) as file:
                yield file
        elif self.is_archive:
            with self._open_archive() as archive:
                info = archive.getinfo(member)
                if info.file_size > _MAX_RATIO * max(1, info.compress_size) + HEAD_BYTES:
                    raise TooLarge(
                        f"{self.where(member)}: {info.file_size} bytes in {info.compress_size}; not unpacked"
                    )
                with _naming_archive(self.where(member)), archive.open(info) as inner:
                    yield inner
        else:
            with open_regular(self.path / member) as file:
                yield file

    @contextmanager
    def _open_archive(self) -> Iterator[zipfile.ZipFile]:
        if self._stack is None:
            with self._new_archive() as archive:
                yield archive
            return
        if self._archive is None:
            self._archive = self._stack.enter_context(self._new_archive())
        with _naming_archive(self.name):
            yield self._archive

    @contextmanager
    def _new_archive(self) -> Iterator[zipfile.ZipFile]:
        with (
            open_regular(self.path) as file,
            _naming_archive(self.name),
            zipfile.ZipFile(file) as archive,
        ):
            yield archive

    # --- JSON --------------------------------------------------------------------------------------------------------

    def read_lines(self, member: str | None = None) -> Iterator[tuple[int, Any]]:
        """The documents of a file with one a line, with the numbers of their lines; an error in the place of a bad one.

        Any number of lines.
        """
        with self.open_member(member) as file:
            number = 0
            while line := file.readline(MAX_DOCUMENT_BYTES + 1):
                number += 1
                if line.strip():
                    yield number, _parse_document(line)

    def read_raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines of a file with their numbers. Any number of them; one that is too long comes in pieces."""
        with self.open_member() as file:
            yield from enumerate(iter(lambda: file.readline(MAX_DOCUMENT_BYTES + 1), b""), start=1)

    def read_array(
        self, *names: str, member: str | None = None, max_bytes: int = MAX_DOCUMENT_BYTES
    ) -> Iterator[tuple[int, Any]] | None:
        """The documents of an array, or of the first of some names that holds one, numbered from 1; None: none does.

        Only the bytes of the file are held; each document is read when it is asked for.
        """
        if member is None and self.starts_with(b"{"):
            fields = self.fields
            data = next(
                (held for name in names if (held := bytes(fields.get(name, b""))).startswith(b"[")),
                b"",
            )
        else:
            data = self.read_text(member).lstrip()
            data = data if data.startswith(b"[") else b""
        if not data:
            return None
        try:
            several = msgspec.json.decode(data, type=list[msgspec.Raw])
        except _UNREAD as error:
            raise InvalidInput(f"{self.where(member)}: {error}") from None
        return (
            (number, _parse_document(bytes(each), max_bytes))
            for number, each in enumerate(several, start=1)
        )

    @cached_property
    def fields(self) -> dict[str, msgspec.Raw]:
        """The fields of a file that is one object, none of them read yet; any other file has none."""
        try:
            return (
                msgspec.json.decode(self.read_text(), type=dict[str, msgspec.Raw])
                if self.starts_with(b"{")
                else {}
            )
        except _UNREAD:
            return {}

    def value(self, name: str) -> Any:
        """One field of a file that is one object; None if it has none, or none that can be read."""
        found = _parse_document(bytes(self.fields.get(name, b"null")))
        return None if isinstance(found, MemorandaError) else found

    def read_documents(
        self, name: str = "", *, max_bytes: int = MAX_DOCUMENT_BYTES
    ) -> Iterator[tuple[str, Any]]:
        """The documents of the array under a name, or of the whole file, which is an array or has one a line.

        Each with its place.
        """
        if name:
            several = self.read_array(name, max_bytes=max_bytes) if name in self.fields else None
        else:
            several = (
                self.read_array(max_bytes=max_bytes)
                if self.starts_with(b"[")
                else self.read_lines()
            )
        for number, document in several or ():
            yield f"{self.name}: {name} {number}" if name else f"{self.name}:{number}", document

    def first_documents(self, *names: str) -> Iterator[dict[str, Any]]:
        """The first object of the file, and of the arrays under some names: they tell what it is.

        Only a file whose first bytes name one of these is read further than that.
        """
        if isinstance(self.first, dict):
            yield self.first
        is_named = any(f'"{name}"'.encode() in self.head for name in names)
        for name in names if is_named else ():
            found = next(self.read_documents(name), None)
            if found is not None and isinstance(found[1], dict):
                yield found[1]

    def read_text(self, member: str | None = None) -> bytes:
        return self.read(member).removeprefix(b"\xef\xbb\xbf")

    # --- databases ---------------------------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """The tables of a database with their columns; views, and what is no database, have none."""
        if not self.is_database:
            return {}
        try:
            with self._open_database() as database:
                return _read_tables(database)
        except InvalidInput:
            return {}

    def read_rows(
        self, table: str, columns: tuple[str, ...], order: str
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table, as dictionaries; of columns that it has not, nothing."""
        present = [each for each in columns if each in self.tables.get(table, ())]
        listed = ", ".join(map(_quoted, present))
        with self._open_database() as database:
            # Names of ours, and quoted.
            query = f"SELECT {listed} FROM main.{_quoted(table)} ORDER BY {_quoted(order)}"  # noqa: S608
            for row in database.execute(query):
                yield dict(zip(present, row, strict=True))

    @contextmanager
    def _open_database(self) -> Iterator[apsw.Connection]:
        """A database open for reading, that nobody's triggers, views or functions run in."""
        try:
            database = open_to_read(self.path)
        except apsw.Error as error:
            raise InvalidInput(f"{self.name}: {error}") from None
        steps = 0

        def is_too_long() -> bool:
            nonlocal steps
            steps += 1
            return steps > _MAX_STEPS

        try:
            database.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_DOCUMENT_BYTES)
            database.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            database.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
            database.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            database.set_progress_handler(is_too_long, _STEPS)
            yield database
        except (apsw.Error, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self.name}: the database cannot be read ({error})") from None
        finally:
            database.close()


def _file_size(file: IO[bytes], default: int) -> int:
    """Return the size of an open file; the default for a member of an archive, which is unpacked piece by piece."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return default


def _read_tables(database: apsw.Connection) -> dict[str, tuple[str, ...]]:
    named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
    columns = "SELECT name FROM pragma_table_info(?)"
    return {
        str(name): tuple(str(each) for (each,) in database.execute(columns, (name,)))
        for (name,) in database.execute(named).fetchall()
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_plain_name(name: str) -> bool:
    """Whether a member of an archive has a name that a file in a folder could have."""
    parts = name.split("/")
    return (
        not name.endswith("/")
        and not any(each.startswith(".") or not each for each in parts)
        and "\\" not in name
    )


@contextmanager
def _naming_archive(name: str) -> Iterator[None]:
    try:
        yield
    except _UNPACKED as error:
        raise InvalidInput(f"{name}: the archive cannot be read ({error})") from None


def _parse_document(data: bytes, max_bytes: int = MAX_DOCUMENT_BYTES) -> Any:
    """A document, or why it is none."""
    try:
        return json_text.parse(data, max_bytes=max_bytes)
    except MemorandaError as error:
        return error
