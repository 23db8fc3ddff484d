"""Bundles as folders: whole or not there, and read without following anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
from tests.standards.oams.strategies import memory

from memoranda.bindings.files import oams
from memoranda.bindings.files.oams_bundle import FolderBundleReader, FolderBundleWriter
from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, NotFound, TooLarge
from memoranda.standards.oams import bundle, markdown

VALUES = [
    memory(key="b", embedding=[0.5], embedding_model="m"),
    memory(key="a", created_at="2020-01-01T00:00:00Z", value="x" * 1_048_576),
    memory(key="c", namespace="org-acme:legal", tags=["Tea"]),
]


def write(folder: Path, values: list[Any] = VALUES) -> Path:
    with FolderBundleWriter(folder, exported_at=1_777_291_200_000, run_bytes=2000) as writer:
        for value in values:
            writer.add(value)
    return folder


def refusal(folder: Path) -> MemorandaError:
    with pytest.raises(MemorandaError) as caught, FolderBundleReader(folder):
        pass
    assert str(folder) in caught.value.message
    return caught.value


@pytest.mark.requirement("OAMS-7-bundle")
def test_a_bundle_has_its_four_files_and_reads_back(tmp_path: Path) -> None:
    folder = write(tmp_path / "deep" / "oams-export")
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "embeddings.bin",
        "manifest.json",
        "memories.jsonl",
    ]
    assert oams.is_oams(str(folder))
    assert list(folder.parent.iterdir()) == [folder]
    told: list[int] = []
    with FolderBundleReader(folder, progress=told.append) as reader:
        found = [each.memory for each in reader]
        assert (reader.manifest.memory_count, reader.warnings) == (3, [])
    assert found == [VALUES[1], VALUES[0], VALUES[2]]
    assert told


def test_a_bundle_without_embeddings_has_no_file_for_them(tmp_path: Path) -> None:
    assert not (write(tmp_path / "x", [memory()]) / "embeddings.bin").exists()


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyError), FolderBundleWriter(tmp_path / "x", exported_at=0) as writer:
        # A memory without what every memory has.
        writer.add(cast("Any", {"value": "x"}))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled_and_any_other_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert oams.is_oams(str(write(tmp_path / "empty")))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path)
    for taken in ("empty", "file", "link"):
        with pytest.raises(InvalidInput, match="is not empty"):
            write(tmp_path / taken)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.requirement("OAMS-7-checksum")
def test_a_damaged_bundle_is_refused_on_entering(tmp_path: Path) -> None:
    folder = write(tmp_path / "x")
    lines = folder / "memories.jsonl"
    data = lines.read_bytes()
    lines.write_bytes(data[:-30])
    assert "memories.jsonl" in refusal(folder).message
    lines.write_bytes(data)
    (folder / "embeddings.bin").write_bytes(b"")
    assert "embeddings.bin" in refusal(folder).message
    (folder / "embeddings.bin").unlink()
    assert "embeddings.bin is missing" in refusal(folder).message
    lines.unlink()
    assert isinstance(refusal(folder), NotFound)


@pytest.mark.parametrize("name", ["manifest.json", "memories.jsonl", "embeddings.bin"])
def test_links_devices_and_folders_are_not_read(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "x")
    kept = tmp_path / "kept"
    (folder / name).rename(kept)
    (folder / name).symlink_to(kept)
    assert "symbolic link" in refusal(folder).message
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "not a regular file" in refusal(folder).message
    (folder / name).unlink()
    (folder / name).mkdir()
    assert name in refusal(folder).message


def test_a_manifest_cannot_name_other_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "x")
    said = json.loads((folder / "manifest.json").read_text())
    said |= {"memories": "../../etc/passwd", "files": ["/etc/passwd"]}
    (folder / "manifest.json").write_text(json.dumps(said))
    with FolderBundleReader(folder) as reader:
        assert len(list(reader)) == 3


def test_a_manifest_without_end_is_not_read_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "x")
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(bundle.MAX_MANIFEST_BYTES + 1)
    assert isinstance(refusal(folder), TooLarge)


def test_plain_files_of_both_forms_are_read_with_file_and_line_in_errors(tmp_path: Path) -> None:
    lines = tmp_path / "m.jsonl"
    lines.write_bytes(b"".join(json_text.dump(value) + b"\n" for value in VALUES) + b"{}\n")
    pages = tmp_path / "m.md"
    pages.write_text("".join(map(markdown.render_one, VALUES)) + "## key: broken\n", encoding="utf-8", newline="")
    for path, number in ((lines, 4), (pages, None)):
        *found, last = oams.items(str(path))
        assert [each.value for each in found] == VALUES
        assert last.error is not None
        assert last.where == f"{path}:{number or last.number}"
    (missing,) = oams.items(str(tmp_path / "none.jsonl"))
    assert isinstance(missing.error, NotFound)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MemorandaError, match="file"):
        write(tmp_path / "file" / "x")
    assert not oams.is_oams(str(tmp_path))
