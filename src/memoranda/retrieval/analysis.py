"""What ranking reads from texts besides their words: who speaks, whom a subject names, and the dates in a question."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memoranda.retrieval.languages import fold

if TYPE_CHECKING:
    from memoranda.retrieval.ranking import NamedDate

# "Ada: …", "Ada Lovelace: …": up to three words that begin with a capital, as chats are written down.
_SPEAKER: Final = re.compile(r"(?P<first>[^\W\d_a-z][\w'’.-]{0,40})(?: [^\W\d_a-z][\w'’.-]{0,40}){0,2}: ")
_NAME: Final = re.compile(r"[^\W\d_]{2,40}")
# A subject is a person when it says so, or is written as a name: "zeppelin" is none.
_PERSONS: Final = ("person", "people", "user", "contact")
# A question may be a pasted page.
_NAMES_LIMIT: Final = 64

_MONTHS: Final = (
    "january february march april may june july august september october november december".split(),
    "jan feb mar apr may jun jul aug sep oct nov dec".split(),
)
_MONTH_NUMBERS: Final = {name: number for names in _MONTHS for number, name in enumerate(names, 1)} | {"sept": 9}
_MONTH: Final = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_ISO: Final = re.compile(r"(?<!\d)(\d{4})-(\d\d)(?:-(\d\d))?(?!\d)")
_DAY_FIRST: Final = re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b\.?,?(?: (\d{{4}})(?!\d))?")
_MONTH_FIRST: Final = re.compile(rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?(?!\d),?(?: (\d{{4}})(?!\d))?")
_MONTH_ALONE: Final = re.compile(rf"\b({_MONTH})\b\.?,?(?: (?:of )?(\d{{4}})(?!\d))?")
# "may" is mostly a verb, and so is "march": a month only behind one of these, or before a year.
_VERBS: Final = ("may", "march", "mar")
_BEFORE_MONTH: Final = re.compile(r"\b(?:in|of|last|this|next|by|before|after|during|since|until|early|late|mid)[ -]$")


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


def dates_in(text: str) -> tuple[NamedDate, ...]:
    """The days that a question names, or the months if it names no day."""
    from memoranda.retrieval.ranking import NamedDate

    folded = fold(text)
    found = [(int(y), int(m), int(d or 0)) for y, m, d in _ISO.findall(folded)]
    found += [(int(y or 0), _MONTH_NUMBERS[m], int(d)) for d, m, y in _DAY_FIRST.findall(folded)]
    found += [(int(y or 0), _MONTH_NUMBERS[m], int(d)) for m, d, y in _MONTH_FIRST.findall(folded)]
    if not found:
        for match in _MONTH_ALONE.finditer(folded):
            is_verb = match[1] in _VERBS and not match[2] and not _BEFORE_MONTH.search(folded, 0, match.start())
            if not is_verb:
                found.append((int(match[2] or 0), _MONTH_NUMBERS[match[1]], 0))
    return tuple(NamedDate(year=y, month=m, day=d) for y, m, d in dict.fromkeys(found) if 1 <= m <= 12 and d <= 31)
