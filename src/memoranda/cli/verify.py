"""verify: check the signatures of the store, or of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memoranda.cli.options import FormatName
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import audit_entries, counted, line, note, note_report, progress

if TYPE_CHECKING:
    from memoranda.service.verify import VerifyReport


def verify(
    *sources: Annotated[
        str, Parameter(name="FILE", help="Files or folders (default: the whole store).")
    ],
    format_name: Annotated[
        FormatName | None,
        Parameter(name="--format", help="The format (default: detected from the file)."),
    ] = None,
    run: GivenRun,
) -> int:
    """Check every signature: of the whole store with its audit log and database, or of the records in files."""
    if sources:
        return _verify_files(sources, format_name, run)
    with run.open() as memoranda, progress("verifying") as done:
        report = memoranda.service.verify_store(progress=done)
    run.answer(report.document(), lambda: _show_store(report))
    return 0 if report.ok else 1


def _verify_files(sources: tuple[str, ...], format_name: FormatName | None, run: GivenRun) -> int:
    # The store is verified without the readers of files.
    from memoranda.bindings.files import exchange

    with progress("verifying") as done:
        report = exchange.verify_files(sources, form=format_name, progress=done)
    if not run.json:
        note_report(report)
    document = {
        "ok": not report.refused,
        "verified": report.verified,
        "failed": report.refused,
        "failures": [refusal.document() for refusal in report.refusals],
    }
    run.answer(
        document,
        lambda: line(f"{counted(report.verified, 'record')} verified, {report.refused} failed"),
    )
    return 1 if report.refused else 0


def _show_store(report: VerifyReport) -> None:
    for name in report.unverified:
        note(f"{name}: the stored record does not match its signature")
    for problem in report.database:
        note(f"database: {problem}")
    for problem in report.index:
        note(f"{problem}; to rebuild it, run: memoranda reindex")
    for loss in report.losses:
        note(loss.message)
    if not report.audit.ok:
        note(
            f"the audit log was changed or is incomplete from entry {report.audit.broken_at}: {report.audit.reason}"
        )
    verdict = "no problems found" if report.ok else "problems found"
    entries = audit_entries(report.audit)
    line(
        f"{counted(report.records, 'record')} of {counted(report.owners, 'owner')}, {entries}: {verdict}"
    )
