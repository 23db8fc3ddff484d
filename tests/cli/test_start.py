"""A command loads what it needs, and nothing else: a person waits for every module. Modules are counted, not time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memoranda.cli import main
from memoranda.cli.command_line import command_line

# Each of these takes longer to load than a store takes to answer.
FOREIGN = (
    "asyncio",
    "email",
    "http",
    "mcp",
    "prompt_toolkit",
    "rich",
    "ruamel",
    "ssl",
    "starlette",
    "subprocess",
    "uvicorn",
    "zstandard",
)
CONSOLIDATION = ("memoranda.consolidation", "memoranda.service.consolidation")
OAMS = ("memoranda.standards.oams", "memoranda.service.oams")
OMS = ("memoranda.standards.oms", "memoranda.service.oms", "cbor2")
OPENWOP = ("memoranda.standards.openwop", "memoranda.service.openwop.openwop")
CAL = ("memoranda.standards.cal.language", "memoranda.standards.cal.assembly", "memoranda.service.cal.cal")
BINDINGS = ("memoranda.bindings",)


def loaded(home: Path, *tokens: str) -> set[str]:
    """The modules that a command loads."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "memoranda", *tokens],
        env={**os.environ, "MEMORANDA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}


def unneeded(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    return {each for each in modules if any(each == name or each.startswith(f"{name}.") for name in packages)}


@pytest.mark.parametrize("tokens", [("--version",), ("--help",)])
def test_what_needs_no_store_loads_neither_it_nor_the_parser(tmp_path: Path, tokens: tuple[str, ...]) -> None:
    modules = loaded(tmp_path, *tokens)
    assert "memoranda.cli" in modules
    assert unneeded(modules, ("cyclopts", "memoranda.app", "memoranda.service", "memoranda.storage", *FOREIGN)) == set()


def test_a_verb_of_one_standard_does_not_load_the_others(tmp_path: Path) -> None:
    others = (*CONSOLIDATION, *OAMS, *OPENWOP, *CAL, *BINDINGS, *FOREIGN, "memoranda.service.oms")
    # What is written is read as a grain, too, so that it can be asked for as one.
    for tokens, more in ((("remember", "use pnpm, never npm"), ()), (("recall", "pnpm"), OMS), (("audit",), OMS)):
        modules = loaded(tmp_path, *tokens)
        assert "memoranda.service.ump.ump" in modules
        assert unneeded(modules, (*others, *more)) == set()


def test_a_query_loads_neither_openwop_nor_consolidation(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "cal", "RECALL beliefs LIMIT 1")
    assert "memoranda.service.cal.cal" in modules
    assert unneeded(modules, (*CONSOLIDATION, *OPENWOP, *BINDINGS, *FOREIGN)) == set()


def test_a_command_is_parsed_without_the_others(tmp_path: Path) -> None:
    command_line.cache_clear()
    assert main(["--data", str(tmp_path), "recall", "pnpm"]) == 0
    assert command_line.cache_info().currsize == 0
    assert main(["--data", str(tmp_path), "recal", "pnpm"]) == 2
    assert command_line.cache_info().currsize == 1
