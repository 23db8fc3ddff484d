"""LangGraph's long-term memory over Memoranda: `graph.compile(store=MemorandaStore(Memoranda.open()))`.

An item is stored as an OAMS memory. Its namespace `("users", "alice")` becomes the project `users.alice`, its key the
key, and the text of its value (`text`, `content` …, or its fields line by line) the text of the memory. The value is
stored in the metadata; if someone revises the text of the memory, the value is returned with the new text. LangGraph's
`InMemoryStore` is the reference; docs/howto/frameworks.md lists the differences with their reasons.
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

from memoranda.adapters import require_extra
from memoranda.app import Memoranda
from memoranda.bindings.files.importers.langgraph import TEXTS, value_text
from memoranda.encoding.untrusted import neutralize_json
from memoranda.errors import InvalidInput, NotFound, VersionMismatch
from memoranda.model.instant import EARLIEST, format_instant, parse_instant, to_datetime
from memoranda.standards.oams.memory import EXPIRES_KEY, SCORE_KEY, Memory
from memoranda.standards.oams.namespace import namespace_of, parse_namespace, space_of
from memoranda.standards.oams.requests import MAX_K, MAX_LIMIT, MAX_NAMESPACES, MAX_QUERY_BYTES

with require_extra("langgraph"):
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

# The metadata keys for the value as LangGraph passed it, except its text, and for the field of that text. The text
# is the memory's own: a copy would outlive its revision through another standard.
_VALUE: Final = "langgraph"
_TEXT_FIELD: Final = "langgraph_text"
_TTL: Final = "langgraph_ttl_minutes"
# A read that would extend the expiry by less than this share of the lifetime does not write.
_REFRESH_SHARE: Final = 0.01
_MINUTE_MS: Final = 60_000

Path = tuple[str, ...]


class MemorandaStore(BaseStore):  # type: ignore[misc]  # the type checker does not read LangGraph
    """A store for LangGraph over an open `Memoranda`, which the caller opens and closes."""

    supports_ttl = True

    def __init__(
        self, memoranda: Memoranda, *, ttl: TTLConfig | None = None, exact: bool = False
    ) -> None:
        """Use an open memory. `exact` is for programs that show no value to a model: values return as they were put.

        Otherwise no text in a value can pose as a frame or hide words: tags of frames, tokens of chat templates and
        invisible characters are neutralised.
        """
        super().__init__()
        self._is_exact = exact
        self.ttl_config = ttl
        self._memories = memoranda.oams
        self._owner = memoranda.owner
        self._namespace = lru_cache(maxsize=1024)(self._make_namespace)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run several operations; reads see the state before the writes of the batch."""
        results: list[Result] = []
        puts: dict[tuple[Path, str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            else:
                results.append(self._run_read(op))
        self._write(puts.values())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run several operations from an event loop; see `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    # --- reading -----------------------------------------------------------------------------------------

    def _run_read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _get(self, op: GetOp) -> Item | None:
        try:
            memory = self._memories.get(op.key, namespace=self._namespace(op.namespace)).memory
        except (NotFound, InvalidInput):
            # An invalid key has no item.
            return None
        if op.refresh_ttl:
            self._refresh(memory)
        return Item(namespace=op.namespace, key=op.key, **self._item_fields(memory))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        paths = [
            path
            for path in self._list_paths()
            if path[: len(op.namespace_prefix)] == tuple(op.namespace_prefix)
        ]
        results_by_item: dict[tuple[Path, str], tuple[Path, Memory]] = {}
        if op.query and op.query.strip():
            for path, memory in self._recall(
                op.query, paths, MAX_K if op.filter else min(max(end, 1), MAX_K)
            ):
                if _matches_filter(_item_value(memory), op.filter):
                    results_by_item[path, memory["key"]] = path, memory
        if len(results_by_item) < end:
            # As in the reference, items that do not match the query follow without a score.
            for path, memory in self._list_latest(
                paths, None if op.filter or results_by_item else end
            ):
                if _matches_filter(_item_value(memory), op.filter):
                    results_by_item.setdefault((path, memory["key"]), (path, memory))
        page = list(results_by_item.values())[op.offset : end]
        if op.refresh_ttl:
            for _, memory in page:
                self._refresh(memory)
        return [
            SearchItem(
                namespace=path,
                key=memory["key"],
                **self._item_fields(memory),
                score=memory["metadata"].get(SCORE_KEY),
            )
            for path, memory in page
        ]

    def _item_fields(self, memory: Memory) -> dict[str, object]:
        """Return the value and the times of an item."""
        times = {name: _parse_time(memory.get(name)) for name in ("created_at", "updated_at")}
        value = _item_value(memory)
        return {"value": value if self._is_exact else neutralize_json(value), **times}

    def _recall(self, query: str, paths: Sequence[Path], k: int) -> Iterator[tuple[Path, Memory]]:
        """Yield the memories that answer a query, best first."""
        limited_query = query.encode("utf-8", "replace")[:MAX_QUERY_BYTES].decode("utf-8", "ignore")
        hits: list[tuple[Path, Memory]] = []
        for first in range(0, len(paths), MAX_NAMESPACES):
            paths_by_namespace = {
                self._namespace(path): path for path in paths[first : first + MAX_NAMESPACES]
            }
            memories = self._memories.recall(limited_query, namespace=[*paths_by_namespace], k=k)
            hits += [(paths_by_namespace[memory["namespace"]], memory) for memory in memories]
        yield from sorted(hits, key=lambda hit: -hit[1]["metadata"][SCORE_KEY])

    def _list_latest(self, paths: Sequence[Path], limit: int | None) -> list[tuple[Path, Memory]]:
        """Return the memories, last updated first; at most `limit` of each namespace."""
        memories = [(path, memory) for path in paths for memory in self._pages(path, limit)]
        return sorted(memories, key=lambda entry: entry[1].get("updated_at", ""), reverse=True)

    def _pages(self, path: Path, limit: int | None) -> Iterator[Memory]:
        cursor: str | None = None
        remaining = MAX_LIMIT if limit is None else limit
        while remaining > 0:
            page = self._memories.list(
                namespace=self._namespace(path),
                limit=min(remaining, MAX_LIMIT),
                **_without_none(cursor=cursor),
            )
            yield from ({"metadata": {}, **memory} for memory in page.memories)  # type: ignore[misc]
            cursor = page.next_cursor
            if cursor is None:
                return
            if limit is not None:
                remaining -= len(page.memories)

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Path]:
        conditions = op.match_conditions or ()
        met = (
            path
            for path in self._list_paths()
            if path and all(_matches_path(condition, path) for condition in conditions)
        )
        # Some namespaces contain only forgotten memories.
        paths = {path for path in met if any(True for _ in self._pages(path, 1))}
        shortened_paths = sorted(
            paths if op.max_depth is None else {path[: op.max_depth] for path in paths}
        )
        return shortened_paths[op.offset : op.offset + op.limit]

    def _list_paths(self) -> list[Path]:
        """Return the namespaces that were ever used; the empty one stands for no project."""
        own_hash = parse_namespace(self._namespace(())).owner
        namespaces = (parse_namespace(namespace) for namespace in self._memories.namespaces)
        spaces = (
            space_of(namespace, self._owner)
            for namespace in namespaces
            if namespace.owner == own_hash
        )
        return [tuple(space.split(".")) if space else () for space in spaces]

    def _make_namespace(self, path: Path) -> str:
        return namespace_of(".".join(path), self._owner)

    # --- writing -----------------------------------------------------------------------------------------

    def _write(self, puts: Iterable[PutOp]) -> None:
        stored_memories = []
        for op in puts:
            if op.value is not None:
                stored_memories.append(self._memory(op))
                continue
            try:
                self._memories.forget(op.key, namespace=self._namespace(op.namespace))
            except NotFound:
                # Deleting a missing item is no error.
                continue
        if len(stored_memories) == 1:
            self._memories.store(**stored_memories[0])
        elif stored_memories:
            self._memories.batch_store(stored_memories)

    def _memory(self, op: PutOp) -> dict[str, Any]:
        try:
            # Copied through JSON, so that the value is valid JSON and independent of the caller's object.
            value: dict[str, object] = json.loads(json.dumps(dict(op.value or {}), allow_nan=False))
            ends = None if op.ttl is None else _time_after(op.ttl)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{'.'.join(op.namespace)}/{op.key} cannot be stored: {error}"
            ) from None
        text = value_text(value)
        metadata: dict[str, object] = {_VALUE: value}
        text_field = next((name for name in TEXTS if value.get(name) == text), None)
        if text_field is not None:
            metadata = {_VALUE: {**value, text_field: None}, _TEXT_FIELD: text_field}
        if ends is not None:
            metadata |= {_TTL: op.ttl, EXPIRES_KEY: ends}
        return {
            "namespace": self._namespace(op.namespace),
            "key": op.key,
            "value": text,
            "metadata": metadata,
        }

    def _refresh(self, memory: Memory) -> None:
        """Extend the expiry of a memory that has one, because it was read."""
        minutes = memory.get("metadata", {}).get(_TTL)
        if not isinstance(minutes, int | float):
            return
        moved_ms = parse_instant(_time_after(minutes)) - parse_instant(
            memory["metadata"][EXPIRES_KEY]
        )
        if moved_ms < minutes * _MINUTE_MS * _REFRESH_SHARE:
            return
        try:
            current = self._memories.get(memory["key"], namespace=memory["namespace"])
            metadata = {**current.memory["metadata"], EXPIRES_KEY: _time_after(minutes)}
            self._memories.store(
                memory["key"],
                current.memory["value"],
                namespace=memory["namespace"],
                if_match=current.etag,
                **_without_none(metadata=metadata, tags=current.memory.get("tags")),
            )
        except (NotFound, VersionMismatch):
            # Another writer changed it meanwhile and set the expiry.
            return


def _parse_time(text: object) -> datetime:
    return to_datetime(parse_instant(text) if isinstance(text, str) else EARLIEST)


def _time_after(minutes: float) -> str:
    """Return the instant a number of minutes from now. Raises ValueError if the number is not finite."""
    if not math.isfinite(minutes):
        raise ValueError("a time to live must be a finite number of minutes")
    return format_instant(time.time_ns() // 1_000_000 + round(minutes * _MINUTE_MS))


def _item_value(memory: Memory) -> dict[str, object]:
    """Return the value as LangGraph stored it, with the current text if the memory was revised."""
    metadata = memory.get("metadata", {})
    value, text_field = metadata.get(_VALUE), metadata.get(_TEXT_FIELD)
    if not isinstance(value, dict):
        return {TEXTS[0]: memory["value"]}
    if isinstance(text_field, str) and value.get(text_field, "") is None:
        return {**value, text_field: memory["value"]}
    if value_text(value) == memory["value"]:
        return value
    return {
        **value,
        next((name for name in TEXTS if isinstance(value.get(name), str)), TEXTS[0]): memory[
            "value"
        ],
    }


def _matches_filter(value: Mapping[str, object], condition: Mapping[str, object] | None) -> bool:
    return all(
        _equals_or_compares(value.get(name), condition_value)
        for name, condition_value in (condition or {}).items()
    )


def _equals_or_compares(actual: Any, condition: object) -> bool:
    """Return True if a value matches a filter: by equality, field by field, or by operators such as `$gt`."""
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            return all(
                _compare_operator(actual, name, expected) for name, expected in condition.items()
            )
        return isinstance(actual, dict) and all(
            _equals_or_compares(actual.get(name), expected) for name, expected in condition.items()
        )
    if isinstance(condition, list | tuple):
        is_long = isinstance(actual, list | tuple) and len(actual) == len(condition)
        return is_long and all(
            _equals_or_compares(*pair) for pair in zip(actual, condition, strict=True)
        )
    return bool(actual == condition)


def _compare_operator(actual: Any, operator: str, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(actual == operand) == (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        actual_number, wanted_number = float(actual), float(operand)
    except (TypeError, ValueError):
        # A value that is no number never matches a comparison.
        return False
    if actual_number == wanted_number:
        return operator.endswith("e")
    return (actual_number > wanted_number) == operator.startswith("$g")


def _matches_path(condition: MatchCondition, path: Path) -> bool:
    expected_path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(path) < len(expected_path):
        return False
    part = (
        path[: len(expected_path)]
        if condition.match_type == "prefix"
        else path[len(path) - len(expected_path) :]
    )
    return all(
        pattern in ("*", part_name) for pattern, part_name in zip(expected_path, part, strict=True)
    )


def _without_none(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
