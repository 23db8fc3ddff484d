"""A file is one concept, and a function fits a screen: limits that hold for all of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import memoranda

SOURCE: Final = Path(memoranda.__file__).parent
FILE_LINES: Final = 600
# Of what it does: what it takes and what is said about it are not counted.
FUNCTION_LINES: Final = 50


def files() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")


def test_no_file_is_too_long() -> None:
    lengths = {name: text.count("\n") for name, text in files()}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    found = {}
    for name, text in files():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > FUNCTION_LINES:
                    found[f"{name}:{node.name}"] = lines
    assert found == {}
