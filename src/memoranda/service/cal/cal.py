"""CAL over the one store: check, run, prepare and execute, stream.

The namespace, the user and what may be done come from the session, never from the query. Every execution is put on
record, failed ones too; the record has the hash of the query, never its text or its values.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import uuid
from collections.abc import Awaitable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, overload

from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError, QueryError
from memoranda.service.cal import evolve
from memoranda.service.cal import prepare as cal_prepare
from memoranda.service.cal.audit import entry_for
from memoranda.service.cal.recall import GrainReader
from memoranda.service.cal.run import (
    CAL_VERSION,
    TEMPLATES_LIMIT,
    Runner,
    kept_template,
    template_kind,
)
from memoranda.service.cal.session import CalSession, check_op, narrowed, refuse, require_enabled
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.verbs import Awaited, Caller, FreeVerb, Verb, Verbs
from memoranda.service.oms.grains import resolve_tenant, space_of
from memoranda.standards.cal import limits, plan
from memoranda.standards.cal import token as capability
from memoranda.standards.cal.assembly import stream as events
from memoranda.standards.cal.language import check as checks
from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.binding import bind
from memoranda.standards.cal.language.canonical import canonical, query_hash
from memoranda.standards.cal.language.check import CheckResult, error_document, measure_complexity
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
from memoranda.standards.cal.pages import decode_cursor
from memoranda.standards.cal.wire.reader import from_json
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE
from memoranda.storage.engine.contract import Snapshot, Unit

# A query in one of its two forms.
Given = str | bytes | Mapping[str, Any]

HIPAA_LIMIT: Final = 10
NAMESPACE_CHARS_LIMIT: Final = 256
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
_KEY_USE: Final = b"cal capability"
# A text with neither a parameter nor this word has nothing to bind.
_MINE: Final = re.compile(r"\bMY\b", re.IGNORECASE)


def check(
    given: Given, *, params: Mapping[str, object] | None = None, strict: bool = False
) -> CheckResult:
    """Whether this is a query, and if not, the first thing wrong with it. Nothing is run, and no store needed."""
    try:
        query = _read(given, strict=strict)
        if params is not None:
            bind(query, params, text=_text(given))
        _refuse_heavy(query)
    except QueryError as error:
        return {"valid": False, "error": error_document(error)}
    return {"valid": True, "error": None}


def run(
    context: Context,
    access: Access,
    /,
    given: Given,
    *,
    params: Mapping[str, object] | None = None,
    cursor: str | None = None,
    approve: bool = False,
    strict: bool = False,
    **whose: Any,
) -> dict[str, Any]:
    """Run one query and give its whole answer. `approve` lets it append, where that is enabled.

    `whose`: owner, namespace, user, agent, and a capability `token`.
    """
    session = _session(context, access, approve=approve, **whose)
    with _on_record(context, session, given) as record:
        query = record.read(given, params, strict=strict)
        check_ops(session, query)
        if session.max_uses is not None and not tier_of(query.statement):
            cal_prepare.spend_token(context, session)
        return _run(context, session, query, record, cursor)


def prepare(
    context: Context,
    access: Access,
    /,
    given: Given,
    *,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
    **whose: Any,
) -> dict[str, Any]:
    """Fix a query and say what it would do: {token, plan, tier, side_effects}."""
    session = _session(context, access, **whose)
    with _on_record(context, session, given, name="prepare") as record:
        query = record.read(given, params, strict=strict)
        check_ops(session, query)
        written = query.original or query
        made = cal_prepare.prepare(
            context, session, query, record.query_hash, canonical(written), dict(params or {})
        )
        record.done()
        return {**made, "plan": plan.explain(query, now=session.now)}


def execute(
    context: Context, access: Access, token: str, *, owner: str | None = None
) -> dict[str, Any]:
    """Run what was prepared, as it was prepared, once."""
    session = _session(context, access, owner=owner)
    with _on_record(context, session, token, name="execute") as record:
        opened = cal_prepare.open_prepared(context, session, token)
        record.session = session = opened.session
        query = record.read(opened.text, opened.params, strict=False)
        return _run(context, session, query, record, None)


def stream(
    context: Context,
    access: Access,
    /,
    given: Given,
    *,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
    raises: bool = False,
    **whose: Any,
) -> Generator[events.Event, None, None]:
    """An ASSEMBLE as events, as they happen. Closing the iterator is cancelling it; what fails is an event, too.

    `raises`: what fails before the first event is raised instead, for callers that answer it otherwise.
    """
    session = _session(context, access, **whose)
    assembly_id = f"asm_{secrets.token_hex(4)}"
    record = _Record(context, session, given, None)
    emitted, cancel_reason, failed = 0, None, ""
    runner: Runner | None = None
    statement: Assemble | None = None
    try:
        query = record.read(given, params, strict=strict)
        check_ops(session, query)
        statement = _assemble(query)
        if session.max_uses is not None:
            cal_prepare.spend_token(context, session)
        with _reading(context, session, context.cal.assemble_seconds, "CAL-E075") as reader:
            runner = Runner(reader, query, record.query_hash, tier1_enabled=session.tier1)
            runner.begin()
            for event in runner.stream(statement, assembly_id):
                emitted += 1
                yield event
    except QueryError as error:
        failed = error.cal_code
        if raises and not emitted:
            raise
        yield {
            "type": "error",
            "assembly_id": assembly_id,
            "seq": emitted,
            **events.error_event(error),
        }
    except GeneratorExit:
        cancel_reason = "closed by the client"
        raise
    finally:
        told = {
            "stream_enabled": True,
            "stream_options": list(
                statement.stream.options if statement and statement.stream else ("all",)
            ),
            "events_emitted": emitted,
            "cancelled": cancel_reason is not None,
            "cancel_reason": cancel_reason,
            "sources_failed": list(runner.failed_sources) if runner else [],
        }
        record.done(runner.returned if runner else 0, error_code=failed or None, stream=told)


def issue(
    context: Context,
    access: Access,
    *,
    namespace: str | None = None,
    user: str | None = None,
    tier1: bool = False,
    operations: tuple[str, ...] = (),
    grain_types: tuple[str, ...] = (),
    lifetime_ms: int = capability.LIFETIME_MS,
    uses: int = 1,
    writes: int = 0,
) -> str:
    """A capability token that lets whoever holds it ask so much, so often, for so long (section 18)."""
    session = _session(context, access, namespace=namespace, user=user)
    allowed = operations or (
        capability.READ_OPS + capability.WRITE_OPS if tier1 else capability.READ_OPS
    )
    try:
        token = capability.CapabilityToken(
            token_id=str(uuid.uuid4()),
            namespace=session.namespace,
            user_id=session.user_id,
            tier=1 if tier1 else 0,
            allowed_ops=allowed,
            issued_at=session.now,
            expires_at=session.now + lifetime_ms,
            max_uses=uses,
            allowed_grain_types=grain_types,
            write_quota_remaining=writes,
        )
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    document = capability.sign(token, _key(context, session.tenant))
    return capability.token_text(document)


# --- inside ----------------------------------------------------------------------------------------------------


def _session(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    namespace: str | None = None,
    user: str | None = None,
    agent: str | None = None,
    token: str | None = None,
    approve: bool = False,
) -> CalSession:
    host = context.cal
    require_enabled(host.switches)
    now, tenant = context.clock(), resolve_tenant(access, owner)
    chosen = (
        namespace or access.limits.get("project") or access.default_project or DEFAULT_NAMESPACE
    )
    _check_namespace(chosen)
    is_local = access.credential == "local"
    session = CalSession(
        access=access,
        tenant=tenant,
        namespace=chosen,
        user_id=user or access.default_tenant,
        tier1=host.switches.tier1
        and "write" in access.verbs
        and (is_local or not host.evolves_locally_only),
        auto_approve=approve,
        agent_id=agent,
        now=now,
        token_id=access.credential,
        quotas=host.quotas,
    )
    if token is not None:
        document = capability.token_from_text(token)
        session = narrowed(
            session, capability.open_token(document, _key(context, tenant), now_ms=now)
        )
    space = space_of(session.namespace)
    access.require_scope(
        {**access.limits, "owner": tenant, **({"project": space} if space else {})}
    )
    return session


def _key(context: Context, tenant: str) -> bytes:
    return hashlib.blake2b(
        tenant.encode(), key=context.operator.derive(_KEY_USE), digest_size=32
    ).digest()


@contextmanager
def _on_record(
    context: Context, session: CalSession, given: Given, name: str | None = None
) -> Iterator[_Record]:
    """Whatever comes of it, there is an entry in the audit log."""
    record = _Record(context, session, given, name)
    try:
        yield record
    except MemorandaError as error:
        record.done(error_code=error.cal_code if isinstance(error, QueryError) else error.code)
        raise


@contextmanager
def _reading(
    context: Context, session: CalSession, seconds: float, code: str
) -> Iterator[GrainReader]:
    with context.engine.open_snapshot(session.tenant) as snapshot:
        yield _reader(context, session, snapshot, seconds, code)


def _reader(
    context: Context, session: CalSession, snapshot: Snapshot, seconds: float, code: str
) -> GrainReader:
    is_minimal = "hipaa" in context.presets_in(snapshot)
    return GrainReader(
        context=context,
        session=session,
        snapshot=snapshot,
        deadline=time.monotonic() + seconds,
        timeout_code=code,
        default_limit=HIPAA_LIMIT if is_minimal else limits.LIMIT_DEFAULT,
        is_minimal=is_minimal,
    )


def _run(
    context: Context, session: CalSession, query: ParsedQuery, record: _Record, cursor: str | None
) -> dict[str, Any]:
    statement = query.statement
    if tier_of(statement):
        body = evolve.run(context, session, query, record.query_hash)
        found = [warning._asdict() for warning in checks.find_warnings(query)]
        return {"_cal": record.told(1), **body, "warnings": found}
    if isinstance(statement, DefineTemplate):
        return _define(context, session, statement, record)
    host = context.cal
    is_assembly = isinstance(statement, Assemble)
    seconds, code = (
        (host.assemble_seconds, "CAL-E075") if is_assembly else (host.query_seconds, "CAL-E031")
    )
    offset = 0 if cursor is None else decode_cursor(cursor, record.query_hash)
    if any(checks.has_text_search(recall) for recall in checks.walk_recalls(query)):
        context.semantic_search.settle()
    with _reading(context, session, seconds, code) as reader:
        runner = Runner(reader, query, record.query_hash, offset, tier1_enabled=session.tier1)
        body = runner.run()
    for entry, count, failed in runner.entries:
        record.entry(entry, count, failed)
    record.done(runner.returned)
    budget = {
        "tokens_used": runner.tokens_used,
        "grains_returned": runner.returned,
        "grains_scanned": reader.scanned,
    }
    told = {**record.told(runner.returned), "budget": budget}
    return {
        "_cal": told,
        **body,
        "warnings": [warning._asdict() for warning in dict.fromkeys(runner.warnings)],
    }


def _define(
    context: Context, session: CalSession, statement: DefineTemplate, record: _Record
) -> dict[str, Any]:
    """Keep a template for this namespace, until its owner removes it."""
    if not context.cal.templates:
        refuse(
            "templates_disabled",
            "Templates are not enabled here.",
            "Give it inline: FORMAT TEMPLATE { … }.",
        )
    kind = template_kind(session.namespace)

    def work(unit: Unit) -> None:
        known = unit.load_items(kind)
        if statement.name in known or statement.name in words.FORMAT_NAMES:
            raise QueryError(
                f"There is a template {statement.name} already.",
                cal_code="CAL-E088",
                suggestion="Give it another name.",
            )
        if len(known) >= TEMPLATES_LIMIT:
            raise QueryError(
                f"There are {TEMPLATES_LIMIT} templates already.",
                cal_code="CAL-E089",
                suggestion="Give it inline: FORMAT TEMPLATE { … }.",
            )
        unit.put_item(kind, statement.name, kept_template(statement))
        context.quotas_of(unit).check_bytes(unit)
        unit.record_audit(record.made(1))

    _require_own(session)
    context.engine.write(session.tenant, work)
    return {"_cal": record.told(1), "defined": statement.name, "warnings": []}


def remove_template(context: Context, access: Access, /, name: str, **whose: Any) -> bool:
    """Take a template of a namespace away; whether there was one. `whose` as for a query."""
    session = _session(context, access, **whose)
    _require_own(session)

    def work(unit: Unit) -> bool:
        kind = template_kind(session.namespace)
        if unit.load_item(kind, name) is None:
            return False
        unit.delete_item(kind, name)
        scope = {"owner": session.tenant, "project": space_of(session.namespace)}
        unit.record_audit(
            audit_entry(
                access, "cal.remove_template", now=session.now, scope=scope, result="removed"
            )
        )
        return True

    return context.engine.write(session.tenant, work)


def _require_own(session: CalSession) -> None:
    """Raise ForbiddenScope for whoever is not the owner: a template decides how everybody's contexts read."""
    session.access.require("write")
    if session.access.is_peer:
        raise ForbiddenScope("templates are the owner's to define and to remove")


