"""PostgreSQL keeps the contract, and what only a server can get wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memoranda.errors import StoreCorrupt, StoreUnavailable
from memoranda.keys import MasterKeyFile
from memoranda.model.memory import AuditEntry, Projection, Relation
from memoranda.model.selection import Selection
from memoranda.storage.crypto.cipher import RingCipher
from memoranda.storage.engine.contract import Engine, Unit, VersionIndex
from memoranda.storage.engine.database import Connection, load_queries
from memoranda.storage.engine.sql_engine import SqlEngine
from memoranda.storage.postgres import coordination
from memoranda.storage.postgres import server as postgres_server
from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.postgres.keys import PostgresKeyRing
from memoranda.storage.postgres.server import open_connection, translate_error
from tests.postgres import server
from tests.storage.contract import NOW, EngineContract, document, field_index, matches, projection, seal
from tests.storage.contract_background import BackgroundContract
from tests.storage.contract_facts import FactsContract
from tests.storage.contract_groups import GroupContract
from tests.storage.contract_lists import ListsContract
from tests.storage.relay import Relay
from tests.storage.test_sqlite import NEW_ROWS
from tests.waiting import HANG_SECONDS, until

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


@pytest.fixture
def address() -> Iterator[str]:
    with server().database() as found:
        yield found


class TestPostgres(EngineContract, ListsContract, FactsContract, BackgroundContract, GroupContract):
    @pytest.fixture
    def engine(self, address: str) -> Iterator[Engine]:
        engine = SqlEngine(PostgresDatabase(address), seal)
        yield engine
        engine.close()


class TestPostgresEncrypted(BackgroundContract, GroupContract):
    """The keys are in the database, too; the rest of the contract does not ask of them."""

    @pytest.fixture
    def engine(self, address: str, tmp_path: Path) -> Iterator[Engine]:
        engine = _node(address, tmp_path)
        yield engine
        engine.close()


def _node(address: str, home: Path) -> SqlEngine:
    """One of several machines that share a store and its master key."""
    database = PostgresDatabase(address)
    cipher = RingCipher(PostgresKeyRing(address), MasterKeyFile(home / "master.key"), "all")
    return SqlEngine(database, seal, cipher, document_key=b"documents")


@pytest.fixture
def nodes(address: str, tmp_path: Path) -> Iterator[tuple[SqlEngine, SqlEngine]]:
    both = _node(address, tmp_path), _node(address, tmp_path)
    yield both
    for each in both:
        each.close()


def test_the_queries_are_those_of_sqlite_and_are_given_the_same() -> None:
    ours, theirs = load_queries("postgres"), load_queries("sqlite")
    assert list(ours) == list(theirs)

    def asked(sql: str) -> list[str]:
        return list(dict.fromkeys(re.findall(r"(?<!:):(\w+)", sql)))

    assert {name: set(asked(sql)) for name, sql in ours.items()} == {
        name: set(asked(sql)) for name, sql in theirs.items()
    }
    # A row is bound by place.
    assert [name for name in NEW_ROWS if asked(ours[name]) != list(NEW_ROWS[name]._fields)] == []  # type: ignore[attr-defined]


def test_every_key_begins_with_the_tenant(address: str) -> None:
    # What is looked up before a tenant is known, and what sweeps over all tenants go by.
    allowed = {"meta", "tenant", "api_key", "program_grant", "revoked_token", "embedding_model", "data_key", "key_ring"}
    sweeps = {"state_expiry", "item_kind", "commitment_next", "alias_public", "version_number", "vector_all"}
    PostgresDatabase(address).close()
    with psycopg.connect(address) as raw:
        found = raw.execute(
            "SELECT x.indexrelid::regclass::text, x.indrelid::regclass::text, pg_get_indexdef(x.indexrelid, 1, true) "
            "FROM pg_index x JOIN pg_tables t ON t.tablename = x.indrelid::regclass::text AND t.schemaname = 'public'"
        ).fetchall()
    firsts = {index: first for index, table, first in found if table not in allowed and index not in sweeps}
    assert len(firsts) > 30
    assert set(firsts.values()) == {"tenant_id"}


@pytest.mark.parametrize("is_superuser", [False, True])
def test_a_query_that_names_no_tenant_gets_nothing_of_any(address: str, is_superuser: bool) -> None:
    who = server().address(address.partition("@/")[2].partition("?")[0], None) if is_superuser else address
    database = PostgresDatabase(who)
    engine = SqlEngine(database, seal)
    shown = projection("x", relations=(Relation(type="about", target="entity:fruit"),))
    for tenant in ("ada", "bob"):
        engine.write(
            tenant,
            lambda unit: unit.append(document("n"), shown, now=NOW, index=VersionIndex(fields=field_index(shown))),
        )
    with database.open_snapshot() as connection:
        tables = [name for (name,) in connection.select(TABLES, ())]
        everybody = connection.select("SELECT count(*) FROM version", ())
    with database.open_snapshot("ada") as connection:
        row = connection.query_one("tenant_get", {"name": "bob"})
        own = connection.query_one("tenant_get", {"name": "ada"})
        assert own is not None
        named = connection.select("SELECT DISTINCT tenant_id FROM version", ())
        names = connection.select("SELECT name FROM tenant", ())
    with pytest.raises(StoreUnavailable, match="not yours"):
        database.write(_stealing, "ada")
    engine.close()
    with psycopg.connect(who) as raw:
        if is_superuser:
            raw.execute("SET ROLE memoranda_bound")
        unsaid = {table: raw.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables}
    assert everybody == [(2,)]
    # What a table shows before a transaction said its number: tests/storage/postgres_catalogue.py.
    assert names == [("ada",)]
    assert row is None
    assert named == [(own[0],)]
    assert set(unsaid.values()) == {(0,)}


def _stealing(connection: Connection) -> None:
    """Write a row of another tenant's."""
    own = connection.query_one("tenant_get", {"name": "ada"})
    assert own is not None
    connection.execute("item_put", {"tenant_id": own[0] + 1, "kind": "k", "name": "n", "value": b""})


