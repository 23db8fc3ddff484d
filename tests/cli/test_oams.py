"""Memories of OAMS on the command line: bundles and files out and in, a file as a store, and the simple verbs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Command
from tests.cli.terminal import Terminal
from tests.commands import command
from tests.forking import Forked, put_memoranda
from tests.standards.oams.strategies import HOSTILE, memories, memory
from tests.waiting import until

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange, oams
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import InvalidInput, NamespaceNotFound, QuotaExceeded
from memoranda.service.exchange.report import Report
from memoranda.settings import load_settings
from memoranda.standards.oams import markdown

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "oams.md"
OWN, WORK = "user-x123ab:personal", "user-x123ab:work"
# What breaks lines, JSON, Markdown and terminals; and the values that are at a limit.
STRANGE = [
    memory(key=f"k{number}", value=text, source_id=text[:99], namespace=OWN if number % 2 else WORK)
    for number, text in enumerate([*HOSTILE, "", "x" * 1_048_576, "é" * 524_288])
]
FULL = memory(
    key="full",
    tags=["Tea", "ÄPFEL"],
    metadata={"confidence": 1, "pii": False, "mem0_role": "user", "big": 2**70, "none": None},
    embedding=[0.5, -0.25],
    embedding_model="voyage-3",
    parent_id=f"{OWN}/k1",
    source_id="imap:msgid:<a@b>",
    later={"a": [1.0, {}]},
)
EARLY = memory(key="early", created_at="2020-01-01T00:00:00Z", updated_at="2026-04-27T12:00:00.5Z", value="tea first")


def written(path: Path, values: list[Any], *more: bytes) -> Path:
    path.write_bytes(b"".join([*(dump(value) + b"\n" for value in values), *more]))
    return path


def lines_of(path: Path) -> list[Any]:
    return [parse(line, max_bytes=8 * 1_048_576) for line in path.read_bytes().splitlines() if line]


@pytest.fixture
def filled(run: Command, tmp_path: Path) -> Command:
    source = written(tmp_path / "given.jsonl", [FULL, EARLY, memory(key="c", namespace=WORK, value="coffee")])
    assert run("import", source).code == 0
    return run


# --- out and in ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-1-ingestible")
@pytest.mark.parametrize("name", ["bundle", "all.jsonl", "all.md"])
def test_what_leaves_comes_back_the_same_into_an_empty_store(
    run: Command, home: Path, tmp_path: Path, name: str
) -> None:
    values = [*STRANGE, FULL, EARLY]
    taken = run("import", written(tmp_path / "given.jsonl", values), "--json").json
    assert (taken["created"], taken["refused"]) == (len(values), 0)
    made = run("export", "--format", "oams", tmp_path / name)
    assert (made.code, made.out) == (0, f"{len(values)} memories exported to {tmp_path / name}\n")
    shutil.rmtree(home)
    again = run("import", tmp_path / name, "--json").json
    assert (again["created"], again["refused"]) == (len(values), 0)
    assert run("export", tmp_path / "again.oams.jsonl", "--format", "oams").code == 0
    found = lines_of(tmp_path / "again.oams.jsonl")
    assert found[0] == EARLY
    by_key = {(each["namespace"], each["key"]): each for each in values}
    assert {(each["namespace"], each["key"]): each for each in found} == by_key


@pytest.mark.requirement("OAMS-7-markdown")
@settings(max_examples=8)
@given(st.lists(memories(), min_size=1, max_size=5, unique_by=lambda each: (each["namespace"], each["key"])))
def test_every_memory_survives_both_single_files_and_the_bundle(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("oams")
    source: Path | str = written(folder / "given.jsonl", values)
    seen: list[bytes] = []
    for number, name in enumerate(("a", "b.jsonl", "c.md", "d.jsonl")):
        with Memoranda.open(folder / f"home{number}") as memoranda:
            report = exchange.import_files(memoranda.ump.import_items, memoranda.owner, [str(source)], form="oams")
            assert (report.created, report.refusals) == (len(values), [])
            source = folder / name
            shape = oams.shape_by_name(name)
            memories = exchange.select_memories(memoranda.service, memoranda.access, Report())
            exchange.export_memories(memories, str(source), shape=shape, exported_at=0)
        seen.append((source / "memories.jsonl" if source.is_dir() else source).read_bytes())
    # Markdown writes its JSON anew, so only what went through lines is the same to the byte.
    assert seen[0] == seen[1]
    assert [parse(line) for line in seen[3].splitlines()] == [parse(line) for line in seen[0].splitlines()]
    order = {(each["namespace"], each["key"]): each for each in map(parse, seen[0].splitlines())}
    assert order == {(each["namespace"], each["key"]): each for each in values}


def test_a_bundle_of_chosen_namespaces_says_which(filled: Command, tmp_path: Path) -> None:
    ran = filled("export", "--format", "oams", tmp_path / "out", "--namespace", WORK, "--json").json
    told = {"exported": 1, "earlier_versions": 0, "target": str(tmp_path / "out"), "format": "oams", "form": "bundle"}
    assert ran == {**told, "left_out": 0, "refusals": [], "kept": 0, "redacted": 0, "warnings": []}
    manifest = parse((tmp_path / "out" / "manifest.json").read_bytes())
    assert (manifest["namespaces"], manifest["memory_count"]) == ([WORK], 1)
    unknown = filled("export", "--format", "oams", tmp_path / "no", "--namespace", "typo")
    assert unknown.code == 1
    assert "nothing was ever stored in " in unknown.err
    assert not (tmp_path / "no").exists()


def test_names_ask_for_oams_and_standard_output_is_lines(filled: Command, tmp_path: Path) -> None:
    for name, start in (("a.oams.jsonl", b'{"key":"early"'), ("a.oams.md", b"## key: early\n"), ("a.oams", b"")):
        assert filled("export", tmp_path / name, "--json").json["exported"] == 3
        assert not start or (tmp_path / name).read_bytes().startswith(start)
    assert (tmp_path / "a.oams" / "manifest.json").exists()
    shown = filled("export", "-", "--format", "oams", "--namespace", WORK)
    assert [parse(line)["key"] for line in shown.out.splitlines()] == ["c"]
    assert shown.err == "memoranda: 1 memory exported\n"


def test_a_folder_with_something_in_it_is_replaced_only_if_told_and_only_if_it_is_a_bundle(
    filled: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert filled("export", "--format", "oams", f"{out}/", "--namespace", WORK).code == 0
    refused = filled("export", "--format", "oams", out)
    assert (refused.code, parse((out / "manifest.json").read_bytes())["memory_count"]) == (1, 1)
    assert "--overwrite" in refused.err
    assert filled("export", "--format", "oams", out, "--overwrite").code == 0
    assert filled("oams", "validate", out).code == 0
    assert parse((out / "manifest.json").read_bytes())["memory_count"] == 3
    (out / "mine.txt").write_text("mine")
    assert "mine.txt" in filled("export", "--format", "oams", out, "--overwrite").err
    assert (out / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.jsonl", "home", "out"]


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("--format", "oams", "x", "--project", "p"), "choose with --namespace"),
        (("--format", "oams", "x.md", "--overwrite"), "--overwrite is for a bundle"),
        (("x.ndjson", "--namespace", "a:b"), "need --format oams"),
        (("--format", "oams", "x", "--namespace", "a:b:c"), "no colon in its scope"),
        (("x.ump.md/", "--format", "ndjson"), "a folder holds Markdown files"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("export", *tokens)
    assert ran.code == 1
    assert said in ran.err


def test_memories_of_other_standards_leave_with_their_original_and_are_no_news_at_home(
    run: Command, tmp_path: Path
) -> None:
    name = run("remember", "use pnpm, never npm", "--project", "shop", "--json").json["id"]
    before = run("get", name, "--json").json
    assert run("export", "--format", "oams", tmp_path / "out").code == 0
    (line,) = lines_of(tmp_path / "out" / "memories.jsonl")
    assert (line["value"], line["metadata"]["memoranda:native"]["standard"]) == ("use pnpm, never npm", "ump")
    for dry in (["--dry-run"], []):
        assert run("import", tmp_path / "out", *dry, "--json").json["unchanged"] == 1
    assert run("get", name, "--json").json == before


# --- what is refused -----------------------------------------------------------------------------------------


def changed(folder: Path) -> None:
    path = folder / "memories.jsonl"
    path.write_bytes(path.read_bytes().replace(b"tea", b"TEA", 1))


def cut(folder: Path) -> None:
    path = folder / "memories.jsonl"
    path.write_bytes(path.read_bytes()[:-40])


def without_a_line(folder: Path) -> None:
    path = folder / "memories.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


def without_lines(folder: Path) -> None:
    (folder / "memories.jsonl").unlink()


def without_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def with_a_damaged_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def with_other_vectors(folder: Path) -> None:
    (folder / "embeddings.bin").write_bytes(b"\0" * 20)


def of_a_major_version(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"0.1"', '"1.0"'))


@pytest.mark.requirement("OAMS-7-checksum")
@pytest.mark.parametrize(
    "damage",
    [
        changed,
        cut,
        without_a_line,
        without_lines,
        without_manifest,
        with_a_damaged_manifest,
        with_other_vectors,
        of_a_major_version,
    ],
    ids=lambda damage: damage.__name__,
)
def test_a_damaged_bundle_is_refused_before_anything_is_written(filled: Command, tmp_path: Path, damage: Any) -> None:
    out = tmp_path / "out"
    assert filled("export", "--format", "oams", out).code == 0
    damage(out)
    for tokens in ((out,), (out, "--format", "oams"), (out, "--dry-run")):
        ran = filled("--data", tmp_path / "other", "import", *tokens)
        assert (ran.code, ran.out.removeprefix("would be: ")) == (1, "0 created, 0 updated, 0 unchanged, 1 refused\n")
        assert ran.err.startswith(f"memoranda: {out}: ")
        assert ran.err.count(str(out)) == 1
    assert filled("--data", tmp_path / "other", "oams", "namespaces", "--json").json == {"namespaces": []}
    assert filled("oams", "validate", out).code == 1


@pytest.mark.requirement("OAMS-8-compatible-minor")
def test_another_minor_version_is_taken_with_a_warning(filled: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert filled("export", "--format", "oams", out).code == 0
    (out / "manifest.json").write_text((out / "manifest.json").read_text().replace('"0.1"', '"0.7"'))
    ran = filled("--data", tmp_path / "other", "import", out)
    assert (ran.code, ran.out.split(",")[0]) == (0, "3 created")
    assert "memoranda: warning: " in ran.err
    assert "0.7" in ran.err


def test_an_import_says_what_it_took_what_was_odd_and_what_it_refused(run: Command, tmp_path: Path) -> None:
    values = [memory(), memory(key="odd", metadata={"dream_strategy": "unheard-of"}), memory(value=None)]
    file = written(tmp_path / "m.jsonl", values, b"\n", b"not json\n", dump(memory(key="last")))
    ran = run("import", file)
    assert (ran.code, ran.out) == (1, "3 created, 0 updated, 0 unchanged, 2 refused, 3 warnings\n")
    assert f"memoranda: warning: {file}:2: metadata.dream_strategy 'unheard-of' is not in OAMS 0.1" in ran.err
    assert f"memoranda: {file}:3: value is required\n" in ran.err
    assert f"memoranda: {file}:5: not JSON" in ran.err
    assert f"memoranda: warning: {file}:6: the line has no line feed at its end\n" in ran.err
    answer = run("import", file, "--json")
    assert answer.err == ""
    assert (answer.json["unchanged"], answer.json["warned"]) == (3, 3)
    assert [each["where"] for each in answer.json["refusals"]] == [f"{file}:3", f"{file}:5"]


@pytest.fixture(scope="module")
def thousands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of which an export takes a while."""
    folder = tmp_path_factory.mktemp("thousands")
    values = [memory(key=str(number), value=f"{number} {'x' * 2000}") for number in range(3000)]
    assert command("--data", str(folder / "home"), "import", str(written(folder / "m.jsonl", values))).code == 0
    return folder / "home"


