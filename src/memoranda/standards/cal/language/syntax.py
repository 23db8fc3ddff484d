"""The abstract syntax of CAL: a closed set of immutable values, one class per statement and per clause.

The statements are exactly the twelve of section 8, and the definition of a template, which is configuration and
touches no grain. No class here can express a removal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """`$name`: a placeholder whose value comes from the caller, a LET or the executor."""

    name: str


class Hash(msgspec.Struct, frozen=True, kw_only=True):
    """`sha256:` and 8 to 64 lower-case hexadecimal digits; fewer than 64 are a prefix of an address."""

    text: str


# In Python True == 1, so two queries may be equal and mean different things. Use the canonical text as a cache key.
Value: TypeAlias = "str | bool | int | float | Param | Hash | tuple[Value, ...]"
Text: TypeAlias = str | Param
HashOrParam: TypeAlias = Hash | Param
Count: TypeAlias = int | Param


class Subquery(msgspec.Struct, frozen=True, kw_only=True):
    """A query as the operand of IN: `IN (RECALL … | SUBJECTS)`."""

    query: Recall


class WhereCondition(msgspec.Struct, frozen=True, kw_only=True):
    """`field operator value` in WHERE.

    The value is a tuple for IN (unless it is a subquery) and BETWEEN, and the name of a category for IS.
    """

    field: str
    operator: str
    value: Value | Subquery


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of WITH: its name and, depending on the option, a word, a value or arguments."""

    name: str
    # The level, method or consistency that the option names, or the field of dedup.
    word: str | None = None
    # lambda, threshold, staleness bound in milliseconds, locale, or time to live in seconds.
    value: Value | None = None
    # Arguments of vendor options, whose names begin with x_; empty for other options.
    arguments: tuple[Value, ...] = ()


class Select(msgspec.Struct, frozen=True, kw_only=True):
    """`SELECT field, …`: keep only these fields of each grain."""

    fields: tuple[str, ...]


class OrderBy(msgspec.Struct, frozen=True, kw_only=True):
    """`ORDER BY field [ASC | DESC]`."""

    field: str
    descending: bool = False


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """`LIMIT n`: at most n items."""

    count: Count


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    """`OFFSET n`: skip the first n items."""

    count: Count


class GroupBy(msgspec.Struct, frozen=True, kw_only=True):
    """`GROUP BY field`."""

    field: str


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """`PROJECT content(…), attr(…)`: the fields that make up text and attributes of a printed grain.

    None means that the clause is absent and the rule of the grain type applies.
    """

    content: tuple[str, ...] | None = None
    attributes: tuple[str, ...] | None = None


class Reduce(msgspec.Struct, frozen=True, kw_only=True):
    """A stage without arguments: COUNT, FIRST, SUBJECTS, OBJECTS or HASHES."""

    to: Literal["count", "first", "subjects", "objects", "hashes"]


Stage: TypeAlias = Select | OrderBy | Limit | Offset | GroupBy | Project | Reduce


class NamespaceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """`IN "ns"` or `IN SCOPE "ns"`; the namespace of a capability token overrides both."""

    name: str
    scoped: bool = False


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """`BETWEEN low AND high` on the time of a grain."""

    low: Value
    high: Value


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """`THREAD "session"`, or `THREAD FROM hash` for the thread that holds a message."""

    session: Text | None = None
    message: HashOrParam | None = None


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """A RECALL (section 8.1). Shortcuts are kept as written; `desugar` rewrites them."""

    my: bool = False
    # Singular, such as "belief"; None means grains of any type.
    grain_type: str | None = None
    namespace: NamespaceFilter | None = None
    about: Text | None = None
    like: Text | None = None
    since: Text | None = None
    between: Between | None = None
    thread: Thread | None = None
    where: tuple[WhereCondition, ...] = ()
    options: tuple[Option, ...] = ()
    stages: tuple[Stage, ...] = ()
    recent: Count | None = None
    contradictions: bool = False
    format: str | None = None


class AssembleSource(msgspec.Struct, frozen=True, kw_only=True):
    """One source of an ASSEMBLE: a query, or the name of a LET."""

    query: Recall | Param
    label: str | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """`BUDGET n tokens` or `BUDGET n grains`: the size limit of an assembled text."""

    amount: int
    unit: Literal["tokens", "grains"]


