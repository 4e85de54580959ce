"""Fitting continuous hyper-parameters to recorded steps, and how far the data let them go."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import space
from pitb.diagnose.replay import Prediction, View, allowance, replay
from pitb.diagnose.space import Hypothesis

Array = NDArray[Any]
RATE = "lr"
"""The factor that multiplies all rates, where these are fitted as one number."""
HUGE = 1e30


@dataclass
class Problem:
    """A view with what does not depend on the hypothesis."""

    view: View
    recorded: Array = field(init=False)
    weight: Array = field(init=False)
    scale: float = field(init=False)
    """The usual size of a gradient, which epsilons are measured by."""
    evaluations: int = 0
    """Updates that were replayed."""
    _movement: float | None = None
    mask: Array | None = None
    """What of the residual counts, flat, where not all of it does."""

    def __post_init__(self) -> None:
        """Take what does not change out of the view."""
        lanes = self.view.lanes
        self.recorded = self.view.joined([lane.after for lane in lanes])
        self.weight = self.view.joined([lane.weight for lane in lanes])
        sizes = np.abs(np.concatenate([lane.g.reshape(-1) for lane in lanes]))
        sizes = sizes[sizes > 0]
        self.scale = float(np.median(sizes)) if len(sizes) else 1.0

    def predict(self, hypothesis: Hypothesis, factor: float = 1.0) -> Prediction:
        """The prediction, with all rates multiplied."""
        view = self.view
        self.evaluations += view.steps * len(view.lanes)
        if factor != 1.0 and view.rates is not None:
            view = view.with_rates(view.rates * factor)
        return replay(view, hypothesis)

    def residual(self, hypothesis: Hypothesis, factor: float = 1.0) -> Array:
        """Predicted less recorded, by the weights, flat; what is not finite is huge."""
        found = self.view.joined(self.predict(hypothesis, factor).lanes) - self.recorded
        with np.errstate(all="ignore"):
            found = (found / self.weight).reshape(-1)
            usual = np.abs(found).max(initial=0.0) <= HUGE  # not where there is a NaN
        if not usual:
            found = np.clip(np.nan_to_num(found, nan=HUGE, posinf=HUGE, neginf=-HUGE), -HUGE, HUGE)
        return found if self.mask is None else found[self.mask]

    def movement(self) -> float:
        """What the residual would be of a hypothesis that nothing moves."""
        if self._movement is None:
            still = self.view.joined([lane.p for lane in self.view.lanes])
            self._movement = rms((still - self.recorded) / self.weight)
        return self._movement


def rms(x: Array) -> float:
    """Root mean square."""
    largest = float(np.abs(x).max(initial=0.0))
    return largest * float(np.sqrt(np.mean((x / largest) ** 2))) if largest else 0.0


@dataclass
class Fitted:
    """A hypothesis with its numbers fitted."""

    hypothesis: Hypothesis
    cost: float
    """Root mean square of the residual in units of the weights."""
    factor: float = 1.0
    """What all rates were multiplied by."""


def get(hypothesis: Hypothesis, factor: float, name: str) -> float:
    """The value of one fitted number."""
    return factor if name == RATE else float(hypothesis.value(name) or 0.0)


def put(
    hypothesis: Hypothesis, factor: float, names: Sequence[str], values: Array
) -> tuple[Hypothesis, float]:
    """A hypothesis, and a factor of the rates, with numbers set."""
    for name, value in zip(names, values, strict=True):
        if name == RATE:
            factor = float(value)
        else:
            hypothesis = hypothesis.having(name, float(value))
    return hypothesis, factor


def limits(name: str) -> tuple[float, float]:
    """The values that a fitted number can have."""
    return (0.0, np.inf) if name == RATE else space.bounds(name)


def _nudge(name: str, value: float, problem: Problem, hypothesis: Hypothesis) -> float:
    """By how much a number is moved to see what it does."""
    low, high = limits(name)
    if np.isfinite(high) and low == 0.0:
        return 1e-5 * max(1.0 - value, 1e-6) if value < 1.0 else -1e-5
    small = 1e-6
    if name.startswith("eps"):
        inside = hypothesis.equations.epsilon == "inside" or hypothesis.optimizer == "Adafactor"
        small = 1e-6 * (problem.scale**2 if inside else problem.scale)
    return max(abs(value) * 1e-5, small)


def jacobian(
    problem: Problem,
    fitted: Fitted,
    names: Sequence[str],
    residual: Array,
    central: bool = False,
) -> Array:
    """How each number moves the residual, of shape (numbers, names); by ``central`` differences,
    which cost twice as much, to the second order."""
    hypothesis, columns = fitted.hypothesis, []
    base = residual
    if hypothesis.equations.newton_schulz == "bfloat16" and hypothesis.entry.matrices_only:
        hypothesis = hypothesis.but(newton_schulz="dtype")  # which steps of bfloat16 are lost in
        base = problem.residual(hypothesis, fitted.factor)
    for name in names:
        value = get(hypothesis, fitted.factor, name)
        step = _nudge(name, value, problem, hypothesis)
        moved = put(hypothesis, fitted.factor, [name], np.array([value + step]))
        there, width = problem.residual(*moved), step
        low, high = limits(name)
        if central and low <= value - step <= high:
            moved = put(hypothesis, fitted.factor, [name], np.array([value - step]))
            columns.append((there - problem.residual(*moved)) / (2 * width))
        else:
            columns.append((there - base) / width)
    return np.stack(columns, axis=1) if columns else np.zeros((len(residual), 0))


def fit(problem: Problem, start: Fitted, names: Sequence[str], iterations: int = 15) -> Fitted:
    """Levenberg and Marquardt's method within bounds; numbers that change nothing stay.

    Source: Marquardt, An algorithm for least-squares estimation of nonlinear parameters (1963).
    """
    best = start
    residual = problem.residual(best.hypothesis, best.factor)
    best = replace(best, cost=rms(residual))
    damping = 1e-3
    gain = 1.0
    wide = problem.view.dtype == "float64"
    low = np.array([limits(name)[0] for name in names])
    high = np.array([limits(name)[1] for name in names])
    for _ in range(iterations if names else 0):
        if best.cost < GOOD:
            break
        values = np.array([get(best.hypothesis, best.factor, name) for name in names])
        # In float64 a fit has to come a long way.
        central = wide and best.cost < 1e-3 * problem.movement()
        slopes = jacobian(problem, best, names, residual, central)
        size = np.sqrt((slopes * slopes).sum(axis=0))
        down = -slopes.T @ residual
        stuck = ((values <= low) & (down <= 0)) | ((values >= high) & (down >= 0))
        free = np.isfinite(size) & (size > 0) & (size < HUGE / 10) & ~stuck
        if not free.any():
            break
        scaled = slopes[:, free] / size[free]
        # Not by the normal equations, whose condition is squared.
        q, r = np.linalg.qr(scaled)
        right = np.concatenate([-q.T @ residual, np.zeros(r.shape[1])])
        better = None
        for _ in range(5):
            rows = np.concatenate([r, np.sqrt(damping) * np.eye(r.shape[1])])
            move = np.linalg.lstsq(rows, right, rcond=None)[0]
            new = values.copy()
            new[free] += move / size[free]
            new = np.clip(new, low, high)
            hypothesis, factor = put(best.hypothesis, best.factor, names, new)
            found = problem.residual(hypothesis, factor)
            if rms(found) < best.cost:
                better = Fitted(hypothesis, rms(found), factor)
                break
            damping = max(damping * 8, 1e-6)
        if better is None:
            break
        slow, gain = gain < SLOW, 1.0 - better.cost / best.cost
        best, residual = better, found
        damping = max(damping / 10, 1e-12)
        if (gain < 1e-3 and damping < 1e-6) or (slow and gain < SLOW):
            break
    return best


def snapped(problem: Problem, start: Fitted, names: Sequence[str]) -> Fitted:
    """A fit that has come near, carried on from round values: people choose such, and in float64
    the last digits of numbers that act alike are slow to be found."""
    best = start
    if best.cost < NEARLY or best.cost > 1e-3 * problem.movement():
        return best
    for digits in (2, 3, 4):
        other = best.hypothesis
        for name in names:
            value = get(other, best.factor, name)
            if name != RATE:
                other = other.having(name, _rounded(name, value, digits))
        tried = [other]
        for name in names:
            if name.startswith("eps"):
                tried += [other.having(name, x) for x in _usual(name, other)]
        costs = [rms(problem.residual(item, best.factor)) for item in tried]
        i = int(np.argmin(costs))
        if costs[i] < best.cost:
            best = fit(problem, Fitted(tried[i], costs[i], best.factor), names)
        if best.cost < NEARLY:
            break
    return best


NEARLY = 3.0
"""A cost below which rounding may have made what is left."""


def _rounded(name: str, value: float, digits: int) -> float:
    if name.partition("[")[0] in space.WEIGHTS and 0.9 < value < 1.0:
        return round(1.0 - float(f"{1.0 - value:.{digits}g}"), 12)
    return float(f"{value:.{digits}g}")


def _usual(name: str, hypothesis: Hypothesis) -> list[float]:
    """The libraries' defaults of a number."""
    found = []
    for side in space.SIDES:
        try:
            value = space.base(hypothesis.optimizer, side).value(name)
        except KeyError:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append(float(value))
    return found


