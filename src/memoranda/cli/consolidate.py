"""consolidate: combine related memories. Results are previewed with their reasons, and a run can be undone by its id.

A run covers one strategy. `dream` makes the runs as a preview first; only after the person confirms, or with --yes, are
they made again and written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from memoranda.cli.options import split_names
from memoranda.cli.run import PLACE_NAMES, GivenRun, Parameter
from memoranda.cli.show import count_phrase, is_confirmed, line, note, one_line, progress, table
from memoranda.consolidation.strategies.dream import Dream, Options
from memoranda.errors import InvalidInput
from memoranda.service.consolidation.results import details_of
from memoranda.standards.oams.memory import STATEMENTS, STRATEGIES

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.consolidation.text.note import MemoryNote
    from memoranda.consolidation.writer import ModelWriter
    from memoranda.service.consolidation.dreams import DreamRun, Output

ALL: Final = "all"
MODEL_KEY: Final = "MEMORANDA_MODEL_KEY"
# The state of a result, as the preview shows it.
_RESULT_WORDS: Final = {
    "created": "new",
    "updated": "changed",
    "unchanged": "unchanged",
    "kept": "kept (edited since)",
    "refused": "rejected before",
}
# Source memories shown for each result.
_INPUTS_SHOWN: Final = 5
NamespaceName = Annotated[
    str | None,
    Parameter(
        name=PLACE_NAMES,
        help="The namespace, or your own namespace of this scope (default: your default).",
    ),
]


def dream(
    *,
    strategy: Annotated[
        str,
        Parameter(
            help="One, several separated by commas, or all: synthesize, pattern_extract, insight_generate, compress, "
            "associate, validate, evolve, forecast, reflect; or vendor:statements, what people stated in conversations."
        ),
    ],
    namespace: NamespaceName = None,
    dry_run: Annotated[bool, Parameter(help="Only show what would be written.")] = False,
    yes: Annotated[bool, Parameter(help="Write without asking for confirmation.")] = False,
    only: Annotated[
        tuple[str, ...], Parameter(help="Write only the result with this key; can be repeated.")
    ] = (),
    limit: Annotated[
        int, Parameter(help="Results per strategy at most (default 50).", minimum=1)
    ] = 50,
    budget: Annotated[
        int, Parameter(help="Tokens of a compressed text at most (default 400).", minimum=1)
    ] = 400,
    model: Annotated[
        str | None,
        Parameter(
            help="Let a language model phrase the results: an OpenAI-compatible URL; its key is in "
            + MODEL_KEY
            + "."
        ),
    ] = None,
    model_name: Annotated[
        str | None, Parameter(help="The name of the model; only with --model.")
    ] = None,
    run: GivenRun,
) -> int:
    """Combine related memories of a namespace: preview the results, then write them.

    Each result is a new memory that names the memories it was derived from; those never change. Nothing is written
    without --yes or your agreement at the terminal. A run can be undone.
    """
    if dry_run and yes:
        raise InvalidInput("--dry-run writes nothing and --yes writes: give one of them")
    strategies, options = _parse_strategies(strategy), Options(limit=limit, budget_tokens=budget)
    writer = _make_writer(model, model_name)
    with run.open() as memoranda:
        planned = _PlannedRuns(memoranda, namespace, strategies, options, writer, only)
        runs = planned.execute(is_dry=not yes)
        asks = not (dry_run or yes or run.json) and sys.stdin.isatty() and _has_changes(runs)
        if asks:
            _show_runs(runs)
            if not _is_confirmed(runs):
                note("nothing was written")
                return 1
            runs = planned.execute(is_dry=False)
    if writer is not None and writer.problem:
        note(f"the model's wording was not used: {writer.problem}")
    document = {"runs": [dream_run.document() for dream_run in runs]}
    run.answer(document, lambda: _show_counts(runs) if asks else _show_runs(runs))
    if not run.json and not (dry_run or yes or asks) and _has_changes(runs):
        note("nothing was written; to write it, add --yes")
    return 0


def _parse_strategies(text: str) -> tuple[str, ...]:
    """Return the strategies that `--strategy` names, each once. Raises InvalidInput."""
    strategies = STRATEGIES if text.strip() == ALL else split_names(text)
    supported = (*STRATEGIES, STATEMENTS)
    unknown = [name for name in strategies if name not in supported]
    if unknown or not strategies:
        problem = f"unknown strategy {one_line(unknown[0])!r}" if unknown else "none given"
        raise InvalidInput(f"--strategy: {problem}; use one of {', '.join(supported)}, or all")
    return tuple(dict.fromkeys(strategies))


def _make_writer(url: str | None, model: str | None) -> _CachedWriter | None:
    """Return a writer that lets a language model phrase results; None without --model."""
    if url is None and model is None:
        return None
    if url is None or model is None:
        raise InvalidInput("--model and --model-name: give both, or neither")
    # Loads an HTTP client.
    from memoranda.consolidation.writer import ModelWriter

    return _CachedWriter(ModelWriter(url=url, model=model, api_key=os.environ.get(MODEL_KEY, "")))


class _CachedWriter:
    """A writer that asks the model once for each text, so that the written wording is the previewed one."""

    def __init__(self, writer: ModelWriter) -> None:
        self._writer = writer
        self._answers: dict[tuple[str, str], str | None] = {}

    @property
    def problem(self) -> str:
        """The reason why the model's wording was not used; empty if there is none."""
        return self._writer.problem

    def rewrite(self, strategy: str, dream: Dream, notes: Sequence[MemoryNote]) -> str | None:
        """Return the model's wording of a result; None to keep ours."""
        key = (strategy, dream.text)
        if key not in self._answers:
            self._answers[key] = self._writer.rewrite(strategy, dream, notes)
        return self._answers[key]


