"""Several servers on one PostgreSQL with a synchronous standby: a server is killed, then the primary.

Writers and subscribers are at every server, and go to another when theirs is gone, as behind whatever balances load. In
the end every acknowledged write is there once, every subscriber saw every change in order, what fell due was done once,
and the audit chains verify.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from memoranda.encoding.json_text import parse
from memoranda.errors import StoreUnavailable
from memoranda.opening import open_service
from memoranda.service.service import Service
from memoranda.settings import load_settings
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump.record import Record
from tests.chaos.cluster import Cluster
from tests.chaos.served import PASSED
from tests.embedders import WORDS_ALONE
from tests.waiting import until

ROOT: Final = Path(__file__).parents[2]
DAY_MS: Final = 86_400_000
REF: Final = "mem://chaos/agent"
OWNER: Final = "did:example:nodes"
_SCOPES: Final = ("read", "write", "derive", "export", "erase")
# What a machine needs of the first one's data directory.
_KEYS: Final = ("operator.key", "master.key")
WRITERS_EACH: Final = 2
# Of each writer, between two writes: what is written is read again and again in the end.
PAUSE_SECONDS: Final = 0.03
_DRAFT: Final = {
    "kind": "semantic",
    "scope": {"owner": OWNER, "project": "nodes"},
    "provenance": {"actor": OWNER, "actor_kind": "user", "method": "chaos"},
}


class Node:
    """One server process, with a data directory of its own."""

    def __init__(self, home: Path, address: str, offset: Path) -> None:
        self.home, self._address, self._offset = home, address, offset
        self.url: str | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORANDA_")}
        environment = {**kept, **WORDS_ALONE, "MEMORANDA_HOME": str(self.home), "MEMORANDA_STORE": self._address}
        command = [
            sys.executable,
            "-m",
            "tests.chaos.served",
            str(self._offset),
            PASSED,
            "--json",
            "serve",
            "--port",
            "0",
        ]
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, cwd=ROOT)

    def wait(self) -> None:
        """Until it answers."""
        assert self._process is not None
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, (self.home / "server.log").read_text()[-2_000:]
        self.url = parse(said)["url"]

    def kill(self) -> None:
        self.url = None
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Client(threading.Thread, ABC):
    """Somebody at one of the servers, who goes to the next when that one is gone."""

    def __init__(self, nodes: Sequence[Node], number: int, key: str) -> None:
        super().__init__(name=f"client {number}")
        self._nodes, self._at = nodes, number % len(nodes)
        self.number, self._headers = number, {"Authorization": f"Bearer {key}"}
        self.stopping = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                url = self._nodes[self._at].url
                if url is not None:
                    with httpx.Client(base_url=url, headers=self._headers, timeout=60) as client:
                        self.use(client, lambda url=url: self._nodes[self._at].url == url)  # type: ignore[misc]
                self._at = (self._at + 1) % len(self._nodes)
        except Exception as error:  # noqa: BLE001 -- told by whoever waits for this thread
            self.failure = error

    @abstractmethod
    def use(self, client: httpx.Client, is_there: Callable[[], bool]) -> None:
        """Do at one server what is to be done, as long as it is there."""


class Writer(Client):
    """Remembers one text after the other, each only once: what got no answer is not tried again."""

    def __init__(self, nodes: Sequence[Node], number: int, key: str) -> None:
        super().__init__(nodes, number, key)
        self._count = 0
        self.acknowledged: dict[str, str] = {}
        self.unsure: set[str] = set()
        # Of both, what ends within a day.
        self.ending: set[str] = set()

    def use(self, client: httpx.Client, is_there: Callable[[], bool]) -> None:
        while not self.stopping.is_set() and is_there():
            self._count += 1
            text = f"mark{self.number}x{self._count}e is remembered"
            draft: dict[str, Any] = {**_DRAFT, "body": {"text": text}}
            if self._count % 5 == 0:
                draft["consent"] = {"retention": "PT1H"}
                self.ending.add(text)
            try:
                answer = client.post("/ump/remember", json=draft)
            except httpx.HTTPError:
                self.unsure.add(text)
                return
            if answer.status_code < 300:
                self.acknowledged[text] = answer.json()["id"]
            else:
                assert answer.status_code == 503, answer.text
                self.unsure.add(text)
            self.stopping.wait(PAUSE_SECONDS)


class Subscriber(Client):
    """Listens to all changes, and goes on behind the last one that it saw."""

    def __init__(self, nodes: Sequence[Node], number: int, key: str) -> None:
        super().__init__(nodes, number, key)
        # (place, type, id)
        self.events: list[tuple[int, str, str]] = []
        self._place = 0

    def use(self, client: httpx.Client, is_there: Callable[[], bool]) -> None:
        headers = {"Last-Event-ID": str(self._place)}
        try:
            with client.stream("GET", "/ump/subscribe", headers=headers, timeout=20) as stream:
                if stream.status_code != 200:
                    self.stopping.wait(0.2)
                    return
                self._follow(stream.iter_lines(), is_there)
        except httpx.HTTPError:
            return

    def _follow(self, lines: Iterator[str], is_there: Callable[[], bool]) -> None:
        kind, place = "", 0
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                place = int(value)
            elif name == "data":
                self.events.append((place, kind, parse(value.encode())["id"]))
                self._place = place
            if self.stopping.is_set() or not is_there():
                return

    @property
    def last(self) -> int:
        return self._place


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of it; `violations` must stay empty."""

    rounds: int = 0
    acknowledged: int = 0
    unsure: int = 0
    events: int = 0
    expired: int = 0
    scheduled: int = 0
    commitments: int = 0
    # How long after the primary was killed a write was acknowledged again, in seconds.
    outages: list[float] = field(default_factory=list)
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


