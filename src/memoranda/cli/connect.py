"""connect and disconnect: add Memoranda to the configuration of agents on this machine, or remove it.

An agent program, such as Claude Code or Cursor, is called a host. `hosts.plan` computes the edits of its files; this
module shows them, applies them and reports the result.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

from memoranda.cli.run import GivenRun, Parameter
from memoranda.cli.show import count_phrase, is_confirmed, line, note, table
from memoranda.errors import InvalidInput, MemorandaError, NotFound, StoreUnavailable
from memoranda.hosts.plan import (
    Edit,
    HostState,
    make_snippet,
    plan_connect,
    plan_disconnect,
    read_state,
)
from memoranda.hosts.table import HOSTS, AgentHost, Machine, ServerCommand
from memoranda.settings import SETTINGS_FILE, Settings, origins

Name = Annotated[str, Parameter(name="HOST", help="An agent program; without one, all are listed.")]
All = Annotated[bool, Parameter(name="--all", help="All agent programs on this machine.")]
DryRun = Annotated[bool, Parameter(help="Show what would change, and change nothing.")]

# Seconds for a cold start on a slow disk; hosts wait as long.
_PATIENCE_SECONDS: Final = 60.0


def connect(
    *names: Name,
    all_: All = False,
    rules: Annotated[
        bool,
        Parameter(
            help="Also add instructions for using the memory to the file that its agents read (CLAUDE.md …)."
        ),
    ] = False,
    hooks: Annotated[
        bool,
        Parameter(
            help="Also run hooks when a session begins and ends: the agent is shown related memories, and prompts are "
            "remembered."
        ),
    ] = False,
    yes: Annotated[
        bool, Parameter(help="Add instructions and hooks wherever possible, without asking.")
    ] = False,
    dry_run: DryRun = False,
    print_: Annotated[
        bool,
        Parameter(name="--print", help="Print the configuration to paste, and change nothing."),
    ] = False,
    no_check: Annotated[bool, Parameter(help="Do not check first that the server starts.")] = False,
    run: GivenRun,
) -> int | None:
    """Add Memoranda to agent programs on this machine; without HOST, list them.

    The change is shown, and a copy of the original file is saved next to it. The rest of the file stays unchanged.
    """
    machine, server = Machine.current(), _server_command(run)
    if print_:
        _print_snippets(
            _find_hosts(names, all_, machine, include_missing=True), machine, server, run
        )
        return None
    if not names and not all_:
        _list_hosts(machine, run)
        return None
    hosts = _find_hosts(names, all_, machine)
    if not (hooks or rules or yes or dry_run or run.json):
        hooks, rules = _ask_for_extras(hosts)
    hooks, rules = hooks or yes, rules or yes
    edits, problems = _plan(
        hosts, lambda host: plan_connect(host, machine, server, rules=rules, hooks=hooks)
    )
    tools: tuple[str, ...] = ()
    if any(edit.is_change for edit in edits) and not dry_run and not no_check:
        tools = _list_tools(server)
        note(f"the server answers, with {count_phrase(len(tools), 'tool')}")
    for host in hosts:
        if rules and not yes and not host.rules:
            note(
                f"{host.title} has no instructions file for all projects; paste the text from docs/howto/connect.md"
            )
        if hooks and not yes and host.hooks is None:
            note(f"{host.title} has no hooks for the start and the end of a session")
    code = _apply(
        edits, problems, dry_run=dry_run, run=run, words=("connected", "was already connected")
    )
    for edit in edits:
        if (
            edit.kind == "hooks"
            and edit.is_change
            and edit.host.hooks is not None
            and edit.host.hooks.note
        ):
            note(edit.host.hooks.note)
    return code


def disconnect(
    *names: Name, all_: All = False, dry_run: DryRun = False, run: GivenRun
) -> int | None:
    """Remove Memoranda from agent programs on this machine; without HOST, list them. Nothing else in a file changes."""
    machine = Machine.current()
    if not names and not all_:
        _list_hosts(machine, run)
        return None
    hosts = _find_hosts(names, all_, machine, include_missing=True)
    edits, problems = _plan(hosts, lambda host: plan_disconnect(host, machine))
    return _apply(
        edits, problems, dry_run=dry_run, run=run, words=("disconnected", "was not connected")
    )


def _ask_for_extras(hosts: Sequence[AgentHost]) -> tuple[bool, bool]:
    """Ask a person at a terminal about hooks and rules, if any host supports them; return the two answers."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False, False
    with_hooks = ", ".join(host.title for host in hosts if host.hooks is not None)
    with_rules = ", ".join(host.title for host in hosts if host.rules)
    hooks_question = f"Recall when a session begins, and remember when it ends ({with_hooks})?"
    rules_question = (
        f"Add instructions for using the memory to the file that agents read ({with_rules})?"
    )
    hooks = bool(with_hooks) and is_confirmed(hooks_question)
    return hooks, bool(with_rules) and is_confirmed(rules_question)


