"""Consent grains as permission: a grant lets its grantee in, a withdrawal shuts the door at once (section 8.10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoranda.errors import ForbiddenScope, NotFound
from memoranda.service.core import compliance
from memoranda.service.core.access import Access
from memoranda.standards.ump.requests import RecallRequest
from tests.service.world import OPERATOR, PEER, World, grain
from tests.standards.oms.published import refused

GRANTEE = "did:web:clinic.example"


class Clinic(World):
    """An owner with one memory of each visibility, and someone else."""

    def __init__(self) -> None:
        super().__init__()
        self.did = self.owner.default_tenant
        self.grantee = self.key(GRANTEE, "read", "write")
        self.ids = {
            visibility: self.put(object=f"{visibility} tea", structural_tags=[f"visibility:{visibility}"])
            for visibility in ("private", "shared", "public")
        }

    def grant(self, **fields: Any) -> str:
        whole = {"subject_did": self.did, "grantee_did": GRANTEE, "scope": ["retrieve"], "is_withdrawal": False}
        return self.put(type="consent", **{**whole, **fields})

    def withdraw(self, prior: str, **fields: Any) -> str:
        return self.grant(is_withdrawal=True, prior_consent=prior, **fields)

    def seen(self, access: Access | None = None) -> set[str]:
        """What someone else sees of the owner, through recall and through get: both must agree."""
        who = access or self.grantee
        request = RecallRequest.parse({"query": "tea", "scope": {"owner": self.did}})
        recalled = {found.record["body"]["text"].split()[2] for found in self.service.recall(who, request)}
        fetched = {name for name, address in self.ids.items() if self.service.grains.exists(who, address)}
        assert recalled == fetched
        return recalled


@pytest.fixture
def clinic() -> Iterator[Clinic]:
    clinic = Clinic()
    yield clinic
    clinic.service.close()


@pytest.mark.requirement("OMS-8.10-grant")
def test_a_grant_lets_its_grantee_see_what_is_shared_and_never_what_is_private(clinic: Clinic) -> None:
    assert clinic.seen() == {"public"}
    granted = clinic.grant()
    assert clinic.seen() == {"public", "shared"}
    assert clinic.service.grains.consent(clinic.owner, subject=clinic.did, grantee=GRANTEE) == granted
    assert clinic.seen(clinic.key("did:web:other.example")) == {"public"}
    history = clinic.service.history(clinic.grantee, clinic.as_record(clinic.ids["shared"])["id"])
    assert len(history) == 1


@pytest.mark.requirement("OMS-8.10-grant")
def test_reading_by_consent_is_not_writing(clinic: Clinic) -> None:
    clinic.grant(scope=["retrieve", "store", "process"])
    shared = clinic.ids["shared"]
    with pytest.raises(NotFound):
        clinic.supersede(shared, object="poison", access=clinic.grantee)
    with pytest.raises(ForbiddenScope):
        clinic.service.grains.put(clinic.grantee, grain(clinic.now), owner=clinic.did)


@pytest.mark.requirement("OMS-8.10-store-withdrawal")
def test_a_withdrawal_counts_at_once_and_both_stay(clinic: Clinic) -> None:
    first = clinic.grant()
    second = clinic.grant(scope=["retrieve", "store"])
    withdrawal = clinic.withdraw(first)
    assert clinic.seen() == {"public", "shared"}
    last = clinic.withdraw(second)
    assert clinic.seen() == {"public"}
    for address in (first, second, withdrawal, last):
        assert clinic.grain(address).index.superseded_by is None
    clinic.advance(1_000)
    clinic.grant()
    assert clinic.seen() == {"public", "shared"}


@pytest.mark.requirement("OMS-8.10-store-withdrawal")
def test_what_was_withdrawn_stays_withdrawn_whatever_becomes_of_the_withdrawal(clinic: Clinic) -> None:
    granted = clinic.grant()
    withdrawal = clinic.withdraw(granted)
    with refused("ERR_INVALIDATION_DENIED"):
        clinic.forget(clinic.as_record(withdrawal)["id"])
    again = {"subject_did": clinic.did, "grantee_did": "did:web:nobody.example", "scope": ["retrieve"]}
    clinic.service.grains.supersede(
        clinic.owner,
        withdrawal,
        grain(clinic.now, type="consent", is_withdrawal=True, prior_consent="0" * 64, **again),
        justification="a second thought",
    )
    assert clinic.seen() == {"public"}
    with refused("ERR_INVALIDATION_DENIED", "erase the consent first"):
        clinic.service.grains.erase(clinic.owner, withdrawal, reason="tidying up")
    clinic.service.grains.erase(clinic.owner, granted, reason="tidying up")
    clinic.service.grains.erase(clinic.owner, withdrawal, reason="tidying up")
    assert clinic.seen() == {"public"}


@pytest.mark.requirement("OMS-8.10-store-withdrawal")
def test_the_newest_of_very_many_withdrawals_counts(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    # Pages of three, so that a few consents are more than a page.
    monkeypatch.setattr(compliance, "PAGE_LIMIT", 3)
    for number in range(7):
        clinic.advance(1_000)
        clinic.withdraw(clinic.grant(basis=f"visit {number}"))
    assert clinic.seen() == {"public"}
    clinic.advance(1_000)
    last = clinic.grant(basis="the last visit")
    assert clinic.service.grains.consent(clinic.owner, subject=clinic.did, grantee=GRANTEE) == last


@pytest.mark.requirement("OMS-8.10-grant")
def test_a_consent_holds_in_its_window_only(clinic: Clinic) -> None:
    clinic.grant(valid_from=clinic.now + 1_000, valid_to=clinic.now + 2_000)
    expected = [(999, False), (1, True), (1_000, True), (1, False)]
    for step, is_open in expected:
        clinic.advance(step)
        assert clinic.seen() == ({"public", "shared"} if is_open else {"public"})


@pytest.mark.requirement("OMS-8.10-grant")
@pytest.mark.parametrize(
    "fields",
    [
        {"scope": ["store", "train"]},
        {"scope": []},
        {"subject_did": PEER.did},
        {"grantee_did": f"{GRANTEE}x"},
        {"grantee_did": OPERATOR.did, "subject_did": GRANTEE},
    ],
)
def test_a_consent_to_or_for_something_else_does_not_help(clinic: Clinic, fields: dict[str, Any]) -> None:
    clinic.grant(**fields)
    assert clinic.seen() == {"public"}


@pytest.mark.requirement("OMS-8.10-grant")
def test_a_consent_in_the_store_of_the_grantee_does_not_help(clinic: Clinic) -> None:
    forged = grain(
        clinic.now, type="consent", subject_did=clinic.did, grantee_did=GRANTEE, scope=["retrieve"], is_withdrawal=False
    )
    clinic.service.grains.put(clinic.grantee, forged)
    assert clinic.seen() == {"public"}


@pytest.mark.requirement("OMS-8.10-grant")
def test_a_peer_cannot_write_itself_a_consent_nor_use_one_of_who_sent_it(clinic: Clinic) -> None:
    gate = clinic.service.gate
    scope = {"owner": clinic.did}
    token = gate.mint_token(verbs=("read", "write"), scope=scope, ttl_ms=60_000, audience=GRANTEE)
    peer = gate.authenticate(token)
    with pytest.raises(ForbiddenScope, match="consent"):
        clinic.service.grains.put(
            peer,
            grain(
                clinic.now,
                type="consent",
                subject_did=clinic.did,
                grantee_did=GRANTEE,
                scope=["retrieve"],
                is_withdrawal=False,
                structural_tags=["visibility:shared"],
            ),
        )
    # The clinic may read; whom it sends with a token of its own may not.
    clinic.grant()
    sent = Access(credential="token:x", actor="did:web:x.example", tenant=GRANTEE, is_peer=True, default_tenant=GRANTEE)
    assert clinic.seen(sent) == {"public"}


@pytest.mark.requirement("OMS-8.10-grant")
@pytest.mark.sqlite
def test_a_damaged_consent_opens_nothing(clinic: Clinic) -> None:
    granted = clinic.grant()
    version = clinic.named("oms", granted)
    change = "UPDATE version SET native = CAST(substr(native, 2) AS BLOB) WHERE version_id = ?"
    _damage(clinic, change, version.version_id)
    assert clinic.seen() == {"public"}
    fresh = clinic.grant(basis="again")
    assert clinic.seen() == {"public", "shared"}
    withdrawal = clinic.withdraw(fresh)
    _damage(clinic, change, clinic.named("oms", withdrawal).version_id)
    assert clinic.seen() == {"public"}


def _damage(world: World, sql: str, version_id: int) -> None:
    database: Any = world.engine._database
    database.write(lambda connection: connection.raw.execute(sql, (version_id,)))