def trimmed(problem: Problem, start: Fitted, names: Sequence[str]) -> Fitted:
    """A fit to the half that it suits best: of numbers that the rest follow by slopes, where some
    are far off because a weight has made them jump."""
    best = start
    for _ in range(3):
        size = np.abs(problem.residual(best.hypothesis, best.factor))
        part = replace(problem, mask=size <= np.median(size))
        best = fit(part, best, names, 8)
    return replace(best, cost=rms(problem.residual(best.hypothesis, best.factor)))


SLOW = 3e-3
"""A gain that, twice in a row, ends a fit."""
GOOD = 0.05
"""A cost with which there is nothing left to fit."""


def grid(name: str, hypothesis: Hypothesis, scale: float) -> list[float]:
    """Values of a number to begin from: the libraries' defaults, and some far from them."""
    found = _usual(name, hypothesis)
    low, high = limits(name)
    if np.isfinite(high) and low == 0.0:
        found += [0.0, 0.5, 0.9, 0.99]
    elif name.startswith("eps"):
        found += [1e-2 * scale, scale]
    elif name.startswith("clip."):
        found += []
    elif low == 0.0:
        found += [0.0, 0.1, 1.0]
    return list(dict.fromkeys(found))


def begin(
    problem: Problem, hypothesis: Hypothesis, names: Sequence[str], sweeps: int = 2
) -> Fitted:
    """The best of a few values of each number, one after another."""
    best = Fitted(hypothesis, rms(problem.residual(hypothesis)))
    for _ in range(sweeps):
        before = best.cost
        for name in names:
            for value in grid(name, best.hypothesis, problem.scale):
                if value == best.hypothesis.value(name) or best.cost < GOOD:
                    continue
                other = best.hypothesis.having(name, value)
                cost = rms(problem.residual(other))
                if cost < best.cost:
                    best = Fitted(other, cost)
        if best.cost >= before:
            break
    return best


