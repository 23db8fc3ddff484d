"""What vector databases keep of each vector beside its numbers: Chroma's SQLite file, and that of Qdrant's local mode.

Qdrant writes points as pickles, which may run anything when they are read. Here nothing of them is: whatever they name
is an empty thing that takes what is given to it, and of the rest only plain values are looked at.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any, Final, Self

from memoranda.bindings.files.importers.source import Source
from memoranda.errors import InvalidInput, MemorandaError

CHROMA_FILE: Final = "chroma.sqlite3"
QDRANT_FILE: Final = "storage.sqlite"
# The columns that are read of Chroma's tables.
_CHROMA: Final = {
    "collections": {"id", "name"},
    "segments": {"id", "collection"},
    "embeddings": {"id", "segment_id", "embedding_id", "created_at"},
    "embedding_metadata": {"id", "key", "string_value", "int_value", "float_value", "bool_value"},
}
# Pickles share what they hold: a few bytes may come to very much if it is written out.
_MAX_VALUES: Final = 10_000
_MAX_DEPTH: Final = 32
_DAMAGED: Final = (
    *(pickle.UnpicklingError, EOFError, ValueError, LookupError, AttributeError, TypeError, OverflowError),
    *(MemoryError, RecursionError),
)


def chroma_collections(source: Source) -> dict[str, object]:
    """The collections of a database of Chroma, by name; none of what is no such database."""
    if any(not columns <= set(source.tables.get(table, ())) for table, columns in _CHROMA.items()):
        return {}
    return {str(row["name"]): row["id"] for row in source.rows("collections", ("id", "name"), "id")}


def chroma_documents(source: Source, collections: Collection[object]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What some collections keep, put together from their rows; each with its place."""
    segments = {
        row["id"] for row in source.rows("segments", ("id", "collection"), "id") if row["collection"] in collections
    }
    names = {
        row["id"]: row
        for row in source.rows("embeddings", ("id", "segment_id", "embedding_id", "created_at"), "id")
        if row["segment_id"] in segments
    }
    columns = ("id", "key", "string_value", "int_value", "float_value", "bool_value")
    for number, rows in groupby(source.rows("embedding_metadata", columns, "id"), key=lambda row: row["id"]):
        held = {
            str(row["key"]): next((row[each] for each in columns[2:] if row.get(each) is not None), None)
            for row in rows
        }
        if number in names:
            row = names[number]
            document = {"id": row["embedding_id"], "document": held.pop("chroma:document", None), **held}
            yield f"{source.name}: {row['embedding_id']}", {"created_at": row["created_at"], **document}


def is_qdrant(source: Source) -> bool:
    """Whether it is the file of a collection of Qdrant's local mode."""
    return set(source.tables.get("points", ())) == {"id", "point"}


def qdrant_documents(source: Source) -> Iterator[tuple[str, Any]]:
    """The payload of each point with its `id`, or why it cannot be read; each with its place."""
    for number, row in enumerate(source.rows("points", ("id", "point"), "id"), start=1):
        where = f"{source.name}: point {number}"
        try:
            yield where, _point(row["point"])
        except MemorandaError as error:
            yield where, error


def _point(data: object) -> dict[str, Any]:
    try:
        found = _NamelessUnpickler(io.BytesIO(data)).load() if isinstance(data, bytes) else None
    except _DAMAGED:
        raise InvalidInput("not a point of Qdrant: it is damaged") from None
    state = found.state if isinstance(found, _Thing) else {}
    fields = state.get("__dict__", state) if isinstance(state, dict) else {}
    payload, name = fields.get("payload"), fields.get("id")
    if not isinstance(payload, dict) or not (isinstance(name, str) or (type(name) is int and 0 <= name < 2**64)):
        raise InvalidInput("not a point of Qdrant: it needs an `id` and a `payload`")
    return {**_Plain().copy(payload), "id": str(name)}


class _Thing:
    """Stands for whatever a pickle names: it takes what is given to it, and does nothing."""

    state: Any = None

    def __new__(cls, *_: object, **__: object) -> Self:
        return super().__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        self.state = state


class _NamelessUnpickler(pickle.Unpickler):
    """Reads a pickle without anything of what it names."""

    def find_class(self, module: str, name: str, /) -> type[_Thing]:  # noqa: ARG002
        return _Thing

    def persistent_load(self, pid: object, /) -> None:  # noqa: ARG002
        return None


class _Plain:
    """Copies values that JSON has, up to a number of them."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def copy(self, value: object, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            raise InvalidInput(
                f"a payload of more than {_MAX_VALUES} values, or nested deeper than {_MAX_DEPTH} levels"
            )
        if isinstance(value, dict):
            return {str(name): self.copy(each, depth + 1) for name, each in value.items() if isinstance(name, str)}
        if isinstance(value, list | tuple):
            return [self.copy(each, depth + 1) for each in value]
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise InvalidInput("a payload with a number that JSON has no room for")
        return value if isinstance(value, str | int | float | bool) else None
