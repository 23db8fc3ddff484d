"""connect and disconnect, on real configurations of every host, in a home of their own."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.terminal import Terminal

from memoranda.hosts.document import EntrySlot, add_entry
from memoranda.hosts.plan import BACKUP_SUFFIX
from memoranda.hosts.table import HOOKS_FORM, HOSTS, RULES, AgentHost, Machine

SAMPLES = {path.stem: path for path in (Path(__file__).parents[1] / "hosts" / "samples").iterdir()}
# Two of these may be one program in two places.
NAMES = list(dict.fromkeys(host.name for host in HOSTS))


@pytest.fixture
def person(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A home folder in which no host is yet."""
    folder = tmp_path / "person"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(folder))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DIR"):
        monkeypatch.delenv(name, raising=False)
    # A process under a mask of its own; a file keeps its mode all the same.
    before = os.umask(0o077)
    yield Machine.current()
    os.umask(before)


def named(name: str) -> AgentHost:
    return next(host for host in HOSTS if host.name == name)


def given(machine: Machine, name: str) -> tuple[Path, bytes]:
    """The sample of a host where the host has it."""
    path, data = named(name).configuration(machine), SAMPLES[name].read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o640)
    return path, data


@pytest.mark.parametrize("name", NAMES)
def test_a_host_gets_the_memory_and_its_file_comes_back_as_it_was(run: Command, person: Machine, name: str) -> None:
    host = named(name)
    path, data = given(person, name)
    answer = run("connect", name, "--no-check", "--json")
    assert answer.code == 0
    (change,) = answer.json["changes"]
    assert change["changed"]
    assert change["file"] == str(path)
    text, original = path.read_bytes().decode(), data.decode()
    was, document = host.form.parse(original), host.form.parse(text)
    entry = host.slot(document).find_entry(document)
    command = entry.get("command", entry.get("cmd"))
    assert Path(command[0] if isinstance(command, list) else command).is_absolute()
    assert host.slot(document).without_entry(document) == host.slot(was).without_entry(
        host.slot(was).with_entry(was, entry)
    )
    # Every line is still there: comments, order, unknown keys.
    after = iter(text.replace(",", "").splitlines())
    if "\n" in original:
        assert all(
            any(line.removesuffix("{}") in each for each in after) for line in original.replace(",", "").splitlines()
        )
    assert ("\r\n" in text) == ("\r\n" in original)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    assert backup.read_bytes() == data
    again = run("connect", name, "--no-check", "--json").json["changes"]
    assert [each["changed"] for each in again] == [False]
    assert path.read_bytes().decode() == text
    assert run("disconnect", name).code == 0
    assert path.read_bytes() == data
    assert not backup.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_was_not_there_goes_again(run: Command, person: Machine) -> None:
    for host in HOSTS:
        person.path(host.traces[0]).mkdir(parents=True, exist_ok=True)
    assert run("connect", "--all", "--no-check", "--rules").code == 0
    states = run("connect", "--json").json["hosts"]
    assert [each["title"] for each in states if each["connected"]] == [host.title for host in HOSTS]
    # What is pasted by hand is what a new file says.
    for each in run("connect", "--print", "--json").json["hosts"]:
        assert Path(each["file"]).read_text(encoding="utf-8") == each["text"]
    assert "ump_recall" in person.path("{claude}/CLAUDE.md").read_text(encoding="utf-8")
    assert run("disconnect", "--all").code == 0
    assert [path for path in person.path("{home}").rglob("*") if path.is_file()] == []


def test_a_file_that_we_made_goes_again_after_it_was_connected_twice_and_otherwise(
    run: Command, person: Machine, tmp_path: Path
) -> None:
    (person.path("{home}/.cursor")).mkdir()
    path = named("cursor").configuration(person)
    assert run("connect", "cursor", "--no-check").code == 0
    first = path.read_bytes()
    assert run("connect", "cursor", "--no-check", "--store", f"sqlite:///{tmp_path}/x.db").code == 0
    assert path.read_bytes() != first
    assert list(path.parent.iterdir()) == [path]
    assert run("disconnect", "cursor").code == 0
    assert list(path.parent.iterdir()) == []


