"""CAL over the store: the verbs check, run, prepare, execute, stream, issue and remove_template.

Each verb opens a session first: the namespace, the user and the permissions come from the caller's credential and
options, never from the query. Then it opens an execution (`execution.py`), which parses the query and records it in the
audit log. A statement that reads runs in `statements.py` on one snapshot, a statement that writes in `evolve.py`.

The parts of CAL: `standards/cal` has the language and everything that needs no store (parsing, binding, planning,
assembling, printing); this package has what needs one. A session fixes who asks and where; no query can leave its
namespace or gain a permission. Every error has a code of the standard (`CAL-E…`), a position in the query and a
suggestion.
"""

from __future__ import annotations

import hashlib
import secrets
import time
import uuid
from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Unpack, overload

from memoranda.errors import ForbiddenScope, InvalidInput, QueryError
from memoranda.service.cal import evolve, saved_queries
from memoranda.service.cal import prepare as cal_prepare
from memoranda.service.cal.execution import (
    Execution,
    Outcome,
    QueryInput,
    check_complexity,
    open_execution,
    parse_query,
    query_text,
)
from memoranda.service.cal.recall import GrainReader
from memoranda.service.cal.session import (
    CalSession,
    SessionOptions,
    check_op,
    narrow_session,
    refuse,
    require_enabled,
)
from memoranda.service.cal.statements import (
    TEMPLATES_LIMIT,
    Runner,
    encode_template,
    template_kind,
)
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context, audit_entry
from memoranda.service.core.verbs import Awaited, Caller, FreeVerb, Verb, Verbs
from memoranda.service.oms.grains import resolve_tenant, space_of
from memoranda.standards.cal import limits, plan
from memoranda.standards.cal import token as capability
from memoranda.standards.cal.assembly import stream as events
from memoranda.standards.cal.language import check as checks
from memoranda.standards.cal.language import saved_query, words
from memoranda.standards.cal.language.binding import bind
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.check import CheckResult, error_document
from memoranda.standards.cal.language.syntax import (
    Assemble,
    DefineTemplate,
    ParsedQuery,
    tier_of,
)
from memoranda.standards.cal.pages import decode_cursor
from memoranda.standards.oms.registry import DEFAULT_NAMESPACE
from memoranda.storage.engine.contract import Snapshot, Unit

# Results of a query without a LIMIT where health information is protected: as few as possible are shown.
HIPAA_LIMIT: Final = 10
# Characters in the name of a namespace.
NAMESPACE_CHARS_LIMIT: Final = 256
# Namespaces in which queries without results are repeated, to count their results there.
NAMESPACES_LIMIT: Final = 20
_KEY_USE: Final = b"cal capability"


def check(
    query: QueryInput, *, params: Mapping[str, object] | None = None, strict: bool = False
) -> CheckResult:
    """Check a query, and return its first error if it has one. Nothing runs, and no store is needed."""
    try:
        parsed_query = parse_query(query, strict=strict)
        if params is not None:
            bind(parsed_query, params, text=query_text(query))
        check_complexity(parsed_query)
    except QueryError as error:
        return {"valid": False, "error": error_document(error)}
    return {"valid": True, "error": None}


def run(
    context: Context,
    access: Access,
    /,
    query: QueryInput,
    *,
    params: Mapping[str, object] | None = None,
    cursor: str | None = None,
    approve: bool = False,
    strict: bool = False,
    **options: Unpack[SessionOptions],
) -> dict[str, Any]:
    """Run one query and return its answer. `approve` allows changes, where the host enables them.

    `params` are the values of `$names` in the query. `cursor` continues a page of the same query. `approve` is for
    hosts whose person has agreed to the change.
    """
    session = _open_session(context, access, options, approve=approve)
    with open_execution(context, session, query) as execution:
        if saved_queries.is_dialect(query, context):
            definition = saved_query.parse_definition(query)
            if definition is not None:
                _require_owner(session)
                return saved_queries.define(context, execution, definition)
            if saved_query.is_describe_queries(query):
                return saved_queries.describe(context, execution)
        text, values = saved_queries.expand(context, session, query, params)
        formats = saved_queries.split_formats(context, text)
        bound = [
            execution.bind_query(one, values, strict=strict) for one in formats.values() or (text,)
        ]
        check_ops(session, bound[0])
        if session.max_uses is not None and not tier_of(bound[0].statement):
            cal_prepare.spend_token(context, session)
        answers = _run(context, bound, execution, cursor)
        return saved_queries.join_formats(formats, answers) if formats else answers[0]


