"""oams recall, list, get, namespaces, store and forget; the first four also of a plain JSONL file, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.commands import Parameter
from memoranda.cli.run import PLACE_NAMES, GivenRun
from memoranda.cli.show import line, note, one_line, table
from memoranda.cli.words import given, json_object, moment, text_or_input
from memoranda.errors import InvalidInput, NotFound
from memoranda.standards.oams.memory import Memory

if TYPE_CHECKING:
    from memoranda.standards.oams.jsonl_store import JsonlStore
    from memoranda.standards.oams.namespace import Namespace

Key = Annotated[str, Parameter(name="KEY", help="The memory's key.")]
Place = Annotated[
    str | None, Parameter(name=PLACE_NAMES, help="The namespace, or a scope of your own; your default unless said.")
]
PlaceOrOnly = Annotated[
    str | None,
    Parameter(name=PLACE_NAMES, help="The namespace, or a scope of your own; your default, or the file's only one."),
]
Places = Annotated[
    tuple[str, ...], Parameter(name=PLACE_NAMES, help="A namespace, or a scope of your own; can be repeated.")
]
FromFile = Annotated[
    Path | None, Parameter(name="--file", help="A JSONL file that is the store; it is only read, and nothing else is.")
]
Tags = Annotated[tuple[str, ...], Parameter(name="--tag", help="Only with this tag; can be repeated, all must match.")]
IfMatch = Annotated[str | None, Parameter(help="Only if this is the version there; its etag is in the JSON of get.")]
SHOWN_CHARS = 200


def recall(
    query: Annotated[str, Parameter(help="What to look for; an empty text means whatever is newest.")],
    /,
    *,
    file: FromFile = None,
    namespace: Places = (),
    k: Annotated[int, Parameter(name=("-k", "--limit"), help="At most so many; 8 unless said.")] = 8,
    tag: Tags = (),
    since: Annotated[str | None, Parameter(help="Only updated since: a date, or RFC 3339.")] = None,
    until: Annotated[str | None, Parameter(help="Only updated before.")] = None,
    run: GivenRun,
) -> None:
    """Find the best memories for a question, from one namespace or several of one owner."""
    from memoranda.standards.oams.requests import RecallRequest

    asked = {"query": query, "k": k, **given(tags=list(tag) or None, since=moment(since), until=moment(until))}

    def request(resolve: Callable[[str], Namespace]) -> RecallRequest:
        named = [str(resolve(each)) for each in namespace]
        return RecallRequest.parse({**asked, **given(namespaces=named or None)})

    if file is not None:
        from memoranda.opening import system_clock
        from memoranda.service.oams import file as oams_file

        with _opened(file) as store:
            found = oams_file.recall(store, request(_namespace_in(store)), system_clock())
    else:
        with run.open() as memoranda:
            found = memoranda.oams.verbs.recall(request(memoranda.oams.namespace))
    run.answer({"memories": found}, lambda: _show_all(found))


def list_memories(
    *,
    file: FromFile = None,
    namespace: PlaceOrOnly = None,
    tag: Tags = (),
    since: Annotated[str | None, Parameter(help="Only updated since: a date, or RFC 3339.")] = None,
    limit: Annotated[int, Parameter(help="At most so many; 50 unless said.")] = 50,
    cursor: Annotated[str | None, Parameter(help="Where the last page ended.")] = None,
    run: GivenRun,
) -> None:
    """List the memories of a namespace, last updated first."""
    from memoranda.standards.oams.requests import ListRequest

    asked = {"limit": limit, **given(cursor=cursor, tags=list(tag) or None, since=moment(since))}
    if file is not None:
        with _opened(file) as store:
            place = _namespace_of(store, namespace)
            found, following = _page(store.list_page(ListRequest.parse({**asked, "namespace": str(place)})))
    else:
        with run.open() as memoranda:
            place = memoranda.oams.namespace(namespace)
            request = ListRequest.parse({**asked, "namespace": str(place)})
            found, following = _page(memoranda.oams.verbs.list_memories(request))
    rows = [(each["key"], each["updated_at"], " ".join(each.get("tags") or ()), _said(each)) for each in found]
    run.answer(
        {"memories": found, "next_cursor": following},
        lambda: table(("key", "updated", "tags", "value"), rows, when_empty="no memories found"),
    )
    if following is not None and not run.json:
        note(f"there are more; see them with --limit, or from here with --cursor {following}")


def _page(page: Any) -> tuple[list[Memory], str | None]:
    return page.memories, page.next_cursor


def get(key: Key, /, *, file: FromFile = None, namespace: PlaceOrOnly = None, run: GivenRun) -> None:
    """Show one memory."""
    if file is not None:
        with _opened(file) as store:
            memory, beside = store.get(_namespace_of(store, namespace), key), {}
    else:
        with run.open() as memoranda:
            found = memoranda.oams.get(key, namespace=namespace)
        memory, beside = found.memory, {"etag": found.etag}
    run.answer({"memory": memory, **beside}, lambda: _show(memory))


def namespaces(*, file: FromFile = None, run: GivenRun) -> None:
    """List the namespaces in which there is anything."""
    if file is not None:
        with _opened(file) as store:
            names: Sequence[str] = store.namespaces
    else:
        with run.open() as memoranda:
            names = memoranda.oams.namespaces
    rows = [(name,) for name in names]
    run.answer({"namespaces": list(names)}, lambda: table(("namespace",), rows, when_empty="no memories found"))


def store(
    key: Key,
    value: Annotated[str | None, Parameter(help="The text; - or nothing reads standard input.")] = None,
    /,
    *,
    namespace: Place = None,
    tag: Annotated[tuple[str, ...], Parameter(help="A tag; can be repeated.")] = (),
    metadata: Annotated[str | None, Parameter(help="Further data, as a JSON object.")] = None,
    source_id: Annotated[str | None, Parameter(help="Where it comes from: a URL, a hash, a message.")] = None,
    parent_id: Annotated[str | None, Parameter(help="The memory that it consolidates.")] = None,
    if_match: IfMatch = None,
    if_absent: Annotated[bool, Parameter(help="Only if there is nothing under this key.")] = False,
    run: GivenRun,
) -> None:
    """Store a memory under a key. What is there already becomes its earlier version; the same again is no news."""
    from memoranda.standards.oams.memory import MAX_VALUE_BYTES

    fields = given(
        metadata=None if metadata is None else json_object(metadata, "--metadata"),
        source_id=source_id,
        parent_id=parent_id,
    )
    text = text_or_input(value, max_bytes=MAX_VALUE_BYTES)
    with run.open() as memoranda:
        stored = memoranda.oams.store(
            key, text, namespace=namespace, tags=tag or None, if_match=if_match, if_absent=if_absent, **fields
        )
    if not run.json:
        for warning in stored.warnings:
            note(f"warning: {warning}")
    document = {"memory": stored.memory, "etag": stored.etag, "result": stored.result, "warnings": [*stored.warnings]}
    run.answer(document, lambda: line(f"{stored.memory['namespace']} {key} {stored.result}"))


def forget(key: Key, /, *, namespace: Place = None, if_match: IfMatch = None, run: GivenRun) -> None:
    """Forget a memory: it is recalled and listed no more."""
    with run.open() as memoranda:
        place = memoranda.oams.namespace(namespace)
        memoranda.oams.forget(key, namespace=str(place), if_match=if_match)
    run.answer({"namespace": str(place), "key": key, "result": "forgotten"}, lambda: line(f"{place} {key} forgotten"))


# --- a file as a store -------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[JsonlStore]:
    """The memories of a file, or of a bundle as it is; lines that are none are counted on standard error."""
    from memoranda.standards.oams.bundle import LINES_NAME
    from memoranda.standards.oams.jsonl_store import JsonlStore

    path = path / LINES_NAME if path.is_dir() else path
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
    with file:
        if not file.seekable():
            raise InvalidInput(f"{path}: not a file that can be read anywhere; save it first")
        store = JsonlStore(file)
        if store.refused:
            note(f"{path}: {store.refused} of its lines are no memories; see them with: memoranda oams validate")
        yield store


def _namespace_in(store: JsonlStore) -> Callable[[str], Namespace]:
    return lambda name: _namespace_of(store, name)


def _namespace_of(store: JsonlStore, name: str | None) -> Namespace:
    """A namespace of the file: named whole, by a scope that only one owner in it has, or the only one there is."""
    from memoranda.service.oams.file import only_namespace
    from memoranda.standards.oams.namespace import parse_namespace

    if name is None:
        return only_namespace(store)
    same = [each for each in store.namespaces if each.partition(":")[2] == name]
    return parse_namespace(same[0] if len(same) == 1 else name)


# --- showing -----------------------------------------------------------------------------------------


def _said(memory: Memory) -> str:
    return one_line(memory["value"][: 2 * SHOWN_CHARS])[:SHOWN_CHARS]


def _show_all(found: Sequence[Memory]) -> None:
    if not found:
        note("nothing found")
    for memory in found:
        _show(memory, head=f"{memory['metadata']['score']:.2f}  ")


def _show(memory: Memory, *, head: str = "") -> None:
    line(f"{head}{one_line(memory['key'])}  {memory['namespace']}", "bold")
    for each in memory["value"].split("\n"):
        line(f"  {each}")
    about = [f"updated {memory['updated_at']}", *(f"#{one_line(tag)}" for tag in memory.get("tags") or ())]
    if source := memory.get("source_id"):
        about.append(f"from {one_line(source)}")
    line("  " + "  ".join(about), "dim")
