"""L-BFGS in float64, in the two forms that PyTorch and burn have it.

The method is algorithm 7.5 of Nocedal and Wright, Numerical Optimization (2nd edition, 2006), with
the two-loop recursion of algorithm 7.4, the scaling of equation 7.20, and a line search for the
strong Wolfe conditions by algorithms 3.5 and 3.6 with the cubic interpolation of equation 3.59.
Where the libraries leave the book, they follow minFunc by way of Torch's ``optim.lbfgs``. Sources
compared, line by line: ``torch/optim/lbfgs.py`` of PyTorch 2.15 and ``burn-optim-0.22.1/src/optim/
lbfgs.rs``. Everything in which they differ, or that is easily got wrong, is a field of ``Choices``.

What differs outside the equations, and so is no choice here:

- Return value: PyTorch returns the loss before the step (lbfgs.py:515), burn the one after it
  (lbfgs.rs:805).
- A parameter without a gradient counts as zeros in PyTorch (lbfgs.py:260) and is left out of the
  flat gradient in burn (lbfgs.rs:372), which then no longer fits the flat parameters.
- A parameter under two names is one in PyTorch; burn visits it twice (lbfgs.rs:396), so that it
  has twice the weight in every product and norm.
- Step lengths that come out of a norm or of the line search have the parameters' dtype in PyTorch
  (lbfgs.py:433, :49) and are f64 in burn (lbfgs.rs:718, :93). They are the same in float64.
- A rate of 0 with the line search divides by zero, which PyTorch raises where both steps are plain
  numbers (lbfgs.py:27). Here, as in burn, it follows IEEE 754.
- Only PyTorch has ``maximize``: negate the loss and the gradient.
- burn's state has no ``func_evals``, ``ro`` and ``H_diag``; it computes the latter two when needed.
  Its ``t`` is 1 before the first step (lbfgs.rs:509) and its ``d`` -g where ``max_iter`` is 0
  (lbfgs.rs:629), where PyTorch has none. Nothing reads either.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Evaluate = Callable[[Vector], tuple[float, Vector]]


STATE = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")
"""What a step leaves to the next one, by PyTorch's names, besides the two counts."""


@dataclass(frozen=True)
class Choices:
    """What a step of L-BFGS leaves open. The defaults are what both libraries agree on."""

    # In which the libraries differ.

    line_search_tolerance: Literal["fixed", "tolerance_change"]
    """Below which width, times the largest |d|, the line search gives a bracket up: always
    1e-9, or the option."""
    last_evaluation: Literal["skipped", "made"]
    """Without line search, whether the point that the last iteration reaches is evaluated.
    Only the number of evaluations shows it."""
    prev_loss: Literal["before", "after"]
    """Which loss of the last iteration is kept. Neither reads it."""
    nan_in_min_max: Literal["ordered", "ignored"]
    """Which of NaN and a number the line search takes for the smaller or larger: whichever Python's
    min and max meet first, or the number. It matters after
    an infinite loss, where the interpolated step is inf/inf."""
    nan_loss: Literal["accepted", "rejected"]
    """What a NaN is to the zoom, which asks whether the loss is too high or low
    enough."""
    negative_max_ls: Literal["refused", "wrapped"]
    """What ``max_eval=0`` leaves to the line search after the first evaluation: -1, with which
    PyTorch raises UnboundLocalError, or 2^64 - 1 by unsigned arithmetic."""

    # In which they agree and a mistaken implementation does not.

    history_update: Literal["curvature-checked", "always"] = "curvature-checked"
    """Whether a pair is kept only if y.s > 1e-10."""
    displacement: Literal["step", "direction"] = "step"
    """What s is: t d, or d, forgetting the step length."""
    eviction: Literal["oldest", "newest"] = "oldest"
    """Which pair leaves a full history."""
    loop_order: Literal["newest-first", "oldest-first"] = "newest-first"
    """In which order the first loop goes through the pairs."""
    initial_hessian: Literal["scaled", "identity", "long"] = "scaled"
    """H_0 over the identity: y.s / y.y of the newest pair, 1, or
    s.s / y.s, the other step length of Barzilai and Borwein."""
    first_step: Literal["scaled", "lr"] = "scaled"
    """The step length tried first of all: min(1, 1 / |g|_1) lr."""
    later_step: Literal["lr", "one"] = "lr"
    """The one tried later; the book has 1."""
    memory: Literal["kept", "per-call"] = "kept"
    """Whether a step goes on from the state of the step before it."""
    line_search_evaluations: Literal["left", "25"] = "left"
    """The interpolations a line search may do: ``max_eval`` less the evaluations so far, or 25, a
    default of PyTorch's that nothing uses."""
    c1: float = 1e-4
    """Of the Armijo condition."""
    c2: float = 0.9
    """Of the curvature condition."""
    curvature: Literal["strong", "weak"] = "strong"
    """Whether the slope may stay steep upwards, as 3.6b has it and 3.7b does not."""
    rise_checked_from: int = 2
    """The iteration, from 0, from which a loss above the one before it brackets; algorithm 3.5
    has 1."""
    interpolation: Literal["cubic", "midpoint"] = "cubic"
    """How a step length between two others is chosen."""


