"""Erasing a version for good, whichever standard it was written in."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda.encoding.json_text import dump
from memoranda.errors import GrainError, StoreCorrupt
from memoranda.model.instant import Instant
from memoranda.model.memory import Version
from memoranda.model.standard import OMS
from memoranda.service.core.context import Context
from memoranda.service.core.protection import check_erasure, policy_fields, refuse_held
from memoranda.service.core.succession import forget_elsewhere
from memoranda.service.core.views import tombstone_record, view
from memoranda.standards.port import port_of
from memoranda.standards.ump import rules
from memoranda.standards.ump.signature import sign
from memoranda.storage.engine.contract import Unit


class Tombstones:
    """What is left of versions that are erased together: of those that are named, made before the writer's turn."""

    def __init__(
        self, context: Context, reason: str, now: Instant, versions: Iterable[Version] = ()
    ) -> None:
        self._context, self._reason, self.now = context, reason, now
        # With the state that it is made of: a document never changes.
        self._made = {
            each.version_id: (each.state, self._of(each))
            for each in versions
            if not each.state.erased
        }

    def of(self, version: Version) -> bytes:
        """The tombstone of a version; of one that was written or changed since, made now."""
        seen, made = self._made.get(version.version_id, (None, b""))
        return made if seen == version.state else self._of(version)

    def _of(self, version: Version) -> bytes:
        try:
            record = view(self._context, version, self.now)
        except StoreCorrupt:
            record = tombstone_record(self._context, version)
        return dump(sign(rules.erase(record, reason=self._reason), self._context.operator))


def erase_version(unit: Unit, version: Version, tombstones: Tombstones) -> None:
    """Content, words and subject go; what is left is a record that says only that there was something.

    Raises GrainError if the version is held, or is the withdrawal of a consent that is still here. Call `Engine.scrub`
    after the unit.
    """
    now = tombstones.now
    try:
        check_erasure(version, now)
        _keep_withdrawal(unit, version)
    except StoreCorrupt:
        # What cannot be read any more protects nothing but itself; a hold in the index still stands.
        refuse_held(version)
    forget_elsewhere(unit, version)
    _unlist(unit, version, now, is_hard=True)
    unit.erase(version, tombstone=tombstones.of(version), now=now)


def tombstone_version(unit: Unit, version: Version, *, valid_to: Instant, now: Instant) -> None:
    """Forget a version softly: it is on record, and in no answer."""
    _unlist(unit, version, now, is_hard=False)
    unit.tombstone(version, valid_to=valid_to, now=now)


def _unlist(unit: Unit, version: Version, now: Instant, *, is_hard: bool) -> None:
    if port_of(version.document.standard).may_be_archive(version.document):
        from memoranda.service.openwop.workspace import unlist_archive

        unlist_archive(unit, version, now, is_hard=is_hard)


def _keep_withdrawal(unit: Unit, version: Version) -> None:
    # OMS §8.10: without its withdrawal a consent would count again.
    fields = policy_fields(version)
    prior = (
        unit.named(OMS, str(fields.get("prior_consent"))) if fields.get("is_withdrawal") else None
    )
    if prior is not None and not prior.state.erased:
        from memoranda.standards.oms.policy import DENIED

        raise GrainError(
            "the consent that this withdraws is still here; erase that first", oms_code=DENIED
        )
