"""The owner named by `--owner`: a mistyped name must not become a new, empty memory."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING

from memoranda.cli.show import is_confirmed
from memoranda.errors import NotFound

if TYPE_CHECKING:
    from memoranda.service.service import Service


def check_owner_exists(service: Service, owner: str) -> None:
    """Raise NotFound if a store has owners, this one is none of them, and no person confirms to create it."""
    system = service.context.engine.system
    owners = system.list_tenants()
    if (
        not owners
        or owner in (service.operator_did, *owners)
        or system.has_key(owner, service.context.clock())
    ):
        return
    similar = get_close_matches(owner, owners, n=1)
    hint = f", but there is {similar[0]}" if similar else ""
    message = f"this store has no owner {owner}{hint}"
    if sys.stdin.isatty() and is_confirmed(f"{message}. Create {owner}?"):
        return
    raise NotFound(f"{message}; to create it, add --new-owner")
