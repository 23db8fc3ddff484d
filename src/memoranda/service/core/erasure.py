"""Erasing a version for good, whichever standard it was written in."""

from __future__ import annotations

from memoranda.encoding.json_text import dump
from memoranda.errors import GrainError, StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.model.standard import OMS, OPENWOP
from memoranda.service.core.context import Context
from memoranda.service.core.protection import check_erasure, policy_fields, refuse_held
from memoranda.service.core.succession import forget_elsewhere
from memoranda.service.core.views import tombstone_record, view
from memoranda.standards.ump import rules
from memoranda.standards.ump.signature import sign
from memoranda.storage.engine import Unit


def erase_version(
    context: Context, unit: Unit, version: Version, reason: str, now: Instant, *, tombstone: bytes | None = None
) -> None:
    """Content, words and subject go; what is left is a record that says only that there was something.

    Raises GrainError if the version is held, or is the withdrawal of a consent that is still here. Call `Engine.scrub`
    after the unit. `tombstone` was made before the writer's turn.
    """
    try:
        check_erasure(version, now)
        _keep_withdrawal(unit, version)
    except StoreCorrupt:
        # What cannot be read any more protects nothing but itself; a hold in the index still stands.
        refuse_held(version)
    forget_elsewhere(unit, version)
    _unlist(unit, version, now, is_hard=True)
    unit.erase(version, tombstone=tombstone or tombstone_of(context, version, reason, now), now=now)


def tombstone_version(unit: Unit, version: Version, *, valid_to: Instant, now: Instant) -> None:
    """Forget a version softly: it is on record, and in no answer."""
    _unlist(unit, version, now, is_hard=False)
    unit.tombstone(version, valid_to=valid_to, now=now)


def _unlist(unit: Unit, version: Version, now: Instant, *, is_hard: bool) -> None:
    if version.document.standard == OPENWOP:
        from memoranda.service.openwop.archive_index import unlist

        unlist(unit, version, now, is_hard=is_hard)


def tombstone_of(context: Context, version: Version, reason: str, now: Instant) -> bytes:
    """What is left of a version that is erased."""
    try:
        record = view(context, version, now)
    except StoreCorrupt:
        record = tombstone_record(context, version)
    return dump(sign(rules.erase(record, reason=reason), context.operator))


def _keep_withdrawal(unit: Unit, version: Version) -> None:
    # OMS §8.10: without its withdrawal a consent would count again.
    fields = policy_fields(version)
    prior = unit.named(OMS, str(fields.get("prior_consent"))) if fields.get("is_withdrawal") else None
    if prior is not None and not prior.state.erased:
        from memoranda.standards.oms.policy import DENIED

        raise GrainError("the consent that this withdraws is still here; erase that first", oms_code=DENIED)
