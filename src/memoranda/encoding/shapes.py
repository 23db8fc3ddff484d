"""Shapes: requests declared once, parsed strictly, and described as JSON Schema.

A shape is a msgspec structure. Its fields declare their limits and descriptions. Two functions use this declaration:

    parse      the parser: unknown fields, wrong types and broken limits raise InvalidInput that names the field
    schema     the JSON Schema (2020-12) of the shape, for the OpenAPI document and for the tools of models

`json_text` parses the text first and refuses ambiguous JSON. A type that msgspec does not support parses itself: it has
`from_json`, `SCHEMA` and `EXPECTED`. A field that another shape documents is marked with `Meta(extra={"shape":
Other})`; `{"expected": "a phrase"}` replaces our description of valid values in errors.

A class declares a request once, and everything else follows from it: parsing, messages of errors, JSON Schema for
OpenAPI and for tools. To add a request, write such a class in `standards/<standard>/requests.py`; limits and
descriptions are annotations of its fields. Messages name the field in JSON (`filter.tags[2]`), what was expected, and
never the value, which may be private.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta, ValidationError

from memoranda.encoding.json_text import is_unicode
from memoranda.errors import InvalidInput

Schema = dict[str, Any]
T = TypeVar("T")

_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
_KEY_PATH: Final = re.compile(r" - at `key` in `\$(.*)`\Z")
_UNKNOWN, _MISSING = "Object contains unknown field `", "Object missing required field `"
# Characters of a name in a message.
_QUOTED_CHARS: Final = 40
# Numbers written like 8.0 in one request; requests have fewer integers.
_WHOLE_NUMBERS_LIMIT: Final = 32
# Digits; no count or position has more.
_MAX_DIGITS: Final = 18
_ABSENT: Final = object()


if TYPE_CHECKING:
    from msgspec.inspect import Type as TypeInfo

    # The declaration for type checkers of the class below.
    @dataclass_transform(
        kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,)
    )
    class _StructBase:
        __struct_fields__: ClassVar[tuple[str, ...]]
        __struct_encode_fields__: ClassVar[tuple[str, ...]]

        def __init_subclass__(cls, **options: Any) -> None: ...

else:

    class _Frozen(StructMeta):
        def __new__(cls, *args, **options):
            return super().__new__(cls, *args, **{"frozen": True, "kw_only": True, **options})

    class _StructBase(Struct, metaclass=_Frozen):
        pass


class Shape(_StructBase, forbid_unknown_fields=True):
    """A request, or a part of one."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parse a JSON value. Raises InvalidInput.

        Floats with a whole value, such as 8.0, are accepted for integers, because some clients write all numbers so.
        """
        return parse_value(value, cls)

    @classmethod
    def parse_texts(cls, fields: dict[str, Any]) -> Self:
        """Parse fields whose values are all text, as in a query string. Raises InvalidInput.

        For query strings, in which every value is a text.
        """
        kinds = _scalar_kinds(cast("Any", cls))
        return cls.parse(
            {name: _convert_text(text, kinds.get(name)) for name, text in fields.items()}
        )

    def replace_fields(self, **changes: Any) -> Self:
        """Return a copy with other values."""
        copy: Self = msgspec.structs.replace(cast("Any", self), **changes)
        return copy


@lru_cache(maxsize=256)
def _scalar_kinds(shape: Any) -> dict[str, type]:
    """Return the type of each field that is a number or a flag."""
    kinds: dict[str, type] = {}
    for field in _struct_in(msgspec.inspect.type_info(shape)).fields:
        for part in _iter_parts(field.type):
            if isinstance(part, msgspec.inspect.BoolType):
                kinds[field.encode_name] = bool
            elif isinstance(part, msgspec.inspect.IntType) or issubclass(
                getattr(part, "cls", object), int
            ):
                kinds[field.encode_name] = int
    return kinds


def _convert_text(text: Any, kind: type | None) -> Any:
    """Convert a text to a number or flag. A malformed one stays text, which the parser then refuses."""
    if not isinstance(text, str):
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    is_whole = kind is int and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_whole else text


def parse_value(value: object, kind: type[T]) -> T:
    """Convert a JSON value to its declared type. Raises InvalidInput with the field and the expected value."""
    for _ in range(_WHOLE_NUMBERS_LIMIT):
        try:
            return msgspec.convert(value, kind, strict=True, dec_hook=_read_custom)
        except ValidationError as error:
            if (key_path := _KEY_PATH.search(str(error))) is not None:
                raise InvalidInput(_describe_keys(key_path[1], kind)) from None
            text, _, path = str(error).rpartition(" - at `$")
            steps = _split_path(path) if text else []
            if (
                "got `float`" in str(error)
                and (corrected := _with_integer(value, steps)) is not _ABSENT
            ):
                # JSON has one kind of number, and some clients write 8 as 8.0.
                value = corrected
                continue
            raise InvalidInput(_translate_error(text or str(error), steps, kind)) from None
        except UnicodeEncodeError:
            raise InvalidInput(f"{find_surrogate(value)} has a lone surrogate") from None
    raise InvalidInput("the request has too many numbers with a decimal point")


def find_surrogate(value: object, path: str = "") -> str:
    """Return the path of the first text with a lone surrogate, which UTF-8 cannot hold; empty if there is none."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if position := find_surrogate(item, f"{path}.{name}".removeprefix(".")):
                return position
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if position := find_surrogate(item, f"{path}[{index}]"):
                return position
    elif isinstance(value, str) and not is_unicode(value):
        return path or "the request"
    return ""


