"""Mutants: small changes of a module's source, each of which a test should notice.

| kind | change |
|---|---|
| comparison | `<` and `<=`, `>` and `>=` change places; `==`, `is` and `in` are negated |
| constant | a number grows by one; `True` and `False` change places |
| not | `not` goes |
| and/or | `and` and `or` change places |
| statement | a call, an assignment to an attribute or item, `return`, `raise`, `del`, `break` or `continue` is deleted |
| branch | the condition of an `if`, conditional expression or comprehension is True, or False; that of a `while` is False |

Only the bodies of functions have mutants, since a function can be replaced in a process that has imported everything.
These have none, because no test should depend on them: log messages, assertions, docstrings, the text of f-strings. Neither
has an assignment to a name: without it the name is missing.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
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
_BINDINGS = (ast.NamedExpr, ast.Yield, ast.YieldFrom)
_LOGGERS = ("log", "logger", "_log", "_logger", "LOG", "LOGGER", "_LOG", "_LOGGER")


@dataclass(frozen=True, slots=True)
class Mutant:
    """The bytes from `start` to `end` of a module become `replacement`."""

    module: str
    kind: str
    #: The qualified name of the outermost function, and its first line.
    function: str
    function_line: int
    #: The block of statements in that function, see `reach`.
    block: int
    line: int
    start: int
    end: int
    replacement: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} ({self.kind})"

    @property
    def import_name(self) -> str:
        return ".".join(("odradek", *Path(self.module).with_suffix("").parts)).removesuffix(".__init__")

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        before, after = (text.decode().splitlines() for text in (source, self.apply(source)))
        lines = list(difflib.unified_diff(before, after, lineterm="", n=0))
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def blocks(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yields the lists of statements in a function, those of nested functions among them, in the order of the source."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(function, field, None)
        if not isinstance(inner, list):
            continue
        if inner and isinstance(inner[0], ast.stmt):
            yield inner
        for node in inner:
            yield from blocks(node)


def mutants_of(module: str, source: bytes) -> list[Mutant]:
    collector = _Collector(module, source)
    collector.visit(ast.parse(source))
    return collector.found


class _Collector(ast.NodeVisitor):
    def __init__(self, module: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._module = module
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        #: The outermost function, its first line, and the numbers of its blocks.
        self._function: tuple[str, int, dict[int, int]] | None = None
        self._block = 0

    def _add(self, kind: str, node: ast.expr | ast.stmt, replacement: str) -> None:
        if self._function is None:
            return
        assert node.end_lineno is not None and node.end_col_offset is not None
        name, first_line, _ = self._function
        start, end = self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)
        self.found.append(
            Mutant(self._module, kind, name, first_line, self._block, node.lineno, start, end, replacement)
        )

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt) or self._function is None:
            super().visit(node)
            return
        outer, self._block = self._block, self._function[2].get(id(node), self._block)
        if _is_removable(node):
            self._add("statement", node, "pass")
        super().visit(node)
        self._block = outer

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        is_outermost = self._function is None
        if is_outermost:
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            numbers = {id(statement): n for n, block in enumerate(blocks(node)) for statement in block}
            self._function = (".".join([*self._names, node.name]), first_line, numbers)
        for statement in node.body:
            self.visit(statement)
        if is_outermost:
            self._function = None

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_definition

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # The annotation is no code.
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Expr(self, node: ast.Expr) -> None:
        if not _is_log_message(node.value):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self._force(node.test, ("True", "False"))
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._force(node.test, ("True", "False"))
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._force(node.test, ("False",))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._force(condition, ("True", "False"))
        self.generic_visit(node)

    def _force(self, condition: ast.expr, values: tuple[str, ...]) -> None:
        if isinstance(condition, ast.Constant) or any(isinstance(node, _BINDINGS) for node in ast.walk(condition)):
            return
        for value in values:
            self._add("branch", condition, value)

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            operators = list(node.ops)
            operators[index] = _COMPARISONS[type(operator)]()
            self._add("comparison", node, f"({ast.unparse(ast.Compare(node.left, operators, node.comparators))})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        operator = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("and/or", node, f"({ast.unparse(ast.BoolOp(operator, node.values))})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("not", node, f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._add("constant", node, str(node.value + 1))


def _is_removable(node: ast.stmt) -> bool:
    match node:
        case ast.Return() | ast.Raise() | ast.Delete() | ast.Break() | ast.Continue():
            return True
        case ast.Expr(value=value):
            yields = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(value))
            return not (yields or isinstance(value, ast.Constant) or _is_log_message(value))
        case ast.AugAssign():
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return False


def _is_log_message(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in _LOGGERS
    return False


def mutants_in(root: Path, modules: list[str]) -> Iterator[Mutant]:
    for module in modules:
        yield from mutants_of(module, (root / module).read_bytes())
