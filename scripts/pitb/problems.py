"""The problems on which a wrong formula shows: initial parameters, inputs, prescribed gradients.

Every value is exact in float32, so that float32 and float64 runs of all sides start from the same
numbers. Shapes are PyTorch's. A tensor of layout ``linear`` is the weight of a linear layer, which
burn stores transposed.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import a1
from pitb.errors import PitbError, nearest

Array = NDArray[np.float64]
Tensors = dict[str, Array]


@dataclass(frozen=True)
class Problem:
    """One problem; the same on every side."""

    name: str
    model: str
    """mlp, single, embedding, conv, tied, quadratic, rosenbrock, pieces or prescribed."""
    parameters: Tensors
    """Initial values, float64 arrays that are exact in float32, in the order of ``state_dict``."""
    inputs: dict[str, NDArray[Any]] = field(default_factory=dict)
    """float64 (exact in float32) or int64 arrays."""
    gradients: Sequence[Tensors] = ()
    """What is prescribed, step by step; steps beyond the last begin again. A tensor that a step
    leaves out has no gradient there."""
    about: str = ""
    """What it is for, in a few words."""
    overflows: bool = False
    """Whether squares of its gradients leave the range of float32."""
    tied: tuple[tuple[str, str], ...] = ()
    """Second names of tensors: (second name, first name)."""
    special: bool = False
    """Whether it is only for the option sets that ask for it by name."""
    norms: Callable[[int, str, float], float] | None = field(default=None, compare=False)
    """Where the tensors are parts of larger ones: the p-norm of the whole gradient that is
    prescribed, given the update, the tensor and p."""
    chosen: Mapping[str, NDArray[np.int64]] | None = field(default=None, compare=False)
    """By tensor, the elements that the reference records of it and of what has as many, as
    ascending indices into it flattened; None for all."""

    @property
    def extreme(self) -> bool:
        """Whether its gradients are not finite, or their squares leave the range of float32."""
        finite = all(np.isfinite(g).all() for step in self.gradients for g in step.values())
        return self.overflows or not finite

    @property
    def tensors(self) -> list[str]:
        """The names of the parameters, also the second names of those that are tied."""
        return [*self.parameters, *(second for second, _ in self.tied)]

    @property
    def matrices(self) -> list[str]:
        """The names of the parameters that are matrices."""
        return [name for name, value in self.parameters.items() if value.ndim == 2]

    def gradient(self, step: int) -> Tensors:
        """The prescribed gradients of update ``step``, 1 being the first."""
        return self.gradients[(step - 1) % len(self.gradients)]

    def described(self) -> dict[str, Any]:
        """What the metadata of a trace say of its model: name, number of parameters, tensors."""
        tensors = [{"name": n, "shape": list(value.shape)} for n, value in self.parameters.items()]
        count = sum(value.size for value in self.parameters.values())
        return {"name": self.name, "parameters": count, "tensors": tensors}

    def json(self) -> dict[str, Any]:
        """As burn's side reads it."""
        return {
            "model": self.model,
            "parameters": [
                {
                    "name": name,
                    "shape": list(value.shape),
                    "values": value.reshape(-1).tolist(),
                    "layout": "linear" if is_linear(name) else "plain",
                }
                for name, value in self.parameters.items()
            ],
            "inputs": {
                name: {
                    "shape": list(value.shape),
                    "dtype": "int64" if value.dtype == np.int64 else "float32",
                    "values": [_plain(x) for x in value.reshape(-1).tolist()],
                }
                for name, value in self.inputs.items()
            },
            "gradients": [
                {name: [_plain(x) for x in value.reshape(-1)] for name, value in step.items()}
                for step in self.gradients
            ],
        }


def is_linear(name: str) -> bool:
    """Whether a parameter is the weight of a linear layer."""
    layer, _, kind = name.rpartition(".")
    return kind == "weight" and layer.startswith(("fc", "unused"))


def problem(name: str) -> Problem:
    """The problem called ``name``.

    Raises:
        PitbError: There is none; names the nearest.
    """
    if name not in _BUILDERS:
        message = f"no problem {name!r} is known; nearest: {nearest(name, names())!r}"
        raise PitbError(message)
    return _build(name)


def names() -> list[str]:
    """The names of all problems."""
    return list(_BUILDERS)


@cache
def _build(name: str) -> Problem:
    return _BUILDERS[name](name)


