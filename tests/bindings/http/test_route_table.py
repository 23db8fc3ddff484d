"""Routes are looked up: a request tries a few of them, and gets the one that trying all in turn would give."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Match, Route
from starlette.types import Scope
from tests.bindings.http.running import build_app
from tests.embedders import WORDS_ALONE

from memoranda.bindings.console.app import Console
from memoranda.bindings.http.route import RouteTable
from memoranda.bindings.http.threads import Threads
from memoranda.conformance.openwop import SEAMS
from memoranda.opening import open_service
from memoranda.settings import load_settings

# Of about 160 routes; paths with several names under one folder share it.
CANDIDATES_LIMIT = 12
NAMES = st.sampled_from(["a", "", "b/c", "%2F", "a:b", "export", "é", ".", "shop"])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[RouteTable]:
    home: Path = tmp_path_factory.mktemp("routes")
    service = open_service(load_settings(WORDS_ALONE, home=home))
    threads = Threads(1, "routes")
    try:
        served = [table for table in build_app(service, seams=SEAMS).routes if isinstance(table, RouteTable)]
        return [*served, RouteTable(Console(service, threads).routes)]
    finally:
        threads.close()
        service.close()


def match_in_turn(routes: tuple[Route, ...], scope: Scope) -> tuple[Match, Route | None]:
    """Match a request as Starlette does with a list of routes."""
    partial: tuple[Match, Route | None] = (Match.NONE, None)
    for route in routes:
        match, _ = route.matches(scope)
        if match is Match.FULL:
            return match, route
        if match is Match.PARTIAL and partial[1] is None:
            partial = match, route
    return partial


@given(data=st.data())
def test_a_request_gets_the_route_that_trying_all_would_give(tables: list[RouteTable], data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(tables))
    route = data.draw(st.sampled_from(table.routes))
    sent = re.sub(r"\{\w+(?::path)?\}", lambda _: data.draw(NAMES), route.path) + data.draw(st.sampled_from(["", "/"]))
    method = data.draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]))
    scope = {"type": "http", "method": method, "path": unquote(sent), "raw_path": sent.encode(), "root_path": ""}
    match, chosen = match_in_turn(table.routes, scope)
    looked_up, child = table.matches(scope)
    assert (looked_up, child.get("memoranda.route")) == (match, chosen)


def test_a_request_tries_a_few_routes_only(tables: list[RouteTable]) -> None:
    for table in tables:
        assert len(table.routes) > 40
        tried = {route.path: len(table.candidates(re.sub(r"\{[^}]*\}", "x", route.path))) for route in table.routes}
        assert {path: count for path, count in tried.items() if not 1 <= count <= CANDIDATES_LIMIT} == {}
    assert tables[0].candidates("/" * 8_000) == []
