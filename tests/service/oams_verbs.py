"""The operations of OAMS on a world, with short names, for one caller and one namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from memoranda.model.instant import format_instant
from memoranda.service.core.access import Access
from memoranda.service.exchange.importing import Item
from memoranda.service.exchange.report import Report
from memoranda.service.oams.memories import StoreResult
from memoranda.service.oams.recall import MemoryListPage
from memoranda.service.oams.views import TaggedMemory
from memoranda.standards.oams.namespace import namespace_of, parse_namespace
from memoranda.standards.oams.requests import ListRequest, RecallRequest
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms.grains import Grain
from tests.service.world import World

# What is sent may be no memory at all.
Memory = Any


@contextmanager
def opened(**options: Any) -> Iterator[World]:
    """A world of one's own, closed in the end."""
    world = World(**options)
    try:
        yield world
    finally:
        world.service.close()


def namespace(tenant: str, space: str = "") -> str:
    return namespace_of(space, tenant)


def said_by(grain: Grain) -> str:
    """What the view of a memory says: its object, without the subject and the relation that every belief has."""
    text = oms.text_of(grain)
    return str(grain.fields["object"]) if oms.unwrap(grain) is not None and "object" in grain.fields else text


class Oams:
    """What one caller does in one namespace; without a namespace, in the caller's default one."""

    def __init__(self, world: World, namespace: str | None = None, access: Access | None = None) -> None:
        self.world = world
        self.access = access or world.owner
        self.verbs = world.service.oams
        self.namespace = namespace or str(self.verbs.namespace(self.access))
        self._parsed = parse_namespace(self.namespace)

    def memory(self, key: str, value: str = "a value", **fields: Any) -> Memory:
        return {"key": key, "namespace": self.namespace, "value": value, **fields}

    def complete(self, key: str, value: str = "a value", **fields: Any) -> Memory:
        now = format_instant(self.world.now)
        return {"created_at": now, "updated_at": now, **self.memory(key, value, **fields)}

    def store(
        self, key: str, value: str = "a value", *, if_match: str | None = None, if_absent: bool = False, **fields: Any
    ) -> StoreResult:
        return self.put(self.memory(key, value, **fields), if_match=if_match, if_absent=if_absent)

    def put(self, memory: Memory, *, if_match: str | None = None, if_absent: bool = False) -> StoreResult:
        return self.verbs.store(self.access, memory, if_match=if_match, if_absent=if_absent)

    def batch(self, memories: list[Memory]) -> list[StoreResult]:
        return self.verbs.batch_store(self.access, memories)

    def get(self, key: str) -> Memory:
        return self.shown(key).memory

    def shown(self, key: str) -> TaggedMemory:
        return self.verbs.get(self.access, self._parsed, key)

    def forget(self, key: str, *, if_match: str | None = None) -> None:
        self.verbs.forget(self.access, self._parsed, key, if_match=if_match)

    def recall(self, query: str, *, consents: list[Access] | None = None, **fields: Any) -> list[Memory]:
        if "namespaces" not in fields:
            fields["namespace"] = self.namespace
        return self.verbs.recall(self.access, RecallRequest.parse({"query": query, **fields}), consents=consents or [])

    def keys(self, query: str, **fields: Any) -> list[str]:
        return [memory["key"] for memory in self.recall(query, **fields)]

    def page(self, **fields: Any) -> MemoryListPage:
        return self.verbs.list_memories(self.access, ListRequest.parse({"namespace": self.namespace, **fields}))

    def listed(self, **fields: Any) -> list[Memory]:
        """All pages."""
        found: list[Memory] = []
        cursor: str | None = None
        while True:
            page = self.page(cursor=cursor, **fields)
            found += page.memories
            cursor = page.next_cursor
            if cursor is None:
                return found

    def listed_keys(self, **fields: Any) -> list[str]:
        return [memory["key"] for memory in self.listed(**fields)]

    def exported(self, **fields: Any) -> list[bytes]:
        return [raw for raw, _ in self.verbs.export(self.access, **fields)]

    def take_in(self, lines: Sequence[tuple[bytes | None, Memory]], *, restore: bool = False) -> Report:
        return self.world.service.import_items(
            self.access,
            [
                Item(form="oams", where=f"line {number}", number=number, raw=raw, value=memory)
                for number, (raw, memory) in enumerate(lines, start=1)
            ],
            restore=restore,
        )
