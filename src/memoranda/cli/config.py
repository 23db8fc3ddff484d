"""config: the settings in force, and those in memoranda.toml."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Annotated, Any

from memoranda.cli.commands import App, Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import line, note, table
from memoranda.cli.words import given
from memoranda.errors import NotFound
from memoranda.settings import SECRET_SETTINGS, Settings, origins, variable_of, without_password, write_setting

config = App(
    name="config",
    about="The settings in force, and where each comes from; set writes one to memoranda.toml, unset takes it out.",
)
Name = Annotated[str, Parameter(name="NAME", help="The setting.")]


@config.default
def show(name: Annotated[str | None, Parameter(help="Only this setting.")] = None, /, *, run: GivenRun) -> None:
    """Show the settings in force, and where each comes from. They are set in memoranda.toml or in the environment."""
    settings, found = run.settings(), origins(run.settings().home)
    known = {each.name: each for each in fields(Settings)}
    if name is not None and name not in known:
        raise NotFound(f"there is no setting {name!r}; there are {', '.join(known)}")
    chosen = [name] if name is not None else list(known)
    values = {each: _value(getattr(settings, each), is_secret=each in SECRET_SETTINGS) for each in chosen}
    said = {each: "command line" if each in _typed(run) else found.get(each, "default") for each in chosen}
    rows = [(each, values[each], said[each], known[each].metadata["meaning"]) for each in chosen]
    document = {each: {"value": values[each], "from": said[each]} for each in chosen}
    run.answer(document, lambda: table(("setting", "value", "from", "meaning"), rows, when_empty=""))


@config.command(name="set")
def set_one(
    name: Name,
    value: Annotated[str, Parameter(name="VALUE", help="Its value; several of a list are separated by commas.")],
    /,
    *,
    run: GivenRun,
) -> None:
    """Write a setting to memoranda.toml in the data directory. A running server reads it when it starts again."""
    _write(name, value, run)


@config.command
def unset(name: Name, /, *, run: GivenRun) -> None:
    """Take a setting out of memoranda.toml in the data directory."""
    _write(name, None, run)


def _write(name: str, value: str | None, run: GivenRun) -> None:
    path = write_setting(run.settings().home, name, value)
    shown = "" if value is None else f" = {_value(value, is_secret=name in SECRET_SETTINGS)}"
    if os.environ.get(variable_of(name)):
        note(f"{variable_of(name)} in the environment wins over it")
    document = {"setting": name, "is_set": value is not None, "file": str(path)}
    run.answer(document, lambda: line(f"{name}{shown}: {'taken out of' if value is None else 'written to'} {path}"))


def _typed(run: GivenRun) -> set[str]:
    return set(given(home=run.data, store=run.store, owner=run.owner))


def _value(value: Any, *, is_secret: bool) -> str:
    if is_secret and value:
        return "(not shown)"
    return ",".join(value) if isinstance(value, tuple) else without_password(str(value))