PYTORCH = Choices(
    line_search_tolerance="fixed",
    last_evaluation="skipped",
    prev_loss="before",
    nan_in_min_max="ordered",
    nan_loss="accepted",
    negative_max_ls="refused",
)
"""torch.optim.LBFGS of PyTorch 2.15."""

BURN = Choices(
    line_search_tolerance="tolerance_change",
    last_evaluation="made",
    prev_loss="after",
    nan_in_min_max="ignored",
    nan_loss="rejected",
    negative_max_ls="wrapped",
)
"""burn::optim::LBFGS of burn 0.22.1."""


class Point(NamedTuple):
    """A point on the line x + t d."""

    t: np.float64
    loss: np.float64
    grad: Vector
    slope: np.float64
    """g.d"""


@np.errstate(all="ignore")
def step(
    x: Vector,
    evaluate: Evaluate,
    state: dict[str, Any],
    *,
    lr: float,
    max_iter: int = 20,
    max_eval: int | None = None,
    tolerance_grad: float = 1e-7,
    tolerance_change: float = 1e-9,
    history_size: int = 100,
    line_search_fn: str | None = None,
    choices: Choices,
) -> Vector:
    """Do one call of the optimizer's ``step``: up to ``max_iter`` iterations.

    Args:
        x: The parameters, float64 of shape (n,); left as they are.
        evaluate: The loss and its gradient, of shape (n,), at a point.
        state: Empty at first. Afterwards, under PyTorch's names: d, t, old_dirs (y), old_stps (s),
            ro, H_diag, prev_flat_grad, prev_loss, func_evals, n_iter.
        lr: The learning rate.
        max_iter: Most iterations.
        max_eval: No iteration begins after so many evaluations; max_iter 5/4, rounded down, where
            it is None.
        tolerance_grad: The largest |g| at which to stop.
        tolerance_change: The largest |t d|, and the change of the loss and the slope, at which to
            stop.
        history_size: Most pairs of s and y kept.
        line_search_fn: "strong_wolfe" or None.
        choices: The equations.

    Returns:
        The new parameters, of shape (n,).

    Raises:
        ValueError: An option is out of range.
    """
    if history_size < 1:
        raise ValueError(f"history_size is {history_size}; it must be 1 or more")
    if line_search_fn not in (None, "strong_wolfe"):
        raise ValueError(f"line_search_fn is {line_search_fn!r}; nearest: 'strong_wolfe'")
    if max_eval is None:
        max_eval = max_iter * 5 // 4
    if choices.memory == "per-call":
        state.clear()
    state.setdefault("func_evals", 0)
    state.setdefault("n_iter", 0)

    loss, grad = _evaluated(evaluate, x)
    evaluations = 1
    if np.max(np.abs(grad)) <= tolerance_grad:
        state["func_evals"] += evaluations
        return x.copy()

    for name in STATE:
        state.setdefault(name, None)
    for iteration in range(1, max_iter + 1):
        state["n_iter"] += 1
        first = state["n_iter"] == 1
        if first:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            t = np.float64(lr)
            if choices.first_step == "scaled":
                t *= np.fmin(1.0, 1.0 / np.sum(np.abs(grad)))
        else:
            remember(state, grad, history_size, choices)
            t = np.float64(lr if choices.later_step == "lr" else 1.0)
        d = direction(grad, state, choices)
        state.update(d=d, t=t, prev_flat_grad=grad, prev_loss=float(loss))
        start = Point(np.float64(0.0), loss, grad, np.float64(grad @ d))
        if start.slope > -tolerance_change:
            break

        if line_search_fn is not None:
            most = max_eval - evaluations if choices.line_search_evaluations == "left" else 25
            tolerance = tolerance_change if choices.line_search_tolerance != "fixed" else 1e-9
            reached, used = line_search(x, d, evaluate, start, t, most, tolerance, choices)
            t, loss, grad = reached.t, reached.loss, reached.grad
            evaluations += used
        x = x + t * d
        state["t"] = t
        if line_search_fn is None and (iteration < max_iter or choices.last_evaluation == "made"):
            loss, grad = _evaluated(evaluate, x)
            evaluations += 1

        if (
            evaluations >= max_eval
            or np.max(np.abs(grad)) <= tolerance_grad
            or np.max(np.abs(t * d)) <= tolerance_change
            or abs(loss - state["prev_loss"]) < tolerance_change
        ):
            break
    if choices.prev_loss == "after":
        state["prev_loss"] = float(loss)
    state["func_evals"] += evaluations
    return x.copy()


