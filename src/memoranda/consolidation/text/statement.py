"""Keys by which two sentences are recognised as the same statement.

A key contains all words in their order: "Plan A" differs from "Plan B", "from X to Y" from "from Y to X", "C#" from
"C", "she" from "he", and "runs" from "ran". Differences without meaning are removed: case at the beginning, the
article "the", "please", punctuation, contractions, and a label ("Port: 8080") for "is".

The meaning of some sentences depends on their context ("He agreed", "yesterday", "paid the rent"). Their keys also
contain the sentences before them and the day.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence
from typing import Final

# Punctuation around a word. Characters that belong to a word stay: "C#", "C++", ".NET", "-4", "5 %".
_EDGES: Final = "\"'“”‘’«»()[]{}.,;:!?*_`~…。、，！？；：–—"
_LEAD = re.compile(
    r"^(?:(?:note|reminder|remember|fyi|btw|please note)\s*:\s*|(?:please|fyi|btw|remember that|note that)[\s,]+)+",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^([^:.!?]{1,60}?)\s*:\s+(?=[^:]+$)")
# Words of a label; a longer text before a colon is a clause.
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
# Words that refer to something outside the sentence.
_POINTING = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs|this|these|those|there|such|same|former"
    r"|latter|another|others?|then|today|tonight|tomorrow|yesterday|now|currently|next|last|ago|recently|just|already"
    r"|again|still|yet)\b|^that\b|\bthat(?=\W*$|\s(?:is|was|one|day|way|time)\b)",
    re.IGNORECASE,
)
# Verbs in the past tense. A past event belongs to its day: "paid the rent" in two months means two payments.
_HAPPENED = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bam )(?<!\bnot )(?<!\bnever )(?<!\bget )(?<!\bgets )"
    r"\b(?:was|were|did|had|paid|ran|went|met|sent|got|bought|took|made|said|saw|came|left|found|broke|fell|won|lost|wrote"
    r"|told|gave|became|began|brought|built|caught|chose|drank|drove|ate|felt|flew|forgot|grew|heard|held|knew|sold|sang"
    r"|sat|slept|spoke|spent|stood|swam|taught|thought|threw|woke|wore|[a-z]{2,}[^e\W\d]ed)\b",
    re.IGNORECASE,
)


def statement_key(text: str, before: Sequence[str] = (), day: object = None) -> Hashable:
    """Return a key that is equal in two sentences with the same statement.

    `before` are the sentences before it in its note, `day` the day of writing.
    """
    words = _normalize_words(text)
    if _POINTING.search(text) or is_past_event(text):
        return (words, *map(_normalize_words, before), day)
    return words


def is_past_event(text: str) -> bool:
    """Return True if a sentence reports a past event."""
    return _HAPPENED.search(text) is not None


def _normalize_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, without the differences that carry no meaning."""
    plain = unicodedata.normalize("NFC", text).strip()
    plain = _LEAD.sub("", plain)
    label = _LABEL.match(plain)
    if label is not None and len(label[1].split()) <= _LABEL_WORDS_LIMIT:
        plain = f"{label[1]} is {plain[label.end() :]}"
    if _MAY_BE_SHORT.search(plain):
        for short, long in _SHORT_FORMS:
            plain = short.sub(long, plain)
    words: list[str] = []
    for index, raw in enumerate(plain.split()):
        word = _strip_marks(raw)
        if word and word.lower() != "the":
            words.append(_fold_case(word, is_first=index == 0))
    # A question differs from its answer.
    if plain.rstrip("\"'”’)").endswith(("?", "？")):
        words.append("?")
    return tuple(words) or (plain,)


def _strip_marks(raw: str) -> str:
    """Return a word without the punctuation around it."""
    word = raw.strip(_EDGES).replace("−", "-").replace("’", "'")
    if word and raw.startswith(".") and word[0].isalpha() and not raw.startswith(".."):
        return "." + word
    return word


def _fold_case(word: str, *, is_first: bool) -> str:
    """Return the word in lower case, with a "^" before a name: "Polish" differs from "polish", "US" from "us"."""
    is_name = (len(word) > 1 and word.isupper()) if is_first else any(map(str.isupper, word))
    return ("^" if is_name else "") + word.lower()
