"""Export bundles: complete, sorted, checked before anything is handed out."""

from __future__ import annotations

import hashlib
import io
import json
import struct
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standards.oams.strategies import memories, memory

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, Unsupported
from memoranda.model.instant import parse_instant
from memoranda.standards.oams import bundle
from memoranda.standards.oams.bundle import BundleReader, BundleWriter, Manifest
from memoranda.standards.oams.memory import check, pack_vector

NOW = parse_instant("2026-04-27T12:00:00Z")


@dataclass
class Files:
    """A bundle in memory."""

    manifest: bytes
    lines: bytes
    vectors: bytes | None = None

    def reader(self) -> BundleReader:
        vectors = None if self.vectors is None else io.BytesIO(self.vectors)
        return BundleReader(self.manifest, io.BytesIO(self.lines), vectors)

    def said(self) -> dict[str, Any]:
        said = json.loads(self.manifest)
        assert isinstance(said, dict)
        return said

    def saying(self, **members: Any) -> Files:
        said = {name: member for name, member in {**self.said(), **members}.items() if member is not None}
        return Files(json.dumps(said).encode(), self.lines, self.vectors)


def written(values: list[Any], *, inline: bool = True, run_bytes: int = 1000) -> Files:
    writer = BundleWriter(io.BytesIO(), inline_embeddings=inline, run_bytes=run_bytes)
    for value in values:
        writer.add(value, json_text.dump(value))
    lines, vectors = io.BytesIO(), io.BytesIO()
    manifest = writer.write(lines, vectors if writer.vector_count else None, exported_at=NOW)
    return Files(manifest.render(), lines.getvalue(), vectors.getvalue() if writer.vector_count else None)


def vector_memory(key: str, vector: list[float]) -> Any:
    return memory(key=key, embedding=vector, embedding_model="voyage-3")


TWO = [vector_memory("a", [0.5, -0.25]), memory(key="b", namespace="org-acme:legal", created_at="2020-01-01T00:00:00Z")]


@pytest.mark.requirement("OAMS-7-manifest", "OAMS-8-version-in-manifest")
def test_a_manifest_says_what_is_there() -> None:
    files = written(TWO)
    assert files.vectors is not None
    assert files.said() == {
        "oams_version": "0.1",
        "source_vendor": "memoranda",
        "exported_at": "2026-04-27T12:00:00.000Z",
        "namespaces": ["org-acme:legal", "user-x123ab:personal"],
        "memory_count": 2,
        "embedding_model": "voyage-3",
        "checksum_sha256": hashlib.sha256(files.lines).hexdigest(),
        "memoranda:embeddings": {
            "layout": "u64 line offset, u32 count, float32[count]; little-endian",
            "count": 1,
            "checksum_sha256": hashlib.sha256(files.vectors).hexdigest(),
        },
    }
    assert (
        written([memory(key=str(n), embedding=[1], embedding_model=f"m{n}") for n in range(2)]).said()[
            "embedding_model"
        ]
        is None
    )


@pytest.mark.requirement("OAMS-1-ingestible", "OAMS-5-source-kept", "OAMS-7-jsonl")
@settings(max_examples=60)
@given(st.lists(memories(), max_size=6))
def test_what_goes_in_comes_out_and_a_second_export_is_the_same_file(values: list[Any]) -> None:
    files = written(values)
    reader = files.reader()
    found = list(reader)
    assert reader.warnings == []
    assert [each.error for each in found] == [None] * len(values)
    back = [each.memory for each in found if each.memory is not None]
    assert sorted(map(json_text.dump, back)) == sorted(map(json_text.dump, values))
    assert b"".join(each.raw + b"\n" for each in found) == files.lines
    assert written(back) == files


@pytest.mark.requirement("OAMS-7-sorted")
def test_memories_are_sorted_by_creation_whatever_the_order_they_come_in() -> None:
    values = [memory(key=str(number), created_at=f"20{number % 90 + 10}-01-01T00:00:00Z") for number in range(300)]
    found = [each.memory for each in written(values, run_bytes=5000).reader()]
    created = [each["created_at"] for each in found if each is not None]
    assert len(created) == 300
    assert created == sorted(created)


