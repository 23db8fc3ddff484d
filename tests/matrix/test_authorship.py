"""Who wrote it is who was verified; what a caller claims beyond that is kept as a claim (UMP §2.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from memoranda.errors import ForbiddenScope
from memoranda.model.instant import format_instant
from memoranda.model.memory import CLAIMED_KEY
from memoranda.service.core.access import Access
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Report
from memoranda.standards.oams.mapping import ACTOR_KEY, VISIBILITY_KEY
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import signature
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump import signature as ump_signature
from memoranda.standards.ump.record import fill_defaults
from memoranda.standards.ump.requests import AuditRequest, FeedbackRequest, ForgetRequest, RecallRequest, ReviseRequest
from tests.matrix.doors import SPACE, House, key
from tests.service.oams_verbs import Oams
from tests.service.world import OPERATOR, PEER, grain

SHARED = {"project": SPACE, "visibility": "shared"}
TEXT = "zanzibar"


@pytest.fixture
def peer(house: House) -> Access:
    return house.token("read", "write", audience=PEER.did)


def fields(house: House, **more: object) -> dict[str, object]:
    tags = ["visibility:shared"]
    return grain(
        house.now, subject="house", relation="says", object=TEXT, namespace=SPACE, structural_tags=tags, **more
    )


# What a peer writes, claiming to be the owner where there is a word for it.
PEERS: Mapping[str, Callable[[House, Access], object]] = {
    "ump remember": lambda house, who: house.service.remember(who, house.draft(TEXT, scope=SHARED)),
    "ump file": lambda house, who: house.service.import_items(
        who, number_items("ump", [house.draft(TEXT, scope=SHARED)])
    ),
    "oams store": lambda house, who: Oams(house, house.oams.namespace, who).store(
        key(TEXT), TEXT, metadata={VISIBILITY_KEY: "shared", ACTOR_KEY: house.tenant}
    ),
    "oms put": lambda house, who: house.service.grains.put(who, fields(house)),
}
FORGED: Mapping[str, Callable[[House, Access], object]] = {
    "oms fields": lambda house, who: house.service.grains.put(who, fields(house, author_did=house.tenant)),
    "oms bytes": lambda house, who: house.service.grains.put(who, codec.encode(fields(house)).blob),
    "oms signed by the peer": lambda house, who: house.service.grains.put(
        who, signature.sign(fields(house, author_did=house.tenant), PEER, issued_at=1_780_000_000)
    ),
    "ump signed by the peer": lambda house, who: house.service.remember(
        who,
        ump_signature.seal(fill_defaults(house.draft(TEXT, scope=SHARED), now=house.now, version="0.1"), PEER),
    ),
    "openwop put": lambda house, who: house.service.openwop.put_entry(who, SPACE, Draft(content=TEXT)),
    "openwop host": lambda house, who: house.service.openwop.put_entries(who, SPACE, [Draft(content=TEXT)]),
}


@pytest.mark.requirement("OURS-verified-author")
@pytest.mark.parametrize("way", PEERS)
def test_what_a_peer_writes_is_the_peers(house: House, peer: Access, way: str) -> None:
    PEERS[way](house, peer)
    record = house.get(house.names(house.head(TEXT))["ump"])
    assert record["provenance"]["actor"] == PEER.did
    assert record["integrity"]["signer"] == OPERATOR.did
    if way.startswith("ump"):
        claimed = (record["body"].get("structured") or {})[CLAIMED_KEY]
        assert claimed == {"actor": house.tenant, "actor_kind": "user"}


@pytest.mark.requirement("OURS-verified-author")
@pytest.mark.parametrize("way", FORGED)
def test_what_cannot_be_put_right_is_refused(house: House, peer: Access, way: str) -> None:
    with pytest.raises(ForbiddenScope):
        FORGED[way](house, peer)
    assert house.texts(TEXT) == []


@pytest.mark.requirement("OURS-verified-author")
def test_a_peers_correction_is_not_the_owners(house: House, peer: Access) -> None:
    provenance = {
        "actor": house.tenant,
        "actor_kind": "user",
        "method": "user_correction",
        "evidence": [{"ref": "file:signed-contract", "weight": 1}],
    }
    name = house.remember(TEXT, scope=SHARED, provenance=provenance)
    asked = {"id": name, "patch": {"body": {"text": "forged"}}, "actor": {"did": house.tenant, "kind": "user"}}
    record = house.get(house.service.revise(peer, ReviseRequest.parse(asked)).id)
    assert record["provenance"] == {
        "actor": PEER.did,
        "actor_kind": "agent",
        "method": "revise",
        "source": {"ref": name},
    }
    assert (record["body"].get("structured") or {})[CLAIMED_KEY]["actor"] == house.tenant


@pytest.mark.requirement("OURS-verified-author")
def test_an_agents_key_is_the_author_of_its_revision_whomever_it_names(house: House) -> None:
    name, agent = house.remember(TEXT), house.key(house.tenant, "read", "write")
    asked = {"id": name, "patch": {"body": {"text": "again"}}, "actor": {"did": house.tenant, "kind": "user"}}
    record = house.get(house.service.revise(agent, ReviseRequest.parse(asked)).id)
    assert record["provenance"]["actor"] == agent.actor
    assert (record["body"].get("structured") or {})[CLAIMED_KEY]["actor"] == house.tenant
    later = house.get(house.revise(record["id"], body={"text": "third"}))
    assert CLAIMED_KEY not in (later["body"].get("structured") or {})


@pytest.mark.requirement("OURS-verified-author")
def test_a_peer_saying_the_same_does_not_strengthen_the_owners_word(house: House, peer: Access) -> None:
    name = house.remember(TEXT, scope=SHARED)
    before = house.get(name)
    house.service.remember(peer, house.draft(TEXT, scope=SHARED))
    assert house.get(name) == before
    assert sorted(each.record["provenance"]["actor"] for each in house.recall(TEXT)) == sorted([house.tenant, PEER.did])


@pytest.mark.requirement("OURS-verified-author")
@pytest.mark.parametrize("way", [way for way in PEERS if way != "oms put"])
def test_an_owners_own_key_is_the_author_of_what_it_writes_whomever_it_names(house: House, way: str) -> None:
    agent = house.key(house.tenant, "read", "write")
    PEERS[way](house, agent)
    version = house.head(TEXT)
    record = house.get(house.names(version)["ump"])
    assert record["provenance"]["actor"] == agent.actor
    if way.startswith("ump"):
        claimed = (record["body"].get("structured") or {})[CLAIMED_KEY]
        assert claimed == {"actor": house.tenant, "actor_kind": "user"}
    else:
        memory = house.oams.get(key(TEXT))
        assert memory["metadata"][ACTOR_KEY] == agent.actor
        assert memory["metadata"][CLAIMED_KEY] == house.tenant


@pytest.mark.requirement("OURS-verified-author")
def test_a_signed_record_keeps_its_author_and_who_names_himself_claims_nothing(house: House) -> None:
    agent = house.key(house.tenant, "read", "write")
    signed = ump_signature.seal(fill_defaults(house.draft(TEXT, scope=SHARED), now=house.now, version="0.1"), OPERATOR)
    house.service.import_items(agent, number_items("ump", [signed]))
    assert house.get(signed["id"])["provenance"] == signed["provenance"]
    mine = {"actor": agent.actor, "actor_kind": "agent", "method": "agent_inference"}
    name = house.service.remember(agent, house.draft("another", provenance=mine)).id
    record = house.get(name)
    assert record["provenance"]["actor"] == agent.actor
    assert CLAIMED_KEY not in (record["body"].get("structured") or {})


# A file that names somebody as the author without a signature of his; from a stranger, or from the owner's own key.
BOB = "did:example:bob"


def as_bundle(house: House) -> dict[str, object]:
    at = format_instant(house.now)
    return {
        "key": key(TEXT),
        "namespace": house.oams.namespace,
        "value": TEXT,
        "metadata": {ACTOR_KEY: BOB},
        "created_at": at,
        "updated_at": at,
    }


def unsigned(house: House) -> object:
    said = {"actor": BOB, "actor_kind": "user", "method": "user_correction"}
    return {"id": "urn:ump:abcdefgh234567", **house.draft(TEXT, scope=SHARED, provenance=said)}


FILES: Mapping[str, Callable[[House], Item]] = {
    "ump": lambda house: next(iter(number_items("ump", [unsigned(house)]))),
    "oams": lambda house: next(iter(number_items("oams", [as_bundle(house)]))),
    "oms": lambda house: next(iter(number_items("oms", [codec.encode(fields(house, author_did=BOB)).blob]))),
}


@pytest.mark.requirement("OURS-verified-author")
@pytest.mark.parametrize("by", ["the person at the machine", "a key of the owner"])
@pytest.mark.parametrize("form", FILES)
def test_whom_a_file_names_without_a_signature_is_a_claim(house: House, form: str, by: str) -> None:
    who = house.owner if by.startswith("the") else house.key(house.tenant, "read", "write")
    report = house.service.import_items(who, [FILES[form](house)])
    assert report.created == 1, report
    version = house.head(TEXT)
    record = house.get(house.names(version)["ump"])
    assert record["provenance"]["actor"] == who.actor
    assert record["provenance"]["actor_kind"] == "import"
    assert (record["body"].get("structured") or {})[CLAIMED_KEY]["actor"] == BOB
    assert ump_signature.verify(record)
    if form == "oams":
        metadata = house.oams.get(key(TEXT))["metadata"]
        assert (metadata[ACTOR_KEY], metadata[CLAIMED_KEY]) == (who.actor, BOB)
        assert [each["metadata"][ACTOR_KEY] for each in house.oams.recall(TEXT)] == [who.actor]
    if form == "oms":
        assert house.service.grains.get(house.owner, version.document.name).document()["written_by"] == who.actor
    # The very same again changes nothing.
    again = house.service.import_items(who, [FILES[form](house)])
    assert (again.created, again.updated, again.refused) == (0, 0, 0), again


@pytest.mark.requirement("OURS-verified-author")
def test_an_author_that_an_owners_key_names_in_a_grain_is_a_claim_until_he_signs(house: House) -> None:
    agent = house.key(house.tenant, "read", "write")
    address = house.service.grains.put(agent, fields(house, author_did=PEER.did)).address
    record = house.as_record(address)
    assert record["provenance"]["actor"] == agent.actor
    assert (record["body"].get("structured") or {})[CLAIMED_KEY]["actor"] == PEER.did
    signed = signature.sign(fields(house, confidence=0.5, author_did=PEER.did), PEER, issued_at=1_780_000_000)
    record = house.as_record(house.service.grains.put(agent, signed).address)
    assert record["provenance"]["actor"] == PEER.did
    assert CLAIMED_KEY not in (record["body"].get("structured") or {})


def test_who_wrote_a_grain_keeps_it_from_leaving_in_no_form(house: House) -> None:
    agent, report = house.key(house.tenant, "read", "write"), Report()
    address = house.service.grains.put(agent, fields(house, author_did=PEER.did)).address
    heads = [given for given, _ in house.service.grains.export(house.owner, history=False, report=report)]
    assert ([codec.decode(each).address for each in heads], report.refused) == ([address], 0), report


@pytest.mark.requirement("OURS-verified-author")
def test_who_says_to_have_asked_is_a_claim_in_the_audit_log(house: House) -> None:
    agent = house.key(house.tenant, "read", "write", "derive")
    name = house.remember(TEXT)
    said = {"actor": {"did": BOB, "kind": "user"}}
    house.service.feedback(agent, FeedbackRequest.parse({"id": name, "outcome": "followed", **said}))
    house.service.recall(agent, RecallRequest.parse({"query": TEXT, **said}))
    house.service.forget(agent, ForgetRequest.parse({"id": name, **said}))
    for op in ("feedback", "recall", "forget"):
        (event,) = house.service.audit(house.owner, AuditRequest.parse({"op": op}))
        assert event["actor"]["did"] == agent.actor, op
        assert event["meta"]["claimed"] == {"did": BOB, "kind": "user"}, op
