"""A namespace is an access envelope (OAMS section 4): nobody writes under another tenant's own, by any standard."""

from __future__ import annotations

import pytest

from memoranda.errors import MemorandaError
from memoranda.standards.oams.namespace import namespace_of
from tests.matrix import doors
from tests.matrix.doors import WRITES, House
from tests.service.oams_verbs import Oams


@pytest.mark.requirement("OAMS-4-envelope")
@pytest.mark.parametrize("way", WRITES)
def test_nothing_is_written_under_the_own_namespace_of_another_tenant(
    house: House, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = str(namespace_of("", "did:example:another"))
    monkeypatch.setattr(doors, "SPACE", theirs)
    house.oams = Oams(house, theirs)
    # A file is refused by name in its report; everything else at once.
    with pytest.raises((MemorandaError, AssertionError), match="owner hash of another"):
        WRITES[way](house, "zanzibar")
    with house.engine.open_snapshot(house.tenant) as snapshot:
        assert snapshot.find_last_version() == 0
    # A name that only looks a little like it is a project like others.
    house.remember("zanzibar", scope={"project": "o-rings: 12 mm"})
    own = str(namespace_of("", house.tenant))
    assert Oams(house, own).store("k", "zanzibar").memory["namespace"] == own
