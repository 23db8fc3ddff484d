"""Grains that pass between Memoranda and areev, an implementation that nobody here wrote, both ways, as bytes.

Where the two differ, `divergences.toml` says so and why; these tests hold it to that. It is used as it comes, through
its public interface alone.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import areev
import pytest
from tests.interop import areev_bundle
from tests.standards.oms.files import some_grains
from tests.standards.oms.published import ADDRESS, BY_ID, CREATED_AT, TYPE_NAMES, of_type, vector_input

from memoranda import Memoranda
from memoranda.errors import GrainError
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oms import grains
from memoranda.standards.oms.container import ContainerWriter
from memoranda.standards.oms.container_reader import ContainerReader
from memoranda.standards.oms.grains import Grain

_TABLE: Final = tomllib.loads((Path(__file__).parent / "divergences.toml").read_text("utf-8"))
WRITTEN: Final = {entry["id"]: entry for entry in _TABLE["written"]}
IMPORTED: Final = {entry["id"]: entry for entry in _TABLE["imported"]}
# Its names for the types that OMS 1.3 calls otherwise.
NAMES: Final = {"belief": "fact", "action": "tool"}

_TRIPLE: Final = {"subject": "user", "relation": "prefers", "object": "tea", "confidence": 0.9}
_LINK: Final = {"hash": ADDRESS, "relation_type": "similar", "weight": 0.5}
# What both write alike, to the byte.
ALIKE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "fact": ("fact", _TRIPLE),
    "fact-with-links": ("fact", {**_TRIPLE, "related_to": [_LINK, {"hash": "ab" * 32, "relation_type": "elaborates"}]}),
    "fact-with-tags": ("fact", {**_TRIPLE, "structural_tags": ["plain", "pii:email"]}),
    "fact-with-health-tags": ("fact", {**_TRIPLE, "structural_tags": ["phi:diagnosis"]}),
    "fact-with-times": ("fact", {**_TRIPLE, "valid_from": CREATED_AT, "valid_to": CREATED_AT + 5, "importance": 0.5}),
    "fact-of-a-user": ("fact", {**_TRIPLE, "user_id": "u-1"}),
    "fact-in-another-namespace": ("fact", {**_TRIPLE, "namespace": "work:project"}),
    "fact-with-a-field-of-an-application": ("fact", {**_TRIPLE, "x-app": "yes"}),
    "fact-in-decomposed-text": ("fact", {**_TRIPLE, "object": "cafe\u0301"}),
    "fact-in-other-scripts": ("fact", {**_TRIPLE, "object": "漢字 \U0001f44d"}),
    "fact-with-an-integral-confidence": ("fact", {**_TRIPLE, "confidence": 1}),
    "event": ("event", {"content": "hello", "session_id": "s-1", "role": "user", "confidence": 1.0}),
    "state": ("state", {"context": {"model": "m", "turn": 3}, "confidence": 1.0}),
    "tool": (
        "tool",
        {"tool_name": "kettle", "input": {"cups": 2}, "content": "x", "is_error": False, "confidence": 1.0},
    ),
    "goal": ("goal", {"description": "make tea", "goal_state": "active", "confidence": 1.0}),
    "reasoning": ("reasoning", {"conclusion": "water first", "inference_method": "deductive", "confidence": 1.0}),
}


class Other:
    """areev, with memories of its own in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def _path(self, ending: str) -> str:
        self._count += 1
        return str(self._folder / f"{self._count}.{ending}")

    def memory(self) -> Any:
        return areev.Areev(self._path("db"), ns="shared")

    def write(self, type_name: str, fields: dict[str, Any]) -> tuple[str, bytes]:
        """The address and the bytes of the grain that it makes of fields; ValueError if it will not."""
        memory = self.memory()
        given = {"created_at": CREATED_AT, **fields}
        namespace = given.pop("namespace", "shared")
        address = memory.add(type_name, json.dumps(given), namespace)
        return address, dict(self.handed_over(memory))[address]

    def handed_over(self, memory: Any) -> list[tuple[str, bytes]]:
        path = self._path("bundle")
        memory.bundle(path)
        return list(areev_bundle.read(Path(path).read_bytes()))

    def take(self, blobs: list[bytes]) -> Any:
        """A memory of its own with these grains in it; ValueError if it will not take them."""
        path, memory = self._path("bundle"), self.memory()
        Path(path).write_bytes(areev_bundle.written(blobs))
        assert memory.import_bundle(path) == len(blobs)
        return memory


