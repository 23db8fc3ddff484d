"""What binds a memory binds every later version, whichever standard writes it (the first part of the matrix)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant
from memoranda.model.memory import KINDS, VISIBILITIES
from memoranda.model.native import NATIVE_KEY
from tests.matrix.doors import DAY, EXPORTS, READS, REVISES, SPACE, WRITES, House, expiring, left, told

# CAL refuses to replace what has a consent, which is as good: nothing is lost by it.
STRIPPING = [name for name in REVISES if name != "cal"]


@pytest.fixture
def house() -> Iterator[House]:
    house = House(coverage="users")
    yield house
    house.service.close()


def bound(house: House) -> str:
    """A record with a user and all that a consent can say."""
    return house.remember(
        "the first zanzibar",
        scope={"project": SPACE, "user": "alice", "agent": "helper", "session": "s1", "visibility": "shared"},
        consent={"exportable": False, "retention": "P30D", "redact": ["body.structured.token"]},
    )


@pytest.mark.requirement("OURS-rules-bind-later-versions")
@pytest.mark.parametrize("second", STRIPPING)
@pytest.mark.parametrize("first", STRIPPING)
def test_a_revision_through_any_standard_keeps_what_binds_the_memory(house: House, first: str, second: str) -> None:
    name = bound(house)
    ends = house.named("ump", name).state.expires
    for number, by in enumerate((first, second)):
        house.advance(DAY)
        text = f"zanzibar again {number}"
        prior = "the first zanzibar" if number == 0 else "zanzibar again 0"
        REVISES[by](house, house.names(house.head(prior)), text)
        head = house.head(text)
        record = house.get(house.names(head)["ump"])
        assert record["scope"]["user"] == "alice"
        assert (record["scope"]["agent"], record["scope"]["session"]) == ("helper", "s1")
        assert VISIBILITIES.index(record["scope"]["visibility"]) <= VISIBILITIES.index("shared")
        assert record["consent"]["exportable"] is False
        assert "body.structured.token" in record["consent"]["redact"]
        assert head.state.expires == ends
        assert not any("zanzibar" in left(house, export) for export in EXPORTS)
    house.advance(28 * DAY)
    names = house.names(head)
    assert not any("zanzibar" in told(house, read, names, "zanzibar") for read in READS)


@pytest.mark.requirement("OURS-rules-bind-later-versions")
@pytest.mark.parametrize("by", STRIPPING)
def test_erasing_a_user_reaches_every_later_version(house: House, by: str) -> None:
    names = house.names(house.named("ump", bound(house)))
    REVISES[by](house, names, "zanzibar revised")
    names = house.names(house.head("zanzibar revised"))
    done = house.service.grains.erase_user(house.owner, "alice", reason="asked to")
    assert (done.erased, done.key_destroyed) == (2, True)
    assert not any("zanzibar" in told(house, read, names, "zanzibar") for read in READS)


@pytest.mark.requirement("OURS-rules-bind-later-versions")
def test_erasing_a_user_reaches_a_version_that_names_another(house: House) -> None:
    names = house.names(house.named("ump", bound(house)))
    house.supersede(names["oms"], object="zanzibar for bob", namespace=SPACE, user_id="bob")
    assert house.service.grains.erase_user(house.owner, "alice", reason="asked to").erased == 2
    assert house.texts("zanzibar") == []


@pytest.mark.requirement("WOP-RFC4-expiry-never-extended")
@pytest.mark.parametrize("by", STRIPPING)
@pytest.mark.parametrize("way", ["ump", "oams", "openwop"])
def test_an_end_is_neither_lost_nor_put_off(house: House, way: str, by: str) -> None:
    ends = Instant(house.now + 2 * DAY)
    expiring(house, way, "zanzibar ends", ends)
    house.advance(DAY)
    REVISES[by](house, house.names(house.head("zanzibar ends")), "zanzibar revised")
    head = house.head("zanzibar revised")
    assert head.state.expires == ends
    names = house.names(head)
    house.advance(DAY)
    assert not any("zanzibar" in told(house, read, names, "zanzibar") for read in READS)


@pytest.mark.requirement("WOP-3-distillation-immutable")
@pytest.mark.parametrize("by", REVISES)
def test_an_archive_cannot_be_rewritten(house: House, by: str) -> None:
    WRITES["openwop put"](house, "the zanzibar meeting is on friday")
    made = house.service.openwop.distill(house.owner, SPACE, token_budget=8000)
    version = house.named("openwop", made.entry["id"])
    with pytest.raises(MemorandaError, match=r"archive|belief"):
        REVISES[by](house, house.names(version), "rewritten")
    assert house.service.openwop.get_entry(house.owner, SPACE, made.entry["id"]) == made.entry


@pytest.mark.requirement("OAMS-OURS-metadata-outlives")
def test_metadata_of_oams_outlives_a_revision_through_ump(house: House) -> None:
    house.oams.store("k", "grüner Tee", metadata={"pii": True, "language": "de", "mine": {"a": [1]}})
    house.revise(house.names(house.head("Tee"))["ump"], body={"text": "schwarzer Tee"})
    metadata = house.oams.get("k")["metadata"]
    assert (metadata["pii"], metadata["language"], metadata["mine"]) == (True, "de", {"a": [1]})


@pytest.mark.parametrize("way", WRITES)
def test_written_here_revised_there_seen_everywhere(way: str) -> None:
    house = House()
    for number, by in enumerate(REVISES):
        text = f"zanzibar {number} by {by}"
        WRITES[way](house, text)
        names = house.names(house.head(text))
        house.advance(1000)
        REVISES[by](house, names, f"madagascar {number} by {by}")
        head = house.head(f"madagascar {number} by {by}")
        later = {**house.names(head), "oams": names["oams"], "openwop": names["openwop"]}
        for read in READS:
            found = told(house, read, later, f"madagascar {number}")
            assert f"madagascar {number} by {by}" in found, (read, by)
            if read not in ("ump history", "ump feed"):
                assert text not in found, (read, by)
    house.service.close()


# Memories that are a text and no triple: their view as a grain has a subject and a relation that nobody wrote.
TEXTS_ALONE = [way for way in WRITES if way.startswith(("ump", "oams", "openwop"))]


def with_text(fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the fields of a view with another text, as a client of OMS would write them."""
    changed: dict[str, dict[str, Any]] = {
        "belief": {"object": text},
        "event": {"content": text},
        "workflow": {"steps": [text]},
        "state": {"context": {"text": text}},
    }
    return {**fields, **changed[fields["type"]]}


