"""The printed examples of the founding documents, run literally on a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from memoranda.errors import ForbiddenScope, InvalidInput, NotFound, Unauthorized
from memoranda.model.instant import format_instant
from memoranda.standards.ump import signature, token
from memoranda.standards.ump.record import strip_integrity
from tests.service.world import OPERATOR, PEER, World
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


# --- UMP 0.1 ---------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> Iterator[World]:
    """An empty store."""
    world = World()
    yield world
    world.service.close()


def owner_token(world: World, **claims: Any) -> str:
    """A capability token that the owner of the store signed."""
    until = format_instant(world.now + DAY)
    stated = {"verbs": ("read", "write"), "scope": {"owner": OPERATOR.did}, "exp": until, "jti": "t", **claims}
    return token.mint(token.Claims(v="ump-cap/0.1", iss=OPERATOR.did, **stated), OPERATOR)


@pytest.mark.requirement("UMP-3.6-owner-token")
def test_the_token_of_the_owner_erases_and_a_narrower_one_does_not(world: World) -> None:
    authenticate = world.service.gate.authenticate
    name = world.remember("x", scope={"project": "p"})
    limited: tuple[dict[str, Any], ...] = (
        {"scope": {"owner": OPERATOR.did, "project": "p"}},
        {"verbs": ("read", "derive", "export")},
        {"aud": PEER.did},
        {"scope": {}},
    )
    for claims in limited:
        # A peer is not shown the memory at all.
        with pytest.raises((ForbiddenScope, NotFound)):
            world.forget(name, access=authenticate(owner_token(world, **claims)), hard=True)
    assert world.get(name)["body"]["text"] == "x"
    assert world.forget(name, access=authenticate(owner_token(world)), hard=True) == "erased"
    assert "token:owner" in world.service.capabilities()["hard_forget"]


@pytest.mark.requirement("UMP-5.2-printed-token")
def test_the_printed_token_reads_and_derives_in_its_project_for_a_day_and_exports_nothing(world: World) -> None:
    authenticate = world.service.gate.authenticate
    name = world.remember("of X", scope={"project": "X", "visibility": "shared"})
    world.remember("of Y", scope={"project": "Y", "visibility": "shared"})
    text = owner_token(world, verbs=("read", "derive"), scope={"owner": OPERATOR.did, "project": "X"}, aud=PEER.did)
    peer = authenticate(text)
    assert world.texts("of", access=peer, scope={"owner": OPERATOR.did, "project": "X"}) == ["of X"]
    assert peer.verbs == {"read", "derive"}
    for verb in ("write", "export"):
        with pytest.raises(ForbiddenScope):
            peer.require(verb)
    with pytest.raises(ForbiddenScope):
        world.remember("no", access=peer, scope={"owner": OPERATOR.did, "project": "X"})
    with pytest.raises((ForbiddenScope, NotFound)):
        world.forget(name, access=peer)
    world.advance(DAY + 1)
    with pytest.raises(Unauthorized):
        authenticate(text)


@pytest.mark.requirement("UMP-3.2-ranking-hints")
def test_the_printed_recall_finds_the_memory_among_newer_ones(world: World) -> None:
    scope = {"project": "github.com/example/project"}
    world.remember("Use pnpm, never npm, in this repo.", scope=scope)
    for number in range(30):
        world.advance(DAY)
        world.remember(f"The deploy number {number} went to Frankfurt on schedule.", scope=scope)
    printed: dict[str, Any] = {
        "scope": {"owner": OPERATOR.did, **scope, "agent": "claude-code"},
        "filter": {"kind": ["semantic", "procedural"], "valid_at": format_instant(world.now)},
        "limit": 8,
        "ranking_hints": {"prefer": ["recency"]},
    }
    assert world.texts("package manager for this repo", **printed)[0] == "Use pnpm, never npm, in this repo."


@pytest.mark.requirement("UMP-2.6-import-provider")
def test_an_import_without_a_provider_is_refused(world: World) -> None:
    origin = {"actor": OPERATOR.did, "actor_kind": "import", "method": "migration"}
    with pytest.raises(InvalidInput, match=r"source\.provider is required"):
        world.remember("x", provenance=origin)
    with pytest.raises(InvalidInput, match=r"source\.provider is required"):
        world.remember("x", provenance={**origin, "source": {"ref": "chat 7"}})
    name = world.remember("x", provenance={**origin, "source": {"provider": "mem0"}})
    assert world.get(name)["provenance"]["source"] == {"provider": "mem0"}


@pytest.mark.requirement("UMP-8-later-minor")
def test_unknown_fields_of_a_later_minor_version_are_stored_and_signed(world: World) -> None:
    future: dict[str, Any] = {"ump": "0.2", "mood": {"valence": 0.5}}
    name = world.remember("x", **future)
    record = world.get(name)
    assert (record["ump"], dict(record)["mood"]) == ("0.2", {"valence": 0.5})
    assert signature.verify(record)
    # The store of a peer takes the signed record as it came, and so does its copy of an older version.
    foreign = signature.seal(cast("Any", {**strip_integrity(record), "id": "", "scope": {"owner": PEER.did}}), PEER)
    other = World()
    access = other.key(PEER.did)
    assert other.service.remember(access, foreign).id == foreign["id"]
    assert other.get(foreign["id"], access=access) == foreign
    other.service.close()
    unknown: dict[str, Any]
    for unknown in ({"mood": 1}, {"ump": "0.1", "mood": 1}, {"ump": "2.0", "mood": 1}, {"ump": "0.2x", "mood": 1}):
        with pytest.raises(InvalidInput):
            world.remember("y", **unknown)
    with pytest.raises(InvalidInput, match="scope"):
        world.remember("y", ump="0.2", scope={"mood": "happy"})
