"""The port of a standard: all that the rest of Memoranda asks of a document without knowing its standard.

A standard brings one subclass of `Port`, in `standards/<name>/port.py`, and its line in `_MODULES`. Services, files and
bindings call `port_of(document.standard)` and never compare the name of a standard. Each default below is right for a
standard whose documents carry no others and bind nothing: a small standard defines `project` and `check` and no more.

A port is pure: bytes and values in, values out. It knows no store and no caller. Where an answer depends on the
document inside another one, it asks the port of that document's standard, so that no standard imports another.

Two standards have a form into which every document is translated: UMP (a record) and OMS (a grain). `record` and
`grain` return a document that has the form already; `service/core/views.py` and `indexing.py` translate the others.

How to read the groups of methods. *Reading* turns bytes into a `Projection`, the form that the store understands.
*Documents inside* handles views: a document of one standard that was shown in another carries its original, and
importing it must give back the original. *Names* are ids and references. *Rules* are restrictions that protect a memory
whichever interface is used. *Consolidation* says what a run may touch. When you add a method: give it a default that is
right for a document that binds nothing, never let it raise for stored documents except StoreCorrupt, and use it through
`port_of` only. A method that gets an `inner` document must treat it as hostile, because anybody can put bytes into a
document: return None or nothing for whatever cannot be verified.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import orjson

from memoranda.errors import MemorandaError, StoreCorrupt, Unsupported
from memoranda.model.memory import OAMS, OMS, OPENWOP, UMP, Bounds, Document, Projection

if TYPE_CHECKING:
    from memoranda.standards.oms.grains import Grain
    from memoranda.standards.ump.shapes import Record

# A document as its standard's JSON or field map.
Fields = Mapping[str, Any]


class Original(NamedTuple):
    """The document that another one is the complete view of.

    `bounds` exist if the view is narrower than the document, for example because an earlier version was private.
    """

    document: Document
    projection: Projection
    # Restrictions of the view beyond those of the document; None if there are none.
    bounds: Bounds | None


class Embedding(NamedTuple):
    """The vector that came with a document, as little-endian float32, and the model that made it."""

    model: str
    packed: bytes


class Port(ABC):
    """A standard's documents, for callers that do not know the standard.

    Class attributes are facts about all documents of a standard; methods answer for one document. Subclasses have no
    state, so one instance (`PORT` in their module) serves all threads.
    """

    # The name that documents carry in `Document.standard`.
    name: ClassVar[str]
    # True if documents are queried by fields of their own (grains): restrictions of earlier versions stay beside them.
    has_own_fields: ClassVar[bool] = False
    # True if the name of a document is this store's own, and differs in the next store.
    has_local_names: ClassVar[bool] = False
    # True if the name of its first version names a memory through all its versions.
    names_line: ClassVar[bool] = False
    # True if a document may state a consent, which others are bound by.
    states_consent: ClassVar[bool] = False
    # True if a document may stand for others that a consolidation run replaced by it.
    replaces_others: ClassVar[bool] = False
    # True if documents travel in files of their own standard; False if only inside those of others.
    has_file_form: ClassVar[bool] = True
    # True if a document in a file names the ones that it supersedes.
    names_superseded: ClassVar[bool] = False
    # True if the fields below are trusted when the document stands inside another one.
    rules_travel: ClassVar[bool] = False

    # --- reading -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def project(
        self, document: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection:
        """Return the standard-free reading of a document that lies in a space of a tenant.

        `tenant` and `space` say where the document lies; a standard whose documents state their owner themselves (UMP)
        ignores both. `ump_version` is the version of the records that the store writes, needed where a view is computed
        to compare with it. Raises StoreCorrupt for bytes that are no document of the standard.
        """

    @abstractmethod
    def check(self, document: Document) -> None:
        """Raise MemorandaError unless the bytes are a complete document, in canonical form, under its own name.

        Called for documents from files and other stores, before they are written. A signature is not verified here; see
        `verifies`.
        """

    def verifies(self, document: Document) -> bool:
        """Return True if the signature or content address of a document holds; True if the standard has neither."""
        return True

    def project_inside(
        self, inner: Document, tenant: str, space: str, *, ump_version: str
    ) -> Projection | None:
        """Return the reading of a document that someone put into another one; None unless it is trustworthy there.

        Trustworthy means: complete, unchanged, and written by somebody who may state such a thing here. Nothing else of
        an inner document may have an effect on access or search.
        """
        return None

    def record(self, document: Document) -> Record | None:
        """Return the document as a UMP record if it is one."""
        return None

    def grain(self, document: Document, *, is_sealed: bool = False) -> Grain | None:
        """Return the document as an OMS grain if it is one. `is_sealed`: its bytes were verified already."""
        return None

    def delivery(self, document: Document, did_documents: Fields) -> tuple[Grain, bytes] | None:
        """Return the grain and the bytes in which it travels, if a foreign document is a valid grain."""
        return None

    # --- documents inside ------------------------------------------------------------------------------------------

    def carried(self, document: Document) -> Document | None:
        """Return the document that this one carries under the reserved key; nothing in it was checked."""
        return None

    def original(self, document: Document, tenant: str, *, ump_version: str) -> Original | None:
        """Return the document inside this one if this one is only its view; None if it has content of its own.

        The caller then stores, ranks and shows the original in place of the view. If the view says anything that the
        original does not, it is a document of its own and the answer is None; otherwise information would be lost.
        """
        return None

    def is_valid_inside(self, inner: Document, *, ump_version: str) -> bool:
        """Return True if a document that someone put into another one is complete, and its signature holds."""
        return self.verifies(inner)

    def moved(self, document: Document, tenant: str) -> Document:
        """Return the document as it would be in the store of another owner, if it names its owner."""
        return document

    # --- names -------------------------------------------------------------------------------------------------------

    def exported(self, document: Document) -> Document:
        """Return the document under the name that it has in every store.

        Standards with local names (`has_local_names`) give a document a name that any store can compute from its
        content.
        """
        return document

    def reference(self, document: Document) -> tuple[str, str] | None:
        """Return namespace and key if the document states both itself."""
        return None

    def source_names(self, native: bytes) -> list[str]:
        """Return the names of the memories that a document says it was made from. Raises InvalidInput."""
        return []

    def names_successor(self, document: Document, standard: str, name: str) -> bool:
        """Return True if a document says that it was superseded by the document of this standard and name."""
        return False

    def title(self, document: Document) -> str:
        """Return the title that a document states beside its text; empty without one."""
        return ""

    def written_tags(self, document: Document) -> tuple[str, ...] | None:
        """Return the tags as they were written, if the projection has them in another spelling."""
        return None

    # --- rules -------------------------------------------------------------------------------------------------------

    def rule_fields(self, document: Document, tenant: str) -> Fields:
        """Return the fields that compliance rules read, under the names that grains give them.

        Names follow OMS, which defines the most rules: `user_id`, `structural_tags`, `processing_basis` and others. The
        rules themselves are in `service/core/protection.py`.
        """
        return {}

    def policy_fields(self, document: Document) -> Fields | None:
        """Return the fields that an invalidation policy reads; None if documents of the standard have no policy."""
        return None

    def policy_fields_inside(self, inner: Document) -> Fields:
        """Return the same of a document that someone put into another one; nothing if it is damaged."""
        return {}

    def redact_paths(self, document: Document) -> tuple[str, ...] | None:
        """Return the paths that others are not shown; None if the standard cannot name any.

        An empty tuple means that nothing is hidden; None means that the standard has no such paths and all restrictions
        come from elsewhere.
        """
        return None

    def hides_text(self, document: Document) -> bool:
        """Return True if others are shown only a part of the text."""
        return False

    # --- consolidation -----------------------------------------------------------------------------------------------

    def is_derived(self, document: Document) -> bool:
        """Return True if a consolidation run wrote the document and nobody changed it since."""
        return False

    def is_quotation(self, document: Document) -> bool:
        """Return True if the document repeats what other memories say, at another time than theirs."""
        return False

    def may_be_archive(self, document: Document) -> bool:
        """Return False if the bytes alone show that a document is no archive; it may be damaged."""
        return False

    def is_archive(self, document: Document) -> bool:
        """Return True for an archive of a distillation, which is never rewritten.

        It may parse the document, so ask `may_be_archive` first where many documents are checked.
        """
        return False

    def embedding(self, document: Document) -> Embedding | None:
        """Return the vector that a document brings."""
        return None


_MODULES: Final = {
    UMP: "memoranda.standards.ump.port",
    OMS: "memoranda.standards.oms.port",
    OAMS: "memoranda.standards.oams.port",
    OPENWOP: "memoranda.standards.openwop.port",
}
# Ports by the name of their standard; each is imported with the first of its documents.
_PORTS: Final[dict[str, Port]] = {}


def port_of(standard: str) -> Port:
    """Return the port of a standard. Raises Unsupported."""
    port = _PORTS.get(standard)
    if port is None:
        if standard not in _MODULES:
            raise Unsupported(f"this Memoranda cannot read documents of {standard!r}")
        port = _PORTS[standard] = import_module(_MODULES[standard]).PORT
    return port


def is_known_standard(standard: str) -> bool:
    """Return True if `port_of` has a port of this standard."""
    return standard in _PORTS or standard in _MODULES


def register_port(port: Port) -> None:
    """Add the port of a further standard.

    Tests use it for a standard of their own. A registered name wins over the modules of `_MODULES`.
    """
    _PORTS[port.name] = port


def rules_inside(document: Document | None) -> Fields:
    """Return the rule fields of a document that another one carries; none if it cannot be read or is not trusted."""
    try:
        port = None if document is None else port_of(document.standard)
        return (
            {}
            if document is None or port is None or not port.rules_travel
            else port.rule_fields(document, "")
        )
    except (MemorandaError, LookupError, TypeError, AttributeError):
        # Anybody may have put it there.
        return {}


def combined_rules(
    own_fields: Fields, user: str | None, tags: list[str], inner: Document | None
) -> Fields:
    """Return the rule fields of a document together with those of the document inside it.

    A view must be protected as strictly as the document that it shows, so the rules of both apply; where both state a
    value, the document's own (outer) value wins.
    """
    inside = rules_inside(inner)
    return {
        "user_id": inside.get("user_id") or user,
        "structural_tags": [*tags, *inside.get("structural_tags", ())],
        **{name: own_fields.get(name) or inside.get(name) for name in RULE_NAMES},
    }


def policy_inside(inner: Document | None) -> Fields:
    """Return type and invalidation policy of a grain inside a document of another standard."""
    inside = rules_inside(inner)
    return {name: inside[name] for name in ("type", "invalidation_policy") if name in inside}


# Fields that a document of another standard can state, under the names that grains give it.
RULE_NAMES: Final = (
    "processing_basis",
    "con:ccpa_opted_out",
    "hc:deidentification",
    "legal:privilege",
)


def load(native: bytes) -> dict[str, Any]:
    """Return a stored JSON document, which was checked when it came in. Raises StoreCorrupt."""
    try:
        document = orjson.loads(native)
    except orjson.JSONDecodeError as error:
        raise StoreCorrupt(
            "a stored document can no longer be read; run 'memoranda verify'"
        ) from error
    if not isinstance(document, dict):
        raise StoreCorrupt("a stored document is no longer an object; run 'memoranda verify'")
    return document
