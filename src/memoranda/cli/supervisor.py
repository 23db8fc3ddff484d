"""Tell the system's service manager how far this process is: the protocol of `sd_notify`, which is one datagram."""

from __future__ import annotations

import logging
import os
import socket

_log = logging.getLogger(__name__)


def tell(state: str) -> None:
    """Send a state such as `READY=1` to whoever started this process, if they asked to be told ($NOTIFY_SOCKET)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            # A name that begins with @ is in no file system.
            channel.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            channel.send(state.encode())
    except OSError as error:
        _log.warning("the service manager could not be told %r: %s", state.partition("\n")[0], error)