def scan(problem: Problem, start: Fitted, names: Sequence[str]) -> Fitted:
    """Weights by trial, where an update depends on them by jumps, as Lion's sign does.

    A coarse lattice of all pairs, then ever smaller steps from the best of it.
    """
    weights = [name for name in names if np.isfinite(limits(name)[1])]
    marks = [*np.arange(0.0, 0.96, 0.1), 0.95, 0.97, 0.98, 0.99, 0.999]
    best = start

    def attempt(values: dict[str, float]) -> bool:
        nonlocal best
        hypothesis = best.hypothesis
        for name, value in values.items():
            hypothesis = hypothesis.having(name, round(float(np.clip(value, 0.0, 0.9999)), 9))
        cost = rms(problem.residual(hypothesis))
        if cost < best.cost:
            best = Fitted(hypothesis, cost)
            return True
        return False

    pairs: list[tuple[str, ...]] = list(itertools.combinations(weights, 2)) or [(weights[0],)]
    for pair in pairs:
        for values in itertools.product(marks, repeat=len(pair)):
            attempt(dict(zip(pair, values, strict=True)))
    step = 0.05
    while step > 1e-5 and best.cost > 1.0:
        moved = False
        for pair in pairs:
            for signs in itertools.product((-1, 0, 1), repeat=len(pair)):
                here = {name: best.hypothesis.value(name) for name in pair}
                moved |= attempt({n: here[n] + s * step for n, s in zip(pair, signs, strict=True)})
        step = step if moved else step / 2
    return best


