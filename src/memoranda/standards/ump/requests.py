"""The operations' parameters, read from untrusted JSON (section 3).

Each `parse` takes any JSON value and returns a value that needs no further checks, or raises InvalidInput
that names the field and what was expected there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from memoranda.errors import InvalidInput
from memoranda.model.instant import parse_instant
from memoranda.standards.ump.capability import MAX_RECALL
from memoranda.standards.ump.record import (
    ACTOR_KINDS,
    CONTROL_PATTERN,
    KINDS,
    NAME_EXPECTED,
    OUTCOMES,
    SCOPE_FIELDS,
    STATUSES,
    VISIBILITIES,
    Actor,
    Record,
    is_name,
    patch_problems,
)

# A question, not a document; longer ones cost the index more than they tell it.
MAX_QUERY_BYTES: Final = 8192
MAX_REASON_CHARS: Final = 1024
MAX_PREFERENCES: Final = 16
# The most of one memory, and of a whole block, that is put into a model's context.
MAX_CHARS_PER_RECORD: Final = 20_000
MAX_BUDGET_CHARS: Final = 1_000_000

_PATCHABLE: Final = ("body", "lifecycle", "relations", "time")
_FILTERS: Final = ("kind", "status", "valid_at", "known_at")


def draft_of(body: object) -> object:
    """The draft in a remember request: under `record`, as section 3.3 writes it, or bare."""
    if isinstance(body, dict) and "record" in body:
        return body["record"]
    return body


def scope_filter(value: object) -> dict[str, str]:
    """The scope to filter by in a subscription (section 3.8), checked as in a recall."""
    return _scope(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """Section 3.2. Instants are milliseconds; `known_at` (transaction time) is our extension."""

    query: str
    scope: dict[str, str]
    kinds: tuple[str, ...] | None = None
    statuses: tuple[str, ...] | None = None
    valid_at: int | None = None
    known_at: int | None = None
    limit: int = 8
    prefer: tuple[str, ...] = ()
    actor: Actor | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        return cls(**_recall_fields(_object(value, "the request"), default_limit=8))


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrateRequest(RecallRequest):
    """A recall whose results come back as one framed block (section 5.3)."""

    limit: int = 12
    max_visibility: str = "private"
    max_chars: int = 500
    budget_chars: int | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, "the request")
        budget = fields.get("budget_chars")
        return cls(
            **_recall_fields(fields, default_limit=12),
            max_visibility=_choice(fields.get("max_visibility", "private"), VISIBILITIES, "max_visibility"),
            max_chars=_integer(fields.get("max_chars", 500), "max_chars", 1, MAX_CHARS_PER_RECORD),
            budget_chars=None if budget is None else _integer(budget, "budget_chars", 1, MAX_BUDGET_CHARS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviseRequest:
    """Section 3.5."""

    id: str
    patch: Record
    actor: Actor | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, "the request")
        return cls(id=_id(fields), patch=_patch(fields.get("patch")), actor=_actor(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """Section 3.6."""

    id: str
    reason: str = ""
    hard: bool = False
    actor: Actor | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, "the request")
        reason = fields.get("reason")
        if reason is None:
            reason = ""
        if not isinstance(reason, str) or len(reason) > MAX_REASON_CHARS or CONTROL_PATTERN.search(reason):
            raise InvalidInput(f"reason must be one line of at most {MAX_REASON_CHARS} characters")
        hard = fields.get("hard", False)
        if not isinstance(hard, bool):
            raise InvalidInput("hard must be true or false")
        return cls(id=_id(fields), reason=reason, hard=hard, actor=_actor(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackRequest:
    """Section 3.8."""

    id: str
    outcome: str
    session: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, "the request")
        session = fields.get("session")
        return cls(
            id=_id(fields),
            outcome=_choice(fields.get("outcome"), OUTCOMES, "outcome"),
            session=None if session is None else _name(session, "session"),
        )


def _recall_fields(fields: Mapping[str, Any], *, default_limit: int) -> dict[str, Any]:
    filters = _optional_object(fields.get("filter"), "filter")
    unknown = [name for name in filters if name not in _FILTERS]
    if unknown:
        # A filter that is not understood would widen the answer; refusing is the only safe reading.
        raise InvalidInput(f"filter has an unknown field {unknown[0][:40]!a}; known are {', '.join(_FILTERS)}")
    hints = _optional_object(fields.get("ranking_hints"), "ranking_hints")
    limit = fields.get("limit")
    return {
        "query": _query(fields.get("query")),
        "scope": _scope(_optional_object(fields.get("scope"), "scope")),
        "kinds": _choices(filters.get("kind"), KINDS, "filter.kind"),
        "statuses": _choices(filters.get("status"), STATUSES, "filter.status"),
        "valid_at": _instant(filters.get("valid_at"), "filter.valid_at"),
        "known_at": _instant(filters.get("known_at"), "filter.known_at"),
        "limit": default_limit if limit is None else min(_integer(limit, "limit", 0, None), MAX_RECALL),
        "prefer": _preferences(hints.get("prefer")),
        "actor": _actor(fields),
    }


def _query(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("query must be a non-empty string")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_QUERY_BYTES:
        raise InvalidInput(f"query must be at most {MAX_QUERY_BYTES} bytes")
    return value


def _scope(value: object) -> dict[str, str]:
    scope: dict[str, str] = {}
    for name, part in _object(value, "scope").items():
        if name not in SCOPE_FIELDS:
            raise InvalidInput(f"scope has an unknown field {name[:40]!a}; known are {', '.join(SCOPE_FIELDS)}")
        if part is None:
            continue
        if name == "visibility":
            scope[name] = _choice(part, VISIBILITIES, "scope.visibility")
        else:
            scope[name] = _name(part, f"scope.{name}")
    return scope


def _patch(value: object) -> Record:
    patch = _object(value, "patch")
    for name in patch:
        if name not in _PATCHABLE:
            # Section 3.5: scope, kind and consent pass to the successor unchanged.
            raise InvalidInput(f"patch.{name[:40]} cannot be revised; only {', '.join(_PATCHABLE)} can")
    if not patch:
        raise InvalidInput(f"patch must change at least one of {', '.join(_PATCHABLE)}")
    problems = patch_problems(patch)
    time = patch.get("time")
    if isinstance(time, dict):
        problems += [f"time.{name} cannot be revised" for name in ("created", "observed") if name in time]
    if problems:
        raise InvalidInput("; ".join(f"patch.{problem}" for problem in problems))
    return patch


def _actor(fields: Mapping[str, Any]) -> Actor | None:
    value = fields.get("actor")
    if value is None:
        return None
    actor = _object(value, "actor")
    kind = actor.get("kind")
    return (
        _name(actor.get("did"), "actor.did"),
        "user" if kind is None else _choice(kind, ACTOR_KINDS, "actor.kind"),
    )


def _id(fields: Mapping[str, Any]) -> str:
    # Any name will do here: an identifier that is not one of ours is not found, rather than malformed.
    return _name(fields.get("id"), "id")


def _optional_object(value: object, where: str) -> dict[str, Any]:
    return {} if value is None else _object(value, where)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object")
    return value


def _name(value: object, where: str) -> str:
    if not is_name(value):
        raise InvalidInput(f"{where} {NAME_EXPECTED}")
    assert isinstance(value, str)
    return value


def _choice(value: object, choices: tuple[str, ...], where: str) -> str:
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{where} must be one of {'|'.join(choices)}")
    return value


def _choices(value: object, choices: tuple[str, ...], where: str) -> tuple[str, ...] | None:
    if value is None or value == []:
        return None
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise InvalidInput(f"{where} must be an array of {'|'.join(choices)}")
    return tuple(dict.fromkeys(_choice(item, choices, where) for item in items))


def _preferences(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_PREFERENCES:
        raise InvalidInput(f"ranking_hints.prefer must be an array of at most {MAX_PREFERENCES} signal names")
    return tuple(_name(item, "ranking_hints.prefer") for item in value)


def _instant(value: object, where: str) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return parse_instant(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(f"{where} must be an RFC 3339 date-time with an offset")


def _integer(value: object, where: str, low: int, high: int | None) -> int:
    if isinstance(value, float) and value.is_integer():
        # JSON has one kind of number; some clients write 8 as 8.0.
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InvalidInput(f"{where} must be a whole number {bounds}")
    return value
