"""What the audit log says of a query: who, where, which query, how much, how long. Never its text.

The reason of a change is kept, because the standard requires it; values of parameters are not, and a user is named by
a pseudonym. The log outlives what it speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memoranda.model.memory import AuditEntry
from memoranda.service.cal.session import CalSession
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.oms.grains import space_of
from memoranda.standards.cal.item import bare_address
from memoranda.standards.cal.token import pseudonym

_STREAM: Final = (
    "stream_enabled",
    "stream_options",
    "events_emitted",
    "cancelled",
    "cancel_reason",
    "sources_failed",
)
_KEY_USE: Final = b"cal audit"


def entry_for(
    context: Context,
    session: CalSession,
    *,
    statement_type: str,
    query_hash: str,
    tier: int,
    duration_ms: int,
    result_count: int = 0,
    operation: str | None = None,
    target_hash: str | None = None,
    new_hash: str | None = None,
    reason: str | None = None,
    error_code: str | None = None,
    stream: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """The entry of one execution, a failed one included (then with its `error_code`)."""
    counts = tier == 0 or error_code is not None
    meta: dict[str, Any] = {
        "token_id": session.prepared_id or session.token_id,
        "query_hash": query_hash,
        "namespace": session.namespace,
        "actor_id": actor_id(context, session.user_id),
        "agent_id": session.agent_id,
        "operation": operation,
        "target_hash": target_hash,
        "new_hash": new_hash,
        "reason": reason,
        "result_count": (0 if error_code else result_count) if counts else None,
        "error_code": error_code,
        "tier": tier,
        "duration_ms": duration_ms,
        **{name: value for name, value in (stream or {}).items() if name in _STREAM},
    }
    space = space_of(session.namespace)
    return audit_entry(
        session.access,
        f"cal.{statement_type}",
        now=session.now,
        targets=tuple(bare_address(each) for each in (new_hash, target_hash) if each),
        scope={"owner": session.tenant, **({"project": space} if space else {})},
        result=error_code or operation or f"{result_count} results",
        meta={name: value for name, value in meta.items() if value is not None},
    )


def actor_id(context: Context, user_id: str) -> str:
    """The pseudonym of a user in this store's log."""
    return pseudonym(context.operator.derive(_KEY_USE), user_id)
