"""One HTTP server for the tests of this folder; each test takes an owner of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from tests.bindings.mcp.peers import HttpPeer, http_peer

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpPeer]:
    with http_peer(tmp_path_factory.mktemp("mcp") / "home") as running:
        yield running


@pytest.fixture
def new_owner() -> Callable[[], str]:
    """Makes the names of owners that have no memories yet."""
    return lambda: f"did:example:owner{next(_numbers)}"


@pytest.fixture
def owner(new_owner: Callable[[], str]) -> str:
    return new_owner()
