"""What is run for a team says what is true; to build and start it is for `make test-packages` and `test-container`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.MULTILINE))


def test_the_container_gets_every_file_that_it_copies_and_nothing_else() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = {
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, flags=re.MULTILINE) for word in line.split()
    }
    let_in = re.findall(r"^!(.*)$", (ROOT / ".containerignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert copied == set(let_in)
    assert all((ROOT / name).exists() for name in copied)
    assert (ROOT / ".dockerignore").read_bytes() == (ROOT / ".containerignore").read_bytes()


def test_the_container_is_pinned_and_runs_as_nobody() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=\S+:[\d.]+-slim$", text, flags=re.MULTILINE)
    assert "USER 10001:10001" in text.rpartition("FROM ")[2]
    assert all(
        "--require-hashes" in line or "--no-index" in line for line in text.splitlines() if " install --no-c" in line
    )
    for word in ("ENTRYPOINT", "CMD"):
        assert re.search(rf'^{word} \["', text, flags=re.MULTILINE)


def test_the_locks_agree_with_each_other() -> None:
    everything = pins("requirements-dev.lock")
    for name in ("requirements.lock", "requirements-server.lock", "requirements-build.lock"):
        found = pins(name)
        assert found
        assert found.items() <= everything.items(), name
