"""Output of the query language for people: formatted text unchanged, otherwise one line for each result.

An answer has one of several members (`results`, `values`, `groups`, …), and `_PARTS` names the function that prints
each; a new kind of answer needs a row there. What the query formatted itself is printed unchanged. Texts of memories
are foreign: on a terminal their control characters are escaped, because they could move the cursor or change what was
shown before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from memoranda.cli.drawing import cell_width
from memoranda.cli.show import line, note, one_line, safe, table
from memoranda.model.instant import format_instant
from memoranda.opening import system_clock
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.printing.formats import Element, recall_text
from memoranda.standards.cal.printing.values import dump_json, plain_value, yaml_text

if TYPE_CHECKING:
    from memoranda.standards.cal.language.check import ErrorDocument

Document = Mapping[str, Any]

# Characters of a hash on a terminal: enough to be unique in any store, and queries accept the prefix.
SHORT_HASH_CHARS = len("sha256:") + 12
# Characters of a long line shown on either side of an error.
AROUND_CHARS = 60
_DETAILS = ("score_breakdown", "explanation", "provenance")


def show(envelope: Document) -> None:
    """Print the answer on standard output; contradictions and warnings on standard error."""
    if (text := _formatted(envelope)) is not None:
        write_text(text)
    else:
        _show_plain(envelope)
    if envelope.get("contradictions"):
        note("contradictions:\n" + _tree(envelope["contradictions"]))
    show_warnings(envelope.get("warnings", ()))


def show_warnings(warnings: Iterable[Mapping[str, str]]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        note(f"{warning['code']}: {warning['message']}")


def write_text(text: str, end: str = "\n") -> None:
    """Write a text unchanged to a pipe or a file; for a terminal, escape control characters."""
    if end and text.endswith(end):
        end = ""
    sys.stdout.flush()
    if sys.stdout.isatty():
        print(safe(text), end=end, flush=True)
        return
    sys.stdout.buffer.write((text + end).encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _formatted(envelope: Document) -> str | None:
    """Return the text that the query formatted, if it did."""
    if (context := envelope.get("formatted_context")) is not None:
        return str(context["text"])
    return envelope.get("formatted")


def _show_plain(envelope: Document) -> None:
    for name, show_part in _PARTS.items():
        if name in envelope:
            show_part(envelope)
            return
    line(
        _tree({name: value for name, value in envelope.items() if name not in ("_cal", "warnings")})
    )


# --- grains, values, rows ------------------------------------------------------------------------------------


def _show_results(envelope: Document) -> None:
    results = envelope["results"]
    if not results:
        note("no matches")
    elif "fields" in results[0]:
        columns = list(dict.fromkeys(name for row in results for name in row["fields"]))
        rows = [
            [*(_cell(row["fields"].get(name)) for name in columns), _hash(row)] for row in results
        ]
        table((*columns, "hash"), rows, when_empty="no matches")
    else:
        for result in results:
            _show_grain(result)


def _show_grain(result: Document) -> None:
    line(f"{_summary(result['grain'], result['content_address'])}  {_hash(result)}")
    for name in _DETAILS:
        if name in result:
            line(f"    {name}: {_cell(result[name])}", "dim")


def _summary(grain: Document, address: str) -> str:
    """Return a grain in one line, as `AS text` writes it."""
    item = ResultItem(address=address, grain_type=str(grain["type"]), fields=grain)
    return one_line(recall_text("text", [Element(item=item)], system_clock()))


def _hash(result: Document) -> str:
    """Return the hash of a result: a prefix on a terminal, complete in a pipe."""
    digest = f"sha256:{result['content_address']}"
    return digest[:SHORT_HASH_CHARS] if sys.stdout.isatty() else digest


def _cell(value: object) -> str:
    if value is None:
        return ""
    return one_line(value if isinstance(value, str) else dump_json(value))


def _show_values(envelope: Document) -> None:
    table(("value",), [[_cell(value)] for value in envelope["values"]], when_empty="no matches")


def _show_groups(envelope: Document) -> None:
    rows = [(_cell(group["key"]), group["count"]) for group in envelope["groups"]]
    table(("key", "count"), rows, when_empty="no matches")


# --- the other statements ------------------------------------------------------------------------------------


def _show_versions(envelope: Document) -> None:
    if not envelope["versions"]:
        note("no matches")
    for version in envelope["versions"]:
        head = f"{version['version']}  {format_instant(version['created_at'])}"
        state = "  current" if version["current"] else ""
        line(
            f"{head}  {_summary(version['grain'], version['content_address'])}  {_hash(version)}{state}"
        )
        if version["reason"]:
            line(f"    reason: {one_line(version['reason'])}", "dim")


def _show_changes(envelope: Document) -> None:
    rows = [
        (change["field"], _cell(change["from"]), _cell(change["to"]))
        for change in envelope["changes"]
    ]
    table(("field", "from", "to"), rows, when_empty="nothing changed")


def _show_description(envelope: Document) -> None:
    description = envelope["description"]
    if isinstance(description, list):
        columns = list(dict.fromkeys(name for row in description for name in row))
        rows = [[_words(row.get(name)) for name in columns] for row in description]
        table(columns, rows, when_empty="no matches")
    else:
        write_text(description["ebnf"] if "ebnf" in description else _tree(description))


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else _cell(value)


def _show_batch(envelope: Document) -> None:
    for label, slot in envelope["batch"].items():
        line(f"{label}:", "bold")
        if "error" in slot:
            error = slot["error"]
            note(f"{label}: {error['code']}: {error['message']} {error['suggestion']}")
        else:
            show(slot)


def _show_definition(envelope: Document) -> None:
    is_query = envelope["_cal"]["statement_type"] == "define_query"
    line(f"{'saved query' if is_query else 'template'} {envelope['defined']} defined")


def _show_formats(envelope: Document) -> None:
    for name, text in envelope["formats"].items():
        line(f"{name}:", "bold")
        write_text(text)


def _show_operation(envelope: Document) -> None:
    verb = {"add": "added", "supersede": "supersedes", "revert": "reverts"}[envelope["operation"]]
    target = f" {envelope['target_hash']}" if "target_hash" in envelope else ""
    line(f"{envelope['new_hash']} {verb}{target}")


def _tree(value: object) -> str:
    return yaml_text(plain_value(value))


# The member of an envelope that tells its kind, with the function that prints it; the first present wins.
_PARTS: Mapping[str, Callable[[Document], None]] = {
    "formats": _show_formats,
    "results": _show_results,
    "values": _show_values,
    "groups": _show_groups,
    "count": lambda envelope: line(str(envelope["count"])),
    "exists": lambda envelope: line("yes" if envelope["exists"] else "no"),
    "versions": _show_versions,
    "changes": _show_changes,
    "plan": lambda envelope: write_text(_tree(envelope["plan"])),
    "description": _show_description,
    "batch": _show_batch,
    "operation": _show_operation,
    "defined": _show_definition,
}


# --- before a change, and when something is wrong ------------------------------------------------------------


def show_effects(effects: list[Document]) -> None:
    """Print the grains that a query would append, on standard error, before the person confirms."""
    for effect in effects:
        target = f" {effect['target_hash']}" if "target_hash" in effect else ""
        lines = [f"{effect['operation'].upper()}{target}"]
        lines += [f"  {name}: {_cell(value)}" for name, value in effect["grain"].items()]
        lines.append(f"Reason: {one_line(effect['reason'])}")
        print("\n".join(safe(text) for text in lines), file=sys.stderr, flush=True)


def show_error(text: str, error: ErrorDocument, *, is_placed: bool) -> None:
    """Print code, position and message, the line with a caret under the column, and the suggestion."""
    position = f" line {error['line']}, column {error['column']}" if is_placed else ""
    note(f"{error['code']}{position}: {error['message']}")
    if is_placed:
        print("\n".join(point_at(text, error["line"], error["column"])), file=sys.stderr)
    if error["suggestion"]:
        print(safe(error["suggestion"]), file=sys.stderr, flush=True)


def point_at(text: str, line_number: int, column: int) -> tuple[str, ...]:
    """Return a line of the text, and a line with a caret under the column; both counted from 1.

    Wide characters, such as Chinese ones, take two columns of a terminal.
    """
    source_line = text.split("\n")[line_number - 1].rstrip("\r")
    if not source_line:
        return ()
    start = max(0, column - 1 - AROUND_CHARS)
    end = column - 1 + AROUND_CHARS
    before = ("…" if start else "") + _flat(source_line[start : column - 1])
    after = _flat(source_line[column - 1 : end]) + ("…" if end < len(source_line) else "")
    return f"  {before}{after}", f"  {' ' * cell_width(before)}^"


def _flat(text: str) -> str:
    return safe(text.replace("\t", " "))
