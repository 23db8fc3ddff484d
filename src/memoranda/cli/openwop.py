"""openwop: entries of a memoryRef, maintenance of its entries, schedules, and commitments.

Every command names a memoryRef, either typed first or derived from `--project`; with `--project` the first typed value
is what follows the ref, which `_split_arguments` decides. Commands call `Memoranda.openwop`, so they do the same on a
local store and over a server. `put` prints the new id and nothing else, so a script can use it.
"""

from __future__ import annotations

from typing import Annotated

from memoranda.cli.options import complete_date, read_text
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, one_line, table
from memoranda.errors import InvalidInput, NotFound
from memoranda.model.instant import Instant, parse_instant
from memoranda.standards.openwop.entry import MAX_LIMIT, Draft, ListOptions
from memoranda.standards.openwop.refs import ref_of

Ref = Annotated[
    str | None,
    Parameter(
        name="REF",
        help="The memoryRef, such as mem://support/agent-1; not with --project.",
        fields=("memoryRef",),
    ),
]
Project = Annotated[str | None, Parameter(help="The project of the entries, instead of REF.")]
EntryId = Annotated[str | None, Parameter(name="ID", help="The entry's id.")]
CommitmentId = Annotated[str, Parameter(name="ID", help="The commitment's id.")]
# Characters of a text in a row of a table.
TEXT_CHARS = 160


def _split_arguments(
    project: str | None, ref: str | None, value: str | None
) -> tuple[str, str | None]:
    """Return the memoryRef and the argument behind it. With --project, that argument is the first one typed."""
    if project is None:
        if ref is None:
            raise InvalidInput("REF: give the memoryRef, or --project")
        return ref, value
    if value is not None:
        raise InvalidInput("REF and --project name the same thing: give one of the two")
    return ref_of(project), ref


def _require_ref(project: str | None, ref: str | None) -> str:
    """Return the memoryRef, for a command without further arguments."""
    if project is None:
        return _split_arguments(None, ref, None)[0]
    return _split_arguments(project, None, ref)[0]


def _require_id(entry_id: str | None) -> str:
    if entry_id is None:
        raise InvalidInput("ID: give the entry's id")
    return entry_id


def put(
    ref: Ref = None,
    text: Annotated[
        str | None, Parameter(help="The text; without it, or with -, standard input is read.")
    ] = None,
    /,
    *,
    project: Project = None,
    tag: Annotated[tuple[str, ...], Parameter(name="--tag", help="A tag; can be repeated.")] = (),
    expires: Annotated[
        str | None, Parameter(help="When it expires: a date, or RFC 3339.", fields=("expiresAt",))
    ] = None,
    entry_id: Annotated[
        str | None,
        Parameter(name="--id", help="An id of your choice; an entry with this id is replaced."),
    ] = None,
    run: GivenRun,
) -> None:
    """Write an entry."""
    memory_ref, text = _split_arguments(project, ref, text)
    fields: dict[str, object] = {"content": read_text(text), "tags": list(tag)}
    if expires is not None:
        fields["expiresAt"] = complete_date(expires)
    with run.open() as memoranda:
        entry = memoranda.openwop.put_entry(memory_ref, Draft.parse(fields), entry_id=entry_id)
    run.answer(entry, lambda: line(entry["id"]))


def list_entries(
    ref: Ref = None,
    /,
    *,
    project: Project = None,
    limit: Annotated[
        int, Parameter(help="Results at most (default 100).", minimum=1, maximum=MAX_LIMIT)
    ] = 100,
    tag: Annotated[str | None, Parameter(help="Only with this tag.")] = None,
    query: Annotated[
        str | None,
        Parameter(
            help="Show the best matches for this text, not the newest entries; needs semantic search."
        ),
    ] = None,
    run: GivenRun,
) -> None:
    """List the entries of a memoryRef, newest first."""
    memory_ref = _require_ref(project, ref)
    options: dict[str, object] = {"limit": limit, **({"tag": tag} if tag else {})}
    if query is not None:
        options |= {"rank": "relevance", "query": query}
    with run.open() as memoranda:
        entries = memoranda.openwop.list_entries(memory_ref, ListOptions.parse(options))
    rows = [
        (
            entry["id"],
            entry["createdAt"],
            " ".join(entry["tags"]),
            one_line(entry["content"])[:TEXT_CHARS],
        )
        for entry in entries
    ]
    run.answer(
        {"entries": entries},
        lambda: table(("id", "created", "tags", "content"), rows, when_empty="no entries found"),
    )


def get(
    ref: Ref = None, entry_id: EntryId = None, /, *, project: Project = None, run: GivenRun
) -> None:
    """Show one entry."""
    memory_ref, name = _split_arguments(project, ref, entry_id)
    with run.open() as memoranda:
        entry = memoranda.openwop.get_entry(memory_ref, _require_id(name))
    if entry is None:
        raise NotFound("no such entry")
    run.answer(entry, lambda: line(entry["content"]))


def delete(
    ref: Ref = None, entry_id: EntryId = None, /, *, project: Project = None, run: GivenRun
) -> None:
    """Delete an entry."""
    memory_ref, name = _split_arguments(project, ref, entry_id)
    with run.open() as memoranda:
        is_deleted = memoranda.openwop.delete_entry(memory_ref, _require_id(name))
    if not is_deleted:
        raise NotFound("no such entry")
    run.answer({"deleted": True}, lambda: line("deleted"))


def compact(ref: Ref = None, /, *, project: Project = None, run: GivenRun) -> None:
    """Replace all entries of a memoryRef with one."""
    memory_ref = _require_ref(project, ref)
    with run.open() as memoranda:
        result = memoranda.openwop.compact(memory_ref)
    run.answer(
        {"event": result.event, "entry": result.entry}, lambda: line(result.entry["content"])
    )


