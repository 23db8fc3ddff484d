"""The same ranking as `retrieval.ranking`, of everything and without any shortcut: one dense column a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval import ranking
from memoranda.retrieval.ranking import RetrievalQuery
from memoranda.retrieval.retrievers import SearchedSegment
from memoranda.retrieval.weights import (
    COVERAGE_GATE,
    K1,
    LENGTH_LIMIT,
    SESSION_DATE_WEIGHT,
    SESSION_PERSON_WEIGHT,
    TYPICAL_SHARE,
    WINDOW_B,
    WITH_MEANING,
    WORDS_ONLY,
    B,
)

Column = NDArray[Any]


def plain_order(
    question: RetrievalQuery, segments: Sequence[SearchedSegment], leg_limit: int, fold_limit: int
) -> list[tuple[int, float]]:
    """Versions and their scores, best first."""
    raw, most = _bm25(question, segments, B, is_window=False)
    around, _ = _bm25(question, segments, WINDOW_B, is_window=True)
    held = [(each > 0) & segment.allowed for each, segment in zip(raw, segments, strict=True)]
    best = max((float(each[some].max()) for each, some in zip(raw, held, strict=True) if some.any()), default=0.0)
    covered = min(1.0, best / most) if most else 0.0
    has_meaning = any(each.similarities is not None for each in segments)
    gate = min(1.0, (covered / COVERAGE_GATE) ** 2) if has_meaning else 1.0
    columns = [_normalised(raw, held, leg_limit), _normalised(around, held, leg_limit)]
    if has_meaning:
        columns += [_meaning(segments, columns[0], gate, name, leg_limit) for name in ("own", "context")]
        held = [some | _is_near(s, *legs) for some, s, *legs in zip(held, segments, *columns[2:], strict=True)]
    columns[:2] = [[np.float32(gate) * each for each in leg] for leg in columns[:2]]
    parts = _parts(question, segments, columns)
    chosen = WITH_MEANING if has_meaning else WORDS_ONLY
    if question.spans:
        inside = [ranking._is_inside(question, each.columns.times) & each.allowed for each in segments]
        if any(each.any() for each in held):
            held = [some | of_time for some, of_time in zip(held, inside, strict=True)]
        else:
            held = [(ranking._date_scores(question, each.columns.times) > 0) & each.allowed for each in segments]
    everything = np.concatenate(held)
    scores = (1e-4 / (best or 1.0)) * np.concatenate(raw)[everything].astype(np.float64)
    parts["session"] = _best_of_sessions(parts["session"], segments, everything)
    for name, column in parts.items():
        scores += getattr(chosen, name) * column[everything]
    versions = np.concatenate([each.columns.versions for each in segments])[everything]
    said = np.concatenate([each.columns.text_hashes for each in segments])[everything]
    return _folded(versions, scores, said, fold_limit)


def _bm25(
    question: RetrievalQuery, segments: Sequence[SearchedSegment], b: float, *, is_window: bool
) -> tuple[list[Column], float]:
    texts = [_texts(segment, is_window=is_window) for segment in segments]
    docs = sum(int(segment.visible.sum()) for segment in segments)
    length = sum(float(lengths[s.visible].sum()) for (lengths, _), s in zip(texts, segments, strict=True))
    mean = max(1.0, length / max(1, docs))
    made = [np.zeros(len(lengths), np.float32) for lengths, _ in texts]
    total = 0.0
    for word in range(len(question.words)):
        holding = sum(int((counts[word] > 0).sum()) for _, counts in texts)
        weight = float(np.log(1.0 + (max(docs, holding) - holding + 0.5) / (holding + 0.5)))
        total += weight
        for scores, (lengths, counts) in zip(made, texts, strict=True):
            norms = np.float32(K1 * (1.0 - b)) + np.float32(K1 * b / mean) * lengths
            scores += np.float32(weight * (K1 + 1.0)) * counts[word] / (counts[word] + norms)
    return made, (K1 + 1.0) * total


def _texts(segment: SearchedSegment, *, is_window: bool) -> tuple[Column, list[Column]]:
    """Lengths, and how often each holds each word: by itself, or with those beside it that may be seen."""
    facts, counts = segment.columns, []
    for postings in segment.postings:
        column = np.zeros(len(facts), np.float32)
        if postings is not None:
            column[postings[0]] = postings[1]
        counts.append(column * segment.visible)
    lengths = facts.lengths.astype(np.float32)
    if not is_window:
        return lengths, counts
    before, after = facts.visible_links(segment.visible)
    beside = [np.append(each * segment.visible, np.float32(0)) for each in (lengths, *counts)]
    found = [each[:-1] + each[before] + each[after] for each in beside]
    return lengths + (found[0] - beside[0][:-1]), [each * segment.visible for each in found[1:]]


def _normalised(
    scores: list[Column], held: list[Column], leg_limit: int, *, least_of_all: bool = False
) -> list[Column]:
    everything = np.concatenate([each[some] for each, some in zip(scores, held, strict=True)])
    if not len(everything):
        return [np.zeros_like(each) for each in scores]
    best_first, most = np.sort(everything)[::-1], everything.max()
    least = everything.min() if least_of_all else np.float32(0)
    if len(everything) > leg_limit:
        least = best_first[leg_limit - 1]
    if most <= least:
        return [(each >= most).astype(np.float32) for each in scores]
    return [np.clip((each - least) / (most - least), 0, 1) for each in scores]


def _meaning(
    segments: Sequence[SearchedSegment], text: list[Column], gate: float, name: str, leg_limit: int
) -> list[Column]:
    typical = np.float32(TYPICAL_SHARE * (1.0 - gate) ** 2)
    found, known = [], []
    for segment in segments:
        column, is_known = np.zeros(len(segment.columns), np.float32), np.zeros(len(segment.columns), np.bool_)
        if (near := segment.similarities) is not None:
            is_known[near.rows] = True
            column[near.rows] = getattr(near, name) - typical * getattr(near, f"typical_{name}")
        found.append(column)
        known.append(is_known)
    held = [each & segment.allowed for each, segment in zip(known, segments, strict=True)]
    scores = _normalised(found, held, leg_limit, least_of_all=True)
    return [np.where(each, score, own) for each, score, own in zip(known, scores, text, strict=True)]


def _is_near(segment: SearchedSegment, own: Column, context: Column) -> Column:
    found = np.zeros(len(segment.columns), np.bool_)
    if (near := segment.similarities) is not None:
        found[near.rows] = np.maximum(near.own, near.context) >= near.threshold
    return found & segment.allowed & ((own > 0) | (context > 0))


def _parts(
    question: RetrievalQuery, segments: Sequence[SearchedSegment], columns: list[list[Column]]
) -> dict[str, Column]:
    found: dict[str, Column] = {
        name: np.concatenate([each * s.visible for each, s in zip(leg, segments, strict=True)])
        for name, leg in zip(ranking.RETRIEVERS, columns, strict=False)
    }
    topic = np.zeros(len(found["text"]))
    for each in found.values():
        topic = topic + each / np.float32(4)
    for name, way, leg in (("before", 0, columns[1]), ("after", 1, columns[2] if len(columns) > 2 else columns[1])):
        found[name] = np.concatenate(
            [
                np.append(each * s.visible, np.float32(0))[s.columns.visible_links(s.visible)[way]]
                for each, s in zip(leg, segments, strict=True)
            ]
        )
    if len(question.words) > 1:
        counts = [_texts(segment, is_window=False)[1] for segment in segments]
        every = [np.logical_and.reduce([each > 0 for each in words]) for words in counts]
        found["every"] = np.concatenate(every).astype(np.float32)
    persons = ranking._named_persons(question, segments)
    for_all = range(len(segments))
    if persons:
        whole = [np.arange(len(each.columns)) for each in segments]
        is_of = np.concatenate([ranking._person_matches(persons[0], segments[n].columns, whole[n]) for n in for_all])
        found["person" if len(persons) == 1 else "first_named"] = is_of
        topic = topic + SESSION_PERSON_WEIGHT * is_of if len(persons) == 1 else topic
    if question.spans:
        found["date"] = np.concatenate([ranking._date_scores(question, each.columns.times) for each in segments])
        topic = topic + SESSION_DATE_WEIGHT * found["date"]
    found["session"] = topic
    lengths = np.concatenate([each.columns.lengths for each in segments])
    found["length"] = np.log1p(np.arange(LENGTH_LIMIT + 1, dtype=np.float32))[np.minimum(lengths, LENGTH_LIMIT)]
    return found


def _best_of_sessions(topic: Column, segments: Sequence[SearchedSegment], held: Column) -> Column:
    sessions = np.concatenate([each.columns.sessions for each in segments]).tolist()
    best: dict[int, float] = {}
    for session, value, is_held in zip(sessions, topic.tolist(), held.tolist(), strict=True):
        if is_held and session:
            best[session] = max(best.get(session, 0.0), value)
    alone = topic.astype(np.float64)
    return np.array([best.get(session, 0.0) if session else own for session, own in zip(sessions, alone, strict=True)])


def _folded(versions: Column, scores: Column, said: Column, fold_limit: int) -> list[tuple[int, float]]:
    most = max(1e-9, scores.max(initial=0.0))
    units = (np.clip(scores / most, 0.0, 1.0) * ranking._SCORE_UNITS).astype(np.uint64)
    order = sorted(range(len(scores)), key=lambda row: (-int(units[row]), -row))
    best, rest = order[:fold_limit], order[fold_limit:]
    seen: set[int] = set()
    repeats: list[int] = []
    others: list[int] = []
    for row in best:
        (repeats if said[row] and int(said[row]) in seen else others).append(row)
        seen.add(int(said[row]))
    found = [(int(versions[row]), float(scores[row])) for row in others]
    least, next_one = (scores[best[-1]] if best else 0.0), scores[rest[0]] if rest else 0.0
    for number, row in enumerate(repeats, 1):
        found.append((int(versions[row]), float(least - (least - next_one) * number / (len(repeats) + 1))))
    return found + [(int(versions[row]), float(scores[row])) for row in rest]
