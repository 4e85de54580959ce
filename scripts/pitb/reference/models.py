"""Loss and gradients of every problem, in NumPy, in the precision of the parameters.

The gradients are written out by hand, so that the reference shares no code with either library's
automatic differentiation; the tests hold them against finite differences.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.problems import Problem

Array = NDArray[Any]
Tensors = dict[str, Array]


@dataclass
class Evaluation:
    """The loss at some parameters, and its gradient."""

    loss: float
    gradients: Tensors
    """By name; a parameter that the loss does not use has none."""
    logits: Array | None = None
    """float of shape (rows, classes), where the problem has them."""


def evaluate(problem: Problem, parameters: Tensors) -> Evaluation:
    """The loss of ``problem`` at ``parameters`` and its gradient, in the parameters' dtype."""
    dtype = next(iter(parameters.values())).dtype
    inputs = {
        name: value if value.dtype == np.int64 else value.astype(dtype)
        for name, value in problem.inputs.items()
    }
    return _MODELS[problem.model](parameters, inputs)


def cross_entropy(logits: Array, y: NDArray[np.int64]) -> tuple[float, Array]:
    """Mean cross entropy over the rows, and its gradient.

    Args:
        logits: float of shape (rows, classes).
        y: int64 of shape (rows,).

    Source: Goodfellow, Bengio and Courville, Deep Learning, 6.2.2.3.
    """
    rows = np.arange(len(y))
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    loss = -np.mean((shifted - np.log(total))[rows, y])
    slope = np.exp(shifted) / total
    slope[rows, y] -= 1
    return loss, slope / len(y)


def _linear(slope: Array, x: Array, layer: str) -> Tensors:
    """Gradients of a linear layer's weight and bias from those of its output."""
    return {f"{layer}.weight": slope.T @ x, f"{layer}.bias": slope.sum(axis=0)}


def _mlp(p: Tensors, inputs: Tensors) -> Evaluation:
    x, y = inputs["x"], inputs["y"]
    hidden = x @ p["fc1.weight"].T + p["fc1.bias"]
    active = np.maximum(hidden, 0)
    # A tied second layer uses the first one's weight.
    second = p.get("fc2.weight", p["fc1.weight"])
    logits = active @ second.T + p["fc2.bias"]
    loss, slope = cross_entropy(logits, y)
    inner = (slope @ second) * (hidden > 0)
    found = _linear(inner, x, "fc1") | _linear(slope, active, "fc2")
    if "fc2.weight" not in p:
        found["fc1.weight"] = found["fc1.weight"] + found.pop("fc2.weight")
    return Evaluation(loss, {name: found[name] for name in p if name in found}, logits)


def _single(p: Tensors, inputs: Tensors) -> Evaluation:
    logits = inputs["x"] @ p["fc.weight"].T + p["fc.bias"]
    loss, slope = cross_entropy(logits, inputs["y"])
    return Evaluation(loss, _linear(slope, inputs["x"], "fc"), logits)


def _embedding(p: Tensors, inputs: Tensors) -> Evaluation:
    x, y = inputs["x"], inputs["y"]
    features = p["embedding.weight"][x].mean(axis=1)
    logits = features @ p["fc.weight"].T + p["fc.bias"]
    loss, slope = cross_entropy(logits, y)
    inner = (slope @ p["fc.weight"]) / x.shape[1]
    table = np.zeros_like(p["embedding.weight"])
    np.add.at(table, x, inner[:, None, :])
    return Evaluation(loss, {"embedding.weight": table} | _linear(slope, features, "fc"), logits)


def _conv(p: Tensors, inputs: Tensors) -> Evaluation:
    x, y, kernel = inputs["x"], inputs["y"], p["conv.weight"]
    # windows: (rows, in, height, width, kh, kw)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[2:], axis=(2, 3))
    hidden = np.einsum("rihwyx,oiyx->rohw", windows, kernel) + p["conv.bias"][:, None, None]
    active = np.maximum(hidden, 0)
    flat = active.reshape(len(x), -1)
    logits = flat @ p["fc.weight"].T + p["fc.bias"]
    loss, slope = cross_entropy(logits, y)
    inner = (slope @ p["fc.weight"]).reshape(hidden.shape) * (hidden > 0)
    found = {
        "conv.weight": np.einsum("rohw,rihwyx->oiyx", inner, windows),
        "conv.bias": inner.sum(axis=(0, 2, 3)),
    }
    return Evaluation(loss, found | _linear(slope, flat, "fc"), logits)


def _quadratic(p: Tensors, inputs: Tensors) -> Evaluation:
    x, a, b = p["x"], inputs["A"], inputs["b"]
    return Evaluation(0.5 * (x @ (a @ x)) - b @ x, {"x": a @ x - b})


def _rosenbrock(p: Tensors, inputs: Tensors) -> Evaluation:
    """Rosenbrock, An automatic method for finding the greatest or least value (1960)."""
    x = p["x"]
    valley, slope = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = np.zeros_like(x)
    gradient[:-1] = -400 * x[:-1] * valley - 2 * slope
    gradient[1:] += 200 * valley
    return Evaluation((100 * valley**2 + slope**2).sum(), {"x": gradient})


def _pieces(p: Tensors, inputs: Tensors) -> Evaluation:
    x = p["x"]
    a, b, c = inputs["pieces"][(inputs["ends"] < x).sum()]
    return Evaluation((a * x**2 + b * x + c).sum(), {"x": 2 * a * x + b})


_MODELS: dict[str, Callable[[Tensors, Tensors], Evaluation]] = {
    "mlp": _mlp,
    "tied": _mlp,
    "single": _single,
    "embedding": _embedding,
    "conv": _conv,
    "quadratic": _quadratic,
    "rosenbrock": _rosenbrock,
    "pieces": _pieces,
}
