"""Types of the TypeScript client, src/types.ts, from our own OpenAPI document.

    python clients/typescript/generate.py > clients/typescript/src/types.ts

A test compares the two.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from memoranda.bindings.http.app import operations_of
from memoranda.bindings.http.openapi import document

# What the client takes and gives; what these name comes along.
ROOTS: Final = (
    "CalAnswer",
    "CalCheckAnswer",
    "CalPagedQueryRequest",
    "CalPrepareAnswer",
    "ChangesAnswer",
    "EraseUserAnswer",
    "ExportAnswer",
    "FeedbackRequest",
    "FindAnswer",
    "ForgetAnswer",
    "GrainAnswer",
    "HistoryAnswer",
    "ImportsAnswer",
    "ListAnswer",
    "NewMemory",
    "OamsDream",
    "OamsMemory",
    "OamsPage",
    "OamsUndone",
    "OriginsAnswer",
    "OwnedFindRequest",
    "ProjectsAnswer",
    "PutAnswer",
    "RecallAnswer",
    "RecallRequest",
    "Record",
    "RehydrateAnswer",
    "RehydrateRequest",
    "RememberAnswer",
    "ReviseAnswer",
    "ReviseRequest",
    "RulesAnswer",
    "StandardsAnswer",
    "StatsAnswer",
    "SupersedeAnswer",
    "SuspectsAnswer",
    "UndoAnswer",
    "UndoImportAnswer",
    "VerifyAnswer",
)
HEAD: Final = """\
// Written by generate.py from the server's OpenAPI document; change that instead.
"""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
# Names that TypeScript has for something else.
_RENAMED: Final = {"Record": "MemoryRecord"}
_SIMPLE: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def types(openapi: dict[str, Any] | None = None) -> str:
    """The whole file."""
    schemas = (openapi or document(operations_of(()), server_version="0"))["components"]["schemas"]
    wanted, found = list(ROOTS), dict[str, str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _shown(schemas[name], "", wanted)
    return HEAD + "".join(
        f"\n{_comment(schemas[name], '')}export type {_RENAMED.get(name, name)} = {found[name]};\n"
        for name in sorted(found)
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
    print(types(), end="")
