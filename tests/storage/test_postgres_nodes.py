"""Several nodes on one PostgreSQL: how they hear of one another, and who does what is to be done once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from memoranda.service.core.feed import ChangeNotifier
from memoranda.storage import postgres_notify
from memoranda.storage.postgres import PostgresDatabase
from memoranda.storage.sql_engine import SqlEngine
from tests.postgres import server
from tests.storage.contract import seal
from tests.waiting import HANG_SECONDS, until

# Longer than any test waits: what happens then, a notification did.
NEVER_SECONDS = 10 * HANG_SECONDS


@pytest.fixture
def address() -> Iterator[str]:
    with server().database() as found:
        yield found


def _node(address: str) -> SqlEngine:
    return SqlEngine(PostgresDatabase(address), seal)


def _write(engine: SqlEngine, value: bytes) -> None:
    engine.write("ada", lambda unit: unit.put_item("k", "n", value))


def test_a_commit_of_one_node_wakes_another(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_notify, "LOOK_SECONDS", NEVER_SECONDS)
    with closing(_node(address)) as here, closing(_node(address)) as there:
        for engine in (here, there):
            with closing(engine.change_tokens()) as tokens:
                before = next(tokens)
                _write(here, b"1")
                until(lambda tokens=tokens, before=before: next(tokens) != before, "it is noticed")  # type: ignore[misc]
            # Nobody listens any more: what is not read would fill the queue of all.
            until(lambda: _listening(address) == 0, "it listens no more")


def test_a_notification_that_is_lost_loses_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_notify, "LOOK_SECONDS", 0.1)
    # As of a node that was killed between its commit and that.
    monkeypatch.setattr(postgres_notify, "_NOTIFY", "SELECT 1")
    with closing(_node(address)) as here, closing(_node(address)) as there, closing(there.change_tokens()) as tokens:
        before = next(tokens)
        _write(here, b"1")
        until(lambda: next(tokens) != before, "it is noticed")


def test_whoever_listens_goes_on_when_the_database_is_back(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_notify, "LOOK_SECONDS", NEVER_SECONDS)
    woken = threading.Event()
    with closing(_node(address)) as here, closing(_node(address)) as there, closing(ChangeNotifier(there)) as notifier:
        notifier.listen(woken.set)
        until(lambda: _listening(address) == 1, "it listens")
        with server().away(address):
            pass
        until(lambda: _listening(address) == 1, "it listens again")
        # Of what happened meanwhile it has heard by itself.
        woken.clear()
        _write(here, b"1")
        assert woken.wait(HANG_SECONDS)


def test_a_notification_says_nothing_and_the_last_is_sent_when_a_store_is_closed(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as anybody:
        anybody.execute("LISTEN memoranda_commits")
        with closing(_node(address)) as here:
            _write(here, b"secret")
        heard = list(anybody.notifies(timeout=HANG_SECONDS, stop_after=1))
    assert heard
    assert {each.payload for each in heard} == {""}


def test_one_node_is_elected_for_a_job_until_its_session_is_gone(address: str) -> None:
    with closing(_node(address)) as here, closing(_node(address)) as there:
        assert [here.is_elected("upkeep"), here.is_elected("upkeep"), there.is_elected("upkeep")] == [True, True, False]
        # Other work may be another's.
        assert [there.is_elected("vectors"), here.is_elected("vectors")] == [True, False]
        here.let_go("upkeep")
        assert [there.is_elected("upkeep"), here.is_elected("upkeep")] == [True, False]
        there.close()
        until(lambda: here.is_elected("upkeep"), "it is taken over")
        # Cut off, nobody has it; whoever asks first does.
        server().drop_connections()
        until(lambda: here.is_elected("upkeep"), "it is asked for anew")
        with server().away(address):
            assert not here.is_elected("upkeep")
        with closing(_node(address)) as third:
            assert [third.is_elected("upkeep"), here.is_elected("upkeep")] == [True, False]


def _listening(address: str) -> int:
    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND query LIKE 'LISTEN %%'"
    with psycopg.connect(server().address(str(name), None)) as admin:
        ((found,),) = admin.execute(asked, (name,)).fetchall()
    return int(found)
