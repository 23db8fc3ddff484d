"""Notifications to the system's service manager (the `sd_notify` protocol): one datagram for each state."""

from __future__ import annotations

import logging
import os
import socket

_log = logging.getLogger(__name__)


def tell(state: str) -> None:
    """Send a state such as `READY=1` to the service manager, if it set $NOTIFY_SOCKET."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            # @ stands for the NUL byte of an abstract socket, which has no file.
            channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            channel.send(state.encode())
    except OSError as error:
        _log.warning("the service manager did not receive %r: %s", state.partition("\n")[0], error)
