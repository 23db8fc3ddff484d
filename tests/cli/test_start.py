"""A command loads what it needs, and nothing else: a person waits for every module. Modules are counted, not time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.waiting import HANG_SECONDS

from memoranda.cli import main
from memoranda.encoding.json_text import parse

# Each of these takes longer to load than a store takes to answer.
FOREIGN = (
    "asyncio",
    "attr",
    "email",
    "http",
    "mcp",
    "prompt_toolkit",
    "ruamel",
    "ssl",
    "starlette",
    "subprocess",
    "uvicorn",
    "backports.zstd",
)
CONSOLIDATION = ("memoranda.consolidation", "memoranda.service.consolidation")
OAMS = ("memoranda.standards.oams", "memoranda.service.oams")
OMS = ("memoranda.standards.oms", "memoranda.service.oms")
OPENWOP = ("memoranda.standards.openwop", "memoranda.service.openwop.openwop")
CAL = ("memoranda.standards.cal.language", "memoranda.standards.cal.assembly", "memoranda.service.cal.cal")
BINDINGS = ("memoranda.bindings",)
# The rules of grains hold for every memory. They are small, and need neither the codec nor its libraries.
RULES_OF_OMS = {"memoranda.standards.oms"} | {
    f"memoranda.standards.oms.{name}" for name in ("policy", "profile", "registry")
}


def loaded(home: Path, *tokens: str, code: int | None = 0) -> set[str]:
    """The modules that a command loads, which ends with this code; None for whichever."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "memoranda", *tokens],
        env={**os.environ, "MEMORANDA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert code is None or ran.returncode == code
    return named_in(ran.stderr)


def named_in(log: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}


def unneeded(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    return {each for each in modules if any(each == name or each.startswith(f"{name}.") for name in packages)}


@pytest.mark.parametrize("tokens", [("--version",), ("--help",)])
def test_what_needs_no_store_loads_neither_it_nor_the_parser(tmp_path: Path, tokens: tuple[str, ...]) -> None:
    modules = loaded(tmp_path, *tokens)
    assert "memoranda.cli" in modules
    assert unneeded(modules, ("memoranda.app", "memoranda.service", "memoranda.storage", *FOREIGN)) == set()


def test_a_verb_of_one_standard_does_not_load_the_others(tmp_path: Path) -> None:
    others = (*CONSOLIDATION, *OAMS, *OPENWOP, *CAL, *BINDINGS, *FOREIGN, "memoranda.service.oms")
    # What is written is read as a grain, too, so that it can be asked for as one.
    times = ("memoranda.time_words",)
    for tokens, more in (
        # It searches for memories that the new one may replace, and their times.
        (("remember", "use pnpm, never npm"), ()),
        (("recall", "pnpm"), OMS),
        (("audit",), (*OMS, *times)),
    ):
        modules = loaded(tmp_path, *tokens)
        assert "memoranda.service.ump.ump" in modules
        assert unneeded(modules, (*others, *more)) <= RULES_OF_OMS


@pytest.mark.parametrize(
    "tokens",
    [
        ("list",),
        ("stats",),
        ("audit",),
        ("rules",),
        ("history", "urn:ump:aa"),
        ("get", "urn:ump:aa"),
        ("forget", "urn:ump:aa"),
        ("oams", "list"),
        ("oms", "get", "0" * 64),
        ("openwop", "list", "mem://a"),
        ("hook", "session-start"),
        ("config",),
        ("connect", "--dry-run"),
    ],
    ids=" ".join,
)
def test_what_looks_for_nothing_by_words_loads_neither_the_parser_nor_what_ranks(
    tmp_path: Path, tokens: tuple[str, ...]
) -> None:
    modules = loaded(tmp_path, *tokens, code=None)
    assert "memoranda.cli.parser" in modules
    assert unneeded(modules, ("attr", "starlette", "mcp", "pydantic", "numpy", "onnxruntime")) == set()


@pytest.mark.parametrize("tokens", [("oams", "list"), ("openwop", "list", "mem://a")], ids=" ".join)
def test_who_only_lists_loads_nothing_that_reads_texts_closely(tmp_path: Path, tokens: tuple[str, ...]) -> None:
    readers = [f"memoranda.consolidation.{name}" for name in ("commitments", "habits", "text.claims", "text.corpus")]
    assert unneeded(loaded(tmp_path, *tokens, code=None), tuple(readers)) == set()


@pytest.mark.parametrize("question", ["what tea", '"green tea"', "When did Ann drink tea?"])
def test_a_question_loads_only_that_part_of_numpy_which_every_array_needs(tmp_path: Path, question: str) -> None:
    loaded(tmp_path, "remember", "I like green tea in the morning, Ann said", "--about", "Ann")
    modules = loaded(tmp_path, "recall", question)
    assert "memoranda.retrieval.ranking" in modules
    parts = ("ctypeslib", "f2py", "fft", "ma", "polynomial", "random", "testing")
    assert unneeded(modules, tuple(f"numpy.{part}" for part in parts)) == set()


def test_a_query_loads_neither_openwop_nor_consolidation(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "cal", "RECALL beliefs LIMIT 1")
    assert "memoranda.service.cal.cal" in modules
    assert unneeded(modules, (*CONSOLIDATION, *OPENWOP, *BINDINGS, *FOREIGN)) == set()


def test_who_serves_an_agent_loads_what_answers_a_query_or_a_question_when_it_is_asked(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "mcp")
    assert "memoranda.bindings.mcp.cal_tools" in modules
    asked = ("memoranda.service.cal.cal", "memoranda.standards.cal.grammar", "memoranda.standards.cal.assembly")
    assert unneeded(modules, (*asked, "memoranda.retrieval.ranking", "numpy", "onnxruntime")) == set()


def test_a_command_is_parsed_without_the_others(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "get", "urn:ump:aa", code=1)
    assert unneeded(modules, ("memoranda.cli.help", "memoranda.cli.export", "memoranda.cli.serve", "difflib")) == set()
    assert "memoranda.cli.help" in loaded(tmp_path, "get", "--help")


def test_a_server_loads_mcp_when_it_is_first_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "imports"
    tokens = ["--json", "--data", str(tmp_path / "home"), "serve", "--port", "0"]
    command = [sys.executable, "-X", "importtime", "-m", "memoranda", *tokens]
    with log.open("w") as err, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err) as process:
        try:
            assert process.stdout is not None
            said = parse(process.stdout.readline())
            assert unneeded(named_in(log.read_text()), ("mcp", "mcp_types", "pydantic")) == set()
            bearer = {"Authorization": f"Bearer {Path(said['credential']).read_text().strip()}"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            accept = {"accept": "application/json, text/event-stream"}
            answer = httpx.post(said["mcp"], json=asked, headers={**bearer, **accept}, timeout=HANG_SECONDS)
            assert answer.status_code == 200
            assert "mcp" in named_in(log.read_text())
        finally:
            process.terminate()
        assert process.wait(HANG_SECONDS) == 0


@pytest.mark.parametrize("tools", ["ump_recal", "recall,telepathy"])
def test_a_server_that_is_to_offer_tools_that_there_are_not_does_not_start(
    tmp_path: Path, tools: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_MCP_TOOLS", tools)
    assert main(["--data", str(tmp_path), "serve", "--port", "0"]) == 1
    assert "there is no" in capsys.readouterr().err
