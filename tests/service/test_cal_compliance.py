"""The checks that CAL asks an implementation to make of itself (section 23), those that no other file makes."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.encoding.json_text import dump, parse
from memoranda.errors import ForbiddenScope, QueryError
from tests.service.world import World


@pytest.fixture
def world() -> World:
    made = World()
    for number in range(25):
        made.put(object=f"tea {number}", user_id="ada" if number % 2 else "bob")
    return made


def ask(world: World, text: str, **options: Any) -> dict[str, Any]:
    return world.service.cal.run(world.owner, text, **options)


def entries(world: World) -> list[dict[str, Any]]:
    world.engine.flush()
    return [each for each in world.service.audit(world.owner, {"limit": 1000}) if each["op"].startswith("cal.")]


@pytest.mark.requirement("CAL-23-default-minimization")
def test_a_recall_without_limit_gives_twenty_and_counts_all(world: World) -> None:
    answer = ask(world, "RECALL beliefs")
    assert len(answer["results"]) == 20
    assert answer["total"] == 25
    rest = ask(world, "RECALL beliefs", cursor=answer["next_cursor"])
    assert len(rest["results"]) == 5
    assert rest["next_cursor"] is None


STATEMENTS = {
    "recall": "RECALL beliefs",
    "assemble": 'ASSEMBLE FOR "x" FROM (RECALL beliefs)',
    "set": "(RECALL beliefs) UNION (RECALL events)",
    "exists": "EXISTS sha256:00000000",
    "history": 'HISTORY WHERE subject = "ada" AND relation = "likes"',
    "explain": "EXPLAIN RECALL beliefs",
    "describe": "DESCRIBE server",
    "coalesce": "COALESCE (RECALL events, RECALL beliefs)",
    "define_template": "DEFINE TEMPLATE plain ELEMENT { {{grain.content}} }",
}


@pytest.mark.requirement("CAL-23-audit-logging")
@pytest.mark.parametrize(("kind", "text"), STATEMENTS.items())
def test_every_kind_of_statement_writes_one_entry(world: World, kind: str, text: str) -> None:
    before = len(entries(world))
    answer = ask(world, text)
    (entry,) = entries(world)[before:]
    assert entry["op"] == f"cal.{kind}"
    assert entry["meta"]["query_hash"] == answer["_cal"]["query_hash"]
    assert entry["meta"]["tier"] == 0


@pytest.mark.requirement("CAL-23-audit-logging")
def test_a_batch_writes_one_entry_and_one_for_each_of_its_queries(world: World) -> None:
    ask(world, "BATCH { one: RECALL beliefs, two: EXISTS sha256:00000000 }")
    assert [each["op"] for each in entries(world)] == ["cal.recall", "cal.exists", "cal.batch"]


@pytest.mark.requirement("CAL-23-audit-logging")
def test_what_fails_is_on_record_too(world: World) -> None:
    with pytest.raises(QueryError):
        ask(world, "RECALL facts")
    (entry,) = entries(world)
    assert entry["meta"]["error_code"] == "CAL-E003"
    assert entry["meta"]["result_count"] == 0


@pytest.mark.requirement("CAL-23-phi-in-queries")
def test_the_record_has_neither_the_query_nor_its_values(world: World) -> None:
    ask(world, 'RECALL beliefs ABOUT $who WHERE object = "a most private thing"', params={"who": "somebody-secret"})
    kept = dump(entries(world))
    assert b"private" not in kept
    assert b"somebody" not in kept


@pytest.mark.requirement("CAL-23-authorization")
def test_another_namespace_and_another_credential_see_nothing_of_it(world: World) -> None:
    assert ask(world, "RECALL beliefs | COUNT", namespace="elsewhere")["count"] == 0
    assert ask(world, 'RECALL beliefs IN "elsewhere" | COUNT')["count"] == 25
    stranger = world.key("did:key:zStranger")
    assert world.service.cal.run(stranger, "RECALL beliefs | COUNT")["count"] == 0
    with pytest.raises(ForbiddenScope):
        world.service.cal.run(stranger, "RECALL beliefs", owner=world.owner.default_tenant)


NAMESPACES = {
    "a condition": 'RECALL beliefs WHERE namespace = "shop"',
    "a parameter": "RECALL beliefs WHERE namespace = $shop",
    "with others": 'RECALL beliefs WHERE subject = "ada" AND namespace = "shop" | COUNT',
    "IN": 'RECALL beliefs IN "shop"',
    "IN SCOPE": 'RECALL beliefs IN SCOPE "shop" | COUNT',
    "a subquery": 'RECALL beliefs WHERE subject IN (RECALL beliefs WHERE namespace = "shop" | SUBJECTS)',
    "IN of a subquery": 'RECALL beliefs WHERE subject IN (RECALL beliefs IN "shop" | SUBJECTS)',
    "LET": 'LET $who = RECALL beliefs WHERE namespace = "shop" | SUBJECTS; RECALL beliefs WHERE subject IN ($who)',
    "a source": 'ASSEMBLE FROM one: (RECALL beliefs WHERE namespace = "shop")',
    "IN of a source": 'ASSEMBLE FROM one: (RECALL beliefs IN "shop")',
    "a set": '(RECALL beliefs IN "shop") UNION (RECALL events WHERE namespace = "shop")',
    "COALESCE": 'COALESCE (RECALL events, RECALL beliefs WHERE namespace = "shop")',
    "HISTORY": 'HISTORY IN "shop" WHERE subject = "ada" AND relation = "likes"',
    "BATCH": 'BATCH { one: RECALL beliefs WHERE namespace = "shop" }',
    "HISTORY in a BATCH": 'BATCH { one: HISTORY IN "shop" WHERE subject = "ada" AND relation = "likes" }',
    "EXPLAIN": 'EXPLAIN ASSEMBLE FROM one: (RECALL beliefs WHERE namespace = "shop")',
}


@pytest.mark.requirement("CAL-23-authorization")
@pytest.mark.parametrize("text", NAMESPACES.values(), ids=NAMESPACES)
def test_a_query_that_names_another_namespace_is_warned_in_every_form(world: World, text: str) -> None:
    params = {"shop": "shop"} if "$shop" in text else None
    there = text.replace("shop", "shared")
    plain = ask(world, there.replace("$shared", '"shared"'))
    assert plain["warnings"] == []
    answer = ask(world, text, params=params)
    assert {warning["code"] for warning in answer["warnings"]} == {"CAL-W004"}
    assert all(
        warning["message"].endswith("has no effect: the session's namespace is shared.")
        for warning in answer["warnings"]
    )
    # The result is that of the session's namespace.
    for member in ("results", "count", "formatted_context", "versions"):
        assert answer.get(member) == plain.get(member)
    if text.startswith("ASSEMBLE"):
        *_, last = world.service.cal.stream(world.owner, text)
        assert last["summary"]["warnings"] == answer["warnings"]


@pytest.mark.requirement("CAL-23-authorization")
@pytest.mark.parametrize(
    "condition", ['!= "shop"', 'IN ("shop")', "IN (RECALL beliefs | SUBJECTS)", 'INCLUDE ["shop"]']
)
def test_a_namespace_takes_no_other_operator(world: World, condition: str) -> None:
    with pytest.raises(QueryError) as refused:
        ask(world, f"RECALL beliefs WHERE namespace {condition}")
    assert refused.value.cal_code == "CAL-E020"


@pytest.mark.requirement("CAL-23-no-policy-override")
@pytest.mark.parametrize("option", ["superseded", "provenance", "explanation", "consistency(linearizable)"])
def test_no_option_shows_what_was_forgotten(world: World, option: str) -> None:
    address = world.put(object="a secret")
    world.service.grains.erase(world.owner, address, reason="asked to")
    answer = ask(world, f"RECALL beliefs WITH {option} | LIMIT 1000")
    assert address not in [item["content_address"] for item in answer["results"]]


@pytest.mark.requirement("CAL-23-injection-prevention")
def test_a_value_with_quotes_and_keywords_stays_a_value(world: World) -> None:
    hostile = '" OR subject = "ada" | LIMIT 1000 -- '
    assert ask(world, "RECALL beliefs WHERE subject = $x", params={"x": hostile})["total"] == 0
    world.put(subject=hostile, object="odd")
    assert ask(world, "RECALL beliefs WHERE subject = $x", params={"x": hostile})["total"] == 1


@pytest.mark.requirement("CAL-23-provenance")
def test_every_result_says_where_it_comes_from(world: World) -> None:
    answer = ask(world, "RECALL beliefs WITH provenance | LIMIT 1000")
    assert all(item["provenance_id"] == item["content_address"] for item in answer["results"])
    assert all(item["provenance"]["provenance_id"] == item["content_address"] for item in answer["results"])


@pytest.mark.requirement("CAL-23-ai-marking")
def test_what_is_added_says_that_an_agent_inferred_it(world: World) -> None:
    text = 'ADD belief SET subject = "ada" SET relation = "likes" SET object = "rain" REASON "she said so"'
    made = ask(world, text, approve=True)["new_hash"]
    assert world.grain(made.removeprefix("sha256:")).grain.fields["source_type"] == "agent_inferred"


@pytest.mark.requirement("CAL-23-access-and-portability")
def test_everything_of_a_person_can_be_counted_and_taken_along(world: World) -> None:
    count = ask(world, 'RECALL WHERE user_id = "ada" | COUNT')["count"]
    assert count == 12
    taken = parse(ask(world, 'RECALL WHERE user_id = "ada" LIMIT 1000 AS json')["formatted"].encode())
    assert len(taken) == count
