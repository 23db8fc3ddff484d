"""Quotas bind what is written through every standard: it is one store."""

from __future__ import annotations

import pytest

from memoranda.errors import MemorandaError, QuotaExceeded
from memoranda.service.core.quotas import Quotas
from tests.matrix.doors import SPACE, WRITES, House

# Files are taken in whole, and say of each line what became of it.
DIRECT = [way for way in WRITES if "file" not in way]


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
@pytest.mark.parametrize("way", DIRECT)
def test_no_way_to_write_goes_past_the_writes_of_a_minute(way: str) -> None:
    house = House(quotas=Quotas(writes_per_minute=2))
    house.remember("one", scope={"project": SPACE})
    assert refused(house, way, "zanzibar first") == ""
    assert "writes a minute" in refused(house, way, "zanzibar second")
    with pytest.raises(QuotaExceeded):
        house.remember("through another")
    house.advance(60_000)
    assert refused(house, way, "zanzibar third") == ""
    house.service.close()
