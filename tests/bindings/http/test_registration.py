"""Who becomes an owner: whom the operator knows, and anyone only where that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.bindings.http.process import Server, serving
from tests.bindings.http.running import Running, running

from memoranda.bindings.http.guard import FAILURES_BURST, STRANGERS_BURST
from memoranda.encoding.didkey import SigningKey
from memoranda.standards.ump import token

KNOWN = SigningKey(b"\x01" * 32)


def signed(key: SigningKey) -> str:
    """A token that an owner gives to himself."""
    claims = token.Claims(
        v="ump-cap/0.1",
        iss=key.did,
        aud=key.did,
        verbs=("read", "write"),
        scope={"owner": key.did},
        nbf=None,
        exp="2999-01-01T00:00:00Z",
        jti="one",
    )
    return token.mint(claims, key)


def strangers(count: int) -> Iterator[str]:
    for number in range(2, 2 + count):
        yield signed(SigningKey(bytes([number]) * 32))


def statuses(server: Server | Running, credentials: Iterable[str]) -> list[int]:
    """Return the answers to one request with each credential."""
    with server.client() as client:
        return [
            client.post("/ump/recall", json={"query": "x"}, headers={"Authorization": f"Bearer {each}"}).status_code
            for each in credentials
        ]


def status(server: Server | Running, credential: str) -> int:
    return statuses(server, [credential])[0]


@pytest.mark.requirement("OURS-closed-doors")
def test_a_fresh_key_is_nobody_here_unless_the_operator_says_so(tmp_path: Path) -> None:
    with serving(tmp_path / "home", "--allow-owner", KNOWN.did) as server:
        assert status(server, next(strangers(1))) == 401
        assert status(server, signed(KNOWN)) == 200
        assert status(server, server.credential) == 200


def test_memories_alone_do_not_make_an_issuer(tmp_path: Path) -> None:
    """What was taken in of somebody else's does not let that somebody in."""
    with serving(tmp_path / "home", "--open-registration") as server:
        assert status(server, signed(KNOWN)) == 200
    with serving(tmp_path / "home") as server:
        assert status(server, signed(KNOWN)) == 401


@pytest.mark.requirement("OURS-closed-doors")
def test_where_anyone_may_come_in_new_names_give_nobody_more(tmp_path: Path) -> None:
    # Time stands still: nobody gets a new allowance, however long the requests take.
    with running(tmp_path / "home", settings={"open_registration": "on"}, clock=lambda: 0.0) as server:
        many = int(STRANGERS_BURST)
        assert statuses(server, strangers(many + 1)) == [200] * many + [429]
        # Whom the operator knows is served as before, from the same address.
        assert status(server, server.key()) == 200


@pytest.mark.parametrize("credential", ["mk_aaaa_bbbb", "umpcap.x.y"])
def test_guessing_locks_nobody_out(tmp_path: Path, credential: str) -> None:
    with running(tmp_path / "home", clock=lambda: 0.0) as server:
        many = int(FAILURES_BURST)
        guesses = statuses(server, (f"{credential}{number}" for number in range(many + 1)))
        assert guesses == [401] * many + [429]
        assert status(server, server.key()) == 200
