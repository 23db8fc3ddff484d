"""Written in any way, forgotten in any other: what no way to read tells any more, and what crosses no wall."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.matrix.doors import EXPORTS, READS, SPACE, WRITES, House, left, told

FORGETS: Final[Mapping[str, Callable[[House, Mapping[str, str]], object]]] = {
    "ump soft": lambda house, names: house.forget(names["ump"]),
    "ump hard": lambda house, names: house.forget(names["ump"], hard=True, reason="asked"),
    "oams": lambda house, names: house.oams.forget(names["oams"]),
    "openwop": lambda house, names: house.service.openwop.delete_entry(house.owner, SPACE, names["openwop"]),
    "oms erase": lambda house, names: house.service.grains.erase(house.owner, names["oms"], reason="asked"),
}
HARD: Final = ("ump hard", "oms erase")
# UMP §3.6: softly forgotten is retained for audit, and marked so.
RETAINING: Final = ("ump get", "ump history", "ump feed")


@pytest.mark.parametrize("way", WRITES)
def test_written_here_forgotten_there_told_nowhere(way: str) -> None:
    house = House()
    for number, (by, forget) in enumerate(FORGETS.items()):
        text = f"zanzibar {number} forgotten"
        WRITES[way](house, text)
        names = house.names(house.head(text))
        forget(house, names)
        for read in READS:
            if by in HARD or read not in RETAINING:
                assert text not in told(house, read, names, f"zanzibar {number}"), (by, read)
        assert house.get(names["ump"])["lifecycle"]["status"] == "tombstoned"
        assert not any(text in left(house, export) for export in EXPORTS)
    house.service.close()


@pytest.mark.parametrize("way", WRITES)
def test_nothing_private_is_told_to_another_owner(way: str) -> None:
    house = House()
    WRITES[way](house, "zanzibar behind a wall")
    names = house.names(house.head("zanzibar behind a wall"))
    other = house.key("did:web:other.example")
    for read in READS:
        assert "behind a wall" not in told(house, read, names, "zanzibar", other), read
    assert not any("behind a wall" in left(house, export, other) for export in EXPORTS)
    house.service.close()
