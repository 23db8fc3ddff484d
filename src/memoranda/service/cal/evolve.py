"""ADD, SUPERSEDE and REVERT (CAL sections 8.8 to 8.10): they append grains, and nothing is ever changed or taken away.

Each runs as one unit of work: the token is spent, the quota counted, the target found, the policy of what is replaced
asked, the grain written and the audit entry recorded; if one of these refuses, none of them happened. A statement can
only do what a grain written by its owner could do: it passes the same scope, presets and policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memoranda.errors import Conflict, GrainError, MemorandaError, QueryError, TooLarge
from memoranda.model.instant import Instant
from memoranda.model.memory import NATIVE_KEY, Version, is_true_at
from memoranda.model.oms_names import ADDRESS_CHARS, DENIED
from memoranda.service.cal.audit import entry_for
from memoranda.service.cal.session import CalSession, check_op, refuse
from memoranda.service.core.authorship import attribute_grain
from memoranda.service.core.context import Context, retry_on_conflict
from memoranda.service.core.indexing import NewVersion, as_grain
from memoranda.service.core.protection import check_supersession
from memoranda.service.core.secret_screening import screen_fields, screen_text
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

CONFIDENCE: Final = 0.8
OBSERVER_TYPE: Final = "llm"
BELIEF_BYTE: Final = 0x01
# So many grains of one tenant may begin with the same digits before we stop looking.
_PREFIX_NAMES: Final = 100
# What an earlier grain says of itself alone: a grain made from it was not signed, timed or released by the same.
_NOT_INHERITED: Final = frozenset(
    """created_at derived_from author_did trusted_timestamp system_valid_from supersession_justification
    supersession_auth invalidation_type invalidation_reason invalidation_initiator""".split()
)
_DENIALS: Final = (DENIED, policy.EVIDENCE_REQUIRED)

Evolving = Add | Supersede | Revert
_OPERATIONS: Final[Mapping[type, str]] = {Add: "add", Supersede: "supersede", Revert: "revert"}


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a statement comes to: the fields of a new grain but for its time, and what it replaces."""

    operation: str
    reason: str
    fields: dict[str, Any]
    # The head that the new grain replaces, and its address.
    prior: Version | None = None
    prior_address: str | None = None
    # What the statement named.
    target: str | None = None
    # The versions that it was made of.
    rests_on: tuple[Version, ...] = ()


class _Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A change with its grain, made before the writer's turn."""

    change: _Change
    grain: Grain
    new: NewVersion | Successor


def run(
    context: Context, session: CalSession, query: ParsedQuery, query_hash: str
) -> dict[str, Any]:
    """Execute one bound statement that appends; its audit entry is written with it, if it succeeds."""
    statement = require_allowed(session, query.statement)
    return retry_on_conflict(lambda: _run(context, session, statement, query_hash))


def _run(
    context: Context, session: CalSession, statement: Evolving, query_hash: str
) -> dict[str, Any]:
    ready = _ready_or_why_not(context, session, statement)

    def work(unit: Unit) -> dict[str, Any]:
        spend_token(unit, session)
        _spend_quota(unit, session, statement)
        if isinstance(ready, MemorandaError):
            # Said only now: a token that was used up is refused first.
            raise ready
        change = ready.change
        if unit.load_versions([each.version_id for each in change.rests_on]) != list(
            change.rests_on
        ):
            raise Conflict("the grain was changed meanwhile; try again")
        done = _result(change, _write(context, session, unit, ready))
        entry = entry_for(
            context,
            session,
            statement_type=change.operation,
            query_hash=query_hash,
            tier=1,
            duration_ms=max(0, context.clock() - session.now),
            operation=change.operation,
            target_hash=done.get("target_hash"),
            new_hash=done["new_hash"],
            reason=change.reason,
        )
        unit.record_audit(entry)
        return done

    return context.engine.write(session.tenant, work)


