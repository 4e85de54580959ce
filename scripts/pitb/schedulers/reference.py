"""What each library's schedulers compute, in f64, from their papers and documented formulas.

A rule gives the rate of the update `At`: a closed rule from the number of the update and the base
rate, a recursive one from the rate before, which is what lets PyTorch's schedulers be chained.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pitb.errors import PitbError, nearest

Config = dict[str, Any]


class At(NamedTuple):
    """One update: update k = 1, 2, ... has t = k - 1."""

    t: int
    previous: float
    """The rate of the update before; ``base`` at t = 0."""
    base: float
    initial: bool
    """Whether this is the initial step, at which most of PyTorch's rules keep the rate."""


Rule = Callable[[At], float]


class Refused(ValueError):
    """A configuration that a library's documentation says it refuses."""


@dataclass(frozen=True)
class Choices:
    """Where descriptions can differ although the schedule has the same name."""

    linear: str = "closed"
    cosine: str = "closed"
    exponential: str = "closed"
    """``divided`` is recursive from initial / gamma, so that even the first rate is rounded."""
    step: str = "closed"
    linear_past: str = "holds"
    """Past the end: ``holds`` the last rate or ``continues``."""
    cosine_past: str = "continues"
    offset: int = 0
    """Updates by which every rate comes too early."""
    power: int = 1
    """What gamma is raised to before use."""
    milestone: int = 0
    """Updates by which every milestone comes too late."""
    reduction: str | None = None
    """Used in place of the reduction that is asked for."""


BURN = Choices(exponential="divided")
PYTORCH = Choices("recursive", "recursive", "recursive", "recursive")
CHOICES = {"burn": BURN, "pytorch": PYTORCH}


def constant(at: At, factor: float = 1.0, n: int = 0) -> float:
    """``base * factor`` for n updates, then ``base`` (``torch.optim.lr_scheduler.ConstantLR``)."""
    if at.t == 0:
        return at.previous * factor
    return at.previous if at.t != n else at.previous * (1.0 / factor)


def linear(
    at: At, start: float, end: float, n: int, form: str = "closed", past: str = "holds"
) -> float:
    """From ``base * start`` to ``base * end`` in n equal steps (``LinearLR``)."""
    if form == "closed":
        last, left = at.base * end, max(n - at.t, 0) if past == "holds" else n - at.t
        return last - (last - at.base * start) / n * left
    if at.t == 0:
        return at.previous * start
    if at.t > n and past == "holds":
        return at.previous
    return at.previous * (1.0 + (end - start) / (n * start + (at.t - 1) * (end - start)))


def cosine(
    at: At, n: int, low: float = 0.0, form: str = "closed", past: str = "continues"
) -> float:
    """Cosine annealing from base to ``low`` in n steps, then up again, without a restart.

    Loshchilov & Hutter, SGDR, arXiv:1608.03983, equation 5, with T_cur = t and T_i = n. The
    recursive form multiplies what is above ``low`` by the quotient of two such values; after a
    minimum, where that is 0 / 0, it adds.
    """
    t = at.t
    if form == "closed":
        t = min(t, n) if past == "holds" else t
        return low + 0.5 * (at.base - low) * (1.0 + math.cos(t / n * math.pi))
    if at.initial or (past == "holds" and t > n):
        return at.previous
    if (t - 1 - n) % (2 * n) == 0:
        return at.previous + (at.base - low) * (1 - math.cos(math.pi / n)) / 2
    before = 1 + math.cos(math.pi * (t - 1) / n)
    return (1 + math.cos(math.pi * t / n)) / before * (at.previous - low) + low


def exponential(at: At, gamma: float, form: str = "closed") -> float:
    """``base * gamma ** t`` (``ExponentialLR``)."""
    if form == "closed":
        return float(at.base * gamma**at.t)
    if at.initial:
        return at.previous / gamma * gamma if form == "divided" else at.previous
    return at.previous * gamma


