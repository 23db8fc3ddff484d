"""What a grain may not claim, by what is in the store: goals that wait, ownership, delegations, a basis that is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoranda.errors import ConsentViolation, GrainError, QueryError
from memoranda.standards.oms import signature
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
        with pytest.raises(ConsentViolation, match="not here"):
            gdpr.put(user_id="u", processing_basis=unknown, object="coffee")
        body = {"text": "coffee", "structured": {"processing_basis": unknown}}
        with pytest.raises(ConsentViolation, match="not here"):
            gdpr.service.remember(gdpr.owner, {**gdpr.draft("x", scope={"user": "u"}), "body": body})