def side_effects(context: Context, session: CalSession, query: ParsedQuery) -> list[dict[str, Any]]:
    """What executing a bound query would write; it raises what executing would, quotas apart. Nothing is written."""
    statement = query.statement
    if not isinstance(statement, Evolving):
        return []
    ready = _ready(context, session, statement)
    change = ready.change
    # When it is made is only known when it is.
    preview = {name: value for name, value in ready.grain.fields.items() if name != "created_at"}
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
    """Raise CAL-E044 unless this session may run the statement; what is not approved was not prepared."""
    if not isinstance(statement, Evolving):
        raise TypeError("only ADD, SUPERSEDE and REVERT evolve")
    operation = _OPERATIONS[type(statement)]
    if not session.tier1:
        refuse(
            "tier1_disabled",
            f"{operation.upper()} is not enabled here.",
            "Reading is; EXPLAIN shows what it would do.",
        )
    session.access.require("write")
    check_op(
        session,
        operation.capitalize(),
        [statement.grain_type if isinstance(statement, Add) else "belief"],
    )
    if not (is_approved or session.auto_approve or session.prepared_id is not None):
        # Section 18: two phases are REQUIRED for what writes.
        refuse(
            "not_prepared",
            f"{operation.upper()} is prepared first.",
            "Prepare it, look at it, then execute its token.",
        )
    return statement


def spend_token(unit: Unit, session: CalSession) -> None:
    """Use up the prepared query and one use of the capability token, if there are such."""
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
    operation, quotas, now = _OPERATIONS[type(statement)], session.quotas, session.now
    limit = {"add": quotas.add, "supersede": quotas.supersede, "revert": quotas.revert}[operation]
    # Both are free text; the lengths keep two pairs from spelling one name.
    name = f"cal {operation} {len(session.namespace)} {session.namespace} {session.user_id}"
    if not unit.consume_rate(name, now=now, window_ms=quotas.window_ms, limit=limit):
        seconds = quotas.window_ms // 1000
        raise QueryError(
            f"No more than {limit} {operation.upper()} in {seconds} seconds.",
            cal_code="CAL-E052" if operation == "add" else "CAL-E043",
            suggestion="Wait a little, then try again.",
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
                suggestion="Ask for a new token.",
            )


# --- what a statement comes to ---------------------------------------------------------------------------


def _ready_or_why_not(
    context: Context, session: CalSession, statement: Evolving
) -> _Ready | MemorandaError:
    try:
        return _ready(context, session, statement)
    except MemorandaError as error:
        return error


def _ready(context: Context, session: CalSession, statement: Evolving) -> _Ready:
    seen, now = _seen(context, session, statement), session.now
    with context.engine.open_snapshot(session.tenant) as snapshot:
        change = _change(context, session, snapshot, statement, seen)
        grain = _fresh(snapshot, change.fields, now)
        _check(snapshot, change, grain, now)
    return _Ready(change=change, grain=grain, new=_admitted(context, session, change, grain))


def _admitted(
    context: Context, session: CalSession, change: _Change, grain: Grain
) -> NewVersion | Successor:
    opened = OpenedGrain(grain=grain, delivery=grain.blob, signer=None)
    if change.prior is None:
        return admit(context, session.access, opened, session.tenant)
    return Successor(context, session.access, opened, session.tenant)


def _change(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Evolving,
    seen: frozenset[int],
) -> _Change:
    made = _meant(context, session, snapshot, statement, seen)
    reason = screen_text(context, made.reason, "reason")
    fields = attribute_grain(session.access, screen_fields(context, made.fields))
    return replace(made, fields=dict(fields), reason=reason)


def _meant(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Evolving,
    seen: frozenset[int],
) -> _Change:
    if isinstance(statement, Add):
        return _Change(operation="add", reason=statement.reason, fields=_added(session, statement))
    address, version = _target(context, session, snapshot, statement, seen)
    grain = _belief(context, version)
    if isinstance(statement, Supersede):
        if not version.state.is_head:
            raise _superseded()
        fields = _successor(version, grain, [address], statement.reason, session.now)
        fields |= _assigned(context, snapshot, grain, statement.assignments)
        return _Change(
            operation="supersede",
            reason=statement.reason,
            fields=fields,
            prior=version,
            prior_address=address,
            target=address,
            rests_on=(version,),
        )
    return _reverted(context, session, snapshot, statement, seen, (address, version))


