"""The console in a server that loads it at the first request.

Templates and file formats take long to load, and many servers get no request for the console.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from memoranda.bindings.console.visit import ROOT
from memoranda.bindings.http.route import RouteTable
from memoranda.bindings.http.threads import Threads
from memoranda.service.core.people import ProviderSettings
from memoranda.service.service import Service


class LazyConsole:
    """The ASGI application under `/console`."""

    def __init__(
        self,
        service: Service,
        threads: Threads,
        provider: ProviderSettings | None = None,
        on_stop: list[Callable[[], None]] | None = None,
    ) -> None:
        """Prepare the routes. `provider` lets people sign in with its accounts (OpenID Connect).

        The console adds to `on_stop` what ends its streams, so that the server can stop.
        """
        self._service, self._threads, self._provider = service, threads, provider
        self._on_stop = [] if on_stop is None else on_stop
        self._lock = threading.Lock()
        self._router: Router | None = None

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """The routes of all paths of the console."""
        return [Route(ROOT, endpoint=self), Route(f"{ROOT}/{{path:path}}", endpoint=self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        router = await self._threads.run(self._load) if self._router is None else self._router
        await router(scope, receive, send)

    def _load(self) -> Router:
        """Load the console once, and return its router."""
        # Imported here, because it loads Jinja and the file formats.
        from memoranda.bindings.console.app import Console

        with self._lock:
            if self._router is None:
                console = Console(self._service, self._threads, provider=self._provider)
                self._on_stop.append(console.stop_streams)
                self._router = Router([RouteTable(console.routes)], redirect_slashes=False)
            return self._router
