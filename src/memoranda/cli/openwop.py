"""openwop: entries of a memoryRef, the passes over them, schedules, commitments; and proposals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.commands import App, Group, Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import line, one_line, table
from memoranda.cli.words import json_object, moment, text_or_input
from memoranda.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from memoranda.model.instant import Instant

openwop = App(
    name="openwop",
    about="Agent memory of openwop: entries, distillation, consolidation, commitments.",
)
commitments = App(
    name="commitments",
    about="What was promised in memories: show it, let it fire later or not at all.",
)
proposals = App(
    name="proposals",
    about="What agents propose to learn: look at it, and apply or refuse it.",
)
_ENTRIES = Group("Entries", sort_key=0)
_PASSES = Group("Passes", sort_key=1)
_COMMITMENTS = Group("Commitments", sort_key=2)

Ref = Annotated[
    str | None, Parameter(name="REF", help="The memoryRef, such as mem://support/agent-1; not with --project.")
]
Project = Annotated[str | None, Parameter(help="The project whose entries are meant, instead of REF.")]
EntryId = Annotated[str | None, Parameter(name="ID", help="The entry's id.")]
CommitmentId = Annotated[str, Parameter(name="ID", help="The commitment's id.")]
ProposalId = Annotated[str, Parameter(name="ID", help="The proposal's id.")]
SHOWN_CHARS = 160


def _placed(project: str | None, ref: str | None, word: str | None = None) -> tuple[str, str | None]:
    """The ref that is meant, and the word after it; where a project stands for the ref, that word is the first."""
    from memoranda.standards.openwop.refs import ref_of

    if project is None:
        if ref is None:
            raise InvalidInput("REF: which memoryRef? Or say --project")
        return ref, word
    if word is not None:
        raise InvalidInput("REF and --project name the same thing; say one of them")
    return ref_of(project), ref


def _place(project: str | None, ref: str | None) -> str:
    """The ref that is meant, where nothing stands after it."""
    return _placed(project, *((ref,) if project is None else (None, ref)))[0]


def _named(name: str | None) -> str:
    if name is None:
        raise InvalidInput("ID: which entry?")
    return name


@openwop.command(group=_ENTRIES)
def put(
    ref: Ref = None,
    text: Annotated[str | None, Parameter(help="What to keep; - or nothing reads standard input.")] = None,
    /,
    *,
    project: Project = None,
    tag: Annotated[tuple[str, ...], Parameter(name="--tag", help="A tag; can be repeated.")] = (),
    expires: Annotated[str | None, Parameter(help="When it ends: a date, or RFC 3339.")] = None,
    entry_id: Annotated[
        str | None, Parameter(name="--id", help="An id of your own; what is under it already is replaced.")
    ] = None,
    run: GivenRun,
) -> None:
    """Write an entry."""
    from memoranda.standards.openwop.entry import Draft

    place, text = _placed(project, ref, text)
    asked: dict[str, Any] = {"content": text_or_input(text), "tags": list(tag)}
    if expires is not None:
        asked["expiresAt"] = moment(expires)
    with run.open() as memoranda:
        made = memoranda.openwop.put_entry(place, Draft.parse(asked), entry_id=entry_id)
    run.answer(made, lambda: line(made["id"]))


@openwop.command(name="list", group=_ENTRIES)
def list_entries(
    ref: Ref = None,
    /,
    *,
    project: Project = None,
    limit: Annotated[int, Parameter(help="At most so many; 100 unless said.")] = 100,
    tag: Annotated[str | None, Parameter(help="Only with this tag.")] = None,
    query: Annotated[
        str | None, Parameter(help="The best for this, instead of the newest; needs a host with semantic search.")
    ] = None,
    run: GivenRun,
) -> None:
    """List the entries of a ref, the newest first."""
    from memoranda.standards.openwop.entry import ListOptions

    place = _place(project, ref)
    asked: dict[str, Any] = {"limit": limit, **({"tag": tag} if tag else {})}
    if query is not None:
        asked |= {"rank": "relevance", "query": query}
    with run.open() as memoranda:
        found = memoranda.openwop.list_entries(place, ListOptions.parse(asked))
    rows = [
        (each["id"], each["createdAt"], " ".join(each["tags"]), one_line(each["content"])[:SHOWN_CHARS])
        for each in found
    ]
    run.answer(
        {"entries": found}, lambda: table(("id", "created", "tags", "content"), rows, when_empty="no entries found")
    )


@openwop.command(group=_ENTRIES)
def get(ref: Ref = None, entry_id: EntryId = None, /, *, project: Project = None, run: GivenRun) -> None:
    """Show one entry."""
    place, name = _placed(project, ref, entry_id)
    with run.open() as memoranda:
        found = memoranda.openwop.get_entry(place, _named(name))
    if found is None:
        raise NotFound("no such entry")
    run.answer(found, lambda: line(found["content"]))


@openwop.command(group=_ENTRIES)
def delete(ref: Ref = None, entry_id: EntryId = None, /, *, project: Project = None, run: GivenRun) -> None:
    """Take an entry out of every later answer."""
    place, name = _placed(project, ref, entry_id)
    with run.open() as memoranda:
        is_gone = memoranda.openwop.delete_entry(place, _named(name))
    if not is_gone:
        raise NotFound("no such entry")
    run.answer({"deleted": True}, lambda: line("deleted"))


@openwop.command(group=_PASSES)
def compact(ref: Ref = None, /, *, project: Project = None, run: GivenRun) -> None:
    """Put one entry in the place of all entries of a ref."""
    place = _place(project, ref)
    with run.open() as memoranda:
        made = memoranda.openwop.compact(place)
    run.answer({"event": made.event, "entry": made.entry}, lambda: line(made.entry["content"]))


@openwop.command(group=_PASSES)
def distill(
    ref: Ref = None,
    /,
    *,
    project: Project = None,
    budget: Annotated[int | None, Parameter(help="Tokens to read and write together; as many as allowed.")] = None,
    every: Annotated[str | None, Parameter(help="Do it by a cron expression, such as '0 3 * * *'; off stops.")] = None,
    timezone: Annotated[str, Parameter(help="Whose clocks the expression goes by, such as Europe/Berlin.")] = "UTC",
    run: GivenRun,
) -> None:
    """Make an archive of a ref within a budget of tokens, now or every night."""
    place = _place(project, ref)
    with run.open() as memoranda:
        openwop = memoranda.openwop
        if every == "off":
            is_gone = openwop.unschedule(place)
            run.answer({"unscheduled": is_gone}, lambda: line("not scheduled any more" if is_gone else "no schedule"))
        elif every is not None:
            made = openwop.schedule(place, every, timezone=timezone, token_budget=budget)
            run.answer(made, lambda: line(f"next at {made['nextAt']}, while a server runs"))
        else:
            done = openwop.distill(place, token_budget=budget)
            told = done.event["payload"]["distillation"]
            answer = {"event": done.event, "entry": done.entry, "archiveChecksum": done.checksum}
            summary = f"{told['tokensUsed']} of {told['tokenBudget']} tokens, archive {done.entry['id']}"
            run.answer(answer, lambda: line(f"{done.entry['content']}\n{summary}"))


@openwop.command(group=_PASSES)
def schedules(*, run: GivenRun) -> None:
    """What is distilled by itself, and when next."""
    with run.open() as memoranda:
        found = memoranda.openwop.schedules()
    rows = [(each["memoryRef"], each["cron"], each["timezone"], each["nextAt"]) for each in found]
    run.answer(
        {"schedules": found}, lambda: table(("ref", "cron", "time zone", "next"), rows, when_empty="no schedules")
    )


@openwop.command(group=_PASSES)
def consolidate(
    ref: Ref = None,
    /,
    *,
    project: Project = None,
    undo: Annotated[str | None, Parameter(help="Undo the pass of this run instead.")] = None,
    run: GivenRun,
) -> None:
    """Take out of a ref what is said twice and what was overtaken."""
    with run.open() as memoranda:
        openwop = memoranda.openwop
        if undo is not None:
            count = openwop.undo_consolidation(undo)
            run.answer({"broughtBack": count}, lambda: line(f"{count} brought back"))
            return
        done = openwop.consolidate(_place(project, ref))
    payload = done.event["payload"]
    answer = {"event": done.event, "taken": list(done.taken), "contradictions": [list(p) for p in done.contradictions]}

    def say() -> None:
        line(f"{payload['inputCount']} entries, {payload['outputCount']} left; run {done.run.run_id}")
        for each in done.taken:
            line(f"  {each['id']}: {each['why']} ({each['by']})")
        for one, other in done.contradictions:
            line(f"  {one} and {other} contradict each other")

    run.answer(answer, say)


@commitments.default
@openwop.command(name="commitments", group=_COMMITMENTS)
def list_commitments(
    ref: Annotated[str | None, Parameter(name="REF", help="Only of this memoryRef.")] = None,
    /,
    *,
    project: Project = None,
    look: Annotated[bool, Parameter(help="Look for new ones in the memories of the ref first.")] = False,
    watch: Annotated[bool, Parameter(help="Let a running server look whenever something is written there.")] = False,
    run: GivenRun,
) -> None:
    """Show the standing commitments found in memory."""
    if look or watch or project is not None:
        ref = _place(project, ref)
    with run.open() as memoranda:
        openwop = memoranda.openwop
        if watch and ref is not None:
            openwop.watch_commitments(ref)
        found = openwop.infer_commitments(ref) if look and ref else openwop.commitments(ref)
    documents = [each.document() for each in found]
    rows = [(d["commitmentId"], d["state"], d["condition"], d["dueAt"] or "", d["memoryId"]) for d in documents]
    run.answer(
        {"commitments": documents},
        lambda: table(("id", "state", "waits for", "due", "memory"), rows, when_empty="no commitments"),
    )


@commitments.command
@openwop.command(group=_COMMITMENTS)
def cancel(commitment_id: CommitmentId, /, *, run: GivenRun) -> None:
    """Let a commitment not fire any more."""
    with run.open() as memoranda:
        done = memoranda.openwop.cancel_commitment(commitment_id)
    run.answer(done.document(), lambda: line(done.state))


@commitments.command
@openwop.command(group=_COMMITMENTS)
def snooze(
    commitment_id: CommitmentId,
    until: Annotated[str, Parameter(name="UNTIL", help="A date, or RFC 3339.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Let a commitment fire later."""
    with run.open() as memoranda:
        done = memoranda.openwop.snooze_commitment(commitment_id, _instant(until))
    run.answer(done.document(), lambda: line(f"due {done.document()['dueAt']}"))