@pytest.mark.parametrize("end", ["kill", "int"])
def test_an_export_that_is_ended_midway_leaves_nothing_that_looks_whole(
    run: Command, home: Path, thousands: Path, tmp_path: Path, end: str
) -> None:
    shutil.copytree(thousands, home)
    out = tmp_path / "folder" / "out"
    out.parent.mkdir()
    words = [sys.executable, "-m", "memoranda", "export", "--format", "oams", str(out)]
    with Forked(words, stdout=subprocess.DEVNULL, env={**os.environ, "MEMORANDA_HOME": str(home)}) as going:
        until(lambda: list(out.parent.iterdir()), "the export begins")
        going.kill() if end == "kill" else going.send_signal(2)
    left = list(out.parent.iterdir())
    if out in left:
        # It was faster than the signal: then it is whole.
        assert run("oams", "validate", out).code == 0
        return
    # Only a process that was killed cannot tidy up; what it leaves nobody takes for a bundle.
    assert len(left) == (end == "kill")
    for path in left:
        assert not (path / "manifest.json").exists()
        taken = run("--data", tmp_path / "other", "import", path, "--format", "oams")
        assert (taken.code, taken.out) == (1, "0 created, 0 updated, 0 unchanged, 1 refused\n")


# --- which it is ---------------------------------------------------------------------------------------------


