"""What binds a memory binds every later version, whichever standard writes it (the first part of the matrix)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES
from tests.matrix.doors import DAY, EXPORTS, READS, REVISES, SPACE, WRITES, House, expiring, left, told

# CAL refuses to replace what has a consent, which is as good: nothing is lost by it.
STRIPPING = [name for name in REVISES if name != "cal"]


@pytest.fixture
def house() -> Iterator[House]:
    house = House(coverage="users")
    yield house
    house.service.close()


def bound(house: House) -> str:
    """A record with a user and all that a consent can say."""
    return house.remember(
        "the first zanzibar",
        scope={"project": SPACE, "user": "alice", "agent": "helper", "session": "s1", "visibility": "shared"},
        consent={"exportable": False, "retention": "P30D", "redact": ["body.structured.token"]},
    )


@pytest.mark.requirement("OURS-rules-bind-later-versions")
@pytest.mark.parametrize("second", STRIPPING)
@pytest.mark.parametrize("first", STRIPPING)
def test_a_revision_through_any_standard_keeps_what_binds_the_memory(house: House, first: str, second: str) -> None:
    name = bound(house)
    ends = house.named("ump", name).state.expires
    for number, by in enumerate((first, second)):
        house.advance(DAY)
        text = f"zanzibar again {number}"
        prior = "the first zanzibar" if number == 0 else "zanzibar again 0"
        REVISES[by](house, house.names(house.head(prior)), text)
        head = house.head(text)
        record = house.get(house.names(head)["ump"])
        assert record["scope"]["user"] == "alice"
        assert (record["scope"]["agent"], record["scope"]["session"]) == ("helper", "s1")
        assert VISIBILITIES.index(record["scope"]["visibility"]) <= VISIBILITIES.index("shared")
        assert record["consent"]["exportable"] is False
        assert "body.structured.token" in record["consent"]["redact"]
        assert head.state.expires == ends
        assert not any("zanzibar" in left(house, export) for export in EXPORTS)
    house.advance(28 * DAY)
    names = house.names(head)
    assert not any("zanzibar" in told(house, read, names, "zanzibar") for read in READS)


@pytest.mark.requirement("OURS-rules-bind-later-versions")
@pytest.mark.parametrize("by", STRIPPING)
def test_erasing_a_user_reaches_every_later_version(house: House, by: str) -> None:
    names = house.names(house.named("ump", bound(house)))
    REVISES[by](house, names, "zanzibar revised")
    names = house.names(house.head("zanzibar revised"))
    done = house.service.grains.erase_user(house.owner, "alice", reason="asked to")
    assert (done.erased, done.key_destroyed) == (2, True)
    assert not any("zanzibar" in told(house, read, names, "zanzibar") for read in READS)


@pytest.mark.requirement("OURS-rules-bind-later-versions")
def test_erasing_a_user_reaches_a_version_that_names_another(house: House) -> None:
    names = house.names(house.named("ump", bound(house)))
    house.supersede(names["oms"], object="zanzibar for bob", namespace=SPACE, user_id="bob")
    assert house.service.grains.erase_user(house.owner, "alice", reason="asked to").erased == 2
    assert house.texts("zanzibar") == []


@pytest.mark.requirement("WOP-RFC4-expiry-never-extended")
@pytest.mark.parametrize("by", STRIPPING)
@pytest.mark.parametrize("way", ["ump", "oams", "openwop"])
def test_an_end_is_neither_lost_nor_put_off(house: House, way: str, by: str) -> None:
    ends = Instant(house.now + 2 * DAY)
    expiring(house, way, "zanzibar ends", ends)
    house.advance(DAY)
    REVISES[by](house, house.names(house.head("zanzibar ends")), "zanzibar revised")
    head = house.head("zanzibar revised")
    assert head.state.expires == ends
    names = house.names(head)
    house.advance(DAY)
    assert not any("zanzibar" in told(house, read, names, "zanzibar") for read in READS)


@pytest.mark.requirement("WOP-3-distillation-immutable")
@pytest.mark.parametrize("by", REVISES)
def test_an_archive_cannot_be_rewritten(house: House, by: str) -> None:
    WRITES["openwop put"](house, "the zanzibar meeting is on friday")
    made = house.service.openwop.distill(house.owner, SPACE, token_budget=8000)
    version = house.named("openwop", made.entry["id"])
    with pytest.raises(MemorandaError, match=r"archive|belief"):
        REVISES[by](house, house.names(version), "rewritten")
    assert house.service.openwop.get_entry(house.owner, SPACE, made.entry["id"]) == made.entry


@pytest.mark.requirement("OAMS-OURS-metadata-outlives")
def test_metadata_of_oams_outlives_a_revision_through_ump(house: House) -> None:
    house.oams.store("k", "grüner Tee", metadata={"pii": True, "language": "de", "mine": {"a": [1]}})
    house.revise(house.names(house.head("Tee"))["ump"], body={"text": "schwarzer Tee"})
    metadata = house.oams.get("k")["metadata"]
    assert (metadata["pii"], metadata["language"], metadata["mine"]) == (True, "de", {"a": [1]})


@pytest.mark.parametrize("way", WRITES)
def test_written_here_revised_there_seen_everywhere(way: str) -> None:
    house = House()
    for number, by in enumerate(REVISES):
        text = f"zanzibar {number} by {by}"
        WRITES[way](house, text)
        names = house.names(house.head(text))
        house.advance(1000)
        REVISES[by](house, names, f"madagascar {number} by {by}")
        head = house.head(f"madagascar {number} by {by}")
        later = {**house.names(head), "oams": names["oams"], "openwop": names["openwop"]}
        for read in READS:
            found = told(house, read, later, f"madagascar {number}")
            assert f"madagascar {number} by {by}" in found, (read, by)
            if read not in ("ump history", "ump feed"):
                assert text not in found, (read, by)
    house.service.close()
