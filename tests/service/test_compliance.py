"""Compliance presets decide what is written, what others read and what leaves, whichever standard asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.errors import ConsentViolation
from memoranda.service.exchange.importing import number_items
from memoranda.service.service import Service
from memoranda.standards.oms.grains import address_of
from memoranda.storage.crypto.cipher import Coverage
from tests.service.oams_verbs import Oams
from tests.service.world import PEER, World

PHI: dict[str, Any] = {"structural_tags": ["phi:mrn"], "processing_basis": "contract"}
OPTED_OUT: dict[str, Any] = {"con:ccpa_opted_out": True}
CLEARED: dict[str, Any] = {"hc:deidentification": "safe_harbor"}
Make = Callable[..., World]


@pytest.fixture
def make() -> Iterator[Make]:
    worlds: list[World] = []

    def made(*presets: str, coverage: Coverage | None = None) -> World:
        worlds.append(World(presets=presets, coverage=coverage))
        return worlds[-1]

    yield made
    for world in worlds:
        world.service.close()


def exported(world: World) -> set[str]:
    """What leaves, as grains and as records: both must agree."""
    grains = {world.grain(address).grain.fields["object"] for address in _addresses(world)}
    records = {record["body"]["text"].split()[-1] for record in world.service.export(world.owner)}
    assert grains == records
    return grains


def _addresses(world: World) -> list[str]:
    return [address_of(delivery) for delivery, _ in world.service.grains.export(world.owner)]


@pytest.mark.requirement("OMS-17.3-presets")
def test_without_a_preset_nothing_is_decided(make: Make) -> None:
    world = make()
    world.put(object="plain", user_id="u")
    world.put(object="health", structural_tags=["phi:mrn"])
    world.put(object="opted", **OPTED_OUT)
    assert exported(world) == {"plain", "health", "opted"}


@pytest.mark.requirement("OMS-17.3-presets")
@pytest.mark.parametrize(
    "fields", [{"user_id": "u"}, {"structural_tags": ["pii:email"]}, {"structural_tags": ["phi:x"]}]
)
def test_gdpr_wants_a_basis_for_what_is_personal(make: Make, fields: dict[str, Any]) -> None:
    world = make("gdpr")
    with pytest.raises(ConsentViolation, match="gdpr: personal data needs a processing_basis"):
        world.put(**fields)
    assert world.grains() == []
    world.put(**fields, processing_basis="contract")
    world.put(object="of nobody")
    assert len(world.grains()) == 2


@pytest.mark.requirement("OMS-17.3-presets")
def test_gdpr_asks_the_same_of_records(make: Make) -> None:
    world = make("gdpr")
    with pytest.raises(ConsentViolation, match="gdpr"):
        world.remember("ada likes tea", scope={"user": "u"})
    with pytest.raises(ConsentViolation, match="gdpr"):
        world.remember("reach me", relations=[{"type": "about", "target": "tag:pii:email"}])
    based = {"text": "ada likes tea", "structured": {"processing_basis": "contract"}}
    world.remember("", scope={"user": "u"}, body=based)
    report = world.service.import_items(
        world.owner, number_items("ump", [world.draft("bob likes tea", scope={"user": "u"})])
    )
    assert (report.created, report.refused) == (0, 1)


@pytest.mark.requirement("OMS-17.3-presets")
@pytest.mark.parametrize("preset", ["gdpr", "hipaa"])
def test_others_read_what_is_about_a_person_only_under_that_persons_consent(make: Make, preset: str) -> None:
    world = make(preset)
    visible: dict[str, Any] = {"structural_tags": ["visibility:shared"]}
    personal = world.put(object="tea", user_id="did:web:ada.example", processing_basis="contract", **visible)
    world.put(object="weather", **visible)
    gate, owner = world.service.gate, world.owner.default_tenant
    token = gate.mint_token(verbs=("read",), scope={"owner": owner}, ttl_ms=60_000, audience=PEER.did)
    peer = gate.authenticate(token)
    name = world.as_record(personal)["id"]

    def seen() -> set[str]:
        listed = {each.grain.fields["object"] for each in world.grains(access=peer)}
        recalled = {text.split()[2] for text in world.texts("ada likes", access=peer, scope={"owner": owner})}
        fed = {event.record["body"]["text"].split()[2] for event in world.service.changes(peer, {}, 0).events[:2]}
        assert listed == recalled == fed
        assert world.service.grains.exists(peer, personal) == ("tea" in listed)
        return listed

    assert seen() == {"weather"}
    assert world.get(name)["body"]["text"] == "ada likes tea"
    world.put(
        type="consent",
        subject_did="did:web:ada.example",
        grantee_did=PEER.did,
        scope=["retrieve"],
        is_withdrawal=False,
    )
    assert seen() == {"tea", "weather"}


@pytest.mark.requirement("OMS-17.3-presets")
def test_ccpa_keeps_in_whoever_opted_out(make: Make) -> None:
    world = make("ccpa")
    world.put(object="in")
    world.put(object="out", **OPTED_OUT)
    world.remember("also out", body={"text": "also out", "structured": {"con:ccpa_opted_out": True}})
    assert exported(world) == {"in"}


@pytest.mark.requirement("OMS-17.3-presets")
def test_hipaa_guards_health_information(make: Make) -> None:
    bare = make("hipaa")
    with pytest.raises(ConsentViolation, match=r"hipaa: .*encrypted"):
        bare.put(**PHI)
    # The setting that encrypts only what names a user does not cover this one.
    users = make("hipaa", coverage="users")
    with pytest.raises(ConsentViolation, match=r"hipaa: .*encrypted"):
        users.put(**PHI)
    users.put(**PHI, user_id="u")
    world = make("hipaa", coverage="all")
    with pytest.raises(ConsentViolation, match=r"hipaa: .*processing_basis"):
        world.put(structural_tags=["phi:mrn"])
    with pytest.raises(ConsentViolation, match=r"hipaa: .*open licence"):
        world.put(**PHI, license="CC-BY-4.0")
    world.put(**PHI, object="kept")
    world.put(**PHI, object="cleared", **CLEARED)
    world.put(object="other")
    assert exported(world) == {"cleared", "other"}


@pytest.mark.requirement("OMS-17.3-presets")
def test_gdpr_lets_nothing_leave_that_came_in_before_without_a_basis(make: Make) -> None:
    world = make()
    world.put(object="early", user_id="u")
    world.put(object="based", user_id="u", processing_basis="contract")
    strict = Service(replace(world.context, presets=frozenset(("gdpr",))))
    assert len(list(strict.grains.export(world.owner))) == 1
    assert [record["body"]["text"] for record in strict.export(world.owner)] == ["ada likes based"]


@pytest.mark.requirement("OMS-17.3-presets")
def test_presets_add_up(make: Make) -> None:
    world = make("gdpr", "ccpa", "hipaa", coverage="all")
    with pytest.raises(ConsentViolation, match="gdpr"):
        world.put(user_id="u")
    with pytest.raises(ConsentViolation, match="hipaa"):
        world.put(**PHI, license="MIT")
    world.put(object="a", user_id="u", processing_basis="contract")
    world.put(object="b", user_id="u", processing_basis="contract", **OPTED_OUT)
    world.put(object="c", **PHI)
    assert exported(world) == {"a"}


PRIVILEGED: dict[str, Any] = {"structural_tags": ["profile:legal"], "legal:privilege": "attorney_client"}
HELD: dict[str, Any] = {"invalidation_policy": {"mode": "hold"}}
# What a domain asks for before a memory leaves (appendix A): the fields without it, and what is missing.
DOMAINS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "legal": (PRIVILEGED, HELD),
    "legal in context": ({"context": {"legal:privilege": "work_product"}}, HELD),
    "finance": ({"structural_tags": ["profile:finance", "pii:name"]}, {"processing_basis": "contract"}),
    "consumer": ({"structural_tags": ["profile:consumer"], "user_id": "u"}, {"processing_basis": "contract"}),
}


def leaving(world: World) -> set[str]:
    """What leaves in every form: all must agree."""
    names = ("plain", "bare", "ready")
    memories = {name for line in Oams(world).exported() for name in names if f"likes {name}".encode() in line}
    assert memories == exported(world)
    return memories


@pytest.mark.requirement("OMS-A-export")
@pytest.mark.parametrize(("fields", "missing"), DOMAINS.values(), ids=DOMAINS.keys())
def test_a_domain_keeps_in_what_is_not_ready_to_leave(
    make: Make, fields: dict[str, Any], missing: dict[str, Any]
) -> None:
    world = make()
    world.put(object="plain")
    bare = world.put(object="bare", **fields)
    ready = world.put(object="ready", **fields, **missing)
    assert leaving(world) == {"plain", "ready"}
    with pytest.raises(ConsentViolation, match=r"profile: "):
        world.service.grains.release(world.owner, bare)
    assert world.service.grains.release(world.owner, ready).address == ready
    # It is still there for whoever may read it.
    assert world.grain(bare).grain.fields["object"] == "bare"


@pytest.mark.requirement("OMS-A-export")
def test_a_hold_in_the_index_lets_privileged_material_leave(make: Make) -> None:
    world = make()
    bare = world.put(object="bare", **PRIVILEGED)
    assert leaving(world) == set()
    world.service.grains.set_hold(world.owner, bare, held=True, reason="a lawsuit")
    assert leaving(world) == {"bare"}


@pytest.mark.requirement("OMS-A-export")
def test_a_domain_is_asked_whichever_standard_wrote_the_memory(make: Make) -> None:
    world = make()
    about = [{"type": "about", "target": f"tag:{tag}"} for tag in ("profile:finance", "pii:name")]
    world.remember("a record", relations=about)
    world.remember("a privileged record", body={"text": "ours", "structured": {"legal:privilege": "work_product"}})
    oams = Oams(world)
    oams.store("finance", "a memory", tags=["profile:finance", "pii:name"])
    oams.store("legal", "a memory", metadata={"legal:privilege": "attorney_client"})
    other = World()
    try:
        wrapped = other.as_record(other.put(object="a grain in a record", **PRIVILEGED))
    finally:
        other.service.close()
    world.service.remember(world.owner, wrapped)
    assert list(world.service.export(world.owner)) == []
    assert list(world.service.grains.export(world.owner)) == []
    assert oams.exported() == []
