"""What an owner may be called: a DID, or any other name in one piece."""

from __future__ import annotations

import re
from typing import Final

from memoranda.errors import InvalidInput

# DID Core 3.1, without paths and fragments.
_DID: Final = re.compile(r"did:[a-z0-9]+:[A-Za-z0-9._:%-]+", re.ASCII)
# What stands in examples for what is to be filled in: copied as it is, it would be a new owner, with an empty memory.
_NO_NAME: Final = re.compile(r"…|\.\.\.|[<>]|\s")


def check_owner(name: str, where: str) -> None:
    """Refuse a name that was copied from an example, or that is no DID although it begins like one."""
    if _NO_NAME.search(name) or not name.isprintable():
        raise InvalidInput(
            f"{where}: {name!r} is a placeholder, or not in one piece; give the whole name"
        )
    if name.startswith("did:") and _DID.fullmatch(name) is None:
        raise InvalidInput(f"{where}: {name!r} is not a DID such as did:key:z6Mk…")


def check_did(name: str, where: str) -> None:
    """Refuse what is no DID."""
    check_owner(name, where)
    if not name.startswith("did:"):
        raise InvalidInput(f"{where}: {name!r} is not a DID such as did:key:z6Mk…")
