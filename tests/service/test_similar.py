"""A new memory is told the memories that it may replace."""

from __future__ import annotations

import pytest

from memoranda import Memoranda
from memoranda.errors import NotFound, StoreUnavailable
from memoranda.service.ump import similar
from tests.service.world import World


def draft(text: str, **fields: object) -> dict[str, object]:
    return {"kind": "semantic", "body": {"text": text}, **fields}


def similar_texts(world: World, text: str, **fields: object) -> list[str]:
    service, owner = world.service, world.owner
    completed = service.with_defaults(owner, draft(text, **fields), method="mcp")
    return [memory.text for memory in service.remember(owner, completed).similar]


def test_a_changed_fact_names_the_older_statement(world: World) -> None:
    world.remember("Petra lives in Lyon.")
    world.remember("The ferry to Lyon is cancelled because of the storm.")
    assert similar_texts(world, "Petra lives in Nantes.") == ["Petra lives in Lyon."]
    assert similar_texts(world, "Otto owns an orange oboe.") == []


def test_the_same_text_is_merged_and_has_no_similar_memory(world: World) -> None:
    world.remember("Petra lives in Lyon.")
    assert similar_texts(world, "Petra lives in Lyon.") == []


def test_other_projects_kinds_and_persons_are_not_similar(world: World) -> None:
    world.remember("Petra lives in Lyon.", scope={"project": "one"})
    assert similar_texts(world, "Petra lives in Nantes.", scope={"project": "two"}) == []
    assert similar_texts(world, "Petra lives in Brest.", scope={"project": "one", "user": "petra"}) == []
    assert similar_texts(world, "Petra lives in Metz.", scope={"project": "one"}) == ["Petra lives in Lyon."]


def test_a_forgotten_memory_is_not_similar(world: World) -> None:
    name = world.remember("Petra lives in Lyon.")
    world.forget(name)
    assert similar_texts(world, "Petra lives in Nantes.") == []


def test_a_failing_search_does_not_fail_the_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailable("no reader is free")

    monkeypatch.setattr(similar, "_search", refuse)
    assert similar_texts(world, "Petra lives in Nantes.") == []
    assert world.texts("Petra") == ["Petra lives in Nantes."]


def test_programs_that_write_many_ask_for_similar_memories(world: World) -> None:
    lyon = world.remember("Petra lives in Lyon.")
    completed = world.service.with_defaults(world.owner, draft("Petra lives in Nantes."), method="library")
    nantes = world.service.remember(world.owner, completed)
    assert nantes.similar == ()
    assert [memory.id for memory in world.service.similar(world.owner, nantes.id)] == [lyon]
    assert [memory.id for memory in world.service.similar(world.owner, lyon)] == [nantes.id]


def test_a_memory_of_each_standard_has_similar_memories() -> None:
    """A memory is compared by its text, whichever standard wrote it, and named by any of its names."""
    with Memoranda.open(":memory:") as m:
        m.remember("Petra lives in Lyon.")
        m.oams.store("petra-home", "Petra lives in Nantes.")
        (oams,) = [memory for memory in m.list() if "Nantes" in memory.text]
        assert [memory.text for memory in m.similar(oams.id)] == ["Petra lives in Lyon."]


def test_who_may_not_read_learns_of_no_similar_memory(world: World) -> None:
    world.remember("Petra lives in Lyon.")
    nantes = world.remember("Petra lives in Nantes.")
    with pytest.raises(NotFound):
        world.service.similar(world.key("did:example:stranger", "read"), nantes)
    world.forget(nantes)
    assert world.service.similar(world.owner, nantes) == []


def test_only_what_the_caller_may_see_is_similar(world: World) -> None:
    world.remember("Petra lives in Lyon.", scope={"visibility": "private"})
    shared = world.remember("Petra lives in Metz.", scope={"visibility": "shared"})
    nantes = world.remember("Petra lives in Nantes.", scope={"visibility": "shared"})
    reader = world.token("read", visibility="shared")
    assert [memory.id for memory in world.service.similar(reader, nantes)] == [shared]
    assert len(world.service.similar(world.owner, nantes)) == 2


def test_a_text_that_does_not_verify_is_not_similar(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.remember("Petra lives in Lyon.")
    nantes = world.remember("Petra lives in Nantes.")
    assert len(world.service.similar(world.owner, nantes)) == 1
    monkeypatch.setattr(similar, "is_intact", lambda _: False)
    assert world.service.similar(world.owner, nantes) == []
