"""Write the pages of the site to build/docs: the pages of docs/, the changelog, and pages generated from the code.

python tools/site.py FOLDER. `make docs` runs it, and then MkDocs.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from ruamel.yaml import YAML

import memoranda
from memoranda import __all__ as public
from memoranda import aio, app, errors
from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openapi import build_document
from memoranda.bindings.mcp.tools import OPERATIONS
from memoranda.bindings.operations import cal, oams, oms, openwop, ump
from memoranda.errors import MemorandaError
from memoranda.service.core.verbs import Verb, Verbs

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
ALL_ROWS = [row for module in (ump, oams, oms, openwop, cal) for row in module.OPERATIONS]
# The attributes of `Memoranda` with the verbs of a standard: attribute, class, and name in the table of operations.
TABLES = (
    ("ump", "Ump", "ump"),
    ("oams", "Oams", "oams"),
    ("grains", "Grains", "oms"),
    ("openwop", "Openwop", "openwop"),
    ("cal", "Cal", "cal"),
)
# `m.oams` takes keyword arguments; the verbs with the requests of the standard are below it.
OAMS_PAGE = [
    "`m.oams` takes keyword arguments:",
    "",
    "::: memoranda.library.memories.OamsMemories",
    "    options: {show_root_heading: false, show_root_toc_entry: false, heading_level: 3}",
    "",
    "`m.oams.verbs` takes the requests of the standard:",
]
# Types of keywords that are neither classes nor fixed choices.
ALIASES = {
    "When": "`datetime` with a time zone, or text in RFC 3339, such as `2026-05-31T12:00:00Z` or `2026-05-31`",
    "HowLong": "`timedelta`, or text in ISO 8601, such as `P30D`",
    "Kinds": "one `Kind`, or a sequence of them",
    "Hits": "list of `Hit`",
    "Memories": "list of `Memory`",
    "Versions": "list of `Version`",
    "Record": "`dict` with the fields of a [UMP record](../standards/ump.md)",
    "EmbedTexts": "function from a list of texts to a list of vectors",
}
# Runs as written (tests/test_docs.py).
EXAMPLES = {
    "ump": """\
from memoranda import Memoranda

with Memoranda.open(":memory:") as m:
    draft = {"kind": "procedural", "body": {"text": "use pnpm, never npm"}}
    done = m.ump.remember(m.ump.with_defaults(draft, method="library"))
    print(m.ump.get(done.id)["body"]["text"])  # use pnpm, never npm
    print(m.ump.stats().memories)  # 1
    m.ump.undo_last()
    print(m.ump.stats().memories)  # 0
""",
    "oams": """\
from memoranda import Memoranda

with Memoranda.open(":memory:") as m:
    m.oams.store("tea", "green, no sugar", tags=["drinks"])
    print(m.oams.get("tea").memory["value"])  # green, no sugar
    print(m.oams.recall("with or without sugar?")[0]["key"])  # tea
""",
    "grains": """\
from memoranda import Memoranda

with Memoranda.open(":memory:") as m:
    tea = {"type": "belief", "subject": "alice", "relation": "prefers", "object": "tea", "confidence": 0.9}
    stored = m.grains.put({**tea, "created_at": "2026-01-15T10:00:00Z"})
    print(m.grains.get(stored.address).grain.fields["object"])  # tea
""",
    "openwop": """\
from memoranda import Memoranda
from memoranda.standards.openwop.entry import Draft

with Memoranda.open(":memory:") as m:
    entry, = m.openwop.put_entries("shop", [Draft(content="use pnpm, never npm")])
    print(m.openwop.get_entry("shop", entry["id"])["content"])  # use pnpm, never npm
""",
    "cal": """\
from memoranda import Memoranda

with Memoranda.open(":memory:") as m:
    m.remember("use pnpm, never npm", project="shop")
    answer = m.cal('RECALL LIKE "pnpm" AS text', namespace="shop")
    print(answer["formatted"])  # [belief] user: use pnpm, never npm (0.6)
