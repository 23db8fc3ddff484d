"""What a query is once it is read: a closed set of values.

The statements are exactly the twelve of section 8, plus the definition of a template, which is configuration and
touches no grain. Nothing here can express a removal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """`$name`: a value that the caller, a LET or the executor gives."""

    name: str


class Hash(msgspec.Struct, frozen=True, kw_only=True):
    """`sha256:` and 8 to 64 lower-case hexadecimal digits; fewer than 64 are a prefix."""

    text: str


# Python holds True equal to 1, so two queries may be equal and mean different things: key caches by canonical text.
Value: TypeAlias = "str | bool | int | float | Param | Hash | tuple[Value, ...]"
Text: TypeAlias = str | Param
HashOrParam: TypeAlias = Hash | Param
Count: TypeAlias = int | Param


class Subquery(msgspec.Struct, frozen=True, kw_only=True):
    """`IN (RECALL … | SUBJECTS)`."""

    query: Recall


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """`field operator value`. A tuple for IN (unless a subquery) and BETWEEN; a category for IS."""

    field: str
    operator: str
    value: Value | Subquery


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One of WITH: its name, then whichever of word, value and arguments it takes."""

    name: str
    # A level, a method, a consistency, or the field of dedup.
    word: str | None = None
    # lambda, threshold, bound in ms, locale or seconds to live.
    value: Value | None = None
    # Of x_ options.
    arguments: tuple[Value, ...] = ()


class Select(msgspec.Struct, frozen=True, kw_only=True):
    fields: tuple[str, ...]


class OrderBy(msgspec.Struct, frozen=True, kw_only=True):
    field: str
    descending: bool = False


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    count: Count


class Offset(msgspec.Struct, frozen=True, kw_only=True):
    count: Count


class GroupBy(msgspec.Struct, frozen=True, kw_only=True):
    field: str


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """None: not given, so the type's own rule stays."""

    content: tuple[str, ...] | None = None
    attributes: tuple[str, ...] | None = None


class Reduce(msgspec.Struct, frozen=True, kw_only=True):
    """A stage without arguments."""

    to: Literal["count", "first", "subjects", "objects", "hashes"]


Stage: TypeAlias = Select | OrderBy | Limit | Offset | GroupBy | Project | Reduce


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """`IN "ns"` or `IN SCOPE "ns"`; the token's namespace overrides both."""

    name: str
    scoped: bool = False


class Between(msgspec.Struct, frozen=True, kw_only=True):
    low: Value
    high: Value


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A session by its id, or the thread that holds a message."""

    session: Text | None = None
    message: HashOrParam | None = None


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """Section 8.1. Shortcuts are kept as written; see `desugar`."""

    my: bool = False
    # Singular; None: grains of any type.
    grain_type: str | None = None
    namespace: Namespace | None = None
    about: Text | None = None
    like: Text | None = None
    since: Text | None = None
    between: Between | None = None
    thread: Thread | None = None
    where: tuple[Condition, ...] = ()
    options: tuple[Option, ...] = ()
    stages: tuple[Stage, ...] = ()
    recent: Count | None = None
    contradictions: bool = False
    format: str | None = None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Of an ASSEMBLE: a query, or the name of a LET."""

    query: Recall | Param
    label: str | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    amount: int
    unit: Literal["tokens", "grains"]


class Sections(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a template."""

    header: str | None = None
    element: str | None = None
    element_summary: str | None = None
    element_omit: str | None = None
    source_break: str | None = None
    footer: str | None = None


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """`FORMAT TEMPLATE name` or `FORMAT TEMPLATE { … }`."""

    name: str | None = None
    sections: Sections | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    options: tuple[str, ...] = ("all",)
    chunk_size: int | None = None


class Assemble(msgspec.Struct, frozen=True, kw_only=True):
    """Section 8.2."""

    sources: tuple[Source, ...]
    name: str | None = None
    intent: str | None = None
    budget: Budget | None = None
    priority: tuple[str, ...] = ()
    format: str | Template | None = None
    stream: Stream | None = None
    options: tuple[Option, ...] = ()


class SetOp(msgspec.Struct, frozen=True, kw_only=True):
    """`(a) UNION (b)`; a chain leans to the left."""

    operator: Literal["union", "intersect", "except"]
    left_operand: Recall | Coalesce | SetOp
    right_operand: Recall | Coalesce | SetOp


class Exists(msgspec.Struct, frozen=True, kw_only=True):
    hash: HashOrParam


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Of one grain (and its difference to another), or of a subject and relation (as of a time)."""

    hash: HashOrParam | None = None
    diff: HashOrParam | None = None
    namespace: Namespace | None = None
    subject: Text | None = None
    relation: Text | None = None
    as_of: Text | None = None


class Describe(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    grain_type: str | None = None


class Coalesce(msgspec.Struct, frozen=True, kw_only=True):
    branches: tuple[Recall, ...]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    query: Recall | Exists | History | Describe | Coalesce


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[Entry, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """`SET field = value`."""

    field: str
    value: Value


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """Section 8.8: append a grain."""

    grain_type: str
    assignments: tuple[Assignment, ...]
    reason: str


class Supersede(msgspec.Struct, frozen=True, kw_only=True):
    """Section 8.9: append a grain in front of another; both stay."""

    hash: HashOrParam
    assignments: tuple[Assignment, ...]
    reason: str


class Revert(msgspec.Struct, frozen=True, kw_only=True):
    """Section 8.10: append the earlier content again; all three stay."""

    hash: HashOrParam
    reason: str


class Explain(msgspec.Struct, frozen=True, kw_only=True):
    query: Explainable


# Section 8: a closed sum of exactly twelve.
CalStatement: TypeAlias = (
    Recall | Assemble | SetOp | Exists | History | Explain | Describe | Batch | Add | Supersede | Revert | Coalesce
)


class DefineTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of the host, outside the twelve."""

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
    | Batch
    | Add
    | Supersede
    | Revert
    | Coalesce
    | DefineTemplate
)
Statement: TypeAlias = CalStatement | DefineTemplate


def tier_of(statement: Statement) -> Literal[0, 1]:
    """0 reads, 1 appends. Explaining an append reads."""
    return 1 if isinstance(statement, Add | Supersede | Revert) else 0


class Let(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    query: Recall


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One request: the bindings, then one statement."""

    statement: Statement
    lets: tuple[Let, ...] = ()
    # After binding: the query as it was written. Canonical text and hash are of that one.
    original: Query | None = field(default=None, compare=False, repr=False)