def test_two_nodes_count_on_one_another(nodes: tuple[SqlEngine, SqlEngine]) -> None:
    def write(engine: SqlEngine, who: int) -> None:
        for number in range(20):
            shown = projection(f"w{who} n{number}")

            def work(unit: Unit, shown: Projection = shown) -> None:
                unit.announce("created", unit.append(document(shown.text), shown, now=NOW), now=NOW)
                unit.record_audit(AuditEntry(at=NOW, op="remember"))

            engine.write("ada", work)
            engine.write(f"other {number % 3}", lambda unit: unit.put_item("k", "n", b"v"))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, nodes[who % 2], who) for who in range(4)]:
            done.result()
    for node in nodes:
        with node.open_snapshot("ada") as snapshot:
            assert [change.seq for change in snapshot.list_changes(0, 500)] == list(range(1, 81))
            assert [seq for seq, _ in snapshot.list_audit_after(0, 500)] == list(range(1, 81))
            assert len(matches(snapshot, "n7", Selection(at=NOW)).hits) == 4
        assert node.find_index_problems("ada", lambda version: projection(version.document.name), lambda _: None) == []


def test_a_node_sees_what_another_erased_and_whose_key_it_destroyed(nodes: tuple[SqlEngine, SqlEngine]) -> None:
    here, there = nodes
    shown = {name: projection(name, user=name) for name in ("apple", "pear")}
    versions = {
        name: here.write("ada", lambda unit, name=name: unit.append(document(name, b"text"), shown[name], now=NOW))  # type: ignore[misc]
        for name in shown
    }
    token = there.read_change_token()

    def read() -> list[bytes]:
        with there.open_snapshot("ada") as snapshot:
            asked = [each.version_id for each in versions.values()]
            return [each.document.native for each in snapshot.load_documents(asked)]

    assert read() == [b"text", b"text"]
    here.write("ada", lambda unit: unit.erase(versions["apple"], tombstone=b"gone", now=NOW))
    here.scrub()
    assert there.read_change_token() != token
    assert read() == [b"text"]
    assert here.destroy_user_key("ada", "pear")
    assert read() == [b""]


