"""Memories of one owner become those of another: whichever form they travel in, they say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from tests.bindings.files.test_forms import EACH, FORMS, NEW, REF, STEPS, WHOLE, Writer, write

from memoranda.app import Memoranda
from memoranda.bindings.files import exchange
from memoranda.model.instant import parse_instant
from memoranda.service.exchange.importing import ImportOptions
from memoranda.service.exchange.report import Report
from memoranda.standards.openwop.entry import Draft
from memoranda.standards.ump import signature
from memoranda.standards.ump.record import Record
from memoranda.standards.ump.rules import retention_end

OAMS_FORMS = tuple(form for form in FORMS if form == "bundle" or ".oams." in form)


@contextmanager
def two_owners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memoranda, Memoranda, Path]]:
    """Open two stores, each with an owner and an operator of its own."""
    folder = tmp_path_factory.mktemp("adoption")
    with Memoranda.open(folder / "one") as one, Memoranda.open(folder / "two") as other:
        assert one.owner != other.owner
        yield one, other, folder


def adopt(m: Memoranda, source: Path, *, adopt: bool = True) -> Report:
    return exchange.import_files(m.ump.import_items, m.owner, [str(source)], options=ImportOptions(adopt=adopt))


def contents(m: Memoranda, form: str = "all.ndjson", *, history: bool) -> list[Any]:
    """Return what each record says, in an order of its own; whose it is and who signed it is left out.

    To OAMS a revised memory is as old as its first version: its times are those that OAMS tells.
    """
    records = list(m.export(history=history))
    assert all(signature.verify(record) for record in records)
    assert {record["scope"]["owner"] for record in records} <= {m.owner}
    found = [_content(record, has_times=form not in OAMS_FORMS) for record in records]
    if form in OAMS_FORMS:
        listed = [each for name in m.oams.namespaces for each in m.oams.list(namespace=name, limit=500).memories]
        found += [(each["value"], each["created_at"], each["updated_at"], each.get("tags")) for each in listed]
    return sorted(found, key=str)


def _content(record: Mapping[str, Any], *, has_times: bool) -> Any:
    scope, consent = record["scope"], record.get("consent", {})
    tags = sorted(each["target"] for each in record.get("relations", ()) if each["type"] == "about")
    # The project of a claimed namespace is called like all of it; adopted it is the scope alone.
    project = scope.get("project", "").removeprefix("user-x123ab:")
    where = (project, *(scope.get(name) for name in ("user", "agent", "session", "visibility")))
    said = (record["kind"], record["body"]["text"], record["lifecycle"].get("confidence"))
    times = {name: text and parse_instant(text) for name, text in record["time"].items() if has_times}
    ends = (retention_end(cast("Record", record)), consent.get("exportable", True), consent.get("redact"))
    return (said, where, times, ends, tags, bool(record["superseded_by"]))


def fill(m: Memoranda) -> None:
    """Write memories of every kind and standard, with users, times of their own and a history."""
    when = {"created": "2019-01-01T00:00:00Z", "observed": "2019-02-01T00:00:00Z"}
    when |= {"valid_from": "2020-01-01T00:00:00Z", "valid_to": "2090-01-01T00:00:00Z"}
    for kind in ("semantic", "episodic", "procedural", "working", "identity"):
        where = {"user": "kim", "agent": "helper", "session": "s1"}
        m.remember(f"tea {kind}", kind=kind, tags=["hot"], scope=where, time=when)
    m.remember("plain fact")
    m.remember("tea for all", visibility="shared", about=["ent:tea"], retention="P3650D", confidence=0.25, salience=0.5)
    m.revise(m.remember("tea is cheap").id, "tea is dear")
    writer = Writer(m)
    for name in NEW:
        for _ in range(2):
            writer.step(name, 0)
    m.openwop.put_entry(REF, Draft(content="milk", tags=("a",), expires=None))
    for user in ("alice", "bob"):
        m.oams.store("drink", f"{user} likes tea", namespace=f"{user}:personal")


@pytest.mark.requirement("OAMS-OURS-one-identity")
@pytest.mark.parametrize("form", FORMS)
def test_a_memory_of_another_owner_says_the_same_when_it_is_adopted(
    tmp_path_factory: pytest.TempPathFactory, form: str
) -> None:
    with two_owners(tmp_path_factory) as (one, other, folder):
        fill(one)
        for each in FORMS:
            (folder / each).parent.mkdir(exist_ok=True)
            write(one, folder / each, each)
        report = adopt(other, folder / form)
        assert (report.refused, report.refusals) == (0, [])
        history = form in WHOLE or form == "folder/"
        before = contents(other, form, history=history)
        assert before == contents(one, form, history=history)
        # The same again changes nothing, and every other form brings at most the history.
        for again in (form, *FORMS):
            report = adopt(other, folder / again)
            assert report.refused == 0
            assert report.created == 0 or (again in WHOLE and form not in WHOLE)
        assert contents(other, form, history=False) == contents(one, form, history=False)
        assert other.verify().ok


@pytest.mark.parametrize("form", FORMS)
def test_a_memory_of_another_owner_is_refused_or_says_the_same_when_nobody_adopts_it(
    tmp_path_factory: pytest.TempPathFactory, form: str
) -> None:
    """A record and a namespace name their owner; a grain does not, and is the same grain in every store."""
    with two_owners(tmp_path_factory) as (one, other, folder):
        fill(one)
        write(one, folder / form, form)
        report = adopt(other, folder / form, adopt=False)
        there, here = contents(other, history=True), contents(one, history=True)
        assert {each.code for each in report.refusals} <= {"forbidden_scope", "cross_namespace"}
        if form == "all.mg":
            assert report.refused == 0
            assert there == here
            addresses = {sha256(delivery).hexdigest() for delivery, _ in one.service.grains.export(one.access)}
            assert addresses == {
                sha256(delivery).hexdigest() for delivery, _ in other.service.grains.export(other.access)
            }
            # Whoever adopts them afterwards has each of them once.
            assert adopt(other, folder / form).refused == 0
            assert contents(other, history=False) == contents(one, history=False)
        else:
            assert report.refused > 0
            assert not {str(each) for each in there} - {str(each) for each in here}
        assert other.verify().ok


@EACH
@given(steps=STEPS)
@example(steps=[("store", 0), ("revise", 0), ("supersede", 0)])
@example(steps=[("put", 0), ("store_again", 0)])
@pytest.mark.parametrize("form", FORMS)
def test_whatever_leaves_says_the_same_when_another_owner_adopts_it(
    tmp_path_factory: pytest.TempPathFactory, form: str, steps: list[tuple[str, int]]
) -> None:
    with two_owners(tmp_path_factory) as (one, other, folder):
        writer = Writer(one)
        for op, which in steps:
            writer.step(op, which)
        report = write(one, folder / form, form)
        taken = adopt(other, folder / form)
        assert taken.refused == 0
        if not report.left_behind and not taken.warnings:
            history = form in WHOLE or form == "folder/"
            assert contents(other, form, history=history) == contents(one, form, history=history)
        again = adopt(other, folder / form)
        assert (again.created, again.updated, again.refused) == (0, 0, 0)
