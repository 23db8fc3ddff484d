"""Queries made by the rules of the grammar: every one is valid, and every rule is used."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from memoranda.standards.cal import fields
from memoranda.standards.cal.fields import Field, FieldKind
from memoranda.standards.cal.language import words
from memoranda.standards.cal.language.syntax import (
    Add,
    Assemble,
    AssembleSource,
    Assignment,
    BatchEntry,
    BatchQuery,
    Between,
    Budget,
    Coalesce,
    DefineTemplate,
    Describe,
    Exists,
    Explain,
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
    Revert,
    Sections,
    Select,
    SetOp,
    Stage,
    Statement,
    StreamOptions,
    Subquery,
    Supersede,
    TemplateFormat,
    Thread,
    Value,
    WhereCondition,
)

# Characters that mean something in a query, some that look as if, and letters that NFC leaves alone.
TEXTS: Final = st.text(alphabet=st.sampled_from(list("ab \"\\'{}()[]|,;:$-=<>\n\t.é漢0")), max_size=12)
NAMES: Final = st.sampled_from(["c", "ctx_1", "Team", "policy", "consent", "beliefs", "lambda"])
LABELS: Final = st.sampled_from(["a", "b1", "history", "recent", "policy", "RECALL", "Limit", "as"])
PARAMS: Final = st.builds(Param, name=st.sampled_from(["p", "q1", "limit", "delete", "current_user_id"]))
HASHES: Final = st.builds(Hash, text=st.from_regex(r"sha256:[0-9a-f]{8,64}", fullmatch=True))
HASHES_OR_PARAMS: Final = st.one_of(HASHES, PARAMS)
TEXTS_OR_PARAMS: Final = st.one_of(TEXTS, PARAMS)
INTEGERS: Final = st.integers(-(2**63) + 1, 2**63 - 1)
FRACTIONS: Final = st.sampled_from([0, 1, 0.5, 0.25, 1e-7, 0.1, 0.123456789])
NUMBERS: Final = st.one_of(
    INTEGERS, st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != int(number)), FRACTIONS
)
TIMES: Final = st.sampled_from(["last 7 days", "yesterday", "2026-03-01", "2026", "2026-03-01T10:00:00Z", "1709251200"])
DATES: Final = st.sampled_from(["2026-03-15", "2026-03-15T00:00:00Z", "1709251200"])
COUNTS: Final = st.one_of(st.integers(1, 1000), PARAMS)
VALUES: Final[st.SearchStrategy[Value]] = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.booleans(), PARAMS, HASHES), lambda inner: st.tuples(inner, inner), max_leaves=4
)
TYPES: Final = st.sampled_from([None, *fields.SINGULARS])
EXTRACTED: Final = ("subjects", "objects", "hashes")


def scalars(field: Field) -> st.SearchStrategy[Value]:
    """Values that fit a field."""
    fitting: dict[FieldKind, st.SearchStrategy[Any]] = {
        FieldKind.STRING: TEXTS,
        FieldKind.ADDRESS: st.one_of(TEXTS, HASHES),
        FieldKind.WORD: st.sampled_from(field.words or ("",)),
        FieldKind.FRACTION: FRACTIONS,
        FieldKind.NUMBER: NUMBERS,
        FieldKind.BOOLEAN: st.booleans(),
        FieldKind.ARRAY: st.lists(TEXTS_OR_PARAMS, max_size=3).map(tuple),
        FieldKind.TYPE: st.sampled_from(fields.SINGULARS),
        FieldKind.SINCE: TIMES,
        FieldKind.INSTANT: st.one_of(DATES, INTEGERS),
        FieldKind.HASH: HASHES,
        FieldKind.ANY: VALUES,
    }
    return st.one_of(fitting[field.kind], PARAMS)


@st.composite
def conditions(draw: st.DrawFn, grain_type: str | None, *, depth: int, without: frozenset[str]) -> WhereCondition:
    known = {name: field for name, field in fields.fields_of(grain_type).items() if name not in without}
    name = draw(st.sampled_from([*known, "hc:patient_id", "xx:foo"]))
    field = known.get(name, fields.DOMAIN_FIELD)
    operator = draw(st.sampled_from(sorted(field.operators)))
    value: Any
    if operator == "IS":
        value = draw(st.sampled_from(sorted(words.CATEGORIES)))
    elif operator == "BETWEEN":
        value = draw(st.tuples(TIMES, st.one_of(INTEGERS, PARAMS)))
    elif operator in ("INCLUDE", "EXCLUDE"):
        value = draw(st.lists(TEXTS_OR_PARAMS, max_size=3).map(tuple))
    elif operator == "IN" and depth < 3 and draw(st.booleans()):
        value = Subquery(query=draw(recalls(depth=depth + 1, yields="values")))
    elif operator == "IN":
        value = draw(st.lists(scalars(field), min_size=1, max_size=4).map(tuple))
    else:
        value = draw(scalars(field))
    return WhereCondition(field=name, operator=operator, value=value)


LEVEL_OPTIONS = [Option(name="progressive_disclosure", word=word) for word in (None, "summary", "standard", "full")]


@st.composite
def options(draw: st.DrawFn) -> tuple[Option, ...]:
    known = [
        Option(name="superseded"),
        Option(name="summarize"),
        Option(name="iso_timestamps"),
        Option(name="x_Ef"),
        Option(name="x_ef2", arguments=(200, "a", (True, Param(name="p")))),
        draw(st.sampled_from(LEVEL_OPTIONS)),
        draw(st.sampled_from([
            Option(name="diversity", word="mmr"),
            Option(name="diversity", word="mmr", value=0.3),
            Option(name="diversity", word="threshold", value=0.85),
        ])),
        draw(st.sampled_from([
            Option(name="consistency", word="eventual"),
            Option(name="consistency", word="bounded", value=500),
        ])),
        Option(name="dedup", word="subject"),
        Option(name="locale", value=draw(TEXTS)),
        Option(name="cache", value=draw(st.integers(1, 10**6))),
    ]  # fmt: skip
    return tuple(draw(st.lists(st.sampled_from(known), max_size=3, unique_by=lambda option: option.name)))


@st.composite
def stages(draw: st.DrawFn, grain_type: str | None, *, yields: str, room: int, recent: bool) -> tuple[Stage, ...]:
    known = fields.fields_of(grain_type)
    sortable = sorted(name for name, field in known.items() if field.sortable)
    projectable = sorted(name for name, field in known.items() if field.projectable)
    groupable = sorted(name for name, field in known.items() if field.groupable)
    found: list[Stage] = []
    if not recent:
        order = st.builds(OrderBy, field=st.sampled_from(sortable), descending=st.booleans())
        found += draw(st.lists(st.one_of(order, st.builds(Limit, count=COUNTS)), max_size=1))
    found += draw(st.lists(st.builds(Offset, count=st.one_of(st.integers(0, 50), PARAMS)), max_size=1))
    projected = st.lists(st.sampled_from([*projectable, "x_Dept", "hc:a", "source"]), min_size=1, max_size=3).map(tuple)
    projections = st.one_of(
        st.builds(Project, content=projected, attributes=st.one_of(st.none(), projected)),
        st.builds(Project, attributes=projected),
    )
    found += draw(st.lists(projections, max_size=1))
    found = found[: max(0, room - 1)]
    if yields == "values":
        return (*found, Reduce(to=draw(st.sampled_from(EXTRACTED if grain_type == "belief" else ("hashes",)))))
    if yields == "any" and room:
        found += draw(st.lists(st.one_of(
            st.builds(Reduce, to=st.sampled_from(["count", "first", "hashes"])),
            st.builds(Select, fields=st.lists(st.sampled_from(projectable), min_size=1, max_size=3).map(tuple)),
            st.builds(GroupBy, field=st.sampled_from(groupable)),
        ), max_size=1))  # fmt: skip
    return tuple(found[:room])


@st.composite
def recalls(draw: st.DrawFn, *, depth: int = 0, yields: str = "any") -> Recall:
    grain_type = draw(TYPES)
    my = draw(st.booleans())
    about, like, since, between = (draw(st.booleans()) for _ in range(4))
    like, between = like and not about, between and not since
    recent = draw(st.one_of(st.none(), COUNTS))
    thread = None
    if "session_id" in fields.fields_of(grain_type):
        thread = draw(st.one_of(
            st.none(), st.builds(Thread, session=TEXTS_OR_PARAMS), st.builds(Thread, message=HASHES_OR_PARAMS)
        ))  # fmt: skip
    # Two ways to say the same cannot stand together; one search text is enough.
    without = {"query"} | ({"user_id"} if my else set()) | ({"time"} if since or between else set())
    where = st.lists(conditions(grain_type, depth=depth, without=frozenset(without)), max_size=2 if depth else 4)
    room = 5 - (thread is not None) - 2 * (recent is not None)
    return Recall(
        my=my,
        grain_type=grain_type,
        namespace=draw(st.one_of(st.none(), st.builds(NamespaceFilter, name=TEXTS, scoped=st.booleans()))),
        about=draw(TEXTS_OR_PARAMS) if about else None,
        like=draw(TEXTS_OR_PARAMS) if like else None,
        since=draw(TIMES) if since else None,
        between=Between(low=draw(TIMES), high=draw(INTEGERS)) if between else None,
        thread=thread,
        where=tuple(draw(where)),
        options=draw(options()),
        stages=draw(stages(grain_type, yields=yields, room=room, recent=recent is not None)),
        recent=recent,
        contradictions=draw(st.booleans()),
        format=draw(st.sampled_from([None, *words.FORMATS, *words.PRESETS])),
    )


TEMPLATE_TEXTS: Final = st.one_of(
    st.text(alphabet=st.sampled_from(list('ab <>"\n\t-|é')), max_size=12),
    st.sampled_from(
        ["{{grain.content}}", " {{#grain.confidence}}({ {{grain.confidence}} }){{/grain.confidence}}\n", ""]
    ),
)
SECTIONS: Final = st.builds(
    Sections,
    header=st.one_of(st.none(), TEMPLATE_TEXTS),
    element=TEMPLATE_TEXTS,
    element_summary=st.one_of(st.none(), TEMPLATE_TEXTS),
    footer=st.one_of(st.none(), TEMPLATE_TEXTS),
)


@st.composite
def assemblies(draw: st.DrawFn) -> Assemble:
    labels = draw(st.lists(st.one_of(LABELS), min_size=1, max_size=3, unique=True))
    sources = tuple(AssembleSource(label=label, query=draw(recalls(yields="grains"))) for label in labels)
    if draw(st.booleans()):
        sources = (*sources, AssembleSource(query=draw(recalls(yields="grains"))))
    formats = st.one_of(
        st.none(),
        st.sampled_from(sorted(words.FORMAT_NAMES)),
        st.builds(TemplateFormat, name=NAMES),
        st.builds(TemplateFormat, sections=SECTIONS),
    )
    streams = st.builds(
        StreamOptions,
        options=st.lists(st.sampled_from(words.STREAM_OPTIONS), min_size=1, unique=True).map(tuple),
        chunk_size=st.one_of(st.none(), st.integers(20, 1000)),
    )
    return Assemble(
        sources=sources,
        name=draw(st.one_of(st.none(), NAMES)),
        intent=draw(st.one_of(st.none(), TEXTS)),
        budget=draw(st.one_of(st.none(), st.builds(Budget, amount=st.integers(1, 200), unit=st.just("grains")))),
        priority=tuple(draw(st.permutations(labels)))[: draw(st.integers(0, 3))],
        format=draw(formats),
        stream=draw(st.one_of(st.none(), streams)),
        options=draw(options()),
    )


COALESCES: Final = st.builds(Coalesce, branches=st.lists(recalls(), min_size=2, max_size=3).map(tuple))
_GRAINS: Final = recalls(yields="grains")
SETS: Final = st.recursive(
    _GRAINS,
    lambda inner: st.builds(
        SetOp, operator=st.sampled_from(["union", "intersect", "except"]), left_operand=inner, right_operand=inner
    ),
    max_leaves=4,
).filter(lambda found: isinstance(found, SetOp))
HISTORIES: Final = st.one_of(
    st.builds(History, hash=HASHES_OR_PARAMS, diff=st.one_of(st.none(), HASHES_OR_PARAMS)),
    st.builds(History, subject=TEXTS_OR_PARAMS, relation=TEXTS_OR_PARAMS, as_of=st.one_of(st.none(), TIMES)),
)
DESCRIPTIONS: Final = st.one_of(
    st.builds(Describe, target=st.sampled_from(words.DESCRIBE_TARGETS)),
    st.builds(Describe, target=st.just("fields"), grain_type=st.sampled_from(fields.SINGULARS)),
)
ENTRIES: Final = st.one_of(recalls(), COALESCES, st.builds(Exists, hash=HASHES_OR_PARAMS), HISTORIES, DESCRIPTIONS)
BATCHES: Final = st.lists(
    st.builds(BatchEntry, label=LABELS, query=ENTRIES), min_size=1, max_size=3, unique_by=lambda entry: entry.label
).map(lambda entries: BatchQuery(entries=tuple(entries)))
REASONS: Final = TEXTS.map(lambda text: f"because {text}")


@st.composite
def additions(draw: st.DrawFn) -> Add:
    grain_type = draw(st.sampled_from(sorted(fields.ADDABLE)))
    chosen = {"subject", "relation", "object", *draw(st.sets(st.sampled_from(sorted(fields.ADDABLE[grain_type]))))}
    filled = TEXTS.map(lambda text: f"x{text}")
    assignments = tuple(
        Assignment(field=name, value=draw(filled if name in fields.ADD_REQUIRED else scalars(field)))
        for name, field in fields.SETTABLE.items()
        if name in chosen
    )
    return Add(grain_type=grain_type, assignments=assignments, reason=draw(REASONS))


SUPERSESSIONS: Final = st.builds(
    Supersede,
    hash=HASHES_OR_PARAMS,
    assignments=st.just((Assignment(field="object", value="x"), Assignment(field="confidence", value=0.5))),
    reason=REASONS,
)
EXPLAINABLE: Final[st.SearchStrategy[Any]] = st.one_of(
    recalls(),
    assemblies(),
    SETS,
    st.builds(Exists, hash=HASHES_OR_PARAMS),
    HISTORIES,
    DESCRIPTIONS,
    BATCHES,
    COALESCES,
    additions(),
    SUPERSESSIONS,
    st.builds(Revert, hash=HASHES_OR_PARAMS, reason=REASONS),
    st.builds(DefineTemplate, name=NAMES, sections=SECTIONS, extends=st.sampled_from([None, *words.PRESETS[:3]])),
)
STATEMENTS: Final[st.SearchStrategy[Statement]] = st.one_of(EXPLAINABLE, st.builds(Explain, query=EXPLAINABLE))
LETS: Final = st.lists(
    st.builds(Let, name=st.sampled_from(["team", "l2"]), query=recalls()), max_size=2, unique_by=lambda let: let.name
).map(tuple)
QUERIES: Final = st.builds(ParsedQuery, statement=STATEMENTS, lets=LETS)
