"""The line editor of the prompt (prompt_toolkit), and its history file."""

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

# Queries that are kept; each is at most as long as a query may be.
HISTORY_LIMIT = 1_000

Complete = Callable[[str], tuple[str, Iterable[str]]]


def reader(history: Path | None, complete: Complete, is_whole: Callable[[str], bool]) -> Callable[[], str]:
    """A function that reads one input. Raises KeyboardInterrupt for Ctrl+C and EOFError for Ctrl+D."""
    session: PromptSession[str] = PromptSession(
        "cal> ",
        multiline=True,
        prompt_continuation="...> ",
        history=InMemoryHistory() if history is None else KeptHistory(history),
        completer=_Words(complete),
        complete_while_typing=False,
        key_bindings=_keys(is_whole),
    )
    return session.prompt


def _keys(is_whole: Callable[[str], bool]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


class _Words(Completer):
    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        word, found = self._complete(document.text_before_cursor)
        for each in found:
            yield Completion(each, start_position=-len(word))


class KeptHistory(History):
    """One JSON string a line, for its owner alone: queries may hold personal words.

    What cannot be kept is not worth losing the prompt for.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        with suppress(OSError):
            lines = self._path.read_bytes().splitlines()
            if len(lines) > HISTORY_LIMIT:
                lines = lines[-HISTORY_LIMIT:]
                self._shorten(lines)
            return [text for each in reversed(lines) if (text := _text(each)) is not None]
        return []

    def store_string(self, string: str) -> None:
        if not string.strip() or len(string) > QUERY_BYTES:
            return
        with suppress(OSError, MemorandaError):
            self._write(self._path, os.O_APPEND, dump(string) + b"\n")

    def _shorten(self, lines: list[bytes]) -> None:
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        self._write(draft, os.O_TRUNC, b"\n".join(lines) + b"\n")
        draft.replace(self._path)

    def _write(self, path: Path, how: int, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            # It may have been there before, for others to read.
            path.chmod(0o600)
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def _text(line: bytes) -> str | None:
    try:
        found = parse(line)
    except MemorandaError:
        return None
    return found if isinstance(found, str) else None
