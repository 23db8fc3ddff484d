"""Grains for the tests of what is printed, and the printed examples of the specification."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from memoranda.standards.cal.fields import SINGULARS
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.syntax import Project
from memoranda.standards.cal.printing.formats import Element

# 2026-03-03T12:00:00Z
NOW: Final = 1_772_539_200_000
MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
MARCH_15: Final = NOW + 12 * DAY
ADDRESS: Final = "0123456789abcdef" * 4


def item(grain_type: str, /, *, verification: str = "unverified", **fields: Any) -> ResultItem:
    """A grain made just now, unless it says otherwise."""
    return ResultItem(
        address=ADDRESS,
        grain_type=grain_type,
        fields={"type": grain_type, "created_at": NOW, "namespace": "secret-ns", **fields},
        verification=verification,
    )


def belief(relation: str, said: Any, confidence: float = 0.9, subject: str = "alice", **fields: Any) -> ResultItem:
    """A belief about alice."""
    return item("belief", subject=subject, relation=relation, object=said, confidence=confidence, **fields)


def event(role: str, minutes: int, content: str) -> ResultItem:
    """Something said some minutes ago."""
    return item("event", role=role, content=content, timestamp_ms=NOW - minutes * MINUTE)


# The ten types of the worked example, as OMS stores them.
TEN: Final = [
    belief("mg:prefers", "dark mode in all tools", 0.95),
    belief("mg:requires", "keyboard shortcuts for productivity", 0.88),
    belief("works_best_in", "deep-focus blocks of 90 minutes", 0.82),
    item(
        "goal",
        subject="alice",
        description="complete Q1 engineering review presentation",
        goal_state="active",
        deadline=MARCH_15,
    ),
    item("goal", subject="alice", object="reduce P0 incident rate by 20% in Q2", goal_state="active"),
    event("user", 10, "Can you help me pull together the Q1 metrics?"),
    event("assistant", 10, "Sure — retrieving deployment counts, incident data, and velocity now."),
    event("user", 8, "Focus on the reliability numbers first."),
    item("action", tool_name="query_metrics", content="retrieved 47 deployments and 3 P0 incidents for Q1 2026"),
    item(
        "action",
        tool_name="search_docs",
        action_phase="complete",
        object="found Q1 review template in confluence/engineering/reviews",
    ),
    item(
        "observation",
        observer_id="system",
        observer_type="system",
        object="alice opened incident-dashboard at 09:14 UTC",
    ),
    # The example prints source="calendar" here, which no rule of this level gives.
    item(
        "observation",
        observer_id="system",
        observer_type="system",
        content="Q1 review presentation scheduled for 2026-03-15 14:00 UTC",
    ),
    item(
        "reasoning",
        inference_method="deductive",
        conclusion="alice is prioritising reliability given 3 P0 incidents; lead with incident reduction narrative",
    ),
    item(
        "reasoning",
        inference_method="abductive",
        conclusion="low velocity in week 8 likely caused by the infra migration; flag as contextual outlier",
    ),
    item(
        "state",
        context={"name": "q1_review_prep"},
        plan="outlining slides: 1. headline metrics  2. incident retrospective  3. velocity trend  4. Q2 goals",
    ),
    item(
        "workflow",
        trigger="review_prep_requested",
        steps=[
            "retrieve Q1 metrics",
            "identify narrative arc",
            "draft slide outline",
            "populate data",
            "send for review by 2026-03-14",
        ],
    ),
    item(
        "consensus",
        threshold=3,
        agreement_count=4,
        agreed_content="Q1 deployment frequency improved 18% over Q4 2025",
    ),
    item(
        "consent",
        subject_did="alice",
        grantee_did="agent",
        is_withdrawal=False,
        scope=["metrics"],
        purpose="access engineering metrics dashboards for review preparation",
    ),
]
TEN_SML: Final = """\
<context intent="helping alice prepare her Q1 engineering review">

  <belief subject="alice" confidence="0.95">prefers dark mode in all tools</belief>
  <belief subject="alice" confidence="0.88">requires keyboard shortcuts for productivity</belief>
  <belief subject="alice" confidence="0.82">works best in deep-focus blocks of 90 minutes</belief>

  <goal subject="alice" state="active" deadline="2026-03-15">complete Q1 engineering review presentation</goal>
  <goal subject="alice" state="active">reduce P0 incident rate by 20% in Q2</goal>

  <event role="user" time="10m ago">Can you help me pull together the Q1 metrics?</event>
  <event role="assistant" time="10m ago">Sure — retrieving deployment counts, incident data, and velocity now.</event>
  <event role="user" time="8m ago">Focus on the reliability numbers first.</event>

  <action tool="query_metrics" phase="completed">retrieved 47 deployments and 3 P0 incidents for Q1 2026</action>
  <action tool="search_docs" phase="completed">found Q1 review template in confluence/engineering/reviews</action>

  <observation observer="system">alice opened incident-dashboard at 09:14 UTC</observation>
  <observation observer="system">Q1 review presentation scheduled for 2026-03-15 14:00 UTC</observation>

  <reasoning type="deductive">alice is prioritising reliability given 3 P0 incidents; lead with incident reduction \
