"""Text to search words: folded, split, freed of little words, stemmed. Pure, and the same for every database.

A memory is analysed in its own language (`languages`), a question in all languages that the memories it is asked of
are in: each of its words has one or more spellings, and a memory answers to any of them. Scripts written without
spaces (Chinese, Japanese, Korean, Thai …) are cut into overlapping pairs, which finds words without a dictionary.
Names of code and paths (`parseInstant`, `parse_instant`, `src/app.py`) are found by their parts and as a whole.

What a question asks for letter by letter (`"database is locked"`, `pnp*`) is read in `exact`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

from memoranda.retrieval.languages import (
    ENGLISH,
    STEMMED_LANGUAGES,
    STOP_WORDS,
    detect_language,
    fold,
    language_code,
    stem,
    stop_words,
)

# Changed with whatever changes what a segment says of a text: what was indexed under another is indexed anew.
ANALYSIS: Final = 6

# A longer word is noise (base64, hashes); a text of more words is a file, not a memory.
WORD_CHARS_LIMIT: Final = 64
WORDS_LIMIT: Final = 20_000
# A question has few words; a pasted page is cut.
QUESTION_WORDS_LIMIT: Final = 64
# By so many letters it is known how a word begins.
PREFIX_CHARS: Final = 3

WORD: Final = re.compile(r"[^\W_]+")
# The same in ASCII and in small letters, where it is sooner found.
_PLAIN_WORD: Final = re.compile(r"[a-z0-9]+")
_UNSPACED: Final = (
    r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Written as one though it has parts: `parse_instant`, `no-floating-promises`, `src/app.py`, `parseInstant`.
# It begins where a word does: tried at every letter of a long one, it would take the square of its length.
_JOINED: Final = re.compile(
    r"(?<![^\W_])(?:[^\W_]++(?:[-_./]++[^\W_]++)+|[^\W_]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2})[^\W_]*)"
)
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# Where there is one of those.
_HUMPED: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
# What English leaves of a little word behind an apostrophe: she's, don't, they've.
_CONTRACTED: Final = re.compile(r"(?<=\w)['’](?:s|t|d|m|re|ve|ll)\b", re.IGNORECASE)


# What stands around words and is no part of them; "C#" and "-5" are other words than "C" and "5".
_MARKS: Final = ".,;:!?\"'()…“”‘’"
_MARKED: Final = re.compile(f"[{_MARKS}]")
# `pnp*` in a question.
PREFIX_QUERY: Final = re.compile(rf"(?<!\S)([^\W_]{{{PREFIX_CHARS},{WORD_CHARS_LIMIT}}})\*(?!\S)")


class QueryWord(NamedTuple):
    """A word of a question: what it may be spelt like in the index."""

    terms: tuple[str, ...]
    # Whether it is to be left out where nothing has it, because its parts or how it begins are asked for as well.
    is_optional: bool = False


class AnalysedText(NamedTuple):
    """A text as it is indexed: its search words in order, repeats kept, and the language they were read in."""

    words: list[str]
    language: str
    # How its words begin, as they are written.
    prefixes: frozenset[str] = frozenset()


def keywords(text: str) -> list[str]:
    """The search words of a text, in order, repeats kept."""
    return analyse(text).words


def analyse(text: str, language: str = "") -> AnalysedText:
    """A memory's text; `language` is what the memory says of itself."""
    said, wholes, spoken = tokenize(text, language)
    found: list[str] = []
    beginnings: set[str] = set()
    for token in said:
        terms, start = terms_of_token(token, spoken)
        found.extend(terms)
        beginnings.add(start)
        if len(found) >= WORDS_LIMIT:
            break
    return AnalysedText([*found, *wholes][:WORDS_LIMIT], spoken, frozenset(beginnings))


def tokenize(text: str, language: str = "") -> tuple[list[str], list[str], str]:
    """The words of a memory's text as they stand there, in small letters and without the little ones; its names as a
    whole; and its language.
    """
    tokens, wholes = _split(text)
    folded = tokens if text.isascii() else [fold(token) for token in tokens]
    spoken = (language_code(language) if language else "") or detect_language(folded, text)
    left_out = stop_words(spoken)
    return (
        [token for token, plain in zip(tokens, folded, strict=True) if plain not in left_out],
        wholes,
        spoken,
    )


def terms_of_token(token: str, language: str) -> tuple[list[str], str]:
    """The search words of a word, mostly one, and that of how it begins."""
    plain = fold(token)
    return _terms(token, plain, language), prefix_term(plain)


def normalised_text(text: str) -> str:
    """What a text says, by which two are known to say the same: but for case, spaces and the marks around words."""
    parts = text.casefold().split()
    if _MARKED.search(text) is not None:
        parts = [word for each in parts if (word := each.strip(_MARKS))]
    return " ".join(parts)


@cache
def unspaced_pattern() -> re.Pattern[str]:
    """Letters of what is written without spaces. So many of them take a while, and most texts have none."""
    return re.compile(_UNSPACED)


def prefix_term(word: str) -> str:
    """The search word of all words that begin so; no word has a star."""
    return f"{word[:PREFIX_CHARS]}*"


