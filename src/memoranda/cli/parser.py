"""The parser: from the tokens of a command line to one call of a command.

A command is a function. Its signature declares what it takes: a parameter before `/` is an argument, one behind `*` an
option, `*names` any number of arguments, and a dataclass stands for the options that are its fields. `Annotated` with a
`Parameter` adds names and help. `read_slots` turns a signature into `Slot`s, one for each value; `parse_call` fills
them from tokens. Help, the reference page and completion scripts (`help.py`) read the same slots.

    memoranda recall "which npm?" --limit 3     an option has one value, as `--limit 3` or `--limit=3`
    memoranda list --tag a --tag b              one whose type is a tuple may be repeated
    memoranda export all.ndjson --no-history    a flag has none; some have a negative name
    memoranda remember -- --dash                everything behind `--` is an argument

A text may begin with a hyphen ("- buy milk", "-" for standard input), while a mistyped option must not become a text:
a token that does not look like an option is a text. There is no parsing library, because loading one takes longer than
most commands take to run.

Messages of this module are read by people who mistyped something, so each names what was typed and what is possible.
Values are checked for form and range only; what they mean is checked by the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import Parameter as Declared
from inspect import signature
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from memoranda.cli.run import Function, GlobalOptions, Parameter, WrongUsage, type_and_parameter

_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*(?:=.*)?|--", re.DOTALL)
# At most 18 digits: a longer number is a mistake, and takes long to parse.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,17})?|\.[0-9]{1,17})(?:[eE][+-]?[0-9]{1,3})?"
)
# A parameter, and the field of it where the parameter is a class of options.
Key = tuple[str, str | None]


class ParameterSlot(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a command takes, or a list of values of one option or argument."""

    key: Key
    # The names of the option, the usual one first; none for an argument.
    options: tuple[str, ...]
    # The name that sets a flag to False.
    negative: str
    # The name of an argument in help and messages.
    placeholder: str
    help: str
    # The least and the greatest number that is allowed.
    minimum: float | None
    maximum: float | None
    # Names of fields of requests that it sets.
    fields: tuple[str, ...]
    # The type of one value.
    kind: object
    is_repeatable: bool
    is_required: bool
    is_positional: bool

    @property
    def is_flag(self) -> bool:
        """True for an option without a value."""
        return self.kind is bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that are allowed, if they are listed."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def range(self) -> str:
        """The numbers that are allowed, such as "from 1 to 50"; empty if all are."""
        if self.maximum is None:
            return "" if self.minimum is None else f"at least {self.minimum:g}"
        return f"from {self.minimum or 0:g} to {self.maximum:.15g}"

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.options[0] if self.options else self.placeholder


def is_option(token: str) -> bool:
    """Return True if a token looks like an option or is `--`.

    `-1` and `- milk` are no options.
    """
    return token.startswith("-") and _OPTION.fullmatch(token) is not None


def parse_call(
    function: Function, tokens: Sequence[str], run: GlobalOptions
) -> Callable[[], object]:
    """Return the call of a command with the arguments and options in the tokens behind its name. Raises WrongUsage.

    The call is not made yet, so that `--help` and errors of other options come first.
    """
    parameters = signature(function, eval_str=True).parameters
    values = _fill(_slots_of(parameters), tokens)
    return _bind(function, parameters, values, run)


def read_slots(function: Function) -> list[ParameterSlot]:
    """Return what a command takes, in the order of its signature."""
    return _slots_of(signature(function, eval_str=True).parameters)


def _slots_of(parameters: Mapping[str, Declared]) -> list[ParameterSlot]:
    return [slot for parameter in parameters.values() for slot in _slots_of_parameter(parameter)]


def _slots_of_parameter(declared_parameter: Declared) -> list[ParameterSlot]:
    """Return the slots of a parameter: one, or one for each field of a class of options."""
    kind, parameter = type_and_parameter(declared_parameter.annotation)
    if not parameter.is_typed:
        return []
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return [
            _slot(
                (declared_parameter.name, field.name),
                *type_and_parameter(hints[field.name]),
                has_option=True,
            )
            for field in fields(kind)
        ]
    is_variadic = declared_parameter.kind is Declared.VAR_POSITIONAL
    return [
        _slot(
            (declared_parameter.name, None),
            GenericAlias(tuple, (kind, ...)) if is_variadic else kind,
            parameter,
            has_option=declared_parameter.kind is not Declared.POSITIONAL_ONLY and not is_variadic,
            is_positional=declared_parameter.kind is not Declared.KEYWORD_ONLY,
            is_required=declared_parameter.default is Declared.empty and not is_variadic,
        )
    ]


def _slot(
    key: Key,
    kind: object,
    parameter: Parameter,
    *,
    has_option: bool,
    is_positional: bool = False,
    is_required: bool = False,
) -> ParameterSlot:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = [member for member in get_args(kind) if member is not NoneType]
    is_repeatable = get_origin(kind) is tuple
    if is_repeatable:
        kind, _ = get_args(kind)
    names = (parameter.name,) if isinstance(parameter.name, str) else parameter.name
    name = (key[1] or key[0]).strip("_").replace("_", "-")
    options = (names or (f"--{name}",)) if has_option else ()
    return ParameterSlot(
        key=key,
        options=options,
        negative=parameter.negative,
        placeholder=names[0] if names and not options else name.upper(),
        help=parameter.help,
        minimum=parameter.minimum,
        maximum=parameter.maximum,
        fields=parameter.fields,
        kind=kind,
        is_repeatable=is_repeatable,
        is_required=is_required,
        is_positional=is_positional,
    )


