"""What the index keeps of a grain.

Every write asks for it, so nothing of the language is loaded here. Its other side is `conditions.questions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from memoranda.model.facts import FieldIndex
from memoranda.model.instant import Instant, clamp
from memoranda.model.native import NATIVE_KEY
from memoranda.standards.cal import fields as table
from memoranda.standards.cal.fields import Field, Kind
from memoranda.standards.cal.item import bare_address, field_of, state_word, time_of
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.mapping import triple_of
from memoranda.standards.oms.registry import BY_BYTE

# Searched by their words, not compared.
SEMANTIC: Final = frozenset(("content", "plan", "steps", "premises"))
# Which fields the store keeps in places of their own.
PLACES: Final = {"user_id": "user", "session_id": "session", "verification_status": "verification", "type": "form"}
_COMMON_TEXTS: Final = ("source_type", "recall_priority", "epistemic_status")
_TEXTS: Final = frozenset((Kind.STRING, Kind.ADDRESS, Kind.WORD, Kind.BOOLEAN, Kind.ARRAY))
# Beside the name of a domain field: that it is there at all, and where its truth values and lists are kept.
PRESENT, TRUTH, LIST = "domain", ":?", ":[]"


def field_index_of(grain: Grain) -> FieldIndex:
    """What a grain of the ten types can be asked for; other grains cannot be asked for."""
    kind, fields = BY_BYTE.get(grain.type_byte), grain.fields
    subject, relation, object_ = triple_of(grain)
    if kind is None:
        # Of an application's own type the store knows what it is about, and nothing else.
        return FieldIndex(address=grain.address, at=Instant(0), subject=subject, relation=relation, object=object_)
    texts = [("tag", tag) for tag in listed(fields.get("structural_tags"))]
    texts += [("link", link["relation_type"]) for link in _links(fields)]
    texts += [(name, text) for name in _COMMON_TEXTS for text in listed(fields.get(name))]
    numbers: list[tuple[str, float]] = []
    for field in _own_fields(kind.name):
        value = field_of(kind.name, fields, field.name)
        if field.kind in _TEXTS:
            texts += [(field.name, text) for text in normal(field, value)]
        elif is_number(value):
            numbers.append((field.name, float(value)))
    _read_domain(fields, texts, numbers)
    return FieldIndex(
        address=grain.address,
        form=kind.name,
        at=clamp(time_of(fields)),
        confidence=_number(fields.get("confidence")),
        importance=_number(fields.get("importance")),
        subject=subject,
        relation=relation,
        object=object_,
        texts=tuple(dict.fromkeys(texts)),
        numbers=tuple(numbers),
    )


@cache
def _own_fields(grain_type: str) -> tuple[Field, ...]:
    elsewhere = {*table.COMMON, *PLACES, *SEMANTIC}
    return tuple(field for name, field in table.fields_of(grain_type).items() if name not in elsewhere)


def _links(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    links = fields.get("related_to")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, Mapping) and isinstance(link.get("relation_type"), str):
            yield link


def listed(value: Any) -> list[str]:
    """The texts of a field that may be one or a list; empty ones are as good as missing."""
    values = value if isinstance(value, list | tuple) else [value]
    return [each for each in values if isinstance(each, str) and each]


def normal(field: Field, value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"] if field.kind is Kind.BOOLEAN else []
    if field.kind is Kind.ADDRESS:
        return [bare_address(text) for text in listed(value)]
    return [state_word(text) for text in listed(value)] if field.name == "goal_state" else listed(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) else None


def _read_domain(fields: Mapping[str, Any], texts: list[tuple[str, str]], numbers: list[tuple[str, float]]) -> None:
    context = fields.get("context")
    inner = context if isinstance(context, Mapping) else {}
    for name in {key for key in (*fields, *inner) if ":" in key and key != NATIVE_KEY}:
        value = fields[name] if name in fields else inner[name]
        texts.append((PRESENT, name))
        if isinstance(value, bool):
            texts.append((name + TRUTH, "true" if value else "false"))
        elif isinstance(value, str):
            texts.append((name, value))
        elif is_number(value):
            numbers.append((name, float(value)))
        elif isinstance(value, list):
            texts += [(name + LIST, text) for text in listed(value)]
