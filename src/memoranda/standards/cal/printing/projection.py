"""The projection of a grain: the prose and the few attributes that a model reads (sections 10.3, 14.3).

Every format prints this projection. It never contains hashes, namespaces or internal data of the store: these are for
programs, which get them outside the text. The fields of a grain come from outside and may hold any value; nothing here
fails on them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from memoranda.model.calendar import utc_day
from memoranda.model.instant import DAY_MS, format_instant
from memoranda.model.memory import NATIVE_KEY
from memoranda.standards.cal.item import ResultItem, context_label, event_text, value_of
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.language.words import EXTENSION_PREFIX
from memoranda.standards.cal.printing.values import MAX_INTEGER_BITS, compact_json
from memoranda.standards.oms.mapping import is_text
from memoranda.standards.sml.render import format_number

# The word that replaces the identifier of a memory's owner.
OWNER: Final = "user"
# The relation between an entity and a fact, which is prose by itself: "account tier is Professional" (cal.md, *facts*).
FACT_RELATION: Final = "mg:knows"

Level: TypeAlias = Literal["summary", "standard", "full"]
Scalar: TypeAlias = str | int | float
Fields: TypeAlias = Mapping[str, object]


class GrainProse(msgspec.Struct, frozen=True, kw_only=True):
    """A grain as prose and attributes, before any format."""

    grain_type: str
    text: str
    attributes: tuple[tuple[str, Scalar], ...]
    # True if the text is a complete sentence, and not a statement about the subject attribute.
    is_sentence: bool = False


def project(
    item: ResultItem,
    level: Level,
    now: int,
    *,
    iso_times: bool = False,
    shape: Project | None = None,
) -> GrainProse:
    """Return the projection of a grain at a level of detail; PROJECT (`shape`) overrides the level (cal.md, *PROJECT*).

    `now` is in milliseconds. With `iso_times`, times are printed as instants, and not relative to now.
    """
    if shape is not None:
        return _project_shape(item, shape, now, iso_times)
    attributes: list[tuple[str, Scalar]] = []
    for name, reader in _BY_LEVEL[level][item.grain_type]:
        value = reader(item, now, iso_times)
        if value is not None:
            attributes.append((name, value))
    is_fact = item.grain_type == "belief" and item.fields.get("relation") == FACT_RELATION
    is_sentence = is_fact or is_text(item.grain_type, item.fields)
    return GrainProse(
        grain_type=item.grain_type,
        text=text_of(item),
        attributes=tuple(attributes),
        is_sentence=is_sentence,
    )


def text_of(item: ResultItem) -> str:
    """Return the text of a grain, by the rule of its type."""
    fields = item.fields
    return (
        _TEXT_READERS[item.grain_type](fields)
        or _first_text(fields, "object", "content", "description")
        or _triple_text(fields)
    )


def subject_of(item: ResultItem) -> str:
    """Return the subject of a grain.

    For a text without a triple the owner's DID becomes "user": one token instead of about forty.
    """
    subject = to_text(item.fields.get("subject"))
    return (
        OWNER if subject.startswith("did:") and is_text(item.grain_type, item.fields) else subject
    )


def humanize(relation: object) -> str:
    """Return a relation as words: without its prefix, with spaces for underscores."""
    if not isinstance(relation, str):
        return to_text(relation)
    return relation[relation.find(":") + 1 :].replace("_", " ")


def relative_time(instant_ms: int, now_ms: int) -> str:
    """Return the age of an instant in words (cal.md, *relative times*); a future one as its date."""
    age = now_ms - instant_ms
    if age < 0:
        return iso_date(instant_ms)
    if age < DAY_MS:
        minutes = age // 60_000
        return f"{minutes}m ago" if minutes < 60 else f"{minutes // 60}h ago"
    days = age // DAY_MS
    if days < 7:
        return "yesterday" if days == 1 else f"{days}d ago"
    if days < 30:
        return f"{days // 7}w ago"
    day = utc_day(instant_ms)
    if days < 365:
        return f"{_MONTHS[day.month - 1]} {day.day}"
    return f"{_MONTHS[day.month - 1]} {day.year}" if days < 730 else str(day.year)


def iso_time(ms: int) -> str:
    """Return an instant as `2026-03-03T12:00:00Z`."""
    return format_instant(ms)[:19] + "Z"


def iso_date(ms: int) -> str:
    """Return the day of an instant as `2026-03-03`, in UTC."""
    return format_instant(ms)[:10]


def to_text(value: object) -> str:
    """Return any value as text: missing ones as an empty string, structures as compact JSON.

    See cal.md, *values other than text*.
    """
    if type(value) is str:
        return value
    if value is None or isinstance(value, bytes | bytearray):
        return ""
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return format_number(value)
    if isinstance(value, float):
        return ""
    return str(value) if isinstance(value, str) else compact_json(value)


def to_scalar(value: object) -> Scalar | None:
    """Return any value as the value of an attribute, or None if it counts as missing."""
    if type(value) is str:
        return value or None
    if value is None:
        return None
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else format_number(value)
    if isinstance(value, list | tuple):
        return _join_texts(value) or None
    return to_text(value) or None


# --- times --------------------------------------------------------------------------------------------------

# strftime would use the names of the locale.
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def _to_ms(value: object) -> int | None:
    """Return a number as milliseconds, or None if the value is none."""
    if type(value) is int:
        return value
    return int(value) if type(value) is float and math.isfinite(value) else None


def _time_attribute(item: ResultItem, now: int, iso_times: bool) -> str | None:
    """Return the time that a grain is about, or else its creation, relative to now unless `iso_times`."""
    instant_ms = _to_ms(item.fields.get("timestamp_ms"))
    if instant_ms is None:
        instant_ms = _to_ms(item.fields.get("created_at"))
    if instant_ms is None:
        return None
    return iso_time(instant_ms) if iso_times else relative_time(instant_ms, now)


def _date_attribute(value: object) -> Scalar | None:
    """Return a date."""
    # Deadlines are never relative (cal.md, *due dates*).
    ms = _to_ms(value)
    return to_scalar(value) if ms is None else iso_date(ms)


# --- text ---------------------------------------------------------------------------------------------------


def _first_text(fields: Fields, *names: str) -> str:
    """Return the text of the first field that is not empty."""
    for name in names:
        if text := to_text(fields.get(name)):
            return text
    return ""


def _triple_text(fields: Fields) -> str:
    """Return subject, relation and object as one sentence."""
    parts = (
        to_text(fields.get("subject")),
        humanize(fields.get("relation")),
        to_text(fields.get("object")),
    )
    return " ".join(filter(None, parts))


def _join_texts(values: list[object] | tuple[object, ...], separator: str = ",") -> str:
    """Return the texts that are not empty, joined."""
    return separator.join(filter(None, map(to_text, values)))


def _number_steps(value: object) -> str:
    """Return a list of steps on one line, numbered."""
    if not isinstance(value, list | tuple):
        return to_text(value)
    return "  ".join(f"{number}. {to_text(step)}" for number, step in enumerate(value, start=1))


def _belief_text(fields: Fields) -> str:
    """Return relation and object of a belief; the subject is an attribute."""
    relation, text = humanize(fields.get("relation")), to_text(fields.get("object"))
    has_sentence = is_text("belief", fields) or fields.get("relation") == FACT_RELATION
    return f"{relation} {text}" if relation and text and not has_sentence else text


def _workflow_text(fields: Fields) -> str:
    """Return the numbered steps of a workflow. A view of another standard has its text as the first step."""
    steps = fields.get("steps")
    if isinstance(steps, list) and len(steps) == 1 and is_text("workflow", fields):
        return to_text(steps[0])
    return _number_steps(steps)


def _event_text(fields: Fields) -> str:
    """Return the content of an event."""
    return to_text(fields.get("content")) or event_text(fields) or _triple_text(fields)


def _action_text(fields: Fields) -> str:
    """Return the result of an action, or else its input or the description of its tool."""
    if text := _first_text(fields, "object", "content", "error", "stdout"):
        return text
    phase = fields.get("action_phase")
    return (
        _first_text(fields, "input") if phase == "call" else _first_text(fields, "tool_description")
    )


def _state_text(fields: Fields) -> str:
    """Return the plan of a state, or else its context."""
    if text := _number_steps(fields.get("plan")):
        return text
    context = fields.get("context")
    if not isinstance(context, Mapping):
        return ""
    # A memory of another standard has its text here, and its original document, which is not for reading.
    own_context = {name: value for name, value in context.items() if name != NATIVE_KEY}
    return to_text(own_context.get("text")) or (compact_json(own_context) if own_context else "")


def _consent_text(fields: Fields) -> str:
    """Return the purpose of a consent, or else its scope."""
    if text := _first_text(fields, "purpose"):
        return text
    scope = fields.get("scope")
    return _join_texts(scope, ", ") if isinstance(scope, list | tuple) else to_text(scope)


_TEXT_READERS: Final[Mapping[str, Callable[[Fields], str]]] = {
    "belief": _belief_text,
    "event": _event_text,
    "goal": lambda fields: _first_text(fields, "object", "description"),
    "action": _action_text,
    "observation": lambda fields: _first_text(fields, "object", "content"),
    "reasoning": lambda fields: _first_text(fields, "conclusion", "object"),
    "state": _state_text,
    "workflow": _workflow_text,
    "consensus": lambda fields: _first_text(fields, "object", "agreed_content"),
    "consent": _consent_text,
}
# Type → the field whose name in PROJECT selects the text of the type.
_TEXT_NAMES: Final = {
    "event": "content",
    "goal": "object",
    "action": "object",
    "observation": "object",
    "reasoning": "conclusion",
    "state": "plan",
    "workflow": "steps",
    "consensus": "object",
    "consent": "purpose",
}


# --- attributes ---------------------------------------------------------------------------------------------

_AttributeReader: TypeAlias = Callable[[ResultItem, int, bool], Scalar | None]


def _field_reader(name: str) -> _AttributeReader:
    """Return a reader of one payload field."""
    return lambda item, _now, _iso_times: to_scalar(item.fields.get(name))


def _subject_attribute(item: ResultItem, _now: int, _iso_times: bool) -> Scalar | None:
    """Return the subject, with "user" for the owner of a memory of another standard."""
    subject = item.fields.get("subject")
    return (subject_of(item) or None) if type(subject) is str else to_scalar(subject)


def _phase_attribute(item: ResultItem, _now: int, _iso_times: bool) -> Scalar | None:
    """Return the phase of an action."""
    phase = item.fields.get("action_phase", "complete")
    return "completed" if phase == "complete" else to_scalar(phase)


def _permission_attribute(item: ResultItem, _now: int, _iso_times: bool) -> str:
    """Return whether a consent is granted or withdrawn."""
    return "withdrawn" if item.fields.get("is_withdrawal") else "granted"


def _trigger_attribute(item: ResultItem, _now: int, _iso_times: bool) -> Scalar | None:
    """Return the event that starts a workflow, or None for a view of another standard's memory."""
    # A view has no such event; its trigger is the kind of the memory, because OMS requires the field.
    if is_text("workflow", item.fields):
        return None
    return to_scalar(item.fields.get("trigger"))


