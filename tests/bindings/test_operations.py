"""The table of operations: every row fits its verb, and a client may leave out what is a default."""

from __future__ import annotations

import inspect

import pytest

from memoranda.bindings.operations import cal, oams, oms, openwop, ump
from memoranda.bindings.operations.row import Row, function_of, plan_of
from memoranda.encoding.shapes import Shape
from memoranda.library.remote_cal import RemoteCal
from memoranda.library.remote_grains import RemoteGrains
from memoranda.library.remote_oams import RemoteOams
from memoranda.library.remote_openwop import RemoteOpenwop
from memoranda.library.remote_ump import RemoteUmp
from memoranda.library.remote_verbs import RemoteVerb, RemoteVerbs

TABLES: tuple[tuple[tuple[Row, ...], type[RemoteVerbs]], ...] = (
    (ump.OPERATIONS, RemoteUmp),
    (oams.OPERATIONS, RemoteOams),
    (oms.OPERATIONS, RemoteGrains),
    (cal.OPERATIONS, RemoteCal),
    (openwop.OPERATIONS, RemoteOpenwop),
)
ROWS = [row for rows, _ in TABLES for row in rows]
# Called by the row alone, by clients too.
PLAIN = [row for rows, remote in TABLES for row in rows if isinstance(vars(remote).get(row.verb), RemoteVerb)]


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row.name)
def test_a_row_names_a_source_for_every_parameter_that_a_verb_needs(row: Row) -> None:
    plan = plan_of(row, row.asks)
    filled = {name for name, _ in (*plan.path, *plan.headers, *plan.attributes)} | {plan.request}
    needed = [each for each in function_of(row.table, row.verb)[1] if each.default is inspect.Parameter.empty]
    required = {each.name for each in needed if each.kind is not inspect.Parameter.VAR_KEYWORD}
    assert required <= filled


@pytest.mark.parametrize("row", PLAIN, ids=lambda row: row.name)
def test_a_field_of_a_request_has_the_default_of_the_parameter_that_it_fills(row: Row) -> None:
    defaults = {each.name: each.default for each in function_of(row.table, row.verb)[1]}
    for parameter, attribute in plan_of(row, row.asks).attributes:
        default = defaults.get(parameter, inspect.Parameter.empty)
        # None and an empty container leave a part open, as leaving it out does.
        if default not in (inspect.Parameter.empty, None, (), ""):
            assert default_of(row.asks, attribute) == default, parameter


def default_of(shape: type[Shape] | None, attribute: str) -> object:
    assert shape is not None
    fields = {each.name: each for each in inspect.signature(shape).parameters.values()}
    return fields[attribute].default


def test_a_row_for_a_verb_that_there_is_not_is_noticed() -> None:
    with pytest.raises(AttributeError, match="telepathy"):
        plan_of(Row(table="ump", method="GET", path="/x", name="x", summary="", verb="telepathy"), None)
