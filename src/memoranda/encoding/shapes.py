"""Shapes: what a request may say, declared once; read strictly, and described as JSON Schema.

A shape is a msgspec structure. Its fields carry their limits and their descriptions, and from this one declaration come

    parse      the reader: unknown fields, wrong types and broken limits raise InvalidInput that names the field
    schema     the JSON Schema (2020-12) of it, for the OpenAPI document and for the tools of models

Text is parsed by `json_text` first, which refuses what two programs might understand differently. What msgspec does not
know reads itself: a type with `from_json`, `SCHEMA` and `EXPECTED`. A field that is documented by another shape than it
is read by says so: `Meta(extra={"shape": Other})`; `{"expected": "a phrase"}` replaces our words for what is allowed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import Struct, StructMeta, ValidationError

from memoranda.errors import InvalidInput

Schema = dict[str, Any]
T = TypeVar("T")

_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN, _MISSING = "Object contains unknown field `", "Object missing required field `"
_SHOWN_CHARS: Final = 40
# More numbers written as 8.0 than a request has whole numbers.
_WHOLE_NUMBERS_LIMIT: Final = 32
# More digits than any count or place has.
_MAX_DIGITS: Final = 18
_ABSENT: Final = object()


if TYPE_CHECKING:
    # What the class below does at run time, in words that a type checker knows.
    @dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
    class _Declared:
        __struct_fields__: ClassVar[tuple[str, ...]]
        __struct_encode_fields__: ClassVar[tuple[str, ...]]

        def __init_subclass__(cls, **options: Any) -> None: ...

else:

    class _Frozen(StructMeta):
        def __new__(cls, *args, **options):
            return super().__new__(cls, *args, **{"frozen": True, "kw_only": True, **options})

    class _Declared(Struct, metaclass=_Frozen):
        pass


class Shape(_Declared, forbid_unknown_fields=True):
    """A request, or a part of one."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read it from a JSON value. Raises InvalidInput."""
        return read(value, cls)

    @classmethod
    def parse_texts(cls, fields: dict[str, Any]) -> Self:
        """Read it where all values are text, as in a query string. Raises InvalidInput."""
        kinds = _kinds(cast("Any", cls))
        return cls.parse({name: _from_text(text, kinds.get(name)) for name, text in fields.items()})

    def replaced(self, **changes: Any) -> Self:
        """The same with other values."""
        changed: Self = msgspec.structs.replace(cast("Any", self), **changes)
        return changed


@lru_cache(maxsize=256)
def _kinds(shape: Any) -> dict[str, type]:
    """The fields that are numbers or flags."""
    found: dict[str, type] = {}
    for field in _struct_in(msgspec.inspect.type_info(shape)).fields:
        for part in _parts(field.type):
            if isinstance(part, msgspec.inspect.BoolType):
                found[field.encode_name] = bool
            elif isinstance(part, msgspec.inspect.IntType) or issubclass(getattr(part, "cls", object), int):
                found[field.encode_name] = int
    return found


def _from_text(text: Any, kind: type | None) -> Any:
    """What a text says; one that is no such value stays as it is, and is refused as that."""
    if not isinstance(text, str):
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    is_whole = kind is int and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_whole else text


def read(value: object, kind: type[T]) -> T:
    """A JSON value as what it is declared to be. Raises InvalidInput that names the field and what was expected."""
    for _ in range(_WHOLE_NUMBERS_LIMIT):
        try:
            return msgspec.convert(value, kind, strict=True, dec_hook=_read_custom)
        except ValidationError as error:
            text, _, path = str(error).rpartition(" - at `$")
            steps = _steps(path) if text else []
            if "got `float`" in str(error) and (mended := _with_whole(value, steps)) is not _ABSENT:
                # JSON has one kind of number; some clients write 8 as 8.0.
                value = mended
                continue
            raise InvalidInput(_sentence(text or str(error), steps, kind)) from None
    raise InvalidInput("the request has too many numbers with a decimal point")


def written(value: Any) -> Any:
    """A request, or a part of one, as it is written: `parse` reads the same from it. What was not said is left out."""
    if isinstance(value, Struct):
        fields = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        said = ((name, getattr(value, field)) for name, field in fields)
        return {name: written(each) for name, each in said if each is not None and each is not msgspec.UNSET}
    if hasattr(type(value), "to_json"):
        return value.to_json()
    return [written(each) for each in value] if isinstance(value, list | tuple) else value


def fields_of(kind: type) -> tuple[str, ...]:
    """The names of the fields of a shape, or of a typed dictionary, as they are written."""
    declared: tuple[str, ...] | None = getattr(kind, "__struct_encode_fields__", None)
    return tuple(kind.__annotations__) if declared is None else declared


