"""Databases of the tools themselves.

The folders of Qdrant and Chroma were written by mem0ai 2.2.1 (`Memory.add(…, infer=False)`, an embedder of four
numbers, qdrant-client 1.20, chromadb 1.5); `postgres.sql` by LangGraph's `PostgresStore` 3.2 and `pg_dump` 15.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any, Final

import pytest

from memoranda import Memoranda
from memoranda.bindings.files import exchange
from memoranda.bindings.files.importers.registry import IMPORTERS, ImportCodec, recognise_importer
from tests.importers.conftest import SAMPLES, take_known, written

QDRANT = SAMPLES / "mem0" / "qdrant"
POINTS = QDRANT / "collection" / "mem0" / "storage.sqlite"
DUMP = SAMPLES / "langgraph" / "postgres.sql"


@pytest.mark.parametrize("source", [QDRANT, POINTS, SAMPLES / "mem0" / "chroma"])
def test_what_mem0_keeps_beside_its_vectors_is_what_it_answers(tmp_path: Path, source: Path) -> None:
    with Memoranda.open(tmp_path / "home") as store:
        assert take_known(store, source, "mem0").refused == 0
        assert store.recall("What is Alice allergic to?", user="alice")[0].text.startswith("Is allergic to peanuts")
        (fridays,) = [each for each in store.list() if each.text == "I deploy on Fridays"]
        assert fridays.record["scope"]["session"] == "run-7"
        # The same memories as `get_all` answers them change nothing.
        items: list[Any] = list(ImportCodec(IMPORTERS["mem0"]).items(str(source)))
        answers = [each.value["metadata"]["imported_from"]["document"] for each in items]
        assert answers[0].keys() >= {"id", "memory", "hash", "created_at", "updated_at", "user_id", "metadata"}
        again = exchange.import_files(
            store.ump.import_items, store.owner, [str(written(tmp_path, {"results": answers}))]
        )
        assert (again.unchanged, again.created, again.updated) == (4, 0, 0)


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch pwned",)


def laughs() -> object:
    value: object = "ha"
    for _ in range(40):
        value = [value, value]
    return value


def endless() -> object:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "point",
    [
        pickle.dumps(Evil()),
        pickle.dumps({"payload": {"data": Evil(), "hash": "h"}, "id": "1"}),
        b"",
        b"\x80\x04",
        b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"cos\nsystem\n(S'touch pwned'\ntR.",
        POINTS.read_bytes()[:900],
    ],
    ids=["a call", "a call inside", "nothing", "no end", "a long frame", "an old call", "no pickle"],
)
def test_nothing_of_a_point_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "storage.sqlite"
    shutil.copy(POINTS, path)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO points VALUES ('zzz', ?)", (point,))
    database.close()
    found = list(ImportCodec(IMPORTERS["mem0"]).items(str(path)))
    assert [each.error is None for each in found].count(True) == 4
    (refused,) = [each for each in found if each.error is not None]
    assert "storage.sqlite: point 5" in refused.where
    assert not (tmp_path / "pwned").exists()


# Begins as a point does, and has the memo hold something at a far place: an array up to there would be made for it.
HUGE_MEMO: Final = b"\x80\x04}r\xff\xff\xff\x01."
WIDE: Final = 10_000_000
LARGE: Final = {
    "a far place in the memo": HUGE_MEMO,
    "the same as text": b"\x80\x04}p33554431\n.",
    "a long text": b"\x80\x04X" + WIDE.to_bytes(4, "little") + b"x.",
    "a very long text": b"\x80\x04\x8d" + WIDE.to_bytes(8, "little") + b"x.",
    "many bytes": b"\x80\x04\x8e" + WIDE.to_bytes(8, "little") + b"x.",
    "many bytes that may change": b"\x80\x05\x96" + WIDE.to_bytes(8, "little") + b"x.",
    "a long number": b"\x80\x04\x8b" + WIDE.to_bytes(4, "little") + b"x.",
    "a number of many digits": b"\x80\x04I" + b"9" * 100_000 + b"\n.",
    "a long frame": b"\x80\x04\x95" + WIDE.to_bytes(8, "little") + b"}.",
}


@pytest.mark.parametrize("large", LARGE)
def test_a_point_takes_no_more_memory_than_it_has_bytes_for(tmp_path: Path, large: str) -> None:
    path = tmp_path / "storage.sqlite"
    shutil.copy(POINTS, path)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO points VALUES ('zzz', ?)", (LARGE[large],))
    database.close()
    assert path.stat().st_size < 256 * 1024
    source = ImportCodec(IMPORTERS["mem0"])
    list(source.items(str(path)))
    tracemalloc.start()
    try:
        found = list(source.items(str(path)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < WIDE // 2
    assert [each.error is None for each in found] == [True] * 4 + [False]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_points_of_every_protocol_are_read(tmp_path: Path, protocol: int) -> None:
    more: dict[str, list[Any]] = {
        f"k{number}": [number, -number, 2**40 + number, number / 7, None, True, ("a", 1)] for number in range(400)
    }
    payload = {"data": "Ada drinks tea", "hash": "h", "more": more, "long": "tea 🍵" * 100, "bytes": b"x"}
    state = {"__dict__": {"id": "1", "vector": [number / 3 for number in range(2_000)], "payload": payload}}
    path = tmp_path / "storage.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.execute("INSERT INTO points VALUES ('1', ?)", (pickle.dumps(_Pickled(state), protocol),))
    database.close()
    (found,) = ImportCodec(IMPORTERS["mem0"]).items(str(path))
    assert found.error is None
    metadata = found.value["metadata"]["mem0_metadata"]
    assert metadata["long"] == payload["long"]
    assert metadata["more"] == {name: [*each[:-1], list(each[-1])] for name, each in more.items()}


@pytest.mark.parametrize("value", [laughs(), endless(), 10**400, {"a": Evil()}, "\ud800"], ids=range(5))
def test_a_payload_is_plain_and_bounded(tmp_path: Path, value: object) -> None:
    payload = {"data": "Ada drinks tea", "hash": "h", "more": value}
    state = {"__dict__": {"id": "1", "vector": {}, "payload": payload}, "__pydantic_private__": None}
    path = tmp_path / "storage.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.execute("INSERT INTO points VALUES ('1', ?)", (pickle.dumps(_Pickled(state)),))
    database.close()
    (found,) = ImportCodec(IMPORTERS["mem0"]).items(str(path))
    assert found.error is not None or "more" in found.value["metadata"].get("mem0_metadata", {})


class _Pickled:
    """What pickles as a point does."""

    def __init__(self, state: object) -> None:
        self._state = state

    def __getstate__(self) -> object:
        return self._state


def test_a_dump_of_postgresql_is_read_row_by_row(tmp_path: Path) -> None:
    with Memoranda.open(tmp_path / "home") as store:
        assert take_known(store, DUMP, "langgraph").created == 4
        lines = store.oams.get("m2", namespace="alice:users.alice.memories").memory
        assert lines["value"] == "Line one\nLine two with a tab\there and a back\\slash"
        assert lines["created_at"].startswith("2026-11-16T14:21:04")
        assert store.recall("Which languages does Bob speak?", user="bob")[0].text.startswith("name: Bob")


def test_rows_of_a_dump_that_are_none_are_told_by_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    text = DUMP.read_text(encoding="utf-8")
    path.write_text(text.replace("users.bob.profile\t", "users.bob.profile\textra\t"), encoding="utf-8")
    found = list(ImportCodec(IMPORTERS["langgraph"]).items(str(path)))
    (refused,) = [each for each in found if each.error is not None]
    assert refused.where == f"{path}:60"
    assert "8 columns" in str(refused.error)
    assert len(found) == 4
    # Another table, and rows as INSERT.
    path.write_text(text.replace("public.store (prefix", "public.shop (prefix"), encoding="utf-8")
    assert recognise_importer(path) is None
    path.write_text("-- PostgreSQL database dump\nINSERT INTO public.store VALUES ('a');\n", encoding="utf-8")
    (refused,) = ImportCodec(IMPORTERS["langgraph"]).items(str(path))
    assert "--inserts" in str(refused.error)
