"""Build the TypeScript client as an npm package: python tools/npm_package.py FOLDER.

The folder has the compiler in `node_modules` (`make bring-typescript` installs it there). The package has ES modules
and CommonJS, each with declarations and source maps. It goes to FOLDER as a tarball, whose path is printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# Beside this file; it is run as a script and imported as `tools.npm_package`.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.readme_metadata import with_absolute_links

ROOT: Final = Path(__file__).parents[1]
CLIENT: Final = ROOT / "clients" / "typescript"
SECONDS: Final = 300
# The options of the compiler that differ from those of tsconfig.json, by the folder of the result.
_COMMONJS: Final = ("--module", "commonjs", "--verbatimModuleSyntax", "false")
BUILDS: Final = {"esm": (), "cjs": _COMMONJS}


def build(folder: Path) -> None:
    """Compile the client into `folder/dist`, beside copies of its sources, tests and papers."""
    for name in ("src", "test"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(CLIENT / name, folder / name)
    for path in (*CLIENT.glob("*.json"), *CLIENT.glob("*.md"), ROOT / "LICENSE", ROOT / "NOTICE"):
        shutil.copy(path, folder)
    # Links must also work on the page of a package index.
    about = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    repository = about["repository"]["url"].removeprefix("git+").removesuffix(".git")
    readme = (CLIENT / "README.md").read_text(encoding="utf-8").replace("](../../", "](")
    tag = f"v{about['version']}"
    (folder / "README.md").write_text(with_absolute_links(readme, repository, tag), encoding="utf-8")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    for name, options in BUILDS.items():
        run(folder, "tsc", "-p", ".", "--outDir", f"dist/{name}", *options)
        kind = {"esm": "module", "cjs": "commonjs"}[name]
        (folder / "dist" / name / "package.json").write_text(json.dumps({"type": kind}) + "\n", encoding="utf-8")


def pack(folder: Path) -> Path:
    """Write the tarball of a built client, check it with the linters of its field, and return its path."""
    written = run(folder, "npm", "pack", "--silent", "--pack-destination", ".").strip().splitlines()[-1]
    run(folder, "publint", "run", written, "--strict")
    run(folder, "attw", written)
    return folder / written


def run(folder: Path, *command: str) -> str:
    """Run a program of `node_modules`, and return its output. Raises CalledProcessError."""
    programs = f"{folder.absolute() / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(  # noqa: S603 -- programs that this module names
        command,
        cwd=folder,
        env={**os.environ, "PATH": programs},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    )
    if ended.returncode:
        print(ended.stdout, file=sys.stderr)
    ended.check_returncode()
    return ended.stdout


if __name__ == "__main__":
    target = Path(sys.argv[1])
    build(target)
    print(pack(target))
