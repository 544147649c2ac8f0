"""Find the sites in a module for planted faults, and build some faults into the module, each behind a switch."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip
_FAULTY = (
    ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.BinOp, ast.IfExp, ast.If, ast.Expr, ast.Continue, ast.Break
)  # fmt: skip
SWITCH = "tfgpu_mutants"


@dataclasses.dataclass(frozen=True)
class Site:
    """One fault: `place` is its position among all sites of the file; `line` and `kind` are for display."""

    file: str
    place: int
    line: int
    kind: str
    text: str


def sites_of(root: pathlib.Path, file: str) -> list[Site]:
    """Return all sites of a file, in text order."""
    finder = _Planter({})
    finder.visit(ast.parse((root / file).read_text("utf-8")))
    return [Site(file, place, line, kind, text) for place, (line, kind, text) in enumerate(finder.found)]


def sample(root: pathlib.Path, files: Sequence[str], count: int, seed: int) -> list[Site]:
    """Draw `count` sites without replacement from all files; the same seed and text give the same sites."""
    everything = [site for file in sorted(files) for site in sites_of(root, file)]
    chosen = random.Random(seed).sample(everything, min(count, len(everything)))
    return sorted(chosen, key=lambda site: (site.file, site.place))


def planted(source: str, numbers: dict[int, int]) -> str:
    """Return a module's text with a switch at each chosen site; `numbers` maps a site's place to its switch number."""
    tree = _Planter(numbers).visit(ast.parse(source))
    first = 0
    while first < len(tree.body) and _stays_first(tree.body[first]):
        first += 1
    tree.body.insert(first, ast.ImportFrom(SWITCH, [ast.alias("active", f"_{SWITCH}")], 0))
    return ast.unparse(ast.fix_missing_locations(tree))


def _stays_first(statement: ast.stmt) -> bool:
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


class _Planter(ast.NodeTransformer):
    """Count the sites inside functions, and build a switch into those that have a number."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers
        self.found: list[tuple[int, str, str]] = []
        self.depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        node.body = [changed for statement in node.body for changed in self._statement(statement)]
        self.depth -= 1
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node  # message texts are not sampled

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value:
            node.value = self.visit(node.value)
        return node

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        changed = self.visit(node)
        return changed if isinstance(changed, list) else [changed]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        before = copy.deepcopy(node) if self.depth and isinstance(node, _FAULTY) else None
        line = getattr(node, "lineno", 0)
        places: list[tuple[int, ast.AST]] = []
        for kind, fault in _faults(before) if before else ():
            place = len(self.found)
            self.found.append((line, kind, ast.unparse(node)[:100]))
            if place in self.numbers:
                places.append((self.numbers[place], fault))
        result = super().generic_visit(node)
        for number, fault in places:
            result = _switched(number, fault, result)
        return result


def _switched(number: int, fault: ast.AST, original: ast.AST) -> ast.AST:
    test = ast.Call(ast.Name(f"_{SWITCH}", ast.Load()), [ast.Constant(number)], [])
    if isinstance(original, ast.stmt):
        assert isinstance(fault, ast.stmt)
        return ast.If(test, [fault], [original])
    assert isinstance(original, ast.expr)
    assert isinstance(fault, ast.expr)
    return ast.IfExp(test, fault, original)


def _faults(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for kind, make in _KINDS:
        fault = make(copy.deepcopy(node))
        if fault is not None:
            yield kind, fault


def _comparison(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    node.ops = [_COMPARISONS[type(node.ops[0])]()]
    return node


def _junction(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.BoolOp):
        return None
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _negation(node: ast.AST) -> ast.AST | None:
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _number(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        return None
    return ast.Constant(node.value + 1)  # type: ignore[operator]


def _truth(node: ast.AST) -> ast.AST | None:
    return ast.Constant(not node.value) if isinstance(node, ast.Constant) and type(node.value) is bool else None


def _arithmetic(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
        return None
    node.op = _OPERATORS[type(node.op)]()
    return node


def _choice(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.IfExp):
        return None
    node.body, node.orelse = node.orelse, node.body
    return node


def _condition(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.If):
        return None
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _lost_statement(node: ast.AST) -> ast.AST | None:
    """Omit a finding or a call."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield):
        return ast.If(ast.Constant(value=False), [node], [])  # the function remains a generator
    return ast.Pass() if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def _lost_jump(node: ast.AST) -> ast.AST | None:
    return ast.Pass() if isinstance(node, ast.Continue | ast.Break) else None


_KINDS: tuple[tuple[str, Callable[[ast.AST], ast.AST | None]], ...] = (
    ("comparison", _comparison), ("and-or", _junction), ("not", _negation), ("number", _number), ("truth", _truth),
    ("arithmetic", _arithmetic), ("choice", _choice), ("condition", _condition), ("statement", _lost_statement),
    ("jump", _lost_jump),
)  # fmt: skip
