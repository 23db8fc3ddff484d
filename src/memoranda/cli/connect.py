"""connect, disconnect: the memory in the configuration of the agents on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun
from memoranda.cli.show import counted, line, note, table
from memoranda.errors import InvalidInput, MemorandaError, NotFound

if TYPE_CHECKING:
    from memoranda.hosts.plan import Edit, State
    from memoranda.hosts.table import Host, Machine, Server

Name = Annotated[str, Parameter(name="HOST", help="Which; all are shown if none is named.")]
All = Annotated[bool, Parameter(name="--all", help="All that are on this machine.")]
DryRun = Annotated[bool, Parameter(help="Show what would change, and change nothing.")]


def connect(
    *names: Name,
    all_: All = False,
    rules: Annotated[
        bool,
        Parameter(help="Also tell its agents how to use the memory, in the host's own text for that (CLAUDE.md …)."),
    ] = False,
    hooks: Annotated[
        bool,
        Parameter(
            help="Also let it tell the memory when a session begins and ends: what is known is shown to the agent, "
            "and what was asked is remembered."
        ),
    ] = False,
    yes: Annotated[bool, Parameter(help="All that a host offers, the text and the hooks, and no questions.")] = False,
    dry_run: DryRun = False,
    print_: Annotated[bool, Parameter(name="--print", help="Print what to paste, and change nothing.")] = False,
    no_check: Annotated[bool, Parameter(help="Do not start the server first to see that it answers.")] = False,
    run: GivenRun,
) -> int | None:
    """Add the memory to agents on this machine, or show which there are.

    The change is shown, and what the file said before is kept beside it. Nothing else in the file is touched.
    """
    from memoranda.hosts.check import tools_of
    from memoranda.hosts.plan import plan_connect
    from memoranda.hosts.table import Machine

    machine, server = Machine.this(), _server(run)
    if print_:
        _print(_chosen(names, all_, machine, missing_too=True), machine, server, run)
        return None
    if not names and not all_:
        _show(machine, run)
        return None
    chosen = _chosen(names, all_, machine)
    if not (hooks or rules or yes or dry_run or run.json):
        hooks, rules = _asked(chosen)
    hooks, rules = hooks or yes, rules or yes
    edits, refused = _plan(chosen, lambda host: plan_connect(host, machine, server, rules=rules, hooks=hooks))
    tools: tuple[str, ...] = ()
    if any(each.is_change for each in edits) and not dry_run and not no_check:
        tools = tools_of(server)
        note(f"the server answers, with {counted(len(tools), 'tool')}")
    for host in chosen:
        if rules and not yes and not host.rules:
            note(f"{host.title} has no file of rules for every project; paste the text from docs/howto/connect.md")
        if hooks and not yes and host.hooks is None:
            note(f"{host.title} has no hooks for the beginning and the end of a session")
    code = _do(edits, refused, dry_run=dry_run, run=run, words=("connected", "was connected already"))
    for edit in edits:
        if edit.what == "hooks" and edit.is_change and edit.host.hooks is not None and edit.host.hooks.note:
            note(edit.host.hooks.note)
    return code


def disconnect(*names: Name, all_: All = False, dry_run: DryRun = False, run: GivenRun) -> int | None:
    """Take the memory out of agents on this machine, or show which there are. Their files are as they were before."""
    from memoranda.hosts.plan import plan_disconnect
    from memoranda.hosts.table import Machine

    machine = Machine.this()
    if not names and not all_:
        _show(machine, run)
        return None
    chosen = _chosen(names, all_, machine, missing_too=True)
    edits, refused = _plan(chosen, lambda host: plan_disconnect(host, machine))
    return _do(edits, refused, dry_run=dry_run, run=run, words=("disconnected", "was not connected"))


def _asked(hosts: Sequence[Host]) -> tuple[bool, bool]:
    """Whether hooks and rules are wanted, too; a person at a terminal is asked, where a host has them."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False, False
    with_hooks = ", ".join(each.title for each in hosts if each.hooks is not None)
    with_rules = ", ".join(each.title for each in hosts if each.rules)
    return (
        bool(with_hooks) and _agreed(f"Recall when a session begins, and remember when it ends ({with_hooks})?"),
        bool(with_rules) and _agreed(f"Tell agents how to use the memory, in a text that they read ({with_rules})?"),
    )


