"""Grains in files: what a store gives away in an .mg file it takes back unchanged, and damage is told."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange, mg, mg_report
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput, MemorandaError, NotFound
from memoranda.model.selection import Selection
from memoranda.service.exchange.report import Report
from memoranda.standards.oms import grains, signature
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.manifest import DEFAULT, IndexState

CREATED_AT = 1768471200000
KEY = SigningKey(bytes(range(32)))


def belief(said: str, **fields: object) -> dict[str, object]:
    base = {"type": "belief", "subject": "ada", "relation": "prefers", "object": said, "confidence": 0.9}
    return {**base, "created_at": CREATED_AT, **fields}


def some(count: int) -> list[Grain]:
    return [grains.encode(belief(f"tea {number}")) for number in range(count)]


def quiet(_: int) -> None:
    pass


def export(memoranda: Memoranda, target: Path, *, history: bool = True) -> int:
    items = memoranda.service.grains.export(memoranda.access, history=history)
    return exchange.export_grains(items, str(target), Report(), quiet)


def take(memoranda: Memoranda, *sources: Path) -> Report:
    return exchange.import_files(memoranda.ump.import_items, memoranda.owner, [str(source) for source in sources])


def known(memoranda: Memoranda) -> dict[str, tuple[bytes, IndexState]]:
    """Every grain that may leave: its bytes and what the index knows, by address."""
    return {
        grains.address_of(signature.blob_of(delivery)): (delivery, index)
        for delivery, index in memoranda.service.grains.export(memoranda.access)
    }


def packed(path: Path, items: list[Grain | bytes], *, compress: bool = False) -> Path:
    pairs: Iterator[tuple[Grain | bytes, IndexState]] = ((item, DEFAULT) for item in items)
    mg.pack(str(path), pairs, order="address", compress=compress, progress=quiet)
    return path


def fill(memoranda: Memoranda) -> None:
    """Native grains, signed and superseded, and UMP memories, revised and merged."""
    store, access = memoranda.service.grains, memoranda.access
    first = store.put(access, belief("tea", user_id="ada")).address
    second = store.supersede(access, first, belief("coffee", derived_from=[first])).address
    store.set_verification(access, second, "verified")
    store.put(access, signature.sign(belief("signed"), KEY, issued_at=CREATED_AT // 1000))
    for _ in range(2):
        memoranda.remember("use npm", kind="procedural", project="p")
    npm = memoranda.remember("use npm", kind="procedural", project="p").id
    memoranda.revise(memoranda.revise(npm, "use pnpm").id, "use pnpm, never npm")
    memoranda.remember("a day", kind="episodic", structured={"a": [1, 2.5, None]}, user="ada")
    memoranda.remember("until then", valid_to="2027-01-01T00:00:00Z")
    memoranda.forget(memoranda.remember("gone").id)


@pytest.fixture
def full(memoranda: Memoranda) -> Memoranda:
    fill(memoranda)
    return memoranda


# --- one file, full memory ---------------------------------------------------------------------------


def test_another_store_has_the_same_bytes_addresses_links_and_verdicts(full: Memoranda, tmp_path: Path) -> None:
    assert export(full, tmp_path / "a.mg") == 8
    with Memoranda.open(tmp_path / "other", owner=full.owner) as other:
        report = take(other, tmp_path / "a.mg")
        assert (report.created, report.merged, report.refused) == (8, 0, 0)
        theirs = known(other)
        assert theirs == known(full)
        assert sum(state.superseded_by is not None for _, state in theirs.values()) == 3
        assert [state.verification_status for _, state in theirs.values()].count("verified") == 1
        assert export(other, tmp_path / "b.mg") == 8
    assert (tmp_path / "b.mg").read_bytes() == (tmp_path / "a.mg").read_bytes()


def test_records_come_back_byte_for_byte_after_the_store_is_wiped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Memoranda.open(home) as memoranda:
        fill(memoranda)
        exchange.export_file(memoranda.export(), str(tmp_path / "before.ump.json"), "json", quiet)
        histories = {record["id"]: len(memoranda.history(record["id"])) for record in memoranda.export()}
        export(memoranda, tmp_path / "a.mg")
    for path in home.iterdir():
        if path.name != "operator.key":
            path.unlink()
    with Memoranda.open(home) as memoranda:
        take(memoranda, tmp_path / "a.mg")
        exchange.export_file(memoranda.export(), str(tmp_path / "after.ump.json"), "json", quiet)
        assert memoranda.verify().ok
        after = {record["id"]: len(memoranda.history(record["id"])) for record in memoranda.export()}
    assert (tmp_path / "after.ump.json").read_bytes() == (tmp_path / "before.ump.json").read_bytes()
    # Versions before a merge stay behind; everything else is one memory again.
    assert after == {name: min(count, 3) for name, count in histories.items()}


def test_a_record_that_came_back_is_a_record_and_still_found_by_its_address(full: Memoranda, tmp_path: Path) -> None:
    export(full, tmp_path / "a.mg")
    with Memoranda.open(tmp_path / "other", owner=full.owner) as other:
        take(other, tmp_path / "a.mg")
        record = other.recall("pnpm never npm", project="p")[0].record
        assert "memoranda:native" not in (record["body"].get("structured") or {})
        views = [each for each in known(full) if not full.service.grains.get(full.access, each).is_native]
        assert len(views) == 5
        assert not any(other.service.grains.get(other.access, each).is_native for each in views)


def test_the_view_of_another_owners_record_stays_a_grain(full: Memoranda, tmp_path: Path) -> None:
    export(full, tmp_path / "a.mg")
    with Memoranda.open(tmp_path / "other") as other:
        assert take(other, tmp_path / "a.mg").created == 8
        assert {address: each[0] for address, each in known(other).items()} == {
            address: each[0] for address, each in known(full).items()
        }
        assert all(other.service.grains.get(other.access, each).is_native for each in known(other))


def test_a_view_that_says_something_else_than_its_record_stays_a_grain(memoranda: Memoranda, tmp_path: Path) -> None:
    memoranda.remember("use pnpm")
    (delivery, _) = next(iter(memoranda.service.grains.export(memoranda.access)))
    changed = {**grains.decode(delivery).fields, "object": "use npm"}
    packed(tmp_path / "a.mg", [grains.encode(changed)])
    assert take(memoranda, tmp_path / "a.mg").created == 1
    (found,) = memoranda.service.grains.listing(memoranda.access, Selection(status_filter="current", object="use npm"))[
        0
    ]
    assert found.is_native


def test_importing_ones_own_export_again_changes_nothing(full: Memoranda, tmp_path: Path) -> None:
    before = known(full)
    export(full, tmp_path / "a.mg")
    report = take(full, tmp_path / "a.mg")
    assert (report.created, report.merged, report.refused) == (0, 8, 0)
    assert known(full) == before


def test_without_history_only_what_is_current_leaves(full: Memoranda, tmp_path: Path) -> None:
    report = Report()
    given = full.service.grains.export(full.access, history=False, report=report)
    assert exchange.export_grains(given, str(tmp_path / "a.mg"), report, quiet) == 4
    # The fifth follows something of a user and does not say so itself: without its history nothing would.
    (refusal,) = report.refusals
    assert (refusal.code, refusal.message) == (
        "unsupported",
        "this form cannot state the restrictions of earlier versions",
    )


def test_a_file_cannot_do_what_a_policy_forbids(memoranda: Memoranda, tmp_path: Path) -> None:
    store, access = memoranda.service.grains, memoranda.access
    held = store.put(access, belief("held")).address
    store.set_hold(access, held, held=True)
    old = grains.encode(belief("held"))
    new = grains.encode(belief("new"))
    states = ((old, IndexState(superseded_by=new.address, verification_status="retracted")), (new, DEFAULT))
    mg.pack(str(tmp_path / "a.mg"), states, order="given", compress=False, progress=quiet)
    report = take(memoranda, tmp_path / "a.mg")
    assert (report.created, report.merged, report.refused) == (1, 1, 1)
    assert "legal hold" in report.refusals[0].message
    assert store.get(access, held).index == IndexState()


def test_the_more_careful_verdict_stands(memoranda: Memoranda, tmp_path: Path) -> None:
    store, access = memoranda.service.grains, memoranda.access
    address = store.put(access, belief("tea")).address
    store.set_verification(access, address, "contested")
    state = IndexState(verification_status="verified")
    mg.pack(
        str(tmp_path / "a.mg"), [(grains.encode(belief("tea")), state)], order="given", compress=False, progress=quiet
    )
    assert take(memoranda, tmp_path / "a.mg").refused == 0
    assert store.get(access, address).index.verification_status == "contested"


def test_a_manifest_that_goes_in_a_circle_closes_nothing_twice(memoranda: Memoranda, tmp_path: Path) -> None:
    one, two = some(2)
    states = (
        (one, IndexState(superseded_by=two.address, system_valid_to=CREATED_AT)),
        (two, IndexState(superseded_by=one.address, system_valid_to=CREATED_AT)),
    )
    mg.pack(str(tmp_path / "a.mg"), states, order="given", compress=False, progress=quiet)
    assert take(memoranda, tmp_path / "a.mg").created == 2
    current, _ = memoranda.service.grains.listing(memoranda.access, Selection(status_filter="current"))
    assert [each.address for each in current] == [two.address]


def test_a_memory_too_large_for_a_grain_is_named_and_left_out(memoranda: Memoranda, tmp_path: Path) -> None:
    memoranda.remember("large", structured={"data": "x" * 900_000})
    memoranda.remember("small")
    items = memoranda.service.grains.export(memoranda.access)
    report = Report()
    count = exchange.export_grains(items, str(tmp_path / "a.mg"), report, quiet)
    assert (count, report.refused) == (1, 1)
    assert "too large" in report.refusals[0].message


def test_a_folder_may_hold_files_of_grains_beside_files_of_records(memoranda: Memoranda, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    packed(folder / "a.mg", [*some(2)], compress=True)
    (folder / "b.ndjson").write_text('{"kind": "semantic", "body": {"text": "good"}}\n')
    assert take(memoranda, folder).created == 3
    single = tmp_path / "one.grain"
    single.write_bytes(grains.encode(belief("alone")).blob)
    assert take(memoranda, single).created == 1
    report = exchange.verify_files([str(folder / "a.mg"), str(single)])
    assert (report.verified, report.refused) == (3, 0)


# --- files alone -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compress", [False, True])
def test_what_is_packed_is_unpacked_the_same(tmp_path: Path, compress: bool) -> None:
    envelope = signature.sign(belief("signed"), KEY, issued_at=CREATED_AT // 1000)
    packed(tmp_path / "a.mg", [*some(3), envelope], compress=compress)
    assert mg.unpack(str(tmp_path / "a.mg"), tmp_path / "out", "both", quiet) == 4
    files = sorted((tmp_path / "out").glob("*.grain"))
    assert [grains.decode(path.read_bytes(), address=path.stem).address for path in files] == sorted(
        grain.address for grain in some(3)
    )
    (signed,) = (tmp_path / "out").glob("*.cose")
    assert signed.read_bytes() == envelope
    assert len((tmp_path / "out" / mg.FIELDS_NAME).read_bytes().splitlines()) == 4
    again = mg.read_all_grains([*map(str, files), str(signed)])
    mg.pack(str(tmp_path / "b.mg"), again, order="address", compress=compress, progress=quiet)
    assert (tmp_path / "b.mg").read_bytes() == (tmp_path / "a.mg").read_bytes()


def test_fields_become_the_same_grains_from_any_form_of_json(tmp_path: Path) -> None:
    lines = ['{"type":"event","content":"a","created_at":1}', '{"type":"event","content":"b","created_at":2}']
    (tmp_path / "a.ndjson").write_text("\n".join(lines))
    (tmp_path / "a.json").write_text(f"[{','.join(lines)}]")
    found = [
        [grain.address for grain, _ in mg.read_all_grains([str(tmp_path / name)]) if isinstance(grain, Grain)]
        for name in ("a.ndjson", "a.json")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_a_bad_input_is_named_with_its_place_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"type":"event","content":"a","created_at":1}\n{"type":"nothing"}\n')
    with pytest.raises(MemorandaError, match=r"a\.ndjson: .*grain 2"):
        packed_from(tmp_path / "out.mg", tmp_path / "a.ndjson")
    (tmp_path / "cut.grain").write_bytes(some(1)[0].blob[:-1])
    with pytest.raises(MemorandaError, match=r"cut\.grain: "):
        packed_from(tmp_path / "out.mg", tmp_path / "cut.grain")
    with pytest.raises(NotFound, match=r"none\.mg: there is no such file"):
        packed_from(tmp_path / "out.mg", tmp_path / "none.mg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ndjson", "cut.grain"]


def packed_from(target: Path, *sources: Path) -> None:
    mg.pack(str(target), mg.read_all_grains(map(str, sources)), order="address", compress=False, progress=quiet)


def test_a_single_grain_is_read_from_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(some(1)[0].blob)
    assert mg.read_grain(str(path)) == some(1)[0].blob
    path.write_text('{"address": "x", "grain": {"type": "event"}, "index": {}, "held": false}')
    assert mg.read_grain(str(path)) == {"type": "event"}
    path.write_text('{"type": "event"}\n{"type": "event"}\n')
    with pytest.raises(InvalidInput, match="more than one"):
        mg.read_grain(str(path))
    packed(path, [*some(1)])
    with pytest.raises(InvalidInput, match="many grains"):
        mg.read_grain(str(path))
    path.write_bytes(b"\x01" + bytes(2_000_000))
    with pytest.raises(InvalidInput, match="over the limit"):
        mg.read_grain(str(path))


def test_a_signature_that_does_not_hold_is_told_and_placed(tmp_path: Path) -> None:
    envelope = signature.sign(belief("signed"), KEY, issued_at=CREATED_AT // 1000)
    forged = envelope[:-1] + bytes((envelope[-1] ^ 1,))
    packed(tmp_path / "a.mg", [*some(2), forged])
    verdict = mg_report.verify(str(tmp_path / "a.mg"), quiet)
    assert (verdict.report.verified, verdict.recoverable, verdict.report.refused) == (2, 3, 1)
    assert "grain " in verdict.report.refusals[0].where
    shown = mg_report.describe(str(tmp_path / "a.mg"), address=None, limit=9)["grains"]
    assert [each.get("signature_ok", True) for each in shown].count(False) == 1


@pytest.mark.parametrize("compress", [False, True])
def test_a_file_cut_anywhere_is_never_whole_and_gives_back_its_first_grains(tmp_path: Path, compress: bool) -> None:
    whole = packed(tmp_path / "a.mg", [*some(30)], compress=compress).read_bytes()
    cut = tmp_path / "cut.mg"
    saved = []
    for size in range(0, len(whole), 97):
        cut.write_bytes(whole[:size])
        try:
            verdict = mg_report.verify(str(cut), quiet)
        except InvalidInput:
            assert size == 0
            continue
        assert verdict.report.refused
        saved.append(verdict.recoverable or 0)
        with pytest.raises(MemorandaError):
            mg_report.describe(str(cut), address=None, limit=1)
        with pytest.raises(MemorandaError):
            mg.unpack(str(cut), tmp_path / "out", "grain", quiet)
    assert saved == sorted(saved)
    if not compress:
        assert saved[-1] >= 29
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_recovered_is_a_good_file(tmp_path: Path) -> None:
    whole = packed(tmp_path / "a.mg", [*some(30)]).read_bytes()
    (tmp_path / "cut.mg").write_bytes(whole[: len(whole) // 2])
    written = mg.recover(str(tmp_path / "cut.mg"), str(tmp_path / "saved.mg"), quiet)
    assert 5 < written.count < 30
    assert mg_report.verify(str(tmp_path / "saved.mg"), quiet).report.verified == written.count
    with pytest.raises(InvalidInput, match="another file"):
        mg.recover(str(tmp_path / "cut.mg"), str(tmp_path / "cut.mg"), quiet)


def test_random_bytes_are_refused_in_one_sentence(tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "a"
    for start in (
        b"",
        b"MG",
        b"MG\x01\x00",
        b"MG\x01\x04\x00\x00\x00\x01\x01\x01",
        b"\x01",
        b"\xd2",
        b"\x84",
        b"{",
        b"[",
    ):
        for size in (0, 1, 9, 40, 400):
            path.write_bytes(start + chance.randbytes(size))
            for act in (
                lambda: mg_report.describe(str(path), address=None, limit=5),
                lambda: mg_report.describe(str(path), address="0" * 64, limit=5),
                lambda: list(mg.read_all_grains([str(path)])),
            ):
                with pytest.raises(MemorandaError) as caught:
                    act()
                assert "\n" not in caught.value.message


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    import hashlib

    from backports import zstd

    frame = zstd.compress(bytes(300 * 1024 * 1024), level=3)
    data = b"MG\x01\x06" + (1).to_bytes(4, "big") + b"\x01\x01" + bytes(6) + bytes(4) + frame
    (tmp_path / "bomb.mg").write_bytes(data + hashlib.sha256(data).digest())
    verdict = mg_report.verify(str(tmp_path / "bomb.mg"), quiet)
    assert "have more than" in verdict.report.refusals[0].message
    assert verdict.recoverable == 0


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    import threading

    data = packed(tmp_path / "a.mg", [*some(2)]).read_bytes()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(data,))
    writer.start()
    assert mg_report.describe(str(fifo), address=None, limit=5)["count"] == 2
    writer.join()


def test_many_grains_are_packed_and_found_in_little_memory(tmp_path: Path) -> None:
    import tracemalloc

    count = 20_000
    items = ((grains.encode(belief(f"tea {number}")), DEFAULT) for number in range(count))
    tracemalloc.start()
    try:
        mg.pack(str(tmp_path / "a.mg"), items, order="address", compress=False, progress=quiet)
        mg_report.describe(str(tmp_path / "a.mg"), address=None, limit=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < count * 400
    one = grains.encode(belief("tea 777")).address
    assert mg_report.describe(str(tmp_path / "a.mg"), address=one, limit=0)["grains"][0]["address"] == one
