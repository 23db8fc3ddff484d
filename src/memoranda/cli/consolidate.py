"""consolidate: what many memories come to, shown first, with its reasons, and undone by its run id."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from memoranda.cli.commands import App, Parameter
from memoranda.cli.run import PLACE_NAMES, GivenRun
from memoranda.cli.show import counted, line, note, one_line, progress, table
from memoranda.cli.words import names
from memoranda.errors import InvalidInput

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.consolidation.strategies.dream import Dream, Options
    from memoranda.consolidation.text.note import Note
    from memoranda.consolidation.writer import ModelWriter
    from memoranda.service.consolidation.dreams import DreamRun, Output

ALL = "all"
MODEL_KEY = "MEMORANDA_MODEL_KEY"
_WHAT = {
    "created": "new",
    "updated": "changed",
    "unchanged": "as before",
    "kept": "left as it is",
    "refused": "refused before",
}
_INPUTS_SHOWN = 5

consolidate = App(
    name="consolidate",
    about=(
        "Show what the memories of a namespace come to together, and write it down once you agree.\n\n"
        "Every result is a memory of its own that names the memories it rests on; those are never changed. Without "
        "--yes nothing is written unless you say so at the terminal. What a run wrote can be undone."
    ),
)


@consolidate.default
def dream(
    *,
    strategy: Annotated[
        str,
        Parameter(
            help="One, several separated by commas, or all: synthesize, pattern_extract, insight_generate, compress, "
            "associate, validate, evolve, forecast, reflect; or vendor:statements, what people stated in conversations."
        ),
    ],
    namespace: Annotated[
        str | None, Parameter(name=PLACE_NAMES, help="The namespace, or a scope of your own; your default unless said.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Only show what would be written.")] = False,
    yes: Annotated[bool, Parameter(help="Write it without asking.")] = False,
    only: Annotated[tuple[str, ...], Parameter(help="Write only the result under this key; can be repeated.")] = (),
    limit: Annotated[int, Parameter(help="At most so many results of a strategy; 50 unless said.")] = 50,
    budget: Annotated[int, Parameter(help="At most so many tokens in a compressed text; 400 unless said.")] = 400,
    model: Annotated[
        str | None,
        Parameter(
            help="Let a language model word the results: an OpenAI-compatible URL; its key is in " + MODEL_KEY + "."
        ),
    ] = None,
    model_name: Annotated[str | None, Parameter(help="Which model; goes with --model.")] = None,
    run: GivenRun,
) -> int:
    """Show what the memories of a namespace come to together, and write it down once you agree."""
    from memoranda.consolidation.strategies.dream import Options

    if dry_run and yes:
        raise InvalidInput("--dry-run writes nothing and --yes writes: give one of them")
    strategies, options = _strategies(strategy), Options(limit=limit, budget_tokens=budget)
    writer = _writer(model, model_name)
    with run.open() as memoranda:
        passes = _Passes(memoranda, namespace, strategies, options, writer, only)
        runs = passes.made(is_dry=not yes)
        asks = not (dry_run or yes or run.json) and sys.stdin.isatty() and _would_write(runs)
        if asks:
            _show(runs)
            if not _agreed(runs):
                note("nothing was written")
                return 1
            runs = passes.made(is_dry=False)
    if writer is not None and writer.problem:
        note(f"the model's wording was not used: {writer.problem}")
    document = {"runs": [each.document() for each in runs]}
    run.answer(document, lambda: _tell(runs) if asks else _show(runs))
    if not run.json and not (dry_run or yes or asks) and _would_write(runs):
        note("nothing was written; write it with --yes")
    return 0


def _strategies(text: str) -> tuple[str, ...]:
    from memoranda.standards.oams.memory import STATEMENTS, STRATEGIES

    asked = STRATEGIES if text.strip() == ALL else names(text)
    unknown = next((each for each in asked if each not in (*STRATEGIES, STATEMENTS)), None)
    if unknown is not None or not asked:
        wrong = "none given" if unknown is None else f"unknown strategy {one_line(unknown)!r}"
        raise InvalidInput(f"--strategy: {wrong}; there are {', '.join((*STRATEGIES, STATEMENTS))}, and all")
    return tuple(dict.fromkeys(asked))


def _writer(url: str | None, model: str | None) -> _Once | None:
    if url is None and model is None:
        return None
    if url is None or model is None:
        raise InvalidInput("--model and --model-name: give both, or neither")
    from memoranda.consolidation.writer import ModelWriter

    return _Once(ModelWriter(url=url, model=model, api_key=os.environ.get(MODEL_KEY, "")))


class _Once:
    """A writer that is asked once for each wording: what is written is what was shown."""

    def __init__(self, writer: ModelWriter) -> None:
        self._writer = writer
        self._answers: dict[tuple[str, str], str | None] = {}

    @property
    def problem(self) -> str:
        return self._writer.problem

    def rewrite(self, strategy: str, dream: Dream, notes: Sequence[Note]) -> str | None:
        key = (strategy, dream.text)
        if key not in self._answers:
            self._answers[key] = self._writer.rewrite(strategy, dream, notes)
        return self._answers[key]


class _Passes:
    """One pass for each strategy."""

    def __init__(
        self,
        memoranda: Memoranda,
        namespace: str | None,
        strategies: Sequence[str],
        options: Options,
        writer: _Once | None,
        only: Sequence[str],
    ) -> None:
        self._memoranda = memoranda
        self._place = memoranda.oams.namespace(namespace)
        self._strategies = strategies
        self._options = options
        self._writer = writer
        self._only = frozenset(only) or None

    def made(self, *, is_dry: bool) -> list[DreamRun]:
        runs: list[DreamRun] = []
        with progress("consolidating", total=len(self._strategies)) as done:
            for strategy in self._strategies:
                made = self._memoranda.oams.verbs.consolidate(
                    self._place, strategy, is_dry=is_dry, options=self._options, writer=self._writer, only=self._only
                )
                runs.append(made)
                done(len(runs))
        return runs


def _would_write(runs: Sequence[DreamRun]) -> bool:
    return any(each.written or each.taken_back for each in runs)


def _agreed(runs: Sequence[DreamRun]) -> bool:
    count = sum(each.written for each in runs)
    gone = sum(len(each.taken_back) for each in runs)
    what = [f"write {counted(count, 'memory', 'memories')}"] if count else []
    what += [f"take back {gone}"] if gone else []
    print(f"{' and '.join(what).capitalize()}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# --- what is shown -------------------------------------------------------------------------------------------


def _show(runs: Sequence[DreamRun]) -> None:
    for number, each in enumerate(runs):
        if number:
            line("")
        _show_run(each)


def _show_run(run: DreamRun) -> None:
    line(f"{run.strategy}: {_sums(run)}", "bold")
    for output in run.outputs:
        _show_output(output)
    for key in run.taken_back:
        line(f"  {'would take back' if run.is_dry else 'taken back'}: {one_line(key)}")
    for reason in run.left_out:
        note(f"{run.strategy}: a result was left out: {one_line(reason)}")
    if run.written or run.taken_back:
        line(f"  run {run.run_id}", "dim")


def _sums(run: DreamRun) -> str:
    read = counted(run.inputs, "memory", "memories")
    found = counted(len(run.outputs), "result") if run.outputs else "nothing found"
    return f"{found} in {read}" + (f" ({run.stayed} not read: their consent keeps them)" if run.stayed else "")


def _show_output(output: Output) -> None:
    from memoranda.service.consolidation.results import mark_of

    metadata, mark = output.memory["metadata"], mark_of(output.memory)
    line(f"  {_WHAT[output.result]}: {one_line(output.memory['key'])}")
    for each in output.memory["value"].split("\n"):
        line(f"    {each}")
    line(f"    why: {one_line(str(mark.get('why', '')))}", "dim")
    for key, text in output.inputs[:_INPUTS_SHOWN]:
        line(f"    from {one_line(key)}: {one_line(text)}", "dim")
    total = mark.get("inputs", len(metadata["dream_inputs"]))
    if total > _INPUTS_SHOWN:
        line(f"    and from {total - _INPUTS_SHOWN} more", "dim")


def _tell(runs: Sequence[DreamRun]) -> None:
    """After it was shown and agreed to."""
    for each in runs:
        if each.written or each.taken_back:
            line(f"{each.strategy}: {each.written} written, {len(each.taken_back)} taken back; run {each.run_id}")


# --- runs and undo -------------------------------------------------------------------------------------------


@consolidate.command
def refuse(
    *keys: Annotated[str, Parameter(name="KEY", help="The key of a result.")],
    strategy: Annotated[str, Parameter(help="The strategy that comes to it.")],
    namespace: Annotated[
        str | None, Parameter(name=PLACE_NAMES, help="The namespace, or a scope of your own; your default unless said.")
    ] = None,
    run: GivenRun,
) -> None:
    """Do not suggest a result again while it says the same; --only writes it all the same."""
    if not keys:
        raise InvalidInput("KEY: name at least one")
    with run.open() as memoranda:
        memoranda.oams.verbs.refuse(memoranda.oams.namespace(namespace), strategy, keys)
    run.answer({"refused": list(keys)}, lambda: line(f"{counted(len(keys), 'result')} refused"))


@consolidate.command
def runs(*, run: GivenRun) -> None:
    """List what was consolidated and can be undone, the last first."""
    with run.open() as memoranda:
        found = memoranda.oams.verbs.dream_runs()
    columns = ("run", "when", "strategy", "namespace", "new", "changed", "taken back", "")
    rows = [
        (
            each["run_id"],
            each["at"],
            each["strategy"],
            each["namespace"],
            *(len(each[name]) for name in ("created", "updated", "taken_back")),
            "" if each["can_be_undone"] else "undo the later one first",
        )
        for each in found
    ]
    run.answer({"runs": found}, lambda: table(columns, rows, when_empty="nothing was consolidated yet"))


@consolidate.command
def undo(
    run_id: Annotated[str, Parameter(name="RUN", help="The id of the run.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Take back what a run wrote, and bring again what it took back. What somebody changed since is left."""
    with run.open() as memoranda:
        undone = memoranda.oams.verbs.undo(run_id)
    said = f"{len(undone.taken_back)} taken back, {len(undone.brought_again)} brought again"
    run.answer(undone.document(), lambda: line(said))
    if undone.left and not run.json:
        note(f"left, because somebody changed, held or forgot something: {', '.join(map(one_line, undone.left))}")
