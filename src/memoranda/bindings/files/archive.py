"""The archive of a backup: a tar whose last member is a manifest, encrypted if there is a passphrase.

Any `tar` can unpack a plain archive. An encrypted one is the same tar in chunks of 1 MiB, each encrypted with
AES-256-GCM under a key that scrypt derives from the passphrase. The nonce of a chunk has its number, and a bit for the
last one, so that a truncated archive and missing or exchanged chunks are detected. Writing and reading hold at most two
chunks in memory.

    header   magic, scrypt cost (1 byte), salt (16), nonce prefix (7), check value of the passphrase (16)
    chunk    ciphertext of up to 1 MiB, tag (16)
    nonce    nonce prefix (7), number of the chunk (4), 1 for the last chunk (1)

Reading is strict because a backup may come from anywhere: sizes are limited, names are not paths, unknown members are
refused, and the digest of every member is checked against the manifest before anything is used. Scrypt's cost is
limited, too, so that a hostile header cannot keep the processor busy for hours.
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
# Bytes; a manifest has about 100 for each file.
MAX_MANIFEST_BYTES: Final = 4 * 1_048_576
_MAGIC: Final = b"memoranda backup 1\n"
_SALT_BYTES, _PREFIX_BYTES, _CHECK_BYTES, _TAG_BYTES = 16, 7, 16, 16
_HEADER_BYTES: Final = len(_MAGIC) + 1 + _SALT_BYTES + _PREFIX_BYTES + _CHECK_BYTES
# Bytes of one encrypted chunk, and of one read.
CHUNK_BYTES: Final = 1_048_576
# The cost of one guess of the passphrase, as a power of two: 128 MiB of memory and some tenths of a second.
SCRYPT_COST: Final = 17
# The highest cost accepted from a file: a gibibyte of memory.
_MAX_COST: Final = 20
# Raised by tarfile for damaged headers: it converts numbers unchecked, and recurses for each extended header.
_TAR_ERRORS: Final = (
    tarfile.TarError,
    EOFError,
    ValueError,
    LookupError,
    OverflowError,
    RecursionError,
)

Progress = Callable[[int], None]


class Target(Protocol):
    """A file that a member is written to; entered before, and left when the member is complete."""

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
    """A file to be archived, and its name in the archive."""

    name: str
    path: Path


class ManifestEntry(NamedTuple):
    """The size and digest of a file in the manifest of an archive."""

    size: int
    sha256: str


# --- writing ---------------------------------------------------------------------------------------------------


def write_archive(
    file: IO[bytes],
    members: list[Member],
    about: Mapping[str, object],
    *,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> dict[str, ManifestEntry]:
    """Write the files and the manifest, which also has the fields `about`; return the entries of the files.

    `about` are facts for the manifest, such as the version and the time. `progress` gets the number of bytes so far.
    """
    entries: dict[str, ManifestEntry] = {}
    sink = file if passphrase is None else _EncryptedWriter(file, passphrase)
    with tarfile.open(fileobj=sink, mode="w|", bufsize=CHUNK_BYTES) as tar:
        copied_bytes = 0
        for member in members:
            with member.path.open("rb") as source:
                size = source.seek(0, io.SEEK_END)
                source.seek(0)
                hashing = _Hashing(source, copied_bytes, progress)
                tar.addfile(_tar_entry(member.name, size), hashing)
                entries[member.name] = ManifestEntry(size, hashing.digest.hexdigest())
                copied_bytes += size
        files = {
            name: {"bytes": size, "sha256": digest} for name, (size, digest) in entries.items()
        }
        manifest = dump_pretty({**about, "files": files}).encode()
        tar.addfile(_tar_entry(MANIFEST, len(manifest)), io.BytesIO(manifest))
    if isinstance(sink, _EncryptedWriter):
        sink.end()
    return entries


def _tar_entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


class _Hashing:
    """A file that is hashed while it is read, and reports progress."""

    def __init__(self, file: IO[bytes], before: int, progress: Progress | None) -> None:
        self.digest = hashlib.sha256()
        self._file, self._read_bytes, self._progress = file, before, progress

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        self._read_bytes += len(data)
        if self._progress:
            self._progress(self._read_bytes)
        return data


class _EncryptedWriter(io.RawIOBase):
    """A stream that encrypts the bytes written to it, chunk by chunk."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        salt, prefix = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_PREFIX_BYTES)
        key, check = _derive_key(passphrase, salt, SCRYPT_COST)
        self._header = _MAGIC + bytes([SCRYPT_COST]) + salt + prefix + check
        self._cipher, self._prefix, self._number = AESGCM(key), prefix, 0
        self._buffer = bytearray()
        self._file = file
        file.write(self._header)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._buffer += data
        # The last chunk has another nonce, so a full buffer waits until there are more bytes, or the end.
        while len(self._buffer) > CHUNK_BYTES:
            self._encrypt_chunk(bytes(self._buffer[:CHUNK_BYTES]), is_last=False)
            del self._buffer[:CHUNK_BYTES]
        return len(data)

    def end(self) -> None:
        self._encrypt_chunk(bytes(self._buffer), is_last=True)

    def _encrypt_chunk(self, chunk: bytes, *, is_last: bool) -> None:
        self._file.write(
            self._cipher.encrypt(_nonce(self._prefix, self._number, is_last), chunk, self._header)
        )
        self._number += 1


