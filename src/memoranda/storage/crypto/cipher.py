"""Encryption at rest: AES-256-GCM under a data key for each user, and keys that can be destroyed.

    master key   a file beside the store, readable by its owner alone; several versions, one current
    user's KEK   HKDF-SHA256(master key, salt of the user, "memoranda user key" + tenant + user)
    data key     32 random bytes for each user, wrapped with AES-256-GCM under the user's KEK, in the key ring
    document     0x01 ‖ 12-byte nonce ‖ AES-256-GCM(data key, document), bound to its place in the store

The key ring is a file of its own, so that a copy of the database alone can never be read. Destroying a user's data
key therefore erases the user's documents in every copy of the database at once; the ring remembers that there was
such a key, so that a destroyed key is never taken for a lost one. Rotating the master key wraps the data keys anew;
documents stay as they are. Users are named in the ring by a hash only. The ring also keeps the key of the store's
fingerprints, so that the words of a copied database cannot be guessed either.

Machines that share a ring have a file of master keys each. Whoever rotates hands the new master key over in the ring,
wrapped under the one before it and a secret of the operator's; every other machine takes it into its file, and lets go
of the one before.

Whoever changes the ring or the master keys holds the ring's write lock from before it reads until it is done: two
processes that rotate, or one that rotates while another makes a key, must not wrap under a key the other retires.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.storage.crypto.key_ring import HANDOVER, KeyRing, WrappedKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# users: documents that name a user are encrypted. all: the others too, under a key of their tenant.
Coverage = Literal["users", "all"]

KEY_BYTES, SALT_BYTES, NONCE_BYTES, TAG_BYTES = 32, 32, 12, 16
_FORMAT = b"\x01"
# How much longer a document is when it is encrypted.
SEAL_BYTES = len(_FORMAT) + NONCE_BYTES + TAG_BYTES
_CACHE_LIMIT = 4_096
# No tenant is called that: the holder of the fingerprint key.
_INDEX_HOLDER = ("", "index")
# Nor that: the holder of a master key on its way to other machines.
_HANDOVER_HOLDER = ("", "master")
_VERSION = struct.Struct(">q")

# (key id, data, what it is bound to) -> the data in the clear; None when the key was destroyed.
Opener = Callable[[str, bytes, bytes], bytes | None]


class Sealer(Protocol):
    """Encrypts many documents at once."""

    def key_for(self, tenant: str, user: str, /) -> str | None: ...

    def seal(self, key_id: str, data: bytes, bound: bytes, /) -> bytes: ...


class Cipher(Sealer, Protocol):
    """What the store asks of encryption."""

    @property
    def changes(self) -> int:
        """How often the keys changed, as far as it is known here: one may have been destroyed."""
        ...

    def key_for(self, tenant: str, user: str, /) -> str | None:
        """The id of the key to encrypt with, made when it is first needed; None for no encryption."""
        ...

    def seal(self, key_id: str, data: bytes, bound: bytes, /) -> bytes: ...

    def open(self, key_id: str, data: bytes, bound: bytes, /) -> bytes | None:
        """The data; None when the key was destroyed.

        Raises StoreCorrupt when the data was changed, and StoreUnavailable when there is no such key.
        """
        ...

    def sealer(self, changes: int | None = None, /) -> Sealer:
        """The same for many documents at once: whether a key was destroyed meanwhile is looked at once for each.

        Or not at all, if it is known from elsewhere how often that has happened.
        """
        ...

    def opener(self, changes: int | None = None, /) -> Opener:
        """`open` for many documents at once: whether a key was destroyed meanwhile is looked at once, now, likewise."""
        ...

    def index_key(self) -> tuple[str | None, bytes]:
        """A key for the store's fingerprints: its id if it stays in the ring, and the key."""
        ...

    def key(self, key_id: str, /) -> bytes:
        """A key of the ring. Raises StoreUnavailable when there is none of that id."""
        ...

    def destroy(self, tenant: str, user: str, /) -> bool: ...

    def rotate(self) -> int: ...

    def follow(self) -> None:
        """Take up what another process has changed: a key that was destroyed, a master key that it made."""
        ...

    def close(self) -> None: ...


class NoCipher:
    """Documents as they are."""

    changes = 0

    def key_for(self, _tenant: str, _user: str, /) -> str | None:
        return None

    def seal(self, _key_id: str, _data: bytes, _bound: bytes, /) -> bytes:
        raise _no_ring()

    def open(self, _key_id: str, _data: bytes, _bound: bytes, /) -> bytes | None:
        raise _no_ring()

    def sealer(self, _changes: int | None = None, /) -> Sealer:
        return self

    def opener(self, _changes: int | None = None, /) -> Opener:
        return self.open

    def index_key(self) -> tuple[str | None, bytes]:
        return None, os.urandom(KEY_BYTES)

    def key(self, _key_id: str, /) -> bytes:
        raise _no_ring()

    def destroy(self, _tenant: str, _user: str, /) -> bool:
        return False

    def rotate(self) -> int:
        return 0

    def follow(self) -> None:
        pass

    def close(self) -> None:
        pass


