"""Out to files and in again: nothing lost, every complaint placed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.embedders import by_letters

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.formats import Format
from memoranda.encoding.json_text import dump
from memoranda.service.exchange.importing import ImportOptions
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import strip_integrity


def fill(memoranda: Memoranda) -> None:
    first = memoranda.remember("use npm", kind="procedural", project="p").id
    memoranda.revise(first, "use pnpm, never npm")
    memoranda.remember("  spaced\r\ntext\n\n", structured={"a": [1, 2.5, None]})
    memoranda.remember("kept here", exportable=False)
    memoranda.remember("with a secret", structured={"token": "s", "b": 1}, redact=["body.structured.token"])
    memoranda.forget(memoranda.remember("gone").id)


def export(memoranda: Memoranda, target: Path, known: Format) -> int:
    return exchange.export_file(memoranda.export(), str(target), known, lambda _: None)


@pytest.mark.parametrize(("name", "known"), [("a.ump.md", "markdown"), ("a.ump.json", "json"), ("a.ndjson", "ndjson")])
@pytest.mark.requirement("UMP-7-L0")
def test_another_store_has_equal_records_after_export_and_import(
    memoranda: Memoranda, tmp_path: Path, name: str, known: Format
) -> None:
    fill(memoranda)
    assert export(memoranda, tmp_path / name, known) == 4
    sources = [str(tmp_path / name)]
    assert exchange.verify_files(sources).verified == 4
    with Memoranda.open(tmp_path / "other", owner=memoranda.owner) as other:
        report = exchange.import_files(other.ump.import_items, other.owner, sources)
        assert (report.created, report.merged, report.refused) == (4, 0, 0)
        records = list(other.export())
        # What is closed is said to be by the store that shows it; what was signed is inside.
        assert list(map(strip_integrity, records)) == list(map(strip_integrity, memoranda.export()))
        heads = [record for record in records if not record["superseded_by"]]
        assert heads == list(memoranda.export(history=False))
        assert all(signature.verify(record) for record in records)
        assert [len(other.history(record["id"])) for record in records] == [2, 2, 1, 1]


def test_importing_ones_own_export_again_changes_nothing(memoranda: Memoranda, tmp_path: Path) -> None:
    fill(memoranda)
    before = list(memoranda.export())
    export(memoranda, tmp_path / "a.ndjson", "ndjson")
    report = exchange.import_files(memoranda.ump.import_items, memoranda.owner, [str(tmp_path / "a.ndjson")])
    assert (report.created, report.merged, report.refused) == (0, 4, 0)
    assert list(memoranda.export()) == before


def test_a_record_of_another_owner_is_refused_unless_adopted(memoranda: Memoranda, tmp_path: Path) -> None:
    fill(memoranda)
    export(memoranda, tmp_path / "a.ump.md", "markdown")
    sources = [str(tmp_path / "a.ump.md")]
    with Memoranda.open(tmp_path / "other") as other:
        refused = exchange.import_files(other.ump.import_items, other.owner, sources)
        assert (refused.created, refused.refused) == (0, 4)
        assert {each.code for each in refused.refusals} == {"forbidden_scope"}
        adopted = exchange.import_files(other.ump.import_items, other.owner, sources, options=ImportOptions(adopt=True))
        assert (adopted.created, adopted.refused) == (4, 0)
        assert {record["scope"]["owner"] for record in other.export()} == {other.owner}
        assert other.recall("pnpm")[0].record["body"]["text"] == "use pnpm, never npm"


def test_a_folder_gets_one_file_for_each_memory_and_keeps_its_names(memoranda: Memoranda, folder: Path) -> None:
    fill(memoranda)

    def export_heads() -> int:
        return exchange.export_folder(memoranda.export(history=False), folder, lambda _: None)

    assert export_heads() == 3
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["spaced.ump.md", "use-pnpm-never-npm.ump.md", "with-a-secret.ump.md"]
    assert export_heads() == 3
    assert sorted(path.name for path in folder.iterdir()) == names


def test_a_folder_with_history_is_imported_oldest_first(memoranda: Memoranda, folder: Path, tmp_path: Path) -> None:
    fill(memoranda)
    exchange.export_folder(memoranda.export(), folder, lambda _: None)
    with Memoranda.open(tmp_path / "other", owner=memoranda.owner) as other:
        report = exchange.import_files(other.ump.import_items, other.owner, [str(folder)])
        assert (report.created, report.refused) == (4, 0)
        assert len(other.history(other.recall("pnpm")[0].record["id"])) == 2


def test_complaints_name_the_file_and_the_line(memoranda: Memoranda, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.ndjson", tmp_path / "bad.ndjson"
    good.write_text('{"kind": "semantic", "body": {"text": "one"}}\n')
    bad.write_text(
        '\n{"kind": "semantic", "body": {"text": "two"}}\nnonsense\n{"kind": "odd", "body": {"text": "x"}}\n'
    )
    sources = [str(good), str(bad), str(tmp_path / "missing.json")]
    report = exchange.import_files(memoranda.ump.import_items, memoranda.owner, sources)
    assert (report.created, report.refused) == (2, 3)
    assert {each.where for each in report.refusals} == {f"{bad}:3", f"{bad}:4", str(tmp_path / "missing.json")}


def test_a_changed_word_in_a_file_is_found(memoranda: Memoranda, tmp_path: Path) -> None:
    fill(memoranda)
    target = tmp_path / "a.ump.md"
    export(memoranda, target, "markdown")
    target.write_text(target.read_text().replace("use pnpm", "use yarn"))
    report = exchange.verify_files([str(target)])
    assert (report.verified, report.refused) == (3, 1)
    assert report.refusals[0].code == "signature_invalid"


def test_an_export_that_fails_leaves_the_old_file_and_no_other(memoranda: Memoranda, tmp_path: Path) -> None:
    target = tmp_path / "out" / "a.ndjson"
    target.parent.mkdir()
    target.write_text("precious")

    def broken() -> object:
        yield {"id": "urn:ump:aa"}
        raise OSError(28, "No space left on device")

    with pytest.raises(Exception, match="the disk is full"):
        exchange.export_file(broken(), str(target), "ndjson", lambda _: None)  # type: ignore[arg-type]
    assert [path.name for path in target.parent.iterdir()] == ["a.ndjson"]
    assert target.read_text() == "precious"


def test_an_export_replaces_a_link_and_not_what_it_points_to(memoranda: Memoranda, tmp_path: Path) -> None:
    fill(memoranda)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / "a.ndjson").symlink_to(elsewhere)
    export(memoranda, tmp_path / "a.ndjson", "ndjson")
    assert elsewhere.read_text() == "precious"


@pytest.mark.requirement("OAMS-2-embedding-absent")
def test_an_embedding_by_our_model_is_used_and_every_other_is_made_anew_in_the_background(tmp_path: Path) -> None:
    embedded: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        embedded.extend(texts)
        return by_letters(texts)

    at = {"namespace": "ada:x", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    # What its vector says is not what its words say: so it is seen which of them was used.
    (brought,) = by_letters(["marmalade sandwiches"])
    memories = [
        {**at, "key": "ours", "value": "qqqq", "embedding_model": "letters", "embedding": brought},
        {**at, "key": "theirs", "value": "vvvv", "embedding_model": "voyage-3", "embedding": brought},
        {**at, "key": "short", "value": "xxxx", "embedding_model": "letters", "embedding": [1.0]},
        {**at, "key": "none", "value": "wwww"},
    ]
    source = tmp_path / "memories.oams.jsonl"
    source.write_bytes(b"".join(dump(each) + b"\n" for each in memories))
    with Memoranda.open(tmp_path / "home", embedder=("letters", embed)) as m:
        assert m.import_files(source).created == 4
        assert embedded == []
        while m.service.embedding.step():
            pass
        assert m.service.embedding.count_waiting() == 0
        # A text is embedded after its title, which is its key here.
        assert {"theirs\nvvvv", "short\nxxxx", "none\nwwww"} <= set(embedded)
        assert not any("qqqq" in text for text in embedded)
        assert m.recall("marmalade sandwiches", user="ada")[0].text == "qqqq"