def check_known(value: dict[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse a name that would be silently ignored: a misspelt filter widens the answer."""
    for name in value:
        if name not in known:
            raise InvalidInput(_unknown(name, known, where))


def _unknown(name: str, known: Sequence[str], where: str) -> str:
    return f"{where} has an unknown field {name[:_SHOWN_CHARS]!a}; there are {', '.join(known) or 'none'}"


class Custom(ABC):
    """A type that reads itself, or that stands for another one (`register`)."""

    SCHEMA: ClassVar[Schema]
    EXPECTED: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, value: object) -> Any:
        """Raises ValueError with what it must be, or InvalidInput."""


def _custom(kind: type) -> type[Custom]:
    return cast("type[Custom]", kind)


def _read_custom(kind: type, value: object) -> object:
    return _custom(kind).from_json(value)


# --- what was wrong ----------------------------------------------------------------------------------------


def _steps(path: str) -> list[str | int | None]:
    """Names, indexes, and None for a name that is not told."""
    matches = _STEP.finditer(path.removesuffix("`"))
    return [match[1] or (None if match[2] is None else int(match[2])) for match in matches]


def _place(steps: Sequence[str | int | None]) -> str:
    place = ""
    for step in steps:
        place += f"[{step}]" if isinstance(step, int) else f".{step or '…'}"
    return place.removeprefix(".")


def _sentence(text: str, steps: list[str | int | None], kind: type) -> str:
    place = _place(steps)
    if text.startswith(_MISSING):
        return f"{_place([*steps, text.removeprefix(_MISSING)[:-1]])} is required"
    found = _at(_declared(kind), steps)
    if text.startswith(_UNKNOWN):
        known = [field.encode_name for field in _struct_in(found).fields]
        return _unknown(text.removeprefix(_UNKNOWN)[:-1], known, place or "the request")
    if text.startswith("must "):
        return f"{place} {text}"
    return f"{place or 'the request'} must be {_expected(found)}"


@lru_cache(maxsize=256)
def _declared(kind: type) -> Any:
    # Read from the declarations once: it takes longer than to answer a request.
    return msgspec.inspect.type_info(kind)


def _at(info: Any, steps: list[str | int | None]) -> Any:
    """The type of what stands there."""
    inspect = msgspec.inspect
    for step in steps:
        if isinstance(step, str):
            info = next(field.type for field in _struct_in(info).fields if field.encode_name == step)
        elif step is None:
            info = _part(info, inspect.DictType).value_type
        else:
            info = _part(info, inspect.ListType, inspect.VarTupleType).item_type
    return info


def _struct_in(info: Any) -> Any:
    return _part(info, msgspec.inspect.StructType)


def _part(info: Any, *kinds: type) -> Any:
    return next(part for part in _parts(info) if isinstance(part, kinds))


def _parts(info: Any) -> Iterator[Any]:
    inner = _bare(info)
    if isinstance(inner, msgspec.inspect.UnionType):
        for option in inner.types:
            yield from _parts(option)
    else:
        yield inner


def _bare(info: Any) -> Any:
    return info.type if isinstance(info, msgspec.inspect.Metadata) else info


def _expected(info: Any) -> str:
    inspect = msgspec.inspect
    if isinstance(info, inspect.Metadata):
        return (info.extra or {}).get("expected") or _expected(info.type)
    match info:
        case inspect.UnionType():
            nothing = inspect.NoneType
            return " or ".join(_expected(part) for part in info.types if not isinstance(_bare(part), nothing))
        case inspect.LiteralType():
            return f"one of {'|'.join(map(str, info.values))}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_between(info.ge, info.le)}"
        case inspect.FloatType():
            return f"a number{_between(info.ge, info.le)}"
        case inspect.StrType():
            least, most = info.min_length or 0, info.max_length
            limit = "" if most is None else f" of at most {most} characters"
            return f"a {'non-empty ' if least else ''}string{limit}"
        case inspect.ListType() | inspect.VarTupleType():
            least, most = info.min_length or 0, info.max_length
            limit = "" if most is None else f" of {least} to {most} items" if least else f" of at most {most} items"
            return f"an array{limit}, each {_expected(info.item_type)}"
        case inspect.CustomType(cls=custom):
            return _custom(custom).EXPECTED
    return "an object"


def _between(low: float | None, high: float | None) -> str:
    if high is None:
        return "" if low is None else f" of at least {low}"
    return f" from {low} to {high}"


def _with_whole(value: Any, steps: list[str | int | None]) -> Any:
    """A copy of the value with a whole number where one was written with a decimal point; else nothing."""
    if not steps:
        return int(value) if isinstance(value, float) and value.is_integer() else _ABSENT
    if steps[0] is None:
        return _ABSENT
    inner = _with_whole(value[steps[0]], steps[1:])
    if inner is _ABSENT:
        return _ABSENT
    copy = value.copy()
    copy[steps[0]] = inner
    return copy


# --- JSON Schema -------------------------------------------------------------------------------------------


def schema(kind: Any, *, nulls: bool = True) -> Schema:
    """The JSON Schema of a shape, whole in itself; with `nulls`, also of the null that is as good as no field."""
    return _schema(msgspec.inspect.type_info(kind), nulls)


def _schema(info: Any, nulls: bool) -> Schema:
    inspect = msgspec.inspect
    match info:
        case inspect.Metadata():
            other = (info.extra or {}).get("shape")
            inner = _schema(info.type, nulls) if other is None else schema(other, nulls=nulls)
            merged = {**inner, **(info.extra_json_schema or {})}
            # What is written None is not for readers.
            return {name: value for name, value in merged.items() if value is not None}
        case inspect.UnionType():
            return _union(info, nulls)
        case inspect.StructType() | inspect.TypedDictType():
            return _object(info, nulls)
        case inspect.ListType() | inspect.VarTupleType():
            found: Schema = {"type": "array", "items": _schema(info.item_type, nulls)}
            return _limited(found, info, minItems="min_length", maxItems="max_length")
        case inspect.DictType():
            inner = _schema(info.value_type, nulls)
            return {"type": "object", **({"additionalProperties": inner} if inner else {})}
        case inspect.LiteralType():
            return {"const": info.values[0]} if len(info.values) == 1 else {"type": "string", "enum": list(info.values)}
        case inspect.CustomType(cls=custom):
            return dict(_custom(custom).SCHEMA)
        case inspect.StrType():
            return _limited({"type": "string"}, info, minLength="min_length", maxLength="max_length", pattern="pattern")
        case inspect.IntType():
            return _limited({"type": "integer"}, info, minimum="ge", maximum="le")
        case inspect.FloatType():
            return _limited({"type": "number"}, info, minimum="ge", maximum="le")
        case inspect.BoolType():
            return {"type": "boolean"}
    return {}


def _limited(found: Schema, info: Any, **limits: str) -> Schema:
    given = {name: getattr(info, attribute) for name, attribute in limits.items()}
    return {**found, **{name: limit for name, limit in given.items() if limit is not None}}


def _union(info: Any, nulls: bool) -> Schema:
    inspect = msgspec.inspect
    parts = [part for part in info.types if not isinstance(part, inspect.NoneType)]
    has_null = nulls and any(isinstance(part, inspect.NoneType) for part in info.types)
    options = [_schema(part, nulls) for part in parts]
    if len(options) > 1:
        return {"anyOf": [*options, *([{"type": "null"}] if has_null else [])]}
    only = options[0]
    if has_null and isinstance(only.get("type"), str):
        only = {**only, "type": [only["type"], "null"]}
        if "enum" in only:
            only["enum"] = [*only["enum"], None]
    return only


def _object(info: Any, nulls: bool) -> Schema:
    properties: Schema = {}
    for field in info.fields:
        described = _schema(field.type, nulls)
        if isinstance(default := getattr(field, "default", None), str | int | float):
            described = {**described, "default": default}
        properties[field.encode_name] = described
    found: Schema = {"type": "object", "description": info.cls.__doc__, "properties": properties}
    if required := [field.encode_name for field in info.fields if field.required]:
        found["required"] = required
    if getattr(info, "forbid_unknown_fields", True):
        found["additionalProperties"] = False
    return found


# --- JSON Schema by hand: of what is only given, never read -------------------------------------------------

TEXT: Final[Schema] = {"type": "string"}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1024}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FRACTION: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
OBJECT: Final[Schema] = {"type": "object"}


def said(schema: Schema, description: str) -> Schema:
    """A schema with words about it."""
    return {**schema, "description": description}


def maybe(schema: Schema) -> Schema:
    """What may also be null."""
    return {**schema, "type": [schema["type"], "null"]}


def one_of(values: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(values)}


def some(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def ref(name: str) -> Schema:
    """Another schema of the same document, by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def opened(required: str, /, **properties: Schema) -> Schema:
    """An object of these properties and maybe others; the required ones are given in one string."""
    shape: Schema = {"type": "object", "properties": properties}
    return {**shape, "required": required.split()} if required else shape


def closed(required: str, /, **properties: Schema) -> Schema:
    """An object of these properties and no others."""
    return {**opened(required, **properties), "additionalProperties": False}
