"""Logging for the commands that stay: to standard error, one line each, never a memory's content.

What an error says may quote what it was about. So of errors that nobody expected only the kind and the place are
logged, unless someone is debugging.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any, Final, Literal

from memoranda.tracing import REQUEST_ID

_LIBRARIES: Final = ("mcp", "uvicorn", "asyncio")


def set_up(level: str, *, form: str = "text", requests: bool = False) -> None:
    """Log at this level, as text or as JSON, one object a line; of libraries only trouble, unless someone is debugging.

    `requests` adds a line for each request. A second call replaces the first.
    """
    root, is_debug = logging.getLogger(), level == "debug"
    for earlier in [handler for handler in root.handlers if isinstance(handler.formatter, _Text)]:
        root.removeHandler(earlier)
    # A program around this one may have logging of its own.
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_Json(is_whole=is_debug) if form == "json" else _Text(is_whole=is_debug))
        logging.basicConfig(level=level.upper(), handlers=[handler])
        _log_what_python_prints()
    logging.getLogger("memoranda.requests").setLevel(logging.INFO if requests else logging.WARNING)
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.NOTSET if is_debug else logging.WARNING)


def set_up_early() -> None:
    """Log as JSON if the environment asks for it: what is wrong with the settings themselves is a line of it, too."""
    if os.environ.get("MEMORANDA_LOG_FORMAT") == "json":
        set_up("info", form="json")


def log_note(text: str, level: Literal["warning", "error"], error: BaseException | None = None) -> bool:
    """Write a line for a person into the log, whatever its level, if the log is JSON; return False if it is not."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler.formatter, _Json)]
    if not handlers:
        return False
    trace = None if error is None else (type(error), error, error.__traceback__)
    number = logging.getLevelNamesMapping()[level.upper()]
    handlers[0].handle(logging.LogRecord("memoranda", number, "", 0, text, None, trace))
    return True


def _log_what_python_prints() -> None:
    """Log warnings of Python's, and errors that end a thread or that nothing can catch, instead of printing them."""
    log = logging.getLogger("memoranda")
    logging.captureWarnings(True)

    def log_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and not isinstance(failure.exc_value, SystemExit):
            log.error("a thread ended by an error", exc_info=failure.exc_value)

    def log_uncaught(failure: sys.UnraisableHookArgs) -> None:
        log.error("an error where nothing can catch it", exc_info=failure.exc_value)

    threading.excepthook, sys.unraisablehook = log_thread, log_uncaught


class _Text(logging.Formatter):
    """A line for people; the request it belongs to stands at its end."""

    def __init__(self, *, is_whole: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._is_whole = is_whole

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the library's name
        request = REQUEST_ID.get()
        return super().formatMessage(record) + (f" [{request}]" if request else "")

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return super().formatException(ei) if self._is_whole else "\n".join(places(ei[1]))


class _Json(_Text):
    """A line for programs."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := REQUEST_ID.get():
            said["request"] = request
        said |= getattr(record, "told", {})
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = type(record.exc_info[1]).__name__
            said["stack"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


def places(error: BaseException | None) -> list[str]:
    """Where an error came from and of which kind it and its causes are, without what it says."""
    lines: list[str] = []
    while error is not None:
        lines += [*_frames(error.__traceback__), type(error).__qualname__]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is not None:
            lines.append("because of")
    return lines


def _frames(found: TracebackType | None) -> list[str]:
    return [f'  File "{each.filename}", line {each.lineno}, in {each.name}' for each in traceback.extract_tb(found)]