def _server_command(run: GivenRun) -> ServerCommand:
    """Return the command with which a host starts Memoranda: from any folder, without a shell, on the same store."""
    settings = run.settings()
    # The program that runs now, or the one installed next to this Python.
    program = Path(sys.argv[0])
    if program.stem != "memoranda" or not program.is_file():
        name = program.name if program.stem == "memoranda" else "memoranda"
        program = Path(sys.executable).with_name(name)
    command = (
        [str(program.absolute())] if program.is_file() else [sys.executable, "-m", "memoranda"]
    )
    args = [*command[1:], "mcp"]
    if settings.home != Settings().home:
        args += ["--data", str(settings.home.absolute())]
    # The server reads memoranda.toml in the data directory, but it does not inherit the environment of this shell.
    inherited = origins(settings.home)
    for name, typed, value in (
        ("store", run.store, settings.store),
        ("owner", run.owner, settings.owner),
    ):
        if typed is not None or (value and inherited.get(name, SETTINGS_FILE) != SETTINGS_FILE):
            args += [f"--{name}", value]
    return ServerCommand(command[0], tuple(args))


def _list_tools(server: ServerCommand) -> tuple[str, ...]:
    """Return the names of the tools that a server offers. Raises StoreUnavailable if it does not answer."""
    return asyncio.run(_request_tools(server))


async def _request_tools(server: ServerCommand) -> tuple[str, ...]:
    # Loaded only for this check: the SDK takes longer to load than the rest of the command.
    from mcp import Client, MCPError, StdioServerParameters, stdio_client

    message = f"the server does not answer, so nothing was changed: {server.command} {' '.join(server.args)}"
    # Like a host, this client passes few environment variables. The log output of the server is dropped.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        transport = stdio_client(
            StdioServerParameters(command=server.command, args=[*server.args]), errlog=nowhere
        )
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), Client(transport) as client:
                return tuple(tool.name for tool in (await client.list_tools()).tools)
        except (TimeoutError, OSError, MCPError, ExceptionGroup):
            raise StoreUnavailable(message) from None


def _find_hosts(
    names: Sequence[str], all_: bool, machine: Machine, *, include_missing: bool = False
) -> list[AgentHost]:
    """Return the hosts of these names; a program that can be installed in two places is two hosts of one name.

    Raises InvalidInput for an unknown name, NotFound for a host that is not installed.
    """
    if all_:
        return [host for host in HOSTS if host.is_installed(machine)]
    if not names:
        return list(HOSTS)
    found_hosts: list[AgentHost] = []
    for name in dict.fromkeys(names):
        hosts = [host for host in HOSTS if host.name == name]
        if not hosts:
            known_names = ", ".join(dict.fromkeys(host.name for host in HOSTS))
            raise InvalidInput(f"unknown agent program {name!r}; known are {known_names}")
        present = (
            hosts if include_missing else [host for host in hosts if host.is_installed(machine)]
        )
        if not present:
            raise NotFound(
                f"{hosts[0].title} is not on this machine; to set it up on another: memoranda connect {name} --print"
            )
        found_hosts += present
    return found_hosts


