"""What binds consolidation from outside: credentials, tenants and namespaces, users, consent, retention, erasure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.consolidation.strategies.dream import Options
from memoranda.errors import CrossNamespace, ForbiddenScope, NotFound
from memoranda.model.instant import format_instant
from memoranda.service.consolidation.results import DETAILS_KEY
from memoranda.standards.oams.mapping import EXPIRES_KEY, VISIBILITY_KEY
from memoranda.standards.oams.memory import STRATEGIES
from tests.proofs.test_erasure import found_in_files
from tests.service.dreaming import KEYS, Dreams, outcome
from tests.service.oams_verbs import namespace
from tests.service.test_oams_access import ADA, BOB, token
from tests.service.world import PEER, World

DAY = 86_400_000
VERBS = ("read", "write", "derive")
CLAIMED = "user-x123ab:personal"
SAME = "The moon is made of cheese."


@pytest.fixture
def dreams(world: World) -> Dreams:
    dreams = Dreams(world)
    dreams.fill()
    return dreams


@pytest.fixture
def make() -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def made(**fields: Any) -> World:
        worlds.append(World(**fields))
        return worlds[-1]

    yield made
    for world in worlds:
        world.service.close()


def filled(world: World, tenant: str, space: str = "") -> Dreams:
    dreams = Dreams(world, namespace(tenant, space), world.key(tenant))
    dreams.fill()
    return dreams


# --- isolation -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-dream-isolation")
def test_a_pass_never_crosses_a_tenant_nor_a_namespace(world: World) -> None:
    ada, bob = filled(world, ADA), filled(world, BOB)
    elsewhere = filled(world, ADA, "elsewhere")
    claimed = Dreams(world, CLAIMED, ada.access)
    claimed.store("tea", "Ada prefers green tea in the morning.")
    others = [bob, elsewhere, claimed]
    before = [each.listed() for each in others]
    runs = [ada.run(strategy) for strategy in STRATEGIES]
    assert {run.inputs for run in runs} == {len(KEYS)}
    for result in ada.results().values():
        assert {name for name, _ in result["metadata"]["dream_inputs"]} == {ada.namespace}
    assert [each.listed() for each in others] == before
    assert bob.runs() == []
    for run in runs:
        with pytest.raises(NotFound):
            bob.undo(run)
    # The same memories of another owner are another pass.
    assert bob.run().run_id != runs[0].run_id
    assert elsewhere.run().run_id != runs[0].run_id
    assert len(bob.runs()) == 1
    ada.undo(runs[0])
    assert bob.results()
    assert elsewhere.results()


@pytest.mark.requirement("OAMS-OURS-dream-isolation")
def test_a_key_consolidates_only_its_own_tenant(world: World) -> None:
    filled(world, ADA)
    bob = Dreams(world, namespace(ADA), world.key(BOB))
    # For Bob, the namespace of somebody else is one that he claims, and there is nothing in his.
    for dry in (True, False):
        with pytest.raises(NotFound):
            bob.run(dry=dry)


@pytest.mark.requirement("OAMS-OURS-dream-access")
@pytest.mark.parametrize("verbs", [("read",), ("read", "write"), ("read", "derive"), ("write", "derive"), ("export",)])
def test_writing_needs_read_write_and_derive(dreams: Dreams, verbs: tuple[str, ...]) -> None:
    tenant = dreams.access.default_tenant
    run = dreams.run("reflect")
    peer = token(dreams.world, {"owner": tenant}, *verbs, audience=PEER.did)
    for access in (dreams.world.key(tenant, *verbs), token(dreams.world, {"owner": tenant}, *verbs), peer):
        held = dreams.as_(access)
        with pytest.raises(ForbiddenScope):
            held.run()
        if "read" in verbs:
            assert held.run(dry=True).is_dry
        else:
            with pytest.raises(ForbiddenScope):
                held.run(dry=True)
            with pytest.raises(ForbiddenScope):
                held.runs()
        if not {"write", "derive"} <= set(verbs):
            with pytest.raises(ForbiddenScope):
                held.undo(run)
    assert set(dreams.results()) == set(outcome(run))


@pytest.mark.requirement("OAMS-OURS-dream-access")
def test_who_sees_only_a_part_can_only_run_it_dry(dreams: Dreams) -> None:
    tenant = dreams.access.default_tenant
    dreams.store("shared", "Ada prefers green tea in the morning.", metadata={VISIBILITY_KEY: "shared"})
    run = dreams.run("reflect")
    for access in (
        token(dreams.world, {"owner": tenant}, *VERBS, audience=PEER.did),
        token(dreams.world, {"owner": tenant, "visibility": "shared"}, *VERBS),
        token(dreams.world, {"owner": tenant, "agent": "a"}, *VERBS),
    ):
        held = dreams.as_(access)
        with pytest.raises(ForbiddenScope, match="whole namespace"):
            held.run()
        with pytest.raises(ForbiddenScope, match="whole namespace"):
            held.undo(run)
        assert held.run("reflect", dry=True).inputs <= 1
    assert set(dreams.results()) == set(outcome(run))


def test_a_token_for_one_project_consolidates_that_one(world: World) -> None:
    inside, outside = filled(world, ADA, "p"), filled(world, ADA, "q")
    other = outside.run()
    narrow = token(world, {"owner": ADA, "project": "p"}, *VERBS)
    held = inside.as_(narrow)
    run = held.run()
    assert [each["run_id"] for each in held.runs()] == [run.run_id]
    for dry in (True, False):
        with pytest.raises(CrossNamespace):
            outside.as_(narrow).run(dry=dry)
    with pytest.raises(NotFound):
        held.undo(other)
    held.undo(run)
    assert outside.results()


@pytest.mark.requirement("OAMS-OURS-dream-audited")
def test_passes_and_undoing_them_are_on_record_without_a_word_of_what_they_read(dreams: Dreams) -> None:
    dreams.run("evolve", dry=True)
    run = dreams.run("evolve")
    dreams.run("evolve")
    dreams.undo(run)
    said = dreams.audited("oams.consolidate", "oams.undo")
    assert [(each["op"], each["result"], each["meta"].get("dry_run")) for each in said] == [
        ("oams.consolidate", "1 would be written, 0 would be withdrawn", True),
        ("oams.consolidate", "1 written, 0 withdrawn", False),
        ("oams.consolidate", "0 written, 0 withdrawn", False),
        ("oams.undo", "1 withdrawn, 0 restored", None),
    ]
    assert {each["meta"]["run_id"] for each in said} == {run.run_id}
    assert "5432" not in str(said)
    assert dreams.world.service.audit_verify(dreams.access).ok


# --- users ---------------------------------------------------------------------------------------------------


def of_users(world: World) -> Dreams:
    """The same said for two users and for none, twice each."""
    for scope in ({"user": "u"}, {"user": "v"}, {}):
        for tail in ("It is yellow.", "It is far away."):
            world.remember(f"{SAME} {tail} {scope.get('user', 'everybody')} says so.", scope=scope)
    return Dreams(world)


@pytest.mark.requirement("OAMS-OURS-dream-users")
@pytest.mark.parametrize("strategy", ["synthesize", "reflect", "compress", "associate"])
def test_memories_of_different_users_are_not_mixed(world: World, strategy: str) -> None:
    dreams = of_users(world)
    run = dreams.run(strategy)
    assert len(outcome(run)) == 3
    for each in run.outputs:
        users = {world.get(key)["scope"].get("user") for key, _ in each.inputs}
        assert len(users) == 1
        assert each.memory["metadata"][DETAILS_KEY].get("user") in users
    assert dreams.run(strategy).written_count == 0
    dreams.undo(run)
    assert dreams.results() == {}


@pytest.mark.requirement("OAMS-OURS-dream-users")
def test_what_was_made_of_a_users_memories_is_erased_with_the_user(make: Callable[..., World], tmp_path: Path) -> None:
    path = tmp_path / "store" / "memoranda.db"
    path.parent.mkdir()
    world = make(path=path)
    dreams = of_users(world)
    dreams.run()
    # Also after it was undone and brought again.
    world.remember(f"{SAME} It is round. u says so.", scope={"user": "u"})
    dreams.undo(dreams.run())
    assert sum("u says so" in value for value in dreams.values()) == 1
    done = world.service.grains.erase_user(world.owner, "u", reason="asked")
    assert done.held == 0
    assert not any("u says so" in value for value in dreams.values())
    assert sum("v says so" in value for value in dreams.values()) == 1
    assert not any("u says so" in text for text in world.texts("moon cheese"))


@pytest.mark.requirement("OAMS-OURS-dream-users")
def test_what_was_made_of_a_users_memories_is_encrypted_with_the_users_key(
    make: Callable[..., World], tmp_path: Path
) -> None:
    path = tmp_path / "store" / "memoranda.db"
    path.parent.mkdir()
    world = make(path=path, coverage="users")
    for tail in ("", " It is old."):
        world.remember(f"Bamboozlement is the finest art of all magicians.{tail}", scope={"user": "u"})
    dreams = Dreams(world)
    assert len(dreams.run().outputs) == len(dreams.run("reflect").outputs) == 1
    world.engine.flush()
    assert found_in_files(path.parent, ["Bamboozlement"]) == set()
    assert any("Bamboozlement" in value for value in dreams.values())


def test_a_claimed_namespace_is_its_users(world: World) -> None:
    claimed = Dreams(world, CLAIMED)
    claimed.fill()
    for strategy in STRATEGIES:
        claimed.run(strategy)
    assert DETAILS_KEY in next(iter(claimed.results().values()))["metadata"]
    done = world.service.grains.erase_user(world.owner, "user-x123ab", reason="asked")
    assert done.held == 0
    assert claimed.listed() == []


# --- consent, presets and retention --------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-dream-protected")
def test_words_that_may_not_leave_go_into_no_result(world: World) -> None:
    dreams = Dreams(world)
    dreams.store("open", SAME)
    dreams.store("open too", SAME)
    world.remember(f"{SAME} And nobody must know.", consent={"exportable": False})
    world.remember(f"{SAME} Nobody else sees this.", consent={"redact": ["body.text"]})
    world.remember(f"{SAME} Only its data are cut.", consent={"redact": ["body.structured.token"]})
    run = dreams.run()
    assert (run.inputs, run.stayed) == (3, 2)
    assert "obody" not in str(dreams.results())
    assert "Only its data are cut" in str(dreams.results())


@pytest.mark.requirement("OAMS-OURS-dream-protected")
def test_a_result_ends_with_the_first_of_its_inputs(world: World) -> None:
    dreams = Dreams(world)
    dreams.store("kept", SAME)
    dreams.store("brief", SAME, metadata={EXPIRES_KEY: format_instant(world.now + DAY)})
    world.remember(SAME, consent={"retention": "P2D"})
    (made,) = dreams.run().outputs
    assert made.memory["metadata"][EXPIRES_KEY] == format_instant(world.now + DAY)
    before = dreams.runs()
    world.advance(DAY)
    world.service.purge()
    assert dreams.results() == {}
    # What ended is not brought again; what is left of it is found anew.
    assert dreams.undo(before[0]["run_id"]).taken_back == ()
    (again,) = dreams.run().outputs
    assert again.memory["metadata"][EXPIRES_KEY] == format_instant(world.now + DAY)


@pytest.mark.requirement("OAMS-OURS-dream-protected")
def test_a_result_carries_the_marks_of_what_it_rests_on(world: World) -> None:
    dreams = Dreams(world)
    tags = [f"t{number:02}" for number in range(16)]
    dreams.store("a", SAME, tags=tags)
    dreams.store("b", SAME, tags=[*tags, "pii:email", "PHI:mrn"], metadata={"processing_basis": "contract"})
    dreams.store("c", SAME, tags=tags, metadata={"pii": True, "processing_basis": "contract"})
    dreams.store("d", SAME, tags=tags, metadata={"con:ccpa_opted_out": True})
    (made,) = dreams.run().outputs
    metadata = made.memory["metadata"]
    assert (metadata["pii"], metadata["processing_basis"], metadata["con:ccpa_opted_out"]) == (True, "contract", True)
    assert "pii:email" in made.memory["tags"]
    assert "pii:declared" not in made.memory["tags"]
    # Two purposes are no purpose.
    dreams.store("c", SAME, tags=tags, metadata={"pii": True, "processing_basis": "consent"})
    assert "processing_basis" not in dreams.run().outputs[0].memory["metadata"]


@pytest.mark.requirement("OAMS-OURS-dream-protected")
def test_a_preset_refuses_results_as_it_refuses_memories(make: Callable[..., World]) -> None:
    dreams = Dreams(make(presets=["gdpr"]))
    for number in range(4):
        basis = "contract" if number < 2 else f"basis {number}"
        text = SAME if number < 2 else "Tea is green."
        dreams.store(str(number), text, metadata={"pii": True, "processing_basis": basis})
    run = dreams.run()
    assert [each.memory["value"] for each in run.outputs] == [SAME]
    assert len(run.left_out) == 1
    assert run.left_out[0].startswith("gdpr")
    opted = Dreams(make(presets=["ccpa"]))
    opted.store("in", SAME)
    opted.store("out", SAME, metadata={"con:ccpa_opted_out": True})
    (made,) = opted.run().outputs
    assert made.memory["key"] not in [each["key"] for _, each in opted.verbs.export(opted.access)]


def test_a_result_that_somebody_retracted_is_not_made_again(dreams: Dreams) -> None:
    world = dreams.world
    (made,) = dreams.run("reflect").outputs
    record = next(r for r in world.service.list_records(world.owner)[0] if r["body"]["text"] == made.memory["value"])
    address = world.as_grain(record["id"]).address
    world.service.grains.set_verification(world.owner, address, "retracted", reason="wrong")
    assert outcome(dreams.run("reflect")) == {made.memory["key"]: "kept"}
    assert dreams.results() == {}


def test_holds_and_policies_of_inputs_do_not_stand_in_the_way(world: World) -> None:
    dreams = Dreams(world)
    locked = {"mode": "locked", "authorized": []}
    held = world.put(subject="Billing", relation="uses", object="PostgreSQL", namespace=None)
    world.put(subject="PostgreSQL", relation="requires", object="OpenSSL", namespace=None, invalidation_policy=locked)
    world.service.grains.set_hold(world.owner, held, held=True)
    run = dreams.run("insight_generate")
    assert len(run.outputs) == 1
    assert dreams.undo(run).left == ()


# --- erasure -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-OURS-dream-erased")
def test_after_an_erasure_the_next_pass_erases_what_rested_on_it(make: Callable[..., World], tmp_path: Path) -> None:
    path = tmp_path / "store" / "memoranda.db"
    path.parent.mkdir()
    world = make(path=path)
    dreams = Dreams(world)
    dreams.store("tea", "Bob likes tea. The pot is blue.")
    dreams.store("tea too", "Bob likes tea.")
    secret = world.remember("Bob likes tea. Flabbergasted he was.")
    merged = dreams.run()
    summed = dreams.run("compress", options=Options(budget_tokens=1_000))
    assert any("Flabbergasted" in value for value in dreams.values())
    world.forget(secret, hard=True)
    for strategy in ("synthesize", "compress"):
        dreams.run(strategy)
    world.engine.flush()
    assert not any("Flabbergasted" in value for value in dreams.values())
    assert found_in_files(path.parent, ["Flabbergasted"]) == set()
    # And nothing brings it up again.
    for run in dreams.runs():
        dreams.undo(run["run_id"])
    assert not any("Flabbergasted" in value for value in dreams.values())
    assert merged.run_id != summed.run_id
    assert world.service.verify(world.owner).ok
