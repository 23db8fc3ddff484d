"""What a compliance preset does to queries (CAL sections 19 and 23)."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.errors import ForbiddenScope
from tests.service.world import World


def test_under_hipaa_health_information_is_redacted_unless_fields_are_named() -> None:
    world = World(presets=["hipaa"], coverage="all")
    tags: dict[str, Any] = {"structural_tags": ["phi:name"], "processing_basis": "treatment"}
    world.put(subject="patient:7", relation="has", object="asthma", **tags)
    world.put(subject="patient:7", relation="likes", object="tea")
    answer = world.service.cal.run(world.owner, "RECALL beliefs AS sml")
    said = {item["grain"]["relation"]: item["grain"]["object"] for item in answer["results"]}
    assert said == {"has": "[redacted]", "likes": "tea"}
    assert "asthma" not in answer["formatted"]
    named = world.service.cal.run(world.owner, 'RECALL beliefs WHERE relation = "has" | SELECT object')
    assert [row["fields"] for row in named["results"]] == [{"object": "asthma"}]


def test_under_hipaa_a_query_without_limit_gives_ten() -> None:
    world = World(presets=["hipaa"], coverage="all")
    for number in range(12):
        world.put(object=f"tea {number}")
    assert len(world.service.cal.run(world.owner, "RECALL beliefs")["results"]) == 10
    assert world.service.cal.run(world.owner, "RECALL beliefs | COUNT")["count"] == 12


def test_under_gdpr_someone_else_gets_no_grain_of_a_person_without_consent() -> None:
    world = World(presets=["gdpr"])
    world.put(object="tea", user_id="ada", processing_basis="contract", structural_tags=["visibility:shared"])
    world.put(object="rain", structural_tags=["visibility:shared"])
    token = world.service.gate.mint_token(
        verbs=("read",), scope={"owner": world.owner.default_tenant}, ttl_ms=60_000, audience="did:key:peer"
    )
    peer = world.service.gate.authenticate(token)
    answer = world.service.cal.run(peer, "RECALL beliefs")
    assert [item["grain"]["object"] for item in answer["results"]] == ["rain"]
    assert answer["total"] == 1
    assert world.service.cal.run(peer, "RECALL beliefs | COUNT")["count"] == 1


def test_a_token_for_a_part_of_the_memory_defines_no_template() -> None:
    world = World()
    owner, templates = world.owner.default_tenant, world.service.cal
    definition = "DEFINE TEMPLATE mine ELEMENT { {{grain.content}} }"
    for limits in ({"project": "shop"}, {"agent": "helper"}):
        token = world.service.gate.mint_token(verbs=("read", "write"), scope={"owner": owner, **limits}, ttl_ms=60_000)
        narrowed = world.service.gate.authenticate(token)
        with pytest.raises(ForbiddenScope):
            templates.run(narrowed, definition, namespace="shop")
    assert templates.run(world.owner, definition, namespace="shop")["defined"] == "mine"
