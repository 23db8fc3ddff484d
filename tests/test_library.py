"""The front door of the library: what it takes, what it gives, and what it refuses.

Whatever `mypy --strict` must refuse stands here with an `ignore` for it: one that is not needed is an error, so that
the type check of this file is the test.
"""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import (
    AsyncMemoranda,
    Hit,
    InvalidInput,
    Memoranda,
    Memory,
    NotFound,
    StoreUnavailable,
    Unauthorized,
    Unsupported,
    Version,
)
from memoranda.errors import (
    MemoryNotFound,
    NamespaceNotFound,
    RateLimited,
    VersionMismatch,
)
from memoranda.library.remote import ServerConnection
from memoranda.standards.ump.rules import retention_end
from tests.bindings.http.running import Running, running
from tests.waiting import HANG_SECONDS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("store") / "home", rate_limit=10_000) as started:
        yield started


@pytest.fixture(params=["embedded", "server"])
def m(request: pytest.FixtureRequest) -> Iterator[Memoranda]:
    """The same object, over a store of this process and over a server."""
    if request.param == "embedded":
        with Memoranda.open(":memory:") as opened:
            yield opened
        return
    server: Running = request.getfixturevalue("server")
    with Memoranda.open(server.url, key=server.key(f"did:example:{request.node.name}")) as opened:
        yield opened


@pytest.fixture
def far(server: Running) -> Iterator[Memoranda]:
    with Memoranda.open(server.url, key=server.key("did:example:far")) as opened:
        yield opened


def test_a_keyword_that_there_is_not_is_a_type_error(m: Memoranda) -> None:
    with pytest.raises(TypeError, match="projcet"):
        m.remember("use pnpm", projcet="shop")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="usr"):
        m.recall("pnpm", usr="ada")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="projcet"):
        m.for_prompt("pnpm", projcet="shop")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="projcet"):
        m.list(projcet="shop")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="txt"):
        m.revise("urn:ump:aaaa", txt="x")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="kind"):
        m.remember("use pnpm", kind="factual")  # type: ignore[arg-type]
    assert list(m) == []


def test_every_keyword_of_remember_reaches_the_record(m: Memoranda) -> None:
    done = m.remember(
        "Ada takes her tea green",
        kind="identity",
        project="home",
        user="ada",
        agent="butler",
        session="s1",
        visibility="shared",
        tags=["drinks", "morning"],
        about=["tea"],
        relations=[{"type": "derived_from", "target": "urn:ump:aaaa"}],
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
        valid_to="2999-01-01T00:00:00Z",
        retention=timedelta(days=30),
        confidence=0.9,
        salience=0.8,
        source="diary",
        structured={"sugar": 0},
        redact=["body.structured.sugar"],
        exportable=False,
    )
    memory = m.get(done.id)
    record = memory.record
    scope = {"project": "home", "user": "ada", "agent": "butler", "session": "s1", "visibility": "shared"}
    assert record["scope"] == {"owner": m.owner, **scope}
    assert (memory.kind, memory.project, memory.user, memory.tags) == ("identity", "home", "ada", ("drinks", "morning"))
    assert record["time"]["valid_from"] == "2026-01-01T00:00:00.000Z"
    assert record["time"]["valid_to"] == "2999-01-01T00:00:00Z"
    assert record["lifecycle"] == {"status": "active", "confidence": 0.9, "salience": 0.8}
    assert record["consent"] == {
        "retention": "PT2592000.000S",
        "exportable": False,
        "redact": ["body.structured.sugar"],
    }
    assert record["provenance"]["source"] == {"ref": "diary"}
    assert record["provenance"]["method"] == "library"
    assert memory.structured == {"sugar": 0}
    assert [each["type"] for each in record["relations"]] == ["derived_from", "about", "about", "about"]
    # What once was lost: the person is found, and can be erased.
    assert [hit.text for hit in m.recall("tea", user="ada", strict=True)] == ["Ada takes her tea green"]
    assert m.recall("tea", user="bob") == []


