"""candidates: what was learnt from sessions and waits for a decision."""

from __future__ import annotations

from typing import Annotated, Final

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import line, one_line, table
from memoranda.errors import InvalidInput
from memoranda.hosts import learning

Names = Annotated[str, Parameter(name="ID", help="The candidate's id, or its beginning.")]
# Characters of a text in a row of the table.
_TEXT_CHARS: Final = 100
# Candidates of one listing: more than a person decides at once.
_LIMIT: Final = 500


def list_candidates(
    *,
    project: Annotated[str | None, Parameter(help="Only of this project.")] = None,
    agent: Annotated[str | None, Parameter(help="Only from sessions with this agent.")] = None,
    limit: Annotated[
        int, Parameter(help="The largest number of candidates.", minimum=1, maximum=_LIMIT)
    ] = 50,
    run: GivenRun,
) -> None:
    """List what was learnt and waits for a decision, with the turn that it rests on."""
    with run.open() as memoranda:
        candidates = learning.list_candidates(memoranda, project=project, agent=agent, limit=limit)
        short_ids = memoranda.ump.short_ids([memory.id for memory in candidates])
    rows = [
        (
            short_ids[memory.id],
            memory.kind,
            memory.project or "",
            memory.record.get("provenance", {}).get("source", {}).get("ref", ""),
            one_line(memory.text)[:_TEXT_CHARS],
        )
        for memory in candidates
    ]
    run.answer(
        {"candidates": [memory.record for memory in candidates]},
        lambda: table(
            ("id", "kind", "project", "from", "text"), rows, when_empty="nothing to decide"
        ),
    )


def accept(
    *names: Names,
    text: Annotated[
        str | None, Parameter(help="Accept it in these words; only for a single candidate.")
    ] = None,
    run: GivenRun,
) -> None:
    """Accept candidates: they become memories like all others, and keep the turn that they rest on."""
    if not names or (text is not None and len(names) > 1):
        raise InvalidInput("name the candidates to accept; --text goes with a single one")
    with run.open() as memoranda:
        accepted = [(name, learning.accept_candidate(memoranda, name, text).id) for name in names]

    def show() -> None:
        for name, _ in accepted:
            line(f"{name} accepted")

    run.answer({"accepted": [{"id": successor, "was": name} for name, successor in accepted]}, show)


def reject(*names: Names, run: GivenRun) -> None:
    """Reject candidates. They are not proposed again; `memoranda undo` brings the last one back."""
    if not names:
        raise InvalidInput("name the candidates to reject")
    with run.open() as memoranda:
        for name in names:
            learning.reject_candidate(memoranda, name)

    def show() -> None:
        for name in names:
            line(f"{name} rejected")

    run.answer({"rejected": list(names)}, show)
