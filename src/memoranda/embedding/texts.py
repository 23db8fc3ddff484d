"""The text that is embedded for a memory: its titles, its subject, its text, and the end of the previous text.

What is embedded decides what is found by meaning. Any change here makes old vectors differ from new ones; they must
then be made again (`memoranda models embed --again`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memoranda.model.passages import LONG_TEXT_CHARS, split_passages
from memoranda.retrieval.analysis import name_of
from memoranda.retrieval.languages import fold

# Characters of a text; models read no more.
TEXT_LIMIT: Final = 8_192
# Characters of the previous text; more would dilute the text itself.
TAIL_LIMIT: Final = 160
# Characters of all titles in front of a text.
_TITLES_CHARS: Final = 300
_SENTENCE_END: Final = re.compile(r"[.!?。！？]\s+")
_SPEAKER: Final = re.compile(r"[^\n:]{1,80}: ")


def embedded_text(text: str, subject: str, titles: Sequence[str] = ()) -> str:
    """Return a memory's text, with its subject and its titles in front if the text does not have them."""
    text = text[:TEXT_LIMIT]
    folded = fold(text)
    name = name_of(subject)
    if name and name not in folded:
        text = f"{subject.rpartition(':')[2]}: {text}"
    heading = _join_titles(titles, folded)
    return f"{heading}\n{text}" if heading else text


def embedded_passages(text: str, titles: Sequence[str] = ()) -> list[str]:
    """Return the passages of a long text as they are embedded, each below title and heading; none of a short text."""
    if len(text) < LONG_TEXT_CHARS:
        return []
    title = titles[0] if titles else ""
    passages = split_passages(text)
    return [
        "\n".join(filter(None, (title, passage.heading, text[passage.start : passage.end].strip())))
        for passage in passages
    ]


def _join_titles(titles: Sequence[str], folded: str) -> str:
    """Return the titles that a folded text does not contain, on one line."""
    missing = [title for title in titles if fold(title) not in folded]
    return ", ".join(missing)[:_TITLES_CHARS]


def prepend_context(before: str, text: str) -> str:
    """Return the text after the end of the previous one, cut at a sentence, with its speaker."""
    speaker = _SPEAKER.match(before)
    name, statement = "", before
    if speaker is not None:
        name, statement = speaker[0], before[speaker.end() :]
    if len(statement) > TAIL_LIMIT:
        statement = statement[-TAIL_LIMIT:]
        sentence_end = _SENTENCE_END.search(statement, 0, len(statement) - 1)
        statement = (
            statement[sentence_end.end() :]
            if sentence_end is not None
            else statement.partition(" ")[2] or statement
        )
    return f"{name}{statement}\n{text}"
