"""The audit log: events chained by hash, optionally signed (UMP 1.0 section 9, non-normative).

An event's hash covers everything but `hash`, `signature` and `signer`, and so its `prev` and `seq`. A cut
tail cannot be seen from inside: keep the last hash elsewhere, or give it to `verify_chain` as a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput
from memoranda.standards.ump.canonical import hash_text
from memoranda.standards.ump.signature import sign_hash, verify_hash

_OUTSIDE_THE_HASH = ("hash", "signature", "signer")


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a chain holds: `count` events in order after those that were pruned, and where and why it breaks."""

    ok: bool
    count: int
    broken_at: int | None = None
    reason: str | None = None
    pruned: int = 0


def seal_event(event: Mapping[str, Any], key: SigningKey | None = None) -> dict[str, Any]:
    """The event with its hash and, given a key, its signature."""
    bare = {field: value for field, value in event.items() if field not in _OUTSIDE_THE_HASH}
    stated = hash_text(bare)
    if key is None:
        return {**bare, "hash": stated}
    return {**bare, "hash": stated, "signature": sign_hash(stated, key), "signer": key.did}


def verify_chain(
    events: Iterable[Mapping[str, Any]],
    *,
    start_seq: int = 1,
    prev: str | None = None,
    signer: str | None = None,
) -> ChainReport:
    """Check events one by one, from `start_seq` and the hash before it.

    With `signer`, every event must be signed by that DID; without it, an unsigned event passes, as in the
    reference.
    """
    seq, count = start_seq, 0
    for event in events:
        reason = _flaw(event, seq, prev, signer)
        if reason is not None:
            return ChainReport(ok=False, count=count, broken_at=seq, reason=reason)
        prev = event["hash"]
        seq += 1
        count += 1
    return ChainReport(ok=True, count=count)


def _flaw(event: Mapping[str, Any], seq: int, prev: str | None, signer: str | None) -> str | None:
    if event.get("seq") != seq:
        return "seq gap"
    if event.get("prev") != prev:
        return "broken chain"
    try:
        recomputed = hash_text({key: value for key, value in event.items() if key not in _OUTSIDE_THE_HASH})
    except InvalidInput:
        return "hash mismatch"
    if event.get("hash") != recomputed:
        return "hash mismatch"
    if "signature" not in event and "signer" not in event and signer is None:
        return None
    signature, claimed = event.get("signature"), event.get("signer")
    if not isinstance(signature, str) or not isinstance(claimed, str) or signer not in (None, claimed):
        return "bad signature"
    return None if verify_hash(recomputed, signature, claimed) else "bad signature"