def _plan(
    hosts: Sequence[AgentHost], plan_host: Callable[[AgentHost], list[Edit]]
) -> tuple[list[Edit], dict[str, str]]:
    """Return the edits of all hosts, and the problems by host name. A problem does not stop the other hosts."""
    edits: list[Edit] = []
    problems: dict[str, str] = {}
    for host in hosts:
        try:
            edits += plan_host(host)
        except MemorandaError as error:
            _add_problem(problems, host, str(error))
    return edits, problems


def _add_problem(problems: dict[str, str], host: AgentHost, message: str) -> None:
    """Add a problem of a host, whose name may stand for two installations."""
    problems[host.name] = "; ".join(filter(None, (problems.get(host.name), message)))


def _apply(
    edits: Sequence[Edit],
    problems: dict[str, str],
    *,
    dry_run: bool,
    run: GivenRun,
    words: tuple[str, str],
) -> int | None:
    """Apply the edits and report them; return the exit code. `words` say that an entry changed, or that it did not."""
    changes: list[dict[str, object]] = []
    for edit in edits:
        if edit.kind != "server" and not edit.is_change:
            continue
        if not run.json and edit.is_change:
            line(edit.diff())
        if not dry_run:
            try:
                edit.apply()
            except (MemorandaError, OSError) as error:
                _add_problem(problems, edit.host, str(error))
                continue
        backup = str(edit.backup) if edit.backup.exists() else None
        changes.append({**_document(edit), "diff": edit.diff(), "backup": backup})
        if not run.json:
            extras = {"rules": "instructions for agents", "hooks": "hooks"}
            outcome = extras.get(edit.kind) or words[not edit.is_change]
            would_be = "would be " if dry_run and edit.is_change else ""
            line(f"{edit.host.title}: {would_be}{outcome} ({edit.path})")
    for message in problems.values():
        note(message)
    if run.json:
        run.answer({"changes": changes, "refused": problems}, lambda: None)
    return 1 if problems else None


def _document(edit: Edit) -> dict[str, object]:
    return {
        "host": edit.host.name,
        "what": edit.kind,
        "file": str(edit.path),
        "changed": edit.is_change,
    }


def _list_hosts(machine: Machine, run: GivenRun) -> None:
    """List all hosts, installed or not, with the state of each."""
    states = [read_state(host, machine) for host in HOSTS]
    rows = [(state.host.name, state.host.title, _describe(state), state.path) for state in states]
    document = [
        {
            "name": state.host.name,
            "title": state.host.title,
            "here": state.is_installed,
            "connected": state.entry is not None,
            "file": str(state.path),
            "problem": state.problem or None,
        }
        for state in states
    ]

    def show() -> None:
        table(("host", "name", "state", "file"), rows, when_empty="")
        hosts = {
            state.host.name: state.host.title
            for state in states
            if state.is_installed and state.entry is None and not state.problem
        }
        if hosts:
            note(f"to connect {', '.join(hosts.values())}: memoranda connect {' '.join(hosts)}")

    run.answer({"hosts": document}, show)


def _describe(state: HostState) -> str:
    if state.problem:
        return "unreadable file"
    if state.entry is not None:
        return "connected"
    return "not connected" if state.is_installed else "not installed"


def _print_snippets(
    hosts: Sequence[AgentHost], machine: Machine, server: ServerCommand, run: GivenRun
) -> None:
    """Print the configuration to paste for each host."""
    snippets = [
        (host, str(host.configuration(machine)), make_snippet(host, server)) for host in hosts
    ]

    def show() -> None:
        for host, path, text in snippets:
            line(f"{host.title}: {path}", "bold")
            line(text)

    run.answer(
        {
            "hosts": [
                {"name": host.name, "file": path, "text": text} for host, path, text in snippets
            ]
        },
        show,
    )