def _verification_attribute(item: ResultItem, _now: int, _iso_times: bool) -> str | None:
    """Return the verification status unless it is the usual one (cal.md)."""
    # Only what is worth saying (cal.md).
    return None if item.verification == "unverified" else item.verification


def _deadline_attribute(item: ResultItem, _now: int, _iso_times: bool) -> Scalar | None:
    """Return the deadline of a goal as a date."""
    return _date_attribute(value_of(item, "deadline"))


def _expiry_attribute(item: ResultItem, _now: int, _iso_times: bool) -> Scalar | None:
    """Return the date at which a consent expires."""
    return _date_attribute(value_of(item, "expires_at"))


def _context_attribute(item: ResultItem, _now: int, _iso_times: bool) -> str | None:
    """Return the name of a state's context."""
    return context_label(item.fields.get("context")) or None


def _text_attribute(item: ResultItem, _now: int, _iso_times: bool) -> str | None:
    """Return the text of a grain, or None if it is empty."""
    return text_of(item) or None


def _relation_attribute(item: ResultItem, _now: int, _iso_times: bool) -> str | None:
    """Return the relation of a grain in words, or None if it has none."""
    return humanize(value_of(item, "relation")) or None


_Attributes: TypeAlias = tuple[tuple[str, _AttributeReader], ...]
# Section 10.3.2: the attributes of every level, by grain type.
_SUMMARY: Final[Mapping[str, _Attributes]] = {
    "belief": (("subject", _subject_attribute),),
    "event": (("role", _field_reader("role")),),
    "goal": (("subject", _subject_attribute),),
    "action": (("tool", _field_reader("tool_name")),),
    "observation": (),
    "reasoning": (),
    "state": (),
    "workflow": (),
    "consensus": (),
    "consent": (
        ("action", _permission_attribute),
        ("grantor", _field_reader("subject_did")),
        ("grantee", _field_reader("grantee_did")),
    ),
}
# The attributes that the levels "standard" and "full" add, by grain type.
_STANDARD_EXTRA: Final[Mapping[str, _Attributes]] = {
    "belief": (("confidence", _field_reader("confidence")),),
    "event": (("time", _time_attribute),),
    "goal": (("state", _field_reader("goal_state")), ("deadline", _deadline_attribute)),
    "action": (("phase", _phase_attribute),),
    "observation": (("observer", _field_reader("observer_id")),),
    "reasoning": (("type", _field_reader("inference_method")),),
    "state": (("context", _context_attribute),),
    "workflow": (("trigger", _trigger_attribute), ("state", _field_reader("goal_state"))),
    "consensus": (
        ("threshold", _field_reader("threshold")),
        ("count", _field_reader("agreement_count")),
    ),
    "consent": (),
}
# The attributes that only the level "full" adds, for all types.
_FULL_EXTRA: Final[_Attributes] = (
    ("source", _field_reader("source_type")),
    ("observed", _time_attribute),
    ("importance", _field_reader("importance")),
    ("tags", _field_reader("structural_tags")),
    ("verification_status", _verification_attribute),
)


