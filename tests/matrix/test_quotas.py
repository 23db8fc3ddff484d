"""Quotas bind what is written through every standard: it is one store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from memoranda.errors import MemorandaError, QuotaExceeded
from memoranda.service.core.limits import Quotas
from memoranda.service.openwop import runs as run_log
from memoranda.standards.openwop.entry import Draft
from tests.bindings.http.running import openwop_error_of, running
from tests.matrix.doors import DAY, SPACE, WRITES, House
from tests.standards.openwop.samples import ARTIFACTS


def refused(house: House, way: str, text: str) -> str:
    """Why a way to write refuses; nothing if it does not."""
    try:
        WRITES[way](house, text)
    except (MemorandaError, AssertionError) as error:
        return str(error)
    return ""


@pytest.mark.requirement("OURS-closed-doors")
@pytest.mark.parametrize("quotas", [Quotas(memories=2), Quotas(bytes=2_000)])
@pytest.mark.parametrize("way", WRITES)
def test_no_way_to_write_goes_past_what_an_owner_may_keep(way: str, quotas: Quotas) -> None:
    house = House(quotas=quotas)
    if quotas.memories:
        house.remember("one", scope={"project": SPACE})
        house.remember("two", scope={"project": SPACE})
    text = "zanzibar " + "warm " * (1 if quotas.memories else 500)
    why = refused(house, way, text)
    assert "is the most" in why or "refused=1" in why
    assert not any("zanzibar" in text for text in house.texts("zanzibar"))
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
@pytest.mark.parametrize("way", WRITES)
def test_no_way_to_write_goes_past_the_writes_of_a_minute(way: str) -> None:
    house = House(quotas=Quotas(writes_per_minute=2))
    house.remember("one", scope={"project": SPACE})
    assert refused(house, way, "zanzibar first") == ""
    # Files are taken in whole, and say of each line what became of it.
    assert any(why in refused(house, way, "zanzibar second") for why in ("writes a minute", "refused=1"))
    with pytest.raises(QuotaExceeded):
        house.remember("through another")
    house.advance(60_000)
    assert refused(house, way, "zanzibar third") == ""
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
@pytest.mark.parametrize("way", ["file", "log"])
def test_files_and_logs_count_as_writes_too(way: str) -> None:
    house = House(quotas=Quotas(writes_per_minute=2))
    run = house.service.openwop.begin_run(house.owner, "w").run_id
    BESIDE[way](house, run, "one")
    BESIDE[way](house, run, "two")
    with pytest.raises(QuotaExceeded, match="writes a minute"):
        BESIDE[way](house, run, "three")
    house.advance(60_000)
    BESIDE[way](house, run, "four")
    house.service.close()


# What is kept beside memories, each with a text of somebody's choice.
BESIDE: Final[Mapping[str, Callable[[House, str, str], object]]] = {
    "file": lambda house, _, text: house.service.openwop.write_file(house.owner, "notes.md", text),
    "file of a run": lambda house, run, text: house.service.openwop.write_file(house.owner, "a", text, run_id=run),
    "log": lambda house, run, text: house.service.openwop.emit(house.owner, run, "agent.toolCalled", {"text": text}),
    "run": lambda house, _, text: house.service.openwop.begin_run(house.owner, "w", metadata={"text": text}),
    "end of a run": lambda house, run, text: house.service.openwop.finish_run(
        house.owner, run, variables={"text": text}
    ),
    "proposal": lambda house, _, text: house.service.openwop.propose(
        house.owner, "prompt-template", {**ARTIFACTS["prompt-template"], "text": text}
    ),
    "template": lambda house, _, text: house.cal(f"DEFINE TEMPLATE plain ELEMENT {{ {text} }}"),
    "webhook": lambda house, _, text: house.service.openwop.register_webhook(
        house.owner, f"https://example.org/{text}", ["run.started"]
    ),
}


def _used(house: House) -> int:
    with house.engine.open_snapshot(house.tenant) as snapshot:
        return snapshot.measure_usage()[1]


@pytest.mark.requirement("OURS-closed-doors")
def test_what_is_kept_beside_memories_counts_as_bytes() -> None:
    house = House(quotas=Quotas(bytes=3_000))
    run = house.service.openwop.begin_run(house.owner, "w").run_id
    before = _used(house)
    for way, write in BESIDE.items():
        with pytest.raises(QuotaExceeded, match="3000 bytes is the most"):
            write(house, run, "zanzibar " * 440)
        assert _used(house) == before, way
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
def test_a_log_that_is_copied_counts_twice() -> None:
    house = House(quotas=Quotas(bytes=9_000))
    wop, owner = house.service.openwop, house.owner
    run = wop.begin_run(owner, "w").run_id
    wop.emit(owner, run, "agent.toolCalled", {"text": "zanzibar " * 500})
    wop.finish_run(owner, run)
    with pytest.raises(QuotaExceeded, match="9000 bytes is the most"):
        wop.fork(owner, run, mode="branch", from_seq=3)
    assert [each.run_id for each in wop.runs(owner)] == [run]
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
def test_what_is_deleted_gives_its_bytes_back() -> None:
    house = House(quotas=Quotas(bytes=9_000))
    wop, owner = house.service.openwop, house.owner
    large, before = "zanzibar " * 600, _used(house)
    for _ in range(3):
        wop.write_file(owner, "notes.md", large)
        with pytest.raises(QuotaExceeded):
            wop.write_file(owner, "notes.md", large)
        with pytest.raises(QuotaExceeded, match="bytes is the most"):
            house.remember(large)
        # Whoever has no room left can always make some.
        assert wop.remove_file(owner, "notes.md")
        house.advance(10 * DAY)
        run_log.keep_retention(replace(house.context, run_retention_ms=DAY))
    # The last event stays, and so does how often there was such a file.
    assert _used(house) - before < 1_500
    house.remember(large)
    house.service.close()


@pytest.mark.requirement("OURS-closed-doors")
def test_over_http_files_and_logs_are_refused_with_the_code_of_their_standard(tmp_path: Path) -> None:
    with running(tmp_path, quotas=Quotas(bytes=9_000)) as server, server.client(server.key()) as client:
        run = client.post("/v1/host/runs", json={"workflowId": "w"}).json()["runId"]
        large = "zanzibar " * 1_500
        path = f"/v1/host/runs/{run}"
        for method, where, body in (
            ("PUT", "/v1/host/workspace/files/notes.md", {"content": large}),
            ("PUT", f"{path}/workspace/files/notes.md", {"content": large}),
            ("POST", f"{path}/events", {"type": "agent.toolCalled", "payload": {"text": large}}),
        ):
            for headers in ({}, {"Idempotency-Key": "once"}):
                refused = client.request(method, where, json=body, headers=headers)
                assert openwop_error_of(refused) == (429, "rate_limited"), refused.text
                assert "9000 bytes is the most" in refused.text
        assert client.get("/v1/host/workspace/files").json()["files"] == []


@pytest.mark.requirement("OURS-closed-doors")
def test_background_work_counts_as_writes_and_says_when_the_next_is_let_in() -> None:
    house = House(quotas=Quotas(writes_per_minute=3))
    wop, owner = house.service.openwop, house.owner
    wop.put_entry(owner, SPACE, Draft(content="The office is in Ghent."))
    house.advance(10_000)
    wop.put_entry(owner, SPACE, Draft(content="Lunch is at noon."))
    wop.distill(owner, SPACE)
    house.advance(20_000)
    for attempt in (lambda: wop.compact(owner, SPACE), lambda: house.remember("one more")):
        with pytest.raises(QuotaExceeded) as raised:
            attempt()
        assert raised.value.retry_after_seconds == 30
    house.advance(30_000)
    wop.compact(owner, SPACE)
    with pytest.raises(QuotaExceeded) as raised:
        house.remember("one more")
    assert raised.value.retry_after_seconds == 10
    house.service.close()
