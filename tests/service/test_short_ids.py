"""The beginning of an id is as good as the whole, for who may see the memory, and tells nobody else anything."""

from __future__ import annotations

import pytest

from memoranda.errors import GrainError, InvalidInput, NotFound
from memoranda.service.core.lookup import SHORT_CHARS
from tests.service.world import OPERATOR, PEER, World

OTHER = "did:example:other"


def test_a_beginning_names_a_memory_in_every_verb(world: World) -> None:
    name = world.remember("use pnpm")
    short = world.service.short_ids(world.owner, [name])[name]
    assert name.removeprefix("urn:ump:").startswith(short)
    assert len(short) == SHORT_CHARS
    for given in (short, f"urn:ump:{short}", short[:4]):
        assert world.get(given)["id"] == name
        assert len(world.service.history(world.owner, given)) == 1
        world.feedback(given, "followed")
    later = world.revise(short, body={"text": "use bun"})
    again = world.service.change(world.owner, later[:20], "use deno").id
    assert world.get(again[:16])["supersedes"] == [later]
    assert world.forget(again.removeprefix("urn:ump:")[:9]) == "tombstoned"
    assert world.forget(again.removeprefix("urn:ump:")[:9], hard=True) == "erased"


def test_a_beginning_names_a_grain_in_every_verb(world: World) -> None:
    address = world.put()
    grains = world.service.grains
    assert world.grain(address[:7]).address == address
    assert grains.exists(world.owner, address[:7])
    assert grains.set_verification(world.owner, address[:7], "verified") == "verified"
    assert grains.set_hold(world.owner, address[:7], held=True)
    assert not grains.set_hold(world.owner, address[:7], held=False)
    later = world.supersede(address[:7], object="coffee")
    grains.erase(world.owner, later[:8], reason="asked")
    with pytest.raises(NotFound):
        world.grain(later)
    # Section 5 of OMS: what is no address and begins none is refused as before.
    for wrong, code in (("abc", "ERR_HASH_LENGTH"), ("feedfeed", "ERR_HASH_LENGTH"), ("A" * 64, "ERR_HASH_FORMAT")):
        with pytest.raises(GrainError) as refused:
            world.grain(wrong)
        assert refused.value.oms_code == code


def test_what_several_begin_with_is_refused_with_their_number(world: World) -> None:
    for end in ("bb", "cc", "dd"):
        world.remember(f"memory {end}", id=f"urn:ump:aaaaaaaa{end}")
    with pytest.raises(InvalidInput, match="3 memories begin with aaaaaaaa; give more of the id"):
        world.get("aaaaaaaa")
    assert world.get("aaaaaaaac")["body"]["text"] == "memory cc"
    # Nothing is shown that could not be typed.
    shown = world.service.short_ids(world.owner, ["urn:ump:aaaaaaaabb"])["urn:ump:aaaaaaaabb"]
    assert world.get(shown)["body"]["text"] == "memory bb"


def test_an_id_that_is_whole_is_never_a_beginning(world: World) -> None:
    world.remember("short", id="urn:ump:aaaa")
    world.remember("long", id="urn:ump:aaaabbbb")
    assert world.get("urn:ump:aaaa")["body"]["text"] == "short"
    assert world.get("aaaa")["body"]["text"] == "short"
    assert world.get("aaaab")["body"]["text"] == "long"


def test_what_is_too_short_or_no_beginning_is_not_found_as_it_was_typed(world: World) -> None:
    world.remember("a memory", id="urn:ump:aaaabbbb")
    for wrong in ("aaa", "AAAABBBB", "aaaab~", "aaaa%", "zzzz", "", "urn:ump:"):
        with pytest.raises(NotFound, match=f"^no memory {wrong}$"):
            world.get(wrong)


def test_another_owners_ids_are_told_apart_from_nothing_by_nobody(world: World) -> None:
    stranger = world.key(OTHER)
    for number, visibility in enumerate(("private", "shared", "public")):
        world.remember("mine", id=f"urn:ump:aaaabbbb{'bcd'[number]}", scope={"visibility": visibility})
    for given in ("aaaabbbb", "aaaabbbbb", "aaaabbbbd", "zzzzzzzz"):
        with pytest.raises(NotFound, match=f"^no memory {given}$"):
            world.get(given, access=stranger)
    # What is public is found by its whole id, as before, and shown by it.
    assert world.get("urn:ump:aaaabbbbd", access=stranger)["body"]["text"] == "mine"
    assert world.service.short_ids(stranger, ["urn:ump:aaaabbbbd"]) == {"urn:ump:aaaabbbbd": "urn:ump:aaaabbbbd"}


@pytest.mark.parametrize("is_peer", [True, False])
def test_what_a_token_may_not_see_counts_for_nothing(world: World, *, is_peer: bool) -> None:
    seen = {"visibility": "shared"} if is_peer else {"project": "p"}
    token = world.token("read", audience=PEER.did) if is_peer else world.token("read", project="p")
    assert token.default_tenant == OPERATOR.did
    world.remember("hidden", id="urn:ump:aaaabbbb2")
    with pytest.raises(NotFound, match=r"^no memory aaaabbbb$"):
        world.get("aaaabbbb", access=token)
    world.remember("seen", id="urn:ump:aaaabbbb3", scope=seen)
    # Were the hidden one counted, this would be ambiguous, and tell of it.
    assert world.get("aaaabbbb", access=token)["body"]["text"] == "seen"
