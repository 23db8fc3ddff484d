"""One damaged document does not take the others down: lists and recall pass over it, get says so, verify reports it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from memoranda.errors import MemorandaError, SignatureInvalid, StoreCorrupt
from memoranda.keys import MasterKeyFile
from memoranda.standards.oms import signature
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.engine.database import Connection
from memoranda.storage.sqlite.keys import SqliteKeyRing
from tests.service.world import PEER, World, grain

# What a damage makes of a document.
HURT: Final[dict[str, Callable[[bytes], bytes]]] = {
    "cut": lambda native: native[: len(native) // 2],
    "emptied": lambda _: b"",
    "zeroed": lambda native: bytes(len(native)),
    # Another byte for certain: of what is encrypted any byte may be this one already.
    "flipped": lambda native: native[:40] + (b"\xfe" if native[40] == 0xFF else b"\xff") + native[41:],
    "other JSON": lambda _: b"[1, 2]",
    "no record": lambda _: b'{"body": 3}',
}


@pytest.fixture(params=["plain", "encrypted"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cipher = RingCipher(SqliteKeyRing(tmp_path / "ring"), MasterKeyFile(tmp_path / "master"), "all")
    world = World(path=tmp_path / "store.db", cipher=cipher if request.param == "encrypted" else None)
    yield world
    world.service.close()
    cipher.close()


def damage(world: World, standard: str, name: str, how: Callable[[bytes], bytes]) -> None:
    """Put other bytes where a document is, past everything that would notice."""
    version_id = world.named(standard, name).version_id

    def work(connection: Connection) -> None:
        ((native,),) = connection.select("SELECT native FROM version WHERE version_id = :id", {"id": version_id})
        changed = {"id": version_id, "native": how(bytes(native))}
        connection.select("UPDATE version SET native = :native WHERE version_id = :id RETURNING version_id", changed)

    world.engine._database.write(work)


@pytest.mark.requirement("OMS-17.3-damage")
@pytest.mark.parametrize("how", HURT)
@pytest.mark.parametrize("is_grain", [True, False])
def test_what_is_damaged_is_passed_over_named_and_reported(world: World, how: str, is_grain: bool) -> None:
    whole = [world.put(object="coffee"), world.put(object="milk")]
    kept = world.remember("ada likes water")
    if is_grain:
        address = world.put(object="broken tea", structural_tags=["visibility:public"])
        name = world.as_record(address)["id"]
        damage(world, "oms", address, HURT[how])
    else:
        name = world.remember("ada likes broken tea", scope={"visibility": "public"})
        address = world.as_grain(name).address
        damage(world, "ump", name, HURT[how])
    assert {each.address for each in world.grains()} == {*whole, world.as_grain(kept).address}
    assert sorted(world.texts("ada likes broken tea")) == ["ada likes coffee", "ada likes milk", "ada likes water"]
    assert len(world.service.list_records(world.owner, limit=9)[0]) == 3
    assert len(world.events()) == 3
    assert len(list(world.service.grains.export(world.owner))) == 3
    assert len(list(world.service.export(world.owner))) == 3
    for ask in (lambda: world.grain(address), lambda: world.get(name)):
        with pytest.raises((StoreCorrupt, SignatureInvalid)):
            ask()
    with pytest.raises(MemorandaError):
        world.get(name, access=world.key("did:example:other"))
    report = world.service.verify(world.owner)
    assert (report.ok, len(report.unverified)) == (False, 1)
    assert report.audit.ok


@pytest.mark.parametrize("how", HURT)
def test_what_is_damaged_after_it_was_read_is_passed_over_too(world: World, how: str) -> None:
    """What is kept of a document holds only for the bytes that it was made of."""
    kept, broken = world.put(object="coffee"), world.put(object="tea")
    for _ in range(2):
        assert {each.address for each in world.grains()} == {kept, broken}
    damage(world, "oms", broken, HURT[how])
    assert [each.address for each in world.grains()] == [kept]
    assert world.texts("ada likes tea") == ["ada likes coffee"]


@pytest.mark.requirement("OMS-17.3-damage")
def test_a_user_with_a_damaged_document_can_be_erased(world: World) -> None:
    hurt, whole = world.put(object="tea", user_id="u"), world.put(object="coffee", user_id="u")
    damage(world, "oms", hurt, HURT["flipped"])
    done = world.service.grains.erase_user(world.owner, "u", reason="asked")
    assert (done.erased, done.held) == (2, 0)
    for address in (hurt, whole):
        assert not world.service.grains.exists(world.owner, address)
    assert world.service.verify(world.owner).ok


@pytest.mark.requirement("OMS-17.3-damage")
def test_a_damaged_document_under_a_hold_is_not_erased(world: World) -> None:
    hurt = world.put(object="tea", user_id="u")
    world.service.grains.set_hold(world.owner, hurt, held=True)
    damage(world, "oms", hurt, HURT["flipped"])
    done = world.service.grains.erase_user(world.owner, "u", reason="asked")
    assert (done.erased, done.held, done.key_destroyed) == (0, 1, False)


@pytest.mark.requirement("OMS-17.3-damage")
def test_a_damaged_signature_is_noticed_though_the_grain_inside_is_whole(world: World) -> None:
    envelope = signature.sign(grain(world.now), PEER, issued_at=1_780_000_000)
    address = world.service.grains.put(world.owner, envelope).address
    damage(world, "oms", address, lambda native: native[:-1] + b"\x00")
    with pytest.raises((StoreCorrupt, SignatureInvalid)):
        world.grain(address)
    assert world.grains() == []
    assert not world.service.verify(world.owner).ok


@pytest.mark.requirement("OMS-20.3-crypto-erasure")
def test_what_a_destroyed_key_locked_is_gone_and_nothing_else_is() -> None:
    world = World(coverage="users")
    try:
        address = world.put(object="tea", user_id="u")
        name = world.as_record(address)["id"]
        world.put(object="coffee", user_id="v")
        # Only the key goes, as when a copy of the database is opened after the erasure.
        assert world.engine.destroy_user_key(world.owner.default_tenant, "u")
        assert [each.grain.fields["object"] for each in world.grains()] == ["coffee"]
        assert world.texts("what is there?") == ["ada likes coffee"]
        assert not world.service.grains.exists(world.owner, address)
        assert world.get(name)["lifecycle"]["status"] == "tombstoned"
        assert world.service.verify(world.owner).ok
        assert len(list(world.service.export(world.owner))) == 1
        assert len(list(world.service.grains.export(world.owner))) == 1
        done = world.service.grains.erase_user(world.owner, "u", reason="to be sure")
        assert (done.erased, done.key_destroyed) == (1, False)
        assert world.texts("tea") == []
    finally:
        world.service.close()
