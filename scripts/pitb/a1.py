"""A1, the small problem: its values, computed in f64 and rounded to f32 once.

``fc1 = Linear(4, 8)``, ReLU, ``fc2 = Linear(8, 3)``, mean cross entropy over 4 rows.
"""

import numpy as np
from numpy.typing import NDArray

NAME = "a1"
WEIGHT_AMPLITUDE = 0.5
"""Weights are this times a sine or cosine."""


def inputs() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The batch: x, float32 of shape (4, 4), and y, int64 of shape (4,)."""
    x = 0.1 * np.arange(16, dtype=np.float64) - 0.5
    return x.astype(np.float32).reshape(4, 4), np.array([0, 2, 1, 2], dtype=np.int64)


def parameters() -> dict[str, NDArray[np.float32]]:
    """The initial parameters, float32, by PyTorch's names, in its order and shapes."""

    def wave(function: np.ufunc, shape: tuple[int, int]) -> NDArray[np.float32]:
        k = np.arange(shape[0] * shape[1], dtype=np.float64)
        values: NDArray[np.float64] = WEIGHT_AMPLITUDE * function(k + 1)
        return values.astype(np.float32).reshape(shape)

    def ramp(step: float, size: int) -> NDArray[np.float32]:
        return (step * np.arange(size, dtype=np.float64)).astype(np.float32)

    return {
        "fc1.weight": wave(np.sin, (8, 4)),
        "fc1.bias": ramp(0.01, 8),
        "fc2.weight": wave(np.cos, (3, 8)),
        "fc2.bias": ramp(-0.02, 3),
    }
