"""The prompt of `memoranda cal`: queries over several lines, completion, history, a few commands of its own.

Enter runs what is whole, or wrong elsewhere than at its end; else it begins a new line. An empty line runs it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memoranda.cli.cal.ask import QueryOptions, ask, parameter
from memoranda.cli.cal.show import write_text
from memoranda.cli.run import Run
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput, MemorandaError, QueryError
from memoranda.standards.cal.language.completion import FORMATS, find_completions, is_unfinished

if TYPE_CHECKING:
    from memoranda.app import Memoranda

HISTORY_FILE = "cal.history"
_HELP = """\
Write a query and press Enter. A query that has not come to its end goes on in the next line; an empty line ends it.
Tab completes. Alt+Enter begins a new line. Ctrl+C drops what is typed, Ctrl+D leaves.

\\h             this, and the language on one card
\\p NAME=VALUE  give a parameter a value: JSON, or else text; \\p NAME= takes it away, \\p shows all
\\f FORMAT      how RECALL without AS is written: {formats}; \\f off for lines
\\n             the next page of the last answer
\\q             leave

"""


def prompt(run: Run, asked: QueryOptions, *, keeps_history: bool) -> None:
    """Read queries and answer them until the person leaves."""
    from memoranda.cli.cal.reader import reader

    with run.open() as memoranda:
        session = Prompt(memoranda=memoranda, run=run, asked=replace(asked, cursor=None), params=asked.params())
        history = run.settings().home / HISTORY_FILE if keeps_history else None
        line("CAL. \\h for help, \\q to leave.", "dim")
        session.loop(reader(history, session.complete, session.is_whole))


@dataclass(slots=True, kw_only=True)
class Prompt:
    """What is set at one prompt."""

    memoranda: Memoranda
    run: Run
    asked: QueryOptions
    params: dict[str, object]
    format: str | None = None
    # The last query, and the cursor of what follows its answer.
    following: tuple[str, str] | None = None
    _commands: dict[str, Callable[[str], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._commands = {
            "h": self._help,
            "p": self._set_parameter,
            "f": self._set_format,
            "n": self._next,
        }

    def loop(self, read: Callable[[], str]) -> None:
        """Until end of input or \\q."""
        while True:
            try:
                text = read().strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text == "\\q":
                return
            try:
                self._do(text)
            except KeyboardInterrupt:
                note("interrupted")
            except MemorandaError as error:
                note(str(error))

    def is_whole(self, text: str) -> bool:
        """Whether Enter means: run it."""
        return text.startswith("\\") or not is_unfinished(text)

    def complete(self, text: str) -> tuple[str, Iterable[str]]:
        """The word at the end, and what it may become."""
        if not text.startswith("\\"):
            return find_completions(text, self.params)
        command, space, word = text.partition(" ")
        if not space:
            return command, [f"\\{name}" for name in (*self._commands, "q") if f"\\{name}".startswith(command)]
        known = FORMATS if command == "\\f" else ()
        return word, [name for name in (*known, *(["off"] if known else [])) if name.startswith(word)]

    def _do(self, text: str) -> None:
        if not text.startswith("\\"):
            if text:
                self._ask(self._formatted(_without_semicolon(text)))
            return
        name, _, rest = text[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise InvalidInput(f"there is no command \\{name}; \\h shows those there are")
        command(rest.strip())

    def _ask(self, text: str, cursor: str | None = None) -> None:
        envelope = ask(self.memoranda, self.run, text, replace(self.asked, cursor=cursor), self.params)
        following = envelope.get("next_cursor") if envelope is not None else None
        self.following = None if following is None else (text, following)
        if self.following is not None:
            note("there are more; \\n shows them")

    def _formatted(self, text: str) -> str:
        """The query with the format that is set, if it is a RECALL that names none."""
        from memoranda.standards.cal.language.parser import parse
        from memoranda.standards.cal.language.syntax import Recall

        if self.format is None:
            return text
        try:
            statement = parse(text, strict=self.asked.strict).statement
        except QueryError:
            return text
        # On a line of its own, because the last one may end with a comment.
        return f"{text}\nAS {self.format}" if isinstance(statement, Recall) and statement.format is None else text

    # --- commands ----------------------------------------------------------------------------------------

    def _help(self, _: str) -> None:
        from memoranda.standards.cal.grammar import prompt_card

        write_text(_HELP.format(formats=", ".join(FORMATS)) + prompt_card())

    def _set_parameter(self, given: str) -> None:
        if not given:
            from memoranda.standards.cal.printing.plain import dump_json

            for name, value in self.params.items():
                line(f"${name} = {dump_json(value)}")
            return
        name, value = parameter(given, "\\p")
        if value == "":
            self.params.pop(name, None)
        else:
            self.params[name] = value

    def _set_format(self, name: str) -> None:
        if name and name not in (*FORMATS, "off"):
            raise InvalidInput(f"\\f: there is no format {name!r}; there are {', '.join(FORMATS)}, and off")
        if name:
            self.format = None if name == "off" else name
        line(f"RECALL is written as {self.format or 'lines'}")

    def _next(self, _: str) -> None:
        if self.following is None:
            raise InvalidInput("there is no next page")
        self._ask(*self.following)


def _without_semicolon(text: str) -> str:
    """The query without the `;` that people put at its end; the one after a LET belongs to the language."""
    from memoranda.standards.cal.language.parser import parse

    if text.endswith(";"):
        try:
            parse(text[:-1])
        except QueryError:
            return text
        return text[:-1]
    return text
