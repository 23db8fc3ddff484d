"""A tenant cannot tell whether another one is there (DESIGN decision 3), whatever credential it holds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from memoranda.encoding import json_text
from memoranda.encoding.bases import base64url_decode, base64url_encode
from memoranda.encoding.didkey import SigningKey
from memoranda.errors import NotFound, Unauthorized
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import Access
from memoranda.service.service import Service
from memoranda.standards.ump.requests import (
    FeedbackRequest,
    ForgetRequest,
    RecallRequest,
    RehydrateRequest,
    ReviseRequest,
)
from memoranda.storage.engine.write_queue import GROUP_LIMIT
from tests.proofs.store import draft
from tests.proofs.two_worlds import (
    OPERATOR,
    OTHER,
    START,
    WATCHER,
    World,
    answer,
    new_world,
    oams_call,
    pages,
    plain,
    signed_token,
)

# Few words, so that both tenants say the same ones all the time.
WORDS = ("apple", "river", "stone", "night", "garden", "the", "résumé", "日本語")
ABSENT = "urn:ump:aaaaaaaaaaaaaaaaaaaaaaaaaa"
# More for a long run: MEMORANDA_PROOF_EXAMPLES=2000 pytest tests/proofs/test_isolation.py
EXAMPLES = int(os.environ.get("MEMORANDA_PROOF_EXAMPLES", "60"))
PROJECTS = ("", "p", "q")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
scopes = st.fixed_dictionaries(
    {"visibility": st.sampled_from(("private", "shared"))},
    optional={"project": st.sampled_from(PROJECTS[1:]), "user": st.just("u"), "session": st.just("s")},
)
# Which id an operation is about: the nth of the watcher's, the nth of the other's, or none at all.
targets = st.tuples(st.sampled_from(("mine", "theirs", "absent")), st.integers(0, 30))
credentials = st.sampled_from(("local", "key", "token", "narrow token", "operator's token"))
outcomes = st.sampled_from(("followed", "overridden", "ignored", "contradicted"))

remembers = st.fixed_dictionaries(
    {"op": st.just("remember"), "text": texts, "scope": scopes},
    optional={
        "id": targets,
        "supersedes": targets,
        "retention": st.sampled_from(("PT1S", "PT5S", "P1D")),
        "owner": st.just("foreign"),
        "relation": targets,
    },
)
changes = st.one_of(
    st.fixed_dictionaries({"op": st.just("revise"), "target": targets, "text": texts}),
    st.fixed_dictionaries({"op": st.just("forget"), "target": targets, "hard": st.booleans()}),
    st.fixed_dictionaries({"op": st.just("feedback"), "target": targets, "outcome": outcomes}),
)
reads = st.one_of(
    st.fixed_dictionaries(
        {"op": st.sampled_from(("recall", "rehydrate")), "text": texts},
        optional={"scope": scopes, "owner": st.just("foreign"), "prefer": st.just(["recency"])},
    ),
    st.fixed_dictionaries({"op": st.sampled_from(("get", "history", "export_named")), "target": targets}),
    st.fixed_dictionaries(
        {"op": st.sampled_from(("audit", "audit_verify", "changes", "feed_end", "export", "list", "verify"))},
        optional={"owner": st.just("foreign")},
    ),
)
# Keys and namespaces that both use, also each other's.
places = st.sampled_from((("mine", ""), ("mine", "p"), ("theirs", ""), ("nobody's", "p")))
keys = st.sampled_from(("k", "l", ABSENT))
through_oams = st.one_of(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(("oams store", "oams batch", "oams import")),
            "place": places,
            "key": keys,
            "text": texts,
        },
        optional={
            "tags": st.lists(st.sampled_from(WORDS[:3]), max_size=2),
            "visibility": st.just("shared"),
            "if_match": st.just("*"),
        },
    ),
    st.fixed_dictionaries({"op": st.sampled_from(("oams get", "oams forget")), "place": places, "key": keys}),
    st.fixed_dictionaries({"op": st.just("oams recall"), "places": st.lists(places, max_size=2), "text": texts}),
    st.fixed_dictionaries({"op": st.just("oams list"), "place": places, "limit": st.integers(1, 3)}),
    st.fixed_dictionaries({"op": st.sampled_from(("oams namespaces", "oams export"))}),
)
steps = st.one_of(remembers, changes, reads, through_oams)
moves = st.one_of(
    st.tuples(st.just("watcher"), credentials, st.integers(0, 900), steps),
    st.tuples(st.just("other"), st.just("local"), st.just(0), steps),
    st.tuples(st.just("other"), st.just("local"), st.just(0), remembers),
    st.tuples(st.just("sweep"), st.just("local"), st.integers(0, 3_000), st.just({"op": "sweep"})),
)
# Both have something from the start, so that few moves are wasted on an empty store.
OPENING = [
    (who, "local", 1, {"op": "remember", "text": text, "scope": {"visibility": "private"}})
    for who, text in (("other", "apple river"), ("watcher", "apple stone"), ("other", "night"), ("watcher", "garden"))
]
plays = st.lists(moves, min_size=12, max_size=30).map(lambda later: OPENING + later)


class Actor:
    """Turns steps into calls, for one tenant and the ids it knows of."""

    def __init__(self, owner: str, foreign: str, mine: list[str], theirs: list[str]) -> None:
        self._owner = owner
        self._foreign = foreign
        self.mine = mine
        self._theirs = theirs

    def _name(self, target: tuple[str, int]) -> str:
        whose, number = target
        known = {"mine": self.mine, "theirs": self._theirs, "absent": []}[whose]
        return known[number % len(known)] if known else ABSENT

    def call(self, step: dict[str, Any]) -> Callable[[Service, Access], object]:
        """The call a step stands for, fixed now: the ids it names do not depend on the world."""
        op = step["op"]
        if op.startswith("oams "):
            return oams_call(op.removeprefix("oams "), step, {"mine": self._owner, "theirs": self._foreign})
        owner = self._foreign if "owner" in step else self._owner
        if op == "remember":
            return self._remember(step, owner)
        if op in ("recall", "rehydrate"):
            return _recall(step, owner)
        if "target" in step:
            return _by_name(step, self._name(step["target"]))
        return _by_owner(op, owner)

    def _remember(self, step: dict[str, Any], owner: str) -> Callable[[Service, Access], object]:
        fields: dict[str, Any] = {"scope": {**step["scope"], "owner": owner}}
        if "id" in step:
            fields["id"] = self._name(step["id"])
        if "supersedes" in step:
            fields["supersedes"] = [self._name(step["supersedes"])]
        if "relation" in step:
            fields["relations"] = [{"type": "about", "target": self._name(step["relation"])}]
        if "retention" in step:
            fields["consent"] = {"retention": step["retention"]}
        record = draft(owner, step["text"], **fields)
        return lambda service, access: service.remember(access, record)


def _recall(step: dict[str, Any], owner: str) -> Callable[[Service, Access], object]:
    asked = {
        "query": step["text"],
        "scope": {**step.get("scope", {}), "owner": owner},
        "ranking_hints": {"prefer": step.get("prefer", [])},
    }
    if step["op"] == "recall":
        return lambda service, access: service.recall(access, RecallRequest.parse(asked))
    return lambda service, access: service.for_prompt(access, RehydrateRequest.parse(asked))


def _by_name(step: dict[str, Any], name: str) -> Callable[[Service, Access], object]:
    patch = {"body": {"text": step.get("text", "x")}}
    calls: dict[str, Callable[[Service, Access], object]] = {
        "revise": lambda s, a: s.revise(a, ReviseRequest.parse({"id": name, "patch": patch})),
        "forget": lambda s, a: s.forget(a, ForgetRequest(id=name, hard=step.get("hard", False))),
        "feedback": lambda s, a: s.feedback(a, FeedbackRequest(id=name, outcome=step.get("outcome", "followed"))),
        "get": lambda s, a: s.get(a, name),
        "history": lambda s, a: s.history(a, name),
        "export_named": lambda s, a: list(s.export(a, names=[name])),
    }
    return calls[step["op"]]


def _by_owner(op: str, owner: str) -> Callable[[Service, Access], object]:
    calls: dict[str, Callable[[Service, Access], object]] = {
        "audit": lambda s, a: s.audit(a, {"owner": owner, "limit": 1000}),
        "audit_verify": lambda s, a: s.audit_verify(a, owner),
        "changes": lambda s, a: s.changes(a, {"owner": owner}, 0),
        "feed_end": lambda s, a: s.feed_end(a, {"owner": owner}),
        "export": lambda s, a: list(s.export(a, owner=owner)),
        "list": lambda s, a: s.list_records(a, project=None, after=0, limit=50),
        "verify": lambda s, a: s.verify(a, owner=owner),
        # How much was swept is the operator's to know.
        "sweep": lambda s, _: (s.purge(), None)[1],
    }
    return calls[op]


def _everything(world: World, mine: list[str]) -> Iterator[object]:
    """All that the watcher can look at in the end."""
    service, access = world.store.service, world.access("local")
    yield answer(lambda: service.audit(access, {"limit": 1000}))
    yield answer(lambda: service.audit_verify(access))
    yield answer(lambda: service.changes(access, {}, 0))
    yield answer(lambda: list(service.export(access)))
    yield answer(lambda: service.list_records(access, project=None, after=0, limit=200))
    yield answer(lambda: service.oams.export(access))
    for name in service.oams.namespaces(access):
        asked = {"namespace": name, "limit": 2}
        yield answer(lambda asked=asked: pages(service, access, asked))  # type: ignore[misc]
    for name in mine:
        yield answer(lambda name=name: service.history(access, name))  # type: ignore[misc]
    for word in WORDS:
        yield answer(lambda word=word: service.recall(access, RecallRequest.parse({"query": word})))  # type: ignore[misc]
    yield answer(lambda: service.audit(access, {"limit": 1000}))


def _note_ids(result: object, ids: list[str]) -> None:
    if isinstance(result, tuple) and result[0] in ("Remembered", "Revised") and result[1]["id"] not in ids:
        ids.append(result[1]["id"])


@pytest.mark.requirement("UMP-5.3-filter")
@settings(max_examples=EXAMPLES)
@given(play=plays)
def test_nothing_a_tenant_can_observe_depends_on_another_tenant(play: list[tuple[str, str, int, Any]]) -> None:
    alone, together = new_world(), new_world()
    mine: list[str] = []
    theirs: list[str] = []
    watcher = Actor(WATCHER.did, OTHER.did, mine, theirs)
    other = Actor(OTHER.did, WATCHER.did, theirs, mine)
    try:
        for who, credential, pause_ms, step in play:
            for world in (alone, together):
                world.clock.now = Instant(world.clock.now + pause_ms)
            if who == "other":
                call = other.call(step)
                access = together.store.service.gate.local(OTHER.did)
                _note_ids(_seen(together, access, call), theirs)
                continue
            call = watcher.call(step)
            seen, expected = (_seen(world, world.access(credential), call) for world in (together, alone))
            assert seen == expected, step
            _note_ids(seen, mine)
        assert list(_everything(together, mine)) == list(_everything(alone, mine))
    finally:
        alone.store.service.close()
        together.store.service.close()


def _seen(world: World, access: Access, call: Callable[[Service, Access], object]) -> object:
    return answer(lambda: call(world.store.service, access))


@pytest.fixture
def world() -> Iterator[World]:
    """A world in which the other tenant keeps one private and one shared memory, and the watcher nothing."""
    world = new_world()
    service, access = world.store.service, world.store.access(OTHER.did)
    for visibility in ("private", "shared"):
        service.remember(access, draft(OTHER.did, f"treasure {visibility} apple", scope={"visibility": visibility}))
    yield world
    service.close()


def _ids(world: World) -> list[str]:
    page = world.store.service.changes(world.store.access(OTHER.did), {}, 0)
    return [event.id for event in page.events]


def _reaching(name: str) -> Iterator[dict[str, Any]]:
    """Every step with which someone could reach for the other's memories, or for one of them."""
    target = ("theirs", 0)
    for op in ("get", "history", "export_named", "revise", "forget", "feedback"):
        yield {"op": op, "target": target}
    yield {"op": "forget", "target": target, "hard": True}
    for op in ("recall", "rehydrate"):
        yield {"op": op, "text": name, "owner": "foreign"}
    for op in ("audit", "audit_verify", "changes", "feed_end", "export", "verify", "list"):
        yield {"op": op, "owner": "foreign"}
    yield {"op": "remember", "text": "planted", "scope": {"visibility": "private"}, "owner": "foreign"}


