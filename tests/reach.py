"""Who reaches whom in the source, as far as names tell: what the entry points never reach is dead.

A definition is a function, a class, a method, or a name assigned in a module. It reaches what its text names: names of
its module and its imports exactly; an attribute of anything else, every method of that name. So the answer errs on the
side of the living: what is called dead here cannot be called, unless by a name made up at run time.
"""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
Function = ast.FunctionDef | ast.AsyncFunctionDef
# These change how a function is called; any other decorator may register it somewhere.
_PLAIN = frozenset(
    """property staticmethod classmethod cached_property lru_cache cache contextmanager asynccontextmanager overload
    dataclass total_ordering final override abstractmethod setter wraps""".split()
)


@dataclass(slots=True)
class Module:
    """A module: what its names stand for, and its definitions."""

    name: str
    path: Path
    # A local name, to a module or to a name in one: ("a.b", None) or ("a.b", "c").
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    # "name" or "Class.method", to where it is written.
    definitions: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    # What runs on import, and what a decorator then registers somewhere.
    body: list[ast.AST] = field(default_factory=list)
    registered: set[str] = field(default_factory=set)


@cache
def tree_of(path: Path) -> ast.Module:
    """A file of the source or of the tests, read once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_in(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import of a file, wherever it stands: it is a statement, so what is inside expressions is passed over."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                waiting.append(node)


@cache
def _modules(folder: Path, prefix: str) -> dict[str, Module]:
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = [prefix, *path.relative_to(folder).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = _read(Module(name, path))
    return found


def _read(module: Module) -> Module:
    tree = tree_of(module.path)
    for found in imports_in(tree):
        if isinstance(found, ast.Import):
            for each in found.names:
                module.imports[each.asname or each.name.split(".")[0]] = (each.name, None)
        elif found.module:
            for each in found.names:
                module.imports[each.asname or each.name] = (found.module, each.name)
    for node in _statements(tree.body):
        _define(module, node)
    return module


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module; those under an `if` or a `try` are its own, too."""
    for node in body:
        if isinstance(node, ast.If | ast.Try | ast.With):
            for name in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, name, [])
                yield from _statements(inner if name != "handlers" else [each for h in inner for each in h.body])
        else:
            yield node


def _define(module: Module, node: ast.stmt) -> None:
    if isinstance(node, Function):
        module.definitions[node.name].append(node)
        if not _is_plain(node) or node.name.startswith("__"):
            module.registered.add(f"{module.name}:{node.name}")
    elif isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, Function):
                module.definitions[f"{node.name}.{inner.name}"].append(inner)
            else:
                module.definitions[node.name].append(inner)
        module.definitions[node.name] += [*node.bases, *node.decorator_list, *(each.value for each in node.keywords)]
    elif isinstance(node, ast.Assign | ast.AnnAssign) or type(node).__name__ == "TypeAlias":
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None) or node.name]  # type: ignore[attr-defined]
        for target in targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and name.id != "__all__":
                    module.definitions[name.id].append(node)
    elif not isinstance(node, ast.Import | ast.ImportFrom):
        module.body.append(node)


def _is_plain(node: Function) -> bool:
    names = (ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list)
    return all(name.rpartition(".")[2] in _PLAIN for name in names)


@dataclass(frozen=True, slots=True)
class Named:
    """What a piece of text names: definitions, attributes of anything, modules."""

    definitions: frozenset[str]
    attributes: frozenset[str]
    # Handed on as values: what is asked of them is their functions.
    modules: frozenset[str]


