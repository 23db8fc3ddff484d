"""hook: the command that an agent program (host) runs when a session begins or ends.

It must never keep the host waiting: it gives up in time, and reports errors on standard error only.

An error ends as a note on standard error, an empty answer and exit code 0, because a host would show a failed hook to a
person who can do nothing about it. Each host has its own form of input and answer, which are in `hosts`. Learning runs
at the end of a session or before its text is shortened, and is limited in time.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from memoranda.cli.run import GivenRun, Parameter, print_json
from memoranda.cli.show import note
from memoranda.encoding.json_text import parse
from memoranda.errors import MemorandaError
from memoranda.hosts import sessions
from memoranda.hosts.table import HOOK_SECONDS, find_hook

if TYPE_CHECKING:
    from memoranda.app import Memoranda

# The fraction of the host's time limit after which the command gives up silently.
_PATIENCE: Final = 0.8
# The events that are answered with a text, and their names in answers.
_EVENT_NAMES: Final = {"session-start": "SessionStart", "prompt": "BeforeAgent"}
# Bytes of the JSON with which a host describes an event. The transcript is not part of it; the JSON names its file.
_INPUT_BYTES_LIMIT: Final = 1_048_576


def hook(
    event: Annotated[
        Literal["session-start", "prompt", "ask", "pre-compact", "session-end"],
        Parameter(help="The event."),
    ],
    *,
    host: Annotated[str, Parameter(help="The agent program that runs it.")] = "agent",
    run: GivenRun,
) -> None:
    """Handle a session event of an agent program, described on standard input. `connect --hooks` sets it up.

    When a session begins, or at its first prompt, the agent is shown memories of the project. Once in a session it gets
    a request to store what matters. When the session ends, the prompts and the last answer are remembered. Then, and
    before the host compacts its context, explicit statements of the person become candidates (`memoranda candidates`).
    Errors go to standard error and never stop the agent program.
    """
    configured = find_hook(host, event)
    seconds = (
        HOOK_SECONDS if configured is None or configured.seconds is None else configured.seconds
    )
    timer = threading.Timer(seconds * _PATIENCE, os._exit, (0,))
    timer.daemon = True
    timer.start()
    try:
        if configured is not None and configured.seconds is None:
            note(
                f"hook {event}: set up by an earlier version; to update it, run: memoranda connect {host}"
            )
            answer: dict[str, object] = {}
        else:
            answer = _answer(event, host, run)
    except (MemorandaError, OSError, ValueError) as error:
        note(f"hook {event}: {error}")
        answer = {}
    finally:
        timer.cancel()
    print_json(answer)


def _answer(event: str, host: str, run: GivenRun) -> dict[str, object]:
    """Return the answer in the host's format; empty if there is nothing to tell."""
    session = sessions.HostSession.from_hook_input(host, _read_input(), folder=Path.cwd())
    if event == "ask":
        settings = run.settings()
        if settings.learn_ask == "off" or session.is_continued:
            return {}
        from memoranda.hosts.asking import build_request

        return build_request(session, settings.home)
    if event in ("session-end", "pre-compact"):
        if session.transcript is not None and sessions.summarize_session(session) is not None:
            with run.open() as memoranda:
                if event == "session-end":
                    sessions.remember_session(memoranda, session)
                _learn(memoranda, session, run)
        return {}
    path = run.settings().database_path
    if path is not None and not path.exists():
        # There are no memories, and the start of a session is no reason to create a store.
        return {}
    # A host reports every prompt, but only the first of a session is answered.
    if event == "prompt" and sessions.has_context(session):
        return {}
    with run.open() as memoranda:
        text = sessions.build_context(memoranda, session)
    return (
        {"hookSpecificOutput": {"hookEventName": _EVENT_NAMES[event], "additionalContext": text}}
        if text
        else {}
    )


def _learn(memoranda: Memoranda, session: sessions.HostSession, run: GivenRun) -> None:
    """Propose what the person stated in the session so far, unless the settings forbid it."""
    settings = run.settings()
    if settings.learn == "off":
        return
    # The patterns are slow to compile, and the other events do not need them.
    from memoranda.hosts.learning import Learner

    report = Learner(memoranda, settings.learn_allow).learn(sessions.source_turns(session))
    if report.proposed or report.accepted:
        note(f"learnt from the session: {report.proposed} to decide, {report.accepted} accepted")


def _read_input() -> object:
    """Return the host's description of the event; None if it is not JSON."""
    data = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(_INPUT_BYTES_LIMIT)
    try:
        return parse(data)
    except MemorandaError:
        return None
