"""A store on PostgreSQL: `python -m bench.postgres [--quick] [--large]`; one JSON object on standard output.

The server is one of its own, with its usual durability: what is said to be remembered is on the disk. Real
`memoranda serve` processes are asked over HTTP. A thousand owners share the store. Twenty of them are asked and written
to: what they have came in as an import. The others are there for their weight: rows of the same sizes in the same
tables and indexes, copied inside the database. By words alone: what meaning costs is the same on every database, but
for pgvector, which is measured apart (pgvector.py).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.postgres import Server, start

from bench.cal import grains
from bench.client import Client
from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from bench.oams import memories
from bench.pgvector import measure_pgvector
from bench.served import Served
from bench.store import Store, add_weight
from bench.writers import Door, draft, writers
from memoranda.backup import move_store
from memoranda.opening import open_service
from memoranda.service.exchange.importing import number_items
from memoranda.service.exchange.report import Form
from memoranda.service.service import Service
from memoranda.settings import load_settings
from memoranda.standards.oms.grains import encode

TENANTS: Final = 1_000
ASKED: Final = 20
CLIENTS: Final = 16
NOW_MS: Final = 1_777_291_200_000
# What a machine of this size would be given; all that keeps data safe is as PostgreSQL has it by itself.
SETTINGS: Final = {
    "max_connections": "200",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "listen_addresses": "",
}


def measure_postgres(*, quick: bool = False, large: bool = False) -> Figures:
    """All of it; up to a million memories when large."""
    sizes = {"2k": 2_000} if quick else {"10k": 10_000, "100k": 100_000} | ({"1m": 1_000_000} if large else {})
    rounds = 20 if quick else 300
    cluster = Server(start(SETTINGS))
    figures: Figures = {"postgres.owners": TENANTS, "postgres.embedder": "off"}
    for label, size in sizes.items():
        with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
            store = Store(cluster, Path(folder))
            figures |= _measure_size(store, label, size, rounds)
    first, last = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    for kind in ("recall", "remember"):
        before, after = (figures[f"postgres.{kind}.{label}.one_node.p50_ms"] for label in (first, last))
        figures[f"postgres.{kind}.growth_{first}_to_{last}"] = round(float(after) / float(before), 2)
    figures |= measure_pgvector(cluster, quick=quick)
    return figures | measure_moving(cluster, 1_000 if quick else 100_000)


class _Owner:
    """One of those who are asked."""

    def __init__(self, service: Service, number: int, size: int) -> None:
        self.name = f"did:web:owner-{number}.example"
        self.corpus = Corpus(size, seed=number)
        self.bearer = service.gate.add_key(f"owner {number}", tenant=self.name, scopes=("read", "write"))

    def fill(self, service: Service) -> None:
        report = service.import_items(service.gate.authenticate(self.bearer), number_items("ump", self.corpus.drafts()))
        if report.created != self.corpus.size:
            raise SystemExit(f"only {report.created} of {self.corpus.size} were written: {report.refusals[:1]}")


def _measure_size(store: Store, label: str, size: int, rounds: int) -> Figures:
    say(f"postgres {label}: {size} memories of {TENANTS} owners")
    began = time.perf_counter()
    owners = _fill(store, size // TENANTS)
    figures: Figures = {f"postgres.fill.{label}.s": round(time.perf_counter() - began, 1)}
    for count, word in ((1, "one_node"), (3, "three_nodes")):
        say(f"postgres {label}: {word}")
        with store.nodes(count) as nodes:
            name = f"{label}.{word}"
            figures |= _measure_recall(nodes, owners, name, rounds)
            figures |= _measure_remember(nodes, owners, name, rounds)
    return figures


def _fill(store: Store, size: int) -> list[_Owner]:
    service = open_service(store.settings)
    owners = [_Owner(service, number, size) for number in range(ASKED)]
    for owner in owners:
        owner.fill(service)
    service.close()
    with store.admin() as raw:
        add_weight(raw, TENANTS - ASKED)
        raw.execute("VACUUM ANALYZE")
        raw.execute("CHECKPOINT")
    return owners


def _measure_recall(nodes: Sequence[Served], owners: Sequence[_Owner], name: str, rounds: int) -> Figures:
    """One question after the other, of every owner in turn, at every node in turn."""
    doors = [(node, owner) for owner in owners for node in nodes]
    asked = {owner.name: iter(owner.corpus.questions(2 * rounds)) for owner in owners}
    latencies, found, used = [], 0, 0.0
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(each.host, each.port, owner.bearer)) for each, owner in doors]
        for place in range(len(doors) + rounds):
            if place == len(doors):
                # Each node has met each owner.
                used = sum(node.processor_seconds() for node in nodes)
            query, number = next(asked[doors[place % len(doors)][1].name])
            status, body, milliseconds = clients[place % len(doors)].post("/ump/recall", {"query": query})
            assert status == 200, body
            if place >= len(doors):
                latencies.append(milliseconds)
                found += f"unique{number}" in body.decode()
    used = sum(node.processor_seconds() for node in nodes) - used
    return {
        f"postgres.recall.{name}.p50_ms": percentile(latencies, 0.50),
        f"postgres.recall.{name}.p99_ms": percentile(latencies, 0.99),
        f"postgres.recall.{name}.server_cpu_us": round(used / rounds * 1e6),
        f"postgres.recall.{name}.hit_at_8": round(found / rounds, 3),
    }


def _measure_remember(nodes: Sequence[Served], owners: Sequence[_Owner], name: str, rounds: int) -> Figures:
    """With one client, and with many: each for an owner of its own, and all for one."""
    node, owner = nodes[0], owners[0]
    with Client(node.host, node.port, owner.bearer) as client:
        latencies = [
            client.post("/ump/remember", draft(owner.name, number, f"single-{name}"))[2] for number in range(rounds)
        ]
    doors = [
        Door(nodes[number % len(nodes)].host, nodes[number % len(nodes)].port, each.bearer, each.name)
        for number, each in enumerate(owners[:CLIENTS])
    ]
    one = [door._replace(bearer=owner.bearer, owner=owner.name) for door in doors]
    written = writers(doors, name, rounds, lambda: sum(node.processor_seconds() for node in nodes))
    return {
        f"postgres.remember.{name}.p50_ms": percentile(latencies, 0.50),
        f"postgres.remember.{name}.one_client_per_s": round(1000 * rounds / sum(latencies)),
        f"postgres.remember.{name}.sixteen_clients_per_s": written.per_s,
        f"postgres.remember.{name}.sixteen_clients_server_cpu_us": written.server_cpu_us,
        f"postgres.remember.{name}.sixteen_clients_of_one_owner_per_s": writers(one, f"one-{name}", rounds).per_s,
    }


def measure_moving(cluster: Server, size: int) -> Figures:
    """A store of all kinds of memories, moved there and back."""
    label = f"{size // 1000}k"
    say(f"postgres: moving {size} memories of all kinds there and back")
    with tempfile.TemporaryDirectory(prefix="memoranda-bench-") as folder:
        store = Store(cluster, Path(folder))
        first, back = f"sqlite:///{folder}/memoranda.db", f"sqlite:///{folder}/back/memoranda.db"
        Path(folder, "back").mkdir()
        service = open_service(load_settings({"MEMORANDA_EMBEDDER": "off"}, home=store.home, store=first))
        me = service.gate.local()
        blobs = (encode(fields).blob for fields in grains(Corpus(size // 4), NOW_MS))
        made: dict[Form, Iterable[object]] = {
            "ump": Corpus(size // 2).drafts(),
            "oams": memories(size - size // 2 - size // 4, "m"),
            "oms": blobs,
        }
        created = sum(service.import_items(me, number_items(form, each)).created for form, each in made.items())
        if created != size:
            raise SystemExit(f"only {created} of {size} were written")
        service.close()
        figures: Figures = {}
        for name, (source, target) in {
            "to_postgres": (first, store.address),
            "to_sqlite": (store.address, back),
        }.items():
            began = time.perf_counter()
            rows = move_store(source, target)
            figures[f"postgres.migrate.{label}.{name}_s"] = round(time.perf_counter() - began, 1)
        return {f"postgres.migrate.{label}.rows": rows, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.postgres", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--large", action="store_true", help="a million memories, too")
    arguments = parser.parse_args()
    print(json.dumps(measure_postgres(quick=arguments.quick, large=arguments.large), indent=2))


if __name__ == "__main__":
    main()
