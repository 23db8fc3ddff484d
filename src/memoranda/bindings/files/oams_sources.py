"""OAMS in what a person names: a bundle, a JSONL file, a Markdown file or standard input.

    bundle    a folder with manifest.json and memories.jsonl
    jsonl     one memory per line
    markdown  sections that begin with `## key: `

JSONL and Markdown files may as well hold records of UMP; which they do, their first lines say, not their names.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, Literal

from memoranda.bindings.files import markdown_book
from memoranda.bindings.files.formats import MARKDOWN_ENDING as UMP_MARKDOWN_ENDING
from memoranda.bindings.files.oams_bundle import MARKDOWN_ENDINGS, BundleReader, open_regular
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.standards.oams import bundle, lines, markdown
from memoranda.standards.oams.bundle import Manifest
from memoranda.standards.oams.lines import Line

Shape = Literal["bundle", "jsonl", "markdown"]
Progress = Callable[[int], None]

STANDARD_STREAM: Final = "-"
# Names that ask for OAMS by themselves: notes.oams.jsonl, notes.oams.md, and the folder notes.oams.
ENDING: Final = ".oams"
LINES_ENDINGS: Final = (".jsonl", ".ndjson")
# Looked at to tell what a file is: so many lines that say something, or of Markdown so many bytes.
_TELLING_LINES: Final = 10
_LOOK_BYTES: Final = 1_048_576
_BOM: Final = b"\xef\xbb\xbf"
_HEADING: Final = b"## key: "
_FIELDS: Final = (b"**namespace:**", b"**created:**", b"**updated:**", b"<!-- oams: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was named, open: its memories one by one, and what is odd about it as a whole."""

    name: str
    shape: Shape
    lines: Iterable[Line]
    manifest: Manifest | None = None
    warnings: tuple[str, ...] = ()

    def where(self, number: int) -> str:
        """A line of it."""
        return f"{self.name}/{bundle.LINES_NAME}:{number}" if self.shape == "bundle" else f"{self.name}:{number}"


def said_of(line: Line) -> str:
    """What is wrong with a line, without its place."""
    assert line.error is not None
    place = f"line {line.number}: "
    return line.error.message[line.error.message.find(place) + len(place) :]


# --- which it is -------------------------------------------------------------------------------------


def shape_by_name(target: str) -> Shape:
    """The form in which to write to what a person names."""
    lowered = target.lower()
    if target == STANDARD_STREAM or lowered.endswith(LINES_ENDINGS):
        return "jsonl"
    return "markdown" if lowered.endswith(MARKDOWN_ENDINGS) else "bundle"


def asks_for_oams(target: str) -> bool:
    """Whether a name asks for OAMS by itself."""
    name = target.lower().rstrip("/")
    return name.endswith((ENDING, *(ENDING + ending for ending in (*LINES_ENDINGS, *MARKDOWN_ENDINGS))))


def holds_memories(source: str) -> bool:
    """Whether a named file or folder is OAMS."""
    path = Path(source)
    if path.is_dir():
        return _is_bundle(path)
    if not path.is_file() or source.lower().endswith(UMP_MARKDOWN_ENDING):
        return False
    try:
        with path.open("rb") as file:
            return look(file)[0] is not None
    except OSError:
        return False


def _is_bundle(folder: Path) -> bool:
    """Whether a folder is a bundle, or the remains of one that must not be taken for anything else."""
    manifest, memories = folder / bundle.MANIFEST_NAME, folder / bundle.LINES_NAME
    if memories.exists() and (manifest.exists() or holds_memories(str(memories))):
        return True
    try:
        with open_regular(manifest) as file:
            found = json_text.parse(file.read(bundle.MAX_MANIFEST_BYTES), max_bytes=bundle.MAX_MANIFEST_BYTES)
    except (MemorandaError, OSError):
        return False
    return isinstance(found, dict) and "oams_version" in found


def look(file: IO[bytes]) -> tuple[Shape | None, bytes]:
    """Which form of OAMS a stream has, if any, and what was read of it to tell."""
    seen: list[bytes] = []
    telling = _telling(_kept(file, seen))
    first = next(telling, b"")
    shape: Shape | None = None
    if first.startswith(b"{"):
        shape = "jsonl" if _are_memories(chain((first,), telling)) else None
    elif not first.startswith((b"---", b"[", markdown_book.MARK.encode())):
        shape = "markdown" if _has_section(chain((first,), telling)) else None
    return shape, b"".join(seen)


def _kept(file: IO[bytes], seen: list[bytes]) -> Iterator[bytes]:
    size_bytes = 0
    while size_bytes < _LOOK_BYTES and (line := file.readline(lines.MAX_LINE_BYTES)):
        seen.append(line)
        size_bytes += len(line)
        yield line


def _telling(found: Iterable[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(found):
        said = (line if number else line.removeprefix(_BOM)).strip()
        if said:
            yield said


def _are_memories(found: Iterable[bytes]) -> bool:
    """Whether the first line that is an object is a memory of OAMS."""
    for line in islice(found, _TELLING_LINES):
        try:
            value = json_text.parse(line, max_bytes=lines.MAX_LINE_BYTES)
        except MemorandaError:
            continue
        if isinstance(value, dict):
            # A record of UMP has a body and none of these.
            return "body" not in value and ("value" in value or "key" in value)
    return False


def _has_section(found: Iterable[bytes]) -> bool:
    """Whether there is the heading of a memory with one of its fields below it."""
    is_heading = False
    for line in found:
        if is_heading and line.startswith(_FIELDS):
            return True
        is_heading = line.startswith(_HEADING)
    return False


# --- reading it --------------------------------------------------------------------------------------


@contextmanager
def opened(source: str, *, stream: IO[bytes] | None = None, progress: Progress | None = None) -> Iterator[Source]:
    """What a person named, checked as a whole where it says what it holds. Raises whatever a bundle is refused for.

    `stream` is standard input, if something of it was looked at already; `progress` is told of bytes checked.
    """
    path = Path(source)
    if source != STANDARD_STREAM and path.is_dir():
        with _opened_bundle(path, progress) as reader:
            manifest, warnings = reader.manifest, tuple(reader.warnings)
            yield Source(name=source.rstrip("/"), shape="bundle", lines=reader, manifest=manifest, warnings=warnings)
        return
    with _file(source, stream) as file:
        shape, seen = look(file)
        if shape is None:
            # Not one good line: what complaints are made of then.
            is_markdown = source.lower().endswith(MARKDOWN_ENDINGS) or seen.lstrip().startswith(b"#")
            shape = "markdown" if is_markdown else "jsonl"
        whole = rejoined(seen, file)
        found = markdown.read(whole) if shape == "markdown" else lines.read(whole)
        yield Source(name="standard input" if source == STANDARD_STREAM else source, shape=shape, lines=found)


@contextmanager
def _opened_bundle(folder: Path, progress: Progress | None) -> Iterator[BundleReader]:
    if not (folder / bundle.MANIFEST_NAME).exists():
        raise NotFound(
            f"{folder}: there is no {bundle.MANIFEST_NAME}, so this is no complete bundle; "
            f"a file of memories can be named by itself"
        )
    with BundleReader(folder, progress=progress) as reader:
        yield reader


@contextmanager
def _file(source: str, stream: IO[bytes] | None) -> Iterator[IO[bytes]]:
    if source == STANDARD_STREAM:
        yield sys.stdin.buffer if stream is None else stream
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115
    except FileNotFoundError:
        raise NotFound(f"{source}: there is no such file or folder") from None
    except OSError as error:
        raise InvalidInput(f"{source}: {error.strerror}") from None
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
