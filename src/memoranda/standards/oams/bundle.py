"""Export bundles (section 7): their contents, and the checks before a reader trusts one.

    manifest.json      written last, so that a bundle with a manifest is complete
    memories.jsonl     one memory per line, sorted by created_at
    embeddings.bin     only if a memory has an embedding
    README.md          for people

The caller opens, names and moves the files; this module reads and writes their contents.

The specification says of embeddings.bin: packed float32 vectors, keyed by line offset. Our file is a sequence of
records without header, little-endian, in the order of the lines:

    8 bytes   the offset of the line in memories.jsonl, in bytes
    4 bytes   n, the count of numbers
    4n bytes  the numbers, float32

Both files are read in parallel, so reading and writing hold one vector at a time.

A bundle may come from anywhere: names of files are fixed, sizes and counts are limited and compared with the manifest,
and nothing outside of the folder is touched. A memory that cannot be read is reported with its line and does not stop
the others.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

import msgspec
from msgspec.structs import replace

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, Unsupported
from memoranda.model.instant import format_instant
from memoranda.standards.oams import lines
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.lines import (
    Line,
    Packed,
    ReadableLines,
    Scratch,
    Sorter,
    WritableLines,
)
from memoranda.standards.oams.markdown import code_span
from memoranda.standards.oams.memory import MAX_DIMENSIONS, Memory

# The name of this layout in a manifest.
LAYOUT: Final = "u64 line offset, u32 count, float32[count]; little-endian"

_HEAD: Final = struct.Struct("<QI")
# Bytes of a float32.
_FLOAT_BYTES: Final = 4


def write_vector(file: WritableLines, offset: int, packed: bytes) -> int:
    """Append the vector of the line at an offset; return the number of bytes written."""
    file.write(_HEAD.pack(offset, len(packed) // _FLOAT_BYTES) + packed)
    return _HEAD.size + len(packed)


def read_vectors(file: ReadableLines) -> Iterator[tuple[int, bytes]]:
    """Yield line offsets and packed vectors from the start. Raises InvalidInput for another layout."""
    file.seek(0)
    last = -1
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise InvalidInput("embeddings.bin is cut off")
        offset, count = _HEAD.unpack(head)
        if offset <= last or not 0 < count <= MAX_DIMENSIONS:
            raise InvalidInput("embeddings.bin does not have the layout that the manifest names")
        packed = file.read(count * _FLOAT_BYTES)
        if len(packed) < count * _FLOAT_BYTES:
            raise InvalidInput("embeddings.bin is cut off")
        last = offset
        yield offset, packed


def unpack_vector(packed: bytes) -> list[float]:
    """Return the numbers of a packed vector."""
    return list(struct.unpack(f"<{len(packed) // _FLOAT_BYTES}f", packed))


VERSION: Final = "0.1"
VENDOR: Final = "memoranda"
MANIFEST_NAME: Final = "manifest.json"
LINES_NAME: Final = "memories.jsonl"
VECTORS_NAME: Final = "embeddings.bin"
README_NAME: Final = "README.md"
# Our own member of the manifest: the layout and the checksum of embeddings.bin.
VECTORS_KEY: Final = "memoranda:embeddings"

# Bytes: a list of a hundred thousand namespaces.
MAX_MANIFEST_BYTES: Final = 16 * 1_048_576
# Bytes per read.
CHUNK_BYTES: Final = 1_048_576
# Namespaces listed in README.md.
_README_NAMESPACES: Final = 100

_SEMVER: Final = re.compile(
    r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,9})?(?:[-+][0-9A-Za-z.+-]{1,64})?", re.ASCII
)
_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})", re.ASCII)

Progress = Callable[[int], None]


# --- the manifest ------------------------------------------------------------------------------------


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest. Missing members are None; unknown ones are in `extra_members`."""

    oams_version: str = VERSION
    source_vendor: str = VENDOR
    exported_at: str | None = None
    namespaces: tuple[str, ...] | None = None
    memory_count: int | None = None
    embedding_model: str | None = None
    checksum_sha256: str | None = None
    extra_members: Mapping[str, Any] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_document(self) -> dict[str, object]:
        """Return the manifest as JSON."""
        return {
            # Section 8: MUST match the spec version a producer was built against.
            "oams_version": self.oams_version,
            "source_vendor": self.source_vendor,
            "exported_at": self.exported_at,
            "namespaces": list(self.namespaces or ()),
            "memory_count": self.memory_count,
            "embedding_model": self.embedding_model,
            "checksum_sha256": self.checksum_sha256,
            **self.extra_members,
        }

    def render(self) -> bytes:
        """Return the bytes of manifest.json."""
        return json_text.dump_pretty(self.to_document()).encode("utf-8") + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse manifest.json. Raises InvalidInput, or Unsupported for an incompatible version."""
        value = json_text.parse(data, max_bytes=MAX_MANIFEST_BYTES)
        if not isinstance(value, dict):
            raise InvalidInput("the manifest must be an object")
        warnings: list[str] = []
        manifest = cls(
            oams_version=check_version(value.get("oams_version"), warnings),
            source_vendor=_as_text(value.get("source_vendor")) or "unknown",
            exported_at=_as_text(value.get("exported_at")),
            namespaces=_parse_names(value.get("namespaces")),
            memory_count=_parse_count(value.get("memory_count")),
            embedding_model=_as_text(value.get("embedding_model")),
            checksum_sha256=_parse_checksum(value.get("checksum_sha256")),
            extra_members={name: member for name, member in value.items() if name not in _MEMBERS},
        )
        if manifest.checksum_sha256 is None:
            warnings.append(
                "the manifest has no checksum; changes of the memories cannot be detected"
            )
        if manifest.memory_count is None:
            warnings.append("the manifest has no memory_count; missing memories cannot be detected")
        return replace(manifest, warnings=tuple(warnings))


_MEMBERS: Final = (
    "oams_version",
    "source_vendor",
    "exported_at",
    "namespaces",
    "memory_count",
    "embedding_model",
    "checksum_sha256",
)


def check_version(value: object, warnings: list[str]) -> str:
    """Return a compatible version; append a warning for another MINOR version (section 8). Raises for others."""
    match = _SEMVER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput("oams_version must be a version such as 0.1")
    if match[1] != "0":
        raise Unsupported(f"the bundle has OAMS version {match[0]}; this Memoranda reads 0.x")
    if match[2] != "1":
        warnings.append(f"the bundle has OAMS version {match[0]}; it is read as {VERSION}")
    return match[0]


def _as_text(value: object) -> str | None:
    """Return the value if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def _parse_names(value: object) -> tuple[str, ...] | None:
    """Return an optional array of strings. Raises InvalidInput."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidInput("namespaces must be an array of strings")
    return tuple(value)


def _parse_count(value: object) -> int | None:
    """Return an optional non-negative integer. Raises InvalidInput."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput("memory_count must be a whole number")
    return value


