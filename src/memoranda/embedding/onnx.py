"""The models of the catalogue, run by onnxruntime on one thread, because a server needs the other cores for its own
work.

Optimising a model takes most of the time of opening it, so the optimised model is stored next to the original, by
version of onnxruntime. Its weights are in a separate file that is mapped instead of read: processes share it, and a
process with a single question reads little of it. If the stored model cannot be used, the original is optimised again.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from onnxruntime.capi import onnxruntime_pybind11_state as failures  # type: ignore[import-untyped]

from memoranda.embedding.catalogue import MODEL_FILE, TOKENIZER_FILE, VOCABULARY_FILE
from memoranda.embedding.embedder import normalize_vector
from memoranda.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memoranda.embedding.catalogue import KnownModel
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
# Tokens per text that the models were trained for.
TOKEN_LIMIT: Final = 512
_OPTIMISED_PREFIX: Final = "optimised-"
_WEIGHTS: Final = "weights"
_WEIGHTS_ENTRY: Final = "session.optimized_model_external_initializers_file_name"
# Runs of a model before its weights are rearranged for the processor. Rearranging costs what it saves in about ten
# runs, and most commands run a model once.
_REARRANGE_AFTER_RUNS: Final = 10


class Tokenizer(Protocol):
    """The part of a tokenizer that an embedder uses."""

    def encode(self, text: str, *, limit: int) -> list[int]:
        """Return the token ids of one text, with start and end tokens, at most `limit`."""
        ...


class FileTokenizer:
    """A tokenizer described by a file `tokenizer.json`, which the library `tokenizers` reads."""

    def __init__(self, path: Path) -> None:
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, text: str, *, limit: int) -> list[int]:
        """Return the token ids of one text, with start and end tokens, at most `limit`."""
        # Lone surrogates cannot be passed to the library.
        ids: list[int] = self._tokenizer.encode(text.encode("utf-8", "replace").decode()).ids
        return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def load_vocabulary(folder: Path) -> WordPiece:
    """Load the vocabulary of a model."""
    return WordPiece((folder / VOCABULARY_FILE).read_bytes().decode())


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer of a model: of its vocabulary, or of its description if it has one."""
    described = folder / TOKENIZER_FILE
    return FileTokenizer(described) if described.is_file() else load_vocabulary(folder)


def _open_session(folder: Path, *, is_rearranged: bool) -> tuple[_Session, bool]:
    """Open a session of the model; return it, and True if its weights are rearranged for the processor."""

    def start(
        model: Path, level: str, output: Path | None = None, *, is_rearranged: bool = True
    ) -> _Session:
        """Open a session with an optimization level; write the optimised model to `output`, if given."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Planning the reuse of memory takes a third of the opening time, and memory is freed anyway.
        options.enable_mem_reuse = False
        options.add_session_config_entry(
            "session.disable_prepacking", "0" if is_rearranged else "1"
        )
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if output is not None:
            options.optimized_model_filepath = str(output / MODEL_FILE)
            options.add_session_config_entry(_WEIGHTS_ENTRY, _WEIGHTS)
        session: _Session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        return session

    load_errors = (
        *(failures.Fail, failures.InvalidGraph, failures.InvalidProtobuf, failures.InvalidArgument),
        *(failures.NoSuchFile, OSError),
    )
    optimised_folder = folder / f"{_OPTIMISED_PREFIX}{onnxruntime.__version__}"
    if (optimised_folder / MODEL_FILE).is_file():
        with suppress(*load_errors):
            return start(
                optimised_folder / MODEL_FILE, "ORT_DISABLE_ALL", is_rearranged=is_rearranged
            ), is_rearranged
    # A draft left by a killed process is removed with the older versions below.
    draft = folder / f"{_OPTIMISED_PREFIX}by-{os.getpid()}"
    if os.access(folder, os.W_OK):
        with suppress(*load_errors):
            draft.mkdir()
            # Use only optimisations that every processor supports, so that the folder can be moved to another machine.
            session = start(folder / MODEL_FILE, "ORT_ENABLE_EXTENDED", draft)
            for old_folder in folder.glob(f"{_OPTIMISED_PREFIX}*"):
                if old_folder != draft:
                    _remove(old_folder)
            draft.rename(optimised_folder)
            return session, True
        _remove(draft)
    return start(folder / MODEL_FILE, "ORT_ENABLE_EXTENDED"), True


def _remove(path: Path) -> None:
    """Remove an optimised model, a folder or in earlier versions a file; ignore errors."""
    with suppress(OSError):
        if path.is_dir():
            for name in (MODEL_FILE, _WEIGHTS):
                (path / name).unlink(missing_ok=True)
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


class _Tensor(Protocol):
    """An input or output of a model."""

    name: str
    shape: Sequence[int]


class _Session(Protocol):
    """The methods of onnxruntime's InferenceSession that are used here; the library has no types."""

    def get_inputs(self) -> Sequence[_Tensor]: ...

    def get_outputs(self) -> Sequence[_Tensor]: ...

    def run(
        self, output_names: None, input_feed: Mapping[str, NDArray[np.int64]]
    ) -> Sequence[NDArray[np.float32]]: ...


