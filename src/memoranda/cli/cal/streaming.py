"""cal --stream: print an ASSEMBLE while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from memoranda.bindings.files.folder import standard_output
from memoranda.cli.cal.ask import Query, QueryOptions
from memoranda.cli.cal.show import show_warnings, write_text
from memoranda.cli.run import GlobalOptions
from memoranda.cli.show import note
from memoranda.standards.cal.assembly.stream import encode_ndjson

if TYPE_CHECKING:
    from memoranda.app import Memoranda


def stream(
    memoranda: Memoranda,
    run: GlobalOptions,
    query: Query,
    options: QueryOptions,
    params: Mapping[str, object],
) -> int:
    """Print the text in chunks, or with --json the events as NDJSON; return the exit code."""
    code, last_character = 0, "\n"
    with closing(
        memoranda.cal.stream(query, params=params, strict=options.strict, **options.scope())
    ) as events:
        for event in events:
            kind = event["type"]
            if kind == "error" and event["fatal"]:
                code = 1
            if run.json:
                with standard_output() as file:
                    file.write(encode_ndjson(event))
            elif kind == "chunk":
                write_text(event["content"], end="")
                last_character = event["content"][-1:]
            elif kind == "error":
                note(f"{event['code']}: {event['message']} {event['suggestion'] or ''}".rstrip())
            elif kind == "assembly_completed":
                show_warnings(event["summary"]["warnings"])
    if last_character != "\n":
        write_text("\n", end="")
    return code
