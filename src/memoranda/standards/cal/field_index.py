"""The field index of a grain: the values that conditions are tested against.

It is computed with every write, so this module imports no part of the language. `conditions.build_index_query` reads
the index and must agree with it on names and normal forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, TypeGuard

from memoranda.model.instant import Instant, clamp
from memoranda.model.memory import NATIVE_KEY, FieldIndex
from memoranda.standards.cal import fields as table
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.item import GOAL_STATES, bare_address, field_of, time_of
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.mapping import triple_of
from memoranda.standards.oms.registry import BY_BYTE

# Fields that are searched as text, so they are not in the index.
SEMANTIC: Final = frozenset(("content", "plan", "steps", "premises"))
# Field → its name in the index, where they differ.
INDEX_NAMES: Final = {
    "user_id": "user",
    "session_id": "session",
    "verification_status": "verification",
    "type": "form",
}
_COMMON_TEXT_FIELDS: Final = ("source_type", "recall_priority", "epistemic_status")
_TEXT_KINDS: Final = frozenset(
    (FieldKind.STRING, FieldKind.ADDRESS, FieldKind.WORD, FieldKind.BOOLEAN, FieldKind.ARRAY)
)
# Index name under which the names of all domain fields are kept, and suffixes for booleans and lists among them.
DOMAIN_FIELD_NAMES, BOOLEAN_SUFFIX, LIST_SUFFIX = "domain", ":?", ":[]"


def field_index_of(grain: Grain) -> FieldIndex:
    """Return the field index of a grain. Conditions can only select grains of the ten types."""
    kind, fields = BY_BYTE.get(grain.type_byte), grain.fields
    subject, relation, object_ = triple_of(grain)
    if kind is None:
        # Grains of an application's own type are indexed only by subject, relation and object.
        return FieldIndex(
            address=grain.address, at=Instant(0), subject=subject, relation=relation, object=object_
        )
    texts = [("tag", tag) for tag in non_empty_texts(fields.get("structural_tags"))]
    texts += [("link", relation_type) for relation_type in _link_types(fields)]
    texts += [
        (name, text) for name in _COMMON_TEXT_FIELDS for text in non_empty_texts(fields.get(name))
    ]
    numbers: list[tuple[str, float]] = []
    for field in _own_fields(kind.name):
        value = field_of(kind.name, fields, field.name)
        if field.kind in _TEXT_KINDS:
            texts += [(field.name, text) for text in index_texts(field, value)]
        elif is_number(value):
            numbers.append((field.name, float(value)))
    _add_domain_fields(fields, texts, numbers)
    return FieldIndex(
        address=grain.address,
        form=kind.name,
        at=clamp(time_of(fields)),
        confidence=_optional_float(fields.get("confidence")),
        importance=_optional_float(fields.get("importance")),
        subject=subject,
        relation=relation,
        object=object_,
        texts=tuple(dict.fromkeys(texts)),
        numbers=tuple(numbers),
    )


@cache
def _own_fields(grain_type: str) -> tuple[Field, ...]:
    """Return the fields of a type that are indexed by their own name."""
    elsewhere = {*table.COMMON_FIELDS, *INDEX_NAMES, *SEMANTIC}
    return tuple(
        field for name, field in table.fields_of(grain_type).items() if name not in elsewhere
    )


def _link_types(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the relation types of a grain's links."""
    links = fields.get("related_to")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, Mapping) and isinstance(link.get("relation_type"), str):
            yield link["relation_type"]


def non_empty_texts(value: object) -> list[str]:
    """Return the texts of a field that holds one or a list; an empty text counts as missing."""
    values = value if isinstance(value, list | tuple) else [value]
    return [text for text in values if isinstance(text, str) and text]


def index_texts(field: Field, value: object) -> list[str]:
    """Return a field's value as normalised texts; conditions are normalised in the same way."""
    if isinstance(value, bool):
        if field.kind is not FieldKind.BOOLEAN:
            return []
        return ["true"] if value else ["false"]
    if field.kind is FieldKind.ADDRESS:
        return [bare_address(text) for text in non_empty_texts(value)]
    texts = non_empty_texts(value)
    if field.name == "goal_state":
        return [GOAL_STATES.get(text, text) for text in texts]
    return texts


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True for a number; booleans are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _optional_float(value: object) -> float | None:
    """Return a number as float, and None for any other value."""
    return float(value) if is_number(value) else None


def _add_domain_fields(
    fields: Mapping[str, object], texts: list[tuple[str, str]], numbers: list[tuple[str, float]]
) -> None:
    """Add the domain fields of a grain, from its payload and its context, to the texts and numbers."""
    context = fields.get("context")
    inner = context if isinstance(context, Mapping) else {}
    for name in {key for key in (*fields, *inner) if ":" in key and key != NATIVE_KEY}:
        value = fields[name] if name in fields else inner[name]
        texts.append((DOMAIN_FIELD_NAMES, name))
        if isinstance(value, bool):
            texts.append((name + BOOLEAN_SUFFIX, "true" if value else "false"))
        elif isinstance(value, str):
            texts.append((name, value))
        elif is_number(value):
            numbers.append((name, float(value)))
        elif isinstance(value, list):
            texts += [(name + LIST_SUFFIX, text) for text in non_empty_texts(value)]
