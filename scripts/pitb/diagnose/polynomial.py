"""Newton-Schulz coefficients read off singular values.

Muon's iteration applies one odd polynomial, n times composed, to the singular values of the
momentum, and leaves its singular vectors alone (Jordan et al., 2024). So the momentum's vectors
turn each recorded update into a diagonal matrix: how far it is from one says whether the momentum
is right, whatever the polynomial; the diagonals against the singular values are a scalar function,
to which a, b and c are fitted for each n, at the price of a few hundred numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import space
from pitb.diagnose.replay import View, replay
from pitb.diagnose.space import Hypothesis

Array = NDArray[np.float64]
COUNT, COEFFICIENTS = "ns_steps", "ns_coefficients"
MOST = 10
"""Compositions that are tried."""
MOMENTA = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
RANDOM = 6
"""Starts of a fit besides the libraries' own coefficients."""
POINTS = 120
FLOORS = 60
"""Epsilons that are tried against the norm that they are a floor of."""


@dataclass
class Spectrum:
    """Singular values before and after the iteration, of shape (points,)."""

    before: Array
    after: Array
    norms: Array
    """The momentum's norm, for each of them."""
    aside: float
    """Share of the updates' squares that the momentum's singular vectors do not hold."""


def starts(view: View, hypothesis: Hypothesis) -> list[Hypothesis]:
    """Hypotheses with coefficients and counts that suit the singular values, the best first."""
    if COEFFICIENTS not in hypothesis.options or view.rates is None:
        return []
    best, likely = np.inf, hypothesis
    for item in _momenta(hypothesis):
        found = spectrum(view, item)
        if found is not None and found.aside < best:
            best, likely = found.aside, item
    likely = _refined(view, likely)
    words = [likely]
    for name, other in space.option_alternatives(likely):
        if isinstance(likely.options[name], (str, type(None))):
            words.append(other)
    fits: list[tuple[float, int, Hypothesis]] = []
    # What bfloat16 blurs is likely to have been a round number.
    round_ones = [rounded(likely, digits) for digits in (1, 2, 3)]
    for item in words:
        found = spectrum(view, item)
        if found is None:
            continue
        for eps, cost in _floors(found, item):
            fits.append((cost, 0, item.having("eps", eps)))
        for count in range(1, MOST + 1):
            cost, values = fitted(found.before, found.after, count)
            changed = item.having(COUNT, count).having(COEFFICIENTS, [float(x) for x in values])
            fits.append((cost, count, changed))
    for item in round_ones:
        found = spectrum(view, item)
        if found is not None:
            eps, cost = _floors(found, item)[0]
            fits += [(cost, 0, item), (cost, 0, item.having("eps", float(f"{eps:.2g}")))]
    return [item for _, _, item in sorted(fits, key=lambda x: (x[0], x[1]))]


def rounded(hypothesis: Hypothesis, digits: int) -> Hypothesis:
    """With its momentum and its decay rounded to a number of decimals."""
    for name in ("momentum", "weight_decay"):
        value = float(hypothesis.value(name))
        hypothesis = hypothesis.having(name, round(value, digits))
    return hypothesis


def _floors(found: Spectrum, hypothesis: Hypothesis) -> list[tuple[float, float]]:
    """The best epsilons with the coefficients as they are, and what each leaves: above the norm it
    is what the momentum is divided by."""
    values = np.array(hypothesis.options[COEFFICIENTS], dtype=float)
    count, low, high = hypothesis.options[COUNT], found.norms.min(), found.norms.max()
    tried = np.geomspace(max(low, 1e-300), max(1e4 * high, 1e-299), FLOORS)

    def cost(eps: float) -> float:
        s = found.before * found.norms / np.maximum(found.norms, eps)
        with np.errstate(all="ignore"):
            off = composed(s, values, count) - found.after
        return float(np.sqrt(np.mean(np.nan_to_num(off, nan=1e6) ** 2)))

    best = float(min(tried, key=cost))
    factor = float(tried[1] / tried[0])
    for _ in range(30):
        factor = float(np.sqrt(factor))
        best = min((best / factor, best, best * factor), key=cost)
    return [(best, cost(best))]


def _momenta(hypothesis: Hypothesis) -> Iterator[Hypothesis]:
    flags = [hypothesis, *(h for n, h in space.option_alternatives(hypothesis) if n == "nesterov")]
    decays = dict.fromkeys((hypothesis.value("weight_decay"), 0.0, 0.01, 0.1))
    for flag in flags:
        for momentum in dict.fromkeys((hypothesis.value("momentum"), *MOMENTA)):
            for decay in decays:
                yield flag.having("momentum", momentum).having("weight_decay", decay)


