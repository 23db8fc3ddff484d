"""From one form to another: read by the codecs of an import, translated without a store, written as an export is.

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
from memoranda.service.exchange.convert import Carried, Conversion, Target
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.standards.oams.memory import Memory
from memoranda.standards.ump.shapes import Version as UmpVersion

T = TypeVar("T")
_RECORDS: Final[dict[str, Format]] = {"json": "json", "ndjson": "ndjson", "markdown": "markdown"}


class ConversionResult(msgspec.Struct, kw_only=True):
    """What a conversion came to."""

    report: Report
    # In the other form what they were; and as views, with what they were inside.
    unchanged: int = 0
    carried: int = 0
    # What another system has no place for, and how many memories said it.
    unsaid: Tally[str] = msgspec.field(default_factory=Tally)

    @property
    def written(self) -> int:
        return self.report.exported


class _NothingToWrite(Exception):
    """Ends the writing of a file that would hold nothing of what was given."""


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
        exported_at=time.time_ns() // 1_000_000,
        is_dry=dry_run,
    )


def convert_file(
    source: str,
    target: str,
    shape: str,
    *,
    form: str | Importer | None = None,
    owner: str | None = None,
    ump_version: UmpVersion = "0.1",
    exported_at: int = 0,
    compress: bool = False,
    overwrite: bool = False,
    is_dry: bool = False,
    progress: Progress = lambda _: None,
    on_survey: OnSurvey | None = None,
    on_count: Progress | None = None,
) -> ConversionResult:
    """Write what a file, a folder or an archive holds in another form; of what cannot be, the report tells.

    `known` is the form or the system of the source, where it does not tell it, and `owner` has what comes from a form
    that does not say whose it is. Nothing is written if nothing could be read.
    """
    _refuse_same(source, target)
    conversion = Conversion(given=owner, ump_version=ump_version)
    several = list(exchange.find_sources([source], conversion.report, form, conversion.own))
    exchange.survey(several, on_survey, on_count)
    work = _FileConversion(
        conversion=conversion, sources=several, target=target, shape=shape, progress=progress
    )
    with suppress(_NothingToWrite), collect_seldom():
        work.read_only() if is_dry else work.write(
            exported_at, compress=compress, overwrite=overwrite
        )
    return ConversionResult(
        report=conversion.report,
        unchanged=conversion.unchanged,
        carried=conversion.carried,
        unsaid=work.unsaid,
    )


def _refuse_same(source: str, target: str) -> None:
    if STANDARD_STREAM in (source, target):
        return
    one, other = Path(source), Path(target)
    if other.exists() and one.exists() and one.samefile(other):
        raise InvalidInput(f"{target}: what is read is not written over; name another file")


class _FileConversion(msgspec.Struct, kw_only=True):
    """One file on its way to another."""

    conversion: Conversion
    sources: list[FileSource]
    target: str
    shape: str
    progress: Progress
    unsaid: Tally[str] = msgspec.field(default_factory=Tally)

    @property
    def standard_form(self) -> Target:
        return "oms" if self.shape == GRAINS else "ump" if self.shape in _RECORDS else "oams"

    def write(self, exported_at: int, *, compress: bool, overwrite: bool) -> None:
        target, conversion = self.target, self.conversion
        if self.standard_form == "oms":
            grains = self._require_any(self._converted(conversion.grain))
            mg.pack(
                target,
                grains,
                order="given",
                compress=compress,
                progress=self.progress,
                known=conversion.successions(),
            )
        elif self.standard_form == "ump":
            records = ProgressCounter(
                self._require_any(self._converted(conversion.record)), self.progress
            )
            if target.endswith("/") or Path(target).is_dir():
                exchange.export_folder(records, Path(target))
            else:
                one = exchange.require_single(records) if self.shape == "markdown" else records
                exchange.export_file(one, target, _RECORDS[self.shape])
        elif self.shape == OAMS:
            memories = ProgressCounter(
                self._require_any(self._converted(conversion.memory)), self.progress
            )
            shape = oams.shape_by_name(target)
            oams.write(memories, target, shape=shape, exported_at=exported_at, overwrite=overwrite)
        else:
            told = iter(ProgressCounter(self._require_any(self._without_losses()), self.progress))
            # Whose they are, the first may tell.
            first = list(islice(told, 1))
            exchange.write_system(chain(first, told), target, self.shape, conversion.own)

    def read_only(self) -> None:
        """Go through everything, and write nothing."""
        show: Callable[[Carried], object] = self.conversion.memory
        if self.standard_form != "oams":
            show = self.conversion.grain if self.standard_form == "oms" else self.conversion.record
        shown: Iterable[object] = (
            self._without_losses() if self.shape in EXPORTERS else self._converted(show)
        )
        for _ in ProgressCounter(shown, self.progress):
            pass

    def _items(self) -> Iterator[Item]:
        return chain.from_iterable(each.items() for each in self.sources)

    def _converted(self, show: Callable[[Carried], T]) -> Iterator[T]:
        if self.standard_form == "ump":
            grains = [each for each in self.sources if each.codec is exchange.GRAIN_FILES]
            if grains and all(each.name != STANDARD_STREAM for each in grains):
                self.conversion.learn_names(
                    lambda: chain.from_iterable(each.items() for each in grains)
                )
        return self.conversion.converted(self._items(), self.standard_form, show)

    def _without_losses(self) -> Iterator[Memory]:
        stated = self._converted(self.conversion.with_projection)
        # Whose they are, the first may tell.
        first = list(islice(stated, 1))
        return exchange.count_losses(
            chain(first, stated), self.shape, self.unsaid, self.conversion.own
        )

    def _require_any(self, shown: Iterable[T]) -> Iterator[T]:
        yield from shown
        if self.conversion.report.refused and not self.conversion.report.exported:
            raise _NothingToWrite
