"""Encryption at rest: AES-256-GCM under a data key for each user, and keys that can be destroyed.

    master key   a file beside the store, readable by its owner alone; several versions, one current
    user's KEK   HKDF-SHA256(master key, salt of the user, "memoranda user key" + tenant + user)
    data key     32 random bytes for each user, wrapped with AES-256-GCM under the user's KEK, in the key ring
    document     0x01 ‖ 12-byte nonce ‖ AES-256-GCM(data key, document), bound to tenant and name

The key ring is a file of its own, so that a copy of the database alone can never be read. Destroying a user's data
key therefore erases the user's documents in every copy of the database at once. Rotating the master key wraps the
data keys anew; documents stay as they are. Users are named in the ring by a keyed fingerprint only.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from memoranda.errors import StoreCorrupt
from memoranda.storage.sqlite import open_private

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# users: documents that name a user are encrypted. all: the others too, under a key of their tenant.
Coverage = Literal["users", "all"]

KEY_BYTES, SALT_BYTES, NONCE_BYTES = 32, 32, 12
_FORMAT = b"\x01"
_CACHE_LIMIT = 4_096

_SCHEMA = """
CREATE TABLE IF NOT EXISTS data_key (
  key_id         TEXT PRIMARY KEY,
  holder         BLOB NOT NULL,
  master_version INTEGER NOT NULL,
  salt           BLOB NOT NULL,
  wrapped        BLOB NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS data_key_holder ON data_key (holder);
"""


class Cipher(Protocol):
    """What the store asks of encryption."""

    def key_for(self, tenant: str, user: str, /) -> str | None:
        """The id of the key to encrypt with, made when it is first needed; None for no encryption."""
        ...

    def seal(self, key_id: str, data: bytes, bound: bytes, /) -> bytes: ...

    def open(self, key_id: str, data: bytes, bound: bytes, /) -> bytes | None:
        """The data; None when the key was destroyed. Raises StoreCorrupt when the data was changed."""
        ...

    def destroy(self, tenant: str, user: str, /) -> bool: ...

    def rotate(self) -> int: ...

    def close(self) -> None: ...


class NoCipher:
    """Documents as they are."""

    def key_for(self, _tenant: str, _user: str, /) -> str | None:
        return None

    def seal(self, _key_id: str, _data: bytes, _bound: bytes, /) -> bytes:
        raise StoreCorrupt("this store has no key ring")

    def open(self, _key_id: str, _data: bytes, _bound: bytes, /) -> bytes | None:
        raise StoreCorrupt("a document is encrypted, but this store was opened without its key ring")

    def destroy(self, _tenant: str, _user: str, /) -> bool:
        return False

    def rotate(self) -> int:
        return 0

    def close(self) -> None:
        pass


class MasterKeys(Protocol):
    """Where master keys are kept."""

    def current(self) -> tuple[int, bytes]: ...

    def get(self, version: int) -> bytes: ...

    def add(self) -> tuple[int, bytes]:
        """Make a new one and let it be the current one."""
        ...

    def retire_before(self, version: int) -> None:
        """Forget older ones; nothing is wrapped under them any more."""
        ...


class RingCipher:
    """A key ring in a small SQLite file."""

    def __init__(self, path: Path | None, masters: MasterKeys, coverage: Coverage | None) -> None:
        """Without a coverage nothing new is encrypted, but what is can still be read."""
        self._masters = masters
        self._coverage = coverage
        self._lock = threading.RLock()
        self._keys: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._seen = -1
        self._raw = open_private(path)
        self._raw.execute(_SCHEMA)

    def key_for(self, tenant: str, user: str) -> str | None:
        if self._coverage is None or (not user and self._coverage == "users"):
            return None
        holder = _holder(tenant, user)
        with self._lock:
            self._refresh()
            return self._ids.get(holder) or self._find(holder) or self._make(holder)

    def seal(self, key_id: str, data: bytes, bound: bytes) -> bytes:
        key = self._data_key(key_id)
        if key is None:
            raise StoreCorrupt("the data key was destroyed while it was used")
        nonce = os.urandom(NONCE_BYTES)
        return _FORMAT + nonce + _aes(key).encrypt(nonce, data, bound)

    def open(self, key_id: str, data: bytes, bound: bytes) -> bytes | None:
        key = self._data_key(key_id)
        return None if key is None else _opened(key, data, bound)

    def destroy(self, tenant: str, user: str) -> bool:
        with self._lock:
            self._keys.clear()
            self._ids.clear()
            self._raw.execute("DELETE FROM data_key WHERE holder = ?", (_holder(tenant, user),))
            destroyed = self._raw.changes() > 0
            # The old page must not survive in the log either.
            self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return destroyed

    def rotate(self) -> int:
        """All wrapped anew in one transaction; the old master key goes only after that is durable."""
        with self._lock:
            version, master = self._masters.add()
            self._raw.execute("BEGIN IMMEDIATE")
            try:
                rows = self._raw.execute(
                    "SELECT key_id, holder, master_version, salt, wrapped FROM data_key"
                ).fetchall()
                for row in rows:
                    key_id, holder, old_version, salt, wrapped = _row(*row)
                    key = _opened(_kek(self._masters.get(old_version), salt, holder), wrapped, key_id.encode())
                    fresh_salt, fresh = _wrapped(master, holder, key_id, key)
                    self._raw.execute(
                        "UPDATE data_key SET master_version = ?, salt = ?, wrapped = ? WHERE key_id = ?",
                        (version, fresh_salt, fresh, key_id),
                    )
                self._raw.execute("COMMIT")
            except BaseException:
                self._raw.execute("ROLLBACK")
                raise
            self._masters.retire_before(version)
            return len(rows)

    def close(self) -> None:
        with self._lock:
            self._raw.close()

    def _refresh(self) -> None:
        """Forget cached keys when another process has changed the ring: it may have destroyed one."""
        found = self._raw.execute("PRAGMA data_version").fetchone()
        version = int(found[0]) if found else 0
        if version != self._seen or len(self._keys) > _CACHE_LIMIT:
            self._keys.clear()
            self._ids.clear()
            self._seen = version

    def _find(self, holder: bytes) -> str | None:
        found = self._raw.execute("SELECT key_id FROM data_key WHERE holder = ?", (holder,)).fetchone()
        if found is not None:
            self._ids[holder] = str(found[0])
        return self._ids.get(holder)

    def _make(self, holder: bytes) -> str:
        version, master = self._masters.current()
        key_id = secrets.token_hex(16)
        salt, wrapped = _wrapped(master, holder, key_id, os.urandom(KEY_BYTES))
        self._raw.execute(
            "INSERT INTO data_key (key_id, holder, master_version, salt, wrapped) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (key_id, holder, version, salt, wrapped),
        )
        # Another process may have been first.
        made = self._find(holder)
        assert made is not None
        return made

    def _data_key(self, key_id: str) -> bytes | None:
        with self._lock:
            self._refresh()
            if key_id not in self._keys:
                query = "SELECT key_id, holder, master_version, salt, wrapped FROM data_key WHERE key_id = ?"
                found = self._raw.execute(query, (key_id,)).fetchone()
                if found is None:
                    return None
                _, holder, version, salt, wrapped = _row(*found)
                self._keys[key_id] = _opened(_kek(self._masters.get(version), salt, holder), wrapped, key_id.encode())
            return self._keys[key_id]


def _row(key_id: Any, holder: Any, version: Any, salt: Any, wrapped: Any) -> tuple[str, bytes, int, bytes, bytes]:
    return str(key_id), bytes(holder), int(version), bytes(salt), bytes(wrapped)


def _holder(tenant: str, user: str) -> bytes:
    # Enough to find the key again, and not the name itself.
    return hashlib.blake2b(f"{tenant}\x00{user}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _wrapped(master: bytes, holder: bytes, key_id: str, key: bytes) -> tuple[bytes, bytes]:
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
    return salt, _FORMAT + nonce + _aes(_kek(master, salt, holder)).encrypt(nonce, key, key_id.encode())


def _kek(master: bytes, salt: bytes, holder: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"memoranda user key\x00" + holder
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=salt, info=info).derive(master)


def _opened(key: bytes, data: bytes, bound: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    if not data.startswith(_FORMAT):
        raise StoreCorrupt("an encrypted document has an unknown format")
    nonce, sealed = data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :]
    try:
        return _aes(key).decrypt(nonce, sealed, bound)
    except InvalidTag:
        raise StoreCorrupt("an encrypted document was changed, or belongs somewhere else") from None


def _aes(key: bytes) -> AESGCM:
    # Loaded when it is first needed: most local commands meet no encrypted document.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
