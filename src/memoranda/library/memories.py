"""OAMS for programs: `Memoranda.oams`, whose keyword arguments become the requests of the standard.

Only names differ from the standard's verbs: a namespace may be short, tags are lists, and requests are built from
keywords. Results are those of the standard, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memoranda.standards.oams.memory import check_key
from memoranda.standards.oams.namespace import Namespace, read_namespace
from memoranda.standards.oams.requests import ListRequest, RecallRequest

if TYPE_CHECKING:
    from memoranda.service.core.access import Access
    from memoranda.service.oams.memories import StoreResult as StoredMemory
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oams.recall import MemoryListPage
    from memoranda.service.oams.views import TaggedMemory
    from memoranda.standards.oams.memory import Memory


class OamsMemories:
    """One person's memory as OAMS memories, for a program: keyword arguments become requests.

    A namespace is given by its whole name (`user-x123ab:personal`), or by its scope alone if it is the owner's own;
    the default is the owner's default namespace. `verbs` are OAMS's own, with its own requests.

    Examples:
        >>> from memoranda import Memoranda
        >>> with Memoranda.open(":memory:") as m:
        ...     stored = m.oams.store("tea", "green, no sugar", tags=["Drinks"], source_id="slack:CH123:1700000000.1")
        ...     m.oams.recall("with or without sugar?")[0]["value"]
        'green, no sugar'
    """

    def __init__(self, verbs: Oams[Access]) -> None:
        self.verbs = verbs

    def namespace(self, name: str | None = None) -> Namespace:
        """Return the namespace of a full name, or of a scope of the owner; by default the owner's default."""
        if name is None or ":" not in name:
            return self.verbs.namespace(name)
        # A full name contains its owner.
        return read_namespace(name)

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespaces that hold anything."""
        return self.verbs.namespaces()

    def store(
        self,
        /,
        key: str,
        value: str,
        *,
        namespace: str | None = None,
        tags: Sequence[str] | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
        **fields: object,
    ) -> StoredMemory:
        """Write a new memory, or the next version of the one with this key. `fields`: metadata, source_id …"""
        labels = {} if tags is None else {"tags": [*tags]}
        address = {"key": key, "namespace": str(self.namespace(namespace))}
        memory = {**address, "value": value, **labels, **fields}
        return self.verbs.store(memory, if_match=if_match, if_absent=if_absent)

    def batch_store(
        self, memories: Sequence[Mapping[str, object]], *, namespace: str | None = None
    ) -> Sequence[StoredMemory]:
        """Write many memories, all or none; `namespace` is for those that do not state one."""
        default = str(self.namespace(namespace))
        return self.verbs.batch_store([{"namespace": default, **memory} for memory in memories])

    def recall(
        self,
        /,
        query: str,
        *,
        namespace: str | Sequence[str] | None = None,
        k: int = 8,
        **where: object,
    ) -> Sequence[Memory]:
        """Return the best memories for a query, each with `metadata.score`. `where`: tags, since, until."""
        names = [namespace] if namespace is None or isinstance(namespace, str) else namespace
        request = {
            "query": query,
            "namespaces": [str(self.namespace(name)) for name in names],
            "k": k,
            **where,
        }
        return self.verbs.recall(RecallRequest.parse(request))

    def get(self, key: str, *, namespace: str | None = None) -> TaggedMemory:
        """Return one memory by its key, with the tag of its version."""
        check_key(key)
        return self.verbs.get(self.namespace(namespace), key)

    def forget(
        self, key: str, *, namespace: str | None = None, if_match: str | None = None
    ) -> None:
        """Forget a memory: no verb returns it from now on."""
        check_key(key)
        self.verbs.forget(self.namespace(namespace), key, if_match=if_match)

    def list(self, /, *, namespace: str | None = None, **where: object) -> MemoryListPage:
        """Return a page of a namespace, last updated first. `where`: limit, cursor, since, tags."""
        request = {"namespace": str(self.namespace(namespace)), **where}
        return self.verbs.list_memories(ListRequest.parse(request))
