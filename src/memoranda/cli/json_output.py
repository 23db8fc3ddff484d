"""JSON on standard output."""

from __future__ import annotations

from memoranda.bindings.files.folder import standard_output
from memoranda.encoding.json_text import dump


def print_json(document: object) -> None:
    """Print one JSON value, as UTF-8 whatever the terminal's encoding, with control characters escaped."""
    with standard_output() as file:
        file.write(dump(document) + b"\n")