def prepare(
    context: Context,
    access: Access,
    /,
    query: QueryInput,
    *,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
    **options: Unpack[SessionOptions],
) -> dict[str, Any]:
    """Prepare a query without running it, and return {token, plan, tier, side_effects}.

    The token is opaque, valid for a short time and for one execution by the same credential.
    """
    session = _open_session(context, access, options)
    with open_execution(context, session, query, operation="prepare") as execution:
        query, params = saved_queries.expand(context, session, query, params)
        bound = execution.bind_query(query, params, strict=strict)
        check_ops(session, bound)
        text = canonical(bound.original or bound)
        prepared_query = cal_prepare.prepare(
            context, session, bound, execution.query_hash, text, dict(params or {})
        )
        execution.record(Outcome())
        return {**prepared_query, "plan": plan.explain(bound, now=session.now)}


def execute(
    context: Context, access: Access, token: str, *, owner: str | None = None
) -> dict[str, Any]:
    """Run a prepared query. Its token is valid once."""
    session = _open_session(context, access, {"owner": owner})
    with open_execution(context, session, token, operation="execute") as execution:
        prepared_query = cal_prepare.open_prepared(context, session, token)
        execution.session = prepared_query.session
        bound = execution.bind_query(prepared_query.text, prepared_query.params, strict=False)
        return _run(context, [bound], execution, None)[0]


def stream(
    context: Context,
    access: Access,
    /,
    query: QueryInput,
    *,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
    raises: bool = False,
    **options: Unpack[SessionOptions],
) -> Generator[events.Event, None, None]:
    """Run an ASSEMBLE and yield its events as they happen. Closing the iterator cancels it.

    An error is the last event. With `raises`, an error before the first event is raised instead.

    Yields events until the answer is complete or the iterator is closed; closing it records a cancellation.
    """
    session = _open_session(context, access, options)
    assembly_id = f"asm_{secrets.token_hex(4)}"
    execution = Execution(context, session, query)
    emitted, cancel_reason, error_code = 0, None, None
    runner: Runner | None = None
    statement: Assemble | None = None
    try:
        query, params = saved_queries.expand(context, session, query, params)
        bound = execution.bind_query(query, params, strict=strict)
        check_ops(session, bound)
        statement = _require_assemble(bound)
        if session.max_uses is not None:
            cal_prepare.spend_token(context, session)
        with _open_reader(context, session, statement) as reader:
            runner = Runner(reader, bound, execution.query_hash, tier1_enabled=session.tier1)
            runner.begin()
            for event in runner.stream(statement, assembly_id):
                emitted += 1
                yield event
    except QueryError as error:
        error_code = error.cal_code
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
        stream_options = statement.stream.options if statement and statement.stream else ("all",)
        summary = {
            "stream_enabled": True,
            "stream_options": list(stream_options),
            "events_emitted": emitted,
            "cancelled": cancel_reason is not None,
            "cancel_reason": cancel_reason,
            "sources_failed": list(runner.failed_sources) if runner else [],
        }
        count = runner.returned if runner else 0
        execution.record(Outcome(result_count=count, error_code=error_code, stream=summary))


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
    """Issue a capability token: its bearer may run these operations, a number of times, until it expires (§18).

    Raises InvalidInput for rights that no token can have.
    """
    session = _open_session(context, access, {"namespace": namespace, "user": user})
    every_operation = capability.READ_OPS + (capability.WRITE_OPS if tier1 else ())
    try:
        token = capability.CapabilityToken(
            token_id=str(uuid.uuid4()),
            namespace=session.namespace,
            user_id=session.user_id,
            tier=1 if tier1 else 0,
            allowed_ops=operations or every_operation,
            issued_at=session.now,
            expires_at=session.now + lifetime_ms,
            max_uses=uses,
            allowed_grain_types=grain_types,
            write_quota_remaining=writes,
        )
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    document = capability.sign(token, _derive_token_key(context, session.tenant))
    return capability.token_text(document)


def remove_template(
    context: Context, access: Access, /, name: str, **options: Unpack[SessionOptions]
) -> bool:
    """Remove a template of a namespace, or a saved query of this name; return True if there was one."""
    session = _open_session(context, access, options)
    _require_owner(session)

    def work(unit: Unit) -> bool:
        kinds = (template_kind(session.namespace), saved_queries.query_kind(session.namespace))
        present = [kind for kind in kinds if unit.load_item(kind, name) is not None]
        if not present:
            return False
        unit.delete_item(present[0], name)
        scope = {"owner": session.tenant, "project": space_of(session.namespace)}
        unit.record_audit(
            audit_entry(
                access, "cal.remove_template", now=session.now, scope=scope, result="removed"
            )
        )
        return True

    return context.engine.write(session.tenant, work)


