"""Encryption at rest: AES-256-GCM under a data key for each user, and keys that can be destroyed.

    master key   a file beside the store, readable by its owner alone; several versions, one current
    user's KEK   HKDF-SHA256(master key, salt of the user, "memoranda user key" + tenant + user)
    data key     32 random bytes for each user, wrapped with AES-256-GCM under the user's KEK, in the key ring
    document     0x01 ‖ 12-byte nonce ‖ AES-256-GCM(data key, document), bound to its place in the store

The key ring is separate from the documents, so that a copy of the documents alone can never be read. Destroying a
user's data key therefore erases the user's documents in every copy of the database at once. The ring keeps the id of a
destroyed key, so that it is never taken for a lost one. Rotating the master key wraps the data keys again; documents
stay unchanged. The ring names users only by a hash. It also keeps the key of the store's fingerprints, so that nobody
can guess the words of a copied database either.

Machines that share a ring have one file of master keys each. The machine that rotates puts the new master key into the
ring, wrapped under the previous one and a secret of the operator (handover). Every other machine copies it to its own
file from there, and deletes the previous one.

A process that changes the ring or the master keys holds the ring's write lock from its first read to the end. Otherwise
one of two processes that rotate, or that rotate and make a key, could wrap under a key that the other one retires.

How a document is encrypted: `make_sealer` for a unit of work, `ensure_key(tenant, user)` for the holder's key, `seal`
with the associated data of the row. How one is read: `make_opener` once for each snapshot or page, then the opener for
each document. Three results of reading must stay apart: None means that the key was destroyed (the document is erased),
StoreCorrupt that the bytes were changed, StoreUnavailable that a key is missing which should exist. Caches: `changes`
counts the key changes that this process has seen. Code that caches decrypted text compares it (`engine/caches.Age`). A
method that destroys or rewraps keys must count a change, or other processes keep using what they should forget.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.crypto.key_ring import (
    FORMAT,
    HANDOVER,
    KEY_BYTES,
    NONCE_BYTES,
    SALT_BYTES,
    TAG_BYTES,
    KeyRing,
    MasterKeys,
    WrappedKey,
)

if TYPE_CHECKING:
    from memoranda.storage.crypto.aead import KeyCipher

# users: encrypt the documents that name a user. all: encrypt all others, too, under a key of their tenant.
Coverage = Literal["users", "all"]

# Bytes by which encryption lengthens a document.
SEAL_BYTES = len(FORMAT) + NONCE_BYTES + TAG_BYTES
# Data keys that a process caches.
_CACHE_LIMIT = 4_096
# The holder of the fingerprint key; no tenant has an empty name.
_INDEX_HOLDER = ("", "index")
# The holder of a master key that is handed over to other machines.
_HANDOVER_HOLDER = ("", "master")
_VERSION = struct.Struct(">q")

# Decrypts data: (key id, data, what it is bound to) -> plain data; None if the key was destroyed.
Opener = Callable[[str, bytes, bytes], bytes | None]


class Sealer(Protocol):
    """Encryption of many documents at once."""

    def ensure_key(self, tenant: str, user: str, /) -> str | None:
        """Return the id of the key to encrypt with, made when it is first needed; None for no encryption."""
        ...

    def seal(self, key_id: str, data: bytes, bound: bytes, /) -> bytes:
        """Encrypt data, bound to its place in the store. Raises StoreUnavailable if the key was destroyed."""
        ...


class Cipher(Sealer, Protocol):
    """The encryption of a store."""

    @property
    def changes(self) -> int:
        """The number of key changes that this process has seen; after one, a key may be destroyed."""
        ...

    def open(self, key_id: str, data: bytes, bound: bytes, /) -> bytes | None:
        """Decrypt data; return None if the key was destroyed.

        Raises StoreCorrupt if the data was changed, and StoreUnavailable if there is no such key.
        """
        ...

    def make_sealer(self, ring_changes: int | None = None, /) -> Sealer:
        """Return a sealer that caches keys. It checks once per key whether the ring has changed.

        With `ring_changes`, the ring's number of changes as the caller has read it, it does not ask the ring.
        """
        ...

    def make_opener(self, ring_changes: int | None = None, /) -> Opener:
        """Return `open` for many documents at once. It checks now whether the ring has changed, and not again.

        With `ring_changes`, the ring's number of changes as the caller has read it, it does not ask the ring.
        """
        ...

    def make_index_key(self) -> tuple[str | None, bytes]:
        """Return the key of the store's fingerprints, with its id if the ring stores it, otherwise with None."""
        ...

    def load_key(self, key_id: str, /) -> bytes:
        """Return a key of the ring. Raises StoreUnavailable if there is none with this id."""
        ...

    def destroy(self, tenant: str, user: str, /) -> bool:
        """Destroy the key of a user; return True if there was one."""
        ...

    def destroy_keys(self, key_ids: Sequence[str], /) -> None:
        """Destroy keys by their ids; unknown ones and destroyed ones stay as they are."""
        ...

    def rotate(self) -> int:
        """Wrap all data keys under a new master key; return the number of keys."""
        ...

    def reload(self) -> None:
        """Read the changes by other processes: destroyed keys, and new master keys."""
        ...

    def close(self) -> None: ...


