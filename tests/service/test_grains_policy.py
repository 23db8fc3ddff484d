"""Invalidation policies in the store: every mode against every way to take a memory out of the present (section 23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import GrainError
from memoranda.model.instant import DAY_MS, Instant, format_instant
from memoranda.service.exchange.importing import Item
from memoranda.standards.oms import signature
from memoranda.standards.oms.manifest import IndexState
from memoranda.standards.ump.requests import ForgetRequest
from tests.service.world import OPERATOR, PEER, World, grain
from tests.standards.oms.published import refused

DENIED = "ERR_INVALIDATION_DENIED"
KEYS = [SigningKey(bytes([number]) * 32) for number in (21, 22, 23)]
LATER_SECONDS = 4_000_000_000

POLICIES: dict[str, dict[str, Any]] = {
    "open": {"mode": "open"},
    "soft_locked": {"mode": "soft_locked"},
    "locked": {"mode": "locked"},
    "quorum": {"mode": "quorum", "authorized": [key.did for key in KEYS], "threshold": 2},
    "delegated": {"mode": "delegated", "authorized": [PEER.did]},
    "timed": {"mode": "timed", "locked_until": LATER_SECONDS, "fallback_mode": "open"},
    "hold": {"mode": "hold"},
    "consent_cascade": {"mode": "consent_cascade"},
    "unknown": {"mode": "from-the-future"},
}


def protected(world: World, policy: dict[str, Any], **fields: Any) -> str:
    return world.put(invalidation_policy=policy, **fields)


def supersede(world: World, address: str) -> None:
    world.supersede(address, object="coffee")


def contest(world: World, address: str) -> None:
    world.service.grains.set_verification(world.owner, address, "contested")


def retract(world: World, address: str) -> None:
    world.service.grains.set_verification(world.owner, address, "retracted")


def revise(world: World, address: str) -> None:
    world.revise(world.as_record(address)["id"], body={"text": "ada likes coffee"})


def forget(world: World, address: str) -> None:
    world.forget(world.as_record(address)["id"])


def forget_hard(world: World, address: str) -> None:
    world.forget(world.as_record(address)["id"], hard=True, reason="asked")


def erase(world: World, address: str) -> None:
    world.service.grains.erase(world.owner, address, reason="asked")


def import_closed(world: World, address: str) -> None:
    """A file that says that the grain was superseded elsewhere."""
    new = world.put(object="coffee")
    index = IndexState(superseded_by=new, system_valid_to=world.now)
    report = world.service.import_items(
        world.owner, [Item(form="oms", value=world.grain(address).delivery, index=index)]
    )
    if report.refused:
        raise GrainError(report.refusals[0].message, oms_code=DENIED)


INVALIDATIONS = (supersede, contest, retract, revise, forget, import_closed)
ERASURES = (forget_hard, erase)
FREE = {"open", "consent_cascade"}


@pytest.mark.requirement("OMS-23-enforced")
@pytest.mark.parametrize("act", INVALIDATIONS, ids=lambda act: str(act.__name__))
@pytest.mark.parametrize("mode", POLICIES)
def test_a_policy_guards_against_every_invalidation(world: World, mode: str, act: Callable[[World, str], None]) -> None:
    address = protected(world, POLICIES[mode])
    if mode in FREE:
        act(world, address)
        return
    with refused(DENIED):
        act(world, address)
    found = world.grain(address)
    assert found.index == IndexState()
    assert world.as_record(address)["lifecycle"]["status"] == "active"
    assert address in [each.address for each in world.grains()]


@pytest.mark.requirement("OMS-23.2-store-hold")
@pytest.mark.parametrize("act", ERASURES, ids=lambda act: str(act.__name__))
@pytest.mark.parametrize("mode", POLICIES)
def test_only_a_hold_stops_an_erasure(world: World, mode: str, act: Callable[[World, str], None]) -> None:
    address = protected(world, POLICIES[mode])
    if mode == "hold":
        with refused(DENIED):
            act(world, address)
        assert world.grain(address).address == address
    else:
        act(world, address)
        assert not world.service.grains.exists(world.owner, address)


@pytest.mark.requirement("OMS-23.2-store-hold")
@pytest.mark.parametrize("act", [*INVALIDATIONS, *ERASURES], ids=lambda act: str(act.__name__))
def test_a_hold_in_the_index_beats_everything(world: World, act: Callable[[World, str], None]) -> None:
    address = world.put()
    world.service.grains.set_hold(world.owner, address, held=True, reason="litigation")
    assert world.grain(address).is_held
    with refused(DENIED):
        act(world, address)
    assert world.grain(address).address == address
    world.service.grains.set_hold(world.owner, address, held=False)
    act(world, address)


@pytest.mark.requirement("OMS-23.2-store-hold")
def test_a_hold_on_a_record_stays_when_it_is_told_again(world: World) -> None:
    name = world.remember("ada likes tea")
    address = world.as_grain(name).address
    world.service.grains.set_hold(world.owner, address, held=True)
    world.advance(1_000)
    again = world.draft("ada likes tea", relations=[{"type": "about", "target": "entity:tea"}])
    assert world.service.remember(world.owner, again).id == name
    for request in ({"id": name}, {"id": name, "hard": True, "reason": "x"}):
        with refused(DENIED):
            world.service.forget(world.owner, ForgetRequest.parse(request))
    with refused(DENIED):
        world.revise(name, body={"text": "no"})


@pytest.mark.requirement("OMS-23.2-store-hold")
def test_a_hold_beats_the_end_of_retention(world: World) -> None:
    name = world.remember("short-lived", consent={"retention": "P1D"})
    address = world.as_grain(name).address
    world.service.grains.set_hold(world.owner, address, held=True)
    world.advance(2 * DAY_MS)
    assert world.service.purge() == 0
    assert world.engine.system.find_next_expiry() is None
    world.service.grains.set_hold(world.owner, address, held=False)
    assert world.service.purge() == 1


@pytest.mark.requirement("OMS-23.2-store-hold")
@pytest.mark.parametrize("days", [0.5, 10, None])
def test_what_a_hold_keeps_past_its_end_is_true_until_the_sooner_of_its_two_ends(
    world: World, days: float | None
) -> None:
    start = world.now
    address = world.as_grain(world.remember("short-lived", consent={"retention": "P1D"})).address
    world.advance(1_000)
    until = None if days is None else start + int(days * DAY_MS) - 1
    held = world.supersede(address, object="kept", valid_to=until, invalidation_policy={"mode": "hold"})
    world.advance(2 * DAY_MS)
    assert world.service.purge() == 2
    state = world.named("oms", held).state
    assert (state.erased, state.tombstoned) == (False, world.now)
    assert state.valid_to == start + int(min(days or 1, 1) * DAY_MS)
    assert world.texts("kept", filter={"valid_at": format_instant(Instant(start + 2_000))}) == []


@pytest.mark.requirement("OMS-23.2-store-hold", "OMS-20.3-crypto-erasure")
@pytest.mark.parametrize("is_in_policy", [True, False])
def test_a_hold_keeps_the_key_of_a_user_who_is_erased(is_in_policy: bool) -> None:
    world = World(coverage="users")
    try:
        free = world.put(object="one", user_id="u1")
        held = world.put(object="two", user_id="u1", invalidation_policy={"mode": "hold"} if is_in_policy else None)
        if not is_in_policy:
            world.service.grains.set_hold(world.owner, held, held=True)
        done = world.service.grains.erase_user(world.owner, "u1", reason="asked")
        assert (done.erased, done.held, done.key_destroyed) == (1, 1, False)
        assert not world.service.grains.exists(world.owner, free)
        assert world.grain(held).grain.fields["object"] == "two"
        if not is_in_policy:
            world.service.grains.set_hold(world.owner, held, held=False)
            done = world.service.grains.erase_user(world.owner, "u1", reason="asked")
            assert (done.erased, done.held, done.key_destroyed) == (1, 0, True)
    finally:
        world.service.close()


@pytest.mark.requirement("OMS-23.2-store-soft-locked")
def test_a_soft_lock_opens_to_a_justification_and_asks_for_review(world: World) -> None:
    address = protected(world, POLICIES["soft_locked"])
    stored = world.service.grains.supersede(
        world.owner, address, grain(world.now, object="coffee"), justification="she said so"
    )
    assert stored.needs_review
    assert world.grain(stored.address).needs_review
    assert world.grain(stored.address).grain.fields["supersession_justification"] == "she said so"
    contested = protected(world, POLICIES["soft_locked"], object="milk")
    world.service.grains.set_verification(world.owner, contested, "contested", reason="she denies it")
    assert world.grain(contested).needs_review
    assert world.grain(contested).index.verification_status == "contested"


@pytest.mark.requirement("OMS-23.2-store-soft-locked")
def test_consent_is_soft_locked_without_saying_so(world: World) -> None:
    consent = world.put(
        type="consent", subject_did=OPERATOR.did, grantee_did=PEER.did, scope=["retrieve"], is_withdrawal=False
    )
    for act in (contest, revise, forget):
        with refused(DENIED):
            act(world, consent)


@pytest.mark.requirement("OMS-23.2-store-timed")
def test_a_timed_lock_opens_on_time(world: World) -> None:
    until = world.now // 1000 + 60
    policies = {
        fallback: {"mode": "timed", "locked_until": until, **({"fallback_mode": fallback} if fallback else {})}
        for fallback in ("open", "hold", "timed", "")
    }
    addresses = {fallback: protected(world, policy, object=f"tea {fallback}") for fallback, policy in policies.items()}
    world.advance(59_999)
    for address in addresses.values():
        with refused(DENIED):
            supersede(world, address)
    world.service.grains.erase(world.owner, protected(world, policies["hold"], object="early"), reason="x")
    world.advance(1)
    world.supersede(addresses["open"], object="coffee")
    for fallback in ("hold", "timed", ""):
        with refused(DENIED):
            supersede(world, addresses[fallback])
    with refused(DENIED):
        erase(world, addresses["hold"])


def endorsed(world: World, fields: dict[str, Any], keys: list[SigningKey]) -> dict[str, Any]:
    payload = signature.endorsement_payload(fields)
    return {**fields, "supersession_auth": [signature.endorse(payload, key, issued_at=1_780_000_000) for key in keys]}


@pytest.mark.requirement("OMS-23.2-store-quorum")
def test_a_quorum_needs_enough_distinct_authorised_hands(world: World) -> None:
    address = protected(world, POLICIES["quorum"])
    fields = grain(world.now, object="coffee", derived_from=[address])
    grains = world.service.grains
    for keys in ([], KEYS[:1], [KEYS[0], KEYS[0]], [KEYS[0], PEER]):
        with refused(DENIED):
            grains.supersede(world.owner, address, endorsed(world, fields, keys))
    stored = grains.supersede(world.owner, address, endorsed(world, fields, KEYS[:2]))
    assert world.grain(address).index.superseded_by == stored.address


@pytest.mark.requirement("OMS-23.2-store-quorum")
def test_endorsements_cannot_be_used_for_another_grain(world: World) -> None:
    first = protected(world, POLICIES["quorum"])
    second = protected(world, POLICIES["quorum"], object="milk")
    agreed = endorsed(world, grain(world.now, object="coffee", derived_from=[first]), KEYS[:2])
    grains = world.service.grains
    # For what they did not agree to replace, …
    with refused(DENIED):
        grains.supersede(world.owner, second, agreed)
    # … with what they did not agree to, …
    for change in ({"object": "gin"}, {"derived_from": [second]}, {"derived_from": [first, second]}):
        with refused(DENIED):
            grains.supersede(world.owner, change.get("derived_from", [first])[-1], {**agreed, **change})
    # … or where nothing says what is replaced.
    with refused(DENIED):
        grains.supersede(world.owner, first, endorsed(world, grain(world.now, object="rum"), KEYS))
    grains.supersede(world.owner, first, agreed)


@pytest.mark.requirement("OMS-23.2-store-delegated")
def test_a_delegate_signs_what_replaces_the_grain(world: World) -> None:
    address = protected(world, POLICIES["delegated"])
    fields = grain(world.now, object="coffee")
    grains = world.service.grains
    with refused(DENIED):
        grains.supersede(world.owner, address, signature.sign(fields, KEYS[0], issued_at=1_780_000_000))
    envelope = signature.sign(fields, PEER, issued_at=1_780_000_000)
    stored = grains.supersede(world.owner, address, envelope)
    assert world.grain(stored.address).delivery == envelope


@pytest.mark.requirement("OMS-23.6-scopes")
def test_a_lineage_is_protected_from_its_first_grain_to_its_last(world: World) -> None:
    first = protected(world, {"mode": "delegated", "authorized": [PEER.did], "scope": "lineage"})
    envelope = signature.sign(grain(world.now, object="coffee"), PEER, issued_at=1_780_000_000)
    second = world.service.grains.supersede(world.owner, first, envelope).address
    for act in (supersede, contest, revise, forget):
        with refused(DENIED):
            act(world, second)
    alone = protected(world, {"mode": "delegated", "authorized": [PEER.did], "scope": "grain"}, object="milk")
    envelope = signature.sign(grain(world.now, object="gin"), PEER, issued_at=1_780_000_000)
    world.supersede(world.service.grains.supersede(world.owner, alone, envelope).address, object="rum")


def derivation(world: World, policy: dict[str, Any], hops: int) -> str:
    """A grain that derives from a protected one over so many hops."""
    address = protected(world, policy, object="root")
    for number in range(1, hops):
        address = world.put(object=f"hop {number}", derived_from=[address])
    return address


@pytest.mark.requirement("OMS-23.7-hops")
@pytest.mark.parametrize("scope", ["grain", "subtree"])
@pytest.mark.parametrize(("hops", "is_denied"), [(1, True), (2, True), (16, True), (17, False)])
def test_what_derives_from_a_protected_grain_is_protected_for_sixteen_hops(
    world: World, scope: str, hops: int, is_denied: bool
) -> None:
    nearest = derivation(world, {"mode": "locked", "scope": scope}, hops)
    target = world.put(object="target")
    fields = grain(world.now, object="laundered", derived_from=[nearest])
    if is_denied:
        with refused(DENIED):
            world.service.grains.supersede(world.owner, target, fields)
        assert world.grain(target).index.superseded_by is None
    else:
        world.service.grains.supersede(world.owner, target, fields)


@pytest.mark.requirement("OMS-23.7-hops")
def test_a_circle_of_derivations_ends(world: World) -> None:
    # Addresses cannot point at each other, but many paths can lead to one grain.
    root = protected(world, {"mode": "locked"}, object="root")
    layer = [root]
    for number in range(6):
        layer = [world.put(object=f"{number} {side}", derived_from=layer) for side in "ab"]
    with refused(DENIED):
        world.supersede(world.put(object="target"), object="new", derived_from=layer)


def goal(world: World, state: str = "active", **fields: Any) -> dict[str, Any]:
    return grain(world.now, type="goal", description="make tea", goal_state=state, **fields)


@pytest.mark.requirement("OMS-23.5-goals")
def test_a_goal_lives_its_own_life_under_its_policy(world: World) -> None:
    locked = {"mode": "locked"}
    grains = world.service.grains
    first = grains.put(
        world.owner,
        goal(world, invalidation_policy=locked, allowed_transitions=["satisfied", "suspended"], evidence_required=1),
    ).address
    with refused(DENIED):
        grains.supersede(world.owner, first, goal(world, "failed"))
    with refused("ERR_EVIDENCE_REQUIRED"):
        grains.supersede(world.owner, first, goal(world, "satisfied"))
    with refused(DENIED):
        grains.supersede(world.owner, first, goal(world, "active", criteria=["hot"]))
    done = grains.supersede(world.owner, first, goal(world, "satisfied", satisfaction_evidence=["a cup"]))
    # OMS §23.5: no laundering. What follows stands under the same policy, though it did not say so.
    assert world.grain(done.address).grain.fields["invalidation_policy"] == locked
    with refused(DENIED):
        grains.supersede(world.owner, done.address, goal(world, "active"))


@pytest.mark.requirement("OMS-23.5-goals")
def test_an_ending_without_evidence_is_to_be_looked_at(world: World) -> None:
    policy = {"mode": "locked"}
    first = world.service.grains.put(
        world.owner, goal(world, invalidation_policy=policy, allowed_transitions=["failed"])
    ).address
    ended = world.service.grains.supersede(world.owner, first, goal(world, "failed"))
    assert ended.needs_review


@pytest.mark.requirement("OMS-23.5-goals")
def test_a_signed_goal_must_carry_the_policy_it_inherits(world: World) -> None:
    policy = {"mode": "locked"}
    first = world.service.grains.put(
        world.owner, goal(world, invalidation_policy=policy, allowed_transitions=["suspended"])
    ).address
    bare = signature.sign(goal(world, "suspended"), PEER, issued_at=1_780_000_000)
    with refused("ERR_SCHEMA", "inherits"):
        world.service.grains.supersede(world.owner, first, bare)
    whole = signature.sign(goal(world, "suspended", invalidation_policy=policy), PEER, issued_at=1_780_000_000)
    world.service.grains.supersede(world.owner, first, whole)


@pytest.mark.requirement("OMS-23-enforced")
def test_a_record_made_from_a_protected_grain_is_protected_like_it(world: World) -> None:
    address = protected(world, POLICIES["locked"])
    record = world.as_record(address)
    elsewhere = World()
    try:
        name = elsewhere.service.remember(elsewhere.owner, record).id
        with refused(DENIED):
            elsewhere.revise(name, body={"text": "no"})
        with refused(DENIED):
            elsewhere.supersede(elsewhere.as_grain(name).address, object="coffee")
    finally:
        elsewhere.service.close()


@pytest.mark.requirement("OMS-23-enforced")
def test_a_record_cannot_take_the_address_of_a_protected_grain(world: World) -> None:
    address = protected(world, POLICIES["locked"])
    record = world.as_record(address)
    bare = {name: record[name] for name in ("kind", "body", "scope", "provenance")}
    name = world.service.remember(world.owner, bare).id
    assert name != record["id"]
    world.grains(current=False)
    assert world.named("oms", address).document.standard == "oms"
    with refused(DENIED):
        supersede(world, address)
