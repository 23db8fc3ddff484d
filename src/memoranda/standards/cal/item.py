"""A grain as a query sees it, and its values under the field names of CAL (section 4, appendix E).

CAL and OMS name some fields differently; only this module maps between them. A missing field has the value None.

The field index of a grain has the values that conditions are tested against. It is computed with every write, so this
module imports no part of the language. `conditions.build_index_query` reads the index and must agree with it on names
and normal forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeGuard, cast

import msgspec

from memoranda.model.instant import Instant, clamp
from memoranda.model.memory import NATIVE_KEY, FieldIndex
from memoranda.standards.cal import fields as table
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.mapping import triple_of
from memoranda.standards.oms.registry import BY_BYTE

# States of a goal in CAL → their names in OMS, where they differ.
GOAL_STATES: Final = {"completed": "satisfied", "abandoned": "failed", "blocked": "suspended"}
# Values that OMS assumes for missing fields.
DEFAULTS: Final = {
    "recall_priority": "warm",
    "action_phase": "complete",
    "verification_status": "unverified",
}
_ADDRESS_PREFIX: Final = "sha256:"


class ResultItem(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One grain of a result: its payload under OMS's full names, and what the index knows about it."""

    # The content address: 64 hexadecimal digits.
    address: str
    # Singular, such as "belief".
    grain_type: str
    fields: Mapping[str, object]
    verification: str = "unverified"
    contradicted: bool = False
    superseded_by: str | None = None
    system_valid_to: int | None = None
    score: float = 1.0
    # Returns the fields that matched the query. Computed on demand: most grains are only counted, or cut off by LIMIT.
    matched: Callable[[], tuple[str, ...]] = tuple
    # The components of the score, for WITH score_breakdown.
    breakdown: Mapping[str, float] = msgspec.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `matched`, which belongs to the query and not to the grain."""
        if not isinstance(other, ResultItem):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED_FIELDS)

    @property
    def hash(self) -> str:
        """The address as the language writes it."""
        return _ADDRESS_PREFIX + self.address


_COMPARED_FIELDS: Final = tuple(name for name in ResultItem.__struct_fields__ if name != "matched")


def value_of(item: ResultItem, name: str) -> object:
    """Return the value of a grain under a field name of CAL, or None."""
    if ":" in name:
        return _domain_value(item.fields, name)
    own_reader = _ITEM_READERS.get(name)
    if own_reader is not None:
        return own_reader(item)
    return field_of(item.grain_type, item.fields, name)


def field_of(grain_type: str, fields: Mapping[str, object], name: str) -> object:
    """Return the value of a payload field under a field name of CAL, or None."""
    reader = _FIELD_READERS.get((grain_type, name)) or _FIELD_READERS.get(("", name))
    value = fields.get(name) if reader is None else reader(grain_type, fields)
    # An empty text counts as missing.
    return DEFAULTS.get(name) if value is None or value == "" else value


def time_of(fields: Mapping[str, object]) -> int:
    """Return the time that a grain is about, or else the time it was created, in milliseconds."""
    return int(cast("float", fields.get("timestamp_ms", fields["created_at"])))


def bare_address(text: str) -> str:
    """Return an address without its prefix, in lower case; other text unchanged."""
    prefix, address = text[: len(_ADDRESS_PREFIX)], text[len(_ADDRESS_PREFIX) :]
    return address.lower() if prefix.lower() == _ADDRESS_PREFIX else text


def contradicted_addresses(item: ResultItem) -> list[str]:
    """Return the addresses of the grains that an item contradicts, from its links."""
    links = item.fields.get("related_to")
    if not isinstance(links, list):
        return []
    addresses = []
    for link in links:
        if isinstance(link, Mapping) and link.get("relation_type") == "contradicts":
            target = link.get("hash")
            if isinstance(target, str):
                addresses.append(bare_address(target))
    return addresses


def oms_goal_state(state: object) -> object:
    """Return the OMS name of a state of a goal."""
    return GOAL_STATES.get(state, state) if isinstance(state, str) else state


def context_label(context: object) -> str | None:
    """Return the name of a state's context: the text itself, or its `name`, `label` or `id`."""
    if isinstance(context, str):
        return context
    if not isinstance(context, Mapping):
        return None
    for name in ("name", "label", "id"):
        value = context.get(name)
        if isinstance(value, str):
            return value
    return None


def event_text(fields: Mapping[str, object]) -> str | None:
    """Return the text of an event: its content, or else the texts of its content blocks."""
    if isinstance(content := fields.get("content"), str):
        return content
    blocks = fields.get("content_blocks")
    if not isinstance(blocks, Sequence) or isinstance(blocks, str):
        return None
    texts = [
        block["text"]
        for block in blocks
        if isinstance(block, Mapping) and isinstance(block.get("text"), str)
    ]
    return " ".join(texts) or None


def _domain_value(fields: Mapping[str, object], name: str) -> object:
    """Return the value of a domain field, from the payload or its context."""
    if name in fields:
        return fields[name]
    context = fields.get("context")
    return context.get(name) if isinstance(context, Mapping) else None


def _field_reader(name: str) -> Callable[[str, Mapping[str, object]], object]:
    """Return a reader of the payload field with this name."""
    return lambda _, fields: fields.get(name)


_FIELD_READERS: Final[Mapping[tuple[str, str], Callable[[str, Mapping[str, object]], object]]] = {
    ("", "tags"): _field_reader("structural_tags"),
    ("", "time"): lambda _, fields: time_of(fields),
    ("event", "content"): lambda _, fields: event_text(fields),
    ("state", "context"): lambda _, fields: context_label(fields.get("context")),
    ("reasoning", "reasoning_type"): _field_reader("inference_method"),
    ("goal", "object"): lambda _, fields: fields.get(
        "description" if fields.get("object") in (None, "") else "object"
    ),
    # A consent is read as a triple: the grantor permits, or revokes, the grantee.
    ("consent", "subject"): _field_reader("subject_did"),
    ("consent", "relation"): lambda _, fields: (
        "mg:revokes" if fields.get("is_withdrawal") else "mg:permits"
    ),
    ("consent", "object"): _field_reader("grantee_did"),
    ("consent", "consent_action"): lambda _, fields: (
        "withdraw" if fields.get("is_withdrawal") else "grant"
    ),
    ("consent", "grantor_did"): _field_reader("subject_did"),
    ("consent", "expires_at"): _field_reader("valid_to"),
}
_ITEM_READERS: Final[Mapping[str, Callable[[ResultItem], object]]] = {
    "type": lambda item: item.grain_type,
    "hash": lambda item: item.hash,
    "score": lambda item: item.score,
    "contradicted": lambda item: item.contradicted,
    "verification_status": lambda item: item.verification,
}


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
