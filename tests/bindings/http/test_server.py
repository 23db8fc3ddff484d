"""A real server process: its address, its signals and its end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.bindings.http.running import NO_AUTHORITIES
from tests.forking import Forked
from tests.waiting import HANG_SECONDS

from memoranda.bindings.http.server import listen
from memoranda.errors import StoreUnavailable

PROGRAM = """
import sys
from pathlib import Path
from memoranda.opening import open_service
from memoranda.bindings.http.app import create_app
from memoranda.bindings.http.server import create_server, listen
from memoranda.settings import load_settings

service = open_service(load_settings(home=Path(sys.argv[1])))
token = service.gate.mint_token(verbs=("read", "write"), scope={}, ttl_ms=600_000)
create_server(create_app(service), listen(sys.argv[2], 0), on_ready=lambda url: print(url, token, flush=True)).run()
service.close()
print("closed", flush=True)
"""


@contextmanager
def process(home: Path, host: str = "127.0.0.1") -> Iterator[tuple[Forked, str, str]]:
    command = [sys.executable, "-c", PROGRAM, str(home), host]
    with Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None
            url, token = started.stdout.readline().decode().split()
            yield started, url, token
        finally:
            started.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_good_order_even_with_a_stream_open(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path / "home") as (started, url, token):
        headers = {"authorization": f"Bearer {token}"}
        with (
            httpx.Client(base_url=url, headers=headers, verify=NO_AUTHORITIES, timeout=HANG_SECONDS) as client,
            client.stream("GET", "/ump/subscribe") as stream,
        ):
            assert stream.status_code == 200
            started.send_signal(number)
            out, err = started.communicate()
        assert (started.returncode, out, err) == (0, b"closed\n", b"")


def test_an_ipv6_address_is_listened_on_and_named_in_the_url(tmp_path: Path) -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with process(tmp_path / "home", "::1") as (_, url, _token):
        assert url.startswith("http://[::1]:")
        assert httpx.get(f"{url}/readyz", timeout=HANG_SECONDS).json() == {"status": "ready"}


def test_a_port_that_is_taken_is_said_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StoreUnavailable, match="cannot listen on"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_a_host_that_does_not_exist_is_said_in_a_sentence() -> None:
    with pytest.raises(StoreUnavailable, match="cannot listen on"):
        listen("no-such-host.invalid", 0)


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
