"""What holds for every table, key and query of a store on PostgreSQL, as its catalogue tells: none can be forgotten.

Every table has rows of many owners, made of its columns alone. Run by `make test-postgres`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import psycopg
import pytest

from memoranda.errors import StoreUnavailable
from memoranda.storage.engine.database import Connection, load_queries
from memoranda.storage.engine.deletion import DELETED_TABLES
from memoranda.storage.engine.moving import TABLES as MOVED
from memoranda.storage.postgres.database import PostgresDatabase
from memoranda.storage.postgres.server import native, open_connection
from tests.postgres import server

OWNERS: Final = 200
ROWS_OF_EACH: Final = 20
# What is looked up before it is known whose it is, and what belongs to the installation.
OF_NO_OWNER: Final = {
    "meta",
    "tenant",
    "api_key",
    "program_grant",
    "revoked_token",
    "embedding_model",
    "data_key",
    "key_ring",
    "clear_progress",
}
# Of these an owner needs something while it asks: which model makes vectors, what is to be scrubbed,
# and how often keys were destroyed.
SHARED: Final = {"meta", "embedding_model", "key_ring"}
_COLUMNS: Final = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, null), NOT a.attnotnull
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY c.relname, a.attnum
"""
_MADE: Final = {
    "bigint": "o * 1000 + n",
    "integer": "n",
    "smallint": "n % 2",
    "double precision": "n",
    "text": "'text ' || o * 1000 + n",
    "bytea": "decode(md5((o * 1000 + n)::text), 'hex')",
    "real": "n",
    "pgvector.halfvec": "'[1]'::pgvector.halfvec",
}


class Filled:
    """A store in which every table has rows."""

    def __init__(self, address: str, admin: str, *, is_clear: bool = False) -> None:
        """`is_clear`: with vectors that the database compares."""
        self.address = address
        PostgresDatabase(address, has_clear_vectors=is_clear).close()
        self.tables: dict[str, list[str]] = {}
        with psycopg.connect(admin, autocommit=True) as raw:
            kinds: dict[str, dict[str, str]] = {}
            for table, column, kind, is_nullable in raw.execute(_COLUMNS).fetchall():
                made = "o" if column == "tenant_id" else _MADE[kind]
                # Half of what may be missing is.
                kinds.setdefault(table, {})[column] = f"CASE WHEN n % 2 = 0 THEN {made} END" if is_nullable else made
            for table, columns in kinds.items():
                self.tables[table] = list(columns)
                if table == "key_ring":
                    # It has its one row.
                    continue
                raw.execute(
                    f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(columns.values())} "
                    f"FROM generate_series(1, {OWNERS}) o, generate_series(1, {ROWS_OF_EACH}) n ON CONFLICT DO NOTHING"
                )
            raw.execute("ANALYZE")

    @property
    def owned(self) -> list[str]:
        """Tables of owners."""
        return [table for table in self.tables if table not in OF_NO_OWNER]


@pytest.fixture(scope="module")
def filled() -> Filled:
    name = server().scratch()
    return Filled(server().address(name), server().address(name, None))


def test_every_table_is_known_here_and_to_whoever_moves_a_store(filled: Filled) -> None:
    assert filled.tables.keys() == MOVED.keys() | {"key_ring"}
    assert {table for table, columns in filled.tables.items() if "tenant_id" not in columns} == (
        OF_NO_OWNER - {"tenant", "clear_progress"}
    )


# --- isolation -------------------------------------------------------------------------------------------


def test_row_level_security_is_forced_on_every_table(filled: Filled) -> None:
    with psycopg.connect(filled.address) as raw:
        secured = raw.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
            "AND relkind IN ('r', 'p') AND relrowsecurity AND relforcerowsecurity"
        ).fetchall()
        policies = raw.execute("SELECT tablename::text, policyname::text, permissive, cmd FROM pg_policies").fetchall()
    assert {table for (table,) in secured} >= filled.tables.keys()
    # Each for all commands, so that what may not be seen may not be written either; but how often keys were destroyed,
    # an owner only reads.
    assert {kind for _, _, kind, _ in policies} == {"PERMISSIVE"}
    assert {(table, name) for table, name, _, command in policies if command != "ALL"} == {
        ("key_ring", "of_any_tenant")
    }
    assert {table for table, name, *_ in policies if name == "of_tenant"} == {*filled.owned, "tenant"}
    assert {table for table, name, *_ in policies if name == "of_any_tenant"} == SHARED


