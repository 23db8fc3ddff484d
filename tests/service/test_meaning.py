"""Memories are found by what they mean: through every door, for whoever may see them, as soon as they have vectors, and
never longer than they are there.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memoranda import Memoranda
from memoranda.embedding.catalogue import EMBEDDER, load_embedder
from memoranda.embedding.embedder import of_callable
from memoranda.embedding.endpoint import Endpoint
from memoranda.errors import InvalidInput, StoreUnavailable
from memoranda.model.instant import format_instant
from memoranda.retrieval.vectors import encode
from memoranda.service.core import embedding_queue
from memoranda.service.core.embedding_queue import BATCH_LIMIT, EmbeddingQueue
from memoranda.service.core.semantic_search import SemanticSearch
from memoranda.storage.index import segment_reader, vector_queue, word_index
from memoranda.storage.index.word_index import MERGE_FAN_IN, WordIndex
from tests.embedders import AT_HOME, FOREIGN, GARDEN, LETTERS, SIZE, by_letters, endpoint, letters, lined
from tests.service.oams_verbs import Oams
from tests.service.test_same_order import OTHERS, through_ump
from tests.service.world import World
from tests.waiting import HANG_SECONDS, until

NOTES = (
    "use pnpm, never npm",
    "Ada likes green tea in the morning",
    "the deploy runs every Thursday at noon",
    "the harbour office opens at nine",
    "Bob is allergic to peanuts",
    "invoices go out on the first of the month",
)
QUESTIONS = {
    "which package manager do we install with": "use pnpm, never npm",
    "what drink does she prefer after waking up": "Ada likes green tea in the morning",
    "when is the software released": "the deploy runs every Thursday at noon",
    "which food is dangerous for him": "Bob is allergic to peanuts",
}


def worked_off(world: World) -> None:
    """As a server's thread does: until everything has its vectors."""
    while world.service.embedding.step():
        pass


def waiting(world: World) -> int:
    """How many versions have no vectors yet."""
    return world.engine.vectors.waiting(world.service.context.semantic_search.model)


@pytest.fixture(scope="module")
def model() -> SemanticSearch:
    return SemanticSearch(EMBEDDER.model, load_embedder)


@pytest.fixture
def world(model: SemanticSearch) -> Iterator[World]:
    world = World(meaning=model)
    yield world
    world.service.close()


@pytest.fixture
def lettered() -> Iterator[World]:
    world = World(meaning=letters())
    yield world
    world.service.close()


def rows(world: World, sql: str) -> list[tuple[Any, ...]]:
    with world.engine._database.open_snapshot() as connection:
        return list(connection.select(sql, {}))


# --- finding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["ump", *OTHERS])
def test_what_means_the_same_is_found_first_through_every_door(world: World, door: str) -> None:
    for text in NOTES:
        world.remember(text)
    worked_off(world)
    for question, answer in QUESTIONS.items():
        found = through_ump(world, question) if door == "ump" else OTHERS[door](world, question)
        assert found[0].removeprefix("user observed ").endswith(answer), (question, found)


@pytest.mark.requirement("CAL-24-declaration")
def test_a_host_declares_the_model_that_it_searches_with_and_the_languages(lettered: World) -> None:
    without = World()
    stated = [each.service.cal.run(each.owner, "DESCRIBE capabilities")["description"] for each in (lettered, without)]
    without.service.close()
    assert [(each["search"], each["embedding_model"]) for each in stated] == [("hybrid", "letters"), ("lexical", None)]
    for each in stated:
        assert {"en", "de", "fr", "ja", "zh"} <= set(each["supported_languages"])


def test_until_there_are_vectors_words_find_it(world: World) -> None:
    world.remember("use pnpm, never npm")
    assert through_ump(world, "which package manager do we install with") == []
    assert through_ump(world, "npm or pnpm") == ["use pnpm, never npm"]
    assert waiting(world) == 1
    worked_off(world)
    assert waiting(world) == 0
    assert through_ump(world, "which package manager do we install with") == ["use pnpm, never npm"]


