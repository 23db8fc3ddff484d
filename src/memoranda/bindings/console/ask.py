"""CAL: a query is checked and run, and its answer shown, as records or as the text that a model would get."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.structs import replace

from memoranda.bindings.console.visit import Answer, File, Page, Visit
from memoranda.encoding.json_text import dump, dump_pretty
from memoranda.errors import QueryError
from memoranda.service.cal.cal import check
from memoranda.standards.cal.language.completion import find_completions

# By the names of their texts.
EXAMPLES: Final = (
    ("latest", "RECALL beliefs RECENT 10"),
    ("about", 'RECALL beliefs ABOUT "alice"'),
    ("words", 'RECALL LIKE "package manager" LIMIT 5'),
    ("groups", "RECALL beliefs | GROUP BY relation | COUNT"),
    (
        "context",
        'ASSEMBLE FOR "setting up" FROM notes: (RECALL LIKE "npm") BUDGET 300 tokens FORMAT markdown',
    ),
    ("explain", "EXPLAIN RECALL beliefs RECENT 10"),
)
_PLACES: Final = 20
_TRIPLE: Final = ("subject", "relation", "object")
# Where grains of other types say what they say.
_TEXTS: Final = ("content", "text", "description", "observation", "trigger", "object", "subject")
_PROJECTS: Final = 200
_COMPLETIONS: Final = 12
# A query that is longer is checked when it is run.
_CHECKED_CHARS: Final = 4_000
_EXPLAINED: Final = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)
_READING: Final = frozenset({"read"})


def asked(visit: Visit) -> Answer:
    """The editor, and the answer of what stands in it. Only what reads is run: opening a page changes nothing."""
    query, namespace = visit.asked("query"), visit.asked("namespace")
    projects = visit.service.projects(visit.access)[:_PROJECTS]
    told: dict[str, Any] = {
        "query": query,
        "namespace": namespace,
        "examples": EXAMPLES,
        "projects": projects,
    }
    if query:
        asked = (
            f"EXPLAIN {query}" if visit.asked("explain") and not _EXPLAINED.match(query) else query
        )
        try:
            reader = replace(visit.access, verbs=visit.access.verbs & _READING)
            answer = visit.service.cal.run(reader, asked, namespace=namespace or None)
        except QueryError as error:
            told["wrong"] = {"code": error.cal_code, "message": error.message}
        else:
            told |= {"answer": answer, "text": _text(answer), "json": dump_pretty(answer)}
            told["rows"] = _rows(answer)
            told["is_empty"] = answer.get("results") == []
            # Where else to ask, as a query is about one place.
            told["places"] = [name for name in projects if name != namespace][:_PLACES]
    return Page(template="ask.html", told=told)


def checked(visit: Visit) -> Answer:
    """Whether what stands in the editor is a query, and what may come next: for the script, while one writes."""
    query = (visit.query.get("query") or ("",))[0][:_CHECKED_CHARS]
    word, following = find_completions((visit.query.get("before") or (query,))[0][:_CHECKED_CHARS])
    told = {**check(query), "word": word, "completions": following[:_COMPLETIONS]}
    return File(body=dump(told), name="", media_type="application/json")


def _text(answer: dict[str, Any]) -> str:
    """What a model would get, of an assembled context."""
    found = answer.get("formatted_context") or answer.get("formatted")
    text = found.get("text") if isinstance(found, dict) else found
    return text if isinstance(text, str) else ""


def _rows(answer: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What was found, each with what it says in a line; empty where it is no grain."""
    rows = answer.get("results")
    return (
        [(_said(each), each) for each in rows if isinstance(each, dict)]
        if isinstance(rows, list)
        else []
    )


def _said(row: dict[str, Any]) -> str:
    fields = row.get("grain")
    if not isinstance(fields, dict):
        return ""
    triple = [fields[name] for name in _TRIPLE if isinstance(fields.get(name), str)]
    texts = (fields.get(name) for name in _TEXTS)
    return (
        " ".join(triple)
        if len(triple) == len(_TRIPLE)
        else next((each for each in texts if isinstance(each, str)), "")
    )
