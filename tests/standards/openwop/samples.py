"""Documents that several tests of openwop start from."""

from __future__ import annotations

from typing import Any, Final

ARTIFACTS: dict[str, dict[str, Any]] = {
    "agent-pack": {
        "name": "private.memoranda.learned",
        "version": "1.0.0",
        "nodes": [],
        "agents": [
            {
                "agentId": "private.memoranda.learned.reporter",
                "persona": "Reporter",
                "modelClass": "writing",
                "systemPrompt": "Write the weekly report.",
                "toolAllowlist": ["mcp:search"],
                "memoryShape": {"longTerm": True},
            }
        ],
    },
    "workflow-chain-pack": {
        "name": "private.memoranda.chains",
        "version": "0.1.0-draft+1",
        "kind": "workflow-chain",
        "engines": {"openwop": ">=1.1"},
        "chains": [
            {
                "chainId": "private.memoranda.searchThenWrite",
                "version": "1.0.0",
                "label": "Search, then write",
                "description": "",
                "parameters": {"type": "object"},
                "dag": {
                    "nodes": [
                        {"id": "search", "typeId": "core.tool.search", "config": {"limit": 3}},
                        {"id": "write", "typeId": "core.llm.chat"},
                    ],
                    "edges": [{"from": "search.result", "to": "write"}],
                },
            }
        ],
    },
    "prompt-template": {
        "templateId": "weekly-report",
        "version": "1.0.0",
        "kind": "user",
        "text": "Report on {{week}}.",
        "variables": [{"name": "week", "type": "string", "required": True}],
    },
    "automation": {
        "workflowId": "core.report",
        "schedule": {"cron": "0 9 * * 1", "timezone": "Europe/Berlin"},
        "inputs": {"to": "team"},
    },
}

# The types of events that version 2 of openwop renames, and some that it does not.
EVENT_TYPES_OF_BOTH: Final = (
    ("agent.memory.consolidated", "agent.memory-consolidated"),
    ("agent.toolCalled", "agent.tool-called"),
    ("agent.invocation.started", "agent.invocation-started"),
    ("run.dead_lettered", "run.dead-lettered"),
    ("run.resuming", "run.resume-started"),
    ("replay.divergedAtRefusal", "replay.diverged-at-refusal"),
    ("memory.written", "memory.written"),
    ("run.restored-from-snapshot", "run.restored-from-snapshot"),
    ("workspace.updated", "workspace.updated"),
)