def test_what_was_changed_meanwhile_stays_when_the_memory_is_taken_out(run: Command, person: Machine) -> None:
    path, _ = given(person, "codex")
    rules = person.path("{codex}/AGENTS.md")
    rules.write_text("# Mine\n", encoding="utf-8")
    assert run("connect", "codex", "--no-check", "--rules").code == 0
    path.write_text(path.read_text(encoding="utf-8") + "\n[features]\nnew = true\n", encoding="utf-8")
    rules.write_text(rules.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    assert run("disconnect", "codex").code == 0
    assert (
        path.read_text(encoding="utf-8") == SAMPLES["codex"].read_text(encoding="utf-8") + "\n[features]\nnew = true\n"
    )
    assert rules.read_text(encoding="utf-8") == "# Mine\n\nBe brief.\n"
    assert run("disconnect", "codex").out.startswith("Codex CLI: was not connected")


SETTINGS = b"""{
  // mine
  "model": "opus",
  "hooks": {
    "SessionStart": [
      { "matcher": "startup", "hooks": [{ "type": "command", "command": "echo hello" }] }, /* keep */
    ],
    "Stop": []
  }
}
"""
HOOKED = {
    "claude-code": "{claude}/settings.json",
    "codex": "{codex}/hooks.json",
    "gemini": "{home}/.gemini/settings.json",
}


# By the host's own names: our event, and how long the host is to wait in its own unit.
OURS = {
    "claude-code": {
        "SessionStart": [("session-start", 10)],
        "Stop": [("ask", 10)],
        "PreCompact": [("pre-compact", 10)],
        "SessionEnd": [("session-end", 10)],
    },
    # Codex waits three seconds at the end of a session, and warns of more.
    "codex": {"SessionStart": [("session-start", 10)], "Stop": [("ask", 10)], "SessionEnd": [("session-end", 3)]},
    # With a text of SessionStart, Gemini CLI loses the first prompt of a session that is resumed.
    "gemini": {
        "BeforeAgent": [("prompt", 10_000)],
        "AfterAgent": [("ask", 10_000)],
        "SessionEnd": [("session-end", 10_000)],
    },
}


def hooks_in(items: list[Any]) -> list[tuple[str, int]]:
    """Return our event and the timeout of each hook of ours in a list of hooks."""
    found = [(each, re.search(r" hook (\S+) --host ", each["command"])) for item in items for each in item["hooks"]]
    return [(match[1], each["timeout"]) for each, match in found if match is not None and each["type"] == "command"]


@pytest.mark.parametrize("name", HOOKED)
@pytest.mark.parametrize("data", [SETTINGS, SETTINGS.replace(b"\n", b"\r\n"), b'{"hooks": {"SessionEnd": []}}', None])
def test_hooks_are_added_once_and_the_file_comes_back_as_it_was(
    run: Command, person: Machine, name: str, data: bytes | None
) -> None:
    path, (configuration, before) = person.path(HOOKED[name]), given(person, name)
    if data is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    elif path != configuration:
        path.unlink(missing_ok=True)
    assert run("connect", name, "--no-check", "--hooks").code == 0
    document = HOOKS_FORM.parse(path.read_bytes().decode())
    assert {key: ours for key, each in document["hooks"].items() if (ours := hooks_in(each))} == OURS[name]
    if data is not None and b"mine" in data:
        assert next(each["hooks"][0]["command"] for each in document["hooks"]["SessionStart"]) == "echo hello"
        assert (b"// mine" in path.read_bytes(), b"/* keep */" in path.read_bytes()) == (True, True)
    now = path.read_bytes()
    assert run("connect", name, "--no-check", "--hooks").code == 0
    assert path.read_bytes() == now
    assert run("disconnect", name).code == 0
    if data is not None:
        assert path.read_bytes() == data
    else:
        assert path.exists() == (path == configuration)
    if path != configuration:
        assert configuration.read_bytes() == before


def connect_as_before(path: Path, host: AgentHost, original: bytes | None) -> None:
    """Write a file with our hooks as an earlier version wrote it."""
    connected, text = HOOKS_FORM.parse(path.read_text(encoding="utf-8")), (original or b"").decode()
    if host.configuration(Machine.current()) == path:
        slot = host.slot(connected)
        text = add_entry(HOOKS_FORM, text, slot, slot.find_entry(connected))
    command = connected["hooks"]["SessionEnd"][-1]["hooks"][0]["command"]
    for event, key in (("session-start", "SessionStart"), ("session-end", "SessionEnd")):
        slot = EntrySlot(("hooks", key), "", is_listed=True, mark=f"hook {event} --host")
        timeout = 10_000 if host.name == "gemini" else 10
        hook = {"type": "command", "command": command.replace("session-end", event), "timeout": timeout}
        text = add_entry(HOOKS_FORM, text, slot, {"hooks": [hook]})
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", ["codex", "gemini"])
@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("data", [SETTINGS, None])
def test_hooks_of_an_earlier_version_are_brought_up_to_date_by_connecting_again(
    run: Command, person: Machine, name: str, is_changed: bool, data: bytes | None
) -> None:
    path, (configuration, before) = person.path(HOOKED[name]), given(person, name)
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)
    assert run("connect", name, "--no-check", "--hooks").code == 0
    fresh = path.read_bytes()
    connect_as_before(path, named(name), data)
    assert path.read_bytes() != fresh
    if is_changed:
        path.write_bytes(path.read_bytes().replace(b'"hooks": {', b'"hooks": {\n    "Other": [],', 1))
    # Whoever connects again need not say that there are hooks.
    answer = run("connect", name, "--no-check")
    assert (answer.code, "open /hooks in Codex" in answer.err) == (0, name == "codex")
    document = HOOKS_FORM.parse(path.read_text(encoding="utf-8"))
    assert {key: ours for key, each in document["hooks"].items() if (ours := hooks_in(each))} == OURS[name]
    if not is_changed:
        assert path.read_bytes() == fresh
    assert run("disconnect", name).code == 0
    if is_changed:
        left = HOOKS_FORM.parse(path.read_text(encoding="utf-8"))["hooks"]
        assert "Other" in left
        assert not any(hooks_in(each) for each in left.values())
    elif data is not None:
        assert path.read_bytes() == data
    else:
        assert not path.exists()
    assert path == configuration or configuration.read_bytes() == before


