"""Written in any way, bound in any way: a consent withdrawn, a redaction, an end, a narrowed token, read everywhere.

`python -m tests.matrix.test_bounds` asks every cell; the tests ask each way to write with each way to change once.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

import pytest

from memoranda.errors import MemorandaError, QueryError
from memoranda.model.instant import Instant, format_instant
from memoranda.service.core.access import Access
from memoranda.service.exchange.importing import number_items
from memoranda.service.oms.views import to_stored_grain
from memoranda.standards.oams.mapping import EXPIRES_KEY
from memoranda.standards.oms import signature
from memoranda.standards.oms.grains import decode, encode
from memoranda.standards.oms.mapping import VIEWS
from memoranda.standards.openwop.entry import Draft
from tests.matrix.doors import DAY, EXPORTS, LOGS, READS, REVISES, SPACE, WRITES, House, key, left, told
from tests.service.oams_verbs import Oams
from tests.service.world import PEER, grain

Bind = Callable[[House, str], object]


def _revised(house: House, names: Mapping[str, str], by: str | None) -> Mapping[str, str]:
    """Its names after a revision, if there was to be one; CAL refuses what has a consent, and nothing is lost by it."""
    try:
        if by is None or REVISES[by](house, names, "zanzibar revised") is None:
            return names
    except QueryError:
        assert by == "cal"
        return names
    return {**house.names(house.head("zanzibar revised")), "oams": names["oams"], "openwop": names["openwop"]}


def _report(house: House, form: Any, value: object) -> None:
    report = house.service.import_items(house.owner, number_items(form, [value]))
    assert report.refused == 0, report.refusals


# --- ways to rest on a consent ---------------------------------------------------------------------------------------


def _consent(house: House, **fields: Any) -> dict[str, Any]:
    whole = {"subject_did": house.tenant, "grantee_did": "did:web:clinic.example", "scope": ["store"]}
    return grain(house.now, type="consent", **whole, **fields)


def _rests(house: House, text: str, consent: str) -> dict[str, Any]:
    policy = {"invalidation_policy": {"mode": "consent_cascade"}}
    return grain(house.now, object=text, namespace=SPACE, processing_basis=consent, **policy)


def _record(house: House, text: str, consent: str) -> dict[str, Any]:
    body = {"text": text, "structured": {"processing_basis": consent}}
    return {**house.draft("", scope={"project": SPACE}), "body": body}


RESTS: Final[Mapping[str, Callable[[House, str, str], object]]] = {
    "ump remember": lambda house, text, basis: house.service.remember(house.owner, _record(house, text, basis)),
    "ump file": lambda house, text, basis: _report(house, "ump", _record(house, text, basis)),
    "oams store": lambda house, text, basis: house.oams.store(key(text), text, metadata={"processing_basis": basis}),
    "oams batch": lambda house, text, basis: house.oams.batch(
        [house.oams.memory(key(text), text, metadata={"processing_basis": basis})]
    ),
    "oams file": lambda house, text, basis: _report(
        house, "oams", house.oams.complete(key(text), text, metadata={"processing_basis": basis})
    ),
    "oms put": lambda house, text, basis: house.service.grains.put(house.owner, _rests(house, text, basis)),
    "oms file": lambda house, text, basis: _report(house, "oms", encode(_rests(house, text, basis)).blob),
}
WITHDRAWS: Final[Mapping[str, Callable[[House, dict[str, Any]], object]]] = {
    "oms put": lambda house, fields: house.service.grains.put(house.owner, fields),
    "oms put bytes": lambda house, fields: house.service.grains.put(house.owner, encode(fields).blob),
    "oms file": lambda house, fields: _report(house, "oms", encode(fields).blob),
}
# A protected grain is revised by nobody but through its policy; consent_cascade lets it be.
CHANGES: Final = (None, *REVISES)


def withdrawn(rests: str, by: str | None, withdraws: str) -> None:
    house = House()
    consent = house.service.grains.put(house.owner, _consent(house, is_withdrawal=False)).address
    RESTS[rests](house, "zanzibar", consent)
    names = house.names(house.head("zanzibar"))
    house.advance(1)
    names = _revised(house, names, by)
    assert "zanzibar" in told(house, "ump recall", names, "zanzibar")
    house.advance(1)
    WITHDRAWS[withdraws](house, _consent(house, is_withdrawal=True, prior_consent=consent))
    _check_told_nowhere(house, names, "zanzibar", (rests, by, withdraws))
    house.service.close()


# --- ways to redact --------------------------------------------------------------------------------------------------


def _secret(house: House, consent: dict[str, Any]) -> dict[str, Any]:
    body = {"text": "zanzibar", "structured": {"token": "s3cret"}}
    draft: dict[str, Any] = house.draft("", scope={"project": SPACE, "visibility": "public"}, consent=consent)
    return {**draft, "body": body}


class _Views(NamedTuple):
    """A record that its consent cuts, as each standard shows it to its owner, the record inside."""

    record: dict[str, Any]
    grain: bytes
    memory: dict[str, Any]


def _views(house: House, path: str) -> _Views:
    other = House()
    other.now = house.now
    name = other.service.remember(other.owner, _secret(other, {"redact": [path]})).id
    version = other.head("zanzibar")
    found = _Views(
        record=cast("dict[str, Any]", other.get(name)),
        grain=to_stored_grain(other.context, version).delivery,
        memory=other.oams.get(other.names(version)["oams"]),
    )
    other.service.close()
    return found


# Whatever can carry what is redacted: the record itself, or a view of it in another standard.
REDACTS: Final[Mapping[str, Bind]] = {
    "ump remember": lambda house, path: house.service.remember(house.owner, _secret(house, {"redact": [path]})),
    "ump signed": lambda house, path: house.service.remember(house.owner, _views(house, path).record),
    "ump file": lambda house, path: _report(house, "ump", _secret(house, {"redact": [path]})),
    "ump signed file": lambda house, path: _report(house, "ump", _views(house, path).record),
    "oms put": lambda house, path: house.service.grains.put(house.owner, _fields_of(_views(house, path).grain)),
    "oms put bytes": lambda house, path: house.service.grains.put(house.owner, _views(house, path).grain),
    "oms put signed": lambda house, path: house.service.grains.put(
        house.owner, signature.sign(_fields_of(_views(house, path).grain), PEER, issued_at=1_780_000_000)
    ),
    "oms file": lambda house, path: _report(house, "oms", _views(house, path).grain),
    "oams store": lambda house, path: house.service.oams.store(house.owner, _views(house, path).memory),
    "oams batch": lambda house, path: house.service.oams.batch_store(house.owner, [_views(house, path).memory]),
    "oams file": lambda house, path: _report(house, "oams", _views(house, path).memory),
}


def _fields_of(blob: bytes) -> dict[str, Any]:
    return dict(decode(blob, profile=VIEWS).fields)


def redacted(way: str, by: str | None) -> None:
    house = House()
    REDACTS[way](house, "body.structured.token")
    old = names = house.names(house.head("zanzibar"))
    house.advance(1)
    names = _revised(house, names, by)
    for who in (house.token("read", "export", audience=PEER.did), house.key("did:example:stranger")):
        for read, each in itertools.product(READS, (old, names)):
            assert "s3cret" not in told(house, read, each, "s3cret", who), (read, way, by)
        assert not any("s3cret" in left(house, export, who) for export in EXPORTS), (way, by)
    house.service.close()


# --- ways to end -----------------------------------------------------------------------------------------------------


def _ending(house: House, text: str) -> dict[str, Any]:
    draft: dict[str, Any] = house.draft(text, scope={"project": SPACE}, consent={"retention": "P2D"})
    return draft


def _metadata(house: House) -> dict[str, Any]:
    return {EXPIRES_KEY: format_instant(Instant(house.now + 2 * DAY))}


def _draft(house: House, text: str) -> Draft:
    return Draft(content=text, expires=Instant(house.now + 2 * DAY))


def _entry_in_run(house: House, text: str) -> None:
    run = house.service.openwop.begin_run(house.owner, "tests.matrix")
    house.service.openwop.put_entry(house.owner, SPACE, _draft(house, text), run_id=run.run_id)
    house.service.openwop.finish_run(house.owner, run.run_id)


ENDS: Final[Mapping[str, Bind]] = {
    "ump remember": lambda house, text: house.service.remember(house.owner, _ending(house, text)),
    "ump file": lambda house, text: _report(house, "ump", _ending(house, text)),
    "oams store": lambda house, text: house.oams.store(key(text), text, metadata=_metadata(house)),
    "oams batch": lambda house, text: house.oams.batch([house.oams.memory(key(text), text, metadata=_metadata(house))]),
    "oams file": lambda house, text: _report(
        house, "oams", house.oams.complete(key(text), text, metadata=_metadata(house))
    ),
    "openwop put": lambda house, text: house.service.openwop.put_entry(house.owner, SPACE, _draft(house, text)),
    "openwop host": lambda house, text: house.service.openwop.put_entries(house.owner, SPACE, [_draft(house, text)]),
    "openwop run": _entry_in_run,
}


def ended(way: str, by: str | None) -> None:
    house = House()
    ENDS[way](house, "zanzibar")
    names = house.names(house.head("zanzibar"))
    house.advance(DAY)
    names = _revised(house, names, by)
    house.advance(DAY)
    _check_told_nowhere(house, names, "zanzibar", (way, by, "over"))
    assert house.service.purge() > 0
    _check_told_nowhere(house, names, "zanzibar", (way, by, "purged"))
    house.service.close()


def _check_told_nowhere(house: House, names: Mapping[str, str], word: str, cell: object) -> None:
    for read in (*READS, *LOGS):
        assert word not in told(house, read, names, word), (read, cell)
    assert not any(word in left(house, export) for export in EXPORTS), cell


# --- narrowed tokens -------------------------------------------------------------------------------------------------


def narrowed(way: str) -> None:
    house = House()
    WRITES[way](house, "zanzibar")
    names = house.names(house.head("zanzibar"))
    may = {"read": True, "export": True}
    here = house.token(*may, project=SPACE)
    seen = [read for read in READS if "zanzibar" in told(house, read, names, "zanzibar", here)]
    assert seen == list(READS), way
    for limits in (
        {"project": "elsewhere"},
        {"project": SPACE, "agent": "helper"},
        {"project": SPACE, "visibility": "public"},
    ):
        who = house.token(*may, **limits)
        for read in READS:
            assert "zanzibar" not in told(house, read, names, "zanzibar", who), (read, way, limits)
        assert not any("zanzibar" in _left(house, export, who) for export in EXPORTS), (way, limits)
        other = Oams(house, house.oams.namespace, who)
        assert not _says(lambda other=other: other.listed()), (way, limits)  # type: ignore[misc]
    house.service.close()


def _left(house: House, export: str, who: Access) -> str:
    try:
        return left(house, export, who)
    except MemorandaError:
        return ""


def _says(ask: Callable[[], object]) -> bool:
    try:
        return "zanzibar" in str(ask())
    except MemorandaError:
        return False


# --- the cells -------------------------------------------------------------------------------------------------------


def _cells() -> Iterator[tuple[Callable[..., None], tuple[object, ...]]]:
    yield from ((withdrawn, cell) for cell in itertools.product(RESTS, CHANGES, WITHDRAWS))
    yield from ((redacted, cell) for cell in itertools.product(REDACTS, CHANGES))
    yield from ((ended, cell) for cell in itertools.product(ENDS, CHANGES))
    yield from ((narrowed, (way,)) for way in WRITES)


@pytest.mark.requirement("OMS-23.2-cascade-everywhere")
@pytest.mark.parametrize("rests", RESTS)
def test_what_rested_on_a_withdrawn_consent_is_told_nowhere(rests: str) -> None:
    place = list(RESTS).index(rests)
    for number, by in enumerate(CHANGES):
        withdrawn(rests, by, list(WITHDRAWS)[(place + number) % len(WITHDRAWS)])


@pytest.mark.requirement("OURS-redact-fails-closed")
@pytest.mark.parametrize("way", REDACTS)
def test_what_is_redacted_is_shown_to_no_other_whoever_revised_it(way: str) -> None:
    for by in (None, list(REVISES)[list(REDACTS).index(way) % len(REVISES)]):
        redacted(way, by)


@pytest.mark.requirement("OURS-rules-bind-later-versions")
@pytest.mark.parametrize("way", ENDS)
def test_what_has_ended_is_told_nowhere_whoever_revised_it(way: str) -> None:
    for by in (None, list(REVISES)[list(ENDS).index(way) % len(REVISES)]):
        ended(way, by)


@pytest.mark.requirement("OURS-narrowed-tokens")
@pytest.mark.parametrize("way", WRITES)
def test_a_token_for_a_part_reads_that_part_and_nothing_else(way: str) -> None:
    narrowed(way)


if __name__ == "__main__":
    failed = 0
    cells = list(_cells())
    for check, cell in cells:
        try:
            check(*cell)
        except AssertionError as error:
            failed += 1
            print(f"{check.__name__} {cell}: {error}", flush=True)
    print(f"{len(cells)} cells, {failed} wrong")
    sys.exit(failed > 0)