def count_matches_elsewhere(
    context: Context,
    access: Access,
    /,
    query: QueryInput,
    answer: Mapping[str, object],
    *,
    params: Mapping[str, object] | None = None,
    namespace: str | None = None,
) -> dict[str, int]:
    """Count the results of a query in other namespaces, most first.

    Returns an empty dict if the query has results, if the caller named a namespace, or if the credential is for a
    single project.

    Used to tell people that they look in the wrong project.
    """
    if namespace is not None or answer.get("results") != [] or "project" in access.limits:
        return {}
    current = access.default_project or DEFAULT_NAMESPACE
    with context.engine.open_snapshot(access.default_tenant) as snapshot:
        namespaces = [space or DEFAULT_NAMESPACE for space in snapshot.list_spaces()]
    counts: dict[str, int] = {}
    for other in [name for name in namespaces if name != current][:NAMESPACES_LIMIT]:
        try:
            other_answer = run(context, access, query, params=params, namespace=other)
        except QueryError:
            # Another standard may have spaces whose names CAL does not accept.
            continue
        if count := len(other_answer.get("results", ())):
            counts[other] = count
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


# --- sessions ----------------------------------------------------------------------------------------------


def _open_session(
    context: Context, access: Access, options: SessionOptions, *, approve: bool = False
) -> CalSession:
    """Return the session of a caller. Raises QueryError, or ForbiddenScope if the namespace is out of reach."""
    host = context.cal
    require_enabled(host.switches)
    now, tenant = context.clock(), resolve_tenant(access, options.get("owner"))
    namespace = (
        options.get("namespace")
        or access.limits.get("project")
        or access.default_project
        or DEFAULT_NAMESPACE
    )
    if len(namespace) > NAMESPACE_CHARS_LIMIT or not namespace.isprintable():
        raise InvalidInput(
            f"namespace must be printable, with at most {NAMESPACE_CHARS_LIMIT} characters"
        )
    may_evolve_here = access.credential == "local" or not host.evolves_locally_only
    session = CalSession(
        access=access,
        tenant=tenant,
        namespace=namespace,
        user_id=options.get("user") or access.default_tenant,
        tier1=host.switches.tier1 and "write" in access.verbs and may_evolve_here,
        auto_approve=approve,
        agent_id=options.get("agent"),
        now=now,
        token_id=access.credential,
        quotas=host.quotas,
    )
    token_text = options.get("token")
    if token_text is not None:
        key = _derive_token_key(context, tenant)
        token = capability.open_token(capability.token_from_text(token_text), key, now_ms=now)
        session = narrow_session(session, token)
    space = space_of(session.namespace)
    access.require_scope(
        {**access.limits, "owner": tenant, **({"project": space} if space else {})}
    )
    return session


def _derive_token_key(context: Context, tenant: str) -> bytes:
    """Derive the key that signs the capability tokens of a tenant."""
    return hashlib.blake2b(
        tenant.encode(), key=context.operator.derive(_KEY_USE), digest_size=32
    ).digest()


def _require_owner(session: CalSession) -> None:
    """Raise ForbiddenScope unless the caller is the owner, because a template changes the contexts of all users."""
    access = session.access
    access.require("write")
    if access.is_peer or access.is_narrowed:
        raise ForbiddenScope(
            "only the owner may define and remove templates, not with a token for a part of the memory"
        )


def check_ops(session: CalSession, query: ParsedQuery) -> None:
    """Raise CAL-E044 unless the session's token allows every operation of a query, on every type that it names."""
    if session.allowed_ops is None:
        return
    types = {recall.grain_type for recall in checks.walk_recalls(query)}
    if None in types and session.allowed_grain_types:
        refuse(
            "type_not_allowed",
            "This token allows only some types of grains.",
            "Write one of these types after RECALL.",
        )
    for operation in sorted(capability.operations(query)):
        check_op(session, operation, [name for name in types if name is not None])


# --- execution ---------------------------------------------------------------------------------------------


@contextmanager
def _open_reader(context: Context, session: CalSession, statement: object) -> Iterator[GrainReader]:
    """Open a snapshot, and a reader with the time limit of the statement."""
    with context.engine.open_snapshot(session.tenant) as snapshot:
        yield _create_reader(context, session, snapshot, isinstance(statement, Assemble))


