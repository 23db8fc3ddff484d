"""Export bundles (section 7): what is in them, and what must hold before a reader trusts one.

    manifest.json      written last, so that a bundle with a manifest is complete
    memories.jsonl     one memory per line, sorted by created_at
    embeddings.bin     only if a memory has an embedding; see vectors
    README.md          for people

Files are opened, named and put in place by others; here are their contents.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

import msgspec
from msgspec.structs import replace

from memoranda.encoding import json_text
from memoranda.errors import InvalidInput, MemorandaError, Unsupported
from memoranda.model.instant import format_instant
from memoranda.standards.oams import lines, vectors
from memoranda.standards.oams import memory as memories
from memoranda.standards.oams.lines import Line, Packed, Readable, Scratch, Sorter, Writable
from memoranda.standards.oams.markdown import code_span
from memoranda.standards.oams.memory import Memory

VERSION: Final = "0.1"
VENDOR: Final = "memoranda"
MANIFEST_NAME: Final = "manifest.json"
LINES_NAME: Final = "memories.jsonl"
VECTORS_NAME: Final = "embeddings.bin"
README_NAME: Final = "README.md"
# Our own member of the manifest: how embeddings.bin is laid out, and its checksum.
VECTORS_KEY: Final = "memoranda:embeddings"

# A list of a hundred thousand namespaces.
MAX_MANIFEST_BYTES: Final = 16 * 1_048_576
CHUNK_BYTES: Final = 1_048_576
_LISTED_NAMESPACES: Final = 100

_SEMVER: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,9})?(?:[-+][0-9A-Za-z.+-]{1,64})?", re.ASCII)
_SHA256: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})", re.ASCII)

Progress = Callable[[int], None]


# --- the manifest ------------------------------------------------------------------------------------


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """manifest.json. What a foreign one leaves out is None; what we do not know of it is in `others`."""

    oams_version: str = VERSION
    source_vendor: str = VENDOR
    exported_at: str | None = None
    namespaces: tuple[str, ...] | None = None
    memory_count: int | None = None
    embedding_model: str | None = None
    checksum_sha256: str | None = None
    others: Mapping[str, Any] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As it is written."""
        return {
            # Section 8: MUST match the spec version a producer was built against.
            "oams_version": self.oams_version,
            "source_vendor": self.source_vendor,
            "exported_at": self.exported_at,
            "namespaces": list(self.namespaces or ()),
            "memory_count": self.memory_count,
            "embedding_model": self.embedding_model,
            "checksum_sha256": self.checksum_sha256,
            **self.others,
        }

    def render(self) -> bytes:
        """The bytes of the file."""
        return json_text.dump_pretty(self.document()).encode("utf-8") + b"\n"

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read one. Raises InvalidInput, or Unsupported for a version that is not compatible."""
        value = json_text.parse(data, max_bytes=MAX_MANIFEST_BYTES)
        if not isinstance(value, dict):
            raise InvalidInput("the manifest must be an object")
        warnings: list[str] = []
        manifest = cls(
            oams_version=check_version(value.get("oams_version"), warnings),
            source_vendor=_text(value.get("source_vendor")) or "unknown",
            exported_at=_text(value.get("exported_at")),
            namespaces=_names(value.get("namespaces")),
            memory_count=_count(value.get("memory_count")),
            embedding_model=_text(value.get("embedding_model")),
            checksum_sha256=_checksum(value.get("checksum_sha256")),
            others={name: member for name, member in value.items() if name not in _MEMBERS},
        )
        if manifest.checksum_sha256 is None:
            warnings.append("the manifest has no checksum; whether the memories are what was exported cannot be told")
        if manifest.memory_count is None:
            warnings.append("the manifest has no memory_count; whether all memories are there cannot be told")
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
    """Section 8: consumers SHOULD accept any compatible MINOR version; a MAJOR one is not."""
    match = _SEMVER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput("oams_version must be a version such as 0.1")
    if match[1] != "0":
        raise Unsupported(f"the bundle has OAMS version {match[0]}; this Memoranda reads 0.x")
    if match[2] != "1":
        warnings.append(f"the bundle has OAMS version {match[0]}; it is read as {VERSION}")
    return match[0]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _names(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidInput("namespaces must be an array of strings")
    return tuple(value)


def _count(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput("memory_count must be a whole number")
    return value


def _checksum(value: object) -> str | None:
    if value is None:
        return None
    match = _SHA256.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidInput("checksum_sha256 must be a SHA-256 of 64 hexadecimal digits")
    return match[1].lower()


# --- writing -----------------------------------------------------------------------------------------


class BundleWriter:
    """Collects memories, then writes them sorted. Holds one run of them in memory, whatever their number."""

    def __init__(self, scratch: Scratch, *, inline_embeddings: bool = True, run_bytes: int = lines.RUN_BYTES) -> None:
        self._sorter = Sorter(scratch, run_bytes=run_bytes)
        self._inline_embeddings = inline_embeddings
        self._namespaces: set[str] = set()
        self._models: set[str] = set()
        self.count = 0
        self.vector_count = 0

    def add(self, memory: Memory, raw: bytes | None = None) -> None:
        """Take a complete, checked memory; `raw` is its native document, which then is the line.

        Section 5: source_id is not stripped; nothing is.
        """
        self._namespaces.add(memory["namespace"])
        line = raw if raw is not None and b"\n" not in raw and b"\r" not in raw else json_text.dump(memory)
        vector = b""
        if (embedding := memories.embedding_of(memory)) is not None:
            self.vector_count += 1
            self._models.add(embedding.model)
            vector = embedding.packed
            if not self._inline_embeddings:
                line = json_text.dump({name: member for name, member in memory.items() if name != "embedding"})
        self._sorter.add(Packed(lines.order_of(memory, self.count), line, vector))
        self.count += 1

    def write(
        self,
        lines_file: Writable,
        vectors_file: Writable | None,
        *,
        exported_at: int,
        progress: Progress | None = None,
    ) -> Manifest:
        """Write memories.jsonl and embeddings.bin (needed if there is any vector); what the manifest must say."""
        assert vectors_file is not None or not self.vector_count
        checksum, vectors_checksum = hashlib.sha256(), hashlib.sha256()
        offset = 0
        for done, packed in enumerate(self._sorter.sorted(), start=1):
            line = packed.line + b"\n"
            lines_file.write(line)
            checksum.update(line)
            if packed.vector and vectors_file is not None:
                vectors.write_vector(_Summed(vectors_file, vectors_checksum), offset, packed.vector)
            offset += len(line)
            if progress is not None:
                progress(done)
        others = {}
        if self.vector_count:
            others[VECTORS_KEY] = {
                "layout": vectors.LAYOUT,
                "count": self.vector_count,
                "checksum_sha256": vectors_checksum.hexdigest(),
            }
        return Manifest(
            exported_at=format_instant(exported_at),
            namespaces=tuple(sorted(self._namespaces)),
            memory_count=self.count,
            # One name for all of them, or none.
            embedding_model=next(iter(self._models)) if len(self._models) == 1 else None,
            checksum_sha256=checksum.hexdigest(),
            others=others,
        )


class _Summed:
    """A file whose checksum grows with it."""

    def __init__(self, file: Writable, checksum: Any) -> None:
        self._file = file
        self._checksum = checksum

    def write(self, data: bytes, /) -> object:
        self._checksum.update(data)
        return self._file.write(data)


def readme(manifest: Manifest) -> str:
    """README.md: what is here, in a person's words."""
    namespaces = manifest.namespaces or ()
    listed = [f"- {code_span(namespace)}" for namespace in namespaces[:_LISTED_NAMESPACES]]
    if len(namespaces) > _LISTED_NAMESPACES:
        listed.append(f"- and {len(namespaces) - _LISTED_NAMESPACES} more, all of them in `{MANIFEST_NAME}`")
    summary = (
        f"{manifest.memory_count} memories, exported by {manifest.source_vendor} at {manifest.exported_at} as an "
        f"Open Agent Memory Standard {manifest.oams_version} bundle."
    )
    files = (
        f"`{LINES_NAME}` has one memory per line as JSON, oldest first. Its SHA-256 is `{manifest.checksum_sha256}`; "
        f"check it with `sha256sum {LINES_NAME}`. `{MANIFEST_NAME}` repeats this for programs."
    )
    spread = "Namespaces:\n\n" + "\n".join(listed) if listed else "There are no memories."
    parts = ["# Exported memories", summary, spread, files]
    told = manifest.others.get(VECTORS_KEY)
    if told:
        parts.append(
            f"`{VECTORS_NAME}` has {told['count']} embeddings as records without a header, little-endian, in the order "
            f"of the lines: 8 bytes where the line begins in `{LINES_NAME}`, 4 bytes how many numbers follow, and the "
            "numbers as float32."
        )
    return "\n\n".join(parts) + "\n"


