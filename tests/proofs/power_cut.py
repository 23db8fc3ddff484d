"""A simulated power cut.

Theory of operation. `Recorder` is an SQLite VFS that passes everything through to the real files and writes down
every write, truncation, deletion and fsync in one sequence, the `Ack`s of finished calls among them. `Disk`
replays such a sequence up to a cut, as a disk with a volatile cache would see it: what was written before a
file's last fsync is there; of what came after, nothing is (`keep=0`), or any sectors of it are, in any order,
writes torn in the middle.

    python -m tests.proofs.power_cut --cuts 240
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from memoranda.keys import OPERATOR_KEY_FILE, operator_key
from memoranda.opening import system_clock
from memoranda.standards.ump.requests import FeedbackRequest, ForgetRequest, ReviseRequest
from memoranda.storage.sqlite.database import SqliteDatabase
from tests.proofs.ledger import Ack, Op, check_kept, check_whole, digest
from tests.proofs.store import DATABASE_FILE, Store, build, draft, opened

SECTOR_BYTES = 512
TENANTS = ("did:example:ada", "did:example:bob")
REASON = "power cut"


@dataclass(frozen=True, slots=True)
class Write:
    file: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    file: str


@dataclass(frozen=True, slots=True)
class Delete:
    file: str


@dataclass(frozen=True, slots=True)
class Erasing:
    """An erasure was asked for; until it is acknowledged, it may have happened or not."""

    names: tuple[str, ...]


Step = Write | Truncate | Sync | Delete | Erasing | Ack


class Recorder(apsw.VFS):
    """A VFS that keeps a trace of what reaches the disk."""

    def __init__(self, name: str) -> None:
        self.trace: list[Step] = []
        self.vfs_name = name
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self.trace, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.trace.append(Delete(Path(filename).name))


class _File(apsw.VFSFile):
    def __init__(self, trace: list[Step], name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._trace = trace
        self._name = Path(path or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._trace.append(Write(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._trace.append(Truncate(self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._trace.append(Sync(self._name))


@dataclass(slots=True)
class Disk:
    """What is safely on the disk, and what is still in its cache."""

    # A file whose fsync does nothing: to see that the proof would notice.
    deaf_to: str = ""

    safe: dict[str, bytearray] = field(default_factory=dict)
    cached: list[Write | Truncate] = field(default_factory=list)

    def apply(self, step: Step) -> None:
        if isinstance(step, Write | Truncate):
            self.cached.append(step)
        elif isinstance(step, Sync) and step.file != self.deaf_to:
            # A file's fsync says nothing about other files.
            for each in self.cached:
                if each.file == step.file:
                    _put(self.safe, each)
            self.cached = [each for each in self.cached if each.file != step.file]
        elif isinstance(step, Delete):
            self.safe.pop(step.file, None)
            self.cached = [each for each in self.cached if each.file != step.file]

    def after_cut(self, chance: random.Random, keep: float) -> dict[str, bytearray]:
        """The files as they are when the power comes back; each cached sector was written with chance `keep`."""
        files = {name: bytearray(data) for name, data in self.safe.items()}
        for each in self.cached:
            parts = _sectors(each) if isinstance(each, Write) else (each,)
            for part in parts:
                if chance.random() < keep:
                    _put(files, part)
        return files


def _sectors(write: Write) -> Iterator[Write]:
    start = 0
    while start < len(write.data):
        end = start + SECTOR_BYTES - (write.offset + start) % SECTOR_BYTES
        yield Write(write.file, write.offset + start, write.data[start:end])
        start = end


def _put(files: dict[str, bytearray], step: Write | Truncate) -> None:
    content = files.setdefault(step.file, bytearray())
    end = step.size if isinstance(step, Truncate) else step.offset + len(step.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if isinstance(step, Write):
        content[step.offset : end] = step.data
    else:
        del content[end:]


@contextmanager
def recorded(folder: Path) -> Iterator[tuple[Store, list[Step]]]:
    """A store whose every step towards the disk is written down."""
    recorder = Recorder(f"recorder-{folder.name}-{time.monotonic_ns()}")
    try:
        database = SqliteDatabase(folder / DATABASE_FILE, vfs=recorder.vfs_name)
        store = build(database, operator_key(folder), system_clock)
        try:
            yield store, recorder.trace
        finally:
            store.service.close()
    finally:
        recorder.unregister()


class Workload:
    """Random writes of all kinds and sizes, each acknowledged in the trace."""

    def __init__(self, store: Store, trace: list[Step], chance: random.Random) -> None:
        self._store = store
        self._trace = trace
        self._chance = chance
        self._open: list[tuple[str, str]] = []
        self._priors: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def step(self, number: int) -> None:
        actions: tuple[Callable[[str], Ack], ...] = (self._remember, self._revise, self._forget, self._erase)
        chosen = self._chance.choices((*actions, self._feedback), (8, 3, 1, 1, 1))[0]
        text = f"fact{number} {''.join(self._chance.choices('abcdef ', k=self._chance.choice((30, 900, 9_000))))}"
        self._trace.append((chosen if self._open else self._remember)(text))

    def _take(self) -> tuple[str, str]:
        return self._open.pop(self._chance.randrange(len(self._open)))

    def _ack(self, op: Op, tenant: str, name: str, *, prior: str = "") -> Ack:
        return Ack(op=op, tenant=tenant, id=name, digest=digest(self.texts[name]), prior=prior)

    def _remember(self, text: str) -> Ack:
        tenant = self._chance.choice(TENANTS)
        name = self._store.service.remember(self._store.access(tenant), draft(tenant, text)).id
        self._open.append((tenant, name))
        self.texts[name] = text
        return self._ack("remember", tenant, name)

    def _revise(self, text: str) -> Ack:
        tenant, prior = self._take()
        request = ReviseRequest.parse({"id": prior, "patch": {"body": {"text": text}}})
        name = self._store.service.revise(self._store.access(tenant), request).id
        self._open.append((tenant, name))
        self.texts[name], self._priors[name] = text, prior
        return self._ack("revise", tenant, name, prior=prior)

    def _forget(self, _: str) -> Ack:
        tenant, name = self._take()
        self._store.service.forget(self._store.access(tenant), ForgetRequest(id=name, reason=REASON))
        return self._ack("forget", tenant, name)

    def _erase(self, _: str) -> Ack:
        tenant, name = self._take()
        self._trace.append(Erasing(tuple(self._chain(name))))
        self._store.service.forget(self._store.access(tenant), ForgetRequest(id=name, reason=REASON, hard=True))
        return Ack(op="erase", tenant=tenant, id=name, digest=digest(f"[erased: {REASON}]"))

    def _feedback(self, _: str) -> Ack:
        tenant, name = self._chance.choice(self._open)
        self._store.service.feedback(self._store.access(tenant), FeedbackRequest(id=name, outcome="followed"))
        return self._ack("feedback", tenant, name)

    def _chain(self, name: str) -> Iterator[str]:
        while name:
            yield name
            name = self._priors.get(name, "")


@dataclass(slots=True)
class Promises:
    """What was acknowledged before the cut, and what may have been erased by then."""

    acks: list[Ack] = field(default_factory=list)
    erased: set[str] = field(default_factory=set)
    erasing: set[str] = field(default_factory=set)

    def note(self, step: Step) -> None:
        if isinstance(step, Erasing):
            self.erasing.update(step.names)
        elif isinstance(step, Ack):
            self.acks.append(step)
            if step.op == "erase":
                self.erased |= self.erasing
                self.erasing.clear()

    def standing(self) -> list[Ack]:
        """Those whose content must be there: not erased since, and not being erased when the power went."""
        gone = self.erased | self.erasing
        return [ack for ack in self.acks if ack.op == "erase" or ack.id not in gone]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run did."""

    cuts: int
    writes: int
    acks_checked: int
    seconds: float


