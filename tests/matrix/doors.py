"""Every way to write, to change and to read a memory, under one name each: what the matrix is made of.

All of them work in one space of one owner, so that a memory written through any is there for all the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from memoranda.encoding.bases import base64_decode
from memoranda.encoding.shapes import parse_value
from memoranda.errors import MemorandaError
from memoranda.model.instant import Instant, format_instant, parse_instant
from memoranda.model.memory import NATIVE_KEY, Version
from memoranda.model.selection import Selection
from memoranda.service.core.access import Access
from memoranda.service.exchange.importing import Item, number_items
from memoranda.service.oms.views import to_json_value, to_stored_grain
from memoranda.service.openwop.memory import id_of
from memoranda.standards.oams.mapping import EXPIRES_KEY
from memoranda.standards.oms import grains as codec
from memoranda.standards.oms import signature
from memoranda.standards.oms.mapping import VIEWS
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.openwop.entry import Draft, ListOptions
from memoranda.standards.ump.requests import AuditRequest, RecallRequest, RehydrateRequest
from tests.service.oams_verbs import Oams, namespace
from tests.service.world import PEER, World, grain

SPACE: Final = "lab"
DAY: Final = 86_400_000


class House(World):
    """One owner's store, with the doors of all standards to one space."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.oams = Oams(self, namespace(self.owner.default_tenant, SPACE))

    @property
    def tenant(self) -> str:
        return self.owner.default_tenant

    def head(self, text: str) -> Version:
        """The only version that is current and says this."""
        with self.engine.open_snapshot(self.tenant) as snapshot:
            found = [each.version_id for each in snapshot.load_page(Selection(), limit=500, now=self.now)]
            versions = [each for each in snapshot.load_versions(found) if text.encode() in each.document.native]
        assert len(versions) == 1, (text, len(versions))
        return versions[0]

    def names(self, version: Version) -> Mapping[str, str]:
        """What every standard calls a version, or its memory."""
        with self.engine.open_snapshot(self.tenant) as snapshot:
            names = snapshot.load_names(version.version_id)
            entry = id_of(snapshot, version)
        address = to_stored_grain(self.context, version).address
        return {"ump": names["ump"], "oms": address, "openwop": entry, "oams": entry}

    def cal(self, text: str, *, access: Access | None = None, **params: Any) -> dict[str, Any]:
        answer = self.service.cal.run(access or self.owner, text, params=params, namespace=SPACE, approve=True)
        assert isinstance(answer, dict)
        return answer


# --- thirteen ways to write ------------------------------------------------------------------------------------------

Write = Callable[[House, str], object]


def _record(house: House, text: str, **fields: Any) -> Any:
    return house.draft(text, scope={"project": SPACE}, **fields)


def _fields(house: House, text: str, **fields: Any) -> dict[str, Any]:
    return grain(house.now, subject="house", relation="says", object=text, namespace=SPACE, **fields)


