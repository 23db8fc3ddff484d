"""One store of this process, and a server over another; each test has an owner of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.bindings.http.running import Running, running

from memoranda import Memoranda

# Gives the memory of somebody who has none yet.
Fresh = Callable[[], Memoranda]
_NUMBERS = count()


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    with Memoranda.open(":memory:") as m:
        service = m.service
        yield lambda: Memoranda(service, service.gate.local(f"did:example:{next(_NUMBERS)}"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("store") / "home") as started:
        yield started


@pytest.fixture(params=["embedded", "server"])
def m(request: pytest.FixtureRequest, fresh: Fresh) -> Iterator[Memoranda]:
    """A memory of this process, and one on a server."""
    if request.param == "embedded":
        yield fresh()
        return
    server: Running = request.getfixturevalue("server")
    with Memoranda.open(server.url, key=server.key(f"did:example:{next(_NUMBERS)}")) as opened:
        yield opened