def _plain(value: float) -> float | str | None:
    """As JSON has it, which knows neither NaN nor infinity."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _f32(values: Iterable[float], shape: tuple[int, ...]) -> Array:
    return np.array(list(values), dtype=np.float32).astype(np.float64).reshape(shape)


def _wave(shape: tuple[int, ...], phase: float, amplitude: float = 0.5) -> Array:
    """amplitude * sin(k * 1.3 + phase): no two elements alike, no pattern along an axis."""
    size = math.prod(shape)
    return _f32((amplitude * math.sin(1.3 * k + phase) for k in range(size)), shape)


def _a1(name: str) -> Problem:
    x, y = a1.inputs()
    parameters = {key: value.astype(np.float64) for key, value in a1.parameters().items()}
    inputs: dict[str, NDArray[Any]] = {"x": x.astype(np.float64), "y": y}
    return Problem(name, "mlp", parameters, inputs, about="the small problem of the pages")


def _mlp(sizes: tuple[int, int, int], about: str, unused: bool = False) -> Callable[..., Problem]:
    features, hidden, classes = sizes

    def build(name: str) -> Problem:
        parameters = {
            "fc1.weight": _wave((hidden, features), 1.0),
            "fc1.bias": _wave((hidden,), 2.0, 0.1),
            "fc2.weight": _wave((classes, hidden), 3.0),
            "fc2.bias": _wave((classes,), 4.0, 0.1),
        }
        if unused:
            parameters |= {"unused.weight": _wave((2, 3), 5.0), "unused.bias": _wave((2,), 6.0)}
        rows = 4
        inputs: dict[str, NDArray[Any]] = {
            "x": _wave((rows, features), 0.3, 1.0),
            "y": np.arange(rows, dtype=np.int64) * 2 % classes,
        }
        return Problem(name, "mlp", parameters, inputs, about=about)

    return build


def _single(name: str) -> Problem:
    parameters = {"fc.weight": _wave((3, 5), 1.0), "fc.bias": _wave((3,), 2.0, 0.1)}
    inputs = {"x": _wave((4, 5), 0.3, 1.0), "y": np.array([0, 2, 1, 2], dtype=np.int64)}
    return Problem(name, "single", parameters, inputs, about="one linear layer")


def _embedding(name: str) -> Problem:
    parameters = {
        "embedding.weight": _wave((6, 3), 1.0),
        "fc.weight": _wave((3, 3), 2.0),
        "fc.bias": _wave((3,), 3.0, 0.1),
    }
    # Rows 4 and 5 are never looked up: their gradient is exactly 0.
    inputs = {
        "x": np.array([[0, 1], [1, 2], [3, 3], [2, 0]], dtype=np.int64),
        "y": np.array([0, 2, 1, 2], dtype=np.int64),
    }
    about = "an embedding, two rows of which have gradients of exact zeros"
    return Problem(name, "embedding", parameters, inputs, about=about)


def _conv(name: str) -> Problem:
    parameters = {
        "conv.weight": _wave((2, 2, 2, 3), 1.0),
        "conv.bias": _wave((2,), 2.0, 0.1),
        "fc.weight": _wave((3, 2 * 3 * 2), 3.0),
        "fc.bias": _wave((3,), 4.0, 0.1),
    }
    inputs = {"x": _wave((4, 2, 4, 4), 0.3, 1.0), "y": np.array([0, 2, 1, 2], dtype=np.int64)}
    return Problem(name, "conv", parameters, inputs, about="a convolution with a kernel of 2 x 3")


def _tied(name: str) -> Problem:
    parameters = {
        "fc1.weight": _wave((4, 4), 1.0),
        "fc1.bias": _wave((4,), 2.0, 0.1),
        "fc2.bias": _wave((4,), 4.0, 0.1),
    }
    inputs = {"x": _wave((4, 4), 0.3, 1.0), "y": np.array([0, 2, 1, 3], dtype=np.int64)}
    tied = (("fc2.weight", "fc1.weight"),)
    return Problem(name, "tied", parameters, inputs, about="one weight in two layers", tied=tied)


def _quadratic(name: str) -> Problem:
    # Eigenvalues between about 1 and 11, and not a diagonal matrix.
    n = 5
    root = _wave((n, n), 0.7, 1.0)
    a: Array = (
        (root @ root.T + np.diag(np.arange(1.0, n + 1))).astype(np.float32).astype(np.float64)
    )
    a = (a + a.T) / 2
    inputs: dict[str, NDArray[Any]] = {"A": a, "b": _wave((n,), 0.2, 1.0)}
    return Problem(name, "quadratic", {"x": _wave((n,), 1.1, 1.0)}, inputs, about="a quadratic")


def _rosenbrock(name: str) -> Problem:
    start = _f32([-1.2, 1.0, 0.8, 0.9], (4,))
    return Problem(name, "rosenbrock", {"x": start}, about="Rosenbrock's valley in 4 dimensions")


def _pieces(
    ends: tuple[float, float], quadratics: tuple[tuple[float, float, float], ...], about: str
) -> Callable[[str], Problem]:
    """In one dimension, a x^2 + b x + c on each of the three sides of two ends; from 0."""

    def build(name: str) -> Problem:
        values = [x for coefficients in quadratics for x in coefficients]
        inputs: dict[str, NDArray[Any]] = {"ends": _f32(ends, (2,)), "pieces": _f32(values, (3, 3))}
        start = {"x": np.zeros(1)}
        return Problem(name, "pieces", start, inputs, about=about, special=True)

    return build


_NAN = (math.nan, math.nan, math.nan)


def _prescribed(
    about: str,
    scale: float = 1.0,
    constant: bool = False,
    sparse: bool = False,
    absent: bool = False,
    bad: float = 0.0,
    overflows: bool = False,
) -> Callable[[str], Problem]:
    steps = 10

    def gradient(step: int) -> Tensors:
        phase = 0.9 if constant else 0.9 + 1.7 * step
        found = {"fc.weight": _wave((3, 5), phase, 1.0), "fc.bias": _wave((3,), phase + 0.4, 1.0)}
        if sparse:
            keep = np.arange(15).reshape(3, 5) % 3 == step % 3
            found["fc.weight"] = found["fc.weight"] * keep
            found["fc.bias"] = found["fc.bias"] * (np.arange(3) == step % 3)
        found = {
            key: (value * scale).astype(np.float32).astype(np.float64)
            for key, value in found.items()
        }
        if bad and step == 4:
            found["fc.weight"][1, 2] = found["fc.bias"][1] = bad
        if absent and step % 3 != 1:
            del found["fc.bias"]
        return found

    def build(name: str) -> Problem:
        return Problem(
            name,
            "prescribed",
            {"fc.weight": _wave((3, 5), 1.0), "fc.bias": _wave((3,), 2.0, 0.1)},
            gradients=tuple(gradient(step) for step in range(1, steps + 1)),
            about=about,
            overflows=overflows,
        )

    return build


_BUILDERS: dict[str, Callable[[str], Problem]] = {
    "a1": _a1,
    "square": _mlp((4, 4, 4), "two square layers"),
    "wide": _mlp((10, 3, 3), "a first layer with more inputs than outputs"),
    "tall": _mlp((3, 10, 3), "a first layer with more outputs than inputs"),
    "unused": _mlp((4, 5, 3), "a layer that the forward pass never calls", unused=True),
    "single": _single,
    "embedding": _embedding,
    "conv": _conv,
    "tied": _tied,
    "quadratic": _quadratic,
    "rosenbrock": _rosenbrock,
    # A step to 6 is too far, and the cubic then leads into the gap.
    "gap": _pieces(
        (1.5, 5.0), ((1, -2, 0), _NAN, (0, 0.25, -1)), "a loss that is NaN between two ends"
    ),
    # From a steep slope onto a higher plateau, below the line that Armijo's condition draws.
    "plateau": _pieces(
        (0.5, 9.0),
        ((0.1, -1, 0), (0, -0.05, -0.02), (0, -0.05, -0.02)),
        "a steep slope and a higher plateau",
    ),
    "gradients": _prescribed("prescribed gradients of about 1"),
    "constant": _prescribed("the same prescribed gradient at every step", constant=True),
    "sparse": _prescribed("prescribed gradients, two thirds of them exact zeros", sparse=True),
    "absent": _prescribed("a tensor has no gradient at two steps of three", absent=True),
    "zero": _prescribed("prescribed gradients of exact zeros", scale=0.0),
    "scale-1e-30": _prescribed("gradients whose squares underflow", scale=1e-30, overflows=True),
    "scale-1e-8": _prescribed("prescribed gradients of about 1e-8", scale=1e-8),
    "scale-1e-4": _prescribed("prescribed gradients of about 1e-4", scale=1e-4),
    "scale-1e4": _prescribed("prescribed gradients of about 1e4", scale=1e4),
    "scale-1e30": _prescribed("gradients whose squares overflow", scale=1e30, overflows=True),
    "nan": _prescribed("a NaN in each gradient of step 4", bad=math.nan),
    "inf": _prescribed("an infinity in each gradient of step 4", bad=math.inf),
}


@contextmanager
def added(*found: Problem) -> Iterator[None]:
    """While it lasts, `problem` knows these by their names, too.

    Raises:
        PitbError: There is one of that name.
    """
    taken = [item.name for item in found if item.name in _BUILDERS]
    if taken:
        raise PitbError(f"there is a problem {taken[0]!r} already")
    mine = {item.name: item for item in found}
    _BUILDERS.update(dict.fromkeys(mine, mine.__getitem__))
    try:
        yield
    finally:
        for name in mine:
            del _BUILDERS[name]
        _build.cache_clear()
