"""The audit log: events chained by hash, optionally signed (UMP 1.0 section 9, non-normative).

An event's hash covers everything except `hash`, `signature` and `signer`; so it covers `prev` and `seq`. The log itself
cannot show that its end was cut off: keep the last hash elsewhere, or pass it to `verify_chain` as a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput
from memoranda.standards.ump.canonical import hash_text
from memoranda.standards.ump.signature import sign_hash, verify_hash

_UNHASHED_FIELDS = ("hash", "signature", "signer")


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification: the number of valid events, and the position and reason of the first bad one.

    `count` does not include the `pruned` events before them.
    """

    ok: bool
    count: int
    broken_at: int | None = None
    reason: str | None = None
    pruned: int = 0


def seal_event(event: Mapping[str, object], key: SigningKey | None = None) -> dict[str, Any]:
    """Return the event with its hash and, given a key, its signature."""
    bare = {field: value for field, value in event.items() if field not in _UNHASHED_FIELDS}
    event_hash = hash_text(bare)
    if key is None:
        return {**bare, "hash": event_hash}
    return {**bare, "hash": event_hash, "signature": sign_hash(event_hash, key), "signer": key.did}


def verify_chain(
    events: Iterable[Mapping[str, Any]],
    *,
    start_seq: int = 1,
    prev: str | None = None,
    signer: str | None = None,
) -> ChainReport:
    """Verify the events one by one, from `start_seq` and the hash `prev` before it.

    With `signer`, every event must be signed by that DID. Without it, unsigned events pass, as in the reference
    implementation.
    """
    seq, count = start_seq, 0
    for event in events:
        reason = _find_flaw(event, seq, prev, signer)
        if reason is not None:
            return ChainReport(ok=False, count=count, broken_at=seq, reason=reason)
        prev = event["hash"]
        seq += 1
        count += 1
    return ChainReport(ok=True, count=count)


def _find_flaw(
    event: Mapping[str, object], seq: int, prev: str | None, signer: str | None
) -> str | None:
    """Return the first flaw of an event, or None."""
    if event.get("seq") != seq:
        return "seq gap"
    if event.get("prev") != prev:
        return "broken chain"
    try:
        recomputed = hash_text(
            {key: value for key, value in event.items() if key not in _UNHASHED_FIELDS}
        )
    except InvalidInput:
        return "hash mismatch"
    if event.get("hash") != recomputed:
        return "hash mismatch"
    if "signature" not in event and "signer" not in event and signer is None:
        return None
    signature, claimed_signer = event.get("signature"), event.get("signer")
    if (
        not isinstance(signature, str)
        or not isinstance(claimed_signer, str)
        or signer not in (None, claimed_signer)
    ):
        return "bad signature"
    return None if verify_hash(recomputed, signature, claimed_signer) else "bad signature"
