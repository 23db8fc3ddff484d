"""Keywords of the library's verbs, in Python's own types, and what the standard says for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from memoranda.errors import InvalidInput
from memoranda.model.instant import format_duration, format_instant, from_datetime
from memoranda.model.standard import Standard
from memoranda.standards.ump.requests import Part
from memoranda.standards.ump.shapes import Kind, Signal, Status, Visibility

# A moment with its time zone; as text in RFC 3339.
When = datetime | str
# Instead of a moment: an end is lifted.
NEVER: Final = "never"
# How long; as text in ISO 8601, such as P30D.
HowLong = timedelta | str
Kinds = Kind | Sequence[Kind]


class Where(TypedDict, total=False):
    """What narrows a question, and how its answers are ranked; None is as good as nothing said."""

    owner: str | None
    project: str | None
    user: str | None
    agent: str | None
    session: str | None
    visibility: Visibility | None
    kind: Kinds | None
    status: Status | Sequence[Status] | None
    valid_at: When | None
    known_at: When | None
    tags: Sequence[str]
    standard: Standard | None
    strict: bool
    prefer: Sequence[Signal]
    asked_at: When | None
    zone: str | None
    weights: Mapping[Part, float] | None
    words_only: bool
    floor: bool
    rerank: bool
    explain: bool


class Listed(TypedDict, total=False):
    """Which memories are listed; every field given must match exactly."""

    project: str | None
    user: str | None
    agent: str | None
    session: str | None
    kind: Kinds | None
    tags: Sequence[str]
    standard: Standard | None
    since: When | None
    valid_at: When | None
    known_at: When | None


def check(given: Mapping[str, Any], known: type) -> None:
    """Raise TypeError for a keyword that there is not, as Python does where they are written out."""
    if unknown := sorted(given.keys() - known.__annotations__.keys()):
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; there are {', '.join(known.__annotations__)}"
        )


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as a request says them: what was not said is left out."""
    return {
        name: _said(value) for name, value in given.items() if value is not None and value != ()
    }


def _said(value: object) -> object:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, timedelta):
        return format_duration(value // timedelta(milliseconds=1))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def moment(value: When) -> str:
    """Return a moment in RFC 3339. Raises InvalidInput without a time zone: it would mean something else elsewhere."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise InvalidInput(
            f"{value.isoformat()} has no time zone; say datetime.now(UTC), or .astimezone()"
        )
    return format_instant(from_datetime(value))
