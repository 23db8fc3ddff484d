"""OAMS in files: a bundle, a JSONL file, a Markdown file or standard input.

    bundle    a folder with manifest.json and memories.jsonl
    jsonl     one memory per line
    markdown  sections that begin with `## key: `

JSONL and Markdown files may also hold records of UMP; the first lines tell, not the name. The module is a codec of
`exchange.py`, and also has the validation and the writing of all three shapes.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, Literal

import msgspec

from memoranda.bindings.files import folder, markdown_book
from memoranda.bindings.files.folder import (
    PRIVATE,
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
    Conflict,
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

# The ending of names that stand for OAMS: notes.oams.jsonl, notes.oams.md, and the folder notes.oams.
ENDING: Final = ".oams"
LINES_ENDINGS: Final = (".jsonl", ".ndjson")
# Read to recognise a file: non-blank lines of JSONL, and bytes of any file.
_TELLING_LINES: Final = 10
_LOOK_BYTES: Final = 1_048_576
_BOM: Final = b"\xef\xbb\xbf"
_HEADING: Final = b"## key: "
_FIELDS: Final = (b"**namespace:**", b"**created:**", b"**updated:**", b"<!-- oams: ")
_BUNDLE_NAMES: Final = frozenset(
    (bundle.MANIFEST_NAME, bundle.LINES_NAME, bundle.VECTORS_NAME, bundle.README_NAME)
)


# --- recognising -----------------------------------------------------------------------------------------------------


def shape_by_name(target: str) -> Shape:
    """Return the shape in which to write to a target, by its name."""
    lowered = target.lower()
    if target == STANDARD_STREAM or lowered.endswith(LINES_ENDINGS):
        return "jsonl"
    return "markdown" if lowered.endswith(MARKDOWN_ENDINGS) else "bundle"


def has_oams_name(target: str) -> bool:
    """Return True if the name of a target stands for OAMS."""
    name = target.lower().rstrip("/")
    return name.endswith(
        (ENDING, *(ENDING + ending for ending in (*LINES_ENDINGS, *MARKDOWN_ENDINGS)))
    )


def is_oams(source: str) -> bool:
    """Return True if a file or folder holds memories of OAMS."""
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
    """Return True if a folder is a bundle, or an incomplete one, which must not be read as anything else."""
    manifest, memories = path / bundle.MANIFEST_NAME, path / bundle.LINES_NAME
    if memories.exists() and (manifest.exists() or is_oams(str(memories))):
        return True
    try:
        with open_regular(manifest) as file:
            document = json_text.parse(
                file.read(bundle.MAX_MANIFEST_BYTES), max_bytes=bundle.MAX_MANIFEST_BYTES
            )
    except (MemorandaError, OSError):
        return False
    return isinstance(document, dict) and "oams_version" in document


def detect_shape(file: IO[bytes]) -> tuple[Shape | None, bytes]:
    """Return the shape of OAMS that a stream has, or None, and the bytes read from it for that."""
    lines_read: list[bytes] = []
    content_lines = _content_lines(_read_ahead(file, lines_read))
    first = next(content_lines, b"")
    shape: Shape | None = None
    if first.startswith(b"{"):
        shape = "jsonl" if _are_memories(chain((first,), content_lines)) else None
    elif not first.startswith((b"---", b"[", markdown_book.MARK.encode())):
        shape = "markdown" if _has_section(chain((first,), content_lines)) else None
    return shape, b"".join(lines_read)


def _read_ahead(file: IO[bytes], lines_read: list[bytes]) -> Iterator[bytes]:
    """Yield the first lines of a stream, and collect them in `lines_read`."""
    size_bytes = 0
    while size_bytes < _LOOK_BYTES and (line := file.readline(lines.MAX_LINE_BYTES)):
        lines_read.append(line)
        size_bytes += len(line)
        yield line


def _content_lines(lines_read: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that are not blank, without white space and byte order mark."""
    for number, line in enumerate(lines_read):
        content = (line if number else line.removeprefix(_BOM)).strip()
        if content:
            yield content


def _are_memories(content: Iterable[bytes]) -> bool:
    """Return True if the first line that is an object is a memory of OAMS."""
    for line in islice(content, _TELLING_LINES):
        try:
            value = json_text.parse(line, max_bytes=lines.MAX_LINE_BYTES)
        except MemorandaError:
            continue
        if isinstance(value, dict):
            # A record of UMP has a body, and neither value nor key.
            return "body" not in value and ("value" in value or "key" in value)
    return False


def _has_section(content: Iterable[bytes]) -> bool:
    """Return True if there is the heading of a memory with one of its fields below it."""
    is_heading = False
    for line in content:
        if is_heading and line.startswith(_FIELDS):
            return True
        is_heading = line.startswith(_HEADING)
    return False


# --- reading ---------------------------------------------------------------------------------------------------------