class _PlannedRuns:
    """Runs of several strategies over one namespace, which can be previewed and then written."""

    def __init__(
        self,
        memoranda: Memoranda,
        namespace: str | None,
        strategies: Sequence[str],
        options: Options,
        writer: _CachedWriter | None,
        only: Sequence[str],
    ) -> None:
        self._memoranda = memoranda
        self._namespace = memoranda.oams.namespace(namespace)
        self._strategies = strategies
        self._options = options
        self._writer = writer
        self._only = frozenset(only) or None

    def execute(self, *, is_dry: bool) -> list[DreamRun]:
        """Run each strategy once; a dry run writes nothing."""
        runs: list[DreamRun] = []
        with progress("consolidating", total=len(self._strategies)) as bar:
            for strategy in self._strategies:
                dream_run = self._memoranda.oams.verbs.consolidate(
                    self._namespace,
                    strategy,
                    is_dry=is_dry,
                    options=self._options,
                    writer=self._writer,
                    only=self._only,
                )
                runs.append(dream_run)
                bar(len(runs))
        return runs


def _has_changes(runs: Sequence[DreamRun]) -> bool:
    return any(run.written_count or run.taken_back for run in runs)


def _is_confirmed(runs: Sequence[DreamRun]) -> bool:
    """Ask the person at the terminal before anything is written or removed."""
    new_count = sum(run.written_count for run in runs)
    removed = sum(len(run.taken_back) for run in runs)
    actions = [f"write {count_phrase(new_count, 'memory', 'memories')}"] if new_count else []
    if removed:
        actions.append(f"remove {count_phrase(removed, 'outdated result')}")
    return is_confirmed(f"{' and '.join(actions).capitalize()}?")


# --- output --------------------------------------------------------------------------------------------------


def _show_runs(runs: Sequence[DreamRun]) -> None:
    for number, run in enumerate(runs):
        if number:
            line("")
        _show_run(run)


