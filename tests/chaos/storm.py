"""Rounds of load and composed faults; after each round the store is compared with what was promised."""

from __future__ import annotations

import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from memoranda.app import Memoranda
from memoranda.backup import back_up, restore
from memoranda.encoding.json_text import parse
from memoranda.errors import MemorandaError
from memoranda.opening import open_service
from memoranda.settings import load_settings
from memoranda.storage.engine.database import Loss
from memoranda.storage.sqlite.heads import losses_path
from tests.chaos.owners import Act, Owner, marks_in
from tests.embedders import WORDS_ALONE
from tests.forking import Forked
from tests.outside import query

ROOT: Final = Path(__file__).parents[2]
DATABASE: Final = "memoranda.db"
ACTS_PER_SECOND: Final = 25
# What happens to a server while it runs, and what to its files when it was killed.
_LIVE: Final = ("clock", "disk", "look")
# Another program reads. It does not write: versions of SQLite before 3.51.3 can damage a log that two write to.
_LOOKS: Final = ("SELECT count(*) FROM version", "SELECT count(*) FROM state", "SELECT count(*) FROM audit")
FAULTS: Final = (*_LIVE, "kill", "log", "pages")
_SCOPES: Final = ("read", "write", "derive", "export", "erase")
_GARBAGE: Final = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
    b"POST /ump/recall HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer nobody\r\nContent-Length: 9999\r\n\r\n{",
    b"\x00\xff" * 500,
    b"GET /ump/memory/%00%ff HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a storm did; `violations` must stay empty."""

    rounds: Counter[str] = field(default_factory=Counter)
    # How many servers were killed, all of them in the end, and how often each status was answered; 0 is no answer.
    kills: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    acknowledged: int = 0
    unanswered: int = 0
    # Versions that damage on purpose took, each reported exactly.
    reported_lost: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


