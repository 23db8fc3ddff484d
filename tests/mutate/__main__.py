"""Plant small faults and count those that the tests catch: `make mutate`.

    python -m tests.mutate [--faults 200] [--rooms access importers …] [--seed 1] [--state FILE]

A copy of the tree is changed, never the tree itself. For each room, its tests run once with coverage, so that only
those that run a faulty line run with the fault. A fault is caught if one of them fails, or if they need far more
processor time than without it. The state file keeps every result: a run that was interrupted goes on, and a result is
used again while the module and the room's tests are unchanged. Exit status 1 below 90 %.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.mutate.faults import Fault, find_faults

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = Path("src/memoranda")
# For each room: the modules that get faults, and the tests that matter for them.
ROOMS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "access": (
        ("service/core/access.py",),
        (
            *("tests/service/test_access.py", "tests/service/test_authority.py", "tests/service/test_grants.py"),
            *("tests/service/test_verbs.py", "tests/service/test_oams_access.py", "tests/matrix/test_readers.py"),
            *("tests/bindings/http/test_registration.py", "tests/cli/test_access.py"),
        ),
    ),
    "sessions": (
        ("service/core/sign_in.py",),
        (
            *("tests/service/test_sessions.py", "tests/service/test_grants.py"),
            *("tests/bindings/console/test_console.py", "tests/bindings/http/test_oauth.py"),
            *("tests/bindings/console/test_oidc.py", "tests/bindings/http/test_faults.py"),
        ),
    ),
    "retention": (
        ("service/core/upkeep.py", "service/core/lifecycle.py", "service/core/retention_clock.py"),
        (
            *("tests/proofs/test_retention.py", "tests/service/test_retention_clock.py", "tests/service/test_times.py"),
            *("tests/matrix/test_forgotten.py", "tests/matrix/test_erasure.py", "tests/matrix/test_bounds.py"),
            *("tests/service/test_one_memory.py", "tests/service/test_grains_policy.py"),
            "tests/service/test_cascade.py",
        ),
    ),
    "importers": (("bindings/files/importers/*.py",), ("tests/importers",)),
    "postgres": (
        ("storage/postgres/*.py",),
        (
            *("tests/storage/test_postgres.py", "tests/storage/test_moving.py", "tests/storage/test_migrations.py"),
            *("tests/storage/test_postgres_backup.py", "tests/bindings/http/test_nodes.py"),
        ),
    ),
}
BAR: Final = 0.90
# Tests that run for one fault: the quickest of those that reach its line, up to so many seconds.
_TESTS_LIMIT: Final = 80
_TESTS_SECONDS: Final = 25.0
# Processor seconds that they may take: this many times as long as without a fault, and some more.
_PATIENCE: Final = 10
_STATE: Final = ROOT / "build" / "mutate.json"
_PYTEST: Final = (
    *("-q", "-x", "-p", "no:cacheprovider", "--no-header", "-n", "0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, default=_STATE)
    arguments = parser.parse_args()
    results = Results(arguments.state)
    with copied_tree() as tree:
        _preload()
        count = -(-arguments.faults // len(arguments.rooms))
        for name in arguments.rooms:
            Room(name, tree, results).run(count, random.Random(f"{arguments.seed} {name}"))
    return results.report(arguments.rooms)


class Results:
    """The results of all faults so far, stored in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.coverage: dict[str, Any] = {}
        self.faults: dict[str, dict[str, Any]] = {}
        if path.exists():
            stored = json.loads(path.read_text())
            self.coverage, self.faults = stored["coverage"], stored["faults"]

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({"coverage": self.coverage, "faults": self.faults}, indent=0))
        new.replace(self._path)

    def report(self, rooms: Sequence[str]) -> int:
        """Print the share of caught faults by room, and those that survived; return the exit status."""
        status = 0
        counted = [fault for fault in self.faults.values() if fault["room"] in rooms]
        for room in (*rooms, "all"):
            outcomes = [fault["outcome"] for fault in counted if room in ("all", fault["room"])]
            caught = sum(outcome != "survived" for outcome in outcomes)
            share = caught / len(outcomes) if outcomes else 1.0
            print(f"{room}: {caught} of {len(outcomes)} faults caught ({share:.0%})")
            if room == "all" and share < BAR:
                status = 1
        for fault in sorted(counted, key=lambda each: each["text"]):
            if fault["outcome"] == "survived":
                print("SURVIVED", fault["text"], f"({fault['tests']} tests reach it)")
        return status