class Reach:
    """The definitions of some modules, and what reaches what."""

    def __init__(self, *folders: tuple[Path, str]) -> None:
        self.modules = {name: module for folder, prefix in folders for name, module in _modules(folder, prefix).items()}
        self.definitions = {f"{m.name}:{name}" for m in self.modules.values() for name in m.definitions}
        self._methods: dict[str, list[str]] = defaultdict(list)
        for each in self.definitions:
            if "." in (name := each.partition(":")[2]):
                self._methods[each.rpartition(".")[0]].append(name.partition(".")[2])

    def resolve(self, module: str, name: str | None) -> str | None:
        """The definition that `from module import name` brings, through any number of modules."""
        found = self.modules.get(module)
        if found is None or name is None:
            return None
        if name in found.definitions:
            return f"{module}:{name}"
        return self.resolve(*found.imports[name]) if name in found.imports else None

    def _named(self, module: Module, nodes: Iterable[ast.AST]) -> Named:
        definitions: set[str] = set()
        attributes: set[str] = set()
        modules: set[str] = set()
        asked: set[int] = set()
        for top in nodes:
            for node in ast.walk(top):
                if isinstance(node, ast.Name):
                    definitions |= self._of_name(module, node.id)
                    # A walk comes to an attribute before it comes to what it is an attribute of.
                    if id(node) not in asked and (value := self._owner(module, node)):
                        modules.add(value)
                elif isinstance(node, ast.Attribute):
                    owner = self._owner(module, node.value)
                    asked.add(id(node.value))
                    if owner is None:
                        attributes.add(node.attr)
                    elif found := self.resolve(owner, node.attr):
                        definitions.add(found)
                    if isinstance(node.value, ast.Name) and (of := self.resolve(module.name, node.value.id)):
                        definitions |= {f"{of}.{node.attr}"} & self.definitions
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    definitions |= self._of_file(module, node.value)
                    if node.value.isidentifier():
                        # A field or a method that somebody asks for by its name.
                        attributes.add(node.value)
                elif isinstance(node, ast.keyword) and node.arg:
                    attributes.add(node.arg)
        return Named(frozenset(definitions), frozenset(attributes), frozenset(modules))

    def _of_name(self, module: Module, name: str) -> set[str]:
        found = self.resolve(module.name, name)
        return set() if found is None else {found}

    def _of_file(self, module: Module, text: str) -> set[str]:
        """All that a program does which is named by its file, and lies beside the module."""
        beside = f"{module.name.rpartition('.')[0]}.{text.removesuffix('.py')}"
        is_program = text.endswith(".py") and beside in self.modules
        return {f"{beside}:{name}" for name in self.modules[beside].definitions} if is_program else set()

    def _owner(self, module: Module, node: ast.expr) -> str | None:
        """The module that an expression stands for, if it does."""
        if isinstance(node, ast.Attribute):
            above = self._owner(module, node.value)
            inner = f"{above}.{node.attr}"
            return inner if above is not None and inner in self.modules else None
        if not isinstance(node, ast.Name) or node.id not in module.imports:
            return None
        of, name = module.imports[node.id]
        whole = of if name is None else f"{of}.{name}"
        return whole if whole in self.modules else None

    @cache  # noqa: B019
    def names_of(self, definition: str) -> Named:
        """What a definition names."""
        module, _, name = definition.partition(":")
        return self._named(self.modules[module], self.modules[module].definitions[name])

    @cache  # noqa: B019
    def _names_on_import(self, module: str) -> Named:
        return self._named(self.modules[module], self.modules[module].body)

    def reached(self, roots: Iterable[str], known_attributes: Iterable[str] = ()) -> set[str]:
        """Every definition that the roots reach, if others name these attributes."""
        found: set[str] = set()
        modules: set[str] = set()
        values: set[str] = set()
        attributes = set(known_attributes)
        waiting = set(roots)
        while waiting:
            for each in waiting:
                named = self.names_of(each)
                found.add(each)
                attributes |= named.attributes
                values |= named.modules
                modules.add(each.partition(":")[0])
            waiting = {name for each in waiting for name in self.names_of(each).definitions}
            for module in list(modules):
                on_import = self._names_on_import(module)
                waiting |= on_import.definitions | self.modules[module].registered
                attributes |= on_import.attributes
            waiting |= {f"{value}:{name}" for value in values for name in attributes}
            waiting |= {method for each in found for method in self._called(each, attributes)}
            waiting |= {f"{each.rpartition('.')[0]}" for each in found if "." in each.partition(":")[2]}
            waiting = (waiting & self.definitions) - found
        return found

    def _called(self, owner: str, attributes: set[str]) -> Iterator[str]:
        """The methods of a class that is reached which somebody calls: by its name, or Python or a library does."""
        for name in self._methods.get(owner, ()):
            if name in attributes or (name.startswith("__") and name.endswith("__")) or _is_foreign(owner, name):
                yield f"{owner}.{name}"


@cache
def _is_foreign(owner: str, name: str) -> bool:
    """Whether a method stands in for one of a library's class."""
    module, _, class_name = owner.partition(":")
    try:
        bases = getattr(importlib.import_module(module), class_name).__mro__[1:-1]
    except ImportError:
        if not module.startswith("memoranda.adapters."):
            raise
        # Of a framework that is not installed here, and calls it.
        return True
    return any(not base.__module__.startswith(("memoranda", "tests")) and hasattr(base, name) for base in bases)