@pytest.mark.parametrize("credential", ["local", "key", "token", "narrow token", "operator's token"])
def test_no_credential_of_one_owner_reaches_the_memories_of_another(world: World, credential: str) -> None:
    before = plain(world.store.service.changes(world.store.access(OTHER.did), {}, 0))
    for name in _ids(world):
        actor = Actor(WATCHER.did, OTHER.did, [], [name])
        for step in _reaching("apple"):
            found = _seen(world, world.access(credential), actor.call(step))
            assert "treasure" not in repr(found), step
            refused = isinstance(found, tuple) and found[0] in ("NotFound", "ForbiddenScope")
            no_block = ("RehydratedBlock", {"text": "", "injected": [], "dropped": [], "weak": False})
            empty = found in ([], [[], None], no_block)
            assert refused or empty, (step, found)
    assert plain(world.store.service.changes(world.store.access(OTHER.did), {}, 0)) == before


@pytest.mark.requirement("OAMS-OURS-isolation")
@pytest.mark.parametrize("credential", ["local", "key", "token", "narrow token", "operator's token"])
def test_the_namespace_of_another_is_only_a_name(world: World, credential: str) -> None:
    service, theirs = world.store.service, world.store.access(OTHER.did)
    owners = {"mine": WATCHER.did, "theirs": OTHER.did}
    step = {"place": ("mine", ""), "key": "k", "text": "treasure apple"}
    oams_call("store", step, {"mine": OTHER.did})(service, theirs)
    before = [plain(service.oams.export(theirs)), plain(service.changes(theirs, {}, 0))]
    reaching = {"place": ("theirs", ""), "places": [("theirs", "")], "key": "k", "text": "apple", "limit": 3}
    for op in ("get", "list", "recall", "forget"):
        found = _seen(world, world.access(credential), oams_call(op, reaching, owners))
        assert isinstance(found, tuple), (op, found)
        assert found[0] == "NamespaceNotFound", (op, found)
    both = {"places": [("mine", ""), ("theirs", "")], "text": "apple"}
    assert _seen(world, world.access(credential), oams_call("recall", both, owners))[0] == "CrossNamespace"  # type: ignore[index]
    # Section 4: a namespace is an access envelope, and nobody writes into another's.
    for op in ("store", "batch", "import"):
        found = _seen(world, world.access(credential), oams_call(op, {**reaching, "text": "planted"}, owners))
        assert "owner hash of another tenant" in repr(found), (op, found)
    found = _seen(world, world.access(credential), oams_call("list", reaching, owners))
    assert "planted" not in repr(found)
    assert "treasure" not in repr(found)
    assert [plain(service.oams.export(theirs)), plain(service.changes(theirs, {}, 0))] == before


