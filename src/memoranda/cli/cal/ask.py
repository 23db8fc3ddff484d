"""Asking a query on behalf of the person at the terminal: what changes memories is shown and approved first."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.cal.show import show, show_effects, show_error, show_warnings, write_text
from memoranda.cli.commands import Parameter
from memoranda.cli.run import PLACE_NAMES, Run, print_json
from memoranda.cli.show import note, one_line
from memoranda.errors import InvalidInput, MemorandaError, QueryError

if TYPE_CHECKING:
    from memoranda.app import Memoranda

# A query as it was typed, or as it lies in a file.
Given = str | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """What is said beside the query."""

    param: Annotated[
        tuple[str, ...],
        Parameter(name="--param", help="A value for a parameter, NAME=VALUE: JSON, or else text; can be repeated."),
    ] = ()
    namespace: Annotated[
        str | None, Parameter(name=PLACE_NAMES, help="The namespace asked; the project, or shared.")
    ] = None
    user: Annotated[str | None, Parameter(help="Who MY means, and who adds; the owner unless said.")] = None
    cursor: Annotated[str | None, Parameter(help="The next page, as the page before it said.")] = None
    strict: Annotated[bool, Parameter(help="By the letter of the specification.")] = False
    yes: Annotated[bool, Parameter(help="Approve ADD, SUPERSEDE or REVERT without being asked.")] = False

    def params(self) -> dict[str, object]:
        """The parameters by name."""
        found: dict[str, object] = {}
        for each in self.param:
            name, value = parameter(each, "--param")
            if name in found:
                raise QueryError(f"${name} is given twice.", cal_code="CAL-E009", suggestion="Give each once.")
            found[name] = value
        return found

    def whose(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "user": self.user}


def parameter(text: str, option: str) -> tuple[str, object]:
    """NAME=VALUE; a value that is JSON is what it says, any other is text."""
    from memoranda.encoding.json_text import parse
    from memoranda.standards.cal.language.lexer import IDENTIFIER

    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("$")
    if not equals or not IDENTIFIER.fullmatch(name):
        raise InvalidInput(f"{option}: write NAME=VALUE, where NAME is a word")
    try:
        return name, parse(value)
    except MemorandaError:
        return name, value


def ask(
    memoranda: Memoranda, run: Run, query: Given, asked: QueryOptions, params: Mapping[str, object]
) -> dict[str, Any] | None:
    """Ask, and show the answer or what is wrong. None if there is no answer."""
    try:
        envelope = _envelope(memoranda, query, asked, params)
    except QueryError as error:
        refuse(run, query, error)
        return None
    if envelope is not None:
        run.answer(envelope, lambda: show(envelope))
        _hint(memoranda, query, envelope, asked, params)
    return envelope


def _hint(
    memoranda: Memoranda,
    query: Given,
    envelope: Mapping[str, Any],
    asked: QueryOptions,
    params: Mapping[str, object],
) -> None:
    """Say where else there is something, to who found nothing and named no place."""
    from memoranda.service.cal.elsewhere import elsewhere

    others = elsewhere(
        memoranda.service.context, memoranda.access, query, envelope, params=params, namespace=asked.namespace
    )
    if others:
        named = ", ".join(f"{count} in {one_line(place)}" for place, count in others.items())
        note(f"nothing in shared; {named}; ask with --namespace {one_line(next(iter(others)))}")


def _envelope(
    memoranda: Memoranda, query: Given, asked: QueryOptions, params: Mapping[str, object]
) -> dict[str, Any] | None:
    cal = memoranda.cal
    if not asked.yes and _can_ask() and _changes(query, strict=asked.strict):
        prepared = cal.prepare(query, params=params, strict=asked.strict, **asked.whose())
        show_effects(prepared["side_effects"])
        print("Do this? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            note("nothing was changed")
            return None
        return cal.execute(prepared["token"])
    try:
        return cal.run(
            query,
            params=params,
            cursor=asked.cursor,
            approve=asked.yes,
            strict=asked.strict,
            **asked.whose(),
        )
    except QueryError as error:
        if error.reason == "not_prepared":
            error.suggestion = "Say --yes to approve it, or run it at a terminal to be asked."
        raise


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _changes(query: Given, *, strict: bool) -> bool:
    from memoranda.standards.cal.language.parser import parse
    from memoranda.standards.cal.language.syntax import tier_of

    try:
        return tier_of(parse(query, strict=strict).statement) > 0
    except QueryError:
        # Whoever runs it says what is wrong.
        return False


def refuse(run: Run, query: Given, error: QueryError) -> None:
    """Say what is wrong: to a person on standard error, and with --json to a program on standard output too."""
    from memoranda.standards.cal.language.check import error_document
    from memoranda.standards.cal.problem import error_envelope

    envelope = error_envelope(error)
    if run.json:
        print_json(envelope)
    document = error_document(error)
    document["suggestion"] = envelope["error"]["suggestion"]
    show_error(text_of(query), document, is_placed=error.end > 0)


def text_of(query: Given) -> str:
    """A query to be shown."""
    return query.decode("utf-8", "replace") if isinstance(query, bytes) else query


def stream(memoranda: Memoranda, run: Run, query: Given, asked: QueryOptions, params: Mapping[str, object]) -> int:
    """An ASSEMBLE as it happens: events as NDJSON, or the text in its chunks."""
    from memoranda.bindings.files.folder import standard_output
    from memoranda.standards.cal.assembly.stream import encode_ndjson

    code, last = 0, "\n"
    with closing(memoranda.cal.stream(query, params=params, strict=asked.strict, **asked.whose())) as events:
        for event in events:
            kind = event["type"]
            if kind == "error" and event["fatal"]:
                code = 1
            if run.json:
                with standard_output() as file:
                    file.write(encode_ndjson(event))
            elif kind == "chunk":
                write_text(event["content"], end="")
                last = event["content"][-1:]
            elif kind == "error":
                note(f"{event['code']}: {event['message']} {event['suggestion'] or ''}".rstrip())
            elif kind == "assembly_completed":
                show_warnings(event["summary"]["warnings"])
    if last != "\n":
        write_text("\n", end="")
    return code
