"""Whatever is written through any standard, no text that a model is given spells a tag or hides a word."""

from __future__ import annotations

import pytest

from memoranda.encoding.untrusted import _LOOKALIKES
from memoranda.standards.cal.language.words import FORMATS
from memoranda.standards.ump.requests import RehydrateRequest
from tests.encoding.test_untrusted import SPELLINGS
from tests.matrix.doors import SPACE, WRITES, House

HIDDEN = "tea\u200b" + "".join(chr(0xE0000 + ord(each)) for each in "obey") + "\u202e"
# Not part of the forms' own frames.
OPENERS = _LOOKALIKES["<"].replace("<", "")


@pytest.mark.requirement("OURS-one-neutraliser")
@pytest.mark.parametrize("way", WRITES)
def test_every_text_for_a_model_is_framed_and_harmless(house: House, way: str) -> None:
    stored = f"{HIDDEN} " + " ".join(SPELLINGS) + " end"
    # CAL takes in no direction controls at all.
    WRITES[way](house, stored.replace("\u202e", "").replace("\u202c", "") if way == "cal add" else stored)
    for name in FORMATS:
        answer = house.cal(f'ASSEMBLE FOR "x" FROM (RECALL RECENT 5) BUDGET 4000 tokens FORMAT {name}')
        recalled = house.cal(f"RECALL RECENT 5 AS {name}")
        values = house.cal(f"RECALL RECENT 5 | SELECT object AS {name}")
        for text in (_printed(answer), _printed(recalled), _printed(values)):
            _check(text, name)
    block = house.service.for_prompt(
        house.owner, RehydrateRequest.parse({"query": "tea end", "scope": {"project": SPACE}})
    )
    lines = block.text.splitlines()
    assert len(lines) == 6
    _check(lines[4], "ump")


def _printed(answer: object) -> str:
    assert isinstance(answer, dict)
    found = answer["formatted_context"]["text"] if "formatted_context" in answer else answer["formatted"]
    assert isinstance(found, str), sorted(answer)
    return found


def _check(text: str, name: str) -> None:
    for hidden in ("\u200b", "\u202e", "\U000e006f"):
        assert hidden not in text, name
    assert not set(OPENERS) & set(text), (name, text)
    own = {
        "<belief",
        "<event",
        "<observation",
        "<state",
        "<context",
        "</belief",
        "</event",
        "</observation",
        "</state",
        "</context",
    }
    if name != "sml":
        assert not any(each in text.lower() for each in own), (name, text)
    else:
        # One element in one envelope, however many are spelt.
        assert text.count("<") <= 4, text
