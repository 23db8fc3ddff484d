"""Hatch's hook for what a package has and the source has not: the commit, and the console's files in one archive.

`memoranda/build.txt` names the commit. An sdist holds it, so that a wheel built from it names the same commit.
MEMORANDA_COMMIT names the commit for a build from files without git, such as that of the container image.

Only a wheel has the archive: templates, styles, scripts and texts take a quarter of their size in it. The folders are
left out of the wheel by `exclude` in pyproject.toml; `bindings/console/resources.py` reads either.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FILE = Path("src/memoranda/build.txt")
_CONSOLE = Path("src/memoranda/bindings/console")
_CONSOLE_FOLDERS = ("static", "templates", "texts")
_ARCHIVE = "resources.zip"
# The earliest time that a zip file can state, so that two builds are equal.
_TIME = (1980, 1, 1, 0, 0, 0)


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the file with the commit to a wheel or an sdist, and the archive to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files outside the source, and let the builder include them."""
        root = Path(self.root)
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        if self.target_name == "wheel":
            archive = Path(self._folder.name, _ARCHIVE)
            _pack(root / _CONSOLE, archive)
            build_data["force_include"][str(archive)] = f"memoranda/bindings/console/{_ARCHIVE}"
        if not (root / _FILE).exists():
            self._record_commit(root, build_data)

    def _record_commit(self, root: Path, build_data: dict[str, Any]) -> None:
        """Include the file with the commit, if it is known."""
        sys.path.insert(0, str(root / "src"))
        from memoranda.build import read_commit

        commit = os.environ.get("MEMORANDA_COMMIT") or read_commit(root)
        if not commit:
            return
        written = Path(self._folder.name, "build.txt")
        written.write_text(f"{commit}\n", encoding="ascii")
        target = "memoranda/build.txt" if self.target_name == "wheel" else _FILE.as_posix()
        build_data["force_include"][str(written)] = target


def _pack(console: Path, archive: Path) -> None:
    """Write the files of the console into an archive, in the order of their names."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as output:
        for folder in _CONSOLE_FOLDERS:
            for path in sorted((console / folder).iterdir()):
                entry = zipfile.ZipInfo(f"{folder}/{path.name}", _TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                output.writestr(entry, path.read_bytes(), compresslevel=9)