def to_json(value: Any) -> Any:
    """Return a request, or a part of one, as the JSON that `parse` accepts. Unset fields are absent."""
    if isinstance(value, Struct):
        fields = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        members = ((name, getattr(value, field)) for name, field in fields)
        return {
            name: to_json(item)
            for name, item in members
            if item is not None and item is not msgspec.UNSET
        }
    if hasattr(type(value), "to_json"):
        return value.to_json()
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a shape, or of a typed dictionary, in JSON."""
    declared_names: tuple[str, ...] | None = getattr(kind, "__struct_encode_fields__", None)
    return tuple(kind.__annotations__) if declared_names is None else declared_names


def check_field_names(value: dict[str, Any], field_names: Sequence[str], location: str) -> None:
    """Raise InvalidInput for an unknown name, because ignoring a misspelt filter would return too much."""
    for name in value:
        if name not in field_names:
            raise InvalidInput(_unknown_field(name, field_names, location))


def _unknown_field(name: str, field_names: Sequence[str], location: str) -> str:
    """Return the message about an unknown field."""
    expected = ", ".join(field_names) or "none"
    return f"{location} has an unknown field {name[:_QUOTED_CHARS]!a}; the fields are {expected}"


class Custom(ABC):
    """A type that parses itself, or that stands for another one (`register`)."""

    SCHEMA: ClassVar[Schema]
    EXPECTED: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, value: object) -> Any:
        """Parse a JSON value. Raises ValueError with the expected value, or InvalidInput."""


def _as_custom(kind: type) -> type[Custom]:
    """Cast a type that msgspec reports as custom."""
    return cast("type[Custom]", kind)


def _read_custom(kind: type, value: object) -> object:
    """Parse a value of a custom type, for msgspec."""
    return _as_custom(kind).from_json(value)


# --- what was wrong ----------------------------------------------------------------------------------------


def _split_path(path: str) -> list[str | int | None]:
    """Split a path of msgspec into names, indexes, and None for a name that it omits."""
    steps: list[str | int | None] = []
    for match in _STEP.finditer(path.removesuffix("`")):
        name, index = match.groups()
        steps.append(name or (None if index is None else int(index)))
    return steps


def _format_path(steps: Sequence[str | int | None]) -> str:
    """Format a path for a message."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step or '…'}"
    return path.removeprefix(".")


def _translate_error(text: str, steps: list[str | int | None], kind: type) -> str:
    """Translate an error of msgspec into a message with the field and the expected value."""
    path = _format_path(steps)
    if text.startswith(_MISSING):
        return f"{_format_path([*steps, text.removeprefix(_MISSING)[:-1]])} is required"
    info = _type_at(_inspect_type(kind), steps)
    if text.startswith(_UNKNOWN):
        field_names = [field.encode_name for field in _struct_in(info).fields]
        return _unknown_field(text.removeprefix(_UNKNOWN)[:-1], field_names, path or "the request")
    if text.startswith("must "):
        return f"{path} {text}"
    return f"{path or 'the request'} must be {_describe_type(info)}"


def _describe_keys(path: str, kind: type) -> str:
    """Return the message about a name in an object whose names are not fields but listed values."""
    steps = _split_path(path)
    names = _find_part(_type_at(_inspect_type(kind), steps), msgspec.inspect.DictType).key_type
    return f"each name in {_format_path(steps)} must be {_describe_type(names)}"


