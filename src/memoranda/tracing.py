"""Which request is being worked on, wherever in the process that is: for logs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

# Its id, as its caller named it or we did; empty where no request is.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("memoranda_request_id", default="")
