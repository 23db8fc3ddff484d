"""How the tests ask for a verdict."""

from __future__ import annotations

from typing import Any

from memoranda.errors import QueryError
from memoranda.service.cal.cal import Cal
from memoranda.standards.cal.wire.reader import from_json


def code_of(text: str | bytes, **how: Any) -> str | None:
    """The code with which a text is refused, None if it is a query."""
    error = Cal.check(text, **how)["error"]
    return None if error is None else error["code"]


def code_of_json(form: object) -> str | None:
    """The same for a JSON form."""
    try:
        from_json(form)
    except QueryError as error:
        return error.cal_code
    return None


def place_of(text: str) -> tuple[str, int, int] | None:
    """Code, line and column."""
    error = Cal.check(text)["error"]
    return None if error is None else (error["code"], error["line"], error["column"])
