"""Put the pages of the site together in build/docs: those of docs/, the README, and those made from the code.

python tools/site.py FOLDER. `make docs` runs it, and then MkDocs.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memoranda import __all__ as public
from memoranda import errors
from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openapi import build_document
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.errors import MemorandaError

ROOT = Path(__file__).parents[1]
# What lies outside of docs/ is shown as its name: the site has no copy of the repository.
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def build(folder: Path) -> None:
    """Write all pages, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for page in folder.rglob("*.md"):
        source = ROOT / "docs" / page.relative_to(folder)
        page.write_text(_with_links(page.read_text(encoding="utf-8"), source, ROOT / "docs"), encoding="utf-8")
    (folder / "index.md").write_text(home(), encoding="utf-8")
    (folder / "changes.md").write_text(
        _from_root((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
    for name, make in MADE.items():
        (folder / "reference" / f"{name}.md").write_text(make(), encoding="utf-8")


def _with_links(text: str, page: Path, root: Path) -> str:
    def kept(found: re.Match[str]) -> str:
        if "://" in found[2]:
            return found[0]
        target = (page.parent / found[2]).resolve()
        if target.is_dir():
            return found[1]
        return found[0] if target.is_relative_to(root) else found[1]

    return _LINK.sub(kept, text)


def home() -> str:
    """The README as the first page; its links are from where it lies."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](CHANGELOG.md)", "](docs/changes.md)")
    return _from_root(text)


def _from_root(text: str) -> str:
    """A page that lies beside docs/, with its links from within."""

    def kept(found: re.Match[str]) -> str:
        if "://" in found[2]:
            return found[0]
        name = found[2].removeprefix("docs/")
        is_page = found[2] != name and ((ROOT / "docs" / name).is_file() or name == "changes.md")
        return f"[{found[1]}]({name}{found[3] or ''})" if is_page else found[1]

    return _LINK.sub(kept, text)


def python() -> str:
    """The library: every public name, from its docstrings and types."""
    kinds = {"errors": [], "rest": []}  # type: dict[str, list[str]]
    for name in public:
        if name == "__version__":
            continue
        found = getattr(errors, name, None)
        is_error = isinstance(found, type) and issubclass(found, MemorandaError)
        kinds["errors" if is_error else "rest"].append(name)
    first = ["Memoranda", "AsyncMemoranda"]
    ordered = [*first, *(name for name in kinds["rest"] if name not in first), *kinds["errors"]]
    homes = {name: _home_of(name) for name in ordered}
    blocks = [f"::: {homes[name]}.{name}\n    options:\n      heading: {name}" for name in ordered]
    return (
        "# The Python library\n\n`from memoranda import Memoranda`; everything here is importable from `memoranda`.\n\n"
        + "\n\n".join(blocks)
    )


def _home_of(name: str) -> str:
    import memoranda

    return str(getattr(memoranda, name).__module__)


def http_operations() -> str:
    """Every route, from the OpenAPI document."""
    described = build_document(all_operations(), server_version="")
    lines = ["# Every HTTP operation", "", "Made from `/openapi.json`, which has all schemas. [What they do](http.md)."]
    for path, item in described["paths"].items():
        for method, operation in item.items():
            lines += ["", f"## `{method.upper()} {path}`", "", operation["summary"] + "."]
            for parameter in operation.get("parameters", ()):
                lines += _parameter(parameter)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if example := body.get("example"):
                lines += ["", "```json", json.dumps(example, indent=2, ensure_ascii=False), "```"]
    return "\n".join(lines) + "\n"


def _parameter(parameter: dict[str, Any]) -> list[str]:
    if "$ref" in parameter:
        return []
    said = parameter.get("description") or parameter.get("schema", {}).get("description", "")
    return ["", f"- `{parameter['name']}` ({parameter['in']}) {said}".rstrip()]


def mcp_tools() -> str:
    """Every tool, as an agent is told of it."""
    lines = [
        "# Every MCP tool",
        "",
        "As a host lists them; which of them an agent is shown is [a setting](settings.md).",
    ]
    for operation in OPERATIONS.values():
        tool = operation.tool
        lines += ["", f"## `{operation.plain_name}`", "", (tool.description or "").strip(), ""]
        for name, schema in tool.input_schema.get("properties", {}).items():
            lines.append(f"- `{name}`: {schema.get('description', '')}".rstrip(": "))
    return "\n".join(lines) + "\n"


def error_codes() -> str:
    """Every error, from the tree."""
    tree = (errors.__doc__ or "").strip().partition("\n\n")[2]
    lines = [
        "# Errors",
        "",
        "One tree; a program catches as much of it as it wants. The second column is the code on the wire.",
        "",
    ]
    drawing, _, rest = tree.partition("\n\n")
    return "\n".join([*lines, "```text", *(line[4:] for line in drawing.splitlines()), "```", "", rest, ""])


MADE: dict[str, Callable[[], str]] = {
    "python": python,
    "http-operations": http_operations,
    "mcp-tools": mcp_tools,
    "errors": error_codes,
}


if __name__ == "__main__":
    build(Path(sys.argv[1]))
