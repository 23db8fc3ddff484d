"""The port of UMP: documents are signed records, the form into which views translate every other document.

Records are signed JSON. A record inside another document is trusted only if it is complete, its signature holds, and
its scope names this tenant and space. Verification results are cached by the bytes themselves: a changed byte is a
different key, so a stale result is impossible.
"""

from __future__ import annotations

from typing import ClassVar, Final, cast

from memoranda.encoding.json_text import parse
from memoranda.encoding.short_cache import short_cache
from memoranda.errors import InvalidInput, StoreCorrupt
from memoranda.model.memory import UMP, Document, Projection
from memoranda.standards.port import Fields, Port, combined_rules, load, policy_inside
from memoranda.standards.ump import mapping, rules, signature
from memoranda.standards.ump.record import check_complete
from memoranda.standards.ump.shapes import Record


class UmpPort(Port):
    """Records."""

    name: ClassVar[str] = UMP
    rules_travel: ClassVar[bool] = True
    states_consent: ClassVar[bool] = True
    names_superseded: ClassVar[bool] = True

    def names_successor(self, document: Document, standard: str, name: str) -> bool:
        return standard == UMP and name in load_record(document.native).get("superseded_by", ())

    def project(
        self, document: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection:
        return mapping.project(load_record(document.native))

    def check(self, document: Document) -> None:
        record = cast("Record", parse(document.native))
        if mapping.document_of(record) != document:
            raise InvalidInput("not the record that it is named after")

    def verifies(self, document: Document) -> bool:
        return _verifies(document.native)

    def project_inside(
        self, inner: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection | None:
        if not is_valid_record(inner.native):
            return None
        record = load_record(inner.native)
        projection = mapping.project(record)
        is_here = (projection.scope.tenant, projection.scope.space) == (tenant, space)
        return projection if is_here and record["id"] == inner.name else None

    def is_valid_inside(self, inner: Document, *, ump_version: str) -> bool:
        return is_valid_record(inner.native)

    def record(self, document: Document) -> Record | None:
        return load_record(document.native)

    def carried(self, document: Document) -> Document | None:
        return mapping.unwrap(load_record(document.native))

    def rule_fields(self, document: Document, tenant: str) -> Fields:
        record = load_record(document.native)
        return {**rules_of_record(record), **policy_inside(mapping.unwrap(record))}

    def redact_paths(self, document: Document) -> tuple[str, ...] | None:
        return tuple(load_record(document.native).get("consent", {}).get("redact", ()))

    def hides_text(self, document: Document) -> bool:
        record = load_record(document.native)
        return bool(rules.redact(record)[0]["body"].get("text") != record["body"]["text"])


def load_record(native: bytes) -> Record:
    """Return a stored record. Raises StoreCorrupt."""
    return cast("Record", load(native))


def is_valid_record(native: bytes) -> bool:
    """Return True if bytes that someone put into another document are a complete record whose signature holds."""
    try:
        check_complete(load(native))
    except (StoreCorrupt, InvalidInput):
        return False
    return _verifies(native)


# The key is the bytes themselves, so a document that changed on disk is verified again.
@short_cache(4_096, length=4_096)
def _verifies(native: bytes) -> bool:
    try:
        return signature.verify(load(native))
    except StoreCorrupt:
        return False


def rules_of_record(record: Record) -> Fields:
    """Return a record's user, the tags it is about, and what its structured body names, as rule fields.

    UMP has no tags; a relation `about` with the target `tag:…` stands for one. Names of rules are read from
    `body.structured`.
    """
    about = [link["target"] for link in record.get("relations", ()) if link["type"] == "about"]
    tags = [
        target.removeprefix(mapping.TAG_PREFIX)
        for target in about
        if target.startswith(mapping.TAG_PREFIX)
    ]
    structured = record["body"].get("structured") or {}
    return combined_rules(structured, record["scope"].get("user"), tags, mapping.unwrap(record))


PORT: Final = UmpPort()
