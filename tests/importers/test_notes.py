"""Notes of people and agents: a memory for each file, or for each section of what is told to coding agents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.bindings.files.importers.registry import recognise_importer
from tests.importers.conftest import SAMPLES, Import


def written(folder: Path, **files: str) -> Path:
    """A folder with files; `__` in a name is a slash, and a last `_md` its ending."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/").removesuffix("_md") + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def name_of(path: Path) -> str | None:
    found = recognise_importer(path)
    return None if found is None else found.name


def test_notes_of_basic_memory_keep_their_links_observations_and_tags(store: Memoranda, take: Import) -> None:
    path = SAMPLES / "basic-memory"
    assert name_of(path) == name_of(path / "people" / "Alice.md") == "basic-memory"
    assert take(path).created == 2
    memory = store.oams.get("people/alice", namespace="basic-memory").memory
    assert memory["value"].startswith("# Alice\n\n- [role] product manager of Harbor #work")
    assert memory["metadata"]["links"] == ["Harbor"]
    assert memory["metadata"]["observations"] == [
        {"category": "role", "text": "product manager of Harbor #work"},
        {"category": "preference", "text": "short bullet points"},
    ]
    assert {"work", "role", "preference"} <= set(memory["tags"])
    assert memory["metadata"]["imported_from"]["document"] == (path / "people" / "Alice.md").read_text("utf-8")
    assert take(path).unchanged == 2
    assert take(path / "people" / "Alice.md").unchanged == 1


def test_a_vault_is_taken_in_whole_and_nothing_hidden_or_empty(store: Memoranda, take: Import, tmp_path: Path) -> None:
    vault = written(
        tmp_path / "vault",
        Tea_md="---\ntitle: Tea\nkind: procedural\ntags: [drink]\ncreated: 2025-02-03\n---\n\n"
        "Steep for *three* minutes #tea\n",
        deep__deeper__Note_md="No properties, but [[Tea]].\n- [ ] to do\n",
        Empty_md="---\ntags: [x]\n---\n\n",
    )
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "app.md").write_text("hidden", encoding="utf-8")
    (vault / "image.png").write_bytes(b"\x89PNG")
    assert name_of(vault) == "notes"
    report = take(vault)
    assert (report.created, report.refused) == (2, 0)
    tea = store.oams.get("Tea.md", namespace="notes").memory
    assert tea["value"] == "Steep for *three* minutes #tea"
    assert tea["tags"] == ["drink", "tea"]
    assert (tea["created_at"], tea["metadata"]["memoranda:kind"]) == ("2025-02-03T00:00:00.000Z", "procedural")
    note = store.oams.get("deep/deeper/Note.md", namespace="notes").memory
    assert note["metadata"]["links"] == ["Tea"]
    assert note["created_at"] == "2023-11-14T22:13:20.000Z"
    # Written again as it was: nothing is new.
    os.utime(vault / "Tea.md")
    assert take(vault).unchanged == 2


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md", "GEMINI.md", ".cursorrules", "style.mdc"])
def test_each_section_of_rules_for_coding_agents_is_a_memory(
    store: Memoranda, take: Import, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text(
        "Use pnpm.\n\n# Style\n\nTabs.\n\n```sh\n# no heading\n```\n\n## Tests\nRun `make test`.\n\n# Style\nAgain.\n",
        encoding="utf-8",
    )
    assert name_of(path) == "agent-rules"
    assert take(path).created == 4
    texts = {each.text: each for each in store.list()}
    assert set(texts) == {
        "Use pnpm.",
        "Style\n\nTabs.\n\n```sh\n# no heading\n```",
        "Tests\n\nRun `make test`.",
        "Style\n\nAgain.",
    }
    assert {each.record["kind"] for each in texts.values()} == {"procedural"}
    assert take(path).unchanged == 4


def test_the_folder_of_the_memory_tool(store: Memoranda, take: Import, tmp_path: Path) -> None:
    folder = written(tmp_path / "memories", preferences_md="Prefers short answers")
    (folder / "customer.xml").write_text("<name>Ada</name>", encoding="utf-8")
    assert name_of(folder) == "memory-tool"
    assert take(folder).created == 2
    assert store.oams.get("customer.xml", namespace="memory-tool").memory["value"] == "<name>Ada</name>"


def test_what_is_no_text_is_refused_by_name_and_the_rest_comes_in(take: Import, tmp_path: Path) -> None:
    vault = written(tmp_path / "vault", good_md="good", bad_md="x")
    (vault / "bad.md").write_bytes(b"\xff\xfe\x00")
    (vault / "large.md").write_bytes(b"x" * 1_100_000)
    (vault / "link.md").symlink_to("/etc/passwd")
    report = take(vault)
    assert (report.created, report.refused) == (1, 2)
    assert sorted(Path(each.where).name for each in report.refusals) == ["bad.md", "large.md"]


def test_records_of_ours_are_no_notes(store: Memoranda, take: Import, tmp_path: Path) -> None:
    from memoranda.bindings.files import exchange

    store.remember("A record of ours")
    exchange.export_folder(store.service.export(store.access), tmp_path / "out")
    assert name_of(tmp_path / "out") is None
    assert take(tmp_path / "out").merged == 1