def counted(connection: Any, tables: list[str]) -> dict[str, int]:
    """How many rows each table shows."""
    union = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in tables)
    return dict(connection.execute(union).fetchall())


def test_who_names_no_owner_sees_changes_and_deletes_nothing_in_any_table(filled: Filled) -> None:
    with psycopg.connect(filled.address) as raw:
        assert set(counted(raw, list(filled.tables)).values()) == {0}
        for table, columns in filled.tables.items():
            assert raw.execute(f"UPDATE {table} SET {columns[-1]} = {columns[-1]}").rowcount == 0
            assert raw.execute(f"DELETE FROM {table}").rowcount == 0
            with pytest.raises(psycopg.errors.InsufficientPrivilege), raw.transaction():
                raw.execute(f"INSERT INTO {table} SELECT (jsonb_populate_record(null::{table}, '{{}}')).*")
        raw.rollback()


def test_who_names_an_owner_sees_that_owners_rows_alone(filled: Filled) -> None:
    with psycopg.connect(filled.address) as raw:
        raw.execute("SELECT set_config('memoranda.tenant', name, true) FROM (VALUES ('text 7001')) v (name)")
        before = counted(raw, list(filled.tables))
        raw.execute("SELECT set_config('memoranda.tenant_id', '7', true)")
        after = counted(raw, list(filled.tables))
        for table in filled.owned:
            assert raw.execute(f"SELECT DISTINCT tenant_id FROM {table}").fetchall() == [(7,)], table
            with pytest.raises(psycopg.errors.InsufficientPrivilege), raw.transaction():
                raw.execute(f"UPDATE {table} SET tenant_id = 8")
        raw.rollback()
    assert {table for table, count in before.items() if count} == {*SHARED, "tenant"}
    assert before["tenant"] == 1
    assert {table: count for table, count in after.items() if count} == {
        **{table: before[table] for table in (*SHARED, "tenant")},
        **dict.fromkeys(filled.owned, ROWS_OF_EACH),
    }


def test_a_statement_without_an_owner_reaches_nothing_through_the_store_either(filled: Filled) -> None:
    database = PostgresDatabase(filled.address)

    def take_over(connection: Connection) -> None:
        connection.query_one("tenant_get", {"name": "text 7001"})
        connection.execute("item_put", {"tenant_id": 8, "kind": "k", "name": "n", "value": b""})

    with database.open_snapshot("nobody") as connection:
        seen = {table: connection.select(f"SELECT count(*) FROM {table}", ())[0][0] for table in filled.owned}
    with pytest.raises(StoreUnavailable, match="not yours"):
        database.write(take_over, "text 7001")
    database.close()
    assert set(seen.values()) == {0}


# --- plans -----------------------------------------------------------------------------------------------

# What sweeps over all owners goes by an index of its own, or reads what is little.
SWEEPS: Final = {
    "tenants_with_commitments",
    "next_due",
    "next_expiry",
    "version_last",
    "versions_waiting",
    "version_last_recorded",
    "unindexed_next",
    "embedding_model_drop",
    "vectors_blank",
    "vectors_drop",
}
# What reads all that an owner has of something, because that is what is asked; in the order of an index, or few.
WHOLE: Final = {
    "commitments",
    "commitments_in_space",
    "commitments_waiting",
    "commitments_prune",
    "closed_versions",
    "halves",
    "index_orphans",
    "items_page",
    "last_version",
    "run_event_add",
    "run_event_last",
    "segments_of",
    "spaces",
    "tally",
    "tenant_data_keys",
    "tenant_holds",
    "unindexed_of",
    "unindexed_remove",
    # A deleted owner's rows, some at a time.
    *(f"tenant_drop_{table}" for table in DELETED_TABLES),
}


class Planner:
    """A connection that explains queries, with sequential scans allowed."""

    def __init__(self, address: str, *settings: str) -> None:
        self._raw = open_connection(address).raw
        for setting in ("enable_seqscan = on", "plan_cache_mode = force_generic_plan", *settings):
            self._raw.execute(f"SET {setting}")

    def nodes(self, sql: str) -> list[dict[str, Any]]:
        """Return the nodes of the plan that a query has for all parameters."""
        # EXPLAIN (GENERIC_PLAN) would do, but PostgreSQL 15 does not know it.
        text, names = native(sql)
        self._raw.execute(f"PREPARE explained AS {text}")
        values = f"({', '.join(['NULL'] * len(names))})" if names else ""
        ((plan,),) = self._raw.execute(f"EXPLAIN (FORMAT JSON) EXECUTE explained{values}").fetchall()
        self._raw.execute("DEALLOCATE explained")
        return list(_nodes_of(plan[0]["Plan"]))

    def close(self) -> None:
        self._raw.close()


