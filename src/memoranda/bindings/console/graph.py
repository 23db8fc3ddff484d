"""Subjects, relations and objects: what is said of somebody, and of whom they are said, as a drawing and as a list."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from memoranda.bindings.console.visit import Answer, Page, Visit
from memoranda.standards.oms.requests import FindRequest

_AROUND: Final = 24
_LATEST: Final = 100
_WIDTH, _HEIGHT = 760, 480
_SHOWN_CHARS: Final = 28


class Edge(NamedTuple):
    """One statement, as it is drawn: from the middle to a place around it."""

    subject: str
    relation: str
    object: str
    other: str
    address: str
    x: float
    y: float


def drawn(visit: Visit) -> Answer:
    """The neighbourhood of one subject."""
    subject = visit.asked("subject")
    told = {"subject": subject, "width": _WIDTH, "height": _HEIGHT, "short": _short}
    told |= (
        {"edges": _edges(visit, subject)} if subject else {"edges": [], "begin": _subjects(visit)}
    )
    return Page(template="graph.html", told=told)


def _subjects(visit: Visit) -> list[str]:
    """Of whom the latest statements are."""
    page = visit.service.grains.find(visit.access, FindRequest.parse({"limit": _LATEST}))
    names = (each.stored.grain.fields.get("subject") for each in page.results)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))[:_AROUND]


def _edges(visit: Visit, subject: str) -> list[Edge]:
    found: dict[tuple[str, str, str], str] = {}
    for asked in ({"subject": subject}, {"object": subject}):
        page = visit.service.grains.find(
            visit.access, FindRequest.parse({**asked, "limit": _AROUND})
        )
        for each in page.results:
            fields: Any = each.stored.grain.fields
            triple = tuple(str(fields.get(name, "")) for name in ("subject", "relation", "object"))
            if all(triple):
                found.setdefault(triple, each.stored.address)  # type: ignore[arg-type]
    return [
        _placed(subject, triple, address, at, len(found))
        for at, (triple, address) in enumerate(found.items())
    ]


def _placed(subject: str, triple: tuple[str, str, str], address: str, at: int, count: int) -> Edge:
    angle = 2 * math.pi * at / max(count, 1) - math.pi / 2
    other = triple[2] if triple[0] == subject else triple[0]
    x = _WIDTH / 2 + math.cos(angle) * (_WIDTH / 2 - 110)
    y = _HEIGHT / 2 + math.sin(angle) * (_HEIGHT / 2 - 50)
    return Edge(*triple, other, address, round(x, 1), round(y, 1))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
