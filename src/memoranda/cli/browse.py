"""list, stats and undo: what there is, and what was done last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memoranda.cli.commands import Parameter
from memoranda.cli.memories import Kind
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, one_line, table, when
from memoranda.cli.words import given, moment, span_ms
from memoranda.errors import InvalidInput
from memoranda.model.standard import Standard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memoranda.app import Memoranda
    from memoranda.standards.ump.shapes import Record

# What a line of a list shows of a memory.
_LINE_CHARS = 200


def list_memories(
    *,
    project: Annotated[str | None, Parameter(help="Only of this project.")] = None,
    user: Annotated[str | None, Parameter(help="Only about this person.")] = None,
    kind: Annotated[tuple[Kind, ...], Parameter(help="Only of this kind; can be repeated.")] = (),
    tag: Annotated[tuple[str, ...], Parameter(help="Only with this tag; can be repeated.")] = (),
    standard: Annotated[Standard | None, Parameter(help="Only what was written through this standard.")] = None,
    since: Annotated[str | None, Parameter(help="Written or changed since: 7d, a date, or RFC 3339.")] = None,
    limit: Annotated[int, Parameter(help="So many on a page; 20 unless said.")] = 20,
    page: Annotated[int, Parameter(help="Which page; the first unless said.")] = 1,
    exact: Annotated[bool, Parameter(help="Show the exact moments.")] = False,
    run: GivenRun,
) -> None:
    """Show the latest memories, last updated first.

    Examples: list --project shop; list --since 7d --kind procedural; list --user ada --limit 5 --page 2
    """
    from memoranda.standards.ump.requests import ListRequest

    if not 1 <= limit <= 1_000 or page < 1:
        raise InvalidInput("--limit must be from 1 to 1000, and --page at least 1")
    with run.open() as memoranda:
        begins = None if since is None else _since(memoranda, since)
        asked = given(project=project, user=user, kind=list(kind) or None, tags=list(tag) or None, since=begins)
        asked |= given(standard=standard)
        where = {**ListRequest.parse(asked).arguments(), "limit": limit}
        records, following = memoranda.ump.list_records(**where)
        for _ in range(page - 1):
            # From the first on: one that was cut short, because its memories are large, ends where the next begins.
            if following is None:
                records = []
                break
            records, following = memoranda.ump.list_records(**{**where, "after": following})
        short = memoranda.ump.short_ids([record["id"] for record in records])
        if not records:
            note(_nothing_listed(memoranda, project))

    def say() -> None:
        rows = [_row(record, short, exact=exact) for record in records]
        if rows:
            table(("id", "when", "kind", "project", "text"), rows, when_empty="")
        if following is not None:
            note(f"there are more: --page {page + 1}")

    run.answer({"records": records, "next_page": None if following is None else page + 1}, say)


def _since(memoranda: Memoranda, text: str) -> str:
    """The moment that was so long ago, or the one that was named."""
    from memoranda.model.instant import format_instant

    if not text[-1:].isalpha() or text.endswith("Z"):
        return moment(text) or text
    return format_instant(memoranda.service.context.clock() - span_ms(text, "--since"))


def _row(record: Record, short: Mapping[str, str], *, exact: bool) -> tuple[str, ...]:
    import sys

    name = short[record["id"]] if sys.stdout.isatty() else record["id"]
    observed = record["time"].get("observed") or record["time"]["created"]
    text = one_line(record["body"]["text"])
    cut = text if len(text) <= _LINE_CHARS else text[: _LINE_CHARS - 1] + "…"
    return name, when(observed, exact=exact), record["kind"], record["scope"].get("project", "-"), cut


def _nothing_listed(memoranda: Memoranda, project: str | None) -> str:
    found = memoranda.stats()
    if not found.memories:
        return "nothing is remembered yet"
    others = ", ".join(f"{count} in {name or 'no project'}" for name, count in list(found.projects.items())[:5])
    return f"nothing {f'in {project}' if project else 'like that'}; {others}"


def stats(*, run: GivenRun) -> None:
    """Show how much is remembered, of what kind and where."""
    with run.open() as memoranda:
        found, owner = memoranda.stats(), memoranda.owner
    document = {
        "owner": owner,
        "memories": found.memories,
        "bytes": found.bytes,
        "kinds": dict(found.kinds),
        "projects": dict(found.projects),
    }

    def say() -> None:
        line(
            f"{counted(found.memories, 'memory', 'memories')} of {owner}, {found.bytes or 0:,} bytes with their history"
        )
        for kind, count in found.kinds.items():
            line(f"  {count:>8,}  {kind}")
        for project, count in found.projects.items():
            line(f"  {count:>8,}  in {one_line(project) or 'no project'}")

    run.answer(document, say)


def undo(*, run: GivenRun) -> None:
    """Take back the last change: what was remembered is forgotten, what was revised or forgotten is as before."""
    with run.open() as memoranda:
        undone = memoranda.ump.undo_last()
    run.answer({"undone": undone.change, "id": undone.id, "now": undone.now}, lambda: line(undone.said))
