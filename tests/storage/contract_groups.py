"""What every store must do with work that shares one transaction: what fails leaves nothing behind; part of the
contract.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memoranda.model.memory import Version
from memoranda.storage.engine.contract import Engine, Unit
from memoranda.storage.engine.database import ChainEnd, Connection, PendingWrite
from tests.storage.contract import NOW, document, projection
from tests.waiting import HANG_SECONDS

Work = Callable[[Connection], Any]
TENANT = "ada"


def in_one_group(engine: Engine, works: Sequence[Work]) -> list[PendingWrite[Any]]:
    """Hand in several works while the writer is held, so that they go into one transaction."""
    database = engine._database  # type: ignore[attr-defined]
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        is_held.set()
        assert may_go_on.wait(HANG_SECONDS)

    holding = database.start_write(hold, TENANT)
    assert is_held.wait(HANG_SECONDS)
    begun = [database.start_write(work, TENANT) for work in works]
    may_go_on.set()
    holding.result()
    return begun


def remember(name: str) -> Work:
    """Work that puts something into what a transaction keeps in mind, and returns all that is there."""

    def work(connection: Connection) -> tuple[set[str], set[int]]:
        connection.memo[name] = (1,)
        connection.ends[len(name)] = ChainEnd(1, 1, 1, None)
        return set(connection.memo) & {"a", "bb", "ccc"}, set(connection.ends)

    return work


def failing(work: Work) -> Work:
    def fail(connection: Connection) -> None:
        work(connection)
        raise ArithmeticError

    return fail


class GroupContract:
    """Subclasses provide the `engine` fixture."""

    def test_what_a_failed_work_kept_in_mind_is_gone_for_the_others_of_its_group(self, engine: Engine) -> None:
        first, failed, last = in_one_group(engine, [remember("a"), failing(remember("bb")), remember("ccc")])
        assert first.result() == ({"a"}, {1})
        with pytest.raises(ArithmeticError):
            failed.result()
        # The first is there, so that it was one transaction.
        assert last.result() == ({"a", "ccc"}, {1, 3})

    def test_a_unit_that_fails_at_its_end_counts_for_nothing_in_the_units_of_its_group(self, engine: Engine) -> None:
        def append(name: str) -> Work:
            def write(unit: Unit) -> Version:
                version = unit.append(document(name), projection(name), now=NOW)
                unit.announce("created", version, now=NOW)
                return version

            return lambda connection: engine._unit(connection, TENANT, write)  # type: ignore[attr-defined]

        engine.write(TENANT, lambda unit: unit.append(document("before"), projection("before"), now=NOW))
        first, failed, last = in_one_group(engine, [append("first"), failing(append("failed")), append("last")])
        with pytest.raises(ArithmeticError):
            failed.result()
        written = [first.result(), last.result()]
        with engine.open_snapshot(TENANT) as snapshot:
            assert [each.seq for each in snapshot.list_changes(0, 9)] == [1, 2]
            assert snapshot.measure_usage() == (3, 3 * len(document("x").native))
            assert [each.document.name for each in snapshot.load_versions([each.version_id for each in written])] == [
                "first",
                "last",
            ]
            assert snapshot.find_by_name("note", "failed") is None
        assert engine.find_damage([TENANT]) == []
        assert engine.list_losses() == []
