"""An archive of files: a tar that ends with a list of what is in it, encrypted if a passphrase is given.

A plain archive can be unpacked by any `tar`. An encrypted one is that tar in pieces of 1 MiB, each sealed with
AES-256-GCM under a key that scrypt makes of the passphrase; number and end are part of every nonce, so that pieces
that were cut off, left out or exchanged are noticed. Neither writing nor reading holds more than a piece or two in
memory.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import tarfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from memoranda.encoding.json_text import dump_pretty, parse
from memoranda.errors import InvalidInput, MemorandaError, StoreCorrupt

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 4 * 1_048_576
_MAGIC: Final = b"memoranda backup 1\n"
_SALT_BYTES, _PREFIX_BYTES, _CHECK_BYTES, _TAG_BYTES = 16, 7, 16, 16
_HEADER_BYTES: Final = len(_MAGIC) + 1 + _SALT_BYTES + _PREFIX_BYTES + _CHECK_BYTES
PIECE_BYTES: Final = 1_048_576
# What a guess of the passphrase costs, as a power of two: 128 MiB and some tenths of a second each.
SCRYPT_COST: Final = 17
_MOST_COST: Final = 20

Progress = Callable[[int], None]


class Target(Protocol):
    """What a member is written to; it is entered before and left after."""

    def write(self, data: bytes, /) -> object: ...

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None: ...


class Member(NamedTuple):
    """One file that is to go into an archive."""

    name: str
    path: Path


class ManifestEntry(NamedTuple):
    """What the list at the end of an archive says of one file."""

    size: int
    sha256: str


# --- writing ---------------------------------------------------------------------------------------------------


def write(
    file: IO[bytes],
    members: list[Member],
    about: Mapping[str, Any],
    *,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> dict[str, ManifestEntry]:
    """Write the files and the list of them; what the list says."""
    listed: dict[str, ManifestEntry] = {}
    sink = file if passphrase is None else _EncryptedWriter(file, passphrase)
    with tarfile.open(fileobj=sink, mode="w|", bufsize=PIECE_BYTES) as tar:
        done = 0
        for member in members:
            with member.path.open("rb") as source:
                size = source.seek(0, io.SEEK_END)
                source.seek(0)
                hashing = _Hashing(source, done, progress)
                tar.addfile(_tar_entry(member.name, size), hashing)
                listed[member.name] = ManifestEntry(size, hashing.digest.hexdigest())
                done += size
        files = {name: {"bytes": size, "sha256": digest} for name, (size, digest) in listed.items()}
        manifest = dump_pretty({**about, "files": files}).encode()
        tar.addfile(_tar_entry(MANIFEST, len(manifest)), io.BytesIO(manifest))
    if isinstance(sink, _EncryptedWriter):
        sink.end()
    return listed


def _tar_entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


class _Hashing:
    """A file that is read once, with the digest of what was read."""

    def __init__(self, file: IO[bytes], before: int, progress: Progress | None) -> None:
        self.digest = hashlib.sha256()
        self._file, self._done, self._progress = file, before, progress

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        self._done += len(data)
        if self._progress:
            self._progress(self._done)
        return data


class _EncryptedWriter(io.RawIOBase):
    """Takes bytes of any number and writes sealed pieces."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        salt, prefix = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_PREFIX_BYTES)
        key, check = _derive_key(passphrase, salt, SCRYPT_COST)
        self._header = _MAGIC + bytes([SCRYPT_COST]) + salt + prefix + check
        self._cipher, self._prefix, self._number = AESGCM(key), prefix, 0
        self._held = bytearray()
        self._file = file
        file.write(self._header)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._held += data
        # One piece is held back: which is the last is known at the end.
        while len(self._held) > PIECE_BYTES:
            self._seal(bytes(self._held[:PIECE_BYTES]), is_last=False)
            del self._held[:PIECE_BYTES]
        return len(data)

    def end(self) -> None:
        self._seal(bytes(self._held), is_last=True)

    def _seal(self, piece: bytes, *, is_last: bool) -> None:
        self._file.write(
            self._cipher.encrypt(_nonce(self._prefix, self._number, is_last), piece, self._header)
        )
        self._number += 1


