"""Reads of one tenant over any database behind the seam.

Search. A tenant's words are fingerprints of their own, so posting lists, document frequencies and mean lengths
are the tenant's alone and no score tells of anyone else. Candidates come from the rarest words first until
their posting lists add up to POSTINGS_LIMIT; commoner words cannot change the order much and would cost
the most. A query of common words only takes the newest matches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import orjson

from memoranda.errors import StoreCorrupt
from memoranda.model.change import Change
from memoranda.model.facts import Kept, Order, Selected, Selection, WordMatches
from memoranda.model.instant import Instant
from memoranda.model.memory import VISIBILITIES, Document, Link, State, Version
from memoranda.model.query import Filter, Hit, Listing, Matches, Structure
from memoranda.storage.cipher import Cipher, Opener
from memoranda.storage.database import Connection, Row
from memoranda.storage.fingerprints import Fingerprints
from memoranda.storage.rows import NO_TENANT, DocumentRow, TenantRow, VersionRow
from memoranda.storage.selection import COUNT_CAPS, SelectionSql
from memoranda.storage.words import words

# After every instant that can occur: stands for "never ends".
FOREVER_MS = 1 << 62
_NOW_KNOWN_MS = FOREVER_MS - 1

# Half a microsecond each: about a millisecond a search.
POSTINGS_LIMIT = 2_000
# A space of fewer memories is a word of every question.
SMALL_SPACE_LIMIT = 2_000
# A question has few words; a pasted page is cut, rarest words first.
QUERY_WORDS_LIMIT = 32
# BM25's usual constants.
_K1, _B = 1.2, 0.75


class SqlSnapshot:
    """Reads for one tenant on one connection."""

    def __init__(
        self, connection: Connection, tenant: str, prints: Fingerprints, cipher: Cipher, row: Row | None
    ) -> None:
        self._connection = connection
        self._cipher = cipher
        self._opener: Opener | None = None
        self._prints = prints
        self._tenant = tenant
        counters = NO_TENANT if row is None else TenantRow(*row)
        self._tenant_id = counters.tenant_id
        self._change_seq = counters.change_seq
        self._audit_seq = counters.audit_seq
        self._audit_hash = counters.audit_hash
        self._version_count = counters.version_count
        self._term_count = counters.term_count
        self._live_count = counters.live_count
        self._byte_count = counters.byte_count

    @property
    def tenant(self) -> str:
        return self._tenant

    def _rows(self, query: str, /, **params: Any) -> list[Row]:
        params["tenant_id"] = self._tenant_id
        return self._connection.rows(query, params)

    def _versions(self, query: str, /, **params: Any) -> list[Version]:
        return [self._version(row) for row in self._rows(query, **params)]

    def _version(self, columns: Row) -> Version:
        row = VersionRow(*columns)
        native, cause, is_readable = self._opened(row)
        return Version(
            tenant=self._tenant,
            version_id=row.version_id,
            memory_id=row.memory_id,
            document=Document(standard=row.standard, media_type=row.media_type, name=row.name, native=native),
            cause=cause,
            is_sealed=row.seal is not None
            and self._prints.document(self._tenant, row.standard, row.name, native) == row.seal,
            state=_state(row, is_readable),
        )

    def _opened(self, row: VersionRow) -> tuple[bytes, bytes | None, bool]:
        """The document and its cause in the clear, and whether there still is a key to read them with."""
        if row.key_id is None:
            return row.native, row.cause, True
        bound = bound_to(self._tenant, row.standard, row.name, row.recorded)
        try:
            native = self._cipher.open(row.key_id, row.native, bound + b"native")
            if native is None:
                return b"", None, False
            cause = None if row.cause is None else self._cipher.open(row.key_id, row.cause, bound + b"cause")
        except StoreCorrupt:
            # One damaged document must not keep anyone from the others: it is empty, which nothing accepts.
            return b"", None, True
        return native, cause, True

    def named(self, standard: str, name: str) -> Version | None:
        found = self._versions("version_named", standard=standard, name=name)
        return found[0] if found else None

    def versions(self, version_ids: Sequence[int]) -> list[Version]:
        return self._versions("versions_by_id", version_ids=as_json(list(version_ids)))

    def history(self, memory_id: int) -> list[Version]:
        return self._versions("versions_of_memory", memory_id=memory_id)

    def same(self, sameness: str, now: Instant) -> Version | None:
        key = self._prints.value(self._tenant_id, sameness)
        found = self._versions("version_same", sameness_key=key, now_ms=now, forever_ms=FOREVER_MS)
        return found[0] if found else None

    def page(self, after: int, limit: int, space: str | None = None) -> list[Version]:
        return self._versions("versions_page", after=after, limit=limit, space=space)

    def search(self, text: str, where: Filter, limit: int, now: Instant) -> Matches:
        within = self._scope_words(where.space, where.user, where.agent, where.session)
        frequencies = self._frequencies(text, within)
        weights = {word: _weight(count, self._version_count) for word, count in frequencies.items()}
        mean_terms = max(1.0, self._term_count / max(1, self._version_count))
        present = {word: count for word, count in frequencies.items() if count}
        rare = _rarest(present)
        common = [word for word in present if word not in rare]
        params = self._filter_params(where, now)
        found: dict[int, float] = {}
        if rare:
            terms = as_json([[self._expression(word, within), weights[word]] for word in rare])
            constants = {"k1": _K1, "b": _B, "mean_terms": mean_terms}
            found.update(self._rows("search_terms", **params, **constants, terms=terms, limit=limit))
        if common and len(found) < limit:
            for version_id in self._newest_matches(common, within, params, limit):
                found.setdefault(version_id, 0.0)
        hits = [Hit(version_id=version_id, lexical=lexical) for version_id, lexical in found.items()]
        return Matches(hits=tuple(hits[:limit]), weights=weights, mean_terms=mean_terms)

    def _newest_matches(self, common: list[str], within: list[str], params: dict[str, Any], limit: int) -> list[int]:
        """Versions with common words: first those that have all of them, then any, newest first."""
        found: list[int] = []
        for joint in (" AND ", " OR "):
            either = joint.join(self._expression(word, []) for word in common)
            expression = " AND ".join([*within, f"({either})"])
            rows = self._rows("search_newest", **params, expression=expression, limit=limit)
            found += [version_id for (version_id,) in rows if version_id not in found]
            if len(found) >= limit or len(common) == 1:
                break
        return found

    def _frequencies(self, text: str, within: list[str]) -> dict[str, int]:
        """How many of the tenant's versions hold each query word, counted up to the limit."""
        distinct = list(dict.fromkeys(words(text)))[: QUERY_WORDS_LIMIT * 4]
        expressions = as_json([self._expression(word, within) for word in distinct])
        counts = self._connection.rows("term_frequencies", {"expressions": expressions, "cap": POSTINGS_LIMIT + 1})
        return {word: count for word, (count,) in zip(distinct, counts, strict=True)}

    def _expression(self, word: str, within: list[str]) -> str:
        return " AND ".join([*within, f'"{self._prints.word(self._tenant_id, word)}"'])

    def _scope_words(self, *scope: str | None) -> list[str]:
        """Search words for a scope: the dimensions in their fixed order, those that are not set left out."""
        named = zip((b"space", b"user", b"agent", b"session"), scope, strict=True)
        return [f'"{self._prints.scope_word(use, self._tenant_id, name)}"' for use, name in named if name is not None]

    def recent(self, where: Filter, limit: int, now: Instant) -> list[int]:
        query = _recent_query(where)
        return [version_id for (version_id,) in self._rows(query, **self._filter_params(where, now), limit=limit)]

    def _filter_params(self, where: Filter, now: Instant) -> dict[str, Any]:
        def key(text: str | None) -> bytes | None:
            return None if text is None else self._prints.value(self._tenant_id, text)

        return {
            "statuses": as_json(list(where.statuses)),
            "at_ms": where.at,
            "known_ms": _NOW_KNOWN_MS if where.known_at is None else where.known_at,
            "expiry_ms": now if where.known_at is None else max(now, where.known_at),
            "forever_ms": FOREVER_MS,
            "space": where.space,
            "user_key": key(where.user),
            "agent_key": key(where.agent),
            "session_key": key(where.session),
            "kinds": None if where.kinds is None else as_json(list(where.kinds)),
            "visibilities": None if where.visibilities is None else as_json(list(where.visibilities)),
        }

    def find(self, structure: Structure, *, after: int, limit: int, now: Instant) -> list[Version]:
        def key(text: str | None) -> bytes | None:
            return None if text is None else self._prints.value(self._tenant_id, text)

        given = {"s": structure.subject, "r": structure.relation, "o": structure.object}
        path = "".join(letter for letter, text in given.items() if text is not None) or "any"
        found = self._rows(
            f"structural_{path}",
            subject_key=key(structure.subject),
            relation_key=key(structure.relation),
            object_key=key(structure.object),
            space=structure.space,
            user_key=key(structure.user),
            session_key=key(structure.session),
            current=int(structure.current),
            after=after,
            limit=limit,
            now_ms=now,
            forever_ms=FOREVER_MS,
        )
        return self.versions([version_id for (version_id,) in found])

    def select(self, selection: Selection, order: Order, *, limit: int, offset: int, now: Instant) -> list[Selected]:
        sql = self._selection(selection, now)
        page = sql.page(order, self._narrowest(sql))
        params = {**sql.params, "limit": limit, "offset": offset}
        return [Selected(version_id, address) for version_id, address in self._connection.select(page, params)]

    def count(self, selection: Selection, *, now: Instant) -> int:
        sql = self._selection(selection, now)
        ((found,),) = self._connection.select(sql.count(self._narrowest(sql)), sql.params)
        return int(found)

    def _selection(self, selection: Selection, now: Instant) -> SelectionSql:
        params = {"tenant_id": self._tenant_id, "forever_ms": FOREVER_MS, "now_ms": now}
        return SelectionSql(selection, self._value_key, self._field_name, params)

    def _narrowest(self, sql: SelectionSql) -> int:
        counting = sql.count_drivers()
        if counting is None:
            return 0
        for cap in COUNT_CAPS:
            (counts,) = self._connection.select(counting, {**sql.params, "cap": cap})
            if min(counts) < cap:
                break
        return counts.index(min(counts))

    def _value_key(self, text: str) -> bytes | None:
        return self._prints.value(self._tenant_id, text)

    def _field_name(self, name: str) -> str:
        """Names of our own stand as they are; those that come from outside may tell something, and rows move."""
        return self._prints.word(self._tenant_id, name) if ":" in name else name

    def match(self, text: str, selection: Selection, *, limit: int, whole: bool, now: Instant) -> WordMatches:
        within = self._narrowing(selection.space)
        present = {word: count for word, count in self._frequencies(text, within).items() if count}
        if not present:
            return WordMatches(found=(), total=0)
        scoring = _rarest(present)
        others = [word for word in present if word not in scoring]
        found = self._scored(scoring, present, within, selection, limit + 1, now) if scoring else []
        for expression in self._unscored(scoring, others):
            if len(found) <= limit:
                found += self._newest(expression, within, selection, limit + 1 - len(found), now)
        total: int | None = len(found)
        if len(found) > limit:
            counts_all = whole or not others
            total = self._count_words([*scoring, *others], within, selection, now) if counts_all else None
        return WordMatches(found=tuple(found[:limit]), total=total)

    def _narrowing(self, space: str | None) -> list[str]:
        """The word of a space, if the space is small: then it shortens every list. A long list costs more than rows."""
        within = self._scope_words(space, None, None, None)
        if not within:
            return []
        params = {"expressions": as_json(within), "cap": SMALL_SPACE_LIMIT}
        ((count,),) = self._connection.rows("term_frequencies", params)
        return within if count < SMALL_SPACE_LIMIT else []

    def _scored(
        self,
        scoring: list[str],
        counts: dict[str, int],
        within: list[str],
        selection: Selection,
        limit: int,
        now: Instant,
    ) -> list[Selected]:
        sql = self._selection(selection, now)
        weights = [[self._expression(word, within), _weight(counts[word], self._version_count)] for word in scoring]
        mean_terms = max(1.0, self._term_count / max(1, self._version_count))
        params = {**sql.params, "terms": as_json(weights), "k1": _K1, "b": _B, "mean_terms": mean_terms, "limit": limit}
        return [Selected(*row) for row in self._connection.select(sql.scored(), params)]

    def _unscored(self, scoring: list[str], others: list[str]) -> list[str]:
        """What else matches, and comes last: first what has all of the commoner words, then what has any."""
        if not others:
            return []
        every, either = (joint.join(self._expression(word, []) for word in others) for joint in (" AND ", " OR "))
        but = f" NOT ({self._either(scoring)})" if scoring else ""
        if len(others) == 1:
            return [f"({either}){but}"]
        return [f"({every}){but}", f"(({either}) NOT ({every})){but}"]

    def _newest(
        self, expression: str, within: list[str], selection: Selection, limit: int, now: Instant
    ) -> list[Selected]:
        sql = self._selection(selection, now)
        params = {**sql.params, "expression": " AND ".join([*within, f"({expression})"]), "limit": limit}
        # Walked from the end, so that only what is taken is looked at.
        query = sql.searched("s.version_id, s.address", "ORDER BY c.rowid DESC LIMIT :limit")
        return [Selected(*row) for row in self._connection.select(query, params)]

    def _count_words(self, words: list[str], within: list[str], selection: Selection, now: Instant) -> int:
        sql = self._selection(selection, now)
        params = {**sql.params, "expression": " AND ".join([*within, f"({self._either(words)})"])}
        ((found,),) = self._connection.select(sql.searched("count(*)", ""), params)
        return int(found)

    def _either(self, words: list[str]) -> str:
        return " OR ".join(self._expression(word, []) for word in words)

    def documents(self, version_ids: Sequence[int]) -> list[Kept]:
        if not version_ids:
            return []
        if self._opener is None:
            # Once in a snapshot: what is destroyed while it is read was there when it began.
            self._opener = self._cipher.opener()
        opener = self._opener
        rows = {row[0]: row for row in self._rows("documents_by_id", version_ids=as_json(list(version_ids)))}
        return [self._kept(rows[version_id], opener) for version_id in version_ids if version_id in rows]

    def _kept(self, columns: Row, opener: Opener) -> Kept:
        row = DocumentRow(*columns)
        opened: bytes | None
        if row.key_id is None:
            opened = row.native
            sealed = self._prints.document(self._tenant, row.standard, row.name, opened)
            is_sealed = row.seal is not None and sealed == row.seal
        else:
            bound = bound_to(self._tenant, row.standard, row.name, row.recorded)
            try:
                opened = opener(row.key_id, row.native, bound + b"native")
            except StoreCorrupt:
                opened = None
            # What opens with a key that is not in the database was sealed by whoever had it, in this place.
            is_sealed = opened is not None
        return Kept(
            row.version_id,
            row.standard,
            row.name,
            opened or b"",
            is_sealed,
            row.address,
            row.verification,
            bool(row.is_superseded),
            row.closed,
        )

    def without_field_index(self, limit: int) -> list[Version]:
        unread = self._rows("field_index_missing", limit=limit)
        return self.versions([version_id for (version_id,) in unread]) if unread else []

    def listed(self, listing: Listing, *, limit: int, now: Instant) -> list[tuple[Version, tuple[Instant, int]]]:
        before_ms, before_id = listing.before or (FOREVER_MS, 0)
        visibilities = listing.visibilities
        params: dict[str, Any] = {
            "space": listing.space,
            "before_ms": before_ms,
            "before_id": before_id,
            "since_ms": -FOREVER_MS if listing.since is None else listing.since,
            "forever_ms": FOREVER_MS,
            "now_ms": now,
            "visibilities": None if visibilities in (None, VISIBILITIES) else as_json(list(visibilities or ())),
            "limit": limit,
        }
        query = "listed_page"
        if listing.tags:
            first, *others = (self._value_key(tag) or b"" for tag in listing.tags)
            query = "listed_tagged"
            params |= {"tag_key": first, "other_keys": as_json([key.hex() for key in others])}
        places = {version_id: (Instant(at), version_id) for version_id, at in self._rows(query, **params)}
        return [(version, places[version.version_id]) for version in self.versions(list(places))]

    def live(self, space: str, *, after: int, limit: int, now: Instant) -> list[Version]:
        params = {"space": space, "after": after, "limit": limit, "now_ms": now, "forever_ms": FOREVER_MS}
        return self._versions("live_page", **params)

    def has_space(self, space: str) -> bool:
        return bool(self._rows("has_space", space=space))

    def spaces(self) -> list[str]:
        return [space for (space,) in self._rows("spaces")]

    def unnamed(self, limit: int) -> list[Version]:
        found = self._rows("unnamed", limit=limit)
        return self.versions([version_id for (version_id,) in found]) if found else []

    def usage(self) -> tuple[int, int]:
        return self._live_count, self._byte_count

    def known_names(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        return {names[place] for (place,) in self._rows("names_known", names=as_json(list(names)))}

    def names_starting(self, standard: str, prefix: str, limit: int) -> list[tuple[str, int]]:
        return [
            (name, version_id)
            for name, version_id in self._rows("names_starting", standard=standard, prefix=prefix, limit=limit)
        ]

    def run(self, run_id: str) -> bytes | None:
        found = self._rows("run_get", run_id=run_id)
        return bytes(found[0][0]) if found else None

    def runs(self, *, before: Instant | None, limit: int) -> list[bytes]:
        before_ms = FOREVER_MS if before is None else before
        return [document for (document,) in self._rows("runs_before", before_ms=before_ms, limit=limit)]

    def run_events(self, run_id: str, *, after: int, limit: int) -> list[bytes]:
        return [event for (event,) in self._rows("run_events", run_id=run_id, after=after, limit=limit)]

    def run_event_count(self, run_id: str) -> int:
        ((count,),) = self._rows("run_event_count", run_id=run_id)
        return int(count)

    def items(self, kind: str) -> dict[str, bytes]:
        return dict(self._rows("items_get", kind=kind))

    def of_user(self, user: str, *, after: int, limit: int) -> list[Version]:
        key = self._prints.value(self._tenant_id, user)
        return self._versions("versions_of_user", user_key=key, after=after, limit=limit)

    def linked(self, link: Link, name: str, *, after: int, limit: int) -> list[Version]:
        params = {"link": facet_of(link), "name_key": self._value_key(name), "after": after, "limit": limit}
        return self._versions("versions_linked", **params)

    def names_of(self, version_id: int) -> dict[str, str]:
        return dict(self._rows("names_of", version_id=version_id))

    def changes(self, after: int, limit: int) -> list[Change]:
        return [
            Change(seq=seq, type=type_, at=Instant(at), version=self._version(tuple(columns)))
            for seq, type_, at, *columns in self._rows("changes_after", after=after, limit=limit)
        ]

    def change_seq(self) -> int:
        return self._change_seq

    def last_version(self) -> int:
        ((version_id,),) = self._rows("last_version")
        return int(version_id)

    def audit_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [(seq, entry) for seq, entry in self._rows("audit_after", after=after, limit=limit)]

    def audit_before(self, before: int | None, limit: int) -> list[tuple[int, bytes]]:
        found = self._rows("audit_before", before=FOREVER_MS if before is None else before, limit=limit)
        return [(seq, entry) for seq, entry in found]

    def audit_head(self) -> tuple[int, str | None]:
        return self._audit_seq, self._audit_hash


def _state(row: VersionRow, is_readable: bool) -> State:
    return State(
        status=row.status,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        declared_valid_to=row.declared_to,
        recorded=row.recorded,
        closed=row.closed,
        retired=row.retired,
        tombstoned=row.tombstoned,
        expires=row.expires,
        erased=bool(row.erased) or not is_readable,
        superseded_by=row.successor or "",
        followed=row.followed,
        overridden=row.overridden,
        ignored=row.ignored,
        contradicted=row.contradicted,
        observed=row.observed,
        updated=row.updated,
        held=bool(row.held),
        needs_review=bool(row.review),
        verification=row.verification,
        space=row.space,
        successor_names=orjson.loads(row.successor_names) if row.successor_names else {},
    )


def bound_to(tenant: str, standard: str, name: str, recorded: Instant) -> bytes:
    """What a ciphertext belongs to: put in another place, or back in the place of a later edition, it does not open."""
    return f"{tenant}\x00{standard}\x00{name}\x00{recorded}\x00".encode()


def facet_of(link: Link) -> str:
    """Where what a version names is kept: no field of any standard has a space in its name."""
    return f"link {link}"


def _recent_query(where: Filter) -> str:
    """The query whose index is narrowest."""
    if where.known_at is not None:
        return "recent_known"
    if where.session is not None:
        return "recent_of_session"
    if where.user is not None:
        return "recent_of_user"
    return "recent" if where.space is None else "recent_in_space"


def _rarest(frequencies: dict[str, int]) -> list[str]:
    """The rarest words whose posting lists together stay under the limit."""
    chosen, postings = [], 0
    for word, count in sorted(frequencies.items(), key=lambda item: item[1])[:QUERY_WORDS_LIMIT]:
        if postings + count > POSTINGS_LIMIT:
            break
        chosen.append(word)
        postings += count
    return chosen


def _weight(frequency: int, versions: int) -> float:
    return math.log(1.0 + (max(versions, frequency) - frequency + 0.5) / (frequency + 0.5))


def as_json(value: object) -> str:
    return orjson.dumps(value).decode()
