"""The printed examples of the founding documents, run literally on a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.service.world import World
from tests.standards.cal.published import README_ASSEMBLE

PRIYA: Final = "customer:priya"
MINUTE: Final = 60_000
DAY: Final = 24 * 60 * MINUTE
FACTS: Final = (
    ("account tier is Professional, annual billing cycle", 0.97),
    ("primary contact email is priya@example.com", 0.93),
    ("enrolled in auto-renewal since 2024-03-01", 0.89),
)
MESSAGES: Final = (
    (5 * DAY + 9, "user", "Can I switch to monthly billing?"),
    (5 * DAY, "agent", "Monthly billing is available — I've sent a link to make that change."),
    (2 * MINUTE + 9, "user", "My invoice shows a charge I don't recognise — $299 on 28 Feb."),
    (2 * MINUTE, "agent", "Looking into that now, Priya. Retrieving your billing history."),
)
ACTIONS: Final = (
    ("get_invoice", "retrieved invoice INV-2026-02-28: $299 annual Professional plan renewal"),
    ("get_plan_history", "plan enrolled 2024-03-01, renewed annually; last renewal 2026-02-28"),
)
# The printed block, without the elements of types that the printed query does not read.
PRINTED: Final = (Path(__file__).parents[1] / "vectors" / "cal" / "readme-support.sml").read_text("utf-8").rstrip()


@pytest.fixture(scope="module")
def support() -> Iterator[World]:
    """A store with the memories of the billing dispute."""
    world = World()
    fill_support_store(world)
    yield world
    world.service.close()


def fill_support_store(world: World) -> None:
    """Write the grains of the example, the later ones of each type first."""
    now = world.now
    facts: dict[str, Any] = {"type": "belief", "relation": "mg:knows"}
    for text, confidence in reversed(FACTS):
        world.put(
            **facts, subject=PRIYA, object=text, confidence=confidence, created_at=now - 14 * DAY, source_type="crm"
        )
    policy = "customers may switch billing cycle within 30 days of renewal with pro-rated refund"
    world.put(**facts, subject="policy:billing", object=policy, confidence=1.0, structural_tags=["policy:billing"])
    for age, role, text in reversed(MESSAGES):
        at = now - age
        world.put(type="event", role=role, content=text, user_id=PRIYA, timestamp_ms=at, created_at=at)
    steps = ["verify charge", "check renewal date", "explain or escalate", "offer billing-cycle change", "close ticket"]
    world.put(
        type="workflow",
        subject=PRIYA,
        trigger="billing_dispute_opened",
        goal_state="open",
        steps=steps,
        structural_tags=["support:billing"],
    )
    for number, (tool, text) in enumerate(ACTIONS):
        action: dict[str, Any] = {"type": "action", "tool_name": tool, "input": {}, "is_error": False, "content": text}
        world.put(**action, session_id="sess-20260303-priya", created_at=now - MINUTE + number)


def assembled(world: World, query: str) -> str:
    """The text of an ASSEMBLE."""
    return str(world.service.cal.run(world.owner, query)["formatted_context"]["text"])


@pytest.mark.requirement("CAL-8.2-exchanges", "CAL-10.3-facts", "SML-2-prose", "SML-3-all-types")
def test_the_flagship_query_prints_the_block_of_the_document(support: World) -> None:
    assert assembled(support, README_ASSEMBLE) == PRINTED


@pytest.mark.requirement("SML-4-disclosure", "CAL-14.3-levels")
@pytest.mark.parametrize(
    ("level", "attributes"),
    [
        ("summary", ""),
        ("headlines", ' confidence="0.89"'),
        ("standard", ' confidence="0.89"'),
        # Section 10.3.4 of CAL prints weeks from seven days on; the document's "14d ago" is the same age.
        ("full", ' confidence="0.89" source="crm" observed="2w ago"'),
    ],
)
def test_each_level_of_disclosure_prints_the_line_of_the_document(support: World, level: str, attributes: str) -> None:
    line = f'  <belief subject="{PRIYA}"{attributes}>enrolled in auto-renewal since 2024-03-01</belief>'
    text = assembled(support, f"{README_ASSEMBLE} WITH progressive_disclosure({level})")
    assert text.splitlines().count(line) == 1


@pytest.mark.requirement("CAL-8.2-exchanges")
def test_the_newest_messages_and_the_surest_facts_survive_a_limit(support: World) -> None:
    query = f"""ASSEMBLE FROM
        history: (RECALL events WHERE user_id = "{PRIYA}" LIMIT 2), profile: (RECALL beliefs ABOUT "{PRIYA}" LIMIT 1)
        FORMAT text"""
    assert [line.partition("] ")[2].partition(" (")[0] for line in assembled(support, query).splitlines()] == [
        f"user: {MESSAGES[2][2]}",
        f"agent: {MESSAGES[3][2]}",
        f"{PRIYA}: {FACTS[0][0]}",
    ]
    # An order that the query names is kept, and RECALL alone breaks ties by hash (17.4).
    ordered = f'ASSEMBLE FROM h: (RECALL events WHERE user_id = "{PRIYA}" ORDER BY time DESC) FORMAT text'
    assert [line.partition(" ")[2][:5] for line in assembled(support, ordered).splitlines()] == [
        "agent", "user:", "agent", "user:",
    ]  # fmt: skip
    results = support.service.cal.run(support.owner, f'RECALL events WHERE user_id = "{PRIYA}"')["results"]
    hashes = [result["content_address"] for result in results]
    assert hashes == sorted(hashes)


@pytest.mark.requirement("CAL-8.2-one-print")
def test_a_memory_of_two_sources_is_in_the_first_by_priority(support: World) -> None:
    query = f"""ASSEMBLE FROM all: (RECALL beliefs), profile: (RECALL beliefs ABOUT "{PRIYA}")
        PRIORITY profile > all FORMAT sml"""
    document = support.service.cal.run(support.owner, query)
    assert [entry["source"] for entry in document["results"]] == ["profile"] * 3 + ["all"]


@pytest.mark.requirement("CAL-10.3-triggers")
def test_a_workflow_of_another_standard_has_no_trigger() -> None:
    world = World()
    world.remember("always run pnpm gate before handoff", kind="procedural")
    assert assembled(world, "ASSEMBLE FROM rules: (RECALL workflows) FORMAT sml").splitlines()[2] == (
        "  <workflow>always run pnpm gate before handoff</workflow>"
    )
    world.service.close()
