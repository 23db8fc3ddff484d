"""Tables: CSV with a header line, and JSON objects with a field `text`, as an array or one on each line.

Columns are recognised by usual names, or a person maps them: `text=note,user=person`.

A table is the form that people make themselves, so much is guessed: the delimiter from the first line, columns by their
usual names in any spelling, tags by their separator. What cannot be guessed is refused with the column names that would
be understood, and `--map` names them. A row without a text is refused by itself; the other rows are imported.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from memoranda.bindings.files.importers.importer import (
    DraftResult,
    FieldMapping,
    ImportDraft,
    Importer,
    first_moment,
    parse_moment,
    read_drafts,
    read_text,
)
from memoranda.bindings.files.importers.source import HEAD_BYTES, MAX_DOCUMENT_BYTES, ImportSource
from memoranda.errors import InvalidInput
from memoranda.model.memory import KINDS

# Field of a memory → names of columns for it; the first present one wins.
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text", "content", "memory", "note", "fact", "value"),
    "id": ("id", "key", "uuid"),
    "user": ("user", "user_id", "person"),
    "place": ("project", "namespace", "scope", "folder"),
    "session": ("session", "session_id", "conversation_id", "thread_id"),
    "agent": ("agent", "agent_id"),
    "kind": ("kind",),
    "tags": ("tags", "categories", "labels"),
    "confidence": ("confidence",),
    "created": ("created", "created_at", "date", "timestamp"),
    "updated": ("updated", "updated_at", "modified"),
    "valid_from": ("valid_from",),
    "valid_to": ("valid_to", "valid_until"),
    "expires": ("expires", "expires_at", "expiration_date"),
    "source": ("source", "url"),
}
# Field of a memory → its target, for the documentation.
_TARGETS: Final = {
    "text": "`value`",
    "id": "`key`",
    "user": "owner half of `namespace`",
    "place": "scope",
    "session": "session",
    "agent": "agent",
    "kind": "the kind of memory, if it is one",
    "confidence": "`metadata.confidence`",
    "tags": "`tags`; in CSV separated by commas or semicolons",
    "created": "`created_at`",
    "updated": "`updated_at`",
    "valid_from": "start of its validity",
    "valid_to": "end of its validity",
    "expires": "the expiry",
    "source": "`source_id`",
}
_QUOTED: Final = re.compile(r"\A'(?=[=+\-@\t\r])")
_ENDINGS: Final = (".csv", ".tsv")
_DELIMITERS: Final = (",", ";", "\t", "|")
# By these an object is one of another format.
_OTHERS: Final = ("ump", "kind", "scope", "body", "type", "@type", "namespace", "fact", "role")


def _recognise(source: ImportSource) -> float:
    if source.path.suffix.lower() in _ENDINGS and not source.is_folder:
        names, _, _ = source.head.partition(b"\n")
        return (
            0.7
            if _find_column(_column_names(names.decode("utf-8-sig", "replace")), "text")
            else 0.0
        )
    first = source.first
    return (
        0.6
        if isinstance(first, dict) and read_text(first, "text") and not first.keys() & set(_OTHERS)
        else 0.0
    )


def _read_table(
    source: ImportSource, columns: Mapping[str, str] | None = None
) -> Iterator[DraftResult]:
    is_table = source.path.suffix.lower() in _ENDINGS or not source.starts_with(b"{", b"[")
    rows = _read_rows(source, columns) if is_table else source.read_documents()
    yield from read_drafts(rows, partial(_draft_row, columns=columns, source=source))


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _column_names(line: str) -> list[str]:
    return next(csv.reader([line], delimiter=_delimiter(line)), [])


def _find_column(names: Mapping[str, object] | list[str], ours: str) -> str:
    """Return the name of the column for a field, in any spelling; empty if there is none."""
    by_normal_name = {name.strip().lower().replace(" ", "_"): name for name in names}
    return next((by_normal_name[name] for name in _COLUMNS[ours] if name in by_normal_name), "")


def _read_rows(
    source: ImportSource, columns: Mapping[str, str] | None
) -> Iterator[tuple[str, object]]:
    """Yield the rows of a CSV file with their positions. Raises InvalidInput if columns are missing."""
    csv.field_size_limit(MAX_DOCUMENT_BYTES)
    line = 1
    with source.open_member() as file:
        try:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            first = text.readline(HEAD_BYTES)
            names = _column_names(first)
            missing = [column for column in (columns or {}).values() if column not in names]
            if missing or not (columns or _find_column(names, "text")):
                problem = (
                    f"no column {missing[0]!r}"
                    if missing
                    else "no column that is known for a text; name it with --map"
                )
                raise InvalidInput(f"{problem}: there are {', '.join(names)}")
            reader = csv.reader(text, delimiter=_delimiter(first))
            for row in reader:
                line = reader.line_num + 1
                if row:
                    yield f"{source.name}:{line}", dict(zip(names, row, strict=False))
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidInput(f"{source.name}:{line + 1}: not CSV in UTF-8 ({error})") from None


def _draft_row(
    document: dict[str, object],
    location: str,
    *,
    columns: Mapping[str, str] | None,
    source: ImportSource,
) -> ImportDraft:
    def read_value(ours: str) -> object:
        return document.get(
            _find_column(document, ours) if columns is None else columns.get(ours, "")
        )

    def read_content(ours: str) -> str:
        value = read_value(ours)
        content = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        # A leading quote protects a text that a spreadsheet would run as a formula.
        return _QUOTED.sub("", content) if content.strip() else ""

    text, user, tags = read_content("text"), read_content("user").strip(), read_value("tags")
    if not text:
        raise InvalidInput("the row has no text")
    return ImportDraft(
        where=location,
        # A row without an id is identified by its text.
        id=read_content("id") or f"{user} {text}".strip(),
        text=text,
        original=document,
        user=user,
        scope=read_content("place").strip(),
        session=read_content("session"),
        agent=read_content("agent"),
        kind=next(
            (memory_kind for memory_kind in KINDS if memory_kind == read_content("kind").strip()),
            "semantic",
        ),
        confidence=_parse_share(read_value("confidence")),
        tags=tags if isinstance(tags, list) else _split_tags(read_content("tags")),
        created=first_moment(parse_moment(read_value("created")), source.modified),
        updated=parse_moment(read_value("updated")),
        valid_from=parse_moment(read_value("valid_from")),
        valid_to=parse_moment(read_value("valid_to")),
        expires=parse_moment(read_value("expires")),
        source=read_content("source"),
    )


def _split_tags(text: str) -> list[str]:
    """Split tags at semicolons, or at commas if there is no semicolon."""
    return text.split(";" if ";" in text else ",")


def _parse_share(value: Any) -> float | None:
    try:
        share = float(value)
    except (TypeError, ValueError):
        return None
    return share if 0 <= share <= 1 else None


def table_with(text: str) -> Importer:
    """Return the importer for tables with mapped columns: `text=note,user=person`. Raises InvalidInput."""
    columns: dict[str, str] = {}
    for assignment in text.split(","):
        ours, equals, their_column = (part.strip() for part in assignment.partition("="))
        if ours not in _COLUMNS or not equals or not their_column:
            raise InvalidInput(
                f"{assignment!r} is not a column: use text=NAME,user=NAME; the fields are {', '.join(_COLUMNS)}"
            )
        columns[ours] = their_column
    if "text" not in columns:
        raise InvalidInput("--map needs the column of the text: text=NAME")
    return TABLE._replace(read_drafts=partial(_read_table, columns=columns))


TABLE: Final = Importer(
    name="table",
    title="a table",
    recognise=_recognise,
    read_drafts=_read_table,
    mapping=(
        *(
            FieldMapping(", ".join(f"`{name}`" for name in theirs), _TARGETS[ours])
            for ours, theirs in _COLUMNS.items()
        ),
        FieldMapping("`--map text=NAME,user=NAME,…`", "other names of columns"),
        FieldMapping("(no `id`)", "the user and the text are the `key`"),
        FieldMapping("(no `created`)", "the time of the file"),
    ),
)
