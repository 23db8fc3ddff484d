"""A relay between a store and its PostgreSQL that loses the answer to a commit: the server has committed, unheard."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg

# The message that ends the command (CommandComplete), with its length.
_COMMITTED: Final = b"C\x00\x00\x00\x0bCOMMIT\x00"
_CHUNK_BYTES: Final = 65_536


class Relay:
    """A listener that passes on what clients of a server say and hear."""

    def __init__(self, address: str) -> None:
        """`address` is that of a database, through which the relay finds its server."""
        with psycopg.connect(address) as connection:
            self._host, self._port = connection.info.host, connection.info.port
            name, user = connection.info.dbname, connection.info.user
        self.loses_commit = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.address = f"postgresql://{user}:test@127.0.0.1:{port}/{name}?sslmode=disable&gssencmode=disable"
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """Cut everybody off."""
        # Closing alone wakes no thread.
        _shut(self._listener, *self._ends)
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._ends):
            each.close()

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._connect()
                self._ends += (client, server)
                self._start(self._pass_on, client, server)
                self._start(self._pass_answers_on, server, client)

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(Path(self._host) / f".s.PGSQL.{self._port}"))
        return server

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(_CHUNK_BYTES):
                server.sendall(data)
        _shut(client, server)

    def _pass_answers_on(self, server: socket.socket, client: socket.socket) -> None:
        # An answer may come in two pieces.
        before = b""
        with suppress(OSError):
            while data := server.recv(_CHUNK_BYTES):
                if self.loses_commit and _COMMITTED in before + data:
                    self.loses_commit = False
                    break
                before = data[-len(_COMMITTED) :]
                client.sendall(data)
        _shut(client, server)


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
