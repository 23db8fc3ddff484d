"""ADD, SUPERSEDE and REVERT (CAL sections 8.8 to 8.10). They append grains and never change or remove one.

A statement runs in two steps:

1. `_prepare_change` reads the target on a snapshot, builds the new grain, and checks policies and authority.
2. One unit of work spends the token, counts the quota, checks that the versions are still the same, writes the grain
   and records the audit entry. If one of these fails, none of them happens.

A statement passes the same scopes, presets and policies as a grain that the owner writes.

Why a grain gets the next free millisecond (`_encode_unique`): the address of a grain depends on its time, and each ADD
must make a new grain. Everything is checked twice, on the snapshot for a quick and clear error, and in the unit for
safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NotRequired, TypedDict, cast

import msgspec
from msgspec.structs import replace

from memoranda.errors import Conflict, GrainError, MemorandaError, QueryError, TooLarge
from memoranda.model.instant import Instant
from memoranda.model.memory import NATIVE_KEY, Version, is_true_at
from memoranda.model.oms_names import ADDRESS_CHARS, DENIED
from memoranda.model.titles import NAMES_KEY
from memoranda.service.cal.execution import Outcome, create_entry
from memoranda.service.cal.session import CalSession, check_op, refuse
from memoranda.service.core.authorship import attribute_grain
from memoranda.service.core.context import Context, retry_on_conflict
from memoranda.service.core.indexing import NewVersion, as_grain
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.secret_screening import detect_kinds, screen_fields, screen_text
from memoranda.service.core.views import project
from memoranda.service.oms import authority
from memoranda.service.oms.grains import Successor, admit, append_grain
from memoranda.service.oms.views import OpenedGrain, is_visible, to_json_value
from memoranda.standards.cal import token as capability
from memoranda.standards.cal.item import bare_address, oms_goal_state
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.syntax import (
    Add,
    Assignment,
    Hash,
    ParsedQuery,
    Revert,
    Statement,
    Supersede,
    Value,
)
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import policy
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.registry import TAG_SENSITIVITY
from memoranda.standards.port import RULE_NAMES, port_of
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import rules
from memoranda.standards.ump.port import rules_of_record
from memoranda.standards.ump.record import Record
from memoranda.storage.engine.contract import Snapshot, Unit

# The confidence of a grain whose ADD sets none.
CONFIDENCE: Final = 0.8
OBSERVER_TYPE: Final = "llm"
BELIEF_BYTE: Final = 0x01
# Grains among which the prefix of a hash is looked up.
_PREFIX_NAMES: Final = 100
# Fields that a new grain does not copy from the earlier one: its signature, its times and its release.
_NOT_INHERITED: Final = frozenset(
    """created_at derived_from author_did trusted_timestamp system_valid_from supersession_justification
    supersession_auth invalidation_type invalidation_reason invalidation_initiator""".split()
)
_DENIALS: Final = (DENIED, policy.EVIDENCE_REQUIRED)

Evolving = Add | Supersede | Revert
_OPERATIONS: Final[Mapping[type, str]] = {Add: "add", Supersede: "supersede", Revert: "revert"}


class ChangeResult(TypedDict):
    """The answer to a statement that writes: the hashes of the grains."""

    operation: str
    new_hash: str
    target_hash: NotRequired[str]
    # The head that REVERT replaced.
    previous_head: NotRequired[str]


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a statement: the fields of a new grain without its time, and the version that it replaces."""

    operation: str
    reason: str
    fields: dict[str, object]
    # The head that the new grain replaces, and its address.
    prior: Version | None = None
    prior_address: str | None = None
    # The address of the grain that the statement names.
    target: str | None = None
    # The versions that the change was built from.
    sources: tuple[Version, ...] = ()
    # True if the statement itself sets the tags, which state the visibility.
    sets_tags: bool = False


class _PreparedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change with its grain, prepared before the writer's lock is taken."""

    change: _Change
    grain: Grain
    new: NewVersion | Successor


def run(context: Context, session: CalSession, query: ParsedQuery, query_hash: str) -> ChangeResult:
    """Execute one bound statement that writes. Its audit entry is written with it, if it succeeds."""
    statement = require_allowed(session, query.statement)
    return retry_on_conflict(lambda: _run(context, session, statement, query_hash))