def _nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes_of(part)


@pytest.fixture(scope="module")
def plans(filled: Filled) -> dict[str, list[dict[str, Any]]]:
    """The nodes of every named query's plan."""
    with closing(Planner(filled.address)) as planner:
        return {name: planner.nodes(sql) for name, sql in load_queries("postgres").items()}


def test_no_query_reads_a_table_of_owners_from_end_to_end(
    plans: dict[str, list[dict[str, Any]]], filled: Filled
) -> None:
    read = {
        name
        for name, nodes in plans.items()
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in filled.owned
    }
    assert read <= SWEEPS


def test_no_query_reads_all_that_an_owner_has_to_find_some_of_it(
    plans: dict[str, list[dict[str, Any]]], filled: Filled
) -> None:
    """Statistics tell of small owners; one is large, and would be read from end to end for every row asked for."""
    with psycopg.connect(filled.address) as raw:
        indexes: dict[str, str] = dict(
            raw.execute("SELECT indexname::text, tablename::text FROM pg_indexes").fetchall()
        )
    read: dict[str, str] = {}
    for name, nodes in plans.items():
        for node in nodes:
            if "Index" not in node["Node Type"] or indexes[node["Index Name"]] not in filled.owned:
                continue
            condition = str(node.get("Index Cond", ""))
            if not re.sub(r"\(?\w*\.?tenant_id = [^()]*\)*( AND )?", "", condition).strip("()"):
                read[name] = f"{node['Index Name']} {condition}"
    assert {name: how for name, how in read.items() if name not in WHOLE | SWEEPS} == {}


# --- the tables can be split by owner, among partitions or machines ----------------------------------------


def test_every_key_has_the_owner_first_and_nothing_refers_across_owners(filled: Filled) -> None:
    with psycopg.connect(filled.address) as raw:
        keys = raw.execute(
            "SELECT indrelid::regclass::text, indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, true) "
            "FROM pg_index WHERE indisunique AND indrelid::regclass::text = ANY(%s)",
            (filled.owned,),
        ).fetchall()
        others = raw.execute(
            "SELECT conrelid::regclass::text, conname::text FROM pg_constraint "
            "WHERE contype IN ('f', 'x') AND connamespace = current_schema()::regnamespace"
        ).fetchall()
    # But for feedback, which has no key.
    assert {table for table, *_ in keys} == set(filled.owned) - {"feedback"}
    assert [(table, name) for table, name, first in keys if first != "tenant_id"] == []
    assert others == []


def test_no_query_joins_tables_of_owners_but_by_owner(filled: Filled) -> None:
    tables = "|".join(filled.owned)
    crossing = {}
    for name, sql in load_queries("postgres").items():
        said = re.findall(rf"\b(FROM|JOIN|UPDATE|USING) ({tables})\b(?: (?!SET|WHERE|ORDER|LIMIT)(\w+))?", sql)
        ownerless = []
        for _, table, alias in said:
            owner = rf"\b{alias}\.tenant_id = " if alias else r"(?<!\.)\btenant_id(, \w+\))? (= |IN )"
            if not re.search(owner, sql):
                ownerless.append(f"{table} {alias}")
        # One table of a sweep has no owner; whatever else it reads is of the same one.
        allowed = 0 if name not in SWEEPS | OVER_ALL else 2 if name in UNITED else 1
        if len(ownerless) > allowed:
            crossing[name] = ownerless
    assert crossing == {}


# Begin with what is of any owner, by an index that is made for it.
OVER_ALL: Final = {"expired", "versions_to_embed", "versions_latest", "version_key", "tenants_with_items"} | {
    "tenants_showing",
    # Read every row once, in steps, after an upgrade.
    "seal_state_rows",
    "seal_tombstone_rows",
    "seal_audit_rows",
}
# Two lists, one behind the other.
UNITED: Final = {"tenants_with_commitments"}
