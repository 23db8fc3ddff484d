"""The request to an agent to store what matters: once in a session, never in a loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoranda.bindings.files.importers.transcripts import typed_text
from memoranda.encoding.passages import REQUEST_MARK
from tests.cli.conftest import Command, home, run  # noqa: F401  # fixtures


def describe(tmp_path: Path, *prompts: str, **more: Any) -> bytes:
    lines = [{"type": "user", "message": {"role": "user", "content": text}} for text in prompts]
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return json.dumps({"session_id": "s1", "transcript_path": str(path), "cwd": str(tmp_path), **more}).encode()


def ask(run: Command, host: str, said: bytes) -> dict[str, Any]:  # noqa: F811
    answer = run("hook", "ask", "--host", host, piped=said)
    assert answer.code == 0
    return dict(json.loads(answer.out))


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini"])
def test_an_agent_is_asked_once_in_a_session(run: Command, tmp_path: Path, host: str) -> None:  # noqa: F811
    assert ask(run, host, describe(tmp_path, "one", "two")) == {}
    said = describe(tmp_path, "one", "two", "three")
    request = ask(run, host, said)
    output = request.get("hookSpecificOutput", {})
    text = str(output.get("additionalContext") or request.get("reason"))
    assert text.startswith(REQUEST_MARK)
    assert "ump_remember" in text
    decisions = {"codex": "block", "gemini": "deny"}
    assert request.get("decision") == decisions.get(host)
    for _ in range(2):
        assert ask(run, host, said) == {}
    # Another session is another matter.
    assert ask(run, host, describe(tmp_path, "one", "two", "three", session_id="s2")) != {}


@pytest.mark.parametrize(
    "more",
    [
        {"stop_hook_active": True},
        {"session_id": ""},
        {"transcript_path": "/nowhere"},
        # VS Code runs the hooks of Claude Code, and was not seen to go on with this answer.
        {"hookEventName": "Stop"},
    ],
)
def test_an_agent_is_not_asked_where_it_could_go_wrong(run: Command, tmp_path: Path, more: dict[str, Any]) -> None:  # noqa: F811
    assert ask(run, "claude-code", describe(tmp_path, "one", "two", "three", **more)) == {}


def test_an_agent_that_used_the_memory_is_not_asked(run: Command, tmp_path: Path) -> None:  # noqa: F811
    said = describe(tmp_path, "one", "two", "three")
    call = {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "mcp__memoranda__ump_remember"}]}}
    with (tmp_path / "transcript.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps(call))
    assert ask(run, "claude-code", said) == {}


def test_nobody_is_asked_if_the_setting_says_so(
    run: Command,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MEMORANDA_LEARN_ASK", "off")
    assert ask(run, "codex", describe(tmp_path, "one", "two", "three")) == {}


def test_a_host_without_such_a_hook_gets_no_request(run: Command, tmp_path: Path) -> None:  # noqa: F811
    assert ask(run, "opencode", describe(tmp_path, "one", "two", "three")) == {}


def test_the_request_is_not_taken_for_what_a_person_typed() -> None:
    assert typed_text(f"{REQUEST_MARK}\nDid the person state something?") == ""
