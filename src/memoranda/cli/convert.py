"""convert: convert a file to another format, without a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from memoranda.bindings.files.convert import ConversionObserver, WriteOptions, convert_file
from memoranda.bindings.files.exchange import format_for_target
from memoranda.cli.importing import COLUMNS_HELP, SurveyLog, importer_of
from memoranda.cli.options import FormatName, SystemName, TargetName, is_folder
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, note, note_report, progress
from memoranda.errors import InvalidInput
from memoranda.opening import system_clock

if TYPE_CHECKING:
    from memoranda.bindings.files.convert import ConversionResult


def convert(
    source: Annotated[
        str, Parameter(name="IN", help="A file, a folder, an archive, a database, or - for input.")
    ],
    target: Annotated[
        str, Parameter(name="OUT", help="The file, a folder ending in /, or - for standard output.")
    ],
    /,
    *,
    source_format: Annotated[
        Literal[FormatName, SystemName] | None,
        Parameter(name="--from", help="The format or the system of IN (default: detected)."),
    ] = None,
    target_format: Annotated[
        Literal[FormatName, TargetName] | None,
        Parameter(name="--to", help="The format or the system of OUT (default: from its name)."),
    ] = None,
    columns: Annotated[str | None, Parameter(name="--map", help=COLUMNS_HELP)] = None,
    compress: Annotated[bool, Parameter(help="Compress an .mg file with zstd.")] = False,
    overwrite: Annotated[bool, Parameter(help="Replace an existing bundle of OAMS.")] = False,
    dry_run: Annotated[
        bool, Parameter(help="Show what would be converted, and write nothing.")
    ] = False,
    run: GivenRun,
) -> int:
    """Convert a file to another format. No store is opened, and only OUT is written.

    Nothing is lost between records (.ndjson, .ump.json, .ump.md), grains (.mg) and OAMS: each converted memory carries
    its original document, and converting back restores it. Files of other systems can be read, and written as by
    `export`. Signatures are carried over without being checked. --owner names the
    owner of memories that have none.

    Each memory that cannot be converted is reported with its file and line, and the exit code is 1. If none can be
    converted, nothing is written.
    """
    shape = target_format or format_for_target(target)
    _check_options(shape, to_folder=is_folder(target), compress=compress, overwrite=overwrite)
    settings, surveys = run.settings(), SurveyLog(is_quiet=run.json)
    with progress("converting") as bar:
        converted = convert_file(
            source,
            target,
            shape,
            form=importer_of(source_format, columns),
            owner=settings.owner or None,
            options=WriteOptions(
                ump_version="1.0" if settings.ump_version == "1.0" else "0.1",
                exported_at=system_clock(),
                compress=compress,
                overwrite=overwrite,
                is_dry=dry_run,
            ),
            observer=ConversionObserver(progress=bar, on_survey=surveys.add, on_count=bar.expect),
        )
    document = {"target": target, "format": shape, **_document(converted), **surveys.document()}
    if dry_run:
        document["dry_run"] = True
    if not run.json or target == "-":
        note_report(converted.report)
    summary = _summary(converted, dry_run=dry_run)
    if target == "-":
        note(summary)
    else:
        run.answer(document, lambda: line(summary))
    return 1 if converted.report.refused else 0


def _check_options(shape: str, *, to_folder: bool, compress: bool, overwrite: bool) -> None:
    """Raise InvalidInput if an option does not fit the format of OUT."""
    if compress and shape != "mg":
        raise InvalidInput("--compress is for .mg files")
    if overwrite and shape != "oams":
        raise InvalidInput("--overwrite is for a bundle of OAMS; a file is always replaced")
    if to_folder and shape not in ("markdown", "oams"):
        raise InvalidInput(
            "a folder holds Markdown files, or a bundle of OAMS; give the name of a file"
        )


def _document(converted: ConversionResult) -> dict[str, object]:
    report = converted.report
    return {
        "converted": converted.written,
        "unchanged": converted.unchanged,
        "carried": converted.carried,
        "unsaid": dict(sorted(converted.unsaid.items())),
        "refused": report.refused,
        "refusals": [refusal.document() for refusal in report.refusals],
        "warnings": report.warnings,
    }


def _summary(converted: ConversionResult, *, dry_run: bool) -> str:
    """Return the counts of a conversion in one line, with the fields that the target format cannot hold."""
    counts = f"{converted.written} converted ({converted.unchanged} unchanged, {converted.carried} mapped)"
    text = f"{'would be: ' if dry_run else ''}{counts}, {converted.report.refused} refused"
    if converted.unsaid:
        losses = ", ".join(f"{part} ({count})" for part, count in sorted(converted.unsaid.items()))
        text += f"; the target cannot hold: {losses}"
    return text
