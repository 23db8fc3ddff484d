"""Any memory, any form, any store: what leaves and comes back changes nothing and loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.service.world import PEER

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange, mg, oams
from memoranda.bindings.files.sync import FolderForm, FolderSync
from memoranda.model.memory import Document, Version
from memoranda.model.selection import Selection
from memoranda.opening import open_service
from memoranda.service.exchange.report import Report
from memoranda.service.retrieve import read_page
from memoranda.settings import load_settings
from memoranda.standards.oams.mapping import from_projection
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import signature as oms_signature
from memoranda.standards.oms.grains import encode
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import check, fill_defaults

REF = "mem://support/agent-1"
FORMS = ("all.ndjson", "all.ump.json", "all.ump.md", "folder/", "all.mg", "bundle", "all.oams.jsonl", "all.oams.md")
# The forms that hold what was superseded too.
WHOLE = ("all.ndjson", "all.ump.json", "all.ump.md", "all.mg")


def write(m: Memoranda, target: Path, form: str, *, history: bool = True) -> Report:
    report = Report()
    if form in ("bundle", "all.oams.jsonl", "all.oams.md"):
        shape = oams.shape_by_name(form)
        exchange.export_memories(
            exchange.select_memories(m.service, m.access, report), str(target), shape=shape, exported_at=0
        )
    elif form == "all.mg":
        exchange.export_grains(m.service.grains.export(m.access, history=history, report=report), str(target), report)
    elif form == "folder/":
        exchange.export_folder(m.service.export(m.access, history=history, report=report), target)
    else:
        known: Any = {"all.ndjson": "ndjson", "all.ump.json": "json", "all.ump.md": "markdown"}[form]
        exchange.export_file(m.service.export(m.access, history=history, report=report), str(target), known)
    return report


def read(m: Memoranda, source: Path) -> Report:
    report = exchange.import_files(m.ump.import_items, m.owner, [str(source)])
    assert (report.refused, report.refusals) == (0, [])
    return report


def versions(m: Memoranda) -> list[Version]:
    with m.service.context.engine.open_snapshot(m.owner) as snapshot:
        found = read_page(snapshot, Selection(status_filter="all"), after=0, limit=1_000, now=m.service.context.clock())
    return [each for each in found if each.state.tombstoned is None]


def everything(m: Memoranda, *, history: bool = True) -> dict[str, Any]:
    """What is there through every standard, under the names it has in each."""
    there = [each for each in versions(m) if history or each.state.is_head]
    listed = {name: m.oams.list(namespace=name, limit=100).memories for name in m.oams.namespaces}
    return {
        "native": sorted((each.document.standard, each.document.native) for each in there),
        "records": sorted((_bare(record) for record in m.export(history=history)), key=str),
        "grains": sorted(m.service.grains.export(m.access, history=history), key=str),
        "memories": {name: sorted(found, key=lambda each: str(each["key"])) for name, found in listed.items() if found},
        "entries": sorted(m.service.openwop.list_entries(m.access, REF), key=str),
        "recalled": sorted(found.record["id"] for found in m.recall("tea", limit=50)),
    }


def left_behind(report: Report) -> set[str]:
    """The ids that an export says it left behind."""
    kept = {warning.split()[0] for warning in report.warnings if " is not exported: " in warning}
    return kept | {refusal.id for refusal in report.refusals if "cannot state the restrictions" in refusal.message}


def _bare(record: Mapping[str, Any]) -> dict[str, Any]:
    assert signature.verify(record)
    return {name: value for name, value in record.items() if name != "integrity"}


# --- what is written --------------------------------------------------------------------------------------------------


class Writer:
    """Everything that can be written, through each standard, and what may happen to it."""

    def __init__(self, m: Memoranda) -> None:
        self.m = m
        self.count = 0

    @property
    def text(self) -> str:
        return f"tea number{self.count}"

    def step(self, op: str, which: int) -> None:
        self.count += 1
        if op in NEW:
            NEW[op](self)
            return
        heads = [each for each in versions(self.m) if each.state.is_head]
        if heads:
            head = heads[which % len(heads)]
            with self.m.service.context.engine.open_snapshot(self.m.owner) as snapshot:
                CHANGES[op](self, snapshot.load_names(head.version_id)["ump"])

    def remember(self) -> None:
        self.m.remember(self.text, project="p" if self.count % 2 else None, structured={"n": self.count})

    def remember_of_another(self) -> None:
        said = {"kind": "semantic", "body": {"text": self.text}, "scope": {"owner": self.m.owner, "project": "p"}}
        told = {"provenance": {"actor": PEER.did, "actor_kind": "agent", "method": "observed"}}
        whole = fill_defaults(check({**said, **told}), now=1_780_000_000_000 + self.count, version="0.1")
        self.m.service.remember(self.m.access, signature.seal(whole, PEER))

    def store(self) -> None:
        place = "user-x123ab:personal" if self.count % 2 else None
        self.m.oams.store(f"key {self.count}", self.text, tags=["Tea"], metadata={"own": self.count}, namespace=place)

    def put(self) -> None:
        fields = {"type": "belief", "subject": "ada", "relation": "likes", "object": self.text, "confidence": 0.5}
        fields |= {"created_at": 1_780_000_000_000 + self.count, "user_id": "ada"}
        given = oms_signature.sign(fields, PEER, issued_at=1_780_000_000) if self.count % 2 else fields
        self.m.grains.put(given)

    def entry(self) -> None:
        expires: Any = 4_000_000_000_000 if self.count % 2 else None
        draft = Draft(content=self.text, tags=("a", "b"), expires=expires)
        self.m.service.openwop.put_entry(self.m.access, REF, draft)

    def store_view(self) -> None:
        """A grain that somebody keeps under a key of his own: an OAMS memory with the grain inside."""
        fields = {"type": "belief", "subject": "ada", "relation": "likes", "object": self.text, "confidence": 0.5}
        grain = encode({**fields, "created_at": 1_780_000_000_000 + self.count})
        document = Document(standard="oms", media_type=oms.MEDIA_TYPE, name=grain.address, native=grain.blob)
        namespace = str(self.m.oams.namespace())
        view = from_projection(oms.project(grain, self.m.owner), document, namespace=namespace)
        self.m.service.oams.store(self.m.access, {**view, "key": f"own key {self.count}"})

    def retract(self, name: str) -> None:
        with self.m.service.context.engine.open_snapshot(self.m.owner) as snapshot:
            version = snapshot.find_by_name("ump", name)
            assert version is not None
            address = snapshot.load_names(version.version_id)["oms"]
        self.m.grains.set_verification(address, "retracted" if self.count % 2 else "contested", reason="wrong")

    def revise(self, name: str) -> None:
        self.m.revise(name, f"{self.text} revised")

    def supersede(self, name: str) -> None:
        list(self.m.service.grains.export(self.m.access))
        with self.m.service.context.engine.open_snapshot(self.m.owner) as snapshot:
            version = snapshot.find_by_name("ump", name)
            assert version is not None
            address = snapshot.load_names(version.version_id)["oms"]
        fields = {"type": "belief", "subject": "ada", "relation": "likes", "object": self.text, "confidence": 0.5}
        self.m.grains.supersede(address, {**fields, "created_at": 1_780_000_000_000 + self.count})

    def store_again(self, name: str) -> None:
        for namespace in self.m.oams.namespaces:
            for memory in self.m.oams.list(namespace=namespace, limit=100).memories:
                if memory["value"] == self.m.get(name).text:
                    self.m.oams.store(memory["key"], f"{self.text} stored", namespace=namespace)
                    return

    def forget(self, name: str) -> None:
        self.m.forget(name, reason="asked")


NEW: dict[str, Callable[[Writer], None]] = {
    "remember": Writer.remember,
    "remember_of_another": Writer.remember_of_another,
    "store": Writer.store,
    "put": Writer.put,
    "entry": Writer.entry,
    "store_view": Writer.store_view,
}
CHANGES: dict[str, Callable[[Writer, str], None]] = {
    "revise": Writer.revise,
    "supersede": Writer.supersede,
    "store_again": Writer.store_again,
    "forget": Writer.forget,
    "retract": Writer.retract,
}
STEPS = st.lists(st.tuples(st.sampled_from((*NEW, *CHANGES)), st.integers(0, 7)), min_size=1, max_size=5)
EACH = settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def opened(home: Path, owner: str | None, encryption: str) -> Memoranda:
    """A store that encrypts what names a user, all, or nothing."""
    service = open_service(load_settings(home=home, encryption=encryption))
    return Memoranda(service, service.gate.local(owner))


@contextmanager
def two(
    tmp_path_factory: pytest.TempPathFactory, encryption: str = "users"
) -> Iterator[tuple[Memoranda, Memoranda, Path]]:
    """Two stores of one owner, each with an operator of its own."""
    folder = tmp_path_factory.mktemp("forms")
    with opened(folder / "one", None, encryption) as one, Memoranda.open(folder / "two", owner=one.owner) as other:
        yield one, other, folder


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("form", FORMS)
@EACH
@given(steps=STEPS)
# What binds the head to a user's namespace is in none of its own words.
@example(steps=[("store", 0), ("supersede", 0)])
# What ends by an earlier version's word, and has the key of another.
@example(steps=[("entry", 0), ("supersede", 0)])
def test_whatever_leaves_comes_back_the_same_into_this_store_and_an_empty_one(
    tmp_path_factory: pytest.TempPathFactory, form: str, steps: list[tuple[str, int]]
) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        writer = Writer(one)
        for op, which in steps:
            writer.step(op, which)
        history = form in WHOLE or form == "folder/"
        before = everything(one, history=history)
        report = write(one, folder / form, form)
        missing = left_behind(report)
        assert len(missing) == report.left_behind
        back = read(one, folder / form)
        assert (back.created, back.updated) == (0, 0)
        assert everything(one, history=history) == before
        there = read(other, folder / form)
        assert there.created == len(before["native"]) - len(missing)
        after = everything(other, history=history)
        # What was superseded by something forgotten, which does not leave, is warned of.
        if form in WHOLE and not there.warnings:
            assert after == before
        assert set(after["recalled"]) == set(before["recalled"]) - missing
        if not report.refusals:
            assert after["memories"] == before["memories"]
        if not report.warnings:
            assert after["entries"] == before["entries"]
        again = read(other, folder / form)
        assert (again.created, again.updated) == (0, 0)
        assert everything(other, history=history) == after
        assert other.verify().ok


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("kind", list(NEW))
@pytest.mark.parametrize("form", FORMS)
def test_a_memory_of_any_standard_is_the_same_after_any_path_of_forms(
    tmp_path_factory: pytest.TempPathFactory, kind: str, form: str
) -> None:
    with two(tmp_path_factory) as (one, _, folder):
        NEW[kind](Writer(one))
        before = everything(one)
        target = folder / "start.ndjson"
        write(one, target, "all.ndjson")
        for number, through in enumerate((form, "all.mg", form, "bundle")):
            with Memoranda.open(folder / f"store{number}", owner=one.owner) as store:
                read(store, target)
                assert everything(store) == before
                (folder / f"step{number}").mkdir()
                target = folder / f"step{number}" / through
                write(store, target, through)


@pytest.mark.requirement("OAMS-OURS-one-identity")
@settings(EACH, max_examples=25)
@given(
    steps=STEPS,
    path=st.lists(st.sampled_from(FORMS), min_size=1, max_size=4),
    encrypted=st.tuples(*[st.sampled_from(("users", "all", "off"))] * 3),
)
# Every document is encrypted, here and on the way; what one store encrypts the next does not.
@example(steps=[("put", 0), ("store", 0), ("revise", 0)], path=["all.mg", "bundle"], encrypted=("all", "all", "all"))
@example(steps=[("entry", 0), ("remember", 0)], path=["all.ndjson", "all.oams.md"], encrypted=("all", "off", "all"))
def test_any_path_of_up_to_four_forms_ends_where_it_began_or_names_what_it_left(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int]],
    path: list[str],
    encrypted: tuple[str, ...],
) -> None:
    first, *others = encrypted
    with two(tmp_path_factory, first) as (one, _, folder):
        writer = Writer(one)
        for op, which in steps:
            writer.step(op, which)
        before = everything(one)
        missing: set[str] = set()
        warned = refused = is_partial = False
        (folder / "start").mkdir()
        target = folder / "start" / path[0]
        report = write(one, target, path[0])
        for number, through in enumerate((*path[1:], "all.ndjson")):
            missing |= left_behind(report)
            assert len(left_behind(report)) == report.left_behind
            warned, refused = warned or bool(report.warnings), refused or bool(report.refusals)
            with opened(folder / f"store{number}", one.owner, others[number % len(others)]) as store:
                is_partial = bool(read(store, target).warnings) or is_partial
                after = everything(store)
                assert set(after["recalled"]) == set(before["recalled"]) - missing
                if not refused:
                    assert after["memories"] == before["memories"]
                if set(path) <= set(WHOLE) and not is_partial:
                    assert after == before
                if not warned:
                    assert after["entries"] == before["entries"]
                assert store.verify().ok
                (folder / f"step{number}").mkdir()
                target = folder / f"step{number}" / through
                report = write(store, target, through)
        # Back where it began, nothing is new.
        back = read(one, target)
        assert (back.created, back.updated) == (0, 0)
        assert everything(one) == before


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("form", ["all.ndjson", "all.ump.md", "all.mg", "folder/"])
def test_a_memory_without_its_history_keeps_the_key_it_was_given(
    tmp_path_factory: pytest.TempPathFactory, form: str
) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        one.oams.store("k", "Invoices go by mail.")
        one.openwop.put_entry(REF, Draft(content="tea", tags=(), expires=None))
        for record in list(one.export()):
            one.revise(record["id"], f"{record['body']['text']} Or not.")
        before = everything(one, history=False)
        report = write(one, folder / form, form, history=False)
        assert read(other, folder / form).created == 2
        after = everything(other, history=False)
        assert after["recalled"] == before["recalled"]
        assert other.oams.get("k").memory == one.oams.get("k").memory
        # What openwop calls an entry stands in its first version only; that is said.
        (warning,) = report.warnings
        assert f"{before['entries'][0]['id']}, its id in openwop, is not exported" in warning
        again = read(one, folder / form)
        assert (again.created, again.updated) == (0, 0)


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("kind", list(NEW))
@pytest.mark.parametrize("form", ["all.ndjson", "all.mg"])
def test_what_was_superseded_by_something_missing_is_out_of_use_until_that_comes(
    tmp_path_factory: pytest.TempPathFactory, kind: str, form: str
) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        NEW[kind](Writer(one))
        write(one, folder / form, form)
        (record,) = one.export()
        one.revise(record["id"], "tea revised")
        before = everything(one)
        write(one, folder / f"whole-{form}", form)
        if form == "all.ndjson":
            lines = (folder / f"whole-{form}").read_bytes().splitlines(keepends=True)
            (folder / f"part-{form}").write_bytes(lines[0])
        else:
            first, _ = one.service.grains.export(one.access)
            mg.pack(str(folder / f"part-{form}"), [first], order="given", compress=False, progress=lambda _: None)
        report = read(other, folder / f"part-{form}")
        assert report.created == 1
        assert "which is not here" in report.warnings[0]
        for _ in range(2):
            assert other.recall("tea") == []
            assert everything(other)["memories"] == {}
            # Nor does it come back to life by leaving once more.
            with Memoranda.open(folder / "three", owner=one.owner) as third:
                write(other, folder / f"again-{form}", form)
                read(third, folder / f"again-{form}")
                assert third.recall("tea") == []
                # What superseded it is named, in every form, also by those who never had it.
                for store in (other, third):
                    for told in ("all.mg", "all.ndjson"):
                        assert _successors(store, told) == _successors(one, told), told
        read(other, folder / f"whole-{form}")
        assert everything(other) == before


def _successors(m: Memoranda, form: str) -> list[Any]:
    if form == "all.mg":
        return [index.superseded_by for _, index in m.service.grains.export(m.access) if index.superseded_by]
    return [record["superseded_by"] for record in m.export() if record["superseded_by"]]


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("kind", list(NEW))
def test_a_memory_has_one_id_and_one_address_in_every_store(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        NEW[kind](Writer(one))
        for each in ("bundle", "all.mg"):
            write(one, folder / each, each)
        read(other, folder / "bundle")
        assert [record["id"] for record in one.export()] == [record["id"] for record in other.export()]
        assert list(one.service.grains.export(one.access)) == list(other.service.grains.export(other.access))
        # And the other forms bring nothing new.
        assert read(other, folder / "all.mg").created == 0


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("kind", list(NEW))
def test_putting_the_grain_of_a_memory_makes_no_twin(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        NEW[kind](Writer(one))
        write(one, folder / "all.ndjson", "all.ndjson")
        before = everything(one)
        ((delivery, _),) = one.service.grains.export(one.access)
        assert one.grains.put(delivery).result == "exists"
        assert everything(one) == before
        # Nor where it is not known by that address yet, nor where it is not there at all.
        read(other, folder / "all.ndjson")
        assert other.grains.put(delivery).result == "exists"
        assert everything(other) == before
        with Memoranda.open(folder / "three", owner=one.owner) as third:
            stored = third.grains.put(delivery)
            assert stored.result == "created"
            assert third.grains.get(stored.address).delivery == delivery or kind == "store_view"
            assert everything(third) == before


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("kind", ["store", "entry"])
def test_forgetting_what_was_imported_again_forgets_it(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    with two(tmp_path_factory) as (one, _, folder):
        NEW[kind](Writer(one))
        write(one, folder / "all.ndjson", "all.ndjson")
        read(one, folder / "all.ndjson")
        (found,) = one.recall("tea")
        assert one.forget(found.record["id"], hard=True, reason="asked") == "erased"
        assert one.recall("tea") == []


@pytest.mark.requirement("OAMS-OURS-sync-settles")
@EACH
@given(steps=STEPS)
def test_a_second_pass_of_sync_does_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    with two(tmp_path_factory) as (one, other, folder):
        writer = Writer(one)
        for op, which in steps:
            writer.step(op, which)
        forms: tuple[FolderForm, FolderForm] = ("notes", "records")
        for form in forms:
            notes = folder / form
            notes.mkdir()
            sync = FolderSync(one.service, one.access, notes, states=folder / "one" / "sync", form=form)
            assert sync.run().ok
            before = everything(one)
            assert sync.run().steps == []
            assert everything(one) == before
        # The records in another store: the same memories.
        there = FolderSync(other.service, other.access, notes, states=folder / "two" / "sync", form="records")
        assert there.run().ok
        assert there.run().steps == []
        assert {found.record["id"] for found in other.recall("tea", limit=50)} == set(before["recalled"])