def _no_ring() -> StoreUnavailable:
    return StoreUnavailable(
        "this store is encrypted, but its key ring is missing; restore it from a backup"
    )


class MasterKeys(Protocol):
    """Where master keys are kept."""

    def current(self) -> tuple[int, bytes]: ...

    def get(self, version: int) -> bytes: ...

    def has(self, version: int) -> bool: ...

    def adopt(self, version: int, key: bytes) -> None:
        """Keep one that was made elsewhere."""
        ...

    def add(self) -> tuple[int, bytes]:
        """Make a new one and let it be the current one."""
        ...

    def retire_before(self, version: int) -> None:
        """Forget older ones; nothing is wrapped under them any more."""
        ...


class RingCipher:
    """Data keys from a key ring, each used for one holder."""

    def __init__(
        self,
        ring: KeyRing,
        masters: MasterKeys,
        coverage: Coverage | None,
        operator_secret: Callable[[], bytes] = bytes,
    ) -> None:
        """Without a coverage nothing new is encrypted, but what is can still be read.

        The operator's secret is the same on all machines, and not in the ring: a master key is handed over under it.
        """
        self._operator_secret = operator_secret
        self._ring = ring
        self._masters = masters
        self._coverage = coverage
        self._lock = threading.RLock()
        self._keys: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._seen = -1
        self.changes = 0

    def key_for(self, tenant: str, user: str, changes: int | None = None) -> str | None:
        if self._coverage is None or (not user and self._coverage == "users"):
            return None
        holder = _holder(tenant, user)
        with self._lock:
            self._refresh(changes)
            return self._ids.get(holder) or self._find(holder) or self._make(holder)

    def seal(self, key_id: str, data: bytes, bound: bytes) -> bytes:
        return _sealed(_aes(self.sealing_key(key_id)), data, bound)

    def sealing_key(self, key_id: str, changes: int | None = None) -> bytes:
        """A key to encrypt with. Raises StoreUnavailable when it was destroyed."""
        key = self._data_key(key_id, changes)
        if key is None:
            raise StoreUnavailable("the user was erased while this was written; try again")
        return key

    def open(self, key_id: str, data: bytes, bound: bytes) -> bytes | None:
        key = self._data_key(key_id)
        return None if key is None else _opened(_aes(key), data, bound)

    def sealer(self, changes: int | None = None, /) -> Sealer:
        return _RingSealer(self, changes)

    def opener(self, changes: int | None = None, /) -> Opener:
        ciphers: dict[str, AESGCM | None] = {}
        with self._lock:
            self._refresh(changes)

        def open_one(key_id: str, data: bytes, bound: bytes) -> bytes | None:
            if key_id not in ciphers:
                with self._lock:
                    key = self._known(key_id)
                ciphers[key_id] = None if key is None else _aes(key)
            cipher = ciphers[key_id]
            return None if cipher is None else _opened(cipher, data, bound)

        return open_one

    def index_key(self) -> tuple[str | None, bytes]:
        if self._coverage is None:
            return None, os.urandom(KEY_BYTES)
        with self._lock:
            holder = _holder(*_INDEX_HOLDER)
            key_id = self._find(holder) or self._make(holder)
            return key_id, self.key(key_id)

    def key(self, key_id: str) -> bytes:
        key = self._data_key(key_id)
        if key is None:
            raise StoreCorrupt("a key that the store needs was destroyed")
        return key

    def destroy(self, tenant: str, user: str) -> bool:
        with self._lock:
            self._keys.clear()
            self._ids.clear()
            self.changes += 1
            return self._ring.destroy(_holder(tenant, user))

    def rotate(self) -> int:
        """All wrapped anew in one transaction; the old master key goes only after that is durable."""
        with self._lock:
            with self._ring.changing():
                before = self._newest_master()
                version, master = self._masters.add()
                keys = self._ring.usable()
                for key in keys:
                    self._ring.put(
                        _wrapped(master, version, key.holder, key.key_id, self._unwrapped(key))
                    )
                if self._ring.is_shared:
                    self._hand_over(before, version, master)
                self._ring.count_change()
            with self._ring.changing():
                used = self._ring.master_versions()
                self._masters.retire_before(used[0] if used else version)
            return len(keys)

    def _hand_over(self, before: tuple[int, bytes], version: int, master: bytes) -> None:
        secret = before[1] + self._operator_secret()
        said = _VERSION.pack(version) + master
        self._ring.put(_wrapped(secret, before[0], _holder(*_HANDOVER_HOLDER), HANDOVER, said))

    def _take_over(self) -> None:
        """Keep the master key that another machine has made, and none that is not used any more."""
        found = self._ring.get(HANDOVER) if self._ring.is_shared else None
        if found is None or not self._masters.has(found.master_version):
            return  # Done before, or made here; or too old: what is missing then is said when it is needed.
        secret = self._masters.get(found.master_version) + self._operator_secret()
        said = _opened(
            _aes(_kek(secret, found.salt, found.holder)), found.wrapped, HANDOVER.encode()
        )
        (version,), key = _VERSION.unpack_from(said), said[_VERSION.size :]
        # One of the same number may be left here of a rotation that came to nothing.
        if not self._masters.has(version) or self._masters.get(version) != key:
            self._masters.adopt(version, key)
        if (used := self._ring.master_versions()) is not None:
            self._masters.retire_before(used[0])

    def follow(self) -> None:
        with self._lock:
            self._refresh()

    def close(self) -> None:
        with self._lock:
            self._ring.close()

    def _refresh(self, changes: int | None = None) -> None:
        """Forget cached keys when another process has changed the ring: it may have destroyed one.

        `changes` is what a snapshot of the ring's own database tells of it; what was seen since is newer.
        """
        version = self._ring.token() if changes is None else max(changes, self._seen)
        self.changes += version != self._seen
        if version != self._seen or len(self._keys) > _CACHE_LIMIT:
            self._keys.clear()
            self._ids.clear()
        if version != self._seen:
            self._take_over()
        self._seen = version

    def _find(self, holder: bytes) -> str | None:
        found = self._ring.find(holder)
        if found is not None:
            self._ids[holder] = found
        return found

    def _make(self, holder: bytes) -> str:
        with self._ring.changing():
            # Another process may have been first.
            if (known := self._find(holder)) is not None:
                return known
            version, master = self._newest_master()
            key_id = secrets.token_hex(16)
            self._ring.put(_wrapped(master, version, holder, key_id, os.urandom(KEY_BYTES)))
        self._ids[holder] = key_id
        return key_id

    def _newest_master(self) -> tuple[int, bytes]:
        """The master key to wrap under: the one that is in use, which the others have, too.

        The first one is made here; beside old data keys that would hide that theirs is missing.
        """
        used = self._ring.master_versions()
        if used is None:
            return self._masters.current()
        self._take_over()
        return used[1], self._masters.get(used[1])

    def _master(self, version: int) -> bytes:
        if not self._masters.has(version):
            self._take_over()
        return self._masters.get(version)

    def _data_key(self, key_id: str, changes: int | None = None) -> bytes | None:
        with self._lock:
            self._refresh(changes)
            return self._known(key_id)

    def _known(self, key_id: str) -> bytes | None:
        if key_id not in self._keys:
            found = self._ring.get(key_id)
            if found is None:
                raise StoreUnavailable(
                    "the key ring lacks a key that this store needs; restore it from a backup"
                )
            if not found.wrapped:
                return None
            self._keys[key_id] = self._unwrapped(found)
        return self._keys[key_id]

    def _unwrapped(self, key: WrappedKey) -> bytes:
        master = self._master(key.master_version)
        try:
            return _opened(
                _aes(_kek(master, key.salt, key.holder)), key.wrapped, key.key_id.encode()
            )
        except StoreCorrupt:
            raise StoreCorrupt(
                "a key of the key ring was changed, or the master key is another one"
            ) from None


