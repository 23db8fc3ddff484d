"""JSON text: a strict reader, two writers and the canonical form of RFC 8785.

The reader refuses whatever two programs might understand differently — duplicate keys, NaN, numbers
outside a double, lone surrogates, a byte order mark — because what is read here is signed, hashed and
passed on. Limits are checked before the parser runs, so that no input can exhaust the stack.
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

# A memory is a thought, not a file: the largest record we accept, and so the largest request, in bytes.
MAX_BYTES: Final = 1_048_576
# Deeper nesting than people write; shallow enough for every recursive writer downstream.
MAX_DEPTH: Final = 64
# 10^308 is the largest power of ten in a double; a longer integer has no canonical form (RFC 8785 3.2.2.3).
MAX_INTEGER_DIGITS: Final = 309

_SAFE_INTEGER: Final = 2**53
_SHOWN_KEY_CHARS: Final = 40

# One token per match: a string (closed or not, so that no quote is scanned twice), or a bracket.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse(data: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Read one JSON value. Raises MalformedJson or TooLarge, and nothing else."""
    if isinstance(data, bytes) and len(data) <= max_bytes and data.count(b"{") + data.count(b"[") <= max_depth:
        value = _as_spelt(data)
        if value is not None:
            return value
    text = _decode(data, max_bytes)
    check_depth(text, max_depth)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise MalformedJson(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise MalformedJson("not JSON: nested too deeply") from None
    # An escaped surrogate is rare; only then is the walk worth its cost.
    if _SURROGATE_ESCAPE.search(text) is not None:
        _refuse_lone_surrogates(value)
    return value


def _as_spelt(data: bytes) -> Json | None:
    """The value of what our writer, or that of Python, would spell just so, as most clients do: then no key is in it
    twice, and no number or text could be understood differently. None for everything else.
    """
    try:
        value = orjson.loads(data)
        spelt = json.dumps(value).encode() if b'": ' in data else orjson.dumps(value)
    except (orjson.JSONDecodeError, TypeError):
        return None
    return value if spelt == data else None


def _decode(data: bytes | str, max_bytes: int) -> str:
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
    """Refuse a JSON text with more levels. Raises MalformedJson."""
    # No document is deeper than it has opening brackets: two scans in C settle the common case.
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


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                # RFC 8785 3.1 (I-JSON): names within an object MUST be unique.
                raise MalformedJson(f"not JSON we accept: duplicate key {_shown(key)}")
            seen.add(key)
    return value


def _integer(digits: str) -> int:
    # float() reads any number of digits and never trips over Python's own digit limit.
    if len(digits) >= MAX_INTEGER_DIGITS and (len(digits) > MAX_INTEGER_DIGITS + 1 or math.isinf(float(digits))):
        raise MalformedJson(f"not JSON we accept: an integer of {len(digits)} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise MalformedJson("not JSON we accept: a number too large for a double")
    return number


def _constant(name: str) -> NoReturn:
    raise MalformedJson(f"not JSON: {name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_int=_integer, parse_constant=_constant)


def _refuse_lone_surrogates(value: Json) -> None:
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
    """Whether the text has no lone surrogate, and so can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(key: str) -> str:
    short = key if len(key) <= _SHOWN_KEY_CHARS else key[:_SHOWN_KEY_CHARS] + "…"
    return json.dumps(short)


def dump(value: Json) -> bytes:
    """Compact UTF-8 in the order given. NaN has no JSON form; do not pass it."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson stops at 64-bit integers; what is left is slow but right, or not JSON at all.
        return _dump_slowly(value)


def _dump_slowly(value: Json) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("the value cannot be written as JSON") from None


def dump_pretty(value: Json) -> str:
    """What JavaScript's `JSON.stringify(value, null, 2)` writes; large integers keep their digits."""
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode("utf-8")
        except TypeError:
            raise InvalidInput("the value cannot be written as JSON") from None
    try:
        return _pretty(value, "\n")
    except RecursionError:
        raise InvalidInput("the value is nested too deeply to be written as JSON") from None


def _pretty(value: Json, newline: str) -> str:
    deeper = newline + "  "
    if isinstance(value, dict) and value:
        members = (f"{_scalar(key)}: {_pretty(member, deeper)}" for key, member in value.items())
        return "{" + deeper + ("," + deeper).join(members) + newline + "}"
    if isinstance(value, list | tuple) and value:
        return "[" + deeper + ("," + deeper).join(_pretty(item, deeper) for item in value) + newline + "]"
    return _scalar(value)


def _scalar(value: Json) -> str:
    if type(value) is float:
        return _canonical_slowly(value).decode("ascii")
    return dump(value).decode("utf-8")


def canonical(value: Json) -> bytes:
    """The JSON Canonicalization Scheme, RFC 8785. Raises InvalidInput for what has no canonical form."""
    if _is_plain(value):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            raise InvalidInput("the value has no canonical JSON form") from None
    return _canonical_slowly(value)


def _canonical_slowly(value: Json) -> bytes:
    try:
        return rfc8785.dumps(_doubles(value))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidInput("the value has no canonical JSON form") from None


def _doubles(value: Json) -> Json:
    # RFC 8785 3.2.2.3: numbers are doubles; an integer beyond 2^53 is rounded to one first.
    if isinstance(value, dict):
        return {key: _doubles(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_doubles(item) for item in value]
    if type(value) is int and not -_SAFE_INTEGER < value < _SAFE_INTEGER:
        return float(value)
    return value


def _is_plain(value: Json) -> bool:
    """Whether orjson and RFC 8785 provably write the same: see the property test that compares them.

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
