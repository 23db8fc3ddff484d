"""The short form of `make chaos ARGS="--nodes 3"`: one night with a server killed, one after the primary was."""

from __future__ import annotations

from pathlib import Path

from tests.chaos import nodes


def test_three_servers_lose_one_of_them_and_the_primary_and_nothing_else(tmp_path: Path) -> None:
    outcome = nodes.run(tmp_path, seed=20261116, acts=60)
    assert outcome.violations == []
    assert (outcome.rounds, outcome.scheduled, outcome.commitments) == (1, 2, 2)
    assert outcome.acknowledged > 200
    assert outcome.expired > 10
