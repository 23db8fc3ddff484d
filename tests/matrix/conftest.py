"""What the parts of the matrix share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.matrix.doors import House


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.service.close()
