"""Export to files, import from files, and verify files, with every complaint placed by file and line."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from memoranda.bindings.files import formats, mg, mg_report, oams_exchange, oams_sources
from memoranda.bindings.files.folder import write_whole, writing
from memoranda.bindings.files.formats import GRAINS, OAMS, FileFormat, Format
from memoranda.bindings.files.names import file_name
from memoranda.bindings.files.oams_exchange import Renaming
from memoranda.bindings.files.report import FilesReport
from memoranda.errors import InvalidInput, MemorandaError, NotFound, Unsupported
from memoranda.model.instant import parse_instant
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.oams.namespace import Namespace, owner_hash
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.ump import markdown, signature
from memoranda.standards.ump.record import Record

STANDARD_STREAM = "-"


# --- out ---------------------------------------------------------------------------------------------


def export_file(records: Iterable[Record], target: str, known: Format, progress: Callable[[int], None]) -> int:
    """Write records to a file that appears whole or not at all, or to standard output; how many there were."""
    counter = _Counter(records, progress)
    if target == STANDARD_STREAM:
        formats.write(sys.stdout.buffer, counter, known)
        sys.stdout.buffer.flush()
    else:
        with writing(Path(target)) as file:
            formats.write(file, counter, known)
    return counter.count


def export_grains(
    grains: Iterable[tuple[bytes, IndexState]],
    target: str,
    progress: Callable[[int], None],
    *,
    history: bool = True,
    compress: bool = False,
) -> tuple[int, FilesReport]:
    """Write grains to an .mg file, in the order in which they were written: so a store takes them back the same way."""
    report = FilesReport()
    kept = mg.packable(grains, lambda address, error: report.complain(target, address, error), history=history)
    written = mg.pack(target, kept, order="given", compress=compress, progress=progress)
    return written.count, report


def export_folder(records: Iterable[Record], folder: Path, progress: Callable[[int], None]) -> int:
    """Write one Markdown file for each record; a file of another memory is never overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    taken = {path.name.casefold() for path in folder.iterdir()}
    holders = dict(_holders(folder))
    counter = _Counter(records, progress)
    for record in counter:
        name = holders.get(record["id"]) or file_name(record, taken)
        taken.add(name.casefold())
        write_whole(folder / name, markdown.render(record).encode("utf-8"))
    return counter.count


def _holders(folder: Path) -> Iterator[tuple[str, str]]:
    """(id, file name) of the records that already are in a folder."""
    for path in formats.files_in(folder):
        if path.name.endswith(formats.MARKDOWN_ENDING):
            with path.open("rb") as file:
                found = [record for _, record in formats.read(file, "markdown")]
            if len(found) == 1 and isinstance(found[0], dict) and isinstance(found[0].get("id"), str):
                yield found[0]["id"], path.name


class _Counter:
    """Records passing by, counted."""

    def __init__(self, records: Iterable[Record], progress: Callable[[int], None]) -> None:
        self._records = records
        self._progress = progress
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            yield record
            self.count += 1
            self._progress(self.count)


# --- in ----------------------------------------------------------------------------------------------


def import_files(
    service: Service,
    access: Access,
    sources: Iterable[str],
    *,
    known: FileFormat | None = None,
    adopt: bool = False,
    into: Namespace | None = None,
    is_dry: bool = False,
    progress: Callable[[int], None] | None = None,
) -> FilesReport:
    """Take in the records, grains and memories of files and folders.

    `adopt` makes them the caller's own. `into` (another namespace) and `is_dry` are for memories of OAMS alone.
    """
    report = FilesReport()
    found = _sorted_out(_expanded(sources, report, known), known)
    if into is not None or is_dry:
        found.require_oams("--dry-run" if is_dry else "--namespace")
    renaming = Renaming(into=into, owner=owner_hash(access.default_tenant)) if adopt or into is not None else None
    trail = _Trail(report, found.streams)
    records = trail.follow(found.records, _record_format(known))
    if found.records:
        drafts = (_adopted(record, access.default_tenant) for record in records) if adopt else records
        report.add(service.import_records(access, drafts, progress=progress), trail.where)
    for source in found.grains:
        _import_grains(service, access, source, report, progress)
    for source in found.memories:
        oams_exchange.import_source(
            service,
            access,
            source,
            report,
            renaming=renaming,
            is_dry=is_dry,
            stream=found.streams.get(source),
            progress=_going_on(progress, report),
        )
    return report


def _going_on(progress: Callable[[int], None] | None, report: FilesReport) -> Callable[[int], None] | None:
    """Progress that counts from what was taken in before."""
    before = report.created + report.merged + report.updated + report.unchanged
    return None if progress is None else lambda done: progress(before + done)


def _import_grains(
    service: Service, access: Access, source: str, report: FilesReport, progress: Callable[[int], None] | None
) -> None:
    told = _going_on(progress, report)
    # Fields become bytes here; a grain that is bytes already is not read twice.
    items = ((each if isinstance(each, bytes) else each.blob, state) for each, state in mg.grains_in(source))
    name = "standard input" if source == STANDARD_STREAM else source
    try:
        report.add(service.grains.import_grains(access, items, progress=told), lambda index: f"{name}: grain {index}")
    except MemorandaError as error:
        report.complain(name, "", error)


@dataclass(slots=True)
class _Sources:
    """What was named, by what it holds; and streams of which the start was looked at to tell."""

    records: list[str] = field(default_factory=list)
    grains: list[str] = field(default_factory=list)
    memories: list[str] = field(default_factory=list)
    streams: dict[str, IO[bytes]] = field(default_factory=dict)

    def require_oams(self, option: str) -> None:
        for source in (*self.records, *self.grains):
            name = "standard input" if source == STANDARD_STREAM else source
            raise InvalidInput(f"{option} is for memories of OAMS, and {name} holds none")


