"""Faults planted in a store on PostgreSQL: `doctor` sees each of them, and says nothing of a sound one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from memoranda.cli.doctor import _check_embeddings
from memoranda.encoding.json_text import parse
from memoranda.opening import open_service
from memoranda.settings import load_settings
from tests.commands import command
from tests.embedders import LETTERS, WORDS_ALONE
from tests.postgres import server


class Fault(NamedTuple):
    """What is done to a sound store, how it is undone, and which finding tells of it in which words."""

    plant: str
    undo: str
    what: str
    seen: str


# Whole rows are kept aside and put back.
def _missing(table: str, where: str, what: str, seen: str) -> Fault:
    keep = f"CREATE TABLE kept AS SELECT * FROM {table} WHERE {where}; DELETE FROM {table} WHERE {where}"
    return Fault(keep, f"INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept", what, seen)


def _changed(table: str, change: str, where: str, what: str, seen: str) -> Fault:
    keep = f"CREATE TABLE kept AS SELECT * FROM {table} WHERE {where}; UPDATE {table} SET {change} WHERE {where}"
    back = f"DELETE FROM {table} WHERE {where}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept"
    return Fault(keep, back, what, seen)


def _orphan(table: str, columns: str, values: str) -> Fault:
    whose = "(SELECT min(tenant_id) FROM version)"
    add = f"INSERT INTO {table} (tenant_id, version_id, {columns}) VALUES ({whose}, 999999, {values})"
    return Fault(add, f"DELETE FROM {table} WHERE version_id = 999999", "search index", "rows of erased versions")


FIRST, LAST = "version_id = (SELECT min(version_id) FROM version)", "version_id = (SELECT max(version_id) FROM version)"
FORGED = "entry = convert_to(replace(convert_from(entry, 'UTF8'), 'remember', 'forget'), 'UTF8')"
FAULTS = {
    "an index that is not valid": Fault(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'state_recent'::regclass",
        "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'state_recent'::regclass",
        "database",
        "state_recent is not valid",
    ),
    "a table that a query does not know": Fault(
        "ALTER TABLE feedback RENAME COLUMN outcome TO result",
        "ALTER TABLE feedback RENAME COLUMN result TO outcome",
        "store",
        "refuses the query 'feedback_add'",
    ),
    "a document that was changed": _changed(
        "version", "native = overlay(native placing '\\x00'::bytea from 20)", FIRST, "signatures", "2 of 3"
    ),
    "a document that is gone": _missing("version", FIRST, "database", "1 versions have a state but no document"),
    "a state that is gone": _missing("state", LAST, "database", "1 versions have a document but no state"),
    "an audit entry that was changed": _changed("audit", FORGED, "seq = 2", "audit log", "broken at"),
    "an audit entry that is gone": _missing("audit", "seq = 2", "audit log", "broken at"),
    "an audit log that was cut off": _missing("audit", "seq = (SELECT max(seq) FROM audit)", "audit log", "broken at"),
    "words that are gone": _missing("segment", "true", "search index", "the word index differs from the documents"),
    "a field that is gone": _missing("facet", FIRST, "search index", "field texts"),
    "a field of nothing": _orphan("facet", "name, value_key", "'kind', '\\x00'"),
    "a number of nothing": _orphan("measure", "name, number", "'n', 1"),
    "a vector of nothing": _orphan("vector", "model_id, context_id, data", "1, 0, '\\x00'"),
    "a name that is gone": _missing("alias", FIRST, "search index", "names"),
    "a state that says otherwise": _changed("state", "kind = 'procedural'", FIRST, "search index", "state rows"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A sound store with a few memories and their vectors."""
    home = tmp_path_factory.mktemp("doctor") / "home"
    with server().database() as address:
        settings = load_settings(WORDS_ALONE, home=home, store=address)
        with closing(open_service(settings, embedder=LETTERS)) as service:
            me = service.gate.local()
            scope = {"owner": me.default_tenant}
            provenance = {"actor": me.default_tenant, "actor_kind": "user", "method": "test"}
            for text in ("the crane lifts nine tons", "the pilot is called Ines", "the harbour opens at dawn"):
                draft = {"kind": "semantic", "body": {"text": text}, "scope": scope, "provenance": provenance}
                service.remember(me, draft)
            while service.embedding.step():
                pass
        yield home, address


def _findings(store: tuple[Path, str]) -> dict[str, dict[str, Any]]:
    home, address = store
    done = command("--data", str(home), "--store", address, "--json", "doctor")
    return {each["what"]: each for each in parse(done.out)["findings"]}


def _as_superuser(address: str, sql: str) -> None:
    name = str(psycopg.conninfo.conninfo_to_dict(address)["dbname"])
    with psycopg.connect(server().address(name, None), autocommit=True) as raw:
        raw.execute(sql)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen_and_nothing_else_is(store: tuple[Path, str], fault: Fault) -> None:
    _as_superuser(store[1], fault.plant)
    try:
        found = _findings(store)
    finally:
        _as_superuser(store[1], fault.undo)
    assert not found[fault.what]["ok"], found
    assert fault.seen in found[fault.what]["seen"]


def test_a_sound_store_is_said_to_be(store: tuple[Path, str]) -> None:
    assert [each for each in _findings(store).values() if not each["ok"]] == []


def test_what_waits_for_its_vectors_is_counted(store: tuple[Path, str]) -> None:
    home, address = store
    settings = load_settings(WORDS_ALONE, home=home, store=address)
    with closing(open_service(settings, embedder=LETTERS)) as service:
        assert _check_embeddings(service).seen == f"every version has its vectors ({LETTERS.model})"
        # It would make them again at once.
        service.embedding.close()
        _as_superuser(
            address, "DELETE FROM vector; UPDATE embedding_model SET upto = (SELECT min(version_id) FROM version)"
        )
        assert _check_embeddings(service).seen.startswith("2 versions without vectors")
