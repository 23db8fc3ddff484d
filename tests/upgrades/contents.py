"""What a fixture of a store contains: something of everything that a store keeps, by every standard.

`python tests/upgrades/contents.py STORE FACTS` fills a new store and writes what must be found in it again. It uses
only what every build since 16 November 2026 has, so that it also runs with the source of an earlier build.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from memoranda import Memoranda

LARGE = "0123456789" * 2_000
GRAIN: dict[str, Any] = {
    "type": "belief",
    "subject": "greenhouse",
    "relation": "has_part",
    "object": "valve",
    "confidence": 0.9,
    "source_type": "user_explicit",
}


def fill(m: Memoranda) -> dict[str, Any]:
    """Fill a new store, and return the facts about it."""
    service: Any = m.service
    access = m.access
    tea = m.remember("Ada drinks coffee.")
    revised = m.revise(tea.id, "Ada drinks green tea.")
    m.remember("The gate of the garden is green.", project="garden")
    gone = m.remember("This note is forgotten.")
    m.forget(gone.id)
    code = m.remember("Bob opens the door with 4711.", scope={"user": "did:example:bob"})
    m.remember("Carol opens the door with 1234.", scope={"user": "did:example:carol"})
    m.grains.erase_user("did:example:carol", reason="requested")
    m.remember("Remind me every Monday at 9:00 to water the greenhouse.", project="garden")
    m.oams.batch_store([{"key": "ship", "value": "We ship on 8 July."}, {"key": "lang", "value": "We write Python."}])
    grain = m.grains.put(m.grains.with_defaults(GRAIN))
    service.openwop.write_file(access, "notes/small.md", "abcd")
    service.openwop.write_file(access, "notes/large.md", LARGE)
    key = service.gate.add_key("reader", tenant=m.owner, scopes=("read",))
    return {
        "owner": m.owner,
        "operator": service.operator_did,
        "ids": {"tea": tea.id, "revised": revised.id, "gone": gone.id, "code": code.id},
        "grain": grain.address,
        "key": key,
    }


if __name__ == "__main__":
    with Memoranda.open(sys.argv[1]) as memoranda:
        facts = fill(memoranda)
    Path(sys.argv[2]).write_text(json.dumps(facts, indent=1))
