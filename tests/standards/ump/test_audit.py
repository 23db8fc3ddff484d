"""The chained log: its published events, and every way to break it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.standards.ump.published import KEY, VECTORS

from memoranda.encoding.didkey import SigningKey
from memoranda.standards.ump.signature import ChainReport, seal_event, verify_chain

EVENTS: list[dict[str, Any]] = VECTORS["audit"]["events"]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event['seq']}-{event['op']}")
def test_every_published_event_is_sealed_byte_for_byte(event: dict[str, Any]) -> None:
    bare = {key: value for key, value in event.items() if key not in ("hash", "signature", "signer")}
    sealed = seal_event(bare, KEY)
    assert sealed == event
    assert list(sealed) == list(event)
    assert seal_event(bare) == {**bare, "hash": event["hash"]}


def test_the_published_chain_holds() -> None:
    expected = VECTORS["audit"]["verify"]
    assert verify_chain(EVENTS) == ChainReport(ok=expected["ok"], count=expected["count"])
    assert verify_chain(iter(EVENTS), signer=KEY.did).ok
    assert verify_chain([]) == ChainReport(ok=True, count=0)


def test_a_chain_may_be_checked_from_the_middle() -> None:
    assert verify_chain(EVENTS[4:], start_seq=5, prev=EVENTS[3]["hash"]).count == 6
    assert verify_chain(EVENTS[4:], start_seq=5, prev=None).reason == "broken chain"


def broken(index: int, **changes: Any) -> list[dict[str, Any]]:
    return [*EVENTS[:index], {**EVENTS[index], **changes}, *EVENTS[index + 1 :]]


@pytest.mark.parametrize(
    ("events", "broken_at", "reason"),
    [
        (EVENTS[1:], 1, "seq gap"),
        (EVENTS[:2] + EVENTS[3:], 3, "seq gap"),
        (broken(2, prev="blake3:other"), 3, "broken chain"),
        (broken(2, result="created"), 3, "hash mismatch"),
        (broken(2, hash="blake3:other"), 3, "hash mismatch"),
        (broken(2, result="\ud800"), 3, "hash mismatch"),
        (broken(2, signature=EVENTS[1]["signature"]), 3, "bad signature"),
        (broken(2, signature=None), 3, "bad signature"),
        (broken(2, signer=SigningKey(b"\x0b" * 32).did), 3, "bad signature"),
    ],
)
def test_a_broken_chain_says_where_and_why(events: list[dict[str, Any]], broken_at: int, reason: str) -> None:
    report = verify_chain(events)
    assert (report.ok, report.count, report.broken_at, report.reason) == (False, broken_at - 1, broken_at, reason)


def test_an_unsigned_event_passes_unless_a_signer_is_required() -> None:
    unsigned = seal_event(EVENTS[0])
    assert verify_chain([unsigned]).ok
    assert verify_chain([unsigned], signer=KEY.did).reason == "bad signature"
