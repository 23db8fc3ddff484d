"""Tables: CSV with a line of names first, and JSON objects that say something under `text`, as an array or one a line.

Columns are known by the names that people give them, or a person says which is which: `text=note,user=person`.
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
from memoranda.bindings.files.importers.source import HEAD_BYTES, MAX_DOCUMENT_BYTES, Source
from memoranda.errors import InvalidInput
from memoranda.model.memory import KINDS

# What a memory may have, and the columns that are taken for it, the first that there is.
_KNOWN: Final[dict[str, tuple[str, ...]]] = {
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
# What each is here.
_HERE: Final = {
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
    "valid_from": "since when it is true",
    "valid_to": "until when it is true",
    "expires": "when it expires",
    "source": "`source_id`",
}
_QUOTED: Final = re.compile(r"\A'(?=[=+\-@\t\r])")
_ENDINGS: Final = (".csv", ".tsv")
_DELIMITERS: Final = (",", ";", "\t", "|")
# By these an object is one of another format.
_OTHERS: Final = ("ump", "kind", "scope", "body", "type", "@type", "namespace", "fact", "role")


def _recognise(source: Source) -> float:
    if source.path.suffix.lower() in _ENDINGS and not source.is_folder:
        names, _, _ = source.head.partition(b"\n")
        return 0.7 if _column(_names(names.decode("utf-8-sig", "replace")), "text") else 0.0
    first = source.first
    return (
        0.6
        if isinstance(first, dict) and read_text(first, "text") and not first.keys() & set(_OTHERS)
        else 0.0
    )


def _read(source: Source, columns: Mapping[str, str] | None = None) -> Iterator[DraftResult]:
    is_table = source.path.suffix.lower() in _ENDINGS or not source.starts_with(b"{", b"[")
    listed = _rows(source, columns) if is_table else source.read_documents()
    yield from read_drafts(listed, partial(_draft, columns=columns, source=source))


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def _names(line: str) -> list[str]:
    return next(csv.reader([line], delimiter=_delimiter(line)), [])


def _column(names: Mapping[str, Any] | list[str], ours: str) -> str:
    """The name that stands for one of ours, however it is written."""
    written = {each.strip().lower().replace(" ", "_"): each for each in names}
    return next((written[each] for each in _KNOWN[ours] if each in written), "")


def _rows(source: Source, columns: Mapping[str, str] | None) -> Iterator[tuple[str, Any]]:
    """The rows of CSV with their lines. Raises InvalidInput if it has not the columns, or cannot be read."""
    csv.field_size_limit(MAX_DOCUMENT_BYTES)
    line = 1
    with source.open_member() as file:
        try:
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            first = text.readline(HEAD_BYTES)
            names = _names(first)
            missing = [each for each in (columns or {}).values() if each not in names]
            if missing or not (columns or _column(names, "text")):
                wanted = (
                    f"no column {missing[0]!r}"
                    if missing
                    else "no column that is known for a text; name it with --map"
                )
                raise InvalidInput(f"{wanted}: there are {', '.join(names)}")
            reader = csv.reader(text, delimiter=_delimiter(first))
            for row in reader:
                line = reader.line_num + 1
                if row:
                    yield f"{source.name}:{line}", dict(zip(names, row, strict=False))
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidInput(f"{source.name}:{line + 1}: not CSV in UTF-8 ({error})") from None


def _draft(
    document: dict[str, Any], where: str, *, columns: Mapping[str, str] | None, source: Source
) -> ImportDraft:
    def held(ours: str) -> Any:
        return document.get(_column(document, ours) if columns is None else columns.get(ours, ""))

    def said(ours: str) -> str:
        value = held(ours)
        told = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        # Behind a quote stands what a spreadsheet would take for a formula.
        return _QUOTED.sub("", told) if told.strip() else ""

    text, user, tags = said("text"), said("user").strip(), held("tags")
    if not text:
        raise InvalidInput("the row has no text")
    return ImportDraft(
        where=where,
        # A row without a name is known by what it says.
        id=said("id") or f"{user} {text}".strip(),
        text=text,
        original=document,
        user=user,
        place=said("place").strip(),
        session=said("session"),
        agent=said("agent"),
        kind=next((known for known in KINDS if known == said("kind").strip()), "semantic"),
        confidence=_share(held("confidence")),
        tags=tags if isinstance(tags, list) else _tags(said("tags")),
        created=first_moment(parse_moment(held("created")), source.modified),
        updated=parse_moment(held("updated")),
        valid_from=parse_moment(held("valid_from")),
        valid_to=parse_moment(held("valid_to")),
        expires=parse_moment(held("expires")),
        source=said("source"),
    )


def _tags(said: str) -> list[str]:
    """Tags between semicolons, or between commas where there is none."""
    return said.split(";" if ";" in said else ",")


def _share(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if 0 <= found <= 1 else None


def table_with(said: str) -> Importer:
    """The importer for tables whose columns a person names: `text=note,user=person`. Raises InvalidInput."""
    columns: dict[str, str] = {}
    for each in said.split(","):
        ours, equals, theirs = (part.strip() for part in each.partition("="))
        if ours not in _KNOWN or not equals or not theirs:
            raise InvalidInput(
                f"{each!r} is no column: say text=NAME,user=NAME; there are {', '.join(_KNOWN)}"
            )
        columns[ours] = theirs
    if "text" not in columns:
        raise InvalidInput("--map needs the column of the text: text=NAME")
    return TABLE._replace(read=partial(_read, columns=columns))


TABLE: Final = Importer(
    name="table",
    title="a table",
    recognise=_recognise,
    read=_read,
    mapping=(
        *(
            FieldMapping(", ".join(f"`{each}`" for each in theirs), _HERE[ours])
            for ours, theirs in _KNOWN.items()
        ),
        FieldMapping(
            "`--map text=NAME,user=NAME,…`", "which columns they are, where they have other names"
        ),
        FieldMapping("(no `id`)", "the user and the text are the `key`"),
        FieldMapping("(no `created`)", "when the file was last written"),
    ),
)
