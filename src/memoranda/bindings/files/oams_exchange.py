"""OAMS memories out to files, in from files, and checked in files, with every complaint placed by file and line."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from memoranda.bindings.files import oams_sources
from memoranda.bindings.files.folder import writing
from memoranda.bindings.files.oams_bundle import BundleWriter
from memoranda.bindings.files.oams_sources import STANDARD_STREAM, Shape, Source, said_of
from memoranda.bindings.files.report import FilesReport
from memoranda.errors import Conflict, InvalidInput, MemorandaError, NamespaceNotFound, StoreUnavailable
from memoranda.service.core.access import Access
from memoranda.service.oams import exchange as service_exchange
from memoranda.service.service import Service
from memoranda.standards.oams import bundle, lines, markdown
from memoranda.standards.oams.lines import Line, Packed, Sorter
from memoranda.standards.oams.namespace import Namespace, parse_namespace

Memory = dict[str, Any]
Progress = Callable[[int], None]

_BUNDLE_NAMES: Final = frozenset((bundle.MANIFEST_NAME, bundle.LINES_NAME, bundle.VECTORS_NAME, bundle.README_NAME))


def _unheard(_: int) -> None:
    """Progress that nobody asked for."""


# --- out ---------------------------------------------------------------------------------------------


def export(
    service: Service,
    access: Access,
    target: str,
    *,
    shape: Shape,
    exported_at: int,
    namespaces: Iterable[Namespace] = (),
    overwrite: bool = False,
    reading: Progress = _unheard,
    sorting: Progress = _unheard,
) -> int:
    """Write memories to a bundle, a file or standard output, sorted by creation; how many there were.

    A bundle that is there is replaced only if `overwrite` says so, and nothing but a bundle ever is.
    """
    chosen = sorted(set(namespaces))
    known = set(service.oams.namespaces(access)) if chosen else set()
    for each in chosen:
        if str(each) not in known:
            raise NamespaceNotFound(f"nothing was ever stored in {each}")
    memories = _told(service.oams.export(access, namespaces=chosen or None), reading)
    if shape == "bundle":
        return _write_bundle(memories, Path(target), exported_at, sorting, overwrite=overwrite)
    return _write_file(memories, target, shape, sorting)


def _told(memories: Iterable[tuple[bytes, Memory]], progress: Progress) -> Iterator[tuple[bytes, Memory]]:
    for count, each in enumerate(memories, start=1):
        yield each
        progress(count)


def _write_bundle(
    memories: Iterable[tuple[bytes, Memory]], folder: Path, exported_at: int, progress: Progress, *, overwrite: bool
) -> int:
    is_there = not folder.is_symlink() and folder.is_dir() and next(folder.iterdir(), None) is not None
    if is_there and not overwrite:
        raise InvalidInput(f"{folder}: there already is something; name another folder, or say --overwrite")
    replaced = is_there and overwrite
    if replaced:
        _refuse_foreign_files(folder)
    # The new bundle is whole before the old one goes.
    place = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(6)}.new") if replaced else folder
    with BundleWriter(place, exported_at=exported_at, progress=progress) as writer:
        for raw, memory in memories:
            writer.add(memory, raw)
    if replaced:
        _swap(place, folder)
    assert writer.manifest is not None
    return writer.manifest.memory_count or 0


def _refuse_foreign_files(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.name not in _BUNDLE_NAMES or path.is_symlink() or not path.is_file():
            raise InvalidInput(f"{folder}: {path.name} is no part of a bundle; what else is there is not deleted")


def _swap(new: Path, folder: Path) -> None:
    old = new.with_suffix(".old")
    try:
        folder.rename(old)
        new.rename(folder)
    except OSError as error:
        raise StoreUnavailable(f"{folder}: {error.strerror}; the new bundle is in {new}") from None
    shutil.rmtree(old, ignore_errors=True)


def _write_file(memories: Iterable[tuple[bytes, Memory]], target: str, shape: Shape, progress: Progress) -> int:
    count = 0
    with ExitStack() as opened:
        file: IO[bytes] = sys.stdout.buffer
        if target != STANDARD_STREAM:
            file = opened.enter_context(writing(Path(target)))
        # Nameless, and beside what is written, so that it needs no room elsewhere.
        beside = None if target == STANDARD_STREAM else Path(target).parent
        sorter = Sorter(opened.enter_context(tempfile.TemporaryFile(dir=beside)))
        for count, (raw, memory) in enumerate(memories, start=1):
            sorter.add(Packed(lines.order_of(memory, count), _rendered(raw, memory, shape)))
        for done, packed in enumerate(sorter.sorted(), start=1):
            file.write(packed.line)
            progress(done)
        file.flush()
    return count


def _rendered(raw: bytes, memory: Memory, shape: Shape) -> bytes:
    return markdown.render_one(memory).encode("utf-8") if shape == "markdown" else raw + b"\n"


# --- in ----------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Renaming:
    """Where memories go instead of where they say: all into one namespace, or to the same scopes of another owner.

    Only `namespace` changes; `source_id`, `parent_id` and whatever else names something stays as it is (section 5).
    """

    into: Namespace | None = None
    owner: str | None = None
    _origins: dict[int, int] = field(default_factory=dict)

    def apply(self, memory: Memory) -> Memory:
        """The memory at its new place. Raises Conflict where another one from elsewhere went already."""
        old = parse_namespace(memory["namespace"])
        new = self.into or Namespace(self.owner or old.owner, old.scope)
        # Two numbers for each memory: what it is called now, and where it came from.
        origin = self._origins.setdefault(hash((new, memory["key"])), hash(old))
        if origin != hash(old):
            raise Conflict(f"its key came from another namespace already; {new} can have it only once")
        return {**memory, "namespace": str(new)}


def import_source(
    service: Service,
    access: Access,
    source: str,
    report: FilesReport,
    *,
    renaming: Renaming | None = None,
    is_dry: bool = False,
    stream: IO[bytes] | None = None,
    progress: Progress | None = None,
) -> None:
    """Take in the memories of one source; a bundle that does not match its manifest is refused before that."""
    report.has_oams = True
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(oams_sources.opened(source, stream=stream))
        except MemorandaError as error:
            report.complain(source, "", error, _unplaced(error, source))
            return
        for warning in opened.warnings:
            report.warn(opened.name, warning)
        passed = _passed_on(opened, report, renaming)
        taken = service.oams.import_lines(access, passed, is_dry=is_dry, progress=progress)
    report.created += taken.created
    report.updated += taken.updated
    report.unchanged += taken.unchanged
    for each in taken.refusals:
        report.complain_of(opened.where(each.line), each.key, each.code, each.message)
    report.refused += taken.refused - len(taken.refusals)


def _unplaced(error: MemorandaError, source: str) -> str:
    """What is wrong with a source as a whole, without its name."""
    return error.message.removeprefix(f"{source.rstrip('/')}: ")


def _passed_on(source: Source, report: FilesReport, renaming: Renaming | None) -> Iterator[service_exchange.Line]:
    """The lines that can be read. What is odd about one is said here, where also its file is known."""
    for line in source.lines:
        for warning in line.warnings:
            report.warn(source.where(line.number), warning)
        if line.error is not None:
            report.complain(source.where(line.number), "", line.error, said_of(line))
        elif line.memory is not None:
            try:
                yield _given(line, line.memory, renaming)
            except Conflict as error:
                report.complain(source.where(line.number), line.memory["key"], error)


def _given(line: Line, memory: Memory, renaming: Renaming | None) -> service_exchange.Line:
    if renaming is not None:
        memory = renaming.apply(memory)
    is_verbatim = line.is_verbatim and memory is line.memory
    return service_exchange.Line(line.number, line.raw if is_verbatim else None, memory)


# --- validate ----------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Verdict:
    """Whether a source is OAMS as the specification wants it."""

    source: str
    shape: Shape | None = None
    memories: int = 0
    report: FilesReport = field(default_factory=FilesReport)

    @property
    def ok(self) -> bool:
        return not self.report.refused


def validate(source: str, *, checking: Progress | None = None, progress: Progress = _unheard) -> Verdict:
    """Check a bundle as a whole, and every line of whatever it is."""
    verdict = Verdict(source=source)
    report = verdict.report
    try:
        with oams_sources.opened(source, progress=checking) as opened:
            verdict.shape = opened.shape
            for warning in opened.warnings:
                report.warn(opened.name, warning)
            for count, (where, line) in enumerate(_checked(opened, report), start=1):
                if line.error is not None:
                    report.complain(where, "", line.error, said_of(line))
                else:
                    verdict.memories += 1
                progress(count)
    except MemorandaError as error:
        report.complain(source, "", error, _unplaced(error, source))
    return verdict


def _checked(source: Source, report: FilesReport) -> Iterator[tuple[str, Line]]:
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
                report.complain(where, memory["key"], InvalidInput("its namespace and key have occurred before"))
            seen.add(name)
            order = lines.order_of(memory, 0)
            if source.shape == "bundle" and order < last:
                report.warn(where, "it was created before the one above it; memories.jsonl is sorted by created_at")
            last = max(last, order)
        yield where, line
