"""One execution of a query: its parsing, and its entry in the audit log.

Every execution has an entry, a failed one too: who, in which namespace, which query, how many results, how long. The
log outlives the memories. So it names a query by its hash and a user by a pseudonym, and holds neither the text of a
query nor the values of its parameters. It holds the reason of a change, because the standard requires it.

A result is recorded by the caller with its counts; a failure is recorded by `open_execution`. Queries are hashed in
their canonical text, so that equal queries can be counted without being known.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from memoranda.errors import MemorandaError, QueryError
from memoranda.model.memory import AuditEntry
from memoranda.service.cal.session import CalSession
from memoranda.service.cal.statements import CAL_VERSION
from memoranda.service.core.context import Context, audit_entry, describe_count
from memoranda.service.oms.grains import space_of
from memoranda.standards.cal.item import bare_address
from memoranda.standards.cal.language import check as checks
from memoranda.standards.cal.language.binding import bind
from memoranda.standards.cal.language.canonical import query_hash
from memoranda.standards.cal.language.dialect import translate
from memoranda.standards.cal.language.parser import parse
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
    Revert,
    SetOp,
    Supersede,
    tier_of,
)
from memoranda.standards.cal.token import pseudonym
from memoranda.standards.cal.wire.reader import from_json

# A query as text, or in its JSON form.
QueryInput = str | bytes | Mapping[str, object]

STATEMENT_TYPES: Final[Mapping[type, str]] = {
    Recall: "recall",
    Assemble: "assemble",
    SetOp: "set",
    Exists: "exists",
    History: "history",
    Explain: "explain",
    Describe: "describe",
    BatchQuery: "batch",
    Coalesce: "coalesce",
    Add: "add",
    Supersede: "supersede",
    Revert: "revert",
    DefineTemplate: "define_template",
}
# The members of a stream's summary that the audit log holds.
_STREAM_FIELDS: Final = (
    "stream_enabled",
    "stream_options",
    "events_emitted",
    "cancelled",
    "cancel_reason",
    "sources_failed",
)
_KEY_USE: Final = b"cal audit"
# A text query with neither a parameter nor this word has nothing to bind.
_MY: Final = re.compile(r"\bMY\b", re.IGNORECASE)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an execution, as the audit log states it."""

    result_count: int = 0
    # A change has a kind, the hashes of its target and of the new grain, and a reason.
    operation: str | None = None
    target_hash: str | None = None
    new_hash: str | None = None
    reason: str | None = None
    # The code of the error that ended a failed execution.
    error_code: str | None = None
    # The summary of a stream.
    stream: Mapping[str, object] = msgspec.field(default_factory=dict)


def create_entry(
    context: Context,
    session: CalSession,
    outcome: Outcome,
    *,
    statement_type: str,
    query_hash: str,
    tier: int,
    duration_ms: int,
) -> AuditEntry:
    """Create the audit entry of one execution."""
    error_code = outcome.error_code
    # A change has no result count, unless it failed: then the count is zero.
    result_count = None if tier else outcome.result_count
    meta: dict[str, object] = {
        "token_id": session.prepared_id or session.token_id,
        "query_hash": query_hash,
        "namespace": session.namespace,
        "actor_id": actor_id(context, session.user_id),
        "agent_id": session.agent_id,
        "operation": outcome.operation,
        "target_hash": outcome.target_hash,
        "new_hash": outcome.new_hash,
        "reason": outcome.reason,
        "result_count": 0 if error_code else result_count,
        "error_code": error_code,
        "tier": tier,
        "duration_ms": duration_ms,
        **{name: value for name, value in outcome.stream.items() if name in _STREAM_FIELDS},
    }
    space = space_of(session.namespace)
    return audit_entry(
        session.access,
        f"cal.{statement_type}",
        now=session.now,
        targets=tuple(
            bare_address(text) for text in (outcome.new_hash, outcome.target_hash) if text
        ),
        scope={"owner": session.tenant, **({"project": space} if space else {})},
        result=error_code or outcome.operation or describe_count(outcome.result_count, "result"),
        meta={name: value for name, value in meta.items() if value is not None},
    )


def actor_id(context: Context, user_id: str) -> str:
    """Return the pseudonym of a user in this store's log."""
    return pseudonym(context.operator.derive(_KEY_USE), user_id)


