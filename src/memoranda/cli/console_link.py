"""Links that sign a browser in to the console."""

from __future__ import annotations

from pathlib import Path

from memoranda.bindings.console.visit import ROOT
from memoranda.service.service import Service


def console_link(service: Service, credential: Path) -> str:
    """Return a path that signs a browser in, once, with the rights of the API key in a file."""
    key = credential.read_text(encoding="utf-8").strip()
    return f"{ROOT}/enter?link={service.sessions.create_link(key)}"
