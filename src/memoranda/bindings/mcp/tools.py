"""All tools of all standards: arguments in, one service call, the answer out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types

from memoranda.bindings.mcp import cal_tools, oams_tools, oms_tools, ump_tools
from memoranda.bindings.mcp.operation import Answer, Arguments, Operation
from memoranda.encoding import json_text
from memoranda.encoding.untrusted import neutralize_json
from memoranda.errors import GrainError, InvalidInput, MemorandaError, QueryError
from memoranda.service.core.access import Access
from memoranda.service.core.secret_screening import noticing
from memoranda.service.service import Service
from memoranda.standards.cal.problem import error_envelope


def checked(arguments: Mapping[str, Any] | None) -> Arguments:
    """The arguments within the limits of all JSON we take."""
    # They were read by the SDK's parser, which knows neither our limits nor our strictness; ours has the last word.
    try:
        text = json.dumps(dict(arguments or {}), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise InvalidInput(
            "the arguments hold a number or a nesting that JSON does not allow"
        ) from None
    value = json_text.parse(text)
    assert isinstance(value, dict)
    return value


def failure(error: MemorandaError, *, tool: str = "") -> types.CallToolResult:
    """An error as UMP section 3.7 writes it, for the model to read; the tools of OMS and CAL say it in their words."""
    if isinstance(error, QueryError) and cal_tools.is_tool(tool):
        return _result(error_envelope(error), is_error=True)
    said = {"code": error.code, "message": f"{error.code}: {error.message}"}
    if isinstance(error, GrainError) and tool.startswith(oms_tools.PREFIX):
        said["oms_code"] = error.oms_code
    return _result({"error": said}, is_error=True)


def run(
    called: Operation,
    service: Service,
    access: Access,
    arguments: Mapping[str, Any] | None,
    *,
    is_plain: bool = False,
) -> types.CallToolResult:
    """Call a tool, by its plain face if that is asked for. Raises MemorandaError."""
    with noticing() as noticed:
        made = _called(called, service, access, checked(arguments), is_plain=is_plain)
    if noticed.kinds:
        # MCP: a result may have several contents, and whatever it likes in `_meta` under a name of its own.
        made.content.append(types.TextContent(type="text", text=f"Warning: {noticed}"))
        made.meta = {"memoranda/warning": str(noticed)}
    return made


def _called(
    called: Operation, service: Service, access: Access, arguments: Arguments, *, is_plain: bool
) -> types.CallToolResult:
    if is_plain and called.plain is not None and called.plain.call is not None:
        told = called.plain.call(service, access, called.plain.reads(arguments))
        if isinstance(told, str):
            return types.CallToolResult(content=[types.TextContent(type="text", text=told)])
        return _result(told)
    answer = called.call(service, access, called.reads(arguments))
    return _result(
        answer, cal_tools.text_of(answer) if cal_tools.is_tool(called.tool.name) else None
    )


def _result(
    body: Answer, asked_for: str | None = None, *, is_error: bool = False
) -> types.CallToolResult:
    """The text that was asked for, alone, so that a budget holds; else the answer as JSON.

    The text is for a model, so what memories say in it spells no tag of a frame; the structured answer is for programs,
    which verify what is signed: it is exact.
    """
    text = asked_for or json_text.dump(neutralize_json(body)).decode("utf-8")
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=body, is_error=is_error)


OPERATIONS: Final[Mapping[str, Operation]] = {
    each.tool.name: each
    for each in (
        *ump_tools.OPERATIONS,
        *oams_tools.OPERATIONS,
        *oms_tools.OPERATIONS,
        *cal_tools.OPERATIONS,
    )
}
_PLAIN: Final[Mapping[str, Operation]] = {each.plain_name: each for each in OPERATIONS.values()}


def named(name: str) -> Operation | None:
    """The tool that goes by this name, in either spelling."""
    return OPERATIONS.get(name) or _PLAIN.get(name)