class NoCipher:
    """The cipher of a store that encrypts nothing.

    Used for stores without encryption. Meeting an encrypted document then means that the key ring was lost.
    """

    changes = 0

    def ensure_key(self, _tenant: str, _user: str, /) -> str | None:
        return None

    def seal(self, _key_id: str, _data: bytes, _bound: bytes, /) -> bytes:
        raise _missing_ring()

    def open(self, _key_id: str, _data: bytes, _bound: bytes, /) -> bytes | None:
        raise _missing_ring()

    def make_sealer(self, _ring_changes: int | None = None, /) -> Sealer:
        return self

    def make_opener(self, _ring_changes: int | None = None, /) -> Opener:
        return self.open

    def make_index_key(self) -> tuple[str | None, bytes]:
        return None, os.urandom(KEY_BYTES)

    def load_key(self, _key_id: str, /) -> bytes:
        raise _missing_ring()

    def destroy(self, _tenant: str, _user: str, /) -> bool:
        return False

    def destroy_keys(self, _key_ids: Sequence[str], /) -> None:
        pass

    def rotate(self) -> int:
        return 0

    def reload(self) -> None:
        pass

    def close(self) -> None:
        pass


def _missing_ring() -> StoreUnavailable:
    return StoreUnavailable(
        "this store is encrypted, but its key ring is missing; restore it from a backup"
    )


