"""Memoranda: the memory of AI agents, kept by the people it belongs to.

Memoranda, AsyncMemoranda     the front door
Memory, Hit, Version, Stats   what the verbs give; `Remembered`, `Revised`
Ump, Oams, Grains, Cal, Openwop   the verbs of each standard, with its own requests: `m.ump`, `m.grains` …
convert                       files in another form, without a store
MemorandaError and below      what they raise
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "1.0.0"

if TYPE_CHECKING:
    from memoranda.aio import AsyncMemoranda
    from memoranda.app import Memoranda
    from memoranda.bindings.files.convert import convert
    from memoranda.errors import (
        Conflict,
        ConsentViolation,
        ForbiddenScope,
        InvalidInput,
        MemorandaError,
        NotFound,
        RateLimited,
        SignatureInvalid,
        StoreCorrupt,
        StoreUnavailable,
        TooLarge,
        Unauthorized,
        Unsupported,
    )
    from memoranda.library.results import Hit, Memory, Version
    from memoranda.service.cal.cal import Cal
    from memoranda.service.oams.oams import Oams
    from memoranda.service.oms.oms import Grains
    from memoranda.service.openwop.openwop import Openwop
    from memoranda.service.ump.browse import Stats
    from memoranda.service.ump.remember import Remembered
    from memoranda.service.ump.revise import Revised
    from memoranda.service.ump.ump import Ump

__all__ = [
    "AsyncMemoranda",
    "Cal",
    "Conflict",
    "ConsentViolation",
    "ForbiddenScope",
    "Grains",
    "Hit",
    "InvalidInput",
    "Memoranda",
    "MemorandaError",
    "Memory",
    "NotFound",
    "Oams",
    "Openwop",
    "RateLimited",
    "Remembered",
    "Revised",
    "SignatureInvalid",
    "Stats",
    "StoreCorrupt",
    "StoreUnavailable",
    "TooLarge",
    "Ump",
    "Unauthorized",
    "Unsupported",
    "Version",
    "__version__",
    "convert",
]
# The modules of the other names, imported at first use: `memoranda --version` need not load a database library.
_HOMES = {
    "AsyncMemoranda": "aio",
    "Memoranda": "app",
    "convert": "bindings.files.convert",
    "Hit": "library.results",
    "Memory": "library.results",
    "Version": "library.results",
    "Stats": "service.ump.browse",
    "Remembered": "service.ump.remember",
    "Revised": "service.ump.revise",
    "Ump": "service.ump.ump",
    "Oams": "service.oams.oams",
    "Grains": "service.oms.oms",
    "Cal": "service.cal.cal",
    "Openwop": "service.openwop.openwop",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"memoranda.{_HOMES.get(name, 'errors')}"), name)
