"""Answers of the query language for a person: text as it was formatted, else one line for each thing found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memoranda.cli.show import line, note, one_line, safe, table

if TYPE_CHECKING:
    from memoranda.standards.cal.language.check import ErrorDocument

Document = Mapping[str, Any]

# Enough for any store, and a query takes it as it is.
SHORT_HASH_CHARS = len("sha256:") + 12
# Of a long line, so much is shown on either side of what is wrong with it.
AROUND_CHARS = 60
_ASIDES = ("score_breakdown", "explanation", "provenance")


def show(envelope: Document) -> None:
    """The answer on standard output, what goes with it on standard error."""
    if (text := _formatted(envelope)) is not None:
        write_text(text)
    else:
        _show_plain(envelope)
    if envelope.get("contradictions"):
        note("contradictions:\n" + _tree(envelope["contradictions"]))
    show_warnings(envelope.get("warnings", ()))


def show_warnings(warnings: Any) -> None:
    """On standard error."""
    for warning in warnings:
        note(f"{warning['code']}: {warning['message']}")


def write_text(text: str, end: str = "\n") -> None:
    """Exactly this text to a pipe or a file; to a terminal what it would obey is made visible."""
    if end and text.endswith(end):
        end = ""
    sys.stdout.flush()
    if sys.stdout.isatty():
        print(safe(text), end=end, flush=True)
        return
    sys.stdout.buffer.write((text + end).encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _formatted(envelope: Document) -> str | None:
    if (context := envelope.get("formatted_context")) is not None:
        return str(context["text"])
    return envelope.get("formatted")


def _show_plain(envelope: Document) -> None:
    for name, show_it in _SHOWN.items():
        if name in envelope:
            show_it(envelope)
            return
    line(_tree({name: value for name, value in envelope.items() if name not in ("_cal", "warnings")}))


# --- grains, values, rows ------------------------------------------------------------------------------------


def _results(envelope: Document) -> None:
    results = envelope["results"]
    if not results:
        note("nothing found")
    elif "fields" in results[0]:
        columns = list(dict.fromkeys(name for row in results for name in row["fields"]))
        rows = [[*(_cell(row["fields"].get(name)) for name in columns), _hash(row)] for row in results]
        table((*columns, "hash"), rows, when_empty="nothing found")
    else:
        for result in results:
            _show_grain(result)


def _show_grain(result: Document) -> None:
    line(f"{_said(result['grain'], result['content_address'])}  {_hash(result)}")
    for name in _ASIDES:
        if name in result:
            line(f"    {name}: {_cell(result[name])}", "dim")


def _said(grain: Document, address: str) -> str:
    """A grain in one line, as `AS text` writes it."""
    from memoranda.opening import system_clock
    from memoranda.standards.cal.item import Item
    from memoranda.standards.cal.printing.formats import Element, recall_text

    item = Item(address=address, grain_type=str(grain["type"]), fields=grain)
    return one_line(recall_text("text", [Element(item=item)], system_clock()))


def _hash(result: Document) -> str:
    """A prefix for people, which queries take too; the whole for programs."""
    whole = f"sha256:{result['content_address']}"
    return whole[:SHORT_HASH_CHARS] if sys.stdout.isatty() else whole


def _cell(value: Any) -> str:
    from memoranda.standards.cal.printing.plain import dump_json

    if value is None:
        return ""
    return one_line(value if isinstance(value, str) else dump_json(value))


def _values(envelope: Document) -> None:
    table(("value",), [[_cell(value)] for value in envelope["values"]], when_empty="nothing found")


def _groups(envelope: Document) -> None:
    rows = [(_cell(group["key"]), group["count"]) for group in envelope["groups"]]
    table(("key", "count"), rows, when_empty="nothing found")


# --- the other statements ------------------------------------------------------------------------------------


def _versions(envelope: Document) -> None:
    from memoranda.model.instant import format_instant

    if not envelope["versions"]:
        note("nothing found")
    for version in envelope["versions"]:
        head = f"{version['version']}  {format_instant(version['created_at'])}"
        state = "  current" if version["current"] else ""
        line(f"{head}  {_said(version['grain'], version['content_address'])}  {_hash(version)}{state}")
        if version["reason"]:
            line(f"    reason: {one_line(version['reason'])}", "dim")


def _changes(envelope: Document) -> None:
    rows = [(change["field"], _cell(change["from"]), _cell(change["to"])) for change in envelope["changes"]]
    table(("field", "from", "to"), rows, when_empty="nothing changed")


def _description(envelope: Document) -> None:
    described = envelope["description"]
    if isinstance(described, list):
        columns = list(dict.fromkeys(name for row in described for name in row))
        rows = [[_words(row.get(name)) for name in columns] for row in described]
        table(columns, rows, when_empty="nothing found")
    else:
        write_text(described["ebnf"] if "ebnf" in described else _tree(described))


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else _cell(value)


def _batch(envelope: Document) -> None:
    for label, slot in envelope["batch"].items():
        line(f"{label}:", "bold")
        if "error" in slot:
            error = slot["error"]
            note(f"{label}: {error['code']}: {error['message']} {error['suggestion']}")
        else:
            show(slot)


def _operation(envelope: Document) -> None:
    done = {"add": "added", "supersede": "supersedes", "revert": "reverts"}[envelope["operation"]]
    target = f" {envelope['target_hash']}" if "target_hash" in envelope else ""
    line(f"{envelope['new_hash']} {done}{target}")


def _tree(value: Any) -> str:
    from memoranda.standards.cal.printing.plain import plain_value
    from memoranda.standards.cal.printing.yaml_text import yaml_text

    return yaml_text(plain_value(value))


_SHOWN: Mapping[str, Callable[[Document], None]] = {
    "results": _results,
    "values": _values,
    "groups": _groups,
    "count": lambda envelope: line(str(envelope["count"])),
    "exists": lambda envelope: line("yes" if envelope["exists"] else "no"),
    "versions": _versions,
    "changes": _changes,
    "plan": lambda envelope: write_text(_tree(envelope["plan"])),
    "description": _description,
    "batch": _batch,
    "operation": _operation,
    "defined": lambda envelope: line(f"template {envelope['defined']} defined"),
}


# --- before a change, and when something is wrong ------------------------------------------------------------


def show_effects(effects: list[dict[str, Any]]) -> None:
    """What would be appended, on standard error: a person is about to approve it."""
    for effect in effects:
        target = f" {effect['target_hash']}" if "target_hash" in effect else ""
        lines = [f"{effect['operation'].upper()}{target}"]
        lines += [f"  {name}: {_cell(value)}" for name, value in effect["grain"].items()]
        lines.append(f"Reason: {one_line(effect['reason'])}")
        print("\n".join(safe(each) for each in lines), file=sys.stderr, flush=True)


def show_error(text: str, error: ErrorDocument, *, is_placed: bool) -> None:
    """Code, place and message; the line with a caret under the column; what to write instead."""
    where = f" line {error['line']}, column {error['column']}" if is_placed else ""
    note(f"{error['code']}{where}: {error['message']}")
    if is_placed:
        print("\n".join(pointed(text, error["line"], error["column"])), file=sys.stderr)
    if error["suggestion"]:
        print(safe(error["suggestion"]), file=sys.stderr, flush=True)


def pointed(text: str, line_number: int, column: int) -> tuple[str, ...]:
    """A line of the text and one with a caret under the column, however wide the characters before it are."""
    from rich.cells import cell_len

    whole = text.split("\n")[line_number - 1].rstrip("\r")
    if not whole:
        return ()
    start = max(0, column - 1 - AROUND_CHARS)
    before, after = whole[start : column - 1], whole[column - 1 : column - 1 + AROUND_CHARS]
    shown = ("…" if start else "") + _flat(before)
    ending = "…" if column - 1 + AROUND_CHARS < len(whole) else ""
    return f"  {shown}{_flat(after)}{ending}", f"  {' ' * cell_len(shown)}^"


def _flat(text: str) -> str:
    return safe(text.replace("\t", " "))
