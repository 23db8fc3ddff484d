"""One memory is one line of versions: what holds for the memory holds for its earlier versions, for every reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import pytest

from memoranda.encoding.shapes import parse_value
from memoranda.errors import ConsentViolation, ForbiddenScope, GrainError, InvalidInput, MemorandaError
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.memory import KINDS, Version
from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oams.mapping import EXPIRES_KEY
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.openwop.entry import Draft
from tests.matrix.doors import ALL_READS, DAY, EXPORTS, LOGS, REVISES, SPACE, WRITES, House, left, texts
from tests.service.world import PEER

SHARED: Final = {"project": SPACE, "visibility": "shared"}
# UMP §3.6: softly forgotten is kept for audit, so its owner may still see it by these, and nobody else.
RETAINING: Final = ("ump get", "ump history", "ump feed", "ump standards")
SOFT: Final[Mapping[str, Callable[[House, Mapping[str, str]], object]]] = {
    "ump": lambda house, names: house.forget(names["ump"]),
    "oams": lambda house, names: house.oams.forget(names["oams"]),
    "openwop": lambda house, names: house.service.openwop.delete_entry(house.owner, SPACE, names["openwop"]),
}
HARD: Final[Mapping[str, Callable[[House, Mapping[str, str]], object]]] = {
    "ump": lambda house, names: house.forget(names["ump"], hard=True, reason="asked"),
    "oms": lambda house, names: house.service.grains.erase(house.owner, names["oms"], reason="asked"),
}


class LineHouse(House):
    """A store with a memory of two versions, of which the first has its own names."""

    def readers(self) -> Mapping[str, Access]:
        return {
            "owner": self.owner,
            "peer": self.token("read", "export", audience=PEER.did),
            "stranger": self.key("did:web:other.example"),
        }

    def revise_by(self, by: str, prior: str, text: str) -> Version:
        """Write the next version through a standard, a second later."""
        self.advance(1000)
        REVISES[by](self, self.names(self.head(prior)), text)
        return self.head(text)


def told_of(house: House, read: str, names: Mapping[str, str], word: str, who: Access) -> str:
    """Everything that a way to read tells; nothing if it refuses."""
    try:
        return " ".join(texts({**ALL_READS, **LOGS}[read](house, who, names, word)))
    except MemorandaError:
        return ""


@pytest.fixture
def house() -> Iterator[LineHouse]:
    house = LineHouse()
    yield house
    house.service.close()


def shared(house: House, text: str, **fields: Any) -> Version:
    """Write a memory that peers may read."""
    scope = {"project": SPACE, "visibility": "shared", **fields.pop("scope", {})}
    house.remember(text, scope=scope, **fields)
    return house.head(text)


# --- forget ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("by", REVISES)
@pytest.mark.parametrize("forget", SOFT)
@pytest.mark.parametrize("way", ["ump remember", "oams store", "oms put", "openwop put"])
def test_a_forgotten_memory_is_told_by_no_version(house: LineHouse, way: str, forget: str, by: str) -> None:
    WRITES[way](house, "zanzibar early")
    early = house.names(house.head("zanzibar early"))
    late = house.names(house.revise_by(by, "zanzibar early", "zanzibar late"))
    late = {**late, "oams": early["oams"], "openwop": early["openwop"]}
    house.advance(1000)
    SOFT[forget](house, late)
    for names in (early, late):
        for who, access in house.readers().items():
            for read in ALL_READS:
                if who != "owner" or read not in RETAINING:
                    assert "zanzibar" not in told_of(house, read, names, "zanzibar", access), (who, read)
            if who != "stranger":
                assert not any("zanzibar" in left(house, export, access) for export in EXPORTS), who
    assert "zanzibar early" in told_of(house, "ump history", late, "", house.owner)


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("forget", SOFT)
def test_a_peer_reads_no_version_of_a_shared_memory_that_was_forgotten(house: LineHouse, forget: str) -> None:
    early = house.names(shared(house, "zanzibar early"))
    late = house.names(house.revise_by("ump", "zanzibar early", "zanzibar late"))
    peer = house.readers()["peer"]
    assert "zanzibar early" in told_of(house, "ump history", late, "", peer)
    house.advance(1000)
    SOFT[forget](house, {**late, "oams": early["oams"], "openwop": early["openwop"]})
    for names in (early, late):
        for read in (*ALL_READS, *LOGS):
            assert "zanzibar" not in told_of(house, read, names, "zanzibar", peer), read
    kinds = [event.type for event in house.service.changes(peer, {}, 0).events]
    assert kinds[-1] == "tombstoned"


# --- erase -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("by", REVISES)
@pytest.mark.parametrize("erase", HARD)
@pytest.mark.parametrize("way", ["ump remember", "oams store", "oms put", "openwop put"])
def test_an_erased_memory_is_told_by_no_version(house: LineHouse, way: str, erase: str, by: str) -> None:
    WRITES[way](house, "zanzibar early")
    early = house.names(house.head("zanzibar early"))
    late = house.names(house.revise_by(by, "zanzibar early", "zanzibar late"))
    late = {**late, "oams": early["oams"], "openwop": early["openwop"]}
    house.advance(1000)
    HARD[erase](house, late)
    for names in (early, late):
        for read in (*ALL_READS, *LOGS):
            assert "zanzibar" not in told_of(house, read, names, "zanzibar", house.owner), read
    assert not any("zanzibar" in left(house, export) for export in EXPORTS)


@pytest.mark.requirement("OURS-one-line")
def test_an_erasure_of_one_grain_leaves_the_earlier_one_to_the_history_alone(house: LineHouse) -> None:
    WRITES["oms put"](house, "zanzibar early")
    early = house.names(house.head("zanzibar early"))
    late = house.names(house.revise_by("oms", "zanzibar early", "zanzibar late"))
    house.service.grains.erase(house.owner, late["oms"], reason="asked", scope="grain")
    assert "zanzibar late" not in told_of(house, "ump history", early, "", house.owner)
    assert "zanzibar early" in told_of(house, "ump history", early, "", house.owner)
    assert "zanzibar" not in told_of(house, "oms get", early, "", house.owner)
    assert not any("zanzibar" in left(house, export) for export in EXPORTS)


@pytest.mark.requirement("OURS-one-line")
def test_forgetting_a_superseded_version_leaves_the_head(house: LineHouse) -> None:
    first = house.names(shared(house, "zanzibar first"))
    house.revise_by("ump", "zanzibar first", "zanzibar second")
    third = house.names(house.revise_by("ump", "zanzibar second", "zanzibar third"))
    house.forget(first["ump"])
    peer = house.readers()["peer"]
    history = told_of(house, "ump history", third, "", peer)
    assert ("first" in history, "second" in history, "third" in history) == (False, True, True)


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("held", ["first", "second"])
@pytest.mark.parametrize("is_hard", [True, False])
def test_a_hold_of_one_version_protects_the_whole_line(house: LineHouse, is_hard: bool, held: str) -> None:
    first = house.names(shared(house, "zanzibar first"))
    second = house.names(house.revise_by("ump", "zanzibar first", "zanzibar second"))
    house.service.grains.set_hold(house.owner, {"first": first, "second": second}[held]["oms"], held=True)
    for names in (first, second):
        with pytest.raises(GrainError, match="legal hold"):
            house.forget(names["ump"], hard=is_hard, reason="asked")
    history = told_of(house, "ump history", second, "", house.owner)
    assert ("first" in history, "second" in history) == (True, True)


# --- restrictions ----------------------------------------------------------------------------------------------------

# Ways to make a shared memory private: what a standard writes without a visibility of its own.
PRIVATE: Final[Mapping[str, Callable[[House, Mapping[str, str], str], object]]] = {
    "oams": REVISES["oams"],
    "oms": REVISES["oms"],
}


def assert_untold(house: House, names: Mapping[str, str], word: str, who: Access) -> None:
    """Assert that a caller gets no text with a word by any way to read or export."""
    for read in (*ALL_READS, *LOGS):
        assert word not in told_of(house, read, names, word, who), read
    assert not any(word in left_of(house, export, who) for export in EXPORTS)


def left_of(house: House, export: str, who: Access) -> str:
    """Everything that leaves by an export; nothing if it refuses."""
    try:
        return left(house, export, who)
    except MemorandaError:
        return ""


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("visibility", ["shared", "public"])
@pytest.mark.parametrize("by", PRIVATE)
def test_the_earlier_versions_of_a_memory_made_private_are_private(house: LineHouse, by: str, visibility: str) -> None:
    first = house.names(shared(house, "zanzibar first", scope={"visibility": visibility}))
    second = house.names(house.revise_by("ump", "zanzibar first", "zanzibar second"))
    peer, stranger = house.readers()["peer"], house.readers()["stranger"]
    assert "zanzibar first" in told_of(house, "ump get", first, "", peer)
    assert ("zanzibar first" in told_of(house, "ump get", first, "", stranger)) == (visibility == "public")
    house.advance(1000)
    PRIVATE[by](house, second, "zanzibar third")
    third = house.names(house.head("zanzibar third"))
    for names in (first, second, third):
        for who in (peer, stranger):
            assert_untold(house, names, "zanzibar", who)
    assert "zanzibar first" in told_of(house, "ump history", third, "", house.owner)


@pytest.mark.requirement("OURS-one-line")
def test_what_the_head_redacts_is_redacted_in_its_earlier_versions(house: LineHouse) -> None:
    first = house.remember("", body={"text": "zanzibar first", "structured": {"token": "tok-1"}}, scope=SHARED)
    house.advance(1000)
    second = house.revise(first, consent={"redact": ["body.structured.token"]})
    names = house.names(house.named("ump", first))
    peer = house.readers()["peer"]
    for read in (*ALL_READS, *LOGS):
        assert "tok-1" not in told_of(house, read, names, "zanzibar", peer), read
    assert not any("tok-1" in left(house, export) for export in ("ump export", "oams export", "oms export"))
    assert "zanzibar first" in told_of(house, "ump get", {"ump": second}, "", peer)


@pytest.mark.requirement("OURS-one-line")
def test_what_the_head_may_not_leave_does_not_leave_in_its_earlier_versions(house: LineHouse) -> None:
    first = house.remember("zanzibar first", scope=SHARED)
    house.advance(1000)
    house.revise(first, body={"text": "zanzibar second"}, consent={"exportable": False})
    for who in (house.owner, house.readers()["peer"]):
        assert not any("zanzibar" in left(house, export, who) for export in EXPORTS)


@pytest.mark.requirement("OURS-one-line")
def test_the_earlier_versions_of_a_memory_of_a_person_are_of_that_person() -> None:
    house = LineHouse(coverage="users", presets=["gdpr"])
    body = {"text": "zanzibar first", "structured": {"processing_basis": "contract"}}
    first = house.remember("", body=body, scope=SHARED)
    peer = house.readers()["peer"]
    names = house.names(house.named("ump", first))
    assert "zanzibar" in told_of(house, "ump get", names, "", peer)
    house.advance(1000)
    fields: dict[str, Any] = {"user_id": "did:web:alice.example", "processing_basis": "contract"}
    house.supersede(names["oms"], object="zanzibar second", namespace=SPACE, **fields)
    assert_untold(house, names, "zanzibar", peer)
    assert house.service.grains.erase_user(house.owner, "did:web:alice.example", reason="asked").erased == 2
    assert_untold(house, names, "zanzibar", house.owner)
    house.service.close()


@pytest.mark.requirement("UMP-OURS-consent-tightens")
def test_a_revision_adds_restrictions_and_lifts_none(house: LineHouse) -> None:
    name = house.remember("zanzibar", scope=SHARED)
    name = house.revise(name, consent={"exportable": False, "redact": ["relations"], "retention": "P30D"})
    name = house.revise(name, consent={"redact": ["body.structured"], "retention": "P10D"})
    consent = house.get(name)["consent"]
    assert (consent["exportable"], consent["redact"]) == (False, ["relations", "body.structured"])
    assert house.named("ump", name).state.expires == house.now + 10 * DAY
    for lifting in ({"exportable": True}, {"retention": "P11D"}, {"retention": "nothing"}):
        with pytest.raises(InvalidInput, match="consent"):
            house.revise(name, consent=lifting)
    public = house.remember("public", scope={"visibility": "public"})
    with pytest.raises(ConsentViolation):
        house.revise(public, consent={"exportable": False})


@pytest.mark.requirement("UMP-OURS-consent-tightens")
def test_an_end_by_a_revision_needs_the_right_to_erase(house: LineHouse) -> None:
    name = house.remember("zanzibar")
    writer = house.key(house.tenant, "read", "write")
    with pytest.raises(ForbiddenScope):
        house.revise(name, access=writer, consent={"retention": "P10D"})
    house.revise(name, access=writer, consent={"exportable": False})


# --- expiry ----------------------------------------------------------------------------------------------------------


def ending(house: House, by: str, names: Mapping[str, str], text: str) -> None:
    """Write the next version of a memory, the first that has an end: in one day."""
    ends = house.now + DAY
    if by == "ump":
        house.revise(names["ump"], body={"text": text}, consent={"retention": "P1D"})
    elif by == "oams":
        house.oams.store(names["oams"], text, metadata={EXPIRES_KEY: format_instant(Instant(ends))})
    else:
        draft = Draft(content=text, expires=Instant(ends))
        house.service.openwop.put_entry(house.owner, SPACE, draft, entry_id=names["openwop"])


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("by", ["ump", "oams", "openwop"])
@pytest.mark.parametrize("way", ["ump remember", "oams store", "oms put", "openwop put"])
def test_the_earlier_versions_of_an_expired_memory_are_told_nowhere(house: LineHouse, way: str, by: str) -> None:
    WRITES[way](house, "zanzibar first")
    first = house.names(house.head("zanzibar first"))
    house.advance(1000)
    ending(house, by, first, "zanzibar second")
    second = house.names(house.head("zanzibar second"))
    assert "zanzibar first" in told_of(house, "ump history", second, "", house.owner)
    house.advance(DAY)
    for who in house.readers().values():
        for names in (first, second):
            assert_untold(house, names, "zanzibar", who)
    house.service.purge()
    assert "zanzibar first" not in told_of(house, "ump history", second, "", house.owner)


@pytest.mark.requirement("OURS-one-line")
@pytest.mark.parametrize("is_purged", [False, True])
@pytest.mark.parametrize("held", ["first", "second"])
def test_an_expired_memory_on_hold_is_kept_and_told_nowhere(house: LineHouse, held: str, is_purged: bool) -> None:
    first = house.names(shared(house, "zanzibar first"))
    house.advance(1000)
    ending(house, "ump", first, "zanzibar second")
    second = house.names(house.head("zanzibar second"))
    address = {"first": first, "second": second}[held]["oms"]
    house.service.grains.set_hold(house.owner, address, held=True, reason="a lawsuit")
    house.advance(DAY)
    if is_purged:
        house.service.purge()
    for who in house.readers().values():
        for names in (first, second):
            assert_untold(house, names, "zanzibar", who)
    for by in ("ump", "oms", "cal"):
        with pytest.raises(MemorandaError):
            REVISES[by](house, second, "zanzibar third")
    for name in (first, second):
        assert b"zanzibar" in house.named("ump", name["ump"]).document.native
    house.service.grains.set_hold(house.owner, address, held=False, reason="settled")
    house.service.purge()
    for name in (first, second):
        assert house.named("ump", name["ump"]).state.erased


# --- revise ----------------------------------------------------------------------------------------------------------

# Ways to write the next version, those of openwop and of UMP's other verbs included.
NEXT: Final[Mapping[str, Callable[[House, Mapping[str, str], str], object]]] = {
    **REVISES,
    "openwop": lambda house, names, text: house.service.openwop.put_entry(
        house.owner, SPACE, Draft(content=text), entry_id=names["openwop"]
    ),
    "change": lambda house, names, text: house.service.change(house.owner, names["ump"], text),
}
TO_REPLACE: Final = ["ump remember", "oams store", "oms put", "openwop put", "cal add"]


def three_versions(house: LineHouse, way: str, by: str, then: str) -> list[Any]:
    """Write a memory, revise it twice, and return its history, oldest first."""
    WRITES[way](house, "zanzibar 0")
    for number, revise in enumerate((by, then)):
        head = house.head(f"zanzibar {number}")
        house.advance(1000)
        NEXT[revise](house, house.names(head), f"zanzibar {number + 1}")
    name = house.names(house.head("zanzibar 2"))["ump"]
    records = [entry["record"] for entry in house.service.history(house.owner, name)]
    assert len(records) == 3
    return records


@pytest.mark.requirement("UMP-OURS-supersedes-is-complete")
@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("by", NEXT)
@pytest.mark.parametrize("way", TO_REPLACE)
def test_every_version_names_the_one_before_it(house: LineHouse, way: str, by: str, then: str) -> None:
    records = three_versions(house, way, by, then)
    for before, after in pairwise(records):
        assert before["id"] in after["supersedes"]
        assert before["superseded_by"] == [after["id"]]
        assert house.get(after["id"])["supersedes"] == after["supersedes"]
    # What leaves with it comes back as the same memories under the same names.
    other = LineHouse()
    other.advance(5000)
    exported = list(house.service.export(house.owner))
    assert other.service.import_items(other.owner, number_items("ump", exported)).created == 3
    assert list(other.service.export(other.owner)) == exported
    assert documents(other) == documents(house)
    other.service.close()


@pytest.mark.requirement("UMP-OURS-supersedes-is-complete")
@pytest.mark.parametrize("way", ["oams store", "oms put", "openwop put"])
def test_a_version_from_a_clock_ahead_leaves_and_comes_back_as_itself(house: LineHouse, way: str) -> None:
    WRITES[way](house, "zanzibar first")
    entry = house.names(house.head("zanzibar first"))["oams"]
    ahead = format_instant(Instant(house.advance(1000) + DAY))
    stored = {"key": entry, "namespace": house.oams.namespace, "value": "zanzibar second", "updated_at": ahead}
    item = {**stored, "created_at": format_instant(house.now)}
    house.service.import_items(house.owner, number_items("oams", [item]))
    exported = list(house.service.export(house.owner))
    other = LineHouse()
    other.advance(1000)
    assert other.service.import_items(other.owner, number_items("ump", exported)).created == 2
    assert documents(other) == documents(house)
    other.service.close()


def documents(house: House) -> list[bytes]:
    with house.engine.open_snapshot(house.tenant) as snapshot:
        (head,) = snapshot.load_page(Selection(), limit=2, now=house.now)
        (version,) = snapshot.load_versions([head.version_id])
        return [each.document.native for each in snapshot.iterate_history(version.memory_id)]


@pytest.mark.requirement("UMP-OURS-supersedes-is-complete")
@pytest.mark.parametrize("then", NEXT)
@pytest.mark.parametrize("by", NEXT)
@pytest.mark.parametrize("way", TO_REPLACE)
def test_a_version_is_listed_at_the_time_from_which_it_says_to_be_true(
    house: LineHouse, way: str, by: str, then: str
) -> None:
    for record in three_versions(house, way, by, then):
        time = record["time"]
        begins = parse_instant(time["valid_from"])
        listed = {each["id"] for each in house.service.list_records(house.owner, valid_at=begins)[0]}
        is_ever_valid = time["valid_to"] is None or parse_instant(time["valid_to"]) > begins
        assert (record["id"] in listed) == is_ever_valid, time


@pytest.mark.requirement("OAMS-OURS-kind-outlives")
@pytest.mark.parametrize("kind", KINDS)
def test_an_oams_put_keeps_the_kind_of_a_memory(house: LineHouse, kind: str) -> None:
    house.remember("zanzibar first", kind=kind, scope={"project": SPACE})
    entry = house.names(house.head("zanzibar first"))["oams"]
    house.oams.store(entry, "zanzibar second")
    assert house.get(house.names(house.head("zanzibar second"))["ump"])["kind"] == kind
    house.oams.store(entry, "zanzibar third", metadata={"memoranda:kind": "episodic"})
    assert house.get(house.names(house.head("zanzibar third"))["ump"])["kind"] == "episodic"


@pytest.mark.requirement("OURS-one-line")
def test_a_revert_restores_the_content_and_not_the_sharing(house: LineHouse) -> None:
    WRITES["cal add"](house, "zanzibar first")
    first = house.names(house.head("zanzibar first"))
    house.advance(1000)
    tags = 'SUPERSEDE $old SET tags = $tags REASON "matrix"'
    shared_hash = house.cal(tags, old=f"sha256:{first['oms']}", tags=["visibility:shared"])["new_hash"]
    house.advance(1000)
    hidden_hash = house.cal(tags, old=shared_hash, tags=[])["new_hash"]
    peer = house.readers()["peer"]
    house.advance(1000)
    house.cal('REVERT $old REASON "matrix"', old=hidden_hash)
    names = house.names(house.head("zanzibar first"))
    for read in ALL_READS:
        assert "zanzibar" not in told_of(house, read, names, "zanzibar", peer), read


@pytest.mark.requirement("OURS-one-line")
def test_a_search_for_all_grains_finds_no_forgotten_one(house: LineHouse) -> None:
    names = house.names(shared(house, "zanzibar first"))
    house.forget(names["ump"])
    request = parse_value({"namespace": SPACE, "current": False}, FindRequest)
    readers = house.readers()
    for who in ("owner", "peer"):
        assert house.service.grains.find(readers[who], request).results == ()


@pytest.mark.requirement("OURS-one-line")
def test_a_tag_that_is_only_repeated_shares_nothing_again(house: LineHouse) -> None:
    house.put(
        subject="house",
        relation="says",
        object="zanzibar first",
        namespace=SPACE,
        structural_tags=["visibility:public"],
    )
    names = house.names(house.head("zanzibar first"))
    house.advance(1000)
    private = {**house.oams.get(names["oams"]), "metadata": {"memoranda:visibility": "private"}}
    house.oams.put({name: private[name] for name in ("key", "namespace", "value", "tags", "metadata")})
    house.advance(1000)
    late = house.names(house.head("zanzibar first"))
    house.cal('SUPERSEDE $old SET confidence = 0.5 REASON "matrix"', old=f"sha256:{late['oms']}")
    for who in ("peer", "stranger"):
        assert_untold(house, house.names(house.head("zanzibar first")), "zanzibar", house.readers()[who])
