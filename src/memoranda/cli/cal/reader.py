"""The line editor of the prompt (prompt_toolkit), and its history file.

Enter runs an input only if the parser says that it is complete; otherwise it begins a new line. The history is one JSON
string for each query, so that a query of several lines is one entry, and several prompts may append to the file at the
same time. A prompt must work without its history: errors of the file are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import MemorandaError
from memoranda.standards.cal.limits import QUERY_BYTES

# Queries in the history file; each has at most QUERY_BYTES.
HISTORY_LIMIT = 1_000

Complete = Callable[[str], tuple[str, Iterable[str]]]


def make_reader(
    history: Path | None, complete: Complete, is_complete: Callable[[str], bool]
) -> Callable[[], str]:
    """Return a function that reads one input. It raises KeyboardInterrupt for Ctrl+C and EOFError for Ctrl+D."""
    session: PromptSession[str] = PromptSession(
        "cal> ",
        multiline=True,
        prompt_continuation="...> ",
        history=InMemoryHistory() if history is None else HistoryFile(history),
        completer=_QueryCompleter(complete),
        complete_while_typing=False,
        key_bindings=_key_bindings(is_complete),
    )
    return session.prompt


def _key_bindings(is_complete: Callable[[str], bool]) -> KeyBindings:
    """Return the keys: Enter accepts a completion, runs a complete query, or begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if (
            buffer.complete_state is not None
            and buffer.complete_state.current_completion is not None
        ):
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


class _QueryCompleter(Completer):
    """Completions by a function of the text before the cursor."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> Iterator[Completion]:
        word, completions = self._complete(document.text_before_cursor)
        for completion in completions:
            yield Completion(completion, start_position=-len(word))


class HistoryFile(History):
    """A history file: one JSON string a line, readable by its owner alone, because queries may be personal.

    A file that cannot be read or written is ignored, so that the prompt keeps working.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the queries, newest first."""
        with suppress(OSError):
            lines = self._path.read_bytes().splitlines()
            if len(lines) > HISTORY_LIMIT:
                lines = lines[-HISTORY_LIMIT:]
                self._shorten(lines)
            return [text for item in reversed(lines) if (text := _parse_line(item)) is not None]
        return []

    def store_string(self, string: str) -> None:
        """Append a query to the file."""
        if not string.strip() or len(string) > QUERY_BYTES:
            return
        with suppress(OSError, MemorandaError):
            self._write(self._path, os.O_APPEND, dump(string) + b"\n")

    def _shorten(self, lines: list[bytes]) -> None:
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        self._write(draft, os.O_TRUNC, b"\n".join(lines) + b"\n")
        draft.replace(self._path)

    def _write(self, path: Path, flag: int, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
        try:
            # An older file may be readable by others.
            path.chmod(0o600)
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def _parse_line(line: bytes) -> str | None:
    """Return the query in a line of the file; None if the line is damaged."""
    try:
        query = parse(line)
    except MemorandaError:
        return None
    return query if isinstance(query, str) else None
