"""Random sequences of verbs agree with the model of memories with lines; the long run is `python -m tests.lines`."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.lines.model import Line, Model, Refused, Version
from tests.lines.sequence import Finding, Run, Step, generate, perform, shrink
from tests.matrix.doors import DAY

# `make explore` runs new sequences, and many of them.
SEQUENCES = 1_000 if os.environ.get("MEMORANDA_TEST_EXAMPLES") == "new" else 10
STEPS = 14


def require_agreement(steps: list[Step], seed: int) -> None:
    """Raise AssertionError with a minimal sequence if the store differs from the model."""
    finding = perform(steps, seed)
    if finding is not None:
        steps, finding = shrink(steps, seed, finding)
        raise AssertionError(f"{finding}\n{json.dumps({'seed': seed, 'steps': steps})}")


@pytest.mark.requirement("OURS-one-line")
@given(seed=st.integers(0, 2**32))
@example(seed=1)
@settings(max_examples=SEQUENCES)
def test_a_sequence_of_verbs_agrees_with_the_model(seed: int) -> None:
    # Servers take long to start; the long run has them in every sequence.
    require_agreement(generate(seed, STEPS, is_embedded=seed % 8 != 0), seed)


# Sequences that the store and the model once disagreed about.
FOUND: dict[str, list[Step]] = {
    # The clock of erasures does not believe a jump, so the memory is not erased; when the clock is right again, it has
    # not ended.
    "a clock that is wrong for a while": [
        {"verb": "write", "number": 0, "interface": "library", "standard": "ump", "visibility": "shared"},
        {"verb": "end", "number": 1, "line": 0, "interface": "library"},
        {"verb": "jump", "number": 2, "time": DAY + 1},
        {"verb": "purge", "number": 3},
        {"verb": "jump", "number": 4, "time": -1_000},
        {"verb": "jump", "number": 5, "time": -10 * DAY},
    ],
    # The file states the end that binds the head, and its import changed the memory where it came from.
    "an import where the file came from": [
        {"verb": "write", "number": 0, "interface": "library", "standard": "oms", "visibility": "private"},
        {"verb": "end", "number": 1, "line": 0, "interface": "library"},
        {
            "verb": "revise",
            "number": 2,
            "line": 0,
            "interface": "library",
            "standard": "oams",
            "visibility": "private",
            "choice": 0.5,
        },
        {"verb": "import", "number": 3, "file": 4, "form": "oams", "history": True},
        {
            "verb": "revise",
            "number": 4,
            "line": 0,
            "interface": "library",
            "standard": "oms",
            "visibility": "shared",
            "choice": 0.5,
        },
    ],
    # LangGraph's value was stored with its text, which the metadata of the memory showed after a revision through UMP.
    "a revision of an item of LangGraph": [
        {"verb": "write", "number": 0, "interface": "langgraph", "standard": "oams", "visibility": "private"},
        {
            "verb": "revise",
            "number": 1,
            "line": 0,
            "interface": "library",
            "standard": "ump",
            "visibility": "private",
            "choice": 0.5,
        },
    ],
}


@pytest.mark.parametrize("name", FOUND)
def test_a_sequence_that_differed_once_agrees(name: str) -> None:
    finding = perform(FOUND[name], 1)
    assert finding is None, finding


def test_a_difference_is_found_and_made_minimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that forgets only the head of a line is one of the faults that sequences have to find."""

    def forget_nothing(run: Run, step: Step) -> str:
        line = run.model.lines.get(step["line"])
        if line is None or not line.is_live(run.stage.now):
            return "left out"
        run.model.forget([line.label], run.stage.now)
        return "done"

    monkeypatch.setattr(Run, "_forget", forget_nothing)
    steps = [
        step
        for number in range(3)
        for step in (
            {"verb": "write", "number": number, "interface": "library", "standard": "ump", "visibility": "private"},
            {"verb": "forget", "number": number + 10, "line": number, "interface": "library", "standard": "ump"},
        )
    ]
    seed = 1
    finding = perform(steps, seed)
    assert isinstance(finding, Finding)
    minimal, finding = shrink(steps, seed, finding)
    assert [step["verb"] for step in minimal] == ["write", "forget"]
    assert "shows too much" in finding.kind


def test_the_same_seed_gives_the_same_sequence() -> None:
    assert generate(7, 30) == generate(7, 30)
    counts: Counter[str] = Counter()
    for seed in range(40):
        counts.update(step["verb"] for step in generate(seed, 30))
    assert len(counts) >= 34


def test_the_model_undoes_step_by_step_and_redoes() -> None:
    model = Model()
    model.write(Line(0, "ump", [Version("zq000001")]))
    for number in (2, 3):
        model.revise(0, f"zq00000{number}", 10)
    words = []
    for verb in (model.undo, model.undo, model.redo, model.redo):
        verb(20)
        words.append(model.lines[0].head.word)
    assert words == ["zq000002", "zq000001", "zq000002", "zq000003"]
    model.forget([0], 30)
    assert model.heads(30, "private") == set()
    with pytest.raises(Refused):
        model.redo(30)
    model.undo(40)
    assert model.heads(40, "private") == {"zq000003"}
