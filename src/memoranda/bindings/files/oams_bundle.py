"""OAMS bundles as folders, and plain files of OAMS memories.

A bundle is written to a folder with a temporary name, next to the target, and renamed when it is complete. A reader
opens only the four files of a bundle, by their own names, and follows no links.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from msgspec.structs import replace

from memoranda.bindings.files.folder import create, open_regular
from memoranda.build import version_and_build
from memoranda.errors import InvalidInput, MemorandaError, StoreUnavailable, TooLarge, words_of
from memoranda.standards.oams import bundle, lines
from memoranda.standards.oams.bundle import Manifest
from memoranda.standards.oams.lines import Line
from memoranda.standards.oams.memory import Memory

Progress = Callable[[int], None]

MARKDOWN_ENDINGS: Final = (".md", ".markdown")


class FolderBundleWriter:
    """Writes a bundle to a folder that must not be there yet, or must be empty.

    Used in a `with` block: leaving it puts the bundle in place; leaving it by an error leaves nothing behind.
    """

    def __init__(
        self,
        folder: Path,
        *,
        exported_at: int,
        inline_embeddings: bool = True,
        progress: Progress | None = None,
        run_bytes: int = lines.RUN_BYTES,
    ) -> None:
        self._folder = folder
        self._exported_at = exported_at
        self._inline_embeddings = inline_embeddings
        self._run_bytes = run_bytes
        # Called in the second phase, which writes the memories in order.
        self._progress = progress
        self._draft = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(6)}.tmp")
        # Registered before the folder exists, and run at the latest when the process ends: an interrupt may come at
        # any instruction.
        self._tidy = weakref.finalize(self, shutil.rmtree, self._draft, ignore_errors=True)
        self._scratch: IO[bytes] | None = None
        self._writer: bundle.BundleWriter | None = None
        self.manifest: Manifest | None = None

    def __enter__(self) -> Self:
        try:
            if self._folder.is_symlink() or (self._folder.exists() and not _is_empty(self._folder)):
                raise InvalidInput(
                    f"{self._folder}: this folder is not empty; name a new or an empty folder"
                )
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._draft.mkdir()
            # A scratch file without a name, on the disk of the target, which has room for it.
            self._scratch = tempfile.TemporaryFile(dir=self._draft)
        except OSError as error:
            raise StoreUnavailable(words_of(error), path=self._folder) from None
        self._writer = bundle.BundleWriter(
            self._scratch, inline_embeddings=self._inline_embeddings, run_bytes=self._run_bytes
        )
        return self

    def add(self, memory: Memory, raw: bytes | None = None) -> None:
        """Add a complete memory, and the bytes of its line if the caller has them.

        Raises StoreUnavailable if the folder cannot be written.
        """
        assert self._writer is not None
        try:
            self._writer.add(memory, raw)
        except OSError as error:
            raise StoreUnavailable(words_of(error), path=self._folder) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
        except OSError as failure:
            raise StoreUnavailable(words_of(failure), path=self._folder) from failure
        finally:
            if self._scratch is not None:
                self._scratch.close()
            self._tidy()

    def _finish(self) -> None:
        writer = self._writer
        assert writer is not None
        assert self._scratch is not None
        with ExitStack() as open_files:
            lines_file = open_files.enter_context(_synced_file(self._draft / bundle.LINES_NAME))
            vectors_file = (
                open_files.enter_context(_synced_file(self._draft / bundle.VECTORS_NAME))
                if writer.vector_count
                else None
            )
            manifest = writer.write(
                lines_file, vectors_file, exported_at=self._exported_at, progress=self._progress
            )
        # Readers of other programs ignore unknown members.
        members = {**manifest.extra_members, "memoranda": version_and_build()}
        manifest = replace(manifest, extra_members=members)
        self._scratch.close()
        with _synced_file(self._draft / bundle.README_NAME) as file:
            file.write(bundle.render_readme(manifest).encode("utf-8"))
        with _synced_file(self._draft / bundle.MANIFEST_NAME) as file:
            file.write(manifest.render())
        if self._folder.exists():
            self._folder.rmdir()
        self._draft.rename(self._folder)
        self.manifest = manifest


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and next(folder.iterdir(), None) is None


@contextmanager
def _synced_file(path: Path) -> Iterator[IO[bytes]]:
    with create(path) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


class FolderBundleReader:
    """Reads a bundle. Entering checks manifest, checksum, count and embeddings; then the lines can be iterated.

    Raises InvalidInput, Unsupported or NotFound, each of which names the file.
    """

    def __init__(self, folder: Path, *, progress: Progress | None = None) -> None:
        self._folder = folder
        # Called with the number of bytes checked.
        self._progress = progress
        self._open_files = ExitStack()
        self._reader: bundle.BundleReader | None = None

    def __enter__(self) -> Self:
        with ExitStack() as open_files, _naming_folder(self._folder):
            manifest_file = open_files.enter_context(
                open_regular(self._folder / bundle.MANIFEST_NAME)
            )
            manifest = manifest_file.read(bundle.MAX_MANIFEST_BYTES + 1)
            if len(manifest) > bundle.MAX_MANIFEST_BYTES:
                raise TooLarge(
                    f"{bundle.MANIFEST_NAME}: over the limit of {bundle.MAX_MANIFEST_BYTES} bytes"
                )
            lines_file = open_files.enter_context(open_regular(self._folder / bundle.LINES_NAME))
            vectors_path = self._folder / bundle.VECTORS_NAME
            has_vectors = vectors_path.is_symlink() or vectors_path.exists()
            vectors_file = (
                open_files.enter_context(open_regular(vectors_path)) if has_vectors else None
            )
            self._reader = bundle.BundleReader(manifest, lines_file, vectors_file)
            self._reader.check(self._progress)
            self._open_files = open_files.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open_files.close()

    def __iter__(self) -> Iterator[Line]:
        assert self._reader is not None
        for line in self._reader:
            if line.error is not None:
                _prefix_message(line.error, str(self._folder))
            yield line

    @property
    def manifest(self) -> Manifest:
        """The manifest of the bundle."""
        assert self._reader is not None
        return self._reader.manifest

    @property
    def warnings(self) -> list[str]:
        """The warnings about the bundle as a whole."""
        assert self._reader is not None
        return self._reader.warnings


@contextmanager
def _naming_folder(folder: Path) -> Iterator[None]:
    try:
        yield
    except MemorandaError as error:
        _prefix_message(error, str(folder))
        raise


def _prefix_message(error: MemorandaError, prefix: str) -> None:
    error.message = f"{prefix}: {error.message}"
    error.args = (error.message,)
