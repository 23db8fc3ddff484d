"""What the JSON schemas of all tools (draft 2020-12) are made of.

Input schemas have no `anyOf` at their root, because model providers refuse it there. Output schemas describe
the error envelope too: some clients check `structuredContent` against them even when `isError` is set.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def obj(description: str, properties: Schema, *required: str, closed: bool = True) -> Schema:
    schema: Schema = {"type": "object", "description": description, "properties": properties}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def array(description: str, items: Schema, **more: Any) -> Schema:
    return {"type": "array", "description": description, "items": items, **more}


def tool(title: str, description: str, properties: Schema, *required: str) -> Schema:
    return {"$schema": DIALECT, "title": title, **obj(description, properties, *required)}


_CODE: Final = text(
    "invalid_record, not_found, unauthorized, forbidden_scope, consent_violation, signature_invalid, "
    "unsupported, rate_limited, unavailable, corrupt or internal."
)
_MESSAGE: Final = text("What was wrong and where, after the code and a colon.")


def answer(title: str, properties: Schema, **error_properties: Schema) -> Schema:
    """A result with all these properties, or an error."""
    said = {"code": _CODE, "message": _MESSAGE, **error_properties}
    error = obj("Instead of a result, when isError is set.", said, "code", "message")
    return {
        "$schema": DIALECT,
        "title": title,
        "type": "object",
        "properties": {**properties, "error": error},
        "oneOf": [{"required": list(properties)}, {"required": ["error"]}],
    }
