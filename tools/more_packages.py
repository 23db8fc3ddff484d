"""Build the packages beside `memoranda`: python tools/more_packages.py FOLDER.

    memoranda_models    the files of the default models, taken from where they are installed, their hashes verified
    memoranda_client    the library with the few dependencies that a client of a server needs

The same files always give the same bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from memoranda.embedding.catalogue import DATA_PACKAGE, DEFAULT_MODELS, find_folder
from memoranda.embedding.install import verify_model

ROOT: Final = Path(__file__).parents[1]
# 2026-01-01: the models change with their files, not with the commit that they are built from.
_MODELS_EPOCH: Final = "1767225600"


class Missing(Exception):
    """The model that is not installed, or damaged."""


def build(root: Path, folder: Path) -> list[Path]:
    """Build both wheels of a source tree and return their paths. Raises Missing."""
    return [build_client(root, folder), build_models(root, folder)]


def build_client(root: Path, folder: Path) -> Path:
    """Build the wheel of the client; the environment has the time of the commit."""
    with tempfile.TemporaryDirectory() as scratch:
        project = _copy_project(root, "client", Path(scratch))
        ignored = shutil.ignore_patterns("__pycache__", "*.py[cod]")
        shutil.copytree(root / "src", project / "src", ignore=ignored)
        shutil.copy(root / "NOTICE", project)
        return _build_wheel(project, folder, "memoranda_client")


def build_models(root: Path, folder: Path) -> Path:
    """Build the wheel of the models. Raises Missing."""
    with tempfile.TemporaryDirectory() as scratch:
        project = _copy_project(root, "models", Path(scratch))
        notices = []
        for model in DEFAULT_MODELS:
            source = find_folder(model)
            if source is None:
                raise Missing(f"{model.name} is not installed; run: memoranda models add")
            if different := verify_model(model, source):
                raise Missing(f"{', '.join(different)} of {model.name} differs from the catalogue")
            target = project / DATA_PACKAGE / model.model
            target.mkdir(parents=True)
            for name, file in model.files.items():
                data = (source / name).read_bytes()
                (target / name).write_bytes(data.replace(b"\r\n", b"\n") if file.is_text else data)
            notices.append(model.notice())
        (project / "NOTICE").write_text("\n".join(notices), encoding="utf-8")
        return _build_wheel(project, folder, DATA_PACKAGE, {"SOURCE_DATE_EPOCH": _MODELS_EPOCH})


def _copy_project(root: Path, name: str, scratch: Path) -> Path:
    """Copy a folder of `packages/`, with the licence."""
    project = scratch / name
    shutil.copytree(root / "packages" / name, project)
    shutil.copy(root / "LICENSE", project)
    return project


def _build_wheel(project: Path, folder: Path, name: str, environment: dict[str, str] | None = None) -> Path:
    """Build a wheel, and return its path."""
    for path in project.rglob("*"):
        # Permissions of a clone depend on its owner's umask.
        path.chmod(0o755 if path.is_dir() else 0o644)
    subprocess.run(  # noqa: S603 -- our own command
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute())],
        cwd=project,
        env={**os.environ, **(environment or {})},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = folder.glob(f"{name}-*.whl")
    return wheel


if __name__ == "__main__":
    try:
        print(*build(ROOT, Path(sys.argv[1])), sep="\n")
    except Missing as error:
        sys.exit(str(error))