class Execution:
    """A query that runs: its session and statement, and the means to record it in the audit log."""

    def __init__(
        self,
        context: Context,
        session: CalSession,
        query: QueryInput,
        *,
        operation: str | None = None,
    ) -> None:
        self.session = session
        self._context = context
        # Replaces the type of the statement in the log: "prepare" or "execute".
        self._operation = operation
        self._started_at = time.monotonic()
        self._statement_type = "query"
        self._tier = 0
        # Until the query is parsed it has no canonical text, so its input is hashed.
        self.query_hash = (
            "sha256:"
            + hashlib.sha256(query_text(query).encode("utf-8", "surrogatepass")).hexdigest()
        )

    def bind_query(
        self, query: QueryInput, params: Mapping[str, object] | None, *, strict: bool
    ) -> ParsedQuery:
        """Parse a query and bind its parameters. Raises QueryError."""
        if isinstance(query, str) and self._context.cal.dialect == "areev":
            query = translate(query, self.session.namespace)
        parsed_query = parse_query(query, strict=strict)
        self._statement_type = STATEMENT_TYPES[type(parsed_query.statement)]
        self._tier = tier_of(parsed_query.statement)
        self.query_hash = query_hash(parsed_query)
        text = query_text(query)
        bound = parsed_query
        if params or not isinstance(query, str) or "$" in text or _MY.search(text):
            bound = bind(parsed_query, params or {}, text=text, current_user=self.session.user_id)
        check_complexity(bound)
        return bound

    def name_statement(self, statement_type: str) -> None:
        """Name the type of a statement that the parser of CAL 1.0 does not know."""
        self._statement_type = statement_type

    def build_header(self, count: int) -> dict[str, object]:
        """Build the member `_cal` of the answer, which describes the execution."""
        return {
            "version": CAL_VERSION,
            "statement_type": self._statement_type,
            "tier": self._tier,
            "query_hash": self.query_hash,
            "duration_ms": self._duration_ms(),
            "budget": {"tokens_used": 0, "grains_returned": count, "grains_scanned": 0},
        }

    def create_entry(self, outcome: Outcome) -> AuditEntry:
        """Create the audit entry of this execution."""
        return create_entry(
            self._context,
            self.session,
            outcome,
            statement_type=self._operation or self._statement_type,
            query_hash=self.query_hash,
            tier=self._tier,
            duration_ms=self._duration_ms(),
        )

    def record(self, outcome: Outcome) -> None:
        """Record this execution in the audit log."""
        self._context.audit_read(self.session.tenant, self.create_entry(outcome))

    def record_part(self, query: ParsedQuery, outcome: Outcome) -> None:
        """Record one query of a BATCH in the audit log."""
        entry = create_entry(
            self._context,
            self.session,
            outcome,
            statement_type=STATEMENT_TYPES[type(query.statement)],
            query_hash=query_hash(query),
            tier=0,
            duration_ms=self._duration_ms(),
        )
        self._context.audit_read(self.session.tenant, entry)

    def _duration_ms(self) -> int:
        return round((time.monotonic() - self._started_at) * 1000)


@contextmanager
def open_execution(
    context: Context, session: CalSession, query: QueryInput, *, operation: str | None = None
) -> Iterator[Execution]:
    """Open an execution, and record it if it fails. The caller records its success."""
    execution = Execution(context, session, query, operation=operation)
    try:
        yield execution
    except MemorandaError as error:
        code = error.cal_code if isinstance(error, QueryError) else error.code
        execution.record(Outcome(error_code=code))
        raise


def parse_query(query: QueryInput, *, strict: bool) -> ParsedQuery:
    """Parse a query in either form. Raises QueryError."""
    if isinstance(query, str | bytes):
        return parse(query, strict=strict)
    return from_json(query, strict=strict)


def query_text(query: QueryInput) -> str:
    """Return a query as text, for its hash and the positions of errors."""
    if isinstance(query, bytes):
        return query.decode("utf-8", "replace")
    return query if isinstance(query, str) else repr(query)


def check_complexity(query: ParsedQuery) -> None:
    """Raise CAL-E012 if a query is too complex."""
    complexity = checks.measure_complexity(query)
    if complexity > checks.MAX_COMPLEXITY:
        raise QueryError(
            f"The query has a complexity of {complexity}; the maximum is {checks.MAX_COMPLEXITY}.",
            cal_code="CAL-E012",
            suggestion="Use fewer conditions, or several queries.",
        )
