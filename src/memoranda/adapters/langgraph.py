"""LangGraph's long-term memory, kept in Memoranda: `graph.compile(store=MemorandaStore(Memoranda.open()))`.

An item is a memory of OAMS: its namespace `("users", "alice")` is the project `users.alice`, its key the memory's key,
and what its value says (`text`, `content` …, or its fields line by line) the memory's text; the value itself goes
along. Where somebody else revised the text, the value says the new one. LangGraph names its `InMemoryStore` as the
reference; where this store does otherwise stands in docs/howto/frameworks.md, with the reason.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from memoranda.adapters import needs
from memoranda.app import Memoranda
from memoranda.bindings.files.importers.langgraph import TEXTS, text_of
from memoranda.errors import InvalidInput, NotFound, VersionMismatch
from memoranda.model.instant import EARLIEST, format_instant, parse_instant, to_datetime
from memoranda.standards.oams.memory import EXPIRES_KEY, SCORE_KEY, Memory
from memoranda.standards.oams.namespace import namespace_of, parse_namespace, space_of
from memoranda.standards.oams.requests import MAX_K, MAX_LIMIT, MAX_NAMESPACES, MAX_QUERY_BYTES

with needs("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )

# Under which a memory's metadata has the value as LangGraph gave it.
_VALUE: Final = "langgraph"
_TTL: Final = "langgraph_ttl_minutes"
# A read that would move the end by less than this share of the whole time does not write.
_REFRESH_SHARE: Final = 0.01
_MINUTE_MS: Final = 60_000

Path = tuple[str, ...]


class MemorandaStore(BaseStore):  # type: ignore[misc]  # the type checker does not read LangGraph
    """A store for LangGraph, over an open memory; what it takes to open and close it is the caller's."""

    supports_ttl = True

    def __init__(self, memoranda: Memoranda, *, ttl: TTLConfig | None = None) -> None:
        super().__init__()
        self.ttl_config = ttl
        self._memories = memoranda.oams
        self._owner = memoranda.owner
        self._place = lru_cache(maxsize=1024)(self._place_of)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things; what is read is as it was before anything of it is written."""
        results: list[Result] = []
        puts: dict[tuple[Path, str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            else:
                results.append(self._read(op))
        self._write(puts.values())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same for a program with an event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    # --- reading -----------------------------------------------------------------------------------------

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _get(self, op: GetOp) -> Item | None:
        try:
            found = self._memories.get(op.key, namespace=self._place(op.namespace)).memory
        except (NotFound, InvalidInput):
            # What cannot be a key is under none.
            return None
        if op.refresh_ttl:
            self._refresh(found)
        return Item(namespace=op.namespace, key=op.key, **_said(found))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        paths = [
            path
            for path in self._paths()
            if path[: len(op.namespace_prefix)] == tuple(op.namespace_prefix)
        ]
        found: dict[tuple[Path, str], tuple[Path, Memory]] = {}
        if op.query and op.query.strip():
            for path, memory in self._recalled(
                op.query, paths, MAX_K if op.filter else min(max(end, 1), MAX_K)
            ):
                if _matches(_value(memory), op.filter):
                    found[path, memory["key"]] = path, memory
        if len(found) < end:
            # As in the reference: what does not answer the question follows without a score.
            for path, memory in self._listed(paths, None if op.filter or found else end):
                if _matches(_value(memory), op.filter):
                    found.setdefault((path, memory["key"]), (path, memory))
        page = list(found.values())[op.offset : end]
        if op.refresh_ttl:
            for _, memory in page:
                self._refresh(memory)
        return [
            SearchItem(
                namespace=path,
                key=memory["key"],
                **_said(memory),
                score=memory["metadata"].get(SCORE_KEY),
            )
            for path, memory in page
        ]

    def _recalled(self, query: str, paths: Sequence[Path], k: int) -> Iterator[tuple[Path, Memory]]:
        """What answers a question, best first."""
        asked = query.encode("utf-8", "replace")[:MAX_QUERY_BYTES].decode("utf-8", "ignore")
        hits: list[tuple[Path, Memory]] = []
        for first in range(0, len(paths), MAX_NAMESPACES):
            places = {self._place(path): path for path in paths[first : first + MAX_NAMESPACES]}
            answered = self._memories.recall(asked, namespace=[*places], k=k)
            hits += [(places[memory["namespace"]], memory) for memory in answered]
        yield from sorted(hits, key=lambda hit: -hit[1]["metadata"][SCORE_KEY])

    def _listed(self, paths: Sequence[Path], most: int | None) -> list[tuple[Path, Memory]]:
        """What is there, last updated first; of each namespace no more than are asked for."""
        found = [(path, memory) for path in paths for memory in self._pages(path, most)]
        return sorted(found, key=lambda each: each[1].get("updated_at", ""), reverse=True)

    def _pages(self, path: Path, most: int | None) -> Iterator[Memory]:
        cursor: str | None = None
        left = MAX_LIMIT if most is None else most
        while left > 0:
            page = self._memories.list(
                namespace=self._place(path), limit=min(left, MAX_LIMIT), **_given(cursor=cursor)
            )
            yield from ({"metadata": {}, **memory} for memory in page.memories)  # type: ignore[misc]
            cursor = page.next_cursor
            if cursor is None:
                return
            if most is not None:
                left -= len(page.memories)

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Path]:
        conditions = op.match_conditions or ()
        met = (
            path
            for path in self._paths()
            if path and all(_is_met(each, path) for each in conditions)
        )
        # Of some there is only what was forgotten.
        paths = {path for path in met if any(True for _ in self._pages(path, 1))}
        cut = sorted(paths if op.max_depth is None else {path[: op.max_depth] for path in paths})
        return cut[op.offset : op.offset + op.limit]

    def _paths(self) -> list[Path]:
        """The namespaces in which something was stored; the empty one is that of no project."""
        own = parse_namespace(self._place(())).owner
        named = (parse_namespace(each) for each in self._memories.namespaces)
        spaces = (space_of(each, self._owner) for each in named if each.owner == own)
        return [tuple(space.split(".")) if space else () for space in spaces]

    def _place_of(self, path: Path) -> str:
        return namespace_of(".".join(path), self._owner)

    # --- writing -----------------------------------------------------------------------------------------

    def _write(self, puts: Iterable[PutOp]) -> None:
        stored = []
        for op in puts:
            if op.value is not None:
                stored.append(self._memory(op))
                continue
            try:
                self._memories.forget(op.key, namespace=self._place(op.namespace))
            except NotFound:
                # To delete what is not there is no error.
                continue
        if len(stored) == 1:
            self._memories.store(**stored[0])
        elif stored:
            self._memories.batch_store(stored)

    def _memory(self, op: PutOp) -> dict[str, Any]:
        try:
            # Read again, so that only what JSON can say is kept, and nothing that the caller changes later.
            value: dict[str, Any] = json.loads(json.dumps(dict(op.value or {}), allow_nan=False))
            ends = None if op.ttl is None else _later(op.ttl)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{'.'.join(op.namespace)}/{op.key} cannot be stored: {error}"
            ) from None
        metadata: dict[str, Any] = {_VALUE: value}
        if ends is not None:
            metadata |= {_TTL: op.ttl, EXPIRES_KEY: ends}
        return {
            "namespace": self._place(op.namespace),
            "key": op.key,
            "value": text_of(value),
            "metadata": metadata,
        }

    def _refresh(self, memory: Memory) -> None:
        """Move the end of a memory that has one: it was read now."""
        minutes = memory.get("metadata", {}).get(_TTL)
        if not isinstance(minutes, int | float):
            return
        moved_ms = parse_instant(_later(minutes)) - parse_instant(memory["metadata"][EXPIRES_KEY])
        if moved_ms < minutes * _MINUTE_MS * _REFRESH_SHARE:
            return
        try:
            shown = self._memories.get(memory["key"], namespace=memory["namespace"])
            metadata = {**shown.memory["metadata"], EXPIRES_KEY: _later(minutes)}
            self._memories.store(
                memory["key"],
                shown.memory["value"],
                namespace=memory["namespace"],
                if_match=shown.etag,
                **_given(metadata=metadata, tags=shown.memory.get("tags")),
            )
        except (NotFound, VersionMismatch):
            # Whoever changed it meanwhile said when it ends.
            return


def _said(memory: Memory) -> dict[str, Any]:
    times = {name: _time(memory.get(name)) for name in ("created_at", "updated_at")}
    return {"value": _value(memory), **times}


def _time(text: object) -> datetime:
    return to_datetime(parse_instant(text) if isinstance(text, str) else EARLIEST)


def _later(minutes: float) -> str:
    """Return the time so many minutes from now. Raises ValueError for what is no number."""
    if not math.isfinite(minutes):
        raise ValueError("a time to live must be a finite number of minutes")
    return format_instant(time.time_ns() // 1_000_000 + round(minutes * _MINUTE_MS))


def _value(memory: Memory) -> dict[str, Any]:
    """The value as LangGraph stored it; with the text that the memory has now, if somebody revised that."""
    value = memory.get("metadata", {}).get(_VALUE)
    if not isinstance(value, dict):
        return {TEXTS[0]: memory["value"]}
    if text_of(value) == memory["value"]:
        return value
    return {
        **value,
        next((name for name in TEXTS if isinstance(value.get(name), str)), TEXTS[0]): memory[
            "value"
        ],
    }


def _matches(value: Mapping[str, Any], condition: Mapping[str, Any] | None) -> bool:
    return all(_compares(value.get(name), wanted) for name, wanted in (condition or {}).items())


def _compares(said: Any, wanted: Any) -> bool:
    """Whether a value is what a filter asks for: equal, field by field, or by `$gt` and its like."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_holds(said, name, each) for name, each in wanted.items())
        return isinstance(said, dict) and all(
            _compares(said.get(name), each) for name, each in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        is_long = isinstance(said, list | tuple) and len(said) == len(wanted)
        return is_long and all(_compares(*pair) for pair in zip(said, wanted, strict=True))
    return bool(said == wanted)


def _holds(said: Any, operator: str, wanted: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(said == wanted) == (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        left, right = float(said), float(wanted)
    except (TypeError, ValueError):
        # What is no number is neither more nor less.
        return False
    if left == right:
        return operator.endswith("e")
    return (left > right) == operator.startswith("$g")


def _is_met(condition: MatchCondition, path: Path) -> bool:
    wanted = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(path) < len(wanted):
        return False
    part = (
        path[: len(wanted)] if condition.match_type == "prefix" else path[len(path) - len(wanted) :]
    )
    return all(each in ("*", said) for each, said in zip(wanted, part, strict=True))


def _given(**named: Any) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}