@pytest.mark.requirement("OAMS-7-embeddings")
def test_embeddings_are_packed_under_the_place_of_their_line() -> None:
    files = written([vector_memory("a", [0.5, -0.25]), memory(key="b"), vector_memory("c", [1.5])])
    assert files.vectors is not None
    offset_of_c = sum(len(line) + 1 for line in files.lines.split(b"\n")[:2])
    assert files.vectors == struct.pack("<QI2f", 0, 2, 0.5, -0.25) + struct.pack("<QI1f", offset_of_c, 1, 1.5)


@pytest.mark.requirement("OAMS-7-embeddings")
@settings(max_examples=40)
@given(st.lists(memories(), max_size=5))
def test_vectors_may_leave_the_lines_and_are_joined_again(values: list[Any]) -> None:
    files = written(values, inline=False)
    assert b'"embedding":[' not in files.lines
    back: dict[tuple[str, str], list[Any]] = {}
    for each in files.reader():
        assert each.memory is not None
        back.setdefault((each.memory["namespace"], each.memory["key"]), []).append(each.memory)
    for value in values:
        same = back[value["namespace"], value["key"]]
        assert any(pack_vector(value.get("embedding", [])) == pack_vector(each.get("embedding", [])) for each in same)


@pytest.mark.requirement("OAMS-7-readme")
def test_the_readme_tells_people_what_is_there() -> None:
    text = bundle.render_readme(Manifest.parse(written(TWO).manifest))
    assert "2 memories" in text
    assert "`user-x123ab:personal`" in text
    assert "float32" in text
    many = bundle.render_readme(Manifest(memory_count=300, namespaces=tuple(f"o:{n}" for n in range(300))))
    assert "and 200 more" in many
    assert "There are no memories." in bundle.render_readme(Manifest.parse(written([]).manifest))


# --- what must hold before anything is handed out ---------------------------------------------------------


def refused(files: Files) -> str:
    with pytest.raises(MemorandaError) as caught:
        list(files.reader())
    return caught.value.message


@pytest.mark.requirement("OAMS-7-checksum")
def test_a_tampered_or_truncated_bundle_is_refused_as_a_whole() -> None:
    files = written(TWO)
    assert files.vectors is not None
    assert "checksum" in refused(Files(files.manifest, files.lines.replace(b"tea", b"gin"), files.vectors))
    assert "has 1 memories; the manifest says 2" in refused(
        Files(files.manifest, files.lines[: files.lines.index(b"\n") + 1], files.vectors)
    )
    assert "checksum" in refused(Files(files.manifest, files.lines[:-1], files.vectors))
    assert "has 3 memories" in refused(Files(files.manifest, files.lines + b"{}\n", files.vectors))
    assert "embeddings.bin" in refused(Files(files.manifest, files.lines, files.vectors[:-1]))
    assert "embeddings.bin is missing" in refused(Files(files.manifest, files.lines))
    assert "checksum" in refused(files.saying(checksum_sha256="0" * 64))