def _create_reader(
    context: Context, session: CalSession, snapshot: Snapshot, is_assembly: bool
) -> GrainReader:
    host = context.cal
    is_minimal = "hipaa" in context.presets_in(snapshot)
    return GrainReader(
        context=context,
        session=session,
        snapshot=snapshot,
        deadline=time.monotonic() + (host.assemble_seconds if is_assembly else host.query_seconds),
        timeout_code="CAL-E075" if is_assembly else "CAL-E031",
        default_limit=HIPAA_LIMIT if is_minimal else limits.LIMIT_DEFAULT,
        is_minimal=is_minimal,
    )


def _require_assemble(query: ParsedQuery) -> Assemble:
    """Return the ASSEMBLE of a query. Raises CAL-E079 for other statements."""
    if not isinstance(query.statement, Assemble):
        raise QueryError(
            "Only ASSEMBLE can be streamed.",
            cal_code="CAL-E079",
            suggestion="Run the query without streaming, or make it a source of an ASSEMBLE.",
        )
    return query.statement


def _run(
    context: Context, queries: Sequence[ParsedQuery], execution: Execution, cursor: str | None
) -> list[dict[str, Any]]:
    """Run a bound query, or one in several formats, record it, and return the answers."""
    session, statement = execution.session, queries[0].statement
    if tier_of(statement):
        change = evolve.run(context, session, queries[0], execution.query_hash)
        warnings = [warning._asdict() for warning in checks.find_warnings(queries[0])]
        return [{"_cal": execution.build_header(1), **change, "warnings": warnings}]
    if isinstance(statement, DefineTemplate):
        return [_define_template(context, statement, execution)]
    offset = 0 if cursor is None else decode_cursor(cursor, execution.query_hash)
    if any(checks.has_text_search(recall) for recall in checks.walk_recalls(queries[0])):
        context.semantic_search.settle(session.tenant)
    with _open_reader(context, session, statement) as reader:
        return [_read_query(reader, query, execution, offset) for query in queries]


def _read_query(
    reader: GrainReader, query: ParsedQuery, execution: Execution, offset: int
) -> dict[str, Any]:
    """Run a bound query that reads, record it, and return its answer."""
    tier1_enabled = execution.session.tier1
    runner = Runner(reader, query, execution.query_hash, offset, tier1_enabled=tier1_enabled)
    scanned_before = reader.scanned
    body = runner.run()
    for part, count, error_code in runner.batch_results:
        execution.record_part(part, Outcome(result_count=count, error_code=error_code))
    execution.record(Outcome(result_count=runner.returned))
    budget = {
        "tokens_used": runner.tokens_used,
        "grains_returned": runner.returned,
        "grains_scanned": reader.scanned - scanned_before,
    }
    return {
        "_cal": {**execution.build_header(runner.returned), "budget": budget},
        **body,
        "warnings": [warning._asdict() for warning in dict.fromkeys(runner.warnings)],
    }


def _define_template(
    context: Context, statement: DefineTemplate, execution: Execution
) -> dict[str, Any]:
    """Store a template for this namespace. Raises QueryError if its name is taken, or if there are too many."""
    session = execution.session
    if not context.cal.templates:
        refuse(
            "templates_disabled",
            "Stored templates are not enabled here.",
            "Write the template into the query: FORMAT TEMPLATE { … }.",
        )
    kind = template_kind(session.namespace)

    def work(unit: Unit) -> None:
        items = unit.load_items(kind)
        if statement.name in items or statement.name in words.FORMAT_NAMES:
            raise QueryError(
                f"A template or format named {statement.name} already exists.",
                cal_code="CAL-E088",
                suggestion="Use another name.",
            )
        if len(items) >= TEMPLATES_LIMIT:
            raise QueryError(
                f"This namespace already has {TEMPLATES_LIMIT} templates, the maximum.",
                cal_code="CAL-E089",
                suggestion="Write the template into the query: FORMAT TEMPLATE { … }.",
            )
        unit.put_item(kind, statement.name, encode_template(statement))
        context.quotas_of(unit).check_bytes(unit)
        unit.record_audit(execution.create_entry(Outcome(result_count=1)))

    _require_owner(session)
    context.engine.write(session.tenant, work)
    return {"_cal": execution.build_header(1), "defined": statement.name, "warnings": []}


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
        self: Cal[Access],
        query: QueryInput,
        params: Mapping[str, object] | None = None,
        **options: Any,
    ) -> dict[str, Any]: ...
    @overload
    def __call__(
        self: Cal[Awaited],
        query: QueryInput,
        params: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Awaitable[dict[str, Any]]: ...
    def __call__(
        self: Any, query: QueryInput, params: Mapping[str, object] | None = None, **options: Any
    ) -> Any:
        """Return the answer to one caller's query: `run`."""
        return self.run(query, params=params, **options)
