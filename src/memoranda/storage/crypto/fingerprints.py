"""Keyed fingerprints: what stands in the database for names, words and values that must not be read there."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from memoranda.encoding.short_cache import short_cache
from memoranda.errors import StoreCorrupt
from memoranda.model.memory import Projection
from memoranda.retrieval.analysis import (
    LANGUAGE_NUMBERS,
    WORD_CHARS_LIMIT,
    WORDS_LIMIT,
    analyse,
    name_of,
    normalised_text,
    speaker_of,
    terms_of_token,
    tokenize,
)
from memoranda.retrieval.entry import IndexedText
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.engine.database import Connection, Database

# Longer than a key itself, so that neither passes for the other.
_IN_RING = b"kept in the key ring as: "

# Of a document; what binds it has as much beside it.
SEAL_BYTES: Final = 16


# Words of all tenants that are kept in mind: some thirty megabytes.
_WORDS_KEPT: Final = 131_072


class _Words(dict[str, tuple[tuple[int, ...], int]]):
    """What the words of a tenant's texts in a language come to, each found out once."""

    def __init__(self, find_out: Callable[[str], tuple[tuple[int, ...], int]]) -> None:
        self._find_out = find_out

    def __missing__(self, word: str) -> tuple[tuple[int, ...], int]:
        found = self[word] = self._find_out(word)
        return found


class Fingerprints:
    """Keyed fingerprints. The key lives in the store, so all its processes agree."""

    def __init__(self, key: bytes, document_key: bytes | None = None) -> None:
        self.secret = key
        # Each begins with its key, which is taken in once; a copy goes on from there.
        self._uses = {
            use: hashlib.blake2b(digest_size=8, key=key, person=use)
            for use in (b"value", b"word", b"term")
        }
        self._seal = (
            None
            if document_key is None
            else hashlib.blake2b(digest_size=SEAL_BYTES, key=document_key)
        )
        # Most words of a memory were seen before, and so were its tags, its user and its space.
        self.word = short_cache(8_192)(self._word)
        self.value = short_cache(8_192)(self._value)
        self.term = lru_cache(maxsize=131_072)(self._term)
        self._words_of = lru_cache(maxsize=1_024)(self._words)
        self._words_kept = 0
        self.number = short_cache(8_192)(self._number)

    def _value(self, tenant_id: int, text: str) -> bytes | None:
        return self._digest(b"value", tenant_id, text) if text else None

    def _number(self, tenant_id: int, text: str) -> int:
        """The same as a number for the word index; 0 of nothing."""
        return int.from_bytes(self._value(tenant_id, text) or b"", "little")

    def _term(self, tenant: str, word: str) -> int:
        """A word of a text, as a number for the word index; by the tenant's name, so that no row need be read first."""
        message = f"{tenant}\x00{word}".encode("utf-8", "surrogatepass")
        return int.from_bytes(_digest_of(self._uses[b"term"], message), "little")

    def _words(self, tenant: str, language: str) -> _Words:
        return _Words(lambda word: self._terms(tenant, word, language))

    def _terms(self, tenant: str, word: str, language: str) -> tuple[tuple[int, ...], int]:
        """A word as it stands in a text, as numbers for the word index, and the number of how it begins."""
        self._words_kept += 1
        if self._words_kept > _WORDS_KEPT:
            self._words_of.cache_clear()
            self._words_kept = 0
        terms, start = terms_of_token(word, language)
        # Many words begin alike.
        return tuple(self._term(tenant, each) for each in terms), self.term(tenant, start)

    def indexed(self, tenant: str, projection: Projection) -> IndexedText:
        """What the text of a version is found by."""
        tokens, wholes, language = tokenize(projection.text, projection.language)
        known = self._words_of(tenant, language)
        terms: dict[int, int] = {}
        length, starts = 0, []
        for token in tokens:
            numbers, start = known[token]
            starts.append(start)
            length += len(numbers)
            for number in numbers:
                terms[number] = terms.get(number, 0) + 1
        for whole in wholes:
            number = self.term(tenant, whole)
            terms[number] = terms.get(number, 0) + 1
        terms.update(dict.fromkeys(starts, 1))
        length += len(wholes)
        if length > WORDS_LIMIT:
            found, _, beginnings = analyse(projection.text, projection.language)
            terms = {self.term(tenant, word): times for word, times in Counter(found).items()}
            terms.update({self.term(tenant, each): 1 for each in beginnings})
            length = len(found)
        speaker, subject = speaker_of(projection.text), name_of(projection.subject)
        names = self.name(tenant, speaker), self.name(tenant, subject)
        # Two texts with the same say the same.
        meant = self._term(tenant, f"  {normalised_text(projection.text)}")
        return IndexedText(terms, length, *names, LANGUAGE_NUMBERS[language], meant)

    def name(self, tenant: str, name: str) -> int:
        """The name of a person, as a number for the word index; 0 of nobody. No word has its number."""
        if not name:
            return 0
        return (self.term if len(name) <= WORD_CHARS_LIMIT else self._term)(tenant, f" {name}")

    def _word(self, tenant_id: int, word: str) -> str:
        return self._digest(b"word", tenant_id, word).hex()

    def document(
        self, tenant: str, standard: str, name: str, native: bytes, bounds: bytes | None = None
    ) -> bytes | None:
        """The seal of a document and of what binds it: whoever can only write to the database cannot make one."""
        if self._seal is None:
            return None
        seal = _digest_of(self._seal, f"{tenant}\x00{standard}\x00{name}\x00".encode() + native)
        # A second part, so that it tells if what binds the document is missing.
        return seal if bounds is None else seal + _digest_of(self._seal, seal + bounds)

    def _digest(self, use: bytes, tenant_id: int, text: str) -> bytes:
        return _digest_of(
            self._uses[use], b"%d\x00" % tenant_id + text.encode("utf-8", "surrogatepass")
        )


def _digest_of(keyed: hashlib.blake2b, message: bytes) -> bytes:
    """The fingerprint of a message under a key that was taken in already."""
    state = keyed.copy()
    state.update(message)
    return state.digest()


def index_key(database: Database, cipher: Cipher) -> bytes:
    """The key of all fingerprints, made once by whichever process comes first; in the key ring if there is one."""

    def claim(connection: Connection, stored: bytes) -> bytes:
        connection.execute("meta_claim", {"name": "index_key", "value": stored})
        row = connection.query_one("meta_get", {"name": "index_key"})
        if row is None:
            raise StoreCorrupt("the store has lost its index key")
        return bytes(row[0])

    with database.open_snapshot() as connection:
        row = connection.query_one("meta_get", {"name": "index_key"})
    if row is not None:
        stored = bytes(row[0])
    else:
        key_id, key = cipher.index_key()
        made = key if key_id is None else _IN_RING + key_id.encode()
        stored = database.write(lambda connection: claim(connection, made))
    return (
        cipher.key(stored.removeprefix(_IN_RING).decode())
        if stored.startswith(_IN_RING)
        else stored
    )
