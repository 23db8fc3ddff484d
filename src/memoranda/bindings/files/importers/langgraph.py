"""LangGraph's long-term memory: the `store` table of its SQLite store, or of its PostgreSQL store as `pg_dump` writes
it, and items as JSON.

A namespace such as `("users", "alice", "memories")` tells the user, if one of its parts is a word for users; all of it
becomes the scope of the memory. The text of a memory is a text field of the value, or else all its fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from memoranda.bindings.files.importers.importer import (
    ORIGIN_KEY,
    PROJECT_KEY,
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    first_moment,
    read_drafts,
    read_kind,
    read_moment,
    read_object,
    read_share,
    read_text,
    read_texts,
)
from memoranda.bindings.files.importers.source import ImportSource
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput
from memoranda.model.instant import Instant
from memoranda.standards.oams.memory import (
    AGENT_KEY,
    KIND_KEY,
    SESSION_KEY,
    VALID_FROM_KEY,
    VALID_TO_KEY,
)

_COLUMNS: Final = (
    "prefix",
    "key",
    "value",
    "created_at",
    "updated_at",
    "expires_at",
    "ttl_minutes",
)
# Names of the field with the text, as people and tools for LangGraph use them.
TEXTS: Final = ("text", "content", "memory", "data", "value", "fact", "summary")
_OWNERS: Final = ("users", "user", "user_id", "customers", "customer")
_KINDS: Final = ("kind", "type", "category")
# The field of a value in which our exports keep the metadata of a memory.
METADATA_KEY: Final = "memoranda:metadata"


_DUMP: Final = b"-- PostgreSQL database dump"
_COPY: Final = re.compile(rb'COPY (?:[\w"]+\.)?"?store"? \(([\w ,"]+)\) FROM stdin;')
_INSERT: Final = re.compile(rb'INSERT INTO (?:[\w"]+\.)?"?store"? ')
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _recognise(source: ImportSource) -> float:
    if _DUMP in source.head:
        return 0.95 if next(_read_dump(source), None) is not None else 0.0
    if source.is_database:
        return 0.95 if {"prefix", "key", "value"} <= set(source.tables.get("store", ())) else 0.0
    document = source.first
    if not isinstance(document, dict) or not {"namespace", "key", "value"} <= document.keys():
        return 0.0
    # OAMS has fields of the same names, but its namespace is a text.
    return 0.95 if isinstance(document["namespace"], list) else 0.0


def _read_langgraph(source: ImportSource) -> Iterator[DraftResult]:
    if source.is_database:
        rows = (
            (_row_position(row, source), row)
            for row in source.read_rows("store", _COLUMNS, "prefix")
        )
        yield from read_drafts(
            rows, lambda row, where: item_draft(_row_to_item(row), where, source.modified)
        )
    elif _DUMP in source.head:
        yield from read_drafts(
            _read_dump(source),
            lambda row, where: item_draft(_row_to_item(row), where, source.modified),
        )
    else:
        yield from read_drafts(
            source.read_documents(),
            lambda document, where: item_draft(document, where, source.modified),
        )


def _read_dump(source: ImportSource) -> Iterator[tuple[str, object]]:
    """Yield the rows of the table in a dump, with their positions."""
    columns: list[str] = []
    for number, line in source.read_raw_lines():
        location = f"{source.name}:{number}"
        if not columns:
            match = _COPY.match(line)
            columns = (
                []
                if match is None
                else [column.strip(' "') for column in match[1].decode().split(",")]
            )
            columns = columns if {"prefix", "key", "value"} <= set(columns) else []
            if _INSERT.match(line):
                yield (
                    location,
                    InvalidInput("a dump with INSERT is not read; make it without --inserts"),
                )
                return
        elif line.rstrip(b"\r\n") == rb"\.":
            columns = []
        else:
            yield location, _parse_copy_row(line, columns)


def _parse_copy_row(line: bytes, columns: list[str]) -> object:
    """Return a row of a COPY block, or the error in its place."""
    try:
        fields = line.rstrip(b"\r\n").decode("utf-8").split("\t")
    except UnicodeDecodeError:
        return InvalidInput("not UTF-8; make the dump with --encoding=UTF8")
    if len(fields) != len(columns):
        return InvalidInput(f"a row of {len(fields)} columns in a table of {len(columns)}")
    return {
        name: _unescape(field)
        for name, field in zip(columns, fields, strict=True)
        if field != "\\N"
    }


def _unescape(field: str) -> str:
    return (
        _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), field)
        if "\\" in field
        else field
    )


def _row_position(row: dict[str, object], source: ImportSource) -> str:
    return f"{source.name}: {row.get('prefix')}/{row.get('key')}"


def _row_to_item(row: dict[str, object]) -> dict[str, object]:
    """Return a row of the table as an item in JSON. Raises InvalidInput."""
    value = row.get("value")
    item = {name: column for name, column in row.items() if column is not None and name != "prefix"}
    document = json_text.parse(value) if isinstance(value, str | bytes) else value
    return {"namespace": str(row.get("prefix")).split("."), **item, "value": document}


def item_draft(document: dict[str, object], location: str, modified: Instant) -> ImportDraft:
    """Read an item; `modified` is its time if it has none. Raises InvalidInput.

    Our own exports keep parts that an item has no field for in fields of its value.
    """
    path, key, value = document.get("namespace"), read_text(document, "key"), document.get("value")
    is_path = isinstance(path, list) and all(isinstance(part, str) for part in path)
    if not isinstance(path, list) or not is_path or not key or not isinstance(value, dict):
        raise InvalidInput("not an item of LangGraph: it needs `namespace`, `key` and `value`")
    text = value_text(value)
    if not text:
        raise InvalidInput("its value is empty")
    kind = read_text(value, *_KINDS)
    return ImportDraft(
        where=location,
        id=key,
        text=text,
        original=document,
        user=_path_owner(path),
        scope=read_text(value, PROJECT_KEY) or ".".join(path),
        session=read_text(value, SESSION_KEY),
        agent=read_text(value, AGENT_KEY),
        kind=read_kind(value, KIND_KEY),
        confidence=read_share(value, "confidence"),
        valid_from=read_moment(value, VALID_FROM_KEY),
        valid_to=read_moment(value, VALID_TO_KEY),
        tags=[*([kind] if kind else []), *read_texts(value, "tags")],
        created=first_moment(read_moment(document, "created_at"), modified),
        updated=read_moment(document, "updated_at"),
        expires=read_moment(document, "expires_at"),
        metadata={**_read_metadata(value), "langgraph_namespace": path},
    )


def _read_metadata(value: dict[str, object]) -> dict[str, object]:
    """Return the metadata of a memory that an export of ours kept in a value."""
    fields = read_object(value, METADATA_KEY).items()
    return {
        name: field
        for name, field in fields
        if not name.startswith("memoranda:") and name != ORIGIN_KEY
    }


def _path_owner(path: Sequence[str]) -> str:
    """Return the part of a path after a word such as "users", which names the owner; empty if there is none."""
    return next((after for part, after in pairwise(path) if part.lower() in _OWNERS), "")


def value_text(value: dict[str, object]) -> str:
    """Return the text of a value, or else its fields, one on each line."""
    if text := read_text(value, *TEXTS):
        return text
    lines = (
        f"{name}: {field if isinstance(field, str) else json_text.dump(field).decode()}"
        for name, field in value.items()
    )
    return "\n".join(lines)


LANGGRAPH: Final = Importer(
    name="langgraph",
    title="LangGraph",
    recognise=_recognise,
    read_drafts=_read_langgraph,
    mapping=(
        FieldMapping("`value.text` (or `content`, `memory`, `data`, `fact`, `summary`)", "`value`"),
        FieldMapping("`value` without a text", "`value`: its fields, one a line"),
        FieldMapping("`key`", "`key`"),
        FieldMapping("`namespace` / `prefix`", "scope, and `metadata.langgraph_namespace`"),
        FieldMapping(
            "the part of `namespace` after `users`, `user`, `customer`", "owner half of `namespace`"
        ),
        FieldMapping("`value.kind` (or `type`, `category`)", "a tag"),
        FieldMapping("`value.tags`, `value.confidence`", "`tags`, `metadata.confidence`"),
        FieldMapping('`value["memoranda:…"]`', "the fields of our exports, restored"),
        FieldMapping("PostgreSQL: `COPY store` in a `pg_dump`", "an item per row"),
        FieldMapping(
            "`created_at`, `updated_at`, `expires_at`",
            "`created_at`, `updated_at`, in UTC; the expiry",
        ),
    ),
)
