"""Conversion of files from one form to another, without a store: read by codecs, translated, written like an export.

ump     records: .ndjson, .ump.json, one .ump.md or a folder of them
oms     .mg
oams    a bundle, .oams.jsonl, .oams.md
others  files of other systems, which are made from memories of OAMS
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from memoranda.bindings.files import exchange, mg, oams
from memoranda.bindings.files.exchange import FileSource, Progress, ProgressCounter
from memoranda.bindings.files.exporters import EXPORTERS
from memoranda.bindings.files.folder import STANDARD_STREAM
from memoranda.bindings.files.formats import GRAINS, OAMS, Format
from memoranda.bindings.files.importers.importer import Importer
from memoranda.bindings.files.reader_process import OnSurvey
from memoranda.encoding.garbage import collect_seldom
from memoranda.errors import InvalidInput
from memoranda.service.exchange.convert import Conversion, SourceMemory, Target
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.standards.oams.memory import Memory
from memoranda.standards.ump.shapes import Version as UmpVersion

T = TypeVar("T")
_RECORDS: Final[dict[str, Format]] = {"json": "json", "ndjson": "ndjson", "markdown": "markdown"}


class ConversionResult(msgspec.Struct, kw_only=True):
    """The result of a conversion: the report, and counts."""

    report: Report
    # Documents that had the form already, and documents written as views that carry the original inside.
    unchanged: int = 0
    carried: int = 0
    # Parts that the file of another system cannot hold, and the number of memories that have them.
    unsaid: Tally[str] = msgspec.field(default_factory=Tally)

    @property
    def written(self) -> int:
        """The number of documents written."""
        return self.report.exported


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the target of a conversion."""

    # The version of UMP that records are written in.
    ump_version: UmpVersion = "0.1"
    # Milliseconds since 1970; a bundle of OAMS states it.
    exported_at: int = 0
    compress: bool = False
    overwrite: bool = False
    # True if everything is converted, and nothing written.
    is_dry: bool = False


class ConversionObserver(msgspec.Struct, frozen=True, kw_only=True):
    """The functions that a conversion reports its progress to."""

    # Called with the number of documents converted so far.
    progress: Progress = exchange.ignore_progress
    # Called once for each source of another system, with what it contains.
    on_survey: OnSurvey | None = None
    # Called with the number of all memories, if it is known before the start.
    on_count: Progress | None = None


class _NothingToWrite(Exception):
    """Every document was refused; raised while the target is being written, so that it does not appear."""


