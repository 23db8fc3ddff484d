"""The answer in a long text reaches its reader: the passage that has it is ranked, and shown within every limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import Memoranda
from memoranda.cli import main
from memoranda.model.passages import (
    LONG_TEXT_CHARS,
    PASSAGE_CHARS,
    PASSAGES_LIMIT,
    Passage,
    cut_window,
    headings_of,
    split_passages,
)
from memoranda.retrieval.entry import join_vectors, split_vectors
from memoranda.retrieval.passages import choose_passage
from tests.embedders import by_letters

# Bytes of a vector of the supplied model.
SINGLE_VECTOR = 388
ANSWER = "The code of the alarm is 4471."
FILLER = "The weather made the second visit shorter than planned, so a third one is proposed for the next week. "
TEXTS = st.text(alphabet=st.sampled_from("ab .\n#`é。\r\t"), max_size=3_000)


def long_note(size: int) -> str:
    return FILLER * (size // len(FILLER)) + "\n\n" + ANSWER


@pytest.fixture(params=["words", "model"])
def m(request: pytest.FixtureRequest) -> Iterator[Memoranda]:
    embedder = ("letters", by_letters) if request.param == "model" else None
    with Memoranda.open(":memory:", embedder=embedder) as opened:
        yield opened


@given(TEXTS)
def test_passages_follow_one_another_and_leave_out_only_spaces(text: str) -> None:
    passages = split_passages(text)
    ends = [0, *(passage.end for passage in passages)]
    starts = [*(passage.start for passage in passages), len(text)]
    assert all(not text[end:start].strip() for end, start in zip(ends, starts, strict=True)) or (
        len(passages) == PASSAGES_LIMIT
    )
    assert all(0 < passage.end - passage.start <= PASSAGE_CHARS for passage in passages)


@given(TEXTS, st.integers(16, 500), st.integers(0, 3_000), st.integers(1, 500), st.integers(0, 3_000))
def test_a_window_is_a_part_of_the_text_and_counts_what_it_leaves_out(
    text: str, limit: int, start: int, size: int, focus: int
) -> None:
    start = min(start, max(0, len(text) - 1))
    passage = Passage(start, max(start + 1, min(start + size, len(text))), focus=focus)
    window = cut_window(text, limit, passage)
    assert len(window.text) <= max(limit, 0)
    assert window.before + len(window.text) + window.after == len(text)
    assert window.text in text


@pytest.mark.parametrize("size", [600, 1_800, 30_000])
@pytest.mark.parametrize("limits", [{}, {"budget_chars": 450}, {"max_chars": 120}, {"max_chars": 5_000}])
def test_an_answer_at_the_end_of_a_note_reaches_the_prompt(m: Memoranda, size: int, limits: dict[str, Any]) -> None:
    note = m.remember(long_note(size))
    m.remember("Somebody fed the carp.")
    text = m.for_prompt("what is the code of the alarm?", **limits).text
    assert ANSWER in text
    assert len(text) <= limits.get("budget_chars", 10_000)
    if size > limits.get("max_chars", 500):
        assert " more characters, " in text
        assert text.splitlines()[4].rpartition(", ")[2].rstrip(")") in note.id


def test_a_result_names_its_passage_and_the_whole_text_is_there(m: Memoranda) -> None:
    m.remember(long_note(1_800))
    m.remember("The alarm of the other house has no code.")
    long, short = sorted(m.recall("the code of the alarm"), key=lambda hit: -len(hit.text))
    assert ANSWER in long.passage
    assert len(long.passage) <= PASSAGE_CHARS
    assert len(long.text) > LONG_TEXT_CHARS
    assert short.passage == short.text


def test_the_heading_above_a_passage_belongs_to_it(m: Memoranda) -> None:
    sections = [
        f"## {name}\n\n{FILLER * 3}\n\n{FILLER * 3}It closes at nine.\n" for name in ("Museum", "Library", "Gym")
    ]
    m.remember("\n".join(sections))
    (hit,) = m.recall("When does the library close?")
    assert hit.bounds is not None
    assert hit.text.rindex("## ", 0, hit.bounds.end) == hit.text.index("## Library")


def test_lines_in_code_are_no_headings() -> None:
    assert headings_of("# One\n\n```sh\n# not this\n```\n\n## Two ##\n#no\n") == ["One", "Two"]


def test_words_and_vectors_choose_a_passage_together() -> None:
    text = "\n\n".join([FILLER * 3, "Alpha and beta. " * 20, "Gamma. " * 40])
    passages = split_passages(text)
    by_words = choose_passage(text, {("alpha",): 1.0})
    assert by_words is not None
    assert "Alpha" in text[by_words.start : by_words.end]
    cosines = [0.1] * (len(passages) - 1) + [0.5]
    by_vectors = choose_passage(text, {("unknown",): 1.0}, cosines)
    assert by_vectors is not None
    assert by_vectors.start == passages[-1].start
    assert choose_passage("", {}) is None


def test_the_vectors_of_passages_are_kept_behind_that_of_the_text() -> None:
    assert split_vectors(join_vectors(b"own!", [b"one!", b"two!"])) == (b"own!", (b"one!", b"two!"))
    assert split_vectors(join_vectors(b"own!", [])) == (b"own!", ())
    with pytest.raises(ValueError, match="different lengths"):
        split_vectors(b"own!" + b"one!" + b"!" + (1).to_bytes(2, "little") + b"passages")


def test_a_note_is_ranked_by_its_nearest_passage_and_not_after_it_was_erased() -> None:
    with Memoranda.open(":memory:", embedder=("letters", by_letters)) as m:
        note = m.remember(long_note(3_000))
        for number in range(30):
            m.remember(f"{FILLER} {number}")
        while m.service.embedding.step():
            pass
        question = "alarmcode 4471"
        assert m.recall(question, limit=3)[0].text.endswith(ANSWER)
        assert ANSWER in m.recall(question, limit=1)[0].passage
        m.forget(note.id, hard=True)
        assert all(ANSWER not in hit.text for hit in m.recall(question, floor=False))


def test_vectors_of_an_earlier_version_are_made_again_with_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "auto")
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    assert main(["remember", long_note(1_800)]) == 0
    with monkeypatch.context() as earlier:
        earlier.setattr("memoranda.embedding.texts.LONG_TEXT_CHARS", 100_000)
        assert main(["models", "embed"]) == 0
    assert vector_sizes() == [SINGLE_VECTOR]
    assert main(["models", "embed"]) == 0
    assert vector_sizes() == [SINGLE_VECTOR]
    assert main(["models", "embed", "--again"]) == 0
    (size,) = vector_sizes()
    assert size > 5 * SINGLE_VECTOR
    assert "1 version embedded" in capsys.readouterr().out


def vector_sizes() -> list[int]:
    with Memoranda.open() as m, m.service.context.engine._database.open_snapshot() as connection:  # type: ignore[attr-defined]
        rows: list[tuple[int]] = connection.select("SELECT length(data) FROM vector", {})
        return [size for (size,) in rows]
