"""Functions and files of ours that six acts touch: `python -m tests.walks` prints the counts, `--steps` each function.

Each act is done twice and the second time is listed, so that what is built once in a process does not count.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import memoranda
from memoranda.model.instant import DAY_MS
from tests.service.wop import REF, Wop

_SOURCE = str(Path(memoranda.__file__).parent) + os.sep


class Walk:
    """The functions called while it is `open`, in any thread."""

    def __init__(self) -> None:
        self._known: set[CodeType] = set()
        self.steps: list[tuple[str, str]] = []

    @contextmanager
    def open(self) -> Iterator[None]:
        threading.setprofile(self._call)
        sys.setprofile(self._call)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def clear(self) -> None:
        self._known.clear()
        self.steps.clear()

    def _call(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._known or not code.co_filename.startswith(_SOURCE):
            return
        self._known.add(code)
        name = code.co_qualname.replace(".<locals>", "")
        if not code.co_name.startswith("<"):
            module = code.co_filename.removeprefix(_SOURCE).removesuffix(".py").replace(os.sep, ".")
            self.steps.append((module, name))


def walks() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each act by its name, with its steps."""
    walk = Walk()
    with walk.open():
        # Threads that are started from here on are walked, too: the writer's.
        wop = Wop()
        try:
            for title, act in _acts(wop):
                act()
                walk.clear()
                act()
                yield title, list(walk.steps)
        finally:
            wop.close()


def _acts(wop: Wop) -> Iterator[tuple[str, Callable[[], object]]]:
    number = itertools.count()
    for _ in range(20):
        wop.remember(f"use pnpm {next(number)}, never npm")
    wop.put(subject="alice", relation="prefers", object="tea")
    yield "remember (UMP)", lambda: wop.remember(f"fresh note {next(number)}")
    yield "recall (UMP)", lambda: wop.recall("which npm?")
    query = (
        'ASSEMBLE FOR "helping alice" FROM known: (RECALL beliefs ABOUT "alice"), plans: (RECALL goals) '
        "BUDGET 2000 tokens FORMAT sml"
    )
    yield "ASSEMBLE (CAL)", lambda: wop.service.cal.run(wop.owner, query)
    place = str(wop.service.oams.namespace(wop.owner))
    stored = {"namespace": place, "value": "green, no sugar", "tags": ["Drinks"]}
    yield "STORE (OAMS)", lambda: wop.service.oams.store(wop.owner, {**stored, "key": f"k{next(number)}"})
    wop.write("Remind me every day at 8:00 to water the orchids.")
    wop.wop.infer_commitments(wop.owner, REF)

    def fire() -> None:
        wop.advance(DAY_MS)
        assert wop.wop.tick() == 1

    yield "a commitment fires (openwop)", fire
    names = [wop.remember(f"to be forgotten {next(number)}") for _ in range(2)]
    yield "hard forget (UMP)", lambda: wop.forget(names.pop(), hard=True)


def main() -> None:
    """Print how many functions and files each act touches."""
    for title, steps in walks():
        files = dict.fromkeys(module for module, _ in steps)
        print(f"{title}: {len(steps)} functions in {len(files)} files")
        if "--steps" in sys.argv:
            for module, group in itertools.groupby(steps, key=lambda step: step[0]):
                print(f"  {module}: {', '.join(name for _, name in group)}")


if __name__ == "__main__":
    main()
