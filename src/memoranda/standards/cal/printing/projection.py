"""What of a grain a model gets to read: prose and a few attributes (sections 10.3, 14.3).

Every format writes this projection. It never holds hashes, namespaces or what the store keeps for itself: those are
for programs and stand in the machine's envelope. A grain's fields come from outside, custom ones too, so each may hold
anything; nothing here fails on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import msgspec

from memoranda.model.instant import DAY_MS, EARLIEST, LATEST, format_instant
from memoranda.model.native import NATIVE_KEY
from memoranda.standards.cal.item import Item, event_text, label_of, value_of
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.language.words import EXTENSION_PREFIX
from memoranda.standards.cal.printing.plain import MAX_INTEGER_BITS, compact
from memoranda.standards.oms.mapping import is_text
from memoranda.standards.sml.render import plain_number

# What stands for whom a memory belongs to.
OWNER: Final = "user"

Level: TypeAlias = Literal["summary", "standard", "full"]
Scalar: TypeAlias = str | int | float
Fields: TypeAlias = Mapping[str, Any]


class Projected(msgspec.Struct, frozen=True, kw_only=True):
    """A grain as prose with attributes, before any format."""

    grain_type: str
    text: str
    attributes: tuple[tuple[str, Scalar], ...]
    # Whether the text is a sentence of its own, not what is said of the subject.
    is_sentence: bool = False


def project(item: Item, level: Level, now: int, *, iso: bool = False, shape: Project | None = None) -> Projected:
    """The content projection of a grain at a level of disclosure; PROJECT overrides the level (cal.md, *PROJECT*)."""
    if shape is not None:
        return _shaped(item, shape, now, iso)
    found: list[tuple[str, Scalar]] = []
    table = _ALWAYS if level == "summary" else _STANDARD if level == "standard" else _FULL
    for name, read in table[item.grain_type]:
        value = read(item, now, iso)
        if value is not None:
            found.append((name, value))
    is_sentence = is_text(item.grain_type, item.fields)
    return Projected(grain_type=item.grain_type, text=text_of(item), attributes=tuple(found), is_sentence=is_sentence)


def text_of(item: Item) -> str:
    """What a grain says, by the rule of its type."""
    fields = item.fields
    return _TEXTS[item.grain_type](fields) or _first(fields, "object", "content", "description") or _triple(fields)


def subject_of(item: Item) -> str:
    """Return the subject of a grain; for a text without a triple that is about its owner, "user" instead of a DID."""
    subject = words(item.fields.get("subject"))
    return OWNER if subject.startswith("did:") and is_text(item.grain_type, item.fields) else subject


def humanize(relation: Any) -> str:
    """A relation as words: without its prefix and underscores."""
    if not isinstance(relation, str):
        return words(relation)
    return relation[relation.find(":") + 1 :].replace("_", " ")


def relative_time(then_ms: int, now_ms: int) -> str:
    """How long ago it was (cal.md, *relative times*); a time to come as its date."""
    age = now_ms - then_ms
    if age < 0:
        return iso_date(then_ms)
    if age < DAY_MS:
        minutes = age // 60_000
        return f"{minutes}m ago" if minutes < 60 else f"{minutes // 60}h ago"
    days = age // DAY_MS
    if days < 7:
        return "yesterday" if days == 1 else f"{days}d ago"
    if days < 30:
        return f"{days // 7}w ago"
    moment = _moment(then_ms)
    if days < 365:
        return f"{_MONTHS[moment.month - 1]} {moment.day}"
    return f"{_MONTHS[moment.month - 1]} {moment.year}" if days < 730 else str(moment.year)


def iso_time(ms: int) -> str:
    """An instant as `2026-03-03T12:00:00Z`."""
    return format_instant(_clamped(ms))[:19] + "Z"


def iso_date(ms: int) -> str:
    """The day of an instant as `2026-03-03`, in UTC."""
    return format_instant(_clamped(ms))[:10]


def words(value: Any) -> str:
    """Any value as text: nothing as the empty string, the rest as compact JSON (cal.md, *values that are no text*)."""
    if type(value) is str:
        return value
    if value is None or isinstance(value, bytes | bytearray):
        return ""
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return plain_number(value)
    if isinstance(value, float):
        return ""
    return str(value) if isinstance(value, str) else compact(value)


def scalar(value: Any) -> Scalar | None:
    """Any value as that of an attribute; None: it is missing."""
    if type(value) is str:
        return value or None
    if value is None:
        return None
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else plain_number(value)
    if isinstance(value, list | tuple):
        return _joined(value) or None
    return words(value) or None


# --- times --------------------------------------------------------------------------------------------------

# strftime would ask the locale.
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _clamped(ms: int) -> int:
    return min(max(ms, EARLIEST), LATEST)


def _moment(ms: int) -> datetime:
    return _ZERO + timedelta(milliseconds=_clamped(ms))


def _ms(value: Any) -> int | None:
    if type(value) is int:
        return value
    return int(value) if type(value) is float and math.isfinite(value) else None


def _time(item: Item, now: int, iso: bool) -> str | None:
    then = _ms(item.fields.get("timestamp_ms"))
    if then is None:
        then = _ms(item.fields.get("created_at"))
    if then is None:
        return None
    return iso_time(then) if iso else relative_time(then, now)


def _day(value: Any) -> Scalar | None:
    # A date, never relative (cal.md, *deadlines*).
    ms = _ms(value)
    return scalar(value) if ms is None else iso_date(ms)


# --- text ---------------------------------------------------------------------------------------------------


def _first(fields: Fields, *names: str) -> str:
    for name in names:
        if said := words(fields.get(name)):
            return said
    return ""


def _triple(fields: Fields) -> str:
    parts = (words(fields.get("subject")), humanize(fields.get("relation")), words(fields.get("object")))
    return " ".join(filter(None, parts))


def _joined(values: list[Any] | tuple[Any, ...], separator: str = ",") -> str:
    return separator.join(filter(None, map(words, values)))


def _numbered(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return words(value)
    return "  ".join(f"{number}. {words(each)}" for number, each in enumerate(value, start=1))


def _belief(fields: Fields) -> str:
    relation, value = humanize(fields.get("relation")), words(fields.get("object"))
    return f"{relation} {value}" if relation and value and not is_text("belief", fields) else value


def _workflow(fields: Fields) -> str:
    steps = fields.get("steps")
    if isinstance(steps, list) and len(steps) == 1 and is_text("workflow", fields):
        return words(steps[0])
    return _numbered(steps)


def _event(fields: Fields) -> str:
    return words(fields.get("content")) or event_text(fields) or _triple(fields)


def _action(fields: Fields) -> str:
    if said := _first(fields, "object", "content", "error", "stdout"):
        return said
    phase = fields.get("action_phase")
    return _first(fields, "input") if phase == "call" else _first(fields, "tool_description")


def _state(fields: Fields) -> str:
    if said := _numbered(fields.get("plan")):
        return said
    context = fields.get("context")
    if not isinstance(context, Mapping):
        return ""
    # A memory of another standard keeps its text here, and its original beside it, which is nobody's reading.
    rest = {name: value for name, value in context.items() if name != NATIVE_KEY}
    return words(rest.get("text")) or (compact(rest) if rest else "")


def _consent(fields: Fields) -> str:
    if said := _first(fields, "purpose"):
        return said
    scope = fields.get("scope")
    return _joined(scope, ", ") if isinstance(scope, list | tuple) else words(scope)


_TEXTS: Final[Mapping[str, Callable[[Fields], str]]] = {
    "belief": _belief,
    "event": _event,
    "goal": lambda fields: _first(fields, "object", "description"),
    "action": _action,
    "observation": lambda fields: _first(fields, "object", "content"),
    "reasoning": lambda fields: _first(fields, "conclusion", "object"),
    "state": _state,
    "workflow": _workflow,
    "consensus": lambda fields: _first(fields, "object", "agreed_content"),
    "consent": _consent,
}
# The field that each type's text is called after: naming it in PROJECT names the rule.
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

_Read: TypeAlias = Callable[[Item, int, bool], Scalar | None]


def _of(name: str) -> _Read:
    return lambda item, _now, _iso: scalar(item.fields.get(name))


def _subject(item: Item, _now: int, _iso: bool) -> Scalar | None:
    said = item.fields.get("subject")
    return (subject_of(item) or None) if type(said) is str else scalar(said)


def _phase(item: Item, _now: int, _iso: bool) -> Scalar | None:
    phase = item.fields.get("action_phase", "complete")
    return "completed" if phase == "complete" else scalar(phase)


def _permission(item: Item, _now: int, _iso: bool) -> str:
    return "withdrawn" if item.fields.get("is_withdrawal") else "granted"


def _contested(item: Item, _now: int, _iso: bool) -> str | None:
    # Only what is worth saying (cal.md).
    return None if item.verification == "unverified" else item.verification


_Attributes: TypeAlias = tuple[tuple[str, _Read], ...]
# Section 10.3.2: those of every level, then those that the summary leaves out.
_OWN: Final[Mapping[str, tuple[_Attributes, _Attributes]]] = {
    "belief": ((("subject", _subject),), (("confidence", _of("confidence")),)),
    "event": ((("role", _of("role")),), (("time", _time),)),
    "goal": (
        (("subject", _subject),),
        (("state", _of("goal_state")), ("deadline", lambda item, _now, _iso: _day(item.fields.get("deadline")))),
    ),
    "action": ((("tool", _of("tool_name")),), (("phase", _phase),)),
    "observation": ((), (("observer", _of("observer_id")),)),
    "reasoning": ((), (("type", _of("inference_method")),)),
    "state": ((), (("context", lambda item, _now, _iso: label_of(item.fields.get("context")) or None),)),
    "workflow": ((), (("trigger", _of("trigger")), ("state", _of("goal_state")))),
    "consensus": ((), (("threshold", _of("threshold")), ("count", _of("agreement_count")))),
    "consent": (
        (("action", _permission), ("grantor", _of("subject_did")), ("grantee", _of("grantee_did"))),
        (),
    ),
}
_MORE: Final[_Attributes] = (
    ("source", _of("source_type")),
    ("observed", _time),
    ("importance", _of("importance")),
    ("tags", _of("structural_tags")),
    ("verification_status", _contested),
)


def _full(grain_type: str) -> _Attributes:
    # An event has its time already (cal.md, *worth saying*).
    more = tuple(each for each in _MORE if each[0] != "observed" or grain_type != "event")
    return _STANDARD[grain_type] + more


_ALWAYS: Final = {grain_type: always for grain_type, (always, _) in _OWN.items()}
_STANDARD: Final = {grain_type: always + standard for grain_type, (always, standard) in _OWN.items()}
_FULL: Final = {grain_type: _full(grain_type) for grain_type in _OWN}


# --- PROJECT ------------------------------------------------------------------------------------------------

# Never in what a model reads, whoever asks (section 10.3); `memoranda:` is the store's own prefix.
_HIDDEN: Final = frozenset(("hash", "namespace", NATIVE_KEY))
_ADDRESS: Final = re.compile(r"(?:sha256:)?[0-9a-f]{64}", re.IGNORECASE)
_BY_NAME: Final[Mapping[str, _Read]] = {
    "content": lambda item, _now, _iso: text_of(item) or None,
    "relation": lambda item, _now, _iso: humanize(value_of(item, "relation")) or None,
    "source": _of("source_type"),
    "observed": _time,
    "time": _time,
    "deadline": lambda item, _now, _iso: _day(value_of(item, "deadline")),
    "expires_at": lambda item, _now, _iso: _day(value_of(item, "expires_at")),
}


def _shaped(item: Item, shape: Project, now: int, iso: bool) -> Projected:
    if shape.content is None:
        text = text_of(item)
    else:
        text = " ".join(filter(None, (words(_named(item, name, now, iso)) for name in shape.content)))
    found: list[tuple[str, Scalar]] = []
    for name in dict.fromkeys(shape.attributes or ()):
        value = _named(item, name, now, iso)
        if value is not None:
            found.append((name, value))
    return Projected(grain_type=item.grain_type, text=text, attributes=tuple(found))


def columns_of(shape: Project) -> tuple[str, ...]:
    """The attributes that PROJECT asks for and may have."""
    return tuple(name for name in dict.fromkeys(shape.attributes or ()) if name not in _HIDDEN)


def _named(item: Item, name: str, now: int, iso: bool) -> Scalar | None:
    if name in _HIDDEN:
        return None
    if name == _TEXT_NAMES.get(item.grain_type):
        return text_of(item) or None
    read = next((read for own, read in _STANDARD[item.grain_type] if own == name), None) or _BY_NAME.get(name)
    if read is not None:
        return read(item, now, iso)
    value = value_of(item, name)
    if value is None and name.startswith(EXTENSION_PREFIX):
        context = item.fields.get("context")
        value = context.get(name) if isinstance(context, Mapping) else None
    return scalar(_without_addresses(value))


def _without_addresses(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [each for each in value if not _is_address(each)]
    return None if _is_address(value) else value


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None
