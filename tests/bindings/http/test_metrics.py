"""GET /metrics: what is counted, in the form that Prometheus reads, for whom, and what is never in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from tests.bindings.http.running import Running, draft, error_of, remember, running
from tests.embedders import LETTERS, WORDS_ALONE, by_letters

from memoranda import Memoranda, __version__
from memoranda.bindings.http.metrics import _store_numbers
from memoranda.cli.doctor import _check_embeddings
from memoranda.embedding.embedder import of_callable
from memoranda.measures import BUCKETS, EMBEDDING_ASIDE, EMBEDDING_BACKLOG, EMBEDDING_FAILING, FAMILIES
from memoranda.model.instant import DAY_MS, Instant, parse_instant
from memoranda.opening import open_service
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.settings import load_settings
from memoranda.storage.engine.contract import KeyLimits

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)*)\})? (\S+)')
OWNER = "did:example:somebody-special"
Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("metrics")) as found:
        yield found


def numbers(text: str) -> Numbers:
    """Every line, read as strictly as the format is written."""
    found: Numbers = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))", line), line
            continue
        matched = LINE.fullmatch(line)
        assert matched, line
        labels = frozenset(re.findall(r'([a-z]+)="([^"]*)"', matched[2] or ""))
        assert (matched[1], labels) not in found, f"twice: {line}"
        found[matched[1], labels] = float(matched[3])
    return found


def scraped(client: httpx.Client) -> Numbers:
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return numbers(answer.text)


def of(found: Numbers, name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0.0)


def test_requests_and_verbs_are_counted_and_timed(server: Running) -> None:
    recall = {"standard": "ump", "operation": "recall"}
    with server.client() as client:
        before = scraped(client)
        for _ in range(3):
            assert client.post("/ump/recall", json={"query": "x", "scope": {"owner": OWNER}}).status_code == 200
        assert client.post("/ump/recall", json={"query": 7}).status_code == 400
        assert client.get("/ump/memory/urn:ump:none").status_code == 404
        after = scraped(client)

    def more(name: str, **labels: str) -> float:
        return of(after, name, **labels) - of(before, name, **labels)

    assert more("memoranda_http_requests_total", **recall, code="200") == 3
    assert more("memoranda_http_requests_total", **recall, code="400") == 1
    assert more("memoranda_http_request_seconds_count", **recall) == 4
    assert more("memoranda_http_request_seconds_bucket", **recall, le="+Inf") == 4
    assert more("memoranda_http_request_seconds_sum", **recall) > 0
    assert more("memoranda_verb_seconds_count", standard="ump", verb="recall") == 3
    assert more("memoranda_verb_failures_total", standard="ump", verb="get", code="not_found") == 1
    # The request that asks is under way itself.
    assert of(after, "memoranda_requests_in_progress", pool="memoranda-http") == 1


def test_buckets_grow_and_end_with_the_count(server: Running) -> None:
    with server.client() as client:
        remember(client, owner=OWNER)
        found = scraped(client)
    name = "memoranda_writer_wait_seconds"
    counts = [of(found, f"{name}_bucket", le=str(bound)) for bound in (*BUCKETS, "+Inf")]
    assert counts == sorted(counts)
    assert counts[-1] == of(found, f"{name}_count") > 0
    assert of(found, "memoranda_write_seconds_count") > 0
    assert of(found, "memoranda_writes_waiting") >= 0


def test_the_store_and_the_process_are_measured_when_asked(server: Running) -> None:
    with server.client() as client:
        found = scraped(client)
    assert of(found, "memoranda_build_info", version=__version__) == 1
    assert of(found, "memoranda_store_bytes") > 50_000
    assert of(found, "process_resident_memory_bytes") > 10_000_000
    assert of(found, "process_cpu_seconds_total") > 0
    assert of(found, "process_open_fds") > 3


def test_keys_that_end_soon_are_counted_and_a_limited_key_waits(server: Running) -> None:
    gate, now = server.service.gate, server.service.context.clock()
    limits = KeyLimits(requests_per_minute=6)
    key = gate.add_key("ci", tenant="ada", scopes=("read",), expires=Instant(now + 3 * DAY_MS), limits=limits)
    with server.client() as client:
        found = scraped(client)
    key_id = key.split("_")[1]
    assert of(found, "memoranda_keys_expiring") == 1
    assert of(found, "memoranda_key_expiry_timestamp_seconds", key=key_id) == pytest.approx(now / 1000 + 3 * 86_400)
    with server.client(key) as client:
        assert client.post("/ump/recall", json={"query": "tea"}).status_code == 200
        refused = client.post("/ump/recall", json={"query": "tea"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 10
    gate.revoke_key(key_id)
    with server.client() as client:
        assert of(scraped(client), "memoranda_keys_expiring") == 0


def test_whoever_listens_is_counted_and_timed(server: Running) -> None:
    with server.client() as client, server.client() as other:
        before = scraped(client)
        with other.stream("GET", "/ump/subscribe", params={"owner": OWNER}) as stream:
            lines = stream.iter_lines()
            next(lines)
            assert of(scraped(client), "memoranda_streams") - of(before, "memoranda_streams") == 1
            remember(client, "somebody listens", owner=OWNER)
            assert any("somebody listens" in line for line in lines)
            # What is sent next comes after the first was counted.
            remember(client, "and still listens", owner=OWNER)
            assert any("still listens" in line for line in lines)
            after = scraped(client)
    name = "memoranda_feed_lag_seconds_count"
    assert of(after, name) - of(before, name) >= 1


def test_no_owner_and_nothing_that_was_stored_or_asked_is_in_it(server: Running) -> None:
    words = ("zebra-in-a-text", "zebra-in-a-project", "zebra-in-a-path", "zebra-in-a-query", OWNER)
    with server.client() as client:
        client.post("/ump/remember", json=draft("zebra-in-a-text", owner=OWNER, project="zebra-in-a-project"))
        client.get("/ump/memory/zebra-in-a-path")
        client.get("/zebra-in-a-path")
        client.get("/v1/oams/memories/zebra-in-a-path/zebra-in-a-path")
        client.post("/ump/recall", json={"query": "zebra-in-a-query", "scope": {"owner": OWNER}})
        client.request("ZEBRA", "/ump/recall")
        text = client.get("/metrics").text
    assert not [word for word in words if word in text]
    assert "zebra" not in text.lower()


def test_only_the_operator_reads_them_unless_told_otherwise(server: Running, tmp_path: Path) -> None:
    gate, operator = server.service.gate, server.service.operator_did
    may = {
        "operator's token": server.token,
        "operator's own key": gate.add_key("own", tenant=operator, scopes=("read",)),
    }
    may_not = {
        "another owner's key": server.key(),
        "a key that may not read": gate.add_key("writer", tenant=operator, scopes=("write",)),
        "a token for one owner": gate.mint_token(verbs=("read",), scope={"owner": OWNER}, ttl_ms=60_000),
        "a token for one project": gate.mint_token(verbs=("read",), scope={"project": "p"}, ttl_ms=60_000),
    }
    for what, credential in may.items():
        with server.client(credential) as client:
            assert client.get("/metrics").status_code == 200, what
    for what, credential in may_not.items():
        with server.client(credential) as client:
            assert error_of(client.get("/metrics")) == (403, "forbidden_scope"), what
    with server.client("") as client:
        assert error_of(client.get("/metrics")) == (401, "unauthorized")


@pytest.mark.parametrize(("readers", "status"), [("open", 200), ("off", 404)])
def test_they_can_be_open_or_not_there(tmp_path: Path, readers: str, status: int) -> None:
    with running(tmp_path, metrics_readers=readers) as server, server.client(server.token) as known:
        assert known.get("/metrics").status_code == status
        assert ("/metrics" in known.get("/openapi.json").json()["paths"]) == (readers == "open")
        with server.client("") as unknown:
            assert unknown.get("/metrics").status_code == (200 if readers == "open" else 401)


def test_what_has_no_vectors_yet_is_counted(tmp_path: Path) -> None:
    service = open_service(load_settings(WORDS_ALONE, home=tmp_path), embedder=LETTERS)
    with closing(service), Memoranda(service, service.gate.local()) as m:
        for text in ("one", "two", "three"):
            m.remember(text)
        assert [value for family, _, value in _store_numbers(service) if family is EMBEDDING_BACKLOG] == [3.0]
        while service.embedding.step():
            pass
        assert [value for family, _, value in _store_numbers(service) if family is EMBEDDING_BACKLOG] == [0.0]


def test_an_embedder_that_fails_is_told_with_the_time_since_when(tmp_path: Path) -> None:
    def fail(texts: Sequence[str]) -> list[list[float]]:
        raise RuntimeError(f"cannot embed {texts[0]}")

    broken = of_callable("broken", fail)
    with running(tmp_path, metrics_readers="open", meaning=SemanticSearch("broken", lambda: broken)) as server:
        with server.client(server.key()) as client:
            remember(client, "the kettle is blue")
            assert client.get("/readyz").json() == {"status": "ready"}
            assert of(scraped(client), "memoranda_embedding_failing_since_seconds") == 0
            with pytest.raises(RuntimeError):
                server.service.embedding.step()
            answer = client.get("/readyz")
            assert (answer.status_code, set(answer.json())) == (200, {"status", "embedding_failing_since"})
            since = parse_instant(answer.json()["embedding_failing_since"]) / 1_000
            found = scraped(client)
            assert of(found, "memoranda_embedding_failing_since_seconds") == pytest.approx(since)
            assert of(found, "memoranda_embedding_aside") == 0
        looked = _check_embeddings(server.service)
        assert not looked.ok
        assert "embedding has failed since 20" in looked.seen
        assert "RuntimeError (broken)" in looked.seen
        assert "kettle" not in looked.seen
        assert looked.mend


def test_a_version_that_cannot_be_embedded_is_counted(tmp_path: Path) -> None:
    def refuse(texts: Sequence[str]) -> list[list[float]]:
        if "poison" in texts[0]:
            raise RuntimeError("poison")
        return by_letters(texts)

    moody = of_callable("moody", refuse)
    service = open_service(load_settings(WORDS_ALONE, home=tmp_path), embedder=moody)
    with closing(service), Memoranda(service, service.gate.local()) as m:
        for text in ("one", "poison", "three"):
            m.remember(text)
        while service.embedding.step():
            pass
        numbers = {family: value for family, _, value in _store_numbers(service)}
        assert (numbers[EMBEDDING_BACKLOG], numbers[EMBEDDING_ASIDE], numbers[EMBEDDING_FAILING]) == (0, 1, 0)
        looked = _check_embeddings(service)
        assert (looked.ok, looked.seen.startswith("1 version could not be embedded")) == (False, True)
        assert "models embed" in looked.mend


def test_a_store_that_is_away_leaves_the_rest(tmp_path: Path) -> None:
    with running(tmp_path, metrics_readers="open") as server, server.client("") as client:
        server.service.close()
        found = scraped(client)
        assert of(found, "memoranda_build_info", version=__version__) == 1
        assert of(found, "memoranda_store_bytes") == 0


def test_every_measure_is_on_the_page_that_explains_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    for family in FAMILIES.values():
        labels = ", ".join(f"`{label}`" for label in family.labels)
        assert f"| `{family.name}` | {family.kind} | {labels} | {family.help_text} |" in page


# --- ids of requests ----------------------------------------------------------------------------------


def test_every_answer_has_the_id_of_its_request(server: Running) -> None:
    with server.client() as client:
        made = {client.get("/healthz").headers["x-request-id"] for _ in range(3)}
        assert len(made) == 3
        assert client.get("/healthz", headers={"X-Request-Id": "our-42"}).headers["x-request-id"] == "our-42"
        for bad in ("two words", "a" * 65, "<script>", "ü"):
            answer = client.get("/healthz", headers={b"X-Request-Id": bad.encode("latin-1")})
            assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])
