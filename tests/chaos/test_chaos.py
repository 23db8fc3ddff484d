"""The short form of `make chaos`: every kind of fault in the life of one server."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.storm import FAULTS, Storm


def test_nothing_acknowledged_is_lost_nothing_forgotten_comes_back_and_nobody_is_told_of_others(tmp_path: Path) -> None:
    storm = Storm(tmp_path, seed=20261116, owners=2)
    storm.round(FAULTS, 0.3)
    outcome = storm.finish()
    assert outcome.violations == []
    assert outcome.rounds.keys() == set(FAULTS)
    assert outcome.acknowledged > 10