@dataclass
class Judged:
    """How well a hypothesis explains a view."""

    score: float
    """The largest difference over what rounding allows; up to 1 is explained."""
    ulp: float
    """The largest difference in units in the last place of the parameters."""
    unexplained: int
    """Numbers beyond what rounding allows."""
    worst: tuple[int, str, int]
    """Where the largest is: step, tensor, index."""
    allowed: Array
    rates: NDArray[np.float64]

    @property
    def explained(self) -> bool:
        """Whether rounding could have made all that is left."""
        return self.score <= 1.0


def judge(
    problem: Problem, hypothesis: Hypothesis, factor: float = 1.0, allowed: Array | None = None
) -> Judged:
    """Hold a hypothesis against every number of a view."""
    view = problem.view
    prediction = problem.predict(hypothesis, factor)
    if allowed is None:
        allowed = allowance(view, hypothesis, prediction)
    with np.errstate(all="ignore"):
        off = np.abs(view.joined(prediction.lanes) - problem.recorded)
        ratio = np.nan_to_num(off / allowed, nan=np.inf)
        # A response that is not finite allows nothing.
        ratio = np.where(np.isfinite(allowed), ratio, np.where(off == 0, 0.0, np.inf))
        ulp = np.nan_to_num(off / _units(view), nan=np.inf)
    k, column = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return Judged(
        float(ratio.max(initial=0.0)),
        float(ulp.max(initial=0.0)),
        int((ratio > 1.0).sum()),
        _where(view, int(k), int(column)),
        allowed,
        prediction.rates,
    )


def _units(view: View) -> Array:
    from pitb.diagnose.replay import spacing

    return view.joined([spacing(lane, view.dtype) for lane in view.lanes])


def _where(view: View, k: int, column: int) -> tuple[int, str, int]:
    for lane in view.lanes:
        size = len(lane.owner)
        if column < size:
            return (
                int(view.updates[k]),
                lane.names[int(lane.owner[column])],
                int(lane.index[column]),
            )
        column -= size
    raise AssertionError("a column beyond the view")


FAR_APART = (*(i / 20 for i in range(20)), 0.98, 0.99, 0.999)
"""Of a weight within [0, 1): what only jumps may allow one value in a narrow range of another."""