""",
}
# Methods of AsyncMemoranda that differ from those of Memoranda.
_OWN_OF_ASYNC = {"open", "export"}
# Characters of a signature on one line.
MAX_COLUMNS = 80


def build(folder: Path) -> None:
    """Write all pages into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for page in folder.rglob("*.md"):
        source = ROOT / "docs" / page.relative_to(folder)
        page.write_text(_with_links(page.read_text(encoding="utf-8"), source, ROOT / "docs"), encoding="utf-8")
    (folder / "changes.md").write_text(
        _from_root((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
    (folder / "howto" / "index.md").write_text(how_tos(), encoding="utf-8")
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


def _from_root(text: str) -> str:
    """Return a page from the root of the repository, with its links adapted to docs/."""

    def adapt(link: re.Match[str]) -> str:
        if "://" in link[2]:
            return link[0]
        name = link[2].removeprefix("docs/")
        is_page = link[2] != name and ((ROOT / "docs" / name).is_file() or name == "changes.md")
        return f"[{link[1]}]({name}{link[3] or ''})" if is_page else link[1]

    return _LINK.sub(adapt, text)


def how_tos() -> str:
    """Return the list of all how-tos in the groups of the menu, each with its readers."""
    menu = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    groups = next(entry["How to"] for entry in menu if "How to" in entry)
    lines = [
        "# How to",
        "",
        "For everyone with a task: each page solves one, and names its readers first.",
    ]
    for group in groups:
        if not isinstance(group, dict):
            continue
        (title, pages), *_ = group.items()
        lines += ["", f"## {title}", ""]
        for page in pages:
            text = (ROOT / "docs" / page).read_text(encoding="utf-8")
            heading, readers = re.findall(r"\A# ([^\n]+)\n\n(For .+?[.])(?:\s|$)", text, re.DOTALL)[0]
            lines.append(f"- [{heading}]({page.removeprefix('howto/')}). {' '.join(readers.split())}")
    return "\n".join(lines) + "\n"


def python() -> str:
    """Return the reference of the library: every public name with its docstrings and types."""
    names = [name for name in public if name != "__version__" and not is_table(name)]
    raised = [name for name in names if is_error(name)]
    results = [name for name in names if name not in {"Memoranda", "AsyncMemoranda", "convert", *raised}]
    lines = [
        "# The Python library",
        "",
        "For programs in Python: the methods of `Memoranda`, the values that they return, and the errors.",
        "`from memoranda import Memoranda, NotFound` imports what is listed here; only the results of rare verbs",
        "come from other modules. [The tutorial](../tutorial.md) shows the library in use. The verbs of",
        "[each standard](python-verbs.md) and the [adapters](adapters.md) for frameworks have pages of their own.",
    ]
    lines += ["", *_class_block(app.__name__, "Memoranda", members_of(app.Memoranda))]
    own = members_of(aio.AsyncMemoranda)
    same = [name for name in own if inspect.isroutine(getattr(app.Memoranda, name, None)) and name not in _OWN_OF_ASYNC]
    lines += ["", *_class_block(aio.__name__, "AsyncMemoranda", [name for name in own if name not in same])]
    links = ", ".join(f"[`{name}`][memoranda.app.Memoranda.{name}]" for name in same)
    lines += ["", f"These methods have the keywords and results of `Memoranda`, and are awaited: {links}."]
    lines += ["", *_class_block(home_of("convert"), "convert")]
    for name in results:
        lines += ["", *_class_block(home_of(name), name)]
    for name, module in sorted(named_types().items()):
        if inspect.isclass(getattr(module, name)) and not is_typed_dict(getattr(module, name)):
            lines += ["", *_class_block(getattr(module, name).__module__, name)]
    lines += ["", "## Types of keywords", "", "| type | values |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in sorted(keyword_types().items())]
    for name in raised:
        lines += ["", *_class_block(home_of(name), name)]
    return "\n".join(lines) + "\n"


def _class_block(module: str, name: str, members: Sequence[str] = ()) -> list[str]:
    """Return the lines that show a class or function with its docstrings."""
    chosen = [f"      members: [{', '.join(members)}]"] if members else []
    return [f"::: {module}.{name}", "    options:", f"      heading: {name}", *chosen]


def members_of(front: type) -> list[str]:
    """Return the public members of a class: methods in the order of the source, then properties."""
    members = {name: value for name, value in vars(front).items() if not name.startswith("_")}
    later = [name for name, value in members.items() if isinstance(value, property | cached_property)]
    return [*(name for name in members if name not in later), *later]


def named_types() -> dict[str, ModuleType]:
    """Return the types in the signatures of `Memoranda` that are not public names, each with a module that has it."""
    texts: list[str] = []
    for member in vars(app.Memoranda).values():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if not getattr(function, "__name__", "_").startswith("_"):
            texts += [str(annotation) for annotation in getattr(function, "__annotations__", {}).values()]
    for keywords in (app.Where, app.ListFilter):
        texts += [str(getattr(value, "__forward_arg__", value)) for value in keywords.__annotations__.values()]
    tree = ast.parse(inspect.getsource(app))
    imported = {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: imported.get(name, app.__name__) for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
    # The backend of the library has these; programs need only their verbs.
    hidden = {*public, "Service", "Access", "OamsMemories", "Where", "ListFilter"}
    return {
        name: import_module(home)
        for name, home in homes.items()
        if name not in hidden and home.startswith("memoranda") and hasattr(import_module(home), name)
    }


def keyword_types() -> dict[str, str]:
    """Return the types of keywords that are no classes, with their values."""
    described = dict(ALIASES)
    for name, module in named_types().items():
        value = getattr(module, name)
        if name in described or (inspect.isclass(value) and not is_typed_dict(value)):
            continue
        if is_typed_dict(value):
            fields = ", ".join(f"`{field}`" for field in value.__annotations__)
            described[name] = f"`dict` with {fields}"
        else:
            described[name] = ", ".join(f'`"{choice}"`' for choice in get_args(value))
    return described


def is_typed_dict(value: object) -> bool:
    """Return True for a class of dictionaries with named fields."""
    return isinstance(value, type) and issubclass(value, dict)


def is_error(name: str) -> bool:
    """Return True if a public name is an error."""
    value = getattr(errors, name, None)
    return isinstance(value, type) and issubclass(value, MemorandaError)


def is_table(name: str) -> bool:
    """Return True if a public name is the table of verbs of a standard."""
    value = getattr(memoranda, name)
    return isinstance(value, type) and issubclass(value, Verbs)


def python_verbs() -> str:
    """Return the reference of the verbs of every standard: signatures, docstrings, permissions and routes."""
    routes = {(row.table, row.verb): f"{row.method} {row.path}" for row in ALL_ROWS if row.verb}
    lines = [
        "# The verbs of each standard in Python",
        "",
        "For programs that speak a standard itself instead of the plain methods of the library.",
        "A [`Memoranda`](python.md) has one attribute for each standard: `m.ump`, `m.oams`, `m.grains` (OMS),",
        "`m.openwop` and `m.cal`. `AsyncMemoranda` has the same, awaited. Requests are classes of",
        "`memoranda.standards.<name>.requests`.",
    ]
    for attribute, name, table in TABLES:
        verbs = getattr(memoranda, name)
        lines += ["", f"## m.{attribute}", "", inspect.cleandoc(verbs.__doc__ or "")]
        lines += ["", "```python", EXAMPLES[attribute].rstrip(), "```"]
        if attribute == "oams":
            lines += ["", *OAMS_PAGE]
        members = {key: value for base in reversed(verbs.__mro__) for key, value in vars(base).items()}
        for verb, member in members.items():
            if isinstance(member, Verb):
                lines += _verb(f"{attribute}.verbs" if attribute == "oams" else attribute, verb, member)
                lines += [f"HTTP: `{routes[table, verb]}`", ""] if (table, verb) in routes else []
    return "\n".join(lines) + "\n"


def _verb(attribute: str, name: str, verb: Verb[..., Any]) -> list[str]:
    """Return the lines about one verb."""
    signature = inspect.signature(verb.function)
    shown = list(signature.parameters.values())[verb.bound_count :]
    written = [str(parameter).replace("'", "") for parameter in shown]
    if (star := next((i for i, p in enumerate(shown) if p.kind is p.KEYWORD_ONLY), None)) is not None and not any(
        p.kind is p.VAR_POSITIONAL for p in shown
    ):
        written.insert(star, "*")
    result = signature.return_annotation
    arrow = f" -> {result}" if isinstance(result, str) else ""
    call = f"m.{attribute}.{name}({', '.join(written)}){arrow}"
    if len(call) > MAX_COLUMNS:
        call = "\n".join([f"m.{attribute}.{name}(", *(f"    {part}," for part in written), f"){arrow}"])
    scopes = f"Permissions: {', '.join(f'`{scope}`' for scope in verb.scopes)}." if verb.scopes else ""
    text = inspect.cleandoc(verb.__doc__ or "")
    return ["", f"### {name}", "", "```python", call, "```", "", text, "", *([scopes, ""] if scopes else [])]


def adapters() -> str:
    """Return the reference of the adapters for frameworks."""
    lines = [
        "# Adapters",
        "",
        "For programs that use an agent framework in Python: the classes of each adapter.",
        "[How to use them](../howto/frameworks.md). Each needs its extra, such as `memoranda[langgraph]`.",
    ]
    for path in sorted((ROOT / "src" / "memoranda" / "adapters").glob("[a-z]*.py")):
        name = f"memoranda.adapters.{path.stem}"
        lines += ["", f"::: {name}", "    options:", f"      heading: {name}"]
    return "\n".join(lines) + "\n"


def home_of(name: str) -> str:
    """Return the module that defines a public name."""
    return str(getattr(memoranda, name).__module__)


def http_operations() -> str:
    """Return the reference of all routes, from the OpenAPI document."""
    described = build_document(all_operations(), server_version="")
    lines = [
        "# Every HTTP operation",
        "",
        "For authors of HTTP clients: every request and answer with its fields.",
        "Generated from `/openapi.json`, which has all schemas. [The HTTP interface](http.md) explains the routes.",
    ]
    for path, item in described["paths"].items():
        for method, operation in item.items():
            lines += ["", f"## `{method.upper()} {path}`", "", operation["summary"] + "."]
            for parameter in operation.get("parameters", ()):
                lines += _parameter(parameter)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            lines += _fields("Request", body.get("schema"), described)
            if example := body.get("example"):
                lines += ["", "```json", json.dumps(example, indent=2, ensure_ascii=False), "```"]
            for status, answer in operation["responses"].items():
                content = resolve(answer, described).get("content", {}).get("application/json", {})
                if status.startswith("2"):
                    lines += _fields(f"Answer {status}", content.get("schema"), described)
    return "\n".join(lines) + "\n"


def resolve(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the OpenAPI document that a reference names, or the part itself."""
    while "$ref" in part:
        target: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        part = target
    return part


def _fields(title: str, schema: dict[str, Any] | None, document: dict[str, Any]) -> list[str]:
    """Return a table of the fields of a request or an answer; nothing if it has none."""
    resolved = resolve(schema or {}, document)
    if resolved.get("type") == "array":
        title, resolved = f"{title}, a list of", resolve(resolved["items"], document)
    properties = resolved.get("properties")
    if not properties:
        return []
    lines = ["", f"{title}:", "", "| field | type | description |", "|---|---|---|"]
    for name, value in properties.items():
        is_required = name in resolved.get("required", ())
        described = resolve(value, document).get("description") or value.get("description", "")
        text = " ".join(described.split()).replace("|", "\\|")
        lines.append(f"| `{name}`{'' if is_required else ' (optional)'} | {_type_of(value, document)} | {text} |")
    return lines


def _type_of(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    resolved = resolve(schema, document)
    choices = resolved.get("enum") or ([resolved["const"]] if "const" in resolved else [])
    if choices:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in choices)
    if options := resolved.get("anyOf") or resolved.get("oneOf"):
        return " or ".join(dict.fromkeys(_type_of(option, document) for option in options))
    kind = resolved.get("type", "any value")
    if kind == "array":
        return f"list of {_type_of(resolved.get('items', {}), document)}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


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
        "For authors of MCP programs.",
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
        "For programs that handle errors.",
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
        "For programs in TypeScript or JavaScript that call a server.",
        'Install `@memoranda/client`, then `import { Memoranda } from "@memoranda/client"`; `require()` works, too.',
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


def conformance() -> str:
    """Return the page of all requirements: section, text, tests, and the state in the last run of the tests."""
    states = _test_states()
    lines = [
        "# Conformance",
        "",
        "For readers who compare implementations: every requirement of the standards, with its tests and their result.",
        "The table is generated from `tests/standards/*/requirements.toml`, and from the results of `make test` in",
        "`build/requirements.json`. `memoranda conformance URL` checks any server ([command line](cli.md)).",
        "",
        "A state is *passed* if every test passed, *failed* if one failed, and *not run* if one was not run for this",
        "page. The level *OURS* marks a rule of our own.",
    ]
    for table in sorted((ROOT / "tests" / "standards").glob("*/requirements.toml")):
        requirements = tomllib.loads(table.read_text(encoding="utf-8"))["requirement"]
        rows = [_requirement_row(requirement, states) for requirement in requirements]
        count = sum(row.endswith(" passed |") for row in rows)
        lines += ["", f"## {table.parent.name.upper()}", "", f"{count} of {len(rows)} requirements passed.", ""]
        lines += ["| requirement | section | level | text | tests | state |", "|---|---|---|---|---|---|", *rows]
    return "\n".join([*lines, *_sentence_lines()]) + "\n"


def _sentence_lines() -> list[str]:
    """Return the part of the page that leads from each sentence of the founding documents to its requirements."""
    table = tomllib.loads((ROOT / "tests" / "standards" / "founding.toml").read_text(encoding="utf-8"))
    lines = [
        "",
        "## The founding documents",
        "",
        "Every sentence and printed example that demands something, in our words, with its requirements.",
    ]
    for document, sentences in groupby(table["sentence"], key=itemgetter("document")):
        lines += [
            "",
            f"### {document}",
            "",
            "| section | sentence | requirements, or the reason for none |",
            "|---|---|---|",
        ]
        for sentence in sentences:
            names = ", ".join(f"`{name}`" for name in sentence.get("rows", ())) or sentence["reason"]
            text = sentence["text"].replace("<", "&lt;")
            lines.append(f"| {sentence['section']} | {text} | {names} |")
    return lines


def _test_states() -> dict[str, str]:
    """Return the outcome of each test of the last run, by its name without parameters; empty without a run."""
    path = ROOT / "build" / "requirements.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _requirement_row(requirement: dict[str, Any], states: dict[str, str]) -> str:
    """Return one requirement as a row."""
    tests: list[str] = requirement.get("tests", [])
    outcomes = {states.get(test, "not run") for test in tests}
    state = next((name for name in ("failed", "not run", "skipped") if name in outcomes), "passed")
    if "deferred" in requirement:
        state = f"not ours to prove: {requirement['deferred']}"
    names = "<br>".join(f"`{test.rpartition('/')[2]}`" for test in tests)
    cells = (f"`{requirement['id']}`", requirement["section"], requirement["level"], requirement["text"], names, state)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


MADE: dict[str, Callable[[], str]] = {
    "python": python,
    "python-verbs": python_verbs,
    "adapters": adapters,
    "http-operations": http_operations,
    "mcp-tools": mcp_tools,
    "errors": error_codes,
    "conformance": conformance,
    "typescript": typescript,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="site.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pages are written")
    build(parser.parse_args().folder)
