"""A commitment fires once, whoever is killed between its time and its event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proofs import commitments


@pytest.mark.requirement("WOP-3-commitment-once")
def test_every_commitment_fires_exactly_once_however_often_its_processes_are_killed(tmp_path: Path) -> None:
    # The long run: python -m tests.proofs.commitments --rounds 200
    outcome = commitments.run(tmp_path, rounds=6, seed=20260604)
    assert outcome.kills == 6 * commitments.PROCESSES
    assert outcome.commitments == 6 * (commitments.TIMED + commitments.WAITING)