def _run(
    context: Context, session: CalSession, statement: Evolving, query_hash: str
) -> ChangeResult:
    prepared_change: _PreparedChange | MemorandaError
    try:
        prepared_change = _prepare_change(context, session, statement)
    except MemorandaError as error:
        # Raised in the unit of work, because a spent token is refused first.
        prepared_change = error

    def work(unit: Unit) -> ChangeResult:
        spend_token(unit, session)
        _spend_quota(unit, session, statement)
        if isinstance(prepared_change, MemorandaError):
            raise prepared_change
        change = prepared_change.change
        source_ids = [version.version_id for version in change.sources]
        if unit.load_versions(source_ids) != list(change.sources):
            raise Conflict("the grain was changed meanwhile; try again")
        result = _describe_result(change, _write(context, session, unit, prepared_change))
        entry = create_entry(
            context,
            session,
            Outcome(
                operation=change.operation,
                target_hash=result.get("target_hash"),
                new_hash=result["new_hash"],
                reason=change.reason,
            ),
            statement_type=change.operation,
            query_hash=query_hash,
            tier=1,
            duration_ms=max(0, context.clock() - session.now),
        )
        unit.record_audit(entry)
        return result

    return context.engine.write(session.tenant, work)


def preview_effects(
    context: Context, session: CalSession, query: ParsedQuery
) -> list[dict[str, object]]:
    """Return the effects that the execution of a bound query would have. Writes nothing.

    Raises the errors of the execution, except for quotas.

    For `prepare` and EXPLAIN.
    """
    statement = query.statement
    if not isinstance(statement, Evolving):
        return []
    prepared_change = _prepare_change(context, session, statement)
    change = prepared_change.change
    # The execution sets the time.
    preview = {
        name: value for name, value in prepared_change.grain.fields.items() if name != "created_at"
    }
    target = {} if change.target is None else {"target_hash": _hash(change.target)}
    return [
        {
            "operation": change.operation,
            **target,
            "grain": to_json_value(preview),
            "reason": change.reason,
        }
    ]


def require_allowed(
    session: CalSession, statement: Statement, *, is_approved: bool = False
) -> Evolving:
    """Return a statement that writes, if this session may run it. Raises CAL-E044 otherwise.

    The statement must have been prepared, or be approved by the host or by `is_approved`.
    """
    if not isinstance(statement, Evolving):
        raise TypeError("only ADD, SUPERSEDE and REVERT write")
    operation = _OPERATIONS[type(statement)]
    if not session.tier1:
        refuse(
            "tier1_disabled",
            f"{operation.upper()} is not enabled here.",
            "Statements that read are enabled; EXPLAIN shows the plan of this one.",
        )
    session.access.require("write")
    check_op(
        session,
        operation.capitalize(),
        [statement.grain_type if isinstance(statement, Add) else "belief"],
    )
    if not (is_approved or session.auto_approve or session.prepared_id is not None):
        # Section 18: two phases are REQUIRED for statements that write.
        refuse(
            "not_prepared",
            f"{operation.upper()} must be prepared first.",
            "Prepare it, review its effects, then execute its token.",
        )
    return statement


def spend_token(unit: Unit, session: CalSession) -> None:
    """Use up the prepared query and one use of the capability token, if there are such. Raises CAL-E044."""
    now = session.now
    if session.prepared_id is not None and not unit.claim_once(
        f"cal prepared {session.prepared_id}", now=now
    ):
        capability.refuse(capability.REPLAYED)
    if session.max_uses is not None:
        uses = f"cal uses {session.token_id}"
        if not unit.consume_rate(
            uses, now=now, window_ms=2 * capability.LIFETIME_MAX_MS, limit=session.max_uses
        ):
            capability.refuse(capability.REPLAYED)


def _spend_quota(unit: Unit, session: CalSession, statement: Evolving) -> None:
    """Count a write against the session's quotas. Raises CAL-E043 or CAL-E052 if one is used up."""
    operation, quotas, now = _OPERATIONS[type(statement)], session.quotas, session.now
    limit = {"add": quotas.add, "supersede": quotas.supersede, "revert": quotas.revert}[operation]
    # Namespace and user are free text; the length keeps two pairs from having one name.
    name = f"cal {operation} {len(session.namespace)} {session.namespace} {session.user_id}"
    if not unit.consume_rate(name, now=now, window_ms=quotas.window_ms, limit=limit):
        seconds = quotas.window_ms // 1000
        raise QueryError(
            f"At most {limit} {operation.upper()} statements are allowed in {seconds} seconds.",
            cal_code="CAL-E052" if operation == "add" else "CAL-E043",
            suggestion=f"Try again in {seconds} seconds.",
            retry_after_seconds=seconds,
        )
    if session.write_quota is not None:
        uses = f"cal writes {session.token_id}"
        if not unit.consume_rate(
            uses, now=now, window_ms=2 * capability.LIFETIME_MAX_MS, limit=session.write_quota
        ):
            raise QueryError(
                "The token's write quota is used up.",
                cal_code="CAL-E043",
                suggestion="Use a new token.",
            )