def _evaluated(evaluate: Evaluate, x: Vector) -> tuple[np.float64, Vector]:
    loss, grad = evaluate(x)
    return np.float64(loss), np.array(grad, dtype=np.float64)


def remember(state: dict[str, Any], grad: Vector, history_size: int, choices: Choices) -> None:
    """Take s and y of the iteration before into the history, if the curvature along s allows it.

    Positive curvature (6.7) keeps the approximation positive definite.
    """
    y = grad - state["prev_flat_grad"]
    s = state["d"] * (state["t"] if choices.displacement == "step" else 1.0)
    ys = y @ s
    if not ys > 1e-10 and choices.history_update == "curvature-checked":
        return
    pairs = (("old_dirs", y), ("old_stps", s), ("ro", 1.0 / ys))
    for name, value in pairs:
        if len(state[name]) == history_size:
            state[name].pop(0 if choices.eviction == "oldest" else -1)
        state[name].append(value)
    scales = {"scaled": ys / (y @ y), "identity": 1.0, "long": (s @ s) / ys}
    state["H_diag"] = scales[choices.initial_hessian]


def direction(grad: Vector, state: dict[str, Any], choices: Choices) -> Vector:
    """-H g by the two-loop recursion, algorithm 7.4; -g where the history is empty."""
    pairs = list(zip(state["old_stps"], state["old_dirs"], state["ro"], strict=True))
    if choices.loop_order == "oldest-first":
        pairs.reverse()
    d: Vector = -grad
    alphas = []
    for s, y, rho in reversed(pairs):
        alphas.append(rho * (s @ d))
        d = d - alphas[-1] * y
    d = d * state["H_diag"]
    for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        d = d + (alpha - rho * (y @ d)) * s
    return d


