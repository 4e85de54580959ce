"""Schedulers as a source has them, said as `schedules.translate` takes them."""

import ast
from collections.abc import Sequence
from typing import Any

from pitb.errors import PitbError
from pitb.port.calls import SCHEDULER, Call, bind, made
from pitb.port.schedules import Config
from pitb.port.values import Evaluator, Function, Made, Placeholder, RunTime, is_number
from pitb.rust import Expression


def node_of(call: Call, evaluator: Evaluator, used: list[Any]) -> Config:
    """A call as `translate` takes it, with the defaults filled in.

    Args:
        call: Of a scheduler.
        evaluator: Of its source.
        used: Takes the calls and placeholders that it is made of.

    Raises:
        PitbError: An argument is unknown, missing, or no scheduler where one must be.
    """
    used.append(call.node)
    bound = bind(call, evaluator)
    found: Config = {"class": call.name}
    for item in call.parameters:
        name = item["name"]
        given = bound.get(name)
        if name == "optimizer" or (given is None and "default" not in item):
            continue
        value = evaluator.value(given) if isinstance(given, ast.expr) else given
        if name not in bound:
            value = item["default"]
        if name == "schedulers":
            value = _children(call, value, evaluator, used)
        elif name == "lr_lambda":
            value = _recognised(value, evaluator)
        elif name == "last_epoch":
            if value != -1:
                raise PitbError(
                    f"{call.where}: last_epoch={value!r} takes a run up again; burn does so with "
                    "load_record"
                )
            continue
        found[name] = _opened(value, used)
    return found


def _children(call: Call, value: Any, evaluator: Evaluator, used: list[Any]) -> list[Config]:
    if not isinstance(value, list):
        raise PitbError(f"{call.where}: which schedulers {call.name} has is not known before a run")
    found = []
    for item in value:
        child = made(item, call.source) if isinstance(item, Made) else None
        if child is None or child.kind != SCHEDULER:
            said = item.code if isinstance(item, Placeholder) else repr(item)
            raise PitbError(f"{call.where}: {said} of {call.name} is no scheduler that is known")
        found.append(node_of(child, evaluator, used))
    return found


def _opened(value: Any, used: list[Any]) -> Any:
    if isinstance(value, Placeholder):
        used.append(value)
        return Expression(value.name)
    return float(value) if isinstance(value, float) else value


def _recognised(value: Any, evaluator: Evaluator) -> Any:
    """A function as a name and a number, where burn has a schedule of its shape."""
    if not isinstance(value, Function):
        return value
    body, name = value.body, value.argument
    constant = _constant_of(body, name, evaluator)
    if constant is not None:
        return ["constant", constant]
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Pow):
        ratio = _constant_of(body.left, name, evaluator)
        if ratio is not None and isinstance(body.right, ast.Name) and body.right.id == name:
            return ["power", ratio]
    if isinstance(body, ast.Call) and isinstance(body.func, ast.Name) and body.func.id == "min":
        for pair in (body.args, body.args[::-1]):
            warmup = _noam(pair, name, evaluator)
            if warmup is not None:
                return ["noam", warmup]
    return value


def _constant_of(node: ast.expr, argument: str, evaluator: Evaluator) -> float | None:
    if any(isinstance(x, ast.Name) and x.id == argument for x in ast.walk(node)):
        return None
    try:
        found = evaluator.known(node)
    except RunTime:
        return None
    return float(found) if is_number(found) else None


def _noam(pair: Sequence[ast.expr], argument: str, evaluator: Evaluator) -> float | None:
    """The warm-up of ``min(k ** -0.5, k * warmup ** -1.5)`` with ``k = t + 1``."""
    if len(pair) != 2:
        return None
    first, second = pair
    if not (isinstance(first, ast.BinOp) and isinstance(first.op, ast.Pow)):
        return None
    if _constant_of(first.right, argument, evaluator) != -0.5 or not _is_next(first.left, argument):
        return None
    if not (isinstance(second, ast.BinOp) and isinstance(second.op, ast.Mult)):
        return None
    for k, rest in ((second.left, second.right), (second.right, second.left)):
        if _is_next(k, argument) and isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Pow):
            power = _constant_of(rest.right, argument, evaluator)
            warmup = _constant_of(rest.left, argument, evaluator)
            if power == -1.5 and warmup is not None and warmup == int(warmup) > 0:
                return warmup
    return None


def _is_next(node: ast.expr, argument: str) -> bool:
    """Whether an expression is ``t + 1``."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return False
    pair = (node.left, node.right)
    names = [x for x in pair if isinstance(x, ast.Name) and x.id == argument]
    ones = [x for x in pair if isinstance(x, ast.Constant) and x.value == 1]
    return len(names) == len(ones) == 1
