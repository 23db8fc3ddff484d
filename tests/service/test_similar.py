"""A new memory is told the memories that it may replace."""

from __future__ import annotations

import pytest

from memoranda.errors import StoreUnavailable
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


def test_programs_that_write_many_are_not_told(world: World) -> None:
    world.remember("Petra lives in Lyon.")
    completed = world.service.with_defaults(world.owner, draft("Petra lives in Nantes."), method="library")
    assert world.service.remember(world.owner, completed).similar == ()
