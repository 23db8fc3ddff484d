"""The port of openwop agent memory: documents are entries. An entry does not say itself in which space it lies.

Entries have no signature and no address; their id is given by the store. They do not travel in files of their own
(`has_file_form`), so exports carry them inside another standard's documents. Two tags have a meaning for consolidation:
`compacted-from:…` marks the result of a run, the archive tag the texts that a distillation replaced. Both are checked
on the bytes first, because a run looks at thousands of entries.
"""

from __future__ import annotations

from typing import ClassVar, Final, cast

from memoranda.encoding.json_text import parse
from memoranda.errors import InvalidInput
from memoranda.model.memory import OPENWOP, Document, Projection
from memoranda.standards.openwop import mapping
from memoranda.standards.openwop.entry import ARCHIVE_TAG, Entry, is_archive
from memoranda.standards.port import Port, load

_ARCHIVE_MARK: Final = f'"{ARCHIVE_TAG}'.encode()


class OpenwopPort(Port):
    """Entries."""

    name: ClassVar[str] = OPENWOP
    has_file_form: ClassVar[bool] = False
    names_line: ClassVar[bool] = True
    replaces_others: ClassVar[bool] = True

    def project(
        self, document: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection:
        return mapping.project(load_entry(document.native), tenant, space)

    def check(self, document: Document) -> None:
        entry = mapping.decode(document.native)
        is_named = (entry["id"], mapping.MEDIA_TYPE) == (document.name, document.media_type)
        if not is_named or mapping.encode(entry) != document.native:
            raise InvalidInput("not the entry that it is named after")

    def source_names(self, native: bytes) -> list[str]:
        if mapping.DERIVED_PREFIX.encode() not in native:
            return []
        tags = cast("Entry", parse(native))["tags"]
        return [
            tag.removeprefix(mapping.DERIVED_PREFIX)
            for tag in tags
            if tag.startswith(mapping.DERIVED_PREFIX)
        ]

    def is_derived(self, document: Document) -> bool:
        return any(
            tag.startswith(mapping.COMPACTED_PREFIX) for tag in load(document.native)["tags"]
        )

    def is_quotation(self, document: Document) -> bool:
        tags = load(document.native)["tags"]
        return any(tag.startswith((ARCHIVE_TAG, mapping.COMPACTED_PREFIX)) for tag in tags)

    def may_be_archive(self, document: Document) -> bool:
        return _ARCHIVE_MARK in document.native

    def is_archive(self, document: Document) -> bool:
        return self.may_be_archive(document) and is_archive(load(document.native)["tags"])


def load_entry(native: bytes) -> Entry:
    """Return a stored entry. Raises StoreCorrupt."""
    return cast("Entry", load(native))


PORT: Final = OpenwopPort()
