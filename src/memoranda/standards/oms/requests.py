"""What is asked of a store of grains, read from untrusted JSON (section 28).

Each `parse` takes any JSON value and returns a value that needs no further checks, or raises InvalidInput
that names the field and what was expected there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from memoranda.errors import InvalidInput
from memoranda.model.selection import Selection
from memoranda.standards.oms.grains import check_address
from memoranda.standards.oms.manifest import STATUSES
from memoranda.standards.oms.registry import BY_NAME, DEFAULT_NAMESPACE, TYPES, is_domain_byte

MAX_LIMIT: Final = 500
DEFAULT_LIMIT: Final = 20
# A question, not a document.
MAX_TEXT_BYTES: Final = 8192
# Longer than any name people give; subjects and objects are compared by fingerprint, whatever their length.
MAX_NAME_CHARS: Final = 4096
MAX_REASON_CHARS: Final = 1024

_DOMAIN_TYPE = re.compile(r"0x[0-9a-fA-F]{2}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def given_of(body: object, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the grain in a request, bare or under `grain`, and the request's own options beside it."""
    fields = _object(body, "a grain")
    # Every grain has a type, so that a field of its own called grain is not mistaken for a wrapping.
    if "grain" not in fields or "type" in fields:
        return fields, {}
    rest = {name: value for name, value in fields.items() if name != "grain"}
    check_known(rest, options)
    return _object(fields["grain"], "grain"), rest


@dataclass(frozen=True, slots=True, kw_only=True)
class FindRequest:
    """Section 28: by structure, by words, or both. Whatever is given must match."""

    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    namespace: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    type_byte: int | None = None
    text: str | None = None
    # Without what was superseded or forgotten.
    current: bool = True
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read the request."""
        fields = _object(value, "the request")
        check_known(fields, FIND_FIELDS)
        current = fields.get("current", True)
        if not isinstance(current, bool):
            raise InvalidInput("current must be true or false")
        request = cls(
            **{name: name_of(fields, name) for name in (*_STRUCTURE_FIELDS, "cursor")},
            type_byte=_type_byte(fields.get("type")),
            text=_text(fields.get("text")),
            current=current,
            limit=_limit(fields.get("limit", DEFAULT_LIMIT)),
        )
        if request.text is not None and (request.cursor is not None or not current):
            raise InvalidInput("text: a search by words gives its best once, of what is current; leave out the rest")
        return request

    @property
    def selection(self) -> Selection:
        """The same in the store's words."""
        return Selection(
            standing="current" if self.current else "recorded",
            subject=self.subject,
            relation=self.relation,
            object=self.object,
            space="" if self.namespace == DEFAULT_NAMESPACE else self.namespace,
            user=self.user_id,
            session=self.session_id,
        )

    def asked(self) -> list[str]:
        """The names of the fields that had to match exactly."""
        given = [name for name in _STRUCTURE_FIELDS if getattr(self, name) is not None]
        return [*given, *(["type"] if self.type_byte is not None else [])]


_STRUCTURE_FIELDS: Final = ("subject", "relation", "object", "namespace", "user_id", "session_id")
FIND_FIELDS: Final = (*_STRUCTURE_FIELDS, "type", "text", "current", "limit", "cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRequest:
    """What is known of a grain's truth, why, and the grain that speaks against it."""

    status: str
    reason: str = ""
    by: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the request."""
        fields = _object(value, "the request")
        check_known(fields, ("status", "reason", "by"))
        status = fields.get("status")
        if not isinstance(status, str) or status not in STATUSES:
            raise InvalidInput(f"status must be one of {'|'.join(STATUSES)}")
        by = name_of(fields, "by")
        return cls(status=status, reason=reason_of(fields), by=None if by is None else check_address(by))


def name_of(fields: Mapping[str, Any], name: str, *, is_required: bool = False) -> str | None:
    """A name that may be missing, as one bearable string."""
    value = fields.get(name)
    if value is None and not is_required:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS or _CONTROL.search(value) is not None:
        raise InvalidInput(
            f"{name} must be a non-empty string of at most {MAX_NAME_CHARS} characters without control characters"
        )
    return value


def required_name(fields: Mapping[str, Any], name: str) -> str:
    """A name that must be there."""
    found = name_of(fields, name, is_required=True)
    assert found is not None
    return found


def reason_of(fields: Mapping[str, Any], name: str = "reason") -> str:
    """Why something is done, in a line or two; empty if it is not said."""
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_REASON_CHARS or _CONTROL.search(value) is not None:
        raise InvalidInput(f"{name} must be a string of at most {MAX_REASON_CHARS} characters")
    return value


def check_known(fields: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a name that would be silently ignored: a misspelt filter widens the answer."""
    for name in fields:
        if name not in known:
            shown = _CONTROL.sub("?", name[:40])
            raise InvalidInput(f"unknown field {shown!a}; there are {', '.join(known) or 'none'}")


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object")
    return value


def _type_byte(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        if (known := BY_NAME.get(value)) is not None:
            return known.byte
        if _DOMAIN_TYPE.fullmatch(value) and is_domain_byte(int(value, 16)):
            return int(value, 16)
    raise InvalidInput(f"type must be one of {'|'.join(each.name for each in TYPES)}, or 0xF0 to 0xFF")


def _text(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise InvalidInput(f"text must be words, of at most {MAX_TEXT_BYTES} bytes")
    return value


def _limit(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        # JSON has one kind of number; some clients write 8 as 8.0.
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LIMIT:
        raise InvalidInput(f"limit must be a whole number from 1 to {MAX_LIMIT}")
    return value