@pytest.fixture
def other(tmp_path: Path) -> Other:
    return Other(tmp_path)


def written_back(grain: Grain) -> bytes:
    """What we write from the fields that we read."""
    return grains.encode(
        grain.fields, sensitivity=grain.header.sensitivity, type_byte=grain.type_byte, default_namespace=None
    ).blob


@pytest.mark.parametrize(("type_name", "fields"), ALIKE.values(), ids=ALIKE)
def test_the_same_fields_become_the_same_bytes_on_both_sides(
    other: Other, type_name: str, fields: dict[str, Any]
) -> None:
    address, blob = other.write(type_name, fields)
    grain = grains.decode(blob, address=address)
    assert written_back(grain) == blob
    ours = grains.encode({"created_at": CREATED_AT, **fields, "type": type_name})
    assert (ours.blob, ours.address) == (blob, address)


def test_the_first_published_vector_comes_out_of_both_sides(other: Other) -> None:
    fields = vector_input("V1")
    address, blob = other.write(fields.pop("type"), fields)
    assert address == BY_ID["V1"]["expected"]["content_address"]
    assert blob == bytes.fromhex(BY_ID["V1"]["expected"]["blob_hex"])


@pytest.mark.parametrize("entry", WRITTEN.values(), ids=WRITTEN)
def test_what_it_writes_otherwise_is_what_the_table_says(other: Other, entry: dict[str, Any]) -> None:
    news = f"divergence {entry['id']}: areev {areev.__version__} no longer does this; revise divergences.toml"
    given = {"created_at": CREATED_AT, "namespace": "shared", "type": entry["type"], **entry["fields"]}
    if "refuses" in entry:
        with pytest.raises(ValueError, match=re.escape(entry["refuses"])):
            other.write(entry["type"], entry["fields"])
        return
    address, blob = other.write(entry["type"], entry["fields"])
    if "oms_code" in entry:
        with pytest.raises(GrainError) as refused:
            grains.decode(blob, address=address)
        assert refused.value.oms_code == entry["oms_code"], news
        if entry.get("loose"):
            # Its bytes and its address are what they are; only we see less in them.
            assert grains.decode(blob, address=address, strict=False).address == address
        return
    grain = grains.decode(blob, address=address)
    assert written_back(grain) == blob
    gains = {name: value for name, value in grain.fields.items() if given.get(name) != value}
    assert gains == entry.get("gains", {}), news
    assert sorted(given.keys() - grain.fields.keys()) == sorted(entry.get("loses", [])), news


@pytest.mark.parametrize("type_name", TYPE_NAMES)
def test_it_takes_in_what_we_write_and_hands_over_the_same_bytes(other: Other, type_name: str) -> None:
    links = {"related_to": [_LINK], "structural_tags": ["plain", "pii:email"], "x-app": {"deep": [1, None]}}
    names = {type_name, NAMES.get(type_name, type_name)}
    blobs = [
        grains.encode({**of_type(type_name), **more, "type": name}).blob
        for name in sorted(names)
        for more in ({}, links)
    ]
    memory = other.take(blobs)
    assert dict(other.handed_over(memory)) == {grains.address_of(blob): blob for blob in blobs}
    assert json.loads(memory.verify())["integrity"] == "ok"


