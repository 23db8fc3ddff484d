"""Command lines as they are usually written, read from the signature of the command.

It knows what leaves no doubt: options by their full names, each with a value in its plainest spelling, flags, and texts
in their order. Of all else it says nothing, and the parser is asked. Both read the same declarations, and a test
compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import Parameter as Declared
from inspect import signature
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from memoranda.cli.commands import Function, Parameter, type_and_words
from memoranda.cli.run import Run

# Before a text that starts with a hyphen.
MARK = "\0"
_WHOLE = re.compile(r"0|[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,17})?")


class _Unusual(Exception):
    """What only the parser can tell."""


class _Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a command takes."""

    # The parameter, and the field of it where the parameter is a class of options.
    of: tuple[str, str | None]
    options: tuple[str, ...]
    negative: str
    # The type of one value; many of them may be given.
    kind: Any
    is_many: bool
    is_required: bool
    is_positional: bool


def usual_call(function: Function, words: Sequence[str], run: Run) -> Callable[[], object] | None:
    """The call that the words ask for, with the run if the command takes one; None if only the parser can tell."""
    declared = signature(function, eval_str=True).parameters
    try:
        slots = [slot for each in declared.values() for slot in _slots(each)]
        said = _read(slots, words)
    except _Unusual:
        return None
    return _bound(function, declared, said, run)


def _slots(declared: Declared) -> list[_Slot]:
    kind, parameter = type_and_words(declared.annotation)
    if not parameter.is_typed:
        return []
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return [
            _slot((declared.name, each.name), *type_and_words(hints[each.name]), is_option=True)
            for each in fields(kind)
        ]
    is_rest = declared.kind is Declared.VAR_POSITIONAL
    return [
        _slot(
            (declared.name, None),
            GenericAlias(tuple, (kind, ...)) if is_rest else kind,
            parameter,
            is_option=declared.kind is not Declared.POSITIONAL_ONLY and not is_rest,
            is_positional=declared.kind is not Declared.KEYWORD_ONLY,
            is_required=declared.default is Declared.empty and not is_rest,
        )
    ]


def _slot(
    of: tuple[str, str | None],
    kind: Any,
    parameter: Parameter,
    *,
    is_option: bool,
    is_positional: bool = False,
    is_required: bool = False,
) -> _Slot:
    if get_origin(kind) in (Union, UnionType):
        kinds = [each for each in get_args(kind) if each is not NoneType]
        if len(kinds) > 1:
            raise _Unusual
        kind = kinds[0]
    is_many = get_origin(kind) is tuple
    if is_many:
        kind, more = get_args(kind)
        if more is not ...:
            raise _Unusual
    said = (parameter.name,) if isinstance(parameter.name, str) else parameter.name
    named = said or ("--" + (of[1] or of[0]).strip("_").replace("_", "-"),)
    return _Slot(
        of=of,
        options=named if is_option else (),
        negative=parameter.negative,
        kind=kind,
        is_many=is_many,
        is_required=is_required,
        is_positional=is_positional,
    )


def _read(slots: Sequence[_Slot], words: Sequence[str]) -> dict[tuple[str, str | None], object]:
    """What the words say for each slot that they speak of."""
    options = {name: slot for slot in slots for name in (*slot.options, slot.negative) if name}
    said: dict[tuple[str, str | None], list[object]] = {}
    texts: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            texts.extend(left)
        elif not word.startswith("-"):
            texts.append(word)
        else:
            name, equals, value = word.partition("=")
            slot = options.get(name)
            if slot is None or (slot.of in said and not slot.is_many) or (slot.kind is bool and equals):
                raise _Unusual
            if slot.kind is bool:
                said[slot.of] = [name != slot.negative]
            else:
                given = value if equals else next(left, "")
                if not given or (given.startswith("-") and not equals):
                    raise _Unusual
                said.setdefault(slot.of, []).append(_value(slot.kind, given))
    _place([slot for slot in slots if slot.is_positional], texts, said)
    if any(slot.is_required and slot.of not in said for slot in slots):
        raise _Unusual
    return {slot.of: tuple(said[slot.of]) if slot.is_many else said[slot.of][0] for slot in slots if slot.of in said}


def _place(slots: Sequence[_Slot], texts: Sequence[str], said: dict[tuple[str, str | None], list[object]]) -> None:
    """Give texts to the slots that have places, in their order; the last may take all that are left."""
    left = list(texts)
    for slot in slots:
        if not left:
            return
        if slot.of in said:
            raise _Unusual
        count = len(left) if slot.is_many else 1
        said[slot.of] = [_value(slot.kind, text) for text in left[:count]]
        del left[:count]
    if left:
        raise _Unusual


def _value(kind: Any, text: str) -> object:
    if kind is str:
        return text.removeprefix(MARK)
    if kind is int and _WHOLE.fullmatch(text):
        return int(text)
    if kind is float and _DECIMAL.fullmatch(text):
        return float(text)
    if kind is Path and text and not text.startswith(MARK):
        return Path(text)
    if get_origin(kind) is Literal and text in get_args(kind):
        return text
    raise _Unusual


def _bound(
    function: Function, declared: Mapping[str, Declared], said: Mapping[tuple[str, str | None], Any], run: Run
) -> Callable[[], object]:
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    for name, each in declared.items():
        kind, parameter = type_and_words(each.annotation)
        if not parameter.is_typed:
            keywords[name] = run
        elif is_dataclass(kind) and isinstance(kind, type):
            keywords[name] = kind(**{field: value for (of, field), value in said.items() if of == name and field})
        elif each.kind is Declared.VAR_POSITIONAL:
            arguments.extend(said.get((name, None), ()))
        elif each.kind is Declared.KEYWORD_ONLY:
            if (name, None) in said:
                keywords[name] = said[name, None]
        else:
            arguments.append(said.get((name, None), each.default))
    return partial(function, *arguments, **keywords)
