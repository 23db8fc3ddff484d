"""CAL: reading queries, and running them in process over a store of many grains."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bench.corpus import Corpus
from bench.figures import Figures, percentile, say
from bench.homes import home_for
from memoranda import Memoranda
from memoranda.model.instant import DAY_MS
from memoranda.opening import system_clock
from memoranda.service.exchange.importing import number_items
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.oms.grains import encode
from memoranda.standards.oms.requests import FindRequest

GRAINS_PER_CUSTOMER = 100
HOT = "customer:hot"
_LINE = 'RECALL beliefs ABOUT "customer:17" WHERE confidence >= 0.8 RECENT 5 AS markdown'
# The README's five sources, for any customer.
_CONTEXT = """CAL/1 ASSEMBLE support_context
FOR "resolving billing dispute for {who}"
FROM
  profile: (RECALL beliefs ABOUT "{who}" WHERE relation IS KNOWLEDGE LIMIT 10),
  history: (RECALL events WHERE user_id = "{who}" SINCE "last 90 days" LIMIT 20),
  tickets: (RECALL workflows WHERE subject = "{who}" AND tags INCLUDE ["support:billing"] RECENT 5),
  policy: (RECALL beliefs WHERE tags INCLUDE ["policy:billing"] LIMIT 5),
  session: (RECALL actions WHERE session_id = "session of {who}" LIMIT 10)
