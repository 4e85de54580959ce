"""The values of expressions, computed without running anything: numbers, words, lists, dicts.

What depends on the run becomes a `Placeholder`.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pitb.defaults import as_f32
from pitb.errors import PitbError
from pitb.port.source import Source, line_of

DEEPEST = 150
"""Expressions within expressions."""
BITS = 1023
"""Of a whole number: each has a float64 near it."""
ITEMS = 100_000
"""Of a list."""
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{item.__name__: item for item in (abs, float, int, max, min, round)},
    **{f"math.{name}": getattr(math, name) for name in ("sqrt", "exp", "log", "cos", "sin")},
    **{f"math.{name}": getattr(math, name) for name in ("log2", "log10", "ceil", "floor", "pow")},
}
_CONSTANTS = {
    "math.pi": math.pi,
    "math.e": math.e,
    "math.inf": math.inf,
    "math.nan": math.nan,
    "torch.inf": math.inf,
    "torch.nan": math.nan,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


@dataclass(frozen=True)
class Placeholder:
    """A value that is known only when the program runs."""

    name: str
    """An identifier made of the expression."""
    code: str
    """The expression."""
    line: int

    def __getitem__(self, index: int) -> "Placeholder":
        """One of the values, where it is a tuple."""
        return Placeholder(f"{self.name}_{index}", f"{self.code}[{index}]", self.line)


class Tensor(float):
    """A number that the program holds in a tensor."""


@dataclass(frozen=True, eq=False)
class Made:
    """What a call of one of the libraries makes: a scheduler, an optimizer."""

    function: str
    """Its full name."""
    node: ast.Call


@dataclass(frozen=True, eq=False)
class Function:
    """A ``lambda``, or a function that only returns an expression."""

    argument: str
    body: ast.expr


class RunTime(Exception):
    """The value depends on the run."""


def is_number(value: Any) -> bool:
    """Whether a value is a number and no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


RUST_WORDS = (
    "as async await break const continue crate dyn else enum extern false fn for if impl in let "
    "loop match mod move mut pub ref return self static struct super trait true type unsafe use "
    "where while yield abstract become box do final gen macro override priv try typeof unsized "
    "virtual"
)
_TAKEN = "model optimizer grads closure schedule rates update"
"""Names that generated functions use themselves."""


def identifier(text: str, usual: str = "value") -> str:
    """A name in Rust made of an expression."""
    name = re.sub(r"\W+", "_", text).strip("_").lower()[:40].strip("_")
    name = re.sub(r"_+", "_", name) or usual
    return f"{usual}_{name}" if name[0].isdigit() or name in RUST_WORDS.split() else name


def placeholder(source: Source, node: ast.expr) -> Placeholder:
    """The placeholder of an expression; no two expressions of a source have one name."""
    code = source.code(node)
    name = identifier(code)
    if name in _TAKEN.split() or re.fullmatch(r"(group|config)_\d+", name):
        name = f"{name}_value"
    found, count = name, 1
    while source.identifiers.setdefault(found, code) != code:
        count += 1
        found = f"{name}_{count}"
    return Placeholder(found, code, line_of(node))


