"""Shapes of untrusted JSON: each function takes any value and returns what it should be, or refuses it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from memoranda.errors import QueryError
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.syntax import Hash, Param, Value


def refuse(what: str) -> NoReturn:
    """Not the form of a query."""
    raise QueryError(
        f"Not the JSON form of a query: {what}.", cal_code="CAL-E002", suggestion='Example: {"statement": "recall"}'
    )


def depth_over(value: object, limit: int) -> bool:
    """Whether the JSON is nested deeper than this; without a stack."""
    level = [value]
    for _ in range(limit):
        deeper: list[object] = []
        for each in level:
            if isinstance(each, dict):
                deeper.extend(each.values())
            elif isinstance(each, list):
                deeper.extend(each)
        if not deeper:
            return False
        level = deeper
    return True


def an_object(value: object, what: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        refuse(f"{what} is not an object")
    return value


def members_of(value: object, what: str, allowed: tuple[str, ...], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with known members."""
    form = an_object(value, what)
    for name in form:
        if name not in allowed:
            refuse(f"{what} has no member {lexer.shown(str(name))}")
    for name in required:
        if name not in form:
            refuse(f"{what} needs {name}")
    return form


def a_list(value: object, what: str) -> list[Any]:
    """An array."""
    if not isinstance(value, list):
        refuse(f"{what} is not an array")
    return value


def a_text(value: object, what: str) -> str:
    """Any text."""
    if not isinstance(value, str):
        refuse(f"{what} is not a string")
    return value if value.isascii() else unicodedata.normalize("NFC", value)


def a_word(value: object, what: str) -> str:
    """A name that stands bare in the text, and so must be a word."""
    if not isinstance(value, str) or lexer.kind_of(value) not in (lexer.Kind.WORD, lexer.Kind.DOMAIN_FIELD):
        refuse(f"{what} is not a word")
    return value


def some_words(value: object, what: str) -> tuple[str, ...]:
    """At least one word."""
    found = tuple(a_word(each, what) for each in a_list(value, what))
    if not found:
        refuse(f"{what} is empty")
    return found


def a_flag(form: Mapping[str, Any], name: str) -> bool:
    """A member that is true or absent."""
    if form.get(name, True) is not True:
        refuse(f"{name} is true or absent")
    return name in form


def a_value(value: object, what: str) -> Value:
    """A literal."""
    if isinstance(value, str):
        return a_text(value, what)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return a_number(value)
    if isinstance(value, list):
        return tuple(a_value(each, what) for each in value)
    form = members_of(value, what, ("param", "hash"))
    if set(form) == {"param"}:
        return Param(name=a_word(form["param"], what))
    if set(form) == {"hash"}:
        return a_hash(form["hash"], what)
    refuse(f"{what} is not a value")


def a_number(value: float) -> int | float:
    """A number of the language."""
    number = lexer.plain_number(value)
    if number is None:
        raise QueryError("The number is too large.", cal_code="CAL-E006", suggestion="Write at most 300 digits.")
    return number


def a_hash(value: object, what: str) -> Hash:
    """A hash."""
    text = a_text(value, what).lower()
    if not lexer.HASH.fullmatch(text):
        raise QueryError(
            f"{what} is not a hash.", cal_code="CAL-E015", suggestion="Write sha256: and 8 to 64 hexadecimal digits."
        )
    return Hash(text=text)


def text_or_param(value: object, what: str) -> str | Param:
    """A string or a parameter."""
    found = a_value(value, what)
    if not isinstance(found, str | Param):
        refuse(f"{what} is neither a string nor a parameter")
    return found


def hash_or_param(value: object, what: str) -> Hash | Param:
    """A hash or a parameter."""
    if isinstance(value, str):
        return a_hash(value, what)
    found = a_value(value, what)
    if not isinstance(found, Hash | Param):
        refuse(f"{what} is neither a hash nor a parameter")
    return found


def a_count(value: object, what: str) -> Any:
    """A count; whether it is a whole number is for the parser to say."""
    found = a_value(value, what)
    if isinstance(found, bool) or not isinstance(found, int | float | Param):
        refuse(f"{what} is not a number")
    return found


def optional(form: Mapping[str, Any], name: str, read: Callable[[object, str], Any]) -> Any:
    """A member, read if it is there."""
    return read(form[name], name) if name in form else None
