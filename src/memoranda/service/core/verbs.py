"""Verbs as tables: the class of each standard lists its functions, and the scopes that callers need.

This is the one place where a verb is authorised. The functions take `(context, access, …)`, call one another freely,
and check only what depends on the request: whose memory it concerns, and which part of it.

A table has two uses. `Grains(context, None)` serves many callers, and every call passes its access first;
`Grains(context, access)` belongs to one caller, and no call passes it. Both keep the signatures of the functions. A
third form, `Grains[Awaited]`, exists for type checkers only: the asynchronous library shows its tables so.

    class Grains(Verbs[Caller]):
        put = Verb(grains.put, "write")     # a function (context, access, …), and the scopes it needs

A new verb is a function in `service/<standard>/`, a line in the table of the standard, and a row in
`bindings/operations/`. Whatever every verb needs (metrics, tracing, authorisation, the limits of an API key) belongs
here, so that no verb can lack it. The functions themselves stay callable without a table, which is how verbs use each
other: the caller was authorised for the outer verb, and the inner one must not demand more scopes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import cached_property, partial
from importlib import import_module
from time import perf_counter
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from memoranda.encoding.lazy import LazyFunction
from memoranda.errors import MemorandaError
from memoranda.measures import REQUEST_RECORD, VERB_FAILURES, VERB_SECONDS, span
from memoranda.service.core.access import Access
from memoranda.service.core.context import Context

# Names in metrics that differ from the class's name.
_STANDARDS: Final = {"Grains": "oms"}
P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T")


class Awaited:
    """The caller type of verbs that are awaited; iterators are returned as lists."""


# Access: a table of one caller. None: every call passes its caller.
Caller = TypeVar("Caller", bound=Access | Awaited | None)


class Verbs(Generic[Caller]):
    """The verbs of one standard on an open store."""

    def __init__(self, context: Context, access: Caller) -> None:
        self._context: Final = context
        self._access: Final = access


def load_table(path: str) -> Any:
    """Return the class of a standard's verbs by its path, `module:Class`.

    A standard is imported with its first use, so that a command for one of them starts without the others.

    Used by the tables of operations, which name classes as text.
    """
    module, name = path.split(":")
    return getattr(import_module(module), name)


class Verb(Generic[P, R]):
    """One function of a table.

    `scopes` are the scopes that its caller needs, all of them. `owner_wide` marks data that belongs to an owner and to
    no project, such as the logs of runs: a credential for a part of the owner's memory is refused. `keys_only` marks
    the administration of an owner's memory: capability tokens are refused.

    As a descriptor it returns a bound function that takes the arguments of the verb, with the access in front if the
    table serves many callers. The first access to an attribute stores the bound function on the table, so later calls
    do not pass here.
    """

    # Number of leading parameters that the table supplies.
    bound_count: ClassVar = 2

    def __init__(
        self,
        function: Callable[Concatenate[Context, Access, P], R],
        *scopes: str,
        owner_wide: bool = False,
        keys_only: bool = False,
    ) -> None:
        self._function: Final = function
        self.scopes: Final = scopes
        self.owner_wide: Final = owner_wide
        self.keys_only: Final = keys_only

    @cached_property
    def function(self) -> Callable[Concatenate[Context, Access, P], R]:
        """The function, imported with its first use."""
        function = self._function
        return function.load() if isinstance(function, LazyFunction) else function

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._labels = (_STANDARDS.get(owner.__name__, owner.__name__.lower()), name)
        self._logged_name = f"{self._labels[0]}.{name}"
        self._span = f"verb {self._logged_name}"

    @overload
    def __get__(self, verbs: None, owner: type) -> Self: ...
    @overload
    def __get__(self, verbs: Verbs[None], owner: type) -> Callable[Concatenate[Access, P], R]: ...
    @overload
    def __get__(self, verbs: Verbs[Access], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(
        self: Verb[P, Iterator[T]], verbs: Verbs[Awaited], owner: type
    ) -> Callable[P, Awaitable[list[T]]]: ...
    @overload
    def __get__(self, verbs: Verbs[Awaited], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, verbs: Any, owner: type) -> Any:
        if verbs is None:
            return self
        context, bearer, function = verbs._context, verbs._access, self.function

        def for_caller(access: Access, /, *args: P.args, **kwargs: P.kwargs) -> R:
            began = perf_counter()
            record = REQUEST_RECORD.get()
            if record is not None:
                record.add_verb(access.credential, access.default_tenant, self._logged_name)
            try:
                with span(self._span, may_begin=True):
                    self.authorise(access)
                    return function(context.for_caller(access), access, *args, **kwargs)
            except MemorandaError as error:
                VERB_FAILURES.add(*self._labels, error.code)
                raise
            finally:
                VERB_SECONDS.observe(perf_counter() - began, *self._labels)

        def for_bearer(*args: P.args, **kwargs: P.kwargs) -> R:
            return for_caller(bearer, *args, **kwargs)

        bound: Any = for_caller if bearer is None else for_bearer
        bound.__name__, bound.__doc__, bound.__wrapped__ = self._name, function.__doc__, function
        # Replaces the descriptor for this object, so a verb is bound once for each.
        vars(verbs)[self._name] = bound
        return bound

    def authorise(self, access: Access) -> None:
        """Raise ForbiddenScope unless the caller may call this verb at all."""
        for scope in self.scopes:
            access.require(scope)
        if self.owner_wide:
            access.require_whole_owner()
        if self.keys_only:
            access.refuse_token()


class PublicVerb(Generic[P, R]):
    """A function of a table that touches no memory, so its caller needs no scope."""

    bound_count: ClassVar = 1

    def __init__(self, function: Callable[Concatenate[Context, P], R]) -> None:
        self.function: Final = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, verbs: None, owner: type) -> Self: ...
    @overload
    def __get__(self, verbs: Verbs[None] | Verbs[Access], owner: type) -> Callable[P, R]: ...
    @overload
    def __get__(self, verbs: Verbs[Awaited], owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, verbs: Any, owner: type) -> Any:
        if verbs is None:
            return self
        bound: Any = partial(self.function, verbs._context)
        bound.__doc__ = self.__doc__
        return bound


class FreeVerb(Generic[P, R]):
    """A verb that needs neither a caller nor a store, and can be called on the class."""

    bound_count: ClassVar = 0

    def __init__(self, function: Callable[P, R]) -> None:
        self.function: Final = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, verbs: Verbs[Awaited], owner: type) -> Callable[P, Awaitable[R]]: ...
    @overload
    def __get__(self, verbs: Verbs[Any] | None, owner: type) -> Callable[P, R]: ...
    def __get__(self, verbs: Any, owner: type) -> Any:
        return self.function
