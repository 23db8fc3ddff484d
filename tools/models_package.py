"""Build the data package of the models: python tools/models_package.py FOLDER.

It takes the installed models of the catalogue, verifies their hashes, and builds a wheel in FOLDER. The same files
always give the same bytes.
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
# 2026-01-01: the package depends on its files only, not on the commit that it is built from.
_MOMENT: Final = "1767225600"


class Missing(Exception):
    """The model that is not installed, or damaged."""


def build(folder: Path) -> Path:
    """Build the wheel and return its path. Raises Missing."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "models"
        shutil.copytree(ROOT / "packages" / "models", project)
        shutil.copy(ROOT / "LICENSE", project)
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
        for path in project.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        subprocess.run(  # noqa: S603 -- our own command
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute())],
            cwd=project,
            env={**os.environ, "SOURCE_DATE_EPOCH": _MOMENT},
            check=True,
            stdout=subprocess.DEVNULL,
        )
    (wheel,) = folder.glob(f"{DATA_PACKAGE}-*.whl")
    return wheel


if __name__ == "__main__":
    try:
        print(build(Path(sys.argv[1])))
    except Missing as error:
        sys.exit(str(error))
