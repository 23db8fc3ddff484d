"""Messages about fields of a request, as messages about the options and arguments that set them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memoranda.cli.parser import ParameterSlot

# A field at the beginning of a message: `lifecycle.salience must be …`, `consent.redact.0 must be …`, `zone: not …`.
_FIELD = re.compile(
    r"(?P<path>[A-Za-z_]+(?:\[\d+\]|\.\d+|\.[A-Za-z_]+)*)(?=:| (?:must|is required|has|may not|needs|takes)\b)"
)
_INDEX = re.compile(r"\[\d+\]|\.\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOMENT = "an RFC 3339 date-time with an offset"
# Options that take a moment also take a date.
_MOMENT_OR_DATE = "a date such as 2026-12-01, or RFC 3339 such as 2026-12-01T09:00:00Z"


def name_option(message: str, slots: Sequence[ParameterSlot]) -> str:
    """Return a message with the option or argument in place of the field that it begins with."""
    match = _FIELD.match(message)
    if match is None:
        return message
    setters = _find_slots(_INDEX.sub("", match["path"]), slots)
    if not setters:
        return message
    problem = message[match.end() :]
    if "date" in setters[0].help:
        problem = problem.replace(_MOMENT, _MOMENT_OR_DATE)
    return " or ".join(slot.label for slot in setters) + problem


def _find_slots(path: str, slots: Sequence[ParameterSlot]) -> list[ParameterSlot]:
    """Return the slots that set a field: those that declare it, else the one with its name."""
    declaring = [slot for slot in slots if path in slot.fields]
    if declaring:
        return declaring
    field = path.rpartition(".")[2]
    name = _CAMEL.sub("-", field).replace("_", "-").lower()
    # A list of values is set by an option that can be repeated.
    names = {name, name.removesuffix("s")}
    return [slot for slot in slots if slot.label.lstrip("-").lower() in names][:1]
