"""The MCP server: tools of UMP, OMS and CAL, memories as resources with change notifications, and prompts.

One `Server` speaks both eras of the protocol. Up to 2025-11-25 a client shakes hands, subscribes to resources
and is notified on its session; since 2026-07-28 each request stands alone and a client listens on a stream.
The caller is determined for each request; everything below is synchronous and runs in a thread.

`memoranda mcp` serves one agent on standard input and output (`run_stdio`); `http.py` serves many over HTTP.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from anyio import to_thread
from anyio.abc import TaskGroup
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from msgspec.structs import replace

from memoranda import __version__
from memoranda.bindings.mcp import resources, tools
from memoranda.bindings.mcp.agents import name_agent
from memoranda.bindings.mcp.definition import MemoryTool
from memoranda.bindings.mcp.handshake import (
    DESCRIPTION,
    INSTRUCTIONS,
    NAME,
    TITLE,
    EarlyHandshake,
    ReplayedInput,
)
from memoranda.bindings.mcp.offer import ToolOffer, list_tools
from memoranda.bindings.mcp.requests import (
    AccessOf,
    RequestContext,
    confirm_erasure,
    is_erasure,
    protocol_error,
    run_in_thread,
    unexpected_error,
)
from memoranda.bindings.mcp.subscriptions import Subscriptions
from memoranda.errors import MemorandaError, NotFound
from memoranda.service.core.access import Access
from memoranda.service.service import Service

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import WriteStream

# Members of `_meta` in the list of tools: the answer of `ump.capabilities`, and the reserved names of all tools of UMP.
CAPABILITIES_META: Final = "ump/capabilities"
OPERATIONS_META: Final = "ump/operations"
# Returns the tools that are offered to the client that sent a request.
OfferOf = Callable[[RequestContext], ToolOffer]

# Names in `_meta` under which a client asks for reports of progress.
_PROGRESS_TOKENS: Final = frozenset(("progress_token", "progressToken"))

_log = logging.getLogger(__name__)


class MemoryServer(Server[TaskGroup]):
    """The SDK's server, which announces in the handshake that the list of resources changes."""

    subscriptions: Subscriptions

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, object]] | None = None,
        extensions: dict[str, dict[str, object]] | None = None,
    ) -> InitializationOptions:
        """Return the options of the handshake, with changes of the list of resources."""
        options = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


