"""hook: the command that a host runs when a session begins or ends. The host goes on in any case."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from memoranda.cli.commands import Parameter
from memoranda.cli.run import GivenRun, print_json
from memoranda.cli.show import note
from memoranda.encoding.json_text import parse
from memoranda.errors import MemorandaError

# The part of the host's own limit after which the command gives up, without a word.
_PATIENCE: Final = 0.8
# The hosts' own names of the events that are answered with a text.
_NAMES: Final = {"session-start": "SessionStart", "prompt": "BeforeAgent"}
# Bytes that a host writes about one event; the transcript is a file of its own.
_INPUT_BYTES_LIMIT: Final = 1_048_576


def hook(
    event: Annotated[Literal["session-start", "prompt", "session-end"], Parameter(help="What happened.")],
    *,
    host: Annotated[str, Parameter(help="The host that runs it.")] = "agent",
    run: GivenRun,
) -> None:
    """Read what a host says of a session on standard input, and answer as it expects: `connect --hooks` sets it up.

    When a session begins, or at its first prompt, the agent is shown what is known of the project; when it ends, the
    prompts and the last answer are remembered. It never keeps a host from going on: errors go to standard error.
    """
    from memoranda.hosts.table import HOOK_SECONDS, hook_of

    configured = hook_of(host, event)
    seconds = HOOK_SECONDS if configured is None or configured.seconds is None else configured.seconds
    end = threading.Timer(seconds * _PATIENCE, os._exit, (0,))
    end.daemon = True
    end.start()
    try:
        if configured is not None and configured.seconds is None:
            note(f"hook {event}: an earlier version set this up; bring it up to date: memoranda connect {host}")
            answer: dict[str, Any] = {}
        else:
            answer = _answer(event, host, run)
    except (MemorandaError, OSError, ValueError) as error:
        note(f"hook {event}: {error}")
        answer = {}
    finally:
        end.cancel()
    print_json(answer)


def _answer(event: str, host: str, run: GivenRun) -> dict[str, Any]:
    """Return the answer in the host's form."""
    from memoranda.hosts import sessions

    session = sessions.Session.of(host, _read_input(), folder=Path.cwd())
    if event == "session-end":
        if session.transcript is not None and sessions.digest(session) is not None:
            with run.open() as m:
                sessions.remember(m, session)
        return {}
    path = run.settings().database_path
    if path is not None and not path.exists():
        # Nothing was ever remembered, and the beginning of a session is no reason to make a store.
        return {}
    # A host announces every prompt: only the first of a session is answered.
    if event == "prompt" and sessions.has_context(session):
        return {}
    with run.open() as m:
        text = sessions.context(m, session)
    return {"hookSpecificOutput": {"hookEventName": _NAMES[event], "additionalContext": text}} if text else {}


def _read_input() -> Any:
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(_INPUT_BYTES_LIMIT)
    try:
        return parse(data)
    except MemorandaError:
        return None