def test_vectors_are_made_where_the_first_session_of_a_store_goes_on_at_its_end(
    lettered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a store of 4,100 to 8,200 memories: all that is settled is of one session with what comes last."""
    # Segments of sixteen are large ones, with parts in rows of their own.
    monkeypatch.setattr(segment_reader, "SMALL_SEGMENT_DOCS", MERGE_FAN_IN)
    monkeypatch.setattr(word_index, "_ENCODED_PLAINLY", 0)
    monkeypatch.setattr(word_index, "_INLINE_BYTES", 0)
    for number in range(MERGE_FAN_IN + 3):
        session = "first" if number in (0, MERGE_FAN_IN + 2) else f"s{number}"
        lettered.remember(f"word{number} of a kettle", kind="episodic", scope={"session": session})
    with lettered.engine.open_snapshot(lettered.owner.default_tenant) as snapshot:
        index = WordIndex(snapshot._connection, snapshot._tenant_id, lettered.engine._memory.segments)  # type: ignore[attr-defined]
        assert [len(each.columns) for each in index.segments()] == [MERGE_FAN_IN + 3]
    worked_off(lettered)
    assert waiting(lettered) == 0
    assert len(lettered.recall("kettle", limit=50)) == MERGE_FAN_IN + 3


def test_what_has_no_vector_yet_is_ranked_by_its_words(world: World) -> None:
    for text in NOTES:
        world.remember(text)
    worked_off(world)
    world.remember("we install dependencies with uv, the package manager of Python")
    assert through_ump(world, "which package manager do we install with")[0].startswith("we install dependencies")


def test_what_is_not_there_any_more_is_found_by_no_leg(lettered: World) -> None:
    world = lettered
    revised = world.remember("the kettle is blue and old")
    forgotten = world.remember("the kettle is dark blue")
    ended = world.remember("the kettle is light blue", consent={"retention": "PT1H"})
    worked_off(world)
    assert len(through_ump(world, "kettl blu")) == 3
    world.service.revise(world.owner, _revision(revised, "a pan"))
    world.forget(forgotten)
    world.advance(2 * 3_600_000)
    worked_off(world)
    assert ended
    assert through_ump(world, "kettl blu") in ([], ["a pan"])


def _revision(name: str, text: str) -> Any:
    from memoranda.standards.ump.requests import ReviseRequest

    return ReviseRequest.parse({"id": name, "patch": {"body": {"text": text}}})


@settings(max_examples=25)
@given(
    shown=st.lists(st.tuples(st.sampled_from(NOTES), st.sampled_from(["a", "b"])), min_size=1, max_size=6),
    hidden=st.lists(st.tuples(st.sampled_from(NOTES), st.sampled_from(["a", "b"])), max_size=6),
    question=st.sampled_from([*QUESTIONS, *NOTES, "tea", "xyz"]),
)
def test_what_may_not_be_seen_is_in_no_score(
    shown: list[tuple[str, str]], hidden: list[tuple[str, str]], question: str
) -> None:
    """Private memories of the owner change nothing of what is told of shared ones, by words or by meaning."""
    answers = []
    for others in (hidden, []):
        world = World(meaning=letters())
        try:
            at = world.now
            for number, (text, session) in enumerate([*shown, *others]):
                # Between those that are shown, by their time.
                moment = format_instant(type(at)(at + 1_000 * (number % max(1, len(shown))) + number))
                world.remember(
                    text,
                    scope={"session": session, "visibility": "shared" if number < len(shown) else "private"},
                    time={"observed": moment, "valid_from": moment, "created": moment},
                )
            worked_off(world)
            found = world.recall(question, limit=50, scope={"visibility": "shared"})
            answers.append([(each.record["body"]["text"], each.score, each.signals) for each in found])
        finally:
            world.service.close()
    assert answers[0] == answers[1]


@pytest.mark.sqlite
def test_where_a_text_stands_alone_a_second_model_is_asked() -> None:
    flat = of_callable("flat", lambda texts: [[1.0] * SIZE for _ in texts], second=LETTERS)
    world = World(meaning=SemanticSearch(flat.model, lambda: flat))
    for text in ("aaaa bbbb", "cccc dddd", "eeee ffff"):
        world.remember(text)
    for text in ("gggg hhhh", "iiii jjjj"):
        world.remember(text, scope={"session": "talk"})
        world.advance(1_000)
    worked_off(world)
    for text in ("aaaa bbbb", "cccc dddd", "eeee ffff"):
        # No word in common, only letters.
        assert through_ump(world, text.replace("a b", "ax b").replace("c d", "cx d").replace("e f", "ex f"))[0] == text
    kept = rows(world, "SELECT context_id <> 0, context_data IS NOT NULL FROM vector ORDER BY version_id")
    assert kept == [(0, 1), (0, 1), (0, 1), (0, 1), (1, 1)]
    world.forget(world.recall("cccc")[0].record["id"], hard=True)
    assert "cccc dddd" not in through_ump(world, "ccccx dddd")
    blank = rows(world, "SELECT version_id, max(data), max(context_data) FROM vector WHERE version_id = 0")
    assert [(number, set(own[4:]), set(second[4:])) for number, own, second in blank] == [(0, {0}, {0})]
    world.service.close()


def test_another_tenant_is_never_compared(lettered: World) -> None:
    ann = lettered.service.gate.local("did:example:ann")
    lettered.remember("the kettle is blue", access=ann)
    worked_off(lettered)
    assert lettered.recall("kettl blu") == []
    assert len(lettered.recall("kettl blu", access=ann)) == 1


# --- hints ---------------------------------------------------------------------------------------------------


def test_it_is_said_why_something_was_found(world: World) -> None:
    for text in NOTES:
        world.remember(text)
    worked_off(world)
    (best, *_) = world.recall("when does the deploy run", ranking_hints={"explain": True})
    assert best.reasons is not None
    explained: Any = best.document()["explanation"]
    assert {"text", "window", "meaning", "context", "session", "length"} <= explained.keys()
    assert explained["text"]["rank"] == explained["meaning"]["rank"] == 1
    (plain, *_) = world.recall("when does the deploy run")
    assert "explanation" not in plain.document()
    assert plain.signals["similarity"] > 0.5


def test_weights_are_changed_by_their_names(world: World) -> None:
    for text in NOTES:
        world.remember(text)
    worked_off(world)
    nothing = dict.fromkeys(("text", "window", "meaning", "context", "before", "after", "session", "length"), 0.0)
    found = world.recall("the deploy", ranking_hints={"weights": {**nothing, "length": 1.0}, "explain": True})
    assert all(set(each.reasons or ()) == {"length"} for each in found)
    for wrong in ({"texts": 1.0}, {"text": -1.0}, {"text": 11.0}, {"text": "much"}):
        with pytest.raises(InvalidInput):
            world.recall("the deploy", ranking_hints={"weights": wrong})


def test_words_alone_are_looked_for_on_request(world: World) -> None:
    world.remember("use pnpm, never npm")
    worked_off(world)
    question = "which package manager do we install with"
    assert len(world.recall(question)) == 1
    assert world.recall(question, ranking_hints={"words_only": True}) == []


def test_what_is_too_far_away_is_returned_on_request_only(world: World) -> None:
    world.remember("zorp blick vandal 77")
    worked_off(world)
    question = "which colour has the sky over the harbour on Sundays"
    assert world.recall(question) == []
    assert len(world.recall(question, ranking_hints={"floor": False})) == 1


def test_a_question_that_nothing_answers_finds_nothing_through_every_door() -> None:
    """Of many, some are near to any question by chance, and hold a word of it: more is needed for an answer."""
    world, question = World(meaning=lined()), FOREIGN
    for text in GARDEN:
        world.remember(text)
    doors = {"ump": through_ump, **OTHERS}
    # Until everything is compared, a stray word is all there is to go by.
    assert {name for name, ask in doors.items() if ask(world, question)} == set(doors)
    worked_off(world)
    assert [name for name, ask in doors.items() if ask(world, question)] == []
    assert [name for name, ask in doors.items() if not ask(world, AT_HOME)] == []
    # On request it comes all the same, as does what is quoted, and what is of the time that is asked for.
    assert world.recall(question, ranking_hints={"floor": False})
    assert world.recall(f'{question} "before winter"')
    assert world.recall(f"{question} today")
    world.service.close()


class Overlap:
    """A reranker of a few lines: the packages of this machine have none whose publisher is known."""

    def rate(self, question: str, text: str, /) -> float:
        asked = [word for word in question.split() if word in ("deploy", "run")]
        return sum(any(word.startswith(name) for word in text.split()) for name in asked) / len(asked)


@pytest.fixture
def reranked(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("memoranda.embedding.catalogue.load_reranker", Overlap)
    monkeypatch.setattr(world.service.context.semantic_search, "_reranker", None)
    return world


def test_the_best_are_read_once_more_on_request(reranked: World) -> None:
    world = reranked
    for text in NOTES:
        world.remember(text)
    worked_off(world)
    found = world.recall("when does the deploy run", ranking_hints={"rerank": True})
    assert found[0].record["body"]["text"] == "the deploy runs every Thursday at noon"
    assert found[1].score < 0.8


def test_copies_come_last_also_when_the_best_are_read_once_more(reranked: World) -> None:
    world = reranked
    other = "keys of the deploy are in the vault"
    for text in ("The deploy runs on Thursdays at noon.", other, "the deploy runs on thursdays at noon"):
        world.remember(text)
    worked_off(world)
    found = world.recall("when does the deploy run", ranking_hints={"rerank": True})
    shown = [each.record["body"]["text"] for each in found]
    assert shown[0].lower().startswith("the deploy runs on thursdays")
    assert shown[1] == other


# --- the queue -----------------------------------------------------------------------------------------------


def test_the_queue_goes_on_where_it_was(lettered: World) -> None:
    world = lettered
    for number in range(40):
        world.remember(f"note {number}")
    assert world.service.embedding.step()
    first = world.service.embedding.progress()
    assert 0 < first.done < first.last
    worked_off(world)
    assert rows(world, "SELECT count(*), count(DISTINCT version_id) FROM vector") == [(40, 40)]


class _Watch:
    """A clock that goes only where vectors are made, which takes a second each, and where it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _slow_queue(world: World) -> tuple[EmbeddingQueue, _Watch]:
    watch = _Watch()

    def slowly(texts: Any) -> Any:
        watch.now += 1.0
        return by_letters(texts)

    embedder = of_callable("slow", slowly)
    slow = replace(world.service.context, semantic_search=SemanticSearch("slow", lambda: embedder))
    return EmbeddingQueue(slow, seconds=watch), watch


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is written in a second is as if there were hundreds."""
    monkeypatch.setattr("memoranda.service.core.embedding_queue._BUSY_VERSIONS_PER_SECOND", 0.1)
    # The newest first is another matter.
    monkeypatch.setattr("memoranda.service.core.embedding_queue._FEW_VERSIONS", 1_000)


def _turns_beside_writing(world: World, queue: EmbeddingQueue, watch: _Watch, turns: int) -> list[int]:
    """How many wait for their vectors after each turn, where one is written every second."""
    found = []
    for _ in range(turns):
        world.remember(f"note {watch.now}")
        watch.now += 1.0
        queue.run_once()
        found.append(queue.count_waiting())
    return found


@pytest.mark.usefixtures("few_are_many")
def test_while_much_is_written_vectors_wait_and_then_are_made_a_tenth_of_the_time(lettered: World) -> None:
    world = lettered
    queue, watch = _slow_queue(world)
    # Five seconds at first; and after work of five seconds it is 45 until the next.
    assert _turns_beside_writing(world, queue, watch, 5) == [1, 2, 3, 4, 0]
    assert _turns_beside_writing(world, queue, watch, 45) == [*range(1, 45), 45 - BATCH_LIMIT]


@pytest.mark.usefixtures("few_are_many")
def test_what_waited_for_those_who_write_has_its_vectors_as_soon_as_they_pause(lettered: World) -> None:
    world = lettered
    queue, watch = _slow_queue(world)
    assert _turns_beside_writing(world, queue, watch, 3) == [1, 2, 3]
    queue.run_once()
    assert queue.count_waiting() == 0


def test_beside_a_few_writes_vectors_are_made_at_once(lettered: World) -> None:
    world = lettered
    queue, watch = _slow_queue(world)
    assert _turns_beside_writing(world, queue, watch, 3) == [0, 0, 0]


@pytest.mark.usefixtures("few_are_many")
def test_what_somebody_waits_for_gives_way_to_nobody(lettered: World) -> None:
    world = lettered
    queue, _ = _slow_queue(world)
    world.remember("note 0")
    queue.run_once()
    asked, numbers = queue.progress().last, itertools.count(1)

    def is_done_beside_writing() -> bool:
        world.remember(f"note {next(numbers)}")
        return queue.progress().done >= asked

    queue.settle(0.0)
    try:
        until(is_done_beside_writing)
    finally:
        queue.close()


def test_another_model_begins_anew_and_the_old_vectors_can_be_dropped(lettered: World) -> None:
    world = lettered
    world.remember("the kettle is blue")
    worked_off(world)
    queue = world.engine.vectors
    assert queue.waiting("another") == 1
    assert queue.claim("another", "me", world.now)
    batch = queue.next_batch("another", 10)
    assert len(batch.versions) == 1
    assert queue.put("another", "me", batch, [], world.now)
    assert set(queue.models()) == {"letters", "another"}
    while queue.delete_model("letters", 1):
        pass
    assert set(queue.models()) == {"another"}
    assert rows(world, "SELECT count(*) FROM vector") == [(0,)]


def test_one_process_at_a_time_makes_vectors(lettered: World) -> None:
    world = lettered
    world.remember("the kettle is blue")
    queue = world.engine.vectors
    assert queue.claim("letters", "another process", world.now)
    assert not world.service.embedding.step()
    world.advance(60_000)
    # It was killed: nobody waits for it any longer.
    assert world.service.embedding.step()
    stale = queue.next_batch("letters", 10)
    assert not queue.put("letters", "another process", stale, [], world.now)


def test_a_failing_embedder_keeps_nobody_from_anything(caplog: pytest.LogCaptureFixture) -> None:
    def fail(texts: Any) -> Any:
        raise StoreUnavailable("no answer")

    broken = type(LETTERS)("broken", fail)
    world = World(meaning=SemanticSearch("broken", lambda: broken))
    try:
        world.remember("the kettle is blue")
        assert through_ump(world, "kettle") == ["the kettle is blue"]
        with pytest.raises(StoreUnavailable):
            world.service.embedding.step()
        assert waiting(world) == 1
        assert "uses keywords only" in caplog.text
    finally:
        world.service.close()


class Moody:
    """An embedder that fails with any text while it is away, and with some texts always."""

    def __init__(self, *refused: str) -> None:
        self.is_away, self.refused, self.calls = False, set(refused), 0

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        if self.is_away or any(text in self.refused for text in texts):
            raise RuntimeError(f"cannot embed {texts[0]!r}")
        return by_letters(texts)

    def meaning(self, patience_seconds: float = 0.0) -> SemanticSearch:
        made = of_callable("moody", self)
        return SemanticSearch(made.model, lambda: made, patience_seconds=patience_seconds)


@pytest.fixture
def moody() -> Iterator[tuple[World, Moody]]:
    embedder = Moody("poison one", "poison two")
    world = World(meaning=embedder.meaning())
    yield world, embedder
    world.service.close()


def worked_off_by_another(world: World) -> EmbeddingQueue:
    """Return the queue of a process that takes over, after all is done."""
    world.advance(60_000)
    queue = EmbeddingQueue(world.context)
    while queue.step():
        pass
    return queue


def with_vectors(world: World) -> int:
    return int(rows(world, "SELECT count(*) FROM vector")[0][0])


def test_versions_that_no_batch_can_hold_are_set_aside_and_the_others_have_vectors(moody: tuple[World, Moody]) -> None:
    world, embedder = moody
    texts = [f"kettle {number}" for number in range(3 * BATCH_LIMIT)]
    texts[5], texts[BATCH_LIMIT + 3] = "poison one", "poison two"
    for text in texts:
        world.remember(text)
    worked_off(world)
    assert waiting(world) == 0
    assert (with_vectors(world), world.service.embedding.count_set_aside()) == (len(texts) - 2, 2)
    assert world.service.embedding.failure() is None
    assert set(world.texts("poison", limit=50)[:2]) == {"poison one", "poison two"}
    # The next process tries them again, and they stay aside where nothing changed.
    calls = embedder.calls
    assert worked_off_by_another(world).count_set_aside() == 2
    assert embedder.calls == calls + 2
    embedder.refused.clear()
    assert worked_off_by_another(world).count_set_aside() == 0
    assert with_vectors(world) == len(texts)


def test_a_version_set_aside_that_was_erased_is_not_tried_again(moody: tuple[World, Moody]) -> None:
    world, _ = moody
    name = world.remember("poison one")
    worked_off(world)
    assert world.service.embedding.count_set_aside() == 1
    world.forget(name, hard=True)
    assert worked_off_by_another(world).count_set_aside() == 0
    assert with_vectors(world) == 0


def test_while_the_embedder_is_away_nothing_is_set_aside_and_it_is_told_since_when(
    moody: tuple[World, Moody],
) -> None:
    world, embedder = moody
    embedder.is_away = True
    since = world.now
    world.remember("kettle one")
    queue = world.service.embedding
    for _ in range(20):
        with pytest.raises(RuntimeError):
            queue.step()
        world.advance(1_000)
    assert (waiting(world), queue.count_set_aside()) == (1, 0)
    # Another process knows it, too; of an error that is not ours no words, as they quote a memory.
    failure = EmbeddingQueue(world.context).failure()
    assert failure is not None
    assert (failure.since, failure.last_try, failure.error) == (since, since + 19_000, "RuntimeError")
    embedder.is_away = False
    worked_off(world)
    assert (waiting(world), queue.failure()) == (0, None)


def test_a_fault_of_the_store_with_one_version_keeps_nobody_else_without_vectors(
    moody: tuple[World, Moody], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = moody
    for number in range(BATCH_LIMIT):
        world.remember(f"kettle {number}")
    ((fifth,),) = rows(world, "SELECT version_id FROM version ORDER BY version_id LIMIT 1 OFFSET 4")
    before = vector_queue._previous_versions

    def fails_with_one(index: WordIndex, version_ids: Sequence[int]) -> dict[int, int]:
        if fifth in version_ids:
            raise IndexError("as an empty segment did")
        return before(index, version_ids)

    monkeypatch.setattr(vector_queue, "_previous_versions", fails_with_one)
    worked_off(world)
    assert (waiting(world), with_vectors(world), world.service.embedding.count_set_aside()) == (0, BATCH_LIMIT - 1, 1)


def test_more_versions_aside_than_can_be_their_own_fault_are_a_failure(
    moody: tuple[World, Moody], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, embedder = moody
    monkeypatch.setattr(embedding_queue, "_SET_ASIDE_LIMIT", 3)
    for number in range(6):
        world.remember(f"kettle {number}")
        embedder.refused.add(f"kettle {number}")
    with pytest.raises(RuntimeError):
        worked_off(world)
    queue = world.service.embedding
    assert (waiting(world), queue.count_set_aside(), queue.failure() is None) == (3, 3, False)


def test_a_question_waits_for_no_queue_that_is_known_to_fail() -> None:
    # Whoever waits for it waits until the tests are ended.
    embedder = Moody()
    world = World(meaning=embedder.meaning(HANG_SECONDS * 10))
    try:
        world.remember("the kettle is blue")
        world.recall("kettle")
        assert waiting(world) == 0
        embedder.is_away = True
        world.remember("the kettle is red")
        # The first one waits until it fails, the second one not at all.
        assert len(world.recall("kettle")) == 2
        assert world.service.embedding.failure() is not None
        assert len(world.recall("kettle")) == 2
        # A process that comes later believes what is known, and looks for itself after a while.
        later = EmbeddingQueue(world.context)
        later.settle(HANG_SECONDS * 10)
        assert later._thread is None
        embedder.is_away = False
        world.advance(600_000)
        later.settle(HANG_SECONDS * 10)
        assert waiting(world) == 0
        later.close()
    finally:
        world.service.close()


_WRITER = """
import os, sys, signal
from memoranda import Memoranda
m = Memoranda.open(sys.argv[1])
for number in range(5):
    m.remember(f"note {number}")
m.remember("use pnpm, never npm")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.sqlite
def test_nothing_is_lost_between_a_write_and_its_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any vector was made; the next process makes them, and waits for them when it is asked."""
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "auto")
    without = {**os.environ, "MEMORANDA_EMBEDDER": "off"}
    done = subprocess.run([sys.executable, "-c", _WRITER, str(tmp_path)], env=without, check=False)
    assert done.returncode == -signal.SIGKILL
    with Memoranda.open(tmp_path) as m:
        until(lambda: m.service.embedding.count_waiting() == 0)
        found = m.recall("which package manager do we install with")
        assert found[0].record["body"]["text"] == "use pnpm, never npm"


def test_a_question_waits_a_little_for_what_was_written_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "auto")
    # As long as it takes on a machine that has much else to do.
    monkeypatch.setattr("memoranda.app.PATIENCE_SECONDS", 60.0)
    with Memoranda.open(tmp_path) as m:
        m.remember("use pnpm, never npm")
        assert len(m.recall("which package manager do we install with")) == 1
    with Memoranda.open(tmp_path) as again:
        assert again.service.embedding.count_waiting() == 0


def test_a_command_waits_for_what_was_written_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that remembers loads no model; the next one that asks makes the vectors."""
    monkeypatch.setenv("MEMORANDA_EMBEDDER", "auto")
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    monkeypatch.setattr("memoranda.app.PATIENCE_SECONDS", 300.0)
    from memoranda.cli import main

    assert main(["remember", "use pnpm, never npm"]) == 0
    capsys.readouterr()
    assert main(["recall", "which package manager do we install with", "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "use pnpm, never npm" in printed
    assert "meaning" in printed


# --- personal data -------------------------------------------------------------------------------------------


def test_vectors_are_erased_with_what_they_are_of(lettered: World) -> None:
    world = lettered
    names = [
        world.remember(text, scope={"session": "talk"}, time={"observed": format_instant(type(world.now)(at))})
        for at, text in enumerate(["Ada: which kettle?", "Bob: the blue one"], world.now)
    ]
    worked_off(world)
    stored = rows(world, "SELECT version_id, data, context_id, context_data FROM vector ORDER BY version_id")
    (first, *_), (second, own, context, beside) = stored
    assert context == first
    assert any(own)
    assert any(beside)
    assert world.recall("blue one kettle")
    world.forget(names[0], hard=True)
    found = rows(world, "SELECT version_id, context_id, data, context_data FROM vector ORDER BY place")
    assert [row[:2] for row in found] == [(0, 0), (second, -1)]
    assert not any(found[0][2])
    assert not any(found[1][3])
    assert found[1][2] == own
    # What was in memory already is blank, too.
    assert [each.record["body"]["text"] for each in world.recall("kettle")] in ([], ["Bob: the blue one"])


def test_vectors_are_encrypted_where_the_text_is() -> None:
    world = World(coverage="users", meaning=letters())
    try:
        world.remember("the kettle is blue", scope={"user": "ann"})
        world.remember("the lamp is green")
        worked_off(world)
        encrypted, plain = rows(world, "SELECT key_id, data FROM vector ORDER BY version_id")
        assert encrypted[0] is not None
        assert plain[0] is None
        assert len(encrypted[1]) > len(plain[1])
        assert world.recall("kettl blu", scope={"user": "ann"})
        world.engine.destroy_user_key(world.owner.default_tenant, "ann")
        assert world.texts("kettl blu", scope={"user": "ann"}) in ([], ["the lamp is green"])
    finally:
        world.service.close()


# --- vectors that memories bring -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "is_used"), [("letters", SIZE, True), ("another", SIZE, False), ("letters", 3, False)]
)
def test_a_vector_that_came_with_a_memory_is_used_if_it_is_by_our_model(name: str, size: int, *, is_used: bool) -> None:
    """OAMS, section 2: whoever stores a memory may bring its embedding."""
    embedder = replace(LETTERS, dimensions=SIZE)
    world = World(meaning=SemanticSearch("letters", lambda: embedder))
    try:
        brought = by_letters(["something entirely different"])[0][:size]
        Oams(world).store("kettle", "the kettle is blue", embedding=brought, embedding_model=name)
        worked_off(world)
        ((data,),) = rows(world, "SELECT data FROM vector")
        expected = "something entirely different" if is_used else "the kettle is blue"
        assert data == encode(embedder.of_memory(expected))
    finally:
        world.service.close()


# --- embedders of one's own ----------------------------------------------------------------------------------


def test_a_function_is_an_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoranda.app.PATIENCE_SECONDS", 300.0)
    with Memoranda.open(tmp_path, embedder=("mine", by_letters)) as m:
        m.remember("the kettle is blue")
        assert [each.record["body"]["text"] for each in m.recall("kettl blu")] == ["the kettle is blue"]
        assert list(m.service.context.engine.vectors.models()) == ["mine"]


def test_any_endpoint_with_the_openai_interface_is_an_embedder() -> None:
    with endpoint() as address:
        tiny = Endpoint(address, "tiny", key="key")
        world = World(meaning=SemanticSearch(tiny.model, lambda: tiny))
        world.remember("the kettle is blue")
        worked_off(world)
        assert through_ump(world, "kettl blu") == ["the kettle is blue"]
        assert set(world.engine.vectors.models()) == {"tiny@127.0.0.1"}
        world.service.close()
        with pytest.raises(StoreUnavailable, match="returned no vector"):
            Endpoint(address, "other").of_memory("text")
    with pytest.raises(StoreUnavailable, match="does not answer"):
        tiny.of_question("text")
    for wrong, name in (("ftp://x", "m"), ("nonsense", "m"), ("http://x", "")):
        with pytest.raises(InvalidInput):
            Endpoint(wrong, name)
