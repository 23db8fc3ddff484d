"""The executor against a naive evaluation of the same query over the same grains (tests/service/cal_model.py).

`CAL_MODEL_EXAMPLES=20000` makes the search by chance longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from memoranda.standards.cal import fields
from memoranda.standards.cal.fields import Field
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Limit, ParsedQuery, Recall, Reduce, WhereCondition
from memoranda.storage.engine.paging import PagingLimits as Reading
from tests.service.cal_proof import Proof
from tests.service.cal_samples import DOMAIN, ME, Queries, Stores
from tests.service.world import World
from tests.storage.contract_facts import PAGING_LIMITS as READINGS
from tests.storage.contract_facts import with_limits as looking_at

EXAMPLES: Final = int(os.environ.get("CAL_MODEL_EXAMPLES", "120"))
QUERIES: Final = 10
MANY: Final = 2_000
# Looked at as a store of five thousand is by what `PagingLimits` says of itself: the same ways are taken to a page.
OF_MANY: Final = Reading(
    count_caps=(26, 102, 1_638), covered_rows=13_107, form_rows=400, walked_rows=3_276, walked_page=51, total_rows=51
)
QUERIES_OF_MANY: Final = 150


def proof_of(stores: Stores, *, narrowed: bool = False, pages: int = 50) -> Proof:
    """The store as its owner sees it, or as a token that is limited to one user."""
    world, grains = stores.world, stores.grains()
    if not narrowed:
        return Proof(world, grains, ME, pages=pages)
    limits = {"owner": world.owner.default_tenant, "user": ME}
    access = structs.replace(world.owner, credential="token:t", limits=limits)
    return Proof(world, [each for each in grains if each.grain.fields.get("user_id") == ME], ME, access, pages=pages)


def queries_for(proof: Proof, random: Random, gone: list[str], size: int = 12) -> Queries:
    return Queries(random=random, grains=list(proof.grains), gone=gone, now=proof.world.now, size=size)


# --- by chance -------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.1-complete")
@pytest.mark.requirement("CAL-8.1-read-path")
@settings(
    max_examples=EXAMPLES,
    # Another seed is another store and other queries: there is nothing smaller to look for.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from((0, 3, 10, 20, 20, 30, 30, 40, 40)),
    narrowed=st.sampled_from((False, False, True)),
    # As it is, and as if a store of ten were one of millions: every way to a page is taken.
    reading=READINGS,
)
def test_small_stores_answer_as_the_model_does(seed: int, size: int, narrowed: bool, reading: Reading) -> None:
    random, world = Random(seed), World()
    try:
        stores = Stores(random=random, world=world)
        stores.happen(size)
        proof = proof_of(stores, narrowed=narrowed)
        queries = queries_for(proof, random, stores.gone)
        for _ in range(QUERIES):
            query = queries.query()
            note(canonical(query))
            with looking_at(reading):
                proof.agrees(query)
    finally:
        world.service.close()
    event(f"queries that found something: {proof.seen['found']} of {QUERIES}")


@pytest.mark.requirement("CAL-8.1-complete")
def test_queries_by_chance_are_of_every_kind_and_half_of_them_find_something() -> None:
    random = Random(20260604)
    seen = Proof(World(), [], ME).seen
    for number in range(45):
        world = World()
        stores = Stores(random=random, world=world)
        stores.happen(30)
        proof = proof_of(stores, narrowed=number % 5 == 4)
        queries = queries_for(proof, random, stores.gone)
        for _ in range(QUERIES):
            proof.agrees(queries.query())
        seen += proof.seen
        world.service.close()
    assert seen["found"] > 0.45 * seen["all"], seen
    kinds = "grains rows values groups count exists versions diff searched paged refused".split()
    assert [kind for kind in kinds if not seen[kind]] == []


# --- thousands -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> Iterator[Proof]:
    world = World()
    stores = Stores(random=Random(5000), world=world)
    while len(stores.kept) < MANY:
        stores.happen(100)
    yield proof_of(stores, pages=4)
    world.service.close()


@pytest.mark.requirement("CAL-8.1-complete")
def test_thousands_of_grains_answer_as_the_model_does(many: Proof) -> None:
    proof = Proof(many.world, many.grains, ME, pages=many.pages)
    queries = queries_for(proof, Random(17), [], size=300)
    with looking_at(OF_MANY):
        for _ in range(QUERIES_OF_MANY):
            proof.agrees(queries.query())
    assert len(proof.grains) >= MANY
    assert proof.seen["found"] > 0.6 * proof.seen["all"], proof.seen
    assert proof.seen["paged"] > 20, proof.seen
    assert proof.seen["searched"] > 20, proof.seen


# fmt: off
WIDE: Final = (
    'RECALL WHERE user_id = "u1" | COUNT',
    'RECALL beliefs WHERE user_id != "u1" | OFFSET 100 | LIMIT 300',
    'RECALL SINCE "last 2 hours" | ORDER BY time DESC | LIMIT 1000',
    'RECALL events SINCE "2025" | OFFSET 100',
    'RECALL LIKE "tea" | COUNT',
    'RECALL LIKE "tea" | ORDER BY time ASC | LIMIT 1000',
    "RECALL | GROUP BY user_id",
    "RECALL beliefs | SUBJECTS",
    "RECALL WITH superseded | HASHES | LIMIT 1000",
    'RECALL goals WHERE depends_on IN (RECALL WITH superseded | LIMIT 1000 | HASHES)',
    'RECALL WHERE subject IN (RECALL beliefs WHERE confidence >= 0.5 | SUBJECTS) | COUNT',
    "RECALL actions THREAD \"s1\" | LIMIT 400",
    'RECALL WHERE xx:any > 1 | COUNT',
    "RECALL RECENT 1000",
)
# fmt: on


@pytest.mark.requirement("CAL-8.1-complete")
def test_wide_queries_over_thousands_of_grains_leave_nothing_out(many: Proof) -> None:
    for text in WIDE:
        proof = Proof(many.world, many.grains, ME, pages=many.pages)
        with looking_at(OF_MANY):
            answer = proof.agrees(parse(text))
        assert answer is not None, text
        assert proof.seen["found"] == 1, text


# --- every operator of every field -----------------------------------------------------------------------


def triples(grain_type: str | None) -> list[tuple[Field, str]]:
    """Every field of a type with every operator it has; those of a profile stand for one another."""
    known = (*fields.fields_of(grain_type).values(), fields.DOMAIN_FIELD)
    return [(field, operator) for field in known for operator in sorted(field.operators)]


def telling_apart(queries: Queries, grain_type: str | None, field: Field, operator: str) -> Recall | None:
    """A query that some of all grains match, and others do not."""
    seen = [each for each in queries.model.grains if each.is_current]
    aims = queries.model.visible(Recall(grain_type=grain_type))
    for _ in range(1000):
        queries.aim = queries.pick(aims)
        name = queries.pick(DOMAIN) if field is fields.DOMAIN_FIELD else field.name
        value = 0.5 if name == "score" else queries.value(field, operator, 0)
        condition = WhereCondition(field=name, operator=operator, value=value)
        # Without a search every score is 1.
        recall = Recall(grain_type=grain_type, like="tea" if name == "score" else None, where=(condition,))
        if queries.hits(condition) and 0 < len(queries.model.matches(recall)[0]) < len(seen):
            return recall
        if name == "namespace" and grain_type is None:
            # The namespace of the session overwrites any other, so this never tells anything apart.
            return None
    raise AssertionError(f"{grain_type}: {field.name} {operator} tells nothing apart")


@pytest.mark.requirement("CAL-6-operators-run")
def test_every_operator_of_every_field_tells_grains_apart() -> None:
    world = World()
    stores = Stores(random=Random(3), world=world)
    stores.happen(1500)
    proof = proof_of(stores)
    for grain_type in (None, *fields.SINGULARS):
        queries = queries_for(proof, Random(11), [])
        for field, operator in triples(grain_type):
            recall = telling_apart(queries, grain_type, field, operator)
            if recall is not None:
                proof.agrees(ParsedQuery(statement=replace(recall, stages=(Limit(count=1000),))))
                proof.agrees(ParsedQuery(statement=replace(recall, stages=(Reduce(to="count"),))))
    assert proof.seen["found"] == proof.seen["all"], proof.seen
    world.service.close()


# --- what the model found --------------------------------------------------------------------------------


def addresses(world: World, text: str, **whose: Any) -> list[str]:
    return [item["content_address"] for item in world.service.cal.run(world.owner, text, **whose)["results"]]


def total(world: World, text: str) -> int:
    return int(world.service.cal.run(world.owner, text)["total"])


@pytest.mark.requirement("CAL-9-my")
def test_my_is_the_user_of_the_session(world: World) -> None:
    mine = world.put(user_id="u1")
    world.put(user_id="u2")
    for text in ("RECALL MY", "RECALL WHERE user_id = $current_user_id", 'RECALL WHERE user_id = "u1"'):
        assert addresses(world, text, user="u1") == [mine]
    assert addresses(world, "(RECALL MY) UNION (RECALL MY beliefs)", user="u1") == [mine]


def test_a_grain_says_itself_contradicted_whoever_asks(world: World) -> None:
    first = world.put()
    second = world.put(object="coffee", related_to=[{"hash": first, "relation_type": "contradicts"}])
    rows = world.service.cal.run(world.owner, "RECALL beliefs | SELECT contradicted")["results"]
    assert [row["fields"] for row in rows] == [{"contradicted": True}] * 2
    assert addresses(world, "RECALL CONTRADICTIONS") == sorted([first, second])
    assert addresses(world, "RECALL beliefs WITH dedup(contradicted)") == sorted([first, second])[:1]


def test_what_is_retracted_contradicts_nothing(world: World) -> None:
    world.put()
    other = world.put(object="coffee")
    text = "RECALL beliefs WITH superseded, contradiction_detection"
    assert len(world.service.cal.run(world.owner, text)["contradictions"]) == 1
    world.service.grains.set_verification(world.owner, other, "retracted", reason="wrong")
    assert world.service.cal.run(world.owner, text)["contradictions"] == []


@pytest.mark.requirement("CAL-8.1-pairs")
@pytest.mark.parametrize("order", ["", "| ORDER BY subject", "| ORDER BY time"])
@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ("| LIMIT 3 | OFFSET 2", range(2, 5)),
        ("| OFFSET 2 | LIMIT 3", range(2, 5)),
        ("| LIMIT 5 | OFFSET 2 | LIMIT 3", range(2, 5)),
        ("| OFFSET 1 | LIMIT 5 | OFFSET 2", range(3, 6)),
        ("| OFFSET 6 | LIMIT 2 | OFFSET 1 | LIMIT 12", range(7, 8)),
        ("| LIMIT 7 | LIMIT 2", range(2)),
    ],
)
def test_limit_and_offset_pair_from_the_left_whatever_stands_before(
    world: World, order: str, cuts: str, expected: range
) -> None:
    made = sorted(world.put(subject="same", object=str(number)) for number in range(10))
    assert addresses(world, f"RECALL {order} {cuts}") == [made[place] for place in expected]


@pytest.mark.requirement("CAL-8.1-cursor")
@pytest.mark.parametrize("order", ["", "| ORDER BY subject", "| ORDER BY time"])
@pytest.mark.parametrize("cuts", ["LIMIT 3 | OFFSET 2", "OFFSET 2 | LIMIT 3", "LIMIT 10 | LIMIT 3 | OFFSET 2"])
def test_cursors_lead_through_all_that_the_last_limit_cuts(world: World, order: str, cuts: str) -> None:
    made = sorted(world.put(subject="same", object=str(number)) for number in range(10))
    text, found, cursor = f"RECALL {order} | {cuts}", [], None
    while True:
        page = world.service.cal.run(world.owner, text, cursor=cursor)
        found += [item["content_address"] for item in page["results"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == made[2:]


@pytest.mark.requirement("CAL-9-about")
def test_about_falls_back_to_a_search_in_subqueries_and_beside_searched_fields(world: World) -> None:
    tea = world.put(subject="ada", object="green tea")
    assert addresses(world, 'RECALL WHERE object IN (RECALL beliefs ABOUT "green" | OBJECTS)') == [tea]
    flow = world.put(type="workflow", steps=["boil water", "add green tea"], trigger="on:thirst")
    world.put(type="workflow", steps=["boil water"], trigger="on:cold")
    assert addresses(world, 'RECALL workflows ABOUT "green" WHERE steps = "water"') == [flow]


@pytest.mark.requirement("CAL-6-semantic")
def test_every_text_that_is_searched_for_counts_in_any_order(world: World) -> None:
    both = world.put(type="event", content="tea with bob")
    world.put(type="event", content="tea with zoe")
    for where in ('content = "tea" AND query = "bob"', 'query = "bob" AND content = "tea"'):
        assert addresses(world, f"RECALL events WHERE {where}") == [both]
    reasoned = world.put(type="reasoning", subject="ada", premises=["it rains"], conclusion="take the green umbrella")
    assert addresses(world, 'RECALL reasonings ABOUT "ada" WHERE conclusion = "umbrella"') == [reasoned]
    assert addresses(world, 'RECALL reasonings WHERE premises = "rain" AND conclusion = "umbrella"') == [reasoned]


@pytest.mark.requirement("CAL-9-thread")
def test_a_thread_is_the_same_from_every_message_and_told_from_its_beginning(world: World) -> None:
    first = world.put(type="event", content="one")
    world.advance(1000)
    reply = world.put(type="event", content="two", parent_message_id=first)
    world.advance(1000)
    last = world.put(type="event", content="three", parent_message_id=reply)
    world.advance(1000)
    fixed = world.supersede(reply, type="event", content="two!", parent_message_id=first)
    for message in (first, last, reply, fixed):
        assert addresses(world, f"RECALL events THREAD FROM sha256:{message}") == [first, last, fixed]


@pytest.mark.requirement("CAL-9-thread")
def test_a_thread_does_not_lead_through_another_namespace(world: World) -> None:
    hidden = world.put(type="event", content="root", namespace="elsewhere")
    between = world.put(type="event", content="between", namespace="elsewhere", parent_message_id=hidden)
    here = world.put(type="event", content="here", parent_message_id=between)
    world.put(type="event", content="not in it", parent_message_id=hidden)
    beside = world.put(type="event", content="beside", parent_message_id=between)
    assert set(addresses(world, f"RECALL events THREAD FROM sha256:{here}")) == {here, beside}


@pytest.mark.requirement("CAL-2-hash-prefix")
def test_the_beginning_of_a_hash_stands_for_its_grain_in_every_field(world: World) -> None:
    needed = world.put()
    goal = world.put(type="goal", description="d", goal_state="active", depends_on=[needed])
    message = world.put(type="event", content="c", parent_message_id=needed)
    for digits in (12, 64):
        short = f"sha256:{needed[:digits]}"
        assert addresses(world, f"RECALL goals WHERE depends_on = {short}") == [goal]
        assert addresses(world, f"RECALL goals WHERE depends_on IN ({short})") == [goal]
        assert addresses(world, f"RECALL events WHERE parent_message_id = {short}") == [message]


@pytest.mark.requirement("CAL-8.4-order")
def test_a_history_is_told_by_when_versions_were_made_not_by_what_they_are_about(world: World) -> None:
    old = world.put(timestamp_ms=world.now + 10**9)
    world.advance(1000)
    new = world.put(object="coffee")
    told = world.service.cal.run(world.owner, 'HISTORY WHERE subject = "ada" AND relation = "likes"')["versions"]
    assert [(each["content_address"], each["version"]) for each in told] == [(new, 2), (old, 1)]


def test_a_goal_without_words_of_its_own_reads_as_its_description(world: World) -> None:
    goal = world.put(type="goal", description="walk", goal_state="active", object="")
    assert addresses(world, 'RECALL goals WHERE object = "walk"') == [goal]
    rows = world.service.cal.run(world.owner, "RECALL goals | SELECT object")["results"]
    assert [row["fields"]["object"] for row in rows] == ["walk"]


def test_dedup_keeps_the_same_grain_whatever_the_order(world: World) -> None:
    kept = min(world.put(object=str(number), created_at=world.now - number) for number in range(5))
    for stages in ("", "| ORDER BY time DESC", "| ORDER BY object DESC", "RECENT 3"):
        assert addresses(world, f"RECALL beliefs WITH dedup(subject) {stages}") == [kept]


@pytest.mark.requirement("CAL-8.1-read-path")
def test_what_a_caller_may_not_see_changes_neither_fallback_nor_score(world: World) -> None:
    world.put(subject="tea", object="tea tea tea", user_id="u2")
    mine = world.put(subject="ada", object="tea and a long list of other things", user_id="u1")
    limits = {"owner": world.owner.default_tenant, "user": "u1"}
    narrowed = structs.replace(world.owner, credential="token:t", limits=limits)
    for text in ('RECALL LIKE "tea"', 'RECALL ABOUT "tea"', 'RECALL LIKE "tea" WHERE score >= 1'):
        found = world.service.cal.run(narrowed, text)
        assert [(item["content_address"], item["score"]) for item in found["results"]] == [(mine, 1.0)]
        assert found["total"] == 1
    assert total(world, 'RECALL LIKE "tea"') == 2


def test_diversity_takes_nothing_away_unless_it_is_told_how_alike_is_too_alike(world: World) -> None:
    for number in range(6):
        world.put(subject=f"s{number}", object="green tea in the morning")
    odd = world.put(subject="x", object="a long walk by the sea, and tea")
    plain = addresses(world, 'RECALL LIKE "tea"')
    varied = addresses(world, 'RECALL LIKE "tea" WITH diversity(mmr, lambda=0.3)')
    assert sorted(varied) == sorted(plain)
    assert varied.index(odd) == 1
    assert addresses(world, 'RECALL LIKE "tea" WITH diversity(mmr, lambda=1)') == plain
    kept = addresses(world, 'RECALL LIKE "tea" WITH diversity(threshold, 0.5)')
    assert len(kept) == 2
    assert odd in kept
