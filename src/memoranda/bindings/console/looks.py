"""The looks of memories on the pages: their source, kind and area, and why a search found them.

`explain_result` says the reason in one sentence, and `mark_words` marks the words of the query in the text.

Nothing here decides what is shown, only how: colours and icons are names that the style sheet knows. Names of agents
come from programs and can be anything, so unknown ones get a general icon and a shortened text. `explain_result` only
puts into words the signals that the ranking returned; it must not name a reason that had no part in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from typing import Any, Final, NamedTuple

from markupsafe import Markup, escape

from memoranda.bindings.console.texts import Texts
from memoranda.bindings.console.visit import ROOT
from memoranda.retrieval.analysis import keywords
from memoranda.service.core.ranking import RankedRecord

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
    """Return the title and the look of an agent, found by its name."""
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


_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*")
# Words that the sentence names.
_NAMED: Final = 4
# Parts of a score from which a sentence mentions them; below, they decide nothing.
_CLOSE: Final = 0.35
_FRESH: Final = 0.9
# Texts of more characters are marked in their beginning only.
_MARKED_CHARS: Final = 4_000


def matched_words(text: str, terms: Set[str]) -> list[str]:
    """Return the words of a text that are among the search terms of a question, each once, as the text writes them."""
    words: dict[str, str] = {}
    for word in _WORD.findall(text[:_MARKED_CHARS]):
        if word.lower() not in words and not terms.isdisjoint(_terms_of_word(word)):
            words[word.lower()] = word
    return list(words.values())


# The results of one search share most of their words, and analysing one takes longer than the rest of a card.
@lru_cache(maxsize=8192)
def _terms_of_word(word: str) -> frozenset[str]:
    """Return the search terms of one word of a text."""
    return frozenset(keywords(word))


def mark_words(text: str, words: Iterable[str]) -> Markup:
    """Return a text as HTML with these words marked."""
    terms = {word.lower() for word in words}
    if not terms:
        return escape(text)
    parts: list[Markup] = []
    end = 0
    for match in _WORD.finditer(text[:_MARKED_CHARS]):
        if match[0].lower() in terms:
            parts += [escape(text[end : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
            end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def explain_result(
    result: RankedRecord, words: list[str], scope: Mapping[str, str], text: Texts
) -> Markup:
    """Return one sentence that says why a search found a memory."""
    parts = {name: reason.part for name, reason in (result.reasons or {}).items()}
    similarity = float(result.signals.get("similarity", 0.0))
    clauses: list[Markup] = []
    if words:
        clauses.append(_name_words(words, text))
    is_dated = parts.get("date", 0.0) > 0
    meaning = parts.get("meaning", 0.0 if words else similarity)
    # Something must have found it: without a word and a date, only its meaning is left.
    if meaning >= _CLOSE or not (words or is_dated):
        clauses.append(escape(text("why.meaning")))
    if parts.get("person", 0.0) > 0 or parts.get("first_named", 0.0) > 0:
        clauses.append(escape(text("why.person")))
    if is_dated:
        clauses.append(escape(text("why.date")))
    if scope.get("project") and scope["project"] == result.record["scope"].get("project"):
        clauses.append(escape(text("why.project")))
    if not parts and float(result.signals.get("recency", 0.0)) >= _FRESH and not words:
        clauses.append(escape(text("why.fresh")))
    sentence = Markup(", ").join(clauses)
    # The first letter becomes a capital, unless the sentence begins with markup.
    return Markup(escape(sentence[:1]).upper()) + Markup(sentence[1:]) + Markup(".")  # noqa: S704


def _name_words(words: list[str], text: Texts) -> Markup:
    """Return the clause that names the shared words."""
    parts = [Markup("<em>{}</em>").format(word) for word in words[:_NAMED]]
    if len(parts) == 1:
        clause = parts[0]
    else:
        clause = Markup(", ").join(parts[:-1]) + Markup(f" {escape(text('why.and'))} ") + parts[-1]  # noqa: S704
    before, _, after = text("why.shares").partition("{words}")
    return Markup("").join((escape(before), clause, escape(after)))
