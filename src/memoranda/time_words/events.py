"""Times that a question names by an event: "before the move", "since I joined the climbing club".

The day of the event is known only if a memory tells of it, so the phrase is returned, and the search looks for it.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from memoranda.retrieval.languages import fold

_BEFORE: Final = (
    r"before|prior to|until|bevor|avant (?:que|la|le|les|mon|ma|notre)|avant l['’]"
    r"|antes de(?:l| la| mi| que)?"
)
_AFTER: Final = (
    r"(?<!look )(?<!looks )(?<!looked )(?<!looking )(?<!named )after|(?:ever )?since|following|nachdem|seitdem"
    r"|apres (?:que|la|le|les|mon|ma|notre)|apres l['’]|depuis(?: que)?|despues de(?:l| la| mi| que)?|desde(?: que)?"
)
# The phrase ends with a comma, a mark, or the word that begins the question proper.
_EVENT: Final = re.compile(
    rf"(?<!\w)(?:(?P<before>{_BEFORE})|(?:{_AFTER}))(?!\w)\s*"
    r"(?P<phrase>[^,.;:!?]{3,80}?)\s*"
    r"(?=[,.;:!?]|$|\b(?:what|which|who|whom|where|how|did|was|wer|wen|wo|wie)\b)"
)
# In German the verb follows the event, so the event is one noun.
_GERMAN_EVENT: Final = re.compile(
    r"(?<!\w)(?:(?P<before>vor)|nach|seit) (?:de[mr]|meine[mr]|unsere[mr]) (?P<phrase>\w{3,40})"
)


class EventReference(NamedTuple):
    """A time before or after an event."""

    relation: Literal["before", "after"]
    # The words that name the event.
    phrase: str
    # The question without the reference.
    remaining_text: str


def find_event(question: str) -> EventReference | None:
    """Return the first time of a question that is named by an event; None if there is none."""
    text = fold(question)
    if len(text) != len(question):
        return None
    match = _GERMAN_EVENT.search(text) or _EVENT.search(text)
    if match is None:
        return None
    remaining = f"{question[: match.start()]} {question[match.end() :]}"
    return EventReference(
        "before" if match["before"] else "after",
        question[match.start("phrase") : match.end("phrase")],
        " ".join(remaining.replace(" ,", " ").split()),
    )
