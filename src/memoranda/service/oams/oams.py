"""OAMS 0.1, for every caller."""

from __future__ import annotations

from memoranda.service.consolidation import dreams, runs
from memoranda.service.core.verbs import Caller, Verb, Verbs
from memoranda.service.exchange import exporting
from memoranda.service.oams import memories
from memoranda.service.oams import recall as retrieval


class Oams(Verbs[Caller]):
    """The five operations of OAMS, consolidation, and the export of bundles."""

    store = Verb(memories.store, "write")
    batch_store = Verb(memories.batch_store, "write")
    recall = Verb(retrieval.recall, "read")
    list_memories = Verb(retrieval.list_memories, "read")
    get = Verb(memories.get, "read")
    forget = Verb(memories.forget, "write")
    namespace = Verb(memories.resolve_namespace)
    namespaces = Verb(exporting.list_namespaces, "read")
    export = Verb(exporting.export_memories, "export")
    export_page = Verb(exporting.export_memories_page, "export")

    consolidate = Verb(dreams.consolidate, "read")
    refuse = Verb(dreams.refuse, "read", "write")
    dream = Verb(dreams.run_request, "read")
    dream_runs = Verb(runs.runs, "read")
    undo = Verb(runs.undo, "write", "derive")