@lru_cache(maxsize=256)
def _inspect_type(kind: type) -> TypeInfo:
    """Return the type information of a shape."""
    # Cached, because inspecting the declarations takes longer than a request.
    return msgspec.inspect.type_info(kind)


def _type_at(info: TypeInfo, steps: list[str | int | None]) -> TypeInfo:
    """Return the type information of the value at a path."""
    inspect = msgspec.inspect
    for step in steps:
        if isinstance(step, str):
            info = next(
                field.type for field in _struct_in(info).fields if field.encode_name == step
            )
        elif step is None:
            info = _find_part(info, inspect.DictType).value_type
        else:
            arrays = inspect.ListType | inspect.VarTupleType
            info = next(part for part in _iter_parts(info) if isinstance(part, arrays)).item_type
    return info


def _struct_in(info: TypeInfo) -> msgspec.inspect.StructType:
    """Return the structure within an optional or annotated type."""
    return _find_part(info, msgspec.inspect.StructType)


def _find_part(info: TypeInfo, kind: type[T]) -> T:
    """Return the first part of a type that is of a kind."""
    return next(part for part in _iter_parts(info) if isinstance(part, kind))


def _iter_parts(info: TypeInfo) -> Iterator[TypeInfo]:
    """Yield the types that a union or annotation consists of."""
    inner = _unwrap_annotation(info)
    if isinstance(inner, msgspec.inspect.UnionType):
        for option in inner.types:
            yield from _iter_parts(option)
    else:
        yield inner


def _unwrap_annotation(info: TypeInfo) -> TypeInfo:
    """Return a type without its annotations."""
    return info.type if isinstance(info, msgspec.inspect.Metadata) else info


def _describe_type(info: TypeInfo) -> str:
    """Describe the valid values of a type for a message."""
    inspect = msgspec.inspect
    if isinstance(info, inspect.Metadata):
        return (info.extra or {}).get("expected") or _describe_type(info.type)
    match info:
        case inspect.UnionType():
            nothing = inspect.NoneType
            return " or ".join(
                _describe_type(part)
                for part in info.types
                if not isinstance(_unwrap_annotation(part), nothing)
            )
        case inspect.LiteralType():
            return f"one of {'|'.join(map(str, info.values))}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_describe_range(info.ge, info.le)}"
        case inspect.FloatType():
            return f"a number{_describe_range(info.ge, info.le)}"
        case inspect.StrType():
            minimum, maximum = info.min_length or 0, info.max_length
            limit = "" if maximum is None else f" of at most {maximum} characters"
            return f"a {'non-empty ' if minimum else ''}string{limit}"
        case inspect.ListType() | inspect.VarTupleType():
            minimum, maximum = info.min_length or 0, info.max_length
            limit = ""
            if maximum is not None:
                limit = (
                    f" of {minimum} to {maximum} items"
                    if minimum
                    else f" of at most {maximum} items"
                )
            return f"an array{limit}, each {_describe_type(info.item_type)}"
        case inspect.CustomType(cls=custom):
            return _as_custom(custom).EXPECTED
    return "an object"


def _describe_range(low: float | None, high: float | None) -> str:
    """Describe a range."""
    if high is None:
        return "" if low is None else f" of at least {low}"
    return f" from {low} to {high}"


def _with_integer(value: Any, steps: list[str | int | None]) -> Any:
    """Return a copy of the value with an integer in place of a float such as 8.0, or _ABSENT."""
    if not steps:
        return int(value) if isinstance(value, float) and value.is_integer() else _ABSENT
    if steps[0] is None:
        return _ABSENT
    inner = _with_integer(value[steps[0]], steps[1:])
    if inner is _ABSENT:
        return _ABSENT
    copy = value.copy()
    copy[steps[0]] = inner
    return copy


# --- JSON Schema -------------------------------------------------------------------------------------------


def schema(kind: Any, *, nulls: bool = True) -> Schema:
    """Return the complete JSON Schema of a shape. With `nulls`, optional fields also accept null.

    `nulls` is set for clients that send null for what they leave out.
    """
    return _build_schema(msgspec.inspect.type_info(kind), nulls)