# --- the change ------------------------------------------------------------------------------------------


def _prepare_change(context: Context, session: CalSession, statement: Evolving) -> _PreparedChange:
    """Build the change of a statement with its grain, and check policies. Raises MemorandaError."""
    visible, now = _find_visible(context, session, statement), session.now
    with context.engine.open_snapshot(session.tenant) as snapshot:
        change = _build_change(context, session, snapshot, statement, visible)
        reason = screen_text(context, change.reason, "reason")
        fields = attribute_grain(session.access, screen_fields(context, change.fields))
        change = replace(change, fields=dict(fields), reason=reason)
        grain = _encode_unique(snapshot, change.fields, now)
        _check_change(snapshot, change, grain, now)
    new_version = _admit(context, session, change, grain)
    return _PreparedChange(change=change, grain=grain, new=new_version)


def _admit(
    context: Context, session: CalSession, change: _Change, grain: Grain
) -> NewVersion | Successor:
    """Return the grain as a new version, or as the successor of the version that it replaces."""
    opened_grain = OpenedGrain(grain=grain, delivery=grain.blob, signer=None)
    if change.prior is None:
        return admit(context, session.access, opened_grain, session.tenant)
    # Tags that are only repeated, or that REVERT restores, show the memory to nobody new.
    return Successor(
        context, session.access, opened_grain, session.tenant, may_widen=change.sets_tags
    )


def _build_change(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Evolving,
    visible: frozenset[int],
) -> _Change:
    """Build the change of a statement. `visible` are the versions that the caller may see. Raises QueryError."""
    if isinstance(statement, Add):
        fields = _added_fields(session, statement)
        return _Change(operation="add", reason=statement.reason, fields=fields)
    address, version = _find_target(context, session, snapshot, statement, visible)
    grain = _require_belief(context, version)
    if isinstance(statement, Supersede):
        if not version.state.is_head:
            raise _superseded_error()
        fields = _successor_fields(
            context, version, grain, [address], statement.reason, session.now
        )
        fields |= _assigned_fields(context, snapshot, grain, statement.assignments)
        return _Change(
            operation="supersede",
            reason=statement.reason,
            fields=fields,
            prior=version,
            prior_address=address,
            target=address,
            sources=(version,),
            sets_tags=any(assignment.field == "tags" for assignment in statement.assignments),
        )
    return _build_revert(context, session, snapshot, statement, visible, (address, version))


def _added_fields(session: CalSession, statement: Add) -> dict[str, object]:
    """Return the fields of the grain that an ADD writes."""
    values = {assignment.field: _oms_value(assignment) for assignment in statement.assignments}
    fields: dict[str, object] = {
        "type": statement.grain_type,
        # Section 8.8: namespace and user come from the session, never from the query.
        "namespace": session.namespace,
        "user_id": session.user_id,
        "source_type": session.source_type,
        "confidence": values.pop("confidence", CONFIDENCE),
        "context": {"reason": statement.reason},
    }
    if "tags" in values:
        fields["structural_tags"] = values.pop("tags")
    if statement.grain_type == "goal":
        fields |= {"description": values["object"], "goal_state": "active"}
    elif statement.grain_type == "observation":
        fields |= {"observer_id": session.user_id, "observer_type": OBSERVER_TYPE}
    elif statement.grain_type == "reasoning":
        fields["conclusion"] = values.pop("content", values["object"])
    return {**fields, **values}


def _oms_value(assignment: Assignment) -> object:
    """Return the value of a SET in the form of OMS."""
    name, value = assignment.field, assignment.value
    if name == "goal_state":
        return oms_goal_state(value)
    if name == "deadline":
        return _instant(value)
    if name == "depends_on":
        return [_address(member) for member in (value if isinstance(value, tuple) else (value,))]
    return list(value) if isinstance(value, tuple) else value


