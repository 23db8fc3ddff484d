"""Text to search words: folded, split, freed of stop words, stemmed. The same for documents and queries.

Pure, and the same for every database. Scripts written without spaces (Chinese, Japanese, Korean, Thai …) are
cut into overlapping pairs, which finds words without a dictionary.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import Stemmer

# A longer word is noise (base64, hashes); a text of more words is a file, not a memory.
WORD_CHARS_LIMIT = 64
WORDS_LIMIT = 20_000

_STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being below
between both but by can could did do does doing down during each few for from further had has have
having he her here hers herself him himself his how i if in into is it its itself just me more most
my myself no nor not now of off on once only or other our ours ourselves out over own same she
should so some such than that the their theirs them themselves then there these they this those
through to too under until up very was we were what when where which while who whom why will with
would you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_WORD = re.compile(r"[^\W_]+")
# The same, of a text that has no other letters: twice as fast.
_ASCII_WORD = re.compile("[a-zA-Z0-9]+")
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_thread = threading.local()


def words(text: str) -> list[str]:
    """The search words of a text, in order, repeats kept."""
    folded = fold(text)
    if folded.isascii():
        found = _ASCII_WORD.findall(folded)
        return [_stem(word) for word in found if word not in STOP_WORDS and len(word) <= WORD_CHARS_LIMIT][:WORDS_LIMIT]
    parts: list[str] = []
    for match in _WORD.finditer(folded):
        word = match[0]
        if word in STOP_WORDS:
            continue
        if word.isascii():
            if len(word) <= WORD_CHARS_LIMIT:
                parts.append(_stem(word))
        else:
            parts.extend(_cut(word))
        if len(parts) >= WORDS_LIMIT:
            break
    return parts


def fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    if any(unicodedata.combining(character) for character in decomposed):
        decomposed = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", decomposed)


def _cut(word: str) -> list[str]:
    """Split a non-ASCII word into its spaced and its unspaced parts."""
    parts: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > end:
            parts.append(_stem(word[end : run.start()]))
        characters = run[0]
        parts.extend(characters[i : i + 2] for i in range(max(1, len(characters) - 1)))
        end = run.end()
    if end < len(word):
        parts.append(_stem(word[end:]))
    return [part for part in parts if len(part) <= WORD_CHARS_LIMIT]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    # A stemmer keeps scratch space and is not to be shared between threads.
    stemmer = getattr(_thread, "stemmer", None)
    if stemmer is None:
        stemmer = _thread.stemmer = Stemmer.Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem
