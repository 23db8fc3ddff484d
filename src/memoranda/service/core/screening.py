"""What looks like a secret, in every write of every standard: left alone, reported, or replaced, as the policy says.

What came signed, or as finished bytes, cannot be changed without becoming something else: under `redact` it is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from memoranda.errors import InvalidInput
from memoranda.model.native import NATIVE_KEY
from memoranda.service.core.context import Context

_log = logging.getLogger(__name__)


def screened(context: Context, text: str, where: str) -> str:
    """The text as it may be stored. What was noticed is logged by its kind, never by its value."""
    shown, kinds = context.secrets.screened(text)
    if kinds:
        _log.warning("%s: looks like a secret (%s); policy %s", where, ", ".join(kinds), context.secrets.policy)
    return shown


def screened_fields(context: Context, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for every text among some fields, at any depth; the very same object if nothing had to be changed."""
    if context.secrets.policy == "off":
        return fields
    passed = {name: _screened(context, value, name) for name, value in fields.items()}
    # An original that is carried along says it too, and cannot be changed: then it stays behind.
    return fields if passed == fields else {name: _without_originals(value) for name, value in passed.items()}


def _without_originals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_originals(each) for name, each in value.items() if name != NATIVE_KEY}
    return [_without_originals(each) for each in value] if isinstance(value, list) else value


def _screened(context: Context, value: Any, where: str) -> Any:
    if isinstance(value, str):
        return screened(context, value, where)
    if isinstance(value, list):
        return [_screened(context, each, where) for each in value]
    if isinstance(value, Mapping):
        return {
            name: each if name == NATIVE_KEY else _screened(context, each, f"{where}.{name}")
            for name, each in value.items()
        }
    return value


def refuse_secrets(context: Context, fields: Mapping[str, Any]) -> None:
    """For what cannot be changed any more: its fields. Raises InvalidInput under `redact`."""
    if context.secrets.policy == "off":
        return
    for where, text in _texts(fields, ""):
        _, kinds = context.secrets.screened(text)
        if kinds and context.secrets.policy == "redact":
            raise InvalidInput(f"{where}: looks like a secret ({kinds[0]}), and what is finished cannot be redacted")
        if kinds:
            _log.warning("%s: looks like a secret (%s); policy warn", where, ", ".join(kinds))


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, where)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, f"{where}.{name}" if where else str(name))
