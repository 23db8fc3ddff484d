"""oams validate: whether files and bundles are as the standard wants them. No store is opened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note_report, progress_steps
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.oams import Validity


def validate(
    *sources: Annotated[str, Parameter(name="FILE", help="Bundles, JSONL or Markdown files; - for standard input.")],
    run: GivenRun,
) -> int:
    """Check every memory in files, and that a bundle is what was exported. Exit code 1 if anything is wrong."""
    from memoranda.bindings.files import oams

    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name bundles or files, or pipe one in")
    with progress_steps("checking the bundle", "checking the memories") as (checking, done):
        verdicts = [oams.validate(each, checking=checking, progress=done) for each in sources or ("-",)]
    is_ok = not any(each.report.refused for each in verdicts)

    def say() -> None:
        for verdict in verdicts:
            _show(verdict)

    run.answer({"ok": is_ok, "files": [_document(each) for each in verdicts]}, say)
    return 0 if is_ok else 1


def _document(verdict: Validity) -> dict[str, object]:
    report = verdict.report
    return {
        "file": verdict.source,
        "form": verdict.shape,
        "ok": not report.refused,
        "memories": report.verified,
        "refused": report.refused,
        "refusals": [each.document() for each in report.refusals],
        "warned": report.warned,
        "warnings": report.warnings,
    }


def _show(verdict: Validity) -> None:
    report = verdict.report
    note_report(report)
    found = counted(report.verified, "memory", "memories")
    warned = f", {counted(report.warned, 'warning')}" if report.warned else ""
    line(f"{verdict.source}: {found}{warned}, {'NOT valid' if report.refused else 'valid'}")
