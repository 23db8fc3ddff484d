"""audit: who did what."""

from __future__ import annotations

from typing import Annotated, Any

from memoranda.cli.commands import App, Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import audit_entries, counted, line, note, table
from memoranda.cli.words import given, moment

audit = App(
    name="audit",
    about="Show who did what with these memories, oldest first; reads are recorded too.",
)


@audit.default
def show(
    *,
    op: Annotated[tuple[str, ...], Parameter(help="Only this operation, e.g. recall; can be repeated.")] = (),
    actor: Annotated[str | None, Parameter(help="Only what this actor did.")] = None,
    target: Annotated[str | None, Parameter(help="Only what concerns this memory.")] = None,
    project: Annotated[str | None, Parameter(help="Only what concerns this project.")] = None,
    since: Annotated[str | None, Parameter(help="From then on: a date, or RFC 3339.")] = None,
    until: Annotated[str | None, Parameter(help="Up to then.")] = None,
    limit: Annotated[int, Parameter(help="At most so many, the latest; 100 unless said.")] = 100,
    verify: Annotated[bool, Parameter(help="Check that no entry was changed or is missing.")] = False,
    run: GivenRun,
) -> int:
    """Show who did what with these memories, oldest first; reads are recorded too."""
    if verify:
        return _verify(run)
    asked = given(
        op=list(op) or None,
        actor=actor,
        target=target,
        project=project,
        since=moment(since),
        until=moment(until),
        limit=limit,
    )
    with run.open() as memoranda:
        events = memoranda.ump.audit(asked)
    columns = ("seq", "when", "operation", "result", "actor", "memories")
    run.answer({"events": events}, lambda: table(columns, map(_cells, events), when_empty="nothing matches"))
    return 0


@audit.command
def prune(
    *,
    before: Annotated[str, Parameter(help="Up to then: a date, or RFC 3339.")],
    run: GivenRun,
) -> None:
    """Take older entries out of the audit log; a signed head stays in their place, so that the rest can be checked."""
    from memoranda.model.instant import parse_instant

    instant = moment(before)
    assert instant is not None
    with run.open() as memoranda:
        count = memoranda.ump.audit_prune(parse_instant(instant))
    run.answer({"pruned": count}, lambda: line(f"{counted(count, 'audit entry', 'audit entries')} pruned"))


def _cells(event: dict[str, Any]) -> list[object]:
    actor = event.get("actor", {}).get("did", "")
    # A recall names all its hits; one and a count keep the line readable, and --json has them all.
    targets = list(event.get("targets", ()))
    shown = "".join(targets[:1]) + (f" +{len(targets) - 1}" if len(targets) > 1 else "")
    return [event["seq"], event["ts"], event["op"], event.get("result", ""), actor, shown]


def _verify(run: GivenRun) -> int:
    with run.open() as memoranda:
        report = memoranda.ump.audit_verify()
    more = given(broken_at=report.broken_at, reason=report.reason, pruned=report.pruned or None)
    document = {"ok": report.ok, "count": report.count, **more}

    def say() -> None:
        if report.ok:
            line(f"{audit_entries(report)}: none changed and none missing")
        else:
            note(f"the audit chain is broken at entry {report.broken_at}: {report.reason}")

    run.answer(document, say)
    return 0 if report.ok else 1
