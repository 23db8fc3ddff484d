"""CAL evaluated naively, over a list: what an answer must be, written from the specification alone.

It shares nothing with the executor but the syntax tree, the time expressions and the words of the search. Nothing is
clever here: every condition is asked of every grain. What a grain says is read once, because it never changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from memoranda.retrieval.analysis import keywords, query_terms
from memoranda.standards.cal.language import times
from memoranda.standards.cal.language.syntax import (
    Between,
    Coalesce,
    Exists,
    GroupBy,
    Hash,
    History,
    Limit,
    Offset,
    OrderBy,
    Param,
    ParsedQuery,
    Project,
    Recall,
    Reduce,
    Select,
    SetOp,
    Stage,
    Subquery,
    Thread,
    WhereCondition,
)
from memoranda.standards.oms.grains import Grain
from memoranda.standards.oms.mapping import text_of
from memoranda.standards.oms.registry import BY_BYTE

DEFAULT_LIMIT: Final = 20
MEMBERS_LIMIT: Final = 1000
HISTORY_LIMIT: Final = 100
SHOWN_PER_GROUP: Final = 5

# Section 7.1, written out again.
CATEGORIES: Final = {
    "PREFERENCE": ("mg:prefers", "mg:avoids", "mg:requires"),
    "KNOWLEDGE": ("mg:knows", "mg:infers"),
    "PERMISSION": ("mg:permits", "mg:revokes", "mg:prohibits"),
    "INTERACTION": ("mg:said", "mg:did", "mg:handed_off_to"),
    "AGENCY": ("mg:delegates_to", "mg:has_capability", "mg:assigned_to"),
    "LIFECYCLE": ("mg:intends", "mg:depends_on"),
    "OBSERVATION": ("mg:perceives", "mg:state_at"),
}
SAME_STATE: Final = {"completed": "satisfied", "abandoned": "failed", "blocked": "suspended"}
SEARCHED_FIELDS: Final = ("content", "plan", "steps", "premises")
ADDRESS_FIELDS: Final = ("parent_message_id", "depends_on")
LISTS: Final = ("depends_on", "scope")
RENAMED: Final = {
    "tags": "structural_tags",
    "reasoning_type": "inference_method",
    "grantor_did": "subject_did",
    "expires_at": "valid_to",
}
DEFAULTS: Final = {"recall_priority": "warm", "action_phase": "complete"}
# What a history does not call a change.
UNTOLD: Final = ("created_at", "timestamp_ms", "derived_from", "supersession_justification")


class ModelError(Exception):
    """The query must be refused with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A grain that is in the store, and what became of it."""

    grain: Grain
    superseded_by: str | None = None
    system_valid_to: int | None = None
    verification: str = "unverified"
    # Which was written first.
    order: int = 0
    # What is searched, where the grain is only the view of another standard's memory.
    said: str | None = None

    @cached_property
    def address(self) -> str:
        return self.grain.address

    @cached_property
    def is_current(self) -> bool:
        return self.superseded_by is None and self.verification != "retracted"

    @cached_property
    def type(self) -> str:
        """The type in the words of 1.3, whatever the grain calls it."""
        return BY_BYTE[self.grain.type_byte].name

    @cached_property
    def text(self) -> str:
        return text_of(self.grain) if self.said is None else self.said


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Addresses, rows (address and fields), values, groups (key, count, addresses) or the one count."""

    kind: Literal["grains", "rows", "values", "groups", "count", "exists", "versions", "diff"]
    items: list[Any]
    total: int = 0
    scores: Mapping[str, float] | None = None
    branch: int | None = None
    # Whether there may be more pages.
    pages: bool = False


# The scores that a searching RECALL gives, by address; the order of a search is not ours to say.
Scores = Callable[["Model", Recall], Mapping[str, float]]


def evaluate(query: ParsedQuery, model: Model, scores: Scores, *, unpaged: bool = False) -> Answer:
    """The answer. `unpaged`: all pages of it."""
    model.scores, model.lets = scores, {}
    for each in query.lets:
        model.lets[each.name] = model.members(each.query)
    statement = query.statement
    if isinstance(statement, Recall):
        return model.recall(statement, unpaged=unpaged)
    if isinstance(statement, Coalesce):
        return model.coalesce(statement, unpaged=unpaged)
    if isinstance(statement, SetOp):
        return model.combined(statement)
    if isinstance(statement, Exists):
        return Answer(kind="exists", items=[model.exists(statement)])
    assert isinstance(statement, History)
    return model.history(statement)