def test_it_shows_the_fields_that_we_wrote(other: Other) -> None:
    fields = {**of_type("belief"), "type": "fact", "related_to": [_LINK], "structural_tags": ["plain"], "user_id": "u"}
    fields |= {"invalidation_policy": {"mode": "locked"}, "derived_from": [ADDRESS], "context": {"a": {"b": [1, None]}}}
    grain = grains.encode(fields)
    (found,) = json.loads(other.take([grain.blob]).recall("user"))
    assert (found["hash"], found["fields"]) == (grain.address, fields)


@pytest.mark.parametrize("entry", IMPORTED.values(), ids=IMPORTED)
def test_what_it_takes_in_otherwise_is_what_the_table_says(other: Other, entry: dict[str, Any]) -> None:
    news = f"divergence {entry['id']}: areev {areev.__version__} no longer does this; revise divergences.toml"
    grain = grains.encode(entry["fields"], cbor=entry.get("cbor", False))
    if "refuses" in entry:
        with pytest.raises(ValueError, match=re.escape(entry["refuses"])):
            other.take([grain.blob])
        return
    memory = other.take([grain.blob])
    assert other.handed_over(memory) == [(grain.address, grain.blob)]
    (found,) = json.loads(memory.recall("user"))
    shown = {name: value for name, value in found["fields"].items() if grain.fields.get(name) != value}
    assert shown == entry["shows"], news


def test_it_refuses_what_we_refuse(other: Other) -> None:
    blob = grains.encode({**of_type("belief"), "type": "fact"}).blob
    for damaged in (blob[:-5], blob + b"\x00"):
        with pytest.raises(GrainError):
            grains.decode(damaged)
        with pytest.raises(ValueError, match="FMT-E"):
            other.take([damaged])


def test_a_memory_of_its_goes_through_our_store_and_an_mg_file_and_back(other: Other, tmp_path: Path) -> None:
    memory = other.memory()
    for type_name, fields in ALIKE.values():
        given = {"created_at": CREATED_AT, **fields}
        memory.add(type_name, json.dumps(given), given.pop("namespace", "shared"))
    theirs = dict(other.handed_over(memory))
    with Memoranda.open(tmp_path / "home") as m:
        report = m.service.import_items(m.access, number_items("oms", theirs.values()))
        assert (report.created, report.refusals) == (len(theirs), [])
        assert all(m.service.grains.get(m.access, address).delivery == blob for address, blob in theirs.items())
        file = io.BytesIO()
        writer = ContainerWriter(file, io.BytesIO())
        for delivery, state in m.service.grains.export(m.access):
            writer.append(delivery, state)
        writer.finish()
    ours = list(ContainerReader(file).deliveries())
    assert dict(other.handed_over(other.take(ours))) == theirs


def test_a_bundle_of_its_is_imported_grain_by_grain_at_the_same_addresses(other: Other, tmp_path: Path) -> None:
    memory = other.memory()
    for type_name, fields in ALIKE.values():
        memory.add(type_name, json.dumps({"created_at": CREATED_AT, **fields}), "shared")
    # Without an input OMS allows no action, so this one is written again.
    memory.add("tool", json.dumps({"created_at": CREATED_AT, "tool_name": "kettle", "content": "x", "is_error": False}))
    blobs = dict(other.handed_over(memory))
    path = tmp_path / "bundle.mgb"
    path.write_bytes(areev_bundle.written(blobs.values()))
    with Memoranda.open(":memory:", embedder=None) as m:
        assert m.import_files(path).created == len(blobs)
        deliveries = {address: m.grains.get(address).delivery for address in blobs}
        assert m.verify().ok
    assert [deliveries[address] == blob for address, blob in blobs.items()].count(False) == 1


def test_an_mg_file_of_ours_reaches_it_grain_by_grain(other: Other) -> None:
    file = io.BytesIO()
    writer = ContainerWriter(file, io.BytesIO(), compress=True)
    for grain in some_grains(20):
        writer.append(grain)
    writer.finish()
    deliveries = list(ContainerReader(file).deliveries())
    assert [blob for _, blob in other.handed_over(other.take(deliveries))] == deliveries
