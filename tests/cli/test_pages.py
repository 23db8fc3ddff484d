"""README, tutorial and how-tos, as a newcomer goes through them: every `sh` block, in order, in one empty home.

What stands in `console` blocks is not run: why not is said here (NOT_RUN), and that such commands exist is checked.
What has a placeholder (…) cannot run. Pages whose commands are compared with what they print are tested beside those.
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

from tests.embedders import WORDS_ALONE
from tests.forking import Forked, put_memoranda
from tests.waiting import HANG_SECONDS

from memoranda.cli.catalogue import SECTIONS
from memoranda.encoding.json_text import parse

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [
    ROOT / "README.md",
    *(
        HOWTO / f"{name}.md"
        for name in ("sync", "files", "sharing", "oauth", "openwop", "backup", "connect", "monitoring")
    ),
    *sorted(HOWTO.glob("coming-from-*.md")),
    ROOT / "docs" / "reference" / "http.md",
    TUTORIAL,
    # Last, because it sets an owner for all commands.
    HOWTO / "team.md",
]
# Each with a test of its own, of what it prints.
ELSEWHERE = {"cal.md", "consolidate.md", "oams.md"}
_FOREIGN = "an export, or a program, of another system"
_FOR_EVER = "serves until it is stopped; tests/cli/test_process.py and others start servers"
_SYSTEM = "changes the system as root"
NOT_RUN = {
    "tutorial.md": "installs, and serves until it is stopped; `make test-packages` does the first",
    "backup.md": _FOR_EVER,
    "coming-from-chatgpt.md": _FOREIGN,
    "coming-from-langgraph.md": _FOREIGN,
    "coming-from-mem0.md": _FOREIGN,
    "coming-from-sessions.md": _FOREIGN,
    "connect.md": "decides about candidates of a session; tests/learning does it",
    "console.md": _FOR_EVER,
    "container.md": "needs podman and a base image; `make test-container` does it",
    "files.md": "has a placeholder",
    "grains.md": "tests/cli/test_oms.py does each of them",
    "models.md": "downloads; tests/embedding/test_sources.py does it from this machine",
    "monitoring.md": _FOR_EVER,
    "moving-in.md": _FOREIGN,
    "oauth.md": _FOR_EVER,
    "postgresql.md": "needs database servers and clusters; `make test-postgres` starts one",
    "proxy.md": _FOR_EVER,
    "team.md": "installs, and serves until it is stopped; tests/browser/test_oidc.py signs in",
    "systemd.md": _SYSTEM,
    "upgrade.md": "installs another version; tests/storage/test_upgrades.py has stores of earlier ones",
    "cli.md": "written by the commands themselves",
}


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
    """What a person copies as it is; not what installs and tests this very clone. Of the tutorial its Python, too."""
    found = re.findall(r"```(sh|python)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    programs = f"{sys.executable} - <<'END-OF-PYTHON'\n{{}}END-OF-PYTHON\n"
    blocks = [
        block if kind == "sh" else programs.format(block) for kind, block in found if kind == "sh" or page == TUTORIAL
    ]
    return [block for block in blocks if not block.startswith("make ") and "…" not in _without_comments(block)]


def _without_comments(block: str) -> str:
    return re.sub(r" # .*", "", block)


@contextmanager
def served(environment: dict[str, str], folder: Path) -> Iterator[int]:
    """What `memoranda serve --oauth` starts; its port."""
    command = [sys.executable, "-m", "memoranda", "--json", "serve", "--oauth", "--port", "0"]
    with Forked(command, env=environment, cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(parse(process.stdout.readline())["url"].rsplit(":", 1)[1])
        finally:
            process.terminate()


def test_every_page_with_commands_is_run() -> None:
    with_commands = {page for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")) if blocks_of(page)}
    assert with_commands == {*PAGES, *(HOWTO / name for name in ELSEWHERE)}


def not_run() -> dict[Path, list[str]]:
    """The commands in `console` blocks."""
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    found = {page: re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL) for page in pages}
    return {page: blocks for page, blocks in found.items() if blocks}


def test_what_is_not_run_is_listed_with_its_reason() -> None:
    assert {page.name for page in not_run()} == set(NOT_RUN)


def test_commands_that_are_not_run_exist_with_their_options() -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    names = {entry.name for section in SECTIONS for entry in section.entries}
    options = {
        "--data",
        "--store",
        "--owner",
        "--json",
        "--help",
        "--version",
        *re.findall(r"--[a-z][a-z-]+", reference),
    }
    called = re.compile(
        r"(?:^|[ /])memoranda((?: --(?:data|store|owner) \S+| --json)*) ([a-z][a-z-]+)\b([^#\n|&>]*)", re.MULTILINE
    )
    for page, blocks in not_run().items():
        for block in blocks:
            for before, name, rest in called.findall(re.sub(r"\\\n", "", block)):
                if page.name == "container.md" and name not in names:
                    continue
                assert name in names, f"{page.name}: memoranda {name}"
                assert set(re.findall(r"--[a-z][a-z-]+", before + rest)) <= options, (
                    f"{page.name}: memoranda {name}{rest}"
                )


def test_the_commands_of_the_pages_run_in_order_in_an_empty_home(tmp_path: Path) -> None:
    # As on the machine of somebody who has the agents that the pages name.
    for name in ("bin", ".cursor", ".codex"):
        (tmp_path / name).mkdir()
    put_memoranda(tmp_path / "bin")
    if shutil.which("curl") is None:
        (tmp_path / "bin" / "curl").write_text(f"#!{sys.executable} -IS\n{CURL}")
        (tmp_path / "bin" / "curl").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**kept, **WORDS_ALONE, "HOME": str(tmp_path), "PATH": path, "MEMORANDA_PASSPHRASE": "correct horse"}
    shell = shutil.which("bash") or "sh"
    with served(environment, tmp_path) as port:
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
