"""The prompt of `memoranda cal`: queries over several lines, completion, history, and commands such as `\\h`.

Enter runs a complete query, and one with an error before its end; otherwise it begins a new line. An empty line always
runs the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memoranda.cli.cal.ask import QueryOptions, ask, parse_parameter
from memoranda.cli.cal.reader import make_reader
from memoranda.cli.cal.show import write_text
from memoranda.cli.run import GlobalOptions
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput, MemorandaError, QueryError
from memoranda.standards.cal.grammar import prompt_card
from memoranda.standards.cal.language.completion import FORMATS, find_completions, is_unfinished
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Recall
from memoranda.standards.cal.printing.values import dump_json

if TYPE_CHECKING:
    from memoranda.app import Memoranda

HISTORY_FILE = "cal.history"
_HELP = """\
Type a query and press Enter. An unfinished query continues on the next line; an empty line ends it.
Tab completes. Alt+Enter begins a new line. Ctrl+C discards the query, Ctrl+D quits.

\\h             show this help and a summary of the language
\\p NAME=VALUE  set a parameter: JSON, or else text; \\p NAME= removes it, \\p lists all
\\f FORMAT      format of RECALL without AS: {formats}; \\f off for lines
\\n             show the next page
\\q             quit

"""


def prompt(run: GlobalOptions, options: QueryOptions, *, keeps_history: bool) -> None:
    """Read queries and answer them until the person leaves."""
    with run.open() as memoranda:
        first_page = replace(options, cursor=None)
        session = Prompt(memoranda=memoranda, run=run, options=first_page, params=options.params())
        history = run.settings().home / HISTORY_FILE if keeps_history else None
        line("CAL. \\h for help, \\q to quit.", "dim")
        session.loop(make_reader(history, session.complete, session.is_complete))


@dataclass(slots=True, kw_only=True)
class Prompt:
    """A session at the prompt: its options, parameters and format, and the page that follows the last answer."""

    memoranda: Memoranda
    run: GlobalOptions
    options: QueryOptions
    params: dict[str, object]
    format: str | None = None
    # The last query, and the cursor of the next page of its answer.
    following: tuple[str, str] | None = None
    _commands: dict[str, Callable[[str], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._commands = {
            "h": self._help,
            "p": self._set_parameter,
            "f": self._set_format,
            "n": self._show_next_page,
        }

    def loop(self, read_input: Callable[[], str]) -> None:
        """Read and run queries until end of input or \\q."""
        while True:
            try:
                text = read_input().strip()
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

    def is_complete(self, text: str) -> bool:
        """Return True if Enter runs the text; if not, Enter begins a new line."""
        return text.startswith("\\") or not is_unfinished(text)

    def complete(self, text: str) -> tuple[str, Iterable[str]]:
        """Return the word at the end of a text, and its completions."""
        if not text.startswith("\\"):
            return find_completions(text, self.params)
        command, space, word = text.partition(" ")
        if not space:
            return command, [
                f"\\{name}" for name in (*self._commands, "q") if f"\\{name}".startswith(command)
            ]
        names = (*FORMATS, "off") if command == "\\f" else ()
        return word, [name for name in names if name.startswith(word)]

    def _do(self, text: str) -> None:
        if not text.startswith("\\"):
            if text:
                self._ask(self._add_format(_without_semicolon(text)))
            return
        name, _, argument = text[1:].partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise InvalidInput(f"unknown command \\{name}; \\h lists the commands")
        command(argument.strip())

    def _ask(self, text: str, cursor: str | None = None) -> None:
        envelope = ask(
            self.memoranda, self.run, text, replace(self.options, cursor=cursor), self.params
        )
        next_cursor = envelope.get("next_cursor") if envelope is not None else None
        self.following = None if next_cursor is None else (text, next_cursor)
        if self.following is not None:
            note("there are more; \\n shows them")

    def _add_format(self, text: str) -> str:
        """Return the query with the format of this session, if it is a RECALL without a format."""
        if self.format is None:
            return text
        try:
            statement = parse(text, strict=self.options.strict).statement
        except QueryError:
            return text
        if not isinstance(statement, Recall) or statement.format is not None:
            return text
        # On a line of its own, because the last line may end with a comment.
        return f"{text}\nAS {self.format}"

    # --- commands ----------------------------------------------------------------------------------------

    def _help(self, _: str) -> None:
        write_text(_HELP.format(formats=", ".join(FORMATS)) + prompt_card())

    def _set_parameter(self, argument: str) -> None:
        if not argument:
            for name, value in self.params.items():
                line(f"${name} = {dump_json(value)}")
            return
        name, value = parse_parameter(argument, "\\p")
        if value == "":
            self.params.pop(name, None)
        else:
            self.params[name] = value

    def _set_format(self, name: str) -> None:
        if name and name not in (*FORMATS, "off"):
            raise InvalidInput(
                f"\\f: there is no format {name!r}; there are {', '.join(FORMATS)}, and off"
            )
        if name:
            self.format = None if name == "off" else name
        line(f"RECALL is written as {self.format or 'lines'}")

    def _show_next_page(self, _: str) -> None:
        if self.following is None:
            raise InvalidInput("there is no next page")
        self._ask(*self.following)


def _without_semicolon(text: str) -> str:
    """Return the query without a final `;`, unless that belongs to the language, as after a LET."""
    if text.endswith(";"):
        try:
            parse(text[:-1])
        except QueryError:
            return text
        return text[:-1]
    return text
