"""rules: the compliance presets and limits that an owner sets in addition to the server's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from memoranda.cli.options import without_none
from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import table

Preset = Literal["gdpr", "ccpa", "hipaa"]

_RULES = ("presets", "memories", "bytes", "writes_per_minute")


def rules(
    *,
    preset: Annotated[
        tuple[Preset, ...], Parameter(help="Apply this compliance preset; can be repeated.")
    ] = (),
    no_presets: Annotated[bool, Parameter(help="Apply only the server's presets.")] = False,
    max_memories: Annotated[
        int | None, Parameter(help="Maximum memories; 0 means no limit of your own.", least=0)
    ] = None,
    max_bytes: Annotated[
        int | None, Parameter(help="Maximum bytes of documents; 0 means no limit.", least=0)
    ] = None,
    writes_per_minute: Annotated[
        int | None, Parameter(help="Maximum writes a minute; 0 means no limit.", least=0)
    ] = None,
    run: GivenRun,
) -> None:
    """Show or change your compliance presets and limits.

    They apply in addition to the server's, which cannot be weakened.
    """
    changes: dict[str, Any] = without_none(
        memories=max_memories, bytes=max_bytes, writes_per_minute=writes_per_minute
    )
    if preset or no_presets:
        changes["presets"] = preset
    with run.open() as memoranda:
        own, context = memoranda.ump.rules(), memoranda.service.context
        if changes:
            own = msgspec.structs.replace(own, **changes)
            memoranda.ump.set_rules(own)
        server = {**msgspec.structs.asdict(context.quotas), "presets": sorted(context.presets)}
    mine = msgspec.to_builtins(own)
    rows = [(name, _format(mine[name]), _format(server[name])) for name in _RULES]
    document = {"own": mine, "server": {name: server[name] for name in mine}}
    run.answer(document, lambda: table(("rule", "yours", "the server's"), rows, when_empty=""))


def _format(value: Any) -> str:
    """Return a list as words, and 0 (no limit) as nothing."""
    return ", ".join(value) if isinstance(value, list | tuple) else str(value or "")