def query_words(text: str, languages: Iterable[str] = STEMMED_LANGUAGES) -> list[QueryWord]:
    """The words of a question, as memories in some languages may spell them."""
    tokens, wholes = _split(text)
    folded = [fold(token) for token in tokens]
    left_out = stop_words(detect_language(folded, text, minimum=1))
    spoken, starred = (
        dict.fromkeys((ENGLISH, *languages)),
        {fold(each) for each in PREFIX_QUERY.findall(text)},
    )
    found: dict[QueryWord, None] = {}
    for token, plain in zip(tokens, folded, strict=True):
        if plain not in left_out:
            # As it is spelt, and as whoever has no accents on their keyboard would.
            spelt = [
                _terms(each, plain, code)
                for code in spoken
                for each in dict.fromkeys((token, plain))
            ]
            # What is cut into pairs is spelt one way.
            some = (tuple(dict.fromkeys(terms)) for terms in zip(*spelt, strict=False))
            found.update({QueryWord(terms, plain in starred): None for terms in some})
    found.update({QueryWord((whole,), is_optional=True): None for whole in wholes})
    return list(found)[:QUESTION_WORDS_LIMIT]


def english_keywords(text: str) -> list[str]:
    """The words of a text by the rules of English alone, by which consolidation compares statements."""
    found = (token for token in WORD.findall(fold(text)) if token not in STOP_WORDS[ENGLISH])
    return [term for token in found for term in _terms(token, token, ENGLISH)][:WORDS_LIMIT]


def query_terms(text: str) -> frozenset[str]:
    """Every spelling of every word of a question, in any language."""
    return frozenset(term for word in query_words(text) for term in word.terms)


def _split(text: str) -> tuple[list[str], list[str]]:
    """The words of a text in small letters, parts of names apart; and those names whole."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub(" ", text)
    # What plainly is one word is much sooner told than looked into.
    parts = [part for part in text.split() if not (part.isalnum() and part[1:].islower())]
    joined = [name for part in parts for name in _JOINED.findall(part)]
    found = _PLAIN_WORD if text.isascii() else WORD
    if not joined:
        return found.findall(text.lower()), []
    wholes = ["".join(WORD.findall(fold(name))) for name in joined]
    kept = [each for each in wholes if len(each) <= WORD_CHARS_LIMIT and not each.isdigit()]
    return found.findall((_HUMP.sub(" ", text) if _HUMPED.search(text) else text).lower()), kept


def _terms(token: str, folded: str, language: str) -> list[str]:
    if not token.isascii() and unspaced_pattern().search(folded):
        return _cut(token, language)
    if token.isdigit() and token.isascii():
        # Numbers are the same in every language, and too many to be kept for each.
        return [token] if len(token) <= WORD_CHARS_LIMIT else []
    return [stem(token, language)] if len(token) <= WORD_CHARS_LIMIT else []


def _cut(token: str, language: str) -> list[str]:
    """Split a word into its spaced and its unspaced parts."""
    parts: list[str] = []
    end = 0
    for run in unspaced_pattern().finditer(token):
        if run.start() > end:
            parts.append(stem(token[end : run.start()], language))
        characters = run[0]
        parts.extend(characters[i : i + 2] for i in range(max(1, len(characters) - 1)))
        end = run.end()
    if end < len(token):
        parts.append(stem(token[end:], language))
    return [part for part in parts if len(part) <= WORD_CHARS_LIMIT]


# --- exact
_QUOTES: Final = '"“”„«»「」『』'
_PHRASE: Final = re.compile(f"[{_QUOTES}]([^{_QUOTES}]{{1,200}})[{_QUOTES}]")
# More than these are words like any other.
_LIMIT: Final = 8


class ExactTerms(NamedTuple):
    """The phrases and the beginnings of words in a question, as `plain` writes them."""

    phrases: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    # Whether the question asks for nothing else.
    is_exclusive: bool = False

    def __bool__(self) -> bool:
        return bool(self.phrases or self.prefixes)

    def matches(self, text: str) -> bool:
        """Whether a text holds all of it."""
        written = searchable_text(text)
        return all(has_phrase(written, each) for each in self.phrases) and all(
            has_prefix(written, each) for each in self.prefixes
        )

    def rejects(self, text: str) -> bool:
        """Whether a text cannot answer a question of nothing else."""
        return self.is_exclusive and not self.matches(text)


def exact_terms(question: str) -> ExactTerms:
    """What a question asks for letter by letter."""
    phrases = [
        phrase for match in _PHRASE.finditer(question) if (phrase := searchable_text(match[1]))
    ]
    rest = _PHRASE.sub(" ", question)
    beginnings = [fold(match[1]) for match in PREFIX_QUERY.finditer(rest)]
    others = [fold(word) for word in WORD.findall(PREFIX_QUERY.sub(" ", rest))]
    is_all = all(word in stop_words(detect_language(others, rest, minimum=1)) for word in others)
    return ExactTerms(
        tuple(dict.fromkeys(phrases))[:_LIMIT],
        tuple(dict.fromkeys(beginnings))[:_LIMIT],
        is_all and bool(phrases or beginnings),
    )


def searchable_text(text: str) -> str:
    """A text as its words, folded, with a space between two; every sign of a script without spaces is one."""
    spaced = unspaced_pattern().sub(
        lambda run: f" {' '.join(run[0])} ", unicodedata.normalize("NFKC", text)
    )
    return " ".join(fold(word) for word in WORD.findall(spaced))


def has_phrase(text: str, phrase: str) -> bool:
    """Return True if a searchable text has a phrase; both as `searchable_text` returns them."""
    return f" {phrase} " in f" {text} "


def has_prefix(text: str, prefix: str) -> bool:
    """Return True if a word of a searchable text begins with a prefix."""
    return f" {prefix}" in f" {text}"


# --- names
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
