"""What a grain may not claim, by what is in the store: goals that wait, ownership, delegations, a basis that is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import ConsentViolation, GrainError, QueryError
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Report
from memoranda.standards.oms import signature
from memoranda.standards.oms.grains import encode
from tests.service.test_cal_evolve import run
from tests.service.world import PEER, World, grain

AGENT = "did:web:agent.example"
OWNER: dict[str, Any] = {"type": "human", "name": "Ada", "did": "did:web:ada.example"}
OWNED: dict[str, Any] = {
    "subject": AGENT,
    "relation": "mg:owned_by",
    "object": "Ada",
    "namespace": "agent:identity",
    "owner": OWNER,
    "invalidation_policy": {"mode": "delegated", "authorized": [OWNER["did"]]},
}


@pytest.fixture
def gdpr() -> Iterator[World]:
    world = World(presets=["gdpr"], coverage="users")
    yield world
    world.service.close()


def goal(world: World, state: str, **fields: Any) -> dict[str, Any]:
    return grain(world.now, type="goal", description="ship", goal_state=state, **fields)


@pytest.mark.requirement("OMS-8.7-depends-on")
def test_a_goal_does_not_become_active_before_those_it_depends_on_are_satisfied(world: World) -> None:
    grains = world.service.grains
    first = grains.put(world.owner, goal(world, "active", object="first")).address
    waiting = grains.put(world.owner, goal(world, "suspended", depends_on=[first])).address
    active = goal(world, "active", depends_on=[first])
    with pytest.raises(GrainError, match="depends on"):
        grains.supersede(world.owner, waiting, active, justification="now")
    assert any("not satisfied" in each for each in grains.put(world.owner, active).warnings)
    world.advance(1)
    grains.supersede(world.owner, first, goal(world, "satisfied", object="first"), justification="done")
    world.advance(1)
    grains.supersede(world.owner, waiting, goal(world, "active", depends_on=[first]), justification="now")


@pytest.mark.requirement("OMS-12.5-ownership")
@pytest.mark.parametrize(
    "wrong",
    [
        {"author_did": AGENT},
        {"invalidation_policy": None},
        {"invalidation_policy": {"mode": "open"}},
        {"invalidation_policy": {"mode": "delegated", "authorized": [AGENT]}},
    ],
)
def test_an_agent_cannot_say_whose_it_is(world: World, wrong: dict[str, Any]) -> None:
    world.put(**OWNED)
    with pytest.raises(GrainError, match="owned_by"):
        world.put(**{**OWNED, "object": "Eve", **wrong})
    with pytest.raises(QueryError, match="owned_by"):
        run(world, f'ADD belief SET subject = "{AGENT}" SET relation = "mg:owned_by" SET object = "Eve" REASON "x"')


def taken(world: World, *given: dict[str, Any] | bytes) -> Report:
    """What an import makes of grains."""
    blobs = [each if isinstance(each, bytes) else encode(each).blob for each in given]
    return world.service.import_items(world.owner, number_items("oms", blobs))


@pytest.mark.requirement("OMS-12.5-several")
def test_what_is_on_record_of_an_agents_owner_wins_over_what_others_say(world: World) -> None:
    mine = world.put(**OWNED)
    eve = {"type": "human", "name": "Eve", "did": "did:web:eve.example"}
    hers = {
        **OWNED,
        "object": "Eve",
        "owner": eve,
        "invalidation_policy": {"mode": "locked", "authorized": [eve["did"]]},
    }
    with pytest.raises(GrainError, match=mine):
        world.put(**hers)
    assert "owned_by" in taken(world, grain(world.now, **hers)).refusals[0].message
    # What others claim may be noted as what it is: that they said so.
    world.put(
        type="observation",
        observer_id=eve["did"],
        observer_type="human",
        subject=AGENT,
        relation="mg:owned_by",
        object="Eve",
    )
    # The owner may say the same once more, and nobody's agent is anybody's.
    world.put(**{**OWNED, "confidence": 1.0})
    world.put(**{**hers, "subject": "did:web:other.example"})


@pytest.mark.requirement("OMS-12.5-several")
def test_a_change_of_ownership_is_taken_in_with_its_past_in_either_order(world: World) -> None:
    ada = SigningKey(bytes([5]) * 32)
    owned = {
        **OWNED,
        "owner": {**OWNER, "did": ada.did},
        "invalidation_policy": {"mode": "delegated", "authorized": [ada.did]},
    }
    bob = {"type": "human", "name": "Bob", "did": PEER.did}
    sold = {
        **owned,
        "object": "Bob",
        "owner": bob,
        "invalidation_policy": {"mode": "delegated", "authorized": [PEER.did]},
    }
    old = world.put(**owned)
    signed = signature.sign(grain(world.now + 1, **sold, derived_from=[old]), ada, issued_at=world.now // 1000)
    world.advance(1)
    new = world.service.grains.supersede(world.owner, old, signed).address
    leaving = list(world.service.grains.export(world.owner, history=True))
    for order in (leaving, leaving[::-1]):
        other = World()
        items = [Item(form="oms", value=delivery, index=index) for delivery, index in order]
        report = other.service.import_items(other.owner, items)
        assert (report.created, report.refusals) == (2, [])
        assert [each.address for each in other.grains(subject=AGENT)] == [new]
        other.service.close()


@pytest.mark.requirement("OMS-12.5-ownership", "OMS-6.11-delegation-expiry")
def test_a_file_brings_nothing_that_its_author_may_not_write(world: World) -> None:
    wrong = taken(
        world,
        grain(world.now, **OWNED, author_did=AGENT),
        grain(world.now, **{**OWNED, "invalidation_policy": {"mode": "open"}}),
    )
    assert (wrong.created, wrong.refused) == (0, 2)
    end = world.now + 1000
    world.put(
        subject=world.owner.default_tenant,
        relation="mg:delegates_to",
        object=PEER.did,
        delegation_depth=0,
        delegation_expiry=end,
    )
    world.advance(5000)
    early, late = (
        signature.sign(grain(at, object=text), PEER, issued_at=at // 1000)
        for at, text in ((end - 1, "in time"), (end, "too late"))
    )
    # What was written while the delegation held may still be taken in.
    report = taken(world, early, late)
    assert (report.created, report.refused) == (1, 1)
    assert "delegation" in report.refusals[0].message


@pytest.mark.requirement("OMS-6.11-delegation-expiry")
def test_an_agent_whose_delegation_has_ended_writes_no_more(world: World) -> None:
    delegation: dict[str, Any] = {
        "subject": world.owner.default_tenant,
        "relation": "mg:delegates_to",
        "object": PEER.did,
    }
    world.put(**delegation, delegation_depth=0, delegation_expiry=world.now + 1000)

    def written(text: str) -> str:
        signed = signature.sign(grain(world.now, object=text), PEER, issued_at=world.now // 1000)
        return world.service.grains.put(world.owner, signed).result

    assert written("in time") == "created"
    world.advance(1000)
    with pytest.raises(GrainError, match="delegation"):
        written("too late")
    world.put(**delegation, delegation_depth=0, delegation_expiry=world.now + 1000)
    assert written("again") == "created"


@pytest.mark.requirement("OMS-23.2-basis-is-there")
def test_a_basis_that_nobody_gave_is_none_where_a_preset_asks_for_one(gdpr: World) -> None:
    did = gdpr.owner.default_tenant
    parties: dict[str, Any] = {"subject_did": did, "grantee_did": did}
    given = gdpr.put(type="consent", **parties, scope=["store"], is_withdrawal=False)
    gdpr.put(user_id="u", processing_basis=given)
    gdpr.put(user_id="u", processing_basis="contract", object="by contract")
    for unknown in ("0" * 64, gdpr.put(object="no consent")):
        with pytest.raises(ConsentViolation, match="not in this store"):
            gdpr.put(user_id="u", processing_basis=unknown, object="coffee")
        body = {"text": "coffee", "structured": {"processing_basis": unknown}}
        with pytest.raises(ConsentViolation, match="not in this store"):
            gdpr.service.remember(gdpr.owner, {**gdpr.draft("x", scope={"user": "u"}), "body": body})