def _address(value: Value) -> str:
    return bare_address(value.text if isinstance(value, Hash) else str(value))


def _instant(value: Value) -> int:
    """Return a time in milliseconds. A day stands for its end."""
    if isinstance(value, str):
        span = times.parse_span(value)
        assert span is not None
        return span[1]
    assert isinstance(value, int | float)
    return times.epoch_ms(value)


def _assigned_fields(
    context: Context, snapshot: Snapshot, grain: Grain, assignments: tuple[Assignment, ...]
) -> dict[str, object]:
    """Return the fields that the assignments of a SUPERSEDE set."""
    fields = {assignment.field: _oms_value(assignment) for assignment in assignments}
    if "tags" in fields:
        earlier_tags = grain.fields.get("structural_tags", ())
        tags = cast("list[str]", fields.pop("tags"))
        if context.presets_in(snapshot):
            # Section 19: no query weakens the policy in force, so tags of sensitivity stay.
            tags = [*tags, *(tag for tag in earlier_tags if tag.startswith(tuple(TAG_SENSITIVITY)))]
        if oms.is_text(grain.type_name, grain.fields):
            tags = [*tags, *_find_view_tags(earlier_tags, tags)]
        fields["structural_tags"] = list(dict.fromkeys(tags))
    return fields


def _find_view_tags(earlier_tags: Sequence[str], tags: Sequence[str]) -> Iterator[str]:
    """Yield the earlier tags that hold the kind and the visibility of a view. New tags replace only the visibility."""
    sets_visibility = any(tag.startswith(oms.VISIBILITY_TAG) for tag in tags)
    for tag in earlier_tags:
        is_visibility = tag.startswith(oms.VISIBILITY_TAG)
        if tag == oms.IDENTITY_TAG or (is_visibility and not sets_visibility):
            yield tag


def _successor_fields(
    context: Context,
    version: Version,
    grain: Grain,
    sources: list[str],
    reason: str,
    now: Instant,
) -> dict[str, object]:
    """Return the fields of a new grain that is derived from an earlier one. Raises CAL-E042."""
    if "_elided" in grain.fields:
        raise _not_evolvable_error("The grain is a view that omits fields.")
    fields = {name: value for name, value in grain.fields.items() if name not in _NOT_INHERITED}
    if not port_of(version.document.standard).has_own_fields:
        fields |= _find_rule_fields(version, fields.get("structural_tags", ()))
        if is_true_at(version.state, now):
            # The start of validity belongs to the original memory, not to the new grain.
            fields.pop("valid_from", None)
    grain_context = {
        name: value for name, value in grain.fields.get("context", {}).items() if name != NATIVE_KEY
    }
    fields.pop("context", None)
    if names := _names_beyond(context, version, fields | {"context": grain_context}):
        grain_context[NAMES_KEY] = names
    if grain_context:
        fields["context"] = grain_context
    return {**fields, "derived_from": sources, "supersession_justification": reason}


def _names_beyond(context: Context, version: Version, fields: Mapping[str, object]) -> list[str]:
    """Return the titles that only the document of another standard states, such as its key.

    `fields` are those of the successor, which does not carry that document. Titles that look like secrets are left out.
    """
    known_titles = oms.titles_of(fields)
    return [
        title
        for title in project(context, version).titles
        if title not in known_titles and not detect_kinds({"title": title})
    ]


def _find_rule_fields(version: Version, view_tags: Sequence[str]) -> dict[str, object]:
    """Return the rules of a record that its view as a grain lacks. Raises CAL-E042 if a grain cannot express them."""
    record = port_of(version.document.standard).record(version.document)
    if record is None:
        return {}
    if inexpressible := _find_inexpressible(version, record):
        raise _not_evolvable_error(
            f"The memory has {inexpressible} that a grain cannot express.", "Revise it through UMP."
        )
    rule_fields = {name: value for name, value in rules_of_record(record).items() if value}
    tags = list(dict.fromkeys([*view_tags, *rule_fields.pop("structural_tags", ())]))
    return {**rule_fields, **({"structural_tags": tags} if tags else {})}


def _find_inexpressible(version: Version, record: Record) -> str:
    """Return the name of a part of a record that a grain cannot express; empty if there is none."""
    consent = record.get("consent", {})
    if (
        version.state.expires is not None
        or consent.get("redact")
        or not consent.get("exportable", True)
    ):
        return "a consent"
    if any(
        not ump.is_tag(relation["type"], relation["target"])
        for relation in record.get("relations", ())
    ):
        return "relations"
    if record.get("provenance", {}).get("evidence"):
        return "evidence"
    structured = rules.drop_original(record)["body"].get("structured") or {}
    # Names are kept in the context of a grain.
    return "structured data" if structured.keys() - {*RULE_NAMES, NAMES_KEY} else ""


