"""The session of a query: its caller, its limits, and the settings of the host (CAL sections 18 and 20).

`cal.py` opens a session from a credential and the options of a request. A capability token can only narrow it.

Everything that decides what a query may see or do is in CalSession, and none of it can be changed by the text of the
query. A new restriction belongs here and in `narrow_session`. The limits in CalSettings are for the whole store; a
token can only lower them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NoReturn, TypedDict

import msgspec
from msgspec.structs import replace

from memoranda.errors import QueryError
from memoranda.model.instant import Instant
from memoranda.service.core.access import Access
from memoranda.standards.cal.printing.counter import BYTES_OVER_FOUR, TokenCounter

if TYPE_CHECKING:
    from memoranda.standards.cal.token import CapabilityToken

NOT_ENABLED: Final = "CAL-E044"
DISABLED: Final = "CAL-E000"


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """The kill switches of section 20: `master` for the whole language, `tier1` for the statements that write."""

    master: bool = True
    tier1: bool = True


class WriteQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """Writes per statement, namespace and user in a sliding window (sections 8.8 to 8.10)."""

    add: int = 20
    supersede: int = 10
    revert: int = 5
    window_ms: int = 60_000


class CalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the language, which the operator of the store chooses."""

    switches: Switches = msgspec.field(default_factory=Switches)
    # If true, only the person at this machine may change memories through the language; if not, any writer.
    evolves_locally_only: bool = True
    quotas: WriteQuotas = msgspec.field(default_factory=WriteQuotas)
    counter: TokenCounter = BYTES_OVER_FOUR
    auto_toon: bool = False
    # The dialect in which queries are written besides CAL 1.0.
    dialect: str = "standard"
    templates: bool = True
    query_seconds: float = 5.0
    assemble_seconds: float = 10.0


class SessionOptions(TypedDict, total=False):
    """The options of a request that choose its session."""

    owner: str | None
    namespace: str | None
    user: str | None
    agent: str | None
    # The text of a capability token, which restricts the session.
    token: str | None


class CalSession(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of one request. The namespace and the user are never taken from the query."""

    access: Access
    tenant: str
    # Under its OMS name: "shared" is the default space.
    namespace: str
    user_id: str
    # The switch is on and the credential grants "write".
    tier1: bool
    # If true, changes run directly; if not, they must be prepared first.
    auto_approve: bool = False
    agent_id: str | None = None
    now: Instant
    token_id: str
    # Restrictions of a capability token. None, or an empty set of types, means no restriction.
    allowed_ops: frozenset[str] | None = None
    allowed_grain_types: frozenset[str] = frozenset()
    write_quota: int | None = None
    max_uses: int | None = None
    # The id of the prepared query that runs. It counts as approved, and is spent by the execution.
    prepared_id: str | None = None
    quotas: WriteQuotas = msgspec.field(default_factory=WriteQuotas)
    # The source type of grains that ADD writes. A host that asks the person itself may set user_explicit.
    source_type: str = "agent_inferred"


def require_enabled(switches: Switches) -> None:
    """Raise CAL-E000 when the language is switched off."""
    if not switches.master:
        raise QueryError(
            "CAL is switched off.",
            cal_code=DISABLED,
            suggestion="Ask the operator of this store to enable it.",
        )


def narrow_session(session: CalSession, token: CapabilityToken) -> CalSession:
    """Return the session with the restrictions of a capability token, and with the token's namespace and user."""
    return replace(
        session,
        namespace=token.namespace,
        user_id=token.user_id,
        tier1=session.tier1 and token.tier == 1,
        token_id=token.token_id,
        allowed_ops=frozenset(token.allowed_ops),
        allowed_grain_types=frozenset(token.allowed_grain_types),
        write_quota=token.write_quota_remaining,
        max_uses=token.max_uses,
    )


def check_op(session: CalSession, op: str, grain_types: Collection[str] = ()) -> None:
    """Raise CAL-E044 unless the token allows an operation ("Recall", "Add", …) on these types."""
    if session.allowed_ops is not None and op not in session.allowed_ops:
        refuse("op_not_allowed", f"This token does not allow {op}.", "Use a token that allows it.")
    if session.allowed_grain_types and (
        forbidden := sorted(set(grain_types) - session.allowed_grain_types)
    ):
        refuse(
            "type_not_allowed",
            f"This token does not allow {op} for type {forbidden[0]}.",
            "Use a token that allows it.",
        )


def refuse(reason: str, message: str, suggestion: str) -> NoReturn:
    """Raise CAL-E044, the registry's only code for missing permissions."""
    raise QueryError(message, cal_code=NOT_ENABLED, suggestion=suggestion, reason=reason)
