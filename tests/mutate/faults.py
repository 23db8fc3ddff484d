"""Small faults for a module: what a careless change could do to it, one place each.

A fault replaces one expression or statement of the source by another: a comparison by its neighbour, a condition by a
constant, a call or a `raise` by nothing. What never changes behaviour is left alone: messages, docstrings, annotations,
logging, and what only type checkers run.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_NEIGHBOURS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPPOSITES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Calls of these names, or on objects of these names, change no behaviour that a test should check.
_QUIET: Final = ("_log", "logging", "log", "warnings", "annotate", "span", "cast", "_request_log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One change of a module."""

    module: str
    line: int
    # The lines of the statement that has it: coverage notes the first one, or one of its parts.
    statement_lines: tuple[int, int]
    was: str
    becomes: str
    start: int
    end: int

    @property
    def id(self) -> str:
        """A name that stays the same while the module does not change."""
        text = f"{self.module}:{self.start}:{self.was}:{self.becomes}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def apply(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        assert source[self.start : self.end].decode() == self.was
        return source[: self.start] + self.becomes.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {_short(self.was)} → {_short(self.becomes)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 70 else f"{line[:67]}…"


def find_faults(module: str, source: bytes) -> list[Fault]:
    """Return all faults of a module, in the order of its lines."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    faults: list[Fault] = []
    statements = [(node.lineno, _header_end(node)) for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    for node, becomes in _changes(tree):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        was = source[begin:end].decode()
        if was != becomes:
            enclosing = [lines for lines in statements if lines[0] <= node.lineno <= lines[1]]
            faults.append(
                Fault(
                    module=module,
                    line=node.lineno,
                    statement_lines=max(enclosing, default=(node.lineno, node.lineno)),
                    was=was,
                    becomes=becomes,
                    start=begin,
                    end=end,
                )
            )
    return sorted(set(faults), key=lambda fault: (fault.start, fault.becomes))


def _header_end(node: ast.stmt) -> int:
    """Return the last line of a statement, without the block that it begins."""
    block = getattr(node, "body", None)
    if isinstance(block, list) and block:
        return max(node.lineno, int(block[0].lineno) - 1)
    return node.end_lineno or node.lineno


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield nodes of functions with the text that replaces each."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                yield from _changes_in(statement)


def _changes_in(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return  # Functions inside of functions are found on their own.
    if isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or _is_quiet(node.value)):
        return
    if isinstance(node, ast.stmt):
        yield from _changes_of_statement(node)
    elif isinstance(node, ast.expr):
        yield from ((node, becomes) for becomes in _replacements(node))
    for child in _children(node):
        if not _is_quiet(child):
            yield from _changes_in(child)


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node that may get faults: no messages, and no annotations."""
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return []
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [node.value]
    return list(ast.iter_child_nodes(node))


def _changes_of_statement(node: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"
    elif isinstance(node, ast.If | ast.While):
        yield node.test, "False"
        if isinstance(node, ast.If):
            yield node.test, "True"
    elif isinstance(node, ast.Return) and node.value is not None:
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        if not is_none:
            yield node.value, "None"


def _replacements(node: ast.expr) -> Iterator[str]:
    """Yield the texts that may replace an expression."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        neighbour = _NEIGHBOURS[type(node.ops[0])]()
        yield ast.unparse(ast.Compare(node.left, [neighbour], node.comparators))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
        for value in node.values:
            rest = [each for each in node.values if each is not value]
            yield f"({ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sides = (node.left, node.right)
        is_text = any(isinstance(side, ast.Constant | ast.JoinedStr) and not _is_number(side) for side in sides)
        other_operator = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        if not is_text:
            yield f"({ast.unparse(ast.BinOp(node.left, other_operator, node.right))})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif _is_number(node):
        assert isinstance(node, ast.Constant)
        yield ast.unparse(ast.Constant(node.value + 1))  # type: ignore[operator]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OPPOSITES:
        yield ast.unparse(ast.Call(ast.Name(_OPPOSITES[node.func.id]), node.args, node.keywords))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _is_quiet(node: ast.AST) -> bool:
    """Return True for calls that only log or tell a type checker something."""
    if not isinstance(node, ast.Call):
        return False
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        if function.attr in ("warning", "info", "debug", "error", "exception") or function.attr in _QUIET:
            return True
        function = function.value
    return isinstance(function, ast.Name) and function.id in _QUIET
