"""oams validate: whether files and bundles are as the standard wants them. No store is opened."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, progress_steps
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.bindings.files.oams_exchange import Verdict


def validate(
    *sources: Annotated[str, Parameter(name="FILE", help="Bundles, JSONL or Markdown files; - for standard input.")],
    run: GivenRun,
) -> int:
    """Check every memory in files, and that a bundle is what was exported. Exit code 1 if anything is wrong."""
    from memoranda.bindings.files import oams_exchange

    if not sources and sys.stdin.isatty():
        raise InvalidInput("no file given: name bundles or files, or pipe one in")
    with progress_steps("checking the bundle", "checking the memories") as (checking, done):
        verdicts = [oams_exchange.validate(each, checking=checking, progress=done) for each in sources or ("-",)]
    is_ok = all(each.ok for each in verdicts)

    def say() -> None:
        for verdict in verdicts:
            _show(verdict)

    run.answer({"ok": is_ok, "files": [_document(each) for each in verdicts]}, say)
    return 0 if is_ok else 1


def _document(verdict: Verdict) -> dict[str, object]:
    return {
        "file": verdict.source,
        "form": verdict.shape,
        "ok": verdict.ok,
        "memories": verdict.memories,
        "refused": verdict.report.refused,
        "refusals": [each.document() for each in verdict.report.complaints],
        "warned": verdict.report.warned,
        "warnings": verdict.report.warnings,
    }


def _show(verdict: Verdict) -> None:
    report = verdict.report
    for warning in report.warnings:
        note(f"warning: {warning}")
    if (more := report.warned - len(report.warnings)) > 0:
        note(f"and {more} more warnings")
    for each in report.complaints:
        note(f"{each.where}: {each.message}")
    if (more := report.refused - len(report.complaints)) > 0:
        note(f"and {more} more like these")
    found = counted(verdict.memories, "memory", "memories")
    warned = f", {counted(report.warned, 'warning')}" if report.warned else ""
    line(f"{verdict.source}: {found}{warned}, {'valid' if verdict.ok else 'NOT valid'}")
