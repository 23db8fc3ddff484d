"""Keyed fingerprints: they replace names, words and values that nobody may read in the database.

Equal texts of a tenant have equal fingerprints, so the database can look them up. Without the key nobody can compute
one from a guessed text. The key is stored in the key ring, or in the table `meta` if the store has no ring. A second
kind, the seal of a document, proves that its bytes were not changed in the database.

What the database holds in place of text: `value` for fields and scopes (8 bytes), `word` for names of fields, `term`
for words of the index (a 64-bit number), `name` for people, and the seal of a document. Each use has its own
personalisation of BLAKE2, so that a fingerprint of one use says nothing about another. Collisions of 64 bits are
possible and harmless: what is found is checked against the document. Changing how a fingerprint is computed makes all
stored ones useless; it needs a new text analysis number (`ANALYSIS`) and a migration. Indexing is the hottest path of a
write, therefore the caches.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from memoranda.encoding.short_cache import short_cache
from memoranda.errors import StoreCorrupt
from memoranda.model.memory import Projection
from memoranda.model.passages import headings_of
from memoranda.retrieval.analysis import (
    TITLE_FREQUENCY,
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
from memoranda.retrieval.languages import LANGUAGE_NUMBERS
from memoranda.storage.crypto.cipher import Cipher
from memoranda.storage.crypto.names import NameCipher
from memoranda.storage.engine.database import Connection, Database

# The prefix of a key id in the table `meta`. With the id it is longer than a key, so it is never taken for one.
_IN_RING = b"kept in the key ring as: "

# Bytes of the seal of a document; the seal of its restrictions, which follows, is as long.
SEAL_BYTES: Final = 16

# Cached words of all tenants: about 30 MB.
_CACHED_WORDS: Final = 131_072

# The numbers of a word's terms, and the number of its beginning.
_WordNumbers: TypeAlias = tuple[tuple[int, ...], int]


class _WordCache(dict[str, _WordNumbers]):
    """The numbers of a tenant's words in one language, computed once for each word."""

    def __init__(self, compute: Callable[[str], _WordNumbers]) -> None:
        self._compute = compute

    def __missing__(self, word: str) -> _WordNumbers:
        numbers = self[word] = self._compute(word)
        return numbers


