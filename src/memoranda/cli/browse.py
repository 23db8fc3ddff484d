"""list, stats, undo and redo: browse the store, and undo its last action.

A later page of `list` is reached by reading the pages before it, because only the cursor of a page tells where the next
one begins. `undo` and `redo` walk through the actions of one owner; a write in between ends what `redo` can do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.options import Kind, complete_date, read_duration_ms
from memoranda.cli.run import GivenRun, Parameter, without_none
from memoranda.cli.show import count_phrase, line, note, one_line, table, when
from memoranda.model.instant import format_instant
from memoranda.model.memory import Standard
from memoranda.standards.ump.excerpt import missing_title
from memoranda.standards.ump.requests import ListRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memoranda.app import Memoranda
    from memoranda.service.ump.undo import UndoneChange
    from memoranda.standards.ump.shapes import Record

# Characters of a memory's text in a row of the list.
_TEXT_CHARS = 200
# Memories in a page.
_PAGE_LIMIT = 1_000
# Projects named in the message for an empty list.
_PROJECTS_NAMED = 5


def list_memories(
    *,
    project: Annotated[str | None, Parameter(help="Only of this project.")] = None,
    user: Annotated[str | None, Parameter(help="Only about this person.")] = None,
    kind: Annotated[tuple[Kind, ...], Parameter(help="Only of this kind; can be repeated.")] = (),
    tag: Annotated[tuple[str, ...], Parameter(help="Only with this tag; can be repeated.")] = (),
    standard: Annotated[
        Standard | None, Parameter(help="Only memories written through this standard.")
    ] = None,
    since: Annotated[
        str | None, Parameter(help="Written or changed since: 7d, a date, or RFC 3339.")
    ] = None,
    limit: Annotated[
        int, Parameter(help="Results per page (default 20).", minimum=1, maximum=_PAGE_LIMIT)
    ] = 20,
    page: Annotated[int, Parameter(help="The page (default 1).", minimum=1)] = 1,
    exact: Annotated[bool, Parameter(help="Show exact times.")] = False,
    run: GivenRun,
) -> None:
    """List memories, last updated first.

    Examples: list --project shop; list --since 7d --kind procedural; list --user ada --limit 5 --page 2
    """
    with run.open() as memoranda:
        conditions = without_none(
            project=project,
            user=user,
            kind=list(kind) or None,
            tags=list(tag) or None,
            since=None if since is None else _parse_since(memoranda, since),
            standard=standard,
        )
        where = {**ListRequest.parse(conditions).arguments(), "limit": limit}
        records, next_position = memoranda.ump.list_records(**where)
        for _ in range(page - 1):
            # A page of large memories may hold fewer than the limit, so only the cursors tell where a page begins.
            if next_position is None:
                records = []
                break
            records, next_position = memoranda.ump.list_records(**{**where, "after": next_position})
        short_ids = memoranda.ump.short_ids([record["id"] for record in records])
        if not records:
            note(_empty_list_message(memoranda, project))

    def show() -> None:
        rows = [_row(record, short_ids, exact=exact) for record in records]
        if rows:
            table(("id", "when", "kind", "project", "text"), rows, when_empty="")
        if next_position is not None:
            note(f"there are more: --page {page + 1}")

    run.answer({"records": records, "next_page": None if next_position is None else page + 1}, show)


def _parse_since(memoranda: Memoranda, text: str) -> str:
    """Return the moment that `--since` names: a date or RFC 3339, or a duration before now such as 7d."""
    if not text[-1:].isalpha() or text.endswith("Z"):
        return complete_date(text) or text
    return format_instant(memoranda.service.context.clock() - read_duration_ms(text, "--since"))


def _row(record: Record, short_ids: Mapping[str, str], *, exact: bool) -> tuple[str, ...]:
    name = short_ids[record["id"]] if sys.stdout.isatty() else record["id"]
    observed = record["time"].get("observed") or record["time"]["created"]
    title = missing_title(record)
    # Four times the characters, since spaces are removed.
    text = one_line(f"{f'{title}: ' if title else ''}{record['body']['text'][: 4 * _TEXT_CHARS]}")
    excerpt = text if len(text) <= _TEXT_CHARS else text[: _TEXT_CHARS - 1] + "…"
    return (
        name,
        when(observed, exact=exact),
        record["kind"],
        record["scope"].get("project", "-"),
        excerpt,
    )


def _empty_list_message(memoranda: Memoranda, project: str | None) -> str:
    """Return the message for an empty list, with the projects that do hold memories."""
    statistics = memoranda.stats()
    if not statistics.memories:
        return _empty_owner_message(memoranda)
    projects = list(statistics.projects.items())[:_PROJECTS_NAMED]
    counts = ", ".join(f"{count} in {name or 'no project'}" for name, count in projects)
    return f"no matches{f' in {project}' if project else ''}; {counts}"


def _empty_owner_message(memoranda: Memoranda) -> str:
    """Return the message for an owner without memories, with the owner of most of those that the store has."""
    usages = memoranda.service.context.engine.system.measure_tenants()
    largest = max(usages, key=lambda usage: usage.memories, default=None)
    if largest is None or not largest.memories:
        return "the store is empty"
    count = count_phrase(largest.memories, "memory", "memories")
    return (
        f"{memoranda.owner} has no memories here, but {largest.tenant} has {count}: to see them, add "
        f"--owner {largest.tenant}, or make it your owner: memoranda config set owner {largest.tenant}"
    )


def stats(*, run: GivenRun) -> None:
    """Count memories by kind and project."""
    with run.open() as memoranda:
        statistics, owner = memoranda.stats(), memoranda.owner
    document = {
        "owner": owner,
        "memories": statistics.memories,
        "bytes": statistics.bytes,
        "kinds": dict(statistics.kinds),
        "projects": dict(statistics.projects),
    }

    def show() -> None:
        count, size = (
            count_phrase(statistics.memories, "memory", "memories"),
            f"{statistics.bytes or 0:,}",
        )
        line(f"{count} of {owner}, {size} bytes including earlier versions")
        for kind, number in statistics.kinds.items():
            line(f"  {number:>8,}  {kind}")
        for project, number in statistics.projects.items():
            line(f"  {number:>8,}  in {one_line(project) or 'no project'}")

    run.answer(document, show)


def undo(*, run: GivenRun) -> None:
    """Undo the last action: a new memory is removed, a revised or forgotten one is restored.

    The next undo goes one step further back. An import or a forgetting of several memories is one action.
    """
    with run.open() as memoranda:
        undone = memoranda.ump.undo_last()
    run.answer(_undone_document(undone), lambda: line(f"Undone: {undone.summary}"))


def redo(*, run: GivenRun) -> None:
    """Do the action again that was undone last, if nothing was written since."""
    with run.open() as memoranda:
        redone = memoranda.ump.redo_last()
    run.answer(_undone_document(redone), lambda: line(f"Done again: {redone.summary}"))


def _undone_document(undone: UndoneChange) -> dict[str, Any]:
    """Return the result of an undo or a redo as JSON."""
    return {
        "undone": undone.change,
        "id": undone.id,
        "now": undone.now,
        "text": undone.text,
        "memories": undone.memories,
    }