class Evaluator:
    """Computes the values of a source's expressions."""

    def __init__(self, source: Source, names: Mapping[str, Any] | None = None) -> None:
        """Of ``source``; ``names`` are expressions that are known to have these values."""
        self.source = source
        self.names = names or {}
        self._depth = 0
        self._open: set[ast.AST] = set()

    def value(self, node: ast.expr) -> Any:
        """The value of an expression, or a placeholder for it.

        Raises:
            PitbError: It can have none: it divides by zero, is too large, or is nested too deeply.
        """
        try:
            return self.known(node)
        except RunTime:
            return placeholder(self.source, node)

    def known(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            RunTime: It depends on the run.
            PitbError: It can have none.
        """
        if self._depth > DEEPEST:
            raise self.source.error(node, "the expression is nested too deeply")
        self._depth += 1
        try:
            return self._known(node)
        finally:
            self._depth -= 1

    def _known(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return self._computed(node, lambda: node.value)
        if self.names and (given := self.source.code(node)) in self.names:
            return self.names[given]
        if isinstance(node, (ast.Tuple, ast.List)):
            return [item for element in node.elts for item in self._element(element)]
        if isinstance(node, ast.Dict):
            return self._dict(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._named(node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Lambda):
            return self._function(node.args, node.body)
        if isinstance(node, ast.IfExp):
            return self.known(node.body if self.known(node.test) else node.orelse)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._bool(node)
        raise RunTime

    def _element(self, node: ast.expr) -> list[Any]:
        if isinstance(node, ast.Starred):
            found = self.known(node.value)
            if isinstance(found, list):
                return found
            raise RunTime
        return [self.value(node)]

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                inner = self.known(item)
                if not isinstance(inner, dict):
                    raise RunTime
                found |= inner
                continue
            name = self.known(key)
            if not isinstance(name, (str, int, float)):
                raise RunTime
            if name in found:
                raise self.source.error(key, f"the key {name!r} is given twice")
            found[name] = Argument(item, self) if name == "params" else self.value(item)
        return found

    def _named(self, node: ast.Name | ast.Attribute) -> Any:
        full = self.source.qualified(node)
        if full in _CONSTANTS:
            return _CONSTANTS[full]
        if not isinstance(node, ast.Name):
            raise RunTime
        binding = self.source.binding(node.id, node)
        if binding is None or binding.value is None or binding.node in self._open:
            return self._defined(node)
        self._open.add(binding.node)
        try:
            found = self.known(binding.value)
        finally:
            self._open.discard(binding.node)
        if binding.index is not None:
            if not isinstance(found, list) or binding.index >= len(found):
                raise RunTime
            return found[binding.index]
        return found

    def _defined(self, node: ast.Name) -> Any:
        """A function of one argument that only returns an expression."""
        for scope in self.source.scopes(node):
            found = self.source.bindings.get((scope, node.id), [])
            if len(found) == 1 and isinstance(found[0].node, ast.FunctionDef):
                body = [
                    item
                    for item in found[0].node.body
                    if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))
                ]
                if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value:
                    return self._function(found[0].node.args, body[0].value)
            if found:
                break
        raise RunTime

    def _function(self, arguments: ast.arguments, body: ast.expr) -> Function:
        names = [*arguments.posonlyargs, *arguments.args]
        others = (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs)
        if len(names) != 1 or any(others):
            raise RunTime
        return Function(names[0].arg, body)

    def _unary(self, node: ast.UnaryOp) -> Any:
        found = self.known(node.operand)
        if isinstance(node.op, ast.Not):
            return not self._plain(found)
        if not is_number(found):
            raise RunTime
        return (
            +found
            if isinstance(node.op, ast.UAdd)
            else -found
            if isinstance(node.op, ast.USub)
            else ~int(found)
        )

    def _binary(self, node: ast.BinOp) -> Any:
        operation = _OPERATORS.get(type(node.op))
        a, b = self.known(node.left), self.known(node.right)
        if operation is None or not (is_number(a) and is_number(b)):
            if isinstance(node.op, ast.Add) and isinstance(a, list) and isinstance(b, list):
                return [*a, *b]
            raise RunTime
        whole = isinstance(a, int) and isinstance(b, int)
        if whole and isinstance(node.op, ast.Pow) and b > 0 and a.bit_length() * b > BITS:
            # Before it is computed: 9**9**9 would never end.
            raise self.source.error(node, f"{_short(self.source.code(node))} is too large")
        return self._computed(node, lambda: operation(a, b))

    def _computed(self, node: ast.expr, compute: Callable[[], Any]) -> Any:
        code = _short(self.source.code(node))
        try:
            found = compute()
        except ZeroDivisionError:
            raise self.source.error(node, f"{code} divides by zero") from None
        except OverflowError:
            raise self.source.error(node, f"{code} is too large") from None
        except (ValueError, TypeError) as error:
            raise self.source.error(node, f"{code} has no value: {error}") from None
        if isinstance(found, complex):
            raise self.source.error(node, f"{code} is a complex number")
        if isinstance(found, int) and found.bit_length() > BITS:
            raise self.source.error(node, f"{code} is too large")
        return found

    def _call(self, node: ast.Call) -> Any:
        name = self.source.qualified(node.func)
        if name is None and isinstance(node.func, ast.Name) and not self.source.bound(node.func.id):
            name = node.func.id
        if name == "dict":
            return self._made_dict(node)
        if name in ("list", "tuple") and len(node.args) == 1 and not node.keywords:
            found = self.known(node.args[0])
            if isinstance(found, list):
                return found
            raise RunTime
        if name == "range" and not node.keywords:
            return self._range(node)
        if name in ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor"):
            return self._tensor(node)
        if name is not None and name.startswith(("torch.optim.", "timm.optim.")):
            return Made(name, node)
        function = _FUNCTIONS.get(name or "")
        if function is None or node.keywords:
            raise RunTime
        found = [self.known(argument) for argument in node.args]
        if name == "float" and len(found) == 1 and isinstance(found[0], str):
            return self._computed(node, lambda: float(found[0]))
        if len(found) == 1 and isinstance(found[0], list) and name in ("max", "min"):
            (found,) = found
        if not all(map(is_number, found)):
            raise RunTime
        return self._computed(node, lambda: function(*found))

    def _made_dict(self, node: ast.Call) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if node.args:
            first = self.known(node.args[0])
            if not isinstance(first, dict):
                raise RunTime
            found |= first
        for keyword in node.keywords:
            if keyword.arg is None:
                inner = self.known(keyword.value)
                if not isinstance(inner, dict):
                    raise RunTime
                found |= inner
                continue
            given = keyword.value
            found[keyword.arg] = (
                Argument(given, self) if keyword.arg == "params" else self.value(given)
            )
        return found

    def _range(self, node: ast.Call) -> list[int]:
        found = [self.known(argument) for argument in node.args]
        if not found or not all(isinstance(x, int) and not isinstance(x, bool) for x in found):
            raise RunTime
        made = self._computed(node, lambda: range(*found))
        if len(made) > ITEMS:
            raise self.source.error(node, f"{_short(self.source.code(node))} is too long")
        return list(made)

    def _tensor(self, node: ast.Call) -> Any:
        if len(node.args) != 1:
            raise RunTime
        found = self.known(node.args[0])
        dtypes = [k.value for k in node.keywords if k.arg == "dtype"]
        wide = [self.source.qualified(item) in ("torch.float64", "torch.double") for item in dtypes]
        if isinstance(found, list) and len(found) == 1:
            (found,) = found
        if not is_number(found):
            raise RunTime
        return Tensor(found if wide == [True] else as_f32(float(found)))

    def _subscript(self, node: ast.Subscript) -> Any:
        found, key = self.known(node.value), self.known(node.slice)
        if isinstance(found, dict) and isinstance(key, (str, int)) and key in found:
            return found[key]
        if isinstance(found, list) and isinstance(key, int) and -len(found) <= key < len(found):
            return found[key]
        raise RunTime

    def _compare(self, node: ast.Compare) -> bool:
        left = self._plain(self.known(node.left))
        for kind, item in zip(node.ops, node.comparators, strict=True):
            right = self._plain(self.known(item))
            if not self._computed(node, partial(_COMPARISONS[type(kind)], left, right)):
                return False
            left = right
        return True

    def _bool(self, node: ast.BoolOp) -> Any:
        stops = isinstance(node.op, ast.Or)
        found: Any = None
        for item in node.values:
            found = self._plain(self.known(item))
            if bool(found) == stops:
                return found
        return found

    def _plain(self, found: Any) -> Any:
        """A value on which something is decided."""
        if isinstance(found, (Placeholder, Function, Made, Argument)):
            raise RunTime
        return found


@dataclass(frozen=True, eq=False)
class Argument:
    """An expression that is kept as it is: the parameters of a group."""

    node: ast.expr
    evaluator: Evaluator


def _short(code: str) -> str:
    return code if len(code) <= 60 else f"{code[:57]}..."


def refused(condition: str, options: Mapping[str, Any]) -> bool:
    """Whether a condition of a constructor's holds of its options.

    It does not where one of those that it reads depends on the run.
    """
    from pitb.port.source import parse

    source = parse(condition, "condition")
    (statement,) = source.tree.body
    assert isinstance(statement, ast.Expr)
    try:
        return bool(Evaluator(source, options).known(statement.value))
    except (RunTime, PitbError):
        return False
