"""What ranking reads from texts besides their words: who speaks, whom a subject names, and whom a question may."""

from __future__ import annotations

import re
from typing import Final

from memoranda.retrieval.languages import fold

# "Ada: …", "Ada Lovelace: …": up to three words that begin with a capital, as chats are written down.
_SPEAKER: Final = re.compile(
    r"(?P<first>[^\W\d_a-z][\w'’.-]{0,40})(?: [^\W\d_a-z][\w'’.-]{0,40}){0,2}: "
)
_NAME: Final = re.compile(r"[^\W\d_]{2,40}")
# A subject is a person when it says so, or is written as a name: "zeppelin" is none.
_PERSONS: Final = ("person", "people", "user", "contact")
# A question may be a pasted page.
_NAMES_LIMIT: Final = 64


def speaker_of(text: str) -> str:
    """The first name of who speaks, folded; empty where a text does not say."""
    found = _SPEAKER.match(text)
    return "" if found is None else fold(found["first"])


def name_of(subject: str) -> str:
    """The first name in a subject such as "person:ada-7" or "Ada Lovelace", folded; empty where there is none."""
    kind, _, name = subject.rpartition(":")
    is_person = kind.rpartition(":")[2].lower() in _PERSONS or name[:1].isupper()
    found = _NAME.search(name) if is_person else None
    return "" if found is None else fold(found[0])


def names_in(text: str) -> tuple[str, ...]:
    """Every word of a question that may be a name, folded."""
    return tuple(dict.fromkeys(fold(found[0]) for found in _NAME.finditer(text)))[:_NAMES_LIMIT]