def _full_attributes(grain_type: str) -> _Attributes:
    """Return the attributes of a type at the level "full"."""
    # The standard level of an event has its time already (cal.md, *repeated attributes*).
    extra = tuple(
        attribute
        for attribute in _FULL_EXTRA
        if attribute[0] != "observed" or grain_type != "event"
    )
    return _STANDARD[grain_type] + extra


_STANDARD: Final = {
    grain_type: _SUMMARY[grain_type] + extra for grain_type, extra in _STANDARD_EXTRA.items()
}
_FULL: Final = {grain_type: _full_attributes(grain_type) for grain_type in _SUMMARY}
_BY_LEVEL: Final[Mapping[Level, Mapping[str, _Attributes]]] = {
    "summary": _SUMMARY,
    "standard": _STANDARD,
    "full": _FULL,
}


# --- PROJECT ------------------------------------------------------------------------------------------------

# Fields that a model never reads, even if PROJECT names them (section 10.3); `memoranda:` is the store's own prefix.
_HIDDEN: Final = frozenset(("hash", "namespace", NATIVE_KEY))
_ADDRESS: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}", re.IGNORECASE)
_PROJECTED_READERS: Final[Mapping[str, _AttributeReader]] = {
    "content": _text_attribute,
    "relation": _relation_attribute,
    "source": _field_reader("source_type"),
    "observed": _time_attribute,
    "time": _time_attribute,
    "deadline": _deadline_attribute,
    "expires_at": _expiry_attribute,
}


