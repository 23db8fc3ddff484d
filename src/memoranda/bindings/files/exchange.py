"""Export to files, import from files, and verify files, with every complaint placed by file and line."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from memoranda.bindings.files import formats, mg, mg_report
from memoranda.bindings.files.folder import write_whole, writing
from memoranda.bindings.files.formats import GRAINS, FileFormat, Format
from memoranda.bindings.files.names import file_name
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.model.instant import parse_instant
from memoranda.service.access import Access
from memoranda.service.exchange import REFUSALS_LIMIT, ImportReport
from memoranda.service.service import Service
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.ump import markdown, signature
from memoranda.standards.ump.record import Record

STANDARD_STREAM = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong with one record, and where it stands."""

    where: str
    id: str
    code: str
    message: str

    def document(self) -> dict[str, str]:
        return {"where": self.where, "id": self.id, "code": self.code, "message": self.message}


@dataclass(slots=True, kw_only=True)
class FilesReport:
    """What an import or a check of files found. The first complaints are listed; `refused` counts all."""

    created: int = 0
    merged: int = 0
    verified: int = 0
    refused: int = 0
    complaints: list[Complaint] = field(default_factory=list)

    def complain(self, where: str, name: object, error: MemorandaError) -> None:
        self.refused += 1
        if len(self.complaints) < REFUSALS_LIMIT:
            shown = name if isinstance(name, str) else ""
            self.complaints.append(Complaint(where=where, id=shown, code=error.code, message=error.message))

    def add(self, taken: ImportReport, where: Callable[[int], str]) -> None:
        """Add what the service took in and refused; `where` knows the place of each by its number."""
        self.created += taken.created
        self.merged += taken.merged
        self.refused += taken.refused
        for each in taken.refusals:
            complaint = Complaint(where=where(each.index), id=each.id, code=each.code, message=each.message)
            self.complaints.append(complaint)


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
    progress: Callable[[int], None] | None = None,
) -> FilesReport:
    """Take in the records and grains of files and folders; `adopt` makes records the caller's own."""
    report = FilesReport()
    files, grain_files = _sorted_out(_expanded(sources, report), known)
    trail = _Trail(report)
    records = trail.follow(files, None if known == GRAINS else known)
    drafts = (_adopted(record, access.default_tenant) for record in records) if adopt else records
    report.add(service.import_records(access, drafts, progress=progress), trail.where)
    for source in grain_files:
        _import_grains(service, access, source, report, progress)
    return report


def _import_grains(
    service: Service, access: Access, source: str, report: FilesReport, progress: Callable[[int], None] | None
) -> None:
    before = report.created + report.merged
    told = None if progress is None else lambda done: progress(before + done)
    # Fields become bytes here; a grain that is bytes already is not read twice.
    items = ((each if isinstance(each, bytes) else each.blob, state) for each, state in mg.grains_in(source))
    name = "standard input" if source == STANDARD_STREAM else source
    try:
        report.add(service.grains.import_grains(access, items, progress=told), lambda index: f"{name}: grain {index}")
    except MemorandaError as error:
        report.complain(name, "", error)


def _sorted_out(sources: Iterable[str], known: FileFormat | None) -> tuple[list[str], list[str]]:
    """Files of records, and files of grains."""
    files: list[str] = []
    grain_files: list[str] = []
    for source in sources:
        is_grains = known == GRAINS or (known is None and source != STANDARD_STREAM and mg.holds_grains(source))
        (grain_files if is_grains else files).append(source)
    return files, grain_files


def _adopted(record: Record, owner: str) -> Record:
    """The record as the caller's own: another owner's signature cannot vouch for that."""
    scope = record.get("scope", {})
    kept = {key: value for key, value in record.items() if key != "integrity"}
    return {**kept, "scope": {**scope, "owner": owner} if isinstance(scope, dict) else scope}


class _Trail:
    """Passes records on and remembers, in a few bytes each, where they came from."""

    def __init__(self, report: FilesReport) -> None:
        self._report = report
        self._lines = array("Q")
        self._starts: list[int] = []
        self._sources: list[str] = []

    def follow(self, sources: Iterable[str], known: Format | None) -> Iterator[Record]:
        for source in sources:
            self._starts.append(len(self._lines))
            self._sources.append(source)
            for number, found in read_source(source, known):
                if isinstance(found, MemorandaError):
                    self._report.complain(_placed(source, number), "", found)
                else:
                    self._lines.append(number)
                    yield found

    def where(self, index: int) -> str:
        """The place of the record with this number, from 1."""
        source = self._sources[bisect_right(self._starts, index - 1) - 1]
        return _placed(source, self._lines[index - 1])


def read_source(source: str, known: Format | None = None) -> Iterator[formats.Found]:
    """The records of one file, or of standard input."""
    shape = known or (None if source == STANDARD_STREAM else formats.format_of(source))
    try:
        with _opened(source) as file:
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


def _expanded(sources: Iterable[str], report: FilesReport) -> Iterator[str]:
    """Files as they are named, folders as the record files in them."""
    for source in sources:
        path = Path(source)
        if source == STANDARD_STREAM or path.is_file():
            yield source
        elif path.is_dir():
            # Older records first, so that a successor finds what it supersedes.
            yield from (str(each) for each in sorted(formats.files_in(path), key=_age))
            yield from map(str, formats.grain_files_in(path))
        else:
            report.complain(source, "", NotFound("there is no such file or folder"))


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
    files, grain_files = _sorted_out(_expanded(sources, report), known)
    for source in grain_files:
        _verify_grains(source, report, progress)
    for source in files:
        for number, found in read_source(source, None if known == GRAINS else known):
            where = _placed(source, number)
            if isinstance(found, MemorandaError):
                report.complain(where, "", found)
            elif signature.verify(found):
                report.verified += 1
            else:
                report.complain(where, found.get("id"), _unverified(found))
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
