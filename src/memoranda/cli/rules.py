"""rules: what an owner asks for beyond what the server does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import table
from memoranda.cli.words import given

Preset = Literal["gdpr", "ccpa", "hipaa"]


def rules(
    *,
    preset: Annotated[tuple[Preset, ...], Parameter(help="From now on this preset holds; can be repeated.")] = (),
    no_presets: Annotated[bool, Parameter(help="None but those of the server.")] = False,
    max_memories: Annotated[int | None, Parameter(help="At most so many memories; 0 for no limit of your own.")] = None,
    max_bytes: Annotated[int | None, Parameter(help="At most so many bytes of documents.")] = None,
    writes_per_minute: Annotated[int | None, Parameter(help="At most so many writes a minute.")] = None,
    run: GivenRun,
) -> None:
    """Show or change what holds for your memory beyond what the server asks for.

    No preset of the server is lifted, and no limit raised.
    """
    import msgspec

    limits = given(memories=max_memories, bytes=max_bytes, writes_per_minute=writes_per_minute)
    with run.open() as memoranda:
        own, context = memoranda.ump.rules(), memoranda.service.context
        changed: dict[str, Any] = {**limits, **({"presets": preset} if preset or no_presets else {})}
        if changed:
            own = msgspec.structs.replace(own, **changed)
            memoranda.ump.set_rules(own)
        server = {**msgspec.structs.asdict(context.quotas), "presets": sorted(context.presets)}
    mine = msgspec.to_builtins(own)
    rows = [
        (name, _shown(mine[name]), _shown(server[name]))
        for name in ("presets", "memories", "bytes", "writes_per_minute")
    ]
    document = {"own": mine, "server": {name: server[name] for name in mine}}
    run.answer(document, lambda: table(("rule", "yours", "the server's"), rows, when_empty=""))


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list | tuple) else str(value or "")