def create_server(
    service: Service,
    access_of: AccessOf,
    *,
    renew_access: AccessOf | None = None,
    offer_of: OfferOf = lambda _ctx: ToolOffer(),
    person: Access | None = None,
) -> MemoryServer:
    """Return a server over one store.

    `access_of` returns the access of a caller; `renew_access` checks it again while a subscription lasts. `offer_of`
    returns the offer to a client. `person` is the access of the person the agent works for, who may confirm erasures.
    """
    handlers = _Handlers(service, access_of, offer_of, person)
    subscriptions = Subscriptions(service, access_of, renew_access or access_of)
    server = MemoryServer(
        NAME,
        version=__version__,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        lifespan=_run_followers,
        get_tool_input_schema=_input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=subscriptions.subscribe,
        on_unsubscribe_resource=subscriptions.unsubscribe,
        on_subscriptions_listen=subscriptions.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    server.subscriptions = subscriptions
    server.add_notification_handler(
        "notifications/initialized", types.NotificationParams, subscriptions.session_started
    )
    return server


@asynccontextmanager
async def _run_followers(_: Server[TaskGroup]) -> AsyncIterator[TaskGroup]:
    """Keep the task group in which sessions follow the change feed, and cancel it when the server ends."""
    async with anyio.create_task_group() as group:
        try:
            yield group
        finally:
            group.cancel_scope.cancel()


def _input_schema(name: str) -> dict[str, object] | None:
    tool = tools.find_tool(name)
    return None if tool is None else tool.tool.input_schema


async def _run_with_progress(
    ctx: RequestContext, tool: MemoryTool, work: Callable[[], types.CallToolResult]
) -> types.CallToolResult:
    """Do the work in a thread, and report progress each second if the client asked for it.

    A cancelled call is abandoned if it only reads. A call that writes is finished, so that it is never half done.
    """
    hints = tool.tool.annotations
    in_thread = partial(to_thread.run_sync, abandon_on_cancel=bool(hints and hints.read_only_hint))
    if ctx.meta is None or _PROGRESS_TOKENS.isdisjoint(ctx.meta):
        return await in_thread(work)

    async def report() -> None:
        for seconds in itertools.count():
            await ctx.session.report_progress(seconds, message=f"{tool.tool.title}: {seconds} s")
            await anyio.sleep(1)

    def catch_error() -> types.CallToolResult | MemorandaError:
        # A task group would wrap an exception in a group.
        try:
            return work()
        except MemorandaError as error:
            return error

    async with anyio.create_task_group() as group:
        group.start_soon(report)
        outcome = await in_thread(catch_error)
        group.cancel_scope.cancel()
    if isinstance(outcome, MemorandaError):
        raise outcome
    return outcome


class _Handlers:
    """The handlers of requests that have one answer. `subscriptions.py` has those that last."""

    def __init__(
        self, service: Service, access_of: AccessOf, offer_of: OfferOf, person: Access | None
    ) -> None:
        self._service = service
        self._access_of = access_of
        self._offer_of = offer_of
        self._person = person

    async def list_tools(
        self, ctx: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Handle `tools/list`."""
        # UMP §4.1: "capabilities is derivable from the tool list". Hosts keep `_meta` out of the model's context, so
        # the short default list can name the other tools there.
        meta = {
            CAPABILITIES_META: self._service.capabilities(),
            OPERATIONS_META: [name for name in tools.OPERATIONS if name.startswith("ump.")],
        }
        return types.ListToolsResult(tools=list(list_tools(self._offer_of(ctx))), _meta=meta)

    async def call_tool(
        self, ctx: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Handle `tools/call`. Errors of the call are results for the model, not protocol errors.

        Raises MCPError only for a tool that does not exist.
        """
        tool, offer = tools.find_tool(params.name), self._offer_of(ctx)
        if tool is None:
            # MCP, tools, error handling: an unknown tool is a protocol error, not a tool's result.
            names = ", ".join(offer.rename_tools(name) for name in tools.OPERATIONS)
            raise MCPError(
                types.INVALID_PARAMS,
                f"not_found: no tool {params.name[:64]!a}; there are {names}",
                {"code": "not_found"},
            )
        try:
            access = self._access_of(ctx)
            if self._person is not None and is_erasure(tool, params.arguments):
                # The text is read with the agent's own rights.
                record = await to_thread.run_sync(
                    self._service.get, access, str((params.arguments or {}).get("id"))
                )
                question = await confirm_erasure(ctx, params, record["body"]["text"])
                if question is not None:
                    return question
                access = name_agent(self._person, ctx)
            work = partial(
                tools.run_tool,
                tool,
                self._service,
                access,
                params.arguments,
                is_plain=offer.is_plain(tool, params.name),
            )
            return await _run_with_progress(ctx, tool, work)
        except MemorandaError as error:
            return tools.error_result(error, tool=tool.tool.name)
        # An outermost handler: unexpected errors are logged, and the model learns no details.
        except Exception:  # noqa: BLE001
            _log.exception("%s failed", params.name)
            return tools.error_result(unexpected_error())

    async def list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Handle `resources/list`."""
        cursor = None if params is None else params.cursor
        return await run_in_thread(
            resources.list_resources, self._service, self._access_of(ctx), cursor
        )

    async def list_templates(
        self, _ctx: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Handle `resources/templates/list`."""
        return types.ListResourceTemplatesResult(resource_templates=list(resources.TEMPLATES))

    async def read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Handle `resources/read`."""
        return await run_in_thread(
            resources.read_resource, self._service, self._access_of(ctx), params.uri
        )

    async def list_prompts(
        self, ctx: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Handle `prompts/list`."""
        return types.ListPromptsResult(prompts=resources.list_prompts(self._offer_of(ctx)))

    async def get_prompt(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Handle `prompts/get`."""
        if params.name == resources.CARD_NAME:
            return await run_in_thread(resources.cal_card, params.arguments)
        if params.name not in (resources.NAME, resources.PLAIN_NAME):
            offered = resources.list_prompts(self._offer_of(ctx))
            names = ", ".join(prompt.name for prompt in offered)
            raise protocol_error(NotFound(f"no prompt {params.name[:64]!a}; there are {names}"))
        return await run_in_thread(
            resources.rehydrate, self._service, self._access_of(ctx), params.arguments
        )


def run_stdio(
    service: Service,
    access: Access,
    offer: ToolOffer | None = None,
    early: EarlyHandshake | None = None,
) -> None:
    """Serve one agent on standard input and output, until it closes our input or a signal ends us. Close the store.

    `early`: the thread that may have answered the first message.
    """
    try:
        # While serving, the SDK points descriptor 1 at standard error, so that only the protocol reaches the client.
        anyio.run(_serve_stdio, service, access, offer or ToolOffer(), early)
    finally:
        service.close()


def create_agent_server(service: Service, access: Access, offer: ToolOffer) -> MemoryServer:
    """Return the server for an agent on this machine.

    The agent has the rights of the person who started it, except for accepting what was learnt, and for erasing, which
    the person confirms each time.
    Its memories name it: as `access` does, or else as its client does in the handshake.
    """
    agent = replace(access, verbs=access.verbs - {"erase", "activate"})
    return create_server(
        service, partial(name_agent, agent), offer_of=lambda _ctx: offer, person=access
    )


async def _serve_stdio(
    service: Service, access: Access, offer: ToolOffer, early: EarlyHandshake | None
) -> None:
    server = create_agent_server(service, access, offer)
    stdin = None if early is None else _take_over_input(early)
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, service)
        async with stdio_server(stdin) as (incoming, outgoing):
            answered_id = None if early is None else early.answered_id
            messages: WriteStream[SessionMessage] = outgoing
            if answered_id is not None:
                messages = _WithoutAnswer(outgoing, answered_id)
            await server.run(incoming, messages, server.create_initialization_options())
        group.cancel_scope.cancel()


def _take_over_input(early: EarlyHandshake) -> anyio.AsyncFile[str]:
    """Return standard input from its beginning; the descriptor itself shows an end to child processes."""
    early.finish()
    own_descriptor = os.dup(0)
    os.set_inheritable(own_descriptor, False)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    buffer = io.BufferedReader(ReplayedInput(early.message, own_descriptor))
    return anyio.wrap_file(io.TextIOWrapper(buffer, encoding="utf-8", errors="replace"))


class _WithoutAnswer:
    """A stream of outgoing messages without the answer to a request that was answered already."""

    def __init__(self, stream: WriteStream[SessionMessage], answered_id: int | str) -> None:
        self._stream = stream
        self._answered_id: int | str | None = answered_id

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message, or drop it if it is that answer."""
        message = item.message
        if (
            self._answered_id is not None
            and isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
            and message.id == self._answered_id
        ):
            self._answered_id = None
            return
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> _WithoutAnswer:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._stream.__aexit__(*error)


async def _end_on_signal(service: Service) -> None:
    """Close the store and end the process at the first SIGTERM or SIGINT."""
    if (
        sys.platform == "win32"
    ):  # Windows lacks these signals; closing the input ends the server there.
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            await to_thread.run_sync(service.close)
            sys.stderr.flush()
            # A thread is blocked in a read of standard input, which only the end of the input can wake.
            os._exit(0)