@pytest.mark.parametrize("op", ["get", "history", "export_named", "revise", "forget", "feedback"])
def test_the_id_of_another_is_answered_like_an_id_that_does_not_exist(world: World, op: str) -> None:
    (name, _) = _ids(world)
    actor = Actor(WATCHER.did, OTHER.did, [], [name])
    theirs, absent = (
        _seen(world, world.access("key"), actor.call({"op": op, "target": (whose, 0)}))
        for whose in ("theirs", "absent")
    )
    assert repr(theirs).replace(name, ABSENT) == repr(absent)


def _forged(change: Callable[[dict[str, Any]], None], signer: SigningKey) -> str:
    """A token whose claims were changed and signed by `signer`, whoever they say issued them."""
    _, payload, _ = signed_token(OTHER, scope={"owner": OTHER.did}).split(".")
    claims = json_text.parse(base64url_decode(payload))
    change(claims)
    text = base64url_encode(json_text.canonical(claims))
    return f"umpcap.{text}.ed25519:{base64url_encode(signer.sign(blake3(text.encode()).digest()))}"


FORGERIES: dict[str, Callable[[], str]] = {
    "signed with the wrong key": lambda: _forged(lambda claims: None, WATCHER),
    "owner's scope, issued by another": lambda: _forged(lambda c: c.update(iss=WATCHER.did), WATCHER),
    "operator's name, another's signature": lambda: _forged(lambda c: c.update(iss=OPERATOR.did), WATCHER),
    "without exp": lambda: _forged(lambda c: c.pop("exp"), OTHER),
    "with an exp that is no time": lambda: _forged(lambda c: c.update(exp="never"), OTHER),
    "expired": lambda: signed_token(OTHER, scope={"owner": OTHER.did}, exp=format_instant(START - 1)),
    "not yet valid": lambda: signed_token(OTHER, nbf=format_instant(START + 1)),
    "of an unknown version": lambda: _forged(lambda c: c.update(v="ump-cap/9"), OTHER),
    "with an unknown claim": lambda: _forged(lambda c: c.update(admin=True), OTHER),
    "cut short": lambda: signed_token(OTHER)[:-4],
    "payload of one, signature of another": lambda: ".".join(
        [*signed_token(OTHER, scope={"owner": OTHER.did}).split(".")[:2], signed_token(WATCHER).split(".")[2]]
    ),
    "an unknown key": lambda: "mk_watcher_wrong",
    "the key's hash instead of the key": lambda: f"mk_watcher_{hashlib.sha256(b'secret').hexdigest()}",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_credential_opens_nothing(world: World, forgery: str) -> None:
    with pytest.raises(Unauthorized):
        world.store.service.gate.authenticate(FORGERIES[forgery]())


def test_the_same_claims_signed_by_their_owner_are_accepted(world: World) -> None:
    # The control of the test above: what is refused there is refused for its flaw.
    access = world.store.service.gate.authenticate(_forged(lambda claims: None, OTHER))
    assert world.store.service.recall(access, RecallRequest.parse({"query": "apple"}))


def test_a_token_for_another_audience_sees_only_what_is_shared(world: World) -> None:
    access = world.store.service.gate.authenticate(signed_token(OTHER, aud=WATCHER.did, scope={"owner": OTHER.did}))
    found = world.store.service.recall(access, RecallRequest.parse({"query": "apple"}))
    assert [each.record["body"]["text"] for each in found] == ["treasure shared apple"]
    private = next(name for name in _ids(world) if name != found[0].record["id"])
    with pytest.raises(NotFound):
        world.store.service.get(access, private)


def test_a_flood_of_reads_by_another_does_not_hide_the_audit_of_ones_own(world: World) -> None:
    # Audit entries of reads are written a little later, in batches that all tenants share.
    service = world.store.service
    access = world.access("local")
    mine = service.remember(access, draft(WATCHER.did, "mine")).id
    (theirs, _) = _ids(world)
    for _ in range(5):
        for _ in range(3 * GROUP_LIMIT):
            service.get(world.store.access(OTHER.did), theirs)
        service.get(access, mine)
        assert service.audit(access, {})[-1]["op"] == "get"
        service.remember(access, draft(WATCHER.did, "something else"))


def test_what_is_read_of_a_public_memory_is_in_the_chains_of_both(world: World) -> None:
    service, theirs = world.store.service, world.store.access(OTHER.did)
    service.remember(theirs, draft(OTHER.did, "for everyone", scope={"visibility": "public"}))
    asked = RecallRequest.parse({"query": "everyone", "scope": {"owner": OTHER.did}})
    (found,) = service.recall(world.access("local"), asked)
    assert found.record["body"]["text"] == "for everyone"
    for access in (theirs, world.access("local")):
        last = service.audit(access, {"op": "recall"})[-1]
        assert (last["actor"]["did"], last["targets"]) == (WATCHER.did, [found.record["id"]])
