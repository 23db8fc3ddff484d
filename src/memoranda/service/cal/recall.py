"""RECALL over the indexes of the store (CAL section 8.1).

Conditions become tests that the index answers; pages, counts and the orders by time, confidence and importance are
its work too. Only what it cannot answer is read and looked at grain by grain: then all that is left is read, up to
SCAN_LIMIT, never only the newest. One snapshot serves a whole request.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import structs
from msgspec.structs import replace

from memoranda.errors import MemorandaError, QueryError
from memoranda.model.memory import Document, OpenedDocument, QueriedDocument, Version
from memoranda.model.oms_names import ADDRESS_CHARS
from memoranda.model.selection import (
    IsAmong,
    IsOneOf,
    KeywordQuery,
    Matches,
    Selected,
    Selection,
    StatusFilter,
    Test,
)
from memoranda.retrieval.analysis import keywords, query_terms
from memoranda.service.cal.grouping import COUNTED, Grouping
from memoranda.service.cal.session import CalSession
from memoranda.service.cal.window import (
    DIVERSE_LIMIT,
    Found,
    Window,
    diversified,
    is_list,
    limit_of,
    minimal,
    order_of,
    paged,
    reordered,
    window_of,
    with_limit,
)
from memoranda.service.cal.written import about_searched, desugared, standing, tells, timed
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import as_grain
from memoranda.service.core.ranking import place_below_sources
from memoranda.service.oms.views import collect_text, is_visible, matching_fields
from memoranda.service.retrieve import PAGE_BYTES, restrict_selection, with_phrase_reader
from memoranda.standards.cal import limits
from memoranda.standards.cal.assembly import pipeline
from memoranda.standards.cal.assembly.pipeline import GrainList, Total, Values
from memoranda.standards.cal.conditions import SEARCH, build_index_query, matches
from memoranda.standards.cal.field_index import SEMANTIC
from memoranda.standards.cal.item import ResultItem, contradicted_addresses, field_of, value_of
from memoranda.standards.cal.language.syntax import (
    Hash,
    Option,
    Param,
    Project,
    Recall,
    Select,
    Stage,
    Subquery,
    Thread,
    WhereCondition,
)
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import signature
from memoranda.standards.oms.grains import decode, read_accepted_fields
from memoranda.standards.oms.registry import BY_BYTE, DEFAULT_NAMESPACE
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot

# What one RECALL may read grain by grain, for which the text has no figure (CAL-E030).
SCAN_LIMIT: Final = 100_000
_CHUNK: Final = 500
# Ours: the bytes of documents that one request may read, all its RECALLs together (CAL-E030, too). Large ones count
# fourfold: few of them are as many as all requests at once can hold.
READ_BYTES: Final = 32 * 1_048_576
_LARGE_BYTES: Final = 2_048
# The score of the first match that has common words only; the next has half of it, then a third …
_LEAST_SCORE: Final = 0.001
# Never what a search by words matched: names of places and people, kinds, times.
_UNTOLD: Final = frozenset(
    ("type", "namespace", "user_id", "session_id", "author_did", "source_type", "role")
)
_PREFIX_CANDIDATES: Final = 50
_TYPE_NAMES: Final = {byte: kind.name for byte, kind in BY_BYTE.items()}
_NOTHING: Final[Mapping[str, float]] = {}


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """A RECALL in the store's words."""

    selection: Selection
    text: str | None = None
    # Words that must stand in one field: (field, words).
    within: tuple[tuple[str, frozenset[str]], ...] = ()
    left_over: tuple[WhereCondition, ...] = ()
    asked: tuple[str, ...] = ()


