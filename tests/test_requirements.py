"""Requirements and tests name each other: every MUST has a test or a reason, and no test claims what is not there."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TABLES = sorted((ROOT / "tests" / "standards").rglob("requirements.toml"))
LEVELS = {"MUST", "SHOULD", "MAY", "OURS"}


@cache
def requirements() -> tuple[dict[str, Any], ...]:
    return tuple(each for table in TABLES for each in tomllib.loads(table.read_text(encoding="utf-8"))["requirement"])


def marks_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.requirement":
            for argument in decorator.args:
                assert isinstance(argument, ast.Constant)
                yield str(argument.value)


@cache
def claims() -> tuple[set[str], dict[str, set[str]]]:
    """All tests there are, and for each requirement id the tests that carry it."""
    every: set[str] = set()
    marked: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                name = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                every.add(name)
                for requirement in marks_of(node):
                    marked[requirement].add(name)
    return every, marked


def test_there_is_a_table_for_each_standard() -> None:
    standards = {path.name for path in (ROOT / "src" / "memoranda" / "standards").iterdir() if path.is_dir()}
    assert {table.parent.name for table in TABLES} == standards - {"__pycache__"}


def test_every_requirement_is_well_formed() -> None:
    ids = [requirement["id"] for requirement in requirements()]
    assert len(ids) == len(set(ids))
    for requirement in requirements():
        assert set(requirement) - {"tests", "deferred"} == {"id", "section", "level", "text"}, requirement["id"]
        assert requirement["level"] in LEVELS


def test_every_requirement_has_a_test_or_a_reason() -> None:
    every, _ = claims()
    for requirement in requirements():
        tests = requirement.get("tests", [])
        assert bool(tests) != bool(requirement.get("deferred")), requirement["id"]
        assert [name for name in tests if name not in every] == [], requirement["id"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.parent.name)
def test_tests_and_requirements_name_each_other(table: Path) -> None:
    _, marked = claims()
    listed = {r["id"]: set(r.get("tests", ())) for r in tomllib.loads(table.read_text(encoding="utf-8"))["requirement"]}
    for name, tests in listed.items():
        assert marked.get(name, set()) == tests, name


def test_no_test_claims_a_requirement_that_is_not_there() -> None:
    _, marked = claims()
    assert set(marked) - {requirement["id"] for requirement in requirements()} == set()
