"""What rests on a consent goes with it, through every door, with what was made from it; a hold alone keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda.errors import ConsentViolation, NotFound
from memoranda.service.core import cascade
from memoranda.service.exchange.importing import number_items
from memoranda.standards.oms.grains import encode
from tests.service.oams_verbs import Oams
from tests.service.world import World, grain

CASCADE = {"invalidation_policy": {"mode": "consent_cascade"}}
SECRET = "zanzibar"


class Practice(World):
    """An owner who was given a consent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.consent = self.put(**self._consent(is_withdrawal=False))

    def _consent(self, **fields: Any) -> dict[str, Any]:
        did = self.owner.default_tenant
        whole = {"subject_did": did, "grantee_did": "did:web:clinic.example", "scope": ["store"]}
        return {"type": "consent", "namespace": "shared", **whole, **fields}

    @property
    def withdrawal(self) -> dict[str, Any]:
        return grain(self.now, **self._consent(is_withdrawal=True, prior_consent=self.consent))

    def rest(self, text: str, **fields: Any) -> str:
        return self.put(object=text, **{**CASCADE, "processing_basis": self.consent, **fields})

    def based(self, text: str) -> dict[str, Any]:
        """The body of a record that rests on the consent."""
        return {"text": text, "structured": {"processing_basis": self.consent}}

    def withdraw(self) -> tuple[str, ...]:
        return self.service.grains.put(self.owner, self.withdrawal).warnings

    def secrets(self) -> list[str]:
        """What a recall still finds of it."""
        return [text for text in self.texts(SECRET) if SECRET in text]

    def is_there(self, address: str) -> bool:
        return self.service.grains.exists(self.owner, address)


@pytest.fixture
def practice() -> Iterator[Practice]:
    world = Practice()
    yield world
    world.service.close()


def by_put(world: Practice) -> None:
    world.service.grains.put(world.owner, world.withdrawal)


def by_supersession(world: Practice) -> None:
    world.service.grains.supersede(world.owner, world.consent, world.withdrawal, justification="asked to")


def by_file(world: Practice) -> None:
    assert world.service.import_items(world.owner, number_items("oms", [encode(world.withdrawal).blob])).refused == 0


def by_record(world: Practice) -> None:
    world.service.remember(world.owner, elsewhere(world.withdrawal, "record"))


def by_record_file(world: Practice) -> None:
    assert (
        world.service.import_items(world.owner, number_items("ump", [elsewhere(world.withdrawal, "record")])).refused
        == 0
    )


def by_memory(world: Practice) -> None:
    Oams(world).put(elsewhere(world.withdrawal, "memory"))


def by_bundle(world: Practice) -> None:
    assert Oams(world).take_in([(None, elsewhere(world.withdrawal, "memory"))]).refused == 0


def elsewhere(fields: dict[str, Any], form: str) -> dict[str, Any]:
    """A grain as another store of the same owner shows it through UMP or OAMS."""
    other = World()
    try:
        address = other.service.grains.put(other.owner, fields).address
        return dict(other.as_record(address)) if form == "record" else Oams(other).get(address)
    finally:
        other.service.close()


DOORS = [by_put, by_supersession, by_file, by_record, by_record_file, by_memory, by_bundle]


