"""What binds OAMS from outside: holds, policies, presets, retention, erasure, encryption and damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.errors import ConsentViolation, GrainError, InvalidInput, MemoryNotFound, NamespaceNotFound, StoreCorrupt
from memoranda.keys import MasterKeyFile
from memoranda.model.instant import format_instant
from memoranda.standards.oams.mapping import EXPIRES_KEY, VISIBILITY_KEY
from memoranda.standards.ump.requests import ForgetRequest
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.proofs.store import opened as opened_store
from tests.proofs.test_erasure import found_in_files
from tests.service.oams_verbs import Oams, opened
from tests.service.test_grains_damage import HURT, damage
from tests.service.world import World

MINUTE = 60_000
CLAIMED = "user-x123ab:personal"


@pytest.fixture
def oams(world: World) -> Oams:
    return Oams(world)


def address_of(world: World, text: str) -> str:
    """The address of the view of what says this now."""
    (found,) = [each for each in world.grains() if each.grain.fields.get("object") == text]
    return found.address


# --- holds and policies ------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-protected")
def test_a_held_memory_is_neither_changed_nor_forgotten_until_it_is_released(oams: Oams) -> None:
    world = oams.world
    oams.store("k", "tea")
    oams.store("other", "coffee")
    address = address_of(world, "tea")
    world.service.grains.set_hold(world.owner, address, held=True)
    for act in (
        lambda: oams.store("k", "changed"),
        lambda: oams.batch([oams.memory("other", "changed"), oams.memory("k", "changed")]),
        lambda: oams.forget("k"),
    ):
        with pytest.raises(GrainError, match="hold"):
            act()
    assert oams.store("k", "tea").result == "unchanged"
    report = oams.take_in([(None, oams.complete("k", "changed")), (None, oams.complete("other", "changed"))])
    assert (report.updated, report.refused) == (1, 1)
    assert {memory["value"] for memory in oams.listed()} == {"tea", "changed"}
    world.service.grains.set_hold(world.owner, address, held=False)
    oams.store("k", "milk")
    oams.forget("k")


def test_a_hold_on_what_a_memory_said_before_keeps_it_from_being_forgotten(oams: Oams) -> None:
    world = oams.world
    oams.store("k", "tea")
    world.advance(MINUTE)
    record = world.recall("tea")[0].record
    old = world.as_grain(record["id"]).address
    world.revise(record["id"], body={"text": "coffee"})
    world.service.grains.set_hold(world.owner, old, held=True)
    with pytest.raises(GrainError, match="hold"):
        oams.forget("k")
    assert oams.get("k")["value"] == "coffee"


@pytest.mark.requirement("OAMS-OURS-protected")
def test_the_policy_of_a_grain_binds_who_writes_over_its_key(oams: Oams) -> None:
    world = oams.world
    locked = world.put(object="tea", invalidation_policy={"mode": "locked", "authorized": ["did:key:z6Mk"]})
    free = world.put(object="coffee")
    assert set(oams.listed_keys()) == {locked, free}
    for act in (lambda: oams.store(locked, "changed"), lambda: oams.forget(locked)):
        with pytest.raises(GrainError):
            act()
    assert oams.store(free, "milk").result == "updated"
    oams.forget(free)
    assert [memory["value"] for memory in oams.listed()] == ["ada likes tea"]


def test_the_policy_of_a_grain_travels_in_a_bundle(oams: Oams) -> None:
    oams.world.put(object="tea", invalidation_policy={"mode": "locked", "authorized": ["did:key:z6Mk"]})
    (line,) = oams.exported()
    with opened() as there:
        elsewhere = Oams(there)
        (memory,) = [loaded for _, loaded in oams.verbs.export(oams.access)]
        elsewhere.take_in([(line, memory)])
        for act in (lambda: elsewhere.store(memory["key"], "changed"), lambda: elsewhere.forget(memory["key"])):
            with pytest.raises(GrainError):
                act()


def test_what_was_retracted_is_not_there_until_it_is_stored_again(oams: Oams) -> None:
    world = oams.world
    oams.store("k", "tea")
    address = address_of(world, "tea")
    world.service.grains.set_verification(world.owner, address, "retracted", reason="wrong")
    assert oams.listed() == oams.recall("tea") == []
    for act in (lambda: oams.get("k"), lambda: oams.forget("k")):
        with pytest.raises(MemoryNotFound):
            act()
    assert oams.store("k", "tea", if_absent=True).result == "updated"
    assert oams.listed_keys() == ["k"]
    # Taking the retraction back brings no second memory under the key.
    world.service.grains.set_verification(world.owner, address, "verified")
    assert oams.listed_keys() == ["k"]


# --- presets -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-protected")
@pytest.mark.parametrize(
    ("namespace", "fields"),
    [
        (None, {"tags": ["pii:email"]}),
        (None, {"tags": ["PII:email"]}),
        (None, {"metadata": {"pii": True}}),
        (CLAIMED, {}),
    ],
    ids=["a tag", "a tag in capitals", "metadata", "a claimed namespace"],
)
def test_gdpr_wants_a_basis_for_what_is_personal(namespace: str | None, fields: dict[str, Any]) -> None:
    with opened(presets=["gdpr"]) as world:
        oams = Oams(world, namespace)
        with pytest.raises(ConsentViolation, match="gdpr"):
            oams.store("k", **fields)
        with pytest.raises(NamespaceNotFound):
            oams.page()
        metadata = {**fields.get("metadata", {}), "processing_basis": "contract"}
        oams.store("k", **{**fields, "metadata": metadata})
        assert len(oams.exported()) == 1


@pytest.mark.requirement("OAMS-OURS-protected")
@pytest.mark.parametrize("is_record", [True, False])
def test_presets_look_at_what_came_inside_a_line(is_record: bool) -> None:
    opted_out: dict[str, Any] = {"con:ccpa_opted_out": True}
    with opened() as source, opened(presets=["gdpr"]) as strict, opened(presets=["ccpa"]) as other:
        if is_record:
            source.service.remember(
                source.owner,
                {**source.draft("tea", scope={"user": "u"}), "body": {"text": "tea", "structured": opted_out}},
            )
        else:
            source.put(object="tea", user_id="u", **opted_out)
        lines = [(raw, memory) for raw, memory in source.service.oams.export(source.owner)]
        assert Oams(strict).take_in(lines).refusals[0].code == "consent_violation"
        assert Oams(other).take_in(lines).created == 1
        assert Oams(other).exported() == []


def test_whoever_opted_out_does_not_leave() -> None:
    with opened(presets=["ccpa"]) as world:
        oams = Oams(world)
        oams.store("in")
        oams.store("out", metadata={"con:ccpa_opted_out": True})
        opted_out: dict[str, Any] = {"con:ccpa_opted_out": True}
        world.put(object="out", **opted_out)
        assert [memory["key"] for _, memory in oams.verbs.export(oams.access)] == ["in"]
        assert len(list(world.service.grains.export(world.owner))) == 1


def test_what_says_that_it_may_not_leave_does_not(oams: Oams) -> None:
    oams.world.remember("stays", consent={"exportable": False})
    oams.world.remember("goes")
    assert {memory["value"] for memory in oams.listed()} == {"stays", "goes"}
    assert [memory["value"] for _, memory in oams.verbs.export(oams.access)] == ["goes"]


# --- retention ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-erasure")
def test_a_memory_is_gone_on_time_with_and_without_upkeep(oams: Oams) -> None:
    world = oams.world
    with pytest.raises(InvalidInput, match=EXPIRES_KEY):
        oams.store("kept", "tea", metadata={EXPIRES_KEY: "no time at all"})
    oams.store("kept", "tea")
    oams.store("k", "tea", metadata={EXPIRES_KEY: format_instant(world.now + MINUTE)})
    world.advance(MINUTE - 1)
    assert set(oams.listed_keys()) == set(oams.keys("tea")) == {"kept", "k"}
    world.advance(1)
    for _ in range(2):
        assert oams.listed_keys() == oams.keys("tea") == ["kept"]
        assert world.texts("tea") == ["tea"]
        assert len(world.grains()) == len(oams.exported()) == 1
        for act in (lambda: oams.get("k"), lambda: oams.forget("k")):
            with pytest.raises(MemoryNotFound):
                act()
        world.service.purge()
    assert [type_ for type_, _ in world.events()] == ["created", "created", "tombstoned"]
    assert oams.store("k", "tea").result == "created"
    assert set(oams.listed_keys()) == {"kept", "k"}


def test_a_later_version_ends_no_later(oams: Oams) -> None:
    world = oams.world
    oams.store("k", "tea", metadata={EXPIRES_KEY: format_instant(world.now + MINUTE)})
    oams.store("k", "tea for longer")
    world.advance(2 * MINUTE)
    world.service.purge()
    with pytest.raises(MemoryNotFound):
        oams.get("k")


# --- erasure and encryption --------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-erasure")
def test_erasing_a_user_erases_what_the_user_claimed() -> None:
    with opened(coverage="users") as world:
        claimed, mine = Oams(world, CLAIMED), Oams(world)
        claimed.store("k", "absinthe")
        claimed.store("k", "absinthe and water")
        claimed.store("revised", "more absinthe")
        name = next(r.record["id"] for r in world.recall("more absinthe") if "more" in r.record["body"]["text"])
        world.revise(name, body={"text": "even more absinthe"})
        claimed.store("forgotten", "absinthe too")
        claimed.forget("forgotten")
        mine.store("k", "absinthe of mine")
        done = world.service.grains.erase_user(world.owner, "user-x123ab", reason="asked")
        assert (done.erased, done.held, done.key_destroyed) == (5, 0, True)
        assert claimed.listed() == claimed.recall("absinthe") == []
        assert world.texts("absinthe") == [memory["value"] for memory in mine.listed()] == ["absinthe of mine"]
        assert len(mine.exported()) == 1
        assert world.service.verify(world.owner).ok
        assert claimed.store("k", "absinthe again").result == "created"


@pytest.mark.parametrize("is_record", [True, False])
def test_erasing_a_user_erases_what_came_in_a_bundle_and_names_the_user(is_record: bool) -> None:
    source, world = World(), World(coverage="users")
    try:
        if is_record:
            source.remember("u drinks absinthe", scope={"user": "u"})
        else:
            source.put(object="absinthe", user_id="u")
        given = [(raw, memory) for raw, memory in source.service.oams.export(source.owner)]
        assert Oams(world).take_in(list(given)).created == 1
        done = world.service.grains.erase_user(world.owner, "u", reason="asked")
        assert (done.erased, done.key_destroyed) == (1, True)
        assert Oams(world).listed() == []
        assert world.texts("absinthe") == []
    finally:
        source.service.close()
        world.service.close()


SECRETS = ["quizzicality", "bamboozlement", "flabbergasted"]


def _tell(oams: Oams, word: str) -> None:
    fields: dict[str, Any] = {
        "tags": [f"tag{word}"],
        "metadata": {f"m{word}": word},
        "source_id": f"src{word}",
        f"x{word}": word,
    }
    oams.store(f"key{word}", f"value {word}", **fields)
    oams.store(f"key{word}", f"value {word} again", **fields)
    oams.recall(word)


@pytest.mark.requirement("OAMS-OURS-erasure")
def test_nothing_of_an_erased_memory_is_left_in_any_file(tmp_path: Path) -> None:
    with opened_store(tmp_path) as store:
        access = store.access("did:example:ada")
        world: Any = type("W", (), {"service": store.service, "owner": access})
        for word in SECRETS:
            _tell(Oams(world), word)
        claimed = Oams(world, CLAIMED)
        _tell(claimed, "hullabaloo")
        list(claimed.exported())
        assert found_in_files(tmp_path, [*SECRETS, "hullabaloo"]) == {*SECRETS, "hullabaloo"}
        found = store.service.list_records(access, limit=50)[0]
        name = next(record["id"] for record in found if SECRETS[0] in record["body"]["text"])
        store.service.forget(access, ForgetRequest(id=name, reason="asked", hard=True))
        assert found_in_files(tmp_path, SECRETS) == set(SECRETS[1:])
        store.service.grains.erase_user(access, "user-x123ab", reason="asked")
        assert found_in_files(tmp_path, [*SECRETS, "hullabaloo"]) == set(SECRETS[1:])
        assert len(Oams(world).listed()) == 2


@pytest.mark.requirement("OAMS-OURS-erasure")
@pytest.mark.sqlite
def test_what_is_encrypted_is_nowhere_in_the_clear(tmp_path: Path) -> None:
    cipher = RingCipher(SqliteKeyRing(tmp_path / "ring"), MasterKeyFile(tmp_path / "master"), "users")
    with opened(path=tmp_path / "store.db", cipher=cipher) as world:
        _tell(Oams(world, CLAIMED), "quizzicality")
        _tell(Oams(world), "bamboozlement")
        assert Oams(world, CLAIMED).get("keyquizzicality")["value"] == "value quizzicality again"
        world.engine.flush()
        # What names no user is not covered by this setting: the control of the search.
        assert found_in_files(tmp_path, ["quizzicality", "bamboozlement"]) == {"bamboozlement"}
        cipher.close()


# --- damage ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", "encrypted"])
def breakable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cipher = RingCipher(SqliteKeyRing(tmp_path / "ring"), MasterKeyFile(tmp_path / "master"), "all")
    world = World(path=tmp_path / "store.db", cipher=cipher if request.param == "encrypted" else None)
    yield world
    world.service.close()
    cipher.close()


@pytest.mark.requirement("OAMS-OURS-damage")
@pytest.mark.parametrize("how", HURT)
@pytest.mark.parametrize("is_old", [True, False])
def test_a_damaged_memory_keeps_nobody_from_the_others(breakable: World, how: str, is_old: bool) -> None:
    world, oams = breakable, Oams(breakable)
    oams.store("whole", "tea whole")
    oams.store("k", "tea broken", metadata={VISIBILITY_KEY: "public"})
    names = {record.record["body"]["text"]: record.record["id"] for record in world.recall("tea")}
    if is_old:
        # The root of a memory that another standard revised.
        world.revise(names["tea broken"], body={"text": "tea mended"})
    damage(world, "ump", names["tea broken"], HURT[how])
    expected = ["tea mended", "tea whole"] if is_old else ["tea whole"]
    assert sorted(memory["value"] for memory in oams.listed()) == expected
    assert sorted(memory["value"] for memory in oams.recall("tea")) == expected
    assert sorted(memory["value"] for _, memory in oams.verbs.export(oams.access)) == expected
    assert sorted(world.texts("tea")) == expected
    assert sorted(each.grain.fields["object"] for each in world.grains()) == expected
    if not is_old:
        with pytest.raises(StoreCorrupt):
            oams.get("k")
    report = world.service.verify(world.owner)
    assert (report.ok, len(report.unverified)) == (False, 1)