def _build_schema(info: TypeInfo, nulls: bool) -> Schema:
    """Return the JSON Schema of a type."""
    inspect = msgspec.inspect
    match info:
        case inspect.Metadata():
            other = (info.extra or {}).get("shape")
            inner = _build_schema(info.type, nulls) if other is None else schema(other, nulls=nulls)
            merged_schema = {**inner, **(info.extra_json_schema or {})}
            # A member that is None in `extra_json_schema` is removed from the schema.
            return {name: value for name, value in merged_schema.items() if value is not None}
        case inspect.UnionType():
            return _union_schema(info, nulls)
        case inspect.StructType() | inspect.TypedDictType():
            return _object_schema(info, nulls)
        case inspect.ListType() | inspect.VarTupleType():
            array: Schema = {"type": "array", "items": _build_schema(info.item_type, nulls)}
            return _add_limits(array, info, minItems="min_length", maxItems="max_length")
        case inspect.DictType():
            inner = _build_schema(info.value_type, nulls)
            return {"type": "object", **({"additionalProperties": inner} if inner else {})}
        case inspect.LiteralType():
            return _literal_schema(info.values)
        case inspect.CustomType(cls=custom):
            return dict(_as_custom(custom).SCHEMA)
        case inspect.StrType():
            return _add_limits(
                {"type": "string"},
                info,
                minLength="min_length",
                maxLength="max_length",
                pattern="pattern",
            )
        case inspect.IntType():
            return _add_limits({"type": "integer"}, info, minimum="ge", maximum="le")
        case inspect.FloatType():
            return _add_limits({"type": "number"}, info, minimum="ge", maximum="le")
        case inspect.BoolType():
            return {"type": "boolean"}
    return {}


def _add_limits(schema: Schema, info: TypeInfo, **limits: str) -> Schema:
    """Add the limits that the type declares to a schema."""
    declared_limits = {name: getattr(info, attribute) for name, attribute in limits.items()}
    return {
        **schema,
        **{name: limit for name, limit in declared_limits.items() if limit is not None},
    }


def _literal_schema(values: Sequence[object]) -> Schema:
    """Return the schema of fixed values."""
    return {"const": values[0]} if len(values) == 1 else {"type": "string", "enum": list(values)}


def _union_schema(info: msgspec.inspect.UnionType, nulls: bool) -> Schema:
    """Return the schema of a union."""
    inspect = msgspec.inspect
    parts = [part for part in info.types if not isinstance(part, inspect.NoneType)]
    has_null = nulls and any(isinstance(part, inspect.NoneType) for part in info.types)
    options = [_build_schema(part, nulls) for part in parts]
    if len(options) > 1:
        return {"anyOf": [*options, *([{"type": "null"}] if has_null else [])]}
    only = options[0]
    if has_null and isinstance(only.get("type"), str):
        only = {**only, "type": [only["type"], "null"]}
        if "enum" in only:
            only["enum"] = [*only["enum"], None]
    return only


def _object_schema(
    info: msgspec.inspect.StructType | msgspec.inspect.TypedDictType, nulls: bool
) -> Schema:
    """Return the schema of a shape or a typed dictionary."""
    properties: Schema = {}
    for field in info.fields:
        described = _build_schema(field.type, nulls)
        if isinstance(default := getattr(field, "default", None), str | int | float):
            described = {**described, "default": default}
        properties[field.encode_name] = described
    schema_object: Schema = {
        "type": "object",
        "description": info.cls.__doc__,
        "properties": properties,
    }
    if required := [field.encode_name for field in info.fields if field.required]:
        schema_object["required"] = required
    if getattr(info, "forbid_unknown_fields", True):
        schema_object["additionalProperties"] = False
    return schema_object


# --- JSON Schema by hand: of what is only given, never read -------------------------------------------------

TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1024}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FRACTION: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
OBJECT: Final[Schema] = {"type": "object"}


def described(schema: Schema, description: str) -> Schema:
    """Add a description to a schema."""
    return {**schema, "description": description}


def nullable(schema: Schema) -> Schema:
    """Return the schema that also accepts null."""
    return {**schema, "type": [schema["type"], "null"]}


def one_of(values: Sequence[str]) -> Schema:
    """Return the schema of one of these texts."""
    return {"type": "string", "enum": list(values)}


def array_of(item: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": item}


def ref(name: str) -> Schema:
    """Return a reference to another schema of the same document."""
    return {"$ref": f"#/components/schemas/{name}"}


def open_object(required: str, /, **properties: Schema) -> Schema:
    """Return the schema of an object with these properties and possibly others. `required` is separated by spaces."""
    shape: Schema = {"type": "object", "properties": properties}
    return {**shape, "required": required.split()} if required else shape


def closed_object(required: str, /, **properties: Schema) -> Schema:
    """Return the schema of an object with these properties only. `required` is separated by spaces."""
    return {**open_object(required, **properties), "additionalProperties": False}