def _project_shape(item: ResultItem, shape: Project, now: int, iso_times: bool) -> GrainProse:
    """Return the projection of a grain as PROJECT defines it."""
    if shape.content is None:
        text = text_of(item)
    else:
        texts = (to_text(_read_attribute(item, name, now, iso_times)) for name in shape.content)
        text = " ".join(filter(None, texts))
    attributes: list[tuple[str, Scalar]] = []
    for name in dict.fromkeys(shape.attributes or ()):
        value = _read_attribute(item, name, now, iso_times)
        if value is not None:
            attributes.append((name, value))
    return GrainProse(grain_type=item.grain_type, text=text, attributes=tuple(attributes))


def columns_of(shape: Project) -> tuple[str, ...]:
    """Return the attributes that PROJECT names, without those that are never printed."""
    return tuple(name for name in dict.fromkeys(shape.attributes or ()) if name not in _HIDDEN)


def _read_attribute(item: ResultItem, name: str, now: int, iso_times: bool) -> Scalar | None:
    """Return the value of a field or attribute that PROJECT names; None if it is missing or never printed."""
    if name in _HIDDEN:
        return None
    if name == _TEXT_NAMES.get(item.grain_type):
        return text_of(item) or None
    own_readers = dict(_STANDARD[item.grain_type])
    reader = own_readers.get(name) or _PROJECTED_READERS.get(name)
    if reader is not None:
        return reader(item, now, iso_times)
    value = value_of(item, name)
    if value is None and name.startswith(EXTENSION_PREFIX):
        context = item.fields.get("context")
        value = context.get(name) if isinstance(context, Mapping) else None
    return to_scalar(_without_addresses(value))


def _without_addresses(value: object) -> object:
    """Return the value without content addresses, which models never read."""
    if isinstance(value, list | tuple):
        return [member for member in value if not _is_address(member)]
    return None if _is_address(value) else value


def _is_address(value: object) -> bool:
    """Return True for a content address."""
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None
