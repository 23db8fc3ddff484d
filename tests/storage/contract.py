"""What every store must do: one abstract suite, a few lines per backend."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoranda.model.instant import Instant
from memoranda.model.memory import AuditEntry, Document, FieldIndex, LinkReason, Projection, Relation, Scope, Version
from memoranda.model.selection import UPDATED, WRITTEN, KeywordQuery, Matches, PageCursor, Selected, Selection
from memoranda.storage.engine.contract import (
    ApiKey,
    Engine,
    KeyLimits,
    ProgramGrant,
    Snapshot,
    Unit,
    VersionIndex,
)

Triple = tuple[str, str, str]

NOW = Instant(1_780_000_000_000)
LATER = Instant(NOW + 60_000)


def seal(entry: AuditEntry, seq: int, prev: str | None) -> tuple[bytes, str]:
    return orjson.dumps([seq, entry.op, prev]), f"{entry.op}-{seq}"


def document(name: str, native: bytes = b"{}") -> Document:
    return Document(standard="note", media_type="text/plain", name=name, native=native)


def projection(text: str, *, tenant: str = "ada", **changes: Any) -> Projection:
    scope_names = {"space", "user", "agent", "session", "visibility"} & set(changes)
    scope = Scope(tenant=tenant, **{name: changes.pop(name) for name in scope_names})
    values: dict[str, Any] = {"kind": "semantic", "created": NOW, "observed": NOW, "valid_from": NOW, **changes}
    return Projection(text=text, scope=scope, **values)


def field_index(shown: Projection, relation: str = "", value: str = "") -> FieldIndex:
    """Return the fields by which a version is found; `value` is the object of its triple."""
    return FieldIndex(
        address="00",
        form="note",
        at=shown.observed,
        subject=shown.subject,
        relation=relation,
        object=value,
    )


def matches(snapshot: Snapshot, text: str, selection: Selection, *, limit: int = 50, now: Instant = NOW) -> Matches:
    return snapshot.match(selection, (KeywordQuery(text=text),), limit=limit, now=now)


def names(snapshot: Snapshot, found: Sequence[Selected]) -> list[str]:
    return [version.document.name for version in snapshot.load_versions([each.version_id for each in found])]


def everything(snapshot: Snapshot) -> list[Version]:
    """All versions that no fuller document has replaced, oldest first."""
    page = snapshot.load_page(Selection(status_filter="all"), limit=10_000, now=NOW)
    return snapshot.load_versions([each.version_id for each in page])


class EngineContract:
    """Subclasses provide the `engine` fixture."""

    def add(
        self,
        engine: Engine,
        text: str,
        *,
        tenant: str = "ada",
        name: str | None = None,
        triple: tuple[str, str, str] = ("", "", ""),
        **changes: Any,
    ) -> Version:
        subject, relation, value = triple
        shown = projection(text, tenant=tenant, **({"subject": subject} if subject else {}), **changes)
        fields = field_index(shown, relation, value)
        return engine.write(
            tenant, lambda unit: unit.append(document(name or text), shown, now=NOW, index=VersionIndex(fields=fields))
        )

    def found(self, engine: Engine, text: str, *, tenant: str = "ada", at: Instant = NOW, **where: Any) -> list[str]:
        with engine.open_snapshot(tenant) as snapshot:
            return names(snapshot, matches(snapshot, text, Selection(at=at, **where), now=at).hits)

    def test_a_version_comes_back_exactly_as_it_was_written(self, engine: Engine) -> None:
        native = bytes(range(256)) * 40
        engine.write("ada", lambda unit: unit.append(document("n", native), projection("x"), now=NOW, cause=b"why"))
        with engine.open_snapshot("ada") as snapshot:
            version = snapshot.find_by_name("note", "n")
        assert version is not None
        assert version.document == document("n", native)
        assert version.cause == b"why"
        assert version.state.is_head
        assert (version.state.recorded, version.state.valid_from, version.state.valid_to) == (NOW, NOW, None)

    def test_a_tenant_sees_nothing_of_another(self, engine: Engine) -> None:
        version = self.add(engine, "secret plan", name="shared-name")
        engine.write("ada", lambda unit: unit.announce("created", version, now=NOW))
        with engine.open_snapshot("bob") as snapshot:
            assert snapshot.find_by_name("note", "shared-name") is None
            assert snapshot.load_versions([version.version_id]) == []
            assert list(snapshot.iterate_history(version.memory_id)) == []
            assert matches(snapshot, "secret", Selection(at=NOW)).hits == ()
            for order in (WRITTEN, UPDATED):
                assert snapshot.load_page(Selection(at=NOW), order, limit=9, now=NOW) == []
                assert snapshot.load_page(Selection(status_filter="all"), order, limit=9, now=NOW) == []
            assert snapshot.list_changes(0, 9) == []
            assert snapshot.find_last_change() == 0
            assert snapshot.read_audit_head() == (0, None)

    def test_two_tenants_may_use_the_same_name(self, engine: Engine) -> None:
        self.add(engine, "of ada", name="n")
        self.add(engine, "of bob", tenant="bob", name="n")
        for tenant, text in (("ada", "of ada"), ("bob", "of bob")):
            assert self.found(engine, text, tenant=tenant) == ["n"]
        assert engine.system.find_tenants_with_name("note", "n") == ["ada", "bob"]

    def test_search_weights_do_not_depend_on_other_tenants(self, engine: Engine) -> None:
        self.add(engine, "green apple")
        with engine.open_snapshot("ada") as snapshot:
            before = matches(snapshot, "green apple", Selection(at=NOW))
        for number in range(20):
            self.add(engine, f"green thing {number}", tenant="bob")
        with engine.open_snapshot("ada") as snapshot:
            assert matches(snapshot, "green apple", Selection(at=NOW)) == before

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("the deployments were failing", "deploy failed"),
            ("Über den Wölken", "uber wolken"),
            ("ＦＵＬＬ width", "full"),
            ("東京に住んでいます", "東京"),
            ("naïve café", "NAIVE CAFE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ],
    )
    def test_search_folds_stems_and_cuts(self, engine: Engine, text: str, query: str) -> None:
        self.add(engine, "something else entirely")
        self.add(engine, text)
        assert self.found(engine, query) == [text]

    def test_stop_words_match_nothing(self, engine: Engine) -> None:
        self.add(engine, "this is what it was about")
        assert self.found(engine, "what is this") == []

    def test_rarer_words_rank_higher(self, engine: Engine) -> None:
        for number in range(20):
            self.add(engine, f"common filler {number}")
        self.add(engine, "common zebra")
        assert self.found(engine, "common zebra")[0] == "common zebra"

    def test_words_that_nearly_every_version_has_still_find_the_newest(self, engine: Engine) -> None:
        written = [(document(f"n{n}"), projection(f"everywhere {n}")) for n in range(2_100)]

        def work(unit: Unit) -> None:
            for each, shown in written:
                unit.append(each, shown, now=NOW, index=VersionIndex(text=engine.index_text("ada", shown)))

        engine.write("ada", work)
        assert self.found(engine, "everywhere")[:2] == ["n2099", "n2098"]
        assert self.found(engine, "everywhere 7")[0] == "n7"

    @pytest.mark.parametrize("dimension", ["space", "user", "agent", "session"])
    def test_every_scope_dimension_filters_exactly(self, engine: Engine, dimension: str) -> None:
        asked: dict[str, Any] = {dimension: "x"}
        self.add(engine, "apple one", **asked)
        elsewhere: dict[str, Any] = {dimension: "y"}
        self.add(engine, "apple two", **elsewhere)
        self.add(engine, "apple three")
        assert self.found(engine, "apple", **asked) == ["apple one"]
        with engine.open_snapshot("ada") as snapshot:
            for order in (WRITTEN, UPDATED):
                page = snapshot.load_page(Selection(at=NOW, **asked), order, limit=9, now=NOW)
                assert names(snapshot, page) == ["apple one"]

    def test_kind_status_and_visibility_filter(self, engine: Engine) -> None:
        self.add(engine, "apple a", kind="episodic")
        self.add(engine, "apple b", status="candidate")
        self.add(engine, "apple c", visibility="public")
        assert self.found(engine, "apple", kinds=("episodic",)) == ["apple a"]
        assert self.found(engine, "apple", statuses=("candidate",)) == ["apple b"]
        assert self.found(engine, "apple", visibilities=("public",)) == ["apple c"]
        assert self.found(engine, "apple", visibilities=()) == []

    def test_valid_time_is_half_open(self, engine: Engine) -> None:
        self.add(engine, "apple", valid_from=Instant(NOW + 10), valid_to=Instant(NOW + 20))
        seen = [offset for offset in (9, 10, 19, 20) if self.found(engine, "apple", at=Instant(NOW + offset))]
        assert seen == [10, 19]

    def test_what_was_known_then_can_be_asked(self, engine: Engine) -> None:
        prior = self.add(engine, "lives in Rome")

        def work(unit: Unit) -> None:
            shown = projection("lives in Oslo", valid_from=LATER)
            successor = unit.append(document("oslo"), shown, now=LATER, follows=prior)
            unit.close_version(prior, successor=successor, valid_to=LATER, now=LATER)

        engine.write("ada", work)
        after = Instant(LATER + 1)
        assert self.found(engine, "lives", at=after) == ["oslo"]
        assert self.found(engine, "lives", at=NOW) == ["lives in Rome"]
        # Before the correction was recorded, Rome was believed to hold for good.
        assert self.found(engine, "lives", at=after, known_at=NOW) == ["lives in Rome"]
        with engine.open_snapshot("ada") as snapshot:
            assert [v.document.name for v in snapshot.iterate_history(prior.memory_id)] == ["lives in Rome", "oslo"]
            closed = snapshot.find_by_name("note", "lives in Rome")
            assert closed is not None
            assert closed.state.superseded_by == "oslo"
            assert not closed.state.is_head

    def test_expired_versions_are_not_found_even_before_the_sweep(self, engine: Engine) -> None:
        version = self.add(engine, "apple", expires=LATER)
        assert self.found(engine, "apple", at=Instant(LATER - 1)) == ["apple"]
        assert self.found(engine, "apple", at=LATER) == []
        assert engine.system.find_next_expiry() == LATER
        assert engine.system.list_expired(Instant(LATER - 1), 9) == []
        assert engine.system.list_expired(LATER, 9) == [("ada", version.version_id)]

    def test_a_tombstone_hides_and_keeps(self, engine: Engine) -> None:
        version = self.add(engine, "apple", expires=LATER)
        engine.write("ada", lambda unit: unit.tombstone(version, valid_to=LATER, now=LATER))
        assert self.found(engine, "apple") == []
        assert engine.system.find_next_expiry() is None
        with engine.open_snapshot("ada") as snapshot:
            kept = snapshot.find_by_name("note", "apple")
        assert kept is not None
        assert kept.document.native == b"{}"
        assert kept.state.tombstoned == LATER

    def test_erasing_leaves_only_the_tombstone(self, engine: Engine) -> None:
        version = self.add(engine, "apple", relations=(Relation(type="about", target="entity:fruit"),))
        engine.write("ada", lambda unit: unit.erase(version, tombstone=b"tombstone_record", now=LATER))
        assert self.found(engine, "apple") == []
        with engine.open_snapshot("ada") as snapshot:
            left = snapshot.find_by_name("note", "apple")
        assert left is not None
        assert (left.document.native, left.cause, left.state.erased) == (b"tombstone_record", None, True)

    def test_a_duplicate_is_found_only_while_it_is_open(self, engine: Engine) -> None:
        version = self.add(engine, "apple", sameness="fruit")

        def same(tenant: str = "ada") -> str | None:
            with engine.open_snapshot(tenant) as snapshot:
                found = snapshot.find_duplicate("fruit", NOW)
                return found.document.name if found else None

        assert same() == "apple"
        assert same("bob") is None
        engine.write("ada", lambda unit: unit.tombstone(version, valid_to=NOW, now=NOW))
        assert same() is None

    def test_a_retired_version_gives_way_to_its_replacement(self, engine: Engine) -> None:
        version = self.add(engine, "apple", name="n")

        def work(unit: Unit) -> None:
            unit.append(document("n", b"fuller"), projection("apple"), now=LATER, follows=version)
            unit.retire(version, now=LATER)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            current = snapshot.find_by_name("note", "n")
            assert current is not None
            assert current.document.native == b"fuller"
            (only,) = snapshot.load_page(Selection(status_filter="all"), limit=9, now=NOW)
            assert snapshot.load_versions([only.version_id])[0].document.native == b"fuller"
            assert len(list(snapshot.iterate_history(version.memory_id))) == 2

    def test_a_name_may_follow_the_head(self, engine: Engine) -> None:
        def work(unit: Unit) -> None:
            version = unit.append(document("one"), projection("one"), now=NOW, follow_head=True)
            unit.append(document("two"), projection("two"), now=NOW, follows=version)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            head = snapshot.find_by_name("note", "one")
        assert head is not None
        assert head.document.name == "two"

    def test_a_failing_unit_leaves_no_trace_and_does_not_disturb_others(self, engine: Engine) -> None:
        def work(unit: Unit) -> None:
            unit.append(document("half"), projection("half"), now=NOW)
            unit.record_audit(AuditEntry(at=NOW, op="half"))
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            engine.write("ada", work)
        self.add(engine, "whole")
        with engine.open_snapshot("ada") as snapshot:
            assert names(snapshot, snapshot.load_page(Selection(status_filter="all"), limit=9, now=NOW)) == ["whole"]
            assert snapshot.read_audit_head() == (0, None)

    def test_feed_and_audit_count_per_tenant_without_gaps(self, engine: Engine) -> None:
        for tenant in ("ada", "bob", "ada"):
            version = self.add(engine, f"{tenant} something", tenant=tenant)

            def work(unit: Unit, version: Version = version) -> None:
                unit.announce("created", version, now=NOW)
                unit.record_audit(AuditEntry(at=NOW, op="remember"))

            engine.write(tenant, work)
        with engine.open_snapshot("ada") as snapshot:
            assert [change.seq for change in snapshot.list_changes(0, 9)] == [1, 2]
            assert [change.seq for change in snapshot.list_changes(1, 9)] == [2]
            assert snapshot.list_audit_after(0, 9) == [(1, b'[1,"remember",null]'), (2, b'[2,"remember","remember-1"]')]
            assert [seq for seq, _ in snapshot.list_audit_before(None, 1)] == [2]
            assert snapshot.read_audit_head() == (2, "remember-2")

    def test_later_records_are_durable_after_a_flush(self, engine: Engine) -> None:
        self.add(engine, "x")
        for _ in range(5):
            engine.record_audit_later("ada", AuditEntry(at=NOW, op="get"))
        engine.flush()
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.read_audit_head()[0] == 5

    def test_feedback_is_counted(self, engine: Engine) -> None:
        version = self.add(engine, "x")
        for outcome in ("followed", "followed", "contradicted"):
            engine.write("ada", lambda unit, o=outcome: unit.add_feedback(version, o, "s", now=NOW))  # type: ignore[misc]
        with engine.open_snapshot("ada") as snapshot:
            state = snapshot.load_versions([version.version_id])[0].state
        assert (state.followed, state.overridden, state.ignored, state.contradicted) == (2, 0, 0, 1)

    def test_many_threads_write_at_once(self, engine: Engine) -> None:
        def write(worker: int) -> None:
            for number in range(25):
                version = self.add(engine, f"w{worker} n{number}")
                engine.write("ada", lambda unit, v=version: unit.announce("created", v, now=NOW))  # type: ignore[misc]

        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with engine.open_snapshot("ada") as snapshot:
            assert [change.seq for change in snapshot.list_changes(0, 500)] == list(range(1, 201))
            assert len(set(names(snapshot, snapshot.load_page(Selection(), limit=500, now=NOW)))) == 200

    def test_keys_and_revocations_are_kept(self, engine: Engine) -> None:
        key = ApiKey(key_id="k", key_hash=b"h" * 32, name="n", tenant="ada", scopes=("read", "write"), created=NOW)
        engine.system.add_key(key)
        assert engine.system.load_key("k") == key
        assert engine.system.load_key("other") is None
        assert engine.system.revoke_key("k", LATER)
        assert not engine.system.revoke_key("k", LATER)
        assert [found.revoked for found in engine.system.list_keys()] == [LATER]
        engine.system.revoke_token("iss", "jti", NOW)
        engine.system.revoke_token("iss", "jti", NOW)
        assert engine.system.is_token_revoked("iss", "jti")
        assert not engine.system.is_token_revoked("other", "jti")

    def test_a_key_has_an_end_a_last_use_limits_and_a_successor(self, engine: Engine) -> None:
        system = engine.system
        limits = KeyLimits(requests_per_minute=60, writes_per_day=3)
        old = ApiKey(
            key_id="k", key_hash=b"h" * 32, name="n", tenant="ada", scopes=("read",), created=NOW, limits=limits
        )
        system.add_key(old)
        grant = ProgramGrant(grant_id="g", key_id="k", verbs=("read",), expires=LATER)
        system.add_grant(grant, now=NOW, limit=9)
        new = replace(old, key_id="l", replaces="k", expires=LATER)
        soon = Instant(NOW + 5)
        system.replace_key(new, ends=soon)
        assert system.load_key("l") == new
        ended = system.load_key("k")
        assert ended is not None
        assert (ended.expires, ended.limits) == (soon, limits)
        assert [found.key_id for found in system.list_grants(NOW)] == ["l"]
        # A key that ends sooner keeps its end, and an earlier use is no later one.
        system.replace_key(replace(old, key_id="m", replaces="k"), ends=LATER)
        system.record_key_uses({"k": soon, "nobody": soon})
        system.record_key_uses({"k": NOW})
        again = system.load_key("k")
        assert again is not None
        assert (again.expires, again.last_use) == (soon, soon)
        assert system.has_key("ada", LATER)
        assert system.change_key("m", NOW, KeyLimits())
        assert system.load_key("m") == replace(old, key_id="m", replaces="k", expires=NOW, limits=KeyLimits())
        assert not system.change_key("nobody", None, KeyLimits())
        assert not system.has_key("ada", Instant(LATER + 1))

    def test_a_deleted_tenant_is_gone_and_its_name_free(self, engine: Engine) -> None:
        for tenant in ("ada", "bob"):
            self.add(engine, "x", tenant=tenant)
            engine.write(tenant, lambda unit: unit.put_item("template", "a", b"1"))
            engine.write(tenant, lambda unit: unit.put_run("r", b"{}", started=NOW))
            engine.system.add_key(
                ApiKey(key_id=f"k{tenant}", key_hash=b"h" * 32, name="n", tenant=tenant, scopes=("read",), created=NOW)
            )
        assert engine.system.count_holds("ada") == 0
        assert engine.delete_tenant("ada")
        assert not engine.delete_tenant("ada")
        engine.scrub()
        assert engine.system.list_tenants() == ["bob"]
        (usage,) = engine.system.measure_tenants()
        assert (usage.tenant, usage.memories, usage.versions) == ("bob", 1, 1)
        assert [key.tenant for key in engine.system.list_keys()] == ["bob"]
        with engine.open_snapshot("ada") as snapshot:
            assert snapshot.load_page(Selection(), limit=9, now=NOW) == []
            assert snapshot.list_items(offset=0, limit=9) == []
        with engine.open_snapshot("bob") as snapshot:
            assert len(snapshot.load_page(Selection(), limit=9, now=NOW)) == 1
            assert snapshot.list_items(offset=0, limit=9) == [("template", "a", b"1")]
        self.add(engine, "y", tenant="ada")
        assert engine.system.list_tenants() == ["bob", "ada"]
        assert engine.list_losses() == []

    def test_the_change_token_moves_with_every_commit(self, engine: Engine) -> None:
        before = engine.read_change_token()
        self.add(engine, "x")
        assert engine.read_change_token() != before

    def test_fingerprints_are_stable_keyed_and_per_tenant(self, engine: Engine) -> None:
        assert engine.fingerprint("ada", "x") == engine.fingerprint("ada", "x")
        assert engine.fingerprint("ada", "x") != engine.fingerprint("bob", "x")

    def listed(self, engine: Engine, *, tenant: str = "ada", now: Instant = NOW, **asked: Any) -> list[str]:
        with engine.open_snapshot(tenant) as snapshot:
            return names(
                snapshot, snapshot.load_page(Selection(**{"status_filter": "current", **asked}), limit=500, now=now)
            )

    @pytest.mark.requirement("OMS-17.3-hexastore")
    @given(
        triples=st.lists(st.tuples(*[st.sampled_from(["", "a", "b"])] * 3), max_size=12),
        asked=st.tuples(*[st.sampled_from([None, "a", "b", "c"])] * 3),
        space=st.sampled_from([None, "", "p"]),
    )
    # One engine for all examples, and one suite for all engines: both on purpose.
    @settings(
        max_examples=60,
    )
    def test_structural_questions_are_answered_as_if_everything_was_looked_at(
        self, engine: Engine, triples: list[Triple], asked: tuple[str | None, ...], space: str | None
    ) -> None:
        # Each example in a tenant of its own: the store is one.
        tenant = f"t{engine.read_change_token()}"
        stored = [(f"{tenant} {number}", triple, "p" if number % 3 else "") for number, triple in enumerate(triples)]

        def work(unit: Unit) -> None:
            for name, (subject, relation, object_), where in stored:
                shown = projection(name, tenant=tenant, space=where, subject=subject)
                unit.append(
                    document(name), shown, now=NOW, index=VersionIndex(fields=field_index(shown, relation, object_))
                )

        engine.write(tenant, work)
        expected = [
            name
            for name, triple, where in stored
            if space in (None, where) and all(want in (None, part) for want, part in zip(asked, triple, strict=True))
        ]
        subject, relation, object_ = asked
        wanted: dict[str, Any] = {"subject": subject, "relation": relation, "object": object_, "space": space}
        assert self.listed(engine, tenant=tenant, **wanted) == expected

    @pytest.mark.requirement("OMS-17.3-hexastore")
    def test_what_has_a_subject_and_nothing_else_is_found_by_it(self, engine: Engine) -> None:
        self.add(engine, "lone", subject="ada")
        self.add(engine, "whole", triple=("ada", "likes", "tea"))
        assert self.listed(engine, subject="ada") == ["lone", "whole"]
        assert self.listed(engine, subject="ada", tenant="bob") == []

    def test_a_list_is_of_the_present_unless_asked_otherwise(self, engine: Engine) -> None:
        old, gone, away = (self.add(engine, name, subject="ada") for name in ("old", "gone", "away"))
        self.add(engine, "short", subject="ada", expires=LATER)

        def work(unit: Unit) -> None:
            shown = projection("new", subject="ada")
            new = unit.append(
                document("new"), shown, now=LATER, follows=old, index=VersionIndex(fields=field_index(shown))
            )
            unit.close_version(old, successor=new, valid_to=LATER, now=LATER)
            unit.tombstone(gone, valid_to=LATER, now=LATER)
            unit.erase(away, tombstone=b"tombstone_record", now=LATER)

        engine.write("ada", work)
        assert self.listed(engine, subject="ada") == ["short", "new"]
        assert self.listed(engine, subject="ada", now=LATER) == ["new"]
        assert self.listed(engine, subject="ada", status_filter="recorded") == ["old", "gone", "short", "new"]
        assert self.listed(engine) == ["short", "new"]

    def test_lists_go_on_where_they_stopped(self, engine: Engine) -> None:
        written = [self.add(engine, f"n{number}", subject="ada").document.name for number in range(7)]
        found: list[str] = []
        after: PageCursor | None = None
        with engine.open_snapshot("ada") as snapshot:
            while page := snapshot.load_page(Selection(subject="ada"), limit=3, now=NOW, after=after):
                found += names(snapshot, page)
                after = page[-1].cursor
        assert found == written

    def test_hold_review_and_verification_are_state(self, engine: Engine) -> None:
        version = self.add(engine, "x")

        def work(unit: Unit) -> None:
            unit.set_hold(version, on_hold=True)
            unit.flag_for_review(version, needs_review=True)
            unit.set_verification(version, "contested", now=NOW)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            (kept,) = snapshot.load_versions([version.version_id])
        assert (kept.state.has_legal_hold, kept.state.needs_review, kept.state.verification) == (
            True,
            True,
            "contested",
        )
        assert kept.document == version.document

    def test_a_held_version_does_not_fall_due(self, engine: Engine) -> None:
        version = self.add(engine, "x", expires=LATER)
        engine.write("ada", lambda unit: unit.set_hold(version, on_hold=True))
        assert engine.system.list_expired(LATER, 9) == []
        assert engine.system.find_next_expiry() is None
        engine.write("ada", lambda unit: unit.set_hold(version, on_hold=False))
        assert engine.system.list_expired(LATER, 9) == [("ada", version.version_id)]

    def test_everything_of_a_user_is_found_forgotten_or_not(self, engine: Engine) -> None:
        one, two = self.add(engine, "one", user="u"), self.add(engine, "two", user="u")
        self.add(engine, "three", user="v")
        self.add(engine, "four", user="u", tenant="bob")
        engine.write("ada", lambda unit: unit.tombstone(one, valid_to=NOW, now=NOW))
        everything = Selection(status_filter="unerased", user="u")
        with engine.open_snapshot("ada") as snapshot:
            page = snapshot.load_page(everything, limit=9, now=NOW)
            assert names(snapshot, page) == ["one", "two"]
            assert names(snapshot, snapshot.load_page(everything, limit=9, now=NOW, after=page[0].cursor)) == ["two"]
        engine.write("ada", lambda unit: unit.erase(two, tombstone=b"tombstone_record", now=NOW))
        with engine.open_snapshot("ada") as snapshot:
            assert names(snapshot, snapshot.load_page(everything, limit=9, now=NOW)) == ["one"]

    def test_what_names_something_is_found_from_there_until_it_is_erased(self, engine: Engine) -> None:
        made = Relation(type="derived_from", target="seed")
        one, two = (self.add(engine, text, relations=(made,), basis="grant") for text in ("one", "two"))
        self.add(engine, "three", relations=(Relation(type="about", target="seed"),), withdraws="grant")
        self.add(engine, "four", basis="grant", tenant="bob")
        engine.write("ada", lambda unit: unit.tombstone(one, valid_to=NOW, now=NOW))
        links: tuple[LinkReason, ...] = ("source", "basis", "withdraws")
        named = {"source": "seed", "basis": "grant", "withdraws": "grant"}

        def found(after: int = 0) -> list[list[str]]:
            with engine.open_snapshot("ada") as snapshot:
                pages = [snapshot.list_linked(link, named[link], after=after, limit=9) for link in links]
            return [[version.document.name for version in page] for page in pages]

        assert found() == [["one", "two"], ["one", "two"], ["three"]]
        assert found(one.version_id) == [["two"], ["two"], ["three"]]
        engine.write("ada", lambda unit: unit.erase(two, tombstone=b"tombstone_record", now=NOW))
        assert found() == [["one"], ["one"], ["three"]]

    def test_a_successor_is_known_under_all_its_names(self, engine: Engine) -> None:
        old = self.add(engine, "old")

        def work(unit: Unit) -> None:
            new = unit.append(document("new"), projection("new"), now=LATER, follows=old)
            unit.add_view_name(new, "other", "neu")
            unit.close_version(old, successor=new, valid_to=LATER, now=LATER)

        engine.write("ada", work)
        with engine.open_snapshot("ada") as snapshot:
            (kept,) = snapshot.load_versions([old.version_id])
            assert kept.state.successor_names == {"note": "new", "other": "neu"}
            head = snapshot.find_by_name("other", "neu")
            assert head is not None
            assert snapshot.load_names(head.version_id) == {"note": "new", "other": "neu"}

    def test_a_sound_store_has_nothing_to_report(self, engine: Engine) -> None:
        self.add(engine, "x")
        assert engine.find_damage() == []
