"""Build the TypeScript client with strict types, and run its tests in Node: python -m tests.clients.typescript FOLDER.

The compiler is brought into the folder. This is `make test-typescript`, because it needs Node and npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bindings.http.running import running

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
SECONDS = 300


def main(folder: Path) -> int:
    """How the tests ended."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("src", "test"):
        shutil.copytree(CLIENT / name, folder / name, dirs_exist_ok=True)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(CLIENT / name, folder)
    install = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        subprocess.run(install, check=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"TypeScript could not be installed ({error}): the tests of its client are skipped")
        return 0
    subprocess.run(["npx", "tsc", "-p", "."], cwd=folder, check=True, timeout=SECONDS)
    with tempfile.TemporaryDirectory() as home, running(Path(home)) as server:
        key = server.key("did:example:typescript")
        environment = {**os.environ, "MEMORANDA_URL": server.url, "MEMORANDA_KEY": key}
        return subprocess.run(
            ["node", "--test", "test/client.test.mjs"], cwd=folder, env=environment, timeout=SECONDS
        ).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
