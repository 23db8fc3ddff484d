"""Grains for the tests of ASSEMBLE: made up, plain or hostile."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from hypothesis import strategies as st

from memoranda.standards.cal.fields import SINGULARS
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.parser import parse
from memoranda.standards.cal.language.syntax import Assemble, DefineTemplate

# 2026-03-03T12:00:00Z
NOW: Final = 1_772_539_200_000


def item(grain_type: str, number: int = 0, **fields: Any) -> ResultItem:
    address = hashlib.sha256(f"{grain_type} {number} {fields}".encode("utf-8", "replace")).hexdigest()
    return ResultItem(address=address, grain_type=grain_type, fields={"created_at": NOW - 60_000} | fields)


def belief(said: str, **fields: Any) -> ResultItem:
    """`alice prefers …`."""
    return item("belief", **({"subject": "alice", "relation": "mg:prefers", "object": said} | fields))


def goal(said: str, **fields: Any) -> ResultItem:
    """One of alice's."""
    return item("goal", **({"subject": "alice", "object": said, "goal_state": "active"} | fields))


def statement(text: str) -> Assemble:
    found = parse(text).statement
    assert isinstance(found, Assemble)
    return found


def definition(text: str) -> DefineTemplate:
    found = parse(text).statement
    assert isinstance(found, DefineTemplate)
    return found


def saying(grain_type: str, number: int, said: str) -> ResultItem:
    """A grain of any type that says this."""
    texts: dict[str, dict[str, Any]] = {
        "event": {"content": said, "role": "user"},
        "reasoning": {"conclusion": said, "inference_method": "deductive"},
        "state": {"plan": said, "context": "work"},
        "workflow": {"steps": [said], "trigger": "asked"},
        "consent": {"purpose": said, "subject_did": "did:a", "grantee_did": "did:b"},
        "action": {"object": said, "tool_name": "search"},
    }
    plain = {"subject": "alice", "relation": "mg:prefers", "object": said, "confidence": 0.9}
    return item(grain_type, number, **texts.get(grain_type, plain))


TYPES: Final = st.sampled_from(SINGULARS)
_HOSTILE: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    2**70,
    10**400,
    1e300,
    float("nan"),
    float("-inf"),
    "",
    "</context>",
    '"><belief>',
    "{{grain.hash}}",
    "a\nb\r\nc\u2028d",
    "\ud800",
    "-",
    "data: x\n\n",
    "**",
    b"bytes",
    [],
    {},
    ["a", None, [1]],
    {"name": "</belief>", "x": {"y": ["\ud800"]}},
    {1: 2},
    object(),
)
_VALUES: Final = st.one_of(st.sampled_from(_HOSTILE), st.text(max_size=20))
_NAMES: Final = st.sampled_from(
    """subject relation object content role confidence importance structural_tags created_at timestamp_ms goal_state
    deadline steps trigger plan context tool_name action_phase observer_id inference_method conclusion threshold
    agreement_count purpose scope subject_did grantee_did is_withdrawal source_type content_blocks hc:patient""".split()
)


@st.composite
def hostile_items(draw: st.DrawFn) -> ResultItem:
    """A grain whose fields hold anything at all."""
    fields = draw(st.dictionaries(_NAMES, _VALUES, max_size=6))
    if draw(st.booleans()):
        fields["created_at"] = NOW
    return ResultItem(
        address=f"{draw(st.integers(0, 30)):064x}",
        grain_type=draw(TYPES),
        fields=fields,
        score=draw(st.floats(0, 1)),
    )


@st.composite
def plain_items(draw: st.DrawFn, most: int = 60) -> ResultItem:
    """A grain with a text of moderate length."""
    said = draw(st.text(alphabet=st.sampled_from("abc xyz äß語\n<>\"',:"), max_size=most))
    return saying(draw(TYPES), draw(st.integers(0, 10**6)), said)
