"""Build the TypeScript client with strict types, and run its tests: python -m tests.clients.typescript FOLDER.

In Node, Deno and Bun, each against a memory of its own. The compiler, Deno and Bun are brought into the folder. This is
`make test-typescript`, because it needs Node and npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bindings.http.running import Running, running

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
SECONDS = 300
TESTS = "test/client.test.mjs"
RUNTIMES = {
    "node": ["node", "--test", "--test-reporter=dot", TESTS],
    "deno": ["deno", "test", "--allow-net", "--allow-env", "--no-check", "--quiet", TESTS],
    "bun": ["bun", "test", f"./{TESTS}"],
}


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
        ended = {name: _tested(name, folder, server) for name in RUNTIMES}
    print("; ".join(f"{name}: {'all is well' if code == 0 else f'ended with {code}'}" for name, code in ended.items()))
    return max(ended.values())


def _tested(name: str, folder: Path, server: Running) -> int:
    """How the tests ended in one of them."""
    environment = {**os.environ, "MEMORANDA_URL": server.url, "MEMORANDA_KEY": server.key(f"did:example:{name}")}
    environment["PATH"] = f"{folder.absolute() / 'node_modules' / '.bin'}{os.pathsep}{environment['PATH']}"
    print(f"--- {name}", flush=True)
    return subprocess.run(RUNTIMES[name], cwd=folder, env=environment, timeout=SECONDS).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
