"""What holds for every test: how Hypothesis asks, that no unit of work holds the writer for long, and that no reader
holds two snapshots.

What a hang costs stands in pyproject.toml (faulthandler_timeout).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from memoranda.cli import COLLECTED_AFTER
from memoranda.storage.sqlite.database import SqliteDatabase
from tests import stores
from tests.reader_nesting import Watch
from tests.writer_time import Probe

# What a property is asked unless it says otherwise; one that starts a store or a server for each example says less.
EXAMPLES: Final = 60

# The same examples at every run, so that a red run is caused by the change at hand and a green one can be had again.
# `make explore` asks new ones, and prints the line that asks a failing one again.
settings.register_profile(
    "same",
    max_examples=EXAMPLES,
    derandomize=True,
    # No clock on the wall: how long an example takes says more about what else the machine does than about us.
    deadline=None,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        # One store, or one server, serves all examples of a property, each in a tenant of its own.
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
    ],
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False, max_examples=10 * EXAMPLES)
settings.load_profile(os.environ.get("MEMORANDA_TEST_EXAMPLES", "same"))

# Whatever is about meaning says so (tests/embedders.py): no other test, and no process that one starts, loads a model.
os.environ.setdefault("MEMORANDA_EMBEDDER", "off")

# Started in the background of a shell, tests ignore Ctrl-C, and so would each process that is to end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

stores.install()

# What is loaded and listed before the first test stays to the end. To look through it for garbage again and again, as
# it is made and while tests run, takes a tenth of the time of all tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()


def pytest_unconfigure() -> None:
    # Python's last look through all that is left, at which msgspec 0.22 crashes now and then, tells nothing of a test.
    gc.freeze()


def _used_postgres() -> set[str]:
    """Return the versions of PostgreSQL that tests of this process used."""
    # Most runs use none, and do not load what starts one.
    module = sys.modules.get("tests.postgres")
    return set() if module is None else module.versions


_POSTGRES_OF_WORKERS: Final[set[str]] = set()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["postgres"] = sorted(_used_postgres())
    else:
        _write_outcomes()


# Test without its parameters → the outcome for the page of conformance (tools/site.py): the worst of all its cases.
_OUTCOMES: Final[dict[str, str]] = {}
_WORST_FIRST: Final = ("failed", "skipped", "passed")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        name = report.nodeid.partition("[")[0]
        outcomes = (_OUTCOMES.get(name, "passed"), report.outcome)
        _OUTCOMES[name] = min(outcomes, key=_WORST_FIRST.index)


def _write_outcomes() -> None:
    """Add the outcomes of this run to those of earlier runs, if a file for them is named."""
    target = os.environ.get("MEMORANDA_OUTCOMES")
    if target is None:
        return
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**earlier, **_OUTCOMES}, indent=0, sort_keys=True), "utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _POSTGRES_OF_WORKERS.update(getattr(node, "workeroutput", {}).get("postgres", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if versions := sorted(_POSTGRES_OF_WORKERS | _used_postgres()):
        terminalreporter.write_line(f"on PostgreSQL {', '.join(versions)}")


@pytest.fixture(scope="session", autouse=True)
def probe() -> Iterator[Probe]:
    probe = Probe()
    probe.install()
    SqliteDatabase.observer = probe
    yield probe
    SqliteDatabase.observer = None
    probe.remove()


@pytest.fixture(autouse=True)
def writer_is_not_held(probe: Probe) -> Iterator[None]:
    probe.slow.clear()
    yield
    slow = [str(held) for held in probe.slow]
    assert not slow, "; ".join(slow)


@pytest.fixture(autouse=stores.ON_POSTGRES)
def stores_are_given_back(tmp_path: Path) -> Iterator[None]:
    yield
    stores.release(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def watch() -> Iterator[Watch]:
    watch = Watch()
    watch.install()
    yield watch
    watch.remove()


@pytest.fixture(autouse=True)
def snapshots_are_not_nested(watch: Watch) -> Iterator[None]:
    watch.nested.clear()
    yield
    assert not watch.nested, "; ".join(dict.fromkeys(watch.nested))
