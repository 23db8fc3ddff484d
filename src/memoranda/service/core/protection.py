"""What protects a memory from being superseded, contradicted or erased, whichever standard asks.

A grain carries its invalidation policy with it (OMS §23); a legal hold lies beside it, in its state, because the
grain itself cannot change. Memories of other standards have no policy, but can be held too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memoranda.errors import GrainError, Unsupported
from memoranda.model.instant import Instant
from memoranda.model.memory import OMS, Version
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot

if TYPE_CHECKING:
    from memoranda.standards.oms.policy import Decision

PolicyFields = Mapping[str, Any]
_HOLD_MESSAGE = (
    "the memory is on legal hold and cannot be superseded, contradicted, forgotten or erased"
)


def read_policy_fields(version: Version) -> PolicyFields:
    """Return the fields of a grain, or of the grain that this is the view of; nothing for what has no policy."""
    if version.state.erased:
        return {}
    port = port_of(version.document.standard)
    fields = port.policy_fields(version.document)
    if fields is not None:
        return fields
    inner = port.carried(version.document)
    try:
        return {} if inner is None else port_of(inner.standard).policy_fields_inside(inner)
    except Unsupported:
        # Anybody may have put it there.
        return {}


def check_supersession(
    snapshot: Snapshot,
    prior: Version,
    new: PolicyFields,
    *,
    signer: str | None = None,
    valid_signers: Collection[str] = (),
    now: Instant,
) -> Decision:
    """Whether `new` may take `prior` out of the present. Raises GrainError if not."""
    from memoranda.standards.oms import policy

    old = read_policy_fields(prior)
    lineage = []
    for guard in snapshot.iterate_protecting(prior.memory_id):
        # A record keeps its name when it is told again, and its hold with it.
        if guard.document.name == prior.document.name:
            refuse_on_hold(guard)
        fields = read_policy_fields(guard) if guard.version_id != prior.version_id else None
        if fields and policy.protects_lineage(fields):
            lineage.append(fields)
    decision = policy.check_all(
        old,
        new,
        lineage=lineage,
        ancestors=list(_iterate_ancestors(snapshot, new)),
        signer=signer,
        valid_signers=valid_signers,
        now_ms=now,
    )
    decision.require()
    return decision


def check_erasure(version: Version, now: Instant) -> None:
    """Whether a memory may be erased. Raises GrainError if not: a hold beats everything (OMS §23.2)."""
    from memoranda.standards.oms import policy

    refuse_on_hold(version)
    policy.check_erasure(read_policy_fields(version), now_ms=now).require()


def refuse_on_hold(version: Version) -> None:
    """Raise GrainError if the version is held."""
    if version.state.has_legal_hold:
        from memoranda.standards.oms.policy import DENIED

        raise GrainError(_HOLD_MESSAGE, oms_code=DENIED)


def refuse_rewriting_archive(version: Version) -> None:
    """Raise GrainError for an archive of a distillation: it is what it was, until it ends (openwop)."""
    if version.state.erased or not port_of(version.document.standard).is_archive(version.document):
        return
    from memoranda.standards.oms.policy import DENIED

    raise GrainError(
        "an archive of a distillation cannot be rewritten; it can be forgotten", oms_code=DENIED
    )


def _iterate_ancestors(snapshot: Snapshot, new: PolicyFields) -> Iterator[tuple[int, PolicyFields]]:
    """What a grain derives from, with the number of hops, nearest first, at most 16 hops (OMS §23.7)."""
    from memoranda.standards.oms import policy

    seen: set[str] = set()
    level = _derived_addresses(new)
    for hops in range(1, policy.MAX_HOPS + 1):
        following: list[str] = []
        for address in level:
            if address in seen:
                continue
            seen.add(address)
            version = snapshot.find_by_name(OMS, address)
            if version is not None and (fields := read_policy_fields(version)):
                yield hops, fields
                following += _derived_addresses(fields)
        if not following:
            return
        level = following


def _derived_addresses(fields: PolicyFields) -> list[str]:
    return [source for source in fields.get("derived_from", ()) if isinstance(source, str)]
