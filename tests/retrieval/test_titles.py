"""Notes are found by their names: title, aliases, tags, the name of the file, headings; through every standard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoranda import Memoranda
from memoranda.embedding.texts import embedded_text
from memoranda.model.selection import Selection
from memoranda.model.titles import TITLES_LIMIT, collect_titles, name_of_file
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump.excerpt import missing_title
from tests.service.oams_verbs import Oams, namespace
from tests.service.test_retrieve import token
from tests.service.world import PEER, World

TEXT = "Soundings, currents, dredging costs."
OTHERS = ("Bleed the valve before the first start.", "Feed at eight, mix at noon, fold four times.")


@pytest.fixture
def world() -> Iterator[World]:
    opened = World()
    yield opened
    opened.service.close()


@pytest.fixture
def m() -> Iterator[Memoranda]:
    with Memoranda.open(":memory:", embedder=None) as opened:
        for text in OTHERS:
            opened.remember(text)
        yield opened


def found(m: Memoranda, question: str) -> list[str]:
    return [hit.text for hit in m.recall(question, words_only=True)]


def test_a_record_is_found_by_its_title_its_aliases_and_its_tags(m: Memoranda) -> None:
    m.remember(TEXT, structured={"title": "Harbour study", "aliases": ["Project Lighthouse"]}, tags=["deep-water"])
    for question in ("harbour study", "Project Lighthouse", "deep water", '"harbour study"'):
        assert found(m, question) == [TEXT], question


def test_a_memory_of_oams_is_found_by_its_key_its_tags_and_its_title(m: Memoranda) -> None:
    m.oams.store("projects/harbour-study.md", TEXT, tags=["marine"], metadata={"title": "Lighthouse"})
    for question in ("harbour study", "marine", "lighthouse"):
        assert found(m, question) == [TEXT], question


def test_a_grain_and_an_entry_are_found_by_their_tags(world: World) -> None:
    world.put(subject="lighthouse", relation="costs", object="a million", structural_tags=["coastal"])
    world.service.openwop.put_entry(world.owner, "notes", Draft(content=TEXT, tags=("marine",)))
    assert world.texts("coastal") == ["lighthouse costs a million"]
    assert world.texts("marine") == [TEXT]


def test_a_title_weighs_more_than_the_same_word_in_a_text(m: Memoranda) -> None:
    m.remember("The lighthouse is closed on Mondays, and the harbour too.")
    m.remember("Opened in 1901; seventy steps; the lamp was replaced.", structured={"title": "Lighthouse"})
    assert found(m, "lighthouse")[0].startswith("Opened in 1901")


def test_what_a_revision_took_out_of_the_title_is_not_found_any_more(m: Memoranda) -> None:
    memory = m.remember(TEXT, structured={"title": "Harbour study"})
    m.revise(memory.id, structured={"title": "Estuary"})
    assert found(m, "harbour") == []
    assert found(m, "estuary") == [TEXT]


def test_a_merged_record_is_found_by_the_tags_of_both_and_its_index_is_correct(m: Memoranda) -> None:
    m.remember(TEXT, tags=["marine"])
    m.remember(TEXT, tags=["coastal"])
    assert len(list(m.export(history=False))) == len(OTHERS) + 1
    assert found(m, "marine") == found(m, "coastal") == [TEXT]
    assert m.verify().ok


def test_a_revised_memory_of_oams_is_still_found_by_its_key_and_its_title(m: Memoranda) -> None:
    m.oams.store("projects/harbour-study.md", TEXT, tags=["marine"], metadata={"title": "Lighthouse"})
    (hit,) = m.recall("soundings", words_only=True)
    later = "Dredging starts in May."
    revised = m.revise(hit.id, later)
    for question in ("harbour study", "marine", "lighthouse"):
        assert found(m, question) == [later], question
    m.revise(revised.id, structured={"title": "Estuary"})
    assert found(m, "harbour") == found(m, "lighthouse") == []
    assert found(m, "estuary") == [later]


@pytest.mark.parametrize("standard", ["cal", "openwop"])
def test_a_memory_of_oams_is_found_by_its_key_after_a_revision_through_another_standard(
    world: World, standard: str
) -> None:
    oams = Oams(world, namespace(world.owner.default_tenant, "notes"))
    oams.store("projects/harbour-study.md", TEXT, metadata={"title": "Lighthouse"})
    ((_, memory),) = world.service.oams.export(world.owner)
    later = "Dredging starts in May."
    if standard == "openwop":
        draft = Draft(content=later)
        world.service.openwop.put_entry(world.owner, "notes", draft, entry_id=memory["key"])
    else:
        for text in ("Dredging starts in April.", later):
            ((address, _),) = (
                (stored.address, stored)
                for stored in world.service.grains.listing(world.owner, Selection(space="notes"), limit=10)[0]
            )
            query = 'SUPERSEDE $old SET object = $text REASON "later"'
            params = {"old": f"sha256:{address}", "text": text}
            world.service.cal.run(world.owner, query, params=params, namespace="notes", approve=True)
        assert world.texts("lighthouse") == [later]
    assert world.texts("harbour study") == [later]
    assert oams.get("projects/harbour-study.md")["value"] == later
    assert world.service.verify(world.owner).ok


def test_a_title_that_looks_like_a_secret_is_not_taken_over(m: Memoranda) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    m.oams.store("harbour", TEXT, metadata={"title": f"key {secret}"})
    (hit,) = m.recall("soundings", words_only=True)
    assert m.get(m.revise(hit.id, "Dredging starts in May.").id).structured == {"memoranda:names": ["harbour"]}


def test_an_erased_title_is_in_no_segment(m: Memoranda) -> None:
    memory = m.remember(TEXT, structured={"title": "Harbour study"})
    revised = m.revise(memory.id, structured={"title": "Estuary"})
    m.forget(revised.id, hard=True)
    for question in ("harbour", "estuary", "soundings"):
        assert found(m, question) == [], question
    assert m.verify().ok


def test_a_title_that_a_reader_may_not_see_finds_nothing(world: World) -> None:
    shared = {"visibility": "shared"}
    hidden = {"redact": ["body.structured"]}
    body = {"text": TEXT, "structured": {"title": "Harbour"}}
    world.remember(TEXT, scope=shared, consent=hidden, body=body)
    open_body = {"text": "Currents near the pier.", "structured": {"title": "Jetty"}}
    world.remember("", scope=shared, body=open_body)
    peer = token(world, {}, PEER.did)
    assert world.texts("harbour") == [TEXT]
    assert world.texts("jetty", access=peer) == ["Currents near the pier."]
    assert world.texts("harbour", access=peer) == []
    assert world.texts("soundings", access=peer) == [TEXT]


def test_keys_and_tags_that_programs_made_are_no_names() -> None:
    generated = ("dream-1f0b6c2e9a5d4c7b", "550e8400-e29b-41d4-a716-446655440000", "did:key:z6Mk", "mem_x1", "a" * 300)
    assert [name_of_file(key) for key in generated] == [""] * len(generated)
    assert name_of_file("projects/harbour-study.md") == "projects harbour-study"
    assert collect_titles({}, ["pii:email", "visibility:public", "source:x", "trip"]) == ("trip",)
    assert collect_titles({"title": 5, "aliases": [1, "A", None], "tags": {"b": 1}}) == ("A",)
    assert len(collect_titles({"aliases": [f"name {number}" for number in range(1_000)]})) == TITLES_LIMIT


def test_the_title_is_embedded_with_the_text_unless_the_text_has_it() -> None:
    assert embedded_text("Gaiters", "", ("Winter gear", "packing")) == "Winter gear, packing\nGaiters"
    assert embedded_text("Winter gear: gaiters", "", ("Winter gear",)) == "Winter gear: gaiters"


def test_a_title_is_one_line_however_it_was_written() -> None:
    record = {"body": {"text": "x", "structured": {"title": "one\n- [identity] two"}}}
    assert missing_title(record) == "one - [identity] two"
    forged = {"memoranda:native": {"standard": "oams", "name": "x", "media_type": "x", "data": "AAAA"}}
    assert missing_title({"body": {"text": "x", "structured": forged}}) == ""
