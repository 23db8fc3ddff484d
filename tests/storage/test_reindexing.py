"""The word index is compared with the documents, and made anew from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.service.verify import reindex
from memoranda.storage.index.verification import WordIndexVerification
from memoranda.storage.index.word_index import MERGE_FAN_IN
from tests.service.world import World, grain
from tests.storage.test_validity import in_earlier_form


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(path=tmp_path / "store.db")
    yield made
    made.service.close()


def filled(world: World) -> list[str]:
    """Memories of every standard, some of them revised, forgotten and erased."""
    kept = [world.remember(f"Die Äpfel von Baum {number}", kind="episodic") for number in range(MERGE_FAN_IN + 3)]
    world.revise(kept[0], body={"text": "Ada: parse_instant raises"})
    world.forget(kept[1])
    world.forget(kept[2], hard=True)
    for number in range(3):
        world.service.grains.put(world.owner, grain(world.now, object=f"tea {number}"))
    place = world.service.oams.namespace(world.owner, "notes")
    memory = {"key": "k", "namespace": str(place), "value": "les clés", "metadata": {"language": "fr"}}
    world.service.oams.store(world.owner, memory)
    return kept


def problems(world: World) -> tuple[str, ...]:
    return world.service.verify_store().index


def run(world: World, sql: str) -> None:
    world.engine._database.write(lambda connection: connection.select(sql, {}))


def test_the_index_of_every_standard_is_what_its_documents_say(world: World) -> None:
    filled(world)
    assert problems(world) == ()
    before = {text: world.texts(text) for text in ("apfel", "parseInstant", "tea", "clé")}
    assert all(before.values())
    assert reindex(world.service.context) > MERGE_FAN_IN
    assert problems(world) == ()
    assert {text: world.texts(text) for text in before} == before


def test_what_is_of_an_older_analysis_is_found_and_made_anew_once(world: World) -> None:
    filled(world)
    assert reindex(world.service.context, outdated=True) == 0
    in_earlier_form(world)
    assert problems(world) == ()
    report = world.service.verify_store()
    assert report.ok
    assert report.outdated == ("the search index is outdated: a server or `memoranda reindex` rebuilds it",)
    assert reindex(world.service.context, outdated=True) > MERGE_FAN_IN
    assert problems(world) == ()
    assert reindex(world.service.context, outdated=True) == 0


def test_segments_that_are_lost_are_missed_and_made_anew(world: World) -> None:
    filled(world)
    run(world, "DELETE FROM segment")
    (missed,) = problems(world)
    assert missed.startswith("the word index differs from the documents")
    assert world.texts("apfel") == []
    assert reindex(world.service.context) > MERGE_FAN_IN
    assert problems(world) == ()
    assert world.texts("apfel")


def test_damage_is_found_and_mended(world: World) -> None:
    filled(world)
    run(world, "UPDATE segment SET data = x'00'")
    assert problems(world) == ("the word index is damaged: run `memoranda reindex` to rebuild it",)
    reindex(world.service.context)
    assert problems(world) == ()
    assert world.texts("parse_instant") == ["Ada: parse_instant raises"]


def test_what_is_written_meanwhile_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(world)
    entries = WordIndexVerification._entries
    written: list[str] = []

    def slow(self: Any, *args: Any) -> Any:
        found = entries(self, *args)
        if len(written) < MERGE_FAN_IN:
            # Enough for a merge, so that the pieces are others than those that were read.
            written.append(world.remember(f"pear {len(written)}", kind="episodic"))
        return found

    monkeypatch.setattr(WordIndexVerification, "_entries", slow)
    reindex(world.service.context)
    monkeypatch.undo()
    assert written
    assert problems(world) == ()
    assert len(world.texts("pear", limit=50)) == len(written)


def test_a_fact_told_again_in_other_capitals_is_indexed_as_it_stands(world: World) -> None:
    world.remember("parseInstant refuses it")
    world.remember("PARSEINSTANT refuses it ")
    assert problems(world) == ()
    assert world.texts("parse") == ["parseInstant refuses it"]


def test_a_tenant_that_only_asked_is_looked_at_too(world: World) -> None:
    # On record by what it asked, without a version of its own.
    world.recall("apple")
    world.engine.flush()
    assert problems(world) == ()
    assert world.service.verify(world.owner).ok


def test_the_same_text_in_another_language_has_other_words(world: World) -> None:
    place = world.service.oams.namespace(world.owner, "notes")
    for language in ("en", "de"):
        metadata = {"language": language}
        memory = {"key": "k", "namespace": str(place), "value": "Fahrräder", "metadata": metadata}
        world.service.oams.store(world.owner, memory)
        assert problems(world) == ()
