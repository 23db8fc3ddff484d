"""Text analysis: texts and queries to search words, exact terms and names. Pure, and the same for every database.

A text is analysed in its own language, which its memory declares, or which is detected by its script or its stop words.
Languages with a Snowball stemmer are stemmed; other texts are analysed like English ones, which changes few of their
words. A text is split into words, folded, freed of stop words, stemmed. A query is
analysed in all languages of the texts that it searches: each word has one or more spellings, and matches any of them.
Scripts without spaces (Chinese, Japanese, Korean, Thai …) are cut into overlapping pairs of characters. Identifiers and
paths (`parseInstant`, `parse_instant`, `src/app.py`) are found by their parts and as a whole.

A query may contain exact terms: phrases (`"database is locked"`) and prefixes (`pnp*`). The index has no positions, so
it only narrows the candidates of a phrase, and the text itself decides.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memoranda.retrieval.languages import (
    ENGLISH,
    LANGUAGE_CODES,
    NOW_WORDS,
    detect_language,
    fold,
    language_code,
    stop_words,
)

if TYPE_CHECKING:
    import Stemmer

# The version of the analysis. Raise it with every change of what is indexed: older segments are then rebuilt.
ANALYSIS: Final = 9

# The term frequency of a word in a title; in the text it has 1.
TITLE_FREQUENCY: Final = 3

# Characters: longer words are noise (base64, hashes).
WORD_CHARS_LIMIT: Final = 64
# Words of a text that are indexed: a longer text is a file, not a memory.
WORDS_LIMIT: Final = 20_000
# Words of a query: a longer one is a pasted page, and each word costs a lookup.
QUESTION_WORDS_LIMIT: Final = 64
# Characters of a prefix that are indexed; shorter prefixes are not supported.
PREFIX_CHARS: Final = 3


def _mark_ranges() -> str:
    """Return the vowel signs and other marks inside words, as ranges of a character class.

    For `re` they are no part of a word, so it would cut words of Hindi, Thai or vocalised Arabic.
    """
    # The scripts of India have their signs at the same positions of blocks of 128 characters.
    signs = ((0x00, 0x03), (0x3A, 0x3C), (0x3E, 0x4F), (0x51, 0x57), (0x62, 0x63))
    indic = [
        (block + first, block + last)
        for block in range(0x0900, 0x0E00, 0x80)
        for first, last in signs
    ]
    ranges = [*_MARKS_OF_OTHER_SCRIPTS, *indic]
    return "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in ranges)


# Combining accents, and the marks of Hebrew, Arabic, Thai, Lao, Burmese and Khmer.
_MARKS_OF_OTHER_SCRIPTS: Final = (
    (0x0300, 0x036F), (0x0591, 0x05BD), (0x05BF, 0x05C5), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x06D6, 0x06DC), (0x0E31, 0x0E31), (0x0E34, 0x0E3A), (0x0E47, 0x0E4E), (0x0EB1, 0x0EB1), (0x0EB4, 0x0EBC),
    (0x0EC8, 0x0ECD), (0x102B, 0x103E), (0x17B4, 0x17D3),
)  # fmt: skip
WORD: Final = re.compile(rf"[^\W_](?:[^\W_]|[{_mark_ranges()}])*")
# The words of a text in lower-case ASCII; faster than WORD.
_PLAIN_WORD: Final = re.compile(r"[a-z0-9]+")
_UNSPACED: Final = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Identifiers and paths: `parse_instant`, `no-floating-promises`, `src/app.py`, `parseInstant`.
# The look-behind makes a match begin where a word does; otherwise the time would be quadratic in the length of a word.
_JOINED: Final = re.compile(
    r"(?<![^\W_])(?:[^\W_]++(?:[-_./]++[^\W_]++)+|[^\W_]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2})[^\W_]*)"
)
# The boundaries in `parseInstant` and `HTTPServer`, and a test for them.
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_HUMPED: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
# English contractions: she's, don't, they've.
_CONTRACTED: Final = re.compile(r"(?<=\w)['’](?:s|t|d|m|re|ve|ll)\b", re.IGNORECASE)
# Punctuation around words. Other signs distinguish words: "C#" is not "C", "-5" is not "5".
_MARKS: Final = ".,;:!?\"'()…“”‘’"
_MARKED: Final = frozenset(_MARKS)
# `pnp*` in a query.
PREFIX_QUERY: Final = re.compile(rf"(?<!\S)([^\W_]{{{PREFIX_CHARS},{WORD_CHARS_LIMIT}}})\*(?!\S)")
_QUOTES: Final = frozenset('"“”„«»「」『』')
# Phrases, and prefixes, of a query: for each, candidate texts are read.
_EXACT_LIMIT: Final = 8
# "Ada: …", "Ada Lovelace: …": up to three capitalised words and a colon, as in chat logs.
_SPEAKER: Final = re.compile(
    r"(?P<first>[^\W\d_a-z][\w'’.-]{0,40})(?: [^\W\d_a-z][\w'’.-]{0,40}){0,2}: "
)
_NAME: Final = re.compile(r"[^\W\d_]{2,40}")
# Kinds of subjects that are persons. A subject without kind is a person if it is capitalised: "zeppelin" is none.
_PERSON_KINDS: Final = ("person", "people", "user", "contact")
# Words of a query that are looked up as names: a longer query is a pasted page.
_NAMES_LIMIT: Final = 64


# --- stems ------------------------------------------------------------------------------------------------

# The stemmers. Words of other languages are only folded.
_STEMMERS: Final = {
    "en": "english", "de": "german", "fr": "french", "es": "spanish", "pt": "portuguese", "it": "italian",
    "nl": "dutch", "sv": "swedish", "da": "danish", "no": "norwegian", "fi": "finnish", "ru": "russian",
    "el": "greek", "ar": "arabic", "hi": "hindi", "ta": "tamil", "tr": "turkish", "hu": "hungarian",
    "ro": "romanian", "pl": "polish", "cs": "czech", "ca": "catalan", "id": "indonesian", "sr": "serbian",
    "fa": "persian", "hy": "armenian",
}  # fmt: skip
# The supported languages.
LANGUAGES: Final = tuple(sorted(LANGUAGE_CODES))


_thread: Final = threading.local()


@lru_cache(maxsize=131_072)
def stem(word: str, language: str = ENGLISH) -> str:
    """Return the folded stem of a word in lower case. Stemmers need the accents, so these are removed last.

    Cached, since the words of a language repeat all the time. Without a stemmer for the language, the word is only
    folded.
    """
    # A stemmer has internal buffers, so each thread has its own.
    stemmers: dict[str, Stemmer.Stemmer] | None = getattr(_thread, "stemmers", None)
    if stemmers is None:
        stemmers = _thread.stemmers = {}
    algorithm = _STEMMERS.get(language)
    if algorithm is None:
        return fold(word)
    stemmer = stemmers.get(language)
    if stemmer is None:
        # Imported here: clients of a server analyse no text, and do without it.
        import Stemmer

        stemmer = stemmers[language] = Stemmer.Stemmer(algorithm, 0)
    stemmed: str = stemmer.stemWord(fold(word) if language == ENGLISH else word)
    return fold(stemmed)


# --- texts -----------------------------------------------------------------------------------------------


class AnalysedText(NamedTuple):
    """An analysed text: its search words in order, with repetitions, and its language."""

    words: list[str]
    language: str
    # The prefix terms of its words.
    prefixes: frozenset[str] = frozenset()


def keywords(text: str) -> list[str]:
    """Return the search words of a text in order, with repetitions."""
    return analyse(text).words


def analyse(text: str, language: str = "") -> AnalysedText:
    """Return the analysis of a text in the language that its memory declares; empty to detect it.

    A text of more than WORDS_LIMIT words is cut there.
    """
    tokens, identifiers, language = tokenize(text, language)
    words: list[str] = []
    prefixes: set[str] = set()
    for token in tokens:
        terms, prefix = terms_of_token(token, language)
        words.extend(terms)
        prefixes.add(prefix)
        if len(words) >= WORDS_LIMIT:
            break
    return AnalysedText([*words, *identifiers][:WORDS_LIMIT], language, frozenset(prefixes))


def tokenize(text: str, language: str = "") -> tuple[list[str], list[str], str]:
    """Return the words of a text in lower case without stop words, its identifiers as a whole, and its language."""
    tokens, identifiers = _split_words(text)
    folded = tokens if text.isascii() else [fold(token) for token in tokens]
    declared_language = language_code(language) if language else ""
    language = declared_language or detect_language(folded, text)
    excluded = stop_words(language)
    content_tokens = [
        token
        for token, folded_token in zip(tokens, folded, strict=True)
        if folded_token not in excluded
    ]
    return content_tokens, identifiers, language


def language_of(text: str) -> str:
    """Return the language of a text or a query; English unless there is evidence for another one."""
    return detect_language(map(fold, WORD.findall(text)), text)


def terms_of_token(token: str, language: str) -> tuple[list[str], str]:
    """Return the search words of a word, mostly one, and its prefix term."""
    folded = fold(token)
    return _terms(token, folded, language), prefix_term(folded)


def normalised_text(text: str) -> str:
    """Return a text without case, repeated spaces and punctuation around words; equal for duplicates.

    Two memories with equal normalised texts count as duplicates in a list of results; both stay stored.
    """
    words = text.casefold().split()
    if not _MARKED.isdisjoint(text):
        words = [stripped for word in words if (stripped := word.strip(_MARKS))]
    return " ".join(words)


def english_keywords(text: str) -> list[str]:
    """Return the search words of a text by the rules of English, by which consolidation compares statements."""
    tokens = (token for token in WORD.findall(fold(text)) if token not in stop_words(ENGLISH))
    return [term for token in tokens for term in _terms(token, token, ENGLISH)][:WORDS_LIMIT]


@cache
def unspaced_pattern() -> re.Pattern[str]:
    """Return the pattern of scripts without spaces. It is compiled late, because that is slow and seldom needed."""
    return re.compile(_UNSPACED)


@cache
def _marked_letter_pattern() -> re.Pattern[str]:
    """Return the pattern of a letter with its marks, compiled late for the same reason."""
    return re.compile(rf".[{_mark_ranges()}]*")


@cache
def _phrase_pattern() -> re.Pattern[str]:
    """Return the pattern of a phrase in quotes, compiled late for the same reason."""
    quotes = "".join(sorted(_QUOTES))
    return re.compile(f"[{quotes}]([^{quotes}]{{1,200}})[{quotes}]")


def prefix_term(word: str) -> str:
    """Return the term under which all words with the same prefix are indexed. The star keeps it apart from words."""
    return f"{word[:PREFIX_CHARS]}*"


def _split_words(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text in lower case, with identifiers split, and the identifiers as a whole."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub(" ", text)
    pattern = _PLAIN_WORD if text.isascii() else WORD
    # Most parts are single words. To sort these out is much faster than to search them.
    parts = [part for part in text.split() if not (part.isalnum() and part[1:].islower())]
    joined_words = [identifier for part in parts for identifier in _JOINED.findall(part)]
    if not joined_words:
        return pattern.findall(text.lower()), []
    terms = ["".join(WORD.findall(fold(identifier))) for identifier in joined_words]
    identifiers = [term for term in terms if len(term) <= WORD_CHARS_LIMIT and not term.isdigit()]
    spaced = _HUMP.sub(" ", text) if _HUMPED.search(text) else text
    return pattern.findall(spaced.lower()), identifiers


def _terms(token: str, folded: str, language: str) -> list[str]:
    """Return the search words of a word; none if it is too long."""
    if not token.isascii() and unspaced_pattern().search(folded):
        return _cut_pairs(token, language)
    if len(token) > WORD_CHARS_LIMIT:
        return []
    # Numbers have no stem, and there are too many of them for the cache of stems.
    is_number = token.isdigit() and token.isascii()
    return [token] if is_number else [stem(token, language)]


def _cut_pairs(token: str, language: str) -> list[str]:
    """Cut the parts of a word in a script without spaces into pairs of characters, and stem the other parts."""
    terms: list[str] = []
    end = 0
    for run in unspaced_pattern().finditer(token):
        if run.start() > end:
            terms.append(stem(token[end : run.start()], language))
        # A vowel sign or tone mark is part of the preceding letter.
        characters = _marked_letter_pattern().findall(run[0])
        terms.extend(
            "".join(characters[index : index + 2]) for index in range(max(1, len(characters) - 1))
        )
        end = run.end()
    if end < len(token):
        terms.append(stem(token[end:], language))
    return [term for term in terms if len(term) <= WORD_CHARS_LIMIT]


# --- queries ---------------------------------------------------------------------------------------------


class QueryWord(NamedTuple):
    """A word of a query: its spellings in the index."""

    terms: tuple[str, ...]
    # True to drop it if no text has it, because its parts or its prefix are words of the query, too.
    is_optional: bool = False


def query_words(text: str, languages: Iterable[str] = LANGUAGE_CODES) -> list[QueryWord]:
    """Return the words of a query, each with its spellings in some languages.

    The result has at most QUESTION_WORDS_LIMIT words, in the order of the text. Words of other scripts become pairs.
    """
    tokens, identifiers = _split_words(text)
    folded_tokens = [fold(token) for token in tokens]
    excluded = stop_words(detect_language(folded_tokens, text))
    # One word is little evidence of a language: "Ada" is a name, and "there is" in Indonesian. It is searched if a text
    # has it.
    uncertain = stop_words(detect_language(folded_tokens, text, minimum=1))
    codes = dict.fromkeys((ENGLISH, *languages))
    starred = {fold(prefix) for prefix in PREFIX_QUERY.findall(text)}
    # A dict keeps the order and drops duplicates.
    words: dict[QueryWord, None] = {}
    for token, folded in zip(tokens, folded_tokens, strict=True):
        if folded in excluded:
            continue
        # Also without accents, as a keyboard without them writes it.
        written_forms = tuple(dict.fromkeys((token, folded)))
        spellings = [_terms(form, folded, code) for code in codes for form in written_forms]
        # A word that is cut into pairs becomes several words of the query.
        for terms in zip(*spellings, strict=False):
            is_optional = folded in starred or folded in NOW_WORDS or folded in uncertain
            words[QueryWord(tuple(dict.fromkeys(terms)), is_optional)] = None
    for identifier in identifiers:
        words[QueryWord((identifier,), is_optional=True)] = None
    return list(words)[:QUESTION_WORDS_LIMIT]


def query_terms(text: str) -> frozenset[str]:
    """Return all spellings of all words of a query in any language."""
    return frozenset(term for word in query_words(text) for term in word.terms)


class ExactTerms(NamedTuple):
    """The phrases and prefixes of a query, as `searchable_text` returns them."""

    phrases: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    # True if the query has nothing else: then only texts with all of them are results.
    is_exclusive: bool = False

    def __bool__(self) -> bool:
        return bool(self.phrases or self.prefixes)

    def matches(self, text: str) -> bool:
        """Return True if a text has all phrases and prefixes."""
        searchable = searchable_text(text)
        return all(has_phrase(searchable, phrase) for phrase in self.phrases) and all(
            has_prefix(searchable, prefix) for prefix in self.prefixes
        )

    def rejects(self, text: str) -> bool:
        """Return True if a text cannot be a result, because the query is exclusive and the text does not match."""
        return self.is_exclusive and not self.matches(text)


def exact_terms(query: str) -> ExactTerms:
    """Return the phrases and prefixes of a query.

    `"…"` makes a phrase, `abc*` a prefix of at least three characters.
    """
    phrases: list[str] = []
    unquoted = query
    if not _QUOTES.isdisjoint(query):
        quoted = (searchable_text(match[1]) for match in _phrase_pattern().finditer(query))
        phrases = [phrase for phrase in quoted if phrase]
        unquoted = _phrase_pattern().sub(" ", query)
    prefixes = [fold(match[1]) for match in PREFIX_QUERY.finditer(unquoted)]
    other_words = [fold(word) for word in WORD.findall(PREFIX_QUERY.sub(" ", unquoted))]
    excluded = stop_words(detect_language(other_words, unquoted))
    return ExactTerms(
        tuple(dict.fromkeys(phrases))[:_EXACT_LIMIT],
        tuple(dict.fromkeys(prefixes))[:_EXACT_LIMIT],
        excluded.issuperset(other_words) and bool(phrases or prefixes),
    )


def searchable_text(text: str) -> str:
    """Return the folded words of a text, separated by spaces; in scripts without spaces every character is a word.

    For comparing with phrases only; the index uses stems.
    """
    normalised = unicodedata.normalize("NFKC", text)
    spaced = unspaced_pattern().sub(lambda run: f" {' '.join(run[0])} ", normalised)
    return " ".join(fold(word) for word in WORD.findall(spaced))


def has_phrase(text: str, phrase: str) -> bool:
    """Return True if a searchable text has a phrase; both as `searchable_text` returns them."""
    return f" {phrase} " in f" {text} "


def has_prefix(text: str, prefix: str) -> bool:
    """Return True if a word of a searchable text begins with a prefix."""
    return f" {prefix}" in f" {text}"


# --- names -----------------------------------------------------------------------------------------------


def speaker_of(text: str) -> str:
    """Return the folded first name of the speaker ("Ada: …"); empty if there is none."""
    match = _SPEAKER.match(text)
    return "" if match is None else fold(match["first"])


def name_of(subject: str) -> str:
    """Return the folded first name in a subject such as "person:ada-7" or "Ada Lovelace"; empty if it is no person."""
    prefix, _, name = subject.rpartition(":")
    kind = prefix.rpartition(":")[2].lower()
    is_person = kind in _PERSON_KINDS or name[:1].isupper()
    match = _NAME.search(name) if is_person else None
    return "" if match is None else fold(match[0])


def names_in(text: str) -> tuple[str, ...]:
    """Return all words of a query that may be names, folded."""
    return tuple(dict.fromkeys(fold(match[0]) for match in _NAME.finditer(text)))[:_NAMES_LIMIT]
