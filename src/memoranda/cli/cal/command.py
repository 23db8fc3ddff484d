"""cal: ask the memory in its query language, in one statement or at a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from memoranda.cli.cal.ask import Given, QueryOptions, ask, refuse, stream, text_of
from memoranda.cli.cal.show import show_error, write_text
from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun, Run
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput, NotFound, QueryError, TooLarge

# Far more than a query may have, so that its own limit is what refuses it; far less than would hurt.
MAX_BYTES = 1_048_576
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOTHING_ASKED = QueryOptions()
NO_QUERY = "no query given: write it after the command, or pipe it in"


def cal(
    query: Annotated[str | None, Parameter(name="QUERY", help="The query; - reads standard input.")] = None,
    /,
    *,
    file: Annotated[
        str | None, Parameter(name=("--file", "-f"), help="Read the query from a file; - for standard input.")
    ] = None,
    asked: QueryOptions = NOTHING_ASKED,
    check: Annotated[bool, Parameter(help="Only say whether it is a query. Exit code 1 if not.")] = False,
    streamed: Annotated[
        bool, Parameter(name="--stream", help="Show an ASSEMBLE as it happens; with --json, one event a line.")
    ] = False,
    card: Annotated[bool, Parameter(help="Print what a model must know to write queries.")] = False,
    remove_template: Annotated[
        str | None, Parameter(help="Take away a template that DEFINE TEMPLATE kept, by its name.")
    ] = None,
    no_history: Annotated[bool, Parameter(help="At the prompt, keep nothing of what is typed.")] = False,
    run: GivenRun,
) -> int:
    """Ask in CAL, the query language of memory. Without a query, at a terminal: a prompt.

    What the query formats is printed as it is. ADD, SUPERSEDE and REVERT are shown and approved first, or need --yes.
    """
    if card:
        return _card(run)
    if remove_template is not None:
        return _remove_template(run, asked, remove_template)
    given = _query(query, file)
    if given is None and not (check or streamed):
        return _prompt(run, asked, keeps_history=not no_history)
    if given is None:
        raise InvalidInput(NO_QUERY)
    if streamed and (check or asked.cursor is not None):
        raise InvalidInput("--stream goes with neither --check nor --cursor")
    try:
        params = asked.params()
    except QueryError as error:
        refuse(run, given, error)
        return 1
    if check:
        return _check(run, given, params or None, strict=asked.strict)
    with run.open() as memoranda:
        if streamed:
            return stream(memoranda, run, given, asked, params)
        envelope = ask(memoranda, run, given, asked, params)
    if envelope is None:
        return 1
    if envelope.get("next_cursor") and not run.json:
        note(f"there are more; see them with --cursor {envelope['next_cursor']}")
    return 1 if any("error" in slot for slot in envelope.get("batch", {}).values()) else 0


def _query(query: str | None, file: str | None) -> Given | None:
    """The query; None if there is none and somebody sits at the terminal."""
    if query is not None and file is not None:
        raise InvalidInput("give the query itself or --file, not both")
    if query not in (None, "-"):
        return query
    if file not in (None, "-"):
        assert file is not None
        with Path(file).open("rb") as opened:
            return _limited(opened.read(MAX_BYTES + 1), file)
    if query is None and file is None and sys.stdin.isatty():
        return None
    return _limited(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")


def _limited(data: bytes, source: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise TooLarge(f"{source}: this is far too long for a query")
    return data.removeprefix(_BYTE_ORDER_MARK)


def _check(run: Run, given: Given, params: dict[str, object] | None, *, strict: bool) -> int:
    from memoranda.service.cal.cal import Cal

    result = Cal.check(given, params=params, strict=strict)
    error = result["error"]
    if error is None:
        run.answer(result, lambda: line("valid"))
        return 0
    # Of what is wrong with the whole, the place is the beginning; there, only an unexpected word has one.
    is_placed = (error["line"], error["column"]) != (1, 1) or error["code"] == "CAL-E002"
    run.answer(result, lambda: show_error(text_of(given), error, is_placed=is_placed))
    return 1


def _card(run: Run) -> int:
    from memoranda.standards.cal.grammar import prompt_card

    run.answer({"card": prompt_card()}, lambda: write_text(prompt_card()))
    return 0


def _remove_template(run: Run, asked: QueryOptions, name: str) -> int:
    with run.open() as memoranda:
        if not memoranda.cal.remove_template(name, namespace=asked.namespace):
            raise NotFound(f"there is no template {name!r} in this namespace")
    run.answer({"removed": name}, lambda: line(f"template {name} removed"))
    return 0


def _prompt(run: Run, asked: QueryOptions, *, keeps_history: bool) -> int:
    if run.json or not sys.stdout.isatty():
        raise InvalidInput(NO_QUERY)
    from memoranda.cli.cal.prompt import prompt

    prompt(run, asked, keeps_history=keeps_history)
    return 0