def test_records_and_memories_are_told_apart_by_what_they_say(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    record = {"kind": "semantic", "body": {"text": "a record", "structured": {"key": "x"}}}
    written(folder / "records.jsonl", [record])
    written(folder / "memories.ndjson", [memory(key="a")])
    (folder / "pages.md").write_text("# Mine\n\n" + "".join(map(markdown.render_one, [memory(key="b")])))
    (folder / "note.md").write_text("## key: is how a heading may begin\n\nas text\n")
    (folder / "book.ump.md").write_text("".join(map(markdown.render_one, [memory(key="c")])))
    taken = run("import", folder, "--json").json
    assert taken["created"] == 3
    # Neither a heading alone nor what is called .ump.md makes it OAMS.
    assert sorted(Path(each["where"]).name for each in taken["refusals"]) == ["book.ump.md", "note.md"]
    assert all("not a UMP Markdown file" in each["message"] for each in taken["refusals"])
    names = run("oams", "list", "--namespace", OWN, "--json").json["memories"]
    assert sorted(each["key"] for each in names) == ["a", "b"]


def test_a_first_line_that_is_broken_does_not_hide_what_a_file_is(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_bytes(b"\xef\xbb\xbf{broken\n" + dump(memory()) + b"\n")
    assert run("import", file, "--json").json["created"] == 1


@pytest.mark.parametrize("form", ["jsonl", "markdown", "ump"])
def test_what_is_piped_in_is_recognised(run: Command, form: str) -> None:
    piped = {
        "jsonl": dump(memory()) + b"\n" + dump(memory(key="b", value="y" * 100_000)),
        "markdown": "".join(map(markdown.render_one, [memory(), memory(key="b")])).encode(),
        "ump": b'{"kind":"semantic","body":{"text":"one"}}\n{"kind":"semantic","body":{"text":"two"}}\n',
    }[form]
    assert run("import", "-", "--json", piped=piped).json["created"] == 2
    found = run("oams", "namespaces", "--json").json["namespaces"]
    assert (OWN in found) is (form != "ump")


def test_records_in_a_folder_beside_a_foreign_manifest_stay_records(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "manifest.json").write_text('[{"kind": "semantic", "body": {"text": "in an array"}}]')
    written(folder / "more.ndjson", [{"kind": "semantic", "body": {"text": "in a line"}}])
    assert run("import", folder, "--json").json["created"] == 2


@pytest.mark.parametrize("name", ["manifest.json", "memories.jsonl"])
def test_a_pipe_in_a_folder_is_never_waited_for(run: Command, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / name)
    written(folder / "good.jsonl", [memory()])
    assert run("import", folder, "--json").json["created"] == 1


def test_verifying_memories_points_to_validating_them(filled: Command, tmp_path: Path) -> None:
    ran = filled("verify", tmp_path / "given.jsonl")
    assert ran.code == 1
    assert "memoranda oams validate" in ran.err


# --- elsewhere, and not yet ----------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-5-source-kept")
def test_memories_go_into_another_namespace_with_nothing_else_changed(run: Command, tmp_path: Path) -> None:
    file = written(tmp_path / "m.jsonl", [FULL, memory(key="c", namespace=WORK)])
    assert run("import", file, "--namespace", "new-home", "--json").json["created"] == 2
    (place,) = run("oams", "namespaces", "--json").json["namespaces"]
    assert place.endswith(":new-home")
    assert run("export", tmp_path / "out.oams.jsonl").code == 0
    assert {**lines_of(tmp_path / "out.oams.jsonl")[0], "namespace": OWN} == FULL
    assert run("import", file, "--adopt", "--json").json["created"] == 2
    scopes = [name.partition(":")[2] for name in run("oams", "namespaces", "--json").json["namespaces"]]
    assert scopes == ["new-home", "personal", "work"]
    assert run("import", file, "--adopt", "--namespace", "x").code == 1


def test_one_key_from_two_namespaces_does_not_go_into_one(run: Command, tmp_path: Path) -> None:
    file = written(tmp_path / "m.jsonl", [memory(), memory(namespace=WORK), memory(value="newer")])
    ran = run("import", file, "--namespace", "one")
    assert (ran.code, ran.out) == (1, "1 created, 1 updated, 0 unchanged, 1 refused\n")
    assert f"memoranda: {file}:2: its key came from another namespace already" in ran.err


def test_a_dry_run_says_what_would_be_and_writes_nothing(filled: Command, tmp_path: Path) -> None:
    values = [memory(key="new"), {**EARLY, "value": "tea second", "updated_at": "2026-05-01T00:00:00Z"}, FULL]
    file = written(tmp_path / "m.jsonl", [*values, {**EARLY, "updated_at": "2021-01-01T00:00:00Z"}], b"{}\n")
    before = filled("export", "-", "--format", "oams").out
    ran = filled("import", file, "--dry-run")
    assert (ran.code, ran.out) == (1, "would be: 1 created, 1 updated, 2 unchanged, 1 refused, 1 warning\n")
    assert filled("export", "-", "--format", "oams").out == before
    real = filled("import", file, "--json").json
    assert [real[name] for name in ("created", "updated", "unchanged", "refused")] == [1, 1, 2, 1]
    records = tmp_path / "r.ndjson"
    records.write_text('{"kind": "semantic", "body": {"text": "x"}}\n')
    refused = filled("import", records, "--namespace", "x")
    assert (refused.code, "is for memories of OAMS" in refused.err) == (1, True)
    assert filled("import", records, "--dry-run").out == "would be: 1 created, 0 merged, 0 refused\n"
    assert len(filled("export", "-", "--format", "oams").out.splitlines()) == len(before.splitlines()) + 1


# --- validate ------------------------------------------------------------------------------------------------


def test_validating_checks_every_line_of_every_form_without_a_store(run: Command, home: Path, tmp_path: Path) -> None:
    good = written(tmp_path / "good.jsonl", [memory(), memory(key="b")])
    pages = tmp_path / "pages.md"
    pages.write_text(
        "".join(map(markdown.render_one, [memory()])) + "## key: broken\n\n**namespace:** `nowhere:`\n\ntext\n"
    )
    ran = run("oams", "validate", good, pages)
    assert (ran.code, ran.out) == (1, f"{good}: 2 memories, valid\n{pages}: 1 memory, NOT valid\n")
    assert ran.err.startswith(f"memoranda: {pages}:11: ")
    answer = run("oams", "validate", good, "--json").json
    assert answer["files"][0] == {
        "file": str(good),
        "form": "jsonl",
        "ok": True,
        "memories": 2,
        "refused": 0,
        "refusals": [],
        "warned": 0,
        "warnings": [],
    }
    assert run("oams", "validate", "-", piped=good.read_bytes()).out == "-: 2 memories, valid\n"
    assert run("oams", "validate", tmp_path / "none").code == 1
    assert not home.exists()


def test_validating_compares_lines_with_one_another(filled: Command, tmp_path: Path) -> None:
    twice = written(tmp_path / "twice.jsonl", [memory(), memory(value="again")])
    ran = filled("oams", "validate", twice, "--json")
    assert (ran.code, ran.json["files"][0]["refusals"][0]["where"]) == (1, f"{twice}:2")
    out = tmp_path / "out"
    assert filled("export", "--format", "oams", out).code == 0
    lines = (out / "memories.jsonl").read_bytes().splitlines(keepends=True)
    (out / "memories.jsonl").write_bytes(b"".join(reversed(lines)))
    manifest = parse((out / "manifest.json").read_bytes())
    (out / "manifest.json").write_bytes(dump({**manifest, "checksum_sha256": None}))
    (out / "embeddings.bin").unlink()
    del manifest["memoranda:embeddings"], manifest["checksum_sha256"]
    (out / "manifest.json").write_bytes(dump(manifest))
    ran = filled("oams", "validate", out)
    assert (ran.code, ran.out) == (0, f"{out}: 3 memories, 3 warnings, valid\n")
    assert "sorted by created_at" in ran.err


# --- a file as a store ---------------------------------------------------------------------------------------


@pytest.mark.requirement("OAMS-1-file-as-store")
def test_a_plain_file_is_listed_read_and_recalled_without_a_store(run: Command, home: Path, tmp_path: Path) -> None:
    values = [
        memory(key="a", value="green tea in the morning", updated_at="2026-05-01T00:00:00Z"),
        memory(key="b", value="coffee at night", tags=["Night"]),
        memory(key="c", namespace=WORK, value="tea at work"),
        memory(key="b", value="coffee at noon, never tea at night", tags=["Noon"]),
    ]
    file = written(tmp_path / "m.jsonl", values, b"{}\n")
    listed = run("oams", "list", "--file", file, "--namespace", OWN)
    assert [row.split("\t")[0] for row in listed.out.splitlines()] == ["a", "b"]
    assert "skipped 1 invalid line" in listed.err
    assert run("oams", "list", "--file", file, "--namespace", "personal", "--tag", "NOON", "--json").json == {
        "memories": [{**values[3], "tags": ["noon"], "metadata": {"memoranda:tags": ["Noon"]}}],
        "next_cursor": None,
    }
    page = run("oams", "list", "--file", file, "--namespace", OWN, "--limit", "1", "--json").json
    rest = run("oams", "list", "--file", file, "--namespace", OWN, "--cursor", page["next_cursor"], "--json").json
    assert [each["key"] for each in (*page["memories"], *rest["memories"])] == ["a", "b"]
    assert (
        run("oams", "get", "b", "--file", file, "--namespace", OWN, "--json").json["memory"]["value"].endswith("night")
    )
    found = run("oams", "recall", "green tea", "--file", file, "--namespace", OWN, "--json").json["memories"]
    assert [each["key"] for each in found] == ["a", "b"]
    assert 1 >= found[0]["metadata"]["score"] > found[1]["metadata"]["score"] > 0
    both = run("oams", "recall", "tea", "--file", file, "--namespace", OWN, "--namespace", WORK, "--json").json
    assert sorted(each["key"] for each in both["memories"]) == ["a", "b", "c"]
    assert (
        run("oams", "recall", "", "--file", file, "--namespace", OWN, "-k", "1", "--json").json["memories"][0]["key"]
        == "a"
    )
    assert run("oams", "namespaces", "--file", file).out == f"{OWN}\n{WORK}\n"
    assert not home.exists()


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("recall", "x"), f"the file has 3 namespaces; name one of org-acme:legal, {OWN}, {WORK}"),
        (("list",), "the file has 3 namespaces"),
        (("recall", "x", "--namespace", OWN, "--namespace", "org-acme:legal"), "spans owners"),
        (("recall", "x", "--namespace", "no:where"), "the file has no namespace 'no:where'"),
        (("list", "--namespace", "no:where"), "the file has no namespace 'no:where'"),
        (("list", "--namespace", "where"), "no namespace"),
        (("list", "--namespace", OWN, "--cursor", "x"), "cursor"),
        (("get", "none", "--namespace", OWN), "no memory under this key"),
        (("list", "--namespace", OWN, "--since", "yesterday"), "since must be"),
    ],
)
def test_what_a_file_cannot_answer_is_one_helpful_sentence(
    run: Command, tmp_path: Path, tokens: tuple[str, ...], said: str
) -> None:
    values = [memory(), memory(namespace=WORK), memory(namespace="org-acme:legal")]
    ran = run("oams", *tokens, "--file", written(tmp_path / "m.jsonl", values))
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert said in ran.err


