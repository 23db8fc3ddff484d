"""Run a query for the person at the terminal. A query that changes memories is shown and confirmed first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.cal.show import show, show_effects, show_error
from memoranda.cli.run import PLACE_NAMES, GlobalOptions, Parameter
from memoranda.cli.show import is_confirmed, note, one_line
from memoranda.encoding.json_text import parse as parse_json
from memoranda.errors import InvalidInput, MemorandaError, QueryError
from memoranda.service.cal.cal import count_matches_elsewhere
from memoranda.standards.cal.language.check import error_document
from memoranda.standards.cal.language.lexer import IDENTIFIER
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import tier_of
from memoranda.standards.cal.problem import error_envelope

if TYPE_CHECKING:
    from memoranda.app import Memoranda
    from memoranda.service.cal.session import SessionOptions

# A typed query, or the content of a file.
Query = str | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Options of a query."""

    param: Annotated[
        tuple[str, ...],
        Parameter(
            name="--param",
            help="A parameter, NAME=VALUE; a value that is not JSON is text. Can be repeated.",
        ),
    ] = ()
    namespace: Annotated[
        str | None, Parameter(name=PLACE_NAMES, help="The namespace to query (default: shared).")
    ] = None
    user: Annotated[
        str | None,
        Parameter(help="The user that MY stands for and that adds grains (default: the owner)."),
    ] = None
    cursor: Annotated[str | None, Parameter(help="The cursor that the previous page printed.")] = (
        None
    )
    strict: Annotated[bool, Parameter(help="Accept only what the specification allows.")] = False
    yes: Annotated[bool, Parameter(help="Run ADD, SUPERSEDE or REVERT without confirmation.")] = (
        False
    )

    def params(self) -> dict[str, object]:
        """Return the parameters by name. Raises QueryError for a name that occurs twice."""
        params: dict[str, object] = {}
        for text in self.param:
            name, value = parse_parameter(text, "--param")
            if name in params:
                raise QueryError(
                    f"${name} is given twice.", cal_code="CAL-E009", suggestion="Give each once."
                )
            params[name] = value
        return params

    def scope(self) -> SessionOptions:
        """Return the namespace and the user of the query, as keywords of the library."""
        return {"namespace": self.namespace, "user": self.user}


def parse_parameter(text: str, option: str) -> tuple[str, object]:
    """Parse NAME=VALUE; a value that is not JSON is text. Raises InvalidInput."""
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("$")
    if not equals or not IDENTIFIER.fullmatch(name):
        raise InvalidInput(f"{option}: write NAME=VALUE, where NAME is a word")
    try:
        return name, parse_json(value)
    except MemorandaError:
        return name, value


def ask(
    memoranda: Memoranda,
    run: GlobalOptions,
    query: Query,
    options: QueryOptions,
    params: Mapping[str, object],
) -> dict[str, Any] | None:
    """Run a query and print the answer, or the error; return None if there is no answer."""
    try:
        envelope = _run_query(memoranda, query, options, params)
    except QueryError as error:
        refuse(run, query, error)
        return None
    if envelope is not None:
        run.answer(envelope, lambda: show(envelope))
        _suggest_namespaces(memoranda, query, envelope, options, params)
    return envelope


def _suggest_namespaces(
    memoranda: Memoranda,
    query: Query,
    envelope: Mapping[str, object],
    options: QueryOptions,
    params: Mapping[str, object],
) -> None:
    """Name the namespaces with matches, after a query without a namespace or a result."""
    matches = count_matches_elsewhere(
        memoranda.service.context,
        memoranda.access,
        query,
        envelope,
        params=params,
        namespace=options.namespace,
    )
    if matches:
        counts = ", ".join(
            f"{count} in {one_line(namespace)}" for namespace, count in matches.items()
        )
        note(f"no matches in shared; {counts}; use --namespace {one_line(next(iter(matches)))}")


def _run_query(
    memoranda: Memoranda, query: Query, options: QueryOptions, params: Mapping[str, object]
) -> dict[str, object] | None:
    """Return the response envelope; None if the person does not confirm a change. Raises QueryError."""
    cal = memoranda.cal
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not options.yes and is_terminal and _changes_memories(query, strict=options.strict):
        prepared_query = cal.prepare(query, params=params, strict=options.strict, **options.scope())
        show_effects(prepared_query["side_effects"])
        if not is_confirmed("Run this?"):
            note("nothing was changed")
            return None
        return cal.execute(prepared_query["token"])
    try:
        return cal.run(
            query,
            params=params,
            cursor=options.cursor,
            approve=options.yes,
            strict=options.strict,
            **options.scope(),
        )
    except QueryError as error:
        if error.reason == "not_prepared":
            error.suggestion = "Add --yes to confirm it, or run it at a terminal."
        raise


def _changes_memories(query: Query, *, strict: bool) -> bool:
    try:
        return tier_of(parse(query, strict=strict).statement) > 0
    except QueryError:
        # Running the query raises the same error, and reports it.
        return False


def refuse(run: GlobalOptions, query: Query, error: QueryError) -> None:
    """Print an error on standard error, and with --json as an envelope on standard output too."""
    envelope = error_envelope(error)
    if run.json:
        run.answer(envelope, lambda: None)
    document = error_document(error)
    document["suggestion"] = envelope["error"]["suggestion"]
    show_error(text_of(query), document, is_placed=error.end > 0)


def text_of(query: Query) -> str:
    """Return a query as text for an error message."""
    return query.decode("utf-8", "replace") if isinstance(query, bytes) else query
