"""Documents of the answers to RECALL (CAL section 15).

A document is built member by member in the order of the specification; options of WITH add members and never change the
others. Formatting (`AS`) is the work of `standards/cal/printing`; this module chooses its level of detail and calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memoranda.service.cal.paging import RecallResult
from memoranda.service.oms.views import to_json_value
from memoranda.standards.cal.assembly.pipeline import GrainList, GroupList, RowList, Total
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.syntax import Limit, Option, Recall
from memoranda.standards.cal.printing import formats
from memoranda.standards.cal.printing.elements import Element
from memoranda.standards.cal.printing.projection import Level

# Section 14.3: a result of at most this many grains may be shown in full.
_FULL_GRAINS: Final = 5
_LEVELS: Final[dict[str | None, Level]] = {
    "summary": "summary",
    "headlines": "standard",
    "standard": "standard",
    "full": "full",
}


def result_document(item: ResultItem, options: Sequence[Option] = ()) -> dict[str, object]:
    """Return the document of a grain in a result (OMS §28.1), with the members that options of WITH add."""
    document: dict[str, object] = {
        "grain": to_json_value(item.fields),
        "score": item.score,
        "matched_fields": list(item.matched()),
        "content_address": item.address,
        "provenance_id": item.address,
    }
    option_names = {option.name for option in options}
    if "score_breakdown" in option_names:
        document["score_breakdown"] = dict(item.breakdown)
    if "explanation" in option_names:
        document["explanation"] = _explanation(item)
    if "provenance" in option_names:
        document["provenance"] = {
            name: to_json_value(item.fields.get(name, []))
            for name in ("derived_from", "provenance_chain")
        } | {"provenance_id": item.address}
    return document


def _explanation(item: ResultItem) -> str:
    matched_names = item.matched()
    if not matched_names:
        return f"The query has no conditions, so every {item.grain_type} matches; score {item.score:g}."
    return f"Matched by {', '.join(matched_names)}; score {item.score:g}."


def recall_document(result: RecallResult, recall: Recall, now: int) -> dict[str, object]:
    """Return the members of the answer to a RECALL."""
    outcome, options = result.outcome, recall.options
    document: dict[str, object] = {}
    if isinstance(outcome, GrainList):
        document["results"] = [result_document(item, options) for item in outcome.items]
    elif isinstance(outcome, RowList):
        document["results"] = [
            {
                "fields": to_json_value(row.fields),
                "content_address": row.item.address,
                "score": row.item.score,
            }
            for row in outcome.items
        ]
    elif isinstance(outcome, Total):
        document["count"] = outcome.count
    elif isinstance(outcome, GroupList):
        document["groups"] = [
            {
                "key": to_json_value(group.key),
                "count": group.count,
                "grains": [result_document(item, options) for item in group.sample],
            }
            for group in outcome.items
        ]
    else:
        document["values"] = list(outcome.items)
    document["total"] = result.total
    if result.contradictions is not None:
        document["contradictions"] = result.contradictions
    if recall.format is not None:
        document["format"] = formats.canonical_format(recall.format)
        document["formatted"] = format_result(result, recall, now)
    return document


def format_result(result: RecallResult, recall: Recall, now: int) -> str:
    """Return the text of a result in the format of AS."""
    assert recall.format is not None
    outcome = result.outcome
    if isinstance(outcome, GrainList):
        level = _choose_level(recall)
        iso_times = any(option.name == "iso_timestamps" for option in recall.options)
        elements = [Element(item=item, level=level, shape=result.shape) for item in outcome.items]
        return formats.recall_text(recall.format, elements, now, iso_times=iso_times)
    if isinstance(outcome, RowList):
        rows = [to_json_value(row.fields) for row in outcome.items]
        return formats.values_text(recall.format, rows)
    if isinstance(outcome, Total):
        return formats.values_text(recall.format, {"count": outcome.count})
    if isinstance(outcome, GroupList):
        groups = [
            {"key": to_json_value(group.key), "count": group.count} for group in outcome.items
        ]
        return formats.values_text(recall.format, {"groups": groups})
    return formats.values_text(recall.format, {"values": list(outcome.items)})


def _choose_level(recall: Recall) -> Level:
    """Return the level of detail of a formatted RECALL."""
    disclosure = next(
        (option for option in recall.options if option.name == "progressive_disclosure"), None
    )
    if disclosure is None:
        return "standard"
    if disclosure.word is not None:
        return _LEVELS[disclosure.word]
    limits = [stage.count for stage in recall.stages if isinstance(stage, Limit)] + [recall.recent]
    is_short = any(isinstance(limit, int) and limit <= _FULL_GRAINS for limit in limits)
    return "full" if is_short else "standard"