class Nodes:
    """The servers, who is at them, and somebody who looks at the store itself."""

    def __init__(self, folder: Path, database: Cluster, *, count: int) -> None:
        self._cluster = database
        self._offset = folder / "clock"
        self._offset.write_text("0")
        self.outcome, self._days = Outcome(), 0
        # How far the two logs were read, and what they say was done.
        self._seen = [0, 0]
        self._operations: Counter[str] = Counter()
        self._expired: Counter[str] = Counter()
        first = folder / "home0"
        self._settings = load_settings(WORDS_ALONE, home=first, store=database.address)
        self.observer = open_service(self._settings)
        key = _prepared(self.observer)
        self.nodes = [Node(folder / f"home{number}", database.address, self._offset) for number in range(count)]
        for node in self.nodes[1:]:
            node.home.mkdir(mode=0o700)
            for name in _KEYS:
                shutil.copy2(first / name, node.home)
        self.writers = [Writer(self.nodes, number, key) for number in range(WRITERS_EACH * count)]
        self.subscribers = [Subscriber(self.nodes, number, key) for number in range(count)]

    @contextmanager
    def running(self) -> Iterator[None]:
        self.bring_all()
        clients: list[Client] = [*self.writers, *self.subscribers]
        for client in clients:
            client.start()
        try:
            yield
            self._stop(self.writers)
            end = self._feed_end()
            until(lambda: all(each.last >= end or each.failure for each in self.subscribers), "all changes are seen")
        finally:
            self._stop(clients)
            for node in self.nodes:
                node.kill()

    def _stop(self, clients: Sequence[Client]) -> None:
        for client in clients:
            client.stopping.set()
        if clients is not self.writers:
            # A subscriber waits for the next event.
            for node in self.nodes:
                node.kill()
        for client in clients:
            client.join()

    def bring_all(self) -> None:
        missing = [node for node in self.nodes if node.url is None]
        for node in missing:
            node.start()
        for node in missing:
            node.wait()

    def round(self, rng: random.Random, acts: int) -> None:
        """A night comes and a server is killed in it; then the primary, and another night."""
        self._wait_for_acts(acts)
        self._next_day()
        rng.choice(self.nodes).kill()
        self._wait_for_night()
        self._wait_for_acts(acts)
        lost = time.monotonic()
        self._cluster.lose_primary()
        self._wait_for_acts(1)
        self.outcome.outages.append(round(time.monotonic() - lost, 2))
        self._next_day()
        self._wait_for_night()
        self._wait_for_acts(acts)
        self.bring_all()
        self._cluster.bring_standby()
        self._wait_for_acts(acts)
        self.outcome.rounds += 1

    def _wait_for_acts(self, count: int) -> None:
        enough = self._acts() + count
        until(lambda: self._acts() >= enough or self._failures(), "writes are acknowledged")
        assert not self._failures(), self._failures()

    def _acts(self) -> int:
        return sum(len(writer.acknowledged) for writer in self.writers)

    def _failures(self) -> list[Exception]:
        return [each.failure for each in (*self.writers, *self.subscribers) if each.failure is not None]

    def _next_day(self) -> None:
        self._days += 1
        self._offset.write_text(str(self._days * DAY_MS))

    def _wait_for_night(self) -> None:
        until(self._is_night_over, "what was due is done")

    # --- what is left ----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read on in the audit log and in the log of events."""
        with self.observer.context.engine.open_snapshot(OWNER) as snapshot:
            while page := snapshot.list_audit_after(self._seen[0], 500):
                self._seen[0] = page[-1][0]
                for entry in (parse(data) for _, data in page):
                    self._operations[entry["op"]] += 1
                    if entry["op"] == "expire":
                        self._expired.update(entry["targets"])
            while events := snapshot.list_run_events_after(self._seen[1], 500):
                self._seen[1] = events[-1][0]
                self._operations.update(parse(data)["type"] for _, data in events)

    @property
    def _nights(self) -> tuple[int, int]:
        """How many distillations there were, and how many commitments fired."""
        return self._operations["openwop.distill"], self._operations["commitment.fired"]

    def _is_night_over(self) -> bool:
        with suppress(StoreUnavailable):  # It is away for a moment.
            self._look()
        return min(self._nights) >= self._days

    def _feed_end(self) -> int:
        with self.observer.context.engine.open_snapshot(OWNER) as snapshot:
            return snapshot.find_last_change()

    def check(self) -> Outcome:
        """Compare what is left with what was promised."""
        found, wrong = self.outcome, self.outcome.violations
        wrong += [f"{type(each).__name__}: {each}" for each in self._failures()]
        self.observer.purge()
        report = self.observer.verify_store()
        if not report.ok:
            wrong.append(f"verify: {report}")
        self._check_writes()
        self._check_feeds()
        self._look()
        (found.scheduled, found.commitments), expired = self._nights, self._expired
        found.expired = expired.total()
        wrong += [f"{name} expired {times} times" for name, times in expired.items() if times > 1]
        ended = {self.acknowledged[text] for text in self._ending() if text in self.acknowledged}
        wrong += [f"{name} did not expire" for name in self._over(ended) - expired.keys()]
        for what, times in (("distillations", found.scheduled), ("commitments fired", found.commitments)):
            if times != self._days:
                wrong.append(f"{times} {what} in {self._days} nights")
        return found

    @property
    def acknowledged(self) -> dict[str, str]:
        return {text: name for writer in self.writers for text, name in writer.acknowledged.items()}

    def _ending(self) -> set[str]:
        return {text for writer in self.writers for text in writer.ending}

    def _over(self, names: set[str]) -> set[str]:
        """Of these, what no one is shown any more."""
        there = {record["id"] for record in self._records()}
        return names - there

    def _records(self) -> list[Record]:
        return list(self.observer.export(self.observer.gate.local(OWNER), history=False))

    def _check_writes(self) -> None:
        found, wrong = self.outcome, self.outcome.violations
        acknowledged, unsure = self.acknowledged, {text for writer in self.writers for text in writer.unsure}
        found.acknowledged, found.unsure = len(acknowledged), len(unsure)
        there = Counter(record["body"]["text"] for record in self._records())
        wrong += [f"{text}: there {times} times" for text, times in there.items() if times > 1]
        wrong += [f"{text}: acknowledged and gone" for text in acknowledged.keys() - there.keys() - self._ending()]
        ours = {text for text in there if text.startswith("mark")}
        wrong += [f"{text}: never written" for text in ours - acknowledged.keys() - unsure]

    def _check_feeds(self) -> None:
        found, wrong = self.outcome, self.outcome.violations
        stays = {name for text, name in self.acknowledged.items() if text not in self._ending()}
        for each in self.subscribers:
            places = [place for place, _, _ in each.events]
            found.events += len(places)
            if places != sorted(set(places)):
                wrong.append(f"subscriber {each.number}: changes out of order, or twice")
            created = Counter(name for _, kind, name in each.events if kind == "created")
            odd = [name for name in stays if created[name] != 1]
            wrong += [f"subscriber {each.number}: {name} seen {created[name]} times" for name in odd]


def _prepared(service: Service) -> str:
    """Something that falls due every night; the key of the one owner."""
    local = service.gate.local(OWNER)
    for text in ("Remind me to call Ann every day at 08:00.", "The orchids stand by the window and need little water."):
        service.openwop.put_entry(local, REF, Draft(content=text, tags=(), expires=None))
    service.openwop.schedule(local, REF, "0 3 * * *")
    assert service.openwop.infer_commitments(local, REF)
    return service.gate.add_key("chaos", tenant=OWNER, scopes=_SCOPES)


def run(folder: Path, *, seed: int, minutes: float = 0.0, count: int = 3, acts: int = 150) -> Outcome:
    """Rounds until the time is over, one at least."""
    started, rng = time.monotonic(), random.Random(seed)
    with ExitStack() as stack:
        database = stack.enter_context(closing(Cluster()))
        nodes = Nodes(folder, database, count=count)
        stack.enter_context(closing(nodes.observer))
        with nodes.running():
            nodes.round(rng, acts)
            while time.monotonic() < started + minutes * 60:
                nodes.round(rng, acts)
        outcome = nodes.check()
    outcome.seconds = round(time.monotonic() - started, 1)
    return outcome
