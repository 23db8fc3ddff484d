"""On whose behalf a query runs, and what that caller may do with the language (CAL sections 18 and 20)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NoReturn

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
    """The kill switches of section 20: everything, or what writes."""

    master: bool = True
    tier1: bool = True


class WriteQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """How often each statement may write in a sliding window, per namespace and user (sections 8.8 to 8.10)."""

    add: int = 20
    supersede: int = 10
    revert: int = 5
    window_ms: int = 60_000


class CalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever runs the store decides about the language, once."""

    switches: Switches = msgspec.field(default_factory=Switches)
    # Whether only the person at this machine may change memories through the language, or any writer.
    evolves_locally_only: bool = True
    quotas: WriteQuotas = msgspec.field(default_factory=WriteQuotas)
    counter: TokenCounter = BYTES_OVER_FOUR
    auto_toon: bool = False
    templates: bool = True
    query_seconds: float = 5.0
    assemble_seconds: float = 10.0


class CalSession(msgspec.Struct, frozen=True, kw_only=True):
    """One request's caller: the namespace and the user are never taken from the query."""

    access: Access
    tenant: str
    # As OMS names it: "shared" is the default space.
    namespace: str
    user_id: str
    # The switch is on and the credential grants "write".
    tier1: bool
    # The host approves every change itself; otherwise a change is prepared first.
    auto_approve: bool = False
    agent_id: str | None = None
    now: Instant
    token_id: str
    # From a capability token. None: no restriction; no grain types: no restriction either.
    allowed_ops: frozenset[str] | None = None
    allowed_grain_types: frozenset[str] = frozenset()
    write_quota: int | None = None
    max_uses: int | None = None
    # The prepared query that is executed: it is approved, and spent with it.
    prepared_id: str | None = None
    quotas: WriteQuotas = msgspec.field(default_factory=WriteQuotas)
    # What ADD says of where a grain comes from; a host that asks the person itself may say user_explicit.
    source_type: str = "agent_inferred"


def require_enabled(switches: Switches) -> None:
    """Raise CAL-E000 when the language is switched off."""
    if not switches.master:
        raise QueryError(
            "CAL is switched off.", cal_code=DISABLED, suggestion="Ask the operator of this store."
        )


def narrowed(session: CalSession, token: CapabilityToken) -> CalSession:
    """The session as a capability token limits it: its namespace and user count, whatever else was said."""
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
    """Raise CAL-E044 unless the token lets this operation ("Recall", "Add", …) touch these types."""
    if session.allowed_ops is not None and op not in session.allowed_ops:
        refuse("op_not_allowed", f"This token does not allow {op}.", "Ask for a token that does.")
    if session.allowed_grain_types and (
        beyond := sorted(set(grain_types) - session.allowed_grain_types)
    ):
        refuse(
            "type_not_allowed",
            f"This token does not allow {op} of a {beyond[0]}.",
            "Ask for a token that does.",
        )


def refuse(reason: str, message: str, suggestion: str) -> NoReturn:
    """CAL-E044: the registry has no other code for what a caller may not do."""
    raise QueryError(message, cal_code=NOT_ENABLED, suggestion=suggestion, reason=reason)
