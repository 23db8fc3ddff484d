"""Revise, forget, feedback, retention and history (UMP §3.5, §3.6, §3.8, §2.7)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import Conflict, ForbiddenScope, InvalidInput, NotFound, SignatureInvalid
from memoranda.standards.ump import record as records
from memoranda.standards.ump import rules, signature
from memoranda.standards.ump.mapping import unwrap
from memoranda.standards.ump.requests import ReviseRequest
from memoranda.standards.ump.shapes import Record
from tests.service.test_recall import tamper
from tests.service.test_remember import VECTORS
from tests.service.world import OPERATOR, PEER, World


@pytest.mark.requirement("UMP-2.3-never-deleted-on-change")
@pytest.mark.requirement("UMP-3.5-revise")
def test_revising_links_both_ways_and_closes_the_prior(world: World) -> None:
    first = world.remember("use pnpm", consent={"exportable": True})
    world.advance(1_000)
    second = world.service.revise(
        world.owner, ReviseRequest.parse({"id": first, "patch": {"body": {"text": "use bun"}}})
    )
    assert second.supersedes == (first,)
    prior, successor = world.get(first), world.get(second.id)
    assert prior["time"]["valid_to"] == successor["time"]["valid_from"] == "2026-06-04T10:00:01.000Z"
    assert prior["superseded_by"] == [second.id]
    assert prior["lifecycle"]["status"] == "active"
    assert successor["supersedes"] == [first]
    assert successor["consent"] == {"exportable": True}
    assert signature.verify(prior)
    assert signature.verify(successor)


@pytest.mark.requirement("UMP-2.3-never-deleted-on-change")
def test_each_version_names_the_one_before_it_and_history_tells_them_all(world: World) -> None:
    names = [world.remember("version 0")]
    for number in range(1, 4):
        world.advance(1)
        names.append(world.revise(names[-1], body={"text": f"version {number}"}))
    assert world.get(names[-1])["supersedes"] == [names[-2]]
    history = world.service.history(world.owner, names[1])
    assert [entry["record"]["body"]["text"] for entry in history] == [f"version {n}" for n in range(4)]  # type: ignore[index]
    assert all(entry["verified"] for entry in history)


def test_a_record_does_not_grow_with_its_revisions(world: World) -> None:
    name = first = world.remember("version 0")
    for number in range(1, 60):
        world.advance(1)
        name = world.revise(name, body={"text": f"version {number}"})
    assert len(dump(world.get(name))) < len(dump(world.get(first))) + 200
    assert len(world.service.history(world.owner, name)) == 60


@pytest.mark.requirement("UMP-OURS-original-signature")
@pytest.mark.parametrize("way", ["get", "history"])
def test_what_its_author_signed_is_shown_after_a_revision(world: World, way: str) -> None:
    said: Any = {"kind": "semantic", "body": {"text": "tea"}, "scope": {"owner": world.owner.default_tenant}}
    told = {"provenance": {"actor": PEER.did, "actor_kind": "agent", "method": "observed"}}
    whole = records.fill_defaults(records.check({**said, **told}), now=world.now, version="0.1")
    signed = signature.seal(whole, PEER)
    name = world.service.remember(world.owner, signed).id
    world.revise(name, body={"text": "coffee"})
    shown: Any = world.get(name) if way == "get" else world.service.history(world.owner, name)[0]["record"]
    assert (shown["superseded_by"] != [], shown["integrity"]["signer"]) == (True, OPERATOR.did)
    inside = unwrap(shown)
    assert inside is not None
    assert parse(inside.native) == signed
    assert signature.verify(parse(inside.native))
    # What is forgotten is shown by nobody's signature, and what is cut has no original beside it.
    world.forget(name, reason="asked")
    assert "tea" not in str(world.service.history(world.owner, name)) or unwrap(world.get(name)) is None


def test_the_prior_reads_the_same_every_time(world: World) -> None:
    first = world.remember("x")
    world.advance(1)
    world.revise(first, body={"text": "y"})
    before = world.get(first)
    world.advance(100_000)
    assert orjson.dumps(world.get(first)) == orjson.dumps(before)


def test_a_superseded_memory_is_revised_at_its_head(world: World) -> None:
    first = world.remember("x")
    world.advance(1)
    second = world.revise(first, body={"text": "y"})
    with pytest.raises(Conflict, match=second):
        world.revise(first, body={"text": "z"})


def test_a_forgotten_memory_cannot_be_revised(world: World) -> None:
    name = world.remember("x")
    world.forget(name)
    with pytest.raises(InvalidInput, match="forgotten"):
        world.revise(name, body={"text": "y"})


@pytest.mark.sqlite
def test_a_tampered_record_is_not_signed_again_by_revising_it(world: World) -> None:
    name = world.remember("apple 1")
    tamper(world, "apple 1", "apple 2")
    with pytest.raises(SignatureInvalid):
        world.revise(name, lifecycle={"salience": 1})
    with pytest.raises(SignatureInvalid):
        world.get(name)


def test_the_end_cannot_be_before_the_start(world: World) -> None:
    name = world.remember("x")
    with pytest.raises(InvalidInput, match="valid_to"):
        world.revise(name, time={"valid_from": "2026-01-02T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"})


def _span(world: World, name: str) -> tuple[str | None, str | None]:
    time = world.get(name)["time"]
    return time.get("valid_from"), time.get("valid_to")


SOONER, LATER = "2025-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"
LONG_AGO = "2020-01-01T00:00:00.000Z"


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
def test_what_is_not_true_yet_is_not_true_sooner_for_being_revised(world: World) -> None:
    name = world.revise(world.remember("Anna moves", time={"valid_from": LATER}), lifecycle={"salience": 0.5})
    assert _span(world, name) == (LATER, None)
    assert world.texts("Anna") == []
    assert world.texts("Anna", filter={"valid_at": LATER}) == ["Anna moves"]


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
def test_what_is_over_stays_over_when_it_is_revised(world: World) -> None:
    name = world.remember("Anna livd here", time={"valid_from": LONG_AGO, "valid_to": SOONER})
    name = world.revise(name, body={"text": "Anna lived here"})
    assert _span(world, name) == (LONG_AGO, SOONER)
    assert world.texts("Anna") == []
    assert world.texts("Anna", filter={"valid_at": "2022-01-01T00:00:00Z"}) == ["Anna lived here"]
    assert _span(world, world.revise(name, time={"valid_to": None})) == ("2026-06-04T10:00:00.000Z", None)


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
def test_an_end_stays_until_a_revision_names_another(world: World) -> None:
    name = world.remember("Anna lives here", time={"valid_from": LONG_AGO, "valid_to": LATER})
    now = "2026-06-04T10:00:00.000Z"
    name = world.revise(name, body={"text": "Anna lives there"})
    assert _span(world, name) == (now, LATER)
    name = world.revise(name, time={"valid_to": None})
    assert _span(world, name) == (now, None)


@pytest.mark.requirement("UMP-OURS-only-what-is-named")
def test_a_revision_may_say_that_something_ended_before(world: World) -> None:
    name = world.remember("Anna lives here", time={"valid_from": LONG_AGO})
    assert _span(world, world.revise(name, time={"valid_to": SOONER})) == (LONG_AGO, SOONER)
    assert world.texts("Anna") == []


def test_an_actor_stamps_the_successor(world: World) -> None:
    name = world.remember("x")
    request = {"id": name, "patch": {"body": {"text": "y"}}, "actor": {"did": "did:key:zAgentActor", "kind": "agent"}}
    successor = world.service.revise(world.owner, ReviseRequest.parse(request)).id
    provenance = world.get(successor)["provenance"]
    assert (provenance["actor"], provenance["method"]) == ("did:key:zAgentActor", "revise")
    assert provenance["source"] == {"ref": name}


@pytest.mark.parametrize("verb", ["revise", "forget", "feedback", "get", "history"])
@pytest.mark.requirement("UMP-3.4-get")
def test_an_unknown_id_is_not_found(world: World, verb: str) -> None:
    attempts: dict[str, Callable[[str], object]] = {
        "revise": lambda name: world.revise(name, body={"text": "x"}),
        "forget": world.forget,
        "feedback": lambda name: world.feedback(name, "followed"),
        "get": world.get,
        "history": lambda name: world.service.history(world.owner, name),
    }
    with pytest.raises(NotFound):
        attempts[verb]("urn:ump:zzzz")


@pytest.mark.requirement("UMP-3.6-tombstone")
def test_the_soft_forget_vector_is_reproduced_byte_for_byte(world: World) -> None:
    vector = VECTORS["forget_soft"]
    name = remember_vector_draft(world, "throwaway")
    assert world.forget(name, reason="user_revoked") == vector["response"]["result"]
    assert orjson.dumps(world.get(name)) == orjson.dumps(vector["stored"])


@pytest.mark.requirement("UMP-3.6-hard")
def test_the_hard_forget_vector_is_reproduced_but_for_the_id_of_its_unknown_text(world: World) -> None:
    vector = VECTORS["forget_hard"]
    name = remember_vector_draft(world, "delete me")
    expected = signature.sign(cast("Record", {**vector["stored"], "id": name}), OPERATOR)
    assert world.forget(name, reason="gdpr", hard=True) == vector["response"]["result"]
    assert orjson.dumps(world.get(name)) == orjson.dumps(expected)


def remember_vector_draft(world: World, text: str) -> str:
    request = VECTORS["remember_signed"]["request"]
    return world.service.remember(world.owner, {**request, "body": {"text": text}}).id


def test_forgetting_twice_says_the_same(world: World) -> None:
    name = world.remember("x")
    assert [world.forget(name), world.forget(name)] == ["tombstoned", "tombstoned"]
    assert [event for event, _ in world.events()].count("tombstoned") == 1
    assert [world.forget(name, hard=True), world.forget(name)] == ["erased", "erased"]


def test_forgetting_the_head_does_not_resurrect_the_old_version(world: World) -> None:
    first = world.remember("apple one")
    world.advance(1)
    second = world.revise(first, body={"text": "apple two"})
    world.advance(1)
    world.forget(second)
    assert world.texts("apple") == []


@pytest.mark.requirement("UMP-3.6-hard")
def test_erasing_the_head_erases_its_predecessors(world: World) -> None:
    first = world.remember("apple secret one")
    world.remember("apple secret one")
    world.advance(1)
    second = world.revise(first, body={"text": "apple two"})
    world.forget(second, hard=True, reason="r")
    for name in (first, second):
        record = world.get(name)
        assert record["body"] == {"text": "[erased: r]"}
        assert signature.verify(record)
    assert b"secret" not in b"".join(stored_bytes(world))


def test_erasing_a_predecessor_keeps_the_head(world: World) -> None:
    first = world.remember("apple with a secret")
    world.advance(1)
    second = world.revise(first, body={"text": "apple without"})
    world.forget(first, hard=True, reason="r")
    assert world.texts("apple") == ["apple without"]
    assert world.get(second)["body"]["text"] == "apple without"
    assert b"secret" not in b"".join(stored_bytes(world))


def stored_bytes(world: World) -> list[bytes]:
    with world.engine._database.open_snapshot(world.owner.default_tenant) as connection:
        return [bytes(b) for row in connection.select("SELECT native, cause FROM version", {}) for b in row if b]


@pytest.mark.requirement("UMP-3.6-hard")
def test_a_peer_cannot_erase(world: World) -> None:
    name = world.remember("x", scope={"visibility": "shared"})
    gate = world.service.gate
    token = gate.mint_token(
        verbs=("read", "write"), scope={"owner": OPERATOR.did}, ttl_ms=1_000, audience="did:key:zPeer"
    )
    peer = gate.authenticate(token)
    with pytest.raises(ForbiddenScope, match="owner"):
        world.forget(name, access=peer, hard=True)


# --- retention -----------------------------------------------------------------------------------------


@pytest.mark.requirement("UMP-2.7-retention")
def test_the_retention_vector_is_reproduced_at_the_boundary(world: World) -> None:
    vector = VECTORS["retention"]
    request = {**VECTORS["remember_signed"]["request"], "body": {"text": "expiring"}, "consent": {"retention": "P1D"}}
    name = world.service.remember(world.owner, request).id
    world.advance(86_400_000 - 1)
    assert world.get(name)["lifecycle"]["status"] == vector["before"]
    world.advance(1)
    # §3.6 lets retention demand erasure: the record is what the vector says, without what it said.
    ended = signature.sign(rules.erase(vector["at_boundary"], reason="its retention ended"), OPERATOR)
    assert orjson.dumps(world.get(name)) == orjson.dumps(ended)
    assert world.service.purge() == 1
    assert orjson.dumps(world.get(name)) == orjson.dumps(ended)


@pytest.mark.requirement("UMP-3.6-retention-erases")
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_what_ends_is_erased_from_the_file(tmp_path: Path, is_forgotten: bool) -> None:
    world = World(path=tmp_path / "store.db")
    name = world.remember("zanzibar", consent={"retention": "PT2S"})
    later = world.revise(name, body={"text": "zanzibar again"})
    world.advance(1_000)
    if is_forgotten:
        world.forget(later)
    world.advance(1_000)
    assert all("zanzibar" not in repr(each["record"]) for each in world.service.history(world.owner, name))
    assert (world.service.count_due(), world.service.purge(), world.service.count_due()) == (2, 2, 0)
    world.service.close()
    assert not any(b"zanzibar" in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.requirement("UMP-2.7-retention", "UMP-3.6-retention-erases")
def test_an_expired_memory_is_not_recalled_and_is_tombstoned_once(world: World) -> None:
    name = world.remember("apple", consent={"retention": "PT1S"})
    world.advance(1_000)
    assert world.texts("apple") == []
    assert (world.service.purge(), world.service.purge()) == (1, 0)
    assert world.events()[-1] == ("tombstoned", name)
    assert [e["op"] for e in world.service.audit(world.owner, {"op": "expire"})] == ["expire"]


def test_an_expired_memory_is_not_merged_into(world: World) -> None:
    world.remember("apple", consent={"retention": "PT1S"})
    world.advance(2_000)
    draft = world.draft("apple", consent={"retention": "PT1S"})
    assert world.service.remember(world.owner, draft).result == "created"
