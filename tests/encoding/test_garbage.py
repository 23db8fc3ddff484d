"""The collector of garbage is asked less often for a while, and then as before."""

from __future__ import annotations

import gc

import pytest

from memoranda.encoding.garbage import YOUNG_OBJECTS, collect_seldom


def test_the_collector_is_as_before_when_the_last_one_has_ended() -> None:
    before = gc.get_threshold()
    with collect_seldom():
        with pytest.raises(KeyError), collect_seldom():
            raise KeyError
        assert gc.get_threshold() == (max(YOUNG_OBJECTS, before[0]), *before[1:])
    assert gc.get_threshold() == before


def test_who_switched_the_collector_off_is_not_overruled() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collect_seldom():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
