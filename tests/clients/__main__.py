"""Try MCP clients of others against stdio and HTTP: python -m tests.clients FOLDER, into which they are installed.

The official TypeScript client, the inspector's command line and fastmcp bring some 300 packages and need npm, so this
is `make clients` and not a part of `make test`, which uses the official Python client.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
MEMORANDA = str(Path(sys.executable).with_name("memoranda"))
SECONDS = 300
INSTALL_SECONDS = 1_800


def install(folder: Path) -> None:
    """Bring the clients, once."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "scenario.mjs"):
        shutil.copy(HERE / name, folder)
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    if not (folder / "python").exists():
        venv.create(folder / "python", with_pip=True)
    pip = [str(folder / "python" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True, timeout=INSTALL_SECONDS)


@contextmanager
def served(environment: dict[str, str]) -> Iterator[tuple[str, str]]:
    """A server; its address and a credential."""
    command = [MEMORANDA, "--json", "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield said["mcp"], Path(said["credential"]).read_text(encoding="utf-8").strip()
        finally:
            process.terminate()


def attempts(folder: Path, environment: dict[str, str], url: str, credential: str) -> Iterator[tuple[str, list[str]]]:
    """What is tried: a name, and a command that fails if it does."""
    stdio, http = ["stdio", MEMORANDA, "mcp"], ["http", url, credential]
    typescript = [str(folder / "node_modules" / ".bin" / "node"), str(folder / "scenario.mjs")]
    fastmcp = [str(folder / "python" / "bin" / "python"), str(HERE / "scenario.py")]
    for name, command in (("TypeScript client", typescript), ("fastmcp", fastmcp)):
        for target in (stdio, http):
            yield f"{name}, {target[0]}", [*command, *target]
    inspector = [str(folder / "node_modules" / ".bin" / "mcp-inspector"), "--cli"]
    # The inspector hands only what it is told to on to a server that it starts.
    names = ("MEMORANDA_HOME", "MEMORANDA_EMBEDDER")
    given = [part for name in names for part in ("-e", f"{name}={environment[name]}")]
    for by, server in (
        ("stdio", [*given, MEMORANDA, "mcp"]),
        ("http", [url, "--transport", "http", "--header", f"Authorization: Bearer {credential}"]),
    ):
        for asked in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            yield f"inspector, {by}, {asked}", [*inspector, *server, "--method", asked]
        call = ["--method", "tools/call", "--tool-name", "ump_recall", "--tool-arg", "query=pnpm or npm?"]
        yield f"inspector, {by}, tools/call", [*inspector, *server, *call]


def main(folder: Path) -> int:
    """Install and try all of them; how many failed."""
    install(folder)
    failed = 0
    with tempfile.TemporaryDirectory() as home:
        path = f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "MEMORANDA_HOME": home, "MEMORANDA_EMBEDDER": "off"}
        with served(environment) as (url, credential):
            for name, command in attempts(folder, environment, url, credential):
                ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
                is_good = ran.returncode == 0 and (ran.stdout.startswith("{") or "tools" in ran.stdout)
                failed += not is_good
                print(f"{'ok' if is_good else 'FAILED':<8}{name}", flush=True)
                if not is_good:
                    print(ran.stdout[-2_000:], ran.stderr[-2_000:], sep="\n")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]).resolve()), 1))