BUDGET 4000 tokens
PRIORITY profile > history > tickets > policy > session
FORMAT sml"""


# Of what there is much of: each order, and what is common.
_WIDE = {
    "recent": "RECALL events RECENT 20",
    "recent_all": "RECALL RECENT 20",
    "hot_subject": f'RECALL WHERE subject = "{HOT}"',
    "hot_recent": f'RECALL ABOUT "{HOT}" RECENT 5',
    "relation_recent": 'RECALL beliefs WHERE relation = "mg:knows" RECENT 5',
    "tag_recent": 'RECALL WHERE tags INCLUDE ["support:billing"] RECENT 5',
    "by_confidence": "RECALL beliefs | ORDER BY confidence DESC | LIMIT 10",
    "by_importance": "RECALL | ORDER BY importance DESC | LIMIT 10",
    "diversity": "RECALL beliefs WITH diversity(mmr) | LIMIT 10",
    "assemble_hot": _CONTEXT.format(who=HOT),
    # No grain has that subject, so it is searched for; one of its words is in every grain.
    "about_nobody": 'RECALL beliefs ABOUT "customer nobody" LIMIT 10',
}
_COUNTED = {
    "count": "RECALL beliefs WHERE confidence >= 0.7 | COUNT",
    "group_type": "RECALL | GROUP BY type",
    "group_relation": "RECALL beliefs | GROUP BY relation",
    "group_subject": "RECALL beliefs | GROUP BY subject",
}


def measure_cal(*, quick: bool, large: bool = False) -> Figures:
    """All of it; a small store when quick, one of a million grains when large."""
    label, size, rounds = ("1k", 1_000, 50) if quick else ("1m", 1_000_000, 200) if large else ("100k", 100_000, 500)
    figures = measure_reading()
    with home_for(f"cal-{label}") as home, Memoranda.open(home.path) as m:
        now, corpus = system_clock(), Corpus(size)
        if not home.is_filled:
            say(f"cal: writing {size} grains")
            blobs = (encode(fields).blob for fields in grains(corpus, now))
            report = m.service.import_items(m.access, number_items("oms", blobs))
            if report.created != size:
                raise SystemExit(f"only {report.created} of {size} were written: {report.refusals[:1]}")
            home.set_filled()
        say("cal: asking")
        figures |= measure_running(m, corpus, label, rounds)
    return figures


def grains(corpus: Corpus, now: int) -> Iterator[dict[str, Any]]:
    """What a support desk remembers: per customer thirty beliefs, forty messages, and what was done about them."""
    rng = random.Random(11)
    for number in range(corpus.size):
        # Of one customer there is much more than of the others, of every type.
        customer = number // GRAINS_PER_CUSTOMER
        who = HOT if (customer + number) % 50 == 49 else f"customer:{customer}"
        moment = now - rng.randrange(365 * DAY_MS)
        made = {"created_at": moment, "user_id": who, "subject": who}
        yield {**made, **_grain(number % GRAINS_PER_CUSTOMER, number, who, corpus.text(number), moment)}


def _grain(place: int, number: int, who: str, text: str, moment: int) -> dict[str, Any]:
    if place == 0 and number % 2_000 == 0:
        tags = {"structural_tags": ["policy:billing"]}
        return {
            "type": "belief",
            "subject": "policy:billing",
            "relation": "mg:permits",
            "object": text,
            "confidence": 1.0,
            **tags,
        }
    if place < 30:
        relation = ("mg:knows", "mg:infers", "mg:prefers")[place % 3]
        return {"type": "belief", "relation": relation, "object": text, "confidence": 0.5 + place / 100}
    if place < 70:
        role, session = ("user", "assistant")[place % 2], f"chat {number // 10}"
        return {"type": "event", "content": text, "role": role, "timestamp_ms": moment, "session_id": session}
    if place < 75:
        tags = {"structural_tags": ["support:billing" if place % 2 else "support:delivery"]}
        return {"type": "workflow", "steps": text.split()[:5], "trigger": "dispute_opened", **tags}
    if place < 90:
        done = {"tool_name": "get_invoice", "input": {"id": number}, "content": text, "is_error": False}
        return {"type": "action", "session_id": f"session of {who}", **done}
    if place < 95:
        observed = {"observer_id": "billing-system", "observer_type": "system"}
        return {"type": "observation", "object": text, "relation": "mg:perceives", **observed}
    return {"type": "goal", "description": text, "goal_state": "active"}


def measure_reading() -> Figures:
    """Best of several runs; of a query of up to 4 KB the slowest kind."""
    return {
        "cal.parse.line.us": round(_best(lambda: parse(_LINE), 200) * 1e6, 1),
        "cal.parse.4kb.ms": round(max(_best(lambda text=text: parse(text), 20) for text in dense_queries()) * 1e3, 3),  # type: ignore[misc]
    }


def dense_queries() -> list[str]:
    """Queries of 4 KB made of one thing over and over: whatever costs most, some query is full of it."""
    return [
        _filled("RECALL WHERE subject IN (", '"value{}"', ", ", ")", most=100) + _padding(),
        _filled(
            "BATCH { ", 'entry{}: RECALL beliefs ABOUT "alice" WHERE confidence >= 0.8 RECENT 5', ", ", " }", most=10
        ),
        _filled("RECALL beliefs WHERE ", "confidence >= 0.{}", " AND ", ""),
        _filled("RECALL beliefs WHERE tags INCLUDE [", '"tag{}"', ", ", "]"),
        _filled("RECALL WITH x_a([", "{}", ",", "])"),
        _filled("RECALL beliefs WHERE ", "a:b=1", " AND ", "", most=200) + _padding(),
        _filled("RECALL beliefs WHERE tags INCLUDE [", "$p", ",", "]"),
        _filled("RECALL beliefs | SELECT ", "subject", ", ", ""),
    ]


def _filled(head: str, each: str, joint: str, tail: str, most: int = 4_096) -> str:
    parts: list[str] = []
    room = 4_096 - len(head) - len(tail)
    for number in itertools.count():
        part = each.format(number % 10)
        room -= len(part) + len(joint)
        if room < 0 or number == most:
            return head + joint.join(parts) + tail
        parts.append(part)
    raise AssertionError


def _padding() -> str:
    return " -- " + "x" * 2_000


def _best(work: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def measure_running(m: Memoranda, corpus: Corpus, label: str, rounds: int) -> Figures:
    """Whole queries through the library: read, run, answer, put on record."""
    rng = random.Random(5)
    # More than there are customers: a store that is in use has most of its pages in memory.
    people = [f"customer:{rng.randrange(corpus.size // GRAINS_PER_CUSTOMER)}" for _ in range(4 * rounds)]
    asked: dict[str, Iterable[str]] = {
        "recall_about": (f'RECALL beliefs ABOUT "{who}"' for who in people),
        "recall_user_since": (f'RECALL events WHERE user_id = "{who}" SINCE "last 90 days"' for who in people),
        "assemble_readme": (_CONTEXT.format(who=who) for who in people),
        "like": (f'RECALL LIKE "{text}"' for text, _ in corpus.questions(rounds)),
        "like_typed": (f'RECALL events LIKE "{text}" LIMIT 10' for text, _ in corpus.questions(rounds)),
        **{name: itertools.repeat(query, rounds // 5) for name, query in _WIDE.items()},
        **{name: itertools.repeat(query, max(3, rounds // 50)) for name, query in _COUNTED.items()},
    }
    figures: Figures = {}
    for name, queries in asked.items():
        figures |= _told(f"cal.{name}.{label}", [_timed(lambda query=query: m.cal(query)) for query in queries])  # type: ignore[misc]
    sessions = ({"session_id": f"chat {rng.randrange(corpus.size // 10)}"} for _ in range(rounds))
    for name, finds in {"session": sessions, "subject": ({"subject": who} for who in people)}.items():
        requests = [FindRequest.parse(each) for each in finds]
        taken = [_timed(lambda request=request: m.grains.find(request)) for request in requests]  # type: ignore[misc]
        figures |= _told(f"cal.find_{name}.{label}", taken)
    return figures


def _told(name: str, taken: list[float]) -> Figures:
    return {f"{name}.p{share}_ms": percentile(taken, share / 100) for share in (50, 95, 99)}


def _timed(ask: Callable[[], Any]) -> float:
    start = time.perf_counter()
    ask()
    return (time.perf_counter() - start) * 1000
