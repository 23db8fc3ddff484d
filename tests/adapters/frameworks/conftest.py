"""Adapters inside the real frameworks, each with a model that is a script and no network.

Run by `make test-adapters`, in an environment of its own: these frameworks are larger than Memoranda.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memoranda import Memoranda


@pytest.fixture
def m() -> Iterator[Memoranda]:
    """A memory of this process."""
    with Memoranda.open(":memory:") as opened:
        yield opened
