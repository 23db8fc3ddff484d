"""hook: what a host runs when a session begins or ends. Whatever happens, the host goes on."""

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

# Hosts wait ten; before that it ends by itself, without having said anything.
_SECONDS: Final = 8.0
_INPUT_BYTES_LIMIT: Final = 1_048_576


def hook(
    event: Annotated[Literal["session-start", "session-end"], Parameter(help="What happened.")],
    *,
    host: Annotated[str, Parameter(help="Who says so.")] = "agent",
    run: GivenRun,
) -> None:
    """Read what a host says of a session on standard input, and answer as it expects: `connect --hooks` sets it up.

    When a session begins, what is known of the project is shown to the agent; when it ends, what was asked in it and
    the last answer are remembered. It never keeps a host from going on: what goes wrong is said on standard error.
    """
    end = threading.Timer(_SECONDS, os._exit, (0,))
    end.daemon = True
    end.start()
    try:
        answer = _answer(event, host, run)
    except (MemorandaError, OSError, ValueError) as error:
        note(f"hook {event}: {error}")
        answer = {}
    finally:
        end.cancel()
    print_json(answer)


def _answer(event: str, host: str, run: GivenRun) -> dict[str, Any]:
    from memoranda.hosts import sessions

    session = sessions.Session.of(host, _said(), folder=Path.cwd())
    if event == "session-end":
        if session.transcript is not None and sessions.digest(session) is not None:
            with run.open() as m:
                sessions.remember(m, session)
        return {}
    path = run.settings().database_path
    if path is not None and not path.exists():
        # Nothing was ever remembered, and to begin a session is no reason to make a store.
        return {}
    with run.open() as m:
        text = sessions.context(m, session)
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}


def _said() -> Any:
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(_INPUT_BYTES_LIMIT)
    try:
        return parse(data)
    except MemorandaError:
        return None