def distill(
    ref: Ref = None,
    /,
    *,
    project: Project = None,
    budget: Annotated[
        int | None,
        Parameter(help="Token budget for reading and writing (default: the maximum).", minimum=1),
    ] = None,
    every: Annotated[
        str | None,
        Parameter(help="Repeat by this cron expression, such as '0 3 * * *'; off ends it."),
    ] = None,
    timezone: Annotated[
        str, Parameter(help="The time zone of --every, such as Europe/Berlin.")
    ] = "UTC",
    run: GivenRun,
) -> None:
    """Distill the entries of a memoryRef into a summary within a token budget, now or on a schedule."""
    memory_ref = _require_ref(project, ref)
    with run.open() as memoranda:
        openwop = memoranda.openwop
        if every == "off":
            was_scheduled = openwop.unschedule(memory_ref)
            text = "the schedule was removed" if was_scheduled else "there was no schedule"
            run.answer({"unscheduled": was_scheduled}, lambda: line(text))
        elif every is not None:
            schedule = openwop.schedule(memory_ref, every, timezone=timezone, token_budget=budget)
            run.answer(
                schedule,
                lambda: line(f"next run at {schedule['nextAt']}, if a server is running then"),
            )
        else:
            result = openwop.distill(memory_ref, token_budget=budget)
            usage = result.event["payload"]["distillation"]
            document = {
                "event": result.event,
                "entry": result.entry,
                "archiveChecksum": result.checksum,
            }
            summary = f"{usage['tokensUsed']} of {usage['tokenBudget']} tokens, archive {result.entry['id']}"
            run.answer(document, lambda: line(f"{result.entry['content']}\n{summary}"))


def schedules(*, run: GivenRun) -> None:
    """List scheduled distillations, and when each runs next."""
    with run.open() as memoranda:
        documents = memoranda.openwop.schedules()
    rows = [
        (document["memoryRef"], document["cron"], document["timezone"], document["nextAt"])
        for document in documents
    ]
    run.answer(
        {"schedules": documents},
        lambda: table(("ref", "cron", "time zone", "next"), rows, when_empty="no schedules"),
    )


def consolidate(
    ref: Ref = None,
    /,
    *,
    project: Project = None,
    undo: Annotated[str | None, Parameter(help="Undo the run with this id instead.")] = None,
    run: GivenRun,
) -> None:
    """Remove duplicate and outdated entries of a memoryRef."""
    with run.open() as memoranda:
        openwop = memoranda.openwop
        if undo is not None:
            count = openwop.undo_consolidation(undo)
            run.answer({"broughtBack": count}, lambda: line(f"{count} restored"))
            return
        result = openwop.consolidate(_require_ref(project, ref))
    payload = result.event["payload"]
    document = {
        "event": result.event,
        "taken": list(result.taken),
        "contradictions": [list(pair) for pair in result.contradictions],
    }

    def show() -> None:
        line(
            f"{payload['inputCount']} entries before, {payload['outputCount']} after; run {result.run.run_id}"
        )
        for removal in result.taken:
            line(f"  {removal['id']}: {removal['why']} ({removal['by']})")
        for one, other in result.contradictions:
            line(f"  {one} and {other} contradict each other")

    run.answer(document, show)


def list_commitments(
    ref: Annotated[str | None, Parameter(name="REF", help="Only of this memoryRef.")] = None,
    /,
    *,
    project: Project = None,
    look: Annotated[
        bool, Parameter(help="First search the memories of the memoryRef for new ones.")
    ] = False,
    watch: Annotated[
        bool, Parameter(help="Let a running server search after every change there.")
    ] = False,
    run: GivenRun,
) -> None:
    """List the pending commitments found in memories."""
    if look or watch or project is not None:
        ref = _require_ref(project, ref)
    with run.open() as memoranda:
        openwop = memoranda.openwop
        if watch and ref is not None:
            openwop.watch_commitments(ref)
        commitments = openwop.infer_commitments(ref) if look and ref else openwop.commitments(ref)
    documents = [commitment.document() for commitment in commitments]
    columns = ("commitmentId", "state", "condition", "dueAt", "memoryId")
    rows = [tuple(document[name] or "" for name in columns) for document in documents]

    def show() -> None:
        table(("id", "state", "waits for", "due", "memory"), rows, when_empty="no commitments")
        ids = [item.commitment_id for item in commitments if item.is_zone_unknown]
        if ids:
            line(f"The memory names an unknown time zone, so the time is in UTC: {', '.join(ids)}")

    run.answer({"commitments": documents}, show)


def cancel(commitment_id: CommitmentId, /, *, run: GivenRun) -> None:
    """Cancel a commitment: it no longer fires."""
    with run.open() as memoranda:
        commitment = memoranda.openwop.cancel_commitment(commitment_id)
    run.answer(commitment.document(), lambda: line(commitment.state))


def snooze(
    commitment_id: CommitmentId,
    until: Annotated[str, Parameter(name="UNTIL", help="A date, or RFC 3339.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Delay a commitment until another time."""
    with run.open() as memoranda:
        commitment = memoranda.openwop.snooze_commitment(commitment_id, _parse_until(until))
    document = commitment.document()
    run.answer(document, lambda: line(f"due {document['dueAt']}"))


def _parse_until(text: str) -> Instant:
    try:
        return parse_instant(complete_date(text) or "")
    except ValueError:
        raise InvalidInput(
            f"UNTIL: {text!r} is not a time such as 2026-12-01 or 2026-12-01T09:00:00Z"
        ) from None
