"""RECALL over the indexes of the store (CAL section 8.1).

Conditions become tests that the index answers; pages, counts and the orders by time, confidence and importance are
work of the store too. What the index cannot answer is checked grain by grain, for all grains that pass the tests, up
to SCAN_LIMIT, never only for the newest. One snapshot serves a whole request.

`GrainReader.recall` runs in these steps:

1. `expand_recall` replaces shorthand; `build_query` turns the conditions into a `RecallQuery`.
2. `split_pipeline` decides which part of the pipeline the store runs.
3. The store returns a page, a count or groups; or `_load_all` reads every match, and the pipeline runs here.

What to watch when you add a condition: say in `build_query` if an index answers it; if not, it becomes a check of each
grain, which is limited by SCAN_LIMIT and by the time of the request. A condition may never depend on fields that are
hidden from the caller, since the number of results would reveal them; hidden grains are left out before conditions are
checked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
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
from memoranda.retrieval.analysis import query_terms
from memoranda.service.cal.paging import (
    COUNTED_FIELDS,
    DIVERSE_LIMIT,
    GroupPager,
    RecallResult,
    StorePage,
    add_default_limit,
    diversify,
    keep_necessary_fields,
    keeps_entries,
    limit_of,
    order_of,
    page_through,
    reorder,
    split_pipeline,
)
from memoranda.service.cal.recall_query import (
    SCAN_LIMIT,
    RecallQuery,
    check_count,
    drop_score_conditions,
    expand_recall,
    matched_fields,
    passes_conditions,
    passes_unscored,
    rescale_scores,
    search_about,
    select_time,
    source_order,
    status_filter_of,
    uses_field,
)
from memoranda.service.cal.session import CalSession
from memoranda.service.core.context import Context
from memoranda.service.core.indexing import as_grain
from memoranda.service.core.ranking import place_below_sources
from memoranda.service.oms.views import is_visible
from memoranda.service.retrieve import PAGE_BYTES, restrict_selection, with_phrase_reader
from memoranda.standards.cal import limits
from memoranda.standards.cal.assembly import pipeline
from memoranda.standards.cal.assembly.pipeline import GrainList, Total, Values
from memoranda.standards.cal.conditions import SEARCH, build_index_query
from memoranda.standards.cal.item import (
    SEMANTIC,
    ResultItem,
    contradicted_addresses,
    field_of,
    value_of,
)
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
    Value,
    WhereCondition,
)
from memoranda.standards.oms import mapping as oms
from memoranda.standards.oms import signature
from memoranda.standards.oms.grains import decode, read_accepted_fields
from memoranda.standards.oms.registry import BY_BYTE, DEFAULT_NAMESPACE
from memoranda.standards.port import port_of
from memoranda.storage.engine.contract import Snapshot

# Grains that are read at once.
_CHUNK: Final = 500
# Bytes of documents that one request may read, all its RECALLs together (CAL-E030). Large documents count fourfold,
# because all requests together can hold only few of them in memory.
READ_BYTES: Final = 32 * 1_048_576
# Bytes from which a document counts as large.
_LARGE_BYTES: Final = 2_048
# The score of the first match that has common words only; the second has half of it, the third a third.
_LEAST_SCORE: Final = 0.001
# Grains among which the prefix of a hash is looked up.
_PREFIX_CANDIDATES: Final = 50
_TYPE_NAMES: Final = {byte: kind.name for byte, kind in BY_BYTE.items()}
_NO_BREAKDOWN: Final[Mapping[str, float]] = {}


class GrainReader(msgspec.Struct):
    """Reads grains for one request, all from one snapshot.

    It lives for one request and counts what the request reads: bytes, grains and time have limits, each with its own
    error code.
    """

    context: Context
    session: CalSession
    snapshot: Snapshot
    deadline: float
    timeout_code: str = "CAL-E031"
    # The results that LET has bound, by name.
    lets: dict[str, RecallResult] = msgspec.field(default_factory=dict)
    scanned: int = 0
    read_bytes: int = 0
    # State of the current RECALL: its scores by version id, the fields of its conditions, and its searched words.
    scores: dict[int, float] = msgspec.field(default_factory=dict)
    condition_fields: tuple[str, ...] = ()
    search_terms: frozenset[str] = frozenset()
    # Ids of the versions that others contradict (`contradicts` links). Loaded only if the RECALL shows `contradicted`.
    contradicting: frozenset[int] = frozenset()
    default_limit: int = limits.LIMIT_DEFAULT
    # Health information is shown only by named fields.
    is_minimal: bool = False
    # The grains that the caller can reach in this namespace. None until the first query.
    reachable: Selection | None = None

    # --- interface ---------------------------------------------------------------------------------------

    def recall(
        self,
        statement: Recall,
        *,
        offset: int = 0,
        is_uncapped: bool = False,
        is_answer: bool = False,
        is_source: bool = False,
    ) -> RecallResult:
        """Run a bound RECALL. `offset` comes from a cursor; `is_uncapped` is for sets that must be complete.

        With `is_answer`, the page also ends when it gets too large, and the next cursor continues there. `is_source`
        marks a source of ASSEMBLE, which has its own order of grains of equal score (cal.md, *ties*).
        """
        recall = expand_recall(statement)
        default_limit = limits.LIMIT_MAX if is_uncapped else self.default_limit
        stages = add_default_limit(statement, recall.stages, default_limit)
        self.contradicting = (
            self._find_contradicting() if uses_field("contradicted", recall) else frozenset()
        )
        query = self.build_query(recall)
        if is_source:
            query = replace(query, tie_order=source_order(recall))
        result = self._run(query, recall, stages, offset, is_answer=is_answer)
        if result.total == 0 and (unmatched := self._find_unmatched(statement, recall)):
            query = self.build_query(recall, unmatched)
            result = self._run(query, recall, stages, offset, is_answer=is_answer)
        if query.tie_order.by == "at" and not self.scores and isinstance(result.outcome, GrainList):
            result.outcome = GrainList(pipeline.order_exchanges(result.outcome.items))
        if self.is_minimal and not any(isinstance(stage, Select | Project) for stage in stages):
            result.outcome = keep_necessary_fields(result.outcome)
        result.shape = next(
            (stage for stage in reversed(stages) if isinstance(stage, Project)), None
        )
        if any(option.name == "contradiction_detection" for option in recall.options):
            result.contradictions = pipeline.find_contradictions(result.items)
        return result

    def load_items(
        self, version_ids: Sequence[int], *, is_ranked: bool = False
    ) -> list[ResultItem]:
        """Load versions as grains, without those that the caller may not see or that are damaged.

        Ranked results that were derived from others of the same chunk are placed behind these.

        Documents are read in chunks, so a large result never needs all of its bytes at once.
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
                versions = self.snapshot.load_versions(chunk)
                chunk = [version.version_id for version in versions if self._may_see(version)]
            documents = self.snapshot.load_documents(chunk)
            self.count_bytes(*(len(result.document.native) for result in documents))
            if is_ranked:
                documents = place_below_sources(documents, _document_of)
            items += [item for result in documents if (item := self._to_item(result)) is not None]
        self.scanned += len(version_ids)
        return items

    def count_bytes(self, *sizes: int) -> None:
        """Count the bytes of documents that are read. Raises CAL-E030 if a request reads too many."""
        self.read_bytes += sum(size if size <= _LARGE_BYTES else 4 * size for size in sizes)
        if self.read_bytes > READ_BYTES:
            raise QueryError(
                f"The query would have to read more than {READ_BYTES >> 20} MiB of grains.",
                cal_code="CAL-E030",
                suggestion="Narrow the query: by type, subject or time, or with a smaller LIMIT.",
            )

    def resolve(self, grain_hash: Hash) -> list[tuple[str, int]]:
        """Return the grains of this namespace whose hash begins with the given one, as (address, version id)."""
        prefix = grain_hash.text.removeprefix("sha256:")
        names = self.snapshot.find_names_by_prefix(oms.STANDARD, prefix, _PREFIX_CANDIDATES)
        version_ids = tuple(dict.fromkeys(version_id for _, version_id in names))
        selection = self.select(
            None, (IsAmong(version_ids=version_ids),), status_filter="unforgotten"
        )
        return [(hit.address, hit.version_id) for hit in self._find_visible(selection)]

    def resolve_one(self, grain_hash: Hash) -> tuple[int, ...]:
        """Return the version id of the grain with a hash, or nothing. Raises CAL-E015 if several begin with it."""
        return tuple(version_id for _, version_id in self._resolve_unique(grain_hash))

    def _resolve_unique(self, grain_hash: Hash) -> list[tuple[str, int]]:
        candidates = self.resolve(grain_hash)
        if len({address for address, _ in candidates}) > 1:
            raise QueryError(
                f"Several hashes begin with {grain_hash.text}.",
                cal_code="CAL-E015",
                suggestion="Write more digits.",
            )
        return candidates

    def let_result(self, param: Param) -> RecallResult:
        """Return the result that LET bound to a name. Raises CAL-E008 if there is none."""
        if param.name not in self.lets:
            raise QueryError(
                f"${param.name} has no value.", cal_code="CAL-E008", suggestion="Bind it with LET."
            )
        return self.lets[param.name]

    def check_time(self) -> None:
        """Raise QueryError if the request has run for too long."""
        if time.monotonic() > self.deadline:
            raise QueryError(
                "The query took too long.",
                cal_code=self.timeout_code,
                suggestion="Narrow the conditions of the query.",
            )

    def select(
        self,
        grain_type: str | None,
        tests: Sequence[Test] = (),
        *,
        status_filter: StatusFilter = "live",
    ) -> Selection:
        """Return a selection of this namespace's grains that the caller can reach, with further tests."""
        if self.reachable is None:
            namespace = self.session.namespace
            space = "" if namespace == DEFAULT_NAMESPACE else namespace
            self.reachable = restrict_selection(
                self.context,
                self.session.access,
                self.snapshot,
                Selection(space=space, has_fields=True),
            )
        return replace(
            self.reachable,
            form=grain_type,
            tests=(*self.reachable.tests, *tests),
            status_filter=status_filter,
        )

    def _find_visible(self, selection: Selection, needed: int = SCAN_LIMIT) -> list[Selected]:
        """Return the matches that the caller may see: all, or at least `needed`, if there are as many."""
        limit = needed if self._sees_all() else SCAN_LIMIT
        hits = self.snapshot.load_page(selection, order_of(None), limit=limit, now=self.session.now)
        if self._sees_all():
            return list(hits)
        versions = self.snapshot.load_versions([hit.version_id for hit in hits])
        visible = {version.version_id for version in versions if self._may_see(version)}
        return [hit for hit in hits if hit.version_id in visible]

    # --- conditions --------------------------------------------------------------------------------------

    def build_query(self, recall: Recall, searched: Sequence[WhereCondition] = ()) -> RecallQuery:
        """Build the query of an expanded RECALL. The `searched` conditions become searches."""
        recall, now = search_about(recall, searched), self.session.now
        tests: list[Test] = []
        texts: list[str] = []
        field_words: list[tuple[str, frozenset[str]]] = []
        unindexed: list[WhereCondition] = []
        for unresolved in recall.where:
            condition = self._resolve_value(unresolved)
            if condition.field == "query":
                # This text is searched in whole grains; the words of fields are checked in the grains that it finds.
                texts.insert(0, _text(condition))
            elif condition in searched or (
                condition.field in SEMANTIC and condition.operator == "="
            ):
                field_words.append((condition.field, query_terms(_text(condition))))
                texts.append(_text(condition))
            elif condition.field == "hash":
                assert isinstance(condition.value, Hash)
                tests.append(IsAmong(version_ids=self.resolve_one(condition.value)))
            elif condition.field == "contradicted":
                tests.append(self._test_contradicted(is_wanted=bool(condition.value)))
            elif condition.field == "score":
                unindexed.append(condition)
            else:
                index_query = build_index_query(condition, recall.grain_type, now)
                tests += index_query.tests
                unindexed += [condition] if index_query.needs_check else []
        if recall.thread is not None:
            tests.append(self._test_thread(recall.thread))
        if not texts and unindexed:
            unindexed = drop_score_conditions(unindexed, tests)
        selection = self.select(recall.grain_type, tests, status_filter=status_filter_of(recall))
        names = (condition.field for condition in recall.where if condition.field not in SEARCH)
        return RecallQuery(
            selection=select_time(selection, recall, now),
            text=texts[0] if texts else None,
            field_words=tuple(field_words),
            unindexed=tuple(unindexed),
            fields=tuple(dict.fromkeys(names)),
        )

    def _resolve_value(self, condition: WhereCondition) -> WhereCondition:
        """Replace the value of a condition if it is a subquery, a name of LET, MY, or the prefix of a hash."""
        value = condition.value
        if isinstance(value, Param):
            # All other parameters are bound by now; this is MY, the caller.
            return replace(condition, value=self.session.user_id)
        if isinstance(value, Subquery):
            members = _members(self.recall(value.query, is_uncapped=True))
            return replace(condition, value=members)
        if isinstance(value, Hash):
            return replace(condition, value=self._complete_hash(value))
        if condition.operator == "IN" and isinstance(value, tuple):
            in_values: list[Value] = []
            for member in value:
                if isinstance(member, Param):
                    in_values += _members(self.let_result(member))
                else:
                    in_values.append(
                        self._complete_hash(member) if isinstance(member, Hash) else member
                    )
            return replace(condition, value=tuple(in_values))
        return condition

    def _complete_hash(self, grain_hash: Hash) -> Hash:
        """Return the complete hash for a prefix; the prefix itself if no grain here has it."""
        if len(grain_hash.text.removeprefix("sha256:")) == ADDRESS_CHARS:
            return grain_hash
        candidates = self._resolve_unique(grain_hash)
        return Hash(text=f"sha256:{candidates[0][0]}") if candidates else grain_hash

    def _test_contradicted(self, *, is_wanted: bool) -> IsAmong:
        """Return a test for contested grains, and for both ends of `contradicts` links."""
        version_ids = tuple(sorted(self._find_contradicting()))
        return IsAmong(version_ids=version_ids, or_verification="contested", negated=not is_wanted)

    def _find_contradicting(self) -> frozenset[int]:
        """Return the version ids at both ends of `contradicts` links."""
        linking = self.select(None, (IsOneOf(name="link", texts=("contradicts",)),))
        version_ids = {hit.version_id for hit in self._find_visible(linking)}
        targets = dict.fromkeys(
            address
            for item in self.load_items(sorted(version_ids))
            for address in contradicted_addresses(item)
        )
        for address in targets:
            names = self.snapshot.find_names_by_prefix(oms.STANDARD, address, 1)
            version_ids.update(version_id for name, version_id in names if name == address)
        return frozenset(version_ids)

    def _test_thread(self, thread: Thread) -> Test:
        """Return a test for the thread of a message: its session, or the messages connected by parents."""
        assert isinstance(thread.message, Hash)
        messages = self.load_items(self.resolve_one(thread.message))
        if not messages:
            return IsAmong(version_ids=())
        message = messages[0]
        if session_id := field_of(message.grain_type, message.fields, "session_id"):
            return IsOneOf(name="session", texts=(str(session_id),))
        return IsAmong(version_ids=tuple(sorted(self._find_connected(message))))

    def _find_connected(self, message: ResultItem) -> set[int]:
        """Return the messages that parents connect with this one, in both directions.

        Superseded messages are included; otherwise the thread would break apart at them.
        """
        unvisited, visited, version_ids = [message.address], set[str](), set[int]()
        while unvisited:
            self.check_time()
            address = unvisited.pop()
            if address in visited:
                continue
            visited.add(address)
            # A missing parent, or one in another namespace, still connects its children, but is not returned itself.
            own_hits = tuple(
                version_id
                for name, version_id in self.resolve(Hash(text=address))
                if name == address
            )
            is_child = IsOneOf(name="parent_message_id", texts=(address,))
            children = self._find_visible(
                self.select(None, (is_child,), status_filter="unforgotten")
            )
            version_ids.update(own_hits, (child.version_id for child in children))
            unvisited += [child.address for child in children]
            parents = (value_of(item, "parent_message_id") for item in self.load_items(own_hits))
            unvisited += [
                parent.removeprefix("sha256:") for parent in parents if isinstance(parent, str)
            ]
        return version_ids

    def _find_unmatched(self, statement: Recall, recall: Recall) -> list[WhereCondition]:
        """Return the conditions of ABOUT, and on a conclusion, that no grain at all fulfils: they become searches."""
        exact = [
            condition
            for condition in recall.where
            if condition.field == "conclusion" and condition.operator == "="
        ]
        has_query = any(condition.field == "query" for condition in recall.where)
        if isinstance(statement.about, str) and not has_query:
            exact.append(WhereCondition(field="subject", operator="=", value=statement.about))
        return [condition for condition in exact if not self._has_match(recall, condition)]

    def _has_match(self, recall: Recall, condition: WhereCondition) -> bool:
        """Return True if any grain that the caller may see fulfils a single condition of a RECALL."""
        tests = build_index_query(condition, recall.grain_type, self.session.now).tests
        selection = self.select(recall.grain_type, tests, status_filter=status_filter_of(recall))
        return bool(self._find_visible(selection, 1))

    # --- retrieval ---------------------------------------------------------------------------------------

    def _run(
        self,
        query: RecallQuery,
        recall: Recall,
        stages: tuple[Stage, ...],
        offset: int,
        *,
        is_answer: bool,
    ) -> RecallResult:
        """Run a query and its pipeline, as much of it in the store as possible."""
        self.scores, self.condition_fields = {}, query.fields
        self.search_terms = frozenset() if query.text is None else query_terms(query.text)
        reorders = [option for option in recall.options if option.name in ("dedup", "diversity")]
        is_checked_here = bool(
            query.unindexed or query.field_words or reorders or not self._sees_all()
        )
        # WITH comes before every stage, also before an ORDER BY.
        if reorders:
            page = StorePage(stages=tuple(pipeline.merge_slices(stages)))
        else:
            page = split_pipeline(stages, store_pages=not is_checked_here)
        if (diverse := self._load_diverse_page(query, reorders, stages, offset)) is not None:
            return diverse
        if page.is_count:
            count = self._count(query)
            return RecallResult(Total(count), count)
        if page.group_field is not None:
            groups = self._load_groups(query, page, offset)
            if groups is not None:
                return groups
        if page.limit is None or page.group_field is not None:
            items = reorder(self._load_all(query, page), reorders)
            return page_through(page.stages, items, offset)
        if any(limit_of(stage) is not None for stage in page.stages):
            # Another LIMIT follows, and the cursor moves that one.
            items, total, _ = self._load_page(query, page, 0)
            return replace(page_through(page.stages, items, offset), total=total)
        return self._load_cursor_page(query, page, offset, is_answer=is_answer)

    def _load_cursor_page(
        self, query: RecallQuery, page: StorePage, offset: int, *, is_answer: bool
    ) -> RecallResult:
        """Load a page whose LIMIT the cursor moves. An answer ends early if its documents are too large."""
        assert page.limit is not None
        version_ids, total, has_next = self._find_page(query, page, offset)
        can_continue = keeps_entries(page.stages)
        fitting = version_ids
        if is_answer and can_continue:
            fitting = self.snapshot.fit_into_bytes(version_ids, PAGE_BYTES)
        items = self.load_items(fitting, is_ranked=_is_ranked(query, page))
        outcome = pipeline.run_stages(page.stages, GrainList(items))
        if len(fitting) < len(version_ids):
            return RecallResult(outcome, total, offset + len(fitting))
        next_offset = offset + page.limit if has_next and can_continue else None
        return RecallResult(outcome, total, next_offset)

    def _load_diverse_page(
        self, query: RecallQuery, reorders: list[Option], stages: tuple[Stage, ...], offset: int
    ) -> RecallResult | None:
        """Load a page of WITH diversity from the first matches. Returns None if all matches must be read."""
        is_diversity_only = len(reorders) == 1 and reorders[0].name == "diversity"
        if not is_diversity_only or query.unindexed or query.field_words:
            return None
        page = split_pipeline(stages, store_pages=self._sees_all())
        if page.limit is None or page.order is not None or page.group_field:
            return None
        if not keeps_entries(page.stages):
            return None
        start, end = page.offset + offset, page.offset + offset + page.limit
        matches, _, has_more = self._load_page(query, StorePage(limit=max(end, DIVERSE_LIMIT)), 0)
        if not has_more and reorders[0].word != "mmr":
            return None
        items = diversify(matches, reorders[0], limit=end + 1)
        if has_more and len(items) <= end:
            return None
        next_offset = offset + page.limit if len(items) > end else None
        outcome = pipeline.run_stages(page.stages, GrainList(items[start:end]))
        return RecallResult(outcome, None if has_more else len(matches), next_offset)

    def _load_groups(self, query: RecallQuery, page: StorePage, offset: int) -> RecallResult | None:
        """Load a page of groups that the store counts. Returns None if it cannot count them."""
        assert page.limit is not None
        if page.group_field not in COUNTED_FIELDS or query.text is not None:
            return None
        pager = GroupPager(
            snapshot=self.snapshot,
            selection=query.selection,
            field=page.group_field,
            now=self.session.now,
            load_items=self.load_items,
            check_count=check_count,
        )
        return pager.load_page(page.offset + offset, page.limit, offset + page.limit)

    def _count(self, query: RecallQuery) -> int:
        """Return the number of matches."""
        if query.text is None:
            return self.snapshot.count(query.selection, now=self.session.now)
        total = self._search(query.text, query.selection, 1, count_all=True).total
        assert total is not None
        return total

    def _search(
        self, text: str, selection: Selection, limit: int, *, count_all: bool = False
    ) -> Matches:
        """Search a text in the selected grains."""
        retrievers = self.context.semantic_search.create_retriever_queries(
            with_phrase_reader(self.context, KeywordQuery(text=text))
        )
        started_at = time.monotonic()
        self.snapshot.warm_index()
        # The first search after a start loads the index, which does not count as time of the query.
        self.deadline += time.monotonic() - started_at
        return self.snapshot.match(
            selection, retrievers, limit=limit, count_all=count_all, now=self.session.now
        )

    def _load_page(
        self, query: RecallQuery, page: StorePage, offset: int
    ) -> tuple[list[ResultItem], int | None, bool]:
        """Return the grains of a page, the number of matches if known, and True if there is a next page."""
        version_ids, total, has_next = self._find_page(query, page, offset)
        items = self.load_items(version_ids, is_ranked=_is_ranked(query, page))
        return items, total, has_next

    def _find_page(
        self, query: RecallQuery, page: StorePage, offset: int
    ) -> tuple[list[int], int | None, bool]:
        """Return the version ids of a page, the number of matches if known, and True if there is a next page."""
        assert page.limit is not None
        start = page.offset + offset
        end = start + page.limit
        selection = query.selection
        if query.text is not None:
            if page.order is None:
                matches = self._search(query.text, selection, end)
                hits, total = matches.hits, matches.total
                has_next = len(hits) == end if total is None else total > end
                self._set_scores(hits)
                return [hit.version_id for hit in hits[start:]], total, has_next
            matches = self._search_all(query.text, selection)
            self._set_scores(matches.hits)
            is_match = IsAmong(version_ids=tuple(hit.version_id for hit in matches.hits))
            selection = replace(selection, tests=(is_match,))
        counted_page = self.snapshot.load_counted_page(
            selection,
            order_of(page.order, query.tie_order),
            limit=page.limit,
            offset=start,
            now=self.session.now,
        )
        version_ids = [hit.version_id for hit in counted_page.hits]
        return version_ids, counted_page.total, not counted_page.is_last

    def _load_all(self, query: RecallQuery, page: StorePage) -> list[ResultItem]:
        """Load every grain that passes the conditions, in the order of the page."""
        if query.text is None:
            hits = self.snapshot.load_page(
                query.selection,
                order_of(page.order, query.tie_order),
                limit=SCAN_LIMIT + 1,
                now=self.session.now,
            )
            check_count(len(hits))
            items = self.load_items([hit.version_id for hit in hits])
            return [item for item in items if passes_unscored(query, item)]
        matches = self._search_all(query.text, query.selection)
        self._set_scores(matches.hits)
        items = self.load_items([hit.version_id for hit in matches.hits], is_ranked=True)
        items = rescale_scores([item for item in items if passes_unscored(query, item)])
        items = [item for item in items if passes_conditions(query, item, on_score=True)]
        return items if page.order is None else pipeline.sort_items(items, page.order)

    def _search_all(self, text: str, selection: Selection) -> Matches:
        """Search a text and return all matches. Raises CAL-E030 if there are too many."""
        matches = self._search(text, selection, SCAN_LIMIT, count_all=True)
        check_count(matches.total)
        return matches

    def _set_scores(self, hits: Sequence[Selected]) -> None:
        """Set the scores of the current RECALL. The best match has 1; matches of common words only come last."""
        best = hits[0].lexical if hits else 0.0
        # The best match scores 1 even if it has common words only.
        least = _LEAST_SCORE if best else 1.0
        self.scores = {}
        unscored = 0
        for hit in hits:
            if not hit.lexical:
                unscored += 1
            self.scores[hit.version_id] = hit.lexical / best if hit.lexical else least / unscored

    # --- grains ------------------------------------------------------------------------------------------

    def _to_item(self, result: QueriedDocument) -> ResultItem | None:
        """Return a document as a result; None if it is damaged."""
        try:
            grain_type, fields = self._decode(result)
        except (MemorandaError, LookupError, TypeError, ValueError):
            # A damaged document must not fail the query for the others; `memoranda verify` reports it.
            return None
        score = self.scores.get(result.version_id)
        is_contested = result.verification == "contested"
        return ResultItem(
            address=result.address,
            grain_type=grain_type,
            fields=fields,
            verification=result.verification,
            contradicted=is_contested or result.version_id in self.contradicting,
            superseded_by="" if result.is_superseded else None,
            system_valid_to=result.closed if result.is_superseded else None,
            score=1.0 if score is None else score,
            matched=partial(
                matched_fields,
                fields,
                self.condition_fields,
                self.search_terms,
                result.document.field_words,
            ),
            breakdown=_NO_BREAKDOWN if score is None else {"lexical": score},
        )

    def _decode(self, result: QueriedDocument) -> tuple[str, Mapping[str, object]]:
        """Return the type and the fields of a grain, or of the grain that shows a memory of another standard."""
        document = result.document
        if not port_of(document.standard).has_own_fields:
            grain = as_grain(self.context, self.snapshot.load_versions([result.version_id])[0])[0]
            return grain.type_name, grain.fields
        if document.decoded is None:
            document.decoded = _decode_document(document)
        decoded: tuple[str, Mapping[str, object]] = document.decoded
        return decoded

    def _sees_all(self) -> bool:
        """Return True if the caller may see every grain of the selection, so that the store can cut pages."""
        access = self.session.access
        return access.sees_unredacted(self.session.tenant) and not (
            access.limits.keys() - {"owner", "project"}
        )

    def _may_see(self, version: Version) -> bool:
        return is_visible(self.context, self.session.access, self.snapshot, version)


def _is_ranked(query: RecallQuery, page: StorePage) -> bool:
    """Return True if the page is in the order of a search."""
    return query.text is not None and page.order is None


def _members(result: RecallResult) -> tuple[Value, ...]:
    """Return the values of a result for IN. Raises CAL-E021 if it has no values."""
    if not isinstance(result.outcome, Values):
        raise QueryError(
            "IN needs values.",
            cal_code="CAL-E021",
            suggestion="End the inner query with SUBJECTS, OBJECTS or HASHES.",
        )
    return tuple(result.outcome.items)


def _decode_document(document: OpenedDocument) -> tuple[str, Mapping[str, object]]:
    blob = signature.blob_of(document.native)
    if document.is_sealed:
        type_byte, fields = read_accepted_fields(blob)
        return _TYPE_NAMES[type_byte], fields
    grain = decode(blob, address=document.name, profile=oms.VIEWS)
    return _TYPE_NAMES[grain.type_byte], grain.fields


def _document_of(result: QueriedDocument) -> Document:
    document = result.document
    return Document(
        standard=document.standard, media_type="", name=document.name, native=document.native
    )


def _text(condition: WhereCondition) -> str:
    assert isinstance(condition.value, str)
    return condition.value
