"""Models of the catalogue, run by onnxruntime on one thread: whoever serves has other work for the rest."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memoranda.embedding.embedder import unit
from memoranda.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Vector

TYPICAL_QUESTIONS: Final = (
    "What is it?",
    "Who was there?",
    "When did that happen?",
    "Where is it?",
    "Why did they do that?",
    "How does it work?",
    "Which one is it?",
    "How often do we do this?",
    "What do we use for it?",
    "Who is responsible for this?",
    "When is the next one?",
    "Where do I find it?",
    "How much does it cost?",
    "What does she like?",
    "What did he say about it?",
    "Which of them was chosen?",
    "How long does it take?",
    "What should I do if it fails?",
    "Who told me about it?",
    "What was decided?",
    "How do I start it?",
    "What are the rules?",
    "When does it open?",
    "What do I have to bring?",
    "Is there anything I should avoid?",
    "What happened last time?",
    "Which tool do we use?",
    "Where does he live?",
    "What is her job?",
    "How many are there?",
    "What time is it?",
    "Whom do I ask?",
)
# As many pieces of a text as the models were made for.
TEXT_LIMIT: Final = 512
_MODEL: Final = "model.onnx"
_OPTIMISED: Final = "optimised-"
_WEIGHTS: Final = "weights"
_WEIGHTS_ENTRY: Final = "session.optimized_model_external_initializers_file_name"
# To lay weights out as the processor likes it takes what it saves in some ten runs, and most commands run a model once.
_LAID_OUT_AFTER: Final = 10


def load_pieces(folder: Path) -> WordPiece:
    """The vocabulary of a model."""
    return WordPiece((folder / "vocab.txt").read_bytes().decode())


def _opened(folder: Path, *, is_laid_out: bool) -> tuple[Any, bool]:
    """A model, ready to run, and whether its weights are laid out: they always are where it had to be optimised.

    Optimising takes longer than all the rest, so what comes of it is put beside the model.

    The weights are in a file of their own, which is not read but mapped: processes share it, and one that asks a single
    question touches little of it.
    """
    import onnxruntime  # type: ignore[import-untyped]
    from onnxruntime.capi import onnxruntime_pybind11_state as failures  # type: ignore[import-untyped]

    def run(model: Path, level: str, put: Path | None = None, *, is_laid_out: bool = True) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # To plan what may lie where something else lay takes a third of opening; it is given back all the same.
        options.enable_mem_reuse = False
        options.add_session_config_entry("session.disable_prepacking", "0" if is_laid_out else "1")
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if put is not None:
            options.optimized_model_filepath = str(put / _MODEL)
            options.add_session_config_entry(_WEIGHTS_ENTRY, _WEIGHTS)
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    failed = (
        *(failures.Fail, failures.InvalidGraph, failures.InvalidProtobuf, failures.InvalidArgument),
        *(failures.NoSuchFile, OSError),
    )
    kept = folder / f"{_OPTIMISED}{onnxruntime.__version__}"
    if (kept / _MODEL).is_file():
        with suppress(*failed):
            return run(kept / _MODEL, "ORT_DISABLE_ALL", is_laid_out=is_laid_out), is_laid_out
    # What a process left that was killed goes with the rest, when another makes one.
    draft = folder / f"{_OPTIMISED}by-{os.getpid()}"
    if os.access(folder, os.W_OK):
        with suppress(*failed):
            draft.mkdir()
            # No more than every processor has, so that it may be moved to another.
            found = run(folder / _MODEL, "ORT_ENABLE_EXTENDED", draft)
            for old in folder.glob(f"{_OPTIMISED}*"):
                if old != draft:
                    _remove(old)
            draft.rename(kept)
            return found, True
        _remove(draft)
    return run(folder / _MODEL, "ORT_ENABLE_EXTENDED"), True


def _remove(made: Path) -> None:
    """Remove what was made of a model: a folder, or one file as before; not what cannot be removed."""
    with suppress(OSError):
        if made.is_dir():
            for name in (_MODEL, _WEIGHTS):
                (made / name).unlink(missing_ok=True)
            made.rmdir()
        else:
            made.unlink(missing_ok=True)


class _Model:
    """One text a run: what a quantised model answers depends on whatever else is in the same one."""

    def __init__(self, folder: Path, pieces: WordPiece) -> None:
        self._folder = folder
        self._session, self._is_laid_out = _opened(folder, is_laid_out=False)
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._pieces = pieces
        self._runs = itertools.count(1)

    def _run(self, numbers: list[int], kinds: list[int] | None = None) -> Any:
        import numpy as np

        if next(self._runs) == _LAID_OUT_AFTER and not self._is_laid_out:
            self._session, self._is_laid_out = _opened(self._folder, is_laid_out=True)
        given = {
            "input_ids": numbers,
            "attention_mask": [1] * len(numbers),
            "token_type_ids": kinds or [0] * len(numbers),
        }
        feeds = {name: np.array([each], np.int64) for name, each in given.items() if name in self._inputs}
        return self._session.run(None, feeds)[0][0]


class OnnxEmbedder(_Model):
    """The vector of a text is that of its first piece, or the mean of all."""

    def __init__(
        self,
        folder: Path,
        pieces: WordPiece,
        *,
        model: str,
        question_prefix: str = "",
        floor: float = 0.0,
        line: float = 0.0,
        other_names: Sequence[str] = (),
        is_mean: bool = False,
        second: OnnxEmbedder | None = None,
    ) -> None:
        super().__init__(folder, pieces)
        self.second = second
        self._is_mean = is_mean
        self.model = model
        self.floor, self.line = floor, line
        self.other_names = other_names
        self._question_prefix = question_prefix

    @property
    def dimensions(self) -> int:
        return int(self._session.get_outputs()[0].shape[-1])

    @cached_property
    def typical_question(self) -> Vector:
        """The mean of some that ask for nothing in particular; put down once, where the model is."""
        import numpy as np

        kept = self._folder / "question.f4"
        if kept.is_file():
            return np.frombuffer(kept.read_bytes(), "<f4")
        found: Vector = np.mean([self.of_question(text) for text in TYPICAL_QUESTIONS], axis=0, dtype=np.float32)
        with suppress(OSError):
            draft = kept.with_suffix(f".{os.getpid()}")
            draft.write_bytes(found.astype("<f4").tobytes())
            draft.replace(kept)
        return found

    def of_question(self, text: str, /) -> Vector:
        return self.of_memory(self._question_prefix + text)

    def of_memory(self, text: str, /) -> Vector:
        found = self._run(self._pieces.read(text, limit=TEXT_LIMIT))
        return unit(found.mean(axis=0) if self._is_mean else found[0])


class OnnxReranker(_Model):
    """A cross-encoder: one number a pair."""

    def rate(self, question: str, text: str, /) -> float:
        numbers, kinds = self._pieces.read_pair(question, text, limit=TEXT_LIMIT)
        logit = float(self._run(numbers, kinds)[0])
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, logit / 2.0))))
