"""Kill -9 while grains are written: what was acknowledged is there, and no link points into nothing."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
import pytest

from memoranda.app import Memoranda
from memoranda.model.selection import Selection
from memoranda.service.service import Service
from memoranda.standards.oms import signature
from tests.proofs.store import opened, processes
from tests.service.world import PEER, grain
from tests.waiting import until

OWNER = "did:example:ada"
ROUNDS = 5
KILL_AFTER_SECONDS = (0.02, 0.12)


def write_grains_for_ever(home: Path, notes: Path, seed: int) -> None:
    """Put, supersede, contest and erase, and note every acknowledgement."""
    chance = random.Random(seed)
    # Not buffered: what was acknowledged is with the kernel, which survives us.
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with Memoranda.open(home, owner=OWNER) as memory:
        grains, access = memory.service.grains, memory.access
        heads: list[str] = []
        number = 0
        while True:
            number += 1
            fields = grain(1_780_000_000_000 + number, object=f"{seed} {number}", user_id=f"u{number % 3}")
            given = signature.sign(fields, PEER, issued_at=1) if number % 4 == 0 else fields
            op = chance.choice(("put", "put", "supersede", "erase", "contest")) if heads else "put"
            prior = heads.pop(chance.randrange(len(heads))) if op != "put" else ""
            address = prior
            if op == "put":
                address = grains.put(access, given).address
            elif op == "supersede":
                address = grains.supersede(access, prior, given).address
            elif op == "erase":
                # Killed in the middle, it may be gone or not.
                os.write(descriptor, orjson.dumps(["erasing", prior, prior]) + b"\n")
                grains.erase(access, prior, reason="proof")
            else:
                grains.set_verification(access, prior, "contested")
            if op != "erase":
                heads.append(address)
            os.write(descriptor, orjson.dumps([op, address, prior]) + b"\n")


def acknowledged(notes: Path) -> list[tuple[str, str, str]]:
    """A line that the kill cut off was never acknowledged."""
    whole, _, _ = notes.read_bytes().rpartition(b"\n")
    return [tuple(orjson.loads(line)) for line in whole.splitlines()]


@pytest.mark.requirement("OMS-17.3-crash")
def test_nothing_acknowledged_is_lost_and_every_link_holds(tmp_path: Path) -> None:
    home, chance = tmp_path / "home", random.Random(5)
    home.mkdir(mode=0o700)
    done: list[tuple[str, str, str]] = []
    for number in range(ROUNDS):
        notes = tmp_path / f"{number}.acks"
        process = processes().Process(target=write_grains_for_ever, args=(home, notes, number))
        process.start()
        until(lambda notes=notes: notes.exists() and notes.stat().st_size > 0, "a grain is acknowledged")  # type: ignore[misc]
        # The random moment is the experiment itself, not a way to wait for something.
        time.sleep(chance.uniform(*KILL_AFTER_SECONDS))
        process.kill()
        process.join()
        process.close()
        done += acknowledged(notes)
        with opened(home) as store:
            _check(store.service, done)
    assert len(done) > 3 * ROUNDS


def line_of(address: str, before: Mapping[str, str]) -> Iterator[str]:
    """Yield a grain and those that it superseded: an erasure takes them all."""
    while address:
        yield address
        address = before.get(address, "")


def _check(service: Service, done: list[tuple[str, str, str]]) -> None:
    grains, access = service.grains, service.gate.local(OWNER)
    before = {address: prior for op, address, prior in done if op == "supersede"}
    erased = {each for op, address, _ in done if op == "erase" for each in line_of(address, before)}
    erasing = {each for op, address, _ in done if op == "erasing" for each in line_of(address, before)}
    open_ended = erasing - erased
    contested = {address for op, address, _ in done if op == "contest"}
    for op, address, prior in done:
        if {address, prior} & open_ended:
            continue
        assert grains.exists(access, address) == (address not in erased), (op, address)
        if op == "supersede":
            assert prior in erased or grains.get(access, prior).index.superseded_by == address
    for address in contested - erased - open_ended:
        assert grains.get(access, address).index.verification_status == "contested"
    after: int | None = 0
    while after is not None:
        page, after = grains.listing(access, Selection(status_filter="recorded"), after=after, limit=500)
        for each in page:
            successor = each.index.superseded_by
            assert (successor is None) == (each.index.system_valid_to is None)
            assert successor is None or successor in erased | open_ended or grains.exists(access, successor)
    report = service.verify(access)
    assert report.ok, report
