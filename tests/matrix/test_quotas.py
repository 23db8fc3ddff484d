"""Quotas bind what is written through every standard: it is one store."""

from __future__ import annotations

import pytest

from memoranda.errors import MemorandaError, QuotaExceeded
from memoranda.service.core.quotas import Quotas
from memoranda.standards.openwop.entry import Draft
from tests.matrix.doors import SPACE, WRITES, House


def refused(house: House, way: str, text: str) -> str:
    """Why a way to write refuses; nothing if it does not."""
    try:
        WRITES[way](house, text)
    except (MemorandaError, AssertionError) as error:
        return str(error)
    return ""


@pytest.mark.requirement("OURS-closed-doors")
@pytest.mark.parametrize("quotas", [Quotas(memories=2), Quotas(bytes=2_000)])
@pytest.mark.parametrize("way", WRITES)
def test_no_way_to_write_goes_past_what_an_owner_may_keep(way: str, quotas: Quotas) -> None:
    house = House(quotas=quotas)
    if quotas.memories:
        house.remember("one", scope={"project": SPACE})
        house.remember("two", scope={"project": SPACE})
    text = "zanzibar " + "warm " * (1 if quotas.memories else 500)
    why = refused(house, way, text)
    assert "is the most" in why or "refused=1" in why
    assert not any("zanzibar" in text for text in house.texts("zanzibar"))
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
@pytest.mark.parametrize("way", WRITES)
def test_no_way_to_write_goes_past_the_writes_of_a_minute(way: str) -> None:
    house = House(quotas=Quotas(writes_per_minute=2))
    house.remember("one", scope={"project": SPACE})
    assert refused(house, way, "zanzibar first") == ""
    # Files are taken in whole, and say of each line what became of it.
    assert any(why in refused(house, way, "zanzibar second") for why in ("writes a minute", "refused=1"))
    with pytest.raises(QuotaExceeded):
        house.remember("through another")
    house.advance(60_000)
    assert refused(house, way, "zanzibar third") == ""
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
@pytest.mark.parametrize("way", ["file", "log"])
def test_files_and_logs_count_as_writes_too(way: str) -> None:
    house = House(quotas=Quotas(writes_per_minute=2, bytes=2_000))
    wop, owner = house.service.openwop, house.owner
    run = wop.begin_run(owner, "w")

    def act(text: str) -> object:
        if way == "file":
            return wop.write_file(owner, "notes.md", text)
        return wop.emit(owner, run.run_id, "agent.toolCalled", {"text": text})

    act("one")
    act("two")
    with pytest.raises(QuotaExceeded, match="writes a minute"):
        act("three")
    house.advance(60_000)
    act("four")
    if way == "file":
        with pytest.raises(QuotaExceeded, match="bytes is the most"):
            act("x" * 3_000)
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
def test_background_work_counts_as_writes_and_says_when_the_next_is_let_in() -> None:
    house = House(quotas=Quotas(writes_per_minute=3))
    wop, owner = house.service.openwop, house.owner
    wop.put_entry(owner, SPACE, Draft(content="The office is in Ghent."))
    house.advance(10_000)
    wop.put_entry(owner, SPACE, Draft(content="Lunch is at noon."))
    wop.distill(owner, SPACE)
    house.advance(20_000)
    for attempt in (lambda: wop.compact(owner, SPACE), lambda: house.remember("one more")):
        with pytest.raises(QuotaExceeded) as raised:
            attempt()
        assert raised.value.retry_after_seconds == 30
    house.advance(30_000)
    wop.compact(owner, SPACE)
    with pytest.raises(QuotaExceeded) as raised:
        house.remember("one more")
    assert raised.value.retry_after_seconds == 10
    house.service.close()
