"""The published and derived queries of CAL 1.0, with their verdicts (tests/vectors/cal/cal-examples.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from memoranda.standards.cal.grammar import prompt_card

_FILE: Final = Path(__file__).parents[2] / "vectors" / "cal" / "cal-examples.json"
EXAMPLES: Final[list[dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))


def text_of(example: dict[str, Any]) -> str:
    """What to feed: the query itself, or what stands for a fragment, a placeholder or a very long text."""
    if "query_repeat" in example:
        repeat = example["query_repeat"]
        return str(repeat["prefix"] + repeat["unit"] * repeat["count"] + repeat["suffix"])
    return str(example.get("parse_as", example["query"]))


STATIC: Final = [each for each in EXAMPLES if each["phase"] == "static"]
VALID: Final = [text_of(each) for each in STATIC if each["valid"]]
QUERIES: Final = [text_of(each) for each in EXAMPLES]
HASH: Final = "sha256:" + "a1b2c3d4" * 8

# The three queries of the README, as the README prints them.
README_ASSEMBLE: Final = """CAL/1 ASSEMBLE support_context
FOR "resolving billing dispute for customer:priya"
FROM
profile: (RECALL beliefs ABOUT "customer:priya"
WHERE relation IS KNOWLEDGE
LIMIT 10),
history: (RECALL events
WHERE user_id = "customer:priya"
SINCE "last 90 days"
LIMIT 20),
tickets: (RECALL workflows
WHERE subject = "customer:priya"
AND tags INCLUDE ["support:billing"]
RECENT 5),
policy: (RECALL beliefs
WHERE tags INCLUDE ["policy:billing"]
LIMIT 5),
session: (RECALL actions
WHERE session_id = "sess-20260303-priya"
LIMIT 10)
BUDGET 4000 tokens
PRIORITY profile > history > tickets > policy > session
FORMAT sml"""
README_ADD: Final = """CAL/1 ADD reasoning
SET subject = "customer:priya"
SET relation = "dispute_analysis"
SET object = "charge-2026-02-28"
SET content = "Charge matches annual plan renewal on 2026-02-28. Customer last contacted re: plan in Jan. Likely \
unrecognised due to annual cycle."
SET confidence = 0.91
SET tags = ["support:billing", "resolution:explain"]
REASON "agent inferred cause from renewal date and contact history\""""
README_RECALL: Final = """CAL/1 RECALL workflows
WHERE tags INCLUDE ["support:billing"]
AND goal_state = "open"
ORDER BY time DESC
LIMIT 50
FORMAT markdown"""


def examples_on_the_card() -> list[str]:
    """The queries that the card for models shows."""
    lines = [line.strip() for line in prompt_card().splitlines() if line.startswith("  ")]
    return [line for line in lines if "::=" not in line]


# What no text can be refused with: these depend on the store, the token or the host.
RUNTIME_ONLY: Final = frozenset(
    f"CAL-{code}"
    for code in """E031 E040 E041 E042 E043 E044 E045 E046 E052 E075 E076 E079 E080 E081 E082 E085 E089""".split()
)
