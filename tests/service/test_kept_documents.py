"""Documents that a process keeps decoded: they are never served, nor kept, after an erasure in any process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.errors import GrainError
from memoranda.model.memory import OpenedDocument
from memoranda.model.selection import Selection
from memoranda.service.retrieve import read_page
from memoranda.standards.oms.requests import FindRequest
from memoranda.storage.engine.caches import Age, DocumentCache
from memoranda.storage.engine.sql_engine import SqlEngine
from tests import forking

ASKED = 'RECALL WHERE subject = "ada"'


MADE = {
    "type": "belief",
    "subject": "ada",
    "relation": "drinks",
    "confidence": 0.9,
    "created_at": 1_780_000_000_000,
}


def elsewhere(home: Path, code: str, *given: str) -> None:
    """Run code on the same store in another process."""
    opened = f"import sys\nfrom memoranda import Memoranda\nwith Memoranda.open(sys.argv[1]) as m:\n    {code}\n"
    assert forking.run([sys.executable, "-c", opened, str(home), *given]).returncode == 0


def objects(m: Memoranda) -> list[str]:
    return [each["grain"]["object"] for each in m.cal(ASKED)["results"]]


def kept(m: Memoranda) -> DocumentCache:
    engine = m.service.context.engine
    assert isinstance(engine, SqlEngine)
    return engine.documents


@pytest.mark.parametrize(
    "code",
    [
        "m.grains.erase(sys.argv[2], reason='asked for')",
        "m.grains.erase_user('ada', reason='asked for')",
        "m.service.context.engine.destroy_user_key(m.owner, 'ada')",
        "m.forget(m.recall('green')[0].record['id'], hard=True)",
    ],
    ids=["grain", "user", "key", "hard forget"],
)
@pytest.mark.sqlite
def test_what_another_process_erased_is_neither_served_nor_kept(tmp_path: Path, code: str) -> None:
    with Memoranda.open(tmp_path) as m:
        tea = {
            "type": "belief",
            "subject": "ada",
            "relation": "drinks",
            "object": "green tea",
            "user_id": "ada",
            "confidence": 0.9,
        }
        address = m.grains.put({**tea, "created_at": 1_780_000_000_000}).address
        assert objects(m) == objects(m) == ["green tea"]
        assert len(kept(m)) == 1
        elsewhere(tmp_path, code, address)
        assert objects(m) == []
        # Whatever is asked next, the first look into the store drops what was kept.
        m.grains.put({**tea, "object": "coffee", "user_id": "bob", "created_at": 1_780_000_000_001})
        assert objects(m) == ["coffee"]
        assert len(kept(m)) == 1


def test_what_this_process_erased_is_neither_served_nor_kept(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        tea = m.grains.put({**MADE, "object": "green tea"}).address
        m.grains.put({**MADE, "object": "coffee"})
        assert sorted(objects(m)) == ["coffee", "green tea"]
        m.grains.erase(tea, reason="asked for")
        assert objects(m) == ["coffee"]
        assert len(kept(m)) == 1


def test_what_became_of_a_version_is_asked_anew(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        tea = m.grains.put({**MADE, "object": "green tea"}).address
        assert objects(m) == ["green tea"]
        m.grains.set_verification(tea, "retracted", reason="wrong")
        assert objects(m) == []
        m.grains.set_verification(tea, "contested", reason="perhaps")
        assert m.cal(f"{ASKED} | SELECT verification_status")["results"][0]["fields"] == {
            "verification_status": "contested"
        }


def test_a_snapshot_from_before_an_erasure_gets_nothing_and_leaves_nothing() -> None:
    documents, before, after = DocumentCache(), Age(1, 0), Age(2, 0)
    documents.put(7, before, {1: document(b"one")})
    assert list(documents.get(7, before, [1, 2])) == [1]
    assert documents.get(8, before, [1]) == {}
    assert documents.get(7, after, [1]) == {}
    documents.put(7, before, {1: document(b"one")})
    assert (len(documents), documents.get(7, before, [1])) == (0, {})


def test_what_was_used_least_goes_when_there_is_no_room() -> None:
    documents, age = DocumentCache(limit=100_000), Age(0, 0)
    for number in range(60):
        documents.put(7, age, {number: document(bytes(500))})
        documents.get(7, age, [0])
    assert 10 < len(documents) < 60
    assert documents.get(7, age, [0, 1, 59]).keys() == {0, 59}


def document(native: bytes) -> OpenedDocument:
    return OpenedDocument("oms", "", native, is_sealed=True)


@pytest.mark.sqlite
def test_a_verdict_of_another_process_is_heard_by_who_keeps_what_is_live(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        one, other = (
            m.grains.put({**MADE, "object": f"green tea {number}", "created_at": 1_780_000_000_000 + number}).address
            for number in range(2)
        )
        m.grains.set_verification(one, "retracted", reason="wrong")
        found = [each.record["body"]["text"] for each in m.recall("green tea")]
        assert [each[-1] for each in found] == ["1"]
        end = m.service.feed_end(m.access, {})
        # As many are live as before, and no version is new.
        elsewhere(
            tmp_path,
            "m.grains.set_verification(sys.argv[2], 'verified', reason='right');"
            " m.grains.set_verification(sys.argv[3], 'retracted', reason='wrong')",
            one,
            other,
        )
        found = [each.record["body"]["text"] for each in m.recall("green tea")]
        assert [each[-1] for each in found] == ["0"]
        assert [each.type for each in m.service.changes(m.access, {}, end).events] == ["revised", "revised"]
        # Said once more, it is no news.
        end = m.service.feed_end(m.access, {})
        m.grains.set_verification(one, "verified", reason="right")
        assert m.service.feed_end(m.access, {}) == end


@pytest.mark.sqlite
def test_a_hold_of_another_process_is_seen_at_once_and_changes_no_answer(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path) as m:
        address = m.grains.put({**MADE, "object": "green tea"}).address
        before = m.grains.get(address).document()
        assert objects(m) == ["green tea"]
        elsewhere(tmp_path, "m.grains.set_hold(sys.argv[2], held=True, reason='court')", address)
        assert m.grains.get(address).document() == {**before, "held": True}
        assert objects(m) == ["green tea"]
        with pytest.raises(GrainError):
            m.grains.erase(address, reason="asked for")


@pytest.mark.sqlite
def test_a_grain_that_was_made_of_a_record_goes_with_it(tmp_path: Path) -> None:
    """What a memory of another standard is shown as is kept as long as its document, and no longer."""
    with Memoranda.open(tmp_path) as m:
        done = m.remember("Ada takes her tea green", user="ada")
        asked = FindRequest.parse({"user_id": "ada", "limit": 5})
        (found,) = m.grains.find(asked).results
        (again,) = m.grains.find(asked).results
        assert again.stored.grain is found.stored.grain
        elsewhere(tmp_path, "m.forget(sys.argv[2], hard=True)", done.id)
        assert m.grains.find(asked).results == ()
        m.remember("Bob takes coffee", user="bob")
        assert len(m.grains.find(FindRequest.parse({"user_id": "bob", "limit": 5})).results) == 1
        assert len(kept(m)) == 1


def test_two_readings_of_a_version_are_equal_and_not_unequal() -> None:
    with Memoranda.open(":memory:") as m:
        m.grains.put({**MADE, "object": "tea"})
        versions = []
        for _ in range(2):
            with m.service.context.engine.open_snapshot(m.owner) as snapshot:
                asked = Selection(status_filter="all")
                versions += read_page(snapshot, asked, after=0, limit=1, now=m.service.context.clock())
        first, second = versions
        assert first is not second
        assert (first == second, first != second) == (True, False)
