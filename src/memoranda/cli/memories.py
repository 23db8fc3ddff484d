"""remember, recall, show, revise, edit, forget, history and feedback."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun, Run
from memoranda.cli.show import line, note, nothing_found, one_line, record_block, safe, shown_id, when
from memoranda.cli.words import end_of, given, json_object, moment, span_ms, text_or_input
from memoranda.errors import InvalidInput
from memoranda.model.standard import Standard

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.standards.ump.rehydrate import RehydratedBlock
    from memoranda.standards.ump.requests import RecallRequest
    from memoranda.standards.ump.shapes import Record

Kind = Literal["semantic", "episodic", "procedural", "working", "identity"]
Visibility = Literal["private", "shared", "public"]
Outcome = Literal["followed", "overridden", "ignored", "contradicted"]
Signal = Literal["similarity", "recency", "salience", "scope_match", "provenance_depth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """Where a memory belongs."""

    project: Annotated[str | None, Parameter(help="The project it belongs to.")] = None
    user: Annotated[str | None, Parameter(help="The user it is about.")] = None
    agent: Annotated[str | None, Parameter(help="The agent it belongs to.")] = None
    session: Annotated[str | None, Parameter(help="The session it comes from.")] = None
    visibility: Annotated[Visibility | None, Parameter(help="Who may see it; private unless said.")] = None

    def fields(self) -> dict[str, Any]:
        return given(
            project=self.project,
            user=self.user,
            agent=self.agent,
            session=self.session,
            visibility=self.visibility,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """How much a memory counts, and how long."""

    salience: Annotated[float | None, Parameter(help="How important it is, from 0 to 1.")] = None
    confidence: Annotated[float | None, Parameter(help="How sure it is, from 0 to 1.")] = None
    valid_from: Annotated[str | None, Parameter(help="From when it is true: a date, or RFC 3339.")] = None
    valid_to: Annotated[str | None, Parameter(help="Until when it is true; never, to lift the end of a memory.")] = None

    def fields(self) -> dict[str, Any]:
        return given(
            salience=self.salience,
            confidence=self.confidence,
            valid_from=moment(self.valid_from),
            valid_to=moment(self.valid_to),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentTerms:
    """What may be done with a memory, and where it comes from."""

    retention: Annotated[str | None, Parameter(help="Forget it after this long: 30d, or P365D.")] = None
    redact: Annotated[tuple[str, ...], Parameter(help="A path that others never see, e.g. body.structured.token.")] = ()
    export: Annotated[bool, Parameter(negative="--no-export", help="Whether it may leave this store.")] = True
    about: Annotated[tuple[str, ...], Parameter(help="An entity it is about; can be repeated.")] = ()
    source: Annotated[str | None, Parameter(help="A reference to where it comes from.")] = None

    def fields(self) -> dict[str, Any]:
        retention = self.retention
        if retention is not None and not retention.startswith("P"):
            retention = f"PT{span_ms(retention, '--retention') // 1000}S"
        return given(
            retention=retention,
            exportable=None if self.export else False,
            redact=list(self.redact) or None,
            about=list(self.about) or None,
            source=self.source,
        )


# What a command gets when nothing of the kind was said.
ANYWHERE, UNWEIGHTED, NO_TERMS = MemoryScope(), Weight(), ConsentTerms()


def remember(
    text: Annotated[str | None, Parameter(help="The text; - or nothing reads standard input.")] = None,
    /,
    *,
    kind: Annotated[Kind, Parameter(help="What kind of memory it is; semantic unless said.")] = "semantic",
    tag: Annotated[tuple[str, ...], Parameter(help="A word to file it under; can be repeated.")] = (),
    structured: Annotated[str | None, Parameter(help="Further data, as a JSON object.")] = None,
    place: MemoryScope = ANYWHERE,
    weight: Weight = UNWEIGHTED,
    terms: ConsentTerms = NO_TERMS,
    run: GivenRun,
) -> None:
    """Remember a text. If the same is known already, the two are merged and trusted a little more."""
    from memoranda.standards.ump.plain import PlainMemory

    data = None if structured is None else json_object(structured, "--structured")
    memory = PlainMemory(
        text=text_or_input(text),
        kind=kind,
        tags=list(tag) or None,
        structured=data,
        **place.fields(),
        **weight.fields(),
        **terms.fields(),
    )
    with run.open() as memoranda:
        remembered = memoranda.ump.remember(memoranda.ump.with_defaults(memory.to_draft(), method="cli"))
        shown = shown_id(memoranda, remembered.id)
    run.answer({"id": remembered.id, "result": remembered.result}, lambda: line(f"{shown} {remembered.result}"))


def recall(
    query: Annotated[str, Parameter(help="What to look for.")],
    /,
    *,
    kind: Annotated[tuple[Kind, ...], Parameter(help="Only memories of this kind; can be repeated.")] = (),
    limit: Annotated[int | None, Parameter(help="At most so many: 8, or 12 with --for-prompt.")] = None,
    valid_at: Annotated[
        str | None, Parameter(help="What was true then: RFC 3339, or a date, which means its end.")
    ] = None,
    known_at: Annotated[str | None, Parameter(help="What was known here then, likewise.")] = None,
    tag: Annotated[tuple[str, ...], Parameter(help="Only with this tag; can be repeated.")] = (),
    standard: Annotated[Standard | None, Parameter(help="Only what was written through this standard.")] = None,
    prefer: Annotated[
        tuple[Signal, ...], Parameter(help="Weigh a signal more among good answers; can be repeated.")
    ] = (),
    for_prompt: Annotated[bool, Parameter(help="One framed block, safe to put into a model's context.")] = False,
    budget: Annotated[int | None, Parameter(help="With --for-prompt: characters in all.")] = None,
    max_chars: Annotated[int | None, Parameter(help="With --for-prompt: characters of one memory.")] = None,
    strict: Annotated[bool, Parameter(help="Only what names exactly this project, user, agent, session.")] = False,
    words: Annotated[bool, Parameter(help="Look for words alone; no model is loaded.")] = False,
    rerank: Annotated[bool, Parameter(help="Read the best 20 once more: better, and slower.")] = False,
    everything: Annotated[
        bool, Parameter(name="--no-floor", help="Also what is too far from the question to answer it.")
    ] = False,
    explain: Annotated[bool, Parameter(help="Say why each was found.")] = False,
    place: MemoryScope = ANYWHERE,
    run: GivenRun,
) -> None:
    """Find the best memories for a question.

    Of a project also what belongs to none, of a user what is about nobody; agent and session rank. See --strict.

    Examples: recall "which package manager?" --project shop; recall "where did we meet" --user ada --limit 3;
    recall "who was in charge" --valid-at 2024-05-01; recall "deploying" --for-prompt --budget 2000
    """
    from memoranda.standards.ump.plain import PlainQuestion
    from memoranda.standards.ump.requests import RecallRequest, RehydrateRequest

    if not for_prompt and (budget is not None or max_chars is not None):
        raise InvalidInput("--budget and --max-chars belong to --for-prompt")
    question = PlainQuestion(
        query=query,
        limit=(12 if for_prompt else 8) if limit is None else limit,
        strict=strict,
        **place.fields(),
        **given(
            valid_at=end_of(valid_at), known_at=end_of(known_at), kind=list(kind) or None, prefer=list(prefer) or None
        ),
        **given(tags=list(tag) or None, standard=standard),
        **given(words_only=words or None, rerank=rerank or None, floor=False if everything else None),
        explain=explain or None,
    ).to_recall()
    with run.open() as memoranda:
        if for_prompt:
            options = {"max_visibility": "public", **given(budget_chars=budget, max_chars=max_chars)}
            _answer_block(run, memoranda.ump.for_prompt(RehydrateRequest.parse({**question, **options})))
            return
        asked = RecallRequest.parse(question)
        found = [each.document() for each in memoranda.ump.recall(asked)]
        run.answer({"results": found}, lambda: _show_found(memoranda, asked, found))


def _answer_block(run: Run, block: RehydratedBlock) -> None:
    dropped = [{"id": name, "reason": reason} for name, reason in block.dropped]
    document = {"text": block.text, "injected": list(block.injected), "dropped": dropped}
    run.answer(document, lambda: print(block.text) if block.text else None)


def _show_found(memoranda: Memoranda, asked: RecallRequest, documents: list[dict[str, Any]]) -> None:
    if not documents:
        said = nothing_found(asked.scope.get("project"), memoranda.ump.elsewhere(asked))
        # By words alone nothing is too far away.
        has_floor = asked.hints.floor and not asked.hints.words_only
        note(f"{said} (--no-floor also shows what is too far from the question)" if has_floor else said)
    short = memoranda.ump.short_ids([document["record"]["id"] for document in documents])
    for document in documents:
        record_block(document["record"], head=f"{document['score']:.2f}", short=short)
        if "explanation" in document:
            parts = sorted(document["explanation"].items(), key=lambda each: -each[1]["part"])
            line("      " + ", ".join(f"{name} {each['part']:.2f} (no. {each['rank']})" for name, each in parts))


ID = Annotated[str, Parameter(name="ID", help="The memory's id, or the beginning of it.")]


def get(name: ID, /, *, run: GivenRun) -> None:
    """Show one memory."""
    with run.open() as memoranda:
        record = memoranda.ump.get(name)
        short = memoranda.ump.short_ids([record["id"]])
    run.answer({"record": record}, lambda: _show_record(record, short))


def _show_record(record: Record, short: Mapping[str, str]) -> None:
    record_block(record, short=short)
    time, lifecycle = record["time"], record.get("lifecycle", {})
    until = time.get("valid_to")
    line(f"  true from {when(time.get('valid_from', time['created']))} to {when(until) if until else 'now on'}", "dim")
    line("  " + ", ".join(f"{name} {value}" for name, value in lifecycle.items()), "dim")
    for relation in record.get("relations", ()):
        line(f"  {relation['type']} {one_line(relation['target'])}", "dim")
    if record.get("superseded_by"):
        line(f"  superseded by {record['superseded_by'][0]}", "dim")


def revise(
    name: ID,
    text: Annotated[str | None, Parameter(help="The new text; - reads standard input.")] = None,
    /,
    *,
    weight: Weight = UNWEIGHTED,
    run: GivenRun,
) -> None:
    """Write a new version of a memory; the old one stays in its history."""
    said = weight.fields()
    with run.open() as memoranda:
        new = text_or_input(text) if text is not None or not said else None
        revised = memoranda.revise(name, new, **said)
        shown = shown_id(memoranda, revised.id)
    run.answer({"id": revised.id, "supersedes": list(revised.supersedes)}, lambda: line(f"{shown} revised"))


def edit(name: ID, /, *, run: GivenRun) -> int:
    """Change the text of a memory in your editor ($VISUAL or $EDITOR); the old version stays in its history."""
    from memoranda.cli.editor import edited
    from memoranda.standards.ump.rules import require_complete

    with run.open() as memoranda:
        memory = memoranda.get(name)
        require_complete(memory.record, ("body",))
        text = edited(memory.text)
        if text == memory.text or not text.strip():
            note("nothing was changed")
            return 1
        revised = memoranda.revise(memory.id, text)
        shown = shown_id(memoranda, revised.id)
    run.answer({"id": revised.id, "supersedes": list(revised.supersedes)}, lambda: line(f"{shown} revised"))
    return 0


def forget(
    name: ID,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; kept in the audit log.")] = "",
    hard: Annotated[bool, Parameter(help="Erase it for good, with its earlier versions.")] = False,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
    run: GivenRun,
) -> int:
    """Forget a memory: it is recalled no more. With --hard nothing of its content remains."""
    with run.open() as memoranda:
        record = memoranda.ump.get(name)
        if hard and not yes and sys.stdin.isatty() and not _agreed(record):
            note("nothing was erased")
            return 1
        result = memoranda.forget(record["id"], reason=reason, hard=hard)
    run.answer({"result": result}, lambda: line(f"{name} {result}"))
    return 0


def _agreed(record: Record) -> bool:
    """Whether the person at the terminal, who sees what it says, wants it erased."""
    print(f"{safe(record['body']['text'])}\n", file=sys.stderr)
    print("Erase this and its earlier versions for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def redact(
    names: Annotated[tuple[str, ...], Parameter(name="ID", help="A memory's id; none lists them.")] = (),
    /,
    *,
    all_current: Annotated[bool, Parameter(name="--all", help="All that are listed.")] = False,
    run: GivenRun,
) -> None:
    """List what looks as if it held a secret, or take it out of memories for good, also of what they said before."""
    from memoranda.cli.show import progress, table

    with run.open() as memoranda:
        found = []
        if not names:
            with progress("looking") as done:
                found = list(memoranda.ump.suspects(progress=done))
        beside = [] if names or all_current else list(memoranda.ump.suspects_beside())
        if all_current:
            names = tuple(each.id for each in found)
        redacted = [{"id": memoranda.ump.redact(each), "was": each} for each in names]

    def say() -> None:
        for each in redacted:
            line(f"{each['id']} redacted")

    if names:
        run.answer({"redacted": redacted}, say)
        return
    documents = [
        {"id": each.id, "kinds": list(each.kinds), "text": each.text, "current": each.is_current} for each in found
    ]
    cells = [(each.id, ", ".join(each.kinds), each.text[:80]) for each in found]
    # Not rewritten: a file is removed, or written anew, and a log goes with its run.
    cells += [(each.where, ", ".join(each.kinds), "") for each in beside]
    run.answer(
        {"suspects": documents, "beside": [{"where": each.where, "kinds": list(each.kinds)} for each in beside]},
        lambda: table(("id", "kind", "text"), cells, when_empty="nothing looks like a secret"),
    )


def suspicious(
    names: Annotated[tuple[str, ...], Parameter(name="ID", help="A memory's id, with --allow; none lists them.")] = (),
    /,
    *,
    allow: Annotated[bool, Parameter(help="Say that these may read as they do.")] = False,
    run: GivenRun,
) -> None:
    """List memories that read as if they gave orders to a model: something it read may have put them there.

    Forget what nobody of yours wrote; --allow takes what is right off the list.
    """
    from memoranda.cli.show import progress, table

    if allow != bool(names):
        raise InvalidInput("--allow goes with the ids that it is said of")
    with run.open() as memoranda:
        for each in names:
            memoranda.ump.allow_orders(each)
        if names:
            run.answer({"allowed": list(names)}, lambda: line(f"{len(names)} allowed"))
            return
        with progress("looking") as done:
            found = list(memoranda.ump.orders(progress=done))
        short = memoranda.ump.short_ids([each.id for each in found])
    documents = [{"id": each.id, "kinds": list(each.kinds), "text": each.text} for each in found]
    cells = [(short[each.id], ", ".join(each.kinds), one_line(each.text)[:80]) for each in found]
    run.answer(
        {"suspicious": documents},
        lambda: table(("id", "kind", "text"), cells, when_empty="nothing reads as if it gave orders to a model"),
    )


def history(name: ID, /, *, run: GivenRun) -> None:
    """Show all versions of a memory, oldest first."""
    with run.open() as memoranda:
        versions: list[dict[str, Any]] = memoranda.ump.history(name)
        short = memoranda.ump.short_ids([version["record"]["id"] for version in versions])

    def say() -> None:
        for version in versions:
            replaced = f" to {when(version['replaced'])}" if version["replaced"] else ""
            doubt = "" if version["verified"] else "  SIGNATURE DOES NOT VERIFY"
            record_block(version["record"], head=f"{when(version['recorded'])}{replaced}{doubt}", short=short)

    run.answer({"versions": versions}, say)


def feedback(
    name: ID,
    outcome: Annotated[Outcome, Parameter(help="What became of it.")],
    /,
    *,
    session: Annotated[str | None, Parameter(help="The session in which it was used.")] = None,
    run: GivenRun,
) -> None:
    """Say what became of a recalled memory; later recalls learn from it."""
    with run.open() as memoranda:
        memoranda.feedback(name, outcome, session=session)
    run.answer({"ok": True}, lambda: line(f"{name} {outcome}"))
