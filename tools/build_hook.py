"""Hatch's hook that records the commit in a package: `memoranda/build.txt`.

An sdist holds the file, so that a wheel built from it names the same commit. MEMORANDA_COMMIT names the commit for a
build from files without git, such as that of the container image.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FILE = Path("src/memoranda/build.txt")


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the file with the commit to a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file outside the source, and let the builder include it."""
        root = Path(self.root)
        if version == "editable" or (root / _FILE).exists():
            return
        sys.path.insert(0, str(root / "src"))
        from memoranda.build import read_commit

        commit = os.environ.get("MEMORANDA_COMMIT") or read_commit(root)
        if not commit:
            return
        self._folder = tempfile.TemporaryDirectory()
        written = Path(self._folder.name, "build.txt")
        written.write_text(f"{commit}\n", encoding="ascii")
        target = "memoranda/build.txt" if self.target_name == "wheel" else _FILE.as_posix()
        build_data["force_include"][str(written)] = target