def _added(session: CalSession, statement: Add) -> dict[str, Any]:
    given = {each.field: _plain(each) for each in statement.assignments}
    fields: dict[str, Any] = {
        "type": statement.grain_type,
        # Section 8.8: both come from the token.
        "namespace": session.namespace,
        "user_id": session.user_id,
        "source_type": session.source_type,
        "confidence": given.pop("confidence", CONFIDENCE),
        "context": {"reason": statement.reason},
    }
    if "tags" in given:
        fields["structural_tags"] = given.pop("tags")
    if statement.grain_type == "goal":
        fields |= {"description": given["object"], "goal_state": "active"}
    elif statement.grain_type == "observation":
        fields |= {"observer_id": session.user_id, "observer_type": OBSERVER_TYPE}
    elif statement.grain_type == "reasoning":
        fields["conclusion"] = given.pop("content", given["object"])
    return {**fields, **given}


def _plain(assignment: Assignment) -> Any:
    """The value of a SET as OMS holds it."""
    name, value = assignment.field, assignment.value
    if name == "goal_state":
        return oms_goal_state(value)
    if name == "deadline":
        return _instant(value)
    if name == "depends_on":
        return [_address(each) for each in (value if isinstance(value, tuple) else (value,))]
    return list(value) if isinstance(value, tuple) else value


def _address(value: Value) -> str:
    return bare_address(value.text if isinstance(value, Hash) else str(value))


def _instant(value: Value) -> int:
    if isinstance(value, str):
        span = times.parse_span(value)
        assert span is not None
        # A day is over when it ends.
        return span[1]
    assert isinstance(value, int | float)
    return times.epoch_ms(value)


def _assigned(
    context: Context, snapshot: Snapshot, grain: Grain, assignments: tuple[Assignment, ...]
) -> dict[str, Any]:
    fields = {each.field: _plain(each) for each in assignments}
    if "tags" in fields:
        earlier, tags = grain.fields.get("structural_tags", ()), fields.pop("tags")
        if context.presets_in(snapshot):
            # Section 19: no query weakens the policy in force, so what is marked sensitive stays marked.
            tags = [*tags, *(tag for tag in earlier if tag.startswith(tuple(TAG_SENSITIVITY)))]
        if oms.is_text(grain.type_name, grain.fields):
            tags = [*tags, *_marks_of_view(earlier, tags)]
        fields["structural_tags"] = list(dict.fromkeys(tags))
    return fields


def _marks_of_view(earlier: Sequence[str], tags: Sequence[str]) -> Iterator[str]:
    """Yield the tags by which a view says its kind and who may see it: nobody wrote them, so nobody replaces them."""
    for tag in earlier:
        says_visibility = tag.startswith(oms.VISIBILITY_TAG)
        is_replaced = says_visibility and any(each.startswith(oms.VISIBILITY_TAG) for each in tags)
        if tag == oms.IDENTITY_TAG or (says_visibility and not is_replaced):
            yield tag


def _successor(
    version: Version, grain: Grain, sources: list[str], reason: str, now: Instant
) -> dict[str, Any]:
    """Return the payload of an earlier grain as that of a new one which comes from it."""
    if "_elided" in grain.fields:
        raise _not_evolvable("The grain is a view that does not show everything.")
    fields = {name: value for name, value in grain.fields.items() if name not in _NOT_INHERITED}
    if not port_of(version.document.standard).has_own_fields:
        fields |= _beside(version, fields)
        if is_true_at(version.state, now):
            # A view says since when the original holds; this is not that memory any more.
            fields.pop("valid_from", None)
    inner = {
        name: value for name, value in grain.fields.get("context", {}).items() if name != NATIVE_KEY
    }
    fields.pop("context", None)
    if inner:
        fields["context"] = inner
    return {**fields, "derived_from": sources, "supersession_justification": reason}


