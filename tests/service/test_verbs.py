"""Every verb of every standard is authorised, once, before anything else is looked at."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import memoranda
from memoranda.conformance.openwop import Probes
from memoranda.errors import ForbiddenScope
from memoranda.service.cal.cal import Cal
from memoranda.service.core.access import ALL_VERBS, Access
from memoranda.service.core.verbs import Verb, Verbs
from memoranda.service.oams.oams import Oams
from memoranda.service.oms.oms import Grains
from memoranda.service.openwop.openwop import Openwop
from memoranda.service.ump.ump import Ump
from tests.service.world import World

TABLES: tuple[type[Verbs[Any]], ...] = (Ump, Grains, Oams, Openwop, Probes, Cal)
# These touch no memory: they fill in what a request leaves out, or say what a name stands for.
NEED_NOTHING = {
    (Ump, "with_defaults"),
    # A key that may only write is told the short name of what it wrote.
    (Ump, "short_ids"),
    (Grains, "with_defaults"),
    (Oams, "namespace"),
    # What is done under an idempotency key asks for itself; who is refused leaves no record.
    (Openwop, "claim"),
    (Openwop, "settle"),
}
# These are no caller's: what the server says of itself, what its operator does, what needs no store.
NO_VERBS = {
    (Ump, "capabilities"),
    (Ump, "manifest"),
    (Grains, "rotate_master_key"),
    (Openwop, "discovery"),
    (Openwop, "tick"),
    (Cal, "check"),
}
# What a verb needs can depend on what is asked: writing what a dry run only shows, statements of a query, an approval.
ASKED_WITHIN = {"service/consolidation/dreams.py", "service/cal/cal.py", "service/cal/evolve.py"} | {
    "service/openwop/proposals.py",
    # The verbs of the operator, who belongs to no owner, are in no table of a standard.
    "service/core/tenants.py",
    # Read by the console, which has no table of verbs.
    "service/ump/facets.py",
    "service/ump/browse.py",
    "service/ump/findings.py",
    # To accept a candidate needs more than to revise it; `refile` is of the console, which has no table of verbs.
    "service/ump/revise.py",
}


def all_verbs() -> Iterator[tuple[type[Verbs[Any]], str, Verb[..., Any]]]:
    for table in TABLES:
        for name, verb in vars(table).items():
            if isinstance(verb, Verb):
                yield table, name, verb


def ids(each: object) -> str | None:
    return each.__name__ if isinstance(each, type) else each if isinstance(each, str) else ""


@pytest.mark.parametrize(("table", "name", "verb"), [*all_verbs()], ids=ids)
def test_a_verb_refuses_whoever_lacks_any_scope_that_it_needs(
    world: World, table: type[Verbs[Any]], name: str, verb: Verb[..., Any]
) -> None:
    assert verb.scopes or verb.owner_wide or (table, name) in NEED_NOTHING
    assert set(verb.scopes) <= ALL_VERBS
    for scope in verb.scopes:
        lacking = replace(world.owner, verbs=ALL_VERBS - {scope})
        for call in calls(world, table, name, lacking):
            with pytest.raises(ForbiddenScope) as refused:
                call()
            assert refused.value.scope == scope


@pytest.mark.parametrize(("table", "name", "verb"), [*all_verbs()], ids=ids)
def test_what_belongs_to_an_owner_as_a_whole_is_refused_to_whoever_was_granted_a_part(
    world: World, table: type[Verbs[Any]], name: str, verb: Verb[..., Any]
) -> None:
    for part in (replace(world.owner, is_peer=True), replace(world.owner, limits={"project": "p"})):
        for call in calls(world, table, name, part) if verb.owner_wide else ():
            with pytest.raises(ForbiddenScope, match="limited to a part"):
                call()


def calls(world: World, table: type[Verbs[Any]], name: str, access: Access) -> tuple[Callable[[], Any], ...]:
    """Both ways to call it, without arguments: a refusal comes before anybody could miss them."""
    return partial(getattr(table(world.context, None), name), access), getattr(table(world.context, access), name)


def test_every_public_name_of_a_table_is_a_verb_or_known_to_be_none() -> None:
    for table in TABLES:
        others = {
            name for name, value in vars(table).items() if not name.startswith("_") and not isinstance(value, Verb)
        }
        assert {(table, name) for name in others} <= NO_VERBS


def test_nothing_but_the_tables_asks_for_a_scope_except_where_it_depends_on_what_is_asked() -> None:
    source = Path(memoranda.__file__).parent
    asking = set()
    for path in source.glob("service/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                subject = ast.unparse(node.func.value)
                if node.func.attr in ("require", "require_whole_owner") and subject.endswith("access"):
                    asking.add(path.relative_to(source).as_posix())
    assert asking == ASKED_WITHIN | {"service/core/verbs.py"}


def test_a_bound_verb_is_the_function_it_stands_for(world: World) -> None:
    address = world.as_grain(world.remember("tea")).address
    mine = Grains(world.context, world.owner)
    assert mine.get(address) == world.service.grains.get(world.owner, address)
    assert mine.get is mine.get
    assert mine.get.__doc__ == Grains.get.function.__doc__
