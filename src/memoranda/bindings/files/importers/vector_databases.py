"""The documents stored with vectors in the SQLite files of Chroma and of Qdrant's local mode.

Qdrant writes points as pickles, which can run any code when they are loaded; `pickles.py` reads them without that.

Only the texts and their payloads are read; vectors are made again with the model of this store. Both makers change
their tables between versions, so columns are looked up and never assumed. A point can contain a pickle, which is read
by our own limited reader (`pickles.py`) and is never executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Final

from memoranda.bindings.files.importers import pickles
from memoranda.bindings.files.importers.source import ImportSource
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


def chroma_collections(source: ImportSource) -> dict[str, object]:
    """Return the collections of a database of Chroma, name → id; empty for any other database."""
    if any(not columns <= set(source.tables.get(table, ())) for table, columns in _CHROMA.items()):
        return {}
    return {
        str(row["name"]): row["id"] for row in source.read_rows("collections", ("id", "name"), "id")
    }


def chroma_documents(
    source: ImportSource, collections: Collection[object]
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the documents of some collections, built from their rows, with their positions."""
    segments = {
        row["id"]
        for row in source.read_rows("segments", ("id", "collection"), "id")
        if row["collection"] in collections
    }
    names = {
        row["id"]: row
        for row in source.read_rows(
            "embeddings", ("id", "segment_id", "embedding_id", "created_at"), "id"
        )
        if row["segment_id"] in segments
    }
    columns = ("id", "key", "string_value", "int_value", "float_value", "bool_value")
    for number, rows in groupby(
        source.read_rows("embedding_metadata", columns, "id"), key=lambda row: row["id"]
    ):
        fields = {
            str(row["key"]): next(
                (row[column] for column in columns[2:] if row.get(column) is not None), None
            )
            for row in rows
        }
        if number in names:
            row = names[number]
            document = {
                "id": row["embedding_id"],
                "document": fields.pop("chroma:document", None),
                **fields,
            }
            yield (
                f"{source.name}: {row['embedding_id']}",
                {"created_at": row["created_at"], **document},
            )


def is_qdrant(source: ImportSource) -> bool:
    """Return True for the database of a collection of Qdrant's local mode."""
    return set(source.tables.get("points", ())) == {"id", "point"}


def qdrant_documents(source: ImportSource) -> Iterator[tuple[str, object]]:
    """Yield the payload of each point with its `id`, or its error, with its position."""
    for number, row in enumerate(source.read_rows("points", ("id", "point"), "id"), start=1):
        location = f"{source.name}: point {number}"
        try:
            yield location, _read_point(row["point"])
        except MemorandaError as error:
            yield location, error


def _read_point(data: object) -> dict[str, object]:
    """Return the payload of a point with its `id`. Raises InvalidInput."""
    try:
        point = pickles.load(data) if isinstance(data, bytes) else None
    except InvalidInput as error:
        raise InvalidInput(f"not a point of Qdrant: {error.message}") from None
    state = point.state if isinstance(point, pickles.OpaqueObject) else {}
    fields = state.get("__dict__", state) if isinstance(state, dict) else {}
    payload, name = fields.get("payload"), fields.get("id")
    if not isinstance(payload, dict) or not (
        isinstance(name, str) or (type(name) is int and 0 <= name < 2**64)
    ):
        raise InvalidInput("not a point of Qdrant: it needs an `id` and a `payload`")
    return {**pickles.plain_copy(payload), "id": str(name)}
