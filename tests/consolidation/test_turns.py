"""Turns of conversations among the notes: what somebody said is no statement that another turn could contradict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memoranda import Memoranda
from memoranda.consolidation.text.claims import find_conflicts
from memoranda.consolidation.text.corpus import Corpus
from memoranda.consolidation.text.note import MemoryNote, is_turn

TURNS = [
    ("user", "Hello!"),
    ("assistant", "Hello! How can I help you today?"),
    ("user", "My port is 8420, and I moved to Lisbon in May."),
    ("assistant", "The port is 8080 by default. Next month: the offsite."),
    ("user", "Thanks!"),
    ("assistant", "You're welcome! Is there anything else?"),
]


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    mapping = {
        str(number): {
            "message": {
                "id": f"m{number}",
                "author": {"role": role},
                "create_time": 1760000001.0 + number,
                "content": {"content_type": "text", "parts": [text]},
            }
        }
        for number, (role, text) in enumerate(TURNS)
    }
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"title": "t", "create_time": 1760000000, "conversation_id": "c", "mapping": mapping}]))
    return path


@pytest.mark.parametrize(
    "strategy",
    ["synthesize", "pattern_extract", "insight_generate", "associate", "validate", "evolve", "forecast"],
)
def test_six_turns_of_chatgpt_have_no_findings(tmp_path: Path, conversation: Path, strategy: str) -> None:
    with Memoranda.open(tmp_path / "home") as store:
        assert store.import_files(conversation).created == len(TURNS)
        (namespace,) = store.oams.namespaces
        run = store.oams.verbs.consolidate(store.oams.namespace(str(namespace)), strategy, is_dry=True)
        assert run.outputs == ()
        # A statement that somebody stored about the same conversation is compared with others all the same.
        for text in ("The port is 8080.", "The port is 8420."):
            store.remember(text, project="chatgpt")
        if strategy == "validate":
            run = store.oams.verbs.consolidate(store.oams.namespace(str(namespace)), strategy, is_dry=True)
            assert len(run.outputs) == 1


def test_only_an_event_of_a_session_with_its_speaker_is_a_turn() -> None:
    assert is_turn("episodic", "s1", "User: Hello")
    assert not is_turn("episodic", "", "User: Hello")
    assert not is_turn("semantic", "s1", "Port: 8420")
    assert not is_turn("episodic", "s1", "Deployed version 2")


@pytest.mark.parametrize(
    ("earlier", "later", "is_conflict"),
    [
        ("Caroline: Hey Mel!", "Caroline: Good to see you!", False),
        ("User: Thanks", "User: Hello", False),
        ("Caroline: I like tea", "Caroline: We went home", False),
        ("Port: 8420", "Port: 8080", True),
    ],
)
def test_a_speaker_before_a_colon_is_no_attribute(earlier: str, later: str, is_conflict: bool) -> None:
    notes = [MemoryNote(name="a", text=earlier, at=1), MemoryNote(name="b", text=later, at=2)]
    assert bool(find_conflicts(Corpus(notes))) == is_conflict
