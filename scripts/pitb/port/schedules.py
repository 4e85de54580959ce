"""PyTorch's learning-rate schedulers as burn's ``LrSchedulerConfig``.

burn's ``step()`` gives the rate of the update to come and is called before it; PyTorch's is called
after an update. Both start with the initial rate, so the k-th call belongs to the k-th update.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pitb.port.values import Placeholder, is_number
from pitb.rust import Expression, float_literal
from pitb.schedulers.reference import Refused, check_burn

Config = dict[str, Any]
Rate = float | Expression
MOST_PARTS = 64
"""Schedules that one is made of."""
SETS_RATE = ("LambdaLR", "CyclicLR", "OneCycleLR", "CosineAnnealingWarmRestarts", "SequentialLR")
"""Those that set the rate from its base, whatever others made of it, so that they are no factors
in a ``ChainedScheduler``."""


class NotCarriedOver(Exception):
    """burn has no such schedule; says why."""


@dataclass
class Schedule:
    """A schedule of burn's."""

    config: Config
    """``LrSchedulerConfig`` as it serialises."""
    notes: list[str] = field(default_factory=list)


def translate(node: Config, base: Rate, steps: int | None = None) -> Schedule:
    """burn's schedule that gives the rates of PyTorch's.

    Args:
        node: ``{"class": "StepLR", "step_size": 3, "gamma": 0.5}``, with every argument that has no
            default; ``schedulers`` holds more of these, ``lr_lambda`` is ``["constant", 0.9]``,
            ``["power", 0.9]`` or ``["noam", 4000]``.
        base: The rate of the optimizer.
        steps: How many updates it is asked for, which schedules without an end need.

    Raises:
        NotCarriedOver: burn has none; says why.
    """
    notes: list[str] = []
    config = _translated(node, base, steps, notes)
    return Schedule(config, notes)