@given(st.data())
def test_no_flipped_bit_goes_unnoticed(data: st.DataObject) -> None:
    files = written(TWO)
    at = data.draw(st.integers(0, len(files.lines) * 8 - 1))
    damaged = bytearray(files.lines)
    damaged[at // 8] ^= 1 << at % 8
    with pytest.raises(InvalidInput):
        BundleReader(files.manifest, io.BytesIO(bytes(damaged)), io.BytesIO(files.vectors or b"")).check()


@pytest.mark.parametrize(
    "vectors",
    [
        struct.pack("<QI2f", 0, 2, 1, 2)[:-1],
        struct.pack("<QI", 0, 0),
        struct.pack("<QI", 0, 2**32 - 1),
        struct.pack("<QI1f", 5, 1, 1) + struct.pack("<QI1f", 5, 1, 1),
        b"x",
    ],
)
def test_embeddings_that_do_not_have_their_layout_are_refused_even_with_a_right_checksum(vectors: bytes) -> None:
    files = written(TWO)
    told = {**files.said()["memoranda:embeddings"], "checksum_sha256": hashlib.sha256(vectors).hexdigest()}
    damaged = files.saying(**{"memoranda:embeddings": told})
    assert "embeddings.bin" in refused(Files(damaged.manifest, files.lines, vectors))


@pytest.mark.requirement("OAMS-2-embedding-absent")
def test_embeddings_in_a_layout_of_others_are_left_out_with_a_warning() -> None:
    files = written([memory()])
    reader = Files(files.manifest, files.lines, b"\x00" * 6144).reader()
    assert [each.memory for each in reader] == [memory()]
    assert "layout" in reader.warnings[0]


def test_a_vector_that_fits_no_memory_is_left_out_with_a_warning() -> None:
    files = written([vector_memory("a", [0.5])], inline=False)
    line = files.lines.replace(b',"embedding_model":"voyage-3"', b"")
    changed = files.saying(checksum_sha256=hashlib.sha256(line).hexdigest())
    found = list(Files(changed.manifest, line, files.vectors).reader())
    assert found[0].memory == memory(key="a")
    assert "its vector is ignored" in found[0].warnings[0]


@pytest.mark.requirement("OAMS-8-compatible-minor")
@pytest.mark.parametrize(("version", "warns"), [("0.1", False), ("0.1.7", False), ("0.2", True), ("0.10.0-rc.1", True)])
def test_a_compatible_version_is_read_and_another_minor_one_with_a_warning(version: str, warns: bool) -> None:
    reader = written(TWO).saying(oams_version=version).reader()
    assert len(list(reader)) == 2
    assert [version in each for each in reader.warnings] == [True] * warns


@pytest.mark.requirement("OAMS-8-compatible-minor")
@pytest.mark.parametrize("version", ["1.0", "2.3.4", "10.1"])
def test_a_major_version_is_refused(version: str) -> None:
    with pytest.raises(Unsupported, match="reads 0"):
        written(TWO).saying(oams_version=version).reader()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"oams_version": 0.1}, "oams_version"),
        ({"oams_version": "newest"}, "oams_version"),
        ({"oams_version": None}, "oams_version"),
        ({"memory_count": "2"}, "memory_count"),
        ({"memory_count": -1}, "memory_count"),
        ({"memory_count": True}, "memory_count"),
        ({"checksum_sha256": "abc"}, "checksum_sha256"),
        ({"checksum_sha256": 7}, "checksum_sha256"),
        ({"namespaces": "a:b"}, "namespaces"),
        ({"namespaces": [7]}, "namespaces"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(members: dict[str, Any], reason: str) -> None:
    message = refused(written(TWO).saying(**members))
    assert message.startswith("manifest.json: ")
    assert reason in message


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"null", b'{"a":1,"a":2}'])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    files = written([memory()])
    assert refused(Files(data, files.lines)).startswith("manifest.json: ")


@pytest.mark.requirement("OAMS-1-ingestible")
def test_a_manifest_of_others_may_have_more_and_less() -> None:
    files = written([memory()]).saying(
        source_vendor=None, checksum_sha256=None, memory_count=None, exported_at=None, namespaces=None, extra={"x": 1}
    )
    reader = files.reader()
    assert [each.memory for each in reader] == [memory()]
    assert len(reader.warnings) == 2
    assert reader.manifest.extra_members == {"extra": {"x": 1}}
    upper = written([memory()])
    assert len(list(upper.saying(checksum_sha256="sha256:" + upper.said()["checksum_sha256"].upper()).reader())) == 1


def test_a_namespace_that_the_manifest_does_not_list_is_odd() -> None:
    found = list(written([memory()]).saying(namespaces=["a:b"]).reader())
    assert found[0].warnings == ("its namespace is not in the manifest",)


def test_an_invalid_memory_in_a_sound_bundle_is_named_by_file_and_line() -> None:
    lines = json_text.dump(memory()) + b"\n" + b'{"key":"x"}\n'
    files = written([]).saying(
        memory_count=2, checksum_sha256=hashlib.sha256(lines).hexdigest(), namespaces=["user-x123ab:personal"]
    )
    found = list(Files(files.manifest, lines).reader())
    assert found[0].memory == memory()
    assert found[1].error is not None
    assert found[1].error.message.startswith("memories.jsonl: line 2: ")


def test_a_native_document_with_line_breaks_becomes_one_line() -> None:
    writer = BundleWriter(io.BytesIO())
    value = memory()
    writer.add(check(value, complete=True)[0], json.dumps(value, indent=2).encode())
    lines = io.BytesIO()
    writer.write(lines, None, exported_at=NOW)
    assert lines.getvalue() == json_text.dump(value) + b"\n"
