"""What a record redacts is shown to nobody else, in any form of path and through any way to read."""

from __future__ import annotations

import pytest

from memoranda.errors import InvalidInput
from memoranda.service.exchange import numbered
from tests.matrix.doors import EXPORTS, READS, SPACE, House, left, told
from tests.service.world import PEER

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
def test_a_path_that_cannot_be_read_is_refused_at_every_door(house: House) -> None:
    draft = house.draft("zanzibar", consent={"redact": ["$.body[?@.token]"]})
    with pytest.raises(InvalidInput, match="redact"):
        house.service.remember(house.owner, draft)
    report = house.service.import_items(house.owner, numbered("ump", [draft]))
    assert (report.created, report.refused) == (0, 1)
    assert "consent.redact.0" in report.refusals[0].message
    assert house.texts("zanzibar") == []