# --- fields ----------------------------------------------------------------------------------------------


def time_of(kept: Kept) -> int:
    fields = kept.grain.fields
    return int(fields.get("timestamp_ms", fields["created_at"]))


def triple_part(kept: Kept, name: str) -> Any:
    fields = kept.grain.fields
    if kept.type == "consent":
        relation = "mg:revokes" if fields["is_withdrawal"] else "mg:permits"
        return {"subject": fields["subject_did"], "relation": relation, "object": fields["grantee_did"]}[name]
    if name == "object" and kept.type == "goal":
        return fields.get("object") or fields.get("description")
    return fields.get(name)


def state_context(kept: Kept) -> Any:
    context = kept.grain.fields.get("context")
    if isinstance(context, str):
        return context
    names = [context.get(key) for key in ("name", "label", "id")] if isinstance(context, dict) else []
    return next((name for name in names if isinstance(name, str) and name), None)


def event_content(kept: Kept) -> Any:
    """The content, else the text of its blocks (as every format prints it)."""
    fields = kept.grain.fields
    blocks = fields.get("content_blocks", ())
    return fields.get("content") or " ".join(block["text"] for block in blocks if "text" in block)


def domain_value(kept: Kept, name: str) -> Any:
    fields = kept.grain.fields
    if name in fields:
        return fields[name]
    context = fields.get("context")
    return context.get(name) if isinstance(context, dict) else None


def stored_value(kept: Kept, name: str) -> Any:
    """What a field of the language reads from the payload; None: missing, as an empty text is."""
    fields = kept.grain.fields
    if ":" in name:
        value = domain_value(kept, name)
    elif name in ("subject", "relation", "object"):
        value = triple_part(kept, name)
    elif name == "context" and kept.type == "state":
        value = state_context(kept)
    elif name == "content" and kept.type == "event":
        value = event_content(kept)
    elif name == "consent_action":
        value = "withdraw" if fields.get("is_withdrawal") else "grant"
    else:
        value = fields.get(RENAMED.get(name, name), DEFAULTS.get(name))
    return None if value == "" else value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same_kind(left: Any, right: Any) -> bool:
    if is_number(left) or is_number(right):
        return is_number(left) and is_number(right)
    return type(left) is type(right)


def bare(value: Any) -> Any:
    """An address as the store spells it."""
    if isinstance(value, Hash):
        value = value.text
    return value.removeprefix("sha256:") if isinstance(value, str) else value


