"""Differences between two versions: HISTORY … DIFF (section 8.4)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from memoranda.encoding.bases import base64_encode

# Fields that differ between any two versions and are no part of their content.
BOOKKEEPING: Final = frozenset(
    ("created_at", "timestamp_ms", "derived_from", "supersession_justification")
)

# `from` is a keyword of Python, so this cannot be written as a class.
Change = TypedDict("Change", {"field": str, "from": object, "to": object})


def find_differences(before: Mapping[str, object], after: Mapping[str, object]) -> list[Change]:
    """Return the payload fields that differ, ordered by name, with JSON values; a missing field is null."""
    names = sorted((before.keys() | after.keys()) - BOOKKEEPING)
    changes: list[Change] = []
    for name in names:
        old_value, new_value = _json_value(before.get(name)), _json_value(after.get(name))
        if _json_text(old_value) != _json_text(new_value):
            changes.append({"field": name, "from": old_value, "to": new_value})
    return changes


def _json_text(value: object) -> str:
    """Return a value as JSON with sorted keys, for comparison."""
    # In Python 1 == 1.0 == True; in a payload they differ.
    return json.dumps(value, sort_keys=True)


def _json_value(value: object) -> object:
    """Return a value of a payload as JSON: bytes as base64, and values that JSON cannot express as text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes):
        return base64_encode(value)
    if isinstance(value, Mapping):
        return {str(key): _json_value(member) for key, member in value.items()}
    if isinstance(value, Sequence):
        return [_json_value(member) for member in value]
    return str(value)
