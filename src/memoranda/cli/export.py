"""export: write memories to a file or a folder.

What each format cannot express is decided in `service/exchange/exporting.py`; this module chooses the writer, shows
progress, and says what was left out. Exit code 1 means that the file is complete except for memories that are named on
standard error. With `--strict`, nothing is written then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from memoranda.bindings.files import exchange
from memoranda.bindings.files.oams import shape_by_name
from memoranda.cli.options import FormatName, RecordFormat, TargetName, is_folder
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, note, note_report, progress, progress_steps
from memoranda.errors import InvalidInput, NotFound
from memoranda.opening import system_clock
from memoranda.service.exchange.report import Report

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.standards.oms.manifest import IndexState
    from memoranda.standards.ump.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOptions:
    """Options for bundles of OAMS only."""

    namespace: Annotated[
        tuple[str, ...],
        Parameter(
            help="With OAMS, only this namespace, or your own namespace of this scope; can be repeated."
        ),
    ] = ()
    overwrite: Annotated[bool, Parameter(help="With OAMS, replace an existing bundle.")] = False


NO_BUNDLE_OPTIONS = BundleOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSelection:
    """The records to export."""

    project: str | None
    # None where the person chose neither --history nor --no-history.
    history: bool | None
    names: tuple[str, ...]
    is_strict: bool


def export(
    target: Annotated[
        str,
        Parameter(name="FILE", help="The file, a folder ending in /, or - for standard output."),
    ],
    /,
    *,
    format_name: Annotated[
        Literal[FormatName, TargetName] | None,
        Parameter(
            name="--format", help="The format, or another system (default: from the file name)."
        ),
    ] = None,
    project: Annotated[str | None, Parameter(help="Only memories of this project.")] = None,
    history: Annotated[
        bool | None,
        Parameter(
            negative="--no-history",
            help="Earlier versions too; by default in a file, not in a folder.",
        ),
    ] = None,
    name: Annotated[
        tuple[str, ...], Parameter(name="--id", help="Only this memory; can be repeated.")
    ] = (),
    compress: Annotated[bool, Parameter(help="Compress an .mg file with zstd.")] = False,
    book: Annotated[
        bool, Parameter(help="Several memories in one .ump.md file, which only Memoranda reads.")
    ] = False,
    strict: Annotated[
        bool, Parameter(help="Write nothing if a memory would be left out or redacted.")
    ] = False,
    bundle: BundleOptions = NO_BUNDLE_OPTIONS,
    run: GivenRun,
) -> int:
    """Write memories to a file: .ump.json, .ndjson, .mg, or .ump.md for one memory; or to a folder, one .ump.md each.

    With --format oams the target is a bundle of the Open Agent Memory Standard, which is a folder, or a .jsonl or .md
    file of that standard. Forgotten memories and those whose consent forbids export are left out. Each memory left out
    is reported, and then the exit code is 1.
    """
    to_folder = is_folder(target)
    shape = format_name or cast("FormatName | TargetName", exchange.format_for_target(target))
    selection = ExportSelection(project=project, history=history, names=name, is_strict=strict)
    if compress and shape != "mg":
        raise InvalidInput("--compress is for .mg files")
    if book and (to_folder or shape != "markdown"):
        raise InvalidInput("--book is for one .ump.md file")
    if shape in ("mem0", "langgraph", "server-memory", "csv"):
        if project is not None or history is not None or name or strict or to_folder:
            raise InvalidInput(
                f"an export to {shape} holds all current memories in one file: give no other option"
            )
        return _export_system(target, shape, run)
    if shape == "oams":
        if project is not None or history is not None or name:
            raise InvalidInput("OAMS has no projects, histories and ids; choose with --namespace")
        return _export_memories(target, bundle, run, is_strict=strict)
    if bundle != NO_BUNDLE_OPTIONS:
        raise InvalidInput("--namespace and --overwrite need --format oams")
    if to_folder and shape != "markdown":
        raise InvalidInput(
            "a folder holds Markdown files; for one file of another format, give its name"
        )
    if shape == "mg":
        return _export_grains(target, selection, run, is_compressed=compress)
    # An .ump.md file holds one version of one memory, unless it is a book.
    is_single = shape == "markdown" and not to_folder and not book
    return _export_records(target, cast("RecordFormat", shape), selection, run, is_single=is_single)


def _export_records(
    target: str, shape: RecordFormat, selection: ExportSelection, run: GivenRun, *, is_single: bool
) -> int:
    to_folder = is_folder(target)
    has_history = (
        selection.history if selection.history is not None else not to_folder and not is_single
    )
    summary = _Summary(target=target, noun="record", details={"format": shape}, run=run)
    with (
        run.open() as memoranda,
        progress("exporting", partial(_count, memoranda, selection, has_history)) as bar,
    ):

        def read_records(report: Report) -> Iterator[Record]:
            return memoranda.service.export(
                memoranda.access,
                project=selection.project,
                history=has_history,
                names=selection.names or None,
                report=report,
            )

        if selection.is_strict and (losses := exchange.find_losses(read_records)):
            return summary.refuse(losses)
        report = Report()
        records = read_records(report)
        if selection.names:
            records = _require_one(records)
        if is_single:
            records = exchange.require_single(records)
        if to_folder:
            count = exchange.export_folder(records, Path(target), bar)
        else:
            count = exchange.export_file(records, target, shape, bar)
    return summary.give(count, report)


def _count(memoranda: Memoranda, selection: ExportSelection, has_history: bool) -> int:
    """Return about how many documents an export writes: those that other formats cannot express are left out."""
    if selection.names:
        return len(selection.names)
    if has_history and selection.project is None:
        return memoranda.service.count_versions(memoranda.owner)
    statistics = memoranda.stats()
    if selection.project is None:
        return statistics.memories
    return statistics.projects.get(selection.project, 0)


def _export_memories(target: str, bundle: BundleOptions, run: GivenRun, *, is_strict: bool) -> int:
    report, shape = Report(), shape_by_name(target)
    if bundle.overwrite and shape != "bundle":
        raise InvalidInput("--overwrite is for a bundle; a file is always replaced")
    summary = _Summary(
        target=target, noun="memory", details={"format": "oams", "form": shape}, run=run
    )
    with run.open() as memoranda, progress_steps("reading", "writing") as (reading, sorting):
        service, access = memoranda.service, memoranda.access
        namespaces = [memoranda.oams.namespace(name) for name in bundle.namespace]
        read_memories = partial(exchange.select_memories, service, access, namespaces=namespaces)
        if is_strict and (losses := exchange.find_losses(read_memories)):
            return summary.refuse(losses)
        count = exchange.export_memories(
            exchange.select_memories(service, access, report, namespaces),
            target,
            shape=shape,
            exported_at=system_clock(),
            overwrite=bundle.overwrite,
            reading=reading,
            sorting=sorting,
        )
    return summary.give(count, report)


def _export_system(target: str, system: TargetName, run: GivenRun) -> int:
    report, summary = (
        Report(),
        _Summary(target=target, noun="memory", details={"format": system}, run=run),
    )
    with (
        run.open() as memoranda,
        progress("exporting", lambda: memoranda.stats().memories) as bar,
    ):
        count = exchange.export_system(
            memoranda.service, memoranda.access, target, system, report, bar
        )
    return summary.give(count, report)


def _export_grains(
    target: str, selection: ExportSelection, run: GivenRun, *, is_compressed: bool
) -> int:
    if selection.names:
        raise InvalidInput(
            "--id is for records; get one grain with: memoranda oms get ADDRESS --raw"
        )
    summary = _Summary(target=target, noun="grain", details={"format": "mg"}, run=run)
    has_history = selection.history is not False
    with (
        run.open() as memoranda,
        progress("exporting", partial(_count, memoranda, selection, has_history)) as bar,
    ):

        def read_grains(report: Report) -> Iterator[tuple[bytes, IndexState]]:
            return memoranda.service.grains.export(
                memoranda.access,
                namespace=selection.project,
                history=has_history,
                report=report,
            )

        def read_packable(report: Report) -> Iterator[object]:
            return exchange.filter_packable(read_grains(report), report)

        if selection.is_strict and (losses := exchange.find_losses(read_packable)):
            return summary.refuse(losses)
        report = Report()
        count = exchange.export_grains(
            read_grains(report), target, report, bar, compress=is_compressed
        )
    return summary.give(count, report)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """The answer of an export: the number of exported items, and those left out with the reasons."""

    target: str
    # The singular of the exported items: record, memory or grain.
    noun: str
    # Further members of the JSON answer.
    details: dict[str, object]
    run: GivenRun

    def give(self, count: int, report: Report) -> int:
        """Print the answer and return the exit code: 1 if anything was left out."""
        text = f"{self._count_phrase(count)} exported"
        if report.earlier_versions:
            text += f" without {count_phrase(report.earlier_versions, 'earlier version')}"
        self._answer(count, report, text)
        return 1 if report.left_behind else 0

    def refuse(self, report: Report) -> int:
        """Print why nothing was written, and return exit code 1."""
        reason = f"{self._count_phrase(report.left_behind)} would be left out, and {report.redacted} would be redacted"
        self._answer(0, report, f"nothing written: {reason}", is_written=False)
        return 1

    def _count_phrase(self, count: int) -> str:
        return count_phrase(count, self.noun, "memories" if self.noun == "memory" else None)

    def _answer(self, count: int, report: Report, text: str, *, is_written: bool = True) -> None:
        if not self.run.json or self.target == "-":
            note_report(report)
        if self.target == "-":
            note(text)
            return
        document: dict[str, object] = {
            "exported": count,
            "target": self.target,
            **self.details,
            "left_out": report.refused,
            "refusals": [refusal.document() for refusal in report.refusals],
            "kept": report.kept,
            "redacted": report.redacted,
            "earlier_versions": report.earlier_versions,
            "warnings": report.warnings,
        }
        self.run.answer(document, lambda: line(f"{text} to {self.target}" if is_written else text))


def _require_one(records: Iterator[Record]) -> Iterator[Record]:
    """Yield the records. Raises NotFound if there are none: in time, so that the empty file gets no name."""
    is_empty = True
    for record in records:
        is_empty = False
        yield record
    if is_empty:
        raise NotFound(
            "none of these memories can be exported: they are forgotten, or their consent forbids export"
        )