def _fill(slots: Sequence[ParameterSlot], tokens: Sequence[str]) -> dict[Key, object]:
    """Return one value for each slot that the tokens mention."""
    options = {name: slot for slot in slots for name in (*slot.options, slot.negative) if name}
    values: dict[Key, list[object]] = {}
    arguments: list[str] = []
    remaining = iter(tokens)
    for word in remaining:
        if word == "--":
            arguments.extend(remaining)
        elif not is_option(word):
            arguments.append(word)
        else:
            name, equals, text = word.partition("=")
            slot = options.get(name)
            if slot is None:
                raise WrongUsage(unknown("option", name, options))
            if slot.is_flag:
                if equals:
                    raise WrongUsage(f"{name} takes no value.")
                value: object = name != slot.negative
            else:
                value = _read_value(
                    slot, name, text if equals else next(remaining, None), is_attached=bool(equals)
                )
            if slot.key in values and not slot.is_repeatable:
                raise WrongUsage(f"{name} is given twice.")
            values.setdefault(slot.key, []).append(value)
    _fill_arguments([slot for slot in slots if slot.is_positional], arguments, values)
    for slot in slots:
        if slot.is_required and slot.key not in values:
            kind = "option" if slot.options and not slot.is_positional else "argument"
            raise WrongUsage(f"The {kind} {slot.label} is missing.")
    by_key = {slot.key: slot for slot in slots}
    return {
        key: tuple(parts) if by_key[key].is_repeatable else parts[0]
        for key, parts in values.items()
    }


def _fill_arguments(
    slots: Sequence[ParameterSlot], arguments: Sequence[str], values: dict[Key, list[object]]
) -> None:
    """Give arguments to their slots in order; the last may take all that remain."""
    remaining = list(arguments)
    for slot in slots:
        if not remaining:
            return
        if slot.key in values:
            raise WrongUsage(f"{slot.label} is given twice: as an option and as an argument.")
        count = len(remaining) if slot.is_repeatable else 1
        values[slot.key] = [_convert(slot, slot.placeholder, text) for text in remaining[:count]]
        del remaining[:count]
    if remaining:
        raise WrongUsage(
            f"There is no argument for {remaining[0]!r}. A text of several words needs quotes."
        )


def _read_value(slot: ParameterSlot, name: str, text: str | None, *, is_attached: bool) -> object:
    """Return the value of an option; `is_attached` if it stood behind `=`. Raises WrongUsage."""
    if text is None or (is_option(text) and not is_attached):
        raise WrongUsage(f"{name} needs a value.")
    return _convert(slot, name, text)


def _convert(slot: ParameterSlot, name: str, text: str) -> object:
    """Return the value of a text. Raises WrongUsage."""
    kind = slot.kind
    if kind is str:
        return text
    if kind is Path and text:
        return Path(text)
    if kind is int:
        if _INTEGER.fullmatch(text):
            return _check_range(slot, name, int(text))
        raise WrongUsage(f"{name} must be a whole number, not {text!r}.")
    if kind is float:
        if _DECIMAL.fullmatch(text):
            return _check_range(slot, name, float(text))
        raise WrongUsage(f"{name} must be a number, not {text!r}.")
    if text in slot.choices:
        return text
    if slot.choices:
        raise WrongUsage(f"{name} must be one of {', '.join(slot.choices)}, not {text!r}.")
    raise WrongUsage(f"{name} must not be empty.")


def _check_range(slot: ParameterSlot, name: str, number: float) -> float:
    """Return a number that is allowed. Raises WrongUsage."""
    is_low = slot.minimum is not None and number < slot.minimum
    if is_low or (slot.maximum is not None and number > slot.maximum):
        raise WrongUsage(f"{name} must be {slot.range}, not {number:.15g}.")
    return number


def unknown(kind: str, name: str, names: Collection[str]) -> str:
    """Return the message for an unknown name, with the most similar known name.

    `kind` is a noun such as "command" or "option".
    """
    # Only errors need it.
    from difflib import get_close_matches

    nearest = get_close_matches(name, names, n=1)
    hint = f' Did you mean "{nearest[0]}"?' if nearest else ""
    return f"Unknown {kind}: {name}.{hint}"


def _bind(
    function: Function,
    declarations: Mapping[str, Declared],
    values: Mapping[Key, Any],
    run: GlobalOptions,
) -> Callable[[], object]:
    """Return the call of a function with the values by its parameters, and with the run."""
    arguments: list[object] = []
    keywords: dict[str, object] = {}
    for name, parameter in declarations.items():
        kind, described = type_and_parameter(parameter.annotation)
        if not described.is_typed:
            keywords[name] = run
        elif is_dataclass(kind) and isinstance(kind, type):
            members = {
                field: value for (owner, field), value in values.items() if owner == name and field
            }
            if members:
                keywords[name] = kind(**members)
        elif parameter.kind is Declared.VAR_POSITIONAL:
            arguments.extend(values.get((name, None), ()))
        elif parameter.kind is Declared.KEYWORD_ONLY:
            if (name, None) in values:
                keywords[name] = values[name, None]
        else:
            arguments.append(values.get((name, None), parameter.default))
    return partial(function, *arguments, **keywords)
