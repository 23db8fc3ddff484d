"""OAMS in files: a bundle, a JSONL file, a Markdown file or standard input.

    bundle    a folder with manifest.json and memories.jsonl
    jsonl     one memory per line
    markdown  sections that begin with `## key: `

JSONL and Markdown files may as well hold records of UMP; which they do, their first lines say, not their names.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, Literal

import msgspec

from memoranda.bindings.files import folder, markdown_book
from memoranda.bindings.files.folder import (
    STANDARD_STREAM,
    atomic_writer,
    display_name,
    open_path,
    open_regular,
    rejoin_stream,
    standard_output,
)
from memoranda.bindings.files.formats import MARKDOWN_ENDING as UMP_MARKDOWN_ENDING
from memoranda.bindings.files.formats import count_lines
from memoranda.bindings.files.oams_bundle import (
    MARKDOWN_ENDINGS,
    FolderBundleReader,
    FolderBundleWriter,
)
from memoranda.encoding import json_text
from memoranda.errors import (
    InvalidInput,
    MemorandaError,
    NotFound,
    StoreUnavailable,
    Unsupported,
    words_of,
)
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.standards.oams import bundle, lines, markdown
from memoranda.standards.oams.lines import Line, Packed, Sorter
from memoranda.standards.oams.memory import Memory

Shape = Literal["bundle", "jsonl", "markdown"]
Progress = Callable[[int], None]

# Names that ask for OAMS by themselves: notes.oams.jsonl, notes.oams.md, and the folder notes.oams.
ENDING: Final = ".oams"
LINES_ENDINGS: Final = (".jsonl", ".ndjson")
# Looked at to tell what a file is: so many lines that say something, or of Markdown so many bytes.
_TELLING_LINES: Final = 10
_LOOK_BYTES: Final = 1_048_576
_BOM: Final = b"\xef\xbb\xbf"
_HEADING: Final = b"## key: "
_FIELDS: Final = (b"**namespace:**", b"**created:**", b"**updated:**", b"<!-- oams: ")
_BUNDLE_NAMES: Final = frozenset(
    (bundle.MANIFEST_NAME, bundle.LINES_NAME, bundle.VECTORS_NAME, bundle.README_NAME)
)


# --- which it is -----------------------------------------------------------------------------------------------------


def shape_by_name(target: str) -> Shape:
    """The form in which to write to what a person names."""
    lowered = target.lower()
    if target == STANDARD_STREAM or lowered.endswith(LINES_ENDINGS):
        return "jsonl"
    return "markdown" if lowered.endswith(MARKDOWN_ENDINGS) else "bundle"


def has_oams_name(target: str) -> bool:
    """Whether a name asks for OAMS by itself."""
    name = target.lower().rstrip("/")
    return name.endswith(
        (ENDING, *(ENDING + ending for ending in (*LINES_ENDINGS, *MARKDOWN_ENDINGS)))
    )


def is_oams(source: str) -> bool:
    """Whether a named file or folder is OAMS."""
    path = Path(source)
    if path.is_dir():
        return _is_bundle(path)
    if not path.is_file() or source.lower().endswith(UMP_MARKDOWN_ENDING):
        return False
    try:
        with open_path(path) as file:
            return detect_shape(file)[0] is not None
    except OSError:
        return False


def _is_bundle(path: Path) -> bool:
    """Whether a folder is a bundle, or the remains of one that must not be taken for anything else."""
    manifest, memories = path / bundle.MANIFEST_NAME, path / bundle.LINES_NAME
    if memories.exists() and (manifest.exists() or is_oams(str(memories))):
        return True
    try:
        with open_regular(manifest) as file:
            found = json_text.parse(
                file.read(bundle.MAX_MANIFEST_BYTES), max_bytes=bundle.MAX_MANIFEST_BYTES
            )
    except (MemorandaError, OSError):
        return False
    return isinstance(found, dict) and "oams_version" in found


def detect_shape(file: IO[bytes]) -> tuple[Shape | None, bytes]:
    """Which form of OAMS a stream has, if any, and what was read of it to tell."""
    seen: list[bytes] = []
    telling = _content_lines(_read_ahead(file, seen))
    first = next(telling, b"")
    shape: Shape | None = None
    if first.startswith(b"{"):
        shape = "jsonl" if _are_memories(chain((first,), telling)) else None
    elif not first.startswith((b"---", b"[", markdown_book.MARK.encode())):
        shape = "markdown" if _has_section(chain((first,), telling)) else None
    return shape, b"".join(seen)


def _read_ahead(file: IO[bytes], seen: list[bytes]) -> Iterator[bytes]:
    size_bytes = 0
    while size_bytes < _LOOK_BYTES and (line := file.readline(lines.MAX_LINE_BYTES)):
        seen.append(line)
        size_bytes += len(line)
        yield line


def _content_lines(lines_read: Iterable[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(lines_read):
        said = (line if number else line.removeprefix(_BOM)).strip()
        if said:
            yield said


def _are_memories(content: Iterable[bytes]) -> bool:
    """Whether the first line that is an object is a memory of OAMS."""
    for line in islice(content, _TELLING_LINES):
        try:
            value = json_text.parse(line, max_bytes=lines.MAX_LINE_BYTES)
        except MemorandaError:
            continue
        if isinstance(value, dict):
            # A record of UMP has a body and none of these.
            return "body" not in value and ("value" in value or "key" in value)
    return False


def _has_section(content: Iterable[bytes]) -> bool:
    """Whether there is the heading of a memory with one of its fields below it."""
    is_heading = False
    for line in content:
        if is_heading and line.startswith(_FIELDS):
            return True
        is_heading = line.startswith(_HEADING)
    return False


# --- reading ---------------------------------------------------------------------------------------------------------


class OpenedSource(msgspec.Struct, frozen=True, kw_only=True):
    """What was named, open: its lines one by one, and what is odd about it as a whole."""

    name: str
    shape: Shape
    lines: Iterable[Line]
    warnings: tuple[str, ...] = ()
    # The bundle is another vendor's.
    is_foreign: bool = False

    def where(self, number: int) -> str:
        """A line of it."""
        return (
            f"{self.name}/{bundle.LINES_NAME}:{number}"
            if self.shape == "bundle"
            else f"{self.name}:{number}"
        )


@contextmanager
def open_memories(
    source: str, *, stream: IO[bytes] | None = None, progress: Progress | None = None
) -> Iterator[OpenedSource]:
    """What a person named, checked as a whole where it says what it holds. Raises whatever a bundle is refused for.

    `stream` is standard input, if something of it was looked at already; `progress` is told of bytes checked.
    """
    path = Path(source)
    if source != STANDARD_STREAM and path.is_dir():
        with _opened_bundle(path, progress) as reader:
            yield OpenedSource(
                name=source.rstrip("/"),
                shape="bundle",
                lines=reader,
                warnings=tuple(reader.warnings),
                is_foreign=reader.manifest.source_vendor != bundle.VENDOR,
            )
        return
    with folder.open_source(source, stream) as file:
        shape, seen = detect_shape(file)
        if shape is None:
            # Not one good line: what complaints are made of then.
            is_markdown = source.lower().endswith(MARKDOWN_ENDINGS) or seen.lstrip().startswith(
                b"#"
            )
            shape = "markdown" if is_markdown else "jsonl"
        whole = rejoin_stream(seen, file)
        found = markdown.read_memories(whole) if shape == "markdown" else lines.read_lines(whole)
        yield OpenedSource(name=display_name(source), shape=shape, lines=found)


@contextmanager
def _opened_bundle(path: Path, progress: Progress | None) -> Iterator[FolderBundleReader]:
    if not (path / bundle.MANIFEST_NAME).exists():
        raise NotFound(
            f"there is no {bundle.MANIFEST_NAME}, so this is no complete bundle; "
            f"a file of memories can be named by itself"
        )
    with FolderBundleReader(path, progress=progress) as reader:
        yield reader


def items(source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:
    """The memories of a source; a bundle that does not match its manifest is refused before that."""
    try:
        with open_memories(source, stream=stream) as found:
            if found.warnings:
                yield Item(form="oams", where=found.name, warnings=found.warnings)
            for line in found.lines:
                yield _build_item(found, line)
    except MemorandaError as error:
        yield Item(form="oams", where=source, error=_strip_source(error, source))


def _build_item(source: OpenedSource, line: Line) -> Item:
    where = source.where(line.number)
    if line.error is not None:
        return Item(
            form="oams",
            where=where,
            number=line.number,
            error=_line_error(line),
            warnings=tuple(line.warnings),
        )
    return Item(
        form="oams",
        where=where,
        number=line.number,
        value=line.memory,
        raw=line.raw if line.is_verbatim else None,
        warnings=tuple(line.warnings),
        is_checked=True,
        is_foreign=source.is_foreign,
    )


def _line_error(line: Line) -> MemorandaError:
    """What is wrong with a line, without its place."""
    assert line.error is not None
    place = f"line {line.number}: "
    line.error.message = line.error.message[line.error.message.find(place) + len(place) :]
    return line.error


def _strip_source(error: MemorandaError, source: str) -> MemorandaError:
    """What is wrong with a source as a whole, without its name."""
    error.message = error.message.removeprefix(f"{source.rstrip('/')}: ")
    return error


def verify(
    source: str,
    report: Report,
    progress: Progress,  # noqa: ARG001
    stream: IO[bytes] | None = None,  # noqa: ARG001
) -> None:
    """Memories of OAMS have no signatures to verify."""
    error = Unsupported("memories of OAMS are not signed; check them with: memoranda oams validate")
    report.refuse(source, "", error)


def count(source: str) -> int | None:
    """How many memories there are, if each has a line."""
    path = Path(source)
    if path.is_dir():
        return count_lines(path / bundle.LINES_NAME)
    return count_lines(path) if source.lower().endswith(LINES_ENDINGS) else None


class Validity(msgspec.Struct, kw_only=True):
    """Whether a source is OAMS as the specification wants it."""

    source: str
    report: Report
    shape: Shape | None = None


def validate(
    source: str, *, checking: Progress | None = None, progress: Progress = lambda _: None
) -> Validity:
    """Check a bundle as a whole, and every line of whatever it is."""
    found = Validity(source=source, report=Report())
    report = found.report
    try:
        with open_memories(source, progress=checking) as file:
            found.shape = file.shape
            for warning in file.warnings:
                report.warn(file.name, warning)
            for count, (where, line) in enumerate(_compare_lines(file, report), start=1):
                if line.error is not None:
                    report.refuse(where, "", _line_error(line))
                else:
                    report.verified += 1
                progress(count)
    except MemorandaError as error:
        report.refuse(source, "", _strip_source(error, source))
    return found


def _compare_lines(source: OpenedSource, report: Report) -> Iterator[tuple[str, Line]]:
    """The lines with their places; what only shows when lines are compared is said here."""
    seen: set[int] = set()
    last = b""
    for line in source.lines:
        where = source.where(line.number)
        for warning in line.warnings:
            report.warn(where, warning)
        if (memory := line.memory) is not None:
            name = hash((memory["namespace"], memory["key"]))
            if name in seen:
                # Section 2: the pair (namespace, key) is unique.
                report.refuse(
                    where, memory["key"], InvalidInput("its namespace and key have occurred before")
                )
            seen.add(name)
            order = lines.sort_key_of(memory, 0)
            if source.shape == "bundle" and order < last:
                report.warn(
                    where,
                    "it was created before the one above it; memories.jsonl is sorted by created_at",
                )
            last = max(last, order)
        yield where, line


# --- writing ---------------------------------------------------------------------------------------------------------


def write(
    memories: Iterable[tuple[bytes, Memory]],
    target: str,
    *,
    shape: Shape,
    exported_at: int,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> None:
    """Write memories to a bundle, a file or standard output, sorted by creation.

    A bundle that is there is replaced only if `overwrite` says so, and nothing but a bundle ever is.
    """
    if shape == "bundle":
        _write_bundle(memories, Path(target), exported_at, progress, overwrite=overwrite)
    else:
        _write_file(memories, target, shape, progress)


def _write_bundle(
    memories: Iterable[tuple[bytes, Memory]],
    path: Path,
    exported_at: int,
    progress: Progress,
    *,
    overwrite: bool,
) -> None:
    is_there = not path.is_symlink() and path.is_dir() and next(path.iterdir(), None) is not None
    if is_there and not overwrite:
        raise InvalidInput(
            f"{path}: there already is something; name another folder, or say --overwrite"
        )
    if is_there:
        _refuse_foreign_files(path)
    # The new bundle is whole before the old one goes.
    place = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.new") if is_there else path
    with FolderBundleWriter(place, exported_at=exported_at, progress=progress) as writer:
        for raw, memory in memories:
            writer.add(memory, raw)
    if is_there:
        _swap(place, path)


def _refuse_foreign_files(path: Path) -> None:
    for each in sorted(path.iterdir()):
        if each.name not in _BUNDLE_NAMES or each.is_symlink() or not each.is_file():
            raise InvalidInput(
                f"{path}: {each.name} is no part of a bundle; what else is there is not deleted"
            )


def _swap(new: Path, path: Path) -> None:
    old = new.with_suffix(".old")
    try:
        path.rename(old)
        new.rename(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{words_of(error)}; the new bundle is beside it, in {new.name}", path=path
        ) from None
    shutil.rmtree(old, ignore_errors=True)


def _write_file(
    memories: Iterable[tuple[bytes, Memory]], target: str, shape: Shape, progress: Progress
) -> None:
    with ExitStack() as stack:
        to_file = target != STANDARD_STREAM
        file = stack.enter_context(atomic_writer(Path(target)) if to_file else standard_output())
        # Nameless, and beside what is written, so that it needs no room elsewhere.
        beside = None if target == STANDARD_STREAM else Path(target).parent
        sorter = Sorter(stack.enter_context(tempfile.TemporaryFile(dir=beside)))
        for count, (raw, memory) in enumerate(memories, start=1):
            sorter.add(Packed(lines.sort_key_of(memory, count), _render(raw, memory, shape)))
        for done, packed in enumerate(sorter.merge(), start=1):
            file.write(packed.line)
            progress(done)
        file.flush()


def _render(raw: bytes, memory: Memory, shape: Shape) -> bytes:
    return markdown.render_one(memory, raw).encode("utf-8") if shape == "markdown" else raw + b"\n"