def test_whom_a_memory_is_about_can_be_erased() -> None:
    with Memoranda.open(":memory:") as m:
        m.remember("Ada takes her tea green", user="ada")
        assert m.grains.erase_user("ada", reason="asked").erased == 1


MOMENTS = ("nonsense", "", "2026-01-01", 5, date(2026, 1, 1), timedelta(days=1), ["x"], "P1D", "\ud800")
COUNTS = ("nonsense", -1, 10**30, 1.5, float("nan"), float("inf"), True, ["x"], "\ud800")
# These counts have a limit of their own, or none.
SMALL = tuple(count for count in COUNTS if count != 10**30)
FRACTIONS = ("nonsense", -0.1, 1.1, float("nan"), float("inf"), ["x"], "\ud800")
WORDS = ("nonsense", "", 5, ["nonsense"], date(2026, 1, 1), "\ud800")
NAMES = ("", "\x00", "\ud800", 5)
SPANS = ("nonsense", "", 5, timedelta(days=-1), "\ud800")
# By verb: the keywords that are enough, and wrong values of others.
WRONG: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "remember": (
        {"text": "tea"},
        {
            **dict.fromkeys(("created", "observed", "valid_from", "valid_to", "expires"), MOMENTS),
            **dict.fromkeys(("confidence", "salience"), FRACTIONS),
            **dict.fromkeys(("kind", "visibility"), WORDS),
            **dict.fromkeys(("project", "user", "agent", "session", "source"), NAMES),
            "retention": SPANS,
            "structured": ("nonsense", 5),
        },
    ),
    "recall": (
        {"query": "tea"},
        {
            **dict.fromkeys(("valid_at", "known_at", "asked_at"), MOMENTS),
            **dict.fromkeys(("kind", "visibility", "status", "standard", "prefer"), WORDS),
            "limit": SMALL,
            "zone": ("Nowhere/X", "../x", "\ud800", 5),
            "weights": ({"nonsense": 1.0}, {"date": -1.0}, {"date": float("nan")}, "nonsense"),
            **dict.fromkeys(("floor", "rerank", "words_only", "explain"), ("nonsense", 5, "\ud800")),
        },
    ),
    "for_prompt": (
        {"query": "tea"},
        {"limit": SMALL, "max_chars": (*COUNTS, 0), "budget_chars": (*COUNTS, 0), "max_visibility": WORDS},
    ),
    "list": (
        {},
        {
            **dict.fromkeys(("since", "valid_at", "known_at"), MOMENTS),
            **dict.fromkeys(("kind", "standard"), WORDS),
            **dict.fromkeys(("limit", "after"), COUNTS),
            "project": NAMES,
        },
    ),
    "revise": (
        {"text": "coffee"},
        {
            **dict.fromkeys(("valid_from", "valid_to"), MOMENTS),
            **dict.fromkeys(("confidence", "salience"), FRACTIONS),
            "structured": ("nonsense", 5),
        },
    ),
    "feedback": ({}, {"outcome": WORDS}),
    "consolidate": ({}, {"limit": (*COUNTS, 0), "budget_tokens": (*COUNTS, 0), "least": (*SMALL, 1),
                         "likeness": (*FRACTIONS, 0)}),
}  # fmt: skip
CASES = [(verb, name) for verb, (_, wrong) in WRONG.items() for name in wrong]


@pytest.mark.parametrize(("verb", "name"), CASES)
def test_a_wrong_time_number_or_word_is_invalid_input_that_names_it(m: Memoranda, verb: str, name: str) -> None:
    made = m.remember("tea")
    enough, wrong = WRONG[verb]
    first = {"revise": (made.id,), "feedback": (made.id,), "consolidate": ("reflect",)}.get(verb, ())
    # The wire has other words for these two.
    word = {"budget_tokens": "budget"}.get(name, name)
    for value in wrong[name]:
        with pytest.raises(InvalidInput) as refused:
            getattr(m, verb)(*first, **{**enough, name: value})
        assert re.search(rf"(?:^|[.]){word}\b|has no time zone|{word} ", refused.value.message), value
    assert [memory.text for memory in m.list()] == ["tea"]


