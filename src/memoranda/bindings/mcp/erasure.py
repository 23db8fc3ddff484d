"""Erasing for good over MCP: the agent asks, and the person it works for answers.

UMP §3.6: hard is the owner's alone. A credential may say so itself (the scope `erase`). An agent that a person started
on this machine has none: its host shows the person what is to be erased, and only a yes lends it the owner's word. Who
cannot be asked keeps the memory, forgotten or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memoranda.bindings.mcp.operation import Operation
from memoranda.bindings.mcp.subscriptions import RequestContext
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.errors import ForbiddenScope

_KEY: Final = "erase"
_TOOL: Final = "ump.forget"
_SHOWN_CHARS: Final = 500
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {_KEY: {"type": "boolean", "title": "Erase it for good", "default": False}},
    "required": [_KEY],
}


def is_erasure(called: Operation, arguments: Mapping[str, Any] | None) -> bool:
    """Whether a call is to erase something for good."""
    return called.tool.name == _TOOL and (arguments or {}).get("hard") is True


async def ask_person(
    ctx: RequestContext, params: types.CallToolRequestParams, text: str
) -> types.InputRequiredResult | None:
    """Ask whether a memory that says this may be erased: None means yes. Raises ForbiddenScope otherwise.

    Since 2026-07-28 the client is told to ask and to call again with the answer; before, it is asked while it waits.
    """
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise ForbiddenScope(
            "only the person may erase for good, and this client cannot ask; forget it without hard, or let them run "
            "'memoranda forget --hard'",
            scope="erase",
        )
    question = f"Erase this memory and its earlier versions for good?\n\n{neutralize_tags(text[:_SHOWN_CHARS])}"
    answer: object
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if params.input_responses is None:
            form = types.ElicitRequestFormParams(message=question, requested_schema=_SCHEMA)
            return types.InputRequiredResult(
                input_requests={_KEY: types.ElicitRequest(params=form)}
            )
        answer = params.input_responses.get(_KEY)
    else:
        answer = await ctx.session.elicit_form(question, _SCHEMA, ctx.request_id)
    if not (
        isinstance(answer, types.ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get(_KEY) is True
    ):
        raise ForbiddenScope(
            "the person did not agree to erase it; nothing was changed", scope="erase"
        )
    return None