@pytest.mark.parametrize("name", ["codex", "gemini"])
@pytest.mark.parametrize("data", [SETTINGS, None])
def test_hooks_of_an_earlier_version_are_taken_out_without_connecting_again(
    run: Command, person: Machine, name: str, data: bytes | None
) -> None:
    path, _ = person.path(HOOKED[name]), given(person, name)
    path.unlink(missing_ok=True)
    if data is not None:
        path.write_bytes(data)
    assert run("connect", name, "--no-check", "--hooks").code == 0
    connect_as_before(path, named(name), data)
    assert run("disconnect", name).code == 0
    assert path.read_bytes() == data if data is not None else not path.exists()


def test_rules_of_an_earlier_version_are_brought_up_to_date_by_connecting_again(run: Command, person: Machine) -> None:
    given(person, "codex")
    rules = person.path("{codex}/AGENTS.md")
    rules.write_text("# Mine\n", encoding="utf-8")
    assert run("connect", "codex", "--no-check", "--rules").code == 0
    fresh = rules.read_bytes()
    rules.write_bytes(fresh.replace(b"## Memory", b"## An old title"))
    assert run("connect", "codex", "--no-check").code == 0
    assert rules.read_bytes() == fresh
    assert run("disconnect", "codex").code == 0
    assert rules.read_text(encoding="utf-8") == "# Mine\n"


