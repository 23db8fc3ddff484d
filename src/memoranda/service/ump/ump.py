"""UMP 0.1, for every caller."""

from __future__ import annotations

from typing import Any

from memoranda import __version__
from memoranda.service import verify as verifying
from memoranda.service.core import audit as audit_log
from memoranda.service.core import feed, lookup
from memoranda.service.core import limits as owner_rules
from memoranda.service.core.context import Context
from memoranda.service.core.verbs import Caller, PublicVerb, Verb, Verbs
from memoranda.service.ump import files, origins, overview, seen_as, undo
from memoranda.service.ump import recall as recalling
from memoranda.service.ump import redact as redacting
from memoranda.service.ump import remember as remembering
from memoranda.service.ump import revise as revising
from memoranda.standards.ump import capability


def capabilities(context: Context) -> dict[str, Any]:
    """Return what this server speaks (UMP §3.1)."""
    return capability.describe_server(
        server_name="memoranda", server_version=__version__, version=context.ump_version
    )


def manifest(context: Context, endpoint: str | None = None) -> dict[str, Any]:
    """Return `/.well-known/ump.json` (UMP §4.3)."""
    return capability.build_manifest(
        version=context.ump_version, conformance="L3", endpoint=endpoint
    )


class Ump(Verbs[Caller]):
    """The operations of UMP, its feed and audit log, and moving records in and out."""

    remember = Verb(remembering.remember, "write")
    with_defaults = Verb(remembering.with_defaults)
    recall = Verb(recalling.recall, "read")
    recall_bare = Verb(recalling.recall_bare, "read")
    for_prompt = Verb(recalling.for_prompt, "read")
    framed = Verb(recalling.framed, "read")
    get = Verb(lookup.get, "read")
    history = Verb(lookup.history, "read")
    history_page = Verb(lookup.history_page, "read")
    list_records = Verb(lookup.list_records, "read")
    short_ids = Verb(lookup.short_ids)
    seen_as = Verb(seen_as.seen_as, "read")
    origins = Verb(origins.origins, "read")
    revise = Verb(revising.revise, "write")
    change = Verb(revising.change, "write")
    undo_last = Verb(undo.undo_last, "read", "write", whole=True)
    rules = Verb(owner_rules.own_rules, "read", whole=True)
    set_rules = Verb(owner_rules.set_rules, "write", "erase", whole=True)
    stats = Verb(overview.stats, "read")
    projects = Verb(overview.projects, "read")
    elsewhere = Verb(overview.elsewhere, "read")
    forget = Verb(revising.forget, "write")
    feedback = Verb(revising.feedback, "derive")
    suspects = Verb(redacting.suspects, "read", whole=True)
    suspects_page = Verb(redacting.suspects_page, "read", whole=True)
    suspects_beside = Verb(redacting.suspects_beside, "read", whole=True)
    suspects_beside_page = Verb(redacting.suspects_beside_page, "read", whole=True)
    orders = Verb(redacting.orders, "read", whole=True)
    orders_page = Verb(redacting.orders_page, "read", whole=True)
    allow_orders = Verb(redacting.allow_orders, "write")
    redact = Verb(redacting.redact, "write")

    feed_position = Verb(feed.position, "read", whole=True)
    feed_end = Verb(feed.feed_end, "read")
    changes = Verb(feed.changes, "read")
    audit = Verb(audit_log.query, "read")
    audit_verify = Verb(audit_log.verify, "read")
    audit_prune = Verb(audit_log.prune, "erase")

    export = Verb(files.export, "export")
    export_page = Verb(files.export_page, "export")
    import_items = Verb(files.import_items, "write")
    import_part = Verb(files.import_part, "write")
    imports = Verb(files.imports, "read", whole=True)
    undo_import = Verb(files.undo_import, "read", "write", whole=True)
    verify = Verb(verifying.verify_all, "read")

    capabilities = PublicVerb(capabilities)
    manifest = PublicVerb(manifest)