def _show_run(run: DreamRun) -> None:
    line(f"{run.strategy}: {_summary(run)}", "bold")
    for output in run.outputs:
        _show_output(output)
    for key in run.taken_back:
        line(
            f"  {'would remove' if run.is_dry else 'removed'} (no longer follows): {one_line(key)}"
        )
    for reason in run.left_out:
        note(f"{run.strategy}: a result was left out: {one_line(reason)}")
    if run.written_count or run.taken_back:
        line(f"  run {run.run_id}", "dim")


def _summary(run: DreamRun) -> str:
    """Return the number of results, and of the memories they were sought in."""
    memories = count_phrase(run.inputs, "memory", "memories")
    results = count_phrase(len(run.outputs), "result") if run.outputs else "no results"
    skipped = f" ({run.stayed} skipped: their consent forbids it)" if run.stayed else ""
    return f"{results} from {memories}{skipped}"


def _show_output(output: Output) -> None:
    """Print a result with its reason and the memories that it was derived from."""
    metadata, mark = output.memory["metadata"], details_of(output.memory)
    line(f"  {_RESULT_WORDS[output.result]}: {one_line(output.memory['key'])}")
    for text_line in output.memory["value"].split("\n"):
        line(f"    {text_line}")
    line(f"    why: {one_line(str(mark.get('why', '')))}", "dim")
    for key, text in output.inputs[:_INPUTS_SHOWN]:
        line(f"    from {one_line(key)}: {one_line(text)}", "dim")
    total = mark.get("inputs", len(metadata["dream_inputs"]))
    if total > _INPUTS_SHOWN:
        line(f"    and from {total - _INPUTS_SHOWN} more", "dim")


def _show_counts(runs: Sequence[DreamRun]) -> None:
    """Print only the counts, for a person who has just confirmed the preview."""
    for run in runs:
        if run.written_count or run.taken_back:
            line(
                f"{run.strategy}: {run.written_count} written, {len(run.taken_back)} removed; run {run.run_id}"
            )


# --- runs and undo -------------------------------------------------------------------------------------------


def refuse(
    *keys: Annotated[str, Parameter(name="KEY", help="The key of a result.")],
    strategy: Annotated[str, Parameter(help="The strategy that produced it.")],
    namespace: NamespaceName = None,
    run: GivenRun,
) -> None:
    """Reject results: they are not suggested again unless their text changes. --only still writes them."""
    if not keys:
        raise InvalidInput("KEY: give at least one key")
    with run.open() as memoranda:
        memoranda.oams.verbs.refuse(memoranda.oams.namespace(namespace), strategy, keys)
    run.answer(
        {"refused": list(keys)}, lambda: line(f"{count_phrase(len(keys), 'result')} rejected")
    )


def runs(*, run: GivenRun) -> None:
    """List the runs that can be undone, latest first."""
    with run.open() as memoranda:
        documents = memoranda.oams.verbs.dream_runs()
    columns = ("run", "when", "strategy", "namespace", "new", "changed", "removed", "")
    rows = [
        (
            document["run_id"],
            document["at"],
            document["strategy"],
            document["namespace"],
            *(len(document[name]) for name in ("created", "updated", "taken_back")),
            "" if document["can_be_undone"] else "undo the later run first",
        )
        for document in documents
    ]
    run.answer({"runs": documents}, lambda: table(columns, rows, when_empty="no runs yet"))


def undo(
    run_id: Annotated[str, Parameter(name="RUN", help="The id of the run.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Undo a run: remove what it wrote and restore what it removed. Memories edited since are kept."""
    with run.open() as memoranda:
        undone = memoranda.oams.verbs.undo(run_id)
    summary = f"{len(undone.taken_back)} removed, {len(undone.brought_again)} restored"
    run.answer(undone.document(), lambda: line(summary))
    if undone.left and not run.json:
        note(
            f"kept, because they were edited, put on hold or forgotten since: {', '.join(map(one_line, undone.left))}"
        )
