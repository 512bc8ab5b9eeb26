"""Small changes of a Python file that a good test notices: the mutants of `benchmarks.mutants`.

Each change replaces one expression: an operator, a comparison, a constant, a name by its counterpart (real by fake, α
by β, min by max), or the order of two arguments. Text that cannot change a number is left alone by construction:
docstrings, annotations, errors and their messages, f-strings, type aliases, `__repr__` and calls of `progress`.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr},
}
COMPARISONS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
ROLES = (
    *(("real", "fake"), ("p", "q"), ("alpha", "beta"), ("min", "max"), ("minimum", "maximum"), ("low", "high")),
    *(
        ("argmin", "argmax"),
        ("floor", "ceil"),
        ("any", "all"),
        ("lower", "upper"),
        ("left", "right"),
        ("rows", "columns"),
    ),
    *(("precision", "recall"), ("sum", "mean"), ("n_real", "n_fake"), ("ones", "zeros"), ("log", "log1p")),
)
COUNTERPART = {**dict(ROLES), **{second: first for first, second in ROLES}}
NUMPY = {"min", "max", "minimum", "maximum", "argmin", "argmax", "floor", "ceil", "any", "all", "sum", "mean", "log"}
BUILTINS = {"min", "max", "any", "all", "sum"}
SILENT_CALLS = {"isinstance", "cast", "TypeVar", "overload", "progress", "report", "stage", "ScoreInfo"}
SILENT_FUNCTIONS = {"__repr__", "__str__", "__dir__", "__getattr__"}


@dataclass(frozen=True)
class Mutant:
    """One changed expression of one file.

    Attributes:
        path: The file, relative to the root of the project.
        start: Offset of the expression in the file, in bytes.
        end: Where the expression ends.
        line: Line on which it begins.
        last: Line on which it ends.
        body: First and last line of the function around it; of the file at the top of the file.
        function: The function around it, with its class; empty at the top of the file.
        kind: Which change this is.
        before: The expression.
        after: Its replacement.
        copy: How many equal changes of an equal line come before it in the file.
    """

    path: str
    start: int
    end: int
    line: int
    last: int
    body: tuple[int, int]
    function: str
    kind: str
    before: str
    after: str
    copy: int = 0

    @property
    def id(self) -> str:
        """A name that does not change while the function and the expression stay as they are."""
        said = "|".join((self.path, self.function, self.kind, self.before, self.after, str(self.copy)))
        return hashlib.sha256(said.encode()).hexdigest()[:10]

    @property
    def executed(self) -> list[tuple[int, int]]:
        """Lines that a test of the mutant executes, the best choice first; none outside of functions.

        The lines of the expression come before those of its function, unless it is a default of an argument, which is
        evaluated once, when the file is imported.
        """
        if self.body[0] == 1:
            return []
        return [self.body] if self.line < self.body[0] else [(self.line, self.last), self.body]

    def applied(self, source: bytes) -> bytes:
        """The file with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """All mutants of a file, in the order of the file."""
    source = path.read_bytes()
    finder = _Finder(source, path.relative_to(root).as_posix())
    finder.visit(ast.parse(source))
    return finder.numbered()