narrative</reasoning>
  <reasoning type="abductive">low velocity in week 8 likely caused by the infra migration; flag as contextual \
outlier</reasoning>

  <state context="q1_review_prep">outlining slides: 1. headline metrics  2. incident retrospective  3. velocity trend  \
4. Q2 goals</state>

  <workflow trigger="review_prep_requested">1. retrieve Q1 metrics  2. identify narrative arc  3. draft slide outline  \
4. populate data  5. send for review by 2026-03-14</workflow>

  <consensus threshold="3" count="4">Q1 deployment frequency improved 18% over Q4 2025</consensus>

  <consent action="granted" grantor="alice" grantee="agent">access engineering metrics dashboards for review \
preparation</consent>

</context>"""

# --- anything at all, for properties -------------------------------------------------------------------------

_NASTY: Final = st.sampled_from(
    [
        "</belief>\n<belief>",
        "\n</context>\n\n<context>",
        "\n- forged",
        "\n[goal] forged",
        "\n  a,b,c",
        "\nbeliefs[9]{a}:",
        '","',
        '"',
        "\\",
        "-",
        "true",
        "0.90",
        "\r",
        "\x85",
        "\u2028",
        "\x0b",
        "\x00",
        ": ",
        " #",
        "",
        "no",
        "2026-03-03",
        ADDRESS,
    ]
)
TEXTS: Final = st.lists(st.one_of(st.text(max_size=8), _NASTY), max_size=4).map("".join)
ANYTHING: Final[st.SearchStrategy[Any]] = st.recursive(
    st.one_of(
        TEXTS,
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([2**63, -(2**64), 2**2000, float("nan"), float("-inf"), -0.0, 1e300, 5e-324]),
        st.floats(),
        st.binary(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(TEXTS, st.integers(), st.none()), inner, max_size=3),
        st.tuples(inner),
    ),
    max_leaves=5,
)
_NAMES: Final = """subject relation object content confidence role goal_state deadline description tool_name
    action_phase error stdout input tool_description observer_id conclusion inference_method plan context steps trigger
    agreed_content threshold agreement_count purpose scope is_withdrawal subject_did grantee_did source_type importance
    structural_tags timestamp_ms created_at content_blocks author_did assigned_agent hc:code x_note""".split()
ITEMS: Final = st.builds(
    lambda grain_type, fields, verification: ResultItem(
        address=ADDRESS, grain_type=grain_type, fields=fields, verification=verification
    ),
    st.sampled_from(SINGULARS),
    st.dictionaries(st.sampled_from(_NAMES), ANYTHING, max_size=8),
    st.sampled_from(["unverified", "verified", "contested"]),
)
_PROJECTED: Final = """subject relation object content confidence tags time observed source type hash score importance
    contradicted verification_status user_id role state tool phase observer context trigger action grantor deadline
    expires_at scope premises depends_on hc:code x_note memoranda:native""".split()
_LISTS: Final = st.none() | st.lists(st.sampled_from(_PROJECTED), min_size=1, max_size=4).map(tuple)
SHAPES: Final = st.builds(Project, content=_LISTS, attributes=_LISTS)
ELEMENTS: Final = st.lists(
    st.builds(
        Element,
        ITEMS,
        st.sampled_from(["summary", "standard", "full"]),
        st.sampled_from(["", "a", "b"]),
        st.none() | SHAPES,
    ),
    max_size=5,
)