def _beside(version: Version, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record says beside its view as a grain. Raises QueryError if no grain can say it."""
    record = port_of(version.document.standard).record(version.document)
    if record is None:
        return {}
    if beyond := _beyond_grains(version, record):
        raise _not_evolvable(
            f"The memory has {beyond} that a grain cannot carry.", "Revise it through UMP."
        )
    said = {name: value for name, value in rules_of_record(record).items() if value}
    tags = [*fields.get("structural_tags", ()), *said.pop("structural_tags", ())]
    return {**said, **({"structural_tags": list(dict.fromkeys(tags))} if tags else {})}


def _beyond_grains(version: Version, record: Record) -> str:
    """Return what of a record would be lost in a grain, in words; empty if nothing."""
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
    return "structured data" if structured.keys() - RULE_NAMES else ""


def _reverted(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Revert,
    seen: frozenset[int],
    target: tuple[str, Version],
) -> _Change:
    """The content before the target once more, in front of whatever is the head now."""
    address, version = target
    head, before = version, None
    for each in snapshot.iterate_history(version.memory_id):
        if each.state.retired is None:
            head = each
            before = each if each.version_id < version.version_id else before
    if head.version_id not in seen:
        # Written since we looked, or not for this caller to see.
        raise _superseded()
    if not _is_live(head, session.now):
        raise _unknown()
    # What was forgotten, erased or expired does not come back this way.
    if before is None or before.version_id not in seen or not _is_live(before, session.now):
        raise QueryError(
            "There is no earlier version to go back to.",
            cal_code="CAL-E041",
            suggestion="HISTORY shows the versions there are.",
        )
    earlier, top = _belief(context, before), _belief(context, head)
    if {earlier.namespace, top.namespace} != {session.namespace}:
        raise _elsewhere()
    sources = [top.address, earlier.address]
    return _Change(
        operation="revert",
        reason=statement.reason,
        fields=_successor(before, earlier, sources, statement.reason, session.now),
        prior=head,
        prior_address=top.address,
        target=address,
        rests_on=tuple({each.version_id: each for each in (version, before, head)}.values()),
    )


# --- the target ------------------------------------------------------------------------------------------


def _seen(context: Context, session: CalSession, statement: Evolving) -> frozenset[int]:
    """The versions of the target's memory that the caller may see whole.

    Asked before the unit of work, because the answer may depend on consent that lies in the store itself.
    """
    if isinstance(statement, Add):
        return frozenset()
    with context.engine.open_snapshot(session.tenant) as snapshot:
        found = snapshot.load_versions(
            [version_id for _, version_id in _candidates(snapshot, statement)]
        )
        memory_ids = dict.fromkeys(each.memory_id for each in found)
        versions = (
            version for memory_id in memory_ids for version in snapshot.iterate_history(memory_id)
        )
        return frozenset(
            each.version_id
            for each in versions
            if is_visible(context, session.access, snapshot, each)
        )


def _candidates(snapshot: Snapshot, statement: Supersede | Revert) -> list[tuple[str, int]]:
    """The addresses that a hash may mean, with their versions."""
    assert isinstance(statement.hash, Hash)
    digits = bare_address(statement.hash.text)
    if len(digits) < ADDRESS_CHARS:
        return snapshot.find_names_by_prefix(oms.STANDARD, digits, _PREFIX_NAMES)
    version = snapshot.find_by_name(oms.STANDARD, digits)
    return [] if version is None else [(digits, version.version_id)]


def _target(
    context: Context,
    session: CalSession,
    snapshot: Snapshot,
    statement: Supersede | Revert,
    seen: frozenset[int],
) -> tuple[str, Version]:
    names = {
        version_id: name
        for name, version_id in _candidates(snapshot, statement)
        if version_id in seen
    }
    versions = [each for each in snapshot.load_versions(list(names)) if _is_live(each, session.now)]
    assert isinstance(statement.hash, Hash)
    is_prefix = len(bare_address(statement.hash.text)) < ADDRESS_CHARS
    here = [each for each in versions if as_grain(context, each)[0].namespace == session.namespace]
    if not here:
        # Only a whole hash can tell that a grain is somewhere else.
        raise _elsewhere() if versions and not is_prefix else _unknown()
    if len(here) > 1:
        raise QueryError(
            f"{len(here)} grains begin with {statement.hash.text}.",
            cal_code="CAL-E015",
            suggestion="Give more digits.",
        )
    return names[here[0].version_id], here[0]


def _is_live(version: Version, now: Instant) -> bool:
    """Whether a version is neither erased, forgotten nor past its retention."""
    state = version.state
    return (
        not state.erased
        and state.tombstoned is None
        and (state.expires is None or state.expires > now)
    )


def _belief(context: Context, version: Version) -> Grain:
    grain, _ = as_grain(context, version)
    if grain.type_byte != BELIEF_BYTE:
        raise _not_evolvable(
            f"A {grain.type_name} is a record of what was and does not evolve; beliefs do."
        )
    return grain


# --- writing ---------------------------------------------------------------------------------------------


def _write(context: Context, session: CalSession, unit: Unit, ready: _Ready) -> str:
    """Append the grain; its address."""
    change, grain, new, now = ready.change, ready.grain, ready.new, session.now
    if unit.find_by_name(oms.STANDARD, grain.address) is not None:
        # Somebody added the very same in this millisecond, after we looked.
        grain = _fresh(unit, change.fields, now)
        new = _admitted(context, session, change, grain)
    _check(unit, change, grain, now)
    if isinstance(new, Successor):
        assert change.prior is not None
        return new.replace(unit, change.prior, now)[0].address
    unit.announce("created", append_grain(context, unit, new, now), now=now)
    return grain.address


def _check(snapshot: Snapshot, change: _Change, grain: Grain, now: Instant) -> None:
    if change.prior is None:
        _check_authority(snapshot, grain, now)
    else:
        _check_policy(snapshot, change.prior, grain, now)


def _fresh(snapshot: Snapshot, fields: Mapping[str, Any], now: Instant) -> Grain:
    """The grain at the first moment from now at which there is none like it: no two ADDs are one grain."""
    created = now
    grain = _encoded(fields, created)
    while snapshot.find_by_name(oms.STANDARD, grain.address) is not None:
        created = Instant(created + 1)
        grain = _encoded(fields, created)
    return grain


def _encoded(fields: Mapping[str, Any], created: Instant) -> Grain:
    try:
        return codec.encode({**fields, "created_at": created})
    except (GrainError, TooLarge) as error:
        raise QueryError(
            f"This cannot be a grain: {error.message}.",
            cal_code="CAL-E020",
            suggestion="Give other values.",
            oms_error=error.oms_code if isinstance(error, GrainError) else None,
        ) from error


def _check_authority(snapshot: Snapshot, grain: Grain, now: Instant) -> None:
    try:
        authority.check(snapshot, grain.fields, None, now=now)
    except GrainError as error:
        raise _not_evolvable(f"{error.message}.") from error


def _check_policy(snapshot: Snapshot, prior: Version, grain: Grain, now: Instant) -> None:
    try:
        check_supersession(snapshot, prior, grain.fields, now=now)
    except GrainError as error:
        if error.oms_code not in _DENIALS:
            raise
        raise QueryError(
            f"The policy refuses: {error.message}.",
            cal_code="CAL-E042",
            suggestion="Its owner can release it, or ADD a belief beside it.",
            oms_error=error.oms_code,
        ) from error


def _result(change: _Change, address: str) -> dict[str, Any]:
    result = {"operation": change.operation, "new_hash": _hash(address)}
    if change.target is not None:
        result["target_hash"] = _hash(change.target)
    if change.operation == "revert" and change.prior_address is not None:
        result["previous_head"] = _hash(change.prior_address)
    return result


def _hash(address: str) -> str:
    return f"sha256:{address}"


def _unknown() -> QueryError:
    return QueryError(
        "There is no such grain here.", cal_code="CAL-E046", suggestion="Find its hash with RECALL."
    )


def _elsewhere() -> QueryError:
    return QueryError(
        "The grain is in another namespace.",
        cal_code="CAL-E045",
        suggestion="Use a token of that namespace.",
    )


def _superseded() -> QueryError:
    return QueryError(
        "The grain is already superseded.",
        cal_code="CAL-E040",
        suggestion="HISTORY names its latest version.",
    )


def _not_evolvable(message: str, suggestion: str = "ADD a belief instead.") -> QueryError:
    return QueryError(message, cal_code="CAL-E042", suggestion=suggestion)
