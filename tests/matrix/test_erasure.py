"""Erasing for good is the owner's (UMP §3.6), whichever standard asks; writing for an owner is not being the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from memoranda.errors import ForbiddenScope, MemorandaError
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import ALL_VERBS, Access
from memoranda.standards.oams.mapping import EXPIRES_KEY
from memoranda.standards.ump.requests import AuditRequest
from tests.matrix.doors import DAY, SPACE, WRITES, House
from tests.matrix.test_every_verb import CALLS, Call
from tests.service.oams_verbs import Oams
from tests.service.world import OPERATOR, PEER

ERASES: Mapping[str, Callable[[House, Access, Mapping[str, str]], object]] = {
    "ump": lambda house, who, names: house.forget(names["ump"], access=who, hard=True, reason="asked"),
    "oms": lambda house, who, names: house.service.grains.erase(who, names["oms"], reason="asked"),
}
WRITERS = tuple(sorted(ALL_VERBS - {"erase"}))
# A memory that is gone is not found, or named as forgotten; it is never taken for a damaged one.
REFUSALS = ("not_found", "invalid_record")


@pytest.fixture
def house() -> Iterator[House]:
    house = House(coverage="users")
    yield house
    house.service.close()


def strangers(house: House) -> dict[str, Access]:
    return {
        "a token of the operator for all owners": house.token("read", "write", owner=""),
        "a limited token of this owner": house.token("read", "write", project=SPACE),
        "a token for a peer": house.token("read", "write", audience=PEER.did),
        "a key that may write": house.key(house.tenant, *WRITERS),
        "a key of another owner": house.key("did:example:other"),
    }


def owners(house: House) -> dict[str, Access]:
    # The owner of this house is its operator.
    return {
        "the person at this machine": house.owner,
        "a key with the grant": house.key(house.tenant, "read", "write", "erase"),
        "a token by the owner for himself": house.token("read", "write", audience=OPERATOR.did),
        "a token by the owner for nobody in particular": house.token("read", "write"),
    }


@pytest.mark.requirement("UMP-3.6-hard")
@pytest.mark.parametrize("by", ERASES)
@pytest.mark.parametrize("way", WRITES)
def test_nobody_but_the_owner_erases(house: House, way: str, by: str) -> None:
    WRITES[way](house, "zanzibar")
    names = house.names(house.head("zanzibar"))
    for what, who in strangers(house).items():
        with pytest.raises(MemorandaError) as refused:
            ERASES[by](house, who, names)
        assert refused.value.code in ("forbidden_scope", "not_found"), what
        assert house.texts("zanzibar"), what


@pytest.mark.requirement("UMP-3.6-hard")
@pytest.mark.parametrize("by", ERASES)
def test_the_owner_erases_with_a_credential_that_says_so(house: House, by: str) -> None:
    for number, (what, who) in enumerate(owners(house).items()):
        text = f"zanzibar {number}"
        house.remember(text, scope={"project": SPACE})
        ERASES[by](house, who, house.names(house.head(text)))
        assert house.texts("zanzibar") == [], what


@pytest.mark.requirement("UMP-3.6-hard")
def test_the_operator_erases_a_person_as_the_law_asks_and_is_on_record(house: House) -> None:
    house.remember("zanzibar", scope={"user": "alice"})
    for what, who in strangers(house).items():
        if who.is_operator:
            continue
        with pytest.raises(ForbiddenScope):
            house.service.grains.erase_user(who, "alice", reason="Art. 17", owner=house.tenant)
        assert house.texts("zanzibar") == ["zanzibar"], what
    operator = house.token("read", "write", owner="")
    assert house.service.grains.erase_user(operator, "alice", reason="Art. 17", owner=house.tenant).erased == 1
    assert house.texts("zanzibar") == []

    last = house.service.audit(house.owner, AuditRequest.parse({"op": "oms.erase_user"}))[-1]
    assert (last["meta"]["credential"], last["meta"]["reason"]) == (operator.credential, "Art. 17")


@pytest.mark.requirement("UMP-3.6-hard")
@pytest.mark.parametrize("way", WRITES)
def test_an_end_that_comes_sooner_is_an_erasure(house: House, way: str) -> None:
    WRITES[way](house, "zanzibar")
    key, soon = house.names(house.head("zanzibar"))["oams"], format_instant(Instant(house.now + 1))
    for what, who in strangers(house).items():
        oams = Oams(house, house.oams.namespace, who)
        with pytest.raises(MemorandaError) as refused:
            oams.store(key, "gone soon", metadata={EXPIRES_KEY: soon})
        assert refused.value.code in ("forbidden_scope", "not_found"), what
    house.advance(1_000)
    assert house.service.purge() == 0
    assert house.texts("zanzibar")


@pytest.mark.requirement("UMP-3.6-hard")
def test_who_writes_says_when_a_new_memory_ends(house: House) -> None:
    writer = Oams(house, house.oams.namespace, house.key(house.tenant, *WRITERS))
    assert (
        writer.store("k", "tea", metadata={EXPIRES_KEY: format_instant(Instant(house.now + DAY))}).result == "created"
    )
    house.oams.store("k", "less", metadata={EXPIRES_KEY: format_instant(Instant(house.now + 1_000))})
    house.advance(1_000)
    assert house.service.purge() > 0


def _refusal(call: Call, house: House, names: Mapping[str, str]) -> str:
    """Return the code with which a verb is refused to the owner; empty if it is answered."""
    try:
        call(house, house.owner, names)
    except MemorandaError as error:
        return error.code
    return ""


@pytest.mark.requirement("UMP-3.6-hard")
@pytest.mark.parametrize("by", ERASES)
@pytest.mark.parametrize("way", WRITES)
def test_after_an_erasure_every_verb_answers_or_says_that_the_memory_is_gone(house: House, way: str, by: str) -> None:
    WRITES[way](house, "zanzibar")
    names = house.names(house.head("zanzibar"))
    ERASES[by](house, house.owner, names)
    refusals = {
        f"{table}.{name}": _refusal(call, house, names)
        for table, calls in CALLS.items()
        for name, call in calls.items()
    }
    assert {name: code for name, code in refusals.items() if code not in ("", *REFUSALS)} == {}
