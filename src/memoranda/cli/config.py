"""config and rules: the settings of the program in memoranda.toml, and the rules that an owner sets in the store.

Settings belong to the program and are in a file; rules belong to an owner and are in the store, where a server and
every program obey them. `show` names the source of each value, because a variable of the environment may hide the file.
A secret is never printed. A running server reads its settings only when it starts.
"""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Annotated, Any, Literal

import msgspec

from memoranda.cli.run import GivenRun, Parameter, without_none
from memoranda.cli.show import line, note, table
from memoranda.errors import NotFound
from memoranda.service.core.limits import server_quotas
from memoranda.settings import (
    SECRET_SETTINGS,
    Settings,
    origins,
    variable_of,
    without_password,
    write_setting,
)

Preset = Literal["gdpr", "ccpa", "hipaa"]
Name = Annotated[str, Parameter(name="NAME", help="The setting.")]
_RULES = ("presets", "memories", "bytes", "writes_per_minute")


def show(
    name: Annotated[str | None, Parameter(help="Only this setting.")] = None, /, *, run: GivenRun
) -> None:
    """Show the settings in force, and where each comes from: the command line, the environment or memoranda.toml."""
    settings = run.settings()
    declared_fields = {field.name: field for field in fields(Settings)}
    if name is not None and name not in declared_fields:
        raise NotFound(f"there is no setting {name!r}; there are {', '.join(declared_fields)}")
    sources = {**origins(settings.home), **dict.fromkeys(_typed_settings(run), "command line")}
    rows = []
    document = {}
    for setting in declared_fields if name is None else [name]:
        value = _format(getattr(settings, setting), is_secret=setting in SECRET_SETTINGS)
        source = sources.get(setting, "default")
        rows.append((setting, value, source, declared_fields[setting].metadata["meaning"]))
        document[setting] = {"value": value, "from": source}
    run.answer(
        document, lambda: table(("setting", "value", "from", "meaning"), rows, when_empty="")
    )


def set_one(
    name: Name,
    value: Annotated[
        str, Parameter(name="VALUE", help="The value; separate the items of a list by commas.")
    ],
    /,
    *,
    run: GivenRun,
) -> None:
    """Write a setting to memoranda.toml in the data directory. A running server reads it at its next start."""
    _write(name, value, run)


def unset(name: Name, /, *, run: GivenRun) -> None:
    """Remove a setting from memoranda.toml in the data directory."""
    _write(name, None, run)


def _write(name: str, value: str | None, run: GivenRun) -> None:
    path = write_setting(run.settings().home, name, value)
    assignment = "" if value is None else f" = {_format(value, is_secret=name in SECRET_SETTINGS)}"
    if os.environ.get(variable_of(name)):
        note(f"{variable_of(name)} in the environment overrides it")
    action = "removed from" if value is None else "written to"
    document = {"setting": name, "is_set": value is not None, "file": str(path)}
    run.answer(document, lambda: line(f"{name}{assignment}: {action} {path}"))


def _typed_settings(run: GivenRun) -> set[str]:
    """Return the names of settings given as options of the command line."""
    return set(without_none(home=run.data, store=run.store, owner=run.owner))


def _format(value: object, *, is_secret: bool) -> str:
    if is_secret and value:
        return "(not shown)"
    return ",".join(value) if isinstance(value, tuple) else without_password(str(value))


def rules(
    *,
    preset: Annotated[
        tuple[Preset, ...], Parameter(help="Apply this compliance preset; can be repeated.")
    ] = (),
    no_presets: Annotated[bool, Parameter(help="Apply only the server's presets.")] = False,
    max_memories: Annotated[
        int | None, Parameter(help="Maximum memories; 0 means no limit of your own.", minimum=0)
    ] = None,
    max_bytes: Annotated[
        int | None, Parameter(help="Maximum bytes of documents; 0 means no limit.", minimum=0)
    ] = None,
    writes_per_minute: Annotated[
        int | None, Parameter(help="Maximum writes a minute; 0 means no limit.", minimum=0)
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
        own_rules, context = memoranda.ump.rules(), memoranda.service.context
        if changes:
            own_rules = msgspec.structs.replace(own_rules, **changes)
            memoranda.ump.set_rules(own_rules)
        quotas = server_quotas(context, memoranda.owner)
        server = {**msgspec.structs.asdict(quotas), "presets": sorted(context.presets)}
    own_limits = msgspec.to_builtins(own_rules)
    rows = [(name, _format_rule(own_limits[name]), _format_rule(server[name])) for name in _RULES]
    document = {"own": own_limits, "server": {name: server[name] for name in own_limits}}
    run.answer(document, lambda: table(("rule", "yours", "the server's"), rows, when_empty=""))


def _format_rule(value: Any) -> str:
    """Return a list as words, and 0 (no limit) as nothing."""
    return ", ".join(value) if isinstance(value, list | tuple) else str(value or "")