def _derive_key(passphrase: str, salt: bytes, cost: int) -> tuple[bytes, bytes]:
    """The key, and what tells a wrong passphrase from a damaged file."""
    made = Scrypt(salt=salt, length=64, n=1 << cost, r=8, p=1).derive(passphrase.encode())
    return made[:32], hashlib.sha256(made[32:]).digest()[:_CHECK_BYTES]


def _nonce(prefix: bytes, number: int, is_last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([is_last])


# --- reading ---------------------------------------------------------------------------------------------------


def is_encrypted(path: Path) -> bool:
    """Whether a passphrase is needed to read the archive."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read(
    file: IO[bytes],
    open_target: Callable[[str], Target | None],
    *,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Read all of an archive and compare it with its list, which is returned.

    `place` gives the file that a member is to be written to, or None to look at it only. Raises StoreCorrupt or
    InvalidInput; what was written by then is not to be used.
    """
    found: dict[str, ManifestEntry] = {}
    try:
        with tarfile.open(
            fileobj=_open_decrypted(file, passphrase), mode="r|", bufsize=PIECE_BYTES
        ) as tar:
            done = 0
            for entry in tar:
                source = tar.extractfile(entry) if entry.isreg() else None
                if source is None:
                    raise _damage_error()
                if entry.name == MANIFEST:
                    return _check_manifest(source.read(MAX_MANIFEST_BYTES), found)
                hashing = _Hashing(source, done, progress)
                _copy(hashing, open_target(entry.name))
                found[entry.name] = ManifestEntry(entry.size, hashing.digest.hexdigest())
                done += entry.size
    except (tarfile.TarError, EOFError):
        raise _damage_error() from None
    raise _damage_error()


def _damage_error() -> StoreCorrupt:
    return StoreCorrupt("cut short or damaged, or not a backup of Memoranda")


def _copy(source: _Hashing, target: Target | None) -> None:
    with ExitStack() as stack:
        if target is not None:
            stack.enter_context(target)
        while data := source.read(PIECE_BYTES):
            if target is not None:
                target.write(data)


def _check_manifest(manifest: bytes, entries: Mapping[str, ManifestEntry]) -> dict[str, Any]:
    try:
        stated: dict[str, Any] = parse(manifest)
        listed = {
            name: ManifestEntry(each["bytes"], each["sha256"])
            for name, each in stated["files"].items()
        }
    except (MemorandaError, LookupError, TypeError, AttributeError):
        raise _damage_error() from None
    if listed != entries:
        raise _damage_error()
    return stated


def _open_decrypted(file: IO[bytes], passphrase: str | None) -> IO[bytes]:
    start = file.read(_HEADER_BYTES)
    if not start.startswith(_MAGIC):
        if start.startswith(_MAGIC[: len(start)]):
            raise _damage_error()
        file.seek(0)
        return file
    if passphrase is None:
        raise InvalidInput("the backup is encrypted: its passphrase is needed")
    if len(start) < _HEADER_BYTES:
        raise _damage_error()
    cost, rest = start[len(_MAGIC)], start[len(_MAGIC) + 1 :]
    if cost > _MOST_COST:
        raise _damage_error()
    salt, prefix = rest[:_SALT_BYTES], rest[_SALT_BYTES : _SALT_BYTES + _PREFIX_BYTES]
    key, check = _derive_key(passphrase, salt, cost)
    if not secrets.compare_digest(check, start[-_CHECK_BYTES:]):
        raise InvalidInput("that is not the passphrase of this backup")
    return io.BufferedReader(_EncryptedReader(file, AESGCM(key), prefix, start), PIECE_BYTES)


class _EncryptedReader(io.RawIOBase):
    """What is inside sealed pieces."""

    def __init__(self, file: IO[bytes], cipher: AESGCM, prefix: bytes, header: bytes) -> None:
        self._file, self._cipher, self._prefix, self._header = file, cipher, prefix, header
        self._number = 0
        self._next = file.read(PIECE_BYTES + _TAG_BYTES)
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._held and self._next:
            self._held = memoryview(self._piece())
        data = self._held[: len(buffer)]
        self._held = self._held[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def _piece(self) -> bytes:
        sealed, self._next = self._next, self._file.read(PIECE_BYTES + _TAG_BYTES)
        nonce = _nonce(self._prefix, self._number, not self._next)
        self._number += 1
        try:
            return self._cipher.decrypt(nonce, sealed, self._header)
        except InvalidTag:
            raise _damage_error() from None
