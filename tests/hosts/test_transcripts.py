"""Transcripts as hosts write them, real ones among them: only what a person typed and an agent answered is a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.bindings.files.importers.transcripts import TranscriptTurn, read_turns, typed_text
from memoranda.hosts.document import MarkedText
from memoranda.hosts.sessions import HostSession, summarize_session
from memoranda.hosts.table import RULES, RULES_SLOT

VECTORS = Path(__file__).parents[1] / "vectors" / "hosts"
ASKED = "Remember the deploy day, then tell me when it is"
PASSAGE = MarkedText().add_entry("", RULES_SLOT, {"text": RULES})


def write(folder: Path, entries: Sequence[Any], name: str = "transcript.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(entry) for entry in entries), encoding="utf-8")
    return path


def user(text: str) -> TranscriptTurn:
    return TranscriptTurn("user", text)


def agent(text: str) -> TranscriptTurn:
    return TranscriptTurn("assistant", text)


# --- sessions that real hosts wrote ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "typed", "answer"),
    [
        ("claude-code-2.1/session-1.jsonl", ASKED, "RESULT: "),
        ("claude-code-2.1/session-2.jsonl", ASKED, "no tools"),
        # The last line is an API error.
        ("claude-code-2.1/session-3.jsonl", ASKED, None),
        ("codex-0.169/session-1.jsonl", ASKED, "no tools"),
        ("codex-0.169/session-2.jsonl", ASKED, "RESULT: "),
        ("codex-0.169/session-3.jsonl", ASKED, "RESULT: "),
        ("gemini-cli-0.61/session-1.jsonl", ASKED, "RESULT: "),
        ("gemini-cli-0.61/session-2.jsonl", "hello", "RESULT: "),
        # The model returned nothing, and the host says so in the agent's place.
        ("cline-3.0/a8rvq.messages.json", ASKED, None),
        ("cline-3.0/i9jg9.messages.json", ASKED, "no tools"),
    ],
)
def test_a_session_of_a_real_host_is_what_was_typed_and_answered(name: str, typed: str, answer: str | None) -> None:
    turns = read_turns(VECTORS / name)
    assert [turn.text for turn in turns if turn.role == "user"] == [typed]
    answers = [turn.text for turn in turns if turn.role == "assistant"]
    assert [text[: len(answer or "")] for text in answers] == ([] if answer is None else [answer])


@pytest.mark.parametrize("path", sorted(VECTORS.rglob("*.json*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_that_a_host_or_we_put_there_is_remembered(path: Path) -> None:
    session = HostSession(host="x", id="1", folder=Path("/home/ada/shop"), transcript=path)
    asked = (summarize_session(session) or "").partition("The last answer: ")[0]
    for text in ("AGENTS.md", "outlives this conversation", "hook_context", "latest first", "cwd", "API Error", "<"):
        assert text not in asked
    assert "API Error" not in (summarize_session(session) or "")


# --- Claude Code -------------------------------------------------------------------------------------------------


def claude(role: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **({"model": more.pop("model")} if "model" in more else {})}
    return {"type": role, "message": message, **more}


def test_an_error_of_the_api_is_no_answer_and_the_answer_before_it_stays(tmp_path: Path) -> None:
    error = [{"type": "text", "text": "API Error: 529 overloaded"}]
    entries = [
        claude("user", "when?"),
        claude("assistant", [{"type": "text", "text": "on Tuesday"}], model="claude-opus-4-8"),
        claude("user", "and where?"),
        claude("assistant", error, model="<synthetic>", isApiErrorMessage=True),
        claude("assistant", error, isApiErrorMessage=True),
        # The flag is there and false on this one.
        claude(
            "assistant",
            [{"type": "text", "text": "No response requested."}],
            model="<synthetic>",
            isApiErrorMessage=False,
        ),
    ]
    assert read_turns(write(tmp_path, entries)) == [user("when?"), agent("on Tuesday"), user("and where?")]


def test_summaries_agents_of_agents_and_commands_are_no_prompts(tmp_path: Path) -> None:
    entries = [
        claude("user", "This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        claude("user", "look into it", isSidechain=True),
        claude("user", "Stop hook feedback:\nremember", isMeta=True),
        claude("user", "<command-message>init</command-message>\n<command-name>/init</command-name>"),
        claude("user", "<local-command-stdout>done</local-command-stdout>"),
        claude("user", "<bash-input>ls</bash-input>"),
        claude("user", [{"type": "tool_result", "content": "secret"}, {"type": "text", "text": "<system-reminder>x"}]),
        claude(
            "user",
            [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "and now?"}],
        ),
        claude("user", "<system-reminder>\nx\n</system-reminder>\n\nwhy?"),
    ]
    assert read_turns(write(tmp_path, entries)) == [user("and now?"), user("why?")]


# --- Codex -------------------------------------------------------------------------------------------------------


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "payload": payload}


def codex_user(*texts: str, **more: Any) -> dict[str, Any]:
    parts = [{"type": "input_text", "text": text} for text in texts]
    return item("response_item", type="message", role="user", content=parts, **more)


META = item("session_meta", id="1", thread_source="user")
HOST_TEXT = codex_user(
    f"# AGENTS.md instructions\n\n<INSTRUCTIONS>\n{PASSAGE}\n</INSTRUCTIONS>", "<environment_context>\n"
)


def test_in_codex_what_was_typed_is_what_its_own_items_say(tmp_path: Path) -> None:
    typed = {"type": "UserMessage", "content": [{"type": "text", "text": "when?"}]}
    entries = [
        META,
        HOST_TEXT,
        codex_user("when?"),
        item("event_msg", type="item_completed", item=typed),
        codex_user('<hook_prompt hook_run_id="stop:1">remember</hook_prompt>'),
        item("event_msg", type="item_completed", item={"type": "HookPrompt", "content": [{"text": "remember"}]}),
        codex_user("Another language model started to solve this problem"),
        item("response_item", type="message", role="assistant", content=[{"type": "output_text", "text": "soon"}]),
    ]
    assert read_turns(write(tmp_path, entries)) == [user("when?"), agent("soon")]


def test_older_and_newer_codex_files_without_such_items_are_read_by_their_marks(tmp_path: Path) -> None:
    older = [META, HOST_TEXT, item("event_msg", type="user_message", message="when?"), codex_user("when?")]
    assert read_turns(write(tmp_path, older)) == [user("when?")]
    marks = [{"provenance": {"type": "harness", "hook": True}}, {"provenance": {"type": "user"}}]
    metadata = {"content_item_metadata": marks}
    marked = codex_user("remember this", "when?", internal_chat_message_metadata_passthrough=metadata)
    assert read_turns(write(tmp_path, [META, HOST_TEXT, marked])) == [user("when?")]
    assert read_turns(write(tmp_path, [META, HOST_TEXT, codex_user("when?")])) == [user("when?")]


def test_orders_of_an_agent_to_another_are_no_prompts(tmp_path: Path) -> None:
    typed = {"type": "UserMessage", "content": [{"type": "text", "text": "look into it"}]}
    entries = [
        item("session_meta", id="2", thread_source="subagent"),
        item("event_msg", type="item_completed", item=typed),
    ]
    assert read_turns(write(tmp_path, entries)) == []


# --- Gemini CLI --------------------------------------------------------------------------------------------------


def gemini(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    return {"type": role, "content": [{"text": text} for text in texts], **more}


HEADER = {"sessionId": "0026d389-5542", "projectHash": "x", "kind": "main"}
CONTEXT = "<hook_context>What is remembered here\n&lt;ump:memory&gt;</hook_context>"


def test_the_person_s_prompt_stays_where_hooks_put_something_before_it(tmp_path: Path) -> None:
    entries = [
        HEADER,
        {"$set": {"messages": [gemini("user", "<session_context>\nToday\n</session_context>")]}},
        gemini("user", f"{CONTEXT}\n\n{CONTEXT}\nwhen?"),
        gemini("user", "where?", CONTEXT, displayContent=[{"text": "where?"}]),
        gemini("user", "why?", CONTEXT),
        gemini("error", "[API Error: 503]"),
        gemini("info", "MCP issues detected"),
    ]
    assert read_turns(write(tmp_path, entries)) == [user("when?"), user("where?"), user("why?")]


def test_a_list_of_messages_that_is_written_again_repeats_nothing_and_takes_nothing_away(tmp_path: Path) -> None:
    entries = [
        HEADER,
        gemini("user", "when?", id="1"),
        gemini("gemini", "on Tuesday", id="2"),
        # The prompt is missing in it, and what is there has other ids.
        {"$set": {"messages": [gemini("gemini", "on Tuesday", id="9"), gemini("user", "said elsewhere", id="8")]}},
        gemini("user", "when?", id="7"),
        gemini("user", "where?", id="3"),
        gemini("gemini", "here", id="4"),
        gemini("gemini", "here", id="4", toolCalls=[]),
        gemini("gemini", "on Tuesday", id="6"),
    ]
    turns = [user("when?"), agent("on Tuesday"), user("said elsewhere"), user("where?"), agent("here")]
    assert read_turns(write(tmp_path, entries)) == turns


def test_a_session_that_was_resumed_is_read_from_all_its_files(tmp_path: Path) -> None:
    name = "session-2026-11-18T16-5{}-0026d389.jsonl"
    write(tmp_path, [HEADER, gemini("user", "when?"), gemini("gemini", "on Tuesday")], name.format(1))
    other = {**HEADER, "sessionId": "0026d389-ffff"}
    write(tmp_path, [other, gemini("user", "of another session")], name.format(2))
    resumed = write(tmp_path, [HEADER, {"$set": {"messages": [gemini("gemini", "on Tuesday")]}}], name.format(3))
    assert read_turns(resumed) == [user("when?"), agent("on Tuesday")]


# --- typed texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("when?", "when?"),
        ("<hook_context>a<hook_context>b</hook_context>c</hook_context> when?", "when?"),
        ("<some_new_tag key='1'>x</some_new_tag>\n<other-tag>y</other-tag>\nwhen?", "when?"),
        ('<user_input mode="act">when?</user_input>', "when?"),
        ('<user_input mode="act">when?</user_input>\n<environment_details>x</environment_details>', "when?"),
        (f"{PASSAGE}\nwhen? {PASSAGE}", "when?"),
        (f"# AGENTS.md instructions for /home/ada\n\n<INSTRUCTIONS>\n{PASSAGE}</INSTRUCTIONS>", ""),
        ("# AGENTS.md instructions are wrong, mend them", "# AGENTS.md instructions are wrong, mend them"),
        # What people write themselves stays.
        ("<div>a</div> is not centred", "<div>a</div> is not centred"),
        ("<Button> does not render", "<Button> does not render"),
        ("<my_type> is undefined, why?", "<my_type> is undefined, why?"),
        ("< 3 ms?", "< 3 ms?"),
        ("why does <hook_context> appear?", "why does <hook_context> appear?"),
        # A host's block that was cut off is a block all the same.
        ("<system-reminder>you should", ""),
        ("<!-- memoranda: begin --> stays open", "<!-- memoranda: begin --> stays open"),
    ],
)
def test_blocks_before_the_typed_text_and_our_passage_are_taken_off(text: str, typed: str) -> None:
    assert typed_text(text) == typed


@given(
    text=st.lists(
        st.sampled_from(
            [
                "<hook_context>",
                "</hook_context>",
                "<a_b>",
                "</a_b>",
                "<user_input>",
                "</user_input>",
                "<div>",
                "x",
                " ",
                "<",
            ]
        ),
        max_size=12,
    ).map("".join),
    typed=st.text(alphabet="abc ?", min_size=1).map(str.strip).filter(bool),
)
def test_what_follows_a_block_is_never_lost(text: str, typed: str) -> None:
    assert typed in typed_text(f"<hook_context>{text.replace('hook_context', 'inner')}</hook_context>\n{typed}")
    # Taken off once, there is nothing more to take off, unless a person wrapped something.
    assert isinstance(typed_text(text), str)


@pytest.mark.parametrize(
    "text",
    ["<a_b></a_b>", "<a_b>", "<hook_context>", "<user_input>x</user_input>", " ", "<a_b", PASSAGE, "# AGENTS.md\n"],
)
def test_a_text_is_read_in_time_in_proportion_to_its_length(text: str) -> None:
    # The square of it would be minutes.
    with at_most(10):
        typed_text(text * (400_000 // len(text)))