def test_hooks_that_were_changed_around_ours_stay(run: Command, person: Machine) -> None:
    given(person, "claude-code")
    path = person.path(HOOKED["claude-code"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SETTINGS)
    assert run("connect", "claude-code", "--no-check", "--hooks").code == 0
    path.write_bytes(path.read_bytes().replace(b'"Stop": [', b'"Notification": [{"hooks": []}], "Stop": ['))
    assert run("disconnect", "claude-code").code == 0
    left = HOOKS_FORM.parse(path.read_text("utf-8"))
    assert left["hooks"]["Notification"] == [{"hooks": []}]
    assert [each["hooks"][0]["command"] for each in left["hooks"]["SessionStart"]] == ["echo hello"]
    assert left["hooks"]["SessionEnd"] == []


@pytest.mark.parametrize("data", [b'{"hooks": {', b'{"hooks": {"SessionStart": {}}}', b'{"hooks": []}', b"\xff"])
def test_a_host_whose_hooks_are_broken_is_not_touched_at_all(run: Command, person: Machine, data: bytes) -> None:
    configuration, before = given(person, "claude-code")
    path = person.path(HOOKED["claude-code"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    answer = run("connect", "claude-code", "--no-check", "--hooks")
    assert answer.code == 1
    assert str(path) in answer.err
    assert (path.read_bytes(), configuration.read_bytes()) == (data, before)


def test_yes_takes_all_that_a_host_offers(run: Command, person: Machine) -> None:
    given(person, "claude-code")
    given(person, "zed")
    answer = run("connect", "claude-code", "zed", "--no-check", "--yes")
    assert answer.code == 0
    assert "Claude Code: hooks" in answer.out
    assert "Claude Code: instructions for agents" in answer.out
    assert "Zed has no hooks" in run("connect", "zed", "--no-check", "--hooks").err


def test_a_person_is_asked_what_else_is_wanted(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "person"
    (folder / ".claude").mkdir(parents=True)
    environment = {**os.environ, "HOME": str(folder), "PATH": str(folder), "MEMORANDA_HOME": str(home)}
    command = [sys.executable, "-m", "memoranda", "connect", "claude-code", "--no-check"]
    with Terminal(command, environment) as terminal:
        terminal.until("Recall when a session begins")
        terminal.press("y\n")
        terminal.until("Add instructions for using the memory")
        terminal.press("\n")
        assert terminal.wait() == 0
    assert "hook session-start" in (folder / ".claude" / "settings.json").read_text("utf-8")
    assert not (folder / ".claude" / "CLAUDE.md").exists()


def test_a_dry_run_shows_the_change_and_makes_none(run: Command, person: Machine) -> None:
    path, data = given(person, "zed")
    answer = run("connect", "zed", "--dry-run", "--rules")
    assert '+    "memoranda": {' in answer.out
    assert "would be connected" in answer.out
    assert "vim_mode" not in answer.out
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_a_broken_file_is_never_touched_and_the_others_go_on(run: Command, person: Machine) -> None:
    path, _ = given(person, "cursor")
    path.write_bytes(b'{"mcpServers": {')
    given(person, "gemini")
    answer = run("connect", "cursor", "gemini", "--no-check")
    assert answer.code == 1
    assert f"memoranda: {path}: it is not valid JSON (comments are allowed): line 1" in answer.err
    assert path.read_bytes() == b'{"mcpServers": {'
    assert "Gemini CLI: connected" in answer.out
    assert run("disconnect", "cursor").code == 1
    assert "unreadable file" in run("connect").out
    for data in (b"\xff\xfe{\x00}\x00", b'{"mcpServers": 3}', b"[1]"):
        path.write_bytes(data)
        assert run("connect", "cursor", "--no-check").code == 1
        assert path.read_bytes() == data


def test_a_link_to_a_file_is_followed_and_any_other_refused(run: Command, person: Machine, tmp_path: Path) -> None:
    path, data = given(person, "cursor")
    real = tmp_path / "dotfiles.json"
    path.rename(real)
    path.symlink_to(real)
    assert run("connect", "cursor", "--no-check").code == 0
    assert path.is_symlink()
    assert b"memoranda" in real.read_bytes()
    assert run("disconnect", "cursor").code == 0
    assert real.read_bytes() == data
    for target in (tmp_path / "nowhere", tmp_path):
        path.unlink()
        path.symlink_to(target)
        answer = run("connect", "cursor", "--no-check")
        assert answer.code == 1
        assert "is a link" in answer.err
    assert not (tmp_path / "nowhere").exists()


def test_who_is_not_here_or_not_known_is_named(run: Command, person: Machine) -> None:
    missing = run("connect", "windsurf")
    assert (missing.code, missing.err) == (
        1,
        "memoranda: Windsurf is not on this machine; to set it up on another: memoranda connect windsurf --print\n",
    )
    assert "unknown agent program 'emacs'; known are claude-code" in run("connect", "emacs").err
    assert run("connect", "--json").json["hosts"][0] == {
        "name": "claude-code",
        "title": "Claude Code",
        "here": False,
        "connected": False,
        "file": str(person.path("{home}/.claude.json")),
        "problem": None,
    }


def test_the_server_is_asked_before_anything_is_written(
    run: Command, person: Machine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = given(person, "cursor")
    broken = home / "memoranda"
    home.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    broken.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr("sys.argv", [str(broken)])
        answer = run("connect", "cursor")
    assert answer.code == 1
    assert "the server does not answer, so nothing was changed" in answer.err
    assert path.read_bytes() == data
    answer = run("connect", "cursor")
    assert answer.code == 0
    assert "the server answers, with 6 tools" in answer.err
    entry = json.loads(path.read_bytes())["mcpServers"]["memoranda"]
    assert entry["args"] == ["mcp", "--data", str(home), "--agent", "cursor"]


def test_the_owner_and_the_store_of_this_shell_are_handed_on(
    run: Command, person: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_OWNER", "ada")
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere" / "python"))
    store = f"sqlite:///{tmp_path}/x.db"
    (host,) = run("connect", "cursor", "--print", "--json", "--store", store).json["hosts"]
    entry = json.loads(host["text"])["mcpServers"]["memoranda"]
    assert entry["command"] == sys.executable
    assert entry["args"][:3] == ["-m", "memoranda", "mcp"]
    assert entry["args"][5:] == ["--store", store, "--owner", "ada", "--agent", "cursor"]


@pytest.mark.parametrize(
    ("system", "name", "place"),
    [
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "Roaming/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "zed", "Roaming/Zed/settings.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("win32", "goose", "Roaming/Block/goose/config/config.yaml"),
        ("linux", "claude-code", "moved/.claude.json"),
        ("linux", "codex", ".codex/config.toml"),
    ],
)
def test_each_system_has_its_places(tmp_path: Path, system: str, name: str, place: str) -> None:
    environment = {"APPDATA": str(tmp_path / "Roaming"), "CLAUDE_CONFIG_DIR": str(tmp_path / "moved")}
    machine = Machine(tmp_path, environment, system)
    assert named(name).configuration(machine) == tmp_path / place


def test_a_new_file_of_continue_has_what_continue_requires(run: Command, person: Machine) -> None:
    path = person.path("{home}/.continue/config.yaml")
    path.parent.mkdir()
    assert run("connect", "continue", "--no-check").code == 0
    document = named("continue").form.parse(path.read_text(encoding="utf-8"))
    assert list(document) == ["name", "version", "schema", "mcpServers"]
    assert (document["version"], document["schema"]) == ("1.0.0", "v1")
    assert [each["name"] for each in document["mcpServers"]] == ["memoranda"]
    assert run("disconnect", "continue").code == 0
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "# mine\n", "name: Mine\n", "models: []\r\n"])
def test_a_file_of_continue_that_lacks_what_continue_requires_gets_it(run: Command, person: Machine, text: str) -> None:
    path = person.path("{home}/.continue/config.yaml")
    path.parent.mkdir()
    path.write_bytes(text.encode())
    assert run("connect", "continue", "--no-check").code == 0
    written = path.read_bytes().decode()
    document = named("continue").form.parse(written)
    assert {"name", "version", "schema", "mcpServers"} <= set(document)
    assert document["name"] == ("Mine" if "Mine" in text else "Local Config")
    assert text in written
    assert written.count("\r\n") == (written.count("\n") if "\r\n" in text else 0)
    assert run("disconnect", "continue").code == 0
    assert path.read_bytes() == text.encode()


def test_a_file_that_an_earlier_version_made_for_continue_is_mended_and_goes_again(
    run: Command, person: Machine
) -> None:
    path = person.path("{home}/.continue/config.yaml")
    path.parent.mkdir()
    assert run("connect", "continue", "--no-check").code == 0
    whole = path.read_bytes()
    path.write_bytes(whole[whole.index(b"mcpServers") :])
    assert run("connect", "continue", "--no-check").code == 0
    assert path.read_bytes() == whole
    assert run("disconnect", "continue").code == 0
    assert not path.exists()


def test_continue_with_its_old_configuration_keeps_it(run: Command, person: Machine) -> None:
    old = person.path("{home}/.continue/config.json")
    old.parent.mkdir()
    old.write_text('{"models": []}', encoding="utf-8")
    answer = run("connect", "continue", "--no-check")
    assert answer.code == 1
    assert f"{old} is in use" in answer.err
    assert list(old.parent.iterdir()) == [old]


CLINE = ("{cline}", "{apps}/Code/User/globalStorage/saoudrizwan.claude-dev")


@pytest.mark.parametrize("signs", [CLINE[:1], CLINE[1:], CLINE])
def test_each_cline_that_is_there_is_connected_and_no_other(
    run: Command, person: Machine, signs: tuple[str, ...]
) -> None:
    for sign in signs:
        person.path(sign).mkdir(parents=True)
    files = {
        CLINE[0]: person.path("{cline}/data/settings/cline_mcp_settings.json"),
        CLINE[1]: person.path(f"{CLINE[1]}/settings/cline_mcp_settings.json"),
    }
    assert run("connect", "cline", "--no-check").code == 0
    assert {sign for sign, path in files.items() if path.exists()} == set(signs)
    states = [each for each in run("connect", "--json").json["hosts"] if each["name"] == "cline"]
    assert {each["file"] for each in states if each["connected"]} == {str(files[sign]) for sign in signs}
    assert {each["file"] for each in states if each["here"]} == {str(files[sign]) for sign in signs}
    assert run("disconnect", "cline").code == 0
    assert not any(path.exists() for path in files.values())


def test_what_is_refused_about_either_cline_is_said(run: Command, person: Machine) -> None:
    paths = [host.configuration(person) for host in HOSTS if host.name == "cline"]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("{", encoding="utf-8")
    assert "connect cline\n" not in run("connect").err
    answer = run("connect", "cline", "--no-check", "--json")
    assert answer.code == 1
    assert all(str(path) in answer.json["refused"]["cline"] for path in paths)


def test_cline_with_only_its_program_is_connected_where_that_looks(run: Command, person: Machine) -> None:
    program = person.path("{home}/cline")
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    assert run("connect", "cline", "--no-check").code == 0
    assert person.path("{cline}/data/settings/cline_mcp_settings.json").exists()
    assert not person.path("{apps}/Code").exists()


def test_opencode_of_either_version_and_name_is_served(run: Command, person: Machine) -> None:
    path = person.path("{config}/opencode/opencode.jsonc")
    path.parent.mkdir(parents=True)
    path.write_text('{"mcp": {"servers": {}}, "model": "m"}', encoding="utf-8")
    assert run("connect", "opencode", "--no-check").code == 0
    assert json.loads(path.read_bytes())["mcp"]["servers"]["memoranda"]["type"] == "local"
    assert run("disconnect", "opencode").code == 0
    assert path.read_text(encoding="utf-8") == '{"mcp": {"servers": {}}, "model": "m"}'


def test_the_page_names_every_host_its_place_and_the_rules() -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "connect.md").read_text(encoding="utf-8")
    machine = Machine(Path("~"), {}, "linux")
    assert RULES in page
    for host in HOSTS:
        row = next(line for line in page.splitlines() if line.startswith(f"| {host.title} | `{host.name}` |"))
        assert f"`{machine.path(host.files[0])}`" in row
        assert host.slots[-1].path[0] in row
        assert not host.rules or machine.path(host.rules).name in page