def _instant(text: str) -> Instant:
    from memoranda.model.instant import parse_instant

    try:
        return parse_instant(moment(text) or "")
    except ValueError:
        raise InvalidInput(f"UNTIL: {text!r} is not a time such as 2026-12-01 or 2026-12-01T09:00:00Z") from None


# --- proposals -----------------------------------------------------------------------------------------------


@proposals.command(name="list")
def list_proposals(
    *,
    state: Annotated[str | None, Parameter(help="Only draft, revised, applied, rejected or archived ones.")] = None,
    kind: Annotated[str | None, Parameter(help="Only of this kind.")] = None,
    run: GivenRun,
) -> None:
    """List what was proposed."""
    with run.open() as memoranda:
        found = memoranda.openwop.proposals(state=state, kind=kind)
    rows = [(each["id"], each["state"], each["kind"], one_line(each.get("title", ""))[:SHOWN_CHARS]) for each in found]
    run.answer({"proposals": found}, lambda: table(("id", "state", "kind", "title"), rows, when_empty="no proposals"))


@proposals.command
def show(proposal_id: ProposalId, /, *, run: GivenRun) -> None:
    """Show one proposal, with what it would install."""
    with run.open() as memoranda:
        found = memoranda.openwop.proposal(proposal_id)
    run.answer(found, lambda: _say(found))


