"""oams recall, list, get, namespaces, store, batch and forget; with --file, in a JSONL file instead of the store.

Each command has two ways: without `--file` it calls the verb of the store, with it the same named method of
`FileStore`. Both print through the same functions, so a person sees no difference. A file has no versions and no etags,
so options about them are refused with `--file` instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from memoranda.bindings.files.folder import read_file
from memoranda.cli.options import complete_date, read_json_object, read_text
from memoranda.cli.run import PLACE_NAMES, GivenRun, Parameter, without_none
from memoranda.cli.show import line, note, one_line, table
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError
from memoranda.standards.oams.memory import MAX_VALUE_BYTES, Memory
from memoranda.standards.oams.requests import MAX_K, MAX_LIMIT, ListRequest, RecallRequest

if TYPE_CHECKING:
    from memoranda.cli.oams.files import FileStore
    from memoranda.standards.oams.namespace import Namespace

# Bytes of a list of memories that is stored at once; all of it is in memory.
MAX_LIST_BYTES: Final = 64 * 1_048_576
Key = Annotated[str, Parameter(name="KEY", help="The memory's key.")]
NamespaceName = Annotated[
    str | None,
    Parameter(
        name=PLACE_NAMES,
        help="The namespace, or your own namespace of this scope (default: your default).",
    ),
]
NamespaceInStore = Annotated[
    str | None,
    Parameter(
        name=PLACE_NAMES,
        help="The namespace, or your own namespace of this scope (default: your default, or the file's only one).",
    ),
]
NamespaceNames = Annotated[
    tuple[str, ...],
    Parameter(
        name=PLACE_NAMES, help="A namespace, or your own namespace of this scope; can be repeated."
    ),
]
JsonlFile = Annotated[
    Path | None, Parameter(name="--file", help="Read this JSONL file instead of the store.")
]
WritableFile = Annotated[
    Path | None,
    Parameter(name="--file", help="Write into this JSONL file instead of the store."),
]
Tags = Annotated[
    tuple[str, ...],
    Parameter(name="--tag", help="Only with this tag; can be repeated, all must match."),
]
IfMatch = Annotated[
    str | None,
    Parameter(help="Only if the stored version has this etag, which `get --json` shows."),
]
# Characters of a value in a row of the list.
_VALUE_CHARS = 200


def recall(
    query: Annotated[
        str, Parameter(help="The question; an empty text returns the newest memories.")
    ],
    /,
    *,
    file: JsonlFile = None,
    namespace: NamespaceNames = (),
    k: Annotated[
        int,
        Parameter(
            name=("-k", "--limit"), help="Results at most (default 8).", minimum=1, maximum=MAX_K
        ),
    ] = 8,
    tag: Tags = (),
    since: Annotated[
        str | None, Parameter(help="Only memories updated since this date or RFC 3339 time.")
    ] = None,
    until: Annotated[
        str | None, Parameter(help="Only updated before: a date, or RFC 3339.")
    ] = None,
    run: GivenRun,
) -> None:
    """Find the best memories for a question, from one namespace or several of one owner."""
    conditions = without_none(
        tags=list(tag) or None, since=complete_date(since), until=complete_date(until)
    )

    def request(namespaces: Sequence[Namespace]) -> RecallRequest:
        names = [str(item) for item in namespaces]
        return RecallRequest.parse(
            {"query": query, "k": k, **conditions, **without_none(namespaces=names or None)}
        )

    if file is not None:
        with _open_file(file) as store:
            memories = store.recall(request([store.namespace(name) for name in namespace]))
    else:
        with run.open() as memoranda:
            memories = memoranda.oams.verbs.recall(
                request([memoranda.oams.namespace(name) for name in namespace])
            )
    run.answer({"memories": memories}, lambda: _show_results(memories))


def list_memories(
    *,
    file: JsonlFile = None,
    namespace: NamespaceInStore = None,
    tag: Tags = (),
    since: Annotated[
        str | None, Parameter(help="Only memories updated since this date or RFC 3339 time.")
    ] = None,
    limit: Annotated[
        int, Parameter(help="Results per page (default 50).", minimum=1, maximum=MAX_LIMIT)
    ] = 50,
    cursor: Annotated[
        str | None, Parameter(help="The cursor that the previous page printed.")
    ] = None,
    run: GivenRun,
) -> None:
    """List the memories of a namespace, last updated first."""
    conditions = without_none(cursor=cursor, tags=list(tag) or None, since=complete_date(since))

    def request(chosen_namespace: Namespace) -> ListRequest:
        return ListRequest.parse({"limit": limit, **conditions, "namespace": str(chosen_namespace)})

    if file is not None:
        with _open_file(file) as store:
            page = store.list_memories(request(store.namespace(namespace)))
    else:
        with run.open() as memoranda:
            page = memoranda.oams.verbs.list_memories(request(memoranda.oams.namespace(namespace)))
    memories, next_cursor = page.memories, page.next_cursor
    rows = [
        (memory["key"], memory["updated_at"], " ".join(memory.get("tags") or ()), _excerpt(memory))
        for memory in memories
    ]
    run.answer(
        {"memories": memories, "next_cursor": next_cursor},
        lambda: table(("key", "updated", "tags", "value"), rows, when_empty="no memories found"),
    )
    if next_cursor is not None and not run.json:
        note(f"there are more; raise --limit, or continue with --cursor {next_cursor}")


def get(
    key: Key, /, *, file: JsonlFile = None, namespace: NamespaceInStore = None, run: GivenRun
) -> None:
    """Show one memory."""
    document: dict[str, object] = {}
    if file is not None:
        with _open_file(file) as store:
            memory = store.get(namespace, key)
    else:
        with run.open() as memoranda:
            stored_memory = memoranda.oams.get(key, namespace=namespace)
        memory = stored_memory.memory
        document["etag"] = stored_memory.etag
    run.answer({"memory": memory, **document}, lambda: _show(memory))


def namespaces(*, file: JsonlFile = None, run: GivenRun) -> None:
    """List the namespaces that hold memories."""
    if file is not None:
        with _open_file(file) as store:
            names: Sequence[str] = store.namespaces
    else:
        with run.open() as memoranda:
            names = memoranda.oams.namespaces
    rows = [(name,) for name in names]
    run.answer(
        {"namespaces": list(names)},
        lambda: table(("namespace",), rows, when_empty="no memories found"),
    )


def store(
    key: Key,
    value: Annotated[
        str | None, Parameter(help="The text; without it, or with -, standard input is read.")
    ] = None,
    /,
    *,
    file: WritableFile = None,
    namespace: NamespaceName = None,
    tag: Annotated[tuple[str, ...], Parameter(help="A tag; can be repeated.")] = (),
    metadata: Annotated[str | None, Parameter(help="Further data, as a JSON object.")] = None,
    source_id: Annotated[
        str | None, Parameter(help="Its source: a URL, a hash, a message id.")
    ] = None,
    parent_id: Annotated[str | None, Parameter(help="The memory that it consolidates.")] = None,
    if_match: IfMatch = None,
    if_absent: Annotated[
        bool, Parameter(help="Only if there is no memory under this key.")
    ] = False,
    run: GivenRun,
) -> None:
    """Store a memory under a key. A memory already there becomes an earlier version, unless the two are equal."""
    fields = without_none(
        metadata=None if metadata is None else read_json_object(metadata, "--metadata"),
        source_id=source_id,
        parent_id=parent_id,
    )
    text = read_text(value, max_bytes=MAX_VALUE_BYTES)
    if file is not None:
        _refuse_etag(if_match)
        tags = without_none(tags=list(tag) or None)
        # Commands on the store do without the readers of files.
        from memoranda.cli.oams.files import find_owner

        with _open_file(file, is_new=True) as lines:
            namespace_name = str(lines.namespace_to_write(namespace, find_owner(run.settings())))
            content = {"key": key, "namespace": namespace_name, "value": text, **tags, **fields}
            memory, result, warnings = lines.store(content, if_absent=if_absent)
        _show_stored(run, {"memory": memory, "result": result, "warnings": [*warnings]})
        return
    with run.open() as memoranda:
        stored_memory = memoranda.oams.store(
            key,
            text,
            namespace=namespace,
            tags=tag or None,
            if_match=if_match,
            if_absent=if_absent,
            **fields,
        )
    document = {
        "memory": stored_memory.memory,
        "etag": stored_memory.etag,
        "result": stored_memory.result,
        "warnings": [*stored_memory.warnings],
    }
    _show_stored(run, document)


def batch(
    source: Annotated[
        Path,
        Parameter(name="MEMORIES", help="A JSONL file of memories; their times may be missing."),
    ],
    /,
    *,
    file: WritableFile = None,
    run: GivenRun,
) -> None:
    """Store many memories at once: all, or none if one is invalid."""
    values = _read_values(source)
    if file is not None:
        with _open_file(file, is_new=True) as lines:
            memories = [memory for memory, _, _ in lines.store_all(values)]
    else:
        with run.open() as memoranda:
            memories = [result.memory for result in memoranda.oams.verbs.batch_store(values)]
    run.answer({"memories": memories}, lambda: line(f"{len(memories)} stored"))


def forget(
    key: Key,
    /,
    *,
    file: WritableFile = None,
    namespace: NamespaceName = None,
    if_match: IfMatch = None,
    run: GivenRun,
) -> None:
    """Forget a memory: recall and list no longer return it."""
    if file is not None:
        _refuse_etag(if_match)
        with _open_file(file) as lines:
            name = lines.forget(namespace, key)
        _show_forgotten(run, name, key)
        return
    with run.open() as memoranda:
        name = str(memoranda.oams.namespace(namespace))
        memoranda.oams.forget(key, namespace=name, if_match=if_match)
    _show_forgotten(run, name, key)


def _open_file(path: Path, *, is_new: bool = False) -> AbstractContextManager[FileStore]:
    # Commands on the store do without the readers of files.
    from memoranda.cli.oams.files import open_file

    return open_file(path, is_new=is_new)


def _refuse_etag(if_match: str | None) -> None:
    """Raise InvalidInput for an etag: the memories of a file have none."""
    if if_match is not None:
        raise InvalidInput("--if-match is for the store: the memories of a file have no etag")


def _read_values(source: Path) -> list[object]:
    """Return the JSON value of each line of a file that is not empty."""
    data = read_file(source, max_bytes=MAX_LIST_BYTES)
    values = []
    for number, text in enumerate(data.split(b"\n"), start=1):
        if text.strip():
            try:
                values.append(json_text.parse(text, max_bytes=MAX_LIST_BYTES))
            except MemorandaError as error:
                raise InvalidInput(f"line {number}: {error.message}") from None
    return values


def _show_stored(run: GivenRun, document: dict[str, Any]) -> None:
    """Show the result of a STORE."""
    memory = document["memory"]
    if not run.json:
        for warning in document["warnings"]:
            note(f"warning: {warning}")
    run.answer(
        document, lambda: line(f"{memory['namespace']} {memory['key']} {document['result']}")
    )


def _show_forgotten(run: GivenRun, namespace: str, key: str) -> None:
    """Show the result of a FORGET."""
    run.answer(
        {"namespace": namespace, "key": key, "result": "forgotten"},
        lambda: line(f"{namespace} {key} forgotten"),
    )


# --- output ------------------------------------------------------------------------------------------


def _excerpt(memory: Memory) -> str:
    return one_line(memory["value"][: 2 * _VALUE_CHARS])[:_VALUE_CHARS]


def _show_results(memories: Sequence[Memory]) -> None:
    if not memories:
        note("no matches")
    for memory in memories:
        _show(memory, head=f"{memory['metadata']['score']:.2f}  ")


def _show(memory: Memory, *, head: str = "") -> None:
    line(f"{head}{one_line(memory['key'])}  {memory['namespace']}", "bold")
    for text_line in memory["value"].split("\n"):
        line(f"  {text_line}")
    about = [
        f"updated {memory['updated_at']}",
        *(f"#{one_line(tag)}" for tag in memory.get("tags") or ()),
    ]
    if source := memory.get("source_id"):
        about.append(f"from {one_line(source)}")
    line("  " + "  ".join(about), "dim")
