"""A few seconds of fuzzing on every run of the tests; the same inputs each time."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.fuzz import requests
from tests.fuzz.campaign import Campaign
from tests.fuzz.targets import MAX_SECONDS, Target, targets
from tests.fuzz.verbs import Walk

_EXECUTIONS = 11_000
_MAX_GROWTH_BYTES = 2 * 1024 * 1024


@pytest.mark.parametrize("target", list(targets()), ids=lambda target: target.name)
def test_every_seed_is_accepted_as_it_is(target: Target) -> None:
    for seed in target.seeds:
        target.run(seed)


def test_hostile_input_is_refused_with_an_error_of_ours_and_in_time() -> None:
    campaign = Campaign(seed=20260)
    campaign.run(executions=_EXECUTIONS)
    found = {(finding.target, finding.what, finding.data[:200].hex()) for finding in campaign.findings}
    assert not found
    assert campaign.slowest_seconds < MAX_SECONDS
    # It goes somewhere: every target both accepts some input and refuses it for several reasons.
    assert min(campaign.outcomes().values()) >= 5


def test_every_input_of_the_corpus_is_refused_with_an_error_of_ours_or_accepted() -> None:
    campaign = Campaign(seed=0)
    campaign.replay()
    assert campaign.executions > 500
    assert [(finding.target, finding.what) for finding in campaign.findings] == []
    # Each led somewhere of its own once; messages change, so some may now lead to the same place.
    assert sum(campaign.outcomes().values()) > campaign.executions / 2


def test_hostile_input_leaves_no_memory_behind() -> None:
    campaign = Campaign(seed=4)
    campaign.run(executions=1_500)
    tracemalloc.start()
    try:
        campaign.run(executions=500)
        before, _ = tracemalloc.get_traced_memory()
        campaign.run(executions=1_500)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < _MAX_GROWTH_BYTES


@pytest.mark.requirement("OURS-never-a-500")
@pytest.mark.parametrize("seed", range(4))
def test_verbs_of_all_standards_one_after_the_other_fail_only_with_errors_of_ours(seed: int) -> None:
    walk = Walk(seed)
    walk.run(750)
    assert walk.findings == []
    # It goes somewhere: everything is done at times, and refused at times.
    assert len(walk.done) >= 30


@pytest.mark.requirement("OURS-never-a-500")
def test_hostile_requests_to_every_route_get_an_error_of_ours() -> None:
    report = requests.Report()
    requests.run(1_200, 7, report)
    assert report.findings == []
    # It goes somewhere: some requests are served, by many routes, and others are refused for several reasons.
    assert report.statuses[200] > 100
    assert len(report.statuses) >= 8