def test_a_name_of_no_memory_is_refused_in_words(m: Memoranda) -> None:
    for verb in (m.get, m.history, m.revise, m.forget, m.redact, m.allow_orders):
        for name in ("\ud800", "nope", ""):
            with pytest.raises((InvalidInput, NotFound)):
                verb(name)
    for key in ("\ud800", "", "\x00"):
        with pytest.raises(InvalidInput):
            m.oams.get(key)
        with pytest.raises(InvalidInput):
            m.oams.forget(key)


def test_an_end_is_said_as_a_moment_or_as_a_span(m: Memoranda) -> None:
    end = datetime.now(UTC) + timedelta(days=7)
    due = retention_end(m.get(m.remember("until then", expires=end).id).record)
    assert due is not None
    assert abs(due - end.timestamp() * 1000) < 60_000
    with pytest.raises(InvalidInput, match="give one of them"):
        m.remember("x", expires=end, retention="P1D")
    with pytest.raises(InvalidInput, match="time zone"):
        m.remember("x", expires=end.replace(tzinfo=None))


def test_results_are_small_values(m: Memoranda) -> None:
    done = m.remember("use pnpm, never npm", project="shop", structured={"why": "speed"})
    (hit,) = m.recall("pnpm", project="shop", explain=True)
    assert isinstance(hit, Hit)
    assert (hit.id, hit.text, str(hit), hit.record["id"]) == (done.id, "use pnpm, never npm", hit.text, done.id)
    assert 0 < hit.score <= 1
    assert hit.explanation is not None
    assert "similarity" in hit.signals
    assert repr(hit).startswith(f"Hit('use pnpm, never npm', id='{done.id[8:16]}', project='shop', score=")
    assert repr(m.get(done.id)) == f"Memory('use pnpm, never npm', id='{done.id[8:16]}', project='shop')"
    assert (datetime.now(UTC) - hit.created) < timedelta(minutes=5)
    assert repr(m) == f"Memoranda(owner='{m.owner}')"


def test_a_new_wording_keeps_what_is_beside_it(m: Memoranda) -> None:
    done = m.remember("use pnpm", structured={"why": "speed"})
    later = m.revise(done.id[8:16], "use bun", confidence=1.0)
    assert m.get(later.id).structured == {"why": "speed"}
    first, second = m.history(later.id)
    assert isinstance(first, Version)
    assert (first.text, second.text, second.replaced, first.verified) == ("use pnpm", "use bun", None, True)
    assert first.record["superseded_by"] == [second.id]
    assert m.get(m.revise(later.id, structured={"why": "fun"}).id).record["body"] == {
        "text": "use bun",
        "structured": {"why": "fun"},
    }


def test_what_there_is_is_listed_counted_and_walked_through(m: Memoranda) -> None:
    for number in range(120):
        m.remember(f"fact {number}", project="p" if number % 2 else None, tags=["odd"] if number % 2 else ())
    m.remember("how to", kind="procedural", user="ada")
    assert [memory.text for memory in m.list(limit=2)] == ["how to", "fact 119"]
    assert [memory.text for memory in m.list(limit=2, after=2)] == ["fact 118", "fact 117"]
    assert len(m.list(project="p", limit=500)) == len(m.list(tags=["Odd"], limit=500)) == 60
    assert [memory.text for memory in m.list(kind=["procedural", "episodic"])] == ["how to"]
    assert m.list(tags=["odd", "even"]) == []
    assert len(m.list(tags=["odd", "odd"], kind=["semantic", "working"], limit=500)) == 60
    assert [memory.text for memory in m.list(kind="procedural")] == [memory.text for memory in m.list(user="ada")]
    assert m.list(since=datetime.now(UTC) + timedelta(days=1)) == []
    assert len({memory.id for memory in m}) == 121
    found = m.stats()
    assert (found.memories, dict(found.kinds)) == (121, {"semantic": 120, "procedural": 1})
    assert dict(found.projects) == {"": 61, "p": 60}
    assert found.bytes is not None


