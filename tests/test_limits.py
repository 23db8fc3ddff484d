"""A file is one concept, and a function fits a screen: limits that hold for all of the source."""

from __future__ import annotations

import ast
import io
import itertools
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import memoranda

SOURCE: Final = Path(memoranda.__file__).parent
# Lines of code: docstrings, comments and blank lines are not counted, so that no explanation is left out for them.
FILE_LINES: Final = 600
# Lines of the body, without signature and docstring.
FUNCTION_LINES: Final = 50


def files() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that hold code."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    quiet = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for before, token in itertools.pairwise([tokens[0], *tokens]):
        is_docstring = token.type == tokenize.STRING and (before is token or before.type in quiet)
        if token.type not in quiet and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def test_no_file_is_too_long() -> None:
    lengths = {name: len(code_lines(text)) for name, text in files()}
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
