"""The source of an import: a file, a folder, a zip archive or a database, which is only read.

Everything in it may be hostile. Sizes are checked before reading, members of archives are read in place and never
unpacked to disk, links are not followed, and only the tables of a database are read, not its views or triggers.

An importer asks for what it needs (`members`, `read_lines`, `read_array`, `read_rows`), and gets it piece by piece. It
must not open files itself, because the limits are here. Recognition may look only at `head`, `first`, `fields`,
`members` and `tables`, which are cheap.
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

from memoranda.bindings.files.folder import Folder, open_regular
from memoranda.bindings.files.ignore import IgnoreList
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, TooLarge
from memoranda.model.instant import Instant
from memoranda.storage.sqlite.file import open_to_read

# Bytes read to recognise a file.
HEAD_BYTES: Final = 65_536
# Bytes of a file that is held in memory; its documents are parsed one by one.
MAX_FILE_BYTES: Final = 1_073_741_824
# Bytes of one document.
MAX_DOCUMENT_BYTES: Final = 4 * 1_048_576
# Number of files in a folder or an archive, and of levels of folders.
MAX_MEMBERS: Final = 100_000
MAX_DEPTH: Final = 32
# Unpacked bytes for each packed byte of an archive: text and JSON have ten, rarely thirty.
_MAX_RATIO: Final = 100
_SQLITE: Final = b"SQLite format 3\x00"
_UNREAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Errors of zipfile and its decompressors for archives that are damaged, encrypted or packed in an unknown way.
_UNPACKED: Final = (
    zipfile.BadZipFile,
    RuntimeError,
    EOFError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
)
_ZIP: Final = b"PK\x03\x04"
# A query ends after this many calls of the progress handler, each after so many steps of SQLite: some seconds of work.
_STEPS: Final = 100_000
_MAX_STEPS: Final = 20_000


class ImportSource:
    """One file, folder or archive.

    Within its context an archive is opened once for all its members, because opening reads the complete directory.

    Properties are computed once. Use it as a context if several members of an archive are read.
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
        """The first bytes; empty for a folder and for a file that cannot be read."""
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
        """Return True if a file begins with one of these marks, apart from white space."""
        return self._head_text.startswith(marks)

    @cached_property
    def first(self) -> object:
        """The document on the first line, or the first of an array, if it is in the first bytes; else None."""
        if self.starts_with(b"["):
            text = self._head_text[1:].decode("utf-8", "ignore").lstrip()
            try:
                return json.JSONDecoder().raw_decode(text)[0]
            except (ValueError, RecursionError):
                return None
        line, _, _ = self._head_text.partition(b"\n")
        document = _parse_document(line) if line.startswith(b"{") else None
        return None if isinstance(document, MemorandaError) else document

    @cached_property
    def modified(self) -> Instant:
        """The time of the last change, for memories whose system keeps no times."""
        return Instant(int(self.path.stat().st_mtime * 1_000))

    # --- files in it -------------------------------------------------------------------------------------------------

    @cached_property
    def members(self) -> dict[str, int]:
        """The files in a folder or an archive, name → size, without hidden files and links.

        Sizes are those before unpacking. Raises TooLarge for more than MAX_MEMBERS files.
        """
        if self.is_folder:
            return dict(self._walk_files())
        if not self.is_archive:
            return {}
        with self._open_archive() as archive:
            if len(archive.filelist) > MAX_MEMBERS:
                raise TooLarge(f"{self.name}: more than {MAX_MEMBERS} files")
            return {
                info.filename: info.file_size
                for info in archive.filelist
                if _is_plain_name(info.filename)
            }

    def _walk_files(self) -> Iterator[tuple[str, int]]:
        with Folder(self.path) as opened_folder:
            ignored = IgnoreList.load(opened_folder)
        count = 0
        for folder, folders, names in os.walk(self.path):
            depth = len(Path(folder).relative_to(self.path).parts)
            folders[:] = (
                sorted(subfolder for subfolder in folders if not subfolder.startswith("."))
                if depth < MAX_DEPTH
                else []
            )
            for name in sorted(names):
                path = Path(folder) / name
                status = path.lstat()
                if name.startswith(".") or not stat.S_ISREG(status.st_mode):
                    continue
                member = path.relative_to(self.path).as_posix()
                if ignored.matches(member):
                    continue
                count += 1
                if count > MAX_MEMBERS:
                    raise TooLarge(f"{self.name}: more than {MAX_MEMBERS} files")
                yield member, status.st_size

    def read_bytes(self, member: str | None = None, *, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """Return all of the file, or of a member. Raises TooLarge, InvalidInput."""
        with self.open_member(member) as file:
            # `read` allocates the requested size at once, so it must not exceed the size of the file.
            data = file.read(min(max_bytes, _file_size(file, max_bytes)) + 1)
        if len(data) > max_bytes:
            raise TooLarge(f"{self.where(member)}: over the limit of {max_bytes} bytes")
        return data

    def member_head(self, member: str) -> bytes:
        """Return the first bytes of a member."""
        with self.open_member(member) as file:
            return file.read(HEAD_BYTES)

    def where(self, member: str | None = None) -> str:
        return self.name if member is None else f"{self.name}/{member}"

    def modified_at(self, member: str | None) -> Instant:
        """Return the time of the last change of a file in a folder; members of an archive have its time."""
        if member is None or self.is_archive:
            return self.modified
        return Instant(int((self.path / member).stat().st_mtime * 1_000))

    @contextmanager
    def open_member(self, member: str | None = None) -> Iterator[IO[bytes]]:
        """Open the file or a member for reading. Raises TooLarge for a member that unpacks to too many bytes."""
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

    def read_lines(self, member: str | None = None) -> Iterator[tuple[int, object]]:
        """Yield the documents of a file with one on each line, with line numbers; an error for an invalid line.

        A line of more than MAX_DOCUMENT_BYTES is an error of its own and does not end the reading.
        """
        with self.open_member(member) as file:
            number = 0
            while line := file.readline(MAX_DOCUMENT_BYTES + 1):
                number += 1
                if line.strip():
                    yield number, _parse_document(line)

    def read_raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a file with their numbers; a line that is too long is split into several."""
        with self.open_member() as file:
            yield from enumerate(iter(lambda: file.readline(MAX_DOCUMENT_BYTES + 1), b""), start=1)

    def read_array(
        self, *names: str, member: str | None = None, max_bytes: int = MAX_DOCUMENT_BYTES
    ) -> Iterator[tuple[int, object]] | None:
        """Return the documents of the array that is the file, or of the first of some fields that is an array.

        They are numbered from 1. None if there is no array. Each document is parsed only when it is asked for.

        Elements are parsed one by one, so a file with a million memories does not fill the memory.
        """
        if member is None and self.starts_with(b"{"):
            fields = self.fields
            data = next(
                (
                    field
                    for name in names
                    if (field := bytes(fields.get(name, b""))).startswith(b"[")
                ),
                b"",
            )
        else:
            data = self.read_text(member).lstrip()
            data = data if data.startswith(b"[") else b""
        if not data:
            return None
        try:
            documents = msgspec.json.decode(data, type=list[msgspec.Raw])
        except _UNREAD as error:
            raise InvalidInput(f"{self.where(member)}: {error}") from None
        return (
            (number, _parse_document(bytes(document), max_bytes))
            for number, document in enumerate(documents, start=1)
        )

    @cached_property
    def fields(self) -> dict[str, msgspec.Raw]:
        """The fields of a file that is one object, not parsed yet; empty for any other file."""
        try:
            return (
                msgspec.json.decode(self.read_text(), type=dict[str, msgspec.Raw])
                if self.starts_with(b"{")
                else {}
            )
        except _UNREAD:
            return {}

    def value(self, name: str) -> object:
        """Return a field of a file that is one object; None if it is missing or invalid."""
        document = _parse_document(bytes(self.fields.get(name, b"null")))
        return None if isinstance(document, MemorandaError) else document

    def read_documents(
        self, name: str = "", *, max_bytes: int = MAX_DOCUMENT_BYTES
    ) -> Iterator[tuple[str, Any]]:
        """Yield the documents of the array in a field, or of the file, with their positions for messages.

        The file is an array, or has one document on each line.
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

    def first_documents(self, *names: str) -> Iterator[dict[str, object]]:
        """Yield the first object of the file, and of the arrays in some fields, for recognition.

        Arrays are only read if the first bytes of the file have one of the names.
        """
        if isinstance(self.first, dict):
            yield self.first
        is_named = any(f'"{name}"'.encode() in self.head for name in names)
        for name in names if is_named else ():
            first = next(self.read_documents(name), None)
            if first is not None and isinstance(first[1], dict):
                yield first[1]

    def read_text(self, member: str | None = None) -> bytes:
        return self.read_bytes(member).removeprefix(b"\xef\xbb\xbf")

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
        self,
        table: str,
        columns: tuple[str, ...],
        order: str,
        *,
        beginning: tuple[str, str] | None = None,
    ) -> Iterator[dict[str, object]]:
        """Yield the rows of a table as dictionaries of those columns that it has.

        `beginning`: only rows whose text in this column begins with this text.

        `order` is a column of the table, so that two runs give the same order. Only columns that exist are read.
        """
        present = [column for column in columns if column in self.tables.get(table, ())]
        column_list = ", ".join(map(_quoted, present))
        with self._open_database() as database:
            # All names are quoted, and come from our constants.
            where, bounds = "", tuple[str, ...]()
            if beginning is not None:
                name, text = _quoted(beginning[0]), beginning[1]
                where, bounds = f" WHERE {name} >= ? AND {name} < ?", (text, f"{text}\U0010ffff")
            query = (
                f"SELECT {column_list} FROM main.{_quoted(table)}{where} ORDER BY {_quoted(order)}"  # noqa: S608
            )
            for row in database.execute(query, bounds):
                yield dict(zip(present, row, strict=True))

    @contextmanager
    def _open_database(self) -> Iterator[apsw.Connection]:
        """Open the database for reading, with views, triggers and functions of its own disabled."""
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
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
    columns = "SELECT name FROM pragma_table_info(?)"
    return {
        str(name): tuple(str(column) for (column,) in database.execute(columns, (name,)))
        for (name,) in database.execute(tables).fetchall()
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_plain_name(name: str) -> bool:
    """Return True if the name of a member could be that of a file in a folder, and is not hidden."""
    parts = name.split("/")
    return (
        not name.endswith("/")
        and not any(part.startswith(".") or not part for part in parts)
        and "\\" not in name
    )


@contextmanager
def _naming_archive(name: str) -> Iterator[None]:
    try:
        yield
    except _UNPACKED as error:
        raise InvalidInput(f"{name}: the archive cannot be read ({error})") from None


def _parse_document(data: bytes, max_bytes: int = MAX_DOCUMENT_BYTES) -> object:
    """Parse a document; return the error if that fails."""
    try:
        return json_text.parse(data, max_bytes=max_bytes)
    except MemorandaError as error:
        return error