class OpenedSource(msgspec.Struct, frozen=True, kw_only=True):
    """An open source: its lines one by one, and warnings about it as a whole."""

    name: str
    shape: Shape
    lines: Iterable[Line]
    warnings: tuple[str, ...] = ()
    # True for a bundle of another vendor.
    is_foreign: bool = False

    def where(self, number: int) -> str:
        """Return the position of a line for messages."""
        file = f"{self.name}/{bundle.LINES_NAME}" if self.shape == "bundle" else self.name
        return f"{file}:{number}"


@contextmanager
def open_memories(
    source: str, *, stream: IO[bytes] | None = None, progress: Progress | None = None
) -> Iterator[OpenedSource]:
    """Open a source. A bundle is checked against its manifest first; raises InvalidInput, Unsupported or NotFound.

    `stream` replaces standard input if it was partly read; `progress` gets the number of bytes checked.
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
        shape, first_bytes = detect_shape(file)
        if shape is None:
            # No valid line at all: the shape decides which errors are reported.
            has_markdown_name = source.lower().endswith(MARKDOWN_ENDINGS)
            is_markdown = has_markdown_name or first_bytes.lstrip().startswith(b"#")
            shape = "markdown" if is_markdown else "jsonl"
        rejoined_stream = rejoin_stream(first_bytes, file)
        read_lines = markdown.read_memories if shape == "markdown" else lines.read_lines
        yield OpenedSource(
            name=display_name(source), shape=shape, lines=read_lines(rejoined_stream)
        )


@contextmanager
def _opened_bundle(path: Path, progress: Progress | None) -> Iterator[FolderBundleReader]:
    if not (path / bundle.MANIFEST_NAME).exists():
        raise NotFound(
            f"there is no {bundle.MANIFEST_NAME}, so this is not a complete bundle; "
            "to read one file of memories, give its name"
        )
    with FolderBundleReader(path, progress=progress) as reader:
        yield reader


def items(source: str, stream: IO[bytes] | None = None) -> Iterator[Item]:
    """Yield the memories of a source; a bundle that does not match its manifest is one item with an error."""
    try:
        with open_memories(source, stream=stream) as memories:
            if memories.warnings:
                yield Item(form="oams", where=memories.name, warnings=memories.warnings)
            for line in memories.lines:
                yield _build_item(memories, line)
    except MemorandaError as error:
        yield Item(form="oams", where=source, error=_strip_source(error, source))


def _build_item(source: OpenedSource, line: Line) -> Item:
    location = source.where(line.number)
    if line.error is not None:
        return Item(
            form="oams",
            where=location,
            number=line.number,
            error=_line_error(line),
            warnings=tuple(line.warnings),
        )
    return Item(
        form="oams",
        where=location,
        number=line.number,
        value=line.memory,
        raw=line.raw if line.is_verbatim else None,
        warnings=tuple(line.warnings),
        is_checked=True,
        is_foreign=source.is_foreign,
    )


def _line_error(line: Line) -> MemorandaError:
    """Return the error of a line, without its position in the message."""
    assert line.error is not None
    message, position = line.error.message, f"line {line.number}: "
    line.error.message = message[message.find(position) + len(position) :]
    return line.error


def _strip_source(error: MemorandaError, source: str) -> MemorandaError:
    """Return the error of a source as a whole, without its name in the message."""
    error.message = error.message.removeprefix(f"{source.rstrip('/')}: ")
    return error


def verify(
    source: str,
    report: Report,
    progress: Progress,  # noqa: ARG001
    stream: IO[bytes] | None = None,  # noqa: ARG001
) -> None:
    """Refuse the source in the report: memories of OAMS have no signatures to verify."""
    error = Unsupported("memories of OAMS are not signed; check them with: memoranda oams validate")
    report.refuse(source, "", error)


def count(source: str) -> int | None:
    """Return the number of memories in a source with one on each line; None for Markdown."""
    path = Path(source)
    if path.is_dir():
        return count_lines(path / bundle.LINES_NAME)
    return count_lines(path) if source.lower().endswith(LINES_ENDINGS) else None


class Validity(msgspec.Struct, kw_only=True):
    """The result of a validation against the specification."""

    source: str
    report: Report
    shape: Shape | None = None


def validate(
    source: str, *, checking: Progress | None = None, progress: Progress = lambda _: None
) -> Validity:
    """Check a bundle against its manifest, and every line of any source."""
    report = Report()
    validity = Validity(source=source, report=report)
    try:
        with open_memories(source, progress=checking) as file:
            validity.shape = file.shape
            for warning in file.warnings:
                report.warn(file.name, warning)
            for count, (location, line) in enumerate(_compare_lines(file, report), start=1):
                if line.error is not None:
                    report.refuse(location, "", _line_error(line))
                else:
                    report.verified += 1
                progress(count)
    except MemorandaError as error:
        report.refuse(source, "", _strip_source(error, source))
    return validity


def _compare_lines(source: OpenedSource, report: Report) -> Iterator[tuple[str, Line]]:
    """Yield the lines with their positions, and report problems between lines: duplicates and a wrong order."""
    seen_digests: set[int] = set()
    last = b""
    for line in source.lines:
        location = source.where(line.number)
        for warning in line.warnings:
            report.warn(location, warning)
        memory = line.memory
        if memory is not None:
            name = hash((memory["namespace"], memory["key"]))
            if name in seen_digests:
                # Section 2: the pair (namespace, key) is unique.
                report.refuse(
                    location,
                    memory["key"],
                    InvalidInput("its namespace and key have occurred before"),
                )
            seen_digests.add(name)
            order = lines.sort_key_of(memory, 0)
            if source.shape == "bundle" and order < last:
                report.warn(
                    location,
                    "it was created before the one above it; memories.jsonl is sorted by created_at",
                )
            last = max(last, order)
        yield location, line


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

    With `overwrite` an existing bundle is replaced; nothing but a bundle ever is.
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
            f"{path}: this folder is not empty; name another folder, or add --overwrite"
        )
    if is_there:
        _refuse_foreign_files(path)
    new_path = path
    if is_there:
        # The new bundle is complete before the old one is removed.
        new_path = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.new")
    with FolderBundleWriter(new_path, exported_at=exported_at, progress=progress) as writer:
        for raw, memory in memories:
            writer.add(memory, raw)
    if is_there:
        _swap(new_path, path)


def _refuse_foreign_files(path: Path) -> None:
    """Raise InvalidInput for a folder that has anything but the files of a bundle."""
    for file in sorted(path.iterdir()):
        if file.name not in _BUNDLE_NAMES or file.is_symlink() or not file.is_file():
            raise InvalidInput(
                f"{path}: {file.name} is not part of a bundle; other files are not deleted"
            )


def _swap(new_path: Path, path: Path) -> None:
    """Put a new bundle in place of the old one, and delete that."""
    old_path = new_path.with_suffix(".old")
    try:
        path.rename(old_path)
        new_path.rename(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{words_of(error)}; the new bundle is next to it, in {new_path.name}", path=path
        ) from None
    shutil.rmtree(old_path, ignore_errors=True)


def _write_file(
    memories: Iterable[tuple[bytes, Memory]], target: str, shape: Shape, progress: Progress
) -> None:
    with ExitStack() as stack:
        # The memories are sorted in a file without a name, in the folder of the target: that has room for them.
        if target == STANDARD_STREAM:
            file = stack.enter_context(standard_output())
            scratch_folder = None
        else:
            file = stack.enter_context(atomic_writer(Path(target)))
            scratch_folder = Path(target).parent
        sorter = Sorter(stack.enter_context(tempfile.TemporaryFile(dir=scratch_folder)))
        for count, (raw, memory) in enumerate(memories, start=1):
            sorter.add(Packed(lines.sort_key_of(memory, count), _render(raw, memory, shape)))
        for written_count, packed in enumerate(sorter.merge(), start=1):
            file.write(packed.line)
            progress(written_count)
        file.flush()


def _render(raw: bytes, memory: Memory, shape: Shape) -> bytes:
    return markdown.render_one(memory, raw).encode("utf-8") if shape == "markdown" else raw + b"\n"


def rewrite_lines(path: Path, changes: Mapping[tuple[str, str], Memory | None]) -> None:
    """Replace memories of a JSONL file by their namespace and key; None removes one. Other lines keep their bytes.

    The file appears complete, or not at all. Raises Conflict if another program writes it meanwhile.
    """
    with ExitStack() as stack:
        source: IO[bytes] | None = None
        if path.exists():
            source = stack.enter_context(open_regular(path))
            try:
                fcntl.flock(source, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Conflict(f"{path.name}: another program is writing it") from None
        status = None if source is None else os.fstat(source.fileno())
        mode = PRIVATE if status is None else stat.S_IMODE(status.st_mode)
        with atomic_writer(path, mode=mode) as target:
            if source is not None:
                _copy_other_lines(source, target, changes)
            for memory in changes.values():
                if memory is not None:
                    target.write(json_text.dump(memory) + b"\n")
            if status is not None and not (path.exists() and os.path.samestat(path.stat(), status)):
                raise Conflict(f"{path.name}: another program has replaced it")


def _copy_other_lines(
    source: IO[bytes], target: IO[bytes], changes: Mapping[tuple[str, str], Memory | None]
) -> None:
    """Copy the bytes of all lines but those of the changed memories."""
    removed = [
        line.offset
        for line in lines.read_lines(source)
        if line.memory is not None and (line.memory["namespace"], line.memory["key"]) in changes
    ]
    source.seek(0)
    offset, data = 0, b""
    for data in iter(source.readline, b""):
        if offset not in removed:
            target.write(data if data.endswith(b"\n") else data + b"\n")
        offset += len(data)