class Fingerprints:
    """The fingerprints of a store. All its processes use the same key, which the store holds.

    Thread-safe: the caches lose at most some work if two threads compute the same.
    """

    def __init__(self, key: bytes, document_key: bytes | None = None) -> None:
        self.secret = key
        self.names = NameCipher(key)
        # Hash states that have read their key; each fingerprint continues from a copy.
        self._uses = {
            use: hashlib.blake2b(digest_size=8, key=key, person=use)
            for use in (b"value", b"word", b"term")
        }
        self._seal = (
            None
            if document_key is None
            else hashlib.blake2b(digest_size=SEAL_BYTES, key=document_key)
        )
        # Cached, because most words, tags, users and spaces occur in many memories.
        self.word = short_cache(8_192)(self._word)
        self.value = short_cache(8_192)(self._value)
        self.term = lru_cache(maxsize=131_072)(self._term)
        # Caches of words by tenant and language, and the number of words in all of them.
        self._word_caches = lru_cache(maxsize=1_024)(self._make_word_cache)
        self._cached_words = 0
        self.number = short_cache(8_192)(self._number)

    def _value(self, tenant_id: int, text: str) -> bytes | None:
        return self._digest(b"value", tenant_id, text) if text else None

    def _number(self, tenant_id: int, text: str) -> int:
        """Return the fingerprint of a value as a number for the word index; 0 for an empty text."""
        return int.from_bytes(self._value(tenant_id, text) or b"", "little")

    def _term(self, tenant: str, word: str) -> int:
        """Return the fingerprint of a term as a number for the word index.

        It depends on the tenant's name instead of its number, so that it can be computed before any row is read.
        """
        message = f"{tenant}\x00{word}".encode("utf-8", "surrogatepass")
        return int.from_bytes(_digest_of(self._uses[b"term"], message), "little")

    def hash_terms(self, tenant: str, words: Iterable[str]) -> bytes:
        """Return the fingerprints of many terms as consecutive `u64` numbers, which are not cached."""
        state = self._uses[b"term"].copy()
        state.update(f"{tenant}\x00".encode("utf-8", "surrogatepass"))
        return b"".join(_digest_of(state, word.encode("utf-8", "surrogatepass")) for word in words)

    def _make_word_cache(self, tenant: str, language: str) -> _WordCache:
        return _WordCache(lambda word: self._number_word(tenant, word, language))

    def _number_word(self, tenant: str, word: str, language: str) -> _WordNumbers:
        """Return the numbers of a word's terms, and the number of its beginning, for the word index."""
        self._cached_words += 1
        if self._cached_words > _CACHED_WORDS:
            self._word_caches.cache_clear()
            self._cached_words = 0
        terms, start = terms_of_token(word, language)
        # Only beginnings are cached by term: many words share one.
        return tuple(self._term(tenant, term) for term in terms), self.term(tenant, start)

    def index_text(self, tenant: str, projection: Projection) -> IndexedText:
        """Return the entries of a version's text, headings and titles for the word index.

        Very long texts (more than WORDS_LIMIT words) are analysed once more by `analyse`, which limits the number of
        terms. Words of titles and headings count several times, so that a memory is found by its title first.
        """
        tokens, identifiers, language = tokenize(projection.text, projection.language)
        terms: dict[int, int] = {}
        length = self._count_terms(tenant, language, tokens, identifiers, terms)
        if length > WORDS_LIMIT:
            words, _, beginnings = analyse(projection.text, projection.language)
            terms = {self.term(tenant, word): count for word, count in Counter(words).items()}
            terms.update({self.term(tenant, beginning): 1 for beginning in beginnings})
            length = len(words)
        # Words of a heading were counted once as words of the text; here only their extra weight is added.
        for titles, weight, is_counted in (
            (projection.titles, TITLE_FREQUENCY, True),
            (headings_of(projection.text), TITLE_FREQUENCY - 1, False),
        ):
            if titles:
                tokens, identifiers, _ = tokenize("\n".join(titles), language)
                count = self._count_terms(tenant, language, tokens, identifiers, terms, weight)
                length += count if is_counted else 0
        speaker, subject = speaker_of(projection.text), name_of(projection.subject)
        names = self.name(tenant, speaker), self.name(tenant, subject)
        # The hash of the normalised text; with two spaces in front no term and no name has the same one.
        text_hash = self._term(tenant, f"  {normalised_text(projection.text)}")
        return IndexedText(terms, length, *names, LANGUAGE_NUMBERS[language], text_hash)

    def _count_terms(
        self,
        tenant: str,
        language: str,
        tokens: Sequence[str],
        identifiers: Sequence[str],
        terms: dict[int, int],
        weight: int = 1,
    ) -> int:
        """Add the frequencies of the terms of some words to `terms`, and return the number of these terms."""
        word_numbers = self._word_caches(tenant, language)
        length, starts = 0, []
        for token in tokens:
            numbers, start = word_numbers[token]
            starts.append(start)
            length += len(numbers)
            for number in numbers:
                terms[number] = terms.get(number, 0) + weight
        for identifier in identifiers:
            number = self.term(tenant, identifier)
            terms[number] = terms.get(number, 0) + weight
        terms.update(dict.fromkeys(starts, 1))
        return length + len(identifiers)

    def name(self, tenant: str, name: str) -> int:
        """Return the fingerprint of a person's name as a number for the word index; 0 for an empty name.

        The space in front makes it different from the fingerprint of any word.
        """
        if not name:
            return 0
        return (self.term if len(name) <= WORD_CHARS_LIMIT else self._term)(tenant, f" {name}")

    def _word(self, tenant_id: int, word: str) -> str:
        return self._digest(b"word", tenant_id, word).hex()

    def seal_document(
        self, tenant: str, standard: str, name: str, native: bytes, bounds: bytes | None = None
    ) -> bytes | None:
        """Return the seal of a document and of its inherited restrictions; None if the store has no key for seals.

        An attacker who can write to the database, but does not have the key, cannot make one.
        """
        if self._seal is None:
            return None
        seal = _digest_of(self._seal, f"{tenant}\x00{standard}\x00{name}\x00".encode() + native)
        # The second part reveals if the restrictions were removed from the database.
        return seal if bounds is None else seal + _digest_of(self._seal, seal + bounds)

    def _digest(self, use: bytes, tenant_id: int, text: str) -> bytes:
        return _digest_of(
            self._uses[use], b"%d\x00" % tenant_id + text.encode("utf-8", "surrogatepass")
        )


def _digest_of(keyed: hashlib.blake2b, message: bytes) -> bytes:
    """Return the digest of a message, continued from a hash state that has read its key."""
    state = keyed.copy()
    state.update(message)
    return state.digest()


def load_index_key(database: Database, cipher: Cipher) -> bytes:
    """Return the key of all fingerprints. The first process makes it, in the key ring if the store has one.

    If two processes open a new store at the same time, `meta_claim` lets the first one win, and both use its key.
    """

    def claim(connection: Connection, value: bytes) -> bytes:
        """Store the key unless another process was first; return the stored one.

        Raises StoreCorrupt if the store has lost its key.
        """
        connection.execute("meta_claim", {"name": "index_key", "value": value})
        row = connection.query_one("meta_get", {"name": "index_key"})
        if row is None:
            raise StoreCorrupt("the store has lost its index key")
        return bytes(row[0])

    with database.open_snapshot() as connection:
        row = connection.query_one("meta_get", {"name": "index_key"})
    if row is not None:
        stored_value = bytes(row[0])
    else:
        key_id, key = cipher.make_index_key()
        new_value = key if key_id is None else _IN_RING + key_id.encode()
        stored_value = database.write(lambda connection: claim(connection, new_value))
    if stored_value.startswith(_IN_RING):
        return cipher.load_key(stored_value.removeprefix(_IN_RING).decode())
    return stored_value


def scope_facet(dimension: str) -> str:
    """Return the facet name of a user, agent or session. No field of any standard has a space in its name."""
    return f"scope {dimension}"


def space_facet(space: str) -> tuple[str, str]:
    """Return the facet name and value of a space. The value is never empty, so versions without a space have it too."""
    return "scope space", f" {space}"
