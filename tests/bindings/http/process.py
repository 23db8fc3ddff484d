"""A real server, as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from tests.bindings.http.running import NO_AUTHORITIES
from tests.embedders import WORDS_ALONE
from tests.forking import Forked
from tests.waiting import HANG_SECONDS

from memoranda.encoding.json_text import parse


@dataclass(frozen=True, slots=True)
class Server:
    """A server process and the owner's key."""

    pid: int
    url: str
    credential: str

    def connect(self) -> socket.socket:
        address = urlsplit(self.url)
        return socket.create_connection((address.hostname, address.port), timeout=HANG_SECONDS)

    def client(self, credential: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {credential or self.credential}"}
        return httpx.Client(base_url=self.url, verify=NO_AUTHORITIES, headers=headers, timeout=HANG_SECONDS)

    def resident(self, which: str = "VmRSS") -> int:
        """Bytes in memory now, or at most so far (VmHWM)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{which}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(which)


@contextmanager
def serving(home: Path, *options: str, **settings: str) -> Iterator[Server]:
    """Start `memoranda serve` with these options and settings; killed in the end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
    command = [sys.executable, "-m", "memoranda", "--json", "serve", "--port", "0", *options]
    environment = {**kept, **WORDS_ALONE, "MEMORANDA_HOME": str(home), **settings}
    with Forked(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            said = parse(process.stdout.readline())
            yield Server(process.pid, said["url"], Path(said["credential"]).read_text().strip())
        finally:
            process.kill()