class Storm:
    """One store, its server, and its owners."""

    def __init__(self, folder: Path, *, seed: int, owners: int = 4) -> None:
        self.home, self._folder = folder / "home", folder
        self._offset = folder / "clock"
        self._offset.write_text("0")
        self._backup = folder / "store.backup"
        self.rng = random.Random(seed)
        self.outcome = Outcome()
        with Memoranda.open(self.home) as memoranda:
            gate = memoranda.service.gate
            tenants = [f"did:example:owner{number}" for number in range(owners)]
            keys = [gate.add_key("chaos", tenant=tenant, scopes=_SCOPES) for tenant in tenants]
        made = zip(range(owners), tenants, keys, strict=True)
        self.owners = [Owner(number, tenant, key, random.Random(seed + number)) for number, tenant, key in made]

    # --- the server ------------------------------------------------------------------------------------------

    @contextmanager
    def served(self) -> Iterator[tuple[Forked, str]]:
        """The server; killed in the end, if it still lives."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
        command = [sys.executable, "-m", "tests.chaos.served", str(self._offset), "--json", "serve", "--port", "0"]
        environment = {**kept, "MEMORANDA_HOME": str(self.home), "MEMORANDA_EMBEDDER": "off"}
        log = (self._folder / "server.log").open("ab")
        with log, Forked(command, env=environment, stdout=subprocess.PIPE, stderr=log.fileno(), cwd=ROOT) as process:
            try:
                assert process.stdout is not None
                said = process.stdout.readline()
                assert said, "the server did not start"
                yield process, parse(said)["url"]
            finally:
                process.kill()

    @contextmanager
    def loaded(self, url: str) -> Iterator[None]:
        """Owners and strangers at the server; when this ends, nobody asks any more."""
        stop = threading.Event()
        threads = [threading.Thread(target=owner.run, args=(url, stop)) for owner in self.owners]
        threads.append(threading.Thread(target=self._bother, args=(url, stop)))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _bother(self, url: str, stop: threading.Event) -> None:
        """Somebody without a credential who sends rubbish, slowly, and reads nothing."""
        address, rng, held = urlsplit(url), random.Random(1), list[socket.socket]()
        while not stop.wait(0.02):
            with suppress(OSError):
                connection = socket.create_connection((address.hostname, address.port), timeout=5)
                connection.settimeout(0.2)
                held.append(connection)
                connection.sendall(rng.choice(_GARBAGE))
            if len(held) > 50:
                held.pop(0).close()
        for each in held:
            each.close()

    def _pause(self, seconds: float) -> None:
        """As long as it takes to act so often as in so many seconds of a quiet machine, or a few times that."""
        enough = self._acts() + seconds * ACTS_PER_SECOND * len(self.owners)
        until = time.monotonic() + 20 * seconds
        while self._acts() < enough and time.monotonic() < until:
            # The moment of a fault is to be any, not one that something waited for.
            time.sleep(0.005)

    def _acts(self) -> int:
        return sum(len(owner.acts) for owner in self.owners)

    # --- rounds ----------------------------------------------------------------------------------------------

    def round(self, faults: Collection[str], seconds: float) -> None:
        """One life of a server under load and faults, its end, and a look at what is left."""
        with self.served() as (process, url):
            with self.loaded(url):
                self._pause(seconds)
                for fault in (each for each in faults if each in _LIVE):
                    getattr(self, f"_{fault}")(process, seconds)
                promised = [len(owner.acts) for owner in self.owners]
                if "pages" in faults:
                    back_up(load_settings(WORDS_ALONE, home=self.home), self._backup)
                    self._pause(seconds)
                if "log" not in faults:
                    process.kill()
            process.kill()
        self._offset.write_text("0")
        acts = [list(owner.acts) for owner in self.owners]
        if "log" in faults:
            self._damage_log()
        self._check(is_damaged="log" in faults)
        if "pages" in faults:
            self._damage_pages()
            self._restore(promised, acts)
        self.outcome.rounds.update(faults)
        self.outcome.kills += 1
        for owner in self.owners:
            self.outcome.violations += owner.violations
            owner.violations.clear()

    def _clock(self, _: Forked, seconds: float) -> None:
        """The clock goes back and forth by hours."""
        for __ in range(3):
            self._offset.write_text(str(self.rng.randrange(-36_000_000, 36_000_000)))
            self._pause(seconds / 3)

    def _disk(self, process: Forked, seconds: float) -> None:
        """The disk takes no more for a while; when it does again, everything goes on."""
        log = self.home / f"{DATABASE}-wal"
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, -1))
        self._pause(seconds)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        self._pause(seconds / 2)
        refused = [owner.refused for owner in self.owners]
        self._pause(seconds / 2)
        if [owner.refused for owner in self.owners] != refused:
            self.outcome.violations.append("writes were refused though there was room again")

    def _look(self, _: Forked, seconds: float) -> None:
        """Another program looks into the database and goes away again; nobody notices."""
        refused = [owner.refused for owner in self.owners]
        for sql in _LOOKS:
            query(self.home / DATABASE, sql)
            self._pause(seconds / len(_LOOKS))
        if [owner.refused for owner in self.owners] != refused:
            self.outcome.violations.append("writes were refused after another program had looked into the database")

    def _damage_log(self) -> None:
        """Flip a bit of the log, or cut its end off, as a disk that lies does in a crash."""
        log = self.home / f"{DATABASE}-wal"
        data = bytearray(log.read_bytes()) if log.exists() else bytearray()
        if data and self.rng.random() < 0.5:
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        else:
            data = data[: self.rng.randrange(len(data) + 1)]
        log.write_bytes(data)

    def _restore(self, promised: list[int], acts: list[list[Act]]) -> None:
        """The backup comes back: with all that was acknowledged before it, and nothing that was forgotten."""
        restore(load_settings(WORDS_ALONE, home=self.home), self._backup, force=True)
        for aside in self.home.glob("replaced-*"):
            shutil.rmtree(aside)
        actual_of = self._actual()
        for owner, least, known in zip(self.owners, promised, acts, strict=True):
            actual, owner.acts = actual_of[owner.tenant], known
            count = owner.matching(actual, at_least=least)
            if count is None:
                self.outcome.violations.append(f"{owner.tenant}: the backup lacks what was acknowledged before it")
            else:
                owner.go_back(count, actual)

    def _damage_pages(self) -> None:
        path = self.home / DATABASE
        with Memoranda.open(self.home):
            pass  # Takes the log in.
        data = bytearray(path.read_bytes())
        for _ in range(64):
            data[self.rng.randrange(100, len(data))] ^= 0xFF
        path.write_bytes(data)
        try:
            with closing(open_service(load_settings(WORDS_ALONE, home=self.home))) as service:
                noticed = not service.verify_store().ok
        except MemorandaError:
            noticed = True
        if not noticed:
            self.outcome.violations.append("64 damaged bytes were not noticed")

    # --- what is left ----------------------------------------------------------------------------------------

    def _actual(self) -> dict[str, set[str]]:
        """What each owner has; and everything verifies."""
        found = {}
        with closing(open_service(load_settings(WORDS_ALONE, home=self.home))) as service:
            for owner in self.owners:
                records = service.export(service.gate.local(owner.tenant), history=False)
                found[owner.tenant] = {mark for each in records for mark in marks_in(each["body"]["text"])}
            report = service.verify_store()
        if not report.ok:
            self.outcome.violations.append(f"verify: {report}")
        return found

    def _check(self, *, is_damaged: bool = False) -> None:
        """Everything that was acknowledged is there, and nothing forgotten; but for what is reported missing."""
        losses = self._losses()
        if losses and not is_damaged:
            self.outcome.violations.append(f"something is missing: {losses[0].message}")
        actual_of = self._actual()
        for owner in self.owners:
            actual = actual_of[owner.tenant]
            count = owner.matching(actual)
            reported = sum(each.versions for each in losses if each.owner == owner.tenant)
            if count is None:
                self.outcome.violations.append(f"{owner.tenant}: not what any beginning of its acts leaves")
                continue
            gone = owner.acts[count:]
            sure = sum(act.versions for act in gone if act.is_sure)
            if not sure <= reported <= sum(act.versions for act in gone):
                self.outcome.violations.append(f"{owner.tenant}: {sure} versions are gone, and {reported} reported")
            if gone and not is_damaged:
                self.outcome.violations.append(f"{owner.tenant}: {len(gone)} acknowledged acts are gone")
            self.outcome.reported_lost += reported
            owner.go_back(count, actual)

    def _losses(self) -> list[Loss]:
        """What is reported missing; looked after."""
        with closing(open_service(load_settings(WORDS_ALONE, home=self.home))) as service:
            found = service.context.engine.list_losses()
        losses_path(self.home / DATABASE).unlink(missing_ok=True)
        return found

    def finish(self) -> Outcome:
        self.outcome.acknowledged = sum(owner.answered for owner in self.owners)
        self.outcome.unanswered = sum(owner.refused for owner in self.owners)
        self.outcome.statuses = sum((owner.statuses for owner in self.owners), Counter())
        return self.outcome


def run(folder: Path, *, seed: int, minutes: float, seconds: float = 4.0) -> Outcome:
    """Rounds until the time is over, each with some of the faults, in an order of their own."""
    started = time.monotonic()
    storm = Storm(folder, seed=seed)
    while time.monotonic() < started + minutes * 60 and not storm.outcome.violations:
        faults = storm.rng.sample(FAULTS, storm.rng.randint(1, len(FAULTS)))
        storm.round(faults, seconds * storm.rng.uniform(0.5, 1.5))
    outcome = storm.finish()
    outcome.seconds = time.monotonic() - started
    return outcome
