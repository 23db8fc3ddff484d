"""The looks of stored things on the pages: the source of a memory, its kind, and the areas of the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from memoranda.bindings.console.texts import Texts
from memoranda.bindings.console.visit import ROOT

# The icon of each kind of memory.
KIND_ICONS: Final[Mapping[str, str]] = {
    "semantic": "fact",
    "episodic": "talk",
    "procedural": "steps",
    "working": "clock",
    "identity": "person",
}
# The beginning of an agent's name, the name that people know, and the look of its icon.
_AGENTS: Final = (
    ("claude-code", "Claude Code", "claude"),
    ("claude-desktop", "Claude Desktop", "claude"),
    ("claude", "Claude", "claude"),
    ("cursor", "Cursor", "cursor"),
    ("codex", "Codex", "codex"),
    ("gemini", "Gemini CLI", "gemini"),
    ("chatgpt", "ChatGPT", "import"),
    ("vscode", "VS Code", "other"),
    ("windsurf", "Windsurf", "other"),
    ("opencode", "opencode", "other"),
)
# Characters of a name in a list.
_NAME_CHARS: Final = 40
# The pages of each area, by the name of their text; the first one is where the area begins.
AREAS: Final[Mapping[str, Mapping[str, str]]] = {
    "memories": {"memories": "/memories"},
    "review": {"review": "/review"},
    "explore": {"try": "/try", "graph": "/graph", "timeline": "/timeline", "ask": "/ask"},
    "settings": {
        "agents": "/agents",
        "keys": "/keys",
        "rules": "/rules",
        "moving": "/moving",
        "audit": "/audit",
        "overview": "/overview",
    },
}
# Pages that belong to an area without being listed in it, by the beginning of their path.
_WITHIN: Final = (("/memory/", "memories"), ("/changes", "settings"), ("/design", "settings"))


class Source(NamedTuple):
    """The agent or person that a memory comes from: a name, and the look of the icon."""

    name: str
    look: str


def source_of(record: Mapping[str, Any], owner: str, text: Texts) -> Source:
    """Return the source of a record."""
    provenance = record.get("provenance") or {}
    agent = record["scope"].get("agent")
    if agent:
        return agent_source(agent)
    actor = str(provenance.get("actor") or "").removeprefix("key:")
    if str(provenance.get("method") or "").startswith("import"):
        return Source(text("looks.imported"), "import")
    if str(provenance.get("method") or "") == "console":
        return Source(text("looks.you"), "you")
    if provenance.get("actor_kind") == "user" and actor in ("", owner):
        return Source(text("looks.you"), "you")
    if provenance.get("actor_kind") == "user":
        return Source(_shorten(actor), "person")
    return agent_source(actor)


def actor_source(actor: Mapping[str, Any], owner: str, text: Texts) -> Source:
    """Return the actor of an audit event as a source."""
    name = str(actor.get("did") or "").removeprefix("key:")
    if actor.get("kind") == "user":
        return (
            Source(text("looks.you"), "you") if name == owner else Source(_shorten(name), "person")
        )
    return agent_source(name)


def agent_source(name: str) -> Source:
    """Return the source for the name of an agent."""
    slug = name.lower().replace(" ", "-").replace("_", "-")
    for beginning, title, look in _AGENTS:
        if slug == beginning:
            return Source(title, look)
    for beginning, _, look in _AGENTS:
        if slug.startswith(beginning):
            return Source(_shorten(name), look)
    return Source(_shorten(name), "other")


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"


def area_of(path: str) -> tuple[str, str]:
    """Return the names of the area and of the page that a path belongs to; empty for others."""
    within = path.removeprefix(ROOT)
    for area, pages in AREAS.items():
        for name, page in pages.items():
            if within == page:
                return area, name
    return next((area for beginning, area in _WITHIN if within.startswith(beginning)), ""), ""
