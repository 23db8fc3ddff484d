"""Answers of the query language, as documents (CAL section 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memoranda.service.cal.window import Found
from memoranda.service.oms.views import to_json_value
from memoranda.standards.cal.assembly.pipeline import GrainList, GroupList, RowList, Total
from memoranda.standards.cal.item import ResultItem
from memoranda.standards.cal.language.syntax import Limit, Option, Recall
from memoranda.standards.cal.printing import formats
from memoranda.standards.cal.printing.elements import Element
from memoranda.standards.cal.printing.projection import Level

# Section 14.3: few grains may be shown in full.
_FEW: Final = 5
_LEVELS: Final[dict[str | None, Level]] = {
    "summary": "summary",
    "headlines": "standard",
    "full": "full",
}


def result_of(item: ResultItem, options: Sequence[Option] = ()) -> dict[str, Any]:
    """A grain among the results (OMS §28.1)."""
    found: dict[str, Any] = {
        "grain": to_json_value(item.fields),
        "score": item.score,
        "matched_fields": list(item.matched()),
        "content_address": item.address,
        "provenance_id": item.address,
    }
    if not options:
        return found
    asked = {option.name for option in options}
    if "score_breakdown" in asked:
        found["score_breakdown"] = dict(item.breakdown)
    if "explanation" in asked:
        found["explanation"] = _explanation(item)
    if "provenance" in asked:
        names = ("derived_from", "provenance_chain")
        found["provenance"] = {name: to_json_value(item.fields.get(name, [])) for name in names} | {
            "provenance_id": item.address
        }
    return found


def _explanation(item: ResultItem) -> str:
    matched = item.matched()
    if not matched:
        return f"Every {item.grain_type} that is asked for matches; score {item.score:g}."
    return f"Matched by {', '.join(matched)}; score {item.score:g}."


def recalled(found: Found, recall: Recall, now: int) -> dict[str, Any]:
    """The members that a RECALL answers with."""
    outcome, options = found.outcome, recall.options
    body: dict[str, Any] = {}
    if isinstance(outcome, GrainList):
        body["results"] = [result_of(item, options) for item in outcome.items]
    elif isinstance(outcome, RowList):
        body["results"] = [
            {
                "fields": to_json_value(row.fields),
                "content_address": row.item.address,
                "score": row.item.score,
            }
            for row in outcome.items
        ]
    elif isinstance(outcome, Total):
        body["count"] = outcome.count
    elif isinstance(outcome, GroupList):
        body["groups"] = [
            {
                "key": to_json_value(group.key),
                "count": group.count,
                "grains": [result_of(item, options) for item in group.sample],
            }
            for group in outcome.items
        ]
    else:
        body["values"] = list(outcome.items)
    body["total"] = found.total
    if found.contradictions is not None:
        body["contradictions"] = found.contradictions
    if recall.format is not None:
        body |= {
            "format": formats.canonical_format(recall.format),
            "formatted": text_of(found, recall, now),
        }
    return body


def text_of(found: Found, recall: Recall, now: int) -> str:
    """The result in the format that AS names."""
    assert recall.format is not None
    outcome = found.outcome
    if isinstance(outcome, GrainList):
        level, iso = (
            level_of(recall),
            any(option.name == "iso_timestamps" for option in recall.options),
        )
        elements = [Element(item=item, level=level, shape=found.shape) for item in outcome.items]
        return formats.recall_text(recall.format, elements, now, iso_times=iso)
    if isinstance(outcome, RowList):
        return formats.values_text(
            recall.format, [to_json_value(row.fields) for row in outcome.items]
        )
    if isinstance(outcome, Total):
        return formats.values_text(recall.format, {"count": outcome.count})
    if isinstance(outcome, GroupList):
        groups = [
            {"key": to_json_value(group.key), "count": group.count} for group in outcome.items
        ]
        return formats.values_text(recall.format, {"groups": groups})
    return formats.values_text(recall.format, {"values": list(outcome.items)})


def level_of(recall: Recall) -> Level:
    """How much detail a formatted RECALL shows."""
    asked = next(
        (option for option in recall.options if option.name == "progressive_disclosure"), None
    )
    if asked is None:
        return "standard"
    if asked.word is not None:
        return _LEVELS[asked.word]
    bounds = [stage.count for stage in recall.stages if isinstance(stage, Limit)] + [recall.recent]
    return (
        "full" if any(isinstance(bound, int) and bound <= _FEW for bound in bounds) else "standard"
    )
