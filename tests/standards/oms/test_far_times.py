"""Instants that no date can write: a grain may hold them, and nothing stumbles over them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.standards.oms.published import belief

from memoranda import Memoranda
from memoranda.model.instant import EARLIEST, LATEST, format_instant
from memoranda.standards.oms import grains, mapping


def test_the_first_and_the_last_instant_are_those_that_a_date_can_write() -> None:
    assert format_instant(EARLIEST) == "0001-01-01T00:00:00.000Z"
    assert format_instant(LATEST) == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize(("valid_from", "valid_to"), [(-(2**63), 2**63 - 1), (0, LATEST)])
def test_a_grain_that_holds_for_ever_is_kept_to_the_byte_and_shown_as_far_as_dates_go(
    tmp_path: Path, valid_from: int, valid_to: int
) -> None:
    grain = grains.encode(belief(valid_from=valid_from, valid_to=valid_to))
    projection = mapping.project(grain, "did:example:owner")
    assert (projection.valid_from, projection.valid_to) == (max(EARLIEST, valid_from), LATEST)
    with Memoranda.open(tmp_path / "home") as m:
        m.service.grains.put(m.access, grain.blob)
        found = m.service.grains.get(m.access, grain.address)
        assert (found.delivery, found.grain.fields["valid_to"]) == (grain.blob, valid_to)
        assert [delivery for delivery, _ in m.service.grains.export(m.access)] == [grain.blob]