class RingCipher:
    """Encryption with data keys from a key ring, one for each holder (a user of a tenant).

    All methods may be called from any thread; one lock guards the ring and the caches. Keys are cached, because
    deriving and unwrapping one takes much longer than decrypting a document.
    """

    def __init__(
        self,
        ring: KeyRing,
        masters: MasterKeys,
        coverage: Coverage | None,
        operator_secret: Callable[[], bytes] = bytes,
    ) -> None:
        """Open the keys of a store. Without a coverage nothing new is encrypted, but old documents can be read.

        `operator_secret` returns a secret that all machines have and that is not in the ring. A master key is handed
        over under it.
        """
        self._operator_secret = operator_secret
        self._ring = ring
        self._masters = masters
        self._coverage = coverage
        self._lock = threading.RLock()
        # Caches: data keys by id, and key ids by holder.
        self._keys: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        # The token of the ring when the caches were last checked.
        self._last_token = -1
        self.changes = 0

    def ensure_key(self, tenant: str, user: str, ring_changes: int | None = None) -> str | None:
        if self._coverage is None or (not user and self._coverage == "users"):
            return None
        holder = _hash_holder(tenant, user)
        with self._lock:
            self._refresh(ring_changes)
            return self._ids.get(holder) or self._find(holder) or self._make(holder)

    def seal(self, key_id: str, data: bytes, bound: bytes) -> bytes:
        return _key_cipher()(self.load_sealing_key(key_id)).encrypt(data, bound)

    def load_sealing_key(self, key_id: str, ring_changes: int | None = None) -> bytes:
        """Return a key to encrypt with. Raises StoreUnavailable if it was destroyed."""
        key = self._load_current_key(key_id, ring_changes)
        if key is None:
            raise StoreUnavailable("the user was erased while this was written; try again")
        return key

    def open(self, key_id: str, data: bytes, bound: bytes) -> bytes | None:
        key = self._load_current_key(key_id)
        return None if key is None else _key_cipher()(key).decrypt(data, bound)

    def make_sealer(self, ring_changes: int | None = None, /) -> Sealer:
        return _RingSealer(self, ring_changes)

    def make_opener(self, ring_changes: int | None = None, /) -> Opener:
        """Return a function that decrypts, with the keys as they are now.

        The check for changes is made once, here. A key that is destroyed while the opener is in use may therefore still
        be used: the reader's snapshot began before that.
        """
        ciphers: dict[str, KeyCipher | None] = {}
        with self._lock:
            self._refresh(ring_changes)

        def open_one(key_id: str, data: bytes, bound: bytes) -> bytes | None:
            if key_id not in ciphers:
                with self._lock:
                    key = self._load_data_key(key_id)
                ciphers[key_id] = None if key is None else _key_cipher()(key)
            cipher = ciphers[key_id]
            return None if cipher is None else cipher.decrypt(data, bound)

        return open_one

    def make_index_key(self) -> tuple[str | None, bytes]:
        if self._coverage is None:
            return None, os.urandom(KEY_BYTES)
        with self._lock:
            holder = _hash_holder(*_INDEX_HOLDER)
            key_id = self._find(holder) or self._make(holder)
            return key_id, self.load_key(key_id)

    def load_key(self, key_id: str) -> bytes:
        key = self._load_current_key(key_id)
        if key is None:
            raise StoreCorrupt("a key that the store needs was destroyed")
        return key

    def destroy(self, tenant: str, user: str) -> bool:
        """Destroy the key of a user, after which no copy of the user's documents can be read.

        The caches are dropped first, so that no thread of this process can use the key after the call has returned.
        """
        with self._lock:
            self._keys.clear()
            self._ids.clear()
            self.changes += 1
            return self._ring.destroy(_hash_holder(tenant, user))

    def destroy_keys(self, key_ids: Sequence[str], /) -> None:
        with self._lock:
            self._keys.clear()
            self._ids.clear()
            self.changes += 1
            for key_id in key_ids:
                key = self._ring.get(key_id)
                if key is not None and key.wrapped:
                    self._ring.destroy(key.holder)

    def rotate(self) -> int:
        """Wrap all data keys under a new master key and return their number.

        The order matters: the new master key is durable before anything is wrapped under it, and the old one is deleted
        in a second transaction, when nothing uses it any more. A crash in between leaves both keys, and the next
        rotation removes the old one.
        """
        with self._lock:
            # All keys are wrapped in one transaction. The old master key is deleted only when that is durable.
            with self._ring.changing():
                previous = self._newest_master()
                version, master = self._masters.add()
                keys = self._ring.usable()
                for key in keys:
                    data_key = self._unwrap(key)
                    self._ring.put(_wrap(master, version, key.holder, key.key_id, data_key))
                if self._ring.is_shared:
                    self._hand_over(previous, version, master)
                self._ring.count_change()
            with self._ring.changing():
                used_masters = self._ring.master_versions()
                self._masters.retire_before(used_masters[0] if used_masters else version)
            return len(keys)

    def _hand_over(self, previous: tuple[int, bytes], version: int, master: bytes) -> None:
        """Put a new master key into the ring, wrapped under the previous one and the operator's secret."""
        previous_version, previous_master = previous
        secret = previous_master + self._operator_secret()
        handover = _VERSION.pack(version) + master
        holder = _hash_holder(*_HANDOVER_HOLDER)
        self._ring.put(_wrap(secret, previous_version, holder, HANDOVER, handover))

    def _take_over(self) -> None:
        """Add the master key that another machine put into the ring, and delete those that wrap nothing any more."""
        wrapped = self._ring.get(HANDOVER) if self._ring.is_shared else None
        if wrapped is None or not self._masters.has(wrapped.master_version):
            # Nothing to do. If our master key is too old, the first use of a newer one reports it.
            return
        secret = self._masters.get(wrapped.master_version) + self._operator_secret()
        kek = _key_cipher().derive(secret, wrapped.salt, wrapped.holder)
        handover = kek.decrypt(wrapped.wrapped, HANDOVER.encode())
        (version,), key = _VERSION.unpack_from(handover), handover[_VERSION.size :]
        # An interrupted rotation on this machine may have left another key of the same version.
        if not self._masters.has(version) or self._masters.get(version) != key:
            self._masters.adopt(version, key)
        if (used_masters := self._ring.master_versions()) is not None:
            self._masters.retire_before(used_masters[0])

    def reload(self) -> None:
        with self._lock:
            self._refresh()

    def close(self) -> None:
        with self._lock:
            self._ring.close()

    def _refresh(self, ring_changes: int | None = None) -> None:
        """Drop cached keys if another process has changed the ring: it may have destroyed one.

        `ring_changes` is the token of the ring as a snapshot of its own database shows it. The last token that was seen
        may be newer.
        """
        token = self._ring.token() if ring_changes is None else max(ring_changes, self._last_token)
        self.changes += token != self._last_token
        if token != self._last_token or len(self._keys) > _CACHE_LIMIT:
            self._keys.clear()
            self._ids.clear()
        if token != self._last_token:
            self._take_over()
        self._last_token = token

    def _find(self, holder: bytes) -> str | None:
        """Return the id of a holder's key, or None."""
        key_id = self._ring.find(holder)
        if key_id is not None:
            self._ids[holder] = key_id
        return key_id

    def _make(self, holder: bytes) -> str:
        """Make a key for a holder, unless another process has made one meanwhile; return its id."""
        with self._ring.changing():
            if (existing := self._find(holder)) is not None:
                return existing
            version, master = self._newest_master()
            key_id = secrets.token_hex(16)
            self._ring.put(_wrap(master, version, holder, key_id, os.urandom(KEY_BYTES)))
        self._ids[holder] = key_id
        return key_id

    def _newest_master(self) -> tuple[int, bytes]:
        """Return the master key to wrap under: the newest one that wraps a key, which the other machines have, too.

        The first one is made here, but never if there are data keys: it would hide that their master key is missing.
        """
        used_masters = self._ring.master_versions()
        if used_masters is None:
            return self._masters.current()
        self._take_over()
        return used_masters[1], self._masters.get(used_masters[1])

    def _load_master(self, version: int) -> bytes:
        if not self._masters.has(version):
            self._take_over()
        return self._masters.get(version)

    def _load_current_key(self, key_id: str, ring_changes: int | None = None) -> bytes | None:
        """Return a data key after a check whether the ring has changed; None if the key was destroyed."""
        with self._lock:
            self._refresh(ring_changes)
            return self._load_data_key(key_id)

    def _load_data_key(self, key_id: str) -> bytes | None:
        """Return a data key from the cache or the ring; None if it was destroyed."""
        if key_id not in self._keys:
            wrapped = self._ring.get(key_id)
            if wrapped is None:
                raise StoreUnavailable(
                    "the key ring lacks a key that this store needs; restore it from a backup"
                )
            if not wrapped.wrapped:
                return None
            self._keys[key_id] = self._unwrap(wrapped)
        return self._keys[key_id]

    def _unwrap(self, key: WrappedKey) -> bytes:
        master = self._load_master(key.master_version)
        kek = _key_cipher().derive(master, key.salt, key.holder)
        try:
            return kek.decrypt(key.wrapped, key.key_id.encode())
        except StoreCorrupt:
            raise StoreCorrupt(
                "a key of the key ring was changed, or the master key is another one"
            ) from None


