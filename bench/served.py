"""Real server processes, to be measured from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple


class Served(NamedTuple):
    """A real server process on a free port."""

    host: str
    port: int
    bearer: str
    process: int

    def processor_seconds(self) -> float:
        """What it and its workers have used so far; 0 where the system does not tell."""
        return sum(map(processor_seconds, (self.process, *_workers(self.process))))


def processor_seconds(process: int) -> float:
    """What a process has used so far; 0 where the system does not tell."""
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def _workers(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


@contextmanager
def server(home: Path, workers: int = 1, environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[Served]:
    serve = ["serve", "--port", "0", "--workers", str(workers)]
    command = [sys.executable, "-m", "memoranda", "--data", str(home), *serve]
    given = {**os.environ, **environment}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=given)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "http://127.0.0.1:" in line:
                port = int(line.split("http://127.0.0.1:", 1)[1].split("/")[0].split()[0])
                break
        else:
            raise SystemExit("the server did not start")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Served("127.0.0.1", port, (home / "owner.credential").read_text().strip(), process.pid)
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()
