"""Write the pages of the site to build/docs: the pages of docs/, the README, and pages generated from the code.

python tools/site.py FOLDER. `make docs` runs it, and then MkDocs.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from memoranda import __all__ as public
from memoranda import errors
from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openapi import build_document
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.errors import MemorandaError

ROOT = Path(__file__).parents[1]
# A link to a file outside of docs/ becomes plain text, because the site has no copy of the repository.
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")

# Modules of the TypeScript client, with the headings of their parts.
TYPESCRIPT = {
    "index": "Memoranda",
    "grains": "Memoranda.grains",
    "oams": "Memoranda.oams",
    "server": "Options",
}


def build(folder: Path) -> None:
    """Write all pages into an empty folder."""
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
    def adapt(link: re.Match[str]) -> str:
        if "://" in link[2]:
            return link[0]
        target = (page.parent / link[2]).resolve()
        if target.is_dir():
            return link[1]
        return link[0] if target.is_relative_to(root) else link[1]

    return _LINK.sub(adapt, text)


def home() -> str:
    """Return the README as the first page, with its links adapted."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](CHANGELOG.md)", "](docs/changes.md)")
    return _from_root(text)


def _from_root(text: str) -> str:
    """Return a page from the root of the repository, with its links adapted to docs/."""

    def adapt(link: re.Match[str]) -> str:
        if "://" in link[2]:
            return link[0]
        name = link[2].removeprefix("docs/")
        is_page = link[2] != name and ((ROOT / "docs" / name).is_file() or name == "changes.md")
        return f"[{link[1]}]({name}{link[3] or ''})" if is_page else link[1]

    return _LINK.sub(adapt, text)


def python() -> str:
    """Return the reference of the library: every public name with its docstrings and types."""
    error_names: list[str] = []
    other_names: list[str] = []
    for name in public:
        if name == "__version__":
            continue
        value = getattr(errors, name, None)
        is_error = isinstance(value, type) and issubclass(value, MemorandaError)
        (error_names if is_error else other_names).append(name)
    first = ["Memoranda", "AsyncMemoranda"]
    ordered = [*first, *(name for name in other_names if name not in first), *error_names]
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
    """Return the reference of all routes, from the OpenAPI document."""
    described = build_document(all_operations(), server_version="")
    lines = [
        "# Every HTTP operation",
        "",
        "Generated from `/openapi.json`, which has all schemas. [The HTTP interface](http.md) explains the routes.",
    ]
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
    description = parameter.get("description") or parameter.get("schema", {}).get("description", "")
    return ["", f"- `{parameter['name']}` ({parameter['in']}) {description}".rstrip()]


def mcp_tools() -> str:
    """Return the reference of all tools, with the descriptions for agents."""
    lines = [
        "# Every MCP tool",
        "",
        "The tools with their descriptions for agents. A [setting](settings.md) selects the listed tools.",
    ]
    for operation in OPERATIONS.values():
        tool = operation.tool
        lines += ["", f"## `{operation.plain_name}`", "", (tool.description or "").strip(), ""]
        for name, schema in tool.input_schema.get("properties", {}).items():
            lines.append(f"- `{name}`: {schema.get('description', '')}".rstrip(": "))
    return "\n".join(lines) + "\n"


def error_codes() -> str:
    """Return the reference of all errors, from the module of errors."""
    tree = (errors.__doc__ or "").strip().partition("\n\n")[2]
    lines = [
        "# Errors",
        "",
        "The errors form a class tree, so that a program can catch a group. The second column is the code in answers.",
        "",
    ]
    drawing, _, rest = tree.partition("\n\n")
    return "\n".join([*lines, "```text", *(line[4:] for line in drawing.splitlines()), "```", "", rest, ""])


def typescript() -> str:
    """Return the reference of the TypeScript client, from its sources."""
    lines = [
        "# The TypeScript client",
        "",
        '`npm install memoranda-client`, then `import { Memoranda } from "memoranda-client"`; `require()` works, too.',
        "Methods return promises, except those that yield (`*`). The package has the types of requests and answers.",
    ]
    for name, title in TYPESCRIPT.items():
        lines += ["", f"## {title}"]
        source = (ROOT / "clients" / "typescript" / "src" / f"{name}.ts").read_text(encoding="utf-8")
        for heading, comment, shown in _declarations(source):
            lines += ["", f"### {heading}", "", *([comment, ""] if comment else []), "```ts", shown, "```"]
    lines += ["", "## Errors", "", "| error | meaning |", "|---|---|"]
    source = (ROOT / "clients" / "typescript" / "src" / "errors.ts").read_text(encoding="utf-8")
    for comment, name in re.findall(r"^/\*\* (.*?) \*/\nexport class (\w+)", source, flags=re.MULTILINE):
        lines.append(f"| `{name}` | {comment} |")
    return "\n".join(lines) + "\n"


def _declarations(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield heading, comment and text of each exported interface, and of each public method with a comment."""
    comment = ""
    lines = iter(source.splitlines())
    for line in lines:
        if found := re.fullmatch(r" *(?:/\*\*|\*) ?(.*?)(?: ?\*/)?", line):
            comment = f"{comment} {found[1]}".strip()
            continue
        shown = [line]
        if found := re.match(r"export interface (\w+)", line):
            while shown[-1] != "}":
                shown.append(next(lines))
            yield found[1], comment, "\n".join(shown)
        elif comment and (found := re.match(r"  (?:async )?(\*?\w+)(?:<.*>?)?\(", line)) and found[1] != "constructor":
            while not shown[-1].endswith("{"):
                shown.append(next(lines))
            text = "\n".join(part.removeprefix("  ") for part in shown)
            yield found[1], comment, text.removeprefix("async ").removesuffix(" {")
        comment = ""


MADE: dict[str, Callable[[], str]] = {
    "python": python,
    "http-operations": http_operations,
    "mcp-tools": mcp_tools,
    "errors": error_codes,
    "typescript": typescript,
}


if __name__ == "__main__":
    build(Path(sys.argv[1]))