@proposals.command
def synthesise(*, run: GivenRun) -> None:
    """Look for habits in the recorded runs, and propose what they suggest."""
    with run.open() as memoranda:
        made = memoranda.openwop.synthesise_proposals()
    run.answer({"proposals": made}, lambda: line(f"{len(made)} new proposals"))


@proposals.command
def revise(
    proposal_id: ProposalId,
    /,
    *,
    title: Annotated[str | None, Parameter(help="Another title.")] = None,
    rationale: Annotated[str | None, Parameter(help="Another rationale.")] = None,
    artifact: Annotated[Path | None, Parameter(help="A JSON file with another artifact.")] = None,
    run: GivenRun,
) -> None:
    """Change a proposal; it stays inert."""
    from memoranda.standards.openwop.proposals import Revision

    asked: dict[str, Any] = {}
    if title is not None:
        asked["title"] = title
    if rationale is not None:
        asked["rationale"] = rationale
    if artifact is not None:
        try:
            asked["artifact"] = json_object(artifact.read_text("utf-8"), "--artifact")
        except OSError as error:
            raise InvalidInput(f"--artifact: {error.strerror}") from None
    with run.open() as memoranda:
        done = memoranda.openwop.revise_proposal(proposal_id, Revision.parse(asked))
    run.answer(done, lambda: _say(done))


@proposals.command
def apply(
    proposal_id: ProposalId,
    /,
    *,
    approval: Annotated[str | None, Parameter(help="The approval it has, where one is needed.")] = None,
    run: GivenRun,
) -> None:
    """Install what a proposal holds, byte for byte."""
    with run.open() as memoranda:
        done = memoranda.openwop.apply_proposal(proposal_id, approval_id=approval)
    run.answer(done, lambda: line(f"installed as {done['activation']['installedArtifactRef']}"))


@proposals.command
def approve(proposal_id: ProposalId, /, *, run: GivenRun) -> None:
    """Approve a proposal as it is now, for someone else to apply."""
    with run.open() as memoranda:
        approval = memoranda.openwop.approve_proposal(proposal_id)
    run.answer({"approvalId": approval}, lambda: line(approval))


@proposals.command
def reject(
    proposal_id: ProposalId,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; it goes into the audit log.")] = "",
    run: GivenRun,
) -> None:
    """Decline a proposal."""
    with run.open() as memoranda:
        done = memoranda.openwop.reject_proposal(proposal_id, reason=reason)
    run.answer(done, lambda: line(done["state"]))


@proposals.command
def archive(proposal_id: ProposalId, /, *, run: GivenRun) -> None:
    """Put a proposal away."""
    with run.open() as memoranda:
        done = memoranda.openwop.archive_proposal(proposal_id)
    run.answer(done, lambda: line(done["state"]))


def _say(found: dict[str, Any]) -> None:
    from memoranda.encoding.json_text import dump_pretty

    line(f"{found['kind']}, {found['state']}: {one_line(found.get('title', ''))[:SHOWN_CHARS]}")
    if found.get("rationale"):
        line(found["rationale"])
    line(dump_pretty(found["artifact"]))