class GrainReader(msgspec.Struct):
    """Reads for one request, all from one snapshot."""

    context: Context
    session: CalSession
    snapshot: Snapshot
    deadline: float
    timeout_code: str = "CAL-E031"
    lets: dict[str, Found] = msgspec.field(default_factory=dict)
    scanned: int = 0
    read_bytes: int = 0
    # Of the RECALL that runs: what its search found, and the fields and words that make a grain its answer.
    scores: dict[int, float] = msgspec.field(default_factory=dict)
    asked: tuple[str, ...] = ()
    sought: frozenset[str] = frozenset()
    # The ends of links that contradict, if the RECALL tells which grains they are.
    contradicting: frozenset[int] = frozenset()
    default_limit: int = limits.LIMIT_DEFAULT
    # Health information is shown only field by field.
    is_minimal: bool = False
    reached: Selection | None = None

    # --- the outside -------------------------------------------------------------------------------------

    def recall(
        self, written: Recall, *, offset: int = 0, uncapped: bool = False, is_answer: bool = False
    ) -> Found:
        """Run a bound RECALL. `offset` is a cursor's; `uncapped` is for membership sets, which must not be cut.

        What is the answer itself ends where it gets too large, and the next cursor goes on from there.
        """
        recall = desugared(written)
        stages = with_limit(
            written, recall.stages, limits.LIMIT_MAX if uncapped else self.default_limit
        )
        self.contradicting = (
            self._ends_of_contradictions() if tells("contradicted", recall) else frozenset()
        )
        found = self._run(self.question(recall), recall, stages, offset, is_answer=is_answer)
        if found.total == 0 and (lost := self._lost(written, recall)):
            found = self._run(
                self.question(recall, lost), recall, stages, offset, is_answer=is_answer
            )
        if self.is_minimal and not any(isinstance(stage, Select | Project) for stage in stages):
            found.outcome = minimal(found.outcome)
        found.shape = next(
            (stage for stage in reversed(stages) if isinstance(stage, Project)), None
        )
        if any(option.name == "contradiction_detection" for option in recall.options):
            found.contradictions = pipeline.find_contradictions(found.items)
        return found

    def items_of(self, version_ids: Sequence[int], *, ranked: bool = False) -> list[ResultItem]:
        """Versions as grains, those left out that the caller may not see or that are damaged.

        What a search ranks stands behind what it was made from, page by page.
        """
        items: list[ResultItem] = []
        start = 0
        while start < len(version_ids):
            self.check_time()
            chunk: Sequence[int] = self.snapshot.fit_into_bytes(
                version_ids[start : start + _CHUNK], PAGE_BYTES
            )
            start += max(1, len(chunk))
            if not self._sees_all():
                chunk = [
                    v.version_id for v in self.snapshot.load_versions(chunk) if self._may_see(v)
                ]
            kept = self.snapshot.load_documents(chunk)
            self.count_bytes(*(len(each.document.native) for each in kept))
            kept = place_below_sources(kept, _document_of) if ranked else kept
            items += [item for each in kept if (item := self._item(each)) is not None]
        self.scanned += len(version_ids)
        return items

    def count_bytes(self, *sizes: int) -> None:
        """Count documents that are read. Raises QueryError when they are too much for one query."""
        self.read_bytes += sum(size if size <= _LARGE_BYTES else 4 * size for size in sizes)
        if self.read_bytes > READ_BYTES:
            raise QueryError(
                f"More than {READ_BYTES >> 20} MiB of grains would have to be read.",
                cal_code="CAL-E030",
                suggestion="Narrow it: a type, a subject, a time, a smaller LIMIT.",
            )

    def resolve(self, given: Hash) -> list[tuple[str, int]]:
        """The grains of this namespace that a hash, or the beginning of one, stands for: (address, version)."""
        prefix = given.text.removeprefix("sha256:")
        named = self.snapshot.find_names_by_prefix(oms.STANDARD, prefix, _PREFIX_CANDIDATES)
        by_id = {version_id: name for name, version_id in named}
        selection = self.selection(
            None, (IsAmong(version_ids=tuple(by_id)),), standing="unforgotten"
        )
        return [(each.address, each.version_id) for each in self._seen(selection)]

    def _seen(self, selection: Selection, enough: int = SCAN_LIMIT) -> list[Selected]:
        """All that the selection finds and the caller may see, or at least so many of it."""
        limit = enough if self._sees_all() else SCAN_LIMIT
        found = self.snapshot.load_page(
            selection, order_of(None), limit=limit, now=self.session.now
        )
        if self._sees_all():
            return list(found)
        versions = self.snapshot.load_versions([each.version_id for each in found])
        allowed = {version.version_id for version in versions if self._may_see(version)}
        return [each for each in found if each.version_id in allowed]

    def check_time(self) -> None:
        """Raise when the request has taken too long."""
        if time.monotonic() > self.deadline:
            raise QueryError(
                "The query took too long.",
                cal_code=self.timeout_code,
                suggestion="Ask for less: narrow its conditions.",
            )

    # --- conditions --------------------------------------------------------------------------------------

    def selection(
        self, grain_type: str | None, tests: Sequence[Test] = (), *, standing: StatusFilter = "live"
    ) -> Selection:
        """What there is in this namespace, within the caller's reach."""
        if self.reached is None:
            namespace = self.session.namespace
            space = "" if namespace == DEFAULT_NAMESPACE else namespace
            everything = Selection(space=space, has_fields=True)
            self.reached = restrict_selection(
                self.context, self.session.access, self.snapshot, everything
            )
        within = self.reached
        return structs.replace(
            within, form=grain_type, tests=(*within.tests, *tests), status_filter=standing
        )

    def question(self, recall: Recall, lost: Sequence[WhereCondition] = ()) -> _Question:
        """The conditions of a desugared RECALL as tests, words to search (`lost`: too), and what is left over."""
        recall, now = about_searched(recall, lost), self.session.now
        tests: list[Test] = []
        texts: list[str] = []
        within: list[tuple[str, frozenset[str]]] = []
        left: list[WhereCondition] = []
        for written in recall.where:
            condition = self._resolved(written)
            if condition.field == "query":
                # What the whole grain is searched for; the words of single fields are looked for in what that finds.
                texts.insert(0, _text(condition))
            elif condition in lost or (condition.field in SEMANTIC and condition.operator == "="):
                within.append((condition.field, query_terms(_text(condition))))
                texts.append(_text(condition))
            elif condition.field == "hash":
                tests.append(IsAmong(version_ids=self._hashed(condition)))
            elif condition.field == "contradicted":
                tests.append(self._contradicted(wanted=bool(condition.value)))
            elif condition.field == "score":
                left.append(condition)
            else:
                asked = build_index_query(condition, recall.grain_type, self.session.now)
                tests += asked.tests
                left += [condition] if asked.needs_check else []
        if recall.thread is not None:
            tests.append(self._thread(recall.thread))
        if not texts and left:
            left = _without_scores(left, tests)
        return _Question(
            selection=timed(
                self.selection(recall.grain_type, tests, standing=standing(recall)), recall, now
            ),
            text=texts[0] if texts else None,
            within=tuple(within),
            left_over=tuple(left),
            asked=tuple(dict.fromkeys(c.field for c in recall.where if c.field not in SEARCH)),
        )

    def _resolved(self, condition: WhereCondition) -> WhereCondition:
        """With the members that a subquery or a LET gives, and the caller where MY stands for one."""
        value = condition.value
        if isinstance(value, Param):
            # Everything else was bound before; MY is written out only now.
            return replace(condition, value=self.session.user_id)
        if isinstance(value, Subquery):
            return replace(condition, value=self._members(self.recall(value.query, uncapped=True)))
        if condition.operator == "IN" and isinstance(value, tuple):
            members: list[Any] = []
            for each in value:
                members += (
                    self._members(self._let(each))
                    if isinstance(each, Param)
                    else (self._whole_hash(each),)
                )
            return replace(condition, value=tuple(members))
        return (
            replace(condition, value=self._whole_hash(value))
            if isinstance(value, Hash)
            else condition
        )

    def _whole_hash(self, value: Any) -> Any:
        """The hash of the grain that the beginning of one stands for, if it is here; anything else as it is."""
        if not isinstance(value, Hash) or len(value.text.removeprefix("sha256:")) == ADDRESS_CHARS:
            return value
        return next((Hash(text=f"sha256:{address}") for address, _ in self._only(value)), value)

    def _let(self, param: Param) -> Found:
        if param.name not in self.lets:
            raise QueryError(
                f"${param.name} has no value.", cal_code="CAL-E008", suggestion="Bind it with LET."
            )
        return self.lets[param.name]

    def _members(self, found: Found) -> tuple[Any, ...]:
        if not isinstance(found.outcome, Values):
            raise QueryError(
                "IN needs values.",
                cal_code="CAL-E021",
                suggestion="End it with SUBJECTS, OBJECTS or HASHES.",
            )
        return tuple(found.outcome.items)

    def _hashed(self, condition: WhereCondition) -> tuple[int, ...]:
        assert isinstance(condition.value, Hash)
        return self.only(condition.value)

    def only(self, given: Hash) -> tuple[int, ...]:
        """The version a hash stands for, or none. Raises CAL-E015 when a prefix stands for several."""
        return tuple(version_id for _, version_id in self._only(given))

    def _only(self, given: Hash) -> list[tuple[str, int]]:
        found = self.resolve(given)
        if len({address for address, _ in found}) > 1:
            raise QueryError(
                f"{given.text} is the beginning of several hashes.",
                cal_code="CAL-E015",
                suggestion="Write more of its digits.",
            )
        return found

    def _contradicted(self, *, wanted: bool) -> IsAmong:
        """What is contested, or at either end of a link that says so."""
        ids = tuple(sorted(self._ends_of_contradictions()))
        return IsAmong(version_ids=ids, or_verification="contested", negated=not wanted)

    def _ends_of_contradictions(self) -> frozenset[int]:
        links = self.selection(None, (IsOneOf(name="link", texts=("contradicts",)),))
        ids = {each.version_id for each in self._seen(links)}
        targets = [
            target for item in self.items_of(sorted(ids)) for target in contradicted_addresses(item)
        ]
        for address in dict.fromkeys(targets):
            ids.update(self._named(address))
        return frozenset(ids)

    def _named(self, address: str) -> tuple[int, ...]:
        found = self.snapshot.find_names_by_prefix(oms.STANDARD, address, 1)
        return tuple(version_id for name, version_id in found if name == address)

    def _thread(self, thread: Thread) -> Test:
        """The whole thread that a message is in: its session, or what hangs together by parents."""
        assert isinstance(thread.message, Hash)
        start = self.items_of(self.only(thread.message))
        if not start:
            return IsAmong(version_ids=())
        if session := field_of(start[0].grain_type, start[0].fields, "session_id"):
            return IsOneOf(name="session", texts=(str(session),))
        return IsAmong(version_ids=tuple(sorted(self._hanging_together(start[0]))))

    def _hanging_together(self, start: ResultItem) -> set[int]:
        """Parents and children, and theirs, both ways; superseded ones, too, or the thread would fall apart."""
        waiting, known, ids = [start.address], set[str](), set[int]()
        while waiting:
            self.check_time()
            address = waiting.pop()
            if address in known:
                continue
            known.add(address)
            # A parent may be gone, or in another namespace: its other children belong to the thread, it does not.
            own = tuple(
                version_id
                for name, version_id in self.resolve(Hash(text=address))
                if name == address
            )
            child = IsOneOf(name="parent_message_id", texts=(address,))
            below = self._seen(self.selection(None, (child,), standing="unforgotten"))
            ids.update(own, (each.version_id for each in below))
            waiting += [each.address for each in below]
            parents = (value_of(item, "parent_message_id") for item in self.items_of(own))
            waiting += [
                parent.removeprefix("sha256:") for parent in parents if isinstance(parent, str)
            ]
        return ids

    def _lost(self, written: Recall, recall: Recall) -> list[WhereCondition]:
        """ABOUT and an exact conclusion become a search when no grain has that subject, or that conclusion, at all."""
        exact = [
            each for each in recall.where if each.field == "conclusion" and each.operator == "="
        ]
        if isinstance(written.about, str) and all(each.field != "query" for each in recall.where):
            exact.append(WhereCondition(field="subject", operator="=", value=written.about))
        return [each for each in exact if not self._is_anywhere(recall, each)]

    def _is_anywhere(self, recall: Recall, exact: WhereCondition) -> bool:
        only = build_index_query(exact, recall.grain_type, self.session.now).tests
        return bool(
            self._seen(self.selection(recall.grain_type, only, standing=standing(recall)), 1)
        )

    # --- retrieval ---------------------------------------------------------------------------------------

    def _run(
        self,
        question: _Question,
        recall: Recall,
        stages: tuple[Stage, ...],
        offset: int,
        *,
        is_answer: bool,
    ) -> Found:
        self.scores, self.asked = {}, question.asked
        self.sought = frozenset() if question.text is None else query_terms(question.text)
        reorders = [option for option in recall.options if option.name in ("dedup", "diversity")]
        is_looked_at = bool(
            question.left_over or question.within or reorders or not self._sees_all()
        )
        # WITH comes before every stage, also before an ORDER BY.
        if reorders:
            window = Window(rest=tuple(pipeline.merge_slices(stages)))
        else:
            window = window_of(stages, pushes=not is_looked_at)
        if (varied := self._varied(question, reorders, stages, offset)) is not None:
            return varied
        if window.counts:
            counted = self._count(question)
            return Found(Total(counted), counted)
        if window.groups is not None:
            counted_groups = self._groups(question, window, offset)
            if counted_groups is not None:
                return counted_groups
        if window.limit is None or window.groups is not None:
            items = reordered(self._all(question, window), reorders)
            return paged(window.rest, items, offset)
        if any(limit_of(stage) is not None for stage in window.rest):
            # Another LIMIT follows: a cursor is about that one.
            page, total, _ = self._page(question, window, 0)
            return replace(paged(window.rest, page, offset), total=total)
        ids, total, is_more = self._page_ids(question, window, offset)
        is_paged = is_list(window.rest)
        fitting = self.snapshot.fit_into_bytes(ids, PAGE_BYTES) if is_answer and is_paged else ids
        page = self.items_of(fitting, ranked=question.text is not None and window.order is None)
        outcome = pipeline.run_stages(window.rest, GrainList(page))
        if len(fitting) < len(ids):
            return Found(outcome, total, offset + len(fitting))
        return Found(outcome, total, offset + window.limit if is_more and is_paged else None)

    def _varied(
        self, question: _Question, reorders: list[Option], stages: tuple[Stage, ...], offset: int
    ) -> Found | None:
        """A page of what WITH diversity reorders: the first so many. None: all has to be looked at."""
        if (
            len(reorders) != 1
            or reorders[0].name != "diversity"
            or question.left_over
            or question.within
        ):
            return None
        window = window_of(stages, pushes=self._sees_all())
        if (
            window.limit is None
            or window.order is not None
            or window.groups
            or not is_list(window.rest)
        ):
            return None
        start, end = window.offset + offset, window.offset + offset + window.limit
        page, _, is_more = self._page(question, Window(limit=max(end, DIVERSE_LIMIT)), 0)
        if not is_more and reorders[0].word != "mmr":
            return None
        items = diversified(page, reorders[0], enough=end + 1)
        if is_more and len(items) <= end:
            return None
        following = offset + window.limit if len(items) > end else None
        outcome = pipeline.run_stages(window.rest, GrainList(items[start:end]))
        return Found(outcome, None if is_more else len(page), following)

    def _groups(self, question: _Question, window: Window, offset: int) -> Found | None:
        """Groups as the store counts them; None: it cannot."""
        assert window.limit is not None
        if window.groups not in COUNTED or question.text is not None:
            return None
        grouping = Grouping(
            snapshot=self.snapshot,
            selection=question.selection,
            field=window.groups,
            now=self.session.now,
            items_of=self.items_of,
            refuse_wide=self._refuse_wide,
        )
        return grouping.page(window.offset + offset, window.limit, offset + window.limit)

    def _count(self, question: _Question) -> int:
        now = self.session.now
        if question.text is None:
            return self.snapshot.count(question.selection, now=now)
        total = self._match(question.text, question.selection, 1, whole=True).total
        assert total is not None
        return total

    def _match(
        self, text: str, selection: Selection, limit: int, *, whole: bool = False
    ) -> Matches:
        legs = self.context.semantic_search.create_retriever_queries(
            with_phrase_reader(self.context, KeywordQuery(text=text))
        )
        began = time.monotonic()
        self.snapshot.warm_index()
        # What the first question after a start waits for is not the question's fault.
        self.deadline += time.monotonic() - began
        return self.snapshot.match(
            selection, legs, limit=limit, count_all=whole, now=self.session.now
        )

    def _page(
        self, question: _Question, window: Window, offset: int
    ) -> tuple[list[ResultItem], int | None, bool]:
        """A page as the store orders it, how many there are in all if that shows, and whether there are more."""
        ids, total, is_more = self._page_ids(question, window, offset)
        return (
            self.items_of(ids, ranked=question.text is not None and window.order is None),
            total,
            is_more,
        )

    def _page_ids(
        self, question: _Question, window: Window, offset: int
    ) -> tuple[list[int], int | None, bool]:
        assert window.limit is not None
        now, start, end = (
            self.session.now,
            window.offset + offset,
            window.offset + offset + window.limit,
        )
        selection = question.selection
        if question.text is not None:
            if window.order is None:
                matches = self._match(question.text, selection, end)
                is_more = len(matches.hits) == end if matches.total is None else matches.total > end
                self._keep_scores(matches.hits)
                return [each.version_id for each in matches.hits[start:]], matches.total, is_more
            matches = self._match(question.text, selection, SCAN_LIMIT, whole=True)
            self._refuse_wide(matches.total)
            self._keep_scores(matches.hits)
            selection = structs.replace(
                selection, tests=(IsAmong(version_ids=tuple(m.version_id for m in matches.hits)),)
            )
        order = order_of(window.order)
        page = self.snapshot.load_counted_page(
            selection, order, limit=window.limit, offset=start, now=now
        )
        return [each.version_id for each in page.hits], page.total, not page.is_last

    def _all(self, question: _Question, window: Window) -> list[ResultItem]:
        """Everything that passes, in the order of the window."""
        now = self.session.now
        if question.text is not None:
            matches = self._match(question.text, question.selection, SCAN_LIMIT, whole=True)
            self._refuse_wide(matches.total)
            items = self._scored(matches.hits, 0)
        else:
            order = order_of(window.order)
            found = self.snapshot.load_page(
                question.selection, order, limit=SCAN_LIMIT + 1, now=now
            )
            self._refuse_wide(len(found))
            items = self.items_of([each.version_id for each in found])
        items = [
            item
            for item in items
            if _has_words(question, item) and _passes(question, item, scores=False)
        ]
        if question.text is not None:
            items = [item for item in _rescored(items) if _passes(question, item, scores=True)]
        if question.text is not None and window.order is not None:
            items = pipeline.sort_items(items, window.order)
        return items

    def _refuse_wide(self, total: int | None) -> None:
        if total is not None and total > SCAN_LIMIT:
            raise QueryError(
                f"More than {SCAN_LIMIT} grains would have to be read.",
                cal_code="CAL-E030",
                suggestion="Narrow it: a type, a subject, a time.",
            )

    def _scored(self, found: Sequence[Selected], start: int) -> list[ResultItem]:
        self._keep_scores(found)
        return self.items_of([each.version_id for each in found[start:]], ranked=True)

    def _keep_scores(self, found: Sequence[Selected]) -> None:
        best = found[0].lexical if found else 0.0
        # The best scores 1, also where there are common words only.
        least = _LEAST_SCORE if best else 1.0
        self.scores = {}
        unscored = 0
        for each in found:
            if not each.lexical:
                unscored += 1
            self.scores[each.version_id] = each.lexical / best if each.lexical else least / unscored

    def _item(self, kept: QueriedDocument) -> ResultItem | None:
        try:
            grain_type, fields = self._read(kept)
        except (MemorandaError, LookupError, TypeError, ValueError):
            # A damaged document must not keep anyone from the others; `memoranda verify` names it.
            return None
        score = self.scores.get(kept.version_id)
        return ResultItem(
            address=kept.address,
            grain_type=grain_type,
            fields=fields,
            verification=kept.verification,
            contradicted=kept.verification == "contested" or kept.version_id in self.contradicting,
            superseded_by="" if kept.is_superseded else None,
            system_valid_to=kept.closed if kept.is_superseded else None,
            score=1.0 if score is None else score,
            matched=partial(_matched, fields, self.asked, self.sought),
            breakdown=_NOTHING if score is None else {"lexical": score},
        )

    def _read(self, kept: QueriedDocument) -> tuple[str, Mapping[str, Any]]:
        """The type and the fields of a grain, or of the grain that a memory of another standard shows as."""
        document = kept.document
        if not port_of(document.standard).has_own_fields:
            grain = as_grain(self.context, self.snapshot.load_versions([kept.version_id])[0])[0]
            return grain.type_name, grain.fields
        if document.decoded is None:
            document.decoded = _decoded(document)
        found: tuple[str, Mapping[str, Any]] = document.decoded
        return found

    def _sees_all(self) -> bool:
        access = self.session.access
        return access.sees_unredacted(self.session.tenant) and not (
            access.limits.keys() - {"owner", "project"}
        )

    def _may_see(self, version: Version) -> bool:
        return is_visible(self.context, self.session.access, self.snapshot, version)


