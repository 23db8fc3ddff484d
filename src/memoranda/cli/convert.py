"""convert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.exchange import FormatName, Surveys, SystemName, TargetName, system_of
from memoranda.cli.run import GivenRun
from memoranda.cli.show import line, note, note_report, progress
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.convert import Converted


def convert(
    source: Annotated[str, Parameter(name="IN", help="A file, a folder, an archive, a database, or - for input.")],
    target: Annotated[str, Parameter(name="OUT", help="The file, a folder ending in /, or - for standard output.")],
    /,
    *,
    given: Annotated[
        Literal[FormatName, SystemName] | None,
        Parameter(name="--from", help="The format or the system of IN, if it does not tell it."),
    ] = None,
    wanted: Annotated[
        Literal[FormatName, TargetName] | None,
        Parameter(name="--to", help="The format or the system of OUT, if its name does not tell it."),
    ] = None,
    columns: Annotated[
        str | None, Parameter(name="--map", help="The columns of a table: text=NAME,user=NAME,created=NAME and so on.")
    ] = None,
    compress: Annotated[bool, Parameter(help="Compress an .mg file with zstd.")] = False,
    overwrite: Annotated[bool, Parameter(help="Replace the bundle of OAMS that is there already.")] = False,
    dry_run: Annotated[bool, Parameter(help="Say what would come of it, and write nothing.")] = False,
    run: GivenRun,
) -> int:
    """Write what a file holds in another form. No store is opened, and nothing but OUT is written.

    Between records (.ndjson, .ump.json, .ump.md), grains (.mg) and OAMS nothing is lost: what is not of the form of OUT
    is shown in its words, with the original inside, and comes back as it was. Files of other systems are read, too,
    and written as `export` does. Signatures are carried along and not checked. What cannot be written is said with its
    place, and the exit code is 1; if that is all, nothing is written. --owner says whose memories are that do not.
    """
    from memoranda.bindings.files.convert import convert_file
    from memoranda.bindings.files.exchange import form_of
    from memoranda.opening import system_clock

    to_folder = target.endswith("/") or (target != "-" and Path(target).is_dir())
    shape = wanted or form_of(target)
    _check(shape, to_folder=to_folder, compress=compress, overwrite=overwrite)
    settings, surveys = run.settings(), Surveys(is_quiet=run.json)
    with progress("converting") as done:
        converted = convert_file(
            source,
            target,
            shape,
            known=system_of(given, columns),
            owner=settings.owner or None,
            ump_version="1.0" if settings.ump_version == "1.0" else "0.1",
            exported_at=system_clock(),
            compress=compress,
            overwrite=overwrite,
            is_dry=dry_run,
            progress=done,
            found=surveys.add,
            expect=done.expect,
        )
    document = {"target": target, "format": shape, **_document(converted), **surveys.document()}
    if not run.json or target == "-":
        note_report(converted.report)
    said = _said(converted, dry_run=dry_run)
    if target == "-":
        note(said)
    else:
        run.answer({**document, **({"dry_run": True} if dry_run else {})}, lambda: line(said))
    return 1 if converted.report.refused else 0


def _check(shape: str, *, to_folder: bool, compress: bool, overwrite: bool) -> None:
    if compress and shape != "mg":
        raise InvalidInput("--compress is for .mg files")
    if overwrite and shape != "oams":
        raise InvalidInput("--overwrite is for a bundle of OAMS; a file is replaced anyway")
    if to_folder and shape not in ("markdown", "oams"):
        raise InvalidInput("a folder holds Markdown files, or a bundle of OAMS; give the name of a file")


def _document(converted: Converted) -> dict[str, object]:
    report = converted.report
    return {
        "converted": converted.written,
        "unchanged": converted.unchanged,
        "carried": converted.carried,
        "unsaid": dict(sorted(converted.unsaid.items())),
        "refused": report.refused,
        "refusals": [each.document() for each in report.refusals],
        "warnings": report.warnings,
    }


def _said(converted: Converted, *, dry_run: bool) -> str:
    report = converted.report
    how = f"{converted.unchanged} as they are, {converted.carried} in other words"
    said = f"{'would be: ' if dry_run else ''}{converted.written} converted ({how}), {report.refused} refused"
    if converted.unsaid:
        said += "; no place there for: " + ", ".join(
            f"{part} (of {count})" for part, count in sorted(converted.unsaid.items())
        )
    return said