def _build_revert(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Revert,
    visible: frozenset[int],
    target: tuple[str, Version],
) -> _Change:
    """Build the change of a REVERT: the content of the version before the target replaces the head."""
    address, version = target
    head, before = version, None
    for other in snapshot.iterate_history(version.memory_id):
        if other.state.retired is None:
            head = other
            before = other if other.version_id < version.version_id else before
    if head.version_id not in visible:
        # Written after `visible` was read, or hidden from the caller.
        raise _superseded_error()
    if not _is_live(head, session.now):
        raise _unknown_error()
    # A forgotten, erased or expired version cannot be restored by REVERT.
    if before is None or before.version_id not in visible or not _is_live(before, session.now):
        raise QueryError(
            "There is no earlier version to revert to.",
            cal_code="CAL-E041",
            suggestion="List the versions with HISTORY.",
        )
    earlier_belief, current = _require_belief(context, before), _require_belief(context, head)
    if {earlier_belief.namespace, current.namespace} != {session.namespace}:
        raise _namespace_error()
    sources = [current.address, earlier_belief.address]
    return _Change(
        operation="revert",
        reason=statement.reason,
        fields=_successor_fields(
            context, before, earlier_belief, sources, statement.reason, session.now
        ),
        prior=head,
        prior_address=current.address,
        target=address,
        sources=tuple({source.version_id: source for source in (version, before, head)}.values()),
    )


# --- the target ------------------------------------------------------------------------------------------


def _find_visible(context: Context, session: CalSession, statement: Evolving) -> frozenset[int]:
    """Return the versions of the target's memory that the caller may see completely.

    Runs on a snapshot of its own, because visibility may depend on consents in the store.
    """
    if isinstance(statement, Add):
        return frozenset()
    with context.engine.open_snapshot(session.tenant) as snapshot:
        candidates = snapshot.load_versions(
            [version_id for _, version_id in _find_candidates(snapshot, statement)]
        )
        memory_ids = dict.fromkeys(version.memory_id for version in candidates)
        return frozenset(
            version.version_id
            for memory_id in memory_ids
            for version in snapshot.iterate_history(memory_id)
            if is_visible(context, session.access, snapshot, version)
        )


def _find_candidates(snapshot: Snapshot, statement: Supersede | Revert) -> list[tuple[str, int]]:
    """Return the addresses that begin with the hash of a statement, with their version ids."""
    assert isinstance(statement.hash, Hash)
    digits = bare_address(statement.hash.text)
    if len(digits) < ADDRESS_CHARS:
        return snapshot.find_names_by_prefix(oms.STANDARD, digits, _PREFIX_NAMES)
    version = snapshot.find_by_name(oms.STANDARD, digits)
    return [] if version is None else [(digits, version.version_id)]


def _find_target(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Supersede | Revert,
    visible: frozenset[int],
) -> tuple[str, Version]:
    """Return the address and the version that the hash of a statement stands for. Raises QueryError."""
    names = {
        version_id: name
        for name, version_id in _find_candidates(snapshot, statement)
        if version_id in visible
    }
    versions = snapshot.load_versions(list(names))
    live = [version for version in versions if _is_live(version, session.now)]
    assert isinstance(statement.hash, Hash)
    is_prefix = len(bare_address(statement.hash.text)) < ADDRESS_CHARS
    targets = [
        version for version in live if as_grain(context, version)[0].namespace == session.namespace
    ]
    if not targets:
        # A prefix reveals nothing about grains in other namespaces.
        raise _namespace_error() if live and not is_prefix else _unknown_error()
    if len(targets) > 1:
        raise QueryError(
            f"{len(targets)} grains begin with {statement.hash.text}.",
            cal_code="CAL-E015",
            suggestion="Write more digits.",
        )
    return names[targets[0].version_id], targets[0]


def _is_live(version: Version, now: Instant) -> bool:
    """Return True if a version is neither erased, forgotten nor past its retention."""
    state = version.state
    return (
        not state.erased
        and state.tombstoned is None
        and (state.expires is None or state.expires > now)
    )


