"""Texts that others chose are kept only when they are short."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from memoranda.consolidation.commitments import conditions
from memoranda.encoding.short_cache import short_cache
from memoranda.errors import MemorandaError
from memoranda.standards.oms import port as oms_port
from memoranda.standards.ump import port as ump_port
from memoranda.standards.ump.paths import parse_path
from memoranda.storage.crypto.fingerprints import Fingerprints

_PRINTS = Fingerprints(bytes(32))


def test_what_is_short_is_made_once_and_what_is_long_every_time() -> None:
    made: list[str] = []

    @short_cache(2, length=3)
    def shout(text: str) -> str:
        """Shout."""
        made.append(text)
        return text.upper()

    assert [shout("abc"), shout("abc"), shout("abcd"), shout("abcd")] == ["ABC", "ABC", "ABCD", "ABCD"]
    assert made == ["abc", "abcd", "abcd"]
    for text in ("d", "e", "abc"):
        shout(text)
    assert made == ["abc", "abcd", "abcd", "d", "e", "abc"]
    assert (shout.__name__, shout.__doc__) == ("shout", "Shout.")


@pytest.mark.parametrize(
    "work",
    [
        lambda text: _PRINTS.value(1, text),
        lambda text: _PRINTS.number(1, text),
        lambda text: _PRINTS.word(1, text),
        lambda text: _PRINTS.name("ada", text),
        lambda text: parse_path(f"body.{text}"),
        conditions._stem,
        lambda text: ump_port._verifies(text.encode()),
        lambda text: oms_port._is_grain("a", text.encode()),
    ],
    ids=["value", "number", "field", "name", "path", "word", "record", "grain"],
)
def test_nothing_that_somebody_made_long_stays(work: Callable[[str], object]) -> None:
    def sent(count: int) -> int:
        """How many bytes stay behind so many texts of 20 kB."""
        tracemalloc.start()
        try:
            for number in range(count):
                with suppress(MemorandaError):
                    work(f"{number}" + "x" * 20_000)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    sent(2)
    assert sent(50) < 200_000
