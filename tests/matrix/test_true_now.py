"""What is not true yet, or not any more, is stated as true by no standard; whoever asks for then is told of then."""

from __future__ import annotations

import pytest

from memoranda.errors import QueryError
from memoranda.model.instant import format_instant
from memoranda.standards.oms.requests import FindRequest
from tests.matrix.doors import DAY, SPACE, WRITES, House, told
from tests.service.oams_verbs import Oams

# Ways to read that put something before a model; the others show what there is, with its times.
STATING = ("ump recall", "ump list", "oams recall", "cal recall", "cal like", "cal assemble", "openwop list")


def believe(house: House, way: str, text: str, begins: int, ends: int | None) -> None:
    if way == "oms":
        house.put(object=text, namespace=SPACE, valid_from=begins, valid_to=None if ends is None else ends - 1)
    else:
        time = {"valid_from": format_instant(begins), "valid_to": None if ends is None else format_instant(ends)}
        house.remember(text, scope={"project": SPACE}, time=time)


@pytest.mark.requirement("CAL-OURS-true-now")
@pytest.mark.parametrize("way", ["oms", "ump"])
def test_only_what_is_true_now_is_stated(house: House, way: str) -> None:
    start = house.now
    house.advance(10 * DAY)
    believe(house, way, "zanzibar in spring", start, start + 5 * DAY)
    believe(house, way, "zanzibar in summer", start, start + 20 * DAY)
    believe(house, way, "zanzibar in winter", start + 15 * DAY, None)
    names = house.names(house.head("zanzibar in summer"))
    moments = ((0, {"summer"}), (5 * DAY - 1, {"summer"}), (5 * DAY, {"summer", "winter"}), (10 * DAY, {"winter"}))
    begun = house.now
    for after, true in moments:
        house.now = type(begun)(begun + after)
        for read in STATING:
            found = told(house, read, names, "zanzibar")
            assert {each for each in ("spring", "summer", "winter") if f"in {each}" in found} == true, (read, after)


@pytest.mark.requirement("CAL-OURS-true-now")
@pytest.mark.parametrize("way", ["oms", "ump"])
def test_openwop_shows_by_its_id_only_what_is_true_now(house: House, way: str) -> None:
    """An entry has no words for when it is true."""
    start = house.now
    house.advance(10 * DAY)
    believe(house, way, "zanzibar in spring", start, start + 5 * DAY)
    believe(house, way, "zanzibar in winter", start + 15 * DAY, start + 20 * DAY)
    spring, winter = (house.names(house.head(f"in {season}"))["openwop"] for season in ("spring", "winter"))
    run = house.service.openwop.begin_run(house.owner, "tests.matrix").run_id

    def shown(name: str, **options: str) -> bool:
        return house.service.openwop.get_entry(house.owner, SPACE, name, **options) is not None

    moments = ((0, False), (5 * DAY - 1, False), (5 * DAY, True), (10 * DAY, False))
    begun = house.now
    for after, is_true in moments:
        house.now = type(begun)(begun + after)
        assert not shown(spring)
        assert (shown(winter), shown(winter, run_id=run)) == (is_true, is_true), after
    # What is not shown can still be forgotten.
    assert house.service.openwop.delete_entry(house.owner, SPACE, spring)


@pytest.mark.parametrize("way", ["oms", "ump"])
def test_a_list_of_what_is_stored_says_when_it_is_true(house: House, way: str) -> None:
    start = house.now
    house.advance(10 * DAY)
    believe(house, way, "zanzibar in spring", start, start + 5 * DAY)
    believe(house, way, "zanzibar in winter", start + 15 * DAY, None)
    memories = Oams(house, house.oams.namespace, house.owner).page(limit=9).memories
    times = {each["value"][-6:]: each["metadata"] for each in memories}
    assert times["spring"]["memoranda:valid_to"] == format_instant(start + 5 * DAY)
    assert times["winter"]["memoranda:valid_from"] == format_instant(start + 15 * DAY)
    found = house.service.grains.find(house.owner, FindRequest.parse({"namespace": SPACE})).results
    grains = {each.stored.grain.fields["object"][-6:]: each.stored.grain.fields for each in found}
    assert grains["spring"]["valid_to"] == start + 5 * DAY - 1
    assert grains["winter"]["valid_from"] == start + 15 * DAY
    # A search states what it finds, and so does not find it.
    asked = FindRequest.parse({"namespace": SPACE, "text": "zanzibar"})
    assert house.service.grains.find(house.owner, asked).results == ()


@pytest.mark.requirement("CAL-OURS-true-now")
@pytest.mark.parametrize("way", WRITES)
def test_what_was_retracted_is_stated_by_no_standard(house: House, way: str) -> None:
    WRITES[way](house, "zanzibar")
    names = house.names(house.head("zanzibar"))
    assert all("zanzibar" in told(house, read, names, "zanzibar") for read in STATING)
    house.service.grains.set_verification(house.owner, names["oms"], "retracted", reason="matrix")
    assert [read for read in STATING if "zanzibar" in told(house, read, names, "zanzibar")] == []
    house.service.grains.set_verification(house.owner, names["oms"], "verified", reason="matrix")
    assert all("zanzibar" in told(house, read, names, "zanzibar") for read in STATING)


@pytest.mark.requirement("CAL-OURS-true-now")
@pytest.mark.parametrize("way", ["oms", "ump"])
def test_cal_can_ask_for_another_time(house: House, way: str) -> None:
    start = house.now
    believe(house, way, "zanzibar in spring", start, start + 5 * DAY)
    house.advance(10 * DAY)
    known = house.now
    house.advance(DAY)
    believe(house, way, "zanzibar in autumn", start, start + 5 * DAY)

    def said(options: str) -> set[str]:
        found = repr(house.cal(f"RECALL beliefs WITH {options}"))
        return {each for each in ("spring", "autumn") if f"in {each}" in found}

    then = format_instant(start + DAY)
    assert said("superseded") == {"spring", "autumn"}
    assert said(f'x_valid_at("{then}")') == {"spring", "autumn"}
    assert said(f'x_valid_at("{then}"), x_known_at("{format_instant(known)}")') == {"spring"}
    assert said(f'x_known_at("{format_instant(known)}")') == set()
    assert house.cal(f'RECALL beliefs WITH x_valid_at("{then}")').get("warnings", []) == []
    # A day means its end: what was learned that day was known then.
    assert said(f'x_valid_at("{then}"), x_known_at("{format_instant(known)[:10]}")') == {"spring"}
    assert said(f'x_valid_at("{then}"), x_known_at("{format_instant(house.now)[:10]}")') == {"spring", "autumn"}
    for wrong in ("x_valid_at", 'x_valid_at("whenever")', 'x_known_at("now", "then")'):
        with pytest.raises(QueryError, match="time"):
            said(wrong)
