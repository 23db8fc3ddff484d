"""Sessions of agent hosts: the turns of real and of made transcripts, once each, with session, turn and agent."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import Memoranda
from memoranda.bindings.files.importers.importer import ImportDraft
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from memoranda.cli.import_watch import follow_sources, select_changed
from tests.cli.conftest import Command, home, run  # noqa: F401  # fixtures
from tests.importers.conftest import Import, take_known
from tests.waiting import HANG_SECONDS

VECTORS = Path(__file__).parents[1] / "vectors" / "hosts"
ASKED = "Remember the deploy day, then tell me when it is"
AT = "2026-11-18T16:41:28.861Z"


def drafts_of(path: Path, system: str) -> list[ImportDraft]:
    results = list(ImportCodec(IMPORTERS[system]).read_drafts(str(path)))
    assert all(isinstance(result, ImportDraft) for result in results), results
    return [result for result in results if isinstance(result, ImportDraft)]


def errors_of(path: Path, system: str) -> list[str]:
    items = ImportCodec(IMPORTERS[system]).items(str(path))
    return [item.error.message for item in items if item.error is not None]


def write_lines(path: Path, entries: Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def claude(text: str, number: int, **more: Any) -> dict[str, Any]:
    """A line of Claude Code, typed by the person."""
    message = {"role": "user", "content": text}
    fields = {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": "s", "cwd": "/home/ada/shop"}
    return {**fields, "timestamp": AT, "message": message, **more}


@pytest.mark.parametrize(
    ("folder", "system", "project", "count"),
    [
        ("claude-code-2.1", "claude-code", "shop", 5),
        ("codex-0.169", "codex", "shop", 6),
        ("gemini-cli-0.61", "gemini", "", 4),
        ("cline-3.0", "cline", "shop", 3),
    ],
)
def test_sessions_of_a_real_host_are_imported_once(
    store: Memoranda, tmp_path: Path, folder: str, system: str, project: str, count: int
) -> None:
    path = shutil.copytree(VECTORS / folder, tmp_path / "sessions")
    assert take_known(store, path, system).created == count
    assert {draft.metadata["turn"] for draft in drafts_of(path, system)} == {1, 2}
    asked = [memory for memory in store.list(limit=50) if memory.text == f"User: {ASKED}"]
    assert asked
    for memory in asked:
        scope = memory.record["scope"]
        assert (scope["agent"], memory.kind) == (system, "episodic")
        assert scope["session"]
        assert memory.project == (project or system)


def test_a_session_that_goes_on_adds_its_new_turns(store: Memoranda, take: Import, tmp_path: Path) -> None:
    lines = [claude("We use pnpm.", 1), claude("And Node 22.", 2)]
    path = write_lines(tmp_path / "projects" / "-home-ada-shop" / "s.jsonl", lines[:1])
    assert take(tmp_path / "projects").created == 1
    write_lines(path, lines)
    report = take(tmp_path / "projects")
    assert (report.created, report.updated, report.unchanged) == (1, 0, 1)
    # A line that the host is just writing belongs to the next import.
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type": "user", "mess')
    report = take(tmp_path / "projects")
    assert (report.created, report.unchanged, report.refused) == (0, 2, 0)
    # The host copies the turns into another file when a session is forked.
    write_lines(path.with_name("t.jsonl"), [*lines, claude("In German, please.", 3)])
    report = take(tmp_path / "projects")
    assert (report.created, report.updated, report.unchanged) == (1, 0, 2)


def test_a_malformed_line_is_reported_and_the_other_sessions_are_read(take: Import, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    write_lines(folder / "a.jsonl", [claude("first", 1)])
    broken = write_lines(folder / "b.jsonl", [claude("second", 2)])
    broken.write_text(broken.read_text(encoding="utf-8") + "{not json\n" + json.dumps(claude("third", 3)), "utf-8")
    report = take(folder)
    assert (report.created, report.refused) == (2, 1)
    assert "line 2 is not JSON" in report.refusals[0].message


def test_long_lines_and_sub_agents_are_passed_over(tmp_path: Path) -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "content": "x" * 5_000_000}]}
    folder = tmp_path / "projects"
    write_lines(folder / "a.jsonl", [claude("first", 1), claude("", 2, message=result), claude("last", 3)])
    write_lines(folder / "a" / "subagents" / "agent-1.jsonl", [claude("an order", 4, isSidechain=True)])
    assert [draft.text for draft in drafts_of(folder, "claude-code")] == ["User: first", "User: last"]


def test_files_of_one_gemini_session_are_one_session(take: Import, tmp_path: Path) -> None:
    folder = tmp_path / "tmp" / "shop" / "chats"
    header = {"sessionId": "0a1b2c3d-1", "projectHash": "f" * 64, "kind": "main"}

    def turn(name: str, text: str) -> dict[str, Any]:
        return {"id": name, "timestamp": AT, "type": "user", "content": [{"text": text}]}

    write_lines(folder / "session-2026-11-18T16-50-0a1b2c3d.jsonl", [header, turn("a", "one"), turn("b", "two")])
    again = [header, {"$set": {"messages": [turn("c", "two"), turn("d", "three")]}}]
    last = write_lines(folder / "session-2026-11-18T17-50-0a1b2c3d.jsonl", again)
    assert take(tmp_path / "tmp").created == 3
    # A single file stands for its session, so its turns have the same numbers.
    report = take(last)
    assert (report.created, report.updated, report.unchanged) == (0, 0, 3)
    (draft, *_) = drafts_of(last, "gemini")
    assert (draft.scope, draft.text, draft.metadata) == ("shop", "User: one", {"turn": 1})


def test_a_task_of_cline_in_vs_code_is_read(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "1795020820048" / "api_conversation_history.json"
    task.parent.mkdir(parents=True)
    texts = [{"type": "text", "text": "<task>\nUse tabs.\n</task>"}]
    texts.append({"type": "text", "text": "<environment_details>files</environment_details>"})
    task.write_text(
        json.dumps([{"role": "user", "content": texts}, {"role": "assistant", "content": "Done."}]), "utf-8"
    )
    found = recognise_importer(task)
    assert found is not None
    assert found.name == "cline"
    first, second = drafts_of(tmp_path / "tasks", "cline")
    assert (first.text, second.text) == ("User: Use tabs.", "Cline: Done.")
    assert (first.session, first.created, first.id) == ("1795020820048", 1795020820048, "1795020820048:1")


HISTORY = [
    {"message": {"role": "user", "content": "Which port?"}, "contextItems": []},
    {"message": {"role": "assistant", "content": [{"type": "text", "text": "8420."}]}},
]
CONTINUE = {
    "sessionId": "c1",
    "title": "Ports",
    "workspaceDirectory": "file:///home/ada/my%20shop",
    "history": HISTORY,
}


def test_sessions_of_continue_are_dated_by_their_index(store: Memoranda, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "c1.json").write_text(json.dumps(CONTINUE), encoding="utf-8")
    index = [{"sessionId": "c1", "dateCreated": "1760000000000"}]
    (folder / "sessions.json").write_text(json.dumps(index), encoding="utf-8")
    take_known(store, folder, "continue")
    question, answer = drafts_of(folder, "continue")
    assert (question.text, answer.text) == ("User: Which port?", "Continue: 8420.")
    assert (question.scope, question.created) == ("my shop", 1760000000000)
    assert question.metadata == {"turn": 1, "chat_title": "Ports"}


CHAT = {
    "version": 3,
    "sessionId": "v1",
    "creationDate": 1760000000000,
    "requests": [
        {
            "requestId": "r1",
            "timestamp": 1760000001000,
            "message": {"text": "Which port?", "parts": []},
            "response": [{"kind": "toolInvocationSerialized", "value": "x"}, {"value": "84"}, {"value": "20."}],
        }
    ],
}
JOURNAL = [
    {"kind": 0, "v": {**CHAT, "requests": []}},
    {"kind": 2, "k": ["requests"], "v": [{**CHAT["requests"][0], "response": []}]},  # type: ignore[index]
    {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "84"}, {"value": "99"}]},
    {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "20."}], "i": 1},
    {"kind": 1, "k": ["customTitle"], "v": "Ports"},
    {"kind": 1, "k": ["draft"], "v": "x"},
    {"kind": 3, "k": ["draft"]},
]


@pytest.mark.parametrize("form", ["document", "journal"])
def test_chats_of_vs_code_are_read_in_either_form(store: Memoranda, tmp_path: Path, form: str) -> None:
    workspace = tmp_path / "workspaceStorage" / "0f"
    (workspace / "chatSessions").mkdir(parents=True)
    (workspace / "workspace.json").write_text('{"folder": "file:///home/ada/shop"}', encoding="utf-8")
    if form == "document":
        (workspace / "chatSessions" / "v1.json").write_text(json.dumps(CHAT), encoding="utf-8")
    else:
        write_lines(workspace / "chatSessions" / "v1.jsonl", JOURNAL)
    take_known(store, tmp_path / "workspaceStorage", "vscode")
    for source in (tmp_path / "workspaceStorage", next((workspace / "chatSessions").iterdir())):
        question, answer = drafts_of(source, "vscode")
        assert (question.text, answer.text) == ("User: Which port?", "VS Code: 8420.")
        assert (question.scope, question.session, question.created) == ("shop", "v1", 1760000001000)
        assert (question.id, answer.id) == ("v1:r1", "v1:r1 answer")


@pytest.mark.parametrize(
    "line",
    [
        {"kind": 1, "k": ["requests", 9, "x"], "v": 1},
        {"kind": 1, "k": [], "v": 1},
        {"kind": 1, "k": "requests", "v": 1},
        {"kind": 2, "k": ["sessionId"], "v": [1]},
        {"kind": 3, "k": ["nothing"]},
        {"kind": 1, "k": ["a"] * 40, "v": 1},
        {"kind": 1, "k": [{}], "v": 1},
    ],
)
def test_a_change_that_fits_nothing_in_the_chat_is_an_error(tmp_path: Path, line: dict[str, Any]) -> None:
    path = write_lines(tmp_path / "chatSessions" / "v1.jsonl", [JOURNAL[0], line])
    (message,) = errors_of(path, "vscode")
    assert "line 2 changes nothing" in message


def opencode(path: Path, parts: Sequence[tuple[str, dict[str, Any]]], parent: str | None = None) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE session (id, parent_id, directory, title, version, time_created)")
        database.execute("CREATE TABLE message (id, session_id, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, data)")
        database.execute(
            "INSERT INTO session VALUES ('ses_1', ?, '/home/ada/shop', 'Ports', '1', 1760000000000)", (parent,)
        )
        for number, (role, fields) in enumerate(parts):
            message = {"role": role, "time": {"created": 1760000001000 + number}}
            database.execute("INSERT INTO message VALUES (?, 'ses_1', ?)", (f"msg_{number}", json.dumps(message)))
            row = (f"prt_{number}", f"msg_{number}", json.dumps(fields))
            database.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", row)
        database.commit()
    return path


def test_sessions_of_opencode_are_read_from_its_database(store: Memoranda, tmp_path: Path) -> None:
    parts: list[tuple[str, dict[str, Any]]] = [
        ("user", {"type": "text", "text": '"Which port?"'}),
        ("user", {"type": "text", "text": "added by a plugin", "synthetic": True}),
        ("assistant", {"type": "tool", "tool": "bash", "state": {"output": "x"}}),
        ("assistant", {"type": "text", "text": "8420."}),
    ]
    path = opencode(tmp_path / "opencode.db", parts)
    take_known(store, path, "opencode")
    question, answer = drafts_of(path, "opencode")
    assert (question.text, answer.text) == ("User: Which port?", "opencode: 8420.")
    assert (question.scope, question.session, question.created) == ("shop", "ses_1", 1760000001000)
    # The session of a sub-agent has a parent, and what looks like typed text in it is the agent's order.
    assert drafts_of(opencode(tmp_path / "sub.db", parts, parent="ses_0"), "opencode") == []


def cursor(path: Path, rows: dict[str, object]) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB)")
        database.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
        for key, value in rows.items():
            data = value if isinstance(value, str | None) else json.dumps(value)
            database.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, data))
        database.commit()
    return path


CURSOR_ROWS: dict[str, object] = {
    "composerData:c1": {
        "createdAt": 1760000000000,
        "name": "Ports",
        "fullConversationHeadersOnly": [
            {"bubbleId": "b2", "type": 1},
            {"bubbleId": "b1", "type": 2},
            {"bubbleId": "gone"},
        ],
    },
    "composerData:c2": {"createdAt": 1760000000000, "conversation": [{"type": 1, "bubbleId": "b", "text": "Hi."}]},
    "composerData:c3": None,
    "bubbleId:c1:b1": {"type": 2, "text": "8420."},
    "bubbleId:c1:b2": {"type": 1, "text": "<user_query>\nWhich port?\n</user_query>", "createdAt": AT},
    "bubbleId:c10:b1": {"type": 1, "text": "of another chat"},
    "agentKv:blob:1": "no json",
}


def test_chats_of_cursor_are_read_from_its_database(store: Memoranda, tmp_path: Path) -> None:
    path = cursor(tmp_path / "state.vscdb", CURSOR_ROWS)
    take_known(store, path, "cursor")
    texts = [(draft.session, draft.text) for draft in drafts_of(path, "cursor")]
    assert texts == [("c1", "User: Which port?"), ("c1", "Cursor: 8420."), ("c2", "User: Hi.")]
    assert errors_of(cursor(tmp_path / "broken.vscdb", {"composerData:c1": "{"}), "cursor") == [
        "the chat is not JSON (taken for Cursor)"
    ]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type role message content text payload item id cwd timestamp ts messages $set history requests "
                "response sessionId uuid kind k v i metadata displayContent workspaceDirectory title".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    lines=st.lists(JSON_VALUES, max_size=5),
    system=st.sampled_from(["claude-code", "codex", "gemini", "cline", "continue", "vscode"]),
)
def test_any_content_of_a_transcript_is_turns_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any], system: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any" / "chatSessions"
    for name, text in (
        ("a.jsonl", "\n".join(json.dumps(line) for line in lines)),
        ("b.json", json.dumps(lines[0] if lines else lines)),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
        assert list(ImportCodec(IMPORTERS[system]).items(str(folder / name))) is not None


def test_a_file_of_messages_that_no_host_wrote_is_not_taken_for_a_session(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}]), encoding="utf-8")
    found = recognise_importer(path)
    assert found is None or found.name != "cline"


def test_the_sessions_of_a_host_are_found_without_naming_them(
    run: Command,  # noqa: F811
    home: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    answer = run("import", "--format", "claude-code")
    assert answer.code == 1
    assert "no sessions of claude-code" in answer.err
    write_lines(tmp_path / "claude" / "projects" / "-home-ada-shop" / "s.jsonl", [claude("We use pnpm.", 1)])
    assert run("import", "--format", "claude-code", "--json").json["created"] == 1
    assert "leave out --dry-run" in run("import", "--format", "claude-code", "--watch", "--dry-run").err


def test_changed_files_are_followed_until_it_is_stopped(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "projects" / "s.jsonl", [claude("one", 1)])
    stop, changed = threading.Event(), []

    def follow() -> None:
        for names in follow_sources([str(tmp_path / "projects")], stop):
            changed.append(names)
            stop.set()

    # Written again and again, because nothing tells when the follower has begun.
    thread = threading.Thread(target=follow)
    thread.start()
    for number in range(int(HANG_SECONDS)):
        write_lines(path, [claude("one", 1), claude("two", number)])
        if stop.wait(1):
            break
    stop.set()
    thread.join(HANG_SECONDS)
    assert changed == [(str(path.resolve()),)]


def test_a_log_that_changed_stands_for_its_database_and_other_files_for_nothing(tmp_path: Path) -> None:
    database, folder = opencode(tmp_path / "opencode.db", []), tmp_path / "projects"
    session = write_lines(folder / "s.jsonl", [claude("one", 1)])
    (folder / "notes.bin").write_bytes(b"\x00\x01")
    paths = [f"{database}-wal", str(session), str(folder / "notes.bin"), str(folder / "gone.jsonl")]
    assert select_changed([database, folder], paths) == (str(database), str(session))