class _Model:
    """A model that runs one text at a time, because other texts in a batch change the output of a quantised model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session, self._is_rearranged = _open_session(folder, is_rearranged=False)
        self._inputs = {tensor.name for tensor in self._session.get_inputs()}
        self._runs = itertools.count(1)

    def _run(self, numbers: list[int], kinds: list[int] | None = None) -> NDArray[np.float32]:
        """Run the model on the tokens of one text, and return its output."""
        if next(self._runs) == _REARRANGE_AFTER_RUNS and not self._is_rearranged:
            self._session, self._is_rearranged = _open_session(self._folder, is_rearranged=True)
        inputs = {
            "input_ids": numbers,
            "attention_mask": [1] * len(numbers),
            "token_type_ids": kinds or [0] * len(numbers),
        }
        feeds = {
            name: np.array([ids], np.int64) for name, ids in inputs.items() if name in self._inputs
        }
        output: NDArray[np.float32] = self._session.run(None, feeds)[0][0]
        return output


class OnnxEmbedder(_Model):
    """An embedder; the vector of a text is the output for its first token, or the mean of all."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        *,
        model: str,
        entry: KnownModel | None = None,
        is_mean: bool = False,
        second: OnnxEmbedder | None = None,
    ) -> None:
        """Open a model; `entry`: its entry in the catalogue, with its prefixes and thresholds."""
        super().__init__(folder)
        self._tokenizer = tokenizer
        self.second = second
        self._is_mean = is_mean
        self.model = model
        self.floor, self.line = 0.0, 0.0
        self._question_prefix, self._memory_prefix = "", ""
        self.other_names: Sequence[str] = ()
        self.languages: Mapping[str, float] | None = None
        if entry is not None:
            self.floor, self.line = entry.floor, entry.line
            self._question_prefix = entry.question_prefix
            self._memory_prefix = entry.memory_prefix
            self.languages = entry.languages
            self.other_names = (entry.model, *entry.other_names)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of a vector."""
        return int(self._session.get_outputs()[0].shape[-1])

    @cached_property
    def typical_question(self) -> Vector:
        """The mean vector of typical questions, computed once and stored next to the model."""
        stored_file = self._folder / "question.f4"
        if stored_file.is_file():
            return np.frombuffer(stored_file.read_bytes(), "<f4")
        mean: Vector = np.mean(
            [self.of_question(text) for text in TYPICAL_QUESTIONS], axis=0, dtype=np.float32
        )
        with suppress(OSError):
            draft = stored_file.with_suffix(f".{os.getpid()}")
            draft.write_bytes(mean.astype("<f4").tobytes())
            draft.replace(stored_file)
        return mean

    @property
    def is_word(self) -> Callable[[str], bool] | None:
        """A test if a folded word is in the vocabulary; None for vocabularies without whole words."""
        return self._tokenizer.is_word if isinstance(self._tokenizer, WordPiece) else None

    def of_question(self, text: str, /) -> Vector:
        """Return the vector of a question, with its prefix."""
        return self._embed(self._question_prefix + text)

    def of_memory(self, text: str, /) -> Vector:
        """Return the vector of a memory's text, with its prefix."""
        return self._embed(self._memory_prefix + text)

    def _embed(self, text: str) -> Vector:
        """Return the vector of a text."""
        outputs = self._run(self._tokenizer.encode(text, limit=TOKEN_LIMIT))
        return normalize_vector(outputs.mean(axis=0) if self._is_mean else outputs[0])


class OnnxReranker(_Model):
    """A cross-encoder, which rates a pair of texts."""

    def __init__(self, folder: Path, pieces: WordPiece) -> None:
        super().__init__(folder)
        self._pieces = pieces

    def rate(self, question: str, text: str, /) -> float:
        """Return the relevance of the text, from 0 to 1."""
        numbers, kinds = self._pieces.encode_pair(question, text, limit=TOKEN_LIMIT)
        logit = float(self._run(numbers, kinds)[0])
        # The logistic function of half the logit, limited so that exp() cannot overflow.
        limited = max(-60.0, min(60.0, logit / 2.0))
        return 1.0 / (1.0 + math.exp(-limited))
