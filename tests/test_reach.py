"""Nothing in the source is dead, and every requirement is proved on something that an entry point reaches.

Entry points are the command line, what an open store can do (`Memoranda`, `Service`), `memoranda.convert`, and what
`docs/standards` names for use without a store. The servers are reached from the command line.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from memoranda.cli.catalogue import SECTIONS
from memoranda.standards.port import _MODULES
from tests.reach import ROOT, Reach

# Alive for a reason that names cannot tell.
ALLOWED: dict[str, str] = {}
# What a program imports to give the memory to a framework.
ADAPTERS = (
    "memoranda.adapters.langgraph:MemorandaStore",
    "memoranda.adapters.anthropic:MemoryFiles",
    "memoranda.adapters.anthropic:memory_tool",
    "memoranda.adapters.openai_agents:MemorandaSession",
    "memoranda.adapters.autogen:MemorandaMemory",
    "memoranda.adapters.google_adk:MemorandaMemoryService",
    "memoranda.adapters.llamaindex:MemorandaBlock",
    "memoranda.adapters.pydantic_ai:memory_toolset",
)
OPEN_STORE = (
    "memoranda.app:Memoranda",
    "memoranda.aio:AsyncMemoranda",
    "memoranda.library.results:Memory",
    "memoranda.library.results:Hit",
    "memoranda.library.results:Version",
    "memoranda.service.service:Service",
    "memoranda.service.ump.ump:Ump",
    "memoranda.service.oms.oms:Grains",
    "memoranda.service.cal.cal:Cal",
    "memoranda.service.oams.oams:Oams",
    "memoranda.service.openwop.openwop:Openwop",
    # The same over a server.
    "memoranda.library.remote_ump:RemoteUmp",
    "memoranda.library.remote_oams:RemoteOams",
    "memoranda.library.remote_grains:RemoteGrains",
    "memoranda.library.remote_cal:RemoteCal",
    "memoranda.library.remote_openwop:RemoteOpenwop",
    "memoranda.library.remote_openwop:RemoteRunMemory",
    *ADAPTERS,
)
# `module.function` on the page of a standard.
_NAMED = re.compile(r"`(\w+)\.(\w+)`")
_ATTRIBUTE = re.compile(r"\w\.([a-z_]+)")
# Run as programs of their own: `python -m`.
PROGRAMS = ("memoranda.__main__", "memoranda.cli.reference", "memoranda.bindings.files.importers.reference")


@cache
def source() -> Reach:
    """The source, and the tests, which the source never names: what names what is then read once for both."""
    return Reach((ROOT / "src" / "memoranda", "memoranda"), (ROOT / "tests", "tests"))


def entry_points() -> Iterator[str]:
    reach = source()
    yield from (
        "memoranda.cli:main",
        "memoranda:__getattr__",
        "memoranda.app:Memoranda",
        "memoranda.aio:AsyncMemoranda",
        "memoranda.bindings.files.convert:convert",
        "memoranda.standards.port:register_port",
        *ADAPTERS,
    )
    # Ports are imported by name, with the first document of their standard.
    yield from (f"{module}:PORT" for module in _MODULES.values())
    for section in SECTIONS:
        for entry in section.entries:
            yield from filter(None, (entry.target, *(below.target for below in entry.below.values())))
    for each in reach.definitions:
        if each.partition(":")[0] in PROGRAMS:
            yield each
        owner, _, name = each.rpartition(".")
        if owner in OPEN_STORE and not name.startswith("_"):
            yield each
    for page in sorted((ROOT / "docs" / "standards").glob("*.md")):
        for module, name in _NAMED.findall(page.read_text(encoding="utf-8")):
            if found := reach.resolve(f"memoranda.standards.{page.stem}.{module}", name):
                yield found


@cache
def alive() -> frozenset[str]:
    return frozenset(source().reached(entry_points(), _attributes_of_templates()))


def _attributes_of_templates() -> frozenset[str]:
    """The attributes that templates of the console name."""
    templates = (ROOT / "src" / "memoranda" / "bindings" / "console" / "templates").glob("*.html")
    return frozenset(name for page in templates for name in _ATTRIBUTE.findall(page.read_text(encoding="utf-8")))


def test_nothing_in_the_source_is_dead() -> None:
    own = {each for each in source().definitions if each.startswith("memoranda")}
    assert sorted(own - alive() - ALLOWED.keys()) == []


def test_what_is_excused_is_there_and_not_alive_by_itself() -> None:
    assert ALLOWED.keys() <= source().definitions
    assert ALLOWED.keys() & alive() == set()


def test_every_requirement_is_proved_on_something_that_an_entry_point_reaches() -> None:
    hollow = [name for name in sorted(proofs()) if not _touches(source(), name)]
    assert hollow == []


def proofs() -> set[str]:
    """The tests that the tables of requirements name."""
    tables = (ROOT / "tests" / "standards").rglob("requirements.toml")
    listed = [tomllib.loads(table.read_text(encoding="utf-8"))["requirement"] for table in tables]
    return {test for table in listed for requirement in table for test in requirement.get("tests", ())}


def _touches(reach: Reach, test: str) -> bool:
    """Whether a test calls, itself or by its helpers and fixtures, something of the source that is alive."""
    path, _, name = test.partition("::")
    module = ".".join(Path(path).with_suffix("").parts)
    # A test of a contract is a method.
    waiting = {f"{module}:{each}" for each in reach.modules[module].definitions if each.rpartition(".")[2] == name}
    seen: set[str] = set()
    attributes: set[str] = {"__init__"}
    while waiting:
        if waiting & alive():
            return True
        seen |= waiting
        named = [reach.names_of(each) for each in waiting]
        attributes.update(*(each.attributes for each in named))
        if "memoranda" in attributes:
            # It runs the command.
            return True
        called = {f"{each}.{method}" for each in seen for method in attributes}
        asked = {found for each in waiting for found in _fixtures(reach, each)}
        waiting = (asked.union(called, *(each.definitions for each in named)) & reach.definitions) - seen
    return False


def _fixtures(reach: Reach, definition: str) -> Iterator[str]:
    """The fixtures that a function asks for by the names of its parameters: of its module, or of a conftest above."""
    module, _, name = definition.partition(":")
    above = module.split(".")
    places = [module, *(".".join([*above[:count], "conftest"]) for count in range(len(above) - 1, 0, -1))]
    for parameter in _parameters(reach.modules[module].definitions[name]):
        yield from (f"{place}:{parameter}" for place in places if f"{place}:{parameter}" in reach.definitions)


def _parameters(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
