"""Commands run in this process, over a data directory of their own."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memoranda.cli import main
from memoranda.encoding.json_text import parse


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return parse(self.out)


Command = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STORE", "OWNER", "LOG_LEVEL"):
        monkeypatch.delenv(f"MEMORANDA_{name}", raising=False)
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    def command(*tokens: str | Path, piped: bytes = b"") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))
        capfd.readouterr()
        code = main([str(token) for token in tokens])
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return command
