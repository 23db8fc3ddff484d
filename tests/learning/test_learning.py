"""Learning from sessions: candidates with the turn that they rest on, decided by a person or a rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda import Memoranda
from memoranda.errors import ForbiddenScope, InvalidInput
from memoranda.hosts.learning import (
    LEARNED_KEY,
    Learner,
    LearningRule,
    accept_candidate,
    list_candidates,
    reject_candidate,
)
from memoranda.hosts.sessions import HostSession, build_context
from memoranda.hosts.source_turns import SourceTurn
from memoranda.standards.ump.requests import ReviseRequest
from tests.cli.conftest import Command, home, run  # noqa: F401  # fixtures


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memoranda]:
    with Memoranda.open(tmp_path / "store") as opened:
        yield opened


def turn(text: str, number: int = 1, **more: Any) -> SourceTurn:
    fields = {"agent": "codex", "session": "s1", "id": str(number), "project": "shop", **more}
    return SourceTurn(text=text, **fields)


def test_a_statement_becomes_a_candidate_that_names_its_turn(store: Memoranda) -> None:
    report = Learner(store).learn([turn("We decided to use pnpm in the shop."), turn("Fix the test, please.", 2)])
    assert report.document() == {"turns": 2, "proposed": 1, "accepted": 0, "repeated": 0, "refused": 0}
    (candidate,) = list_candidates(store, project="shop", agent="codex")
    assert (candidate.text, candidate.kind) == ("We decided to use pnpm in the shop.", "semantic")
    record = candidate.record
    assert record["lifecycle"]["status"] == "candidate"
    assert record["scope"]["session"] == "s1"
    assert record["provenance"]["source"] == {"provider": "codex", "ref": "codex:s1#1"}
    assert record["provenance"]["method"] == "learn:rules"
    assert candidate.structured[LEARNED_KEY] == {
        "sentence": "We decided to use pnpm in the shop.",
        "cue": "decision",
        "turn": "1",
    }
    assert list_candidates(store, project="other") == []


def test_a_candidate_is_marked_in_every_standard_and_not_shown_as_a_fact(store: Memoranda, tmp_path: Path) -> None:
    Learner(store).learn([turn("We decided to use pnpm in the shop.")])
    (hit,) = store.recall("which package manager does the shop use?", project="shop")
    assert hit.record["lifecycle"]["status"] == "candidate"
    frame = store.for_prompt("pnpm", project="shop")
    assert "[semantic unconfirmed project:shop] We decided" in frame.text
    assert store.oams.list(namespace="shop").memories[0]["tags"] == ["candidate"]
    (found,) = store.cal.run('RECALL beliefs LIKE "pnpm"', namespace="shop")["results"]
    assert found["grain"]["structural_tags"] == ["candidate"]
    # Agents get only confirmed memories at the start of a session.
    session = HostSession(host="codex", id="s2", folder=tmp_path / "shop", transcript=None)
    assert build_context(store, session) == ""
    accept_candidate(store, list_candidates(store)[0].id)
    assert "We decided to use pnpm" in build_context(store, session)


def test_an_accepted_candidate_keeps_the_turn_it_rests_on(store: Memoranda) -> None:
    Learner(store).learn([turn("We decided to use pnpm in the shop.")])
    (candidate,) = list_candidates(store)
    accepted = accept_candidate(store, candidate.id, "The shop uses pnpm.")
    memory = store.get(accepted.id)
    assert (memory.text, memory.record["lifecycle"]["status"]) == ("The shop uses pnpm.", "active")
    assert memory.record["provenance"]["source"]["ref"] == "codex:s1#1"
    assert memory.structured[LEARNED_KEY]["sentence"] == candidate.text
    assert accepted.supersedes == (candidate.id,)
    assert list_candidates(store) == []


def test_what_was_decided_is_not_proposed_again(store: Memoranda) -> None:
    turns = [turn("Never deploy on Fridays."), turn("My time zone is Europe/Lisbon.", 2)]
    Learner(store).learn(turns)
    for candidate in list_candidates(store):
        if candidate.text.startswith("Never"):
            reject_candidate(store, candidate.id)
        else:
            accept_candidate(store, candidate.id, "Ada's time zone is Lisbon")
    again = [turn("Please NEVER deploy on fridays!", agent="gemini", session="s9"), turns[1]]
    assert Learner(store).learn(again).document()["repeated"] == 2
    assert list_candidates(store) == []
    # In another project the same words are another statement.
    assert Learner(store).learn([turn("Never deploy on Fridays.", project="blog")]).proposed == 1


def test_what_a_memory_says_already_is_not_proposed(store: Memoranda) -> None:
    store.remember("Never deploy on Fridays.", project="shop", kind="procedural")
    assert Learner(store).learn([turn("Never deploy on Fridays.")]).repeated == 1
    # A turn of a session is not what it states.
    store.remember("Always run the linter.", project="shop", kind="episodic", session="s1")
    assert Learner(store).learn([turn("Always run the linter.")]).proposed == 1


def test_rules_of_the_person_accept_at_once(store: Memoranda) -> None:
    learner = Learner(store, ["kind=identity confidence=0.9", "project=blog agent=codex"])
    learner.learn([turn("My time zone is Europe/Lisbon."), turn("Never deploy on Fridays.", 2)])
    assert (learner.report.accepted, learner.report.proposed) == (1, 1)
    assert [memory.text for memory in list_candidates(store)] == ["Never deploy on Fridays."]
    learner.learn([turn("Never deploy on Fridays.", project="blog")])
    assert learner.report.accepted == 2


@pytest.mark.parametrize("text", ["", "kind", "kind=fact", "confidence=high", "confidence=2", "colour=red"])
def test_a_rule_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="learn_allow"):
        LearningRule.parse(text)


def test_only_who_may_activate_accepts(store: Memoranda) -> None:
    Learner(store).learn([turn("Never deploy on Fridays.")])
    (candidate,) = list_candidates(store)
    agent = replace(store.access, verbs=store.access.verbs - {"activate"})
    request = {"id": candidate.id, "patch": {"lifecycle": {"status": "active"}}}
    with pytest.raises(ForbiddenScope, match="activate"):
        store.service.revise(agent, ReviseRequest.parse(request))
    # It may still correct the text, which stays a candidate.
    revised = store.service.change(agent, candidate.id, "Never deploy on Fridays or Saturdays.")
    assert store.get(revised.id).record["lifecycle"]["status"] == "candidate"


def test_a_candidate_stays_one_through_a_file(store: Memoranda, tmp_path: Path) -> None:
    Learner(store).learn([turn("Never deploy on Fridays.")])
    (tmp_path / "out.ndjson").write_text("\n".join(json.dumps(record) for record in store.export()), encoding="utf-8")
    with Memoranda.open(tmp_path / "other") as other:
        other.import_files(tmp_path / "out.ndjson", adopt=True)
        assert [memory.text for memory in list_candidates(other)] == ["Never deploy on Fridays."]


def test_secrets_in_a_statement_are_not_stored(store: Memoranda) -> None:
    report = Learner(store).learn([turn("Remember that the key is AKIAIOSFODNN7EXAMPLE in every region.")])
    assert report.refused == 1
    assert list(store.list()) == []


# --- the hooks and the commands --------------------------------------------------------------------------------------


def describe(tmp_path: Path, *texts: str) -> dict[str, object]:
    lines = [
        {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": text}}
        for number, text in enumerate(texts)
    ]
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (tmp_path / "shop" / ".git").mkdir(parents=True, exist_ok=True)
    return {"session_id": "s1", "transcript_path": str(path), "cwd": str(tmp_path / "shop")}


@pytest.mark.parametrize("event", ["pre-compact", "session-end"])
def test_hooks_learn_from_the_transcript(run: Command, tmp_path: Path, event: str) -> None:  # noqa: F811
    said = describe(tmp_path, "Fix the test.", "From now on, use pnpm.")
    for _ in range(2):
        answer = run("hook", event, "--host", "claude-code", piped=json.dumps(said).encode())
        assert (answer.code, answer.out.strip()) == (0, "{}")
    (candidate,) = run("candidates", "--json").json["candidates"]
    assert candidate["body"]["text"] == "From now on, use pnpm."
    assert candidate["scope"]["agent"] == "claude-code"
    assert candidate["provenance"]["source"]["ref"] == "claude-code:s1#u1"
    # Only the end of a session stores a memory of it.
    assert len(run("list", "--json").json["records"]) == (1 if event == "pre-compact" else 2)


def test_hooks_learn_nothing_if_the_setting_says_so(
    run: Command,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MEMORANDA_LEARN", "off")
    said = describe(tmp_path, "From now on, use pnpm.")
    run("hook", "session-end", "--host", "claude-code", piped=json.dumps(said).encode())
    assert run("candidates", "--json").json["candidates"] == []


def test_candidates_are_listed_accepted_and_rejected(run: Command, tmp_path: Path) -> None:  # noqa: F811
    said = describe(tmp_path, "From now on, use pnpm.", "Never deploy on Fridays.")
    run("hook", "pre-compact", "--host", "codex", piped=json.dumps(said).encode())
    assert "codex:s1#u0" in run("candidates", "--project", "shop").out
    first, second = (record["id"] for record in run("candidates", "--json").json["candidates"])
    assert run("candidates", "accept", first, second, "--text", "x").code == 1
    assert run("candidates", "accept", first).code == 0
    assert "rejected" in run("candidates", "reject", second).out
    assert "nothing to decide" in run("candidates").err
    assert run("candidates", "accept").code == 1
