"""Why a search found a memory: one sentence, and the words of the text to mark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from markupsafe import Markup, escape

from memoranda.bindings.console.texts import Texts
from memoranda.retrieval.analysis import keywords, query_terms
from memoranda.service.core.ranking import RankedRecord

_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*")
# Words that the sentence names.
_NAMED: Final = 4
# Parts of a score from which a sentence mentions them; below, they decide nothing.
_CLOSE: Final = 0.35
_FRESH: Final = 0.9
# Texts of more characters are marked in their beginning only.
_MARKED_CHARS: Final = 4_000


def matched_words(text: str, question: str) -> list[str]:
    """Return the words of a text that a question asks for, each once, as the text writes them."""
    terms = query_terms(question)
    words: dict[str, str] = {}
    for match in _WORD.finditer(text[:_MARKED_CHARS]):
        word = match[0]
        if word.lower() not in words and not terms.isdisjoint(keywords(word)):
            words[word.lower()] = word
    return list(words.values())


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
    meaning = parts.get("meaning", 0.0 if words else similarity)
    if meaning >= _CLOSE or not words:
        clauses.append(escape(text("why.meaning")))
    if parts.get("person", 0.0) > 0 or parts.get("first_named", 0.0) > 0:
        clauses.append(escape(text("why.person")))
    if parts.get("date", 0.0) > 0:
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
