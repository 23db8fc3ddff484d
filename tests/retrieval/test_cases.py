"""Floors for the cases of the bench: memories of an agent, alone, among turns of a chat, and with typing errors.

The weights were not fitted to them. The figures of 2026-11 are .88 and .93 for the cases, and .83 among turns of a
chat; no question is lost by a typing error.
"""

from __future__ import annotations

import pytest
from bench.retrieval.table import calibration_error, measure_cases

from memoranda import Memoranda

# One question of 60 is .017.
FIRST, MRR, FIRST_IN_CHAT, LOST_BY_TYPING = 0.86, 0.92, 0.81, 0.05


def test_cases_are_answered_as_well_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "auto")
    figures = measure_cases(Memoranda.open)
    assert float(figures["cases.first"]) >= FIRST
    assert float(figures["cases.mrr"]) >= MRR
    assert float(figures["cases.in_chat.first"]) >= FIRST_IN_CHAT
    lost = float(figures["typing.correct.first"]) - float(figures["typing.error.first"])
    assert lost <= LOST_BY_TYPING


def test_the_calibration_error_is_the_gap_between_estimates_and_shares() -> None:
    assert calibration_error([0.25, 0.25, 0.25, 0.25], [True, False, False, False]) == pytest.approx(0.0)
    assert calibration_error([0.95, 0.95], [True, False]) == pytest.approx(0.45)
