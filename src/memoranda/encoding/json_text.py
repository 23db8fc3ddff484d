"""JSON text: a strict parser, two writers and the canonical form of RFC 8785.

The parser refuses JSON that two programs might understand differently (duplicate keys, NaN, numbers outside a double,
lone surrogates, a byte order mark), because the parsed values are signed, hashed and passed on. Limits are checked
before the parser runs, so that no input can exhaust the stack.

Everything that comes from outside is parsed by `parse`; no other parser may be used for it. Writers differ in purpose:
`dump` for storage and the wire, `canonical` for hashes and signatures, `dump_pretty` for files that people read. Only
`canonical` gives the same bytes for equal values in every language.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

import orjson
import rfc8785

from memoranda.errors import InvalidInput, MalformedJson, TooLarge

Json = Any

# Bytes of the largest record, and so of the largest request. A memory is a thought, not a file.
MAX_BYTES: Final = 1_048_576
# Levels of nesting: deeper than people write, shallow enough for every recursive writer downstream.
MAX_DEPTH: Final = 64
# Digits. 10^308 is the largest power of ten in a double; a longer integer has no canonical form (RFC 8785 3.2.2.3).
MAX_INTEGER_DIGITS: Final = 309

_SAFE_INTEGER: Final = 2**53
# Characters of a key in a message.
_QUOTED_KEY_CHARS: Final = 40

# One token per match: a string (closed or not, so that no quote is scanned twice), or a bracket.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(data: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Parse one JSON value. Raises MalformedJson or TooLarge, and nothing else.

    `max_bytes` and `max_depth` are checked before anything is built. Key order is kept.
    """
    if (
        isinstance(data, bytes)
        and len(data) <= max_bytes
        and data.count(b"{") + data.count(b"[") <= max_depth
    ):
        value = _parse_common_form(data)
        if value is not None:
            return value
    text = _decode(data, max_bytes)
    check_depth(text, max_depth)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise MalformedJson(
            f"not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise MalformedJson("not JSON: nested too deeply") from None
    # Escaped surrogates are rare, so the values are only checked if the text has one.
    if _SURROGATE_ESCAPE.search(text) is not None:
        _refuse_lone_surrogates(value)
    return value


def _parse_common_form(data: bytes) -> Json | None:
    """Return the value if the data is exactly the output of a common JSON writer, else None.

    Then no key occurs twice, and no number or text is ambiguous. Most clients use such a writer, and this is faster
    than parsing strictly.
    """
    try:
        value = orjson.loads(data)
        rewritten = json.dumps(value).encode() if b'": ' in data else orjson.dumps(value)
    except (orjson.JSONDecodeError, TypeError):
        return None
    return value if rewritten == data else None


def _decode(data: bytes | str, max_bytes: int) -> str:
    """Decode UTF-8 and check the size. Raises MalformedJson or TooLarge."""
    if len(data) > max_bytes:
        raise TooLarge(f"JSON of {len(data)} bytes is over the limit of {max_bytes}")
    try:
        if isinstance(data, bytes):
            text = data.decode("utf-8")
        else:
            text = data
            if not text.isascii() and len(text.encode("utf-8")) > max_bytes:
                raise TooLarge(f"JSON is over the limit of {max_bytes} bytes")
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not JSON: not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError as error:
        raise MalformedJson(f"not JSON: lone surrogate at character {error.start}") from None
    # RFC 8259 8.1: implementations MUST NOT add a byte order mark; a reader may refuse one.
    if text.startswith("\ufeff"):
        raise MalformedJson("not JSON: starts with a byte order mark")
    return text


def check_depth(text: str, max_depth: int = MAX_DEPTH) -> None:
    """Raise MalformedJson if a JSON text has more levels of nesting."""
    # The depth cannot exceed the number of opening brackets; counting them decides the common case quickly.
    if text.count("{") + text.count("[") <= max_depth:
        return
    depth = 0
    for match in _STRUCTURE.finditer(text):
        symbol = match[0]
        if symbol in ("{", "["):
            depth += 1
            if depth > max_depth:
                raise MalformedJson(f"not JSON we accept: nested deeper than {max_depth} levels")
        elif symbol in ("}", "]"):
            depth -= 1


def _build_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Build an object. Raises MalformedJson for a duplicate key."""
    value = dict(pairs)
    if len(value) != len(pairs):
        seen_names: set[str] = set()
        for key, _ in pairs:
            if key in seen_names:
                # RFC 8785 3.1 (I-JSON): names within an object MUST be unique.
                raise MalformedJson(f"not JSON we accept: duplicate key {_quote_key(key)}")
            seen_names.add(key)
    return value


def _parse_integer(digits: str) -> int:
    """Parse an integer. Raises MalformedJson if it exceeds a double."""
    # float() accepts any number of digits, unlike int(), which has a limit.
    if len(digits) >= MAX_INTEGER_DIGITS and (
        len(digits) > MAX_INTEGER_DIGITS + 1 or math.isinf(float(digits))
    ):
        raise MalformedJson(f"not JSON we accept: an integer of {len(digits)} digits")
    return int(digits)


def _parse_float(digits: str) -> float:
    """Parse a float. Raises MalformedJson if it exceeds a double."""
    number = float(digits)
    if math.isinf(number):
        raise MalformedJson("not JSON we accept: a number too large for a double")
    return number


def _refuse_constant(name: str) -> NoReturn:
    """Raise MalformedJson for NaN and infinities."""
    raise MalformedJson(f"not JSON: {name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_float=_parse_float,
    parse_int=_parse_integer,
    parse_constant=_refuse_constant,
)


def _refuse_lone_surrogates(value: Json) -> None:
    """Raise MalformedJson if any text in the value has a lone surrogate."""
    pending: list[Json] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str) and not is_unicode(item):
            raise MalformedJson("not JSON we accept: a string with a lone surrogate")


def is_unicode(text: str) -> bool:
    """Return True if the text has no lone surrogate, so that it can be encoded as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _quote_key(key: str) -> str:
    """Return a key for a message: quoted and shortened."""
    short = key if len(key) <= _QUOTED_KEY_CHARS else key[:_QUOTED_KEY_CHARS] + "…"
    return json.dumps(short)


def dump(value: Json) -> bytes:
    """Write a value as compact UTF-8 in the given order. The value must not contain NaN. Raises InvalidInput."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson supports 64-bit integers only; the slow writer handles larger ones.
        return _dump_slowly(value)


def _dump_slowly(value: Json) -> bytes:
    """Write a value with Python's own writer. Raises InvalidInput."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("the value cannot be written as JSON") from None


def dump_pretty(value: Json) -> str:
    """Write a value like JavaScript's `JSON.stringify(value, null, 2)`; large integers keep their digits.

    Raises InvalidInput.
    """
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode("utf-8")
        except TypeError:
            raise InvalidInput("the value cannot be written as JSON") from None
    try:
        return _write_pretty(value, "\n")
    except RecursionError:
        raise InvalidInput("the value is nested too deeply to be written as JSON") from None


def _write_pretty(value: Json, newline: str) -> str:
    """Write a value with indentation; `newline` includes the current indentation."""
    deeper = newline + "  "
    if isinstance(value, dict) and value:
        members = (
            f"{_write_scalar(key)}: {_write_pretty(member, deeper)}"
            for key, member in value.items()
        )
        return "{" + deeper + ("," + deeper).join(members) + newline + "}"
    if isinstance(value, list | tuple) and value:
        items = (_write_pretty(item, deeper) for item in value)
        return "[" + deeper + ("," + deeper).join(items) + newline + "]"
    return _write_scalar(value)


def _write_scalar(value: Json) -> str:
    """Write a value without indentation; floats as in the canonical form."""
    if type(value) is float:
        return _canonicalize_slowly(value).decode("ascii")
    return dump(value).decode("utf-8")


def canonical(value: Json) -> bytes:
    """Write a value in the JSON Canonicalization Scheme, RFC 8785. Raises InvalidInput if it has no canonical form.

    Integers beyond 2^53 are written as doubles, as RFC 8785 demands.
    """
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            raise InvalidInput("the value has no canonical JSON form") from None
    return _canonicalize_slowly(value)


def _canonicalize_slowly(value: Json) -> bytes:
    """Write the canonical form of any value. Raises InvalidInput."""
    try:
        return rfc8785.dumps(_to_doubles(value))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidInput("the value has no canonical JSON form") from None


def _to_doubles(value: Json) -> Json:
    """Replace integers beyond 2^53 by floats."""
    # RFC 8785 3.2.2.3: numbers are doubles; an integer beyond 2^53 is first rounded to one.
    if isinstance(value, dict):
        return {key: _to_doubles(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_to_doubles(item) for item in value]
    if type(value) is int and not -_SAFE_INTEGER < value < _SAFE_INTEGER:
        return float(value)
    return value


def _is_plain(value: Json) -> bool:
    """Return True if orjson and RFC 8785 certainly write the same; a property test compares them.

    They differ in key order beyond the BMP, in floats that need an exponent or end in `.0`, and beyond 2^53.
    """
    pending: list[Json] = [value]
    pop, extend = pending.pop, pending.extend
    while pending:
        item = pop()
        kind = type(item)
        if kind is str or item is None or kind is bool:
            continue
        if kind is dict:
            for key in item:
                if type(key) is not str or not (key.isascii() or max(key) <= "\uffff"):
                    return False
            extend(item.values())
        elif kind is list or kind is tuple:
            extend(item)
        elif kind is int:
            if not -_SAFE_INTEGER < item < _SAFE_INTEGER:
                return False
        elif kind is not float or not 1e-4 <= abs(item) < 1e15 or item.is_integer():
            return False
    return True