def convert(
    source: str | Path,
    target: str | Path,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    owner: str | None = None,
    dry_run: bool = False,
) -> ConversionResult:
    """Write the contents of a file, a folder, an archive or a database in another form; the report has the refusals.

    The formats are those of `memoranda convert --from` and `--to`; by default names and contents decide.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = Path(folder, "notes.csv")
        ...     _ = table.write_text("id,text,date\\n1,use pnpm,2026-01-15\\n")
        ...     convert(table, Path(folder, "notes.mg")).written
        1
    """
    return convert_file(
        str(source),
        str(target),
        target_format or exchange.format_for_target(str(target)),
        form=source_format,
        owner=owner,
        options=WriteOptions(exported_at=time.time_ns() // 1_000_000, is_dry=dry_run),
    )


def convert_file(
    source: str,
    target: str,
    shape: str,
    *,
    form: str | Importer | None = None,
    owner: str | None = None,
    options: WriteOptions | None = None,
    observer: ConversionObserver | None = None,
) -> ConversionResult:
    """Write the documents of a file, a folder or an archive in another form; the report has the refusals.

    `shape` is the form of the target. `form` is a form or a system of the source that replaces recognition. `owner` is
    the owner of documents whose form does not state one. Nothing is written if every document was refused.
    """
    _refuse_same(source, target)
    options, observer = options or WriteOptions(), observer or ConversionObserver()
    conversion = Conversion(
        stated_owner=owner, ump_version=options.ump_version, now=options.exported_at
    )
    sources = list(exchange.find_sources([source], conversion.report, form, conversion.owner_hash))
    exchange.survey(sources, observer.on_survey, observer.on_count)
    work = _FileConversion(
        conversion=conversion,
        sources=sources,
        target=target,
        shape=shape,
        progress=observer.progress,
    )
    with suppress(_NothingToWrite), collect_seldom():
        work.read_only() if options.is_dry else work.write(options)
    return ConversionResult(
        report=conversion.report,
        unchanged=conversion.unchanged,
        carried=conversion.carried,
        unsaid=work.unsaid,
    )


def _refuse_same(source: str, target: str) -> None:
    """Raise InvalidInput if source and target are the same file."""
    if STANDARD_STREAM in (source, target):
        return
    source_path, target_path = Path(source), Path(target)
    if target_path.exists() and source_path.exists() and source_path.samefile(target_path):
        raise InvalidInput(f"{target}: this is the source, too; name another target")


class _FileConversion(msgspec.Struct, kw_only=True):
    """One conversion of some sources to a target."""

    conversion: Conversion
    sources: list[FileSource]
    target: str
    shape: str
    progress: Progress
    unsaid: Tally[str] = msgspec.field(default_factory=Tally)

    @property
    def standard_form(self) -> Target:
        """The standard of the documents in the target; files of other systems are made from memories of OAMS."""
        if self.shape == GRAINS:
            return "oms"
        return "ump" if self.shape in _RECORDS else "oams"

    def write(self, options: WriteOptions) -> None:
        """Write the target. Raises _NothingToWrite if every document was refused."""
        target, conversion = self.target, self.conversion
        if self.standard_form == "oms":
            mg.pack(
                target,
                self._require_any(self._converted(conversion.to_grain)),
                order="given",
                compress=options.compress,
                progress=self.progress,
                later_states=conversion.list_successions(),
            )
        elif self.standard_form == "ump":
            records = self._count_documents(self._converted(conversion.to_record))
            if target.endswith("/") or Path(target).is_dir():
                exchange.export_folder(records, Path(target))
            else:
                if self.shape == "markdown":
                    records = exchange.require_single(records)
                exchange.export_file(records, target, _RECORDS[self.shape])
        elif self.shape == OAMS:
            memories = self._count_documents(self._converted(conversion.to_memory))
            shape = oams.shape_by_name(target)
            oams.write(
                memories,
                target,
                shape=shape,
                exported_at=options.exported_at,
                overwrite=options.overwrite,
            )
        else:
            foreign = iter(self._count_documents(self._foreign_memories()))
            # The first memory is converted before `conversion.own` is read: it may tell the owner.
            first = list(islice(foreign, 1))
            exchange.write_system(chain(first, foreign), target, self.shape, conversion.owner_hash)

    def read_only(self) -> None:
        """Convert everything and write nothing: a dry run."""
        convert: Callable[[SourceMemory], object] = self.conversion.to_memory
        if self.standard_form == "oms":
            convert = self.conversion.to_grain
        elif self.standard_form == "ump":
            convert = self.conversion.to_record
        documents: Iterable[object]
        is_foreign = self.shape in EXPORTERS
        documents = self._foreign_memories() if is_foreign else self._converted(convert)
        for _ in ProgressCounter(documents, self.progress):
            pass

    def _items(self) -> Iterator[Item]:
        return chain.from_iterable(source.items() for source in self.sources)

    def _converted(self, convert: Callable[[SourceMemory], T]) -> Iterator[T]:
        """Return the documents in the form of the target.

        Grains are read twice for records: a record names its successor, which may come later in the file.
        """
        if self.standard_form == "ump":
            grains = [source for source in self.sources if source.codec is exchange.GRAIN_FILES]
            if grains and all(source.name != STANDARD_STREAM for source in grains):
                self.conversion.learn_names(
                    lambda: chain.from_iterable(source.items() for source in grains)
                )
        return self.conversion.convert_items(self._items(), self.standard_form, convert)

    def _foreign_memories(self) -> Iterator[Memory]:
        """Return the memories for a file of another system, and count the parts that it cannot hold."""
        memories = self._converted(self.conversion.with_projection)
        # The first memory is converted before `conversion.own` is read: it may tell the owner.
        first = list(islice(memories, 1))
        return exchange.count_losses(
            chain(first, memories), self.shape, self.unsaid, self.conversion.owner_hash
        )

    def _count_documents(self, documents: Iterable[T]) -> Iterable[T]:
        return ProgressCounter(self._require_any(documents), self.progress)

    def _require_any(self, documents: Iterable[T]) -> Iterator[T]:
        """Yield the documents. Raises _NothingToWrite at the end if every one was refused."""
        yield from documents
        if self.conversion.report.refused and not self.conversion.report.exported:
            raise _NothingToWrite
