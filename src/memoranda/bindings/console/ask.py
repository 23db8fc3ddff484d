"""CAL: a query is checked and run, and its answer shown, as records or as the text that a model would get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from memoranda.bindings.console.visit import Answer, File, Page, Visit
from memoranda.encoding.json_text import dump, dump_pretty
from memoranda.errors import QueryError
from memoranda.service.cal.cal import check

EXAMPLES: Final = (
    ("The latest beliefs", "RECALL beliefs RECENT 10"),
    ("What is known about somebody", 'RECALL beliefs ABOUT "alice"'),
    ("By words", 'RECALL LIKE "package manager" LIMIT 5'),
    ("How many of each relation", "RECALL beliefs | GROUP BY relation | COUNT"),
    (
        "A context for a model",
        'ASSEMBLE FOR "setting up" FROM notes: (RECALL LIKE "npm") BUDGET 300 tokens FORMAT markdown',
    ),
    ("How it would be answered", "EXPLAIN RECALL beliefs RECENT 10"),
)
_PLACES: Final = 20
_READING: Final = frozenset({"read"})


def asked(visit: Visit) -> Answer:
    """The editor, and the answer of what stands in it. Only what reads is run: opening a page changes nothing."""
    query, namespace = visit.asked("query"), visit.asked("namespace")
    told: dict[str, Any] = {"query": query, "namespace": namespace, "examples": EXAMPLES, "answer": None, "wrong": None}
    if query:
        try:
            reader = replace(visit.access, verbs=visit.access.verbs & _READING)
            answer = visit.service.cal.run(reader, query, namespace=namespace or None)
        except QueryError as error:
            told["wrong"] = {"code": error.cal_code, "message": error.message}
        else:
            told |= {"answer": answer, "text": _text(answer), "json": dump_pretty(answer)}
            told["rows"] = _rows(answer)
            told["is_empty"] = answer.get("results") == []
            # Where else to ask, as a query is about one place.
            told["places"] = [name for name in visit.service.projects(visit.access) if name != namespace][:_PLACES]
    return Page(template="ask.html", told=told)


def checked(visit: Visit) -> Answer:
    """Whether what stands in the editor is a query, as JSON: for the script that says so while one writes."""
    told = check(visit.asked("query"))
    return File(body=dump(told), name="", media_type="application/json")


def _text(answer: dict[str, Any]) -> str:
    """What a model would get, of an assembled context."""
    found = answer.get("formatted_context") or answer.get("formatted")
    text = found.get("text") if isinstance(found, dict) else found
    return text if isinstance(text, str) else ""


def _rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    rows = answer.get("results")
    return [each for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []
