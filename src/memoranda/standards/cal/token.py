"""Capability tokens of CAL (section 18): the right to run certain operations in a namespace, for a user, until a time.

A token is signed with HMAC-SHA256 by the host that issues it, and only that host reads it. The signed bytes are the
members without `signature`, as JSON with sorted keys and no spaces.

A token limits what its bearer may do; it never adds a right. Counters of uses and writes are kept in the store.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from memoranda.encoding import json_text
from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.errors import MemorandaError, QueryError
from memoranda.standards.cal.fields import SINGULARS
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    BatchQuery,
    Coalesce,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
    History,
    ParsedQuery,
    Recall,
    Reduce,
    Revert,
    SetOp,
    Statement,
    Supersede,
)

READ_OPS: Final = (
    "Recall",
    "Assemble",
    "Count",
    "Exists",
    "Explain",
    "History",
    "Describe",
    "Batch",
    "Coalesce",
)
WRITE_OPS: Final = ("Add", "Supersede", "Revert")
# Milliseconds that a token is valid by default.
LIFETIME_MS: Final = 300_000
# Milliseconds. Uses and quotas are stored for the lifetime of a token, so it is bounded.
LIFETIME_MAX_MS: Final = 86_400_000
# Characters. A token is sent in one HTTP header, and servers commonly reject headers above 8 KiB.
MAX_TOKEN_CHARS: Final = 8192
PREFIX: Final = "caltok."

BAD_SIGNATURE: Final = "bad_signature"
EXPIRED: Final = "expired"
REPLAYED: Final = "replayed"

# Characters of an id, a namespace or a user.
_TEXT_CHARS: Final = 512
# Uses, and writes, that one token can grant.
_MAX_COUNT: Final = 1_000_000


class CapabilityToken(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a token, without its signature; instants are in milliseconds.

    Raises ValueError for members outside their range.
    """

    token_id: str
    namespace: str
    user_id: str
    tier: int = 0
    allowed_ops: tuple[str, ...] = READ_OPS
    issued_at: int
    expires_at: int
    max_uses: int = 1
    # Empty means no restriction.
    allowed_grain_types: tuple[str, ...] = ()
    write_quota_remaining: int = 0

    def __post_init__(self) -> None:
        for name in ("token_id", "namespace", "user_id"):
            value = getattr(self, name)
            if not isinstance(value, str) or not 0 < len(value) <= _TEXT_CHARS:
                raise ValueError(f"{name} must be text of at most {_TEXT_CHARS} characters")
        for name in ("tier", "issued_at", "expires_at", "max_uses", "write_quota_remaining"):
            if type(getattr(self, name)) is not int:
                raise ValueError(f"{name} must be a whole number")
        if self.tier not in (0, 1):
            raise ValueError("tier must be 0 or 1")
        ops = READ_OPS + WRITE_OPS if self.tier else READ_OPS
        if not _are_all_in(self.allowed_ops, ops):
            raise ValueError(f"allowed_ops must be some of {', '.join(ops)}")
        if not _are_all_in(self.allowed_grain_types, SINGULARS):
            raise ValueError("allowed_grain_types must be grain types")
        if not 0 < self.expires_at - self.issued_at <= LIFETIME_MAX_MS:
            raise ValueError("a token lives for at most a day")
        if (
            not 1 <= self.max_uses <= _MAX_COUNT
            or not 0 <= self.write_quota_remaining <= _MAX_COUNT
        ):
            raise ValueError("max_uses and write_quota_remaining are out of range")


def sign(token: CapabilityToken, key: bytes) -> dict[str, object]:
    """Return the token as a signed document."""
    document = _token_document(token)
    return {**document, "signature": _signature(document, key)}


def open_token(document: object, key: bytes, *, now_ms: int) -> CapabilityToken:
    """Return the token of a signed document. Raise CAL-E044, with a reason, if it is not valid now."""
    if not isinstance(document, Mapping) or not isinstance(document.get("signature"), str):
        refuse(BAD_SIGNATURE)
    try:
        token = _read_token(document)
        expected_signature = _signature(_token_document(token), key)
    except ValueError:
        refuse(BAD_SIGNATURE)
    signature = document["signature"].encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(signature, expected_signature.encode("ascii")):
        refuse(BAD_SIGNATURE)
    if now_ms >= token.expires_at:
        refuse(EXPIRED)
    return token