def _parse_checksum(value: object) -> str | None:
    """Return an optional SHA-256 as lower-case hexadecimal. Raises InvalidInput."""
    if value is None:
        return None
    match = _SHA256.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput("checksum_sha256 must be a SHA-256 of 64 hexadecimal digits")
    return match[1].lower()


# --- writing -----------------------------------------------------------------------------------------


class BundleWriter:
    """A writer that collects memories and writes them sorted. It holds one sorted run in memory at a time."""

    def __init__(
        self, scratch: Scratch, *, inline_embeddings: bool = True, run_bytes: int = lines.RUN_BYTES
    ) -> None:
        self._sorter = Sorter(scratch, run_bytes=run_bytes)
        self._inline_embeddings = inline_embeddings
        self._namespaces: set[str] = set()
        self._models: set[str] = set()
        self.count = 0
        self.vector_count = 0

    def add(self, memory: Memory, raw: bytes | None = None) -> None:
        """Add a complete, checked memory. `raw` is its native document, which becomes the line.

        Section 5: source_id is not stripped; nothing is.
        """
        self._namespaces.add(memory["namespace"])
        line = (
            raw
            if raw is not None and b"\n" not in raw and b"\r" not in raw
            else json_text.dump(memory)
        )
        vector = b""
        if (embedding := memories.embedding_of(memory)) is not None:
            self.vector_count += 1
            self._models.add(embedding.model)
            vector = embedding.packed
            if not self._inline_embeddings:
                line = json_text.dump(
                    {name: member for name, member in memory.items() if name != "embedding"}
                )
        self._sorter.add(Packed(lines.sort_key_of(memory, self.count), line, vector))
        self.count += 1

    def write(
        self,
        lines_file: WritableLines,
        vectors_file: WritableLines | None,
        *,
        exported_at: int,
        progress: Progress | None = None,
    ) -> Manifest:
        """Write memories.jsonl and, if there are vectors, embeddings.bin; return the manifest for them."""
        assert vectors_file is not None or not self.vector_count
        checksum, vectors_checksum = hashlib.sha256(), hashlib.sha256()
        offset = 0
        for count, packed in enumerate(self._sorter.merge(), start=1):
            line = packed.line + b"\n"
            lines_file.write(line)
            checksum.update(line)
            if packed.vector and vectors_file is not None:
                write_vector(
                    _ChecksummedFile(vectors_file, vectors_checksum), offset, packed.vector
                )
            offset += len(line)
            if progress is not None:
                progress(count)
        extra_members = {}
        if self.vector_count:
            extra_members[VECTORS_KEY] = {
                "layout": LAYOUT,
                "count": self.vector_count,
                "checksum_sha256": vectors_checksum.hexdigest(),
            }
        return Manifest(
            exported_at=format_instant(exported_at),
            namespaces=tuple(sorted(self._namespaces)),
            memory_count=self.count,
            # The name of the model, if all embeddings are from the same one.
            embedding_model=next(iter(self._models)) if len(self._models) == 1 else None,
            checksum_sha256=checksum.hexdigest(),
            extra_members=extra_members,
        )


