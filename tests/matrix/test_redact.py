"""What a record redacts is shown to nobody else, in any form of path and through any way to read."""

from __future__ import annotations

import pytest

from memoranda.encoding.didkey import SigningKey
from memoranda.errors import InvalidInput
from memoranda.service.core.access import Access
from memoranda.service.exchange.importing import number_items
from memoranda.standards.ump import token
from tests.matrix.doors import EXPORTS, READS, SPACE, House, left, told
from tests.service.oams_verbs import Oams, namespace
from tests.service.world import OPERATOR, PEER

ADA = SigningKey(b"a" * 32)

PATHS = [
    "$.body.structured.token",
    "$['body']['structured']['token']",
    "/body/structured/token",
    "$..token",
    "body.structured.*",
]


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize("path", PATHS)
def test_no_way_to_read_shows_others_what_is_redacted(house: House, path: str) -> None:
    name = house.remember(
        "",
        body={"text": "zanzibar", "structured": {"token": "s3cret"}},
        scope={"project": SPACE, "visibility": "public"},
        consent={"redact": [path]},
    )
    names = house.names(house.named("ump", name))
    peer = house.token("read", "export", audience=PEER.did)
    for who in (peer, house.key("did:example:stranger")):
        for read in READS:
            for word in ("zanzibar", "s3cret"):
                assert "s3cret" not in told(house, read, names, word, who), (read, who.credential)
        assert not any("s3cret" in left(house, export, who) for export in EXPORTS)
    assert "s3cret" in told(house, "ump get", names, "zanzibar")


@pytest.mark.requirement("OURS-redact-fails-closed")
def test_a_token_that_names_no_owner_is_shown_redacted_text(house: House) -> None:
    # Somebody else than the operator of this store, who signs tokens of their own.
    house.owner = house.service.gate.local(ADA.did)
    house.oams = Oams(house, namespace(ADA.did, SPACE))
    house.service.gate.add_key("laptop", tenant=ADA.did, scopes=("read",))
    name = house.remember(
        "",
        body={"text": "zanzibar", "structured": {"token": "s3cret"}},
        scope={"project": SPACE},
        consent={"redact": ["body.structured.token"]},
    )
    names = house.names(house.named("ump", name))
    nameless = {"its owner's": minted(house, ADA), "the operator's": minted(house, OPERATOR)}
    for who, bearer in nameless.items():
        for read in READS:
            for word in ("zanzibar", "s3cret"):
                assert "s3cret" not in told(house, read, names, word, bearer), (who, read)
        assert not any("s3cret" in left(house, export, bearer) for export in EXPORTS), who
        assert "zanzibar" in told(house, "ump get", names, "zanzibar", bearer), who
    for bearer in (house.owner, minted(house, ADA, owner=ADA.did)):
        assert "s3cret" in told(house, "ump get", names, "zanzibar", bearer)


def minted(house: House, key: SigningKey, **scope: str) -> Access:
    """Return what a token gives that a key signed for its own holder."""
    claims = token.Claims(
        v="ump-cap/0.1",
        iss=key.did,
        verbs=("read", "export"),
        scope=scope,
        exp="2999-01-01T00:00:00Z",
        jti="t1",
    )
    return house.service.gate.authenticate(token.mint(claims, key))


@pytest.mark.requirement("OURS-redact-fails-closed")
def test_a_path_that_cannot_be_read_is_refused_at_every_door(house: House) -> None:
    draft = house.draft("zanzibar", consent={"redact": ["$.body[?@.token]"]})
    with pytest.raises(InvalidInput, match="redact"):
        house.service.remember(house.owner, draft)
    report = house.service.import_items(house.owner, number_items("ump", [draft]))
    assert (report.created, report.refused) == (0, 1)
    assert "consent.redact.0" in report.refusals[0].message
    assert house.texts("zanzibar") == []