def test_the_file_of_a_bundle_and_a_file_that_is_not_there(filled: Command, tmp_path: Path) -> None:
    assert filled("export", "--format", "oams", tmp_path / "out", "--namespace", WORK).code == 0
    assert filled("oams", "get", "c", "--file", tmp_path / "out", "--json").json["memory"]["value"] == "coffee"
    gone = filled("oams", "list", "--file", tmp_path / "none.jsonl")
    assert gone.err == f"memoranda: {tmp_path / 'none.jsonl'}: there is no such file\n"
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert "no memories" in filled("oams", "list", "--file", empty).err


def test_the_file_and_the_store_rank_alike(run: Command, tmp_path: Path) -> None:
    texts = ["tea", "green tea with lemon", "coffee", "a long text about tea and much else", "teapots and kettles"]
    file = written(tmp_path / "m.jsonl", [memory(key=str(n), value=text) for n, text in enumerate(texts)])
    assert run("import", file).code == 0
    for query in ("green tea", "kettle", "lemon coffee", "else"):
        answers = [
            run("oams", "recall", query, "--namespace", OWN, *where, "--json").json["memories"]
            for where in (("--file", file), ())
        ]
        assert [each["key"] for each in answers[0]] == [each["key"] for each in answers[1]]


# --- the verbs -----------------------------------------------------------------------------------------------


