"""A keep-alive HTTP client that costs next to nothing, so that the server is what is measured."""

from __future__ import annotations

import json
import socket
import time
from types import TracebackType
from typing import Any, Self


class Client:
    """One connection to a server on this machine."""

    def __init__(self, host: str, port: int, bearer: str) -> None:
        self._socket = socket.create_connection((host, port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"Host: {host}:{port}\r\nAuthorization: Bearer {bearer}\r\n"
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def post(self, path: str, body: Any) -> tuple[int, bytes, float]:
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        return self._exchange(head.encode() + data)

    def get(self, path: str) -> tuple[int, bytes, float]:
        return self._exchange(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())

    def _exchange(self, request: bytes) -> tuple[int, bytes, float]:
        """(status, body, milliseconds)."""
        start = time.perf_counter()
        self._socket.sendall(request)
        received = self._rest
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._receive()
        head = received[:end].lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        while len(received) < end + 4 + length:
            received += self._receive()
        elapsed = (time.perf_counter() - start) * 1000
        body, self._rest = received[end + 4 : end + 4 + length], received[end + 4 + length :]
        return int(head[9:12]), body, elapsed

    def _receive(self) -> bytes:
        chunk = self._socket.recv(65_536)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        return chunk