class Room:
    """The faults of some modules, and the tests that should catch them."""

    def __init__(self, name: str, tree: Path, results: Results) -> None:
        self._name, self._tree, self._results = name, tree, results
        patterns, self._tests = ROOMS[name]
        folder = tree / SOURCE
        self._modules = sorted(
            path for pattern in patterns for path in folder.glob(pattern) if path.name != "__init__.py"
        )
        self._tests = tuple(test for test in self._tests if (tree / test).exists())

    def run(self, count: int, rng: random.Random) -> None:
        """Plant so many faults, chosen at random, and note which are caught."""
        coverage = self._coverage()
        faults = [
            fault
            for path in self._modules
            for fault in find_faults(path.relative_to(self._tree / SOURCE).as_posix(), path.read_bytes())
        ]
        rng.shuffle(faults)
        for number, fault in enumerate(faults[:count], start=1):
            key = f"{fault.id} {coverage['digest']}"
            if key not in self._results.faults:
                outcome, tests = self._try(fault, coverage)
                self._results.faults[key] = {
                    "room": self._name,
                    "text": str(fault),
                    "outcome": outcome,
                    "tests": tests,
                }
                self._results.save()
            result = self._results.faults[key]
            print(f"{self._name} {number}/{count} {result['outcome']}: {result['text']}", flush=True)

    def _coverage(self) -> Any:
        """Return which tests run which lines, and how long each takes; measured once."""
        files = [*self._modules, *(path for test in self._tests for path in _files(self._tree / test))]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
        known = self._results.coverage.get(self._name)
        if known is None or known["digest"] != digest:
            with tempfile.TemporaryDirectory() as folder:
                target = Path(folder) / "coverage.json"
                modules = [str(path) for path in self._modules]
                status, _ = _fork(lambda: _measure(self._tree, self._tests, modules, target), 100_000)
                if status != 0:
                    print(f"{self._name}: some tests fail without a fault; they are left out", flush=True)
                known = {"digest": digest, **json.loads(target.read_text())}
            self._results.coverage[self._name] = known
            self._results.save()
        return known

    def _try(self, fault: Fault, coverage: Any) -> tuple[str, int]:
        """Run the tests that reach a fault; return what came of it, and their number."""
        by_line = coverage["lines"].get(fault.module, {})
        first, last = fault.statement_lines
        reached = {test for line in range(first, last + 1) for test in by_line.get(str(line), ())}
        seconds: Mapping[str, float] = coverage["seconds"]
        chosen: list[str] = []
        total = 0.0
        for test in sorted(reached, key=lambda name: seconds.get(name, 0.0)):
            if chosen and (total > _TESTS_SECONDS or len(chosen) >= _TESTS_LIMIT):
                break
            chosen.append(test)
            total += seconds.get(test, 0.0)
        if not chosen:
            return "survived", 0
        path = self._tree / SOURCE / fault.module
        source = path.read_bytes()
        try:
            path.write_bytes(fault.apply(source))
            status, is_late = _fork(lambda: _run_tests(self._tree, chosen), int(60 + _PATIENCE * total))
        finally:
            path.write_bytes(source)
        return ("late" if is_late else "survived" if status == 0 else "caught"), len(chosen)


# --- processes -----------------------------------------------------------------------------------------------------


def _preload() -> None:
    """Import what tests use of others, once: every fault gets a process that is forked from this one."""
    for name in ("pytest", "hypothesis", "httpx", "starlette.applications", "uvicorn", "jinja2", "msgspec", "orjson"):
        __import__(name)
    for name in ("apsw", "psycopg", "cryptography.hazmat.primitives.ciphers.aead", "mcp", "numpy", "coverage"):
        with contextlib.suppress(ImportError):
            __import__(name)


def _fork(work: Any, cpu_seconds: int) -> tuple[int, bool]:
    """Run work in a forked process; return its status, and if it was ended because it took too long."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
        try:
            os._exit(int(work()))
        except BaseException:  # noqa: BLE001 -- the parent only needs the status
            os._exit(70)
    # Also a fault that waits for ever is caught: by a limit that only a hang reaches, on a busy machine, too.
    deadline = time.monotonic() + 30 * cpu_seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, 9)
            os.waitpid(child, 0)
            return 1, True
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, 9)  # What its tests left running.
    return (1, True) if os.WIFSIGNALED(status) else (os.waitstatus_to_exitcode(status), False)


def _enter(tree: Path) -> None:
    os.chdir(tree)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("memoranda", "tests")]:
        del sys.modules[name]
    sys.path[:] = [
        str(tree),
        str(tree / "src"),
        *(path for path in sys.path if path not in ("", str(ROOT), str(ROOT / "src"))),
    ]
    os.environ["PYTHONPATH"] = f"{tree / 'src'}{os.pathsep}{tree}"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)


def _run_tests(tree: Path, tests: Sequence[str]) -> int:
    _enter(tree)
    import pytest

    return int(pytest.main([*_PYTEST, *tests]))


def _measure(tree: Path, tests: Sequence[str], modules: Sequence[str], target: Path) -> int:
    """Run tests with coverage, and write which test runs which lines."""
    _enter(tree)
    import coverage
    import pytest

    measuring = coverage.Coverage(data_file=None, include=list(modules), config_file=False)
    seconds: dict[str, float] = {}
    failed: set[str] = set()

    class Contexts:
        """Names the context of coverage after each test."""

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
            measuring.switch_context(item.nodeid)
            begin = time.process_time(), time.monotonic()
            yield
            seconds[item.nodeid] = max(time.process_time() - begin[0], (time.monotonic() - begin[1]) / 4)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.add(report.nodeid)

    measuring.start()
    options = [option for option in _PYTEST if option != "-x"]
    status = int(pytest.main([*options, *tests], plugins=[Contexts()]))
    measuring.stop()
    data = measuring.get_data()
    folder = tree / SOURCE
    lines: dict[str, dict[str, list[str]]] = {}
    for path in data.measured_files():
        by_line = {
            str(line): [test for test in contexts if test and test not in failed]
            for line, contexts in data.contexts_by_lineno(path).items()
        }
        lines[Path(path).resolve().relative_to(folder.resolve()).as_posix()] = by_line
    target.write_text(json.dumps({"lines": lines, "seconds": seconds, "failed": sorted(failed)}))
    return status


@contextlib.contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of the sources and tests, in memory if there is room."""
    folder = Path(tempfile.mkdtemp(prefix="memoranda-mutate-"))
    try:
        for name in ("src", "tests", "bench", "docs", "clients", "tools"):
            ignored = shutil.ignore_patterns("__pycache__", "node_modules", "*.pyc")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
        for name in ("pyproject.toml", "Makefile", "CHANGELOG.md", "README.md"):
            shutil.copy(ROOT / name, folder / name)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("test_*.py"))


if __name__ == "__main__":
    sys.exit(main())