def test_a_memory_is_stored_found_and_forgotten_in_the_default_namespace(run: Command) -> None:
    made = run("oams", "store", "tea", "green, no sugar", "--tag", "Drinks", "--metadata", '{"confidence": 0.9}')
    place = made.out.split()[0]
    assert made.out == f"{place} tea created\n"
    assert place.endswith(":default")
    assert run("oams", "store", "tea", piped=b"black, no sugar\n").out == f"{place} tea updated\n"
    got = run("oams", "get", "tea", "--namespace", "default", "--json").json
    assert (got["memory"]["namespace"], got["memory"]["value"]) == (place, "black, no sugar")
    assert run("oams", "store", "tea", "x", "--if-match", "other").code == 1
    assert run("oams", "store", "tea", "x", "--if-absent").code == 1
    assert run("oams", "store", "tea", "red", "--if-match", got["etag"], "--json").json["result"] == "updated"
    assert run("oams", "store", "tea", "red", "--json").json["result"] == "unchanged"
    assert run("oams", "list", "--json").json["memories"][0]["value"] == "red"
    assert "  red\n" in run("oams", "recall", "red").out
    assert run("oams", "forget", "tea").out == f"{place} tea forgotten\n"
    for tokens in (("get", "tea"), ("forget", "tea")):
        gone = run("oams", *tokens)
        assert (gone.code, gone.err.count("\n")) == (1, 1)
    assert run("oams", "list").err == "memoranda: no memories found\n"
    assert run("oams", "recall", "red").err == "memoranda: no matches\n"
    assert run("oams", "list", "--namespace", "never").code == 1


