"""Logging for the commands that stay: to standard error, one line each, never a memory's content.

What an error says may quote what it was about. So of errors that nobody expected only the kind and the place are
logged, unless someone is debugging.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from types import TracebackType
from typing import Any

from memoranda.tracing import REQUEST_ID


def set_up(level: str, *, form: str = "text", requests: bool = False) -> None:
    """Log at this level; of libraries only trouble is news, unless someone is debugging.

    As text or as JSON, one object a line; with a line for each request, if that is wanted.
    """
    handler = logging.StreamHandler()
    is_whole = level == "debug"
    handler.setFormatter(_Json(is_whole=is_whole) if form == "json" else _Text(is_whole=is_whole))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("memoranda.requests").setLevel(logging.INFO if requests else logging.WARNING)
    if level != "debug":
        for library in ("mcp", "uvicorn", "asyncio"):
            logging.getLogger(library).setLevel(logging.WARNING)


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