def _sorted_out(sources: Iterable[str], known: FileFormat | None) -> _Sources:
    found = _Sources()
    for source in sources:
        kind = known if known is not None else _kind(source, found.streams)
        {GRAINS: found.grains, OAMS: found.memories}.get(kind, found.records).append(source)
    return found


def _record_format(known: FileFormat | None) -> Format | None:
    if known == GRAINS:
        return None
    return None if known == OAMS else known


def _kind(source: str, streams: dict[str, IO[bytes]]) -> str:
    if source == STANDARD_STREAM:
        shape, seen = oams_sources.look(sys.stdin.buffer)
        streams[source] = oams_sources.rejoined(seen, sys.stdin.buffer)
        return OAMS if shape is not None else ""
    if mg.holds_grains(source):
        return GRAINS
    return OAMS if oams_sources.holds_memories(source) else ""


def _adopted(record: Record, owner: str) -> Record:
    """The record as the caller's own: another owner's signature cannot vouch for that."""
    scope = record.get("scope", {})
    kept = {key: value for key, value in record.items() if key != "integrity"}
    return {**kept, "scope": {**scope, "owner": owner} if isinstance(scope, dict) else scope}


class _Trail:
    """Passes records on and remembers, in a few bytes each, where they came from."""

    def __init__(self, report: FilesReport, streams: Mapping[str, IO[bytes]]) -> None:
        self._report = report
        self._streams = streams
        self._lines = array("Q")
        self._starts: list[int] = []
        self._sources: list[str] = []

    def follow(self, sources: Iterable[str], known: Format | None) -> Iterator[Record]:
        for source in sources:
            self._starts.append(len(self._lines))
            self._sources.append(source)
            for number, found in read_source(source, known, self._streams.get(source)):
                if isinstance(found, MemorandaError):
                    self._report.complain(_placed(source, number), "", found)
                else:
                    self._lines.append(number)
                    yield found

    def where(self, index: int) -> str:
        """The place of the record with this number, from 1."""
        source = self._sources[bisect_right(self._starts, index - 1) - 1]
        return _placed(source, self._lines[index - 1])


def read_source(source: str, known: Format | None = None, stream: IO[bytes] | None = None) -> Iterator[formats.Found]:
    """The records of one file, or of standard input; `stream`, if something of it was looked at already."""
    shape = known or (None if source == STANDARD_STREAM else formats.format_of(source))
    try:
        with _opened(source) if stream is None else nullcontext(stream) as file:
            yield from formats.read(file, shape)
    except OSError as error:
        yield 0, InvalidInput(error.strerror or str(error))
    except MemorandaError as error:
        yield 0, error


@contextmanager
def _opened(source: str) -> Iterator[IO[bytes]]:
    if source == STANDARD_STREAM:
        yield sys.stdin.buffer
    else:
        with Path(source).open("rb") as file:
            yield file


def _placed(source: str, number: int) -> str:
    name = "standard input" if source == STANDARD_STREAM else source
    return f"{name}:{number}" if number > 1 else name


def _expanded(sources: Iterable[str], report: FilesReport, known: FileFormat | None) -> Iterator[str]:
    """Files and bundles as they are named, other folders as the files in them."""
    for source in sources:
        path = Path(source)
        if source == STANDARD_STREAM or path.is_file() or (path.is_dir() and _is_bundle(source, known)):
            yield source
        elif path.is_dir():
            # Older records first, so that a successor finds what it supersedes.
            yield from (str(each) for each in sorted(formats.files_in(path), key=_age))
            yield from map(str, formats.grain_files_in(path))
        else:
            report.complain(source, "", NotFound("there is no such file or folder"))


def _is_bundle(folder: str, known: FileFormat | None) -> bool:
    return known == OAMS or (known is None and oams_sources.holds_memories(folder))


def _age(path: Path) -> tuple[int, str]:
    if formats.format_of(path.name) == "markdown":
        for _, found in read_source(str(path)):
            return _created(found), path.name
    return 0, path.name


def _created(found: Any) -> int:
    try:
        return parse_instant(found["time"]["created"])
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0


# --- verify ------------------------------------------------------------------------------------------


def verify_files(
    sources: Iterable[str], *, known: FileFormat | None = None, progress: Callable[[int], None] | None = None
) -> FilesReport:
    """Check the integrity block of every record, and every grain, in files and folders; no store is needed."""
    report = FilesReport()
    found = _sorted_out(_expanded(sources, report, known), known)
    for source in found.memories:
        report.complain(
            source, "", Unsupported("memories of OAMS are not signed; check them with: memoranda oams validate")
        )
    for source in found.grains:
        _verify_grains(source, report, progress)
    for source in found.records:
        for number, record in read_source(source, _record_format(known), found.streams.get(source)):
            where = _placed(source, number)
            if isinstance(record, MemorandaError):
                report.complain(where, "", record)
            elif signature.verify(record):
                report.verified += 1
            else:
                report.complain(where, record.get("id"), _unverified(record))
            if progress:
                progress(report.verified + report.refused)
    return report


def _verify_grains(source: str, report: FilesReport, progress: Callable[[int], None] | None) -> None:
    try:
        verdict = mg_report.verify(source, progress or (lambda _: None))
    except MemorandaError as error:
        report.complain(source, "", error)
        return
    report.verified += verdict.count
    for where, failure in verdict.failures:
        report.complain(where, "", failure)


def _unverified(record: Record) -> MemorandaError:
    from memoranda.errors import SignatureInvalid

    if "integrity" not in record:
        return SignatureInvalid("the record is not signed")
    return SignatureInvalid("the signature does not match the record")
