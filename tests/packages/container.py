"""The container image, built and run as docs/howto/container.md says: no root, nothing written but to the volume.

Run by `make test-container`, which needs podman (PODMAN="podman --runtime runc" for another way to run it, BUILD="…"
for more options of `podman build`) and the base image. CI has neither.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import HANG_SECONDS, until

from memoranda import __version__
from memoranda.embedding.catalogue import DEFAULT_MODELS
from memoranda.encoding.json_text import parse

DEFAULT_NAMES = [known.name for known in DEFAULT_MODELS]

ROOT = Path(__file__).parents[2]
PODMAN = shlex.split(os.environ.get("PODMAN", "podman"))
BUILD = shlex.split(os.environ.get("BUILD", ""))
BUILD_SECONDS = 1_800
COMMIT = "0123456789abcdef0123456789abcdef01234567"
IMAGE = "localhost/memoranda-test"
HARD = ("--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=host")
FILES = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=1000:1000")


def podman(*words: str, seconds: float = HANG_SECONDS, check: bool = True) -> str:
    ran = subprocess.run([*PODMAN, *words], cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    assert not check or ran.returncode == 0, ran.stderr[-2_000:]
    return ran.stdout.strip()


@pytest.fixture(scope="module")
def image() -> str:
    """Docker's format, which has health checks."""
    podman(
        "build", "--format=docker", f"--build-arg=COMMIT={COMMIT}", *BUILD, "--tag", IMAGE, ".", seconds=BUILD_SECONDS
    )
    return IMAGE


@pytest.fixture(scope="module")
def server(image: str) -> Iterator[str]:
    podman("volume", "create", "memoranda-test")
    name = podman(
        *("run", "--detach", *HARD, *FILES, "--volume=memoranda-test:/data", "--env=MEMORANDA_PORT=8479", image)
    )
    try:
        until(lambda: "is ready" in podman("exec", name, "memoranda", "health", check=False), "no server came up")
        yield name
    finally:
        podman("rm", "--force", name)
        podman("volume", "rm", "memoranda-test")


def test_the_image_says_how_it_is_run(image: str) -> None:
    found = parse(podman("image", "inspect", image))[0]
    config = found["Config"]
    assert config["User"] == "10001:10001"
    assert config["Volumes"] == {"/data": {}}
    assert config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == ["memoranda"]
    assert config["Cmd"] == ["serve"]
    assert found["Healthcheck"]["Test"] == ["CMD", "memoranda", "health"]


def test_it_runs_without_root_and_writes_only_to_the_volume(server: str) -> None:
    assert podman("exec", server, "id", "-u") == "10001"
    assert podman("exec", server, "memoranda", "--version") == f"{__version__} (build {COMMIT[:10]})"
    assert podman("exec", server, "sh", "-c", "touch /opt/memoranda/x || echo refused") == "refused"
    found = podman("exec", server, "sh", "-c", "command -v pip gcc curl git || echo none")
    assert found == "none"


def test_memories_are_found_by_meaning_with_the_models_inside(server: str) -> None:
    podman("exec", server, "memoranda", "remember", "use pnpm, never npm")
    here = parse(podman("exec", server, "memoranda", "--json", "models"))
    assert [each["here"] for each in here["models"] if each["name"] in DEFAULT_NAMES] == [True, True]
    assert "pnpm" in podman("exec", server, "memoranda", "recall", "package manager?")
    assert parse(podman("exec", server, "memoranda", "--json", "doctor"))["ok"]


def test_it_ends_in_good_order_and_begins_again_with_what_it_knew(server: str) -> None:
    podman("exec", server, "memoranda", "remember", "this survives")
    podman("stop", "--time=20", server)
    assert podman("inspect", server, "--format={{.State.ExitCode}}") == "0"
    podman("start", server)
    until(lambda: "is ready" in podman("exec", server, "memoranda", "health", check=False), "it did not come back")
    assert "this survives" in podman("exec", server, "memoranda", "recall", "survives")
