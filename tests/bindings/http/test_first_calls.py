"""The first calls of docs/reference/http.md get the answers that the page shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bindings.http.running import running

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


def shape_of(value: Any) -> Any:
    """Return the member names and types of an answer; numbers are equal, because scores have fractions or not."""
    if isinstance(value, dict):
        return {name: shape_of(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape_of(member) for member in value]
    return "number" if isinstance(value, int | float) else type(value).__name__


def test_the_first_calls_are_answered_as_the_page_shows(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## First calls\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(sh|json)\n(.*?)```", section, flags=re.DOTALL)
    assert [language for language, _ in blocks] == ["sh", "json"] * 3 + ["json"]
    with running(tmp_path) as server, server.client(server.key()) as client:
        for (_, command), (_, expected) in zip(blocks[0:6:2], blocks[1:6:2], strict=True):
            words = shlex.split(command.partition("curl")[2].replace("\\\n", " "))
            url = next(word for word in words if word.startswith("http"))
            answer = client.post(urlsplit(url).path, json=json.loads(words[words.index("-d") + 1]))
            assert answer.status_code == 200, answer.text
            assert shape_of(answer.json()) == shape_of(json.loads(expected, strict=False))
        refused = client.post("/ump/revise", json={"id": "urn:ump:any"})
        assert refused.status_code == 400
        assert refused.json() == json.loads(blocks[-1][1])
