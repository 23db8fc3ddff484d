"""Key files: written atomically, and readable by their owner alone.

A key file must be complete or absent, also after a power cut: it is written under another name, synchronised, and then
linked or renamed. Of several processes that create the same key at the same time, one wins and the others read its
file. A key file that others can read is refused with an error and is never repaired silently: the key may be known
already.

Losing the master key makes every document that is encrypted with it unreadable, so keys are replaced in this order: add
the new one, encrypt the data keys again, then delete the earlier ones.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from memoranda.encoding.bases import base64_decode, base64_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.encoding.json_text import dump_pretty, parse
from memoranda.errors import MemorandaError, StoreUnavailable, words_of

KEY_BYTES = 32
OPERATOR_KEY_FILE = "operator.key"
OWNER_CREDENTIAL_FILE = "owner.credential"
# Folders in the data directory for a backup and a restore at work, locked until the process ends.
BACKUP_PREFIX = ".backup-"
RESTORE_PREFIX = ".restore-"
# The folder with documents of did:web.
DID_FOLDER = "dids"


def write_private_once(path: Path, text: str) -> None:
    """Write a complete file with mode 0600, unless another process has written it first."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    sync_folder(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Replace a file with one of mode 0600; readers see the old or the new file, never a part."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_private_once(draft, text)
    draft.replace(path)
    sync_folder(path.parent)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from changing the key files of a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a new file name durable: if a power cut lost a key, the memories encrypted with it would be lost too."""
    with suppress(OSError):  # some systems cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def refuse_readable_by_others(path: Path) -> None:
    """Raise StoreUnavailable if anyone but the owner can read the file."""
    if path.stat().st_mode & 0o077:
        raise StoreUnavailable(
            f"others can read {path.name}: make it yours alone with `chmod 600`", path=path
        )


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can open. Raises StoreUnavailable."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"this folder cannot be created: {words_of(error)}", path=folder
        ) from error


def operator_key(home: Path) -> SigningKey:
    """Return the operator's Ed25519 key, made on first use. Raises StoreUnavailable."""
    path = home / OPERATOR_KEY_FILE
    if not path.exists():
        make_private_folder(home)
        seed = base64_encode(secrets.token_bytes(32))
        write_private_once(path, dump_pretty({"kind": "ed25519", "seed": seed}) + "\n")
    refuse_readable_by_others(path)
    try:
        return SigningKey(base64_decode(parse(path.read_bytes())["seed"]))
    except (KeyError, TypeError, ValueError, MemorandaError):
        raise StoreUnavailable(
            "the operator key file is damaged; restore it from a backup", path=path
        ) from None


class MasterKeyFile:
    """The master keys of encryption at rest, by version; in memory only when there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        # The keys by version, where there is no file.
        self._in_memory: dict[int, bytes] = {}

    def current(self) -> tuple[int, bytes]:
        """Return the newest key with its version, made on first use."""
        keys = self._load() or self._create_first()
        newest = max(keys)
        return newest, keys[newest]

    def get(self, version: int) -> bytes:
        """Return the key of a version. Raises StoreUnavailable."""
        keys = self._load()
        if version not in keys:
            raise StoreUnavailable(
                "the master key that wraps a data key is missing; restore master.key from a backup, "
                "or copy it from a machine that shares the store"
            )
        return keys[version]

    def has(self, version: int) -> bool:
        """Return True if the file holds this version."""
        return version in self._load()

    def adopt(self, version: int, key: bytes) -> None:
        """Add a key that another machine made."""
        with self._locked():
            self._write({**self._load(), version: key})

    def add(self) -> tuple[int, bytes]:
        """Make a new key, and return it with its version."""
        version = self.current()[0] + 1
        with self._locked():
            keys = {**self._load(), version: secrets.token_bytes(KEY_BYTES)}
            self._write(keys)
        return version, keys[version]

    def retire_before(self, version: int) -> None:
        """Delete the keys of earlier versions."""
        with self._locked():
            keys = self._load()
            current = {number: key for number, key in keys.items() if number >= version}
            if current != keys:
                self._write(current)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from changing the file."""
        with nullcontext() if self._path is None else locked_folder(self._path.parent):
            yield

    def _create_first(self) -> dict[int, bytes]:
        self._write({1: secrets.token_bytes(KEY_BYTES)}, once=True)
        return self._load()

    def _load(self) -> dict[int, bytes]:
        if self._path is None or not self._path.exists():
            return self._in_memory
        refuse_readable_by_others(self._path)
        try:
            wire = parse(self._path.read_bytes())["keys"]
            return {int(version): base64_decode(text) for version, text in wire.items()}
        except (KeyError, TypeError, ValueError, AttributeError, MemorandaError):
            message = "the master key file is damaged; restore it from a backup"
            raise StoreUnavailable(message, path=self._path) from None

    def _write(self, keys: dict[int, bytes], *, once: bool = False) -> None:
        if self._path is None:
            self._in_memory = keys
            return
        document = {
            "kind": "aes-256",
            "keys": {str(version): base64_encode(key) for version, key in keys.items()},
        }
        text = dump_pretty(document) + "\n"
        if once:
            write_private_once(self._path, text)
            return
        replace_private(self._path, text)
