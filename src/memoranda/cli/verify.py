"""verify and audit: check the signatures of the store or of files; show, check and prune the audit log.

`verify` ends with exit code 1 if anything is wrong, so scripts can use it. It reads everything and repairs nothing.
Files are checked without a store: the keys are in the records. An audit entry contains the hash of the one before it,
so a removed or changed entry shows in all later ones; `prune` replaces the removed entries by one that is signed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.options import FormatName, complete_date
from memoranda.cli.run import GivenRun, Parameter, without_none
from memoranda.cli.show import (
    audit_entries,
    count_phrase,
    displayed_actor,
    line,
    note,
    note_report,
    progress,
    table,
)
from memoranda.model.instant import parse_instant
from memoranda.standards.ump.requests import MAX_EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memoranda.service.verify import VerifyReport

# Characters of an instant up to its seconds.
_SECONDS = len("2026-05-31T12:00:00")


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
    with (
        run.open() as memoranda,
        progress("verifying", memoranda.service.count_versions) as bar,
    ):
        report = memoranda.service.verify_store(progress=bar)
    run.answer(report.document(), lambda: _show_store(report))
    return 0 if report.ok else 1


def _verify_files(sources: tuple[str, ...], format_name: FormatName | None, run: GivenRun) -> int:
    # The store is verified without the readers of files.
    from memoranda.bindings.files import exchange

    with progress("verifying") as bar:
        report = exchange.verify_files(sources, form=format_name, progress=bar)
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
        lambda: line(
            f"{count_phrase(report.verified, 'record')} verified, {report.refused} failed"
        ),
    )
    return 1 if report.refused else 0


def _show_store(report: VerifyReport) -> None:
    for name in report.unverified:
        note(f"{name}: the stored record does not match its signature")
    for problem in report.database:
        note(f"database: {problem}")
    for problem in report.index:
        note(f"{problem}; to rebuild it, run: memoranda reindex")
    for sentence in report.outdated:
        note(sentence)
    for loss in report.losses:
        note(loss.message)
    if not report.audit.ok:
        note(
            f"the audit log was changed or is incomplete from entry {report.audit.broken_at}: {report.audit.reason}"
        )
    verdict = "no problems found" if report.ok else "problems found"
    entries = audit_entries(report.audit)
    line(
        f"{count_phrase(report.records, 'record')} of {count_phrase(report.owners, 'owner')}, {entries}: {verdict}"
    )


def audit(
    *,
    op: Annotated[
        tuple[str, ...], Parameter(help="Only this operation, e.g. recall; can be repeated.")
    ] = (),
    actor: Annotated[str | None, Parameter(help="Only by this actor.")] = None,
    target: Annotated[str | None, Parameter(help="Only about this memory.")] = None,
    project: Annotated[str | None, Parameter(help="Only about this project.")] = None,
    since: Annotated[str | None, Parameter(help="Only since then: a date, or RFC 3339.")] = None,
    until: Annotated[str | None, Parameter(help="Only before then: a date, or RFC 3339.")] = None,
    limit: Annotated[
        int,
        Parameter(help="Entries at most, the latest (default 100).", minimum=1, maximum=MAX_EVENTS),
    ] = 100,
    verify: Annotated[
        bool, Parameter(help="Check that no entry was changed or is missing.")
    ] = False,
    run: GivenRun,
) -> int:
    """Show who did what with these memories, oldest first. Reads are recorded too."""
    if verify:
        return _verify(run)
    conditions = without_none(
        op=list(op) or None,
        actor=actor,
        target=target,
        project=project,
        since=complete_date(since),
        until=complete_date(until),
        limit=limit,
    )
    with run.open() as memoranda:
        events = memoranda.ump.audit(conditions)
        first_targets = [name for event in events for name in event.get("targets", ())[:1]]
        short_ids = memoranda.ump.short_ids(first_targets) if sys.stdout.isatty() else {}
    columns = ("seq", "when (UTC)", "operation", "result", "actor", "memories")
    rows = [_cells(event, short_ids) for event in events]
    run.answer(
        {"events": events},
        lambda: table(columns, rows, when_empty="no matches", clipped=columns[2:]),
    )
    return 0


def prune(
    *,
    before: Annotated[str, Parameter(help="Remove entries older than this: a date, or RFC 3339.")],
    run: GivenRun,
) -> None:
    """Remove old entries from the audit log. A signed entry replaces them, so that the others can still be verified."""
    instant = complete_date(before)
    assert instant is not None
    with run.open() as memoranda:
        count = memoranda.ump.audit_prune(parse_instant(instant))
    run.answer(
        {"pruned": count},
        lambda: line(f"{count_phrase(count, 'audit entry', 'audit entries')} pruned"),
    )


def _cells(event: dict[str, Any], short_ids: Mapping[str, str]) -> list[object]:
    """Return the cells of an entry in the table."""
    # Most actors are keys, and the end of one tells them apart.
    actor = displayed_actor(event.get("actor", {}).get("did", "")).removeprefix("did:key:…")
    # A recall has many targets; the first and a count keep the line readable, and --json has all.
    targets = [short_ids.get(name, name) for name in event.get("targets", ())]
    summary = "".join(targets[:1]) + (f" +{len(targets) - 1}" if len(targets) > 1 else "")
    instant = event["ts"][:_SECONDS].replace("T", " ") if sys.stdout.isatty() else event["ts"]
    return [event["seq"], instant, event["op"], event.get("result", ""), actor, summary]


def _verify(run: GivenRun) -> int:
    """Verify the chain of hashes; return the exit code."""
    with run.open() as memoranda:
        report = memoranda.ump.audit_verify()
    details = without_none(
        broken_at=report.broken_at, reason=report.reason, pruned=report.pruned or None
    )
    document = {"ok": report.ok, "count": report.count, **details}

    def show_report() -> None:
        if report.ok:
            line(f"{audit_entries(report)}: complete and unchanged")
        else:
            note(
                f"the audit log was changed or is incomplete from entry {report.broken_at}: {report.reason}"
            )

    run.answer(document, show_report)
    return 0 if report.ok else 1
