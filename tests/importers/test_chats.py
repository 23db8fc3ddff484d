"""Data exports of ChatGPT and Claude, written by the documented schemas: no real one may be committed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memoranda import Memoranda
from memoranda.bindings.files.importers.registry import recognise_importer
from tests.importers.conftest import Import

CHATGPT: dict[str, Any] = {
    "conversations.json": [
        {
            "title": "Moving house",
            "create_time": 1760000000.5,
            "update_time": 1760000100.0,
            "conversation_id": "conv-1",
            "current_node": "n3",
            "mapping": {
                "root": {"id": "root", "message": None, "parent": None, "children": ["n0"]},
                "n0": {
                    "id": "n0",
                    "message": {"id": "m0", "author": {"role": "system"}, "content": {"parts": ["be kind"]}},
                },
                "n1": {
                    "id": "n1",
                    "message": {
                        "id": "m1",
                        "author": {"role": "user"},
                        "create_time": 1760000001.25,
                        "content": {"content_type": "text", "parts": ["I moved to Lisbon in May"]},
                    },
                },
                "n2": {
                    "id": "n2",
                    "message": {
                        "id": "m2",
                        "author": {"role": "assistant"},
                        "create_time": 1760000002.0,
                        "content": {"content_type": "multimodal_text", "parts": [{"asset": "x"}, "How is Lisbon?"]},
                    },
                },
                "n3": {"id": "n3", "message": {"id": "m3", "author": {"role": "user"}, "content": {"parts": [""]}}},
            },
        },
        {"title": "broken"},
    ],
    "user.json": {"id": "u"},
}
CLAUDE: dict[str, Any] = {
    "conversations.json": [
        {
            "uuid": "c-1",
            "name": "Tea",
            "account": {"uuid": "a-1"},
            "created_at": "2026-03-01T10:00:00.000000Z",
            "chat_messages": [
                {
                    "uuid": "x-1",
                    "sender": "human",
                    "text": "Which tea for the evening?",
                    "created_at": "2026-03-01T10:00:01Z",
                },
                {
                    "uuid": "x-2",
                    "sender": "assistant",
                    "text": "",
                    "content": [{"type": "text", "text": "Rooibos, it has no caffeine."}],
                    "created_at": "2026-03-01T10:00:05Z",
                },
            ],
        }
    ],
    "users.json": [{"uuid": "a-1", "full_name": "Ada"}],
    "projects.json": [
        {
            "uuid": "p-1",
            "name": "Garden",
            "prompt_template": "Answer in metric units",
            "created_at": "2026-02-01T00:00:00Z",
            "docs": [
                {
                    "uuid": "d-1",
                    "filename": "beds.md",
                    "content": "Three raised beds",
                    "created_at": "2026-02-02T00:00:00Z",
                }
            ],
        }
    ],
    "memories.json": [
        {
            "account_uuid": "a-1",
            "conversations_memory": "Ada drinks rooibos",
            "project_memories": {"p-1": "Beds are 2 m"},
        }
    ],
}


def archive(path: Path, files: Mapping[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, document in files.items():
            made.writestr(name, json.dumps(document))
    return path


def folder(path: Path, files: Mapping[str, Any]) -> Path:
    path.mkdir()
    for name, document in files.items():
        (path / name).write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["archive", "folder", "file"])
def test_a_conversation_of_chatgpt_is_a_session_of_turns(
    store: Memoranda, take: Import, tmp_path: Path, form: str
) -> None:
    path = archive(tmp_path / "export.zip", CHATGPT) if form == "archive" else folder(tmp_path / "export", CHATGPT)
    path = path / "conversations.json" if form == "file" else path
    importer = recognise_importer(path)
    assert importer is not None
    assert importer.name == "chatgpt"
    report = take(path)
    # The second conversation has nothing in it, which is said.
    assert (report.created, report.refused) == (2, 1)
    hits = store.recall("Where did I move in May?", session="conv-1")
    assert hits[0].text == "User: I moved to Lisbon in May"
    assert hits[0].record["kind"] == "episodic"
    assert hits[0].record["time"]["created"] == "2025-10-09T08:53:21.250Z"
    assert "ChatGPT: How is Lisbon?" in [each.text for each in store.list()]
    assert take(path).unchanged == 2


@pytest.mark.parametrize("form", [archive, folder])
def test_conversations_projects_and_memories_of_claude(
    store: Memoranda, take: Import, tmp_path: Path, form: Any
) -> None:
    path = form(tmp_path / "export", CLAUDE)
    importer = recognise_importer(path)
    assert importer is not None
    assert importer.name == "claude"
    report = take(path)
    assert (report.created, report.refused) == (6, 0)
    texts = {each.text: each for each in store.list()}
    assert set(texts) == {
        "Ada: Which tea for the evening?",
        "Claude: Rooibos, it has no caffeine.",
        "Answer in metric units",
        "Three raised beds",
        "Ada drinks rooibos",
        "Beds are 2 m",
    }
    assert texts["Answer in metric units"].record["kind"] == "procedural"
    assert texts["Ada: Which tea for the evening?"].record["scope"]["session"] == "c-1"
    assert take(path).unchanged == 6
