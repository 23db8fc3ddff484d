"""Requests of MCP: their context, their errors, and the confirmation that erasing needs.

Everything behind a request is synchronous: `run_in_thread` moves to a thread once, and turns errors into JSON-RPC
errors. Tool calls report errors as results of the tool instead, see `tools.failure`.

Erasing for good (UMP §3.6: hard) is reserved to the owner. A credential may allow it with the scope `erase`. An agent
that a person started on this machine has no such credential: its host shows the person what will be erased, and the
call gets the owner's rights only after the person agreed. If the host cannot ask, nothing is erased.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, TypeVarTuple

import mcp_types as types
from anyio import to_thread
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memoranda.bindings.mcp.definition import MemoryTool
from memoranda.encoding.untrusted import neutralize_tags
from memoranda.errors import ForbiddenScope, InvalidInput, MemorandaError, NotFound
from memoranda.service.core.access import Access

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RequestContext = ServerRequestContext[TaskGroup, object]
# Returns the access of the caller of a request.
AccessOf = Callable[[RequestContext], Access]

# The name of the one field of the form that asks the person.
_CONFIRMATION: Final = "erase"
_FORGET_TOOL: Final = "ump.forget"
# Characters of the memory in the question; dialogs of hosts are small.
_QUOTED_CHARS: Final = 500
_FORM: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        _CONFIRMATION: {"type": "boolean", "title": "Erase it for good", "default": False}
    },
    "required": [_CONFIRMATION],
}

_log = logging.getLogger(__name__)


async def run_in_thread(call: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call a synchronous function in a thread and return its result. Raises MCPError for every error."""
    try:
        return await to_thread.run_sync(call, *args)
    except MemorandaError as error:
        raise protocol_error(error) from None
    # An outermost handler: unexpected errors are logged, and the client learns no details.
    except Exception:  # noqa: BLE001
        _log.exception("%s failed", call)
        raise protocol_error(unexpected_error()) from None


def unexpected_error() -> MemorandaError:
    """Return the error that stands for a bug of the server. The log has the details."""
    return MemorandaError("an unexpected error; see the server's log")


def protocol_error(error: MemorandaError) -> MCPError:
    """Return an error as JSON-RPC. Its codes are few, so ours stands in `data` and before the message."""
    # MCP, resources, error handling: a missing resource is an invalid parameter.
    is_callers = isinstance(error, InvalidInput | NotFound)
    code = types.INVALID_PARAMS if is_callers else types.INTERNAL_ERROR
    return MCPError(code, f"{error.code}: {error.message}", {"code": error.code})


def is_erasure(tool: MemoryTool, arguments: Mapping[str, object] | None) -> bool:
    """Return True if a call would erase a memory for good."""
    return tool.tool.name == _FORGET_TOOL and (arguments or {}).get("hard") is True


async def confirm_erasure(
    ctx: RequestContext, params: types.CallToolRequestParams, text: str
) -> types.InputRequiredResult | None:
    """Ask the person whether the memory with this text may be erased. Raises ForbiddenScope if not.

    None means that the person agreed. Since protocol 2026-07-28 the client gets a result that tells it to ask and to
    call again with the answer. In earlier versions the client asks while the call waits.
    """
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise ForbiddenScope(
            "only the person may erase for good, and this client cannot ask; forget it without hard, or let them run "
            "'memoranda forget --hard'",
            scope="erase",
        )
    question = f"Erase this memory and its earlier versions for good?\n\n{neutralize_tags(text[:_QUOTED_CHARS])}"
    answer: object
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if params.input_responses is None:
            form = types.ElicitRequestFormParams(message=question, requested_schema=_FORM)
            return types.InputRequiredResult(
                input_requests={_CONFIRMATION: types.ElicitRequest(params=form)}
            )
        answer = params.input_responses.get(_CONFIRMATION)
    else:
        answer = await ctx.session.elicit_form(question, _FORM, ctx.request_id)
    if not (
        isinstance(answer, types.ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get(_CONFIRMATION) is True
    ):
        raise ForbiddenScope(
            "the person did not agree to erase it; nothing was changed", scope="erase"
        )
    return None
