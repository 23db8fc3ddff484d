"""The store protocol of OMS §28.4, for every caller."""

from __future__ import annotations

from memoranda.service.core.compliance import find_consent
from memoranda.service.core.context import Context
from memoranda.service.core.verbs import Caller, PublicVerb, Verb, Verbs
from memoranda.service.exchange import exporting, unwrap
from memoranda.service.oms import grains, query


def rotate_master_key(context: Context) -> int:
    """Wrap every user's key under a new master key, and return how many there were."""
    return context.engine.rotate_master_key()


class Grains(Verbs[Caller]):
    """Grains: add, find, replace under their policy, hold, erase; and move collections in and out."""

    put = Verb(unwrap.put_grain, "write")
    get = Verb(grains.get, "read")
    release = Verb(grains.release, "export", "read")
    exists = Verb(grains.exists, "read")
    listing = Verb(query.list_grains, "read")
    search = Verb(query.search, "read")
    find = Verb(query.find, "read")
    with_defaults = Verb(grains.with_defaults)
    supersede = Verb(grains.supersede, "write")
    set_verification = Verb(grains.set_verification, "write")
    set_hold = Verb(grains.set_hold, "write")
    erase = Verb(grains.erase, "write")
    erase_user = Verb(grains.erase_user, "write")
    consent = Verb(find_consent, "read")
    export = Verb(exporting.export_grains, "export")
    export_page = Verb(exporting.export_grains_page, "export")

    rotate_master_key = PublicVerb(rotate_master_key)
