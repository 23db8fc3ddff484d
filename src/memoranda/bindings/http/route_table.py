"""Routes looked up by the literal beginning of their path, instead of one being tried after the other.

A route is filed under its whole path or, where the path has parameters, under what stands in front of the first one,
up to a slash. A request looks under its own path and under each of its folders: a handful of dictionary look-ups, and
the one or two routes found there decide by their own pattern. Order counts among those as it does in Starlette: the
first that takes path and method is served, else the first that takes the path answers that the method is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

# The route that a match was for, in the scope of its request.
_MATCHED: Final = "memoranda.route"


class RouteTable(BaseRoute):
    """A set of routes that Starlette sees as one."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes: Final = tuple(routes)
        # Routes with their order, by path and by folder.
        self._by_path: dict[str, list[tuple[int, Route]]] = {}
        self._by_folder: dict[str, list[tuple[int, Route]]] = {}
        for order, route in enumerate(self.routes):
            literal, brace, _ = route.path.partition("{")
            if brace:
                folder = literal[: literal.rindex("/") + 1]
                self._by_folder.setdefault(folder, []).append((order, route))
            else:
                self._by_path.setdefault(literal, []).append((order, route))
        # Deeper slashes of a path are not looked at, however many a client sends.
        self._depth = max((folder.count("/") for folder in self._by_folder), default=0)

    def candidates(self, path: str) -> list[Route]:
        """Return the routes that may take a decoded path, in their order."""
        entries = list(self._by_path.get(path, ()))
        end = 0
        for _ in range(self._depth):
            end = path.find("/", end) + 1
            if not end:
                break
            entries += self._by_folder.get(path[:end], ())
        return [route for _, route in sorted(entries, key=lambda entry: entry[0])]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request as the first route would that takes its path and method."""
        if scope["type"] != "http":
            return Match.NONE, {}
        partial: tuple[Match, Scope] = (Match.NONE, {})
        for route in self.candidates(scope["path"]):
            match, child = route.matches(scope)
            if match is Match.FULL:
                return match, {**child, _MATCHED: route}
            if match is Match.PARTIAL and partial[0] is Match.NONE:
                partial = match, {**child, _MATCHED: route}
        return partial

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by the route that `matches` chose."""
        await scope[_MATCHED].handle(scope, receive, send)
