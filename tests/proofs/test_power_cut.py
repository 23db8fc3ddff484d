"""Acknowledged means durable: also when the power goes and the disk's cache with it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from memoranda.errors import NotFound
from tests.proofs import power_cut
from tests.proofs.power_cut import Disk, Sync, Truncate, Write


def test_nothing_acknowledged_is_lost_in_a_power_cut(tmp_path: Path) -> None:
    # The long run: python -m tests.proofs.power_cut --cuts 240
    outcome = power_cut.run(tmp_path, cuts=30, seed=20260604)
    assert outcome.acks_checked > 500


def test_a_log_that_is_not_synced_would_be_noticed(tmp_path: Path) -> None:
    with pytest.raises((NotFound, AssertionError)):
        power_cut.run(tmp_path, cuts=4, seed=1, writes=20, deaf_to="memoranda.db-wal")


def test_the_simulated_disk_keeps_what_was_synced_and_loses_the_rest() -> None:
    disk = Disk()
    for step in (
        Write("a", 0, b"x" * 1024),
        Sync("a"),
        Write("a", 512, b"y" * 512),
        Truncate("a", 100),
        Write("b", 0, b"z"),
    ):
        disk.apply(step)
    chance = random.Random(1)
    assert disk.after_cut(chance, keep=0.0) == {"a": bytearray(b"x" * 1024)}
    assert disk.after_cut(chance, keep=1.0) == {"a": bytearray(b"x" * 100), "b": bytearray(b"z")}
    disk.apply(Sync("b"))
    assert disk.after_cut(chance, keep=0.0) == {"a": bytearray(b"x" * 1024), "b": bytearray(b"z")}
