"""What is logged: lines for people or programs, with the request they belong to, and without what it was about."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.http.running import draft, running

from memoranda.cli.logs import set_up
from memoranda.cli.show import note
from memoranda.measures import REQUEST_ID

SECRET = "the zebra's own words"


Written = Callable[[], str]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """What goes to standard error, with the logging of this process put back afterwards."""
    changed = [logging.getLogger(name) for name in ("", "memoranda.requests", "httpx")]
    before, levels = changed[0].handlers[:], [each.level for each in changed]
    # The client of the tests says what it asks for.
    changed[-1].setLevel(logging.WARNING)
    hooks = threading.excepthook, sys.unraisablehook
    yield lambda: capsys.readouterr().err
    threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(False)
    changed[0].handlers[:] = before
    for each, level in zip(changed, levels, strict=True):
        each.setLevel(level)


def log(level: str, **how: Any) -> None:
    """As a command that begins: nobody has set anything up before."""
    logging.getLogger().handlers[:] = []
    set_up(level, **how)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def fail() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise ValueError(f"cannot read {SECRET!r}") from error


@pytest.mark.parametrize("form", ["text", "json"])
def test_of_an_unexpected_error_the_kind_and_the_place_are_logged(form: str, written: Written) -> None:
    log("info", form=form)
    token = REQUEST_ID.set("r-1")
    try:
        fail()
    except ValueError:
        logging.getLogger("memoranda.test").exception("unexpected failure")
    finally:
        REQUEST_ID.reset(token)
    text = written()
    assert "ValueError" in text
    assert "because of" in text
    assert "in fail" in text
    assert SECRET not in text
    if form == "json":
        (line,) = lines(text)
        assert (line["level"], line["logger"], line["request"]) == ("error", "memoranda.test", "r-1")
        assert line["error"] == "ValueError"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line["time"]))
    else:
        assert text.splitlines()[0].endswith("ERROR memoranda.test: unexpected failure [r-1]")


class _Broken:
    def __del__(self) -> None:
        fail()


def test_what_python_would_print_is_a_line_of_the_log(written: Written) -> None:
    log("warning", form="json")
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    _Broken()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an old way", DeprecationWarning, stacklevel=1)
    text = written()
    assert [line["logger"] for line in lines(text)] == ["memoranda", "memoranda", "py.warnings"]
    assert [line.get("error") for line in lines(text)] == ["ValueError", "ValueError", None]
    assert SECRET not in text


def test_a_note_for_a_person_is_a_line_of_a_json_log_whatever_its_level(written: Written) -> None:
    log("error", form="json")
    note("listening on 0.0.0.0")
    (line,) = lines(written())
    assert (line["level"], line["message"]) == ("warning", "listening on 0.0.0.0")
    log("error", form="text")
    note("listening on 0.0.0.0")
    assert written() == "memoranda: listening on 0.0.0.0\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_library_is_logged_by_its_place_and_never_by_its_message(form: str, written: Written) -> None:
    for level, names in (("info", ["warning"]), ("debug", ["debug", "info", "warning"])):
        log(level, form=form)
        for library in ("mcp.server", "sse_starlette.sse", "anything"):
            for how in ("debug", "info", "warning"):
                getattr(logging.getLogger(library), how)(f"chunk: {SECRET} %s", SECRET)
        try:
            fail()
        except ValueError:
            logging.getLogger("memoranda.test").exception("unexpected failure")
            logging.getLogger("anything").exception(SECRET)
        text = written()
        assert SECRET not in text
        assert text.count("because of") == 2
        assert text.count("sse_starlette.sse") == len(names)
        assert text.count("in test_logs.py, line") == 3 * len(names) + 1


def test_each_request_is_a_line_without_what_it_was_about(written: Written, tmp_path: Path) -> None:
    log("info", form="json", requests=True)
    with running(tmp_path) as server, server.client() as client:
        client.post("/ump/remember", json=draft(SECRET), headers={"X-Request-Id": "mine"})
        client.post("/ump/recall", json={"query": SECRET})
        client.get("/ump/memory/urn:ump:zebra", params={"zebra": SECRET})
    text = written()
    found = [line for line in lines(text) if line["logger"] == "memoranda.requests"]
    assert [(line["standard"], line["operation"], line["status"]) for line in found] == [
        ("ump", "remember", 200),
        ("ump", "recall", 200),
        ("ump", "get", 400),
    ]
    assert found[0]["request"] == "mine"
    assert all(isinstance(line["ms"], float) for line in found)
    assert "zebra" not in text
    assert server.token not in text


def test_a_failure_inside_is_logged_under_the_id_of_its_request(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object) -> None:
        raise RuntimeError(SECRET)

    log("info", form="json")
    with running(tmp_path) as server, server.client() as client:
        monkeypatch.setattr(type(server.service.context.engine), "open_snapshot", broken)
        answer = client.get("/ump/memory/urn:ump:zebra", headers={"X-Request-Id": "r-2"})
        assert answer.status_code == 500
        monkeypatch.undo()
    text = written()
    (line,) = [line for line in lines(text) if line["level"] == "error"]
    assert (line["request"], line["error"]) == ("r-2", "RuntimeError")
    assert "zebra" not in text
