"""Prepare, review, execute (CAL section 18): a query is fixed first, looked at, and then run as it was, once.

The token that stands for a prepared query is sealed with a key of this store and bound to the credential that asked
for it: nobody can read, change or borrow it. It holds the canonical text and the values of its parameters, so what is
executed is what was reviewed.

    calprep.<base64url(nonce ‖ AES-256-GCM(content))>
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from memoranda.encoding import json_text
from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.errors import MemorandaError, QueryError
from memoranda.service.cal import evolve
from memoranda.service.cal.session import CalSession
from memoranda.service.core.context import Context
from memoranda.standards.cal import token as capability
from memoranda.standards.cal.language import lexer
from memoranda.standards.cal.language.syntax import Hash, ParsedQuery, tier_of
from memoranda.storage.engine.contract import Unit

PREFIX: Final = "calprep."
# The values of parameters may be as large as a request; base64 makes four of three.
MAX_TOKEN_CHARS: Final = 2_097_152
_KEY_USE: Final = b"cal prepare"
_NONCE_BYTES: Final = 12
_HASH_KEY: Final = "sha256"


class Prepared(NamedTuple):
    """A prepared query that may be executed: its text, its parameters, its hash, and the session to run it in."""

    text: str
    params: dict[str, Any]
    query_hash: str
    session: CalSession


def prepare(
    context: Context,
    session: CalSession,
    query: ParsedQuery,
    query_hash: str,
    text: str,
    params: Mapping[str, object],
) -> dict[str, Any]:
    """A token for this bound query, and what executing it would change. The plan is the caller's to add."""
    level = tier_of(query.statement)
    if level:
        evolve.require_allowed(session, query.statement, is_approved=True)
    effects = evolve.side_effects(context, session, query)
    content = {
        "id": str(uuid.uuid4()),
        "issued_at": session.now,
        "expires_at": session.now + capability.LIFETIME_MS,
        "tenant": session.tenant,
        "namespace": session.namespace,
        "user_id": session.user_id,
        "agent_id": session.agent_id,
        "tier": level,
        "token_id": session.token_id,
        "allowed_ops": None if session.allowed_ops is None else sorted(session.allowed_ops),
        "allowed_grain_types": sorted(session.allowed_grain_types),
        "write_quota": session.write_quota,
        "max_uses": session.max_uses,
        "query_hash": query_hash,
        "query": text,
        "params": {name: _plain(name, params[name]) for name in _used(text, params)},
    }
    return {"token": _seal(context, session, content), "tier": level, "side_effects": effects}


def open_prepared(context: Context, session: CalSession, token: str) -> Prepared:
    """The query behind a token, in the namespace and for the user it was prepared for. Raises CAL-E044.

    A token is good for one execution. That of a query that reads is spent here; that of a change is spent by the
    change itself, in the same unit of work.
    """
    content = _open(context, session, token)
    if session.now >= content["expires_at"]:
        capability.refuse(capability.EXPIRED)
    # The same credential may speak for several tenants; it must still reach the one that was meant.
    session.access.require_reach(content["tenant"])
    ops = content["allowed_ops"]
    opened = replace(
        session,
        tenant=content["tenant"],
        namespace=content["namespace"],
        user_id=content["user_id"],
        agent_id=content["agent_id"],
        token_id=content["token_id"],
        allowed_ops=None if ops is None else frozenset(ops),
        allowed_grain_types=frozenset(content["allowed_grain_types"]),
        write_quota=content["write_quota"],
        max_uses=content["max_uses"],
        prepared_id=content["id"],
    )
    if content["tier"] == 0:
        spend_token(context, opened)
    params = {name: _value(value) for name, value in content["params"].items()}
    return Prepared(content["query"], params, content["query_hash"], opened)


def spend_token(context: Context, session: CalSession) -> None:
    """Spend what a reading query runs on, if it runs on a token. Raises CAL-E044 when that was used already."""

    def work(unit: Unit) -> None:
        evolve.spend_token(unit, session)

    if session.prepared_id is not None or session.max_uses is not None:
        context.engine.write(session.tenant, work)


def _used(text: str, params: Mapping[str, object]) -> list[str]:
    tokens = frozenset(lexer.split_tokens(text))
    return [name for name in params if f"${name}" in tokens]


def _plain(name: str, value: object) -> Any:
    """A parameter as JSON; a hash is told from a text."""
    if isinstance(value, Hash):
        return {_HASH_KEY: value.text}
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float) and (number := lexer.normalize_number(value)) is not None:
        return number
    message = f"${name} is neither text, number, boolean nor a list of these."
    raise QueryError(message, cal_code="CAL-E020", suggestion="Give one of these.")


def _value(plain: Any) -> Any:
    if isinstance(plain, dict):
        return Hash(text=plain[_HASH_KEY])
    return [_value(each) for each in plain] if isinstance(plain, list) else plain


def _seal(context: Context, session: CalSession, content: Mapping[str, Any]) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    data = json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    text = PREFIX + base64url_encode(nonce + _cipher(context).encrypt(nonce, data, _bound(session)))
    if len(text) > MAX_TOKEN_CHARS:
        raise QueryError(
            "The query and its parameters are too large to be prepared.",
            cal_code="CAL-E001",
            suggestion="Give shorter values.",
        )
    return text


def _open(context: Context, session: CalSession, token: str) -> dict[str, Any]:
    if not token.startswith(PREFIX) or len(token) > MAX_TOKEN_CHARS:
        capability.refuse(capability.BAD_SIGNATURE)
    try:
        data = base64url_decode(token[len(PREFIX) :])
        opened = _cipher(context).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _bound(session))
        content = json_text.parse(opened, max_bytes=MAX_TOKEN_CHARS)
    except (ValueError, InvalidTag, MemorandaError):
        capability.refuse(capability.BAD_SIGNATURE)
    assert isinstance(content, dict)
    return content


def _cipher(context: Context) -> Any:
    return AESGCM(context.operator.derive(_KEY_USE))


def _bound(session: CalSession) -> bytes:
    """Whose token it is: another credential cannot open it."""
    return json.dumps([session.access.credential, session.access.actor]).encode("ascii")
