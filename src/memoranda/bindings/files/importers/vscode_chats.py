"""Chats of VS Code: one document, or a journal that begins with the document and goes on with its changes.

Each line of a journal has a `kind`: 0 is the whole document (`v`), 1 sets the value at a path (`k`, `v`), 2 appends
values to the list at a path, which is cut to `i` items first, and 3 removes the value at a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from memoranda.bindings.files.importers.importer import read_text
from memoranda.bindings.files.importers.transcripts import TranscriptTurn
from memoranda.errors import InvalidInput

_WHOLE, _SET, _APPEND, _REMOVE = range(4)
# Levels of a path; those of a chat have about ten.
_PATH_LIMIT: Final = 32


def read_chat(lines: Iterable[Mapping[str, Any]]) -> object:
    """Return the document at the end of a journal. Raises InvalidInput."""
    document: object = None
    for number, line in enumerate(lines, start=1):
        kind, path = line.get("kind"), line.get("k", [])
        if kind == _WHOLE:
            document = line.get("v")
            continue
        if not isinstance(path, list) or not 0 < len(path) <= _PATH_LIMIT:
            raise InvalidInput(f"line {number} changes nothing that is in the chat")
        try:
            _apply(document, kind, path, line)
        except (KeyError, IndexError, TypeError):
            raise InvalidInput(f"line {number} changes nothing that is in the chat") from None
    return document


def _apply(document: Any, kind: object, path: list[Any], line: Mapping[str, Any]) -> None:
    """Apply one change to the document. Raises KeyError, IndexError or TypeError for an unknown path."""
    *steps, last = path
    holder = document
    for step in steps:
        holder = holder[step]
    if kind == _SET:
        if isinstance(holder, list) and last == len(holder):
            holder.append(line.get("v"))
        else:
            holder[last] = line.get("v")
    elif kind == _APPEND:
        if isinstance(holder, dict):
            holder.setdefault(last, [])
        items, values, length = holder[last], line.get("v"), line.get("i")
        if not isinstance(items, list):
            raise TypeError
        if isinstance(length, int) and 0 <= length < len(items):
            del items[length:]
        items.extend(values if isinstance(values, list) else [])
    elif kind == _REMOVE:
        del holder[last]


def read_chat_turns(document: Mapping[str, Any]) -> Iterator[TranscriptTurn]:
    """Yield the questions and answers of a chat."""
    requests = document.get("requests")
    for request in requests if isinstance(requests, list) else ():
        if not isinstance(request, dict):
            continue
        name, at = read_text(request, "requestId"), request.get("timestamp")
        message = request.get("message")
        question = read_text(message, "text") if isinstance(message, dict) else message
        if isinstance(question, str) and question.strip():
            yield TranscriptTurn("user", question, id=name, at=at)
        response = request.get("response")
        parts = response if isinstance(response, list) else ()
        answer = "".join(_answer_part(part) for part in parts).strip()
        if answer:
            yield TranscriptTurn("assistant", answer, id=f"{name} answer" if name else "", at=at)


def _answer_part(part: object) -> str:
    """Return the text of a part of an answer; parts with a kind are tool calls, progress and references."""
    if not isinstance(part, dict) or "kind" in part:
        return ""
    value = part.get("value")
    return value if isinstance(value, str) else ""
