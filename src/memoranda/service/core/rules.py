"""What an owner asks for beyond what the server does: compliance presets, and less room.

They are kept in the row of the tenant that every read and every unit of work begins with, so they hold in every
process at once. An owner's own only ever add to the server's: no preset is lifted, and no limit is raised.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from memoranda.errors import InvalidInput
from memoranda.service.core.quotas import Quotas

if TYPE_CHECKING:
    from memoranda.service.core.access import Access
    from memoranda.service.core.context import Context
    from memoranda.storage.engine.contract import Unit

# What there is; compliance.py says what each asks for.
PRESETS: Final = ("gdpr", "ccpa", "hipaa")
MOST: Final = 1 << 53


class OwnRules(msgspec.Struct, frozen=True, kw_only=True):
    """0 means no limit of one's own."""

    presets: tuple[str, ...] = ()
    memories: int = 0
    bytes: int = 0
    writes_per_minute: int = 0

    def __post_init__(self) -> None:
        if unknown := next((each for each in self.presets if each not in PRESETS), None):
            raise InvalidInput(
                f"there is no preset {unknown[:40]!a}; there are {', '.join(PRESETS)}"
            )
        for name in ("memories", "bytes", "writes_per_minute"):
            if not 0 <= getattr(self, name) <= MOST:
                raise InvalidInput(f"{name} must be a whole number from 0 to {MOST}")


NO_RULES: Final = OwnRules()


@lru_cache(maxsize=1_024)
def parse_rules(kept: bytes) -> OwnRules:
    """The rules as they are kept; none, where there are none."""
    return msgspec.json.decode(kept, type=OwnRules) if kept else NO_RULES


@lru_cache(maxsize=1_024)
def tightened(quotas: Quotas, kept: bytes) -> Quotas:
    """The server's quotas, and an owner's own where they are less."""
    own = parse_rules(kept)
    return msgspec.structs.replace(
        quotas,
        memories=_less(quotas.memories, own.memories),
        bytes=_less(quotas.bytes, own.bytes),
        writes_per_minute=_less(quotas.writes_per_minute, own.writes_per_minute),
    )


def _less(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other


def own_rules(context: Context, access: Access) -> OwnRules:
    """What the caller's owner asked for."""
    with context.engine.read(access.default_tenant) as snapshot:
        return parse_rules(snapshot.rules)


def set_rules(context: Context, access: Access, rules: OwnRules) -> None:
    """Ask for something else from now on; what is there already stays as it is."""
    # The one that has the function of the same name there: nothing else of it is needed here.
    from memoranda.service.core.context import audit_entry

    now, tenant = context.clock(), access.default_tenant
    said = msgspec.to_builtins(rules)
    entry = audit_entry(access, "rules", now=now, scope={"owner": tenant}, result="ok", meta=said)

    def work(unit: Unit) -> None:
        unit.set_rules(b"" if rules == NO_RULES else msgspec.json.encode(rules))
        unit.record(entry)

    context.engine.write(tenant, work)
    context.forget_rules(tenant)
