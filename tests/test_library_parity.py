"""One memory of this process and one on a server: every public verb gives the same answers and the same errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda import AsyncMemoranda, Cal, ForbiddenScope, Grains, Memoranda, MemorandaError, Unsupported, convert
from memoranda.library.embedded import Embedded, EmbeddedOams
from memoranda.library.remote import Remote, RemoteOams
from memoranda.library.remote_cal import RemoteCal
from memoranda.library.remote_grains import RemoteGrains
from memoranda.library.remote_openwop import RemoteOpenwop
from memoranda.service.core.access import SCOPES
from memoranda.service.openwop.openwop import Openwop
from memoranda.standards.oms.requests import FindRequest
from memoranda.standards.openwop.entry import Draft, ListOptions
from memoranda.standards.openwop.proposals import Revision
from tests.bindings.http.running import Running, running
from tests.standards.openwop.samples import ARTIFACTS

OWNER = "did:example:ada"
GRAIN = {"type": "belief", "subject": "grace", "relation": "prefers", "object": "tea", "confidence": 0.9}
GRAIN = {**GRAIN, "created_at": 1768471200000}
SECRET = "the key is sk-live-" + "4eC39HqLyjWDarjtT1zdp7dc"
# What a server does not do, and why.
OF_THE_STORE = {
    "service": "the store itself",
    "access": "the store itself",
    "ump": "UMP's own requests, over the store itself",
    "import_files": "files are here, and the server is there: convert them, and import the records",
}
# Of Grains and Cal: what is asked with the store's own values, or of who has the store.
OF_GRAINS = {"release", "listing", "search", "with_defaults", "export", "rotate_master_key"}
OF_CAL = {"issue"}
# Of openwop: runs, their logs, secrets and webhooks, what a pass makes, and commitments as the store keeps them.
OF_OPENWOP = {
    *("begin_run", "emit", "finish_run", "fork", "memory_of", "run", "runs", "snapshot", "events", "all_events"),
    *("register_webhook", "registered_webhook", "unregister_webhook", "webhooks", "register_secret", "resolve_secret"),
    *("compact", "distill", "consolidate", "undo_consolidation", "infer_commitments", "commitments"),
    *("cancel_commitment", "snooze_commitment", "fire_commitment", "put_entries", "claim", "settle"),
    *("discovery", "tick"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("store") / "home", settings={"secrets": "off", "cal_evolve": "on"}) as started:
        yield started


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_verb_is_there_over_a_server_and_awaited() -> None:
    assert public(Embedded) - {"service", "access", "ump"} == public(Remote)
    assert public(EmbeddedOams) == public(RemoteOams)
    assert public(Cal) - OF_CAL == public(RemoteCal)
    assert public(Grains) - OF_GRAINS == public(RemoteGrains)
    assert public(Openwop) - OF_OPENWOP == public(RemoteOpenwop)
    properties = {name for name in public(Memoranda) if not inspect.isfunction(getattr(Memoranda, name))}
    # What is no verb is asked of `memoranda`.
    assert public(Memoranda) - properties - {"open", "close"} <= public(AsyncMemoranda)
    assert public(Memoranda) - set(VERBS) - OF_THE_STORE.keys() == {"open", "close", "oams", "owner"}


def test_the_typescript_client_has_the_same_verbs() -> None:
    source = (Path(__file__).parents[1] / "clients" / "typescript" / "src" / "index.ts").read_text(encoding="utf-8")
    named = set(re.findall(r"^  (?:async |readonly )?\*?(\w+)[(:<]", source, flags=re.MULTILINE))
    # Hosts of openwop have clients of their own.
    wanted = set(VERBS) - {"openwop"}
    assert {re.sub(r"_(\w)", lambda found: found[1].upper(), verb) for verb in wanted} <= named
    assert {"subscribe", "calCheck", "calPrepare", "calExecute", "calStream", "oams"} <= named


# --- one scenario ------------------------------------------------------------------------------------------


def remembers(m: Memoranda) -> Iterator[object]:
    first = m.remember("Ada takes her tea green", user="ada", project="shop", tags=["drinks"])
    yield first.result
    yield m.remember("Ada takes her tea green", user="ada", project="shop", tags=["drinks"]).result
    yield m.revise(first.id, "Ada takes her tea black").supersedes == (first.id,)
    yield [each.text for each in m.history(first.id)]
    yield [(each.text, each.project, each.user) for each in m.recall("tea", project="shop", user="ada")]
    yield m.for_prompt("tea", project="shop", user="ada").text
    yield [each.text for each in m.list(project="shop")], m.stats()
    m.feedback(first.id, "followed")
    yield m.get(m.list()[0].id).text


REFUSED: tuple[Callable[[Memoranda], object], ...] = (
    lambda m: m.remember(""),
    lambda m: m.get("urn:ump:nothing"),
    lambda m: m.redact("urn:ump:nothing"),
    lambda m: m.undo_import(),
    lambda m: m.undo_import("none"),
    lambda m: m.undo("none"),
    lambda m: m.consolidate("nonsense"),
    lambda m: m.cal("RECAL beliefs"),
    lambda m: m.cal("RECALL beliefs ABOUT $who"),
    lambda m: m.cal.execute("calprep.nothing"),
    lambda m: m.grains.get("0" * 64),
    lambda m: m.grains.get("x"),
    lambda m: m.grains.put({"type": "belief"}),
    lambda m: m.grains.put(b"\x00"),
    lambda m: m.grains.supersede("0" * 64, GRAIN),
    lambda m: m.grains.erase("0" * 64, reason="asked"),
    lambda m: m.openwop.file("none.md"),
    lambda m: m.openwop.proposal("none"),
    lambda m: m.openwop.write_file("a.md", "x", if_match='"v9"'),
    lambda m: m.openwop.schedule("agents/a", "nonsense"),
    lambda m: m.openwop.propose("nonsense", {}),
)


def moves(m: Memoranda) -> Iterator[object]:
    yield [record["body"]["text"] for record in m.export(project="shop")]
    current = list(m.export(project="shop", history=False))
    yield [record["body"]["text"] for record in current]
    yield m.import_records(current).merged
    report = m.import_records([{"nonsense": True}, *current, 7])
    yield report.merged, report.refused, [(each.where, each.code, each.message) for each in report.refusals]
    m.forget(current[0]["id"], reason="gone")
    yield m.import_records(current).forgotten, m.import_records(current, restore=True).created


def mends(m: Memoranda) -> Iterator[object]:
    kept = m.remember(SECRET)
    yield [(each.kinds, each.is_current, each.text) for each in m.suspects()]
    yield m.redact(kept.id) != kept.id, "4eC39" in str([each.text for each in m]), list(m.suspects())
    report = m.verify()
    yield report.ok, report.owners, report.unverified, report.database, report.index, report.losses, report.audit.ok


def consolidates(m: Memoranda) -> Iterator[object]:
    for number in range(6):
        m.oams.store(f"k{number}", f"The build of the shop broke on day {number}", namespace="log")
    place = m.oams.namespace("log").scope
    shown = m.consolidate("reflect", namespace=place)
    yield shown.is_dry, shown.inputs, [(each.result, each.memory["value"]) for each in shown.outputs]
    written = m.consolidate("reflect", namespace=place, dry_run=False, limit=3)
    yield written.written, [each.result for each in written.outputs]
    undone = m.undo(written.run_id)
    yield len(undone.taken_back) == written.written, undone.left, undone.brought_again


def asks(m: Memoranda) -> Iterator[object]:
    yield m.grains.put(GRAIN), m.grains.put(GRAIN)
    address = m.grains.put(GRAIN).address
    found = m.grains.get(address)
    yield found.grain.fields, found.delivery, found.index, found.is_held, found.document()
    yield m.grains.exists(address), m.grains.exists("0" * 64)
    page = m.grains.find(FindRequest.parse({"subject": "grace", "type": "belief"}))
    yield page.document(), [each.stored.delivery for each in page.results]
    yield m.cal("RECALL beliefs ABOUT $who AS text", {"who": "grace"})["formatted"]
    yield m.cal.check("RECALL beliefs"), m.cal.check("nonsense")["valid"]
    yield (
        m.cal.prepare("RECALL beliefs")["tier"],
        m.cal.execute(m.cal.prepare('RECALL beliefs ABOUT "grace" AS text')["token"])["formatted"],
    )
    assemble = 'ASSEMBLE FROM known: (RECALL beliefs ABOUT "grace") BUDGET 200 tokens FORMAT markdown'
    yield [each["type"] for each in m.cal.stream(assemble)]
    added = 'ADD belief SET subject = "bob" SET relation = "prefers" SET object = "coffee" REASON "said"'
    yield sorted(m.cal(added, approve=True)), m.cal('RECALL beliefs ABOUT "bob" AS text')["formatted"]
    yield m.cal.remove_template("none")
    yield (
        m.grains.set_verification(address, "verified", reason="asked her"),
        m.grains.set_hold(address, held=True, reason="m"),
    )
    yield m.grains.set_hold(address, held=False, reason="m")
    newer = m.grains.supersede(address, {**GRAIN, "object": "coffee", "created_at": 1768471200001}, justification="new")
    yield newer.result, m.grains.get(address).index.superseded_by == newer.address
    yield m.grains.consent(subject="did:example:a", grantee="did:example:b")
    m.grains.erase(newer.address, reason="asked")
    yield m.grains.erase_user("nobody", reason="asked")


def hosts(m: Memoranda) -> Iterator[object]:
    host = m.openwop
    made = host.put_entry("agents/a", Draft(content="Invoices go by mail", tags=("subject:acme",)))
    yield made["content"], made["tags"]
    chosen = host.put_entry("agents/a", Draft(content="Under an id"), entry_id="mine/1")
    yield chosen["id"], host.get_entry("agents/a", "mine/1"), host.get_entry("agents/a", "none")
    yield [each["content"] for each in host.list_entries("agents/a", ListOptions(limit=1, tag="subject:acme"))]
    yield host.delete_entry("agents/a", "mine/1"), host.delete_entry("agents/a", "mine/1")
    yield host.forget("agents/a", "acme"), host.list_entries("agents/a"), host.agents()
    written = host.write_file("notes/a-plan.md", "first", if_none_match="*")
    yield written["content"], written["version"], host.file("notes/a-plan.md")["content"]
    host.write_file("notes/a-plan.md", "second", if_match=written["etag"])
    yield host.file("notes/a-plan.md", 1)["content"], [each["path"] for each in host.files("notes/")]
    yield host.remove_file("notes/a-plan.md"), host.remove_file("notes/a-plan.md")
    yield host.schedule("agents/a", "0 9 * * 1", timezone="Europe/Berlin"), len(host.schedules())
    yield host.unschedule("agents/a"), host.unschedule("agents/a"), host.watch_commitments("agents/a")
    proposed = host.propose("automation", ARTIFACTS["automation"], title="Every Monday")
    yield proposed["state"], host.proposal(proposed["id"])["title"], len(host.proposals(state="draft"))
    yield host.revise_proposal(proposed["id"], Revision(title="Every Friday"))["title"]
    applied = host.apply_proposal(proposed["id"], approval_id=host.approve_proposal(proposed["id"]))
    yield applied["state"], len(host.installed()), host.synthesise_proposals()
    for end in (host.reject_proposal, host.archive_proposal):
        yield end(host.propose("automation", {**ARTIFACTS["automation"], "inputs": {"by": end.__name__}})["id"])[
            "state"
        ]


SCENARIOS: tuple[Callable[[Memoranda], Iterator[object]], ...] = (remembers, moves, mends, consolidates, asks, hosts)
VERBS = (
    *(
        "remember",
        "recall",
        "for_prompt",
        "list",
        "stats",
        "get",
        "history",
        "revise",
        "forget",
        "feedback",
        "suspects",
    ),
    *("redact", "export", "import_records", "undo_import", "verify", "consolidate", "undo", "cal", "grains", "openwop"),
)


def steps(scenario: Callable[[Memoranda], Iterator[object]], m: Memoranda) -> list[str]:
    """What each step gives, without what no two stores share: ids, moments and hashes."""
    return [_plain(step) for step in scenario(m)]


def _plain(value: object) -> str:
    text = re.sub(
        r"urn:ump:\w+|asm_\w+|\d{4}-\d\d-\d\dT[\d:.]+Z|system_valid_to=\d+|user-\w+|z6Mk\w+", "…", repr(value)
    )
    return re.sub(r"bytes=\d+", "", text)


@pytest.fixture(scope="module")
def both(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memoranda, Memoranda]]:
    from memoranda.app import open_service
    from memoranda.settings import load_settings
    from tests.embedders import WORDS_ALONE

    home = tmp_path_factory.mktemp("near")
    service = open_service(load_settings(WORDS_ALONE, home=home, secrets="off", cal_evolve="on"))
    with (
        Memoranda(service, service.gate.local(OWNER)) as near,
        Memoranda.open(server.url, key=server.key(OWNER, *SCOPES)) as far,
    ):
        yield near, far


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_answers_are_the_same(
    both: tuple[Memoranda, Memoranda], scenario: Callable[[Memoranda], Iterator[object]]
) -> None:
    near, far = both
    assert steps(scenario, near) == steps(scenario, far)


def test_errors_are_the_same(both: tuple[Memoranda, Memoranda]) -> None:
    def error(m: Memoranda, verb: Callable[[Memoranda], object]) -> tuple[Any, ...]:
        with pytest.raises(MemorandaError) as raised:
            verb(m)
        told = vars(raised.value)
        kept = ("oms_code", "cal_code", "start", "end", "line", "column", "reason")
        return type(raised.value).__name__, raised.value.message, {name: told[name] for name in kept if name in told}

    near, far = both
    assert [error(near, verb) for verb in REFUSED] == [error(far, verb) for verb in REFUSED]


def test_an_import_is_taken_back_over_a_server(server: Running, tmp_path: Path) -> None:
    table = tmp_path / "notes.csv"
    table.write_text("id,text,date\n1,use pnpm,2026-01-15\n2,use bun,2026-01-16\n", encoding="utf-8")
    Memoranda(server.service, server.service.gate.local("did:example:moved")).import_files(table)
    with Memoranda.open(server.url, key=server.key("did:example:moved")) as far:
        assert len(list(far)) == 2
        undone = far.undo_import()
        assert (undone.forgotten, undone.restored, undone.left) == (2, 0, 0)
        assert list(far) == []


def test_files_go_to_a_server_as_records(server: Running, tmp_path: Path) -> None:
    table, records = tmp_path / "notes.csv", tmp_path / "notes.ndjson"
    table.write_text("id,text,date\n1,use pnpm,2026-01-15\n2,use bun,2026-01-16\n", encoding="utf-8")
    with Memoranda.open(server.url, key=server.key("did:example:files")) as far:
        with pytest.raises(Unsupported, match=r"on a server: memoranda\.convert"):
            far.import_files(table)
        convert(table, records, owner=far.owner)
        lines = records.read_text(encoding="utf-8").splitlines()
        assert far.import_records(map(json.loads, lines)).created == 2
        assert {each.text for each in far} == {"use pnpm", "use bun"}


def test_a_key_for_less_is_refused_by_the_same_error(server: Running) -> None:
    with Memoranda.open(server.url, key=server.key("did:example:reader", "read")) as reader:
        for verb in (lambda: list(reader.export()), lambda: reader.import_records([{}]), lambda: reader.redact("x")):
            with pytest.raises(MemorandaError) as raised:
                verb()
            assert raised.value.code == "forbidden_scope"
    # Who sees a part is told nothing of the whole.
    token = server.service.gate.mint_token(verbs=("read", "write"), scope={"project": "shop"}, ttl_ms=60_000)
    with Memoranda.open(server.url, key=token) as part:
        verbs: tuple[Callable[[], object], ...] = (part.verify, part.suspects, part.undo_import)
        for refused in verbs:
            with pytest.raises(ForbiddenScope):
                refused()


def test_the_same_is_awaited(server: Running) -> None:
    async def scenario() -> None:
        async with AsyncMemoranda.open(server.url, key=server.key("did:example:async")) as m:
            done = await m.remember("Ada takes her tea green", project="shop")
            (record,) = await m.export(project="shop")
            assert record["id"] == done.id
            assert (await m.import_records([record])).merged == 1
            assert (await m.verify()).ok
            assert (await m.suspects()) == []
            asked = await m.cal("RECALL LIKE $what AS text", {"what": "tea"}, namespace="shop")
            assert "Ada takes her tea green" in str(asked)

    asyncio.run(scenario())


def test_an_export_and_an_import_of_many_go_in_parts(server: Running, tmp_path: Path) -> None:
    with (
        Memoranda.open(server.url, key=server.key("did:example:many")) as far,
        Memoranda.open(tmp_path, owner="did:example:many") as near,
    ):
        far.oams.batch_store([{"key": f"k{number}", "value": f"note {number}"} for number in range(120)])
        records = list(far.export())
        assert len({record["id"] for record in records}) == 120
        assert near.import_records(records).created == 120
        again = far.import_records([*records, {}])
        assert (again.refused, again.refusals[0].where) == (1, "line 121")