def line_search(
    x: Vector,
    d: Vector,
    evaluate: Evaluate,
    start: Point,
    t: np.float64,
    max_ls: int,
    tolerance: float,
    choices: Choices,
) -> tuple[Point, int]:
    """Find a step length that fulfils the strong Wolfe conditions (3.7), beginning with ``t``.

    Bracketing is algorithm 3.5, the zoom 3.6. After ``max_ls`` interpolations, or with a bracket
    below ``tolerance``, the lower end of the bracket is taken.

    Returns:
        The point reached, and the number of evaluations.

    Raises:
        ValueError: ``max_ls`` is negative and ``choices`` refuse it.
    """
    if max_ls < 0:
        if choices.negative_max_ls == "refused":
            raise ValueError("max_eval leaves no evaluation to the line search; it must be 1 up")
        max_ls += 2**64

    def at(t: np.float64) -> Point:
        loss, grad = _evaluated(evaluate, x + t * d)
        return Point(t, loss, grad, np.float64(grad @ d))

    def allowed(point: Point) -> np.float64:
        return start.loss + choices.c1 * point.t * start.slope

    def flat(point: Point) -> bool:
        slope = abs(point.slope) if choices.curvature == "strong" else -point.slope
        return bool(slope <= -choices.c2 * start.slope)

    previous, now, done = start, at(t), 0
    while True:
        if done >= max_ls:
            bracket = [start, now]
            break
        rises = done >= choices.rise_checked_from and now.loss >= previous.loss
        too_high = now.loss > allowed(now) or rises
        if not too_high and flat(now):
            return now, done + 1
        if too_high or now.slope >= 0:
            bracket = [previous, now]
            break
        # No more than ten times as far, and no less than a little farther.
        bounds = (now.t + 0.01 * (now.t - previous.t), now.t * 10)
        previous, now = now, at(between(previous, now, bounds, choices))
        done += 1

    low = 0 if bracket[0].loss <= bracket[1].loss else 1
    crowded = False
    smallest = np.max(np.abs(d))
    while done < max_ls and not abs(bracket[1].t - bracket[0].t) * smallest < tolerance:
        t = between(bracket[0], bracket[1], None, choices)
        t, crowded = inside(bracket, t, crowded, choices)
        now = at(t)
        done += 1
        high, best = 1 - low, bracket[low].loss
        if choices.nan_loss == "accepted":
            worse = bool(now.loss > allowed(now) or now.loss >= best)
        else:
            worse = not (now.loss <= allowed(now) and now.loss < best)
        if worse:
            bracket[high] = now
        elif flat(now):
            return now, done + 1
        else:
            if now.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
        # A new low end stays the lower one, but for NaN.
        if worse or choices.nan_loss == "rejected":
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
    return bracket[low], done + 1


def between(
    a: Point, b: Point, bounds: tuple[np.float64, np.float64] | None, choices: Choices
) -> np.float64:
    """Where the cubic through two points with their slopes (3.59) is least, within ``bounds``.

    Without bounds, between the points; halfway where the cubic has no minimum.
    """
    a, b = (a, b) if a.t <= b.t else (b, a)
    lower, upper = bounds or (a.t, b.t)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0 or choices.interpolation == "midpoint":
        return (lower + upper) / 2
    d2 = np.sqrt(square)
    least = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return _min(_max(least, lower, choices), upper, choices)


def inside(
    bracket: list[Point], t: np.float64, crowded: bool, choices: Choices
) -> tuple[np.float64, bool]:
    """Keep ``t`` a tenth of the bracket away from its ends, the second time that it comes closer.

    The first time where it is outside or on an end. Not in the book; a safeguard of minFunc's.

    Returns:
        The step length, and whether the next one that is too close must move.
    """
    left = _min(bracket[0].t, bracket[1].t, choices)
    right = _max(bracket[0].t, bracket[1].t, choices)
    margin = 0.1 * (right - left)
    if not _min(right - t, t - left, choices) < margin:
        return t, False
    if not (crowded or t >= right or t <= left):
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False


def _min(a: np.float64, b: np.float64, choices: Choices) -> np.float64:
    return min(a, b) if choices.nan_in_min_max == "ordered" else np.fmin(a, b)


def _max(a: np.float64, b: np.float64, choices: Choices) -> np.float64:
    return max(a, b) if choices.nan_in_min_max == "ordered" else np.fmax(a, b)
