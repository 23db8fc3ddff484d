"""The README and the how-tos, as a newcomer goes through them: every `sh` block, in order, in one empty home.

What stands in `console` blocks goes on for ever, and what has a placeholder (…) cannot run. Pages whose commands are
compared with what they print are tested beside those commands.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.forking import CALLER
from tests.embedders import WORDS_ALONE
from tests.waiting import HANG_SECONDS

from memoranda.encoding.json_text import parse

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"
PAGES = [
    ROOT / "README.md",
    *(
        HOWTO / f"{name}.md"
        for name in ("sync", "files", "sharing", "oauth", "openwop", "backup", "connect", "monitoring")
    ),
    *sorted(HOWTO.glob("coming-from-*.md")),
]
# Each with a test of its own, of what it prints.
ELSEWHERE = {"cal.md", "consolidate.md", "oams.md"}


# Where there is no curl: as much of it as the pages use.
CURL = """\
import sys, urllib.request
words, headers, rest = iter(sys.argv[1:]), {}, {}
for word in words:
    if word == "-H":
        name, _, value = next(words).partition(": ")
        headers[name] = value
    elif word == "-d":
        rest["data"] = next(words).encode()
    elif word == "-X":
        rest["method"] = next(words)
    elif not word.startswith("-"):
        url = word
with urllib.request.urlopen(urllib.request.Request(url, headers=headers, **rest)) as answer:
    sys.stdout.buffer.write(answer.read())
"""


def blocks_of(page: Path) -> list[str]:
    """What a person copies as it is; not what installs and tests this very clone."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [block for block in blocks if not block.startswith("make ") and "…" not in _without_comments(block)]


def _without_comments(block: str) -> str:
    return re.sub(r" # .*", "", block)


@contextmanager
def commands(path: Path) -> Iterator[None]:
    """What becomes a command for each that is called."""
    server = [sys.executable, str(Path(__file__).with_name("forking.py")), str(path)]
    with subprocess.Popen(server, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.terminate()


@contextmanager
def served(environment: dict[str, str], folder: Path) -> Iterator[int]:
    """What `memoranda serve --oauth` starts; its port."""
    command = [sys.executable, "-m", "memoranda", "--json", "serve", "--oauth", "--port", "0"]
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(parse(process.stdout.readline())["url"].rsplit(":", 1)[1])
        finally:
            process.terminate()


def test_every_page_with_commands_is_run() -> None:
    with_commands = {page for page in (ROOT / "README.md", *HOWTO.glob("*.md")) if blocks_of(page)}
    assert with_commands == {*PAGES, *(HOWTO / name for name in ELSEWHERE)}


def test_the_commands_of_the_pages_run_in_order_in_an_empty_home(tmp_path: Path) -> None:
    # As on the machine of somebody who has the agents that the pages name.
    for name in ("bin", ".cursor", ".codex"):
        (tmp_path / name).mkdir()
    caller = tmp_path / "bin" / "memoranda"
    caller.write_text(f"#!{sys.executable} -IS\n" + CALLER.format(socket=str(tmp_path / "socket")))
    caller.chmod(0o755)
    if shutil.which("curl") is None:
        (tmp_path / "bin" / "curl").write_text(f"#!{sys.executable} -IS\n{CURL}")
        (tmp_path / "bin" / "curl").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**kept, **WORDS_ALONE, "HOME": str(tmp_path), "PATH": path, "MEMORANDA_PASSPHRASE": "correct horse"}
    shell = shutil.which("bash") or "sh"
    with commands(tmp_path / "socket"), served(environment, tmp_path) as port:
        for page in PAGES:
            script = "\n".join(["set -eu", *blocks_of(page)])
            script = script.replace(":8420", f":{port}").replace("curl -s", "curl -sS --fail")
            folder = tmp_path / page.stem
            folder.mkdir()
            ran = subprocess.run(
                [shell, "-c", script], env=environment, cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS
            )
            assert ran.returncode == 0, f"{page.name}: {ran.stdout[-1_000:]}{ran.stderr[-1_000:]}"
    assert "use pnpm, never npm" in (tmp_path / "all.ndjson").read_text(encoding="utf-8")
