"""The page for CAL queries: it checks and runs a query, and shows its results or the text that a model would get.

A query in the URL is run when the page opens, so only queries that read may run here: a link must not be able to change
anything. While a person types, a script calls `check_query`, which runs nothing.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from memoranda.bindings.console.visit import Answer, File, TemplatePage, Visit
from memoranda.encoding.json_text import dump, dump_pretty
from memoranda.errors import QueryError
from memoranda.model.selection import Selection
from memoranda.service.cal.cal import check
from memoranda.service.ump.facets import count_facets
from memoranda.standards.cal.language.completion import find_completions

# Example queries, by the names of their texts.
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
# Other namespaces that an empty answer offers.
_NAMESPACES: Final = 20
_TRIPLE: Final = ("subject", "relation", "object")
# Fields with the text of a grain that is no triple, in order of preference.
_TEXTS: Final = ("content", "text", "description", "observation", "trigger", "object", "subject")
# Projects in the list of namespaces.
_PROJECTS: Final = 200
# Completions in the list below the editor.
_COMPLETIONS: Final = 12
# Characters that are checked while a person types; a longer query is checked when it is run.
_CHECKED_CHARS: Final = 4_000
_EXPLAINED: Final = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)
_READING: Final = frozenset({"read"})


def show_editor(visit: Visit) -> Answer:
    """Show the editor, and the answer to the query in it. Only queries that read are run, so a link changes nothing."""
    service, access = visit.service, visit.access
    query, namespace = visit.query_value("query"), visit.query_value("namespace")
    if "namespace" not in visit.query:
        namespace = _largest_namespace(visit)
    projects = service.projects(access)[:_PROJECTS]
    context: dict[str, object] = {
        "query": query,
        "namespace": namespace,
        "examples": EXAMPLES,
        "projects": projects,
    }
    if not query:
        return TemplatePage(template="ask.html", context=context)
    is_explained = visit.query_value("explain") and not _EXPLAINED.match(query)
    reader = replace(access, verbs=access.verbs & _READING)
    try:
        answer = service.cal.run(
            reader, f"EXPLAIN {query}" if is_explained else query, namespace=namespace or None
        )
    except QueryError as error:
        context["wrong"] = {"code": error.cal_code, "message": error.message}
    else:
        context |= {"answer": answer, "text": _model_text(answer), "json": dump_pretty(answer)}
        context["rows"] = _titled_rows(answer)
        context["is_empty"] = answer.get("results") == []
        # Other namespaces to try, because a query is about one.
        context["places"] = [name for name in projects if name != namespace][:_NAMESPACES]
    return TemplatePage(template="ask.html", context=context)


def _largest_namespace(visit: Visit) -> str:
    """Return the project with the most memories, because a query is about one; "" if most are in none."""
    facets = count_facets(visit.service.context, visit.access, Selection())
    largest = max(facets.values["project"], key=lambda value: value.amount, default=None)
    in_none = facets.total - sum(value.amount for value in facets.values["project"])
    return largest.value if largest is not None and largest.amount > in_none else ""


def check_query(visit: Visit) -> Answer:
    """Check the query in the editor, and list completions. A script calls this while a person types."""
    query = (visit.query.get("query") or ("",))[0][:_CHECKED_CHARS]
    word, following = find_completions((visit.query.get("before") or (query,))[0][:_CHECKED_CHARS])
    verdict = {**check(query), "word": word, "completions": following[:_COMPLETIONS]}
    return File(body=dump(verdict), name="", media_type="application/json")


def _model_text(answer: dict[str, object]) -> str:
    """Return the text that a model would get; "" if the query did not format one."""
    formatted = answer.get("formatted_context") or answer.get("formatted")
    text = formatted.get("text") if isinstance(formatted, dict) else formatted
    return text if isinstance(text, str) else ""


def _titled_rows(answer: dict[str, object]) -> list[tuple[str, dict[str, object]]]:
    """Return the results with a title for each; the title is empty if the result is no grain."""
    rows = answer.get("results")
    if not isinstance(rows, list):
        return []
    return [(_title(row), row) for row in rows if isinstance(row, dict)]


def _title(row: dict[str, object]) -> str:
    """Return the triple of a grain, or else its text."""
    fields = row.get("grain")
    if not isinstance(fields, dict):
        return ""
    triple = [fields[name] for name in _TRIPLE if isinstance(fields.get(name), str)]
    if len(triple) == len(_TRIPLE):
        return " ".join(triple)
    texts = (fields.get(name) for name in _TEXTS)
    return next((text for text in texts if isinstance(text, str)), "")