class _RingSealer:
    """Remembers the keys it has used."""

    def __init__(self, ring: RingCipher, changes: int | None) -> None:
        self._ring, self._changes = ring, changes
        self._ids: dict[tuple[str, str], str | None] = {}
        self._ciphers: dict[str, AESGCM] = {}

    def key_for(self, tenant: str, user: str) -> str | None:
        holder = (tenant, user)
        if holder not in self._ids:
            self._ids[holder] = self._ring.key_for(tenant, user, self._changes)
        return self._ids[holder]

    def seal(self, key_id: str, data: bytes, bound: bytes) -> bytes:
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            cipher = self._ciphers[key_id] = _aes(self._ring.sealing_key(key_id, self._changes))
        return _sealed(cipher, data, bound)


def _holder(tenant: str, user: str) -> bytes:
    # Enough to find the key again, and not the name itself.
    return hashlib.blake2b(
        f"{tenant}\x00{user}".encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def _wrapped(master: bytes, version: int, holder: bytes, key_id: str, key: bytes) -> WrappedKey:
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
    wrapped = (
        _FORMAT + nonce + _aes(_kek(master, salt, holder)).encrypt(nonce, key, key_id.encode())
    )
    return WrappedKey(key_id, holder, version, salt, wrapped)


def _kek(master: bytes, salt: bytes, holder: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"memoranda user key\x00" + holder
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(master)


def _sealed(cipher: AESGCM, data: bytes, bound: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return _FORMAT + nonce + cipher.encrypt(nonce, data, bound)


def _opened(cipher: AESGCM, data: bytes, bound: bytes) -> bytes:
    if not data.startswith(_FORMAT):
        raise StoreCorrupt("an encrypted document has an unknown format")
    nonce, sealed = data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :]
    if len(sealed) < TAG_BYTES:
        raise StoreCorrupt("an encrypted document was cut off")
    try:
        return cipher.decrypt(nonce, sealed, bound)
    except _invalid_tag():
        raise StoreCorrupt("an encrypted document was changed, or belongs somewhere else") from None


def _invalid_tag() -> type[Exception]:
    # Asked for only when something was raised.
    from cryptography.exceptions import InvalidTag

    return InvalidTag


def _aes(key: bytes) -> AESGCM:
    # Loaded when it is first needed: most local commands meet no encrypted document.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
