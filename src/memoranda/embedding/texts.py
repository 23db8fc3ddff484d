"""What of a memory is embedded: who speaks or is spoken of, what is said, and the end of what was said before."""

from __future__ import annotations

import re
from typing import Final

from memoranda.retrieval.analysis import name_of
from memoranda.retrieval.languages import fold

# A model reads no more than this of a text.
TEXT_LIMIT: Final = 8_192
# As much of what was said before; more dilutes what it is there for.
TAIL_LIMIT: Final = 160
_SENTENCE_END: Final = re.compile(r"[.!?。！？]\s+")
_SPEAKER: Final = re.compile(r"[^\n:]{1,80}: ")


def text_of(text: str, subject: str) -> str:
    """A memory's text, with whom it is about where it does not say so itself."""
    text = text[:TEXT_LIMIT]
    name = name_of(subject)
    return f"{subject.rpartition(':')[2]}: {text}" if name and name not in fold(text) else text


def with_context(before: str, text: str) -> str:
    """A text behind the end of the one before it: from a sentence's beginning on, and with its speaker."""
    speaker = _SPEAKER.match(before)
    name, said = ("", before) if speaker is None else (speaker[0], before[speaker.end() :])
    if len(said) > TAIL_LIMIT:
        said = said[-TAIL_LIMIT:]
        begin = _SENTENCE_END.search(said, 0, len(said) - 1)
        said = said[begin.end() :] if begin is not None else said.partition(" ")[2] or said
    return f"{name}{said}\n{text}"
