"""Functions of modules that are imported on first use, so that a command does not wait for what it does not call.

    if TYPE_CHECKING:
        from memoranda.service.ump import undo
    else:
        undo = LazyModule("memoranda.service.ump.undo")

Type checkers see the module itself. `undo.undo_last(…)` then imports the module and calls the function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple


class LazyFunction(NamedTuple):
    """A function of a module that is imported when the function is first needed."""

    module: str
    name: str

    def load(self) -> Callable[..., Any]:
        """Import the module and return the function."""
        function: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return function

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function."""
        return self.load()(*args, **kwargs)


class LazyModule:
    """A module whose functions a table names before it is imported.

    A command uses one or two verbs, and should not wait for the modules of the others. Type checkers see the module
    itself, which is imported below `TYPE_CHECKING`.
    """

    def __init__(self, module: str) -> None:
        self._module: Final = module

    def __getattr__(self, name: str) -> LazyFunction:
        return LazyFunction(self._module, name)
