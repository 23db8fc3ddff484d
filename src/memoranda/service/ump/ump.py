"""The table of all verbs of UMP 0.1, and those that only pass on to the exchange.

A row of this class gives the name of a verb, the function that does it, and the rights that a caller needs. `Verb`
checks them before the function runs, so a function in the modules beside checks only what depends on the memory itself.
Verbs with `owner_wide` work on all memories of an owner and are refused to keys that may see only a part.

To add a verb: write the function with `context` and `access` first, add a row with the smallest rights that suffice,
and offer it in the bindings, whose parity tests then ask for it in every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memoranda import __version__
from memoranda.encoding.lazy import LazyModule
from memoranda.service.core import feed, lookup
from memoranda.service.core import limits as owner_rules
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context
from memoranda.service.core.verbs import Caller, PublicVerb, Verb, Verbs

if TYPE_CHECKING:
    from memoranda.service import verify as verify_verbs
    from memoranda.service.core import audit as audit_log
    from memoranda.service.exchange import exporting, import_records, importing
    from memoranda.service.exchange.importing import ImportPart, Item
    from memoranda.service.exchange.report import Report
    from memoranda.service.ump import browse
    from memoranda.service.ump import recall as recall_verbs
    from memoranda.service.ump import remember as remember_verbs
    from memoranda.service.ump import review as review_verbs
    from memoranda.service.ump import revise as revise_verbs
    from memoranda.service.ump import similar as similar_verbs
    from memoranda.service.ump import undo as undo_verbs
    from memoranda.standards.oams.namespace import Namespace
    from memoranda.standards.ump import capability
    from memoranda.standards.ump.record import Record
else:
    verify_verbs = LazyModule("memoranda.service.verify")
    audit_log = LazyModule("memoranda.service.core.audit")
    exporting = LazyModule("memoranda.service.exchange.exporting")
    import_records = LazyModule("memoranda.service.exchange.import_records")
    importing = LazyModule("memoranda.service.exchange.importing")
    browse = LazyModule("memoranda.service.ump.browse")
    recall_verbs = LazyModule("memoranda.service.ump.recall")
    remember_verbs = LazyModule("memoranda.service.ump.remember")
    review_verbs = LazyModule("memoranda.service.ump.review")
    revise_verbs = LazyModule("memoranda.service.ump.revise")
    similar_verbs = LazyModule("memoranda.service.ump.similar")
    undo_verbs = LazyModule("memoranda.service.ump.undo")
    capability = LazyModule("memoranda.standards.ump.capability")


def capabilities(context: Context) -> dict[str, Any]:
    """Return what this server speaks (UMP §3.1)."""
    return capability.describe_server(
        server_name="memoranda", server_version=__version__, version=context.ump_version
    )


def manifest(context: Context, endpoint: str | None = None) -> dict[str, Any]:
    """Return `/.well-known/ump.json` (UMP §4.3)."""
    return capability.build_manifest(
        version=context.ump_version,
        conformance="L3",
        endpoint=endpoint,
        exports=() if endpoint is None else capability.exports_of(endpoint),
    )


# --- import and export -----------------------------------------------------------------------------------------


def export(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    names: Sequence[str] | None = None,
    carry: bool = True,
    report: Report | None = None,
) -> Iterator[Record]:
    """Yield the records that may be exported, redacted, in the order of writing; or only those of the given ids.

    `history` includes superseded records, and `carry` the documents of other standards inside of records. `report`
    counts the records that are left out.
    """
    if names is not None:
        return exporting.export_named(
            context, access, names, owner=owner, project=project, history=history, report=report
        )
    return exporting.export_records(
        context, access, owner=owner, project=project, history=history, carry=carry, report=report
    )


def export_page(
    context: Context,
    access: Access,
    *,
    owner: str | None = None,
    project: str | None = None,
    history: bool = True,
    carry: bool = True,
    after: str | None = None,
) -> tuple[list[Record], str | None, Report]:
    """Return a page of an export, the position of the next page, and a report of what is left out."""
    return exporting.export_page(
        context, access, owner=owner, project=project, history=history, carry=carry, after=after
    )


def import_items(
    context: Context,
    access: Access,
    items: Iterable[Item],
    *,
    owner: str | None = None,
    adopt: bool = False,
    into: Namespace | None = None,
    restore: bool = False,
    is_dry: bool = False,
    progress: Callable[[int], None] | None = None,
    report: Report | None = None,
    label: str | None = None,
) -> Report:
    """Import memories in any form, and report those that are refused. A `label` makes the import undoable."""
    options = importing.ImportOptions(
        adopt=adopt, into=into, restore=restore, is_dry=is_dry, label=label
    )
    return importing.import_items(
        context, access, items, options, owner=owner, progress=progress, report=report
    )


def import_part(
    context: Context,
    access: Access,
    items: Iterable[Item],
    *,
    label: str | None,
    name: str | None = None,
    adopt: bool = False,
    into: Namespace | None = None,
    restore: bool = False,
    is_dry: bool = False,
) -> ImportPart:
    """Import one part of a larger import; `name` is the name under which the parts before it are recorded."""
    options = importing.ImportOptions(
        adopt=adopt, into=into, restore=restore, is_dry=is_dry, label=label
    )
    return importing.import_part(context, access, items, options, name=name)


# --- the table -----------------------------------------------------------------------------------------------


class Ump(Verbs[Caller]):
    """The verbs of UMP, of its change feed and audit log, and of import and export."""

    remember = Verb(remember_verbs.remember, "write")
    with_defaults = Verb(remember_verbs.with_defaults)
    recall = Verb(recall_verbs.recall, "read")
    recall_bare = Verb(recall_verbs.recall_bare, "read")
    for_prompt = Verb(recall_verbs.for_prompt, "read")
    framed = Verb(recall_verbs.framed, "read")
    get = Verb(lookup.get_record, "read")
    history = Verb(lookup.read_history, "read")
    history_page = Verb(lookup.read_history_page, "read")
    list_records = Verb(lookup.list_records, "read")
    short_ids = Verb(lookup.shorten_ids)
    seen_as = Verb(browse.seen_as, "read")
    origins = Verb(browse.origins, "read")
    similar = Verb(similar_verbs.similar, "read")
    revise = Verb(revise_verbs.revise, "write")
    change = Verb(revise_verbs.change, "write")
    undo_last = Verb(undo_verbs.undo_last, "read", "write", owner_wide=True)
    redo_last = Verb(undo_verbs.redo_last, "read", "write", owner_wide=True)
    rules = Verb(owner_rules.read_rules, "read", owner_wide=True)
    set_rules = Verb(owner_rules.set_rules, "write", "erase", owner_wide=True, keys_only=True)
    stats = Verb(browse.stats, "read")
    projects = Verb(browse.projects, "read")
    elsewhere = Verb(browse.elsewhere, "read")
    forget = Verb(revise_verbs.forget, "write")
    forget_many = Verb(revise_verbs.forget_many, "write")
    feedback = Verb(revise_verbs.feedback, "derive")
    suspects = Verb(review_verbs.suspects, "read", owner_wide=True)
    suspects_page = Verb(review_verbs.suspects_page, "read", owner_wide=True)
    suspects_beside = Verb(review_verbs.suspects_beside, "read", owner_wide=True)
    suspects_beside_page = Verb(review_verbs.suspects_beside_page, "read", owner_wide=True)
    orders = Verb(review_verbs.orders, "read", owner_wide=True)
    orders_page = Verb(review_verbs.orders_page, "read", owner_wide=True)
    allow_orders = Verb(review_verbs.allow_orders, "write")
    redact = Verb(review_verbs.redact, "write")

    feed_position = Verb(feed.read_position, "read", owner_wide=True)
    feed_end = Verb(feed.begin_subscription, "read")
    changes = Verb(feed.read_changes, "read")
    audit = Verb(audit_log.query, "read")
    audit_verify = Verb(audit_log.verify_chain_of_caller, "read")
    audit_prune = Verb(audit_log.prune, "erase", keys_only=True)

    export = Verb(export, "export")
    export_page = Verb(export_page, "export")
    import_items = Verb(import_items, "write")
    import_part = Verb(import_part, "write")
    imports = Verb(import_records.list_imports, "read", owner_wide=True)
    undo_import = Verb(import_records.undo_import, "read", "write", owner_wide=True)
    verify = Verb(verify_verbs.verify_all, "read")

    capabilities = PublicVerb(capabilities)
    manifest = PublicVerb(manifest)