class _Finder(ast.NodeVisitor):
    """Visits all expressions that can change a number, and collects the changes of each."""

    def __init__(self, source: bytes, path: str) -> None:
        self.source, self.path, self.found, self.scope = source, path, [], []
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.words = set(re.findall(r"\w+", source.decode()))
        self.known: list[set[str]] = []  # names that each enclosing function uses
        self.bodies = [(1, len(self.lines))]

    def numbered(self) -> list[Mutant]:
        """The mutants, with equal ones of a function numbered."""
        seen: dict[str, int] = {}
        numbered = []
        for mutant in sorted(self.found, key=lambda one: (one.start, one.end, one.after)):
            copy = seen[mutant.id] = seen.get(mutant.id, -1) + 1
            numbered.append(replace(mutant, copy=copy))
        return numbered

    # ------------------------------------------------------------------------------------------- what is left alone

    def visit(self, node: ast.AST) -> None:
        """Visit a node unless it cannot change a number."""
        silent = ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert
        if isinstance(node, silent) or _is_silent(node):
            return
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in SILENT_FUNCTIONS or any("overload" in ast.unparse(one) for one in node.decorator_list):
            return
        self.scope.append(node.name)
        self.bodies.append((node.body[0].lineno, node.body[-1].end_lineno or 0))
        self.known.append({one.id for one in ast.walk(node) if isinstance(one, ast.Name)} | _arguments(node))
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()
        self.known.pop()
        self.bodies.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in ast.unparse(node.annotation):
            self.visit(node.value)

    # ---------------------------------------------------------------------------------------------------- changes

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS and not _is_text(node):
            self._add(node, "operator", ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
        if isinstance(node.op, ast.Add | ast.Sub) and _is_one(node.right):
            self._add(node, "dropped 1", node.left)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS:
            changed = ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
            self._add(node, "operator", changed, bare=True)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            if type(operator) in COMPARISONS:
                changed = [*node.ops[:place], COMPARISONS[type(operator)](), *node.ops[place + 1 :]]
                self._add(node, "comparison", ast.Compare(node.left, changed, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._add(node, "logic", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.UAdd):
            self._add(node, "negation", node.operand)
        if not isinstance(node.operand, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, "constant", ast.Constant(not value))
        elif isinstance(value, int):
            self._add(node, "constant", ast.Constant(value + 1))
        elif isinstance(value, float):
            self._add(node, "constant", ast.Constant(1.5 * value if value else 1.0))
        elif isinstance(value, str) and value in COUNTERPART and COUNTERPART[value] in self.words:
            self._add(node, "role", ast.Constant(COUNTERPART[value]))

    def visit_Name(self, node: ast.Name) -> None:
        other = _counterpart(node.id)
        if isinstance(node.ctx, ast.Load) and other in BUILTINS.union(*self.known):
            self._add(node, "role", ast.Name(other))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        other = _counterpart(node.attr)
        if isinstance(node.ctx, ast.Load) and (other in self.words or other in NUMPY):
            self._add(node, "role", ast.Attribute(node.value, other))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if len(node.args) >= 2 and _alike(*node.args[:2]) and not _commutes(node):
            first, second, *rest = node.args
            self._add(node, "swapped arguments", ast.Call(node.func, [second, first, *rest], node.keywords))
        self._exchanged_keywords(node)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add(node, "negation", ast.IfExp(node.test, node.orelse, node.body))
        self.generic_visit(node)

    def _exchanged_keywords(self, node: ast.Call) -> None:
        """`f(real=a, fake=b)` becomes `f(real=b, fake=a)`."""
        values = {one.arg: one.value for one in node.keywords if one.arg is not None}
        for name, value in values.items():
            other = _counterpart(name)
            if other in values and name < other and ast.dump(value) != ast.dump(values[other]):
                exchanged = {**values, name: values[other], other: value}
                keywords = [ast.keyword(one.arg, exchanged.get(one.arg or "", one.value)) for one in node.keywords]
                self._add(node, "role", ast.Call(node.func, node.args, keywords))

    def _add(self, node: ast.expr | ast.stmt, kind: str, changed: ast.AST, *, bare: bool = False) -> None:
        start = self.lines[node.lineno - 1] + node.col_offset
        last = node.end_lineno or node.lineno
        end = self.lines[last - 1] + (node.end_col_offset or 0)
        before = self.source[start:end].decode()
        after = ast.unparse(ast.fix_missing_locations(changed))
        if not bare and not isinstance(changed, ast.Constant | ast.Name | ast.Attribute | ast.Call):
            after = f"({after})"
        where = (start, end, node.lineno, last, self.bodies[-1], ".".join(self.scope))
        self.found.append(Mutant(self.path, *where, kind, before, after))


def _arguments(node: ast.FunctionDef) -> set[str]:
    return {one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}


def _is_silent(node: ast.AST) -> bool:
    """Whether a node is a docstring, a typing block, a type alias, or a call that changes no number."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Assign) and any(ast.unparse(one).startswith("__") for one in node.targets):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SILENT_CALLS


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand is text."""
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in (node.left, node.right)
    )


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and not isinstance(node.value, bool)


def _alike(first: ast.expr, second: ast.expr) -> bool:
    """Whether two arguments are of the same form but differ: others would hardly be confused."""
    named = ast.Name | ast.Attribute | ast.Subscript
    same_form = isinstance(first, named) == isinstance(second, named) and not isinstance(first, ast.Starred)
    constant = isinstance(first, ast.Constant) or isinstance(second, ast.Constant)
    return same_form and not constant and ast.dump(first) != ast.dump(second)


def _commutes(node: ast.Call) -> bool:
    """Whether the order of the arguments does not matter."""
    name = ast.unparse(node.func).rpartition(".")[2]
    return name in {"min", "max", "minimum", "maximum", "hypot", "logaddexp", "fmin", "fmax", "add", "multiply"}


def _counterpart(name: str) -> str:
    """The name with one part exchanged: `n_real` for `n_fake`; empty if there is none."""
    if name in COUNTERPART:
        return COUNTERPART[name]
    parts = name.split("_")
    roles: Callable[[str], bool] = COUNTERPART.__contains__
    changed = [COUNTERPART[part] if roles(part) else part for part in parts]
    return "_".join(changed) if changed != parts else ""


def python_files(root: Path, places: Iterable[str]) -> list[Path]:
    """All Python files of some folders, and some files."""
    return [
        path
        for place in places
        for path in ([root / place] if place.endswith(".py") else sorted((root / place).rglob("*.py")))
    ]


def all_mutants(root: Path, places: Iterable[str]) -> list[Mutant]:
    """The mutants of all files of some folders, and of some files."""
    return [mutant for path in python_files(root, places) for mutant in mutants_of(path, root)]