def test_vectors_are_made_of_everything_though_it_is_committed_in_another_order(
    nodes: tuple[SqlEngine, SqlEngine],
) -> None:
    here, there = nodes
    has_number, may_end = threading.Event(), threading.Event()

    def slow(unit: Unit) -> None:
        unit.append(document("slow"), projection("slow"), now=NOW)
        has_number.set()
        assert may_end.wait(HANG_SECONDS)

    def waiting() -> list[str]:
        return [each.tenant for each in there.vectors.next_batch("m", 9).versions]

    there.vectors.claim("m", "me", NOW)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(here.write, "ada", slow)
        assert has_number.wait(HANG_SECONDS)
        there.write("bob", lambda unit: unit.append(document("fast"), projection("fast", tenant="bob"), now=NOW))
        # Its number is higher than one that is still to come.
        assert waiting() == []
        may_end.set()
        first.result(HANG_SECONDS)
    assert waiting() == ["ada", "bob"]


def test_vectors_are_made_of_what_is_committed_last_though_what_began_before_has_higher_numbers(
    nodes: tuple[SqlEngine, SqlEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = nodes
    # To notify is a transaction, too, and so is to make a key: the one that began last would not be the last.
    monkeypatch.setattr(coordination, "_NOTIFY", "SELECT 1")
    has_begun, may_go_on, has_number, may_end = (threading.Event() for _ in range(4))

    def append(unit: Unit, name: str) -> None:
        unit.append(document(name), projection(name), now=NOW)

    def work_first(unit: Unit) -> None:
        append(unit, "a1")
        has_begun.set()
        assert may_go_on.wait(HANG_SECONDS)
        # It needs more numbers than it began with.
        append(unit, "a2")

    def work_last(unit: Unit) -> None:
        append(unit, "b1")
        has_number.set()
        assert may_end.wait(HANG_SECONDS)

    def waiting() -> list[str]:
        return [each.tenant for each in there.vectors.next_batch("m", 9).versions]

    for engine, owner in ((here, "ada"), (there, "bob")):
        engine.write(owner, lambda unit: append(unit, "before"))
    there.vectors.claim("m", "me", NOW)
    assert waiting() == ["ada", "bob"]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(here.write, "ada", work_first)
        assert has_begun.wait(HANG_SECONDS)
        last = pool.submit(there.write, "bob", work_last)
        assert has_number.wait(HANG_SECONDS)
        may_go_on.set()
        first.result(HANG_SECONDS)
        meanwhile = waiting()
        may_end.set()
        last.result(HANG_SECONDS)
    assert meanwhile == ["ada", "bob"]
    assert waiting() == ["ada"] * 3 + ["bob"] * 2


def test_a_store_goes_on_after_the_server_has_dropped_every_connection(nodes: tuple[SqlEngine, SqlEngine]) -> None:
    here, _ = nodes
    here.write("ada", lambda unit: unit.put_item("k", "n", b"1"))
    here.read_change_token()
    server().drop_connections()
    with here.open_snapshot("ada") as snapshot:
        assert snapshot.load_item("k", "n") == b"1"
    here.write("ada", lambda unit: unit.append(document("n"), projection("x", user="new"), now=NOW))
    here.read_change_token()


def test_a_commit_whose_answer_is_lost_is_reported_and_not_run_again(address: str) -> None:
    runs: list[object] = []
    with closing(Relay(address)) as relay, closing(SqlEngine(PostgresDatabase(relay.address), seal)) as engine:
        engine.write("ada", lambda unit: unit.put_item("k", "n", b"before"))

        def work(unit: Unit) -> None:
            runs.append(unit.append(document(f"run {len(runs)}"), projection("a kettle"), now=NOW))
            relay.loses_commit = True

        with pytest.raises(StoreUnavailable, match="may or may not be stored"):
            engine.write("ada", work)
        # The next write has a connection of its own.
        engine.write("ada", lambda unit: unit.put_item("k", "n", b"after"))
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.load_item("k", "n") == b"after"
            assert len(matches(snapshot, "kettle", Selection(at=NOW)).hits) == 1
    assert len(runs) == 1


@contextmanager
def writing(address: str) -> Iterator[Callable[[], int]]:
    """A transaction that has begun to write; what it yields takes the number of a version."""

    def take_number() -> int:
        ((number,),) = connection.execute("SELECT nextval('version_version_id_seq')").fetchall()
        return int(number)

    with psycopg.connect(address) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield take_number


def test_no_version_is_settled_while_a_transaction_may_still_bring_it(address: str) -> None:
    with closing(PostgresDatabase(address)) as database, ExitStack() as stack:
        assert database.find_settled_version() == 0
        with writing(address) as take:
            first = take()
            assert [database.find_settled_version() < first for _ in range(3)] == [True] * 3
            with writing(address) as take_other:
                take_other()
            # Another is over.
            assert [database.find_settled_version() < first for _ in range(3)] == [True] * 3
            second = stack.enter_context(writing(address))()
        until(lambda: database.find_settled_version() >= first, "the number of the first is settled")
        assert [database.find_settled_version() < second for _ in range(3)] == [True] * 3
        stack.close()
        until(lambda: database.find_settled_version() >= second, "the number of the second is settled")


def test_a_number_that_is_taken_while_the_store_asks_what_is_settled_is_not_settled(address: str) -> None:
    with ExitStack() as stack:
        numbers: list[int] = []

        class Interrupted(PostgresDatabase):
            def _select_alone(self, query: str) -> list[tuple[Any, ...]]:
                rows = super()._select_alone(query)
                if not numbers:
                    numbers.append(stack.enter_context(writing(address))())
                return rows

        with closing(Interrupted(address)) as database:
            assert [database.find_settled_version() < numbers[0] for _ in range(3)] == [True] * 3


def test_a_reader_that_the_server_has_cut_off_is_nobody_elses_trouble(address: str) -> None:
    database = PostgresDatabase(address)
    gone = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    with psycopg.connect(address, autocommit=True) as watcher:
        with suppress(StoreUnavailable), database.open_snapshot("ada") as connection:
            ((pid,),) = connection.select("SELECT pg_backend_pid()", ())
            connection.select("SELECT set_config('idle_in_transaction_session_timeout', '1ms', false)", ())
            until(lambda: watcher.execute(gone, (pid,)).fetchone() == (0,), "the server has cut it off")
        with database.open_snapshot("ada") as connection:
            assert connection.select("SELECT 1", ()) == [(1,)]
    database.close()


def test_what_fails_in_a_line_of_statements_is_raised_where_it_is_waited_for_and_nothing_else_is_answered(
    address: str,
) -> None:
    PostgresDatabase(address).close()
    connection = open_connection(address)
    connection.begin("BEGIN", None)
    for value in (b"1", b"2"):
        connection.execute("meta_put", {"name": "k", "value": value})
    connection.execute("meta_put", {"name": "k", "value": None})
    connection.execute("meta_put", {"name": "k", "value": b"3"})
    with pytest.raises(psycopg.errors.NotNullViolation):
        connection.query("meta_get", {"name": "k"})
    connection.give_up()
    connection.begin("BEGIN", None)
    # A statement that was skipped is prepared again.
    assert connection.query("meta_get", {"name": "k"}) == []
    connection.execute("meta_put", {"name": "k", "value": b"4"})
    connection.end()
    connection.begin("BEGIN", None)
    with suppress(psycopg.Error):
        connection.select("SELECT 1 / 0", ())
    # Who goes on after that is not told that anything was written.
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.end()
    connection.give_up()
    connection.begin("BEGIN", None)
    assert [connection.query("meta_get", {"name": name}) for name in ("k", "none")] == [[(b"4",)], []]
    connection.end_reading()
    connection.close()


def test_a_database_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="away"):
        PostgresDatabase(f"postgresql://nobody@/none?host={tmp_path}")


def test_a_server_that_is_too_old_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "OLDEST_VERSION", 1_000)
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL \d+\.\d+, which is too old for a store: upgrade it"):
        PostgresDatabase(address)


def test_a_database_of_someone_else_is_refused_and_left_alone(address: str) -> None:
    name = server().scratch()
    with psycopg.connect(server().address(name)) as raw:
        raw.execute("CREATE TABLE theirs (x int)")
    with pytest.raises(StoreCorrupt, match="not Memoranda's"):
        PostgresDatabase(server().address(name))
    with psycopg.connect(server().address(name)) as raw:
        assert raw.execute(TABLES).fetchall() == [("theirs",)]


def test_several_nodes_may_come_first() -> None:
    address = server().address(server().scratch())
    with ThreadPoolExecutor(4) as pool:
        for opened in [pool.submit(PostgresDatabase, address) for _ in range(4)]:
            opened.result().close()


def test_a_number_out_of_range_is_no_name_with_a_character_nul() -> None:
    with (
        server().database() as address,
        psycopg.connect(address) as connection,
        pytest.raises(psycopg.Error) as refused,
    ):
        connection.execute("SELECT 99999999999999::int")
    assert str(translate_error(refused.value)) == "a number is out of range"
