"""Types and routes of the TypeScript client, from the table of operations and its OpenAPI document.

    python clients/typescript/generate.py

writes `src/types.ts` and `src/operations.ts`: the types of every request and answer, and for each operation its route,
its fields and its answer. A test compares them with the files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from memoranda.bindings.http.app import all_operations
from memoranda.bindings.http.openapi import build_document
from memoranda.bindings.http.operation import Operation

SOURCE: Final = Path(__file__).parent / "src"
# The standards that the client speaks; hosts of openwop have clients of their own.
STANDARDS: Final = frozenset({"ump", "oms", "oams", "cal"})
# Operations of the server itself: pages, health, documents, and calls in one request.
LEFT_OUT: Final = frozenset({"welcome", "alive", "ready", "openapi", "metrics", "oams_rpc", "cal_card"})
# Operations with a body that change nothing, so that a failed call may be repeated.
POSTED_READS: Final = frozenset({"recall", "rehydrate", "grain_search", "cal_check", "cal_stream", "oams_recall"})
HEAD: Final = """\
// Written by generate.py from the server's table of operations; change that instead.
"""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
# Names that TypeScript has for something else.
_RENAMED: Final = {"Record": "MemoryRecord"}
_SIMPLE: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def generate() -> dict[str, str]:
    """Return the generated files, by name."""
    chosen = [each for each in all_operations(()) if each.standard.name in STANDARDS and each.name not in LEFT_OUT]
    openapi = build_document(chosen, server_version="0")
    described = {each.name: openapi["paths"][each.path][each.method.lower()] for each in chosen}
    used: list[str] = []
    rows = [_row(each, described[each.name], used) for each in chosen]
    schemas = openapi["components"]["schemas"]
    return {"types.ts": _types(schemas, list(used)), "operations.ts": _operations(rows, used)}


def _types(schemas: dict[str, Any], wanted: list[str]) -> str:
    found = dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _shown(schemas[name], "", wanted)
    return HEAD + "".join(
        f"\n{_comment(schemas[name], '')}export type {_RENAMED.get(name, name)} = {found[name]};\n"
        for name in sorted(found)
    )


def _row(operation: Operation, described: dict[str, Any], used: list[str]) -> tuple[str, str, str]:
    """Return an operation's name, its entry in the interface, and its entry in the table of routes."""
    name = described["operationId"]
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    has_body = body is not None and body != {"type": "object", "properties": {}, "additionalProperties": False}
    places = ("path",) if has_body else ("path", "query")
    parameters = [each for each in described.get("parameters", ()) if each["in"] in places]
    stated = {"type": "object", "additionalProperties": False, "required": [], "properties": {}}
    stated["properties"] = {each["name"]: each["schema"] for each in parameters}
    stated["required"] = [each["name"] for each in parameters if each.get("required")]
    parts = [_shown(stated, "    ", used)] if parameters else []
    parts += [_shown(body, "    ", used)] if has_body else []
    answer = next((_answer(each, used) for code, each in described["responses"].items() if code[0] == "2"), "undefined")
    comment = f"  /** {described['summary']} */\n"
    fields = (
        " & ".join(f"({part})" if len(parts) > 1 and "|" in part else part for part in parts)
        or "{ [name: string]: never }"
    )
    entry = f"{comment}  {name}: {{\n    fields: {fields};\n    answer: {answer};\n  }};\n"
    method = operation.method
    place = "body" if has_body else "query" if method in ("GET", "DELETE") else "path"
    route = [method, operation.path, place, method == "GET" or operation.name in POSTED_READS]
    return name, entry, f"  {name}: {json.dumps(route)},\n"


def _answer(response: dict[str, Any], used: list[str]) -> str:
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    return "undefined" if schema is None else _shown(schema, "    ", used)


def _operations(rows: list[tuple[str, str, str]], used: list[str]) -> str:
    names = sorted({_RENAMED.get(name, name) for name in used})
    imports = "".join(f"  {name},\n" for name in names)
    return (
        f'{HEAD}import type {{\n{imports}}} from "./types.js";\n\n'
        "/** The fields and the answer of each operation, by its name in the OpenAPI document. */\n"
        "export interface Operations {\n" + "".join(entry for _, entry, _ in rows) + "}\n\n"
        'export type Place = "body" | "query" | "path";\n'
        "export type Route = readonly [method: string, path: string, rest: Place, isRead: boolean];\n\n"
        "/** Method, path, the part of the request that holds the other fields, and true if nothing is changed. */\n"
        "export const ROUTES: { [Name in keyof Operations]: Route } = {\n"
        + "".join(route for _, _, route in rows)
        + "};\n"
    )


def _shown(schema: dict[str, Any], indent: str, wanted: list[str]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        wanted.append(name)
        return _RENAMED.get(name, name)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_shown(each, indent, wanted) for each in choices))
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " | ".join(_of_kind(kind, schema, indent, wanted) for kind in kinds) or "unknown"


def _of_kind(kind: str, schema: dict[str, Any], indent: str, wanted: list[str]) -> str:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "array":
        inner = _shown(schema.get("items", {}), indent, wanted)
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    if not properties:
        return f"{{ [name: string]: {_shown(rest, indent, wanted) if isinstance(rest, dict) else 'unknown'} }}"
    inner_indent, required = f"{indent}  ", schema.get("required", ())
    lines = []
    for name, each in properties.items():
        key = name if _NAME.fullmatch(name) else json.dumps(name)
        optional = "" if name in required else "?"
        lines.append(
            f"{_comment(each, inner_indent)}{inner_indent}{key}{optional}: {_shown(each, inner_indent, wanted)};\n"
        )
    if rest is not False:
        lines.append(f"{inner_indent}[name: string]: unknown;\n")
    return "{\n" + "".join(lines) + indent + "}"


def _comment(schema: dict[str, Any], indent: str) -> str:
    text = schema.get("description", "").replace("*/", "* /")
    return f"{indent}/** {text} */\n" if text else ""


if __name__ == "__main__":
    for file, text in generate().items():
        (SOURCE / file).write_text(text, encoding="utf-8")