def interval(
    problem: Problem,
    fitted: Fitted,
    name: str,
    names: Sequence[str],
    allowed: Array,
) -> tuple[float, float]:
    """The values of one number with which the view is still explained, others following it.

    The others move as least squares would have them, which is right to first order; every end is
    tried, not extrapolated.
    """
    value = get(fitted.hypothesis, fitted.factor, name)
    others = [other for other in names if other != name]
    residual = problem.residual(fitted.hypothesis, fitted.factor)
    slopes = jacobian(problem, fitted, [name, *others], residual)
    usable = np.isfinite(slopes).all(axis=0) & ((slopes**2).sum(axis=0) > 0)
    follow = np.zeros(len(others))
    if usable[0] and usable[1:].any():
        mine = np.flatnonzero(usable[1:])
        a = slopes[:, 1:][:, mine]
        size = np.sqrt((a * a).sum(axis=0))
        follow[mine] = -np.linalg.lstsq(a / size, slopes[:, 0], rcond=1e-10)[0] / size
    start = np.array([get(fitted.hypothesis, fitted.factor, other) for other in others])
    low = np.array([limits(other)[0] for other in others])
    high = np.array([limits(other)[1] for other in others])

    # A weight without a slope may still matter, by jumps: it is tried at values far apart.
    jumping = [
        i for i in range(len(others)) if not usable[1 + i] and np.isfinite(high[i]) and low[i] == 0
    ]

    def holds(at: float) -> bool:
        """Whether a value is possible, the others as they are or following."""
        moved = [start]
        if follow.any():
            moved.append(np.clip(start + follow * (at - value), low, high))
        if not usable[0]:
            for i in jumping:
                moved += [np.where(np.arange(len(others)) == i, m, start) for m in FAR_APART]
        for chosen in moved:
            hypothesis, factor = put(
                fitted.hypothesis, fitted.factor, [name, *others], np.array([at, *chosen])
            )
            if judge(problem, hypothesis, factor, allowed).explained:
                return True
        return False

    bottom, top = limits(name)
    ends = (value, value)
    if jumping and not usable[0] and bottom == 0 and np.isfinite(top):
        # What is possible may have gaps, so the ends are looked for from outside.
        outer = sorted({*FAR_APART, value})
        ends = (
            next((at for at in outer if at <= value and holds(at)), value),
            next((at for at in reversed(outer) if value <= at < top and holds(at)), value),
        )
    unit = 1e-12 * max(abs(value), 1e-6)
    if name.startswith("eps"):
        unit = 1e-9 * max(value, 1e-12 * problem.scale)
    return (
        _edge(ends[0], bottom, -unit, holds),
        _edge(ends[1], top, unit, holds),
    )


def _edge(value: float, bound: float, unit: float, holds: Callable[[float], bool]) -> float:
    """The last value towards a bound that holds."""
    if value == bound or (np.isfinite(bound) and holds(bound)):
        return bound
    good, step = value, unit
    bad = bound if np.isfinite(bound) else None
    for _ in range(70):
        trial = good + step
        if bad is not None and (trial - bad) * np.sign(unit) >= 0:
            break
        if not holds(trial):
            bad = trial
            break
        good, step = trial, step * 10
        if abs(good) > 1e12:
            return float(np.inf * np.sign(unit))
    if bad is None:
        return good
    for _ in range(8):
        near, far = abs(good - value), abs(bad - value)
        # Far ends differ by orders of magnitude.
        away = np.sqrt(near * far) if far > 4 * near > 0 else 0.5 * (near + far)
        middle = value + np.sign(unit) * away
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


def round_values(low: float, high: float) -> list[float]:
    """The numbers of fewest digits within an interval."""
    if low <= 0.0 <= high:
        return [0.0]
    if not (np.isfinite(low) and np.isfinite(high)):
        return []
    sign = 1.0 if low > 0 else -1.0
    a, b = sorted((abs(low), abs(high)))
    middle = 0.5 * (a + b) if b < 10 * a else float(np.sqrt(a * b))
    for digits in range(1, 8):
        exponent = int(np.floor(np.log10(middle)))
        for power in (exponent, exponent + 1):
            unit = 10.0 ** (power - digits + 1)
            nearest = float(f"{round(middle / unit) * unit:.{digits}g}")
            if a <= nearest <= b:
                return [sign * nearest]
        # An average's weight is round where its complement is.
        if sign > 0 and b < 1.0:
            nearest = 1.0 - float(f"{1.0 - middle:.{digits}g}")
            nearest = round(nearest, 12)
            if a <= nearest <= b:
                return [nearest]
    return []
