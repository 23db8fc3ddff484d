"""Consolidation on the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import Command, Ran
from tests.cli.terminal import Terminal
from tests.consolidation.test_model import Endpoint
from tests.forking import put_memoranda

from memoranda.standards.oams.memory import STRATEGIES

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "consolidate.md"
RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CHAIN = "Billing depends on OpenSSL through PostgreSQL"


@pytest.fixture
def filled(run: Command) -> Command:
    for key, value in (("billing", "Billing uses PostgreSQL."), ("postgres", "PostgreSQL requires OpenSSL.")):
        assert run("oams", "store", key, value).code == 0
    return run


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@contextmanager
def terminal(home: Path, *tokens: str) -> Iterator[Terminal]:
    environment = {**os.environ, "MEMORANDA_HOME": str(home)}
    with Terminal([sys.executable, "-m", "memoranda", "consolidate", *tokens], environment) as opened:
        yield opened


def keys(run: Command) -> set[str]:
    return {each["key"] for each in run("oams", "list", "--json").json["memories"]}


def written(run: Command) -> set[str]:
    return {key for key in keys(run) if key.startswith("dream-")}


def test_it_shows_each_result_with_its_reason_and_its_inputs_and_writes_nothing(filled: Command) -> None:
    for extra in ((), ("--dry-run",)):
        ran = filled("consolidate", "--strategy", "insight_generate", *extra)
        assert ran.code == 0
        assert re.fullmatch(
            r"insight_generate: 1 result from 2 memories\n"
            r"  new: dream-insight_generate-[0-9a-f]{24}\n"
            rf"    {CHAIN}: .*\n"
            r"    why: .*\n"
            r"    from postgres: PostgreSQL requires OpenSSL\.\n"
            r"    from billing: Billing uses PostgreSQL\.\n"
            rf"  run {RUN_ID.pattern}\n",
            ran.out,
        ), ran.out
        assert ran.err == ("" if extra else "memoranda: nothing was written; to write it, add --yes\n")
        assert written(filled) == set()


def test_with_yes_it_writes_and_what_it_wrote_can_be_undone_once(filled: Command) -> None:
    ran = filled("consolidate", "--strategy", "insight_generate", "--yes")
    assert (ran.code, ran.err) == (0, "")
    (run_id,) = RUN_ID.findall(ran.out)
    assert len(written(filled)) == 1
    listed = filled("consolidate", "runs")
    assert listed.out.split("\t")[0] == run_id
    assert filled("consolidate", "runs", "--json").json["runs"][0]["can_be_undone"] is True
    again = filled("consolidate", "--strategy", "insight_generate", "--yes")
    assert "  unchanged: " in again.out
    assert filled("consolidate", "undo", run_id) == Ran(0, "1 removed, 0 restored\n", "")
    assert written(filled) == set()
    assert filled("consolidate", "runs") == Ran(0, "", "memoranda: no runs yet\n")
    gone = filled("consolidate", "undo", run_id, "--json")
    assert (gone.code, gone.json["error"]["code"]) == (1, "not_found")


def test_all_strategies_run_one_after_another(filled: Command) -> None:
    answer = filled("consolidate", "--strategy", "all", "--json", "--yes").json
    assert [each["strategy"] for each in answer["runs"]] == list(STRATEGIES)
    assert {each["dry_run"] for each in answer["runs"]} == {False}
    made = [output for each in answer["runs"] for output in each["outputs"]]
    assert {output["memory"]["key"] for output in made} == written(filled)
    assert {tuple(output) for output in made} == {("result", "memory", "inputs")}
    dry = filled("consolidate", "--strategy", "reflect, compress,reflect", "--json")
    assert dry.err == ""
    assert [(each["strategy"], each["dry_run"]) for each in dry.json["runs"]] == [("reflect", True), ("compress", True)]


def test_a_namespace_can_be_named_whole_or_by_its_scope(filled: Command) -> None:
    filled("oams", "store", "--namespace", "work", "one", "The same is said here twice, word for word.")
    filled("oams", "store", "--namespace", "work", "two", "The same is said here twice, word for word.")
    ran = filled("consolidate", "--strategy", "synthesize", "--namespace", "work", "--json", "--yes").json
    (name,) = [each["namespace"] for each in ran["runs"]]
    assert name.endswith(":work")
    assert ran["runs"][0]["written"] == 1
    assert "unchanged" in filled("consolidate", "--strategy", "synthesize", "--namespace", name).out
    nowhere = filled("consolidate", "--strategy", "synthesize", "--namespace", "nowhere")
    assert (nowhere.code, nowhere.out) == (1, "")


def test_limits_are_given_on(filled: Command) -> None:
    for key in ("search", "mail"):
        filled("oams", "store", key, f"{key.capitalize()} uses PostgreSQL.")
    assert filled("consolidate", "--strategy", "insight_generate", "--limit", "2").out.count("  new: ") == 2
    (summary,) = filled("consolidate", "--strategy", "compress", "--budget", "8", "--json").json["runs"][0]["outputs"]
    assert len(summary["memory"]["value"].encode()) <= 32


@pytest.mark.parametrize(
    ("tokens", "code", "said"),
    [
        (("--strategy", "sleepwalk"), 1, "unknown strategy 'sleepwalk'; use one of synthesize, "),
        (("--strategy", "vendor:mine"), 1, "unknown strategy"),
        (("--strategy", ","), 1, "none given"),
        (("--strategy", "\x1b[31mred"), 1, "unknown strategy"),
        (("--strategy", "reflect", "--limit", "0"), 2, "at least 1"),
        (("--strategy", "reflect", "--limit", "100000"), 1, "limit must be at most 1000"),
        (("--strategy", "reflect", "--budget", "1000000"), 1, "budget must be at most"),
        (("--strategy", "reflect", "--yes", "--dry-run"), 1, "give one of them"),
        (("--strategy", "reflect", "--model", "http://127.0.0.1:1/v1"), 1, "give both"),
        (("--strategy", "reflect", "--model-name", "m"), 1, "give both"),
        (("--strategy", "reflect", "--model", "file:///etc/passwd", "--model-name", "m"), 1, "http or https"),
        (("--strategy", "reflect", "--limit", "many"), 2, "--limit"),
        ((), 2, "--strategy"),
        (("undo",), 2, "RUN"),
        (("undo", "nothing"), 1, "no run nothing"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(filled: Command, tokens: tuple[str, ...], code: int, said: str) -> None:
    ran = filled("consolidate", *tokens)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "\x1b" not in ran.err
    assert written(filled) == set()


def test_stored_text_does_not_drive_the_terminal(run: Command) -> None:
    for key in ("\u202eone", "two"):
        run("oams", "store", key, "The very same is said here.\n\x1b]0;title\x07 Twice over, \x1b[31mword for word.")
    ran = run("consolidate", "--strategy", "synthesize,reflect,associate,compress")
    assert ran.code == 0
    assert "from" in ran.out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", ran.out + ran.err)


def test_what_somebody_changed_is_said_to_be_left(filled: Command) -> None:
    run_id = filled("consolidate", "--strategy", "reflect", "--yes", "--json").json["runs"][0]["run_id"]
    filled("oams", "store", "dream-reflect-all", "I know better.")
    assert "  kept (edited since): dream-reflect-all\n" in filled("consolidate", "--strategy", "reflect", "--yes").out
    ran = filled("consolidate", "undo", run_id)
    assert (ran.code, ran.out) == (0, "0 removed, 0 restored\n")
    assert "dream-reflect-all" in ran.err


# --- at a terminal -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), ("y", 0), ("yes", 0)])
def test_at_a_terminal_it_shows_and_asks(filled: Command, home: Path, answer: str, code: int) -> None:
    with terminal(home, "--strategy", "insight_generate,forecast") as opened:
        opened.until("Write 1 memory? [y/N] ")
        assert CHAIN in opened.seen
        opened.press(f"{answer}\r")
        assert opened.wait() == code
        said = "1 written, 0 removed; run " if code == 0 else "nothing was written"
        assert said in opened.seen
    assert len(written(filled)) == (code == 0)


def test_at_a_terminal_nothing_is_asked_when_there_is_nothing_to_write(filled: Command, home: Path) -> None:
    filled("consolidate", "--strategy", "insight_generate", "--yes")
    with terminal(home, "--strategy", "insight_generate") as opened:
        assert opened.wait() == 0
        assert "unchanged" in opened.seen
        assert "[y/N]" not in opened.seen


# --- a language model ----------------------------------------------------------------------------------------


def test_a_model_words_the_results_and_is_asked_once(
    filled: Command, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORANDA_MODEL_KEY", "sesame")
    endpoint.say("It is OpenSSL that billing rests on.")
    asked = ("consolidate", "--strategy", "insight_generate", "--model", endpoint.url, "--model-name", "tiny")
    ran = filled(*asked, "--yes")
    assert "    It is OpenSSL that billing rests on.\n" in ran.out
    assert "from postgres" in ran.out
    ((_, authorization, body),) = endpoint.asked
    assert (authorization, body["model"]) == ("Bearer sesame", "tiny")
    assert "unchanged" in filled(*asked, "--yes").out
    assert len(endpoint.asked) == 1


def test_what_is_shown_at_the_terminal_is_what_is_written(filled: Command, home: Path, endpoint: Endpoint) -> None:
    endpoint.say("It is OpenSSL that billing rests on.")
    asked = ("--strategy", "insight_generate", "--model", endpoint.url, "--model-name", "tiny")
    with terminal(home, *asked) as opened:
        opened.until("[y/N] ")
        endpoint.say("Something else.")
        opened.press("y\r")
        assert opened.wait() == 0
    (key,) = written(filled)
    assert filled("oams", "get", key, "--json").json["memory"]["value"] == "It is OpenSSL that billing rests on."
    assert len(endpoint.asked) == 1


def test_a_model_that_does_not_answer_costs_only_the_wording(filled: Command, endpoint: Endpoint) -> None:
    endpoint.status = 500
    asked = ("--strategy", "insight_generate", "--model", endpoint.url, "--model-name", "tiny", "--yes")
    ran = filled("consolidate", *asked)
    assert (ran.code, CHAIN in ran.out) == (0, True)
    assert ran.err == "memoranda: the model's wording was not used: the model's endpoint answered 500\n"


# --- the page ------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_run_and_print_what_it_shows(tmp_path: Path, home: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (tmp_path / "bin").mkdir()
    put_memoranda(tmp_path / "bin")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "MEMORANDA_HOME": str(home)}
    printed, shown = "", 0
    for kind, block in re.findall(r"```(sh|text)\n(.*?)```", text, flags=re.DOTALL):
        if kind == "text":
            assert RUN_ID.sub("RUN", printed) == block
            shown += 1
            continue
        ran = subprocess.run(
            ["sh", "-eu", "-c", block], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, ""), block
        printed = ran.stdout
    assert shown == 4


def test_the_page_names_every_strategy() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE) == list(STRATEGIES)


def test_the_example_in_python_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORANDA_HOME", str(tmp_path))
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
