"""The models: they are what their hashes say, they read texts as they were made to, and they tell what texts mean."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.embedding import install
from memoranda.embedding.catalogue import (
    EMBEDDER,
    NOTICE_FILE,
    SECOND,
    embedder_model,
    find_folder,
    load_embedder,
)
from memoranda.embedding.embedder import normalize_vector, of_callable
from memoranda.embedding.texts import TAIL_LIMIT, embedded_text, prepend_context
from memoranda.embedding.wordpiece import WordPiece
from memoranda.errors import InvalidInput, Unsupported

# What the model's own tokenizer gives, put down once.
READ = {
    "use pnpm, never npm": [101, 2224, 1052, 16275, 2213, 1010, 2196, 27937, 2213, 102],
    "Über-naïve Größe: 3,14 €": [101, 19169, 1011, 15743, 24665, 2080, 17499, 1024, 1017, 1010, 2403, 1574, 102],
    "東京タワーへ行く": [101, 1879, 1755, 1709, 30262, 30265, 30201, 1945, 1653, 102],
    "don't re-index src/foo_bar.py": [
        *(101, 2123, 1005, 1056, 2128, 1011, 5950, 5034, 2278, 1013, 29379, 1035, 3347, 1012, 1052, 2100, 102)
    ],
    "ΣΊΣΥΦΟΣ": [101, 1173, 18199, 29733, 29735, 29736, 29730, 29733, 102],
    "a" * 120: [101, 100, 102],
    "tab\tand\u200bzero\u200bwidth": [101, 21628, 1998, 6290, 5004, 3593, 2705, 102],
    "안녕 세계": [101, 1463, 30006, 30021, 29992, 30010, 30025, 100, 102],
    "emoji 🙂 ok": [101, 7861, 29147, 2072, 100, 7929, 102],
}


@pytest.fixture(scope="module")
def pieces() -> WordPiece:
    folder = find_folder(EMBEDDER)
    assert folder is not None, "make install brings the model"
    return WordPiece((folder / "vocab.txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", READ)
def test_texts_are_read_as_the_model_was_made_to(pieces: WordPiece, text: str) -> None:
    assert pieces.encode(text, limit=512) == READ[text]


def test_two_texts_are_read_as_a_pair(pieces: WordPiece) -> None:
    numbers, kinds = pieces.encode_pair("who likes tea", "Ada likes green tea", limit=512)
    assert numbers == [101, 2040, 7777, 5572, 102, 15262, 7777, 2665, 5572, 102]
    assert kinds == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


@given(text=st.text(max_size=200), limit=st.integers(3, 40))
def test_any_text_is_read_and_cut(pieces: WordPiece, text: str, limit: int) -> None:
    found = pieces.encode(text, limit=limit)
    assert 2 <= len(found) <= limit
    assert (found[0], found[-1]) == (101, 102)


def test_meaning_is_told() -> None:
    first = load_embedder()
    assert first.model == embedder_model() == f"{EMBEDDER.model}+{SECOND.name}"
    assert first.second is not None
    for embedder in (first, first.second):
        asked = embedder.of_question("which package manager do we use")
        near, far = (embedder.of_memory(text) for text in ("use pnpm, never npm", "the cat sleeps on the roof"))
        assert float(asked @ near) > float(asked @ far) + 0.05
        assert len(asked) == 384
        # The same text is the same vector, whatever was read in between.
        assert np.array_equal(near, embedder.of_memory("use pnpm, never npm"))


def test_without_a_second_model_the_first_is_asked_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = find_folder(EMBEDDER)
    assert there is not None
    (tmp_path / EMBEDDER.model).symlink_to(there)
    monkeypatch.setenv("MEMORANDA_MODELS", str(tmp_path))
    assert load_embedder().second is None
    assert embedder_model() == EMBEDDER.model


def test_a_model_is_known_by_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_MODELS", str(tmp_path / "models"))
    other = tmp_path / "bot_brain-0.8.0-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("project_brain/model/int8/onnx/model.onnx", bytes(EMBEDDER.files["model.onnx"].size))
    with pytest.raises(InvalidInput, match="no file with the hash"):
        install.install_model(EMBEDDER, other)
    assert find_folder(EMBEDDER) is None
    with pytest.raises(Unsupported, match="memoranda models add"):
        load_embedder()


def test_weights_are_kept_with_their_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (EMBEDDER, SECOND):
        found = find_folder(known)
        assert found is not None
        assert "Apache-2.0" in (found / NOTICE_FILE).read_text(encoding="utf-8")
    # Half a model is none.
    there = find_folder(EMBEDDER)
    assert there is not None
    half = tmp_path / EMBEDDER.model
    half.mkdir()
    shutil.copy(there / "vocab.txt", half)
    monkeypatch.setenv("MEMORANDA_MODELS", str(tmp_path))
    assert find_folder(EMBEDDER) is None


def test_what_is_embedded_names_whom_it_is_about() -> None:
    assert embedded_text("likes tea", "person:Ada") == "Ada: likes tea"
    assert embedded_text("Ada likes tea", "person:Ada") == "Ada likes tea"
    assert embedded_text("the pump is broken", "pump-7") == "the pump is broken"


def test_the_end_of_what_was_said_before_goes_with_its_speaker() -> None:
    assert prepend_context("Ada: Shall we?", "Bob: Yes.") == "Ada: Shall we?\nBob: Yes."
    long = "Ada: " + "This is the beginning. " * 20 + "And what about Thursday?"
    before, text = prepend_context(long, "Bob: Fine.").split("\n")
    assert text == "Bob: Fine."
    assert before.startswith("Ada: This is the beginning.")
    assert before.endswith("And what about Thursday?")
    assert len(before) <= TAIL_LIMIT + len("Ada: ")
    assert prepend_context("x" * 500, "y") == "x" * TAIL_LIMIT + "\ny"


@pytest.mark.parametrize("numbers", [[], [0.0, 0.0], [float("nan"), 1.0], [float("inf")]])
def test_an_embedder_of_ones_own_must_give_numbers(numbers: list[float]) -> None:
    with pytest.raises(InvalidInput):
        of_callable("mine", lambda texts: [numbers for _ in texts]).of_memory("text")
    assert float(np.linalg.norm(normalize_vector([3.0, 4.0]))) == pytest.approx(1.0)
