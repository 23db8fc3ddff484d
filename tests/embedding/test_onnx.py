"""A model is optimised once: what comes of that is read from then on, and made anew where it cannot be."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace
from tokenizers.processors import TemplateProcessing

from memoranda.embedding.catalogue import EMBEDDER, SECOND, find_folder
from memoranda.embedding.onnx import FileTokenizer, OnnxEmbedder, OnnxReranker, load_tokenizer, load_vocabulary
from memoranda.embedding.wordpiece import WordPiece

VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\ntea\ncoffee\n"
_INT, _INT64, _FLOAT = 2, 7, 1


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return bytes(
            [number << 3 & 0x7F | (0x80 if number > 15 else 0), *([number >> 4] if number > 15 else []), value]
        )
    data = value.encode() if isinstance(value, str) else value
    head = bytes([number << 3 & 0x7F | 2 | (0x80 if number > 15 else 0), *([number >> 4] if number > 15 else [])])
    return head + bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) + data


def node(kind: str, given: str, made: str, attribute: bytes = b"") -> bytes:
    return field(1, field(1, given) + field(2, made) + field(4, kind) + (field(5, attribute) if attribute else b""))


def value(number: int, name: str, kind: int) -> bytes:
    shape = field(2, field(1, field(1, 1)) + field(1, field(2, "length")))
    return field(number, field(1, name) + field(2, field(1, field(1, kind) + shape)))


def model() -> bytes:
    """The numbers of the pieces of a text, which some steps that do nothing pass on."""
    to_float = field(1, "to") + field(3, _FLOAT) + field(20, _INT)
    steps = node("Cast", "input_ids", "a", to_float) + node("Identity", "a", "b") + node("Identity", "b", "vector")
    graph = steps + field(2, "pieces") + value(11, "input_ids", _INT64) + value(12, "vector", _FLOAT)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(model())
    return tmp_path


def embedder(folder: Path) -> OnnxEmbedder:
    return OnnxEmbedder(folder, WordPiece(VOCABULARY), model="pieces", is_mean=False)


def numbers(folder: Path) -> list[float]:
    return [float(each) for each in embedder(folder)._run([2, 4, 3])]


def kept_in(folder: Path) -> Path:
    (kept,) = folder.glob("optimised-*")
    return kept


def test_a_model_is_optimised_once_and_answers_the_same(folder: Path) -> None:
    assert numbers(folder) == [2.0, 4.0, 3.0]
    assert b"Identity" not in (kept_in(folder) / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(b"not read again")
    assert numbers(folder) == [2.0, 4.0, 3.0]


def test_what_is_damaged_or_of_another_version_is_made_anew(folder: Path) -> None:
    (folder / "optimised-0.0.1.onnx").write_bytes(b"one file, as it was once")
    (folder / "optimised-0.0.2").mkdir()
    (folder / "optimised-0.0.2" / "model.onnx").write_bytes(b"of another version")
    numbers(folder)
    kept = kept_in(folder) / "model.onnx"
    kept.write_bytes(b"damaged")
    assert numbers(folder) == [2.0, 4.0, 3.0]
    assert kept.read_bytes() != b"damaged"
    assert sorted(each.name for each in folder.iterdir()) == ["model.onnx", kept.parent.name]


def test_weights_that_are_cut_off_or_gone_are_made_anew(tmp_path: Path) -> None:
    found = find_folder(SECOND)
    assert found is not None
    (tmp_path / "model.onnx").symlink_to(found / "model.onnx")
    whole = embedder(tmp_path)._run([101, 5572, 102]).tolist()
    weights = kept_in(tmp_path) / "weights"
    size = weights.stat().st_size
    os.truncate(weights, size // 2)
    assert embedder(tmp_path)._run([101, 5572, 102]).tolist() == whole
    assert weights.stat().st_size == size
    weights.unlink()
    assert embedder(tmp_path)._run([101, 5572, 102]).tolist() == whole
    assert weights.stat().st_size == size


def test_a_model_that_is_run_often_answers_as_at_first() -> None:
    found, beside = find_folder(EMBEDDER), find_folder(SECOND)
    assert found is not None
    assert beside is not None
    for folder, is_mean in ((found, False), (beside, True)):
        model = OnnxEmbedder(folder, load_vocabulary(found), model="m", is_mean=is_mean)
        assert len({model.of_memory("tea is served at noon").tobytes() for _ in range(12)}) == 1


def test_where_nothing_can_be_put_down_the_model_runs_all_the_same(folder: Path) -> None:
    numbers(folder)
    kept = kept_in(folder)
    (kept / "model.onnx").unlink()
    # In its place there is something that it cannot replace.
    (kept / "inside").touch()
    assert numbers(folder) == [2.0, 4.0, 3.0]
    assert sorted(each.name for each in folder.iterdir()) == ["model.onnx", kept.name]


def test_a_reranker_reads_both_texts_and_rates_by_its_first_number(folder: Path) -> None:
    # The model passes the first token, which is 2; half of it goes through the logistic function.
    assert OnnxReranker(folder, WordPiece(VOCABULARY)).rate("tea", "coffee") == pytest.approx(1 / (1 + math.exp(-1)))


def test_prefixes_are_put_before_questions_and_memories(folder: Path) -> None:
    entry = replace(EMBEDDER, question_prefix="tea ", memory_prefix="coffee ")
    asked = OnnxEmbedder(folder, WordPiece(VOCABULARY), model="pieces", entry=entry)
    read: list[list[int]] = []

    def run(numbers: list[int]) -> NDArray[np.float32]:
        read.append(numbers)
        return np.ones((1, 2), np.float32)

    asked._run = run  # type: ignore[method-assign, assignment]
    asked.of_question("coffee")
    asked.of_memory("tea")
    assert read == [[2, 4, 5, 3], [2, 5, 4, 3]]


def test_a_tokenizer_that_a_file_describes_is_used_and_cut(tmp_path: Path) -> None:
    described = Tokenizer(Unigram([("<s>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("tea", -1.0), ("\u2581", -2.0)], 2))
    described.pre_tokenizer = Metaspace()
    described.post_processor = TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    described.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, FileTokenizer)
    assert tokenizer.encode("tea tea", limit=512) == [0, 4, 3, 4, 3, 1]
    assert tokenizer.encode("tea tea", limit=4) == [0, 4, 3, 1]
    assert tokenizer.encode("\ud800", limit=512)[0] == 0
