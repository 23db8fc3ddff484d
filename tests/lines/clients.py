"""Further interfaces of a stage: the forms of the console, the TypeScript client, and the store of LangGraph."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx

from memoranda import Memoranda
from memoranda.bindings.console.visit import ROOT as CONSOLE
from memoranda.service.service import Service
from tests.bindings.http.running import NO_AUTHORITIES
from tests.waiting import HANG_SECONDS

ROOT: Final = Path(__file__).parents[2]
BRIDGE: Final = Path(__file__).with_name("typescript.mjs")
# The compiler of the client, which `make bring-typescript` installs.
TYPESCRIPT: Final = ROOT / ".venv" / "typescript"


class Unavailable(Exception):
    """A command, a tool, a form or a client refused what it was asked for."""


class Console:
    """A browser without a script, which signs in for every page: its session would end when the clock moves."""

    def __init__(self, url: str, service: Service, key: str) -> None:
        self._url, self._service, self._key = url, service, key

    @contextmanager
    def _browser(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self._url, verify=NO_AUTHORITIES, timeout=HANG_SECONDS) as browser:
            link = self._service.sessions.create_link(self._key)
            answer = browser.get(f"{CONSOLE}/enter", params={"link": link})
            assert answer.is_redirect, answer.text
            yield browser

    def send(self, path: str, **fields: str) -> None:
        """Send a form. Raises Unavailable."""
        with self._browser() as browser:
            token = browser.get(f"{CONSOLE}/latest").json()["token"]
            answer = browser.post(CONSOLE + path, data={"token": token, **fields}, headers={"origin": self._url})
            assert answer.status_code < 500, answer.text
            if answer.status_code != 303:
                raise Unavailable(f"{path}: {answer.status_code}")

    def read(self, path: str) -> str:
        """Return a page; empty if it is refused."""
        with self._browser() as browser:
            answer = browser.get(CONSOLE + path, follow_redirects=True)
            assert answer.status_code < 500, answer.text
            return answer.text if answer.status_code == 200 else ""


@cache
def built_typescript() -> Path | None:
    """Return the folder of the compiled TypeScript client; None if its compiler or Node is missing."""
    if shutil.which("node") is None or not (TYPESCRIPT / "node_modules").is_dir():
        return None
    from tools.npm_package import build

    if not (TYPESCRIPT / "dist" / "esm" / "index.js").exists():
        build(TYPESCRIPT)
    return TYPESCRIPT


class TypeScript:
    """The TypeScript client in a process of Node."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        command = ["node", str(BRIDGE), str(folder / "dist" / "esm" / "index.js"), url, key]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the client. Raises Unavailable."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise Unavailable(answer["error"])
        return answer.get("result")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(HANG_SECONDS)
        self._process.stdout.close()


class LangGraph:
    """LangGraph's store over a memory."""

    def __init__(self, memoranda: Memoranda, space: str) -> None:
        from memoranda.adapters.langgraph import MemorandaStore

        self._store, self._path = MemorandaStore(memoranda), (space,)

    def put(self, key: str, text: str) -> None:
        self._store.put(self._path, key, {"text": text})

    def delete(self, key: str) -> None:
        self._store.delete(self._path, key)

    def search(self) -> list[dict[str, Any]]:
        return [item.value for item in self._store.search(self._path, limit=100)]


def read_url(line: str) -> str:
    """Return the URL in the announcement of a server."""
    found = re.search(r"http://[0-9.:]+", line)
    assert found is not None, line
    return found[0]