def test_awaited_verbs_of_a_standard_have_the_signatures_of_the_verbs() -> None:
    async def scenario() -> None:
        async with AsyncMemoranda.open(":memory:") as m:
            draft = {"kind": "semantic", "body": {"text": "use pnpm"}}
            done = await m.ump.remember(await m.ump.with_defaults(draft, method="test"))
            (suspects, found) = (await m.ump.suspects(), await m.ump.history(done.id))
            assert (suspects.copy(), len(found), (await m.ump.capabilities())["ump"]) == ([], 1, "0.1")
            assert (await m.cal.check("RECALL beliefs"))["valid"]
            assert (await m.cal("RECALL beliefs LIMIT 1"))["_cal"]
            assert (await m.oams.verbs.namespace()).owner == (await m.oams.namespace()).owner
            with pytest.raises(TypeError, match="nonsense"):
                await m.openwop.schedule("agents/a", "0 9 * * 1", nonsense=1)  # type: ignore[call-arg]
            with pytest.raises(TypeError):
                await m.ump.stats(1)  # type: ignore[call-arg]
            with pytest.raises(TypeError, match="keyy"):
                await m.grains.erase("0" * 64, reason="asked", keyy="x")  # type: ignore[call-arg]

    asyncio.run(scenario())


def test_a_keyword_that_a_verb_of_a_standard_does_not_have_is_a_type_error(m: Memoranda) -> None:
    with pytest.raises(TypeError, match="nme"):
        m.ump.get("urn:ump:aaaa", nme="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="scpe"):
        m.grains.consent(subject="a", grantee="b", scpe="c")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        m.openwop.proposals("draft")  # type: ignore[call-arg]


def test_a_placeholder_is_no_owner() -> None:
    for wrong in ("did:key:z6Mk…", "did:key:...", "<owner>", "did:key:", "my owner"):
        with pytest.raises(InvalidInput, match="owner"):
            Memoranda.open(":memory:", owner=wrong)


@pytest.mark.parametrize("place", ["embedded", "server"])
def test_the_same_verbs_are_awaited(place: str, server: Running) -> None:
    async def scenario() -> list[Any]:
        key = server.key("did:example:async")
        async with (
            AsyncMemoranda.open(server.url, key=key) if place == "server" else AsyncMemoranda.open(":memory:")
        ) as m:
            done = await m.remember("use pnpm", project="shop", tags=["js"])
            with pytest.raises(TypeError, match="projcet"):
                await m.remember("x", projcet="shop")  # type: ignore[call-arg]
            (hit,) = await m.recall("pnpm", project="shop")
            await asyncio.gather(*(m.remember(f"fact {number}") for number in range(150)))
            await m.feedback(done.id, "followed")
            later = await m.revise(done.id, "use bun")
            block = await m.for_prompt("bun", project="shop", ids=True)
            assert await m.forget(later.id) == "tombstoned"
            with pytest.raises(NotFound):
                await m.get("urn:ump:zzzz")
            if place == "embedded":
                assert len(await m.export()) == 150
            assert repr(m).startswith("AsyncMemoranda(owner=")
            texts = [memory.text async for memory in m]
            return [hit.text, len(await m.history(later.id)), "use bun" in block.text, len(texts), len(set(texts))]

    assert asyncio.run(scenario()) == ["use pnpm", 2, True, 150, 150]
    closed = AsyncMemoranda.open(":memory:")
    assert repr(closed) == "AsyncMemoranda(not open)"
    with pytest.raises(RuntimeError, match="async with"):
        closed.memoranda.stats()


def test_the_asynchronous_door_has_every_verb_of_the_other() -> None:
    def verbs(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    # Opened and closed by `async with`; the store itself is reached through `memoranda`.
    others = {"close", "service", "access"}
    assert verbs(Memoranda) - others == verbs(AsyncMemoranda) - {"memoranda"}


@pytest.mark.parametrize("name", memoranda.__all__)
def test_what_is_exported_is_there(name: str) -> None:
    assert getattr(memoranda, name)
    with pytest.raises(AttributeError):
        getattr(memoranda, f"{name}s")


def test_a_memory_is_what_lists_give(m: Memoranda) -> None:
    m.remember("one")
    (memory,) = m.list()
    assert type(memory) is Memory
    assert memory == m.get(memory.id)


def test_parts_of_a_record_are_taken_as_ump_names_them(m: Memoranda) -> None:
    at = "2026-01-15T10:00:00Z"
    done = m.remember(
        "Ada: see you on Monday",
        kind="episodic",
        project="talk",
        scope={"session": "one", "project": "other"},
        time={"created": at, "observed": at, "valid_from": at},
        lifecycle={"confidence": 0.5},
        consent={"exportable": False},
    )
    record = m.get(done.id).record
    assert (record["scope"]["session"], record["scope"]["project"]) == ("one", "talk")
    assert record["time"]["valid_from"] == at
    assert (record["lifecycle"]["confidence"], record["consent"]["exportable"]) == (0.5, False)


UNCLOSED = """
import sys
from memoranda import Memoranda
m = Memoranda.open(sys.argv[1])
m.remember("tea is green")
m.recall("tea")
"""


def test_a_program_that_ends_without_closing_it_leaves_a_closed_store_and_everything_on_record(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", UNCLOSED, str(tmp_path)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (tmp_path / "memoranda.db-wal").exists()
    with Memoranda.open(tmp_path) as opened:
        recorded = opened.service.audit(opened.access, {})
    assert {"remember", "recall"} <= {event["op"] for event in recorded}


def test_memories_of_oams_are_the_same_here_and_there(m: Memoranda) -> None:
    first = m.oams.store("tea/1", "green, no sugar", tags=["Drinks"], metadata={"sugar": 0})
    assert first.result == "created"
    second = m.oams.store("tea/1", "black", if_match=first.etag)
    assert (second.result, second.memory["value"]) == ("updated", "black")
    with pytest.raises(VersionMismatch):
        m.oams.store("tea/1", "white", if_match=first.etag)
    with pytest.raises(VersionMismatch):
        m.oams.store("tea/1", "white", if_absent=True)
    assert m.oams.get("tea/1").etag == second.etag
    stored = m.oams.batch_store([{"key": "ü?", "value": "one"}, {"key": "b", "value": "two"}], namespace="shop")
    assert [each.memory["value"] for each in stored] == ["one", "two"]
    assert m.oams.get("ü?", namespace="shop").memory["key"] == "ü?"
    assert [each["value"] for each in m.oams.recall("black tea")] == ["black"]
    page = m.oams.list(namespace="shop", limit=1)
    assert [each["value"] for each in page.memories] == ["two"]
    assert [each["key"] for each in m.oams.list(namespace="shop", cursor=page.next_cursor).memories] == ["ü?"]
    assert {each.partition(":")[2] for each in m.oams.namespaces} == {"default", "shop"}
    m.oams.forget("tea/1")
    with pytest.raises(MemoryNotFound):
        m.oams.get("tea/1")
    with pytest.raises(NamespaceNotFound):
        m.oams.list(namespace="nowhere")
    with pytest.raises(InvalidInput, match="value"):
        m.oams.store("x", 3)  # type: ignore[arg-type]


def test_errors_are_the_same_here_and_there(m: Memoranda) -> None:
    with pytest.raises(NotFound, match="no memory"):
        m.get("urn:ump:" + "a" * 52)
    with pytest.raises(NotFound):
        m.get("../x?y#z")
    with pytest.raises(InvalidInput, match="weights"):
        m.recall("tea", weights={"text": 99.0})
    with pytest.raises(InvalidInput, match="retention"):
        m.remember("x", retention="soon")
    with pytest.raises(NotFound):
        m.forget("urn:ump:zzzz")


def test_what_a_server_does_not_offer_is_said_in_words(far: Memoranda) -> None:
    for verb in (lambda: far.service, lambda: far.access):
        with pytest.raises(Unsupported, match="on a server"):
            verb()
    with pytest.raises(InvalidInput, match="the key determines"):
        Memoranda.open("http://127.0.0.1:1", owner="ada")
    with pytest.raises(InvalidInput, match="needs none"):
        Memoranda.open(":memory:", key="mk_x")
    with pytest.raises(InvalidInput, match="key must be"):
        Memoranda.open("http://127.0.0.1:1", key="a\r\nb")
    with pytest.raises(InvalidInput, match="not the address"):
        Memoranda.open("http://ada:x@127.0.0.1:1")


def test_a_server_that_is_not_there_or_refuses(server: Running, far: Memoranda) -> None:
    with Memoranda.open(server.url, key="mk_wrong") as m, pytest.raises(Unauthorized):
        m.recall("tea")
    with Memoranda.open(server.url + "/nowhere", key=server.key()) as m, pytest.raises(NotFound):
        m.stats()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Memoranda.open(url, key="mk_x") as m, pytest.raises(StoreUnavailable, match="does not answer"):
            m.stats()
    far.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        far.stats()


def test_a_limit_says_when_to_ask_again(tmp_path: Path) -> None:
    # Time stands still, however long the requests take.
    with (
        running(tmp_path, rate_limit=1, clock=lambda: 0.0) as server,
        Memoranda.open(server.url, key=server.key()) as m,
    ):
        with pytest.raises(RateLimited) as refused:
            [m.stats() for _ in range(3)]
        assert refused.value.retry_after_seconds >= 1


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    closed = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answer)
                closed.set()

        thread = threading.Thread(target=serve)
        thread.start()
        remote = ServerConnection(f"http://127.0.0.1:{listener.getsockname()[1]}", None)
        for _ in range(2):
            assert remote.get("/first") == {}
            assert closed.wait(HANG_SECONDS)
        remote.close()
        thread.join()


def test_proxies_of_the_environment_are_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def serve() -> None:
            connection, _ = proxy.accept()
            with connection:
                asked.append(connection.recv(65_536).split(b"\r\n")[0])
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for here in ("127.0.0.1:1", "localhost:1", "[::1]:1"):
            with pytest.raises(StoreUnavailable, match="does not answer"):
                ServerConnection(f"http://{here}", None).get("/x")
        ServerConnection("http://memory.example/base", None).ask("GET", "/x", query={"a": "b c"})
        thread.join()
    assert asked == [b"GET http://memory.example/base/x?a=b+c HTTP/1.1"]


def test_an_event_loop_waits_for_many_answers_without_threads(server: Running, far: Memoranda) -> None:
    for number in range(3):
        far.remember(f"note {number}", project="loop")
    names: set[str] = set()

    async def recall(m: AsyncMemoranda) -> tuple[str, ...]:
        hits = await m.recall("note", project="loop")
        names.update(thread.name for thread in threading.enumerate())
        return tuple(sorted(hit.text for hit in hits))

    async def main() -> None:
        async with AsyncMemoranda.open(server.url, key=server.key("did:example:far")) as m:
            names.update(thread.name for thread in threading.enumerate())
            before = set(names)
            answers = await asyncio.gather(*(recall(m) for _ in range(40)))
            assert set(answers) == {("note 0", "note 1", "note 2")}
            # Threads of this loop's pool: the one that opened the memory, and no other.
            assert {name for name in names - before if name.startswith("asyncio")} == set()
            assert len([memory async for memory in m]) == (await m.stats()).memories
            with pytest.raises(NotFound):
                await m.get("ump:sha256:" + "0" * 64)
            cancelled = asyncio.ensure_future(m.stats())
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            # The connections are as good as before.
            assert (await m.stats()).memories >= 3

    asyncio.run(main())
