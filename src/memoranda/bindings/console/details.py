"""The details of a memory that its page edits: kind, project, person, visibility, tags, validity and consent.

Each field of the form is compared with the memory, and only changes are written. If the memory changed since the page
was opened, nothing is written, and the page shows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast, get_args

import msgspec

from memoranda.bindings.console.texts import Texts
from memoranda.bindings.console.visit import Visit
from memoranda.errors import InvalidInput
from memoranda.model.memory import VISIBILITIES
from memoranda.service.ump.facets import tags_of
from memoranda.service.ump.revise import Revised, refile
from memoranda.standards.ump.mapping import TAG_PREFIX
from memoranda.standards.ump.rules import Filing
from memoranda.standards.ump.shapes import Kind, Record, Visibility

# Characters of a date such as 2026-05-31.
_DAY_CHARS: Final = 10
KINDS: Final = get_args(Kind)
# The value of the field for exports if the memory must not leave.
STAYS: Final = "never"


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the fields, as the form has them."""

    kind: str
    project: str
    user: str
    visibility: str
    tags: str
    valid_from: str
    valid_to: str
    export: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A field that was typed differently from its value now: its label and both values, as a person reads them."""

    label: str
    now: str
    typed: str


# The names of the labels of the fields.
_LABELS: Final[Mapping[str, str]] = {
    "kind": "words.kind",
    "project": "words.project",
    "user": "facet.user",
    "visibility": "memory.visible_to",
    "tags": "facet.tag",
    "valid_from": "memory.true_from",
    "valid_to": "memory.true_until",
    "export": "memory.may_leave",
}


def details_of(record: Record) -> Details:
    """Return the details of a memory."""
    fields: Any = record
    scope, times = fields["scope"], fields["time"]
    is_exportable = (fields.get("consent") or {}).get("exportable", True)
    return Details(
        kind=fields["kind"],
        project=scope.get("project") or "",
        user=scope.get("user") or "",
        visibility=scope["visibility"],
        tags=", ".join(tags_of(record)),
        valid_from=str(times.get("valid_from") or "")[:_DAY_CHARS],
        valid_to=str(times.get("valid_to") or "")[:_DAY_CHARS],
        export="" if is_exportable else STAYS,
    )


def parse_details(visit: Visit, current: Details) -> Details:
    """Return the details of the form; a field that it lacks is as in the memory. Raises InvalidInput."""
    fields = {
        name: visit.form_value(name).strip()
        for name in Details.__struct_fields__
        if name in visit.form
    }
    if "tags" in fields:
        tags = [tag.strip().lstrip("#") for tag in fields["tags"].split(",")]
        fields["tags"] = ", ".join(dict.fromkeys(tag for tag in tags if tag))
    # A memory always has a beginning, and a restriction is never lifted.
    if not fields.get("valid_from", "-"):
        del fields["valid_from"]
    if current.export == STAYS:
        fields["export"] = STAYS
    typed = msgspec.structs.replace(current, **fields)
    if typed.kind not in KINDS or typed.visibility not in VISIBILITIES:
        raise InvalidInput(visit.text("wrong.no_choice"))
    return typed


def carry_over(earlier_details: Details, typed: Details, newest: Details) -> Details:
    """Return the newest details with what was typed in a form that showed earlier ones."""
    fields = Details.__struct_fields__
    changes = {
        name: getattr(typed, name)
        for name in fields
        if getattr(typed, name) != getattr(earlier_details, name)
    }
    return msgspec.structs.replace(newest, **changes)


def list_differences(now: Details, typed: Details, text: Texts) -> list[Difference]:
    """Return the fields that were typed differently, with both values."""
    return [
        Difference(
            label=text(label),
            now=_describe_value(name, getattr(now, name), text),
            typed=_describe_value(name, getattr(typed, name), text),
        )
        for name, label in _LABELS.items()
        if getattr(now, name) != getattr(typed, name)
    ]


def _describe_value(name: str, value: str, text: Texts) -> str:
    if name in ("kind", "visibility"):
        return text(f"{name}.{value}")
    if name == "export":
        return text("memory.stays" if value else "memory.leaves")
    return value or text("memory.empty")


def write_details(visit: Visit, record: Record, typed: Details) -> Revised | None:
    """Write the changed details as a new version; return None if nothing changed. Raises InvalidInput."""
    current = details_of(record)
    if typed == current:
        return None
    patch = _build_patch(visit, record, current, typed)
    filing = Filing(
        kind=cast("Kind | None", _value_if_changed(current.kind, typed.kind)),
        project=_value_if_changed(current.project, typed.project),
        user=_value_if_changed(current.user, typed.user),
        visibility=cast(
            "Visibility | None", _value_if_changed(current.visibility, typed.visibility)
        ),
    )
    if filing == Filing():
        return visit.service.change(visit.access, record["id"], patch=patch)
    return refile(visit.service.context, visit.access, record["id"], filing, patch)


def _value_if_changed(current: str, typed: str) -> str | None:
    """Return a typed value if it differs; else None."""
    return None if typed == current else typed


def _build_patch(visit: Visit, record: Any, current: Details, typed: Details) -> dict[str, Any]:
    """Return the changed tags, times and consent as a patch."""
    patch: dict[str, Any] = {}
    if typed.tags != current.tags:
        relations = [
            relation
            for relation in record.get("relations", ())
            if not (relation["type"] == "about" and relation["target"].startswith(TAG_PREFIX))
        ]
        tags = [tag for tag in typed.tags.split(", ") if tag]
        added = [{"type": "about", "target": f"{TAG_PREFIX}{tag}"} for tag in tags]
        patch["relations"] = [*relations, *added]
    times: dict[str, str | None] = {}
    for name in ("valid_from", "valid_to"):
        day = getattr(typed, name)
        if day != getattr(current, name):
            times[name] = parse_day(visit, day) if day else None
    if times:
        # Without a beginning, a new version would begin now.
        if "valid_from" not in times and record["time"].get("valid_from"):
            times["valid_from"] = record["time"]["valid_from"]
        patch["time"] = times
    if typed.export != current.export:
        patch["consent"] = {"exportable": False}
    return patch


def parse_day(visit: Visit, day: str) -> str:
    """Return a day of a form as an instant. Raises InvalidInput."""
    from memoranda.model.instant import parse_instant

    moment = f"{day}T00:00:00Z"
    try:
        parse_instant(moment)
    except ValueError:
        raise InvalidInput(visit.text("wrong.no_day", text=ascii(day[:40]))) from None
    return moment
