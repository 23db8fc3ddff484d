"""OAMS over a server.

The body of the class has the verbs whose results are partly in headers, those that read several pages, and those of
consolidation, whose options are an object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from memoranda.bindings.operations.oams import OPERATIONS
from memoranda.consolidation.strategies.dream import Options
from memoranda.encoding.json_text import dump, parse
from memoranda.errors import MemoryNotFound, NotFound, Unsupported
from memoranda.library.remote_verbs import RemoteVerbs, read_result
from memoranda.service.consolidation.dreams import DreamRun, Output
from memoranda.service.consolidation.runs import Undone
from memoranda.service.exchange.report import OamsExportPage, Report
from memoranda.service.oams.memories import StoreResult
from memoranda.service.oams.recall import MemoryListPage
from memoranda.service.oams.views import TaggedMemory
from memoranda.standards.oams import memory as oams
from memoranda.standards.oams.namespace import Namespace, parse_namespace, read_namespace

if TYPE_CHECKING:
    from memoranda.service.core.access import Access
    from memoranda.standards.oams.requests import DreamRequest, ListRequest, RecallRequest


class RemoteOams(RemoteVerbs, rows=OPERATIONS):
    """The operations of OAMS over a server."""

    @cached_property
    def _default(self) -> Namespace:
        return parse_namespace(self._document("namespaces")["default"])

    def namespace(self, name: str | None = None) -> Namespace:
        """Return the namespace of a full name, or of a scope of the owner; by default the owner's default."""
        if name is None:
            return self._default
        return read_namespace(name if ":" in name else f"{self._default.owner}:{name}")

    def store(
        self, value: Mapping[str, object], *, if_match: str | None = None, if_absent: bool = False
    ) -> StoreResult:
        """Write one memory."""
        answer = self._answer(
            "store", value=dict(value), if_match=if_match, if_absent="*" if if_absent else None
        )
        return StoreResult(
            memory=answer.document,
            etag=_etag(answer.headers.get("ETag")),
            result=str(answer.headers.get("X-OAMS-Result")),
            warnings=tuple(answer.headers.get_list("X-OAMS-Warning")),
        )

    def batch_store(self, values: Sequence[Mapping[str, object]]) -> list[StoreResult]:
        """Write many memories, all or none. The answer does not tell which of them were new."""
        document = self._document("batch_store", values=[dict(value) for value in values])
        return [StoreResult(memory=memory, etag="", result="stored") for memory in document]

    def recall(
        self, request: RecallRequest, *, consents: Sequence[Access] = ()
    ) -> list[oams.Memory]:
        """Return the best memories for a query, each with its score.

        Raises Unsupported for `consents`: over a server they are tokens in a header.
        """
        if consents:
            raise Unsupported(
                "consents: over a server they are tokens, in the header X-OAMS-Consent"
            )
        return cast("list[oams.Memory]", self._document("recall", request=request))

    def get(self, namespace: Namespace, key: str) -> TaggedMemory:
        """Return one memory, with the tag of its version."""
        answer = self._answer("get", namespace=str(namespace), key=key)
        return TaggedMemory(memory=answer.document, etag=_etag(answer.headers.get("ETag")))

    def forget(self, namespace: Namespace, key: str, *, if_match: str | None = None) -> None:
        """Forget a memory."""
        self._answer("forget", namespace=str(namespace), key=key, if_match=if_match)

    def list_memories(self, request: ListRequest) -> MemoryListPage:
        """Return a page of a namespace, last updated first."""
        tags = None if request.tag_filter is None else dump(list(request.tag_filter)).decode()
        answer = self._document(
            "list_memories", request=request.replace_fields(tag_filter=None), tags=tags
        )
        return MemoryListPage(memories=answer["memories"], next_cursor=answer["next_cursor"])

    def export(
        self, *, namespaces: Sequence[Namespace] | None = None, report: Report | None = None
    ) -> Iterator[tuple[bytes, oams.Memory]]:
        """Yield every current memory that may leave: the bytes of its line, and the memory in them."""
        namespace_names = (
            [self.namespace(name) for name in self.namespaces()]
            if namespaces is None
            else namespaces
        )
        start: str | None = None
        for namespace in namespace_names:
            position = start
            while True:
                page = self.export_page(namespace, after=position)
                if report is not None:
                    report.add(page.report)
                yield from page.lines
                position = page.following
                if position is None:
                    break
            # The other namespaces are exported as of the moment of the first.
            start = page.start

    def export_page(self, namespace: Namespace, *, after: str | None = None) -> OamsExportPage:
        """Return a page of an export."""
        answer = self._document("export_page", namespace=str(namespace), after=after)
        raws = [line.encode("utf-8") for line in answer["lines"]]
        return OamsExportPage(
            lines=[(raw, cast("oams.Memory", parse(raw))) for raw in raws],
            following=answer["next_cursor"],
            start=answer["start_cursor"],
            report=Report.of(answer["report"]),
        )

    def consolidate(
        self,
        namespace: Namespace,
        strategy: str,
        *,
        is_dry: bool = False,
        options: Options | None = None,
        writer: object = None,
        only: Collection[str] | None = None,
    ) -> DreamRun:
        """Run one strategy over a namespace.

        Raises Unsupported for a writer or a counter of tokens: a server uses its own.
        """
        chosen_options = Options() if options is None else options
        if writer is not None or chosen_options.count is not Options().count:
            raise Unsupported("writer and count: leave them out, since a server uses its own")
        return self._dream(
            namespace=str(namespace),
            strategy=strategy,
            dry_run=is_dry,
            limit=chosen_options.limit,
            budget=chosen_options.budget_tokens,
            least=chosen_options.least,
            likeness=chosen_options.likeness,
            only=None if only is None else list(only),
        )

    def refuse(self, namespace: Namespace, strategy: str, keys: Collection[str]) -> DreamRun:
        """Refuse some results of a strategy, so that it does not write them again."""
        return self._dream(namespace=str(namespace), strategy=strategy, refuse=list(keys))

    def dream(self, request: DreamRequest) -> DreamRun:
        """Run the consolidation that a request describes."""
        return self._dream(request=request)

    def _dream(self, **arguments: object) -> DreamRun:
        answer = self._document("dream", **arguments)
        outputs = tuple(
            Output(
                memory=output["memory"],
                result=output["result"],
                inputs=tuple((source["key"], source["text"]) for source in output["inputs"]),
            )
            for output in answer.pop("outputs")
        )
        is_dry = answer.pop("dry_run")
        lists: dict[str, Any] = {
            name: tuple(answer.pop(name)) for name in ("taken_back", "left_out")
        }
        names = ("run_id", "namespace", "strategy", "inputs", "stayed")
        return DreamRun(
            **{name: answer[name] for name in names}, **lists, outputs=outputs, is_dry=is_dry
        )

    def undo(self, run_id: str) -> Undone:
        """Undo a consolidation.

        Raises NotFound if there is no such run.
        """
        try:
            undone: Undone = read_result(self._document("undo", run_id=run_id), Undone)
        except MemoryNotFound as error:
            # OAMS has one code for both.
            raise NotFound(error.message) from None
        return undone


def _etag(header: str | None) -> str:
    return (header or "").strip('"')