def token_text(document: Mapping[str, object]) -> str:
    """Return a signed token as one word, for an HTTP header."""
    return PREFIX + base64url_encode(_signed_bytes(document))


def token_from_text(text: str) -> dict[str, object]:
    """Return the document of a token word, unverified: `open_token` verifies it. Raise CAL-E044."""
    if not text.startswith(PREFIX) or len(text) > MAX_TOKEN_CHARS:
        refuse(BAD_SIGNATURE)
    try:
        document = json_text.parse(
            base64url_decode(text[len(PREFIX) :]), max_bytes=MAX_TOKEN_CHARS, max_depth=2
        )
    except (ValueError, MemorandaError):
        refuse(BAD_SIGNATURE)
    if not isinstance(document, dict):
        refuse(BAD_SIGNATURE)
    return document


def pseudonym(key: bytes, user_id: str) -> str:
    """Return the name of a user in audit entries: stable, but only the key can link it to the user."""
    return hmac.new(key, user_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def operations(query: ParsedQuery) -> frozenset[str]:
    """Return the operations that a token must allow for a query.

    Set operations need Recall, and COUNT needs Count.
    """
    lets = ("Recall",) if query.lets else ()
    return frozenset((*lets, *_operations(query.statement)))


def refuse(reason: str) -> NoReturn:
    """Raise CAL-E044 with a reason."""
    message, suggestion = _REFUSALS[reason]
    raise QueryError(message, cal_code="CAL-E044", suggestion=suggestion, reason=reason)


_REFUSALS: Final = {
    BAD_SIGNATURE: (
        "The token is not valid here.",
        "Request a token from this server, and send it unchanged.",
    ),
    EXPIRED: ("The token has expired.", "Ask for a new one."),
    REPLAYED: ("The token was used already.", "Ask for a new one: a token runs one query, once."),
}
_OPERATIONS: Final[Mapping[type, str]] = {
    Assemble: "Assemble",
    SetOp: "Recall",
    Exists: "Exists",
    History: "History",
    Explain: "Explain",
    Describe: "Describe",
    Coalesce: "Coalesce",
    Add: "Add",
    Supersede: "Supersede",
    Revert: "Revert",
    DefineTemplate: "Assemble",
}


def _operations(statement: Statement) -> tuple[str, ...]:
    """Return the operations of one statement."""
    if isinstance(statement, BatchQuery):
        return ("Batch", *(op for entry in statement.entries for op in _operations(entry.query)))
    if isinstance(statement, Recall):
        counts = any(
            isinstance(stage, Reduce) and stage.to == "count" for stage in statement.stages
        )
        return ("Count",) if counts else ("Recall",)
    return (_OPERATIONS[type(statement)],)


def _read_token(document: Mapping[object, object]) -> CapabilityToken:
    """Read the members of a token. Raise ValueError if there are others, or some are missing."""
    if document.keys() != _MEMBER_NAMES | {"signature"}:
        raise ValueError("fields of the token are missing or unknown")
    members: dict[str, Any] = {name: document[name] for name in _MEMBER_NAMES}
    for name in ("allowed_ops", "allowed_grain_types"):
        if not isinstance(members[name], list):
            raise ValueError(f"{name} must be an array")
        members[name] = tuple(members[name])
    return CapabilityToken(**members)


def _token_document(token: CapabilityToken) -> dict[str, object]:
    """Return the members of a token as JSON, sorted by name."""
    document = {}
    for name in sorted(_MEMBER_NAMES):
        value = getattr(token, name)
        document[name] = list(value) if isinstance(value, tuple) else value
    return document


def _signature(document: Mapping[str, object], key: bytes) -> str:
    """Return the HMAC-SHA256 of the members."""
    return hmac.new(key, _signed_bytes(document), hashlib.sha256).hexdigest()


def _signed_bytes(document: Mapping[str, object]) -> bytes:
    """Return the canonical bytes that are signed. Raise ValueError if a text is not valid Unicode."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8"
    )


def _are_all_in(names: object, allowed: tuple[str, ...]) -> bool:
    """Return True for a tuple whose members are all allowed names."""
    return isinstance(names, tuple) and all(
        isinstance(name, str) and name in allowed for name in names
    )


_MEMBER_NAMES: Final = frozenset(CapabilityToken.__struct_fields__)