def without_original(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a view without the document that it carries."""
    context = {name: value for name, value in fields.get("context", {}).items() if name != NATIVE_KEY}
    bare = {name: value for name, value in fields.items() if name != "context"}
    return {**bare, **({"context": context} if context else {})}


def assert_says_just(house: House, text: str) -> None:
    """Compare the text of a memory in every standard, and as a model reads it."""
    assert house.get(house.names(house.head(text))["ump"])["body"]["text"] == text
    assert {each["value"] for each in house.oams.listed()} == {text}
    entries = house.service.openwop.list_entries(house.owner, SPACE)
    assert [each["content"] for each in entries] == [text]
    for form in ("text", "markdown", "sml", "json", "yaml", "toon", "triples"):
        answer = house.cal(f'ASSEMBLE FOR "matrix" FROM (RECALL RECENT 50) BUDGET 4000 tokens FORMAT {form}')
        assert text in answer["formatted_context"]["text"], form
        assert "semantic" not in answer["formatted_context"]["text"], form
        assert house.tenant not in answer["formatted_context"]["text"], form


@pytest.mark.requirement("OMS-ours-kinds")
@pytest.mark.parametrize("way", TEXTS_ALONE)
def test_a_text_that_is_superseded_as_a_grain_says_its_new_text_and_nothing_else(way: str) -> None:
    house = House()
    WRITES[way](house, "zanzibar 0")
    for number in (1, 2):
        house.advance(1000)
        REVISES["cal"](house, house.names(house.head(f"zanzibar {number - 1}")), f"zanzibar {number}")
        assert_says_just(house, f"zanzibar {number}")
    house.service.close()


@pytest.mark.requirement("OMS-ours-kinds")
@pytest.mark.parametrize("carries", [True, False], ids=["with its original", "without"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_view_that_a_client_of_oms_rewrites_says_its_new_text_and_nothing_else(
    house: House, kind: str, carries: bool
) -> None:
    name = house.remember("zanzibar 0", kind=kind, scope={"project": SPACE, "user": "kim"})
    view = house.as_grain(name)
    fields = with_text(view.grain.fields, "zanzibar 1")
    if carries and kind != "working":
        fields["context"] = view.grain.fields["context"]
    else:
        fields = without_original(fields)
    house.advance(1000)
    stored = house.service.grains.supersede(house.owner, view.address, {**fields, "created_at": house.now})
    record = house.as_record(stored.address)
    assert (record["body"]["text"], record["kind"], record["scope"]["user"]) == ("zanzibar 1", kind, "kim")
    assert {each["value"] for each in house.oams.listed()} == {"zanzibar 1"}


def test_two_texts_of_one_owner_do_not_contradict_each_other(house: House) -> None:
    for text in ("zanzibar is an island", "the printer is on the second floor"):
        house.remember(text, scope={"project": SPACE})
    house.put(namespace=SPACE)
    assert house.cal("RECALL RECENT 50 WITH contradiction_detection")["contradictions"] == []


def test_texts_of_one_owner_are_not_alike_for_what_all_of_them_share(house: House) -> None:
    texts = ("zanzibar", "madagascar")
    for kind in ("semantic", "procedural"):
        for text in texts:
            house.remember(f"{text} {kind}", kind=kind, scope={"project": SPACE})
    for plural in ("beliefs", "workflows"):
        assert len(house.cal(f"RECALL {plural} WITH diversity(threshold, 0.5)")["results"]) == len(texts)
