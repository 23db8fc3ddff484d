"""list, show, edit, stats, config and undo; what a person sees on a terminal; and where else there is something."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.terminal import Terminal

from memoranda import Memoranda


@pytest.fixture
def filled(home: Path) -> Path:
    with Memoranda.open(home) as m:
        m.remember("use pnpm, never npm", kind="procedural", project="shop", tags=["js"])
        m.remember("Ada drinks tea", user="ada", created="2020-01-01T00:00:00Z", valid_from="2020-01-01T00:00:00Z")
        m.remember("Ada has a cat", user="ada", project="home")
    return home


def texts(run: Command, *tokens: str) -> list[str]:
    return [record["body"]["text"] for record in run("list", *tokens, "--json").json["records"]]


def test_the_latest_are_listed_by_place_person_kind_and_time(run: Command, filled: Path) -> None:
    assert texts(run) == ["Ada has a cat", "Ada drinks tea", "use pnpm, never npm"]
    assert texts(run, "--project", "shop") == texts(run, "--kind", "procedural") == ["use pnpm, never npm"]
    assert texts(run, "--tag", "JS") == ["use pnpm, never npm"]
    assert texts(run, "--user", "ada", "--limit", "1", "--page", "2") == ["Ada drinks tea"]
    assert texts(run, "--since", "7d") == texts(run, "--since", "2000-01-01") == texts(run)
    assert texts(run, "--since", "2999-01-01") == []
    page = run("list", "--limit", "2")
    assert [line.split("\t")[4] for line in page.out.splitlines()] == ["Ada has a cat", "Ada drinks tea"]
    assert page.err == "memoranda: there are more: --page 2\n"
    assert (run("list", "--limit", "0").code, run("list", "--since", "soon").code) == (2, 1)


def test_an_empty_answer_says_where_else_there_is_something(run: Command, filled: Path) -> None:
    anyway = "; --no-floor includes weak ones"
    assert run("recall", "pnpm", "--project", "home").err == f"memoranda: no matches in home; 1 in shop{anyway}\n"
    assert run("recall", "zebra", "--project", "home").err == f"memoranda: no matches in home, or elsewhere{anyway}\n"
    assert run("recall", "zebra").err == f"memoranda: no matches{anyway}\n"
    for plainly in ("--no-floor", "--words"):
        assert run("recall", "zebra", plainly).err == "memoranda: no matches\n"
    assert (
        run("list", "--project", "garden").err
        == "memoranda: no matches in garden; 1 in no project, 1 in home, 1 in shop\n"
    )
    asked = run("cal", 'RECALL LIKE "pnpm"')
    assert "no matches in shared; 1 in shop; use --namespace shop" in asked.err
    assert "pnpm" in run("cal", 'RECALL LIKE "pnpm"', "--namespace", "shop").out


def test_the_nearest_three_are_shown_if_nothing_is_close(
    run: Command, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memoranda.open(filled) as m:
        for number in range(4):
            m.remember(f"Ada drinks tea at table {number}")
    close = run("recall", "Ada drinks tea")
    assert (close.err, close.out.count("drinks tea")) == ("", 5)
    monkeypatch.setattr("memoranda.retrieval.weights.WEAK_RELEVANCE", 1.0)
    far = run("recall", "Ada drinks tea")
    assert (far.err, far.out.count("drinks tea")) == ("memoranda: nothing close; nearest:\n", 3)
    block = run("recall", "Ada drinks tea", "--for-prompt")
    assert (block.err, block.out.count("drinks tea")) == ("memoranda: nothing close; nearest:\n", 3)
    assert {result["weak"] for result in run("recall", "Ada drinks tea", "--json").json["results"]} == {True}


def test_a_person_is_told_what_a_new_memory_may_replace(run: Command, home: Path) -> None:
    run("remember", "Petra lives in Lyon.")
    told = run("remember", "Petra lives in Nantes.")
    assert "created" in told.out
    assert told.err.startswith("memoranda: similar: ")
    assert told.err.endswith(" Petra lives in Lyon.; to replace it, use revise instead\n")
    (similar,) = run("remember", "Petra lives in Brest.", "--json").json["similar"][:1]
    assert similar["text"].startswith("Petra lives in ")


def test_there_is_nothing_yet(run: Command) -> None:
    assert run("list").err == "memoranda: the store is empty\n"
    assert run("stats").code == 0
    assert run("undo").err == "memoranda: nothing was changed yet\n"


def test_how_much_there_is(run: Command, filled: Path) -> None:
    said = run("stats", "--json").json
    assert (said["memories"], said["kinds"]) == (3, {"semantic": 2, "procedural": 1})
    assert said["projects"] == {"": 1, "home": 1, "shop": 1}
    assert "in no project" in run("stats").out


def test_a_memory_is_edited_in_ones_own_editor(
    run: Command, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = run("list", "--project", "shop", "--json").json["records"][0]["id"]
    script = tmp_path / "editor.py"
    script.write_text("import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.replace('pnpm', 'bun'))")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    revised = run("edit", name[8:16], "--json").json
    shown = run("show", revised["id"], "--json").json["record"]
    assert shown["body"]["text"] == "use bun, never npm"
    assert [each["target"] for each in shown["relations"]] == ["tag:js"]
    again = run("edit", revised["id"])
    assert (again.code, again.err) == (1, "memoranda: nothing was changed\n")
    for editor, said in (("/no/such/editor", "cannot be started"), (f"{sys.executable} -c exit(3)", "ended with 3")):
        monkeypatch.setenv("EDITOR", editor)
        ran = run("edit", revised["id"])
        assert ran.code == 1
        assert said in ran.err


def test_only_the_beginning_of_a_memory_is_not_edited(
    run: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "use pnpm " * 40_000
    with Memoranda.open(home) as m:
        m.oams.store("tool", long)
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    (record,) = run("list", "--json").json["records"]
    refused = run("edit", record["id"])
    assert refused.code != 0
    assert "body.text: a record holds at most 262144 bytes, and the original has 360000" in refused.err
    with Memoranda.open(home) as m:
        assert m.oams.get("tool").memory["value"] == long


def test_an_end_stays_until_it_is_lifted(run: Command, filled: Path) -> None:
    name = run("remember", "the sale goes on", "--valid-to", "2999-01-01", "--json").json["id"]
    for words, ends in ((("--salience", "0.9"), "2999-01-01T00:00:00Z"), (("--valid-to", "never"), None)):
        name = run("revise", name, *words, "--json").json["id"]
        assert run("show", name, "--json").json["record"]["time"]["valid_to"] == ends


def test_the_last_actions_are_undone_one_by_one_and_redone(run: Command, home: Path) -> None:
    name = run("remember", "use pnpm", "--json").json["id"]
    later = run("revise", name, "use bun", "--json").json["id"]
    assert run("undo", "--json").json["undone"] == "revised"
    (record,) = run("list", "--json").json["records"]
    assert record["body"]["text"] == "use pnpm"
    assert record["id"] not in (name, later)
    assert '"use bun"' in run("redo").out
    (record,) = run("list", "--json").json["records"]
    assert record["body"]["text"] == "use bun"
    run("forget", record["id"])
    assert texts(run) == []
    assert run("undo", "--json").json["undone"] == "tombstoned"
    assert texts(run) == ["use bun"]
    run("remember", "a mistake")
    assert run("undo", "--json").json["undone"] == "created"
    assert texts(run) == ["use bun"]
    assert run("redo").code == 0
    assert texts(run) == ["a mistake", "use bun"]
    for left in (["use bun"], ["use pnpm"], []):
        assert run("undo").code == 0
        assert texts(run) == left
    assert "no earlier change" in run("undo").err
    run("remember", "use bun")
    assert "nothing to redo" in run("redo").err
    (record,) = run("list", "--json").json["records"]
    run("forget", record["id"], "--hard")
    erased = run("undo")
    assert erased.code == 1
    assert "it cannot be undone" in erased.err


def test_the_settings_in_force_and_where_they_come_from(
    run: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    (home / "memoranda.toml").write_text('port = 9000\nembedder_key = "s3cret"\n')
    monkeypatch.setenv("MEMORANDA_WORKERS", "2")
    said = run("config", "--json", "--owner", "ada").json
    assert said["port"] == {"value": "9000", "from": "memoranda.toml"}
    assert said["workers"] == {"value": "2", "from": "environment, MEMORANDA_WORKERS"}
    assert said["owner"] == {"value": "ada", "from": "command line"}
    assert said["host"] == {"value": "127.0.0.1", "from": "default"}
    assert "s3cret" not in run("config").out
    assert run("config", "port").out.startswith("port\t9000\tmemoranda.toml\t")
    assert "there is no setting 'prot'" in run("config", "prot").err


def test_a_setting_is_written_where_it_is_read_and_taken_out_again(
    run: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "memoranda.toml"
    said = run("config", "set", "port", "9000")
    assert (said.code, said.out) == (0, f"port = 9000: written to {file}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text('# mine\nport = 9000\nallowed_hosts = [ # two\n  "a",\n  "b",\n]\nworkers = 2 # few\n')
    assert run("config", "set", "allowed_hosts", "x.example, y.example").code == 0
    assert run("config", "set", "embedder_model", 'say "hi" \\ é').code == 0
    assert run("config", "unset", "port", "--json").json == {"setting": "port", "is_set": False, "file": str(file)}
    assert file.read_text() == (
        '# mine\nallowed_hosts = ["x.example", "y.example"]\nworkers = 2 # few\n'
        'embedder_model = "say \\"hi\\" \\\\ é"\n'
    )
    said = run("config", "--json").json
    assert said["allowed_hosts"] == {"value": "x.example,y.example", "from": "memoranda.toml"}
    assert said["embedder_model"]["value"] == 'say "hi" \\ é'
    assert "s3cret" not in run("config", "set", "embedder_key", "s3cret").out
    monkeypatch.setenv("MEMORANDA_PORT", "7000")
    assert "MEMORANDA_PORT in the environment overrides" in run("config", "set", "port", "9001").err


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("prot", "1", "there is no setting 'prot'"),
        ("port", "many", "not a whole number"),
        ("port", "70000", "from 0 to 65535"),
        ("secrets", "maybe", "one of warn, redact, off"),
        ("compliance", "gdpr,none", "there is no preset 'none'"),
        ("home", "/tmp", "MEMORANDA_HOME"),
        ("tls_cert", "a.pem", "set both, or neither"),
    ],
)
def test_a_setting_that_does_not_hold_is_not_written(run: Command, home: Path, name: str, value: str, why: str) -> None:
    ran = run("config", "set", name, value)
    assert ran.code == 1
    assert why in ran.err
    assert not (home / "memoranda.toml").exists()


def test_pages_that_are_cut_short_leave_nothing_out(run: Command) -> None:
    for number in range(10):
        assert run("remember", "-", piped=f"{number} {'x' * 250_000}".encode()).code == 0
    found: list[str] = []
    page: int | None = 1
    while page is not None:
        answer = json.loads(run("list", "--limit", "9", "--page", str(page), "--json").out)
        assert len(answer["records"]) < 9
        found += [record["body"]["text"].split()[0] for record in answer["records"]]
        page = answer["next_page"]
    assert found == [str(number) for number in reversed(range(10))]
    assert json.loads(run("list", "--limit", "9", "--page", "50", "--json").out)["records"] == []


@pytest.mark.parametrize("wrong", ["did:key:z6Mk…", "did:key:...", "<your DID>", "did:key:"])
def test_a_placeholder_is_no_owner_and_no_audience(run: Command, home: Path, wrong: str) -> None:
    for tokens in (
        ("recall", "x", "--owner", wrong),
        ("token", "mint", "--verbs", "read", "--aud", wrong),
        ("key", "add", "k", "--tenant", wrong),
    ):
        ran = run(*tokens)
        assert ran.code == 1
        assert "placeholder" in ran.err or "not a DID" in ran.err
    assert "not a DID" in run("token", "mint", "--verbs", "read", "--aud", "bob").err


@pytest.mark.parametrize(
    ("tokens", "meant"),
    [(("remeber", "x"), "remember"), (("recall", "x", "--projct", "p"), "--project"), (("lst",), "list")],
)
def test_a_slip_of_the_finger_is_answered_with_what_was_meant(
    run: Command, tokens: tuple[str, ...], meant: str
) -> None:
    ran = run(*tokens)
    assert ran.code == 2
    assert f"Did you mean {meant}" in ran.err.replace('"', "")


def test_a_person_reads_short_ids_and_how_long_ago(run: Command, filled: Path) -> None:
    name = run("list", "--user", "ada", "--json").json["records"][1]["id"]
    environment = {"MEMORANDA_HOME": str(filled), "MEMORANDA_EMBEDDER": "off"}
    memoranda = [sys.executable, "-m", "memoranda"]
    with Terminal([*memoranda, "list"], environment) as terminal:
        assert terminal.wait() == 0
        assert "just now" in terminal.seen
        assert name[8:16] in terminal.seen
        assert name[8:] not in terminal.seen
    with Terminal([*memoranda, "forget", name[8:16], "--hard"], environment) as terminal:
        terminal.until("Erase this")
        assert "Ada drinks tea" in terminal.seen
        terminal.press("n\r")
        assert terminal.wait() == 1
        assert "nothing was erased" in terminal.seen
    with Terminal([*memoranda, "mcp"], environment) as terminal:
        terminal.until("/mcp")
        assert '"mcpServers"' in terminal.seen


def test_a_second_machine_set_up_by_the_guide_lists_its_memories(filled: Path, run: Command, tmp_path: Path) -> None:
    with Memoranda.open(filled) as m:
        owner = m.owner
    file = tmp_path / "notes.ndjson"
    assert run("export", file).code == 0
    guide = (Path(__file__).parents[2] / "docs/howto/files.md").read_text()
    steps = guide.partition("To copy your memories to a second machine")[2].split("```")[1].splitlines()[1:]
    assert len(steps) == 3
    for step in steps:
        words = step.replace("did:key:z6Mk…", owner).replace("notes.ndjson", str(file)).split()[1:]
        ran = run("--data", tmp_path / "second", *words)
        assert ran.code == 0, ran.err
    assert [line.split("\t")[4] for line in ran.out.splitlines()] == [
        "Ada has a cat",
        "Ada drinks tea",
        "use pnpm, never npm",
    ]


def test_an_owner_without_memories_is_told_who_has_some(filled: Path, run: Command) -> None:
    with Memoranda.open(filled) as m:
        owner = m.owner
    ran = run("--owner", "did:example:bob", "--new-owner", "list")
    assert f"did:example:bob has no memories here, but {owner} has 3 memories" in ran.err
    assert f"memoranda config set owner {owner}" in ran.err