def test_odd_texts_are_stored_and_do_not_drive_the_terminal(run: Command) -> None:
    assert run("oams", "store", "-k", "- a list", "--namespace", "n").code == 2
    assert run("oams", "store", "key with spaces/and:colons", "\x1b[31mred", "--namespace", "n").code == 0
    assert "\x1b" not in run("oams", "list", "--namespace", "n").out
    assert "\x1b" not in run("oams", "get", "key with spaces/and:colons", "--namespace", "n").out
    assert run("oams", "store", "big", "-", "--namespace", "n", piped=b"x" * 1_048_576).code == 0
    assert "at most 1048576 bytes" in run("oams", "store", "big", "-", piped=b"x" * 1_048_577).err
    assert "metadata.confidence" in run("oams", "store", "c", "x", "--metadata", '{"confidence": 2}').err
    assert run("oams", "store", "new", "x", "--metadata", '{"dream_strategy": "odd"}').err.startswith(
        "memoranda: warning: metadata.dream_strategy"
    )
    assert run("oams", "store", "", "x").code == 1


def test_quotas_are_settings(run: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORANDA_MAX_MEMORIES", "1")
    assert run("oams", "store", "a", "x").code == 0
    assert run("oams", "store", "b", "x", "--json").json["error"]["code"] == "rate_limited"
    file = written(tmp_path / "m.jsonl", [memory()])
    assert run("import", file, "--json").json["refusals"][0]["code"] == "rate_limited"
    monkeypatch.setenv("MEMORANDA_MAX_MEMORIES", "0")
    monkeypatch.setenv("MEMORANDA_MAX_BYTES", "1000")
    assert "1000 bytes is the most" in run("oams", "store", "b", "x" * 2000).err
    monkeypatch.setenv("MEMORANDA_WRITES_PER_MINUTE", "1")
    with Memoranda.open(tmp_path / "other") as memoranda:
        memoranda.oams.store("a", "x")
        with pytest.raises(QuotaExceeded, match="writes a minute"):
            memoranda.oams.store("b", "x")
    with pytest.raises(InvalidInput, match="MEMORANDA_MAX_BYTES"):
        load_settings({"MEMORANDA_MAX_BYTES": "-1"})


def test_the_library_has_the_five_operations() -> None:
    with Memoranda.open(":memory:") as memoranda:
        stored = memoranda.oams.batch_store([{"key": "a", "value": "tea"}, memory(key="b", value="tea too")])
        assert [each.result for each in stored] == ["created", "created"]
        assert memoranda.oams.get("a").memory["namespace"] == str(memoranda.oams.namespace())
        assert [each["key"] for each in memoranda.oams.recall("tea")] == ["a"]
        assert [each["key"] for each in memoranda.oams.recall("tea", namespace=OWN, tags=[], k=1)] == ["b"]
        memoranda.oams.store("c", "coffee", namespace="work", source_id="x", if_absent=True)
        both = memoranda.oams.recall("tea coffee", namespace=["default", "work"])
        assert sorted(each["key"] for each in both) == ["a", "c"]
        assert [each["key"] for each in memoranda.oams.list(namespace="work", limit=1).memories] == ["c"]
        memoranda.oams.forget("c", namespace="work")
        with pytest.raises(NamespaceNotFound):
            memoranda.oams.list(namespace="never")
        assert len(memoranda.oams.namespaces) == 3


# --- on a terminal, in a shell, on the page ------------------------------------------------------------------


def test_a_terminal_is_shown_how_far_it_is(filled: Command, home: Path, tmp_path: Path) -> None:
    export = ["export", "--format", "oams"]
    patient = "from memoranda.cli import main, show; show.PATIENCE = {}; raise SystemExit(main({!r}))"
    environment = {**os.environ, "MEMORANDA_HOME": str(home)}
    with Terminal(
        [sys.executable, "-c", patient.format(3600, [*export, str(tmp_path / "calm")])], environment
    ) as opened:
        assert opened.wait() == 0
    assert "reading" not in opened.seen
    assert "3 memories exported" in opened.seen
    with Terminal([sys.executable, "-c", patient.format(0, [*export, str(tmp_path / "shown")])], environment) as opened:
        assert opened.wait() == 0
    # How many there will be is not known before the end, so there is a number and no bar.
    assert re.search(r"reading +3 ", opened.seen)
    assert re.search(r"writing +3 ", opened.seen)
    assert "━" not in opened.seen
    assert "3 memories exported" in opened.seen


def test_looking_into_a_file_opens_no_store_and_loads_no_server(tmp_path: Path) -> None:
    file = written(tmp_path / "m.jsonl", [memory()])
    script = (
        f"import sys; from memoranda.cli import main; main(['oams', 'get', '01HX', '--file', {str(file)!r}]); "
        "heavy = {'mcp', 'starlette', 'uvicorn', 'apsw'}; "
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_examples_of_the_page_run_and_print_what_it_shows(tmp_path: Path, home: Path) -> None:
    blocks = re.findall(r"```(sh|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "bin").mkdir()
    put_memoranda(tmp_path / "bin")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "MEMORANDA_HOME": str(home)}
    printed = ""
    assert len(blocks) == 14
    for kind, text in blocks:
        if kind == "text":
            assert printed == text
            continue
        ran = subprocess.run(
            ["sh", "-eu", "-c", text], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, ""), text
        printed = ran.stdout
    assert parse((tmp_path / "answer.json").read_bytes())["memories"][0]["value"] == "We ship on 8 July."


def test_the_python_of_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
        assert capsys.readouterr().out.splitlines() == re.findall(r"  # (.*)$", block, flags=re.MULTILINE)


# --- the sentences of the standard that are run literally -------------------------------------------------------

# Section 2, with values in place of "...".
PRINTED: dict[str, Any] = {
    "key": "string",
    "namespace": "string",
    "value": "string",
    "tags": ["string"],
    "metadata": {"note": "..."},
    "created_at": "2026-04-27T12:00:00Z",
    "updated_at": "2026-04-27T12:00:00Z",
    "embedding_model": "string",
    "embedding": [0.0123, -0.0456],
    "parent_id": "string | null",
    "source_id": "string | null",
}


@pytest.mark.requirement("OAMS-1-file-as-store")
def test_a_file_is_a_store_with_all_five_operations(run: Command, tmp_path: Path) -> None:
    file, other = tmp_path / "mine.jsonl", b"not a memory\n"
    assert run("oams", "store", "tea", "green", "--file", file, "--namespace", OWN).code == 0
    assert run("oams", "store", "tea", "black", "--file", file, "--tag", "Drinks").code == 0
    file.write_bytes(other + file.read_bytes())
    again = run("oams", "store", "tea", "black, hot", "--file", file, "--json").json
    assert (again["result"], again["memory"]["namespace"]) == ("updated", OWN)
    assert again["memory"]["created_at"] < again["memory"]["updated_at"]
    same = run("oams", "store", "tea", "black, hot", "--file", file, "--json").json
    assert same["result"] == "unchanged"
    batch = written(tmp_path / "batch.jsonl", [memory(key="cup", namespace=WORK), memory(key="pot", namespace=OWN)])
    assert run("oams", "batch", batch, "--file", file).code == 0
    found = run("oams", "recall", "hot", "--file", file, "--namespace", OWN, "--json").json["memories"]
    assert [each["value"] for each in found] == ["black, hot"]
    assert run("oams", "forget", "tea", "--file", file, "--namespace", OWN).code == 0
    listed = run("oams", "list", "--file", file, "--namespace", OWN, "--json").json["memories"]
    assert [each["key"] for each in listed] == ["pot"]
    # The line that is no memory is still there, and a batch with one bad memory writes nothing.
    before = file.read_bytes()
    assert before.startswith(other)
    bad = written(tmp_path / "bad.jsonl", [memory(key="new", namespace=OWN), {"key": "x"}])
    assert run("oams", "batch", bad, "--file", file).code == 1
    absent = run("oams", "store", "pot", "x", "--file", file, "--namespace", OWN, "--if-absent")
    etag = run("oams", "store", "pot", "x", "--file", file, "--namespace", OWN, "--if-match", "e")
    assert (absent.code, etag.code, file.read_bytes()) == (1, 1, before)


@pytest.mark.requirement("OAMS-1-file-as-store")
def test_a_new_file_is_a_store_of_its_own_without_any_option(run: Command, tmp_path: Path) -> None:
    file, home = tmp_path / "new.jsonl", tmp_path / "no-store"

    def oams(*tokens: object) -> dict[str, Any]:
        document: dict[str, Any] = run("--data", home, "oams", *tokens, "--file", file, "--json").json
        return document

    assert oams("store", "tea", "green, no sugar")["result"] == "created"
    assert oams("store", "cup", "the blue one", "--namespace", "kitchen")["memory"]["namespace"] == "local:kitchen"
    batch = written(tmp_path / "batch.jsonl", [memory(key="pot", namespace="local:kitchen")])
    assert len(oams("batch", batch)["memories"]) == 1
    assert [each["key"] for each in oams("recall", "sugar", "--namespace", "default")["memories"]] == ["tea"]
    assert {each["key"] for each in oams("list", "--namespace", "kitchen")["memories"]} == {"cup", "pot"}
    assert oams("forget", "pot", "--namespace", "kitchen")["result"] == "forgotten"
    assert not home.exists()
    assert run("oams", "validate", file).code == 0
    # With a store the memories have its owner, so that importing the file needs no option.
    file.unlink()
    assert run("remember", "x").code == 0
    assert run("oams", "store", "tea", "black", "--file", file).code == 0
    assert run("import", file, "--format", "oams", "--json").json["created"] == 1
    assert run("oams", "get", "tea", "--json").json["memory"]["value"] == "black"


@pytest.mark.requirement("OAMS-4-other-names")
def test_a_namespace_outside_of_the_convention_is_imported_as_ones_own(run: Command, tmp_path: Path) -> None:
    names = ("default", "acme/eng team:legal", "string")
    file = written(
        tmp_path / "m.jsonl", [memory(key=f"k{number}", namespace=name) for number, name in enumerate(names)]
    )
    assert run("import", file, "--format", "oams", "--json").json["refused"] == 0
    assert "3 unchanged" in run("import", file, "--format", "oams").out
    own = run("oams", "namespaces", "--json").json["namespaces"]
    owner = own[0].partition(":")[0]
    assert sorted(own) == [f"{owner}:{scope}" for scope in ("acme%2Feng team%3Alegal", "default", "string")]
    kept = run("oams", "get", "k1", "--namespace", "acme/eng team:legal", "--json").json["memory"]
    assert kept["metadata"]["memoranda:namespace"] == "acme/eng team:legal"
    moved = run("--data", tmp_path / "other", "import", file, "--format", "oams", "--namespace", "mine")
    assert moved.code == 0
    there = run("--data", tmp_path / "other", "oams", "list", "--namespace", "mine", "--json").json["memories"]
    assert {each["metadata"]["memoranda:namespace"] for each in there} == set(names)
    # A slash or a second colon in a scope is forbidden by section 4.
    broken = written(
        tmp_path / "b.jsonl", [memory(namespace="a:b:c"), memory(namespace="a:b/c"), memory(namespace=":c")]
    )
    assert run("import", broken, "--format", "oams", "--json").json["refused"] == 3


@pytest.mark.requirement("OAMS-2-printed", "OAMS-7-markdown-printed")
def test_the_printed_memory_and_section_come_out_as_they_went_in(run: Command, tmp_path: Path) -> None:
    file = written(tmp_path / "printed.jsonl", [PRINTED])
    assert run("import", file, "--format", "oams").code == 0
    stored = run("oams", "get", "string", "--namespace", "string", "--json").json["memory"]
    assert {name: stored[name] for name in PRINTED if name not in ("namespace", "metadata")} == {
        name: value for name, value in PRINTED.items() if name not in ("namespace", "metadata")
    }
    section = """## key: 01HX...

**namespace:** `user-x123ab:personal`
**created:** 2026-04-27T12:00:00Z
**updated:** 2026-04-27T12:00:00Z
**source:** https://example.com/article
**tags:** `research`, `memory`

The actual `value` text goes here as Markdown body.

---
"""
    (tmp_path / "in.oams.md").write_text(section)
    assert run("import", tmp_path / "in.oams.md", "--format", "oams").code == 0
    out = tmp_path / "out.oams.md"
    assert run("export", out, "--format", "oams", "--namespace", OWN).code == 0
    assert out.read_text().rstrip("\n") == section.rstrip("\n")
    # A memory that was stored through the interface, in the order of section 2, needs no comment either.
    assert run("oams", "store", "k", "v", "--namespace", WORK, "--tag", "t", "--source-id", "s").code == 0
    assert run("export", tmp_path / "k.oams.md", "--format", "oams", "--namespace", WORK).code == 0
    assert "<!--" not in (tmp_path / "k.oams.md").read_text()
