"""A file that supersedes what is here leaves one of the two stated, whichever of them comes first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from tests.bindings.files.test_adoption import OAMS_FORMS, adopt, contents
from tests.bindings.files.test_forms import FORMS, REF, write

from memoranda.app import Memoranda
from memoranda.model.memory import Document
from memoranda.standards.oams.mapping import from_projection
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.grains import encode
from memoranda.standards.openwop.entry import Draft

Change = Callable[[Memoranda, str, str], str]


def revise(m: Memoranda, name: str, text: str) -> str:
    return m.revise(name, text).id


def supersede(m: Memoranda, name: str, text: str) -> str:
    """Replace a memory by a grain that says no more of it than what it says now."""
    view = m.grains.get(_name(m, name, "oms"))
    kept = ("subject", "relation", "namespace", "user_id", "structural_tags")
    fields = {field: value for field, value in view.grain.fields.items() if field in kept}
    fields |= {"type": "belief", "object": text, "confidence": 0.5, "created_at": m.service.context.clock()}
    stored = m.grains.supersede(view.address, fields)
    return _record_of(m, stored.address)


def query(m: Memoranda, name: str, text: str) -> str:
    """Replace a memory through CAL, whose grain says itself which one it replaced."""
    view = m.grains.get(_name(m, name, "oms"))
    said = 'SUPERSEDE $old SET object = $text REASON "a test"'
    params = {"old": f"sha256:{view.address}", "text": text}
    done = m.service.cal.run(m.access, said, params=params, namespace=view.grain.namespace, approve=True)
    assert isinstance(done, dict)
    return _record_of(m, str(done["new_hash"]).removeprefix("sha256:"))


def store(m: Memoranda, name: str, text: str) -> str:
    """Write a memory through OAMS under the key that it has there."""
    said = m.get(name).text
    for namespace in m.oams.namespaces:
        for memory in m.oams.list(namespace=namespace, limit=500).memories:
            if memory["value"] == said:
                m.oams.store(memory["key"], text, namespace=namespace)
    (found,) = [each["id"] for each in m.export(history=False) if each["body"]["text"] == text]
    return found


def _name(m: Memoranda, name: str, standard: str) -> str:
    with m.service.context.engine.open_snapshot(m.owner) as snapshot:
        version = snapshot.find_by_name("ump", name)
        assert version is not None
        return snapshot.load_names(version.version_id)[standard]


def _record_of(m: Memoranda, address: str) -> str:
    with m.service.context.engine.open_snapshot(m.owner) as snapshot:
        version = snapshot.find_by_name("oms", address)
        assert version is not None
        return snapshot.load_names(version.version_id)["ump"]


def put(m: Memoranda, text: str) -> None:
    m.grains.put(
        {
            "type": "belief",
            "subject": "ada",
            "relation": "likes",
            "object": text,
            "confidence": 0.5,
            "created_at": 1_780_000_000_000,
        }
    )


def keep_grain(m: Memoranda, text: str) -> None:
    """Keep a grain under a key of one's own: an OAMS memory with the grain inside."""
    fields = {"type": "belief", "subject": "ada", "relation": "likes", "object": text, "confidence": 0.5}
    grain = encode({**fields, "created_at": 1_780_000_000_000})
    document = Document(standard="oms", media_type=oms.MEDIA_TYPE, name=grain.address, native=grain.blob)
    view = from_projection(oms.project(grain, m.owner), document, namespace=str(m.oams.namespace()))
    m.service.oams.store(m.access, {**view, "key": f"key of {text}"})


# None of them is bound to a user or to an end, which a version of another standard could not say itself.
STARTS: Final[tuple[Callable[[Memoranda, str], object], ...]] = (
    lambda m, text: m.remember(text, project="p"),
    lambda m, text: m.oams.store(f"key of {text}", text, tags=["Tea"]),
    lambda m, text: m.openwop.put_entry(REF, Draft(content=text)),
    put,
    keep_grain,
)
HISTORIES: Final[tuple[tuple[Change, ...], ...]] = (
    (revise,),
    (supersede,),
    (query,),
    (store,),
    (revise, revise),
    (revise, supersede),
    (supersede, revise),
    (store, revise),
    (revise, store),
)
# What a file holds: with the earlier versions, where the form has a place for them, and without.
HELD: Final = [(form, has) for form in FORMS for has in (True, False) if not has or form not in OAMS_FORMS]
# In which order a store takes in the files of before the changes (o), of after the first (1) and of after all (n).
ORDERS: Final = ("onn", "noo", "o1n", "n1o")


class Files:
    """What one owner's store exported before anything changed, between the changes, and at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with Memoranda.open(folder / "one") as one:
            self.owner = one.owner
            names = self._fill(one)
            self._export(one, "o")
            for step in range(2):
                for place, (history, name) in enumerate(names):
                    if step < len(history):
                        names[place] = (history, history[step](one, name, f"text {place} after {step}"))
                self._export(one, "1" if step == 0 else "n")
            self.stated = {form: contents(one, form, history=False) for form in FORMS}
            assert len(self.stated["all.ndjson"]) == len(names)

    def _fill(self, one: Memoranda) -> list[tuple[tuple[Change, ...], str]]:
        names: list[tuple[tuple[Change, ...], str]] = []
        for number, (history, start) in enumerate(product(HISTORIES, STARTS)):
            # Every history with every other start, and every start with every other history.
            if number % 2 == 0:
                text = f"tea number{len(names)}"
                start(one, text)
                (name,) = [each["id"] for each in one.export() if each["body"]["text"].endswith(text)]
                names.append((history, name))
        return names

    def _export(self, one: Memoranda, moment: str) -> None:
        for form, history in HELD:
            path = self.path(form, moment, history=history)
            path.parent.mkdir(parents=True, exist_ok=True)
            report = write(one, path, form, history=history)
            assert (report.refusals, report.kept) == ([], 0), form

    def path(self, form: str, moment: str, *, history: bool) -> Path:
        return self.folder / ("whole" if history else "heads") / moment / form


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("superseding"))


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("is_adopted", [False, True], ids=["same owner", "another owner"])
@pytest.mark.parametrize(("form", "history"), HELD)
def test_of_two_versions_in_files_the_later_one_is_stated_whichever_comes_first(
    tmp_path: Path, files: Files, form: str, *, is_adopted: bool, history: bool
) -> None:
    for order in ORDERS:
        with Memoranda.open(tmp_path / order, owner=None if is_adopted else files.owner) as other:
            for moment in order:
                report = adopt(other, files.path(form, moment, history=history), adopt=is_adopted)
                assert report.refused == 0, (order, report.refusals)
            assert contents(other, form, history=False) == files.stated[form], order
            assert other.verify().ok