def _derive_key(passphrase: str, salt: bytes, cost: int) -> tuple[bytes, bytes]:
    """Return the key, and a check value that tells a wrong passphrase from a damaged file."""
    derived = Scrypt(salt=salt, length=64, n=1 << cost, r=8, p=1).derive(passphrase.encode())
    return derived[:32], hashlib.sha256(derived[32:]).digest()[:_CHECK_BYTES]


def _nonce(prefix: bytes, number: int, is_last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([is_last])


# --- reading ---------------------------------------------------------------------------------------------------


def is_encrypted(path: Path) -> bool:
    """Return True if an archive is encrypted."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_archive(
    file: IO[bytes],
    open_target: Callable[[str], Target | None],
    *,
    passphrase: str | None = None,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Read an archive, compare its files with the manifest, and return the manifest.

    `open_target` returns the file to write a member to, or None to only check it. Raises StoreCorrupt for a damaged
    archive, and InvalidInput for a missing or wrong passphrase; files written before the error must not be used.
    """
    entries: dict[str, ManifestEntry] = {}
    try:
        with tarfile.open(
            fileobj=_open_decrypted(file, passphrase), mode="r|", bufsize=CHUNK_BYTES
        ) as tar:
            copied_bytes = 0
            for entry in tar:
                # A sparse member claims to be larger than the archive.
                is_plain = entry.isreg() and not entry.issparse()
                source = tar.extractfile(entry) if is_plain else None
                if source is None:
                    raise _damage_error()
                if entry.name == MANIFEST:
                    return _check_manifest(source.read(MAX_MANIFEST_BYTES), entries)
                hashing = _Hashing(source, copied_bytes, progress)
                _copy(hashing, open_target(entry.name))
                entries[entry.name] = ManifestEntry(entry.size, hashing.digest.hexdigest())
                copied_bytes += entry.size
    except _TAR_ERRORS:
        raise _damage_error() from None
    raise _damage_error()


def _damage_error() -> StoreCorrupt:
    return StoreCorrupt("cut short or damaged, or not a backup of Memoranda")


def _copy(source: _Hashing, target: Target | None) -> None:
    with ExitStack() as stack:
        if target is not None:
            stack.enter_context(target)
        while data := source.read(CHUNK_BYTES):
            if target is not None:
                target.write(data)


def _check_manifest(manifest: bytes, entries: Mapping[str, ManifestEntry]) -> dict[str, Any]:
    """Return a parsed manifest. Raises StoreCorrupt unless it lists exactly the files that were read."""
    try:
        document: dict[str, Any] = parse(manifest)
        expected = {
            name: ManifestEntry(file["bytes"], file["sha256"])
            for name, file in document["files"].items()
        }
    except (MemorandaError, LookupError, TypeError, AttributeError):
        raise _damage_error() from None
    if expected != entries:
        raise _damage_error()
    return document


def _open_decrypted(file: IO[bytes], passphrase: str | None) -> IO[bytes]:
    """Return a stream of the tar in an archive: the file, or a reader that decrypts it."""
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
    cost, salt_start = start[len(_MAGIC)], len(_MAGIC) + 1
    if cost > _MAX_COST:
        raise _damage_error()
    salt_end = salt_start + _SALT_BYTES
    salt, prefix = start[salt_start:salt_end], start[salt_end : salt_end + _PREFIX_BYTES]
    key, check = _derive_key(passphrase, salt, cost)
    if not secrets.compare_digest(check, start[-_CHECK_BYTES:]):
        raise InvalidInput("wrong passphrase for this backup")
    return io.BufferedReader(_EncryptedReader(file, AESGCM(key), prefix, start), CHUNK_BYTES)


class _EncryptedReader(io.RawIOBase):
    """A stream of the bytes that were encrypted in chunks."""

    def __init__(self, file: IO[bytes], cipher: AESGCM, prefix: bytes, header: bytes) -> None:
        self._file, self._cipher, self._prefix, self._header = file, cipher, prefix, header
        self._number = 0
        self._next = file.read(CHUNK_BYTES + _TAG_BYTES)
        self._buffer = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._buffer and self._next:
            self._buffer = memoryview(self._decrypt_next())
        data = self._buffer[: len(buffer)]
        self._buffer = self._buffer[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def _decrypt_next(self) -> bytes:
        encrypted, self._next = self._next, self._file.read(CHUNK_BYTES + _TAG_BYTES)
        nonce = _nonce(self._prefix, self._number, not self._next)
        self._number += 1
        try:
            return self._cipher.decrypt(nonce, encrypted, self._header)
        except InvalidTag:
            raise _damage_error() from None