# --- reading -----------------------------------------------------------------------------------------


class BundleReader:
    """A bundle whose files someone else opened, and keeps open and unchanged while this is in use.

    Nothing is handed out before checksum, count and the shape of embeddings.bin are found right.
    """

    def __init__(self, manifest: bytes, lines_file: Readable, vectors_file: Readable | None = None) -> None:
        self.warnings: list[str] = []
        with _naming(MANIFEST_NAME):
            self.manifest = Manifest.parse(manifest)
        self.warnings += self.manifest.warnings
        self._lines = lines_file
        self._vectors = vectors_file
        listed = self.manifest.namespaces
        self._listed = None if listed is None else frozenset(listed)
        self._is_checked = False

    def __iter__(self) -> Iterator[Line]:
        """Every line with its memory, or with its error."""
        self.check()
        self._lines.seek(0)
        found = self._joined(lines.read(self._lines)) if self._vectors is not None else lines.read(self._lines)
        return map(self._placed, found)

    def check(self, progress: Progress | None = None) -> None:
        """Compare the files with the manifest, once; `progress` is told bytes. Raises InvalidInput."""
        if self._is_checked:
            return
        checksum, count = _summed(self._lines, progress)
        manifest = self.manifest
        if manifest.memory_count is not None and manifest.memory_count != count:
            raise InvalidInput(f"{LINES_NAME} has {count} memories; the manifest says {manifest.memory_count}")
        if manifest.checksum_sha256 is not None and not hmac.compare_digest(manifest.checksum_sha256, checksum):
            raise InvalidInput(f"{LINES_NAME} is not what was exported: its checksum is not the manifest's")
        self._check_vectors(progress)
        self._is_checked = True

    def _check_vectors(self, progress: Progress | None) -> None:
        told = self.manifest.others.get(VECTORS_KEY)
        if self._vectors is None:
            if told is not None:
                raise InvalidInput(f"{VECTORS_NAME} is missing; the manifest describes it")
            return
        if not isinstance(told, dict) or told.get("layout") != vectors.LAYOUT:
            # Section 7 leaves the layout open. A wrong guess would give memories the vectors of others; without one,
            # section 2: consumers MUST handle absence.
            self.warnings.append(f"{VECTORS_NAME} has a layout that is not known here; it is left out")
            self._vectors = None
            return
        checksum, _ = _summed(self._vectors, progress)
        if told.get("checksum_sha256") != checksum:
            raise InvalidInput(f"{VECTORS_NAME} is not what was exported: its checksum is not the manifest's")
        found = sum(1 for _ in vectors.read_vectors(self._vectors))
        if found != told.get("count"):
            raise InvalidInput(f"{VECTORS_NAME} has {found} vectors; the manifest says otherwise")

    def _joined(self, found: Iterator[Line]) -> Iterator[Line]:
        """Lines, those without their embedding with the one beside them."""
        assert self._vectors is not None
        waiting = vectors.read_vectors(self._vectors)
        offset, packed = next(waiting, (-1, b""))
        for line in found:
            while 0 <= offset < line.offset:
                offset, packed = next(waiting, (-1, b""))
            has_none = line.memory is not None and line.memory.get("embedding") is None
            yield _with_vector(line, vectors.unpacked(packed)) if has_none and offset == line.offset else line

    def _placed(self, line: Line) -> Line:
        if line.error is not None:
            _name_file(line.error, LINES_NAME)
        if line.memory is not None and self._listed is not None and line.memory["namespace"] not in self._listed:
            return replace(line, warnings=(*line.warnings, "its namespace is not in the manifest"))
        return line


def _with_vector(line: Line, vector: list[float]) -> Line:
    assert line.memory is not None
    try:
        memory, _ = memories.check({**line.memory, "embedding": vector}, complete=True)
    except InvalidInput as error:
        return replace(line, warnings=(*line.warnings, f"its vector is left out: {error.message}"))
    return replace(line, memory=memory, is_verbatim=False)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors raised within name the file."""
    try:
        yield
    except MemorandaError as error:
        _name_file(error, name)
        raise


def _name_file(error: MemorandaError, name: str) -> None:
    error.message = f"{name}: {error.message}"
    error.args = (error.message,)


def _summed(file: Readable, progress: Progress | None) -> tuple[str, int]:
    """The checksum of a file, and how many lines of it say something."""
    checksum = hashlib.sha256()
    file.seek(0)
    count, done = 0, 0
    # Whether the line that is being read has said something yet.
    says = False
    while chunk := file.read(CHUNK_BYTES):
        checksum.update(chunk)
        done += len(chunk)
        head, *rest = chunk.split(b"\n")
        says = says or bool(head.strip())
        for piece in rest:
            count += says
            says = bool(piece.strip())
        if progress is not None:
            progress(done)
    return checksum.hexdigest(), count + says
