"""Numbers in memory that several processes share."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest

from memoranda import measures
from memoranda.measures import (
    FAMILIES,
    PAGE_BYTES,
    STREAMS,
    VERB_FAILURES,
    WORKERS_READY,
    WRITER_WAIT,
    MeasurePage,
    exposition,
    totals,
)


@pytest.fixture(autouse=True)
def own_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not those of the process that runs the tests."""
    before = measures._pages.own_page, measures._pages.all
    measures.share_pages(2)
    measures.take_page(0)
    yield
    measures._pages.own_page, measures._pages.all = before
    for family in FAMILIES.values():
        family.forget_cells()


def in_worker(number: int) -> None:
    """What another process counts."""
    process = os.fork()
    if process == 0:
        measures.take_page(number)
        VERB_FAILURES.add("ump", "get", "not_found")
        STREAMS.add(amount=5)
        WRITER_WAIT.observe(0.02)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0


def test_what_several_processes_count_is_added_up() -> None:
    VERB_FAILURES.add("ump", "get", "not_found", amount=2)
    WRITER_WAIT.observe(20.0)
    in_worker(1)
    found = totals()
    assert found["memoranda_verb_failures_total", "ump", "get", "not_found"] == [3.0]
    text = exposition().decode()
    assert 'memoranda_verb_failures_total{standard="ump",verb="get",code="not_found"} 3\n' in text
    assert 'memoranda_writer_wait_seconds_bucket{le="0.025"} 1\n' in text
    assert 'memoranda_writer_wait_seconds_bucket{le="+Inf"} 2\n' in text
    assert "memoranda_writer_wait_seconds_sum 20.02\n" in text


def test_who_takes_the_place_of_another_goes_on_counting_and_has_nothing_under_way() -> None:
    in_worker(1)
    in_worker(1)
    found = totals()
    assert found["memoranda_verb_failures_total", "ump", "get", "not_found"] == [2.0]
    assert found["memoranda_streams",] == [5.0]
    assert measures.process_ids()[0] == os.getpid() != measures.process_ids()[1]


def test_a_process_that_ended_has_nothing_under_way_and_what_it_counted_stays() -> None:
    in_worker(1)
    measures.reset_gauges(1)
    found = totals()
    assert found["memoranda_streams",] == [0.0]
    assert found["memoranda_verb_failures_total", "ump", "get", "not_found"] == [1.0]


def test_the_first_process_counts_beside_its_workers() -> None:
    measures.share_pages(2)
    WORKERS_READY.add(amount=2)
    in_worker(0)
    assert totals()["memoranda_workers_ready",] == [2.0]
    # Once, though no second worker has taken its page.
    assert measures.process_ids().count(os.getpid()) == 1


def test_a_page_that_is_full_loses_what_is_new_and_keeps_the_rest() -> None:
    page = MeasurePage(mmap.mmap(-1, 4_096))
    page.cells("first", 1)[0] = 7.0
    for number in range(1_000):
        page.cells(f"memoranda_{number}", 15)[0] += 1.0
    kept = dict(page.entries())
    assert list(kept["first"]) == [7.0]
    assert 5 < len(kept) < 100


def test_everything_there_is_fits_on_a_page() -> None:
    page = MeasurePage(bytearray(PAGE_BYTES))
    for number in range(1_000):
        page.cells("\0".join(("memoranda_http_request_seconds", "openwop", f"an_operation_with_a_name_{number}")), 15)
    assert len(dict(page.entries())) == 1_000