class _RingSealer:
    """A sealer that caches the keys it has used."""

    def __init__(self, ring: RingCipher, ring_changes: int | None) -> None:
        self._ring, self._ring_changes = ring, ring_changes
        self._ids: dict[tuple[str, str], str | None] = {}
        self._ciphers: dict[str, KeyCipher] = {}

    def ensure_key(self, tenant: str, user: str) -> str | None:
        holder = (tenant, user)
        if holder not in self._ids:
            self._ids[holder] = self._ring.ensure_key(tenant, user, self._ring_changes)
        return self._ids[holder]

    def seal(self, key_id: str, data: bytes, bound: bytes) -> bytes:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            key = self._ring.load_sealing_key(key_id, self._ring_changes)
            cipher = self._ciphers[key_id] = _key_cipher()(key)
        return cipher.encrypt(data, bound)


def _hash_holder(tenant: str, user: str) -> bytes:
    """Return the name of a user in the ring, a hash: enough to find the key again."""
    return hashlib.blake2b(
        f"{tenant}\x00{user}".encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def _wrap(master: bytes, version: int, holder: bytes, key_id: str, key: bytes) -> WrappedKey:
    salt = os.urandom(SALT_BYTES)
    kek = _key_cipher().derive(master, salt, holder)
    return WrappedKey(key_id, holder, version, salt, kek.encrypt(key, key_id.encode()))


def _key_cipher() -> type[KeyCipher]:
    """Return the class that encrypts; imported here because most local commands meet no encrypted document."""
    from memoranda.storage.crypto.aead import KeyCipher

    return KeyCipher
