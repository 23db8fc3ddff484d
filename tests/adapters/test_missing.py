"""An adapter imports its framework where it is said how to install it; without it, see `make test-packages`."""

from __future__ import annotations

import ast
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from memoranda.adapters import require_extra

ROOT = Path(__file__).parents[2]
ADAPTERS = sorted((ROOT / "src" / "memoranda" / "adapters").glob("[a-z]*.py"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_what_is_missing_says_how_to_install_it() -> None:
    with (
        pytest.raises(ImportError, match=r"'no_such_framework'; pip install 'memoranda\[langgraph\]'"),
        require_extra("langgraph"),
    ):
        import_module("no_such_framework")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src" / "memoranda" / "adapters").glob("[a-z]*.py")), ids=lambda p: p.stem
)
def test_no_framework_is_imported_otherwise(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    extras = [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "needs"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert set(extras) <= {path.stem.replace("_", "-")} & set(EXTRAS)
    names = {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    names |= {each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names}
    assert {name.split(".")[0] for name in names} <= {"__future__", "memoranda", *sys.stdlib_module_names}
