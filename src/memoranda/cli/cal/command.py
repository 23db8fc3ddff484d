"""cal: run one query in CAL, the query language, or open its prompt."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from memoranda.cli.cal.ask import Query, QueryOptions, ask, refuse, text_of
from memoranda.cli.cal.show import show_error, write_text
from memoranda.cli.run import GivenRun, GlobalOptions, Parameter
from memoranda.cli.show import line, note
from memoranda.errors import InvalidInput, NotFound, QueryError, TooLarge, Unsupported
from memoranda.service.cal.cal import Cal
from memoranda.standards.cal.grammar import prompt_card

# Bytes of a query that are read: far more than a query may have, whose own limit then gives the exact error.
MAX_BYTES = 1_048_576
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NO_OPTIONS = QueryOptions()
NO_QUERY = "no query given: write it after the command, or pipe it in"


def cal(
    query: Annotated[
        str | None, Parameter(name="QUERY", help="The query; - reads standard input.")
    ] = None,
    /,
    *,
    file: Annotated[
        str | None,
        Parameter(name=("--file", "-f"), help="Read the query from a file; - for standard input."),
    ] = None,
    options: QueryOptions = NO_OPTIONS,
    check: Annotated[
        bool, Parameter(help="Only check the syntax. Exit code 1 if it is wrong.")
    ] = False,
    streamed: Annotated[
        bool,
        Parameter(
            name="--stream", help="Print an ASSEMBLE while it runs; with --json, one event a line."
        ),
    ] = False,
    card: Annotated[
        bool, Parameter(help="Print a summary of the language, for a model that writes queries.")
    ] = False,
    remove_template: Annotated[
        str | None,
        Parameter(help="Remove the template of this name, which DEFINE TEMPLATE stored."),
    ] = None,
    no_history: Annotated[
        bool, Parameter(help="At the prompt, store no history of queries.")
    ] = False,
    run: GivenRun,
) -> int:
    """Run a query in CAL, the query language. Without a query, at a terminal, open a prompt.

    Formatted results are printed unchanged. ADD, SUPERSEDE and REVERT need confirmation at the terminal, or --yes.
    """
    if card:
        run.answer({"card": prompt_card()}, lambda: write_text(prompt_card()))
        return 0
    if remove_template is not None:
        return _remove_template(run, options, remove_template)
    text = _read_query(query, file)
    if text is None and not (check or streamed):
        return _prompt(run, options, keeps_history=not no_history)
    if text is None:
        raise InvalidInput(NO_QUERY)
    if streamed and (check or options.cursor is not None):
        raise InvalidInput("--stream excludes --check and --cursor")
    try:
        params = options.params()
    except QueryError as error:
        refuse(run, text, error)
        return 1
    if check:
        return _check(run, text, params or None, strict=options.strict)
    with run.open() as memoranda:
        if streamed:
            from memoranda.cli.cal.streaming import stream

            return stream(memoranda, run, text, options, params)
        envelope = ask(memoranda, run, text, options, params)
    if envelope is None:
        return 1
    if envelope.get("next_cursor") and not run.json:
        note(f"there are more; continue with --cursor {envelope['next_cursor']}")
    return 1 if any("error" in slot for slot in envelope.get("batch", {}).values()) else 0


def _read_query(query: str | None, file: str | None) -> Query | None:
    """Return the query: typed, from a file, or from standard input; None if there is none, at a terminal."""
    if query is not None and file is not None:
        raise InvalidInput("give the query itself or --file, not both")
    if query not in (None, "-"):
        return query
    if file not in (None, "-"):
        assert file is not None
        with Path(file).open("rb") as stream:
            return _check_size(stream.read(MAX_BYTES + 1), file)
    if query is None and file is None and sys.stdin.isatty():
        return None
    return _check_size(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")


def _check_size(data: bytes, source: str) -> bytes:
    """Return a query without its byte order mark. Raises TooLarge."""
    if len(data) > MAX_BYTES:
        raise TooLarge(f"{source}: too long for a query")
    return data.removeprefix(_BYTE_ORDER_MARK)


def _check(
    run: GlobalOptions, query: Query, params: dict[str, object] | None, *, strict: bool
) -> int:
    result = Cal.check(query, params=params, strict=strict)
    error = result["error"]
    if error is None:
        run.answer(result, lambda: line("valid"))
        return 0
    # Errors about the whole query have position 1:1, too. There a caret helps only for an unexpected word (E002).
    is_placed = (error["line"], error["column"]) != (1, 1) or error["code"] == "CAL-E002"
    run.answer(result, lambda: show_error(text_of(query), error, is_placed=is_placed))
    return 1


def _remove_template(run: GlobalOptions, options: QueryOptions, name: str) -> int:
    with run.open() as memoranda:
        if not memoranda.cal.remove_template(name, namespace=options.namespace):
            raise NotFound(f"there is no template {name!r} in this namespace")
    run.answer({"removed": name}, lambda: line(f"template {name} removed"))
    return 0


def _prompt(run: GlobalOptions, options: QueryOptions, *, keeps_history: bool) -> int:
    if run.json or not sys.stdout.isatty():
        raise InvalidInput(NO_QUERY)
    if find_spec("prompt_toolkit") is None:
        raise Unsupported(
            "the prompt needs a package more: pip install 'memoranda[prompt]'; or give a query: memoranda cal QUERY"
        )
    # Loads prompt_toolkit.
    from memoranda.cli.cal.prompt import prompt

    prompt(run, options, keeps_history=keeps_history)
    return 0
