"""ASSEMBLE after its sources have run: duplicates, budget, detail, text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.standards.cal.grains import NOW, belief, goal, hostile_items, item, plain_items, saying, statement

from memoranda.encoding import json_text
from memoranda.errors import QueryError
from memoranda.standards.cal.assembly.assembly import Assembly, SourceResult, assemble
from memoranda.standards.cal.assembly.pipeline import order_exchanges
from memoranda.standards.cal.fields import SINGULARS
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.words import FORMATS
from memoranda.standards.cal.printing.projection import Level

BARE_TEMPLATE = "TEMPLATE { ELEMENT { - {{grain.content}} } }"
RICH_TEMPLATE = """TEMPLATE {
HEADER { {{budget.used}}/{{budget.total}} {{#each}}{{grain.content}};{{/each}} }
ELEMENT { {{grain.hash}} {{grain.relative_time}} }
ELEMENT_OMIT { more of {{source.label}} }
}"""
TEMPLATES = (BARE_TEMPLATE, RICH_TEMPLATE)


class Marks:
    """Counts nothing but `#`, so that a test can say what a grain costs."""

    name = "marks"

    def count(self, text: str) -> int:
        return text.count("#")


def gathered(*by_source: Sequence[ResultItem]) -> list[SourceResult]:
    return [
        SourceResult(label=f"s{place}", items=tuple(items), total=len(items)) for place, items in enumerate(by_source)
    ]


def query(sources: int, rest: str = "", head: str = "") -> str:
    named = ", ".join(f"s{place}: (RECALL)" for place in range(sources))
    return f"ASSEMBLE {head} FROM {named} {rest}"


def run(sources: Sequence[SourceResult], rest: str = "", head: str = "") -> Assembly:
    return assemble(statement(query(len(sources), rest, head)), sources, now=NOW)


def costing(*by_source: Sequence[int]) -> list[SourceResult]:
    return gathered(
        *(
            [belief(f"{place} of {source} " + "#" * cost) for place, cost in enumerate(costs)]
            for source, costs in enumerate(by_source)
        )
    )


def places(assembly: Assembly) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {source.label: [] for source in assembly.sources}
    for shown in assembly.items:
        found[shown.source].append(int(str(shown.item.fields["object"]).split()[0]))
    return found


def levels(assembly: Assembly) -> list[Level]:
    return [shown.level for shown in assembly.items]


# --- budget -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.2-fill")
@pytest.mark.parametrize(
    ("budget", "costs", "shares"),
    [
        (2000, ([100] * 9, [100] * 3, [100] * 20, [100]), (900, 300, 700, 100)),
        (4000, ([500], [100] * 30, [800], [200], [100] * 15), (500, 1862, 800, 200, 638)),
        (1000, ([100] * 20, [100] * 20), (650, 350)),
    ],
)
def test_sources_get_the_shares_of_the_printed_examples(
    budget: int, costs: Sequence[Sequence[int]], shares: tuple[int, ...]
) -> None:
    asked = statement(query(len(costs), f"BUDGET {budget} tokens FORMAT text"))
    assembly = assemble(asked, costing(*costs), now=NOW, counter=Marks())
    assert tuple(source.allocated for source in assembly.sources) == shares
    assert assembly.document()["assembly"]["budget"]["counter"] == "marks"


@pytest.mark.requirement("CAL-8.2-fill")
def test_a_grain_that_does_not_fit_is_skipped_and_the_rest_offered_again() -> None:
    asked = statement(query(3, "BUDGET 100 tokens FORMAT text"))
    assembly = assemble(asked, costing([30, 30, 60], [20, 5], [10, 10, 10]), now=NOW, counter=Marks())
    assert [source.allocated for source in assembly.sources] == [54, 25, 21]
    assert places(assembly) == {"s0": [0], "s1": [0, 1], "s2": [0, 1, 2]}
    assert assembly.used == 85
    assert [source.truncated for source in assembly.sources] == [True, False, False]


@pytest.mark.requirement("CAL-8.2-budget-in-grains")
def test_a_budget_in_grains_is_exact() -> None:
    assembly = run(costing([1] * 3, [1] * 100, [1] * 100), "BUDGET 10 grains")
    assert [source.allocated for source in assembly.sources] == [3, 5, 2]
    assert [source.grain_count for source in assembly.sources] == [3, 5, 2]
    assert assembly.document()["assembly"]["budget"]["used"] == 10


def test_without_a_budget_there_are_4000_tokens() -> None:
    assembly = run(costing([50] * 500))
    assert assembly.budget.amount == 4000
    assert 0.98 * 4000 < assembly.tokens_used <= 4000


@pytest.mark.requirement("CAL-8.2-priority")
def test_the_output_follows_priority_and_what_it_does_not_name_follows_from() -> None:
    sources = gathered([belief("a")], [belief("b")], [belief("c")])
    assembly = run(sources, "PRIORITY s2 > s1 FORMAT text")
    assert [shown.source for shown in assembly.items] == ["s2", "s1", "s0"]
    assert [source.priority for source in assembly.sources] == [3, 2, 1]
    assert [source.weight for source in assembly.sources] == [0.2, 0.3, 0.5]
    assert assembly.text == "[belief] alice prefers c\n[belief] alice prefers b\n[belief] alice prefers a"


def test_an_envelope_larger_than_the_budget_leaves_nothing() -> None:
    assembly = run(gathered([belief("a")]), "BUDGET 3 tokens", 'FOR "a very long purpose indeed"')
    assert (assembly.text, assembly.items, assembly.tokens_used, assembly.omitted) == ("", (), 0, 1)


def test_a_grain_larger_than_the_budget_is_left_out_and_the_next_one_is_not() -> None:
    assembly = run(gathered([belief("x" * 4000), belief("tea")]), "BUDGET 100 tokens FORMAT sml")
    assert [shown.item.fields["object"] for shown in assembly.items] == ["tea"]
    assert assembly.sources[0].truncated


@pytest.mark.requirement("CAL-8.2-report")
def test_the_answer_reports_what_was_used() -> None:
    sources = [
        SourceResult(label="s0", items=(belief("dark mode", confidence=0.92),), total=7, formatted="[belief] …"),
        SourceResult(label="s1", items=(goal("complete Q1 review"),), total=1),
    ]
    assembly = run(sources, "BUDGET 2000 tokens", 'ctx FOR "helping alice with project"')
    document = assembly.document()
    assert document["formatted_context"] == {
        "format": "sml",
        "text": '<context intent="helping alice with project">\n\n'
        '  <belief subject="alice" confidence="0.92">prefers dark mode</belief>\n\n'
        '  <goal subject="alice" state="active">complete Q1 review</goal>\n\n'
        "</context>",
    }
    used = -(-len(assembly.text) // 4)
    assert document["assembly"] == {
        "name": "ctx",
        "intent": "helping alice with project",
        "source_count": 2,
        "grain_count": 2,
        "budget": {
            "total": 2000,
            "unit": "tokens",
            "used": used,
            "remaining": 2000 - used,
            "utilization": round(used / 2000, 4),
            "counter": "bytes/4",
        },
        "disclosure": {"level": "standard", "full": 0, "standard": 2, "summary": 0, "omitted": 0},
        "sources": [
            {
                "label": "s0",
                "priority": 1,
                "weight": 0.65,
                "allocated": 18,
                "tokens_used": 18,
                "grain_count": 1,
                "total": 7,
                "truncated": False,
                "formatted": "[belief] …",
            },
            {
                "label": "s1",
                "priority": 2,
                "weight": 0.35,
                "allocated": 17,
                "tokens_used": 17,
                "grain_count": 1,
                "total": 1,
                "truncated": False,
            },
        ],
    }


@pytest.mark.parametrize("format_name", ["toon", "json", "yaml"])
def test_a_text_that_names_its_own_size_names_the_right_one(format_name: str) -> None:
    assembly = run(
        gathered([belief(f"tea {number}") for number in range(300)]), f"BUDGET 1000 tokens FORMAT {format_name}"
    )
    if format_name == "json":
        read = json_text.parse(assembly.text)
        assert isinstance(read, dict)
        assert read["tokens"] == {"used": assembly.tokens_used, "total": 1000}
    elif format_name == "yaml":
        assert f"used: {assembly.tokens_used}\n" in assembly.text
    else:
        # The line itself does not count (cal.md, *size line of toon*).
        line, _, rest = assembly.text.partition("\n")
        assert line == f"tokens: {-(-len(rest) // 4)}/1000"


def test_results_of_toon_come_as_its_tables_do() -> None:
    assembly = run(gathered([belief("a"), goal("b")], [belief("c")]), "FORMAT toon")
    assert [shown.item.fields["object"] for shown in assembly.items] == ["a", "c", "b"]


# --- sources that fail --------------------------------------------------------------------------------------


def failing(source: SourceResult) -> SourceResult:
    return replace(source, items=(), error=QueryError("It took too long.", cal_code="CAL-E031"))


@pytest.mark.requirement("CAL-8.2-failures")
def test_the_share_of_a_source_that_failed_goes_to_the_others() -> None:
    first, second, third = costing([100] * 40, [100] * 40, [100] * 40)
    asked = statement(query(3, "BUDGET 1000 tokens FORMAT text"))
    assembly = assemble(asked, [failing(first), second, third], now=NOW, counter=Marks())
    assert [source.allocated for source in assembly.sources] == [0, 600, 400]
    assert assembly.failed == ("s0",)
    error = assembly.document()["assembly"]["sources"][0]["error"]
    assert error == {"code": "CAL-E031", "message": "It took too long."}


def test_when_every_source_failed_there_is_no_text() -> None:
    with pytest.raises(QueryError, match="took too long") as raised:
        run([failing(each) for each in gathered([], [])])
    assert raised.value.cal_code == "CAL-E076"


@pytest.mark.requirement("CAL-11-grain-error")
def test_a_grain_that_cannot_be_formatted_is_skipped_with_a_warning() -> None:
    broken = belief("\ud800")
    assembly = run(gathered([broken, belief("tea")]), "FORMAT text")
    assert assembly.text == "[belief] alice prefers tea"
    assert assembly.omitted == 1
    assert not assembly.sources[0].truncated
    message = f"The grain {broken.hash} of s0 cannot be formatted."
    assert assembly.warnings == ({"code": "CAL-E080", "message": message, "source": "s0"},)


# --- duplicates ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-8.2-dedup")
def test_copies_are_kept_by_the_source_of_the_highest_priority() -> None:
    tea, coffee, of_bob = belief("tea"), belief("coffee"), belief("tea", subject="bob")
    walk = goal("walk")
    sources = gathered([tea, coffee], [belief("juice"), of_bob, walk], [of_bob, walk])
    assembly = run(sources, "FORMAT text WITH dedup(subject)")
    # Both of the first source stay; the goal is no copy of a belief.
    assert [(shown.source, shown.item) for shown in assembly.items] == [
        ("s0", tea),
        ("s0", coffee),
        ("s1", of_bob),
        ("s1", walk),
    ]
    assert assembly.removed == 3
    reversed_ = run(sources, "FORMAT text PRIORITY s2 > s1 > s0 WITH dedup(subject)")
    assert [shown.source for shown in reversed_.items] == ["s2", "s2", "s1"]


@pytest.mark.requirement("CAL-8.2-one-print")
def test_a_memory_of_two_sources_is_printed_once_and_its_tokens_go_to_others() -> None:
    shared = belief("tea " + "#" * 40)
    others = [belief(f"{number} " + "#" * 40) for number in range(4)]
    sources = gathered([shared, *others[:2]], [shared, *others[2:]])
    assembly = run(sources, "FORMAT text")
    assert [(grain.source, grain.item) for grain in assembly.items] == [
        ("s0", shared), ("s0", others[0]), ("s0", others[1]), ("s1", others[2]), ("s1", others[3]),
    ]  # fmt: skip
    assert assembly.removed == 1
    first = run(sources, "FORMAT text PRIORITY s1 > s0")
    assert [grain.source for grain in first.items if grain.item == shared] == ["s1"]
    # Room for four: the second source uses what its copy would have cost.
    assert len({grain.item.address for grain in run(sources, "BUDGET 4 grains").items}) == 4


@pytest.mark.requirement("CAL-8.2-exchanges")
def test_events_of_equal_score_are_read_as_a_conversation() -> None:
    def message(minutes: int, role: str | None, content: str, session: str = "s") -> ResultItem:
        named = {} if role is None else {"role": role}
        at = NOW - minutes * 60_000
        return item("event", minutes, content=content, timestamp_ms=at, session_id=session, **named)

    old_question, old_answer = message(50, "user", "old?"), message(49, "agent", "old!")
    question, first, second = message(9, "user", "new?"), message(8, "agent", "a"), message(7, "tool", "b")
    entry, elsewhere = message(5, None, "a log entry"), message(4, "agent", "elsewhere", "t")
    mixed = [first, entry, old_answer, elsewhere, question, old_question, second]
    assert order_exchanges(mixed) == [elsewhere, entry, question, first, second, old_question, old_answer]
    assert order_exchanges([]) == []


def test_a_grain_without_the_field_is_a_copy_only_of_itself() -> None:
    one, other = item("event", 1, content="hello"), item("event", 2, content="hello")
    assembly = run(gathered([one], [one, other]), "WITH dedup(subject)")
    assert [shown.item for shown in assembly.items] == [one, other]


def test_values_of_any_kind_are_compared() -> None:
    sources = gathered([belief("a", structural_tags=["x", "y"])], [belief("b", structural_tags=["x", "y"])])
    assert run(sources, "WITH dedup(tags)").removed == 1
    assert run(sources, "WITH dedup(object)").removed == 0
    assert run(sources).removed == 0


def test_true_is_no_copy_of_one() -> None:
    assert run(gathered([belief("a", object=True)], [belief("a", object=1)]), "WITH dedup(object)").removed == 0


# --- detail -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-14.3-disclosure")
@pytest.mark.parametrize(
    ("option", "level"),
    [
        ("", "standard"),
        ("(summary)", "summary"),
        ("(headlines)", "standard"),
        ("(standard)", "standard"),
        ("(full)", "full"),
    ],
)
def test_a_level_that_is_asked_for_is_the_level_of_every_grain(option: str, level: Level) -> None:
    rest = f"WITH progressive_disclosure{option}" if option else ""
    assembly = run(gathered([belief("tea", confidence=0.5, source_type="explicit")]), rest)
    assert levels(assembly) == [level]
    assert assembly.level == level
    assert ("confidence" in assembly.text) == (level != "summary")
    assert ("source" in assembly.text) == (level == "full")


def many(count: int) -> list[ResultItem]:
    return [belief(f"tea {number}", confidence=0.5, source_type="explicit") for number in range(count)]


def test_a_small_budget_gets_summaries() -> None:
    assert set(levels(run(gathered(many(9)), "BUDGET 999 tokens WITH progressive_disclosure"))) == {"summary"}
    assert set(levels(run(gathered(many(9)), "BUDGET 1000 tokens WITH progressive_disclosure"))) == {"full"}
    assert set(levels(run(gathered(many(9)), "BUDGET 9 grains WITH progressive_disclosure"))) == {"full"}
    assert set(levels(run(gathered(many(9)), "BUDGET 8 grains WITH progressive_disclosure"))) == {"standard"}


def test_what_does_not_fit_is_tried_as_a_summary_before_it_is_left_out() -> None:
    long = belief("x" * 160, confidence=0.123456789123456)
    sources = gathered([*[belief("x" * 500, confidence=0.5) for _ in range(8)], long])
    short_of_it = f"BUDGET {run(sources).tokens_used - 1} tokens"
    assembly = run(sources, f"{short_of_it} WITH progressive_disclosure")
    assert assembly.level == "standard"
    assert levels(assembly) == ["standard"] * 8 + ["summary"]
    assert assembly.disclosure() == {"level": "standard", "full": 0, "standard": 8, "summary": 1, "omitted": 0}
    assert run(sources, short_of_it).omitted == 1


def test_iso_timestamps_replace_relative_ones() -> None:
    sources = gathered([item("event", content="hello", role="user")])
    assert 'time="1m ago"' in run(sources).text
    assert 'time="2026-03-03T11:59:00Z"' in run(sources, "WITH iso_timestamps").text


# --- toon by itself -----------------------------------------------------------------------------------------


@pytest.mark.requirement("CAL-10.9-auto")
@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("ASSEMBLE FROM s0: (RECALL beliefs) BUDGET 941 tokens", "toon"),
        ("ASSEMBLE FROM s0: (RECALL beliefs) BUDGET 942 tokens", "sml"),
        ("ASSEMBLE FROM s0: (RECALL beliefs | LIMIT 100) BUDGET 4000 tokens", "toon"),
        ("ASSEMBLE FROM s0: (RECALL beliefs RECENT 5) BUDGET 300 tokens", "sml"),
        ("ASSEMBLE FROM s0: (RECALL beliefs | FIRST) BUDGET 20 tokens", None),
        ("ASSEMBLE FROM s0: (RECALL beliefs LIMIT 100) BUDGET 4000 tokens FORMAT sml", "sml"),
        ("ASSEMBLE FROM s0: (RECALL LIMIT 100) BUDGET 4000 tokens", "sml"),
        ("ASSEMBLE FROM s0: (RECALL beliefs LIMIT 200)", "sml"),
        ("ASSEMBLE FROM s0: (RECALL beliefs LIMIT 200) BUDGET 20 grains", "sml"),
    ],
)
def test_toon_is_chosen_under_pressure_if_the_host_likes(text: str, chosen: str | None) -> None:
    if chosen is None:
        with pytest.raises(QueryError):
            statement(text)
        return
    sources = gathered([belief("tea")])
    assembly = assemble(statement(text), sources, now=NOW, auto_toon=True)
    assert assembly.format == chosen
    assert [warning["code"] for warning in assembly.warnings] == (["CAL-W005"] if chosen == "toon" else [])
    assert assemble(statement(text), sources, now=NOW).format == "sml"


# --- laws ---------------------------------------------------------------------------------------------------

SOURCES = st.lists(st.lists(plain_items(), max_size=12), min_size=1, max_size=8)
ANY_FORMAT = st.sampled_from([*FORMATS, *TEMPLATES])
OPTIONS = st.sampled_from(
    [
        "",
        "WITH progressive_disclosure",
        "WITH progressive_disclosure(full)",
        "WITH dedup(subject), progressive_disclosure",
        "WITH iso_timestamps",
    ]
)


@pytest.mark.requirement("CAL-8.2-budget-kept")
@given(by_source=SOURCES, amount=st.integers(1, 1500), format_name=ANY_FORMAT, options=OPTIONS)
def test_the_text_never_has_more_tokens_than_the_budget(
    by_source: list[list[ResultItem]], amount: int, format_name: str, options: str
) -> None:
    sources = gathered(*by_source)
    assembly = run(sources, f"BUDGET {amount} tokens FORMAT {format_name} {options}", 'ctx FOR "tea"')
    used = -(-len(assembly.text.encode()) // 4)
    assert assembly.tokens_used == used <= amount
    if format_name in TEMPLATES:
        assert len(assembly.text) <= 2 * amount
    assert len(assembly.items) + assembly.omitted + assembly.removed == sum(map(len, by_source))
    assert sum(source.allocated for source in assembly.sources) <= amount
    again = run(sources, f"BUDGET {amount} tokens FORMAT {format_name} {options}", 'ctx FOR "tea"')
    assert again == assembly


class Words:
    """Other than bytes: a line is not the sum of its parts."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


class Moody:
    """Nothing that a counter ought to be: more text may be fewer tokens."""

    name = "moody"

    def count(self, text: str) -> int:
        return (len(text) * 7919) % 61


@given(
    by_source=SOURCES,
    amount=st.integers(1, 300),
    format_name=ANY_FORMAT,
    options=OPTIONS,
    counter=st.sampled_from([Words(), Moody()]),
)
def test_the_budget_is_kept_by_any_count(
    by_source: list[list[ResultItem]], amount: int, format_name: str, options: str, counter: Words | Moody
) -> None:
    asked = statement(query(len(by_source), f"BUDGET {amount} tokens FORMAT {format_name} {options}"))
    assembly = assemble(asked, gathered(*by_source), now=NOW, counter=counter)
    assert assembly.tokens_used == counter.count(assembly.text) <= amount or not assembly.text


@given(by_source=SOURCES, amount=st.integers(1, 60), format_name=ANY_FORMAT)
def test_a_budget_in_grains_is_used_up(by_source: list[list[ResultItem]], amount: int, format_name: str) -> None:
    assembly = run(gathered(*by_source), f"BUDGET {amount} grains FORMAT {format_name}")
    addresses = [{grain.address for grain in grains} for grains in by_source]
    # A grain counts in the first source that has it, as often as that source has it.
    taken: set[str] = set()
    available = 0
    for grains, own in zip(by_source, addresses, strict=True):
        available += sum(grain.address not in taken for grain in grains)
        taken |= own
    assert len(assembly.items) == min(amount, available)


@pytest.mark.requirement("CAL-8.2-budget-used")
@settings(max_examples=60)
@given(
    lengths=st.lists(st.lists(st.integers(1, 60), min_size=20, max_size=40), min_size=1, max_size=8),
    amount=st.integers(1500, 5000),
    mixed=st.booleans(),
    format_name=st.sampled_from(FORMATS),
    options=OPTIONS,
)
def test_when_there_is_more_to_say_the_budget_is_used(
    lengths: list[list[int]], amount: int, mixed: bool, format_name: str, options: str
) -> None:
    by_source = [
        [
            saying(SINGULARS[(place if mixed else rank) % 10], 100 * rank + place, "語a"[place % 2] * length)
            for place, length in enumerate(source)
        ]
        for rank, source in enumerate(lengths)
    ]
    assembly = run(gathered(*by_source), f"BUDGET {amount} tokens FORMAT {format_name} {options}")
    assert assembly.tokens_used <= amount
    if assembly.omitted:
        assert assembly.tokens_used >= 0.95 * amount


@given(
    by_source=st.lists(st.lists(hostile_items(), max_size=6), min_size=1, max_size=3),
    budget=st.sampled_from(["BUDGET 200 tokens", "BUDGET 3000 tokens", "BUDGET 5 grains"]),
    format_name=ANY_FORMAT,
    options=OPTIONS,
)
@pytest.mark.requirement("CAL-16-hostile-grains")
def test_grains_that_hold_anything_are_printed_or_skipped(
    by_source: list[list[ResultItem]], budget: str, format_name: str, options: str
) -> None:
    assembly = run(gathered(*by_source), f"{budget} FORMAT {format_name} {options}")
    # Both can be sent: neither has half a surrogate pair, nor a number that JSON has not.
    assert json_text.dump(assembly.document())
    if format_name == "sml":
        assert assembly.text.count("</context>") == 1
        assert assembly.text.count("\n  <") == len(assembly.items)
