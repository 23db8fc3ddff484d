"""Adoption: memories of another owner become the caller's own. One adoption serves every form, and documents inside
others.

    record           its owner changes; the other owner's signature cannot vouch for that, so the operator signs it
    OAMS memory      its namespace changes, if that is under the owner hash of another owner
    grain, entry     nothing changes, for neither names an owner

Texts, kinds, users, times and names stay as they are. Of a view, the document that it carries is adopted; the view
follows from that.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import Conflict, InvalidInput
from memoranda.model.memory import NATIVE_KEY, Document, wrap_document
from memoranda.service.core import authorship
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.views import project_document, scope_of
from memoranda.service.exchange.report import Form
from memoranda.service.ump import remember
from memoranda.standards.oams import mapping as oams
from memoranda.standards.oams.memory import MAX_VALUE_BYTES, Memory, metadata_of, with_namespace
from memoranda.standards.oams.namespace import (
    Namespace,
    adapt_namespace,
    is_foreign_namespace,
    owner_hash,
    parse_namespace,
    read_namespace,
    space_of,
)
from memoranda.standards.ump import mapping as ump
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import Draft, check_complete
from memoranda.standards.ump.shapes import Record, Unchecked

# Bytes of a document that travels inside another: every byte of its value may be escaped, and metadata is added.
MAX_NATIVE_BYTES: Final = 8 * MAX_VALUE_BYTES


class NamespaceMapping(msgspec.Struct, kw_only=True):
    """Target namespaces of OAMS memories: one namespace for all, or the same scopes under another owner.

    Only `namespace` changes; `source_id`, `parent_id` and every other name stay as they are (section 5).
    """

    into: Namespace | None = None
    # The new owner; None if the owner stays.
    tenant: str | None = None
    _origins: dict[int, int] = msgspec.field(default_factory=dict)

    def apply(self, memory: dict[str, Any], *, is_foreign: bool = False) -> dict[str, Any]:
        """Return a memory in its target namespace. Raises Conflict if a memory from another namespace has its key there
        already.

        A namespace under no owner hash belongs to a user. It stays, unless the memory is from another system: there the
        user is the person who adopts.
        """
        namespace = read_namespace(memory["namespace"])
        target = self.map_namespace(namespace, is_foreign=is_foreign)
        # Two hashes for each memory: of its new name, and of the namespace it came from.
        origin = self._origins.setdefault(hash((target, memory["key"])), hash(namespace))
        if origin != hash(namespace):
            raise Conflict(
                f"its key came from another namespace already; {target} can have it only once"
            )
        if target == namespace:
            return memory
        return dict(with_namespace(cast("Memory", memory), target))

    def map_namespace(self, namespace: Namespace, *, is_foreign: bool) -> Namespace:
        """Return the target of a namespace."""
        if self.into is not None:
            return self.into
        if self.tenant is None or not (is_foreign or is_foreign_namespace(namespace, self.tenant)):
            return namespace
        return Namespace(owner_hash(self.tenant), namespace.scope)


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """One adoption: the new owner, and the mapping of namespaces."""

    context: Context
    access: Access
    namespaces: NamespaceMapping

    @property
    def tenant(self) -> str:
        """The new owner."""
        return self.access.default_tenant

    def adopt_record(self, draft: Unchecked) -> Unchecked:
        """Return a record, or a draft of one, with the new owner; one that is the owner's already is returned as it is.

        A complete record is signed again at once, so that no defaults are added to it, as they are to a draft.
        """
        scope = draft.get("scope", {})
        if not isinstance(scope, dict) or scope.get("owner") == self.tenant:
            return draft
        unsigned = {name: value for name, value in draft.items() if name != "integrity"}
        adopted: Unchecked = {**unsigned, "scope": {**scope, "owner": self.tenant}}
        try:
            complete = check_complete(adopted)
        except InvalidInput:
            return adopted
        limited = {**complete, "scope": self.access.narrow_scope(scope_of(complete))}
        screened = remember.screen_parts(self.context, cast("Draft", limited))
        attributed = authorship.attribute_draft(self.access, screened, is_from_file=True)
        return {**signature.seal(cast("Record", attributed), self.context.operator)}

    def adopt_memory(self, memory: dict[str, Any]) -> dict[str, Any]:
        """Return an OAMS memory that the caller adopts; its namespace was mapped before.

        If the memory is a view of another document, that document is adopted.

        A view with a key or times of its own remains an OAMS memory.
        """
        inner = oams.unwrap(cast("Memory", memory))
        if inner is None:
            return memory
        namespace = adapt_namespace(read_namespace(memory["namespace"]), self.tenant)
        space = space_of(namespace, self.tenant)
        projection = project_document(self.context, inner, self.tenant, space)
        if not oams.is_view(cast("Memory", memory), projection, inner):
            return memory
        return {
            **memory,
            "metadata": {
                **metadata_of(cast("Memory", memory)),
                NATIVE_KEY: wrap_document(self.adopt_document(inner)),
            },
        }

    def adopt_document(self, inner: Document) -> Document:
        """Return a document that travels inside another one, adopted. Raises MemorandaError."""
        if ump.owns(inner):
            record = self.adopt_record(parse(inner.native))
            return ump.document_of(check_complete(record))
        if oams.owns(inner):
            memory = parse(inner.native, max_bytes=MAX_NATIVE_BYTES)
            adopted = self.adopt_memory(self.namespaces.apply(memory))
            if adopted == memory:
                return inner
            return oams.with_portable_name(
                msgspec.structs.replace(inner, native=dump(adopted)), cast("Memory", adopted)
            )
        return inner


def explain_foreign_owner(access: Access, form: Form, value: object) -> str:
    """Return why a record or an OAMS memory from a file belongs to another owner; empty if it may be the caller's."""
    if not isinstance(value, dict):
        return ""
    hint = "adopt it to make it yours (--adopt)"
    if form == "oams":
        try:
            namespace = parse_namespace(value.get("namespace"))
        except InvalidInput:
            return ""
        is_theirs = is_foreign_namespace(namespace, access.default_tenant)
        return f"{namespace} is under the owner hash of another tenant; {hint}" if is_theirs else ""
    scope = value.get("scope")
    owner = scope.get("owner") if isinstance(scope, dict) else None
    return (
        f"it belongs to {owner}; {hint}"
        if isinstance(owner, str) and not access.reaches(owner)
        else ""
    )