def _matched(
    fields: Mapping[str, Any], asked: tuple[str, ...], sought: frozenset[str]
) -> tuple[str, ...]:
    return (*asked, *matching_fields(fields, sought, (*asked, *_UNTOLD))) if sought else asked


def _without_scores(conditions: list[WhereCondition], tests: list[Test]) -> list[WhereCondition]:
    """Without a search every score is 1, so that a condition on it holds for all or for none."""
    whole = ResultItem(address="", grain_type="", fields={})
    scores = [condition for condition in conditions if condition.field == "score"]
    if not all(matches(condition, whole) for condition in scores):
        tests.append(IsAmong(version_ids=()))
    return [condition for condition in conditions if condition.field != "score"]


def _has_words(question: _Question, item: ResultItem) -> bool:
    return all(
        not sought.isdisjoint(keywords(collect_text(value_of(item, name))))
        for name, sought in question.within
    )


def _passes(question: _Question, item: ResultItem, *, scores: bool) -> bool:
    """Whether it passes what the index could not answer: the conditions on the score, or the others."""
    return all(
        matches(each, item) for each in question.left_over if (each.field == "score") is scores
    )


def _rescored(items: list[ResultItem]) -> list[ResultItem]:
    """The best of what is left scores 1: nothing shows of grains that the caller may not see."""
    best = max((item.score for item in items), default=1.0)
    if best == 1.0:
        return items
    return [
        replace(
            item,
            score=item.score / best,
            breakdown={name: part / best for name, part in item.breakdown.items()},
        )
        for item in items
    ]


def _decoded(document: OpenedDocument) -> tuple[str, Mapping[str, Any]]:
    blob = signature.blob_of(document.native)
    if document.is_sealed:
        type_byte, fields = read_accepted_fields(blob)
        return _TYPE_NAMES[type_byte], fields
    grain = decode(blob, address=document.name, profile=oms.VIEWS)
    return _TYPE_NAMES[grain.type_byte], grain.fields


def _document_of(kept: QueriedDocument) -> Document:
    document = kept.document
    return Document(
        standard=document.standard, media_type="", name=document.name, native=document.native
    )


def _text(condition: WhereCondition) -> str:
    assert isinstance(condition.value, str)
    return condition.value