@pytest.mark.requirement("OMS-23.2-consent-cascade")
@pytest.mark.parametrize("door", DOORS)
def test_a_withdrawal_erases_what_rests_on_the_consent(practice: Practice, door: Callable[[Practice], None]) -> None:
    resting = practice.rest(SECRET)
    other = practice.rest("of another consent", processing_basis="0" * 64)
    unbound = practice.put(object="says nothing of cascades", processing_basis=practice.consent)
    name = practice.as_record(resting)["id"]
    door(practice)
    assert [practice.is_there(each) for each in (resting, other, unbound)] == [False, True, True]
    assert practice.get(name)["lifecycle"]["status"] == "tombstoned"
    assert practice.secrets() == []
    assert practice.is_there(practice.consent)


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_a_withdrawal_leaves_no_byte_in_any_file(tmp_path: Path) -> None:
    world = Practice(path=tmp_path / "store.db")
    try:
        world.rest(SECRET)
        world.withdraw()
        assert [each.name for each in tmp_path.iterdir() if SECRET.encode() in each.read_bytes()] == []
    finally:
        world.service.close()


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_memories_of_every_standard_rest_on_a_consent(practice: Practice) -> None:
    oams = Oams(practice)
    record = practice.remember("", body=practice.based(f"the {SECRET} of a record"))
    oams.store("k", f"the {SECRET} of a memory", metadata={"processing_basis": f"sha256:{practice.consent}"})
    resting = grain(practice.now, object=f"the {SECRET} of a grain", processing_basis=practice.consent, **CASCADE)
    inside = practice.service.remember(practice.owner, elsewhere(resting, "record")).id
    assert len(practice.secrets()) == 3
    assert practice.withdraw() == ("3 memories erased with the consent",)
    assert practice.secrets() == []
    for name in (record, inside):
        assert SECRET not in practice.get(name)["body"]["text"]


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_what_was_made_from_it_goes_too_over_any_number_of_steps(practice: Practice) -> None:
    oams = Oams(practice)
    resting = practice.rest(SECRET)
    summary = practice.put(object="a summary", derived_from=[resting])
    again = practice.put(object="a summary of the summary", derived_from=[summary])
    record = practice.remember(
        "told on", relations=[{"type": "derived_from", "target": practice.as_record(again)["id"]}]
    )
    oams.store("dream", "dreamt", parent_id=resting)
    oams.store("deep", "dreamt of the dream", parent_id="dream")
    beside = practice.put(object="beside it", related_to=[{"relation_type": "similar", "hash": resting}])
    practice.withdraw()
    assert [practice.is_there(each) for each in (resting, summary, again, beside)] == [False, False, False, True]
    assert practice.get(record)["lifecycle"]["status"] == "tombstoned"
    assert [memory["key"] for memory in oams.listed() if memory["key"] in ("dream", "deep")] == []


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_every_version_goes_whichever_standard_wrote_it(practice: Practice) -> None:
    resting = practice.rest(SECRET)
    later = practice.revise(practice.as_record(resting)["id"], body={"text": f"{SECRET}, revised"})
    practice.withdraw()
    assert practice.get(later)["lifecycle"]["status"] == "tombstoned"
    assert practice.secrets() == []


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_a_hold_beats_a_withdrawal_until_it_is_lifted(practice: Practice) -> None:
    held, free = practice.rest(SECRET), practice.rest("free")
    practice.service.grains.set_hold(practice.owner, held, held=True, reason="a lawsuit")
    made = practice.put(object="made from what is held", derived_from=[held])
    assert practice.withdraw() == (
        "2 memories erased with the consent",
        "1 memory kept by a legal hold, though the consent is withdrawn",
    )
    assert [practice.is_there(each) for each in (held, free, made)] == [True, False, False]
    practice.service.grains.set_hold(practice.owner, held, held=False, reason="settled")
    assert not practice.is_there(held)


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_nothing_new_can_rest_on_a_withdrawn_consent(practice: Practice) -> None:
    practice.withdraw()
    with pytest.raises(ConsentViolation, match="withdrawn"):
        practice.rest(SECRET)
    with pytest.raises(ConsentViolation, match="withdrawn"):
        practice.remember("", body=practice.based(SECRET))
    with pytest.raises(ConsentViolation, match="withdrawn"):
        Oams(practice).store("k", SECRET, metadata={"processing_basis": practice.consent})
    resting = encode(grain(practice.now, object=SECRET, processing_basis=practice.consent, **CASCADE))
    report = practice.service.import_items(practice.owner, number_items("oms", [resting.blob]))
    assert (report.created, report.refused) == (0, 1)
    assert practice.secrets() == []


@pytest.mark.requirement("OMS-23.2-consent-cascade")
def test_where_a_basis_is_required_what_has_lost_it_goes_in_any_mode() -> None:
    world = Practice(presets=("gdpr",))
    try:
        unbound = world.put(object=SECRET, user_id="u", processing_basis=world.consent)
        other = world.put(object="contract", user_id="u", processing_basis="contract")
        world.withdraw()
        assert [world.is_there(each) for each in (unbound, other)] == [False, True]
    finally:
        world.service.close()


def test_what_a_process_left_undone_is_finished_by_the_next(
    practice: Practice, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting = [practice.rest(f"{SECRET} {number}") for number in range(5)]

    def die(*_: object) -> cascade.CascadeResult:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(cascade, "erase_withdrawn", die)
        with pytest.raises(KeyboardInterrupt):
            practice.withdraw()
    assert all(practice.is_there(each) for each in resting)
    monkeypatch.setattr(cascade, "BATCH_LIMIT", 2)
    cascade.erase_all_withdrawn(practice.context)
    assert not any(practice.is_there(each) for each in resting)
    assert practice.engine.system.list_tenants_with_items((cascade.PENDING,)) == []


def test_the_audit_log_says_what_went(practice: Practice) -> None:
    practice.rest(SECRET)
    practice.withdraw()
    (entry,) = [each for each in practice.service.audit(practice.owner, {}) if each["op"] == "oms.withdrawal"]
    assert (entry["targets"], entry["result"]) == ([practice.consent], "1 erased")
    assert SECRET not in str(entry)


def test_a_consent_never_goes_with_another(practice: Practice) -> None:
    second = practice.put(**practice._consent(is_withdrawal=False, scope=["share"], processing_basis=practice.consent))
    practice.withdraw()
    assert practice.is_there(second)
    with pytest.raises(NotFound):
        practice.grain("0" * 64)