class _Record:
    """What is put on record of one execution."""

    def __init__(
        self, context: Context, session: CalSession, given: Given, name: str | None
    ) -> None:
        self._context = context
        self.session = session
        self._name = name
        self._begun = time.monotonic()
        self._type = "query"
        self._tier = 0
        # Of what cannot be read there is no canonical text.
        self.query_hash = (
            "sha256:" + hashlib.sha256(_text(given).encode("utf-8", "surrogatepass")).hexdigest()
        )

    def read(
        self, given: Given, params: Mapping[str, object] | None, *, strict: bool
    ) -> ParsedQuery:
        """The query, bound."""
        written = _read(given, strict=strict)
        self._type, self._tier = (
            STATEMENT_TYPES[type(written.statement)],
            tier_of(written.statement),
        )
        self.query_hash = query_hash(written)
        text = _text(given)
        query = written
        if params or not isinstance(given, str) or "$" in text or _MINE.search(text):
            query = bind(written, params or {}, text=text, current_user=self.session.user_id)
        _refuse_heavy(query)
        return query

    def told(self, count: int) -> dict[str, Any]:
        """What the answer says about its own making."""
        return {
            "version": CAL_VERSION,
            "statement_type": self._type,
            "tier": self._tier,
            "query_hash": self.query_hash,
            "duration_ms": self._duration(),
            "budget": {"tokens_used": 0, "grains_returned": count, "grains_scanned": 0},
        }

    def made(self, count: int, **more: Any) -> Any:
        return entry_for(
            self._context,
            self.session,
            statement_type=self._name or self._type,
            query_hash=self.query_hash,
            tier=self._tier,
            duration_ms=self._duration(),
            result_count=count,
            **more,
        )

    def done(self, count: int = 0, **more: Any) -> None:
        """Put it on record."""
        self._context.audit_read(self.session.tenant, self.made(count, **more))

    def entry(self, query: ParsedQuery, count: int, error_code: str | None) -> None:
        """Put one entry of a BATCH on record."""
        entry = entry_for(
            self._context,
            self.session,
            statement_type=STATEMENT_TYPES[type(query.statement)],
            query_hash=query_hash(query),
            tier=0,
            duration_ms=self._duration(),
            result_count=count,
            error_code=error_code,
        )
        self._context.audit_read(self.session.tenant, entry)

    def _duration(self) -> int:
        return round((time.monotonic() - self._begun) * 1000)


