"""When two sentences make the same statement: only if every word agrees.

A key is made of the words as they stand, in their order: "Plan A" is not "Plan B", "from X to Y" is not "from Y to X",
"C#" is not "C", "she" is not "he", and "runs" is not "ran". What may differ is what carries no meaning: case at the
beginning, the article "the", "please", marks, a short form and its long form, and a label ("Port: 8080") for "is".

A sentence that only its surroundings explain ("He agreed", "yesterday", "paid the rent") is the same only after the
same sentences and on the same day.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from typing import Final

# Marks around a word. Those that belong to it stay: "C#", "C++", ".NET", "-4", "5 %".
_EDGES: Final = "\"'“”‘’«»()[]{}.,;:!?*_`~…。、，！？；：–—"
_LEAD = re.compile(
    r"^(?:(?:note|reminder|remember|fyi|btw|please note)\s*:\s*|(?:please|fyi|btw|remember that|note that)[\s,]+)+",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^([^:.!?]{1,60}?)\s*:\s+(?=[^:]+$)")
_LABEL_WORDS_LIMIT: Final = 5
_MAY_BE_SHORT = re.compile(r"['’]|\bcannot\b", re.IGNORECASE)
_SHORT_FORMS: Final = (
    (re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon['’]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"n['’]t\b", re.IGNORECASE), " not"),
    (re.compile(r"['’]re\b", re.IGNORECASE), " are"),
    (re.compile(r"['’]ll\b", re.IGNORECASE), " will"),
    (re.compile(r"['’]ve\b", re.IGNORECASE), " have"),
)
# Words that point at something outside of the sentence.
_POINTING = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs|this|these|those|there|such|same|former"
    r"|latter|another|others?|then|today|tonight|tomorrow|yesterday|now|currently|next|last|ago|recently|just|already"
    r"|again|still|yet)\b|^that\b|\bthat(?=\W*$|\s(?:is|was|one|day|way|time)\b)",
    re.IGNORECASE,
)
# What happened happened on its day: "paid the rent" of two months are two payments.
_HAPPENED = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bam )(?<!\bnot )(?<!\bnever )(?<!\bget )(?<!\bgets )"
    r"\b(?:was|were|did|had|paid|ran|went|met|sent|got|bought|took|made|said|saw|came|left|found|broke|fell|won|lost|wrote"
    r"|told|gave|became|began|brought|built|caught|chose|drank|drove|ate|felt|flew|forgot|grew|heard|held|knew|sold|sang"
    r"|sat|slept|spoke|spent|stood|swam|taught|thought|threw|woke|wore|[a-z]{2,}[^e\W\d]ed)\b",
    re.IGNORECASE,
)


def statement_key(text: str, before: Sequence[str] = (), day: object = None) -> Hashable:
    """Equal in two sentences that say the same. `before` is what stands before it in its note."""
    words = _words(text)
    if _POINTING.search(text) or is_of_its_day(text):
        return (words, *map(_words, before), day)
    return words


def is_of_its_day(text: str) -> bool:
    """Whether a sentence tells what happened."""
    return _HAPPENED.search(text) is not None


def _words(text: str) -> tuple[str, ...]:
    plain = unicodedata.normalize("NFC", text).strip()
    plain = _LEAD.sub("", plain)
    label = _LABEL.match(plain)
    if label is not None and len(label[1].split()) <= _LABEL_WORDS_LIMIT:
        plain = f"{label[1]} is {plain[label.end() :]}"
    if _MAY_BE_SHORT.search(plain):
        for short, long in _SHORT_FORMS:
            plain = short.sub(long, plain)
    found: list[str] = []
    for place, raw in enumerate(plain.split()):
        word = _bare(raw)
        if word and word.lower() != "the":
            found.append(_shape(word, is_first=place == 0))
    # A question says something else than its answer.
    if plain.rstrip("\"'”’)").endswith(("?", "？")):
        found.append("?")
    return tuple(found) or (plain,)


def _bare(raw: str) -> str:
    word = raw.strip(_EDGES).replace("−", "-").replace("’", "'")
    if word and raw.startswith(".") and word[0].isalpha() and not raw.startswith(".."):
        return "." + word
    return word


def _shape(word: str, *, is_first: bool) -> str:
    """The word in lower case, and whether it is a name: "Polish" is not "polish", and "US" is not "us"."""
    is_name = (len(word) > 1 and word.isupper()) if is_first else any(map(str.isupper, word))
    return ("^" if is_name else "") + word.lower()