class _ChecksummedFile:
    """A file that updates a checksum with all bytes written to it."""

    def __init__(self, file: WritableLines, checksum: Any) -> None:
        self._file = file
        self._checksum = checksum

    def write(self, data: bytes, /) -> object:
        self._checksum.update(data)
        return self._file.write(data)


def render_readme(manifest: Manifest) -> str:
    """Return the contents of README.md."""
    namespaces = manifest.namespaces or ()
    namespace_lines = [f"- {code_span(namespace)}" for namespace in namespaces[:_README_NAMESPACES]]
    if len(namespaces) > _README_NAMESPACES:
        namespace_lines.append(
            f"- and {len(namespaces) - _README_NAMESPACES} more, all of them in `{MANIFEST_NAME}`"
        )
    summary = (
        f"{manifest.memory_count} memories, exported by {manifest.source_vendor} at {manifest.exported_at} as an "
        f"Open Agent Memory Standard {manifest.oams_version} bundle."
    )
    files = (
        f"`{LINES_NAME}` has one memory per line as JSON, oldest first. Its SHA-256 is `{manifest.checksum_sha256}`; "
        f"check it with `sha256sum {LINES_NAME}`. `{MANIFEST_NAME}` repeats this for programs."
    )
    namespace_list = (
        "Namespaces:\n\n" + "\n".join(namespace_lines)
        if namespace_lines
        else "There are no memories."
    )
    parts = ["# Exported memories", summary, namespace_list, files]
    layout = manifest.extra_members.get(VECTORS_KEY)
    if layout:
        parts.append(
            f"`{VECTORS_NAME}` has {layout['count']} embeddings as records without a header, little-endian, in the "
            f"order of the lines: 8 bytes for the offset of the line in `{LINES_NAME}`, 4 bytes for the count of "
            "numbers, and the numbers as float32."
        )
    return "\n\n".join(parts) + "\n"


# --- reading -----------------------------------------------------------------------------------------


class BundleReader:
    """A bundle. The caller opens its files, and keeps them open and unchanged while the reader is in use.

    No memory is returned before checksum, count and the layout of embeddings.bin are verified.
    """

    def __init__(
        self, manifest: bytes, lines_file: ReadableLines, vectors_file: ReadableLines | None = None
    ) -> None:
        self.warnings: list[str] = []
        with _prefix_errors(MANIFEST_NAME):
            self.manifest = Manifest.parse(manifest)
        self.warnings += self.manifest.warnings
        self._lines = lines_file
        self._vectors = vectors_file
        namespaces = self.manifest.namespaces
        self._known_namespaces = None if namespaces is None else frozenset(namespaces)
        self._is_checked = False

    def __iter__(self) -> Iterator[Line]:
        """Yield every line with its memory or its error. Raises InvalidInput for a bad bundle."""
        self.check()
        self._lines.seek(0)
        all_lines = lines.read_lines(self._lines)
        if self._vectors is not None:
            all_lines = self._join_vectors(all_lines)
        return map(self._annotate, all_lines)

    def check(self, progress: Progress | None = None) -> None:
        """Compare the files with the manifest, once. `progress` is called with bytes read. Raises InvalidInput."""
        if self._is_checked:
            return
        checksum, count = _checksum_file(self._lines, progress)
        manifest = self.manifest
        if manifest.memory_count is not None and manifest.memory_count != count:
            raise InvalidInput(
                f"{LINES_NAME} has {count} memories; the manifest says {manifest.memory_count}"
            )
        if manifest.checksum_sha256 is not None and not hmac.compare_digest(
            manifest.checksum_sha256, checksum
        ):
            raise InvalidInput(
                f"{LINES_NAME} was changed after the export: its checksum differs from the manifest's"
            )
        self._check_vectors(progress)
        self._is_checked = True

    def _check_vectors(self, progress: Progress | None) -> None:
        """Compare embeddings.bin with the manifest; ignore the file if its layout is unknown."""
        description = self.manifest.extra_members.get(VECTORS_KEY)
        if self._vectors is None:
            if description is not None:
                raise InvalidInput(f"{VECTORS_NAME} is missing; the manifest describes it")
            return
        if not isinstance(description, dict) or description.get("layout") != LAYOUT:
            # Section 7 leaves the layout open. A wrong guess would mix up vectors. Section 2: consumers MUST handle
            # absence.
            self.warnings.append(f"{VECTORS_NAME} has an unknown layout; it is ignored")
            self._vectors = None
            return
        checksum, _ = _checksum_file(self._vectors, progress)
        if description.get("checksum_sha256") != checksum:
            raise InvalidInput(
                f"{VECTORS_NAME} was changed after the export: its checksum differs from the manifest's"
            )
        count = sum(1 for _ in read_vectors(self._vectors))
        if count != description.get("count"):
            raise InvalidInput(
                f"{VECTORS_NAME} has {count} vectors; the manifest says {description.get('count')!r}"
            )

    def _join_vectors(self, all_lines: Iterator[Line]) -> Iterator[Line]:
        """Yield the lines; those without an embedding get theirs from embeddings.bin."""
        assert self._vectors is not None
        vectors_left = read_vectors(self._vectors)
        offset, packed = next(vectors_left, (-1, b""))
        for line in all_lines:
            while 0 <= offset < line.offset:
                offset, packed = next(vectors_left, (-1, b""))
            has_none = line.memory is not None and line.memory.get("embedding") is None
            yield (
                _with_vector(line, unpack_vector(packed))
                if has_none and offset == line.offset
                else line
            )

    def _annotate(self, line: Line) -> Line:
        """Add the file's name to an error, and a warning for an unexpected namespace."""
        if line.error is not None:
            _name_file(line.error, LINES_NAME)
        namespaces = self._known_namespaces
        if (
            line.memory is not None
            and namespaces is not None
            and line.memory["namespace"] not in namespaces
        ):
            return replace(line, warnings=(*line.warnings, "its namespace is not in the manifest"))
        return line


def _with_vector(line: Line, vector: list[float]) -> Line:
    """Return the line with its vector, or with a warning if the vector is not valid."""
    assert line.memory is not None
    try:
        memory, _ = memories.check({**line.memory, "embedding": vector}, complete=True)
    except InvalidInput as error:
        return replace(line, warnings=(*line.warnings, f"its vector is ignored: {error.message}"))
    return replace(line, memory=memory, is_verbatim=False)


@contextmanager
def _prefix_errors(name: str) -> Iterator[None]:
    """Prefix the errors raised within with the name of the file."""
    try:
        yield
    except MemorandaError as error:
        _name_file(error, name)
        raise


def _name_file(error: MemorandaError, name: str) -> None:
    """Put the name of a file in front of an error's message."""
    error.message = f"{name}: {error.message}"
    error.args = (error.message,)


def _checksum_file(file: ReadableLines, progress: Progress | None) -> tuple[str, int]:
    """Return the checksum of a file and the number of its lines that are not blank."""
    checksum = hashlib.sha256()
    file.seek(0)
    count, read_bytes = 0, 0
    # True if the current line has non-blank characters so far.
    is_filled = False
    while chunk := file.read(CHUNK_BYTES):
        checksum.update(chunk)
        read_bytes += len(chunk)
        head, *following_lines = chunk.split(b"\n")
        is_filled = is_filled or bool(head.strip())
        for line in following_lines:
            count += is_filled
            is_filled = bool(line.strip())
        if progress is not None:
            progress(read_bytes)
    return checksum.hexdigest(), count + is_filled