def key(text: str) -> str:
    """The key of a memory, which does not give its text away."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _imported(house: House, items: Iterable[Item]) -> None:
    report = house.service.import_items(house.owner, items)
    assert report.refused == 0, report


def _in_run(house: House, text: str) -> None:
    run = house.service.openwop.begin_run(house.owner, "tests.matrix")
    house.service.openwop.put_entry(house.owner, SPACE, Draft(content=text), run_id=run.run_id)
    house.service.openwop.finish_run(house.owner, run.run_id)


WRITES: Final[Mapping[str, Write]] = {
    "ump remember": lambda house, text: house.service.remember(house.owner, _record(house, text)),
    "ump file": lambda house, text: _imported(house, number_items("ump", [_record(house, text)])),
    "oams store": lambda house, text: house.oams.store(key(text), text),
    "oams batch": lambda house, text: house.oams.batch([house.oams.memory(key(text), text)]),
    "oams file": lambda house, text: _imported(house, number_items("oams", [house.oams.complete(key(text), text)])),
    "oms put": lambda house, text: house.service.grains.put(house.owner, _fields(house, text)),
    "oms put bytes": lambda house, text: house.service.grains.put(house.owner, codec.encode(_fields(house, text)).blob),
    "oms put signed": lambda house, text: house.service.grains.put(
        house.owner, signature.sign(_fields(house, text), PEER, issued_at=1_780_000_000)
    ),
    "oms file": lambda house, text: _imported(house, number_items("oms", [codec.encode(_fields(house, text)).blob])),
    "cal add": lambda house, text: house.cal(
        'ADD belief SET subject = "house" SET relation = "says" SET object = $said REASON "matrix"', said=text
    ),
    "openwop put": lambda house, text: house.service.openwop.put_entry(house.owner, SPACE, Draft(content=text)),
    "openwop run": _in_run,
    "openwop host": lambda house, text: house.service.openwop.put_entries(house.owner, SPACE, [Draft(content=text)]),
}


# --- ways to revise --------------------------------------------------------------------------------------------------

# What is revised, under all its names, and the new text.
Revise = Callable[[House, Mapping[str, str], str], object]

REVISES: Final[Mapping[str, Revise]] = {
    "ump": lambda house, names, text: house.revise(names["ump"], body={"text": text}),
    "oams": lambda house, names, text: house.oams.store(names["oams"], text),
    "oms": lambda house, names, text: house.service.grains.supersede(
        house.owner, names["oms"], _fields(house, text), justification="matrix"
    ),
    "cal": lambda house, names, text: house.cal(
        'SUPERSEDE $old SET object = $said REASON "matrix"', old=f"sha256:{names['oms']}", said=text
    ),
}


# --- ways to read ----------------------------------------------------------------------------------------------------

# Everything an answer holds, for whoever asks; a refusal holds nothing.
Read = Callable[[House, Access, Mapping[str, str], str], object]


def _grains(house: House, access: Access) -> object:
    return [each.document() for each in house.service.grains.listing(access, Selection(space=SPACE), limit=500)[0]]


READS: Final[Mapping[str, Read]] = {
    "ump get": lambda house, who, names, word: house.service.get(who, names["ump"]),
    "ump history": lambda house, who, names, word: house.service.history(who, names["ump"]),
    "ump recall": lambda house, who, names, word: [
        each.record for each in house.service.recall(who, RecallRequest.parse({"query": word, "limit": 50}))
    ],
    "ump list": lambda house, who, names, word: house.service.list_records(who)[0],
    "ump feed": lambda house, who, names, word: [each.record for each in house.service.changes(who, {}, 0).events],
    "oams get": lambda house, who, names, word: Oams(house, house.oams.namespace, who).get(names["oams"]),
    "oams recall": lambda house, who, names, word: Oams(house, house.oams.namespace, who).recall(word),
    "oams list": lambda house, who, names, word: Oams(house, house.oams.namespace, who).page(limit=100).memories,
    "oms get": lambda house, who, names, word: house.grain(names["oms"], access=who).document(),
    "oms list": lambda house, who, names, word: _grains(house, who),
    "oms search": lambda house, who, names, word: [
        found.document() for found, _ in house.service.grains.search(who, word, where=Selection(space=SPACE))
    ],
    "cal recall": lambda house, who, names, word: house.cal("RECALL RECENT 50", access=who),
    "cal like": lambda house, who, names, word: house.cal("RECALL LIKE $word LIMIT 50", access=who, word=word),
    "cal assemble": lambda house, who, names, word: house.cal(
        'ASSEMBLE FOR "matrix" FROM (RECALL RECENT 50) BUDGET 4000 tokens FORMAT markdown', access=who
    ),
    "cal stream": lambda house, who, names, word: list(
        house.service.cal.stream(
            who, 'ASSEMBLE FOR "matrix" FROM (RECALL RECENT 50) BUDGET 4000 tokens STREAM { all }', namespace=SPACE
        )
    ),
    "oms find": lambda house, who, names, word: [
        each.stored.document()
        for each in house.service.grains.find(who, parse_value({"text": word, "namespace": SPACE}, FindRequest)).results
    ],
    "ump prompt": lambda house, who, names, word: (
        house.service.for_prompt(
            who, RehydrateRequest.parse({"query": word, "limit": 50, "max_visibility": "public"})
        ).text
    ),
    "openwop get": lambda house, who, names, word: house.service.openwop.get_entry(who, SPACE, names["openwop"]),
    "openwop list": lambda house, who, names, word: house.service.openwop.list_entries(
        who, SPACE, ListOptions.parse({"limit": 100})
    ),
}

# An instant at which only the first version of what the tests write was there.
BEFORE: Final = "2026-06-04T10:00:00.001Z"


def recalled(house: House, who: Access, word: str, **filters: str) -> object:
    request = RecallRequest.parse({"query": word, "limit": 50, "filter": filters})
    return [each.record for each in house.service.recall(who, request)]


def vars_of(value: Any) -> object:
    return [getattr(value, name) for name in value.__struct_fields__]


# Ways to read that ask for an earlier version, or for an earlier time.
EARLIER_READS: Final[Mapping[str, Read]] = {
    "cal history": lambda house, who, names, word: house.cal(f"HISTORY sha256:{names['oms']}", access=who),
    "cal by hash": lambda house, who, names, word: house.cal(
        f'RECALL beliefs WHERE hash = "sha256:{names["oms"]}" WITH superseded', access=who
    ),
    "ump standards": lambda house, who, names, word: house.service.seen_as(who, names["ump"]),
    "ump valid at": lambda house, who, names, word: recalled(house, who, word, valid_at=BEFORE),
    "ump known at": lambda house, who, names, word: recalled(house, who, word, known_at=BEFORE),
    "ump list valid at": lambda house, who, names, word: house.service.list_records(
        who, valid_at=parse_instant(BEFORE)
    )[0],
    "openwop of a line": lambda house, who, names, word: house.service.openwop.get_entry(who, SPACE, names["ump"]),
    "origins": lambda house, who, names, word: vars_of(house.service.origins(who, names["ump"])),
}
ALL_READS: Final[Mapping[str, Read]] = {**READS, **EARLIER_READS}

# What tells that something happened, and never what was said.
LOGS: Final[Mapping[str, Read]] = {
    "openwop events": lambda house, who, names, word: house.service.openwop.all_events(who, after=0),
    "ump audit": lambda house, who, names, word: house.service.audit(who, AuditRequest.parse({})),
}

EXPORTS: Final[Mapping[str, Callable[[House, Access], Iterator[object]]]] = {
    "ump export": lambda house, who: house.service.export(who),
    "oams export": lambda house, who: (memory for _, memory in house.service.oams.export(who)),
    "oms export": lambda house, who: (
        to_json_value(dict(codec.decode(signature.blob_of(delivery), profile=VIEWS).fields))
        for delivery, _ in house.service.grains.export(who)
    ),
}


def told(house: House, read: str, names: Mapping[str, str], word: str, access: Access | None = None) -> str:
    """Everything that a way to read tells, the originals inside included; nothing if it refuses."""
    try:
        return " ".join(texts({**READS, **LOGS}[read](house, access or house.owner, names, word)))
    except MemorandaError:
        return ""


def left(house: House, export: str, access: Access | None = None) -> str:
    """Everything that leaves by an export."""
    return " ".join(texts(list(EXPORTS[export](house, access or house.owner))))


def texts(value: object) -> Iterator[str]:
    """All texts inside a value, with those of the documents that it carries."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name == NATIVE_KEY and isinstance(inner, Mapping):
                yield base64_decode(str(inner["data"])).decode("utf-8", "replace")
            yield from texts(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from texts(inner)


def expiring(house: House, way: str, text: str, ends: Instant) -> None:
    """Write something that ends by itself, in a way that can say so."""
    if way == "ump":
        house.remember(text, scope={"project": SPACE}, consent={"retention": f"PT{(ends - house.now) // 1000}S"})
    elif way == "oams":
        house.oams.store(key(text), text, metadata={EXPIRES_KEY: format_instant(ends)})
    else:
        house.service.openwop.put_entry(house.owner, SPACE, Draft(content=text, expires=ends))
