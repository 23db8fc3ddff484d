"""What a person meant by a file: a new memory, or which change of one.

What a file leaves out is unchanged: someone who deletes the front matter, or a line of it, edits the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from memoranda.encoding.json_text import canonical
from memoranda.errors import InvalidInput
from memoranda.model.instant import parse_instant
from memoranda.standards.ump import markdown, rules
from memoranda.standards.ump.shapes import Body, Record, Unchecked

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n")
# Shorthand that people write at the top of a front matter.
_SCOPE: Final = ("user", "project", "agent", "session", "visibility")
_IDENTITY: Final = ("ump", "id", "integrity", "supersedes", "superseded_by", "time")
# UMP §3.5: these pass to the successor unchanged.
_FIXED: Final = ("kind", "scope", "consent")


def read_note(data: bytes) -> Unchecked:
    """A file as far as it goes: a whole record, a part of one, or only a text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at line {data.count(10, 0, error.start) + 1}") from None
    if _FRONT_MATTER.match(text):
        note = markdown.parse(text)
    else:
        # Read by the same rules as everything else: blank lines around a text are not part of it.
        bare = text.removeprefix("\ufeff")
        note = markdown.parse(f"---{_line_end(bare)}{{}}\n---\n\n{bare}")
    scope = {name: note.pop(name) for name in _SCOPE if name in note}
    if scope:
        said = note.get("scope", {})
        note["scope"] = {**scope, **said} if isinstance(said, dict) else said
    return note


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text and text.count("\r\n") == text.count("\n") else "\n"


def as_new(note: Unchecked) -> Unchecked:
    """The note without what ties it to a record that is gone or that it is a copy of."""
    time = {
        name: note["time"][name]
        for name in ("valid_from", "valid_to")
        if name in note.get("time", {})
    }
    kept = {name: value for name, value in note.items() if name not in _IDENTITY}
    return {**kept, "time": time} if time else kept


def edit(note: Unchecked, shown: Record, full: Record) -> Unchecked:
    """The patch that turns a record into what the note says; empty if they say the same.

    `shown` is the record as it stands in files, without what its consent redacts; `full` has that too.
    """
    for name in _FIXED:
        if name in note and not _within(note[name], shown.get(name, {})):
            raise InvalidInput(
                f"{name} cannot be changed by editing; delete this file and write a new one"
            )
    patch: dict[str, Any] = {}
    body = _body(note.get("body", {}), shown["body"], full)
    if body is not None:
        patch["body"] = body
    lifecycle = _changed(note.get("lifecycle"), shown.get("lifecycle", {}), "lifecycle")
    if lifecycle:
        patch["lifecycle"] = lifecycle
    if "relations" in note and not _same(note["relations"], shown.get("relations", [])):
        patch["relations"] = note["relations"]
    time = _time(note.get("time"), shown["time"])
    if time:
        patch["time"] = time
    # A file shows a body and relations as the record does.
    rules.require_complete(full, [part for part in ("body", "relations") if part in patch])
    return patch


def _body(note: Any, shown: Body, full: Record) -> Unchecked | None:
    """Return the body with what the note changes of it; None if that is nothing. Raises InvalidInput."""
    text = note.get("text", shown["text"])
    if not text:
        raise InvalidInput("the text is empty; delete the file to forget the memory")
    retold = "structured" in note and not _same(note["structured"], shown.get("structured"))
    if retold and not _same(shown.get("structured"), full["body"].get("structured")):
        raise InvalidInput(
            "body.structured is redacted here and cannot be edited; use 'memoranda revise'"
        )
    if text == shown["text"] and not retold:
        return None
    body = rules.drop_original(full)["body"]
    return {**body, "text": text, **({"structured": note["structured"]} if retold else {})}


def _changed(note: Any, shown: Mapping[str, object], where: str) -> Unchecked:
    if note is None:
        return {}
    if not isinstance(note, dict):
        raise InvalidInput(f"{where} must be an object")
    return {
        name: value
        for name, value in note.items()
        if name not in shown or not _same(value, shown[name])
    }


def _time(note: Any, shown: Mapping[str, object]) -> Unchecked:
    changed = _changed(note, shown, "time")
    return {
        name: value
        for name, value in changed.items()
        # When it was written and seen is not for editing.
        if name not in ("created", "observed") and not _same_instant(value, shown.get(name))
    }


def _same_instant(one: Any, other: Any) -> bool:
    try:
        return parse_instant(one) == parse_instant(other)
    except (TypeError, ValueError, OverflowError):
        return bool(one == other)


def _within(said: Any, known: Any) -> bool:
    """Whether everything said is known; less may be said than is known."""
    if isinstance(said, dict) and isinstance(known, dict):
        return all(name in known and _within(value, known[name]) for name, value in said.items())
    return _same(said, known)


def _same(one: Any, other: Any) -> bool:
    # As JSON sees it: Python would hold True and 1 for the same.
    return canonical(one) == canonical(other)
