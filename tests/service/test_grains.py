"""The store protocol of OMS: put, get, exists, list, search, supersede, erase (sections 17.2 and 28.4)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, MemorandaError, NotFound
from memoranda.model.selection import Selection
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import signature
from memoranda.standards.oms.fields import INDEX_FIELDS
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.ump.requests import RecallRequest
from tests.service.world import OPERATOR, PEER, World, grain
from tests.standards.oms.published import TYPE_NAMES, of_type, refused


def deliveries(fields: dict[str, Any]) -> dict[str, bytes]:
    """One grain in every form in which it can travel."""
    return {
        "msgpack": codec.encode(fields).blob,
        "cbor": codec.encode(fields, cbor=True).blob,
        "signed": signature.sign(fields, PEER, issued_at=1_780_000_000),
    }


@pytest.mark.requirement("OMS-17.2-store")
@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_type_comes_back_as_the_same_bytes_under_the_same_address(world: World, name: str) -> None:
    for delivery in deliveries(of_type(name)).values():
        address = codec.address_of(signature.blob_of(delivery))
        stored = world.service.grains.put(world.owner, delivery)
        assert (stored.address, stored.result) == (address, "created")
        found = world.grain(address)
        assert found.delivery == delivery
        assert found.grain.address == found.address == address
        assert found.is_native
        assert world.service.grains.exists(world.owner, address)


@pytest.mark.requirement("OMS-17.2-store")
def test_types_of_applications_are_kept_too(world: World) -> None:
    fields = {
        "type": "acme:reading",
        "created_at": world.now,
        "namespace": "shared",
        "acme:value": 7,
        "subject": "pump 3",
        "relation": "acme:reads",
    }
    delivery = codec.encode(fields, type_byte=0xF3).blob
    address = world.service.grains.put(world.owner, delivery).address
    assert world.grain(address).delivery == delivery
    assert [
        each.address
        for each in world.service.grains.listing(world.owner, Selection(status_filter="current"), type_byte=0xF3)[0]
    ] == [address]
    for asked in ({"subject": "pump 3"}, {"relation": "acme:reads"}, {"subject": "pump 3", "relation": "acme:reads"}):
        page = world.service.grains.find(world.owner, FindRequest.parse(asked))
        assert [each.stored.address for each in page.results] == [address]
    assert world.service.cal.run(world.owner, 'RECALL WHERE subject = "pump 3"')["results"] == []


@pytest.mark.requirement("OMS-28.4-put-idempotent")
def test_the_same_grain_again_is_no_news(world: World) -> None:
    first = world.service.grains.put(world.owner, grain(world.now))
    world.advance(1_000)
    again = world.service.grains.put(world.owner, codec.encode(grain(world.now - 1_000)).blob)
    assert (first.result, again.result) == ("created", "exists")
    assert again.address == first.address
    assert len(world.grains()) == 1
    assert world.events() == [("created", world.as_record(first.address)["id"])]


@pytest.mark.requirement("OMS-5.6-store-index-fields")
@pytest.mark.parametrize("name", sorted(INDEX_FIELDS))
def test_index_fields_are_refused_in_what_is_written(world: World, name: str) -> None:
    value: Any = {"superseded_by": "0" * 64, "verification_status": "verified"}.get(name, 5)
    with refused("ERR_SCHEMA", name):
        world.put(**{name: value})


@pytest.mark.requirement("OMS-5.6-store-index-fields")
def test_index_fields_inside_finished_bytes_are_refused_too(world: World) -> None:
    # A codec that does not know the rule wrote them.
    from memoranda.standards.oms import canonical
    from memoranda.standards.oms.fields import compact
    from memoranda.standards.oms.header import HEADER_BYTES

    plain = codec.encode(grain(world.now)).blob
    payload = compact({**grain(world.now), "superseded_by": "0" * 64}, 0x01)
    blob = plain[:HEADER_BYTES] + canonical.pack(payload)
    old = world.put(object="coffee")
    with refused("ERR_SCHEMA", "superseded_by"):
        world.service.grains.put(world.owner, blob)
    with refused("ERR_SCHEMA", "superseded_by"):
        world.service.grains.supersede(world.owner, old, blob)


@pytest.mark.requirement("OMS-5.6-store-index-fields")
def test_what_the_index_learns_never_enters_the_blob(world: World) -> None:
    old = world.put()
    before = world.grain(old).delivery
    world.supersede(old, object="coffee")
    world.service.grains.set_verification(world.owner, old, "contested")
    world.service.grains.set_hold(world.owner, old, held=True)
    after = world.grain(old)
    assert after.delivery == before
    assert not INDEX_FIELDS & after.grain.fields.keys()


@pytest.mark.requirement("OMS-28.4-put-no-supersession")
@pytest.mark.parametrize("name", ["supersession_justification", "supersession_auth", "invalidation_type"])
def test_put_refuses_what_says_that_it_replaces_something(world: World, name: str) -> None:
    value: Any = {"supersession_auth": ["AAAA"]}.get(name, "because")
    with refused("ERR_SCHEMA", "supersede"):
        world.put(**{name: value})
    assert world.grains() == []


@pytest.mark.requirement("OMS-28.4-put-no-supersession")
def test_links_alone_change_nothing_about_what_they_point_at(world: World) -> None:
    # OMS §14.2 and §23.7: `replaces` is advisory, and derived_from is provenance.
    old = world.put()
    linked = world.put(object="coffee", derived_from=[old], related_to=[{"hash": old, "relation_type": "replaces"}])
    assert {each.address for each in world.grains()} == {old, linked}
    assert world.grain(old).index.superseded_by is None


@pytest.mark.requirement("OMS-28.4-supersede")
def test_superseding_closes_the_old_and_links_it_to_the_new(world: World) -> None:
    old = world.put()
    now = world.advance(60_000)
    new = world.supersede(old, object="coffee")
    closed = world.grain(old)
    assert closed.index.superseded_by == new
    assert closed.index.system_valid_to == now
    assert [each.address for each in world.grains()] == [new]
    assert [each.address for each in world.grains(current=False)] == [old, new]
    assert world.texts("coffee tea") == ["ada likes coffee"]


@pytest.mark.requirement("OMS-28.4-supersede")
def test_a_superseded_grain_is_not_true_any_longer_than_its_successor_lets_it(world: World) -> None:
    old = world.put(valid_to=world.now + 1_000_000)
    world.advance(1_000)
    world.supersede(old, object="coffee")
    assert world.texts("ada likes") == ["ada likes coffee"]


@pytest.mark.requirement("OMS-28.4-supersede")
@pytest.mark.parametrize(
    "bad",
    [{"type": "nonsense"}, {"object": None}, {"invalidation_policy": 7}, {"confidence": 3.0}, {"created_at": -5}],
)
def test_a_failed_supersession_leaves_nothing_behind(world: World, bad: dict[str, Any]) -> None:
    old = world.put()
    count = len(world.service.audit(world.owner, {}))
    with pytest.raises(MemorandaError):
        world.supersede(old, **bad)
    assert [each.address for each in world.grains(current=False)] == [old]
    assert world.grain(old).index.superseded_by is None
    world.engine.flush()
    assert [entry["op"] for entry in world.service.audit(world.owner, {})][count:].count("oms.supersede") == 0


@pytest.mark.requirement("OMS-28.4-supersede")
def test_a_failure_in_the_middle_of_the_unit_undoes_all_of_it(world: World) -> None:
    # The scope of a narrowed token is checked after the policy, inside the unit: the place where half could remain.
    old = world.put(namespace="p")
    gate = world.service.gate
    token = gate.mint_token(
        verbs=("read", "write"), scope={"owner": world.owner.default_tenant, "project": "p"}, ttl_ms=60_000
    )
    with pytest.raises(ForbiddenScope):
        world.supersede(old, namespace="q", access=gate.authenticate(token))
    assert [each.address for each in world.grains(current=False)] == [old]
    assert world.grain(old).index.superseded_by is None


@pytest.mark.requirement("OMS-28.4-supersede")
def test_of_many_that_supersede_at_once_one_wins(world: World) -> None:
    old = world.put()
    won, lost = [], []

    def attempt(number: int) -> None:
        try:
            won.append(world.supersede(old, object=f"drink {number}"))
        except Conflict:
            lost.append(number)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert world.grain(old).index.superseded_by == won[0]
    assert [each.address for each in world.grains()] == won


@pytest.mark.requirement("OMS-28.4-supersede")
def test_what_cannot_be_superseded_says_why(world: World) -> None:
    old, other = world.put(), world.put(object="milk")
    new = world.supersede(old, object="coffee")
    with pytest.raises(Conflict, match="already superseded"):
        world.supersede(old, object="juice")
    with pytest.raises(Conflict, match="already in the store"):
        world.service.grains.supersede(world.owner, new, world.grain(other).delivery)
    with pytest.raises(NotFound):
        world.supersede("0" * 64, object="juice")
    world.forget(world.as_record(other)["id"])
    with pytest.raises(Conflict, match="forgotten"):
        world.supersede(other, object="juice")
    with refused("ERR_HASH_LENGTH"):
        world.supersede("abc", object="juice")
    with refused("ERR_HASH_FORMAT"):
        world.grain("A" * 64)


@pytest.mark.requirement("OMS-28.4-list")
@given(
    written=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=25),
    asked=st.sampled_from([None, "a", "b"]),
    limit=st.integers(1, 8),
)
@settings(max_examples=25)
def test_pages_of_a_list_give_everything_once_in_the_order_written(
    written: list[str], asked: str | None, limit: int
) -> None:
    world = World()
    try:
        addresses = [
            (subject, world.put(subject=subject, object=f"thing {number}")) for number, subject in enumerate(written)
        ]
        found: list[str] = []
        after: int | None = 0
        while after is not None:
            page, after = world.service.grains.listing(
                world.owner, Selection(status_filter="current", subject=asked), after=after, limit=limit
            )
            assert len(page) <= limit
            found += [each.address for each in page]
        assert found == [address for subject, address in addresses if asked in (None, subject)]
    finally:
        world.service.close()


@pytest.mark.requirement("OMS-28.4-list")
def test_a_list_has_limits(world: World) -> None:
    for number in range(3):
        world.put(object=f"tea {number}")
    selection = Selection(status_filter="current")
    # More than a page has is a page.
    assert len(world.service.grains.listing(world.owner, selection, limit=10**9)[0]) == 3
    assert len(world.service.grains.search(world.owner, "tea", where=selection, limit=10**9)) == 3
    for limit in (0, -1):
        with pytest.raises(InvalidInput, match="limit"):
            world.service.grains.listing(world.owner, Selection(status_filter="current"), limit=limit)
        with pytest.raises(InvalidInput, match="limit"):
            world.service.grains.search(world.owner, "x", where=Selection(status_filter="current"), limit=limit)


@pytest.mark.requirement("OMS-28.4-delete")
def test_erasing_takes_the_grain_its_words_and_its_links(world: World) -> None:
    address = world.put(object="oolong")
    with pytest.raises(InvalidInput, match="reason"):
        world.service.grains.erase(world.owner, address, reason=" ")
    world.service.grains.erase(world.owner, address, reason="asked to")
    with pytest.raises(NotFound):
        world.grain(address)
    assert not world.service.grains.exists(world.owner, address)
    assert world.grains(current=False) == []
    assert world.texts("oolong") == []
    with pytest.raises(NotFound):
        world.service.grains.erase(world.owner, address, reason="again")
    # It is not there any more, so it can be told anew.
    assert world.service.grains.put(world.owner, grain(world.now, object="oolong")).result == "created"
    assert world.grain(address).address == address
    assert world.as_record(address)["body"]["text"] == "ada likes oolong"


@pytest.mark.requirement("OMS-28.4-delete")
def test_only_the_owner_erases_and_holds(world: World) -> None:
    address = world.put(structural_tags=["visibility:shared"])
    gate = world.service.gate
    token = gate.mint_token(
        verbs=("read", "write"), scope={"owner": world.owner.default_tenant}, ttl_ms=60_000, audience=PEER.did
    )
    peer, stranger = gate.authenticate(token), world.key("did:example:other")
    grains = world.service.grains
    with pytest.raises(ForbiddenScope):
        grains.erase(peer, address, reason="x")
    with pytest.raises(ForbiddenScope):
        grains.set_hold(peer, address, held=True)
    with pytest.raises(ForbiddenScope):
        grains.erase_user(peer, "u", reason="x")
    private = world.put(object="private")
    for attempt in (
        # What a peer does not see, it does not change either, though it may write.
        lambda: grains.supersede(peer, private, grain(world.now, object="x")),
        lambda: grains.set_verification(peer, private, "contested"),
        lambda: world.revise(world.as_record(private)["id"], access=peer, body={"text": "x"}),
        lambda: world.forget(world.as_record(private)["id"], access=peer),
        lambda: grains.get(stranger, address),
        lambda: grains.erase(stranger, address, reason="x"),
        lambda: grains.supersede(stranger, address, grain(world.now, object="x")),
        lambda: grains.set_verification(stranger, address, "contested"),
    ):
        with pytest.raises(NotFound):
            attempt()
    with pytest.raises(ForbiddenScope):
        grains.put(stranger, grain(world.now), owner=world.owner.default_tenant)


@pytest.mark.requirement("OMS-17.3-full-text")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "belief", "subject": "ada", "relation": "likes", "object": "lapsang", "confidence": 1.0}, "lapsang"),
        ({"type": "event", "content": "the kettle exploded"}, "exploded kettle"),
        ({"type": "event", "content": "x", "content_blocks": [{"type": "text", "text": "zanzibar"}]}, "zanzibar"),
        ({"type": "state", "context": {"phase": "calibrating"}, "plan": ["rinse", "descale"]}, "descale"),
        ({"type": "state", "context": {"phase": "calibrating"}}, "calibrating"),
        ({"type": "workflow", "steps": ["warm the pot", "infuse"], "trigger": "teatime"}, "infuse teatime"),
        (
            {"type": "action", "tool_name": "thermometer", "input": {"unit": "celsius"}, "content": "ninety",
             "is_error": False},
            "thermometer celsius ninety",
        ),
        ({"type": "observation", "observer_id": "probe-7", "observer_type": "temperature", "object": "scalding"},
         "scalding"),
        ({"type": "goal", "description": "brew perfectly", "goal_state": "active", "criteria": ["no bitterness"]},
         "brew bitterness"),
        ({"type": "reasoning", "conclusion": "water first", "premises": ["leaves burn"]}, "burn leaves"),
        ({"type": "consensus", "participating_observers": ["a", "b"], "threshold": 2, "agreement_count": 2,
          "dissent_count": 0, "agreed_content": "darjeeling wins"}, "darjeeling"),
        ({"type": "consent", "subject_did": OPERATOR.did, "grantee_did": "did:web:teahouse.example",
          "scope": ["retrieve"], "is_withdrawal": False}, "teahouse retrieve"),
    ],
)  # fmt: skip
def test_the_words_of_every_type_are_found(world: World, fields: dict[str, Any], words: str) -> None:
    world.put(object="something else")
    address = world.put(**fields)
    for word in words.split():
        found = world.service.grains.search(world.owner, word, where=Selection(status_filter="current"))
        assert [each.address for each, _ in found] == [address], word
        assert found[0][1] == 1.0
        assert world.texts(word, limit=1)[0] == world.as_record(address)["body"]["text"]


@pytest.mark.requirement("OMS-17.3-audit")
def test_every_operation_is_in_the_chain_and_no_content_is(world: World) -> None:
    grains, secret = world.service.grains, "xylophone"
    old = world.put(object=secret, user_id="mallory")
    grains.get(world.owner, old)
    grains.exists(world.owner, old)
    grains.listing(world.owner, Selection(status_filter="current", object=secret))
    grains.search(world.owner, secret, where=Selection(status_filter="current"))
    grains.set_verification(world.owner, old, "contested", reason="checked")
    grains.set_hold(world.owner, old, held=True, reason="court")
    grains.set_hold(world.owner, old, held=False)
    new = world.supersede(old, object=f"{secret} again", user_id="mallory")
    list(grains.export(world.owner))
    grains.erase(world.owner, new, reason="asked")
    grains.erase_user(world.owner, "mallory", reason="asked")
    world.engine.flush()
    entries = world.service.audit(world.owner, {})
    assert [entry["op"].removeprefix("oms.") for entry in entries] == [
        "put", "get", "get", "list", "search", "verification", "hold", "hold", "supersede", "export", "erase",
        "erase_user",
    ]  # fmt: skip
    assert world.service.audit_verify(world.owner).ok
    assert secret not in repr(entries)
    assert "mallory" not in repr(entries)


@pytest.mark.requirement("OMS-28.4-list")
def test_a_peer_sees_only_what_is_shared_and_whole(world: World) -> None:
    world.put(object="private")
    shared = world.put(object="shared", structural_tags=["visibility:shared"])
    world.remember("cut", scope={"visibility": "shared"}, consent={"redact": ["body.structured.pin"]},
                   body={"text": "cut", "structured": {"pin": "1234"}})  # fmt: skip
    gate, owner = world.service.gate, world.owner.default_tenant
    token = gate.mint_token(verbs=("read",), scope={"owner": owner}, ttl_ms=60_000, audience=PEER.did)
    peer = gate.authenticate(token)
    assert [each.address for each in world.grains(access=peer)] == [shared]
    cut = next(each for each in world.grains() if not each.is_native)
    with pytest.raises(NotFound):
        world.grain(cut.address, access=peer)
    found = world.service.recall(peer, RecallRequest.parse({"query": "cut", "scope": {"owner": owner}}))
    assert "1234" not in repr([each.record for each in found])
