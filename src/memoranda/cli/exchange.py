"""export, import and verify."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, progress
from memoranda.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from memoranda.bindings.files.exchange import FilesReport
    from memoranda.service.exchange import VerifyReport
    from memoranda.standards.ump.record import Record

FormatName = Literal["json", "ndjson", "markdown", "mg"]
FormatOption = Annotated[
    FormatName | None, Parameter(name="--format", help="The format, if the name does not tell it.")
]


def export(
    target: Annotated[str, Parameter(name="FILE", help="The file, a folder ending in /, or - for standard output.")],
    /,
    *,
    known: FormatOption = None,
    project: Annotated[str | None, Parameter(help="Only memories of this project.")] = None,
    history: Annotated[
        bool | None,
        Parameter(negative="--no-history", help="Earlier versions too; by default in a file, not in a folder."),
    ] = None,
    name: Annotated[tuple[str, ...], Parameter(name="--id", help="Only this memory; can be repeated.")] = (),
    compress: Annotated[bool, Parameter(help="Compress an .mg file with zstd.")] = False,
    run: GivenRun,
) -> int:
    """Write memories to a file: .ump.md, .ump.json, .ndjson or .mg; or to a folder, one .ump.md each.

    What its consent keeps here does not leave, and what was forgotten neither.
    """
    from memoranda.bindings.files import exchange

    to_folder = target.endswith("/") or (target != "-" and Path(target).is_dir())
    shape = known or ("markdown" if to_folder else _export_format(target))
    if to_folder and known not in (None, "markdown"):
        raise InvalidInput("a folder holds Markdown files; for one file of another format, give its name")
    if compress and shape != "mg":
        raise InvalidInput("--compress is for .mg files")
    if shape == "mg":
        return _export_grains(target, project, history, name, compress, run)
    with run.open() as memoranda, progress("exporting") as done:
        records = memoranda.service.export(
            memoranda.access,
            project=project,
            history=not to_folder if history is None else history,
            names=name or None,
        )
        if name:
            records = _at_least_one(records)
        if to_folder:
            count = exchange.export_folder(records, Path(target), done)
        else:
            count = exchange.export_file(records, target, shape, done)
    document = {"exported": count, "target": target, "format": shape}
    if target == "-":
        note(f"{counted(count, 'record')} exported")
    else:
        run.answer(document, lambda: line(f"{counted(count, 'record')} exported to {target}"))
    return 0


def _export_grains(
    target: str, project: str | None, history: bool | None, names: tuple[str, ...], compress: bool, run: GivenRun
) -> int:
    from memoranda.bindings.files import exchange

    if names:
        raise InvalidInput("--id goes with records; get one grain with: memoranda oms get ADDRESS --raw")
    with run.open() as memoranda, progress("exporting") as done:
        grains = memoranda.service.grains.export(memoranda.access, namespace=project)
        count, report = exchange.export_grains(grains, target, done, history=history is not False, compress=compress)
    document = {"exported": count, "target": target, "format": "mg", "left_out": report.refused}
    for each in report.complaints:
        note(f"{each.id}: {each.message}")
    if target == "-":
        note(f"{counted(count, 'grain')} exported")
    else:
        run.answer(document, lambda: line(f"{counted(count, 'grain')} exported to {target}"))
    return 1 if report.refused else 0


def _at_least_one(records: Iterator[Record]) -> Iterator[Record]:
    """The records; raised while the file is still being written, NotFound leaves none behind."""
    count = 0
    for count, record in enumerate(records, start=1):  # noqa: B007
        yield record
    if not count:
        raise NotFound("none of these memories may leave: they are forgotten, or their consent keeps them here")


def _export_format(target: str) -> FormatName:
    from memoranda.bindings.files.formats import require_format

    return "ndjson" if target == "-" else require_format(target)


def import_files(
    *sources: Annotated[str, Parameter(name="FILE", help="Files, folders, or - for standard input.")],
    known: FormatOption = None,
    adopt: Annotated[
        bool, Parameter(help="Make them your own: the owner becomes you, and you sign in place of who did.")
    ] = False,
    run: GivenRun,
) -> int:
    """Take memories in from files or folders, in any of the formats. What is refused is reported with its reason.

    Files of grains (.mg) are known by their first bytes; from standard input they need --format mg.
    """
    from memoranda.bindings.files import exchange

    with run.open() as memoranda, progress("importing") as done:
        report = exchange.import_files(
            memoranda.service,
            memoranda.access,
            _sources(sources),
            known=known,
            adopt=adopt,
            progress=done,
        )
    counts = {"created": report.created, "merged": report.merged, "refused": report.refused}
    refusals = [each.document() for each in report.complaints]
    if not run.json:
        _complain(report)
    run.answer(
        {**counts, "refusals": refusals},
        lambda: line(", ".join(f"{number} {what}" for what, number in counts.items())),
    )
    return 1 if report.refused else 0


def _sources(sources: tuple[str, ...]) -> tuple[str, ...]:
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name files or folders, or pipe records in")
    return sources or ("-",)


def verify(
    *sources: Annotated[str, Parameter(name="FILE", help="Files or folders; nothing means the whole store.")],
    known: FormatOption = None,
    run: GivenRun,
) -> int:
    """Check every signature: of the store, with its audit chain and its database, or of the records in files."""
    if sources:
        return _verify_files(sources, known, run)
    with run.open() as memoranda, progress("verifying") as done:
        report = memoranda.service.verify(memoranda.access, progress=done)
    run.answer(_store_document(report), lambda: _show_store(report))
    return 0 if report.ok else 1


def _verify_files(sources: tuple[str, ...], known: FormatName | None, run: GivenRun) -> int:
    from memoranda.bindings.files import exchange

    with progress("verifying") as done:
        report = exchange.verify_files(sources, known=known, progress=done)
    if not run.json:
        _complain(report)
    document = {
        "ok": not report.refused,
        "verified": report.verified,
        "failed": report.refused,
        "failures": [each.document() for each in report.complaints],
    }
    run.answer(document, lambda: line(f"{counted(report.verified, 'record')} verified, {report.refused} failed"))
    return 1 if report.refused else 0


def _complain(report: FilesReport) -> None:
    for each in report.complaints:
        note(f"{each.where}: {each.message}")
    if (more := report.refused - len(report.complaints)) > 0:
        note(f"and {more} more like these")


def _store_document(report: VerifyReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "records": report.records,
        "unverified": list(report.unverified),
        "audit": {
            "ok": report.audit.ok,
            "count": report.audit.count,
            "broken_at": report.audit.broken_at,
            "reason": report.audit.reason,
        },
        "database": list(report.database),
    }


def _show_store(report: VerifyReport) -> None:
    for name in report.unverified:
        note(f"{name}: the stored record does not match its signature")
    for problem in report.database:
        note(f"database: {problem}")
    if not report.audit.ok:
        note(f"the audit chain is broken at entry {report.audit.broken_at}: {report.audit.reason}")
    verdict = "all is well" if report.ok else "something is wrong"
    line(
        f"{counted(report.records, 'record')}, {counted(report.audit.count, 'audit entry', 'audit entries')}: {verdict}"
    )
