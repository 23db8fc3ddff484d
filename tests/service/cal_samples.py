"""Stores and queries by chance, from small pools of values so that conditions hit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from memoranda.model.selection import Selection
from memoranda.retrieval.analysis import keywords
from memoranda.standards.cal import fields, limits
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.language.syntax import (
    Between,
    Coalesce,
    Exists,
    GroupBy,
    Hash,
    History,
    Let,
    Limit,
    NamespaceFilter,
    Offset,
    Option,
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
from memoranda.standards.oms.grains import Grain, encode
from tests.service.cal_model import SEARCHED_FIELDS, Kept, Model, share_a_word, stored_value
from tests.service.world import World

ME: Final = "u1"
OWN_TYPE: Final = "acme:thing"
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR

SUBJECTS: Final = ("ada", "bob", "zoë", "green tea")
RELATIONS: Final = ("likes", "mg:prefers", "mg:knows", "mg:said", "knows")
OBJECTS: Final = ("tea", "green tea", "coffee beans", "dark mode")
USERS: Final = (ME, "u2")
TAGS: Final = ("a", "b", "profile:healthcare")
FRACTIONS: Final = (0.0, 0.25, 0.5, 0.9, 1.0)
SESSIONS: Final = ("s1", "s2")
TOOLS: Final = ("search", "calc", "mail")
ROLES: Final = ("user", "assistant", "tool")
DIDS: Final = ("did:web:a", "did:web:b")
SOURCES: Final = ("user_explicit", "agent_inferred", "imported")
PRIORITIES: Final = ("hot", "warm", "cold")
STATES: Final = ("active", "satisfied", "failed", "suspended")
EPISTEMIC: Final = ("certain", "probable", "derived")
VERIFICATIONS: Final = ("verified", "contested", "retracted", "retracted")
TEXTS: Final = ("green tea tastes good", "the coffee is cold", "call bob", "buy dark beans", "Über Zoë")
ASKED: Final = ("tea", "coffee beans", "bob", "nothing here", "the", "dark tea", "zoe", "tasting", "semantic")
AGES: Final = (0, HOUR, 5 * HOUR, DAY, 3 * DAY, 8 * DAY, 40 * DAY, 400 * DAY)
SINCE: Final = ("now", "today", "yesterday", "last 2 hours", "last week", "last month", "this year", "2025")
DEADLINES: Final = ("2026-07-01", "2026-06-30T12:00:00Z", "2026-06-30", "2026-07")
DOMAIN: Final = ("hc:ward", "fin:desk", "xx:any")
# One more than what a double can hold exactly.
BIG: Final = 2**53 + 1
DOMAIN_VALUES: Final = ("p1", "p2", 1, 2, 2.5, True, BIG)


@dataclass(slots=True)
class Stores:
    """Fills a world, and keeps what is in it as the model wants it."""

    random: Random
    world: World
    kept: dict[str, Kept] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    serial: int = 0
    # Memories of another standard, by its names.
    forgotten: list[str] = field(default_factory=list)

    def pick(self, values: Any) -> Any:
        return self.random.choice(tuple(values))

    def maybe(self, values: Any, chance: float = 0.5) -> Any:
        return self.pick(values) if self.random.random() < chance else None

    def some(self, values: Any, least: int = 0) -> list[Any]:
        return self.random.sample(list(values), self.random.randint(least, len(values)))

    # --- grains ------------------------------------------------------------------------------------------

    def common(self) -> dict[str, Any]:
        self.serial += 1
        made = self.world.now - self.pick(AGES)
        given: dict[str, Any] = {
            "serial": self.serial,
            "created_at": made,
            "timestamp_ms": self.maybe((made, made - DAY, self.world.now, -1, 2**60), 0.3),
            "namespace": "elsewhere" if self.random.random() < 0.1 else "shared",
            "user_id": self.maybe(USERS),
            "importance": self.maybe(FRACTIONS),
            "structural_tags": self.some(TAGS, 1) if self.random.random() < 0.5 else None,
            "source_type": self.maybe(SOURCES),
            "recall_priority": self.maybe(PRIORITIES, 0.3),
            "epistemic_status": self.maybe(EPISTEMIC, 0.3),
        }
        if self.kept and self.random.random() < 0.1:
            links = ({"hash": self.pick(self.kept), "relation_type": self.pick(("contradicts", "similar"))},)
            given["related_to"] = list(links)
        if self.random.random() < 0.5:
            given[self.pick(DOMAIN)] = self.pick((*DOMAIN_VALUES, ["p1", "p2"], ["p1", 2], ["p2"], [2, 2.5, True]))
        return given

    def triple(self, chance: float = 0.7) -> dict[str, Any]:
        return {
            "subject": self.maybe((*SUBJECTS, ""), chance),
            "relation": self.maybe((*RELATIONS, ""), chance),
            "object": self.maybe((*OBJECTS, {"k": 1}, ""), chance),
            "confidence": self.maybe(FRACTIONS),
        }

    def of_type(self, name: str) -> dict[str, Any]:
        own = getattr(self, f"_{name}")()
        whole = {**self.common(), **own, "type": name}
        if self.random.random() < 0.15 and "context" not in whole:
            whole["context"] = {self.pick(DOMAIN): self.pick(DOMAIN_VALUES), "note": "tea"}
        return {key: value for key, value in whole.items() if value is not None}

    def _belief(self) -> dict[str, Any]:
        return {
            "subject": self.pick(SUBJECTS),
            "relation": self.pick(RELATIONS),
            "object": self.pick((*OBJECTS, {"k": 1, "a": [2]}, "")),
            "confidence": self.pick(FRACTIONS),
        }

    def _event(self) -> dict[str, Any]:
        said: dict[str, Any] = {"content": self.pick(TEXTS)}
        if self.random.random() < 0.3:
            said = {"content_blocks": [{"type": "text", "text": self.pick(TEXTS)}]}
        return {
            **self.triple(0.3),
            **said,
            "role": self.maybe(ROLES),
            "session_id": self.maybe(SESSIONS),
            "parent_message_id": self.maybe(self.kept, 0.5) if self.kept else None,
            "model_id": self.maybe(("m1", "m2")),
        }

    def _state(self) -> dict[str, Any]:
        context = self.pick(({"name": "n1"}, {"label": "n2", "x": 1}, {"id": "n1"}, {}, {"name": 7}))
        if self.random.random() < 0.3:
            context = {**context, self.pick(DOMAIN): self.pick(DOMAIN_VALUES)}
        return {**self.triple(0.3), "context": context, "plan": self.some(TEXTS) or None}

    def _workflow(self) -> dict[str, Any]:
        return {
            **self.triple(0.3),
            "steps": self.some(TEXTS, 1),
            "trigger": self.pick(("on:mail", "on:call")),
            "goal_state": self.maybe(("open", "satisfied", "completed")),
        }

    def _action(self) -> dict[str, Any]:
        phase = self.pick((None, "definition", "call", "result"))
        tool = self.pick(TOOLS)
        own: dict[str, Any] = {
            None: {"tool_name": tool, "input": {"q": "tea"}, "content": self.pick(TEXTS), "is_error": self.coin()},
            "definition": {"tool_name": tool, "tool_description": self.pick(TEXTS), "input_schema": {}},
            "call": {"tool_name": tool, "input": {"q": self.pick(TEXTS)}, "tool_call_id": self.maybe(("c1", "c2"))},
            "result": {
                "tool_call_id": self.pick(("c1", "c2")),
                "content": {"found": self.pick(TEXTS)},
                "is_error": self.coin(),
                "derived_from": [],
            },
        }[phase]
        return {**self.triple(0.2), **own, "action_phase": phase, "session_id": self.maybe(SESSIONS)}

    def _observation(self) -> dict[str, Any]:
        return {**self.triple(), "observer_id": self.pick(("o1", "o2")), "observer_type": self.pick(("llm", "gps"))}

    def _goal(self) -> dict[str, Any]:
        deadlines = (1782820800000, 1782820800001, 1782864000000, 1782950400000)
        return {
            **self.triple(0.4),
            "description": self.pick(TEXTS),
            "goal_state": self.pick(STATES),
            "assigned_agent": self.maybe(DIDS),
            "deadline": self.maybe(deadlines),
            "depends_on": self.some(list(self.kept)[-4:], 1) if self.kept and self.coin() else None,
        }

    def _reasoning(self) -> dict[str, Any]:
        return {
            **self.triple(0.4),
            "inference_method": self.maybe(("deductive", "inductive")),
            "premises": self.some(TEXTS) or None,
            "conclusion": self.maybe(TEXTS, 0.8),
        }

    def _consensus(self) -> dict[str, Any]:
        return {
            **self.triple(0.4),
            "participating_observers": self.some(("o1", "o2", "o3"), 1),
            "threshold": self.pick((1, 2, 3)),
            "agreement_count": self.pick((1, 2, 3, BIG - 1)),
            "dissent_count": 0,
            "agreed_content": self.maybe(TEXTS),
        }

    def _consent(self) -> dict[str, Any]:
        withdraws = self.coin()
        return {
            "subject_did": self.pick(DIDS),
            "grantee_did": self.pick(DIDS),
            "scope": self.some(("read", "write", "tea")),
            "is_withdrawal": withdraws,
            "prior_consent": "x" if withdraws else None,
            "confidence": self.maybe(FRACTIONS),
            "purpose": self.maybe(("billing", "care")),
            "valid_to": self.maybe((1782820800000, 1782864000000, 1600000000000)),
        }

    def coin(self) -> bool:
        return self.random.random() < 0.5

    # --- what happens to them ----------------------------------------------------------------------------

    def put(self, given: dict[str, Any]) -> str:
        grain = encoded(given)
        stored = self.world.service.grains.put(self.world.owner, grain.blob)
        assert stored.address == grain.address
        self.kept[grain.address] = Kept(grain=grain, order=self.serial)
        return stored.address

    def grain(self) -> str:
        given = self.of_type(self.pick((*fields.SINGULARS, *["belief"] * 4, *["event"] * 3)))
        # Later versions of OMS call two types otherwise; some types are an application's own, and cannot be asked for.
        given["type"] = {"belief": self.pick(("belief", "fact")), "action": "tool"}.get(given["type"], given["type"])
        if self.random.random() < 0.03:
            given["type"] = OWN_TYPE
        return self.put(given)

    def supersede(self) -> None:
        old = self.pick([each for each in self.kept.values() if each.superseded_by is None])
        given = {**old.grain.fields, "created_at": self.world.advance(10), "importance": self.pick(FRACTIONS)}
        self.serial += 1
        given |= {"serial": self.serial, "supersession_justification": "it changed"}
        grain = encoded(given)
        new = self.world.service.grains.supersede(self.world.owner, old.address, grain.blob).address
        self.kept[new] = Kept(grain=grain, order=self.serial)
        self.kept[old.address] = replace(old, superseded_by=new, system_valid_to=self.world.now)

    def verify(self) -> None:
        one = self.pick(self.kept)
        status = self.pick(VERIFICATIONS)
        self.world.service.grains.set_verification(self.world.owner, one, status, reason="checked")
        self.kept[one] = replace(self.kept[one], verification=status)

    def forget(self) -> None:
        # A version that others follow or precede stays: what forgetting does to a chain is not CAL's to say.
        followed = {each.superseded_by for each in self.kept.values()}
        free = [a for a, each in self.kept.items() if each.superseded_by is None and a not in followed]
        if free:
            one = self.pick(free)
            self.world.service.grains.erase(self.world.owner, one, reason="asked to")
            del self.kept[one]
            self.gone.append(one)

    def remember(self) -> None:
        kind = self.pick(("semantic", "episodic", "procedural", "working"))
        scope = {"user": self.pick(USERS)} if self.coin() else {}
        text = f"{self.pick(TEXTS)} {self.serial}"
        self.serial += 1
        names = [self.world.remember(text, kind=kind, scope=scope)]
        if self.random.random() < 0.3:
            names.append(self.world.revise(names[0], body={"text": f"{text} again"}))
        if self.random.random() < 0.2:
            self.world.forget(names[-1])
            self.forgotten += names

    def grains(self) -> list[Kept]:
        """Everything, with the views of the memories that another standard remembered."""
        found = list(self.kept.values())
        after: int | None = 0
        while after is not None:
            page, after = self.world.service.grains.listing(
                self.world.owner, Selection(status_filter="recorded"), after=after, limit=500
            )
            found += [_view(each) for each in page if not each.is_native and _native_name(each) not in self.forgotten]
        return found

    def happen(self, count: int) -> None:
        for _ in range(count):
            chance = self.random.random()
            if not self.kept or chance < 0.7:
                self.grain()
            elif chance < 0.78 and any(each.superseded_by is None for each in self.kept.values()):
                self.supersede()
            elif chance < 0.85:
                self.verify()
            elif chance < 0.9:
                self.forget()
            else:
                self.remember()


def encoded(given: dict[str, Any]) -> Grain:
    return encode(given, type_byte=0xF1 if given["type"] == OWN_TYPE else None)


def _native_name(stored: Any) -> str:
    return str(stored.grain.fields["context"]["memoranda:native"]["name"])


def _view(stored: Any) -> Kept:
    given = stored.grain.fields
    said = {"belief": "object", "event": "content"}.get(stored.grain.type_name)
    text = given[said] if said else given["steps"][0] if "steps" in given else given["context"]["text"]
    return Kept(
        grain=stored.grain,
        superseded_by=stored.index.superseded_by,
        system_valid_to=stored.index.system_valid_to,
        verification=stored.index.verification_status or "unverified",
        said=text,
    )


# --- queries ---------------------------------------------------------------------------------------------

POOLS: Final[dict[str, tuple[Any, ...]]] = {
    "query": ASKED,
    "subject": (*SUBJECTS, *DIDS, "nobody"),
    "relation": (*RELATIONS, "mg:permits"),
    "object": (*OBJECTS, *DIDS, '{"k":1}'),
    "user_id": (*USERS, "u3"),
    "namespace": ("elsewhere", "shared"),
    "verification_status": ("unverified", "verified", "contested", "retracted", "odd"),
    "source_type": SOURCES,
    "role": ROLES,
    "session_id": SESSIONS,
    "model_id": ("m1", "m2"),
    "content": ASKED,
    "context": ("n1", "n2"),
    "plan": ASKED,
    "trigger": ("on:mail", "on:call"),
    "steps": ASKED,
    "tool_name": TOOLS,
    "tool_call_id": ("c1", "c2"),
    "observer_id": ("o1", "o2"),
    "observer_type": ("llm", "gps"),
    "assigned_agent": DIDS,
    "reasoning_type": ("deductive", "inductive"),
    "premises": ASKED,
    "conclusion": (*TEXTS, *ASKED),
    "purpose": ("billing", "care"),
    "grantor_did": DIDS,
    "grantee_did": DIDS,
    "scope": ("read", "write"),
    "threshold": (1, 2.0, 2.5, 3),
    "agreement_count": (1, 2, 3, BIG - 1),
    "tags": TAGS,
    "participating_observers": ("o1", "o2", "o3"),
    "goal_state": ("open", "satisfied", "completed"),
}
NEVER_IN_STAGES: Final = ("query", "namespace")


@dataclass(slots=True)
class Queries:
    """Valid queries over what a store holds."""

    random: Random
    grains: list[Kept]
    gone: list[str]
    now: int
    # What the RECALL that is being written should find, if it can.
    aim: Kept | None = None
    # How many grains LIMIT and OFFSET are about.
    size: int = 12
    lets: list[Let] = field(default_factory=list)
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        self.model = Model(self.grains, now=self.now, current_user=ME)

    def pick(self, values: Any) -> Any:
        return self.random.choice(tuple(values))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    # --- conditions --------------------------------------------------------------------------------------

    def hash(self) -> Hash:
        if not self.grains or self.chance(0.15):
            return Hash(text=f"sha256:{self.pick((*self.gone, '0' * 64))}")
        chosen = self.aim if self.aim is not None and self.chance(0.5) else self.pick(self.grains)
        address = chosen.address
        return Hash(text=f"sha256:{address[: self.pick((64, 64, 12, 20))]}")

    def aimed(self, known: Field) -> Any:
        """A value that the grain aimed at has."""
        if self.aim is None or known.kind not in (
            FieldKind.STRING,
            FieldKind.ADDRESS,
            FieldKind.FRACTION,
            FieldKind.NUMBER,
            FieldKind.WORD,
        ):
            return None
        value = stored_value(self.aim, known.name)
        value = self.pick(value) if isinstance(value, list) and value else value
        fits = isinstance(value, str | int | float) and (not known.words or value in known.words)
        return value if fits else None

    def scalar(self, known: Field) -> Any:
        aimed = self.aimed(known)
        if aimed is not None and self.chance(0.6):
            return aimed
        if known.kind is FieldKind.ADDRESS:
            return self.pick((self.hash(), self.hash().text.removeprefix("sha256:"), self.hash().text))
        fixed: dict[FieldKind, tuple[Any, ...]] = {
            FieldKind.FRACTION: FRACTIONS,
            FieldKind.BOOLEAN: (True, False),
            FieldKind.TYPE: fields.SINGULARS,
            FieldKind.SINCE: SINCE,
            FieldKind.INSTANT: (*DEADLINES, 1782820800, 1782820800001),
            FieldKind.ANY: DOMAIN_VALUES,
        }
        if known.kind in fixed:
            return self.pick(fixed[known.kind])
        return self.hash() if known.kind is FieldKind.HASH else self.pick(known.words or POOLS[known.name])

    def end(self, known: Field) -> Any:
        if known.kind is FieldKind.ANY:
            return self.pick(("p1", "p2", 1, 2, 3.5))
        if known.kind is FieldKind.INSTANT:
            return self.pick((*DEADLINES, 1782820800, 1782864000000, "yesterday"))
        return self.pick((*SINCE, "2026-06-03", "2026-06-04", 1780480800, 1780567200000))

    def value(self, known: Field, operator: str, depth: int) -> Any:
        if operator == "IS":
            return self.pick(("PREFERENCE", "KNOWLEDGE", "PERMISSION", "INTERACTION", "LIFECYCLE"))
        if operator == "BETWEEN":
            return self.end(known), self.end(known)
        if operator in ("INCLUDE", "EXCLUDE"):
            pool = POOLS.get(known.name, DOMAIN_VALUES)
            return tuple(self.random.sample(pool, self.random.randint(0, 2)))
        if operator == "IN":
            if depth and self.chance(0.4):
                return Subquery(query=self.recall(depth=depth - 1, ends="values"))
            if self.lets and self.chance(0.4):
                return (Param(name=self.pick(self.lets).name),)
            return tuple(self.scalar(known) for _ in range(self.random.randint(1, 3)))
        return self.scalar(known)

    def fitting(self, grain_type: str | None, without: set[str], depth: int) -> WhereCondition:
        """A condition that mostly holds for what is aimed at."""
        found = self.condition(grain_type, without, depth)
        tries = 10 if self.chance(0.8) else 0
        while tries and not self.hits(found):
            found = self.condition(grain_type, without, depth)
            tries -= 1
        return found

    def hits(self, condition: WhereCondition) -> bool:
        """Whether the grain aimed at has it, as far as that can be said without running anything."""
        value = condition.value
        if self.aim is None or condition.field == "score" or isinstance(value, Subquery | Param):
            return True
        if isinstance(value, tuple) and any(isinstance(each, Param) for each in value):
            return True
        if condition.field == "query" or condition.field in SEARCHED_FIELDS:
            return share_a_word(self.model.text(self.aim, condition.field), str(value))
        return self.model.test(condition)(self.aim)

    def condition(self, grain_type: str | None, without: set[str], depth: int) -> WhereCondition:
        known = {name: each for name, each in fields.fields_of(grain_type).items() if name not in without}
        own = [name for name in known if name not in fields.COMMON_FIELDS]
        name = self.pick(own) if own and self.chance(0.5) else self.pick((*known, *DOMAIN))
        found = known.get(name, fields.DOMAIN_FIELD)
        operator = self.pick(sorted(found.operators))
        if name == "user_id" and operator == "=" and self.chance(0.2):
            return WhereCondition(field=name, operator=operator, value=Param(name="current_user_id"))
        return WhereCondition(field=name, operator=operator, value=self.value(found, operator, depth))

    # --- RECALL ------------------------------------------------------------------------------------------

    def recall(self, *, depth: int = 1, ends: str = "any", in_coalesce: bool = False, plain: bool = False) -> Recall:
        seen = [each for each in self.model.grains if each.is_current or self.chance(0.3)]
        self.aim = self.pick(seen) if seen else None
        grain_type = self.pick((None, "belief", *fields.SINGULARS)) if self.chance(0.8) else None
        if self.aim is not None and self.chance(0.85):
            grain_type = self.aim.type if self.chance(0.8) else None
        if ends == "values" and self.chance(0.7):
            grain_type = "belief"
        parts: dict[str, Any] = {"grain_type": grain_type, "my": self.chance(0.1)}
        without = {"user_id"} if parts["my"] else set()
        self.search(parts, without, in_coalesce=in_coalesce)
        self.when(parts, without)
        if grain_type in ("event", "action") and self.chance(0.3):
            message = self.hash() if self.aim is None or self.chance(0.3) else Hash(text=f"sha256:{self.aim.address}")
            parts["thread"] = self.pick((Thread(session=self.pick(SESSIONS)), Thread(message=message)))
        if self.chance(0.05):
            parts["namespace"] = NamespaceFilter(name="elsewhere", scoped=self.chance(0.5))
        parts["contradictions"] = self.chance(0.05)
        where: list[WhereCondition] = []
        for _ in range(self.pick((0, 0, 1, 1, 1, 2, 3))):
            where.append(self.fitting(grain_type, without, depth))
            without |= {"query"} & {where[-1].field}
        parts["where"] = tuple(where)
        parts["options"] = self.options(grain_type)
        recent = not plain and ends != "values" and self.chance(0.1)
        parts["recent"] = self.random.randint(1, self.size) if recent else None
        room = limits.STAGES - 2 * recent - (parts.get("thread") is not None)
        parts["stages"] = () if plain else self.stages(grain_type, where, room, ends, cut=not recent)
        return Recall(**parts)

    def search(self, parts: dict[str, Any], without: set[str], *, in_coalesce: bool) -> None:
        about, like = self.chance(0.12), self.chance(0.12)
        if about and like and not in_coalesce:
            like = False
        if about:
            known = [] if self.aim is None else [stored_value(self.aim, "subject")] * 4
            subjects = [each for each in known if each is not None]
            parts["about"] = self.pick((*subjects, *SUBJECTS, "tea", "coffee", "nobody at all"))
        if like:
            parts["like"] = self.pick(ASKED)
        without |= {"query"} if about or like else set()

    def when(self, parts: dict[str, Any], without: set[str]) -> None:
        chance = self.random.random()
        time = fields.COMMON_FIELDS["time"]
        if chance < 0.12:
            parts["since"] = self.pick(SINCE)
        elif chance < 0.2:
            parts["between"] = Between(low=self.end(time), high=self.end(time))
        without |= {"time"} if chance < 0.2 else set()

    def options(self, grain_type: str | None) -> tuple[Option, ...]:
        found = [Option(name="superseded")] if self.chance(0.3) else []
        if self.chance(0.1):
            known = fields.fields_of(grain_type)
            names = [name for name, each in known.items() if each.projectable and each.kind is not FieldKind.ARRAY]
            found.append(Option(name="dedup", word=self.pick(names)))
        if self.chance(0.2):
            told = ("explanation", "provenance", "score_breakdown", "contradiction_detection")
            found.append(Option(name=self.pick(told)))
        return tuple(found)

    def stages(
        self, grain_type: str | None, where: list[WhereCondition], room: int, ends: str, *, cut: bool
    ) -> tuple[Stage, ...]:
        known = fields.fields_of(grain_type)
        asked = next((each.value for each in where if each.field == "type"), None)
        is_belief = "belief" in (grain_type, asked)
        extractors = ("hashes", "subjects", "objects") if is_belief else ("hashes",)
        found: list[Stage] = []
        if cut and room > 1 and self.chance(0.3):
            found.append(self.order(known))
        if cut and self.chance(0.4) and len(found) < room - 2:
            found += self.cuts()
        if ends == "values":
            return (*found[: room - 1], Reduce(to=self.pick(extractors)))
        if ends == "grains":
            return tuple(found[:room])
        if len(found) < room and self.chance(0.6):
            found += self.last(known, extractors, sorts=cut)
        if cut and self.chance(0.2) and not _closed(found):
            found += self.cuts()
        return tuple(found[:room])

    def order(self, known: Any) -> OrderBy:
        names = [name for name, each in known.items() if each.sortable]
        return OrderBy(field=self.pick(names), descending=self.chance(0.5))

    def cuts(self) -> list[Stage]:
        limit = Limit(count=self.random.randint(1, self.size))
        offset = Offset(count=self.random.randint(0, self.size // 2))
        return list(self.pick(((limit,), (limit,), (offset,), (limit, offset), (offset, limit))))

    def last(self, known: Any, extractors: tuple[str, ...], *, sorts: bool) -> list[Stage]:
        projectable = [name for name, each in known.items() if each.projectable]
        groupable = [name for name, each in known.items() if each.groupable]
        chosen = tuple(self.random.sample(projectable, self.random.randint(1, 3)))
        sortable = [name for name in chosen if known[name].sortable]
        select: list[Stage] = [Select(fields=chosen)]
        if sorts and sortable and self.chance(0.3):
            select.append(OrderBy(field=self.pick(sortable), descending=self.chance(0.5)))
        group: list[Stage] = [GroupBy(field=self.pick(groupable))]
        group += self.pick(([], [], [Reduce(to="count")], [Reduce(to="first")]))
        values: list[Stage] = [Reduce(to=self.pick(extractors))]
        values += self.pick(([], [], [Reduce(to="count")], [Reduce(to="first")]))
        return list(
            self.pick(
                (
                    [Reduce(to="count")],
                    [Reduce(to="first")],
                    [Reduce(to="first"), *select[:1]],
                    select,
                    group,
                    values,
                    [Project(content=("subject",))],
                )
            )
        )

    # --- statements --------------------------------------------------------------------------------------

    def query(self) -> ParsedQuery:
        self.lets = []
        for name in ("x", "y")[: self.pick((0, 0, 0, 1, 2))]:
            # A binding does not see the others.
            known, self.lets = self.lets, []
            made = Let(name=name, query=self.recall(depth=0, ends="values"))
            self.lets = [*known, made]
        chance = self.random.random()
        if chance < 0.12:
            self.lets = []
            return ParsedQuery(statement=self.unlikely())
        if chance < 0.7:
            return ParsedQuery(statement=self.recall(), lets=tuple(self.lets))
        if chance < 0.8:
            return ParsedQuery(statement=self.sets(), lets=tuple(self.lets))
        if chance < 0.88:
            branches = tuple(self.recall(in_coalesce=True) for _ in range(self.random.randint(2, 3)))
            return ParsedQuery(statement=Coalesce(branches=branches), lets=tuple(self.lets))
        self.lets = []
        return ParsedQuery(statement=Exists(hash=self.hash()) if chance < 0.92 else self.history())

    def unlikely(self) -> Recall | SetOp:
        """What chance would hardly bring together: threads, several searches, ABOUT that finds nothing, sets."""
        kind = self.pick(("thread", "texts", "about", "set"))
        kept = self.pick([*self.model.grains, None])
        options = (Option(name="superseded"),) if self.chance(0.3) else ()
        if kind == "thread":
            events = [each for each in self.model.grains if each.type == "event"]
            address = self.pick(events).address if events else "0" * 64
            return Recall(grain_type="event", thread=Thread(message=Hash(text=f"sha256:{address}")), options=options)
        if kind == "texts":
            grain_type, name = self.pick((("event", "content"), ("workflow", "steps"), ("state", "plan")))
            texts = [WhereCondition(field=each, operator="=", value=self.pick(ASKED)) for each in ("query", name, name)]
            where = tuple(self.random.sample(texts, self.random.randint(2, 3)))
            return Recall(grain_type=grain_type, where=where, options=options)
        if kind == "about" or kept is None:
            condition = self.condition(None, {"query", "score"}, 0)
            return Recall(about=self.pick((*SUBJECTS, "tea")), where=(condition,), options=options)
        said = self.pick(keywords(self.model.text(kept, "query")) or ["tea"])
        found, other = (
            Recall(like=said, options=options),
            self.pick((Recall(grain_type=kept.type), Recall(like="tea"))),
        )
        pair = self.pick(((found, other), (other, found)))
        return SetOp(operator=self.pick(("union", "intersect", "except")), left_operand=pair[0], right_operand=pair[1])

    def sets(self) -> SetOp:
        operators = ("union", "intersect", "except")
        made: Any = self.recall(ends="grains")
        for _ in range(self.random.randint(1, 3)):
            other: Any = self.recall(ends="grains")
            if self.chance(0.2):
                other = Coalesce(branches=(other, self.recall(ends="grains", in_coalesce=True)))
            made = SetOp(operator=self.pick(operators), left_operand=made, right_operand=other)
        assert isinstance(made, SetOp)
        return made

    def history(self) -> History:
        if self.chance(0.5):
            return History(hash=self.hash(), diff=self.hash() if self.chance(0.5) else None)
        at = self.pick((None, None, "now", "yesterday", "2026-06-01", "2026-06-04T10:00:00.010Z"))
        said = [(stored_value(each, "subject"), stored_value(each, "relation")) for each in self.model.grains]
        known = [(subject, relation) for subject, relation in said if subject and relation]
        subject, relation = self.pick((*known, ("ada", "likes")))
        return History(subject=subject, relation=relation, as_of=at)


def _closed(stages: list[Stage]) -> bool:
    """Whether nothing may follow."""
    return any(isinstance(each, Reduce) and each.to in ("count", "first") for each in stages)
