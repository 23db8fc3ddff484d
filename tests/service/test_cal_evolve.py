"""ADD, SUPERSEDE and REVERT on a real store: what they write, what they refuse, and that a refusal leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.encoding.bases import base64url_decode
from memoranda.errors import ConsentViolation, ForbiddenScope, QueryError
from memoranda.model.instant import parse_instant
from memoranda.service.cal import evolve, prepare
from memoranda.service.cal.execution import Outcome, actor_id, create_entry
from memoranda.service.cal.session import CalSession, Switches, WriteQuotas, check_op, narrow_session, require_enabled
from memoranda.service.core.access import Access
from memoranda.standards.cal.language.binding import bind
from memoranda.standards.cal.language.canonical import canonical, query_hash
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import ParsedQuery
from memoranda.standards.cal.token import READ_OPS, WRITE_OPS, CapabilityToken
from tests.service.world import PEER, World

TWINS = (19671, 33919)
ADD = 'ADD belief SET subject = "alice" SET relation = "prefers" SET object = "oat milk" REASON "she said so"'


def session(world: World, **members: Any) -> CalSession:
    access = members.pop("access", world.owner)
    base: dict[str, Any] = {
        "access": access,
        "tenant": access.default_tenant,
        "namespace": "shared",
        "user_id": "alice",
        "tier1": True,
        "auto_approve": True,
        "now": world.now,
        "token_id": "t-1",
    }
    return CalSession(**{**base, **members})


def bound(text: str, params: dict[str, object] | None = None) -> ParsedQuery:
    return bind(parse(text), params or {}, text=text, current_user="alice")


def run(world: World, text: str, params: dict[str, object] | None = None, **members: Any) -> dict[str, Any]:
    query = bound(text, params)
    return dict(evolve.run(world.context, session(world, **members), query, query_hash(query)))


def add(world: World, **members: Any) -> str:
    return str(run(world, ADD, **members)["new_hash"])


def supersede(world: World, target: str, value: str = "soy milk", **members: Any) -> str:
    text = f'SUPERSEDE {target} SET object = "{value}" REASON "changed her mind"'
    return str(run(world, text, **members)["new_hash"])


def revert(world: World, target: str, **members: Any) -> dict[str, Any]:
    return run(world, f'REVERT {target} REASON "a misunderstanding"', **members)


def refused(world: World, text: str, **members: Any) -> QueryError:
    """The refusal; the store is as it was before."""
    before = state(world)
    with pytest.raises(QueryError) as caught:
        run(world, text, **members)
    assert state(world) == before
    return caught.value


def code(world: World, text: str, **members: Any) -> str:
    return refused(world, text, **members).cal_code


def state(world: World) -> tuple[Any, ...]:
    """Everything a statement could leave behind."""
    listed = [(each.address, each.index) for each in world.grains(current=False)]
    events = [event for event in log(world) if event["op"].startswith("cal.")]
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        return listed, events, snapshot.find_last_change()


def log(world: World) -> list[dict[str, Any]]:
    return world.service.audit(world.owner, {"limit": 1000})


def fields(world: World, hash_: str) -> dict[str, Any]:
    return dict(world.grain(hash_.removeprefix("sha256:")).grain.fields)


def head(hash_: str) -> str:
    return hash_.removeprefix("sha256:")


# --- ADD -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.8-add")
def test_a_belief_is_added_with_what_the_token_says_and_the_defaults(world: World) -> None:
    done = run(world, ADD)
    assert done.keys() == {"operation", "new_hash"}
    assert done["operation"] == "add"
    assert fields(world, done["new_hash"]) == {
        "type": "belief",
        "subject": "alice",
        "relation": "prefers",
        "object": "oat milk",
        "confidence": 0.8,
        "created_at": world.now,
        "namespace": "shared",
        "user_id": "alice",
        "source_type": "agent_inferred",
        "context": {"reason": "she said so"},
    }


@pytest.mark.requirement("CAL-8.8-add")
def test_what_is_said_replaces_the_defaults(world: World) -> None:
    said = 'SET confidence = 1 SET importance = 0.5 SET tags = ["food", "sha256:0"]'
    done = run(world, ADD.replace("REASON", f"{said} REASON"), namespace="work", source_type="user_explicit")
    found = fields(world, done["new_hash"])
    assert (found["confidence"], found["importance"], found["structural_tags"]) == (1.0, 0.5, ["food", "sha256:0"])
    assert (found["namespace"], found["source_type"]) == ("work", "user_explicit")


TRIPLE = 'SET subject = "alice" SET relation = "mg:intends" SET object = "run a marathon"'


@pytest.mark.requirement("CAL-8.8-add")
def test_a_goal_an_observation_and_a_reasoning_are_added_in_the_words_of_oms(world: World) -> None:
    goal = fields(world, run(world, f'ADD goal {TRIPLE} REASON "r"')["new_hash"])
    assert (goal["description"], goal["object"], goal["goal_state"]) == ("run a marathon", "run a marathon", "active")
    extra = f'SET goal_state = "completed" SET deadline = "2026-06-05" SET depends_on = sha256:{"ab" * 32}'
    goal = fields(
        world, run(world, f'ADD goal {TRIPLE} {extra} SET assigned_agent = "did:key:z" REASON "r"')["new_hash"]
    )
    assert (goal["goal_state"], goal["depends_on"]) == ("satisfied", ["ab" * 32])
    assert (goal["deadline"], goal["assigned_agent"]) == (parse_instant("2026-06-05T23:59:59.999Z"), "did:key:z")
    seen = fields(world, run(world, f'ADD observation {TRIPLE} REASON "r"')["new_hash"])
    assert (seen["observer_id"], seen["observer_type"]) == ("alice", "llm")
    extra = 'SET observer_id = "cam-1" SET observer_type = "camera"'
    seen = fields(world, run(world, f'ADD observation {TRIPLE} {extra} REASON "r"')["new_hash"])
    assert (seen["observer_id"], seen["observer_type"]) == ("cam-1", "camera")
    thought = fields(world, run(world, f'ADD reasoning {TRIPLE} REASON "r"')["new_hash"])
    assert thought["conclusion"] == "run a marathon"
    thought = fields(world, run(world, f'ADD reasoning {TRIPLE} SET content = "so she trains" REASON "r"')["new_hash"])
    assert (thought["conclusion"], thought["object"]) == ("so she trains", "run a marathon")
    assert "content" not in thought


@pytest.mark.parametrize("deadline", ['"2026-06-05T23:59:59.999Z"', "1780703999999"])
def test_a_deadline_may_be_an_instant_or_an_epoch(world: World, deadline: str) -> None:
    done = run(world, f'ADD goal {TRIPLE} SET deadline = {deadline} REASON "r"')
    assert fields(world, done["new_hash"])["deadline"] == 1_780_703_999_999


@pytest.mark.requirement("CAL-8.8-add-twice")
def test_the_same_add_twice_gives_two_grains(world: World) -> None:
    added = [add(world) for _ in range(3)]
    assert len(set(added)) == 3
    assert [fields(world, each)["created_at"] - world.now for each in added] == [0, 1, 2]


def test_the_same_add_does_not_bring_back_what_was_erased(world: World) -> None:
    first = add(world)
    world.service.grains.erase(world.owner, head(first), reason="asked to")
    assert add(world) != first


def test_parameters_are_values_and_nothing_else(world: World) -> None:
    text = 'ADD belief SET subject = $s SET relation = "is" SET object = $o REASON "r"'
    hostile = 'x" REASON "y" DELETE'
    done = run(world, text, {"s": hostile, "o": "o"})
    assert fields(world, done["new_hash"])["subject"] == hostile


def test_a_value_that_no_grain_can_hold_is_refused(world: World) -> None:
    text = 'ADD belief SET subject = $s SET relation = "is" SET object = "o" REASON "r"'
    error = refused(world, text, params={"s": "\ufeffmark"})
    assert error.cal_code == "CAL-E020"
    assert error.oms_error is not None
    assert code(world, text, params={"s": "x" * 1_100_000}) == "CAL-E020"


def test_what_is_added_is_a_memory_for_every_standard(world: World) -> None:
    added = add(world)
    assert world.texts("oat milk") == ["alice prefers oat milk"]
    assert world.events()[-1][0] == "created"
    assert world.as_record(head(added))["scope"]["user"] == "alice"


# --- SUPERSEDE -------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.9-supersede")
def test_superseding_keeps_the_payload_and_changes_what_is_set(world: World) -> None:
    old = world.put(importance=0.4, structural_tags=["a"], epistemic_status="certain", user_id="bob", license="MIT")
    world.advance(1000)
    text = f'SUPERSEDE sha256:{old} SET object = "coffee" SET tags = ["b"] REASON "told me"'
    done = run(world, text)
    assert done == {"operation": "supersede", "new_hash": done["new_hash"], "target_hash": f"sha256:{old}"}
    assert fields(world, done["new_hash"]) == {
        **fields(world, old),
        "object": "coffee",
        "structural_tags": ["b"],
        "created_at": world.now,
        "derived_from": [old],
        "supersession_justification": "told me",
    }
    before = world.grain(old)
    assert (before.index.superseded_by, before.index.system_valid_to) == (head(done["new_hash"]), world.now)


def test_a_successor_does_not_speak_in_the_name_of_the_earlier_author(world: World) -> None:
    old = world.put(author_did=PEER.did, derived_from=["x"], run_id="r1")
    new = fields(world, supersede(world, f"sha256:{old}"))
    assert "author_did" not in new
    assert (new["derived_from"], new["run_id"]) == ([old], "r1")


@pytest.mark.requirement("CAL-8.9-supersede-refusals")
def test_superseding_twice_is_a_conflict(world: World) -> None:
    old = add(world)
    supersede(world, old)
    assert code(world, f'SUPERSEDE {old} SET object = "rice milk" REASON "r"') == "CAL-E040"


@pytest.mark.requirement("CAL-8.9-supersede-refusals")
def test_what_is_no_belief_does_not_evolve(world: World) -> None:
    event = world.put(type="event", content="hello", role="user")
    assert code(world, f'SUPERSEDE sha256:{event} SET object = "o" REASON "r"') == "CAL-E042"
    assert code(world, f'REVERT sha256:{event} REASON "r"') == "CAL-E042"


@pytest.mark.requirement("CAL-8.9-supersede-refusals")
def test_only_a_whole_hash_tells_that_a_grain_is_in_another_namespace(world: World) -> None:
    there = world.put(namespace="work")
    for statement in ('SUPERSEDE {} SET object = "o" REASON "r"', 'REVERT {} REASON "r"'):
        assert code(world, statement.format(f"sha256:{there}")) == "CAL-E045"
        assert code(world, statement.format(f"sha256:{there[:20]}")) == "CAL-E046"
    assert supersede(world, f"sha256:{there[:20]}", namespace="work")


@pytest.mark.requirement("CAL-8.9-supersede-refusals")
def test_what_is_unknown_erased_or_forgotten_is_not_found(world: World) -> None:
    erased, forgotten = add(world), add(world)
    world.service.grains.erase(world.owner, head(erased), reason="asked to")
    world.forget(world.as_record(head(forgotten))["id"])
    for target in ("sha256:" + "0" * 64, "sha256:" + "0" * 8, erased, forgotten):
        assert code(world, f'SUPERSEDE {target} SET object = "o" REASON "r"') == "CAL-E046"
        assert code(world, f'REVERT {target} REASON "r"') == "CAL-E046"


def test_a_beginning_that_fits_several_grains_is_ambiguous(world: World) -> None:
    # Found by trying: the first two of these whose addresses begin with the same eight digits.
    found = [world.put(subject="a", relation="b", object=str(number), confidence=0.5) for number in TWINS]
    assert found[0][:8] == found[1][:8]
    for text in ('REVERT sha256:{} REASON "r"', 'SUPERSEDE sha256:{} SET object = "o" REASON "r"'):
        assert code(world, text.format(found[0][:8])) == "CAL-E015"
    assert supersede(world, f"sha256:{found[0][:32]}")
    # Both stay; and in another namespace neither is there.
    assert code(world, f'REVERT sha256:{found[0][:8]} REASON "r"', namespace="work") == "CAL-E046"


@pytest.mark.requirement("CAL-8.9-policy")
@pytest.mark.parametrize("mode", ["locked", "quorum", "delegated", "something new"])
def test_a_protected_belief_is_refused_with_the_code_of_oms(world: World, mode: str) -> None:
    old = world.put(invalidation_policy={"mode": mode, "authorized": [PEER.did], "threshold": 1})
    error = refused(world, f'SUPERSEDE sha256:{old} SET object = "o" REASON "r"')
    assert (error.cal_code, error.oms_error) == ("CAL-E042", "ERR_INVALIDATION_DENIED")


@pytest.mark.requirement("CAL-8.9-policy")
def test_a_held_belief_is_refused_and_a_soft_locked_one_goes_to_review(world: World) -> None:
    held, soft = world.put(object="held"), world.put(object="soft", invalidation_policy={"mode": "soft_locked"})
    world.service.grains.set_hold(world.owner, held, held=True)
    error = refused(world, f'SUPERSEDE sha256:{held} SET object = "o" REASON "r"')
    assert (error.cal_code, error.oms_error) == ("CAL-E042", "ERR_INVALIDATION_DENIED")
    # The REASON is the justification that the policy asks for.
    new = world.grain(head(supersede(world, f"sha256:{soft}")))
    assert new.needs_review
    assert new.grain.fields["invalidation_policy"] == {"mode": "soft_locked"}


def test_the_policy_of_a_lineage_protects_the_head_from_being_reverted(world: World) -> None:
    first = world.put(invalidation_policy={"mode": "soft_locked", "scope": "lineage"})
    second = supersede(world, f"sha256:{first}")
    world.service.grains.set_hold(world.owner, head(second), held=True)
    error = refused(world, f'REVERT {second} REASON "r"')
    assert (error.cal_code, error.oms_error) == ("CAL-E042", "ERR_INVALIDATION_DENIED")


# --- REVERT ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.10-revert")
def test_reverting_leaves_three_grains_and_supersedes_the_head(world: World) -> None:
    first = add(world)
    world.advance(10)
    second = supersede(world, first)
    world.advance(10)
    done = revert(world, second)
    third = done["new_hash"]
    assert done == {"operation": "revert", "new_hash": third, "target_hash": second, "previous_head": second}
    assert len({first, second, third}) == 3
    assert fields(world, third) == {
        **fields(world, first),
        "created_at": world.now,
        "derived_from": [head(second), head(first)],
        "supersession_justification": "a misunderstanding",
    }
    assert world.grain(head(first)).index.superseded_by == head(second)
    assert world.grain(head(second)).index.superseded_by == head(third)
    assert world.grain(head(third)).index.superseded_by is None
    assert world.texts("milk") == ["alice prefers oat milk"]


@pytest.mark.requirement("CAL-8.10-revert")
def test_any_version_can_be_the_target_and_the_head_is_what_is_replaced(world: World) -> None:
    first = add(world)
    second = supersede(world, first)
    third = supersede(world, second, "rice milk")
    done = revert(world, second)
    assert (done["target_hash"], done["previous_head"]) == (second, third)
    assert fields(world, done["new_hash"])["object"] == "oat milk"
    again = revert(world, done["new_hash"])
    assert fields(world, again["new_hash"])["object"] == "rice milk"


@pytest.mark.requirement("CAL-8.10-revert")
def test_the_first_version_has_nothing_before_it(world: World) -> None:
    first = add(world)
    assert code(world, f'REVERT {first} REASON "r"') == "CAL-E041"
    supersede(world, first)
    assert code(world, f'REVERT {first} REASON "r"') == "CAL-E041"


def test_what_was_erased_does_not_come_back(world: World) -> None:
    first = add(world)
    second = supersede(world, first)
    world.service.grains.erase(world.owner, head(first), reason="asked to")
    assert code(world, f'REVERT {second} REASON "r"') == "CAL-E041"


def test_what_was_forgotten_before_it_was_replaced_does_not_come_back(world: World) -> None:
    first = add(world)
    name = world.as_record(head(first))["id"]
    second = supersede(world, first)
    world.forget(name)
    assert code(world, f'REVERT {second} REASON "r"') == "CAL-E041"


# --- memories of other standards -------------------------------------------------------------------------


def test_a_memory_of_ump_that_shows_as_a_belief_evolves(world: World) -> None:
    name = world.remember("Ada likes tea", scope={"user": "ada"}, lifecycle={"confidence": 0.7})
    view = world.as_grain(name)
    new = supersede(world, f"sha256:{view.address}", "Ada likes coffee")
    found = fields(world, new)
    assert (found["object"], found["confidence"], found["user_id"]) == ("Ada likes coffee", 0.7, "ada")
    assert found["derived_from"] == [view.address]
    assert "context" not in found
    assert world.get(name)["superseded_by"] == [world.as_record(head(new))["id"]]
    assert world.texts("Ada likes") == ["Ada likes coffee"]
    back = fields(world, revert(world, new)["new_hash"])
    assert back["object"] == "Ada likes tea"


def test_new_tags_change_neither_the_kind_of_a_memory_of_ump_nor_who_may_see_it(world: World) -> None:
    name = world.remember("I am Ada", kind="identity", scope={"user": "ada", "visibility": "shared"})
    target = f"sha256:{world.as_grain(name).address}"
    new = run(world, f'SUPERSEDE {target} SET tags = ["name"] REASON "r"')["new_hash"]
    record = world.as_record(head(str(new)))
    assert (record["kind"], record["scope"]["visibility"]) == ("identity", "shared")
    assert record["body"]["text"] == "I am Ada"
    public = run(world, f'SUPERSEDE {new} SET tags = ["name", "visibility:public"] REASON "r"')["new_hash"]
    assert fields(world, str(public))["structural_tags"] == ["name", "visibility:public", "identity"]


def test_reverting_a_revision_of_ump_names_its_view(world: World) -> None:
    name = world.remember("Ada likes tea")
    later = world.revise(name, body={"text": "Ada likes coffee"})
    target = world.as_grain(name).address
    assert code(world, f'REVERT sha256:{target} REASON "r"') == "CAL-E041"
    done = revert(world, f"sha256:{world.as_grain(later).address}")
    assert world.grain(head(done["previous_head"])).grain.fields["object"] == "Ada likes coffee"
    assert fields(world, done["new_hash"])["object"] == "Ada likes tea"


@pytest.mark.parametrize("consent", [{"retention": "P30D"}, {"exportable": False}, {"redact": ["body.text"]}])
def test_a_consent_that_no_grain_can_carry_is_not_shaken_off(world: World, consent: dict[str, Any]) -> None:
    view = world.as_grain(world.remember("Ada likes tea", consent=consent))
    assert code(world, f'SUPERSEDE sha256:{view.address} SET object = "o" REASON "r"') == "CAL-E042"


def test_a_memory_past_its_retention_is_not_found(world: World) -> None:
    view = world.as_grain(world.remember("Ada likes tea", consent={"retention": "P1D"}))
    world.advance(86_400_001)
    assert code(world, f'SUPERSEDE sha256:{view.address} SET object = "o" REASON "r"') == "CAL-E046"


def test_the_basis_and_the_marks_of_a_record_go_with_it(world: World) -> None:
    marks = [{"type": "about", "target": "tag:pii:email"}]
    based = {"text": "a@b.example", "structured": {"processing_basis": "contract"}}
    view = world.as_grain(world.remember("", body=based, relations=marks))
    found = fields(world, supersede(world, f"sha256:{view.address}", "c@d.example"))
    assert found["processing_basis"] == "contract"
    assert "pii:email" in found["structural_tags"]


# --- who may ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-18-tier")
def test_nothing_is_written_while_tier_1_is_off(world: World) -> None:
    first = add(world)
    for text in (ADD, f'SUPERSEDE {first} SET object = "o" REASON "r"', f'REVERT {first} REASON "r"'):
        assert code(world, text, tier1=False) == "CAL-E044"
        # What it would do can still be asked, and is not done.
    before = state(world)
    assert evolve.preview_effects(world.context, session(world, tier1=False), bound(ADD))
    assert state(world) == before


@pytest.mark.requirement("CAL-18-two-phases")
def test_what_writes_is_prepared_first_unless_the_host_approves(world: World) -> None:
    error = refused(world, ADD, auto_approve=False)
    assert (error.cal_code, error.reason) == ("CAL-E044", "not_prepared")
    assert add(world, auto_approve=True)


@pytest.mark.requirement("CAL-18-operations")
def test_a_token_allows_operations_and_types(world: World) -> None:
    first = add(world)
    assert refused(world, ADD, allowed_ops=frozenset(READ_OPS)).reason == "op_not_allowed"
    assert refused(world, ADD, allowed_grain_types=frozenset({"goal"})).reason == "type_not_allowed"
    change = f'SUPERSEDE {first} SET object = "o" REASON "r"'
    assert refused(world, change, allowed_grain_types=frozenset({"goal"})).reason == "type_not_allowed"
    assert run(world, change, allowed_ops=frozenset({"Supersede"}), allowed_grain_types=frozenset({"belief"}))
    check_op(session(world), "Recall", ["event"])


def test_a_capability_token_sets_namespace_user_quota_and_uses(world: World) -> None:
    token = CapabilityToken(
        token_id="cap",
        namespace="work",
        user_id="bob",
        tier=1,
        allowed_ops=READ_OPS + WRITE_OPS,
        issued_at=world.now,
        expires_at=world.now + 300_000,
        max_uses=2,
        write_quota_remaining=5,
    )
    limited = narrow_session(session(world), token)
    query = bound(ADD)
    for _ in range(2):
        done = evolve.run(world.context, limited, query, query_hash(query))
        assert (fields(world, done["new_hash"])["namespace"], fields(world, done["new_hash"])["user_id"]) == (
            "work",
            "bob",
        )
    with pytest.raises(QueryError) as caught:
        evolve.run(world.context, limited, query, query_hash(query))
    assert (caught.value.cal_code, caught.value.reason) == ("CAL-E044", "replayed")
    assert not narrow_session(session(world), replace(token, tier=0, allowed_ops=READ_OPS)).tier1


def test_another_owners_grain_is_not_found_and_a_reader_cannot_write(world: World) -> None:
    other = world.key("did:web:other.example")
    theirs = world.put(access=other, structural_tags=["visibility:public"])
    assert code(world, f'SUPERSEDE sha256:{theirs} SET object = "o" REASON "r"') == "CAL-E046"
    reader = world.key(world.owner.default_tenant, "read")
    with pytest.raises(ForbiddenScope):
        run(world, ADD, access=reader)


def test_a_peer_changes_only_what_it_can_see_whole(world: World) -> None:
    owner = world.owner
    peer = Access(
        credential="token:p", actor="did:web:p", tenant=owner.tenant, is_peer=True, default_tenant=owner.default_tenant
    )
    private, shared = world.put(), world.put(object="shared", structural_tags=["visibility:shared"])
    assert code(world, f'SUPERSEDE sha256:{private} SET object = "o" REASON "r"', access=peer) == "CAL-E046"
    second = supersede(world, f"sha256:{shared}", access=peer)
    # The owner makes the newest version private, and with it the earlier ones: a peer finds none of them.
    third = run(world, f'SUPERSEDE {second} SET tags = [] REASON "mine"')["new_hash"]
    assert code(world, f'REVERT {second} REASON "r"', access=peer) == "CAL-E046"
    assert code(world, f'REVERT {third} REASON "r"', access=peer) == "CAL-E046"


@pytest.mark.requirement("CAL-20-kill-switch")
def test_the_master_switch_refuses_everything() -> None:
    require_enabled(Switches())
    with pytest.raises(QueryError) as caught:
        require_enabled(Switches(master=False))
    assert caught.value.cal_code == "CAL-E000"


# --- quotas ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-20-quotas")
def test_twenty_additions_a_minute_and_no_more(world: World) -> None:
    for _ in range(20):
        add(world)
    assert code(world, ADD) == "CAL-E052"
    # Another user, and another namespace, have their own.
    assert add(world, user_id="bob")
    assert add(world, namespace="work")


@pytest.mark.requirement("CAL-20-quotas")
def test_the_window_slides(world: World) -> None:
    few = WriteQuotas(add=2)
    add(world, quotas=few)
    world.advance(40_000)
    add(world, quotas=few)
    world.advance(19_999)
    assert code(world, ADD, quotas=few) == "CAL-E052"
    world.advance(1)
    add(world, quotas=few)
    assert code(world, ADD, quotas=few) == "CAL-E052"
    world.advance(40_000)
    add(world, quotas=few)


@pytest.mark.requirement("CAL-20-quotas")
def test_ten_supersessions_and_five_reversions_a_minute(world: World) -> None:
    current = add(world)
    for number in range(10):
        current = supersede(world, current, f"milk {number}")
    assert code(world, f'SUPERSEDE {current} SET object = "o" REASON "r"') == "CAL-E043"
    for _ in range(5):
        current = revert(world, current)["new_hash"]
    assert code(world, f'REVERT {current} REASON "r"') == "CAL-E043"


def test_the_write_quota_of_a_token_covers_all_that_writes(world: World) -> None:
    first = add(world, write_quota=2, token_id="q")
    supersede(world, first, write_quota=2, token_id="q")
    assert code(world, ADD, write_quota=2, token_id="q") == "CAL-E043"
    assert code(world, ADD, write_quota=0, token_id="r") == "CAL-E043"


def test_a_refusal_uses_nothing_up(world: World) -> None:
    few = WriteQuotas(supersede=1)
    locked = world.put(invalidation_policy={"mode": "locked"})
    for _ in range(3):
        assert code(world, f'SUPERSEDE sha256:{locked} SET object = "o" REASON "r"', quotas=few) == "CAL-E042"
    assert supersede(world, add(world), quotas=few)


# --- compliance ------------------------------------------------------------------------------------------


@pytest.fixture
def gdpr() -> Iterator[World]:
    world = World(presets=["gdpr"])
    yield world
    world.service.close()


@pytest.mark.requirement("CAL-19-no-weakening")
def test_presets_hold_for_what_a_query_writes(gdpr: World) -> None:
    before = state(gdpr)
    with pytest.raises(ConsentViolation):
        run(gdpr, ADD)
    with pytest.raises(ConsentViolation):
        evolve.preview_effects(gdpr.context, session(gdpr), bound(ADD))
    assert state(gdpr) == before
    based = gdpr.put(user_id="ada", processing_basis="contract")
    assert fields(gdpr, supersede(gdpr, f"sha256:{based}"))["processing_basis"] == "contract"


@pytest.mark.requirement("CAL-19-no-weakening")
def test_what_is_marked_sensitive_stays_marked_under_a_preset(gdpr: World) -> None:
    old = gdpr.put(structural_tags=["pii:email", "old"], processing_basis="contract")
    new = run(gdpr, f'SUPERSEDE sha256:{old} SET tags = ["new"] REASON "r"')["new_hash"]
    assert fields(gdpr, new)["structural_tags"] == ["new", "pii:email"]


# --- two phases ------------------------------------------------------------------------------------------


def prepared(world: World, text: str, params: dict[str, object] | None = None, **members: Any) -> dict[str, Any]:
    query = bound(text, params)
    who = session(world, auto_approve=False, **members)
    return prepare.prepare(world.context, who, query, query_hash(query), canonical(query), params or {})


def execute(world: World, token: str, **members: Any) -> dict[str, Any]:
    opened = prepare.open_prepared(world.context, session(world, auto_approve=False, **members), token)
    query = bound(opened.text, opened.params)
    assert query_hash(query) == opened.query_hash
    return dict(evolve.run(world.context, opened.session, query, opened.query_hash))


def rejection(world: World, token: str, **members: Any) -> tuple[str, str | None]:
    before = state(world)
    with pytest.raises(QueryError) as caught:
        execute(world, token, **members)
    assert state(world) == before
    return caught.value.cal_code, caught.value.reason


WITH_PARAMS = 'ADD belief SET subject = $s SET relation = "is" SET object = "o" SET tags = $t REASON "r"'


@pytest.mark.requirement("CAL-18-two-phases")
def test_what_was_prepared_is_what_is_executed(world: World) -> None:
    before = state(world)
    values: dict[str, object] = {"s": "a secret name", "t": ["x", "y"], "unused": object()}
    answer = prepared(world, WITH_PARAMS, values, namespace="work", user_id="bob", agent_id="a-1")
    assert answer.keys() == {"token", "tier", "side_effects"}
    assert answer["tier"] == 1
    (effect,) = answer["side_effects"]
    assert (effect["operation"], effect["reason"]) == ("add", "r")
    assert effect["grain"]["subject"] == "a secret name"
    assert state(world) == before
    world.advance(299_999)
    # Executed by a request that names another namespace and user: the token's count.
    done = execute(world, answer["token"], namespace="other", user_id="eve")
    found = fields(world, done["new_hash"])
    assert {**effect["grain"], "created_at": world.now} == found
    assert (found["namespace"], found["user_id"]) == ("work", "bob")


@pytest.mark.requirement("CAL-18-two-phases")
def test_the_token_of_a_prepared_query_tells_nothing(world: World) -> None:
    token = prepared(world, WITH_PARAMS, {"s": "a secret name", "t": []})["token"]
    raw = base64url_decode(token.removeprefix("calprep."))
    assert b"secret" not in raw
    assert b"belief" not in raw


@pytest.mark.requirement("CAL-18-token-refusals")
def test_a_prepared_query_runs_once(world: World) -> None:
    first = add(world)
    token = prepared(world, f'SUPERSEDE {first} SET object = "o" REASON "r"')["token"]
    execute(world, token)
    # Not CAL-E040, although the target is superseded by now: who may not run it learns nothing about it.
    assert rejection(world, token) == ("CAL-E044", "replayed")
    world.advance(299_999)
    assert rejection(world, token) == ("CAL-E044", "replayed")


@pytest.mark.requirement("CAL-18-token-refusals")
def test_a_prepared_query_expires(world: World) -> None:
    token = prepared(world, ADD)["token"]
    world.advance(300_000)
    assert rejection(world, token) == ("CAL-E044", "expired")


@pytest.mark.requirement("CAL-18-token-refusals")
def test_a_prepared_query_is_for_the_credential_that_prepared_it(world: World) -> None:
    token = prepared(world, ADD)["token"]
    same_owner = world.key(world.owner.default_tenant)
    assert rejection(world, token, access=same_owner) == ("CAL-E044", "bad_signature")
    assert rejection(world, token, access=world.key("did:web:other.example")) == ("CAL-E044", "bad_signature")


@pytest.mark.requirement("CAL-18-token-refusals")
def test_a_changed_token_is_refused(world: World) -> None:
    token = prepared(world, ADD)["token"]
    place = len(token) // 2
    changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
    junk = [
        "",
        "calprep.",
        "calprep.AAAA",
        "caltok.AAAA",
        token[:-4],
        token + "AAAA",
        "é",
        "calprep." + "A" * 3_000_000,
    ]
    for bad in (changed, *junk):
        assert rejection(world, bad) == ("CAL-E044", "bad_signature")


def test_a_refused_execution_does_not_spend_the_token(world: World) -> None:
    few = WriteQuotas(add=1)
    token = prepared(world, ADD)["token"]
    add(world, quotas=few)
    assert rejection(world, token, quotas=few)[0] == "CAL-E052"
    world.advance(60_000)
    assert execute(world, token, quotas=few)


def test_a_prepared_query_runs_once_however_many_try_at_once(tmp_path: Path) -> None:
    world = World(path=tmp_path / "store.db")
    try:
        token = prepared(world, ADD)["token"]

        def attempt(_: int) -> str:
            try:
                return str(execute(world, token)["operation"])
            except QueryError as error:
                return str(error.reason)

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(attempt, range(16))) == ["add", *["replayed"] * 15]
        assert len(world.grains()) == 1
    finally:
        world.service.close()


def test_many_who_supersede_at_once_make_one_chain(tmp_path: Path) -> None:
    world = World(path=tmp_path / "store.db")
    try:
        first = add(world)

        def attempt(number: int) -> str:
            try:
                return supersede(world, first, f"milk {number}")
            except QueryError as error:
                return error.cal_code

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(attempt, range(8)))
        assert answers.count("CAL-E040") == 7
        assert len(world.grains(current=False)) == 2
    finally:
        world.service.close()


def test_changes_are_encrypted_with_the_user_and_go_with_the_user() -> None:
    world = World(coverage="users")
    try:
        second = supersede(world, add(world))
        assert fields(world, revert(world, second)["new_hash"])["object"] == "oat milk"
        assert world.service.grains.erase_user(world.owner, "alice", reason="asked to").erased == 3
        assert code(world, f'REVERT {second} REASON "r"') == "CAL-E046"
    finally:
        world.service.close()


def test_switching_tier_1_off_stops_what_was_prepared(world: World) -> None:
    token = prepared(world, ADD)["token"]
    assert rejection(world, token, tier1=False) == ("CAL-E044", "tier1_disabled")


def test_what_could_not_be_executed_is_not_prepared(world: World) -> None:
    locked = world.put(invalidation_policy={"mode": "locked"})
    cases: list[tuple[str, dict[str, Any], str]] = [
        (ADD, {"tier1": False}, "CAL-E044"),
        (ADD, {"allowed_ops": frozenset(READ_OPS)}, "CAL-E044"),
        (f'SUPERSEDE sha256:{"0" * 64} SET object = "o" REASON "r"', {}, "CAL-E046"),
        (f'SUPERSEDE sha256:{locked} SET object = "o" REASON "r"', {}, "CAL-E042"),
        (f'REVERT sha256:{locked} REASON "r"', {}, "CAL-E041"),
    ]
    for text, members, expected in cases:
        with pytest.raises(QueryError) as caught:
            prepared(world, text, **members)
        assert caught.value.cal_code == expected


def test_the_limits_of_a_capability_token_go_with_what_it_prepared(world: World) -> None:
    limits: dict[str, Any] = {"token_id": "cap", "write_quota": 1, "max_uses": 5}
    tokens = [prepared(world, ADD, **limits)["token"] for _ in range(2)]
    execute(world, tokens[0])
    assert rejection(world, tokens[1])[0] == "CAL-E043"


def test_a_query_that_reads_is_prepared_too_and_runs_once(world: World) -> None:
    text = "RECALL WHERE hash = $h"
    answer = prepared(world, text, {"h": "sha256:" + "a" * 64})
    assert (answer["tier"], answer["side_effects"]) == (0, [])
    opened = prepare.open_prepared(world.context, session(world), answer["token"])
    assert opened.text == "CAL/1 RECALL WHERE hash = $h"
    assert opened.params == {"h": "sha256:" + "a" * 64}
    with pytest.raises(QueryError) as caught:
        prepare.open_prepared(world.context, session(world), answer["token"])
    assert caught.value.reason == "replayed"


def test_a_preview_shows_the_change_and_its_target(world: World) -> None:
    first = add(world)
    second = supersede(world, first)
    for text, operation, value in (
        (f'SUPERSEDE {second} SET object = "rice milk" REASON "r"', "supersede", "rice milk"),
        (f'REVERT {second} REASON "r"', "revert", "oat milk"),
    ):
        before = state(world)
        (effect,) = evolve.preview_effects(world.context, session(world), bound(text))
        assert state(world) == before
        assert (effect["operation"], effect["target_hash"], effect["reason"]) == (operation, second, "r")
        grain: Any = effect["grain"]
        assert grain["object"] == value
        assert "created_at" not in grain


# --- audit -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-19-audit-evolve")
def test_each_change_is_on_record_with_exactly_what_is_required(world: World) -> None:
    first = add(world, agent_id="agent-7")
    second = supersede(world, first)
    third = revert(world, second)["new_hash"]
    entries = [event for event in log(world) if event["op"].startswith("cal.")]
    assert [event["op"] for event in entries] == ["cal.add", "cal.supersede", "cal.revert"]
    actor = actor_id(world.context, "alice")
    common = {
        "token_id": "t-1",
        "namespace": "shared",
        "actor_id": actor,
        "tier": 1,
        "duration_ms": 0,
        "credential": "local",
    }
    assert entries[0]["meta"] == {
        **common,
        "agent_id": "agent-7",
        "query_hash": query_hash(parse(ADD)),
        "operation": "add",
        "new_hash": first,
        "reason": "she said so",
    }
    assert entries[2]["meta"] == {
        **common,
        "query_hash": query_hash(parse(f'REVERT {second} REASON "a misunderstanding"')),
        "operation": "revert",
        "new_hash": third,
        "target_hash": second,
        "reason": "a misunderstanding",
    }
    assert entries[1]["targets"] == [head(second), head(first)]
    assert world.service.audit_verify(world.owner).ok


@pytest.mark.requirement("CAL-19-audit-evolve")
def test_no_value_and_no_user_is_on_record(world: World) -> None:
    text = 'ADD belief SET subject = $s SET relation = "is" SET object = "a literal" REASON "r"'
    token = prepared(world, text, {"s": "a secret name"}, user_id="a secret user")["token"]
    execute(world, token)
    written = json.dumps(log(world))
    for secret in ("a secret name", "a secret user", "a literal", "alice"):
        assert secret not in written


def test_the_entry_of_a_read_and_of_a_failure(world: World) -> None:
    asked: dict[str, Any] = {"query_hash": "sha256:00", "duration_ms": 3}
    alice = actor_id(world.context, "alice")
    who = session(world, namespace="work", prepared_id="p-1")
    read = create_entry(world.context, who, Outcome(result_count=4), statement_type="recall", tier=0, **asked)
    common = {
        "token_id": "p-1",
        "namespace": "work",
        "actor_id": alice,
        **asked,
        "credential": "local",
    }
    assert (read.op, read.result, dict(read.scope)["project"]) == ("cal.recall", "4 results", "work")
    assert read.meta == {**common, "tier": 0, "result_count": 4}
    refusal = Outcome(operation="add", error_code="CAL-E052", reason="r")
    failed = create_entry(world.context, who, refusal, statement_type="add", tier=1, **asked)
    assert failed.result == "CAL-E052"
    assert failed.meta == {
        **common, "tier": 1, "result_count": 0, "operation": "add", "error_code": "CAL-E052", "reason": "r",
    }  # fmt: skip
    stream = {"stream_enabled": True, "events_emitted": 9, "cancelled": False, "text": "never"}
    streamed = create_entry(world.context, who, Outcome(stream=stream), statement_type="assemble", tier=0, **asked)
    assert streamed.meta == {
        **common, "tier": 0, "result_count": 0, "stream_enabled": True, "events_emitted": 9, "cancelled": False,
    }  # fmt: skip


# --- what happens between looking and writing ---------------------------------------------------------------


def meanwhile(world: World, act: Callable[[], object]) -> None:
    """Let somebody act at the very moment before the next unit of work."""
    engine, real = world.engine, world.engine.write

    def write(tenant, work):  # type: ignore[no-untyped-def]
        engine.write = real  # type: ignore[method-assign]
        act()
        return real(tenant, work)

    engine.write = write  # type: ignore[method-assign]


def test_what_was_superseded_meanwhile_is_not_superseded_again(world: World) -> None:
    target = add(world)
    meanwhile(world, lambda: supersede(world, target, "rice milk"))
    with pytest.raises(QueryError) as caught:
        supersede(world, target)
    assert caught.value.cal_code == "CAL-E040"


def test_what_was_erased_meanwhile_does_not_come_back_by_a_revert(world: World) -> None:
    target = add(world)
    second = supersede(world, target)
    meanwhile(world, lambda: world.service.grains.erase(world.owner, head(target), reason="asked to"))
    with pytest.raises(QueryError):
        revert(world, second)


def test_the_very_same_added_meanwhile_is_another_grain(world: World) -> None:
    added: list[str] = []
    meanwhile(world, lambda: added.append(add(world)))
    added.append(add(world))
    assert len(set(added)) == 2


def test_a_token_that_was_used_meanwhile_is_refused_before_anything_else(world: World) -> None:
    target = add(world)
    meanwhile(world, lambda: supersede(world, target, prepared_id="once"))
    with pytest.raises(QueryError) as caught:
        supersede(world, target, prepared_id="once")
    assert caught.value.cal_code == "CAL-E044"