def _refined(view: View, hypothesis: Hypothesis) -> Hypothesis:
    """The momentum and decay that leave least aside, by ever smaller steps."""
    size = {"momentum": 0.02, "weight_decay": 0.02}
    found = spectrum(view, hypothesis)
    best = np.inf if found is None else found.aside
    for _ in range(12):
        for name in size:
            for sign in (-1.0, 1.0):
                value = float(np.clip(hypothesis.value(name) + sign * size[name], 0.0, 0.9999))
                other = hypothesis.having(name, value)
                found = spectrum(view, other)
                if found is not None and found.aside < best:
                    best, hypothesis = found.aside, other
                    break
            else:
                size[name] /= 3
    return hypothesis


def spectrum(view: View, hypothesis: Hypothesis) -> Spectrum | None:
    """Singular values of momentum and update, as the rest of a hypothesis has them; None where
    they are not finite."""
    bare = hypothesis.having(COUNT, 0).having("eps", 0.0).but(newton_schulz="dtype")
    raw = replay(view, bare.having("weight_decay", 0.0).but(normalization="ignored")).lanes
    whole = replay(view, bare).lanes
    steps = replay(view, bare.having("weight_decay", 0.0)).lanes
    before, after, norms, aside, total = [], [], [], 0.0, 0.0
    for lane, with_decay, without, rough in zip(view.lanes, whole, steps, raw, strict=True):
        for k in range(view.steps):
            # The iteration starts from the momentum at norm 1, so that this norm is the rate's.
            x = lane.p[k] - without[k]
            y = lane.p[k] - lane.after[k] + with_decay[k] - without[k]
            scale = float(np.sqrt((x * x).sum()))
            if not np.isfinite(x).all() or not np.isfinite(y).all():
                return None
            if scale == 0.0:
                continue
            left, values, right = np.linalg.svd(x / scale, full_matrices=False)
            turned = left.T @ (y / scale) @ right.T
            diagonal = np.diagonal(turned)
            total += float(((y / scale) ** 2).sum())
            aside += float(((y / scale) ** 2).sum() - (diagonal**2).sum())
            before.append(values)
            after.append(diagonal)
            norm = float(np.sqrt(((lane.p[k] - rough[k]) ** 2).sum())) / scale
            norms.append(np.full(len(values), norm))
    if not before or total == 0.0:
        return None
    s, t, size = (np.concatenate(each) for each in (before, after, norms))
    chosen = np.linspace(0, len(s) - 1, min(len(s), POINTS)).astype(int)
    return Spectrum(s[chosen], t[chosen], size[chosen], abs(aside) / total)


def composed(s: Array, values: Array, count: int) -> Array:
    """a s + b s^3 + c s^5, applied ``count`` times."""
    a, b, c = values
    for _ in range(count):
        square = s * s
        s = s * (a + square * (b + square * c))
    return s


def fitted(s: Array, t: Array, count: int) -> tuple[float, Array]:
    """The coefficients with which the composition comes nearest to ``t``, and the root of the mean
    square that is left."""
    generator = np.random.default_rng(count)
    begin = [
        np.array(space.base("Muon", side).options[COEFFICIENTS], dtype=float)
        for side in space.SIDES
    ]
    begin += [np.array([1.5, -0.5, 0.0]), np.array([2.0, -1.5, 0.5])]
    begin += [np.array([1.0, -1.0, 0.5]) * generator.uniform(0.5, 4.0, 3) for _ in range(RANDOM)]
    best, chosen = np.inf, begin[0]
    with np.errstate(all="ignore"):
        for start in begin:
            cost, values = _least_squares(s, t, count, start)
            if cost < best:
                best, chosen = cost, values
            if best < 1e-7:
                break
    return best, chosen


def _least_squares(s: Array, t: Array, count: int, values: Array) -> tuple[float, Array]:
    def off(x: Array) -> Array:
        return np.clip(np.nan_to_num(composed(s, x, count) - t, nan=1e6), -1e6, 1e6)

    residual, damping = off(values), 1e-3
    for _ in range(25):
        slopes = np.stack(
            [(off(values + 1e-6 * np.eye(3)[i]) - residual) / 1e-6 for i in range(3)], axis=1
        )
        normal = slopes.T @ slopes
        right = slopes.T @ residual
        scale = np.diag(np.maximum(np.diag(normal), 1e-12))
        moved = values - np.linalg.lstsq(normal + damping * scale, right, rcond=None)[0]
        new = off(moved)
        gain = float(residual @ residual - new @ new)
        if gain > 0:
            damping = max(damping / 5, 1e-12)
            done = gain < 1e-10 * float(residual @ residual)
            values, residual = moved, new
            if done:
                break
        else:
            damping *= 8
            if damping > 1e8:
                break
    return float(np.sqrt(np.mean(residual**2))), values