class Sections(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a template, one per section; None means that the section is absent."""

    header: str | None = None
    element: str | None = None
    element_summary: str | None = None
    element_omit: str | None = None
    source_break: str | None = None
    footer: str | None = None


class TemplateFormat(msgspec.Struct, frozen=True, kw_only=True):
    """`FORMAT TEMPLATE name` or `FORMAT TEMPLATE { … }`."""

    name: str | None = None
    sections: Sections | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`STREAM { … }`: the kinds of events to send, and the tokens per chunk."""

    options: tuple[str, ...] = ("all",)
    chunk_size: int | None = None


class Assemble(msgspec.Struct, frozen=True, kw_only=True):
    """An ASSEMBLE (section 8.2)."""

    sources: tuple[AssembleSource, ...]
    name: str | None = None
    intent: str | None = None
    budget: Budget | None = None
    priority: tuple[str, ...] = ()
    format: str | TemplateFormat | None = None
    stream: StreamOptions | None = None
    options: tuple[Option, ...] = ()


class SetOp(msgspec.Struct, frozen=True, kw_only=True):
    """`(a) UNION (b)`, INTERSECT or EXCEPT; a chain associates to the left."""

    operator: Literal["union", "intersect", "except"]
    left_operand: Recall | Coalesce | SetOp
    right_operand: Recall | Coalesce | SetOp


class Exists(msgspec.Struct, frozen=True, kw_only=True):
    """`EXISTS hash`."""

    hash: HashOrParam


class History(msgspec.Struct, frozen=True, kw_only=True):
    """`HISTORY hash [DIFF hash]`, or `HISTORY WHERE subject = … AND relation = … [AS OF …]`."""

    hash: HashOrParam | None = None
    diff: HashOrParam | None = None
    namespace: NamespaceFilter | None = None
    subject: Text | None = None
    relation: Text | None = None
    as_of: Text | None = None


class Describe(msgspec.Struct, frozen=True, kw_only=True):
    """`DESCRIBE target [grain type]`."""

    target: str
    grain_type: str | None = None


class Coalesce(msgspec.Struct, frozen=True, kw_only=True):
    """`COALESCE(a, b, …)`: the first branch that has results."""

    branches: tuple[Recall, ...]


class BatchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled query of a BATCH."""

    label: str
    query: Recall | Exists | History | Describe | Coalesce


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`BATCH { label: query, … }`."""

    entries: tuple[BatchEntry, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """`SET field = value`."""

    field: str
    value: Value


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """`ADD type SET … REASON …` (section 8.8): append a grain."""

    grain_type: str
    assignments: tuple[Assignment, ...]
    reason: str


class Supersede(msgspec.Struct, frozen=True, kw_only=True):
    """`SUPERSEDE hash SET … REASON …` (section 8.9): append a newer version of a grain; both stay."""

    hash: HashOrParam
    assignments: tuple[Assignment, ...]
    reason: str


class Revert(msgspec.Struct, frozen=True, kw_only=True):
    """`REVERT hash REASON …` (section 8.10): append the previous content again; all three versions stay."""

    hash: HashOrParam
    reason: str


class Explain(msgspec.Struct, frozen=True, kw_only=True):
    """`EXPLAIN query`: the plan of a query, without running it."""

    query: Explainable


# Section 8 defines exactly these twelve kinds of statement.
CalStatement: TypeAlias = (
    Recall
    | Assemble
    | SetOp
    | Exists
    | History
    | Explain
    | Describe
    | BatchQuery
    | Add
    | Supersede
    | Revert
    | Coalesce
)


class DefineTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """`DEFINE TEMPLATE name …`: configuration of the host, outside the twelve statements."""

    name: str
    sections: Sections
    extends: str | None = None


Explainable: TypeAlias = (
    Recall
    | Assemble
    | SetOp
    | Exists
    | History
    | Describe
    | BatchQuery
    | Add
    | Supersede
    | Revert
    | Coalesce
    | DefineTemplate
)
Statement: TypeAlias = CalStatement | DefineTemplate


def tier_of(statement: Statement) -> Literal[0, 1]:
    """Return the tier of a statement: 0 reads, 1 appends. EXPLAIN of an appending statement reads."""
    return 1 if isinstance(statement, Add | Supersede | Revert) else 0


class Let(msgspec.Struct, frozen=True, kw_only=True):
    """`LET $name = RECALL …;`."""

    name: str
    query: Recall


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """One request: its LET bindings, then one statement."""

    statement: Statement
    lets: tuple[Let, ...] = ()
    # After binding: the query before its parameters were replaced. Canonical text and hash are computed from it.
    original: ParsedQuery | None = field(default=None, compare=False, repr=False)
