"""Namespaces as access control: what a credential opens, and what it takes to ask across owners."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memoranda.errors import CrossNamespace, MemoryNotFound, NamespaceNotFound
from memoranda.service.core.access import TOKEN_VERBS, Access
from memoranda.standards.oams.mapping import VISIBILITY_KEY
from tests.service.oams_verbs import Memory, Oams, namespace
from tests.service.world import World

ADA, BOB, CYD = "did:example:ada", "did:example:bob", "did:example:cyd"
DAY = 86_400_000
VERBS = tuple(sorted(TOKEN_VERBS))


def token(world: World, scope: dict[str, str], *verbs: str, audience: str | None = None) -> Access:
    gate = world.service.gate
    text = gate.mint_token(verbs=verbs or VERBS, scope=scope, ttl_ms=DAY, audience=audience)
    return gate.authenticate(text)


def told(world: World, tenant: str, space: str = "") -> Oams:
    """The namespace of a tenant, with one memory of each visibility in it."""
    oams = Oams(world, namespace(tenant, space), access=world.key(tenant))
    for visibility in ("private", "shared", "public"):
        oams.store(visibility, f"tea {visibility} of {tenant} in {space}", metadata={VISIBILITY_KEY: visibility})
    return oams


def values(memories: list[Memory]) -> set[str]:
    return {memory["key"] for memory in memories}


EVERYTHING = {"private", "shared", "public"}


# --- one owner ---------------------------------------------------------------------------------------------


def test_a_token_of_the_owner_opens_all_of_its_namespaces(world: World) -> None:
    for space in ("", "p"):
        name = told(world, ADA, space).namespace
        held = Oams(world, name, access=token(world, {"owner": ADA}))
        assert values(held.listed()) == values(held.recall("tea")) == EVERYTHING
        assert len(held.exported()) == 3 * (1 + (space == "p"))
        held.store("mine", "written with a token")
        held.forget("mine")


@pytest.mark.requirement("OAMS-OURS-narrowed")
@pytest.mark.parametrize("other", ["", "q", "user-x123ab:p"])
def test_a_token_for_one_project_opens_that_namespace_alone(world: World, other: str) -> None:
    told(world, ADA, "p")
    elsewhere = told(world, ADA, other)
    narrow = token(world, {"owner": ADA, "project": "p"})
    inside = Oams(world, namespace(ADA, "p"), access=narrow)
    assert Oams(world, access=narrow).namespace == inside.namespace
    assert values(inside.listed()) == EVERYTHING
    inside.store("mine")
    outside = Oams(world, elsewhere.namespace, access=narrow)
    for act in (
        lambda: outside.store("mine"),
        lambda: outside.batch([outside.memory("mine")]),
        lambda: inside.batch([inside.memory("ok"), outside.memory("mine")]),
        lambda: outside.get("public"),
        lambda: outside.page(),
        lambda: outside.recall("tea"),
        lambda: inside.recall("tea", namespaces=[inside.namespace, namespace(ADA, "r")]),
        lambda: outside.forget("public"),
    ):
        with pytest.raises(CrossNamespace):
            act()
    assert world.service.oams.namespaces(narrow) == [inside.namespace]
    assert len(inside.exported()) == 4
    assert outside.take_in([(None, outside.complete("mine"))]).refusals[0].code == "forbidden_scope"
    assert "mine" not in values(elsewhere.listed())


@pytest.mark.requirement("OAMS-OURS-narrowed")
def test_a_token_for_one_visibility_sees_and_writes_that_alone(world: World) -> None:
    told(world, ADA)
    narrow = Oams(world, namespace(ADA), access=token(world, {"owner": ADA, "visibility": "public"}))
    assert values(narrow.listed()) == values(narrow.recall("tea")) == {"public"}
    assert narrow.get("public")["key"] == "public"
    assert len(narrow.exported()) == 1
    for act in (lambda: narrow.get("private"), lambda: narrow.forget("shared")):
        with pytest.raises(MemoryNotFound):
            act()
    public: dict[str, Any] = {"metadata": {VISIBILITY_KEY: "public"}}
    for key, fields in (("new", {}), ("private", public)):
        with pytest.raises(CrossNamespace):
            narrow.store(key, "planted", **fields)
    narrow.store("new", **public)
    narrow.store("public", "changed", **public)
    assert Oams(world, access=world.key(ADA)).get("private")["value"].startswith("tea private")


@pytest.mark.requirement("OAMS-OURS-narrowed")
def test_someone_else_with_a_token_sees_only_what_is_shared_and_writes_over_nothing_else(world: World) -> None:
    mine = told(world, ADA)
    mine.store("best", "tea tea tea and the very best match", metadata={VISIBILITY_KEY: "private"})
    peer = Oams(world, mine.namespace, access=token(world, {"owner": ADA}, audience=BOB))
    assert values(peer.listed()) == {"shared", "public"}
    assert peer.listed(limit=1) == peer.listed()
    found = peer.recall("very best match tea")
    assert values(found) == {"shared", "public"}
    # That something better was left out does not show.
    assert found[0]["metadata"]["score"] == 1
    assert len(peer.exported()) == 2
    with pytest.raises(MemoryNotFound):
        peer.get("private")
    with pytest.raises(MemoryNotFound):
        peer.forget("private")
    with pytest.raises(CrossNamespace):
        peer.store("private", "planted")
    assert peer.take_in([(None, peer.complete("private", "planted"))]).refused == 1
    assert mine.get("private")["value"].startswith("tea private")
    peer.store("shared", "changed by a peer", metadata={VISIBILITY_KEY: "shared"})


def test_what_a_record_says_is_to_be_cut_is_not_shown_through_this_standard_to_others(world: World) -> None:
    owner = world.key(ADA)
    draft = world.draft("tea recipe", access=owner, scope={"visibility": "shared"})
    draft["body"]["structured"] = {"secret": "saffron"}
    draft["consent"] = {"redact": ["body.structured.secret"]}
    world.service.remember(owner, draft)
    mine = Oams(world, access=owner)
    peer = Oams(world, mine.namespace, access=token(world, {"owner": ADA}, audience=BOB))
    assert [memory["value"] for memory in mine.listed()] == ["tea recipe"]
    assert peer.listed() == peer.recall("tea") == []
    # Whole it must not leave, and cut it is not that record any more (UMP §2.7).
    assert mine.exported() == peer.exported() == []


# --- across owners -----------------------------------------------------------------------------------------


@pytest.fixture
def both(world: World) -> list[str]:
    return [told(world, tenant).namespace for tenant in (ADA, BOB)]


@pytest.mark.requirement("OAMS-OURS-consents")
def test_spanning_owners_without_consent_is_refused(world: World, both: list[str]) -> None:
    ada, cyd = Oams(world, access=world.key(ADA)), Oams(world, access=world.key(CYD))
    of_ada, of_bob = token(world, {"owner": ADA}), token(world, {"owner": BOB})
    writer = token(world, {"owner": BOB}, "write")
    elsewhere = token(world, {"owner": BOB, "project": "p"})
    anyone = token(world, {})
    for caller, consents in (
        (ada, []),
        (cyd, []),
        (ada, [of_ada]),
        (ada, [of_bob]),
        (ada, [world.key(BOB), world.key(ADA)]),
        (cyd, [of_ada, writer]),
        (cyd, [of_ada, elsewhere]),
        (cyd, [anyone, anyone]),
    ):
        with pytest.raises(CrossNamespace, match="consent"):
            caller.recall("tea", namespaces=both, consents=consents)


@pytest.mark.requirement("OAMS-OURS-consents")
def test_spanning_owners_with_the_consent_of_both_is_answered_and_on_record_with_all(
    world: World, both: list[str]
) -> None:
    cyd = Oams(world, access=world.key(CYD))
    consents = [token(world, {"owner": BOB}, "read"), token(world, {"owner": ADA}, "read")]
    found = cyd.recall("tea", namespaces=both, consents=consents, k=50)
    assert {(memory["namespace"], memory["key"]) for memory in found} == {
        (name, key) for name in both for key in EVERYTHING
    }
    world.engine.flush()
    for tenant, expected in ((ADA, 1), (BOB, 1), (CYD, 2)):
        entries = [e for e in world.service.audit(world.service.gate.local(tenant), {}) if e["op"] == "oams.recall"]
        assert len(entries) == expected
        assert all(entry["actor"]["did"] == cyd.access.actor for entry in entries)
        assert {entry["meta"]["consent"] for entry in entries} <= {each.credential for each in consents}
        # As a word: a hash may have these letters.
        assert not re.search(r"\btea\b", repr(entries))
    # A refusal reads nothing, and tells nobody that there is anything.
    with pytest.raises(CrossNamespace):
        cyd.recall("tea", namespaces=both, consents=consents[:1])


def test_consents_to_peers_open_what_is_shared(world: World, both: list[str]) -> None:
    cyd = Oams(world, access=world.key(CYD))
    consents = [token(world, {"owner": tenant}, "read", audience=CYD) for tenant in (ADA, BOB)]
    found = cyd.recall("tea", namespaces=both, consents=consents, k=50)
    assert len(found) == 4
    assert values(found) == {"shared", "public"}


@pytest.mark.requirement("OAMS-OURS-consents")
def test_a_consent_opens_no_namespace_of_another_though_its_owner_claims_it(world: World, both: list[str]) -> None:
    ada = world.key(ADA)
    planted = Oams(world, both[1], access=ada)
    with pytest.raises(CrossNamespace):
        planted.store("private", "tea planted by ada in the name of bob")
    of_ada, of_bob = token(world, {"owner": ADA}), token(world, {"owner": BOB})
    cyd = Oams(world, access=world.key(CYD))
    for consents in ([of_ada, of_bob], [of_bob, of_ada]):
        found = cyd.recall("tea", namespaces=both, consents=consents, k=50)
        assert "planted" not in repr(found)
        assert len(found) == 6


def test_owners_that_one_tenant_claims_need_its_consent_too(world: World) -> None:
    names = ["user-x123ab:personal", "user-y456cd:personal"]
    claims = [Oams(world, name) for name in names]
    for each in claims:
        each.store("k", f"tea of {each.namespace}")
    with pytest.raises(CrossNamespace):
        claims[0].recall("tea", namespaces=names)
    consent = token(world, {"owner": world.owner.default_tenant}, "read")
    assert len(claims[0].recall("tea", namespaces=names, consents=[consent])) == 2
    with pytest.raises(CrossNamespace):
        claims[0].recall("tea", namespaces=[*names, "user-z789:nowhere"], consents=[consent])


def test_a_namespace_that_is_not_there_is_not_found_whoever_asks(world: World) -> None:
    told(world, ADA)
    for access in (world.key(ADA), world.key(BOB), token(world, {"owner": BOB})):
        oams = Oams(world, namespace(ADA, "never used"), access=access)
        for act, given in ((oams.listed, ()), (oams.get, ("k",)), (oams.recall, ("tea",)), (oams.forget, ("k",))):
            with pytest.raises(NamespaceNotFound):
                act(*given)
