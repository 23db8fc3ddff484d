from __future__ import annotations

from memoranda.bindings.http.limits import TokenBuckets


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(rate=10, burst=3, clock=clock)
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert abs(buckets.take("a") - 0.1) < 1e-9
    clock.seconds += 0.1001
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0.0


def test_waiting_longer_than_the_burst_gives_no_more_than_the_burst() -> None:
    clock = Clock()
    buckets = TokenBuckets(rate=10, burst=3, clock=clock)
    buckets.take("a")
    clock.seconds += 3600
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_keys_do_not_share_a_bucket() -> None:
    buckets = TokenBuckets(rate=1, burst=1, clock=Clock())
    assert buckets.take("a") == 0.0
    assert buckets.take("b") == 0.0
    assert buckets.take("a") > 0.0
    assert buckets.take("c") == 0.0


def test_memory_is_bounded_and_the_longest_unused_goes_first() -> None:
    buckets = TokenBuckets(rate=1, burst=5, clock=Clock(), capacity=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key)
    assert len(buckets) == 2
    assert "a" in buckets
    assert "b" not in buckets


def test_a_forgotten_key_starts_anew() -> None:
    buckets = TokenBuckets(rate=1, burst=1, clock=Clock())
    buckets.take("a")
    buckets.forget("a")
    buckets.forget("never seen")
    assert buckets.take("a") == 0.0
