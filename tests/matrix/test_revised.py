"""What binds a memory binds every later version, whichever standard writes it (the first part of the matrix)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from memoranda.errors import InvalidInput, MemorandaError, QueryError
from memoranda.model.instant import Instant, format_instant
from memoranda.model.memory import CUT_KEY, KINDS, NATIVE_KEY, VISIBILITIES, Projection, Version
from memoranda.service.core.views import project
from memoranda.service.exchange.importing import number_items
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import MAX_RELATIONS, MAX_TEXT_BYTES
from tests.matrix.doors import DAY, EXPORTS, READS, REVISES, SPACE, WRITES, House, expiring, left, told
from tests.service.world import OPERATOR

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


# --- what the patch does not name ------------------------------------------------------------------------------------

# A patch of UMP, and what of a projection it may change.
PATCHES: Mapping[str, tuple[Callable[[House], dict[str, Any]], set[str]]] = {
    "salience": (lambda house: {"lifecycle": {"salience": 0.9}}, {"salience"}),
    "confidence": (lambda house: {"lifecycle": {"confidence": 0.3}}, {"confidence"}),
    "end": (lambda house: {"time": {"valid_to": format_instant(Instant(house.now + 40 * DAY))}}, {"valid_to"}),
    "text": (lambda house: {"body": {"text": "zanzibar"}}, {"text"}),
    "tags": (lambda house: {"relations": [{"type": "about", "target": "tag:new"}]}, {"tags", "relations", "titles"}),
}
# Fields that every revision changes: its author, its source, its times.
STAMPS = {"created", "observed", "valid_from", "source", "actor", "sameness", "may_protect"}
# Fields that a record cannot hold: the triple of a grain, and the language of an OAMS memory.
BEYOND = {"subject", "relation", "object", "language"}


def rich(house: House, standard: str) -> None:
    """Write a memory with as much as its standard can say of the neutral model."""
    begins, ends = house.now, Instant(house.now + 20 * DAY)
    text = f"madagascar of {standard}"
    if standard == "ump":
        house.remember(
            "",
            body={"text": text, "structured": {"mine": [1]}},
            scope={"project": SPACE, "user": "bo", "agent": "helper", "session": "s", "visibility": "shared"},
            time={"valid_to": format_instant(ends)},
            lifecycle={"confidence": 0.5, "salience": 0.5, "decay": "slow"},
            relations=[{"type": "about", "target": "tag:x"}, {"type": "depends_on", "target": "entity:y"}],
            consent={"exportable": False, "retention": "P90D"},
        )
    elif standard == "oams":
        metadata = {
            "title": "Isle",
            "confidence": 0.5,
            "memoranda:valid_to": format_instant(ends),
            "memoranda:kind": "procedural",
        }
        house.oams.store("k", text, tags=["x"], metadata=metadata, parent_id="other")
    elif standard == "oms":
        fields: dict[str, Any] = {"structural_tags": ["x"], "session_id": "s", "user_id": "bo", "importance": 0.5}
        house.put(object=text, namespace=SPACE, confidence=0.5, valid_from=begins, valid_to=ends - 1, **fields)
    else:
        draft = Draft(content=text, tags=("x", "source:mail"), expires=Instant(house.now + 90 * DAY))
        house.service.openwop.put_entry(house.owner, SPACE, draft)


def differences(house: House, before: Projection, head: Version) -> set[str]:
    after = project(house.context, head)
    changed = {name for name in Projection.__struct_fields__ if getattr(before, name) != getattr(after, name)}
    return changed - STAMPS - BEYOND


def names_of(projection: Projection) -> list[str]:
    """Return the titles that are no tags."""
    return [title for title in projection.titles if title not in projection.tags]


def only(house: House) -> Version:
    """The head of the only memory there is."""
    return house.head("")


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
@pytest.mark.parametrize("patch", PATCHES)
@pytest.mark.parametrize("standard", ["ump", "oams", "oms", "openwop"])
def test_a_revision_changes_only_what_its_patch_names(house: House, standard: str, patch: str) -> None:
    rich(house, standard)
    version = only(house)
    before, (make, changed) = project(house.context, version), PATCHES[patch]
    house.advance(DAY)
    name = house.revise(house.names(version)["ump"], **make(house))
    found = differences(house, before, only(house))
    assert found
    assert found <= changed
    assert names_of(project(house.context, only(house))) == names_of(before)
    if standard == "oams":
        assert names_of(before) == ["Isle", "k"]
    if standard == "ump" and patch != "text":
        assert house.get(name)["body"]["structured"] == {"mine": [1]}


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
@pytest.mark.parametrize("standard", ["ump", "oams", "oms", "openwop"])
def test_undoing_a_revision_brings_everything_back_that_it_changed(house: House, standard: str) -> None:
    rich(house, standard)
    version = only(house)
    before = project(house.context, version)
    house.advance(DAY)
    name = house.names(version)["ump"]
    for make, _ in PATCHES.values():
        name = house.revise(name, **make(house))
        house.service.undo_last(house.owner)
        assert differences(house, before, only(house)) == set()
        name = house.names(only(house))["ump"]


SUPERSEDE = 'SUPERSEDE $old SET confidence = 0.25 REASON "matrix"'


@pytest.mark.requirement("CAL-OURS-only-what-is-named")
@pytest.mark.parametrize("days", [(-20, -10), (-20, 10), (10, 20)])
def test_cal_keeps_the_time_of_what_is_over_or_to_come(house: House, days: tuple[int, int]) -> None:
    begins, ends = (Instant(house.now + day * DAY) for day in days)
    time = {"valid_from": format_instant(begins), "valid_to": format_instant(ends)}
    name = house.remember("zanzibar", scope={"project": SPACE}, time=time)
    house.cal(SUPERSEDE, old=f"sha256:{house.names(house.named('ump', name))['oms']}")
    read = project(house.context, only(house))
    assert (read.valid_from, read.valid_to) == (house.now if begins < house.now < ends else begins, ends)
    assert read.confidence == 0.25


@pytest.mark.requirement("CAL-OURS-only-what-is-named")
@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("relations", {"relations": [{"type": "depends_on", "target": "entity:y"}]}),
        ("structured data", {"body": {"text": "zanzibar", "structured": {"mine": [1]}}}),
        ("evidence", {"provenance": {"actor": "ada", "actor_kind": "user", "method": "m", "evidence": [{"ref": "x"}]}}),
    ],
)
def test_cal_does_not_replace_what_says_more_than_a_grain_can(house: House, part: str, said: dict[str, Any]) -> None:
    name = house.remember("zanzibar", scope={"project": SPACE}, **said)
    before = everything(house)
    with pytest.raises(QueryError, match=f"{part} that a grain cannot express"):
        house.cal(SUPERSEDE, old=f"sha256:{house.names(house.named('ump', name))['oms']}")
    assert everything(house) == before


# --- what does not fit -----------------------------------------------------------------------------------------------

LONG = "zanzibar " * 45_000
MANY = [f"t{number}" for number in range(1_000)]
LARGE: Mapping[str, tuple[Callable[[House], object], str]] = {
    "oams text": (lambda house: house.oams.store("k", LONG), f"body.text: .* at most {MAX_TEXT_BYTES} bytes"),
    "oms text": (
        lambda house: house.put(object=LONG, namespace=SPACE),
        f"body.text: .* at most {MAX_TEXT_BYTES} bytes",
    ),
    "openwop text": (
        lambda house: house.service.openwop.put_entry(house.owner, SPACE, Draft(content=LONG)),
        f"body.text: .* at most {MAX_TEXT_BYTES} bytes",
    ),
    "oms tags": (
        lambda house: house.put(object="zanzibar", namespace=SPACE, structural_tags=MANY),
        f"relations: .* at most {MAX_RELATIONS}, and the original has 1000",
    ),
    "oms namespace": (
        lambda house: house.put(object="zanzibar", namespace="n" * 2_000),
        r"scope\.project: it must be .* at most 1024 characters",
    ),
    "oms user": (
        lambda house: house.put(object="zanzibar", namespace=SPACE, user_id="bo\nb"),
        r"scope\.user: it must be .* without control characters",
    ),
}


def everything(house: House) -> list[tuple[int, bytes, str]]:
    with house.engine.open_snapshot(house.tenant) as snapshot:
        (memory_id,) = {version.memory_id for version in [only(house)]}
        return [
            (each.version_id, each.document.native, repr(each.state)) for each in snapshot.iterate_history(memory_id)
        ]


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
@pytest.mark.parametrize("patch", ["salience", "end"])
@pytest.mark.parametrize("what", LARGE)
def test_a_revision_that_would_cut_what_it_does_not_name_is_refused(house: House, what: str, patch: str) -> None:
    write, limit = LARGE[what]
    write(house)
    name, before = house.names(only(house))["ump"], everything(house)
    assert CUT_KEY in (house.get(name)["body"]["structured"] or {})
    with pytest.raises(InvalidInput, match=limit):
        house.revise(name, **PATCHES[patch][0](house))
    with pytest.raises(InvalidInput, match=limit):
        house.service.change(house.owner, name, structured={"a": 1})
    assert everything(house) == before


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
def test_what_is_too_large_for_a_record_is_replaced_by_a_patch_that_names_it(house: House) -> None:
    LARGE["oams text"][0](house)
    house.revise(house.names(only(house))["ump"], body={"text": "zanzibar"}, lifecycle={"salience": 0.9})
    assert project(house.context, only(house)).text == "zanzibar"
    with pytest.raises(InvalidInput, match=f"at most {MAX_TEXT_BYTES} bytes"):
        house.service.undo_last(house.owner)
    assert project(house.context, only(house)).text == "zanzibar"


STORES: Mapping[str, Callable[[House, str, tuple[str, ...]], object]] = {
    "oams": lambda house, entry, tags: house.oams.put(
        {**_read(house, entry), "value": "zanzibar 2", "tags": list(tags)}
    ),
    "openwop": lambda house, entry, tags: house.service.openwop.put_entry(
        house.owner, SPACE, Draft(content="zanzibar 2", tags=tags), entry_id=entry
    ),
}


def _read(house: House, name: str) -> Any:
    """Return a memory as a client reads it before it changes it."""
    return {part: said for part, said in house.oams.get(name).items() if part not in ("created_at", "updated_at")}


@pytest.mark.requirement("OAMS-OURS-nothing-is-cut")
@pytest.mark.parametrize("by", STORES)
@pytest.mark.parametrize("tags", [MANY, ["x" * 300]])
def test_storing_what_is_shown_of_too_many_tags_is_refused(house: House, tags: list[str], by: str) -> None:
    house.put(object="zanzibar", namespace=SPACE, structural_tags=tags)
    entry, before = house.names(only(house))["oams"], everything(house)
    shown = tuple(_read(house, entry)["tags"])
    with pytest.raises(InvalidInput, match=r"tags: a memory of OAMS holds (tags of )?at most 256"):
        STORES[by](house, entry, shown)
    assert everything(house) == before
    # Other tags replace them all.
    STORES[by](house, entry, ("new",))
    assert project(house.context, only(house)).tags == ("new",)


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
def test_a_secret_is_not_taken_out_of_what_would_be_cut(house: House) -> None:
    house.oams.store("k", f"password={'hunter2' * 10} {LONG}")
    name, before = house.names(only(house))["ump"], everything(house)
    with pytest.raises(InvalidInput, match=f"at most {MAX_TEXT_BYTES} bytes"):
        house.service.redact(house.owner, name)
    assert everything(house) == before


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("what", LARGE)
def test_a_cut_view_comes_back_as_its_original_also_from_before_it_was_marked(
    house: House, what: str, is_marked: bool
) -> None:
    LARGE[what][0](house)
    (record,) = house.service.export(house.owner)
    if not is_marked:
        structured = {name: value for name, value in record["body"]["structured"].items() if name != CUT_KEY}  # type: ignore[union-attr]
        bare: Any = {**record, "body": {**record["body"], "structured": structured}}
        record = signature.sign(bare, OPERATOR)
    other = House()
    assert other.service.import_items(other.owner, number_items("ump", [record])).created == 1
    assert only(other).document.native == only(house).document.native
    other.service.close()


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