def compact(value: Any) -> str:
    """Maps and lists as text."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def compares(operator: str, left: Any, right: Any) -> bool:
    """`left operator right`; what is not of one kind never compares."""
    if left is None or not same_kind(left, right):
        return False
    if operator == "=":
        return bool(left == right)
    if operator == "!=":
        return bool(left != right)
    if isinstance(left, bool | list | dict | tuple):
        return False
    return bool({">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[operator])


@lru_cache(maxsize=65_536)
def _words_in(text: str) -> frozenset[str]:
    return frozenset(keywords(text))


@lru_cache(maxsize=65_536)
def _sought_in(text: str) -> frozenset[str]:
    return query_terms(text)


def share_a_word(text: str, asked: str) -> bool:
    return not _words_in(text).isdisjoint(_sought_in(asked))


def searched_text(kept: Kept, name: str) -> str:
    """The text of one field."""
    value = stored_value(kept, name)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value or "")


# --- statements ------------------------------------------------------------------------------------------


class Model:
    """What one caller can see, and the answers to be given about it."""

    def __init__(self, grains: Sequence[Kept], *, now: int, current_user: str, namespace: str = "shared") -> None:
        self.grains = [each for each in grains if each.grain.namespace == namespace and each.grain.type_byte in BY_BYTE]
        self.by_address = {each.address: each for each in self.grains}
        self.now = now
        self.current_user = current_user
        # Of the query at hand.
        self.scores: Scores = lambda *_: {}
        self.lets: dict[str, list[Any]] = {}
        self._visible: dict[tuple[str | None, bool, bool], list[Kept]] = {}
        self.contradicting = self.ends_of_contradictions()

    def ends_of_contradictions(self) -> set[str]:
        ends: set[str] = set()
        for each in self.grains:
            for link in each.grain.fields.get("related_to", ()) if each.is_current else ():
                if link["relation_type"] == "contradicts":
                    ends |= {each.address, bare(link["hash"])}
        return ends

    def value(self, kept: Kept, name: str, score: float = 1.0) -> Any:
        """Any field but those that only filter."""
        known: dict[str, Callable[[], Any]] = {
            "hash": lambda: f"sha256:{kept.address}",
            "type": lambda: kept.type,
            "time": lambda: time_of(kept),
            "score": lambda: score,
            "verification_status": lambda: kept.verification,
            "contradicted": lambda: kept.verification == "contested" or kept.address in self.contradicting,
        }
        return known[name]() if name in known else stored_value(kept, name)

    def resolved(self, value: Hash) -> str | None:
        """The address that a hash or the beginning of one stands for here."""
        digits = bare(value)
        if len(digits) == 64:
            return str(digits)
        found = [address for address in self.by_address if address.startswith(digits)]
        if len(found) > 1:
            raise ModelError("CAL-E015")
        return found[0] if found else None

    # --- conditions --------------------------------------------------------------------------------------

    def operand(self, condition: WhereCondition) -> Any:
        """The value to compare with, whatever it is written as."""
        value = condition.value
        if isinstance(value, Subquery):
            return self.members(value.query)
        if condition.operator == "IS":
            return list(CATEGORIES[str(value)])
        if condition.operator == "IN":
            assert isinstance(value, tuple)
            return [member for each in value for member in self.spliced(each)]
        if isinstance(value, Param):
            return self.current_user
        return list(value) if isinstance(value, tuple) else value

    def spliced(self, value: Any) -> list[Any]:
        return self.lets[value.name] if isinstance(value, Param) else [value]

    def test(self, condition: WhereCondition) -> Callable[[Kept], bool]:
        """The condition as a predicate; score and search are not among these."""
        name, operator, operand = condition.field, condition.operator, self.operand(condition)
        if name == "namespace":
            return lambda kept: True
        if name == "hash":
            address = self.resolved(operand)
            return lambda kept: kept.address == address
        if name in ADDRESS_FIELDS:
            return self.address_test(name, operand if isinstance(operand, list) else [operand])
        if operator == "BETWEEN":
            return self.range_test(name, *operand)
        if name == "time":
            start = times.first_ms(operand, self.now)
            assert start is not None
            return lambda kept: time_of(kept) >= start
        if name in ("deadline", "expires_at"):
            return self.range_test(name, operand, operand, relative=False)
        if operator in ("INCLUDE", "EXCLUDE"):
            return self.array_test(name, operator, operand)
        if operator in ("IN", "IS"):
            return self.member_test(name, operand)
        if name == "scope":
            return lambda kept: operand in (stored_value(kept, name) or ())
        if (name, operator) == ("object", "!="):
            # A map is there, and it is never equal to a text.
            return lambda kept: stored_value(kept, name) not in (None, operand)
        if name == "goal_state":
            return lambda kept: compares(operator, canonical_state(stored_value(kept, name)), canonical_state(operand))
        return lambda kept: compares(operator, self.value(kept, name), operand)

    def member_test(self, name: str, members: list[Any]) -> Callable[[Kept], bool]:
        texts = {each for each in members if isinstance(each, str)}
        others = [each for each in members if not isinstance(each, str)]

        def holds(kept: Kept) -> bool:
            value = self.value(kept, name)
            return value in texts if isinstance(value, str) else any(compares("=", value, each) for each in others)

        return holds

    def address_test(self, name: str, asked: list[Any]) -> Callable[[Kept], bool]:
        wanted = {self.resolved(each) if isinstance(each, Hash) else bare(each) for each in asked} - {None}

        def holds(kept: Kept) -> bool:
            value = stored_value(kept, name)
            values = value if isinstance(value, list) else [value]
            return any(bare(each) in wanted for each in values if each is not None)

        return holds

    def range_test(self, name: str, low: Any, high: Any, *, relative: bool = True) -> Callable[[Kept], bool]:
        if ":" in name:
            return lambda kept: (
                compares(">=", stored_value(kept, name), low) and compares("<=", stored_value(kept, name), high)
            )
        first = times.epoch_ms(low) if is_number(low) else times.first_ms(low, self.now)
        last = times.epoch_ms(high) if is_number(high) else times.last_ms(high, self.now)
        assert first is not None
        assert last is not None
        assert relative or is_number(low) or times.parse_span(low) is not None

        def holds(kept: Kept) -> bool:
            value = self.value(kept, name)
            return value is not None and first <= value <= last

        return holds

    def array_test(self, name: str, operator: str, asked: list[Any]) -> Callable[[Kept], bool]:
        def holds(kept: Kept) -> bool:
            value = stored_value(kept, name)
            if value is None and name == "tags":
                value = []
            if not isinstance(value, list):
                return False
            there = [any(compares("=", member, each) for member in value) for each in asked]
            return all(there) if operator == "INCLUDE" else not any(there)

        return holds

    # --- RECALL ------------------------------------------------------------------------------------------

    def visible(self, recall: Recall) -> list[Kept]:
        everything = any(option.name == "superseded" for option in recall.options)
        anytime = everything or any(condition.field == "expires_at" for condition in recall.where)
        asked = recall.grain_type, everything, anytime
        if asked not in self._visible:
            self._visible[asked] = [
                each
                for each in self.grains
                if (everything or each.is_current) and recall.grain_type in (None, each.type)
                if anytime or self.is_in_force(each)
            ]
        return self._visible[asked]

    def is_in_force(self, kept: Kept) -> bool:
        """Whether it is true now: the last instant counts in (OMS section 15)."""
        begins, ends = kept.grain.fields.get("valid_from"), kept.grain.fields.get("valid_to")
        return (begins is None or begins <= self.now) and (ends is None or self.now <= ends)

    def conditions(self, recall: Recall) -> list[WhereCondition]:
        """The shortcuts that are nothing but conditions, and what is written."""
        found = []
        if recall.my:
            found.append(WhereCondition(field="user_id", operator="=", value=self.current_user))
        if recall.since is not None:
            found.append(WhereCondition(field="time", operator="=", value=recall.since))
        if isinstance(recall.between, Between):
            found.append(
                WhereCondition(field="time", operator="BETWEEN", value=(recall.between.low, recall.between.high))
            )
        if recall.thread is not None and recall.thread.session is not None:
            found.append(WhereCondition(field="session_id", operator="=", value=recall.thread.session))
        if recall.contradictions:
            found.append(WhereCondition(field="contradicted", operator="=", value=True))
        return [*found, *recall.where]

    def is_search(self, condition: WhereCondition, visible: Sequence[Kept]) -> bool:
        """Whether a condition is a search; `conclusion =` becomes one when nothing has just that conclusion."""
        if (condition.field, condition.operator) == ("conclusion", "="):
            return not any(stored_value(each, "conclusion") == condition.value for each in visible)
        return condition.field == "query" or condition.field in SEARCHED_FIELDS

    def searches(self, recall: Recall) -> list[tuple[str, str]]:
        """What is searched for, and in which field; "query" is the whole grain."""
        visible = self.visible(recall)
        found = [(each.field, str(each.value)) for each in recall.where if self.is_search(each, visible)]
        if recall.like is not None:
            found.append(("query", str(recall.like)))
        if recall.about is not None and not self.is_about(recall, visible):
            found.append(("query", str(recall.about)))
        return found

    def is_about(self, recall: Recall, visible: Sequence[Kept]) -> bool:
        """Whether ABOUT asks for the subject: when there is one, or when there is another text to search for."""
        searched = recall.like is not None or any(each.field == "query" for each in recall.where)
        return searched or any(stored_value(each, "subject") == recall.about for each in visible)

    def matches(self, recall: Recall) -> tuple[list[Kept], bool]:
        """Everything that matches, but for its score, in no order; and whether it was searched for."""
        found = visible = self.visible(recall)
        searches = self.searches(recall)
        for condition in self.conditions(recall):
            if condition.field != "score" and not self.is_search(condition, visible):
                holds = self.test(condition)
                found = [each for each in found if holds(each)]
        if recall.about is not None and self.is_about(recall, visible):
            found = [each for each in found if stored_value(each, "subject") == recall.about]
        if recall.thread is not None and recall.thread.message is not None:
            thread = self.thread(recall.thread)
            found = [each for each in found if each.address in thread]
        for name, asked in searches:
            found = [each for each in found if share_a_word(self.text(each, name), asked)]
        return found, bool(searches)

    def text(self, kept: Kept, name: str) -> str:
        return kept.text if name == "query" else searched_text(kept, name)

    def thread(self, thread: Thread) -> set[str]:
        """The addresses of the thread that holds a message."""
        assert isinstance(thread.message, Hash)
        start = self.by_address.get(self.resolved(thread.message) or "")
        if start is None:
            return set()
        session = stored_value(start, "session_id")
        if session is not None:
            return {each.address for each in self.grains if stored_value(each, "session_id") == session}
        # Messages that answer the same one hang together, even when that one is gone.
        found = {start.address}
        while True:
            more: set[str] = set()
            for each in self.grains:
                parent = bare(stored_value(each, "parent_message_id"))
                ends = {each.address, parent} if parent is not None else {each.address}
                more |= ends if ends & found else set()
            if more <= found:
                return found
            found |= more

    def ranked(self, recall: Recall) -> list[tuple[Kept, float]]:
        """The matches with their scores, best first, ties by address."""
        found, searched = self.matches(recall)
        given = self.scores(self, recall) if searched else {}
        scored = [(each, given[each.address] if searched else 1.0) for each in found]
        for condition in recall.where:
            if condition.field == "score":
                scored = [pair for pair in scored if compares(condition.operator, float(pair[1]), condition.value)]
        scored.sort(key=lambda pair: (-pair[1], pair[0].address))
        for option in recall.options:
            if option.name == "dedup":
                scored = self.distinct(scored, str(option.word))
        return scored

    def distinct(self, scored: list[tuple[Kept, float]], name: str) -> list[tuple[Kept, float]]:
        seen: list[Any] = []
        kept = []
        for each, score in scored:
            value = self.value(each, name, score)
            if value is not None and value in seen:
                continue
            seen.append(value)
            kept.append((each, score))
        return kept

    def recall(self, recall: Recall, *, unpaged: bool = False) -> Answer:
        stages = stages_of(recall)
        counts = any(stage == Reduce(to="count") for stage in stages)
        if not counts and not any(is_cut(stage) for stage in stages):
            stages.append(Limit(count=DEFAULT_LIMIT))
        cuts = cuts_of(stages)
        answer = Pipeline(self, self.ranked(recall)).run(without_page(cuts) if unpaged else cuts)
        return replace(answer, pages=page_at(cuts) is not None)

    def members(self, recall: Recall) -> list[Any]:
        """The values of a subquery or a LET."""
        stages = stages_of(recall)
        if not any(is_cut(stage) for stage in stages):
            stages.append(Limit(count=MEMBERS_LIMIT))
        return Pipeline(self, self.ranked(recall)).run(cuts_of(stages)).items

    # --- the other statements ----------------------------------------------------------------------------

    def coalesce(self, statement: Coalesce, *, unpaged: bool = False) -> Answer:
        answer = None
        for number, branch in enumerate(statement.branches):
            answer = self.recall(branch, unpaged=unpaged)
            if answer.items and answer.items != [0]:
                return replace(answer, branch=number)
        assert answer is not None
        return answer

    def combined(self, statement: Recall | Coalesce | SetOp) -> Answer:
        """Operands by address and score."""
        if isinstance(statement, Recall):
            return self.recall(statement)
        if isinstance(statement, Coalesce):
            return self.coalesce(statement)
        left, right = (
            dict(self.combined(each).scores or {}) for each in (statement.left_operand, statement.right_operand)
        )
        if statement.operator == "union":
            scores = {each: max(left.get(each, 0.0), right.get(each, 0.0)) for each in {*left, *right}}
        elif statement.operator == "intersect":
            scores = {each: min(left[each], right[each]) for each in left if each in right}
        else:
            scores = {each: score for each, score in left.items() if each not in right}
        items = sorted(scores, key=lambda each: (-scores[each], each))
        return Answer(kind="grains", items=items, total=len(items), scores=scores)

    def exists(self, statement: Exists) -> bool:
        digits = bare(statement.hash)
        return any(address.startswith(digits) for address in self.by_address)

    def history(self, statement: History) -> Answer:
        if statement.hash is None:
            return self.versions(self.of_triple(statement.subject, statement.relation), statement.as_of)
        assert isinstance(statement.hash, Hash)
        one = self.by_address.get(self.resolved(statement.hash) or "")
        if statement.diff is not None:
            assert isinstance(statement.diff, Hash)
            return self.difference(one, self.by_address.get(self.resolved(statement.diff) or ""))
        return self.versions([] if one is None else self.chain(one))

    def chain(self, one: Kept) -> list[Kept]:
        """The versions of one memory, oldest first: whatever leads to it, and what follows it."""
        found = [one]
        while before := [each for each in self.grains if each.superseded_by == found[0].address]:
            found.insert(0, before[0])
        while found[-1].superseded_by in self.by_address:
            found.append(self.by_address[found[-1].superseded_by or ""])
        return found

    def of_triple(self, subject: Any, relation: Any) -> list[Kept]:
        found = [
            each
            for each in self.grains
            if stored_value(each, "subject") == subject and stored_value(each, "relation") == relation
        ]

        return sorted(found, key=lambda each: (each.grain.fields["created_at"], each.order))

    def versions(self, found: list[Kept], at: Any = None) -> Answer:
        """Numbered from the oldest, told from the newest; `at`: only what was current then."""
        moment = None if at is None else times.last_ms(at, self.now)
        items = [
            {
                "content_address": each.address,
                "version": number,
                "created_at": each.grain.fields["created_at"],
                "superseded_by": each.superseded_by,
                "system_valid_to": each.system_valid_to,
                "current": each.superseded_by is None,
            }
            for number, each in enumerate(found, start=1)
            if moment is None
            or (
                each.grain.fields["created_at"] <= moment
                and (each.system_valid_to is None or each.system_valid_to > moment)
            )
        ]
        items = items[::-1][:HISTORY_LIMIT]
        return Answer(kind="versions", items=items, total=len(items))

    def difference(self, one: Kept | None, other: Kept | None) -> Answer:
        if one is None or other is None:
            raise ModelError("CAL-E046")
        before, after = one.grain.fields, other.grain.fields
        changes = [
            {"field": name, "from": before.get(name), "to": after.get(name)}
            for name in sorted({*before, *after} - {*UNTOLD})
            # Python holds 1 and True equal.
            if compact(before.get(name)) != compact(after.get(name))
        ]
        return Answer(kind="diff", items=changes)


def contradictions(answer: Answer, grains: Sequence[Kept]) -> list[tuple[str, str, set[str]]]:
    """The current beliefs among the results that say different things of one subject and relation."""
    shown = set(answer.items) if answer.kind == "grains" else set()
    beliefs = [each for each in grains if each.address in shown and each.is_current and each.type == "belief"]
    pairs = sorted({(each.grain.fields["subject"], each.grain.fields["relation"]) for each in beliefs})
    found = []
    for subject, relation in pairs:
        held = [
            e.grain for e in beliefs if (e.grain.fields["subject"], e.grain.fields["relation"]) == (subject, relation)
        ]
        if len({compact(grain.fields["object"]) for grain in held}) > 1:
            found.append((subject, relation, {f"sha256:{grain.address}" for grain in held}))
    return found


def canonical_state(value: Any) -> Any:
    return SAME_STATE.get(value, value) if isinstance(value, str) else value


# --- stages ----------------------------------------------------------------------------------------------


def stages_of(recall: Recall) -> list[Stage]:
    """The stages of the shortcuts, then the written ones."""
    found: list[Stage] = [OrderBy(field="time")] if recall.thread is not None else []
    if recall.recent is not None:
        found += [OrderBy(field="time", descending=True), Limit(count=recall.recent)]
    return [*found, *recall.stages]


def is_cut(stage: Stage) -> bool:
    return isinstance(stage, Limit) or (isinstance(stage, Reduce) and stage.to == "first")


@dataclass(frozen=True, slots=True)
class Cut:
    """A LIMIT and an OFFSET side by side: skip, then take."""

    skip: int = 0
    take: int | None = None


def cuts_of(stages: Sequence[Stage]) -> list[Stage | Cut]:
    """LIMIT and OFFSET paired from the left."""
    rest, found = list(stages), list[Stage | Cut]()
    while rest:
        stage = rest.pop(0)
        if not isinstance(stage, Limit | Offset):
            found.append(stage)
            continue
        pair: list[Limit | Offset] = [stage]
        if rest and isinstance(rest[0], Limit | Offset) and type(rest[0]) is not type(stage):
            pair.append(rest.pop(0))  # type: ignore[arg-type]
        counts = {type(each): each.count for each in pair}
        skip, take = counts.get(Offset, 0), counts.get(Limit)
        assert isinstance(skip, int)
        assert take is None or isinstance(take, int)
        found.append(Cut(skip, take))
    return found


def page_at(stages: Sequence[Stage | Cut]) -> int | None:
    """Where the LIMIT stands that says how long a page is: the last, if one item comes of each that it lets through."""
    for index in reversed(range(len(stages))):
        stage = stages[index]
        if isinstance(stage, Cut) and stage.take is not None:
            return index
        if not isinstance(stage, Select | Project) and stage != Reduce(to="hashes"):
            return None
    return None


def without_page(stages: list[Stage | Cut]) -> list[Stage | Cut]:
    """The same with one page that holds everything."""
    index = page_at(stages)
    if index is None:
        return stages
    page = stages[index]
    assert isinstance(page, Cut)
    return [*stages[:index], Cut(page.skip), *stages[index + 1 :]]


def sort_key(value: Any) -> tuple[int, Any]:
    return (0, value) if is_number(value) or isinstance(value, bool) else (1, compact(value))


class Pipeline:
    """Grains, then what the stages make of them."""

    def __init__(self, model: Model, scored: Iterable[tuple[Kept, float]]) -> None:
        self.model = model
        self.items: list[Any] = list(scored)
        self.total = len(self.items)
        self.selected: tuple[str, ...] | None = None
        self.kind: Literal["grains", "values", "groups", "count"] = "grains"

    def run(self, stages: Sequence[Stage | Cut]) -> Answer:
        for stage in stages:
            if isinstance(stage, Cut):
                self.items = self.items[stage.skip :][: stage.take]
            else:
                self.apply(stage)
        return self.answer()

    def apply(self, stage: Stage) -> None:
        if isinstance(stage, Select):
            self.selected = stage.fields
        elif isinstance(stage, OrderBy):
            self.order(stage)
        elif isinstance(stage, GroupBy):
            self.group(stage.field)
        elif isinstance(stage, Reduce):
            self.reduce(stage.to)

    def order(self, stage: OrderBy) -> None:
        def value(pair: tuple[Kept, float]) -> Any:
            return self.model.value(pair[0], stage.field, pair[1])

        by_address = sorted(self.items, key=lambda pair: pair[0].address)
        there = [pair for pair in by_address if value(pair) is not None]
        there.sort(key=lambda pair: sort_key(value(pair)), reverse=False)
        if stage.descending:
            # Ties stay in the order of addresses.
            there.sort(key=lambda pair: sort_key(value(pair)), reverse=True)
        self.items = there + [pair for pair in by_address if value(pair) is None]

    def group(self, name: str) -> None:
        groups: list[tuple[Any, list[str]]] = []
        for kept, score in self.items:
            key = self.model.value(kept, name, score)
            members = next((group for known, group in groups if known == key), None)
            if members is None:
                groups.append((key, members := []))
            members.append(kept.address)
        groups.sort(key=lambda group: (-len(group[1]), group[0] is None, compact(group[0])))
        self.items = [(key, len(members), members[:SHOWN_PER_GROUP]) for key, members in groups]
        self.kind = "groups"

    def reduce(self, to: str) -> None:
        if to == "count":
            self.items, self.kind = [len(self.items)], "count"
        elif to == "first":
            self.items = self.items[:1]
        elif to == "hashes":
            self.items, self.kind = [f"sha256:{kept.address}" for kept, _ in self.items], "values"
        else:
            found = (stored_value(kept, to.removesuffix("s")) for kept, _ in self.items)
            self.items = list(dict.fromkeys(compact(value) for value in found if value is not None))
            self.kind = "values"

    def answer(self) -> Answer:
        if self.kind != "grains":
            return Answer(kind=self.kind, items=self.items, total=self.total)
        scores = {kept.address: score for kept, score in self.items}
        addresses = [kept.address for kept, _ in self.items]
        if self.selected is None:
            return Answer(kind="grains", items=addresses, total=self.total, scores=scores)
        rows = [
            (kept.address, {name: self.model.value(kept, name, score) for name in self.selected})
            for kept, score in self.items
        ]
        return Answer(kind="rows", items=rows, total=self.total, scores=scores)
