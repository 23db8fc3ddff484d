"""The text that is embedded for a memory: its subject, its text, and the end of the previous text."""

from __future__ import annotations

import re
from typing import Final

from memoranda.retrieval.analysis import name_of
from memoranda.retrieval.languages import fold

# Characters of a text; models read no more.
TEXT_LIMIT: Final = 8_192
# Characters of the previous text; more would dilute the text itself.
TAIL_LIMIT: Final = 160
_SENTENCE_END: Final = re.compile(r"[.!?。！？]\s+")
_SPEAKER: Final = re.compile(r"[^\n:]{1,80}: ")


def embedded_text(text: str, subject: str) -> str:
    """Return a memory's text, with its subject in front if the text does not name it."""
    text = text[:TEXT_LIMIT]
    name = name_of(subject)
    return f"{subject.rpartition(':')[2]}: {text}" if name and name not in fold(text) else text


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
