"""What all routes of OAMS share: errors in the shape of JSON-RPC, names in a path, and how large a body may be."""

from __future__ import annotations

from typing import Any, Final

from starlette.routing import Match, Route
from starlette.types import Scope, Send

from memoranda.bindings.http import wire
from memoranda.encoding.json_text import dump
from memoranda.errors import MemorandaError, TooLarge, VersionMismatch
from memoranda.standards.oams import codes, rpc

PREFIX: Final = "/v1/oams/"
RPC_PATH: Final = "/v1/oams/rpc"
MEMORIES: Final = "/v1/oams/memories/"
# BATCH_STORE takes ten thousand memories: so many times as much as one request of the other standards.
BULK_FACTOR: Final = 8


def is_oams(scope: Scope) -> bool:
    return bool(scope["path"].startswith(PREFIX))


def body_limit(scope: Scope, max_bytes: int) -> int:
    """How many bytes a body may have, where `max_bytes` is the limit of an ordinary one."""
    return max_bytes * BULK_FACTOR if is_oams(scope) else max_bytes


# --- errors ----------------------------------------------------------------------------------------------


def problem(error: MemorandaError) -> tuple[int, str, dict[str, Any]]:
    """Code, message and data of an error (section 3)."""
    code = codes.code_of(error)
    reason = "version_conflict" if isinstance(error, VersionMismatch) else error.code
    return code, f"{codes.MEANINGS[code]}: {error.message}", {"reason": reason}


def status_of(error: MemorandaError) -> int:
    # RFC 9110 15.5.14 has a status of its own for what is well-formed but too large.
    return 413 if isinstance(error, TooLarge) else codes.http_status(codes.code_of(error))


async def send_error(send: Send, scope: Scope, error: MemorandaError) -> None:
    """Answer with an error that is not about one call of several."""
    body = error_body(*problem(error), is_rpc=scope["path"] == RPC_PATH)
    await wire.send_bytes(send, status_of(error), body, wire.error_headers(error))


def error_body(code: int, message: str, data: object = None, *, is_rpc: bool = False) -> bytes:
    if is_rpc:
        # JSON-RPC 2.0, section 5: null where the id is not known.
        return dump(rpc.failure(rpc.Call(), code, message, data))
    return dump({"error": rpc.error_object(code, message, data)})


# --- paths -----------------------------------------------------------------------------------------------


class MemoryRoute(Route):
    """A route below /v1/oams/memories/, matched before anything is decoded: an encoded slash belongs to its name.

    A key is everything after the slash behind the namespace, further slashes included, as some proxies decode them.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or not scope["raw_path"].startswith(MEMORIES.encode("ascii")):
            return Match.NONE, {}
        namespace, slash, key = scope["raw_path"].removeprefix(MEMORIES.encode("ascii")).partition(b"/")
        if bool(slash) != ("key" in self.param_convertors) or not (namespace or slash):
            return Match.NONE, {}
        path_params = {"namespace": namespace, "key": key} if slash else {"namespace": namespace}
        is_whole = self.methods is None or scope["method"] in self.methods
        return Match.FULL if is_whole else Match.PARTIAL, {"endpoint": self.endpoint, "path_params": path_params}
