"""Errors as the protocol writes them, for the requests that are not tool calls; and the one hop to a thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import mcp_types as types
from anyio import to_thread
from mcp.shared.exceptions import MCPError

from memoranda.errors import InvalidInput, MemorandaError, NotFound

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger(__name__)


async def answered(call: Callable[[*Ts], T], *args: *Ts) -> T:
    """What a synchronous call returns, its errors turned into the protocol's."""
    try:
        return await to_thread.run_sync(call, *args)
    except MemorandaError as error:
        raise protocol_error(error) from None
    # One of the three rims: nothing of our insides reaches the wire.
    except Exception:  # noqa: BLE001
        _log.exception("%s failed", call)
        raise protocol_error(
            MemorandaError("an unexpected error; the server's log tells more")
        ) from None


def protocol_error(error: MemorandaError) -> MCPError:
    """JSON-RPC has few codes; ours is in `data`, and before the message as everywhere."""
    # MCP, resources, error handling: what is not there is an invalid parameter.
    is_callers = isinstance(error, InvalidInput | NotFound)
    code = types.INVALID_PARAMS if is_callers else types.INTERNAL_ERROR
    return MCPError(code, f"{error.code}: {error.message}", {"code": error.code})
