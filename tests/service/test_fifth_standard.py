"""A standard that only its port knows: its documents go through all others, and nothing else was told of it.

The notes below are JSON with an id and a text. The test writes one as the verbs of a real standard would, and then asks
every other standard for it. `docs/architecture.md`, "Adding a standard", describes what is done here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, cast

import pytest

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, NamespaceNotFound
from memoranda.model.instant import Instant
from memoranda.model.memory import Document, Projection, Scope, Version, unwrap_document
from memoranda.service.core.indexing import prepare
from memoranda.service.core.lifecycle import follow
from memoranda.service.core.views import project_document
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.exchange.report import Report
from memoranda.standards import port as ports
from memoranda.standards.oams.requests import ListRequest
from memoranda.standards.port import Port, load, register_port
from memoranda.storage.engine.contract import Unit
from tests.service.wop import Wop
from tests.service.world import World

TEXT = "the ferry to Juist depends on the tide"
WRITTEN_MS = 1_780_000_000_000
STANDARDS = ("ump", "oams", "oms", "openwop", "cal")


class NotePort(Port):
    """Notes: `{"id": …, "text": …}` as compact JSON."""

    name: ClassVar[str] = "note"

    def project(self, document: Document, tenant: str, space: str, *, ump_version: str) -> Projection:
        written = Instant(WRITTEN_MS)
        return Projection(
            kind="episodic",
            text=load(document.native)["text"],
            scope=Scope(tenant=tenant, space=space),
            created=written,
            observed=written,
            valid_from=written,
            subject=tenant,
        )

    def check(self, document: Document) -> None:
        note = parse(document.native)
        if note != {"id": document.name, "text": note["text"]} or dump(note) != document.native:
            raise InvalidInput("not the note that it is named after")


def note(name: str, text: str) -> Document:
    return Document(
        standard="note", media_type="application/x-note", name=name, native=dump({"id": name, "text": text})
    )


def write(world: World, document: Document, prior: Version | None = None) -> Version:
    """Write a note as the verbs of its standard would: a new memory, or the next version of one."""
    tenant = world.owner.default_tenant
    new = prepare(world.context, document, project_document(world.context, document, tenant, ""))
    if prior is None:
        return world.engine.write(tenant, lambda unit: new.append(unit, now=world.now))

    def write_next(unit: Unit) -> Version:
        version = follow(world.context, prior, new).append(unit, now=world.now, follow_head=True)
        unit.close_version(prior, successor=version, valid_to=world.now, now=world.now)
        return version

    return world.engine.write(tenant, write_next)


@pytest.fixture(autouse=True)
def notes() -> Iterator[None]:
    register_port(NotePort())
    yield
    del ports._PORTS["note"]


@pytest.fixture
def other() -> Iterator[Wop]:
    """A second store of the same owner."""
    wop = Wop()
    yield wop
    wop.close()


@pytest.fixture
def wop() -> Iterator[Wop]:
    wop = Wop()
    yield wop
    wop.close()


def ump_name(world: World, version: Version) -> str:
    with world.engine.open_snapshot(version.tenant) as snapshot:
        return snapshot.load_names(version.version_id)["ump"]


def everywhere(wop: Wop) -> dict[str, list[str]]:
    """Return the texts that each standard finds or lists."""
    service, owner = wop.service, wop.owner
    listing = ListRequest.parse({"namespace": str(service.oams.namespace(owner))})
    try:
        memories = service.oams.list_memories(owner, listing).memories
    except NamespaceNotFound:
        memories = []
    return {
        "ump": wop.texts("ferry tide"),
        "oams": [memory["value"] for memory in memories],
        "oms": [stored.grain.fields["content"] for stored in wop.grains()],
        "openwop": wop.contents(ref="default"),
        "cal": [result["grain"]["content"] for result in service.cal.run(owner, "RECALL events")["results"]],
    }


def exported(wop: Wop, form: str) -> list[Item]:
    """Return the items of a file of this form."""
    service, owner = wop.service, wop.owner
    if form == "ump":
        return list(number_items("ump", service.export(owner)))
    if form == "oms":
        grains = enumerate(service.grains.export(owner))
        return [Item(form="oms", value=value, index=index, number=number) for number, (value, index) in grains]
    memories = enumerate(service.oams.export(owner))
    return [Item(form="oams", value=parse(raw), raw=raw, number=number) for number, (raw, _) in memories]


@pytest.mark.requirement("OURS-fifth-standard")
def test_a_document_of_a_further_standard_is_found_through_every_standard(wop: Wop) -> None:
    write(wop, note("n1", TEXT))
    assert everywhere(wop) == {standard: [TEXT] for standard in STANDARDS}


@pytest.mark.requirement("OURS-fifth-standard")
def test_it_is_revised_through_another_standard_and_its_own(wop: Wop) -> None:
    first = write(wop, note("n1", TEXT))
    wop.advance(1_000)
    name = wop.revise(ump_name(wop, first), body={"text": "the ferry leaves at ten, whatever the tide"})
    assert wop.texts("ferry tide") == ["the ferry leaves at ten, whatever the tide"]
    wop.advance(1_000)
    with wop.engine.open_snapshot(first.tenant) as snapshot:
        head = snapshot.load_newest(first.memory_id)
    last = write(wop, note("n2", "the ferry to Juist sails with the tide again"), head)
    assert last.memory_id == first.memory_id
    assert wop.texts("ferry tide") == ["the ferry to Juist sails with the tide again"]
    texts = [cast("Any", version["record"])["body"]["text"] for version in wop.service.history(wop.owner, name)]
    assert texts == [
        TEXT,
        "the ferry leaves at ten, whatever the tide",
        "the ferry to Juist sails with the tide again",
    ]


@pytest.mark.requirement("OURS-fifth-standard")
@pytest.mark.parametrize("is_hard", [False, True])
def test_it_is_forgotten_through_another_standard(wop: Wop, is_hard: bool) -> None:
    version = write(wop, note("n1", TEXT))
    wop.forget(ump_name(wop, version), hard=is_hard)
    assert everywhere(wop) == {standard: [] for standard in STANDARDS}


@pytest.mark.requirement("OURS-fifth-standard")
@pytest.mark.parametrize("form", ["ump", "oms", "oams"])
def test_it_leaves_in_every_file_form_and_arrives_byte_for_byte(wop: Wop, other: Wop, form: str) -> None:
    document = note("n1", TEXT)
    write(wop, document)
    items = exported(wop, form)
    assert len(items) == 1
    for expected in ((1, 0), (0, 1)):
        report = Report()
        other.service.import_items(other.owner, items, report=report)
        assert report.refusals == []
        assert (report.created, report.merged + report.unchanged) == expected
    arrived = other.named("note", "n1")
    assert arrived.document == document
    assert everywhere(other) == everywhere(wop)


@pytest.mark.requirement("OURS-fifth-standard")
def test_one_that_is_not_what_it_is_named_after_arrives_as_what_its_view_says(wop: Wop, other: Wop) -> None:
    write(wop, note("n1", TEXT))
    record: dict[str, Any] = dict(next(iter(wop.service.export(wop.owner))))
    inner = unwrap_document(record["body"]["structured"])
    assert inner is not None
    record["body"] = {**record["body"], "text": "the ferry never sails"}
    record.pop("integrity")
    record.pop("id")
    report = Report()
    other.service.import_items(other.owner, list(number_items("ump", [record])), report=report)
    assert report.refusals == []
    assert other.texts("ferry tide") == ["the ferry never sails"]
    with other.engine.open_snapshot(other.owner.default_tenant) as snapshot:
        assert snapshot.find_by_name("note", "n1") is None
