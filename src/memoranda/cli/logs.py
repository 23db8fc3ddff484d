"""Logging of long-running commands to standard error: one line for each event, never the content of a memory.

A log at any level, debug included, is stored and passed on, so it holds no text of a memory, a request or an answer.
The message of an unexpected error may quote one, and so may each message of a library: requests and answers pass
through them. Of both only the type and the location are logged.
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

from memoranda.measures import REQUEST_ID

# The loggers whose messages never quote a request or an answer: ours, and that of the HTTP server.
_TRUSTED: Final = ("memoranda", "uvicorn.error")


def set_up(level: str, *, form: str = "text", requests: bool = False) -> None:
    """Log at a level, as text, or as JSON with one object a line.

    Libraries log only warnings and errors, except at debug level. `requests` adds a line for each request. A second
    call replaces the first.
    """
    root = logging.getLogger()
    for previous in [
        handler for handler in root.handlers if isinstance(handler.formatter, _TextFormatter)
    ]:
        root.removeHandler(previous)
    # A program that embeds this one may have set up logging already.
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
        handler.addFilter(_is_wanted)
        logging.basicConfig(level=level.upper(), handlers=[handler])
        _capture_python_messages()
    logging.getLogger("memoranda.requests").setLevel(logging.INFO if requests else logging.WARNING)


def set_up_early() -> None:
    """Log as JSON if the environment asks for it, so that errors in the settings are logged as JSON too."""
    if os.environ.get("MEMORANDA_LOG_FORMAT") == "json":
        set_up("info", form="json")


def log_note(
    text: str, level: Literal["warning", "error"], error: BaseException | None = None
) -> bool:
    """Write a message to the log at any log level, if the log is JSON; return False if it is not."""
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler.formatter, _JsonFormatter)
    ]
    if not handlers:
        return False
    trace = None if error is None else (type(error), error, error.__traceback__)
    number = logging.getLevelNamesMapping()[level.upper()]
    handlers[0].handle(logging.LogRecord("memoranda", number, "", 0, text, None, trace))
    return True


def _capture_python_messages() -> None:
    """Log Python's warnings, and errors that end a thread or that no caller can catch, instead of printing them."""
    log = logging.getLogger("memoranda")
    logging.captureWarnings(True)

    def log_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and not isinstance(failure.exc_value, SystemExit):
            log.error("a thread ended with an error", exc_info=failure.exc_value)

    def log_uncaught(failure: sys.UnraisableHookArgs) -> None:
        log.error("an error that no caller can catch", exc_info=failure.exc_value)

    threading.excepthook, sys.unraisablehook = log_thread, log_uncaught


def _is_trusted(record: logging.LogRecord) -> bool:
    """Return True if the message of a record may be logged."""
    return any(record.name == name or record.name.startswith(f"{name}.") for name in _TRUSTED)


def _is_wanted(record: logging.LogRecord) -> bool:
    """Return True for our records, for warnings and errors of libraries, and at debug level for all records."""
    is_ours = record.name.partition(".")[0] == "memoranda"
    return (
        is_ours or record.levelno >= logging.WARNING or logging.getLogger().level <= logging.DEBUG
    )


def _read_message(record: logging.LogRecord) -> str:
    """Return the message of a record; of a library's the location instead, as its message may quote a memory."""
    if _is_trusted(record):
        return record.getMessage()
    return f"{record.funcName} in {record.filename}, line {record.lineno}"


class _TextFormatter(logging.Formatter):
    """A line for people, with the id of its request at the end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        line = logging.makeLogRecord(
            {**record.__dict__, "msg": _read_message(record), "args": (), "exc_text": None}
        )
        return super().format(line)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the library's name
        request = REQUEST_ID.get()
        return super().formatMessage(record) + (f" [{request}]" if request else "")

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(error_locations(ei[1]))


class _JsonFormatter(_TextFormatter):
    """A line for programs: one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        document: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _read_message(record),
        }
        if request := REQUEST_ID.get():
            document["request"] = request
        document |= getattr(record, "told", {})
        if record.exc_info and record.exc_info[1] is not None:
            document["error"] = type(record.exc_info[1]).__name__
            document["stack"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


def error_locations(error: BaseException | None) -> list[str]:
    """Return the stack and the types of an error and its causes, without their messages."""
    lines: list[str] = []
    while error is not None:
        lines += [*_frames(error.__traceback__), type(error).__qualname__]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is not None:
            lines.append("because of")
    return lines


def _frames(trace: TracebackType | None) -> list[str]:
    return [
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        for frame in traceback.extract_tb(trace)
    ]
