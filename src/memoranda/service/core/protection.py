"""Protection of memories from being superseded, contradicted or erased, in all standards.

A grain carries its invalidation policy (OMS §23). A legal hold is part of the version's state in the store, because a
grain cannot be changed. Memories of other standards have no policy, but can be put on hold, too.

The policy language of OMS is in `standards/oms/policy.py`; this module finds the documents that it needs in the store:
the prior version, its lineage and its ancestors. A view of a grain is protected like the grain. Every verb that
supersedes, contradicts, forgets or erases must call one of the checks here before it writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from memoranda.errors import GrainError, Unsupported
from memoranda.model.instant import Instant
from memoranda.model.memory import OMS, Version
from memoranda.model.oms_names import DENIED
from memoranda.standards.oms import policy
from memoranda.standards.oms.policy import Decision
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot

PolicyFields = Mapping[str, Any]
_HOLD_MESSAGE = (
    "the memory is on legal hold and cannot be superseded, contradicted, forgotten or erased"
)


def read_policy_fields(version: Version) -> PolicyFields:
    """Return the fields of a grain, or of the grain that a document is the view of; empty for documents without a
    policy.
    """
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
        # Anybody may have put the document there, so it need not be readable.
        return {}


def check_supersession(
    snapshot: Snapshot,
    prior: Version,
    new_fields: PolicyFields,
    *,
    signer: str | None = None,
    valid_signers: Collection[str] = (),
    now: Instant,
) -> Decision:
    """Return the decision that lets a new version supersede `prior`. Raises GrainError if a policy or a hold forbids
    it.

    `new_fields` are the policy fields of the document that shall supersede. `signer` is the DID that signed it,
    `valid_signers` the DIDs that the policy may accept. The decision that is returned may ask for a review, which the
    caller records.
    """
    prior_fields = read_policy_fields(prior)
    lineage = []
    for guard in snapshot.iterate_protecting(prior.memory_id):
        # A record keeps its name, and its hold, when it is written again.
        if guard.document.name == prior.document.name:
            refuse_on_hold(guard)
        fields = read_policy_fields(guard) if guard.version_id != prior.version_id else None
        if fields and policy.protects_lineage(fields):
            lineage.append(fields)
    decision = policy.check_all(
        prior_fields,
        new_fields,
        lineage=lineage,
        ancestors=list(_iterate_ancestors(snapshot, new_fields)),
        signer=signer,
        valid_signers=valid_signers,
        now_ms=now,
    )
    decision.require()
    return decision


def check_erasure(version: Version, now: Instant) -> None:
    """Raise GrainError if a memory may not be erased; a legal hold outranks everything (OMS §23.2)."""
    refuse_on_hold(version)
    policy.check_erasure(read_policy_fields(version), now_ms=now).require()


def refuse_on_hold(version: Version) -> None:
    """Raise GrainError if a version is on legal hold."""
    if version.state.has_legal_hold:
        raise GrainError(_HOLD_MESSAGE, oms_code=DENIED)


def refuse_rewriting_archive(version: Version) -> None:
    """Raise GrainError for an archive of a distillation, which stays unchanged until it ends (openwop)."""
    if version.state.erased or not port_of(version.document.standard).is_archive(version.document):
        return
    raise GrainError(
        "an archive of a distillation cannot be rewritten; it can be forgotten", oms_code=DENIED
    )


def _iterate_ancestors(
    snapshot: Snapshot, fields_of_new: PolicyFields
) -> Iterator[tuple[int, PolicyFields]]:
    """Yield the grains from which a grain derives, nearest first, with the number of hops, at most 16 (OMS §23.7)."""
    seen_addresses: set[str] = set()
    level = _derived_addresses(fields_of_new)
    for hops in range(1, policy.MAX_HOPS + 1):
        next_level: list[str] = []
        for address in level:
            if address in seen_addresses:
                continue
            seen_addresses.add(address)
            version = snapshot.find_by_name(OMS, address)
            if version is not None and (fields := read_policy_fields(version)):
                yield hops, fields
                next_level += _derived_addresses(fields)
        if not next_level:
            return
        level = next_level


def _derived_addresses(fields: PolicyFields) -> list[str]:
    """Return the addresses from which a grain states that it derives."""
    return [source for source in fields.get("derived_from", ()) if isinstance(source, str)]
