"""A memory of another owner takes as long to look for as one that does not exist: the same steps are taken.

Compared are not times, which a test cannot hold still, but everything that is done: every function called and every
statement that the store runs, in order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import memoranda
from memoranda.errors import MemorandaError
from memoranda.service.core.access import Access
from memoranda.standards.ump.requests import FeedbackRequest, ForgetRequest, ReviseRequest
from tests.service.world import PEER, World

SOURCE = str(Path(memoranda.__file__).parent)
ABSENT_RECORD = "urn:ump:" + "a" * 52
ABSENT_GRAIN = "0" * 64

LOOK_UPS: dict[str, Callable[[World, Access, str], object]] = {
    "get": lambda world, who, name: world.service.get(who, name),
    "history": lambda world, who, name: world.service.history(who, name),
    "revise": lambda world, who, name: world.service.revise(
        who, ReviseRequest.parse({"id": name, "patch": {"body": {"text": "x"}}})
    ),
    "forget": lambda world, who, name: world.service.forget(who, ForgetRequest.parse({"id": name, "reason": "x"})),
    "feedback": lambda world, who, name: world.service.feedback(
        who, FeedbackRequest.parse({"id": name, "outcome": "used"})
    ),
    "export": lambda world, who, name: list(world.service.export(who, names=(name,))),
    "grain": lambda world, who, name: world.service.grains.get(who, name),
    "supersede": lambda world, who, name: world.supersede(name, access=who, object="x"),
}


def steps(act: Callable[[], object]) -> tuple[list[tuple[CodeType, int]], str]:
    """Every line of ours that is run in this thread, and how it ended."""
    seen: list[tuple[CodeType, int]] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "line":
            seen.append((frame.f_code, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        act()
        ended = "found"
    except MemorandaError as error:
        ended = error.code
    finally:
        sys.settrace(None)
    return seen, ended


@pytest.mark.parametrize("verb", LOOK_UPS)
def test_what_another_owner_keeps_to_itself_is_looked_for_as_if_it_did_not_exist(verb: str) -> None:
    world = World()
    is_grain = verb in ("grain", "supersede")
    private = world.put() if is_grain else world.remember("kept to itself")
    stranger = world.service.gate.local(PEER.did)
    absent = ABSENT_GRAIN if is_grain else ABSENT_RECORD
    look = LOOK_UPS[verb]
    # What is made once in a process is no part of it.
    steps(lambda: look(world, stranger, absent))
    theirs, nothing = steps(lambda: look(world, stranger, private)), steps(lambda: look(world, stranger, absent))
    assert theirs[1] == nothing[1] != "found"
    assert theirs == nothing
    world.service.close()


def test_no_statement_looks_for_a_name_in_what_is_not_public() -> None:
    world = World()
    world.remember("kept to itself")
    public = world.remember("for everyone", scope={"visibility": "public"})
    system = world.engine.system
    assert system.find_tenants_with_public_name("ump", public) == [world.owner.default_tenant]
    assert system.find_tenants_with_name("ump", public) == [world.owner.default_tenant]
    assert world.service.get(world.service.gate.local(PEER.did), public)["body"]["text"] == "for everyone"
    world.service.close()