def _agreed(question: str) -> bool:
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _server(run: GivenRun) -> Server:
    """How a host is to start the memory: from anywhere, with no shell around it, and over the same store."""
    from memoranda.hosts.table import Server
    from memoranda.settings import SETTINGS_FILE, Settings, origins

    settings = run.settings()
    started = Path(sys.argv[0])
    beside = Path(sys.executable).with_name(started.name if started.stem == "memoranda" else "memoranda")
    program = started if started.stem == "memoranda" and started.is_file() else beside
    command = [str(program.absolute())] if program.is_file() else [sys.executable, "-m", "memoranda"]
    args = [*command[1:], "mcp"]
    if settings.home != Settings().home:
        args += ["--data", str(settings.home.absolute())]
    # What the file in the data directory says, the server reads there; the host knows nothing of this shell.
    inherited = origins(settings.home)
    for name, typed, value in (("store", run.store, settings.store), ("owner", run.owner, settings.owner)):
        if typed is not None or (value and inherited.get(name, SETTINGS_FILE) != SETTINGS_FILE):
            args += [f"--{name}", value]
    return Server(command[0], tuple(args))


def _chosen(names: Sequence[str], all_: bool, machine: Machine, *, missing_too: bool = False) -> list[Host]:
    """Return the hosts of these names; a program that may be installed in two places has two of one name."""
    from memoranda.hosts.table import HOSTS

    if all_:
        return [host for host in HOSTS if host.is_here(machine)]
    if not names:
        return list(HOSTS)
    chosen: list[Host] = []
    for name in dict.fromkeys(names):
        hosts = [host for host in HOSTS if host.name == name]
        if not hosts:
            names_here = ", ".join(dict.fromkeys(host.name for host in HOSTS))
            raise InvalidInput(f"there is no host {name!r}; there are {names_here}")
        present = hosts if missing_too else [host for host in hosts if host.is_here(machine)]
        if not present:
            raise NotFound(f"{hosts[0].title} is not on this machine; for another: memoranda connect {name} --print")
        chosen += present
    return chosen


def _plan(hosts: Sequence[Host], planned: Callable[[Host], list[Edit]]) -> tuple[list[Edit], dict[str, str]]:
    """What would change, and what is refused about which host: the others go on."""
    edits: list[Edit] = []
    refused: dict[str, str] = {}
    for host in hosts:
        try:
            edits += planned(host)
        except MemorandaError as error:
            _refuse(refused, host, str(error))
    return edits, refused


def _refuse(refused: dict[str, str], host: Host, message: str) -> None:
    """Add a message to those of a host: its name may stand for two installations."""
    refused[host.name] = "; ".join(filter(None, (refused.get(host.name), message)))


def _do(
    edits: Sequence[Edit], refused: dict[str, str], *, dry_run: bool, run: GivenRun, words: tuple[str, str]
) -> int | None:
    done: list[dict[str, Any]] = []
    for edit in edits:
        if edit.what != "server" and not edit.is_change:
            continue
        if not run.json and edit.is_change:
            line(edit.diff())
        if not dry_run:
            try:
                edit.apply()
            except (MemorandaError, OSError) as error:
                _refuse(refused, edit.host, str(error))
                continue
        kept = edit.backup if edit.backup.exists() else None
        done.append({**_about(edit), "diff": edit.diff(), "backup": None if kept is None else str(kept)})
        if not run.json:
            said = {"rules": "text for its agents", "hooks": "hooks"}.get(edit.what) or words[not edit.is_change]
            line(f"{edit.host.title}: {f'would be {said}' if dry_run and edit.is_change else said} ({edit.path})")
    for message in refused.values():
        note(message)
    if run.json:
        run.answer({"changes": done, "refused": refused}, lambda: None)
    return 1 if refused else None


def _about(edit: Edit) -> dict[str, Any]:
    return {"host": edit.host.name, "what": edit.what, "file": str(edit.path), "changed": edit.is_change}


def _show(machine: Machine, run: GivenRun) -> None:
    from memoranda.hosts.plan import look
    from memoranda.hosts.table import HOSTS

    found = [look(host, machine) for host in HOSTS]
    rows = [(each.host.name, each.host.title, _state(each), each.path) for each in found]
    document = [
        {
            "name": each.host.name,
            "title": each.host.title,
            "here": each.is_here,
            "connected": each.entry is not None,
            "file": str(each.path),
            "problem": each.problem or None,
        }
        for each in found
    ]

    def say() -> None:
        table(("host", "name", "state", "file"), rows, when_empty="")
        ready = dict.fromkeys(
            state.host.name for state in found if state.is_here and state.entry is None and not state.problem
        )
        if ready:
            note(f"to add the memory: memoranda connect {' '.join(ready)}")

    run.answer({"hosts": document}, say)


def _state(state: State) -> str:
    if state.problem:
        return "its file cannot be read"
    if state.entry is not None:
        return "connected"
    return "not connected" if state.is_here else "not here"


def _print(hosts: Sequence[Host], machine: Machine, server: Server, run: GivenRun) -> None:
    from memoranda.hosts.plan import snippet

    found = [(each, str(each.configuration(machine)), snippet(each, server)) for each in hosts]

    def say() -> None:
        for host, path, text in found:
            line(f"{host.title}: {path}", "bold")
            line(text)

    run.answer({"hosts": [{"name": host.name, "file": path, "text": text} for host, path, text in found]}, say)