def _translated(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    kind = node["class"]
    if kind not in _MAKERS:
        raise NotCarriedOver(f"there is no schedule of burn's for {kind}")
    config = _MAKERS[kind](node, base, steps, notes)
    return config if _accepted(config) else _scaled(node, base, steps, notes, config)


def _accepted(config: Config) -> bool:
    try:
        check_burn(config)
    except Refused:
        return False
    except TypeError:  # an expression, whose value is not known
        return True
    return True


def _scaled(
    node: Config, base: Rate, steps: int | None, notes: list[str], config: Config
) -> Config:
    """A schedule that burn refuses for its rate, as that rate times one that begins with 1."""
    if isinstance(base, float) and base > 1 and node["class"] not in ("SequentialLR", "OneCycleLR"):
        eta = node.get("eta_min", 0.0)
        part = {**node, "eta_min": eta / base} if "eta_min" in node else node
        inner = _MAKERS[node["class"]](part, 1.0, steps, notes)
        if _accepted(inner):
            return _product([{"Constant": base}, inner])
    try:
        check_burn(config)
    except Refused as refusal:
        raise NotCarriedOver(f"burn refuses the schedule: {refusal}") from None
    return config


def _product(parts: Sequence[Config]) -> Config:
    if len(parts) == 1:
        return parts[0]
    return {"Composed": {"schedulers": list(parts), "reduction": "Prod"}}


def _sum(parts: Sequence[Config]) -> Config:
    return {"Composed": {"schedulers": list(parts), "reduction": "Sum"}}


def _sequence(parts: Sequence[Config], milestones: Sequence[int]) -> Config:
    """One after another; parts that end where they begin are left out."""
    kept = [(parts[0], 0)]
    for part, start in zip(parts[1:], milestones, strict=True):
        if start <= kept[-1][1]:
            kept.pop()
        kept.append((part, start))
    if len(kept) == 1:
        return kept[0][0]
    if len(kept) > MOST_PARTS:
        raise NotCarriedOver(f"it takes {len(kept)} schedules of burn's, one after another")
    return {
        "Sequential": {
            "schedulers": [part for part, _ in kept],
            "milestones": [start for _, start in kept[1:]],
        }
    }


def times(base: Rate, factor: float) -> Rate:
    """A rate times a number."""
    if isinstance(base, Expression):
        return base if factor == 1 else Expression(f"{base.code} * {float_literal(factor)}")
    return base * factor


def _number(node: Config, name: str, default: Any = None) -> Any:
    """An argument that must be a number."""
    value = node.get(name, default)
    if not is_number(value):
        what = "depends on the run" if isinstance(value, Placeholder | Expression) else "is missing"
        raise NotCarriedOver(f"{name} of {node['class']} {what}")
    if not math.isfinite(value):
        raise NotCarriedOver(f"{name}={value!r} of {node['class']} is no finite number")
    return value


def _count(node: Config, name: str, default: Any = None) -> Any:
    """An argument that counts updates: a whole number, or known only when the program runs."""
    value = node.get(name, default)
    if isinstance(value, Expression):
        return value
    value = _number(node, name, default)
    if value != int(value) or value < 0:
        raise NotCarriedOver(f"{name}={value!r} of {node['class']} is no number of updates")
    return int(value)


def _whole(node: Config, name: str, default: Any = None) -> int:
    value = _count(node, name, default)
    if isinstance(value, Expression):
        raise NotCarriedOver(f"{name} of {node['class']} depends on the run")
    return int(value)


def _open(node: Config, name: str, default: Any = None) -> Any:
    """An argument that is a number, or known only when the program runs."""
    value = node.get(name, default)
    return value if isinstance(value, Expression) else float(_number(node, name, default))


def _constant(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    factor, n = float(_number(node, "factor", 1 / 3)), _whole(node, "total_iters", 5)
    if not 0 <= factor <= 1:
        raise NotCarriedOver(f"PyTorch refuses factor={factor!r}; it takes 0 <= factor <= 1")
    reduced: Config = {"Constant": times(base, factor)}
    # At total_iters=0 PyTorch never comes back to the base.
    if factor == 1 or n == 0:
        return reduced
    return _sequence([reduced, {"Constant": base}], [n])


def _linear(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    start, end = (
        float(_number(node, name, default))
        for name, default in (("start_factor", 1 / 3), ("end_factor", 1.0))
    )
    if not 0 < start <= 1 or not 0 <= end <= 1:
        raise NotCarriedOver(
            f"PyTorch refuses start_factor={start!r}, end_factor={end!r}; it takes "
            "0 < start_factor <= 1 and 0 <= end_factor <= 1"
        )
    n = _count(node, "total_iters", 5)
    if n == 0:
        return {"Constant": times(base, start)}
    return _line(times(base, start), times(base, end), n)


def _line(first: Any, last: Any, n: Any) -> Config:
    return {"Linear": {"initial_lr": first, "final_lr": last, "num_iters": n}}


def _cosine(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    low, n = _open(node, "eta_min", 0.0), _count(node, "T_max")
    if n == 0:
        raise NotCarriedOver("T_max=0, with which PyTorch divides by zero")
    return _annealed(base, low, n)


def _annealed(first: Any, last: Any, n: int) -> Config:
    """From ``first`` to ``last`` along half a cosine, which burn only has downwards."""
    if isinstance(first, float) and isinstance(last, float) and last > first:
        down: Config = {"Cosine": {"initial_lr": last, "min_lr": first, "num_iters": n}}
        return _sum([{"Constant": first + last}, _product([{"Constant": -1.0}, down])])
    return {"Cosine": {"initial_lr": first, "min_lr": last, "num_iters": n}}


def _exponential(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    return _geometric(base, _open(node, "gamma"))


def _geometric(base: Rate, gamma: Any) -> Config:
    # burn's Exponential takes 0 < gamma <= 1 and 0 < rate <= 1; its Step takes all.
    beyond = is_number(gamma) and not 0 < gamma <= 1
    if beyond or (isinstance(base, float) and not 0 < base <= 1):
        return {"Step": {"initial_lr": base, "step_size": 1, "gamma": gamma}}
    return {"Exponential": {"initial_lr": base, "gamma": gamma}}


def _step(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    size, gamma = _count(node, "step_size"), _open(node, "gamma", 0.1)
    if size == 0:
        raise NotCarriedOver("step_size=0, with which PyTorch divides by zero")
    return {"Step": {"initial_lr": base, "step_size": size, "gamma": gamma}}


def _milestones(node: Config) -> list[int]:
    given = node.get("milestones")
    whole = isinstance(given, list) and all(
        isinstance(x, int) and not isinstance(x, bool) for x in given
    )
    if not whole or not isinstance(given, list):
        raise NotCarriedOver(f"milestones of {node['class']} are not a list of whole numbers")
    return list(given)


def _multistep(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    gamma = float(_number(node, "gamma", 0.1))
    given = sorted(m for m in _milestones(node) if m >= 0)
    parts: list[Config] = [{"Constant": base}]
    for count in range(1, len(given) + 1):
        parts.append({"Constant": times(base, gamma**count)})
    return _sequence(parts, given)


def _polynomial(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    n, power = _count(node, "total_iters", 5), _number(node, "power", 1.0)
    if n == 0:
        return {"Constant": base}
    if power != int(power) or not 0 <= power <= 16:
        raise NotCarriedOver(
            f"power={power!r}: burn multiplies linear schedules but takes no root of one"
        )
    if power == 0:
        return {"Constant": base}
    rest = [_line(1.0, 0.0, n) for _ in range(int(power) - 1)]
    return _product([_line(base, 0.0, n), *rest])


def _lambda(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    name, value = _formula(node)
    if name == "constant":
        return {"Constant": times(base, value)}
    if name == "power":
        return _geometric(base, value)
    if name == "noam":
        # factor * model_size ** -0.5 is the base rate.
        return {"Noam": {"factor": base, "warmup_steps": int(value), "model_size": 1}}
    raise NotCarriedOver("a configuration of burn's holds no function")


def _multiplicative(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    name, value = _formula(node)
    if name == "constant":
        return _geometric(base, float(value))
    raise NotCarriedOver("a configuration of burn's holds no function")


def _formula(node: Config) -> tuple[str, float]:
    given = node.get("lr_lambda")
    if isinstance(given, list) and len(given) == 2 and given[0] in ("constant", "power", "noam"):
        return given[0], float(given[1])
    raise NotCarriedOver(
        f"lr_lambda of {node['class']}: a configuration of burn's holds no function"
    )


def _restarts(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    n, times_ = _whole(node, "T_0"), _whole(node, "T_mult", 1)
    low = _open(node, "eta_min", 0.0)
    if n <= 0 or times_ < 1:
        raise NotCarriedOver(f"PyTorch refuses T_0={n}, T_mult={times_}")
    parts, milestones, start = [], [], 0
    for at in _repeated(node, steps):
        if start >= at:
            break
        parts.append(_annealed(base, low, n))
        start, n = start + n, n * times_
        milestones.append(start)
    return _sequence(parts, milestones[:-1])


def _repeated(node: Config, steps: int | None) -> list[int]:
    if steps is None:
        raise NotCarriedOver(
            f"{node['class']} goes on without an end, and burn needs a schedule for each cycle; "
            "say with --steps how many updates there are"
        )
    return [steps] * MOST_PARTS


def _cyclic(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    _without_momentum(node)
    low, high = float(_number(node, "base_lr")), float(_number(node, "max_lr"))
    up = _whole(node, "step_size_up", 2000)
    down = _whole(node, "step_size_down", up) if node.get("step_size_down") is not None else up
    mode = node.get("mode", "triangular")
    if node.get("scale_fn") is not None or mode not in ("triangular", "triangular2"):
        raise NotCarriedOver(f"mode={mode!r}: burn has no cycle whose height is a function")
    if up < 1 or down < 1:
        raise NotCarriedOver(f"step_size_up={up}, step_size_down={down}: a cycle needs updates")
    parts, milestones, start, top = [], [], 0, high
    for at in _repeated(node, steps)[: MOST_PARTS // 2]:
        if start >= at:
            break
        parts += [_line(low, top, up), _line(top, low, down)]
        milestones += [start + up, start + up + down]
        start += up + down
        top = low + (top - low) / 2 if mode == "triangular2" else top
    if steps is not None and start < steps:
        raise NotCarriedOver(f"{steps} updates take more than {MOST_PARTS} schedules of burn's")
    return _sequence(parts, milestones[:-1])


def _without_momentum(node: Config) -> None:
    if node.get("cycle_momentum", True) is not False:
        raise NotCarriedOver(
            "cycle_momentum=True changes the momentum too, for which burn has no schedule; with "
            "cycle_momentum=False the rate can be carried over"
        )


def _one_cycle(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    _without_momentum(node)
    high = float(_number(node, "max_lr"))
    if node.get("total_steps") is not None:
        total = _whole(node, "total_steps")
    else:
        total = _whole(node, "epochs") * _whole(node, "steps_per_epoch")
    start = float(_number(node, "pct_start", 0.3))
    if total < 1 or not 0 <= start <= 1:
        raise NotCarriedOver(f"PyTorch refuses total_steps={total}, pct_start={start!r}")
    shape = node.get("anneal_strategy", "cos")
    low = high / float(_number(node, "div_factor", 25.0))
    end = low / float(_number(node, "final_div_factor", 1e4))
    ends = [(start * total - 1, low, high), (total - 1.0, high, end)]
    if node.get("three_phase", False):
        back = 2 * start * total - 2
        ends = [(start * total - 1, low, high), (back, high, low), (total - 1.0, low, end)]
    parts: list[Config] = []
    milestones: list[int] = []
    begin = 0.0
    for stop, first, last in ends:
        _phase(parts, milestones, (begin, stop), (first, last), shape)
        begin = stop
    return _sequence(parts, milestones[:-1])


def _phase(
    parts: list[Config],
    milestones: list[int],
    span: tuple[float, float],
    rates: tuple[float, float],
    shape: Any,
) -> None:
    """One phase of a cycle, from the first update in it to the first in the next."""
    (begin, stop), (first, last) = span, rates
    at, to = math.ceil(begin), math.ceil(stop)
    whole = begin == at and stop == to
    if shape == "linear":
        # A piece of a line is a line, wherever the phase begins.
        here, there = (
            first + (last - first) * (x - begin) / (stop - begin) if stop > begin else last
            for x in (at, min(to, stop) if whole else to - 1)
        )
        n = to - at if whole else to - 1 - at
        if n > 0:
            parts.append(_line(here, there, n))
            milestones.append(to)
        elif to > at:
            parts.append({"Constant": here})
            milestones.append(to)
        return
    if shape != "cos":
        raise NotCarriedOver(f"PyTorch refuses anneal_strategy={shape!r}")
    if not whole:
        raise NotCarriedOver(
            f"a phase ends between two updates, at {stop:g}, where burn's cosine cannot; choose "
            "pct_start so that pct_start * total_steps is a whole number"
        )
    if to > at:
        parts.append(_annealed(first, last, to - at))
        milestones.append(to)


def _sequential(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    children, milestones = node["schedulers"], _milestones(node)
    if len(milestones) + 1 != len(children):
        raise NotCarriedOver(
            f"PyTorch refuses {len(children)} schedulers with {len(milestones)} milestones"
        )
    if milestones != sorted(milestones):
        raise NotCarriedOver(f"the milestones {milestones} do not rise")
    if children[0]["class"] in ("SequentialLR", "ChainedScheduler"):
        raise NotCarriedOver(
            "SequentialLR steps a composite first child once more while it is built"
        )
    parts = []
    for i, child in enumerate(children):
        if i and child["class"] in ("SequentialLR", "ChainedScheduler"):
            raise NotCarriedOver("PyTorch cannot start a composite scheduler at a milestone")
        if i and child["class"] == "MultiplicativeLR":
            raise NotCarriedOver("at a milestone MultiplicativeLR goes on from the rate it finds")
        ahead = None if steps is None else steps - (milestones[i - 1] if i else 0)
        parts.append(_translated(child, base, ahead, notes))
    return _sequence(parts, milestones)


def _chained(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    children = node["schedulers"]
    if not children:
        raise NotCarriedOver("PyTorch refuses a ChainedScheduler of none")
    if len(children) > 1:
        for child in children:
            _check_factor(child, steps, notes)
    *first, last = children
    parts = [_translated(child, 1.0, steps, notes) for child in first]
    return _product([*parts, _translated(last, base, steps, notes)])


def _check_factor(child: Config, steps: int | None, notes: list[str]) -> None:
    """That a scheduler multiplies the rate, so that others can multiply it too."""
    kind = child["class"]
    if kind in SETS_RATE:
        raise NotCarriedOver(f"{kind} sets the rate from its base, which drops other factors")
    if kind == "CosineAnnealingLR":
        if child.get("eta_min", 0.0) != 0:
            raise NotCarriedOver(
                "CosineAnnealingLR scales what is above eta_min, not the rate, so it is no factor"
            )
        drops = (
            f"after T_max={child.get('T_max')!r} updates PyTorch's CosineAnnealingLR drops the "
            "other factors, and burn's does not"
        )
        if steps is not None and is_number(child.get("T_max")) and steps > child["T_max"] + 1:
            raise NotCarriedOver(drops)
        notes.append(drops)
    for inner in child.get("schedulers", []):
        _check_factor(inner, steps, notes)


def _plateau(node: Config, base: Rate, steps: int | None, notes: list[str]) -> Config:
    raise NotCarriedOver("burn's step() is told no metric")


_MAKERS: Mapping[str, Callable[[Config, Rate, int | None, list[str]], Config]] = {
    "ChainedScheduler": _chained,
    "ConstantLR": _constant,
    "CosineAnnealingLR": _cosine,
    "CosineAnnealingWarmRestarts": _restarts,
    "CyclicLR": _cyclic,
    "ExponentialLR": _exponential,
    "LambdaLR": _lambda,
    "LinearLR": _linear,
    "MultiStepLR": _multistep,
    "MultiplicativeLR": _multiplicative,
    "OneCycleLR": _one_cycle,
    "PolynomialLR": _polynomial,
    "ReduceLROnPlateau": _plateau,
    "SequentialLR": _sequential,
    "StepLR": _step,
}
