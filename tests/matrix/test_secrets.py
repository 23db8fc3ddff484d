"""What looks like a secret is noticed through every way to write, found later, and taken out for good in one step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from memoranda.errors import ForbiddenScope, InvalidInput
from memoranda.service.core.secret_screening import collect_notices
from memoranda.service.openwop.secrets import Vault
from memoranda.service.service import Service
from tests.matrix.doors import EXPORTS, READS, REVISES, SPACE, WRITES, House, left, told
from tests.service.oams_verbs import Oams

SECRET = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TEXT = f"zanzibar deploys with {SECRET} from now on"


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    house.context = replace(house.context, secrets=Vault(policy="warn"))
    house.service = Service(house.context)
    house.oams = Oams(house, house.oams.namespace)
    yield house
    house.service.close()


@pytest.mark.requirement("OURS-secrets")
@pytest.mark.parametrize("way", WRITES)
def test_every_way_to_write_notices_and_one_step_takes_it_out(house: House, way: str) -> None:
    with collect_notices() as noticed:
        WRITES[way](house, TEXT)
    assert list(noticed.kinds) == ["github-token"]
    assert SECRET not in str(noticed)
    (suspect,) = house.service.suspects(house.owner)
    assert suspect.kinds == ("github-token",)
    assert SECRET not in suspect.text
    before = house.names(house.head("zanzibar"))
    house.service.redact(house.owner, suspect.id)
    assert list(house.service.suspects(house.owner)) == []
    after = house.names(house.head("zanzibar"))
    for read in READS:
        for names in (before, after):
            assert SECRET not in told(house, read, names, "zanzibar"), read
    assert not any(SECRET in left(house, export) for export in EXPORTS)
    assert "[REDACTED:detected-github-token]" in told(house, "ump recall", after, "zanzibar")


@pytest.mark.requirement("OURS-secrets")
@pytest.mark.parametrize("way", REVISES)
def test_every_way_to_revise_notices_and_what_was_before_is_listed(house: House, way: str) -> None:
    house.remember("zanzibar deploys by hand", scope={"project": SPACE})
    names = house.names(house.head("zanzibar"))
    with collect_notices() as noticed:
        REVISES[way](house, names, TEXT)
    assert list(noticed.kinds) == ["github-token"]
    house.revise(house.names(house.head("zanzibar"))["ump"], body={"text": "zanzibar deploys by itself"})
    # It is not current any more, and it is still there.
    (suspect,) = house.service.suspects(house.owner)
    assert not suspect.is_current
    house.service.redact(house.owner, suspect.id)
    assert list(house.service.suspects(house.owner)) == []
    assert "by itself" in told(house, "ump recall", names, "zanzibar")


def test_what_holds_no_secret_is_not_rewritten(house: House) -> None:
    name = house.remember("zanzibar is warm")
    with pytest.raises(InvalidInput, match="nothing in it looks like a secret"):
        house.service.redact(house.owner, name)


def test_only_the_owner_takes_something_out_for_good(house: House) -> None:
    name = house.remember(TEXT)
    writer = house.key(house.tenant, "read", "write")
    with pytest.raises(ForbiddenScope, match="erase"):
        house.service.redact(writer, name)
    assert SECRET in str(house.get(name))
