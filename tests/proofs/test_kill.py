"""Acknowledged means durable: whoever is killed, and whenever."""

from __future__ import annotations

from pathlib import Path

from tests.proofs import killer


def test_nothing_acknowledged_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    # The long run: python -m tests.proofs.killer --rounds 200
    outcome = killer.run(tmp_path, rounds=6, seed=20260604, chains_every=3)
    assert outcome.kills >= outcome.rounds
    assert outcome.acks > 50
