"""Precision and recall of the rules that learn from sessions, on labelled turns, and the speed of importing sessions.

The labelled turns are those of `tests/learning`. The rules were changed for one half of them only; `held_out` is the
other half.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.learning.labelled import load_turns, score

from bench.figures import Figures, say
from memoranda import Memoranda
from memoranda.bindings.files.importers.registry import recognise_importer

_TURNS: Final = 200
_LANGUAGES: Final = ("en", "de", "fr", "es", "pt")


def measure_learning(*, quick: bool) -> Figures:
    """Return the quality of the rules, and turns of sessions imported per second of processor time."""
    figures: Figures = {}
    turns = load_turns()
    halves = {"tuned": False, "held_out": True}
    for name, is_held_out in halves.items():
        result = score(turn for turn in turns if turn.is_held_out == is_held_out)
        figures[f"learning.{name}.statements"] = result.total
        figures[f"learning.{name}.precision"] = round(result.precision, 4)
        figures[f"learning.{name}.recall"] = round(result.recall, 4)
    for language in _LANGUAGES:
        result = score(turn for turn in turns if turn.language == language and turn.is_held_out)
        figures[f"learning.{language}.precision"] = round(result.precision, 4)
        figures[f"learning.{language}.recall"] = round(result.recall, 4)
    held_out = figures["learning.held_out.precision"], figures["learning.held_out.recall"]
    say(f"learning: precision {held_out[0]}, recall {held_out[1]} on the half held out of {len(turns)} turns")
    return figures | _measure_import(20 if quick else 1_000)


def _measure_import(sessions: int) -> Figures:
    """Return the speed of a first and of a second import of sessions of 200 turns."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        projects = Path(folder) / "projects"
        for number in range(sessions):
            _write_session(projects / f"-srv-p{number % 20}" / f"s{number}.jsonl", number)
        assert recognise_importer(projects) is not None
        with Memoranda.open(Path(folder) / "home") as memoranda:
            for name in ("first", "second"):
                begin = time.process_time()
                report = memoranda.import_files(projects)
                seconds = time.process_time() - begin
                figures[f"sessions.import.{name}.turns_per_s"] = round(sessions * _TURNS / seconds)
                figures[f"sessions.import.{name}.changed"] = report.created + report.updated
    return figures


def _write_session(path: Path, number: int) -> None:
    """Write a session of Claude Code, with a tool call and its result between each question and answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for turn in range(_TURNS):
            is_person = turn % 2 == 0
            text = (
                f"Step {turn} of session {number}: the {'request' if is_person else 'answer'} about deploy and tests."
            )
            fields = {
                "type": "user" if is_person else "assistant",
                "uuid": f"{number}-{turn}",
                "parentUuid": None,
                "sessionId": path.stem,
                "cwd": f"/srv/p{number % 20}",
                "timestamp": f"2026-01-{number % 28 + 1:02d}T{turn // 60:02d}:{turn % 60:02d}:00.000Z",
            }
            role = "user" if is_person else "assistant"
            file.write(json.dumps({**fields, "message": {"role": role, "content": text}}) + "\n")
            if is_person:
                result = [{"type": "tool_result", "tool_use_id": "t", "content": "output " * 100}]
                tool = {"message": {"role": "user", "content": result}, "uuid": f"{number}-{turn}-tool"}
                file.write(json.dumps({**fields, **tool}) + "\n")
