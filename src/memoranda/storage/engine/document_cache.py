"""Documents that were read, opened and decoded already: they never change, so they are kept for a while.

Only what cannot change is kept: the document, that its seal held, and what the service made of it. Whether a version is
there, who may see it and what became of it is asked of every snapshot anew. What was kept of a tenant goes as soon as a
snapshot sees that something of it was erased, or a key of the ring destroyed, in whichever process: both have a number.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from memoranda.model.memory import OpenedDocument

# What the documents of a busy process may take, decoded.
DOCUMENT_BYTES: Final = 64 << 20
# What one takes beside its bytes, and how much more it takes decoded.
_ENTRY_BYTES: Final = 1_024
_DECODED_SHARE: Final = 8


class Age(NamedTuple):
    """How often something was erased, and how often the keys changed; what is from before another age is dropped."""

    erasures: int
    keys: int


class Documents:
    """Of all tenants of a process, those used last."""

    def __init__(self, limit: int = DOCUMENT_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._lock = threading.Lock()
        self._ages: dict[int, Age] = {}
        # By tenant and version.
        self._held: OrderedDict[tuple[int, int], OpenedDocument] = OrderedDict()

    def get(
        self, tenant_id: int, age: Age, version_ids: Sequence[int]
    ) -> dict[int, OpenedDocument]:
        """Those that are kept; none to a snapshot from before the last erasure."""
        with self._lock:
            if not self._is_of(tenant_id, age):
                return {}
            found = {
                each: held
                for each in version_ids
                if (held := self._held.get((tenant_id, each))) is not None
            }
            for version_id in found:
                self._held.move_to_end((tenant_id, version_id))
            return found

    def put(self, tenant_id: int, age: Age, opened: Mapping[int, OpenedDocument]) -> None:
        with self._lock:
            if not self._is_of(tenant_id, age):
                return
            for version_id, each in opened.items():
                # What could not be opened is empty, and read anew.
                if each.native and (tenant_id, version_id) not in self._held:
                    self._held[tenant_id, version_id] = each
                    self._size += _size(each)
            while self._size > self._limit:
                self._size -= _size(self._held.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._held)

    def _is_of(self, tenant_id: int, age: Age) -> bool:
        """Whether that is the present, as far as it is known here; if it is news, what is older goes."""
        known = self._ages.setdefault(tenant_id, age)
        if known < age:
            self._ages[tenant_id] = age
            for key in [key for key in self._held if key[0] == tenant_id]:
                self._size -= _size(self._held.pop(key))
        return known <= age


def _size(opened: OpenedDocument) -> int:
    return _ENTRY_BYTES + _DECODED_SHARE * len(opened.native)
