"""The arrows of the architecture: each layer imports only itself and those above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import memoranda
from tests.reach import imports_in, tree_of

SOURCE = Path(memoranda.__file__).parent
LAYERS = (
    "build",
    "errors",
    "measures",
    "encoding",
    "model",
    "standards",
    "retrieval",
    "time_words",
    "embedding",
    "storage",
    "consolidation",
    "service",
    "bindings",
    "conformance",
    "spans",
    "telemetry",
    "settings",
    "keys",
    "stores",
    "backup",
    "library",
    "opening",
    "app",
    "aio",
    "hosts",
    "adapters",
    "cli",
)
# `memoranda` itself holds only the version and a lazy door to `app`.
RIM = {"__init__", "__main__"}
# A standard never imports another, except that CAL queries OMS types and prints SML.
# The console is pages of the HTTP server: it reads requests as that does, and waits in the same threads.
# The port names the types of the two forms into which every document is translated.
EXCEPTIONS = {
    *(("cal", "oms"), ("cal", "sml"), ("port", "oms"), ("port", "ump")),
    *(("console", "http"), ("console", "files")),
}


def imports_of(path: Path) -> Iterator[str]:
    for node in imports_in(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{path} uses a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> Iterator[tuple[tuple[str, ...], Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[0] not in RIM:
            yield parts, path


def test_every_module_belongs_to_a_layer() -> None:
    assert {parts[0] for parts, _ in modules()} <= set(LAYERS)


def test_the_architecture_page_lists_the_layers_in_this_order() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    paragraph = next(part for part in page.partition("## Layers")[2].split("\n\n") if "→" in part)
    assert tuple(re.findall(r"`(\w+)`", paragraph)) == LAYERS


def test_imports_point_only_upwards() -> None:
    wrong = []
    for parts, path in modules():
        for name in imports_of(path):
            target = name.split(".")
            if target[0] != "memoranda" or len(target) < 2 or target[1] not in LAYERS:
                continue
            if LAYERS.index(target[1]) > LAYERS.index(parts[0]):
                wrong.append(f"{'.'.join(parts)} imports {name}")
    assert wrong == []


def test_standards_and_bindings_do_not_import_their_siblings() -> None:
    wrong = []
    for parts, path in modules():
        if parts[0] not in ("standards", "bindings") or len(parts) < 2:
            continue
        for name in imports_of(path):
            target = name.split(".")
            is_shared = target[1:3] in (["standards", "port"], ["bindings", "operations"])
            is_sibling = target[:2] == ["memoranda", parts[0]] and len(target) > 2 and target[2] != parts[1]
            is_sibling &= not is_shared
            if is_sibling and (parts[1], target[2]) not in EXCEPTIONS:
                wrong.append(f"{'.'.join(parts)} imports {name}")
    assert wrong == []


def test_the_pure_layers_do_no_input_or_output() -> None:
    forbidden = {"os", "io", "pathlib", "socket", "time", "random", "secrets", "sqlite3", "apsw", "subprocess"}
    wrong = [
        f"{'.'.join(parts)} imports {name}"
        for parts, path in modules()
        if parts[0] in ("errors", "encoding", "model", "standards", "consolidation")
        for name in imports_of(path)
        if name.split(".")[0] in forbidden
    ]
    assert wrong == []


def keywords_named(path: Path, name: str) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and any(each.arg == name for each in node.keywords):
            yield ast.unparse(node.func)


def test_only_succession_says_what_a_version_follows() -> None:
    # What binds a memory binds every later version: so no other module may put one into a memory that is there.
    calls = {("/".join(parts), call) for parts, path in modules() for call in keywords_named(path, "follows")}
    assert calls == {("service/core/indexing", "unit.append"), ("service/core/lifecycle", "replace")}
