"""Commands without the time that a process takes to start: python forking.py SOCKET

One process has read the program, and becomes a command for each that is asked for, with the caller's files, folder and
environment. `CALLER` is what asks; it needs a Python, and nothing of ours.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

MAX_BYTES: Final = 262_144
CALLER: Final = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({socket!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [asked], [0, 1, 2])
    sys.exit(int(server.recv(16) or b"70"))
"""


def main(path: str) -> None:
    """Serve commands until told to end."""
    # All that commands load when they run.
    from memoranda.cli import main as command

    for name in ("memoranda.app", "memoranda.bindings.files.exchange", "memoranda.bindings.files.sync"):
        import_module(name)

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            asked, files, _, _ = socket.recv_fds(connection, MAX_BYTES, 3)
            if os.fork() == 0:
                _become(connection, json.loads(asked), files, command)
            connection.close()
            for each in files:
                os.close(each)
            with suppress(ChildProcessError):
                while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None:
                    pass


def _become(connection: socket.socket, asked: Any, files: list[int], command: Callable[[list[str]], int]) -> None:
    tokens, folder, environment = asked
    for place, each in enumerate(files):
        os.dup2(each, place)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "rw"[number > 0], closefd=False) for number in range(3))
    code = 70
    try:
        code = command(tokens)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - whoever asked is to see it
        traceback.print_exc()
    finally:
        connection.send(str(code).encode())
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