def _require_belief(context: Context, version: Version) -> Grain:
    """Return a version as a grain, if it is a belief. Raises CAL-E042 for other types, which do not evolve."""
    grain, _ = as_grain(context, version)
    if grain.type_byte != BELIEF_BYTE:
        raise _not_evolvable_error(
            f"Only beliefs can be changed, and this is of type {grain.type_name}."
        )
    return grain


# --- writing ---------------------------------------------------------------------------------------------


def _write(
    context: Context, session: CalSession, unit: Unit, prepared_change: _PreparedChange
) -> str:
    """Append the grain and return its address."""
    change, grain, new_version, now = (
        prepared_change.change,
        prepared_change.grain,
        prepared_change.new,
        session.now,
    )
    if unit.find_by_name(oms.STANDARD, grain.address) is not None:
        # Another writer added an equal grain in the same millisecond, after the change was prepared.
        grain = _encode_unique(unit, change.fields, now)
        new_version = _admit(context, session, change, grain)
    _check_change(unit, change, grain, now)
    if isinstance(new_version, Successor):
        assert change.prior is not None
        return new_version.replace(unit, change.prior, now)[0].address
    unit.announce("created", append_grain(context, unit, new_version, now), now=now)
    return grain.address


def _check_change(snapshot: Snapshot, change: _Change, grain: Grain, now: Instant) -> None:
    """Check authority for a new grain, and the policy of the replaced version for a successor. Raises QueryError."""
    if change.prior is None:
        _check_authority(snapshot, grain, now)
    else:
        _check_policy(snapshot, change.prior, grain, now)


def _encode_unique(snapshot: Snapshot, fields: Mapping[str, object], now: Instant) -> Grain:
    """Encode a grain with the first creation time from now on at which no equal grain exists: each ADD adds one."""
    created = now
    grain = _encode(fields, created)
    while snapshot.find_by_name(oms.STANDARD, grain.address) is not None:
        created = Instant(created + 1)
        grain = _encode(fields, created)
    return grain


def _encode(fields: Mapping[str, object], created: Instant) -> Grain:
    """Encode a grain. Raises CAL-E020 if its values are not allowed in OMS."""
    try:
        return codec.encode({**fields, "created_at": created})
    except (GrainError, TooLarge) as error:
        raise QueryError(
            f"The values do not form a valid grain: {error.message}.",
            cal_code="CAL-E020",
            suggestion="Use other values.",
            oms_error=error.oms_code if isinstance(error, GrainError) else None,
        ) from error


def _check_authority(snapshot: Snapshot, grain: Grain, now: Instant) -> None:
    try:
        authority.check(snapshot, grain.fields, None, now=now)
    except GrainError as error:
        raise _not_evolvable_error(f"{error.message}.") from error


def _check_policy(snapshot: Snapshot, prior: Version, grain: Grain, now: Instant) -> None:
    try:
        check_supersession(snapshot, prior, grain.fields, now=now)
    except GrainError as error:
        if error.oms_code not in _DENIALS:
            raise
        raise QueryError(
            f"The policy of the grain forbids this: {error.message}.",
            cal_code="CAL-E042",
            suggestion="Ask its owner to release it, or ADD a second belief.",
            oms_error=error.oms_code,
        ) from error


def _describe_result(change: _Change, address: str) -> ChangeResult:
    """Return the answer to a change."""
    result: ChangeResult = {"operation": change.operation, "new_hash": _hash(address)}
    if change.target is not None:
        result["target_hash"] = _hash(change.target)
    if change.operation == "revert" and change.prior_address is not None:
        result["previous_head"] = _hash(change.prior_address)
    return result


def _hash(address: str) -> str:
    return f"sha256:{address}"


def _unknown_error() -> QueryError:
    return QueryError(
        "No grain here has this hash.", cal_code="CAL-E046", suggestion="Find its hash with RECALL."
    )


def _namespace_error() -> QueryError:
    return QueryError(
        "The grain is in another namespace.",
        cal_code="CAL-E045",
        suggestion="Use a token of that namespace.",
    )


def _superseded_error() -> QueryError:
    return QueryError(
        "The grain is already superseded.",
        cal_code="CAL-E040",
        suggestion="Find its latest version with HISTORY.",
    )


def _not_evolvable_error(message: str, suggestion: str = "ADD a belief instead.") -> QueryError:
    return QueryError(message, cal_code="CAL-E042", suggestion=suggestion)
