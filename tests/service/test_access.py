"""Who may see and do what: keys, tokens, visibility, redaction (UMP §2.2, §2.7, §5.2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import (
    Conflict,
    ForbiddenScope,
    InvalidInput,
    NotFound,
    QuotaExceeded,
    RateLimited,
    Unauthorized,
)
from memoranda.model.instant import DAY_MS, Instant
from memoranda.service.core.access import ALL_VERBS, GRANT_PREFIX, Access, Gate
from memoranda.service.core.sign_in import Sessions
from memoranda.standards.ump import signature, token
from memoranda.standards.ump.requests import RehydrateRequest
from memoranda.storage.engine.contract import KeyLimits, ProgramGrant
from tests.service.world import OPERATOR, PEER, World

ADA = SigningKey(b"a" * 32)


def minted(key: SigningKey, **changes: Any) -> str:
    claims: dict[str, Any] = {
        "v": "ump-cap/0.1",
        "iss": key.did,
        "verbs": ("read", "write", "derive", "export"),
        "scope": {},
        "exp": "2999-01-01T00:00:00Z",
        "jti": "t1",
        **changes,
    }
    return token.mint(token.Claims(**claims), key)


def access(world: World, key: SigningKey, **changes: Any) -> Access:
    return world.service.gate.authenticate(minted(key, **changes))


@pytest.mark.requirement("UMP-5.1-owner-did")
def test_an_api_key_works_until_it_is_revoked(world: World) -> None:
    gate = world.service.gate
    secret = gate.add_key("laptop", tenant="ada", scopes=("read",))
    assert gate.authenticate(secret).tenant == "ada"
    gate.revoke_key("laptop")
    with pytest.raises(Unauthorized, match="revoked"):
        gate.authenticate(secret)
    with pytest.raises(NotFound):
        gate.revoke_key("laptop")


def test_a_key_that_locks_its_owner_out_is_revoked_only_if_that_is_confirmed(world: World) -> None:
    gate, everything = world.service.gate, tuple(sorted(ALL_VERBS))
    for name in ("first", "second"):
        gate.add_key(name, tenant="ada", scopes=everything)
    gate.add_key("of another", tenant="bob", scopes=everything)
    gate.add_key("small", tenant="ada", scopes=("read", "write"))
    in_use = gate.find_key("first").key_id
    with pytest.raises(Conflict, match="in use here"):
        gate.revoke_key("first", caller_key_id=in_use)
    gate.revoke_key("second", caller_key_id=in_use)
    with pytest.raises(Conflict, match="last key of its owner"):
        gate.revoke_key("first")
    gate.revoke_key("small")
    assert gate.revoke_key("first", caller_key_id=in_use, is_confirmed=True).name == "first"
    assert [key.name for key in gate.keys_of("ada") if key.revoked is None] == []


def test_a_key_that_another_process_revokes_is_good_for_50_ms_at_most(tmp_path: Path) -> None:
    here, elsewhere = World(path=tmp_path / "store.db"), World(path=tmp_path / "store.db")
    seconds = 0.0
    # The clock of the worlds stands still, as one does that was set back.
    gate = Gate(elsewhere.engine.system, OPERATOR, elsewhere.context.clock, "0.1", seconds=lambda: seconds)
    sessions = Sessions(gate, elsewhere.engine.system, OPERATOR, elsewhere.context.clock)
    secret = here.service.gate.add_key("laptop", tenant="ada", scopes=("read",))
    session = sessions.sign_in(secret)
    grant = ProgramGrant(grant_id="p", key_id=secret.split("_")[1], verbs=("read",), expires=Instant(here.now + 60_000))
    here.engine.system.add_grant(grant, now=here.now, limit=9)
    token = here.service.gate.mint_token(verbs=("read",), scope={}, ttl_ms=60_000, jti=f"{GRANT_PREFIX}p")
    doors: tuple[Callable[[], object], ...] = (
        lambda: gate.authenticate(secret),
        lambda: gate.authenticate(token),
        lambda: sessions.authenticate(session),
    )
    try:
        for enter in doors:
            enter()
        here.service.gate.revoke_key("laptop")
        seconds = 0.05
        for enter in doors:
            with pytest.raises(Unauthorized, match="revoked"):
                enter()
    finally:
        for world in (here, elsewhere):
            world.service.close()


def test_a_key_expires_everywhere(world: World) -> None:
    gate, sessions = world.service.gate, world.service.sessions
    expires = Instant(world.now + 60_000)
    secret = gate.add_key("laptop", tenant="ada", scopes=("read",), expires=expires)
    session = sessions.sign_in(secret)
    grant = ProgramGrant(grant_id="p", key_id=secret.split("_")[1], verbs=("read",), expires=Instant(expires + 60_000))
    world.engine.system.add_grant(grant, now=world.now, limit=9)
    program = gate.mint_token(verbs=("read",), scope={}, ttl_ms=120_000, jti=f"{GRANT_PREFIX}p")
    doors: tuple[Callable[[], object], ...] = (
        lambda: gate.authenticate(secret),
        lambda: gate.authenticate(program),
        lambda: sessions.authenticate(session),
    )
    world.now = Instant(expires - 1)
    for enter in doors:
        enter()
    world.now = expires
    for enter in doors:
        with pytest.raises(Unauthorized, match=r"expired|no access"):
            enter()
    with pytest.raises(NotFound):
        gate.find_key("laptop")
    with pytest.raises(InvalidInput, match="in the future"):
        gate.add_key("late", tenant="ada", scopes=("read",), expires=expires)


def test_a_key_is_replaced_while_both_are_valid(world: World) -> None:
    gate = world.service.gate
    limits = KeyLimits(writes_per_day=5)
    first = gate.add_key("ci", tenant="ada", scopes=("read",), expires=Instant(world.now + 90 * DAY_MS), limits=limits)
    session = world.service.sessions.sign_in(first)
    world.now = Instant(world.now + 80 * DAY_MS)
    assert [expiring.key.name for expiring in gate.expiring_keys("ada")] == ["ci"]
    session = world.service.sessions.sign_in(first)
    earlier, second = gate.rotate_key("ci", overlap_ms=7 * DAY_MS)
    assert earlier.expires == world.now + 7 * DAY_MS
    assert gate.expiring_keys() == gate.expiring_keys("ada") == []
    for secret in (first, second):
        assert gate.authenticate(secret).tenant == "ada"
    successor = gate.find_key("ci")
    assert (successor.replaces, successor.limits, successor.scopes) == (earlier.key_id, limits, ("read",))
    # As long as the first one was meant to last.
    assert successor.expires == world.now + 90 * DAY_MS
    world.now = Instant(world.now + 10 * 60_000)
    world.service.sessions.authenticate(session)
    world.now = earlier.expires
    with pytest.raises(Unauthorized, match="expired"):
        gate.authenticate(first)
    assert gate.authenticate(second).tenant == "ada"
    with pytest.raises(InvalidInput, match="at most 90 days"):
        gate.rotate_key("ci", overlap_ms=91 * DAY_MS)


def test_expiring_keys_are_reported_until_they_are_replaced_or_revoked(world: World) -> None:
    gate = world.service.gate
    for name, days in (("soon", 3), ("later", 30), ("first", 1)):
        gate.add_key(name, tenant="ada", scopes=("read",), expires=Instant(world.now + days * DAY_MS))
    gate.add_key("ever", tenant="ada", scopes=("read",))
    assert [expiring.key.name for expiring in gate.expiring_keys()] == ["first", "soon"]
    world.now = Instant(world.now + 2 * DAY_MS)
    first, soon = gate.expiring_keys("ada")
    assert first.describe(world.now) == f"first ({first.key.key_id}) expired 1 day ago"
    assert soon.describe(world.now) == f"soon ({soon.key.key_id}) expires in 1 day"
    gate.change_key("soon", expires=None, limits=KeyLimits())
    assert [expiring.key.name for expiring in gate.expiring_keys()] == ["first"]
    world.now = Instant(world.now + 20 * DAY_MS)
    assert [expiring.key.name for expiring in gate.expiring_keys()] == ["later"]
    gate.revoke_key("later")
    assert gate.expiring_keys() == []


def test_the_log_warns_of_keys_that_end(world: World, caplog: pytest.LogCaptureFixture) -> None:
    gate = world.service.gate
    gate.add_key("ci", tenant="ada", scopes=("read",), expires=Instant(world.now + 3 * DAY_MS))
    key_id = gate.find_key("ci").key_id
    world.service.upkeep._do_what_is_due()
    assert f"API key ci ({key_id}) expires in 3 days" in caplog.text
    assert f"memoranda key rotate {key_id}" in caplog.text
    caplog.clear()
    # Once a day.
    world.service.upkeep._do_what_is_due()
    assert caplog.text == ""
    world.advance(DAY_MS)
    world.service.upkeep._do_what_is_due()
    assert "expires in 2 days" in caplog.text


def test_a_key_has_limits_of_its_own(world: World) -> None:
    seconds = 0.0
    gate = Gate(world.engine.system, OPERATOR, world.context.clock, "0.1", seconds=lambda: seconds)
    secret = gate.add_key("ci", tenant="ada", scopes=("read", "write"), limits=KeyLimits(requests_per_minute=60))
    for _ in range(10):
        gate.authenticate(secret, is_request=True)
    with pytest.raises(RateLimited) as refused:
        gate.authenticate(secret, is_request=True)
    assert 0 < refused.value.retry_after_seconds <= 1
    # Streams that check their credential again are no requests.
    gate.authenticate(secret)
    seconds = 1.0
    gate.authenticate(secret, is_request=True)
    other = gate.add_key("other", tenant="ada", scopes=("read", "write"), limits=KeyLimits(writes_per_day=2))
    writer = gate.authenticate(other)
    world.remember("one", access=writer)
    world.remember("two", access=writer)
    with pytest.raises(QuotaExceeded, match="2 memories a day"):
        world.remember("three", access=writer)
    world.remember("three", access=gate.authenticate(secret))
    world.now = Instant(world.now + DAY_MS + 1)
    world.remember("four", access=writer)
    for wrong in (KeyLimits(writes_per_day=-1), KeyLimits(requests_per_minute=1_000_000)):
        with pytest.raises(InvalidInput, match="whole number"):
            gate.add_key("wrong", tenant="ada", scopes=("read",), limits=wrong)


def test_the_last_use_of_a_key_is_stored_now_and_then(tmp_path: Path) -> None:
    world = World(path=tmp_path / "store.db")
    gate = world.service.gate
    secret = gate.add_key("ci", tenant="ada", scopes=("read",))
    gate.authenticate(secret)
    assert gate.key_uses.last_use(gate.find_key("ci")) is None
    gate.authenticate(secret, is_request=True)
    used = world.now
    gate.key_uses.record()
    assert gate.find_key("ci").last_use is None
    assert gate.key_uses.last_use(gate.find_key("ci")) == used
    world.service.close()
    world = World(path=tmp_path / "store.db")
    assert world.service.gate.find_key("ci").last_use == used
    world.service.close()


def test_a_key_is_not_kept_in_the_clear(world: World) -> None:
    secret = world.service.gate.add_key("k", tenant="ada", scopes=("read",))
    (stored,) = world.service.gate.keys()
    assert secret.rsplit("_", 1)[1].encode() not in stored.key_hash
    assert len(stored.key_hash) == 32


@pytest.mark.parametrize(
    "bearer", ["", "nonsense", "mk_", "mk_x_y", "mk_" + "a" * 500, "umpcap.", "umpcap.a.b", "mk_é_é"]
)
def test_nonsense_is_unauthorized(world: World, bearer: str) -> None:
    with pytest.raises(Unauthorized):
        world.service.gate.authenticate(bearer)


def test_a_changed_secret_is_unauthorized(world: World) -> None:
    secret = world.service.gate.add_key("k", tenant="ada", scopes=("read",))
    with pytest.raises(Unauthorized):
        world.service.gate.authenticate(secret[:-1] + ("a" if secret[-1] != "a" else "b"))


@pytest.mark.parametrize(("scopes", "message"), [((), "at least one"), (("reed",), "unknown scope")])
def test_a_key_needs_known_scopes(world: World, scopes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        world.service.gate.add_key("k", tenant="ada", scopes=scopes)


@pytest.mark.parametrize(
    ("scope", "attempt"),
    [
        ("read", lambda w, a: w.recall("x", access=a)),
        ("read", lambda w, a: w.get("urn:ump:aaaa", access=a)),
        ("read", lambda w, a: w.service.changes(a, {}, 0)),
        ("read", lambda w, a: w.service.audit(a, {})),
        ("write", lambda w, a: w.remember("x", access=a)),
        ("write", lambda w, a: w.revise("urn:ump:aaaa", access=a, body={"text": "x"})),
        ("write", lambda w, a: w.forget("urn:ump:aaaa", access=a)),
        ("export", lambda w, a: list(w.service.export(a))),
    ],
)
def test_every_verb_needs_its_scope(world: World, scope: str, attempt: Any) -> None:
    others = tuple({"read", "write", "derive", "export"} - {scope})
    with pytest.raises(ForbiddenScope, match=scope):
        attempt(world, world.key("ada", *others))


# --- tokens --------------------------------------------------------------------------------------------


@pytest.mark.requirement("UMP-5.2-signed-by-owner")
def test_an_owner_can_grant_what_is_theirs(world: World) -> None:
    name = world.remember("apple", access=access(world, ADA))
    assert world.get(name, access=access(world, ADA))["scope"]["owner"] == ADA.did


@pytest.mark.requirement("UMP-5.2-signed-by-owner")
def test_nobody_can_grant_what_is_not_theirs(world: World) -> None:
    with pytest.raises(Unauthorized, match="issuer"):
        access(world, PEER, scope={"owner": ADA.did})


@pytest.mark.requirement("OURS-issuer-bound-and-exp-required")
def test_a_token_of_a_stranger_reaches_nothing_of_others(world: World) -> None:
    name = world.remember("apple", access=access(world, ADA))
    stranger = access(world, PEER)
    assert world.texts("apple", access=stranger) == []
    assert world.texts("apple", access=stranger, scope={"owner": ADA.did}) == []
    for attempt in (world.get, world.forget):
        with pytest.raises(NotFound):
            attempt(name, access=stranger)


@pytest.mark.requirement("UMP-5.2-signed-by-owner")
def test_the_operator_can_grant_for_anyone(world: World) -> None:
    world.remember("apple", access=access(world, ADA))
    for scope in ({}, {"owner": ADA.did}):
        granted = access(world, OPERATOR, scope=scope)
        assert world.texts("apple", access=granted, scope={"owner": ADA.did}) == ["apple"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": "2020-01-01T00:00:00Z"}, "expired"),
        ({"nbf": "2998-01-01T00:00:00Z"}, "not_yet_valid"),
    ],
)
@pytest.mark.requirement("UMP-5.2-verbs-scope-time")
def test_time_is_enforced(world: World, changes: dict[str, str], reason: str) -> None:
    with pytest.raises(Unauthorized, match=reason):
        access(world, OPERATOR, **changes)


def test_a_token_expires_while_it_is_cached(world: World) -> None:
    gate = world.service.gate
    text = gate.mint_token(verbs=("read",), scope={}, ttl_ms=1_000)
    gate.authenticate(text)
    world.advance(1_001)
    with pytest.raises(Unauthorized, match="expired"):
        gate.authenticate(text)


@pytest.mark.requirement("OURS-issuer-bound-and-exp-required")
def test_a_token_is_revoked_by_its_jti_for_its_issuer_only(world: World) -> None:
    gate = world.service.gate
    text, same_jti = minted(OPERATOR, jti="j"), minted(ADA, jti="j")
    assert gate.revoke_token("j") == "j"
    with pytest.raises(Unauthorized, match="revoked"):
        gate.authenticate(text)
    assert gate.authenticate(same_jti).tenant == ADA.did
    gate.revoke_token(same_jti)
    with pytest.raises(Unauthorized, match="revoked"):
        gate.authenticate(same_jti)
    assert gate.inspect_token(text)["verdict"] != "valid"


@pytest.mark.parametrize("dimension", ["project", "agent", "visibility"])
@pytest.mark.requirement("UMP-5.2-verbs-scope-time")
def test_a_narrowed_token_reaches_exactly_its_scope(world: World, dimension: str) -> None:
    value, other = ("shared", "private") if dimension == "visibility" else ("x", "y")
    inside = world.remember("apple in", scope={dimension: value})
    outside = world.remember("apple out", scope={dimension: other})
    narrow = access(world, OPERATOR, scope={"owner": OPERATOR.did, dimension: value})
    assert world.texts("apple", access=narrow, scope={dimension: value}) == ["apple in"]
    assert world.get(inside, access=narrow)["id"] == inside
    # What it is limited to need not be said again.
    assert world.texts("apple", access=narrow, scope={}) == ["apple in"]
    assert [event.id for event in world.service.changes(narrow, {}, 0).events] == [inside]
    with pytest.raises(ForbiddenScope, match=dimension):
        world.recall("apple", access=narrow, scope={dimension: other})
    with pytest.raises(ForbiddenScope):
        world.get(outside, access=narrow)
    with pytest.raises(ForbiddenScope):
        world.remember("apple new", access=narrow, scope={"owner": OPERATOR.did, dimension: other})
    page = world.service.changes(narrow, {dimension: value}, 0)
    assert [event.id for event in page.events] == [inside]


@pytest.mark.requirement("UMP-5.2-verbs-scope-time")
def test_verbs_are_enforced(world: World) -> None:
    reader = access(world, OPERATOR, verbs=("read",))
    with pytest.raises(ForbiddenScope, match="write"):
        world.remember("x", access=reader)


# --- visibility and redaction --------------------------------------------------------------------------

SECRET = {"text": "apple", "structured": {"token": "sk-123", "open": 1}}
CONSENT = {"redact": ["body.structured.token"]}


@pytest.mark.requirement("UMP-2.2-visibility")
def test_private_shared_and_public_from_every_side(world: World) -> None:
    names = {v: world.remember(f"apple {v}", scope={"visibility": v}) for v in ("private", "shared", "public")}
    peer = access(world, OPERATOR, scope={"owner": OPERATOR.did}, aud=PEER.did)
    stranger = world.key("someone")
    seen = {
        "owner": world.texts("apple"),
        "peer": world.texts("apple", access=peer),
        "stranger": world.texts("apple", access=stranger, scope={"owner": OPERATOR.did}),
    }
    assert {who: {text.split()[1] for text in texts} for who, texts in seen.items()} == {
        "owner": {"private", "shared", "public"},
        "peer": {"shared", "public"},
        "stranger": {"public"},
    }
    assert world.get(names["public"], access=stranger)["body"]["text"] == "apple public"
    for who, hidden in ((peer, ("private",)), (stranger, ("private", "shared"))):
        for visibility in hidden:
            with pytest.raises(NotFound):
                world.get(names[visibility], access=who)


def test_without_an_owner_only_ones_own_memories_come_back(world: World) -> None:
    world.remember("apple public", scope={"visibility": "public"})
    assert world.texts("apple", access=world.key("someone")) == []


def test_a_forgotten_public_memory_is_gone_for_others(world: World) -> None:
    name = world.remember("apple", scope={"visibility": "public"})
    world.forget(name)
    with pytest.raises(NotFound):
        world.get(name, access=world.key("someone"))


@pytest.mark.parametrize("how", ["recall", "get", "subscribe", "export", "history"])
@pytest.mark.requirement("UMP-2.7-redact")
@pytest.mark.requirement("UMP-7-L0")
def test_redaction_happens_at_every_boundary_and_the_copy_still_verifies(world: World, how: str) -> None:
    name = world.remember("apple", body=SECRET, consent=CONSENT, scope={"visibility": "shared"})
    peer = access(world, OPERATOR, scope={"owner": OPERATOR.did}, aud=PEER.did)
    copies: dict[str, Any] = {
        "recall": lambda: world.recall("apple", access=peer)[0].record,
        "get": lambda: world.get(name, access=peer),
        "subscribe": lambda: world.service.changes(peer, {}, 0).events[0].record,
        "export": lambda: next(iter(world.service.export(world.owner))),
        "history": lambda: world.service.history(peer, name)[0]["record"],
    }
    copy = copies[how]()
    assert copy["body"]["structured"] == {"open": 1}
    assert signature.verify(copy)


@pytest.mark.requirement("UMP-2.7-redact")
def test_the_owner_sees_what_others_do_not(world: World) -> None:
    def secret(who: Access) -> object:
        return (world.get(name, access=who)["body"].get("structured") or {}).get("token")

    name = world.remember("apple", body=SECRET, consent=CONSENT)
    own = access(world, OPERATOR, scope={"owner": OPERATOR.did})
    for who in (world.owner, own):
        assert secret(who) == "sk-123"
    # A token that does not name the owner is handed on, and so on the other side of the boundary.
    anyone = access(world, OPERATOR)
    assert secret(anyone) is None


@pytest.mark.requirement("UMP-2.7-exportable")
def test_what_is_not_exportable_does_not_leave(world: World) -> None:
    world.remember("stays", consent={"exportable": False})
    world.remember("goes")
    assert [record["body"]["text"] for record in world.service.export(world.owner)] == ["goes"]


@pytest.mark.requirement("OURS-closed-doors")
def test_a_closed_store_lets_in_no_owner_that_nobody_knows(world: World) -> None:
    text = minted(PEER)
    closed = Gate(world.engine.system, OPERATOR, world.context.clock, "0.1", open_registration=False)
    with pytest.raises(Unauthorized, match="closed to new owners"):
        closed.authenticate(text)
    # Its own word is enough where registration is open, and the operator's, a key, anywhere.
    assert world.service.gate.authenticate(text).tenant == PEER.did
    key = closed.add_key("first", tenant=PEER.did, scopes=("read",))
    assert closed.authenticate(text).tenant == PEER.did
    closed.revoke_key(key.split("_")[1])
    with pytest.raises(Unauthorized):
        closed.authenticate(text)


def test_a_narrowed_token_need_not_repeat_what_it_is_limited_to(world: World) -> None:
    token = world.token("read", "write", project="shop")
    world.remember("apple of another project")
    name = world.remember("apple of the shop", access=token)
    assert world.get(name)["scope"]["project"] == "shop"
    assert world.texts("apple", access=token) == ["apple of the shop"]
    with pytest.raises(ForbiddenScope):
        world.remember("apple elsewhere", access=token, scope={"project": "other"})
    with pytest.raises(ForbiddenScope):
        world.texts("apple", access=token, scope={"project": "other"})


def test_a_prompt_has_what_the_owner_shared_too(world: World) -> None:
    world.remember("apples are shared", scope={"visibility": "shared"})
    world.remember("apples are mine")
    key = world.key(world.owner.default_tenant, "read")
    found = world.service.for_prompt(key, RehydrateRequest.parse({"query": "apples"}))
    assert "apples are shared" in found.text
    assert "apples are mine" in found.text
    narrow = RehydrateRequest.parse({"query": "apples", "max_visibility": "private"})
    assert "apples are shared" not in world.service.for_prompt(key, narrow).text


def test_only_the_owners_own_token_for_everything_may_erase(world: World) -> None:
    world.service.gate.add_key("known", tenant=ADA.did, scopes=("read",))
    for changes, may in (
        ({}, True),
        ({"aud": ADA.did}, True),
        ({"aud": ADA.did, "scope": {"project": "p"}}, True),
        ({"scope": {"owner": ADA.did}}, True),
        ({"scope": {"project": "p"}}, False),
        ({"aud": PEER.did}, False),
        ({"verbs": ("read",)}, False),
    ):
        assert access(world, ADA, **changes).may_erase(ADA.did) == may, changes


def test_a_token_of_the_operator_for_somebody_else_is_not_the_operators(world: World) -> None:
    gate = world.service.gate
    own = gate.authenticate(gate.mint_token(verbs=("read",), scope={}, ttl_ms=1_000))
    lent = gate.authenticate(gate.mint_token(verbs=("read",), scope={}, ttl_ms=1_000, audience=PEER.did))
    assert (own.is_operator, lent.is_operator) == (True, False)


def test_a_key_needs_a_tenant_and_its_changes_are_in_force_at_once(world: World) -> None:
    gate = world.service.gate
    with pytest.raises(InvalidInput, match="tenant"):
        gate.add_key("k", tenant="", scopes=("read",))
    key = gate.add_key("k", tenant="ada", scopes=("read",))
    key_id = gate.authenticate(key).credential.partition(":")[2]
    assert gate.for_person(key_id, "session:x").tenant == "ada"
    gate.change_key("k", expires=Instant(world.now + 1), limits=KeyLimits())
    world.advance(1)
    with pytest.raises(Unauthorized, match="expired"):
        gate.authenticate(key)
    with pytest.raises(Unauthorized, match="revoked or expired"):
        gate.for_person(key_id, "session:x")