def run(folder: Path, *, cuts: int, seed: int, writes: int = 150, deaf_to: str = "") -> Outcome:
    """Record a workload once, then cut the power at random places of it."""
    started = time.monotonic()
    chance = random.Random(seed)
    home = folder / "home"
    home.mkdir(mode=0o700)
    with recorded(home) as (store, trace):
        workload = Workload(store, trace, chance)
        for number in range(writes):
            workload.step(number)
    first_ack = next(index for index, step in enumerate(trace) if isinstance(step, Ack))
    disk, promises, done, checked = Disk(deaf_to), Promises(), 0, 0
    for number, cut in enumerate(sorted(chance.randrange(first_ack, len(trace)) for _ in range(cuts))):
        for step in trace[done:cut]:
            disk.apply(step)
            promises.note(step)
        done = cut
        # Every other cut loses the whole cache; the rest keep some of it.
        files = disk.after_cut(chance, keep=chance.choice((0.1, 0.5, 0.9)) if number % 2 else 0.0)
        after = folder / f"cut-{number}"
        _restore(after, home, files)
        _check_after(after, promises, workload.texts)
        shutil.rmtree(after)
        checked += len(promises.acks)
    return Outcome(cuts=cuts, writes=writes, acks_checked=checked, seconds=time.monotonic() - started)


def _restore(folder: Path, home: Path, files: dict[str, bytearray]) -> None:
    folder.mkdir(mode=0o700)
    shutil.copy2(home / OPERATOR_KEY_FILE, folder)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _check_after(folder: Path, promises: Promises, texts: dict[str, str]) -> None:
    with opened(folder) as store:
        check_kept(store, promises.standing())
        check_whole(store, promises.acks)
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    for name in promises.erased:
        assert texts[name].encode() not in content, f"{name} was erased, and is back after the power cut"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), cuts=arguments.cuts, seed=arguments.seed, writes=400))


if __name__ == "__main__":
    main()
