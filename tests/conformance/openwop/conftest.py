from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.openwop.host import Checks, Host, given_or_started


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The host under test."""
    with given_or_started(tmp_path_factory.mktemp("conformance") / "home") as found:
        yield found


@pytest.fixture(autouse=True)
def checks() -> Iterator[Checks]:
    """What a scenario asserts is counted, and nothing is a failure."""
    counted = Checks()
    yield counted
    counted.close()
