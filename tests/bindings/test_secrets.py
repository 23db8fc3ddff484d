"""How whoever writes is told that something looks like a secret: in a line, a header, a text; never by its value."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp_types import TextContent
from tests.bindings.http.running import draft, running
from tests.service.world import grain

from memoranda import Memoranda
from memoranda.bindings.mcp import tools
from memoranda.cli import main

SECRET = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXT = f"deploy with {SECRET}"


@pytest.mark.requirement("OURS-secrets")
def test_http_says_it_in_a_header(tmp_path: Path) -> None:
    with running(tmp_path / "home") as server, server.client(server.key()) as client:
        for answer in (
            client.post("/ump/remember", json=draft(TEXT)),
            client.post("/oms/grains", json=grain(1_780_000_000_000, subject="ci", relation="uses", object=TEXT)),
        ):
            assert answer.status_code in (200, 201), answer.text
            assert "github-token" in answer.headers["x-memoranda-warning"]
            assert SECRET not in str(answer.headers)
        assert "x-memoranda-warning" not in client.post("/ump/remember", json=draft("deploy by hand")).headers


@pytest.mark.requirement("OURS-secrets")
def test_mcp_tells_the_model_and_the_program(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as memoranda:
        local = memoranda.service.gate.local()
        arguments = {"kind": "semantic", "body": {"text": TEXT}}
        answer = tools.run_tool(tools.OPERATIONS["ump.remember"], memoranda.service, local, arguments)
        assert answer.structured_content is not None
        assert set(answer.structured_content) == {"id", "result"}
        (_, warning) = answer.content
        assert isinstance(warning, TextContent)
        assert warning.text.startswith("Warning: this looks like a secret (github-token)")
        assert answer.meta is not None
        assert SECRET not in warning.text + str(answer.meta)
        # A program of one's own asks.
        (suspect,) = memoranda.suspects()
        memoranda.redact(suspect.id)
        assert memoranda.suspects() == []


@pytest.mark.requirement("OURS-secrets")
def test_the_command_line_says_how_to_take_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    assert main(["remember", TEXT]) == 0
    said = capsys.readouterr()
    name = said.out.split()[0]
    assert said.err.count("\n") == 1
    assert "github-token" in said.err
    assert "memoranda redact" in said.err
    assert SECRET not in said.err
    assert main(["redact"]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith(f"{name}\tgithub-token\tdeploy with [REDACTED")
    assert main(["redact", name]) == 0
    capsys.readouterr()
    assert main(["export", "-"]) == 0
    assert SECRET not in capsys.readouterr().out
    assert main(["redact", "--all"]) == 0
    # Whoever wants it so has it taken out before.
    monkeypatch.setenv("MEMORANDA_SECRETS", "redact")
    assert main(["remember", f"{TEXT} twice"]) == 0
    assert "was replaced before the text was stored" in capsys.readouterr().err
    monkeypatch.setenv("MEMORANDA_SECRETS", "off")
    assert main(["remember", f"{TEXT} thrice"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.requirement("OURS-secrets")
def test_files_and_logs_that_look_so_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    with Memoranda.open(tmp_path) as memoranda:
        wop, owner = memoranda.service.openwop, memoranda.access
        for content in ("plain", TEXT, "plain again"):
            wop.write_file(owner, "notes.md", content)
        run = wop.begin_run(owner, "w").run_id
        wop.emit(owner, run, "agent.toolCalled", {"arguments": {"command": TEXT}})
    assert main(["redact"]) == 0
    listed = capsys.readouterr().out
    assert listed.splitlines() == [
        "file notes.md, version 2\tgithub-token\t",
        f"log of {run}, event 1\tgithub-token\t",
    ]
    with Memoranda.open(tmp_path) as memoranda:
        assert memoranda.service.openwop.remove_file(memoranda.access, "notes.md")
    assert main(["redact"]) == 0
    assert "notes.md" not in capsys.readouterr().out
