"""recall: find the best memories for a question.

On a terminal the results are shown with the passage that fits the question, and a line warns if nothing was close. In a
pipe or with `--json` the whole records are printed. Which memories are found is decided by `retrieval/`; here are only
the options and the printing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from memoranda.cli.options import ANY_SCOPE, Kind, MemoryScope, end_of_date
from memoranda.cli.records import record_block
from memoranda.cli.run import GivenRun, GlobalOptions, Parameter, without_none
from memoranda.cli.show import line, no_matches, note
from memoranda.errors import InvalidInput
from memoranda.model.memory import Standard
from memoranda.retrieval.weights import NEAREST_SHOWN
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.plain import PlainQuestion
from memoranda.standards.ump.requests import (
    MAX_BUDGET_CHARS,
    MAX_CHARS_PER_RECORD,
    RecallRequest,
    RehydrateRequest,
)

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.standards.ump.rehydrate import RehydratedBlock

Signal = Literal["similarity", "recency", "salience", "scope_match", "provenance_depth"]

_NOTHING_CLOSE = "nothing close; nearest:"
# Results where --limit is not typed; a block for a prompt takes more, because its budget cuts it.
_LIMIT, _PROMPT_LIMIT = 8, 12
# Characters of one memory; of longer texts the best passage is shown.
_TEXT_CHARS = 1_600


def recall(
    query: Annotated[str, Parameter(help="The question, or words to search for.")],
    /,
    *,
    kind: Annotated[
        tuple[Kind, ...], Parameter(help="Only memories of this kind; can be repeated.")
    ] = (),
    limit: Annotated[
        int | None,
        Parameter(
            help="Results at most (default: 8, or 12 with --for-prompt).",
            minimum=1,
            maximum=MAX_RECALL,
        ),
    ] = None,
    valid_at: Annotated[
        str | None, Parameter(help="Only what was true then: RFC 3339, or a date (its end).")
    ] = None,
    known_at: Annotated[
        str | None, Parameter(help="As the store was then: RFC 3339, or a date (its end).")
    ] = None,
    tag: Annotated[tuple[str, ...], Parameter(help="Only with this tag; can be repeated.")] = (),
    standard: Annotated[
        Standard | None, Parameter(help="Only memories written through this standard.")
    ] = None,
    prefer: Annotated[
        tuple[Signal, ...],
        Parameter(help="Weigh a signal more among good answers; can be repeated."),
    ] = (),
    for_prompt: Annotated[
        bool, Parameter(help="One framed block, safe to put into a model's context.")
    ] = False,
    budget: Annotated[
        int | None,
        Parameter(
            help="With --for-prompt: maximum characters of the block.",
            minimum=1,
            maximum=MAX_BUDGET_CHARS,
        ),
    ] = None,
    max_chars: Annotated[
        int | None,
        Parameter(
            help="With --for-prompt: characters of one memory.",
            minimum=1,
            maximum=MAX_CHARS_PER_RECORD,
        ),
    ] = None,
    strict: Annotated[
        bool,
        Parameter(help="Only memories that name exactly this project, user, agent and session."),
    ] = False,
    words: Annotated[bool, Parameter(help="Keyword search only, without loading a model.")] = False,
    rerank: Annotated[bool, Parameter(help="Re-rank the top 20 (slower, more accurate).")] = False,
    everything: Annotated[bool, Parameter(name="--no-floor", help="Include weak matches.")] = False,
    explain: Annotated[bool, Parameter(help="Show why each memory was found.")] = False,
    scope: MemoryScope = ANY_SCOPE,
    run: GivenRun,
) -> None:
    """Find the best memories for a question.

    Also returns memories without a project or user; --agent and --session only affect ranking. See --strict.

    Examples: recall "which package manager?" --project shop; recall "where did we meet" --user ada --limit 3;
    recall "who was in charge" --valid-at 2024-05-01; recall "deploying" --for-prompt --budget 2000
    """
    if not for_prompt and (budget is not None or max_chars is not None):
        raise InvalidInput("--budget and --max-chars need --for-prompt")
    default_limit = _PROMPT_LIMIT if for_prompt else _LIMIT
    question = PlainQuestion(
        query=query,
        limit=default_limit if limit is None else limit,
        strict=strict,
        **scope.fields(),
        **without_none(
            valid_at=end_of_date(valid_at),
            known_at=end_of_date(known_at),
            kind=list(kind) or None,
            prefer=list(prefer) or None,
            tags=list(tag) or None,
            standard=standard,
            words_only=words or None,
            rerank=rerank or None,
            floor=False if everything else None,
        ),
        explain=explain or None,
    ).to_recall()
    with run.open() as memoranda:
        if for_prompt:
            options = {
                "max_visibility": "public",
                **without_none(budget_chars=budget, max_chars=max_chars),
            }
            _answer_block(
                run, memoranda.ump.for_prompt(RehydrateRequest.parse({**question, **options}))
            )
            return
        request = RecallRequest.parse(question)
        documents = [hit.document() for hit in memoranda.ump.recall(request)]
        run.answer({"results": documents}, lambda: _show_results(memoranda, request, documents))


def _answer_block(run: GlobalOptions, block: RehydratedBlock) -> None:
    dropped = [{"id": name, "reason": reason} for name, reason in block.dropped]
    document = {
        "text": block.text,
        "injected": list(block.injected),
        "dropped": dropped,
        **({"weak": True} if block.weak else {}),
    }

    def show() -> None:
        if block.weak:
            note(_NOTHING_CLOSE)
        if block.text:
            print(block.text)

    run.answer(document, show)


def _show_results(
    memoranda: Memoranda, request: RecallRequest, documents: list[dict[str, Any]]
) -> None:
    if not documents:
        message = no_matches(request.scope.get("project"), memoranda.ump.elsewhere(request))
        # Keyword search alone has no relevance threshold.
        has_floor = request.hints.floor and not request.hints.words_only
        note(f"{message}; --no-floor includes weak ones" if has_floor else message)
    if documents and all(document.get("weak") for document in documents):
        note(_NOTHING_CLOSE)
        documents = documents[:NEAREST_SHOWN]
    short_ids = memoranda.ump.short_ids([document["record"]["id"] for document in documents])
    for document in documents:
        record_block(
            document["record"],
            head=f"{document['score']:.2f}",
            short=short_ids,
            passage=document.get("passage"),
            max_chars=_TEXT_CHARS,
        )
        if "explanation" in document:
            signals = sorted(document["explanation"].items(), key=lambda item: -item[1]["part"])
            parts = [
                f"{name} {signal['part']:.2f} (no. {signal['rank']})" for name, signal in signals
            ]
            line("      " + ", ".join(parts))
