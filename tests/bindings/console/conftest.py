"""One server for each file of tests, and a browser that its owner has signed in."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tests.bindings.console.browsing import ALL, signed_in, with_console
from tests.bindings.http.running import OWNER, Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("console")
    with running(home, extra=with_console) as server:
        yield server


@pytest.fixture
def key(server: Running) -> str:
    return server.key(OWNER, *ALL)


@pytest.fixture
def browser(server: Running, key: str) -> Iterator[httpx.Client]:
    with signed_in(server, key) as client:
        yield client
