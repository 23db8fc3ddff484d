"""Two-phase execution (CAL section 18): a query is prepared, reviewed by the caller, and then executed once.

A token carries the prepared query from one call to the next. It contains the canonical text and the values of the
parameters, so that exactly the reviewed query is executed. It is encrypted with a key of this store and bound to the
credential that prepared it: nobody can read or change it, and no other credential can use it.

    calprep.<base64url(nonce ‖ AES-256-GCM(content))>
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, cast

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

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX: Final = "calprep."
# Characters of a token. The values of parameters may be as large as a request, and base64 adds a third.
MAX_TOKEN_CHARS: Final = 2_097_152
_KEY_USE: Final = b"cal prepare"
# Bytes of the nonce of AES-GCM.
_NONCE_BYTES: Final = 12
# The member that holds a hash among the parameters.
_HASH_KEY: Final = "sha256"


class _Content(TypedDict):
    """The content of a token."""

    id: str
    issued_at: int
    expires_at: int
    tenant: str
    namespace: str
    user_id: str
    agent_id: str | None
    tier: int
    token_id: str
    allowed_ops: list[str] | None
    allowed_grain_types: list[str]
    write_quota: int | None
    max_uses: int | None
    query_hash: str
    query: str
    params: dict[str, object]


class Prepared(NamedTuple):
    """A prepared query: its text, its parameters, its hash, and the session to run it in."""

    text: str
    params: dict[str, object]
    query_hash: str
    session: CalSession


def prepare(
    context: Context,
    session: CalSession,
    query: ParsedQuery,
    query_hash: str,
    text: str,
    params: Mapping[str, object],
) -> dict[str, object]:
    """Return a token for a bound query, and the effects of its execution. The caller adds the plan."""
    tier = tier_of(query.statement)
    if tier:
        evolve.require_allowed(session, query.statement, is_approved=True)
    effects = evolve.preview_effects(context, session, query)
    tokens = frozenset(lexer.split_tokens(text))
    used_names = [name for name in params if f"${name}" in tokens]
    content: _Content = {
        "id": str(uuid.uuid4()),
        "issued_at": session.now,
        "expires_at": session.now + capability.LIFETIME_MS,
        "tenant": session.tenant,
        "namespace": session.namespace,
        "user_id": session.user_id,
        "agent_id": session.agent_id,
        "tier": tier,
        "token_id": session.token_id,
        "allowed_ops": None if session.allowed_ops is None else sorted(session.allowed_ops),
        "allowed_grain_types": sorted(session.allowed_grain_types),
        "write_quota": session.write_quota,
        "max_uses": session.max_uses,
        "query_hash": query_hash,
        "query": text,
        "params": {name: _encode_value(name, params[name]) for name in used_names},
    }
    return {"token": _seal(context, session, content), "tier": tier, "side_effects": effects}


def open_prepared(context: Context, session: CalSession, token: str) -> Prepared:
    """Return the prepared query of a token, with the session it was prepared in. Raises CAL-E044.

    A token is valid for one execution. If the query reads, the token is spent here; if it writes, the change spends it
    in its own unit of work.
    """
    content = _open(context, session, token)
    if session.now >= content["expires_at"]:
        capability.refuse(capability.EXPIRED)
    # A credential may reach several tenants; it must still reach the one that the query was prepared for.
    session.access.require_reach(content["tenant"])
    ops = content["allowed_ops"]
    session_of_query = replace(
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
        spend_token(context, session_of_query)
    params = {name: _decode_value(value) for name, value in content["params"].items()}
    return Prepared(content["query"], params, content["query_hash"], session_of_query)


def spend_token(context: Context, session: CalSession) -> None:
    """Use up the token that a reading query runs on, if there is one. Raises CAL-E044 if it was used up before."""

    def work(unit: Unit) -> None:
        evolve.spend_token(unit, session)

    if session.prepared_id is not None or session.max_uses is not None:
        context.engine.write(session.tenant, work)


def _encode_value(name: str, value: object) -> object:
    """Encode a parameter as JSON. A hash becomes an object, so that it differs from a text. Raises QueryError."""
    if isinstance(value, Hash):
        return {_HASH_KEY: value.text}
    if isinstance(value, list | tuple):
        return [_encode_value(name, member) for member in value]
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float) and (number := lexer.normalize_number(value)) is not None:
        return number
    message = f"${name} is neither text, number, boolean nor a list of these."
    suggestion = "Use a text, a number, a boolean or a list."
    raise QueryError(message, cal_code="CAL-E020", suggestion=suggestion)


def _decode_value(value: object) -> object:
    """Decode a parameter from JSON."""
    if isinstance(value, dict):
        return Hash(text=value[_HASH_KEY])
    return [_decode_value(member) for member in value] if isinstance(value, list) else value


def _seal(context: Context, session: CalSession, content: _Content) -> str:
    """Encrypt the content of a token. Raises CAL-E001 if it is too large."""
    nonce = os.urandom(_NONCE_BYTES)
    data = json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    text = PREFIX + base64url_encode(
        nonce + _cipher(context).encrypt(nonce, data, _bound_to(session))
    )
    if len(text) > MAX_TOKEN_CHARS:
        raise QueryError(
            "The query and its parameters are too large to be prepared.",
            cal_code="CAL-E001",
            suggestion="Use shorter values.",
        )
    return text


def _open(context: Context, session: CalSession, token: str) -> _Content:
    """Decrypt the content of a token. Raises CAL-E044 for a token of another store or credential."""
    from cryptography.exceptions import InvalidTag

    if not token.startswith(PREFIX) or len(token) > MAX_TOKEN_CHARS:
        capability.refuse(capability.BAD_SIGNATURE)
    try:
        data = base64url_decode(token[len(PREFIX) :])
        plaintext = _cipher(context).decrypt(
            data[:_NONCE_BYTES], data[_NONCE_BYTES:], _bound_to(session)
        )
        content = json_text.parse(plaintext, max_bytes=MAX_TOKEN_CHARS)
    except (ValueError, InvalidTag, MemorandaError):
        capability.refuse(capability.BAD_SIGNATURE)
    return cast("_Content", content)


def _cipher(context: Context) -> AESGCM:
    """Return the cipher of tokens."""
    # Imported here: clients of a server load this module and do without the library.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(context.operator.derive(_KEY_USE))


def _bound_to(session: CalSession) -> bytes:
    """Return the data that binds a token to a credential, so that no other one can open it."""
    return json.dumps([session.access.credential, session.access.actor]).encode("ascii")
