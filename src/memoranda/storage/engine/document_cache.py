"""A cache of decrypted and decoded documents, for all tenants of a process.

Documents never change, so only what cannot change is cached: the document, that its seal is valid, and what the service
computed from it. The state of a version and who may see it are read from every snapshot. The documents of a tenant
are dropped as soon as a snapshot sees that one of them was erased, or a key destroyed, in whichever process: both are
counted in the database (`Age`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from memoranda.model.memory import OpenedDocument

# Bytes of memory that the decoded documents of a process may take.
DOCUMENT_BYTES: Final = 64 << 20
# Bytes of memory of one entry apart from its document, and of a decoded document for each of its bytes: an estimate.
_ENTRY_BYTES: Final = 1_024
_DECODED_SHARE: Final = 8


class Age(NamedTuple):
    """The numbers of erasures and key changes that a tenant has seen; documents cached at an
    earlier age are dropped.
    """

    erasures: int
    keys: int


class DocumentCache:
    """The documents used last, up to a limit of memory."""

    def __init__(self, limit: int = DOCUMENT_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._lock = threading.Lock()
        self._ages: dict[int, Age] = {}
        # The documents by (tenant id, version id), the one used last at the end.
        self._entries: OrderedDict[tuple[int, int], OpenedDocument] = OrderedDict()

    def get(
        self, tenant_id: int, age: Age, version_ids: Sequence[int]
    ) -> dict[int, OpenedDocument]:
        """Return the cached documents of these versions; none to a snapshot from before the last erasure."""
        with self._lock:
            if not self._is_current(tenant_id, age):
                return {}
            cached = {
                version_id: document
                for version_id in version_ids
                if (document := self._entries.get((tenant_id, version_id))) is not None
            }
            for version_id in cached:
                self._entries.move_to_end((tenant_id, version_id))
            return cached

    def put(self, tenant_id: int, age: Age, opened: Mapping[int, OpenedDocument]) -> None:
        """Cache documents, and drop those used longest ago if there are too many."""
        with self._lock:
            if not self._is_current(tenant_id, age):
                return
            for version_id, document in opened.items():
                # A document that could not be decrypted is empty, and is read again next time.
                if document.native and (tenant_id, version_id) not in self._entries:
                    self._entries[tenant_id, version_id] = document
                    self._size += _size(document)
            while self._size > self._limit:
                self._size -= _size(self._entries.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._entries)

    def _is_current(self, tenant_id: int, age: Age) -> bool:
        """Return True if no later age is known here. If this is a later one, drop what is cached of the tenant."""
        latest = self._ages.setdefault(tenant_id, age)
        if latest < age:
            self._ages[tenant_id] = age
            for key in [key for key in self._entries if key[0] == tenant_id]:
                self._size -= _size(self._entries.pop(key))
        return latest <= age


def _size(opened: OpenedDocument) -> int:
    return _ENTRY_BYTES + _DECODED_SHARE * len(opened.native)
