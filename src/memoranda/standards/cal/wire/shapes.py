"""Checks of untrusted JSON: each function takes any value and returns it with a known type, or refuses it.

`label` names the value in the message of the error.

A reader calls these functions from the outside to the inside and never indexes JSON by itself, so a wrong type ends in
an error of the language and not in an exception of Python. All strings are normalised (NFC), as in query text, because
two spellings of a name must not be different names.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar, cast

from memoranda.errors import QueryError
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.syntax import Hash, Param, Value

Member = TypeVar("Member")


def refuse(reason: str) -> NoReturn:
    """Raise the error for a value that is not the JSON form of a query."""
    raise QueryError(
        f"Not the JSON form of a query: {reason}.",
        cal_code="CAL-E002",
        suggestion='Example: {"statement": "recall"}',
    )


def is_deeper_than(value: object, limit: int) -> bool:
    """Return True if the JSON is nested deeper than the limit. Works level by level, without recursion."""
    level = [value]
    for _ in range(limit):
        deeper: list[object] = []
        for member in level:
            if isinstance(member, dict):
                deeper.extend(member.values())
            elif isinstance(member, list):
                deeper.extend(member)
        if not deeper:
            return False
        level = deeper
    return True


def require_object(value: object, label: str) -> dict[str, object]:
    """Return the value as an object."""
    if not isinstance(value, dict):
        refuse(f"{label} is not an object")
    return value


def require_members(
    value: object, label: str, allowed: tuple[str, ...], required: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return the value as an object that has only allowed members, and all required ones."""
    form = require_object(value, label)
    for name in form:
        if name not in allowed:
            refuse(f"{label} has no member {lexer.quote_token(str(name))}")
    for name in required:
        if name not in form:
            refuse(f"{label} needs {name}")
    return form


def require_list(value: object, label: str) -> list[object]:
    """Return the value as an array."""
    if not isinstance(value, list):
        refuse(f"{label} is not an array")
    return value


def require_text(value: object, label: str) -> str:
    """Return the value as a string, normalised to NFC."""
    if not isinstance(value, str):
        refuse(f"{label} is not a string")
    return value if value.isascii() else unicodedata.normalize("NFC", value)


def require_word(value: object, label: str) -> str:
    """Return the value as a word: in query text it stands without quotes."""
    if not isinstance(value, str) or lexer.classify_token(value) not in (
        lexer.TokenKind.WORD,
        lexer.TokenKind.DOMAIN_FIELD,
    ):
        refuse(f"{label} is not a word")
    return value


def require_words(value: object, label: str) -> tuple[str, ...]:
    """Return the value as an array of at least one word."""
    words = tuple(require_word(member, label) for member in require_list(value, label))
    if not words:
        refuse(f"{label} is empty")
    return words


def read_flag(form: Mapping[str, object], name: str) -> bool:
    """Return True if the member is present; its only value is true."""
    if form.get(name, True) is not True:
        refuse(f"{name} must be true or absent")
    return name in form


def read_value(value: object, label: str) -> Value:
    """Return a literal: a string, number, boolean, array, parameter or hash."""
    if isinstance(value, str):
        return require_text(value, label)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return read_number(value)
    if isinstance(value, list):
        return tuple(read_value(member, label) for member in value)
    form = require_members(value, label, ("param", "hash"))
    if set(form) == {"param"}:
        return Param(name=require_word(form["param"], label))
    if set(form) == {"hash"}:
        return read_hash(form["hash"], label)
    refuse(f"{label} is not a value")


def read_number(value: float) -> int | float:
    """Return a number of the language.

    Raises QueryError (CAL-E006) for a number that is too large.
    """
    number = lexer.normalize_number(value)
    if number is None:
        raise QueryError(
            "The number is too large.", cal_code="CAL-E006", suggestion="Write at most 300 digits."
        )
    return number


def read_hash(value: object, label: str) -> Hash:
    """Return a hash in lower case.

    Raises QueryError (CAL-E015) for a text that is no hash.
    """
    text = require_text(value, label).lower()
    if not lexer.HASH.fullmatch(text):
        raise QueryError(
            f"{label} is not a hash.",
            cal_code="CAL-E015",
            suggestion="Write sha256: and 8 to 64 hexadecimal digits.",
        )
    return Hash(text=text)


def read_text_or_param(value: object, label: str) -> str | Param:
    """Return a string or a parameter."""
    literal = read_value(value, label)
    if not isinstance(literal, str | Param):
        refuse(f"{label} is neither a string nor a parameter")
    return literal


def read_hash_or_param(value: object, label: str) -> Hash | Param:
    """Return a hash or a parameter; a plain string is a hash."""
    if isinstance(value, str):
        return read_hash(value, label)
    literal = read_value(value, label)
    if not isinstance(literal, Hash | Param):
        refuse(f"{label} is neither a hash nor a parameter")
    return literal


def read_count(value: object, label: str) -> int | Param:
    """Return a count. A number with a fraction passes, because the parser refuses it with a better error."""
    literal = read_value(value, label)
    if isinstance(literal, bool) or not isinstance(literal, int | float | Param):
        refuse(f"{label} is not a number")
    return cast("int | Param", literal)


def read_optional(
    form: Mapping[str, object], name: str, reader: Callable[[object, str], Member]
) -> Member | None:
    """Return a member, passed through the reader, or None if it is absent."""
    return reader(form[name], name) if name in form else None
