"""What an owner asks for beyond the server: it holds through every standard, in every process, and for nobody else."""

from __future__ import annotations

import pytest

from memoranda.errors import ConsentViolation, ForbiddenScope, InvalidInput, QuotaExceeded
from memoranda.service.core.limits import NO_RULES, OwnRules
from tests.service.oams_verbs import Oams
from tests.service.world import World

OTHER = "did:example:other"


def test_a_preset_of_ones_own_holds_through_every_standard_and_for_nobody_else(world: World) -> None:
    other = world.key(OTHER, "read", "write", "derive", "export", "erase")
    world.service.set_rules(world.owner, OwnRules(presets=("gdpr",)))
    with pytest.raises(ConsentViolation):
        world.remember("about a person", scope={"user": "ada"})
    with pytest.raises(ConsentViolation):
        Oams(world).store("k", "about a person", metadata={"pii": True})
    with pytest.raises(ConsentViolation):
        world.put(type="belief", subject="ada", relation="likes", object="tea", user_id="ada")
    world.remember("about a person", access=other, scope={"user": "ada"})
    world.service.set_rules(world.owner, NO_RULES)
    world.remember("about a person", scope={"user": "ada"})


def test_a_limit_of_ones_own_is_never_more_than_the_servers(world: World) -> None:
    world.service.set_rules(world.owner, OwnRules(memories=2))
    world.remember("one")
    Oams(world).store("two", "two")
    with pytest.raises(QuotaExceeded):
        world.put(type="belief", subject="ada", relation="likes", object="tea")
    world.service.set_rules(world.owner, OwnRules(memories=3))
    world.put(type="belief", subject="ada", relation="likes", object="tea")
    with pytest.raises(QuotaExceeded):
        world.remember("four")


def test_another_process_holds_to_them_at_once(world: World) -> None:
    """The tenant's row has them, which every unit of work begins with."""
    world.service.set_rules(world.owner, OwnRules(memories=1, presets=("hipaa",)))
    with world.engine.open_snapshot(world.owner.default_tenant) as snapshot:
        assert world.service.context.quotas_of(snapshot).memories == 1
        assert world.service.context.presets_in(snapshot) == {"hipaa"}
    assert world.service.rules(world.owner) == OwnRules(memories=1, presets=("hipaa",))
    entries = [each for each in world.service.audit(world.owner, {}) if each["op"] == "rules"]
    assert entries[-1]["meta"]["presets"] == ["hipaa"]


def test_only_the_owner_changes_them_and_nothing_is_accepted_that_is_none(world: World) -> None:
    with pytest.raises(ForbiddenScope):
        world.service.set_rules(world.token("read", "write"), OwnRules(memories=1))
    with pytest.raises(ForbiddenScope):
        world.service.audit_prune(world.token("read", "write"), world.now)
    assert world.service.rules(world.owner) == OwnRules()
    with pytest.raises(InvalidInput):
        OwnRules(presets=("sox",))
    with pytest.raises(InvalidInput):
        OwnRules(memories=-1)
