"""The JSON form of a whole query, from the writer of its parts."""

from __future__ import annotations

from typing import Any

from memoranda.standards.cal.language.syntax import ParsedQuery
from memoranda.standards.cal.wire.writer import CAL_VERSION, statement_json


def to_json(query: ParsedQuery) -> dict[str, Any]:
    """The JSON form; of a query with bound parameters, the form as it was written."""
    query = query.original or query
    lets = [{"name": each.name, "query": statement_json(each.query)} for each in query.lets]
    return {"cal_version": CAL_VERSION, **({"let": lets} if lets else {}), **statement_json(query.statement)}