def check_ops(session: CalSession, query: ParsedQuery) -> None:
    """Raise CAL-E044 unless the session's token allows every operation of the query, on every type it names."""
    if session.allowed_ops is None:
        return
    types = {recall.grain_type for recall in checks.walk_recalls(query)}
    if None in types and session.allowed_grain_types:
        refuse(
            "type_not_allowed",
            "This token allows only some types of grains.",
            "Name one after RECALL.",
        )
    for operation in sorted(capability.operations(query)):
        check_op(session, operation, [name for name in types if name is not None])


def _read(given: Given, *, strict: bool) -> ParsedQuery:
    if isinstance(given, str | bytes):
        return parse(given, strict=strict)
    return from_json(given, strict=strict)


def _text(given: Given) -> str:
    if isinstance(given, bytes):
        return given.decode("utf-8", "replace")
    return given if isinstance(given, str) else repr(given)


def _assemble(query: ParsedQuery) -> Assemble:
    if not isinstance(query.statement, Assemble):
        raise QueryError(
            "Only ASSEMBLE can be streamed.",
            cal_code="CAL-E079",
            suggestion="Run it, or put it into an ASSEMBLE.",
        )
    return query.statement


def _refuse_heavy(query: ParsedQuery) -> None:
    weight = measure_complexity(query)
    if weight > checks.MAX_COMPLEXITY:
        raise QueryError(
            f"The query weighs {weight}, and {checks.MAX_COMPLEXITY} is the most.",
            cal_code="CAL-E012",
            suggestion="Ask with fewer conditions, or in several queries.",
        )


def _check_namespace(name: str) -> None:
    if len(name) > NAMESPACE_CHARS_LIMIT or not name.isprintable():
        raise InvalidInput(
            f"namespace must be printable, with at most {NAMESPACE_CHARS_LIMIT} characters"
        )


class Cal(Verbs[Caller]):
    """The query language."""

    check = FreeVerb(check)
    run = Verb(run, "read")
    prepare = Verb(prepare, "read")
    execute = Verb(execute, "read")
    stream = Verb(stream, "read")
    issue = Verb(issue, "read")
    remove_template = Verb(remove_template, "write")

    @overload
    def __call__(
        self: Cal[Access], query: Given, params: Mapping[str, object] | None = None, **options: Any
    ) -> dict[str, Any]: ...
    @overload
    def __call__(
        self: Cal[Awaited], query: Given, params: Mapping[str, object] | None = None, **options: Any
    ) -> Awaitable[dict[str, Any]]: ...
    def __call__(
        self: Any, query: Given, params: Mapping[str, object] | None = None, **options: Any
    ) -> Any:
        """Return the answer to one caller's query: `run`."""
        return self.run(query, params=params, **options)
