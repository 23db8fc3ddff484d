"""Runs a query on the store and in the model, and says where the two answers differ."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from memoranda.errors import QueryError
from memoranda.service.core.access import Access
from memoranda.standards.cal.language.binding import bind
from memoranda.standards.cal.language.canonical import canonical
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Coalesce, Limit, ParsedQuery, Recall
from tests.service.cal_model import Answer, Kept, Model, ModelError, contradictions, evaluate
from tests.service.world import World

# What a page holds at most.
MOST = 1000


class Proof:
    """One store, asked twice."""

    def __init__(
        self, world: World, grains: Sequence[Kept], user: str, access: Access | None = None, *, pages: int = 50
    ) -> None:
        self.world = world
        # So many pages of an answer are asked for.
        self.pages = pages
        self.access = access or world.owner
        self.grains = grains
        self.user = user
        self._model: Model | None = None
        # What the queries came to, so that a test can say that they were not all empty.
        self.seen: Counter[str] = Counter()

    def ask(self, text: str, cursor: str | None = None) -> dict[str, Any]:
        return self.world.service.cal.run(self.access, text, cursor=cursor, user=self.user)

    def agrees(self, query: ParsedQuery) -> Answer | None:
        """Assert that the store answers as the model does; None: both refuse, with the same code."""
        text = canonical(query)
        assert parse(text) == query, text
        bound = bind(parse(text), {}, text=text, current_user=self.user)
        scores = _Scores(self, bound)
        try:
            expected = self.evaluate(bound, scores)
        except ModelError as refusal:
            self.check_refusal(text, refusal.code)
            return None
        found = self.ask(text)
        assert shape(found, expected) == told(expected), text
        self.count(expected)
        self.check_scores(found, expected, text)
        if "contradictions" in found:
            self.check_contradictions(found, expected, text)
        if isinstance(query.statement, Recall | Coalesce):
            self.check_pages(text, found, self.evaluate(bound, scores, unpaged=True))
        return expected

    def evaluate(self, bound: ParsedQuery, scores: Any, *, unpaged: bool = False) -> Answer:
        if self._model is None or self._model.now != self.world.now:
            self._model = Model(self.grains, now=self.world.now, current_user=self.user)
        return evaluate(bound, self._model, scores, unpaged=unpaged)

    def check_refusal(self, text: str, code: str) -> None:
        self.seen["refused"] += 1
        with pytest.raises(QueryError) as caught:
            self.ask(text)
        assert caught.value.cal_code == code, text

    def count(self, answer: Answer) -> None:
        self.seen["all"] += 1
        self.seen["found"] += bool(answer.items) and answer.items not in ([0], [False])
        self.seen[answer.kind] += 1

    def check_scores(self, found: dict[str, Any], expected: Answer, text: str) -> None:
        if expected.scores is not None:
            given = {item["content_address"]: item["score"] for item in found["results"]}
            assert given == dict(expected.scores), text

    def check_contradictions(self, found: dict[str, Any], expected: Answer, text: str) -> None:
        told = sorted((each["subject"], each["relation"], set(each["grains"])) for each in found["contradictions"])
        assert told == contradictions(expected, self.grains), text
        self.seen["contradictions"] += bool(told)

    def check_pages(self, text: str, first: dict[str, Any], whole: Answer) -> None:
        """The pages one after another are the whole answer."""
        member = {"grains": "results", "rows": "results"}.get(whole.kind, whole.kind)
        if not whole.pages:
            assert first["next_cursor"] is None, text
            return
        found, page, count = list(first[member]), first, 1
        while page["next_cursor"] is not None and count < self.pages:
            page = self.ask(text, page["next_cursor"])
            assert page[member], text
            assert page["total"] in (None, whole.total), text
            found += page[member]
            count += 1
        self.seen["paged"] += count > 1
        if page["next_cursor"] is not None:
            assert len(found) < len(whole.items), text
            whole = dataclasses.replace(whole, items=whole.items[: len(found)])
        assert shape({**first, member: found, "total": whole.total}, whole) == told(whole), text


class _Scores:
    """What the store scores the matches of a search with: all of them, whatever the query then does with them."""

    def __init__(self, proof: Proof, bound: ParsedQuery) -> None:
        self.proof = proof
        self.bound = bound
        self.known: dict[str, dict[str, float]] = {}

    def __call__(self, model: Model, recall: Recall) -> Mapping[str, float]:
        base = replace(
            recall,
            stages=(Limit(count=MOST),),
            recent=None,
            options=tuple(each for each in recall.options if each.name == "superseded"),
            where=tuple(each for each in recall.where if each.field != "score"),
        )
        is_double = recall.about is not None and recall.like is not None
        statement = Coalesce(branches=(base, base)) if is_double else base
        text = canonical(ParsedQuery(statement=statement, lets=self.bound.lets))
        if text in self.known:
            return self.known[text]
        found = self.every_page(text)
        scores = {item["content_address"]: float(item["score"]) for item in found}
        expected = {kept.address for kept in model.matches(recall)[0]}
        assert scores.keys() == expected, (text, scores.keys() ^ expected)
        assert all(0 < score <= 1 for score in scores.values()), text
        self.proof.seen["searched"] += bool(scores)
        if scores:
            assert max(scores.values()) == 1.0, text
        if recall.thread is None:
            order = sorted(scores, key=lambda each: (-scores[each], each))
            assert [item["content_address"] for item in found] == order, text
        self.known[text] = scores
        return scores

    def every_page(self, text: str) -> list[dict[str, Any]]:
        page = self.proof.ask(text)
        found = list(page["results"])
        while page["next_cursor"] is not None:
            page = self.proof.ask(text, page["next_cursor"])
            found += page["results"]
        return found


def shape(found: dict[str, Any], expected: Answer) -> Any:
    """What of an answer is compared."""
    kind = expected.kind
    if kind == "exists":
        return found["exists"]
    if kind == "diff":
        return found["changes"]
    if kind == "versions":
        names = ("content_address", "version", "created_at", "superseded_by", "system_valid_to", "current")
        return found["total"], [{name: item[name] for name in names} for item in found["versions"]]
    body: Any
    if kind == "count":
        body = [found["count"]]
    elif kind == "values":
        body = found["values"]
    elif kind == "groups":
        body = [
            (each["key"], each["count"], [item["content_address"] for item in each["grains"]])
            for each in found["groups"]
        ]
    elif kind == "rows":
        body = [(item["content_address"], item["fields"]) for item in found["results"]]
    else:
        body = [item["content_address"] for item in found["results"]]
    # A search that stopped early has not counted what it left.
    is_uncounted = found["total"] is None and expected.total > len(expected.items)
    return expected.total if is_uncounted else found["total"], found.get("branch"), body


def told(answer: Answer) -> Any:
    if answer.kind == "exists":
        return answer.items[0]
    if answer.kind == "diff":
        return answer.items
    if answer.kind == "versions":
        return answer.total, answer.items
    return answer.total, answer.branch, answer.items
