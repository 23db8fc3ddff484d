"""Every way to read under a compliance preset opens one snapshot at a time, so that a crowd never waits for ever."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memoranda.errors import StoreUnavailable
from memoranda.storage.sqlite.database import READERS_LIMIT, SqliteDatabase
from tests.matrix.doors import EXPORTS, READS, SPACE, WRITES, House, left, told
from tests.service.world import PEER

ALICE = "did:web:alice.example"


@pytest.mark.requirement("OURS-reads-never-stall")
def test_a_crowd_that_reads_what_needs_consent_is_answered(tmp_path: Path) -> None:
    # Each way looks for consents while it reads; tests/reader_nesting.py fails if any opens a second snapshot for it.
    house = House(presets=["gdpr"], path=tmp_path / "store.db")
    body = {"text": "zanzibar is warm", "structured": {"processing_basis": "contract"}}
    scope = {"project": SPACE, "user": ALICE, "visibility": "shared"}
    record = house.remember("", body=body, scope=scope)
    house.put(type="consent", subject_did=ALICE, grantee_did=PEER.did, scope=["retrieve"], is_withdrawal=False)
    names = house.names(house.named("ump", record))
    reader = house.token("read", "export", audience=PEER.did)
    with ThreadPoolExecutor(2 * READERS_LIMIT) as crowd:
        asked = {read: [crowd.submit(told, house, read, names, "zanzibar", reader) for _ in range(3)] for read in READS}
        leaving = [crowd.submit(left, house, export, reader) for export in EXPORTS]
        seen = {read: "zanzibar" in answers[0].result() for read, answers in asked.items()}
        assert all(isinstance(each.result(), str) for each in leaving)
    assert seen == dict.fromkeys(READS, True)
    house.service.close()


@pytest.mark.requirement("OURS-reads-never-stall")
@pytest.mark.parametrize("way", WRITES)
def test_no_way_to_write_reads_twice_at_once(way: str) -> None:
    house = House()
    WRITES[way](house, "zanzibar")
    house.service.close()


@pytest.mark.requirement("OURS-reads-never-stall")
def test_who_gets_no_turn_to_read_is_told_so(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "store.db", reader_seconds=0.01)
    held = [database.open_snapshot() for _ in range(READERS_LIMIT)]
    for each in held:
        each.__enter__()
    with pytest.raises(StoreUnavailable, match="too many reads at once"), database.open_snapshot():
        pass
    for each in held:
        each.__exit__(None, None, None)
    with database.open_snapshot():
        pass
    database.close()
