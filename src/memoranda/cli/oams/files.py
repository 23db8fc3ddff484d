"""oams validate: check files and bundles against the standard. No store is opened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from memoranda.bindings.files import oams
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import counted, line, note_report, progress_steps
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.oams import Validity


def validate(
    *sources: Annotated[
        str, Parameter(name="FILE", help="Bundles, JSONL or Markdown files; - for standard input.")
    ],
    run: GivenRun,
) -> int:
    """Check every memory in files, and each bundle against its manifest. Exit code 1 if anything is wrong."""
    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name bundles or files, or pipe one in")
    with progress_steps("checking the bundle", "checking the memories") as (checking, done):
        verdicts = [
            oams.validate(source, checking=checking, progress=done) for source in sources or ("-",)
        ]
    is_ok = not any(verdict.report.refused for verdict in verdicts)

    def show() -> None:
        for verdict in verdicts:
            _show(verdict)

    run.answer({"ok": is_ok, "files": [_document(verdict) for verdict in verdicts]}, show)
    return 0 if is_ok else 1


def _document(verdict: Validity) -> dict[str, object]:
    report = verdict.report
    return {
        "file": verdict.source,
        "form": verdict.shape,
        "ok": not report.refused,
        "memories": report.verified,
        "refused": report.refused,
        "refusals": [refusal.document() for refusal in report.refusals],
        "warned": report.warned,
        "warnings": report.warnings,
    }


def _show(verdict: Validity) -> None:
    report = verdict.report
    note_report(report)
    memories = counted(report.verified, "memory", "memories")
    warnings = f", {counted(report.warned, 'warning')}" if report.warned else ""
    line(f"{verdict.source}: {memories}{warnings}, {'NOT valid' if report.refused else 'valid'}")