def step(at: At, n: int, gamma: float, form: str = "closed") -> float:
    """``base * gamma ** (t // n)`` (``StepLR``)."""
    if form == "closed":
        return at.base * powi(gamma, at.t // n)
    return at.previous if at.t == 0 or at.t % n else at.previous * gamma


def noam(at: At, factor: float, warmup: int, model: int) -> float:
    """``factor * model^-0.5 * min(k^-0.5, k * warmup^-1.5)`` at update k = t + 1.

    Vaswani et al., Attention Is All You Need, arXiv:1706.03762, equation 3.
    """
    return factor * float(model**-0.5) * FORMULAS["noam"](at.t, warmup)


def multistep(at: At, milestones: Sequence[int], gamma: float) -> float:
    """Times gamma at each milestone (``MultiStepLR``)."""
    return at.previous * float(gamma ** milestones.count(at.t))


def polynomial(at: At, n: int, power: float) -> float:
    """``base * (1 - t / n) ** power``, which holds past n (``PolynomialLR``)."""
    if at.initial or at.t > n:
        return at.previous
    return at.previous * float(((1.0 - at.t / n) / (1.0 - (at.t - 1) / n)) ** power)


def restarts(at: At, n: int, times: int, low: float = 0.0) -> float:
    """Cosine annealing that restarts after n, n * times, ... updates (arXiv:1608.03983)."""
    t = at.t
    while t >= n:
        t, n = t - n, n * times
    return cosine(at._replace(t=t), n, low)


def cyclic(at: At, low: float, high: float, up: int) -> float:
    """Up in ``up`` steps and down in as many (Smith, arXiv:1506.01186, section 3)."""
    x = abs(at.t / up - 2 * math.floor(1 + at.t / (2 * up)) + 1)
    return low + (high - low) * max(0.0, 1 - x)


def one_cycle(at: At, high: float, total: int, start: float, shape: str) -> float:
    """Up from high / 25 and down to that / 1e4 (Smith & Topin, arXiv:1708.07120).

    PyTorch gives a rate to one update more than ``total`` before it refuses.
    """
    if at.t > total:
        raise Refused(f"there are {total} steps")
    low, top = high / 25, start * total - 1
    rises = at.t <= top
    a, b = (low, high) if rises else (high, low / 1e4)
    done = at.t / top if rises else (at.t - top) / (total - 1 - top)
    if shape == "linear":
        return (b - a) * done + a
    return b + (a - b) / 2.0 * (math.cos(math.pi * done) + 1)


def plateau(at: At, metrics: Sequence[float], factor: float, patience: int) -> float:
    """Times ``factor`` after more than ``patience`` metrics that are no better by 1e-4."""
    best, bad, rate = math.inf, 0, at.base
    for metric in metrics[: at.t]:
        best, bad = (metric, 0) if metric < best * (1.0 - 1e-4) else (best, bad + 1)
        if bad > patience:
            rate, bad = rate * factor, 0
    return rate


def powi(x: float, n: int) -> float:
    """``x ** n`` by squaring, the order in which Rust's ``f64::powi`` multiplies on x86."""
    result = 1.0
    while n:
        if n & 1:
            result *= x
        n >>= 1
        x *= x
    return result


FORMULAS: dict[str, Callable[[int, float], float]] = {
    "noam": lambda t, warmup: min(float(t + 1) ** -0.5, (t + 1) * float(warmup) ** -1.5),
    "constant": lambda t, value: value,
    "inverse": lambda t, decay: 1 / (1 + decay * t),
}
"""What a LambdaLR or MultiplicativeLR of the cases calls, by name, with t and one number."""


def formula(spec: Sequence[Any]) -> Callable[[int], float]:
    """The function of t that ``["noam", 4]`` names.

    Raises:
        PitbError: No formula has that name.
    """
    name, value = spec
    if name not in FORMULAS:
        raise PitbError(f"there is no formula {name!r}; the nearest is {nearest(name, FORMULAS)!r}")
    return lambda t: FORMULAS[name](t, value)


def rates(rule: Rule, base: float, steps: int, found: list[float] | None = None) -> list[float]:
    """The rates of updates 1 to ``steps``, each of which may be made from the one before.

    Those before an error are left in ``found``.
    """
    found = [] if found is None else found
    for t in range(steps):
        found.append(rule(At(t, found[-1] if found else base, base, t == 0)))
    return found


def burn_rate(config: Config, t: int, choices: Choices = BURN) -> float:
    """The rate that call t + 1 of ``step()`` of burn's scheduler is documented to give.

    Args:
        config: ``LrSchedulerConfig`` as JSON, ``{"Step": {"initial_lr": 0.1, "step_size": 3}}``,
            which `check_burn` has let pass.
    """
    ((kind, p),) = config.items()
    if kind == "Constant":
        return float(p)
    if kind == "Composed":
        found = [burn_rate(child, t, choices) for child in p.get("schedulers", [])]
        return _reduced(found, choices.reduction or p.get("reduction", "Prod"))
    if kind == "Sequential":
        # Only the active scheduler is stepped, so each counts from its own start.
        milestones = [m + choices.milestone for m in p["milestones"]]
        index = bisect_right(milestones, t)
        return burn_rate(p["schedulers"][index], t - [0, *milestones][index], choices)
    gamma, base = p.get("gamma", 0.1) ** choices.power, p.get("initial_lr", 1.0)
    if kind == "Noam":
        size = p.get("warmup_steps", 4000), p.get("model_size", 512)
        return noam(At(t, base, base, t == 0), p["factor"], *size)
    form = getattr(choices, kind.lower())
    rule: Callable[..., float]
    if kind == "Linear":
        ends = {"start": base, "end": p["final_lr"], "n": p["num_iters"]}
        rule, base = partial(linear, **ends, past=choices.linear_past), 1.0
    elif kind == "Cosine":
        n, low = p["num_iters"], p.get("min_lr", 0.0)
        rule = partial(cosine, n=n, low=low, past=choices.cosine_past)
    elif kind == "Step":
        rule = partial(step, n=p["step_size"], gamma=gamma)
    else:
        rule = partial(exponential, gamma=gamma)
    if form == "closed":
        return rule(At(t, base, base, t == 0), form=form)
    return rates(partial(rule, form=form), base, t + 1)[-1]


def _reduced(found: list[float], reduction: str) -> float:
    if reduction == "Prod":
        return math.prod(found, start=1.0)
    total = 0.0  # not sum(), which compensates
    for rate in found:
        total += rate / len(found) if reduction == "Avg" else rate
    return total


BURN_KINDS = (
    *("Constant", "Linear", "Cosine", "Exponential", "Noam", "Step"),
    *("Composed", "Sequential"),
)


def check_burn(config: Config) -> None:
    """Raise where burn documents an error; burn takes all else, an empty composition too.

    Raises:
        Refused: One of the documented conditions holds.
        PitbError: There is no description of such a scheduler.
    """
    ((kind, p),) = config.items()
    if kind not in BURN_KINDS:
        raise PitbError(f"burn has no scheduler {kind}; the nearest is {nearest(kind, BURN_KINDS)}")
    if kind == "Constant":
        return
    lr, low = p.get("initial_lr", 1.0), p.get("min_lr", 0.0)
    zeros = [c for c in ("num_iters", "step_size", "warmup_steps", "model_size") if p.get(c) == 0]
    conditions = {
        f"initial_lr {lr} is not in (0, 1]": kind in ("Step", "Noam") or 0 < lr <= 1,
        f"final_lr {p.get('final_lr')} is not in [0, 1]": 0 <= p.get("final_lr", 0.0) <= 1,
        f"min_lr {low} is not in [0, initial_lr]": kind != "Cosine" or 0 <= low <= lr,
        f"gamma {p.get('gamma')} is not in (0, 1]": kind != "Exponential" or 0 < p["gamma"] <= 1,
        f"{', '.join(zeros)} is 0": not zeros,
    }
    if kind == "Sequential":
        at = p["milestones"]
        conditions |= {
            f"{len(p['schedulers'])} schedulers for {len(at)} milestones": len(at) + 1
            == len(p["schedulers"]),
            f"milestones {at} do not rise from above 0": all(
                a < b for a, b in zip([0, *at], at, strict=False)
            ),
        }
    for sentence, holds in conditions.items():
        if not holds:
            raise Refused(sentence)
    for child in p.get("schedulers", []):
        check_burn(child)


def pytorch_rule(
    node: Config, choices: Choices = PYTORCH, metrics: Sequence[float] = (), early: int = 0
) -> Rule:
    """The rule of a PyTorch scheduler, ``{"class": "StepLR", "step_size": 3, "gamma": 0.5}``.

    Args:
        node: The class and its arguments.
        choices: What is described.
        metrics: What ReduceLROnPlateau is told after update 1, 2, ...
        early: Updates by which milestones come too early, as in a SequentialLR within another.

    Raises:
        Refused: The constructor is documented to raise.
        PitbError: There is no description of such a scheduler.
    """
    kind, p, c = node["class"], node, choices
    gamma = p.get("gamma", 0.1) ** c.power
    if kind in ("ConstantLR", "LinearLR"):
        for name, low in (("factor", 0.0), ("start_factor", math.ulp(0.0)), ("end_factor", 0.0)):
            if not low <= p.get(name, 1.0) <= 1:
                raise Refused(f"{name} {p[name]} is out of range")
    if kind in ("ChainedScheduler", "SequentialLR"):
        if len(p["schedulers"]) != len(p.get("milestones", p["schedulers"][1:])) + 1:
            raise Refused(f"{len(p['schedulers'])} schedulers do not make a {kind}")
        if kind == "SequentialLR":
            return _sequential(p, c, metrics, early)
        return partial(
            _chained, rules=[pytorch_rule(n, c, metrics, early) for n in p["schedulers"]]
        )
    makers: dict[str, Callable[[], Rule]] = {
        "ConstantLR": lambda: partial(constant, factor=p["factor"], n=p["total_iters"]),
        "LinearLR": lambda: partial(
            linear,
            start=p["start_factor"],
            end=p["end_factor"],
            n=p["total_iters"],
            form=c.linear,
            past=c.linear_past,
        ),
        "CosineAnnealingLR": lambda: partial(
            cosine, n=p["T_max"], low=p.get("eta_min", 0.0), form=c.cosine, past=c.cosine_past
        ),
        "ExponentialLR": lambda: partial(exponential, gamma=gamma, form=c.exponential),
        "StepLR": lambda: partial(step, n=p["step_size"], gamma=gamma, form=c.step),
        "MultiStepLR": lambda: partial(multistep, milestones=p["milestones"], gamma=gamma),
        "PolynomialLR": lambda: partial(polynomial, n=p["total_iters"], power=p["power"]),
        "LambdaLR": lambda: lambda at: at.base * formula(p["lr_lambda"])(at.t),
        "MultiplicativeLR": lambda: (
            lambda at: at.previous * (1.0 if at.initial else formula(p["lr_lambda"])(at.t))
        ),
        "CosineAnnealingWarmRestarts": lambda: partial(restarts, n=p["T_0"], times=p["T_mult"]),
        "CyclicLR": lambda: partial(
            cyclic, low=p["base_lr"], high=p["max_lr"], up=p["step_size_up"]
        ),
        "OneCycleLR": lambda: partial(
            one_cycle,
            high=p["max_lr"],
            total=p["total_steps"],
            start=p["pct_start"],
            shape=p["anneal_strategy"],
        ),
        "ReduceLROnPlateau": lambda: partial(
            plateau, metrics=metrics, factor=p["factor"], patience=p["patience"]
        ),
    }
    if kind not in makers:
        raise PitbError(
            f"there is no description of {kind}; the nearest is {nearest(kind, makers)}"
        )
    return makers[kind]()


def _chained(at: At, rules: list[Rule]) -> float:
    """Every rule in turn on the one rate of the optimizer: a product, unless a rule sets it."""
    for rule in rules:
        at = at._replace(previous=rule(at))
    return at.previous


def _sequential(p: Config, choices: Choices, metrics: Sequence[float], early: int) -> Rule:
    """At a milestone the next scheduler starts from the base rate, whatever the rate was.

    PyTorch takes its closed form for that. A MultiplicativeLR has none, so it goes on from the
    rate that it finds; a composite one has none either, and raises. As the first child a composite
    scheduler is stepped outside of its initial mode, so that it is one update ahead.
    """
    composite = [n["class"] in ("SequentialLR", "ChainedScheduler") for n in p["schedulers"]]
    ahead = early + composite[0]
    rules = [pytorch_rule(n, choices, metrics, ahead) for n in p["schedulers"]]
    milestones = [m + choices.milestone - early for m in p["milestones"]]

    def rule(at: At) -> float:
        index = bisect_right(milestones, at.t)
        local = at.t - [0, *milestones][index]
        if index > 0 and local == 0:
            if composite[index]:
                raise Refused("a composite scheduler cannot start at a milestone")
            if p["schedulers"][index]["class"] == "MultiplicativeLR":
                return rules[index](At(0, at.previous, at.base, False))
            return rules[index](At(0, at.base, at.base, True))
        # The constructor starts from the base rate too.
        previous = at.base if at.initial else at.previous
        initial = at.initial and not composite[index]
        return rules[index](At(local, previous, at.base, initial))

    return rule
