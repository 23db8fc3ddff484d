# ruff: noqa: E501 - a row of a table reads best on one line
"""Habits found in recorded runs, and the drafts they lead to."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processor import at_most

from memoranda.consolidation.habits.habits import (
    HabitDraft,
    RunTrace,
    Thresholds,
    ToolCall,
    draft_habits,
    find_duplicate,
    fingerprint,
    fit_timetable,
    is_plain_text,
)
from memoranda.consolidation.habits.sequences import find_repeats
from memoranda.encoding import json_text
from memoranda.model.cron import next_after
from memoranda.standards.openwop.artifacts import check_artifact

MONDAY = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def run(
    number: int,
    tools: str = "",
    *,
    at: datetime | None = None,
    workflow: str = "",
    corrections: Sequence[str] = (),
    owner: str = "acme",
) -> RunTrace:
    # Hours that keep to no timetable.
    moment = at or MONDAY + timedelta(hours=number * number * 7 + number * 5, minutes=number * 17)
    steps = tuple(ToolCall(tool=tool.strip("!"), ok=not tool.endswith("!")) for tool in tools.split())
    return RunTrace(
        run_id=f"run-{number}",
        workflow=workflow or f"flow-{number}",
        at=ms(moment),
        steps=steps,
        corrections=tuple(corrections),
        owner=owner,
    )


def drafts(runs: Iterable[RunTrace], kind: str, **options: Any) -> list[HabitDraft]:
    return [draft for draft in draft_habits(runs, **options) if draft.kind == kind]


def chain_of(draft: HabitDraft) -> list[str]:
    (chain,) = draft.artifact["chains"]
    return [node["typeId"] for node in chain["dag"]["nodes"]]


# --- chains ----------------------------------------------------------------------------------------------------


def test_tools_used_in_the_same_order_by_three_runs_make_a_chain() -> None:
    runs = [
        run(1, "git.pull test.run git.push"),
        run(2, "git.pull test.run git.push"),
        run(3, "mail.read git.pull test.run git.push"),
    ]
    (draft,) = draft_habits(runs)
    assert draft.kind == "workflow-chain-pack"
    assert chain_of(draft) == ["git.pull", "test.run", "git.push"]
    assert draft.source_runs == ("run-1", "run-2", "run-3")
    assert draft.rationale == "3 runs used these 3 tools in this order."
    assert draft.title == "Chain: git.pull → test.run → git.push"
    assert draft.artifact["chains"][0]["dag"]["edges"] == [
        {"from": "step1", "to": "step2"},
        {"from": "step2", "to": "step3"},
    ]


def test_two_runs_or_two_tools_are_no_habit() -> None:
    assert draft_habits([run(1, "a.x b.x c.x"), run(2, "a.x b.x c.x")]) == []
    assert draft_habits([run(number, "a.x b.x") for number in range(5)]) == []
    limits = Thresholds(runs=2, chain_steps=2)
    assert [chain_of(draft) for draft in draft_habits([run(1, "a.x b.x"), run(2, "a.x b.x")], thresholds=limits)] == [
        ["a.x", "b.x"]
    ]


def test_one_run_recorded_twice_is_one_run() -> None:
    twice = [run(1, "a.x b.x c.x"), run(1, "a.x b.x c.x"), run(2, "a.x b.x c.x")]
    assert draft_habits(twice) == []


def test_failed_steps_repeats_and_other_tools_in_between_do_not_hide_a_chain() -> None:
    runs = [
        run(1, "a.x b.x c.x d.x"),
        run(2, "a.x b.x b.x b.x c.x d.x"),
        run(3, "a.x oops! b.x rare.one c.x d.x"),
        run(4, "a.x note.it b.x c.x note.it d.x"),
        run(5, "note.it a.x b.x c.x note.it d.x"),
    ]
    (draft,) = drafts(runs, "workflow-chain-pack")
    assert chain_of(draft) == ["a.x", "b.x", "c.x", "d.x"]
    assert draft.source_runs == tuple(f"run-{number}" for number in range(1, 6))


def test_the_longer_chain_stands_for_its_parts() -> None:
    runs = [run(number, "a.x b.x c.x d.x e.x") for number in range(4)] + [run(9, "b.x c.x d.x")]
    assert [chain_of(draft) for draft in drafts(runs, "workflow-chain-pack")] == [["a.x", "b.x", "c.x", "d.x", "e.x"]]


def test_a_frequent_chain_is_not_hidden_by_a_rare_longer_one() -> None:
    runs = [run(number, "a.x b.x c.x") for number in range(20)] + [
        run(number, "a.x b.x c.x d.x") for number in range(20, 23)
    ]
    assert [chain_of(draft) for draft in drafts(runs, "workflow-chain-pack")] == [
        ["a.x", "b.x", "c.x"],
        ["a.x", "b.x", "c.x", "d.x"],
    ]


def test_a_loop_is_given_once_around_and_a_short_one_not_at_all() -> None:
    assert [
        chain_of(draft) for draft in draft_habits([run(n, "a.x b.x c.x a.x b.x c.x a.x b.x c.x") for n in range(3)])
    ] == [["a.x", "b.x", "c.x"]]
    assert draft_habits([run(n, "a.x b.x a.x b.x a.x b.x") for n in range(3)]) == []


def test_tools_get_ids_that_a_pack_may_hold_and_what_is_no_name_is_passed_over() -> None:
    tools = "Read mcp:github/create_issue Bash(rm) WebSearch 42"
    (draft,) = drafts([run(number, tools) for number in range(3)], "workflow-chain-pack")
    assert chain_of(draft) == ["read", "mcp.github.create_issue", "webSearch"]


def test_only_names_of_arguments_are_kept() -> None:
    step = ToolCall(tool="git.push", arguments=("branch", "remote=https://x:y@host", "hunter2 hunter2", "4111 1111"))
    runs = [
        RunTrace(
            run_id=f"r{n}",
            workflow=f"w{n}",
            at=n,
            steps=(ToolCall(tool="a.x"), ToolCall(tool="b.x"), step),
            owner="acme",
        )
        for n in range(3)
    ]
    (draft,) = drafts(runs, "workflow-chain-pack")
    nodes = draft.artifact["chains"][0]["dag"]["nodes"]
    assert [node["config"] for node in nodes] == [{}, {}, {"arguments": ["branch"]}]


# --- corrections -----------------------------------------------------------------------------------------------


def test_the_same_correction_in_three_runs_makes_a_prompt_template() -> None:
    runs = [
        run(1, corrections=["no, use tabs"]),
        run(2, corrections=["Please use tabs!", "use tabs"]),
        run(3, corrections=["actually, use tabs please"]),
        run(4, corrections=["use spaces"]),
    ]
    (draft,) = draft_habits(runs)
    assert draft.kind == "prompt-template"
    assert draft.artifact["text"] == "Use tabs."
    assert draft.source_runs == ("run-1", "run-2", "run-3")
    assert "tabs" not in draft.title + draft.rationale
    assert draft.rationale == "The same correction was given in 3 runs."


def test_a_correction_and_its_opposite_are_two() -> None:
    runs = [run(n, corrections=["use tabs here"]) for n in range(3)] + [
        run(n, corrections=["do not use tabs here"]) for n in range(3, 6)
    ]
    assert {draft.artifact["text"] for draft in draft_habits(runs)} == {"Use tabs here.", "Do not use tabs here."}


@pytest.mark.parametrize(
    "text",
    [
        "use the key sk-proj-abcdEFGH1234ijklMNOP5678",
        "the password is hunter2",
        "use password hunter2 for the login",
        "log in as s3cr3tP4ssw0rd next time",
        "write to ann@example.com",
        "call +49 170 1234567 first",
        "use https://user:pw@host/path",
        "send it to DE89370400440532013000",
        "use card 4111 1111 1111 1111",
        "use AKIAIOSFODNN7EXAMPLE there",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc is the one",
        "<script>alert(1)</script> do it",
        "use {{secret}} and ${HOME}",
        "x" * 500 + " tabs",
        "\u202euse tabs\u202e \x00",
        "no",
        "tabs",
        "",
    ],
)
def test_a_correction_that_could_hold_a_secret_or_says_nothing_makes_no_draft(text: str) -> None:
    made = draft_habits([run(n, corrections=[text]) for n in range(5)])
    assert [draft.artifact["text"] for draft in made] in ([], ["Use tabs."])
    assert text.startswith("\u202e") or made == []


def test_plain_words_are_plain() -> None:
    for text in (
        "Use tabs, not spaces.",
        "Answer in German (formal)!",
        "Use Python 3.12 and C++",
        "Don't use `eval`.",
        "k8s first",
    ):
        assert is_plain_text(text), text


# --- timetables ------------------------------------------------------------------------------------------------


def instants(
    days: Iterable[int], *, hour: int = 9, minute: int = 0, jitter: Sequence[int] = (0, 3, -4, 6, -2)
) -> list[int]:
    start = MONDAY.replace(hour=0)
    return [
        ms(start + timedelta(days=day, hours=hour, minutes=minute + jitter[count % len(jitter)]))
        for count, day in enumerate(days)
    ]


@pytest.mark.parametrize(
    ("times", "cron"),
    [
        (instants(range(0, 28, 7)), "0 9 * * 1"),
        (instants(range(0, 21, 7)), "0 9 * * 1"),
        (instants([0, 3, 7, 10, 14, 17]), "0 9 * * 1,4"),
        (instants(range(14)), "0 9 * * *"),
        (instants([day for day in range(21) if day % 7 < 5]), "0 9 * * 1-5"),
        (instants([day for day in range(21) if day % 7 < 5 and day != 8]), "0 9 * * 1-5"),
        (instants([1, 32, 62, 93], hour=17, minute=30), "30 17 5 * *"),
        (instants(range(10), hour=0, minute=0), "0 0 * * *"),
        (instants(range(10), hour=23, minute=58), "0 0 * * *"),
        ([ms(MONDAY + timedelta(hours=hour, minutes=15)) for hour in range(12)], "15 * * * *"),
        # One stray run does not hide the others.
        ([*instants(range(0, 70, 7)), ms(MONDAY + timedelta(days=3, hours=7))], "0 9 * * 1"),
    ],
)
def test_regular_instants_give_their_timetable(times: list[int], cron: str) -> None:
    assert fit_timetable(times, least=3) == cron
    assert fit_timetable(random.Random(1).sample(times, len(times)), least=3) == cron


@pytest.mark.parametrize(
    "times",
    [
        [],
        instants([0, 7]),
        instants([0, 1, 2]),
        instants([0, 2, 9, 11, 30]),
        [ms(MONDAY + timedelta(days=day, hours=day * 5 % 24)) for day in range(20)],
        instants(range(0, 28, 7), jitter=(0, 200, -100, 400)),
        instants([0, 31, 90, 200, 400]),
        [10**18, -(10**18), 0, 1, 2],
    ],
)
def test_irregular_instants_give_none(times: list[int]) -> None:
    assert fit_timetable(times, least=3) is None


def test_a_workflow_started_by_hand_at_regular_times_makes_an_automation() -> None:
    runs = [run(n, workflow="weekly-report", at=MONDAY + timedelta(weeks=n, minutes=n)) for n in range(5)]
    (draft,) = draft_habits(runs)
    assert draft.kind == "automation"
    assert draft.artifact["workflowId"] == "weekly-report"
    assert draft.artifact["schedule"] == {"cron": "0 9 * * 1", "timezone": "UTC"}
    assert draft.title == "Run weekly-report every Monday at 09:00 UTC"
    assert next_after(draft.artifact["schedule"]["cron"], ms(MONDAY)) == ms(MONDAY + timedelta(weeks=1))


def test_what_a_schedule_already_starts_is_not_proposed_again() -> None:
    runs = [run(n, workflow="weekly-report", at=MONDAY + timedelta(weeks=n)) for n in range(5)]
    scheduled = [
        RunTrace(run_id=one.run_id, workflow=one.workflow, at=one.at, owner=one.owner, scheduled=True) for one in runs
    ]
    assert draft_habits(scheduled) == []


# --- agents ----------------------------------------------------------------------------------------------------


def weekly(count: int = 5, **options: Any) -> list[RunTrace]:
    return [
        run(n, "mail.read doc.write mail.send", workflow="weekly-report", at=MONDAY + timedelta(weeks=n), corrections=["no, write in German"], **options)
        for n in range(count)
    ]  # fmt: skip


def test_tools_corrections_and_times_around_one_workflow_make_an_agent() -> None:
    made = draft_habits(weekly())
    assert [draft.kind for draft in made] == ["workflow-chain-pack", "prompt-template", "automation", "agent-pack"]
    (agent,) = made[-1].artifact["agents"]
    assert agent["toolAllowlist"] == ["doc.write", "mail.read", "mail.send"]
    assert agent["systemPrompt"] == "You run the workflow weekly-report.\n- Write in German."
    assert agent["description"] == "Usually started every Monday at 09:00 UTC."
    assert made[-1].rationale == "5 runs of weekly-report share 3 tools, 1 repeated correction and a regular time."


def test_without_one_of_them_there_is_no_agent() -> None:
    for change in ({"corrections": ()}, {"steps": ()}):
        runs = [
            RunTrace(**{**{name: getattr(one, name) for name in RunTrace.__struct_fields__}, **change})
            for one in weekly()
        ]
        assert drafts(runs, "agent-pack") == []
    assert drafts(weekly(2), "agent-pack") == []


# --- all kinds -------------------------------------------------------------------------------------------------


def test_every_artifact_is_valid_for_its_kind_and_is_json() -> None:
    for draft in draft_habits(weekly()):
        check_artifact(draft.kind, draft.artifact)
        assert json_text.parse(json_text.dump(draft.artifact)) == draft.artifact


def test_runs_of_different_owners_are_never_looked_at_together() -> None:
    split = [run(n, "a.x b.x c.x", corrections=["use tabs"], owner=f"owner-{n % 2}") for n in range(4)]
    assert draft_habits(split) == []
    both = weekly() + weekly(owner="zeta")
    assert [(draft.owner, draft.kind) for draft in draft_habits(both)] == [
        (owner, draft.kind) for owner in ("acme", "zeta") for draft in draft_habits(weekly())
    ]


def test_the_order_of_runs_does_not_matter_and_more_of_them_change_no_artifact() -> None:
    made = draft_habits(weekly())
    for seed in range(5):
        assert draft_habits(random.Random(seed).sample(weekly(), 5)) == made
    assert [draft.artifact for draft in draft_habits(weekly(9))] == [draft.artifact for draft in made]


def test_what_is_known_is_not_drafted_again_and_what_is_like_it_says_so() -> None:
    made = draft_habits(weekly())
    known = [(f"prop-{place}", draft.kind, draft.artifact) for place, draft in enumerate(made)]
    assert draft_habits(weekly(9), known_artifacts=known) == []
    # Known under another name, by another owner's hand: it does the same.
    renamed = [
        (name, kind, json_text.parse(json_text.dump(artifact).replace(b"learned", b"kept")))
        for name, kind, artifact in known
    ]
    assert [draft.kind for draft in draft_habits(weekly(), known_artifacts=renamed[:3])] == ["agent-pack"]
    longer = [run(n, "mail.read doc.read doc.write mail.send") for n in range(20, 24)]
    (chain,) = [draft for draft in draft_habits(longer, known_artifacts=known) if draft.kind == "workflow-chain-pack"]
    assert chain.duplicate_of == "prop-0"
    later = [run(n, workflow="weekly-report", at=MONDAY + timedelta(weeks=n, minutes=20)) for n in range(5)]
    assert [draft.duplicate_of for draft in draft_habits(later, known_artifacts=known)] == ["prop-2"]
    other = [run(n, "x.a y.a z.a", workflow="daily", at=MONDAY + timedelta(days=n)) for n in range(9)]
    assert {draft.duplicate_of for draft in draft_habits(other, known_artifacts=known)} == {None}


def test_artifacts_for_other_purposes_are_no_duplicates() -> None:
    made = {draft.kind: draft.artifact for draft in draft_habits(weekly())}
    others = [
        RunTrace(run_id=one.run_id, workflow="monthly-audit", at=one.at, steps=one.steps, corrections=("use British spelling",), owner="acme")
        for one in weekly()
    ]  # fmt: skip
    theirs = {draft.kind: draft.artifact for draft in draft_habits(others)}
    assert find_duplicate("agent-pack", theirs["agent-pack"], [("a", "agent-pack", made["agent-pack"])]) is None
    assert find_duplicate("automation", theirs["automation"], [("a", "automation", made["automation"])]) is None
    assert (
        find_duplicate(
            "prompt-template", theirs["prompt-template"], [("a", "prompt-template", made["prompt-template"])]
        )
        is None
    )
    assert find_duplicate("workflow-chain-pack", theirs["workflow-chain-pack"], [("b", "workflow-chain-pack", made["workflow-chain-pack"]), ("a", "workflow-chain-pack", made["workflow-chain-pack"])]) == "a"  # fmt: skip


SECRET = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"


def test_a_secret_anywhere_in_a_run_is_nowhere_in_a_draft() -> None:
    runs = [
        RunTrace(
            run_id=f"r{n}",
            workflow=f"deploy-{SECRET}" if n % 2 else SECRET,
            at=ms(MONDAY + timedelta(weeks=n)),
            steps=(
                ToolCall(tool=f"tool.{SECRET}", arguments=(SECRET,)),
                ToolCall(tool="a.x", arguments=(SECRET, f"k={SECRET}")),
                ToolCall(tool="b.x"),
                ToolCall(tool="c.x"),
            ),
            corrections=(f"no, use {SECRET}", f"the password is {SECRET}", "use the vault"),
            owner="acme",
        )
        for n in range(8)
    ]
    made = draft_habits(runs)
    assert {draft.kind for draft in made} == {"workflow-chain-pack", "prompt-template"}
    assert SECRET not in repr(made)
    assert SECRET[8:20] not in repr(made)


tools = st.sampled_from("a.x b.x c.x Read mcp:git/x rm! \x00 é".split(" "))
corrections = st.sampled_from(
    ["no, use tabs", "use tabs", "write in German please", "pw: hunter2", "", "ſ\ud800", "a" * 300]
)
traces = st.lists(
    st.builds(
        RunTrace,
        run_id=st.integers(0, 12).map(str),
        workflow=st.sampled_from(["w", "weekly report", "\n", "x" * 300]),
        at=st.integers(0, 60).map(lambda day: ms(MONDAY) + day * 86_400_000) | st.integers(-(10**18), 10**18),
        steps=st.lists(st.builds(ToolCall, tool=tools, arguments=st.just(("path",)), ok=st.booleans()), max_size=6).map(
            tuple
        ),
        corrections=st.lists(corrections, max_size=3).map(tuple),
        owner=st.sampled_from(["a", "b"]),
        scheduled=st.booleans(),
    ),
    max_size=14,
)


@settings(max_examples=150)
@given(traces, st.randoms(use_true_random=False))
def test_any_runs_give_valid_drafts_in_any_order(runs: list[RunTrace], order: random.Random) -> None:
    made = draft_habits(runs)
    shuffled = list(runs)
    order.shuffle(shuffled)
    assert draft_habits(shuffled) == made
    owners = {(one.owner, one.run_id) for one in runs}
    for draft in made:
        check_artifact(draft.kind, draft.artifact)
        assert draft.fingerprint == fingerprint(draft.kind, draft.artifact)
        assert {(draft.owner, run_id) for run_id in draft.source_runs} <= owners
        assert len(draft.source_runs) >= 3
        assert len(draft.title) <= 120
    assert len({(draft.owner, draft.fingerprint) for draft in made}) == len(made)
    known = [(str(place), draft.kind, draft.artifact) for place, draft in enumerate(made)]
    assert draft_habits(runs, known_artifacts=known) == []


@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=3), st.lists(st.sampled_from("abcd"), max_size=8), max_size=8))
def test_sequences_that_are_found_are_there(lists: dict[str, list[str]]) -> None:
    for found in find_repeats(lists, least=3, length=2, limit=50):
        assert len(found.lists) >= 3
        for name in found.lists:
            rest = iter(lists[name])
            assert all(item in rest for item in found.items), "in this order"


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["chains", "dag", "nodes", "edges", "agents", "text", "schedule", "cron", "workflowId", "x"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(["chains", "agents", "text", "schedule", "workflowId", "inputs"]), json_values, max_size=4
    )
)
def test_any_artifact_can_be_compared(artifact: dict[str, Any]) -> None:
    for draft in draft_habits(weekly()):
        known = [("known", draft.kind, artifact)]
        assert find_duplicate(draft.kind, draft.artifact, known) in (None, "known")
        assert find_duplicate(draft.kind, artifact, known) == "known"


def test_many_long_runs_are_read_in_time() -> None:
    chosen = random.Random(7)
    same = [run(n, " ".join(f"t{k}.x" for k in range(60)), at=MONDAY) for n in range(500)]
    mixed = [run(n, " ".join(chosen.choice(["a.x", "b.x", "c.x"]) for _ in range(60)), at=MONDAY) for n in range(500)]
    for runs in (same, mixed):
        with at_most(10):
            draft_habits(runs)
