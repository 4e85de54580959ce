"""Differences on a logarithmic axis, which has no place for what is exactly zero or not finite."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.plots.style import Look, whole_numbers

Array = NDArray[np.float64]
FURTHEST = 150
"""The largest power of ten at either end of an axis, beyond which its ticks overflow."""


def limits(values: Sequence[Array]) -> tuple[float, float]:
    """The ends of a logarithmic axis: the powers of ten around all that is finite and above 0, as
    far as an axis can reach.
    """
    seen = np.concatenate([np.empty(0), *(item[np.isfinite(item) & (item > 0)] for item in values)])
    if not seen.size:
        return 1e-12, 1.0
    low, high = (math.floor(math.log10(seen.min())), math.ceil(math.log10(seen.max())))
    low = min(max(low, -FURTHEST), FURTHEST - 1)
    return 10.0**low, 10.0 ** max(min(high, FURTHEST), low + 1)


class Lines:
    """Series by step; zeros stand at the foot of the axis, what is not finite at its head."""

    def __init__(self, axes: Any, ends: tuple[float, float]) -> None:
        """Draw on ``axes`` between two powers of ten."""
        self.axes, (self.low, self.high) = axes, ends
        self._zeros = self._infinite = self._beyond = False

    def add(self, steps: Array, values: Array, label: str, look: Look) -> None:
        """A series, a difference for each step; NaN is not drawn."""
        zero, beyond = values == 0, values > self.high
        usual = np.where(zero | beyond, np.nan, np.clip(values, self.low, self.high))
        style = {"marker": look.marker, "linestyle": look.dash, "color": look.colour}
        every = max(1, len(steps) // 20)
        self.axes.plot(steps, usual, label=label, markevery=every, markersize=4, **style)
        for where, at, marker in ((zero, self.low, "v"), (beyond, self.high, "X")):
            ends = np.full(where.sum(), at)
            self.axes.plot(steps[where], ends, marker, color=look.colour, markersize=5)
        self._zeros |= bool(zero.any())
        self._infinite |= bool(np.isinf(values).any())
        self._beyond |= bool((beyond & np.isfinite(values)).any())

    def floor(self, steps: Array, values: Array) -> None:
        """The area of what roundings alone can do."""
        drawn = np.clip(values, self.low, self.high)
        self.axes.fill_between(steps, self.low, drawn, color="0.85", label="rounding floor")
        if len(steps) == 1:  # an area of one step has no width
            self.axes.axhline(float(drawn[0]), color="0.6", linewidth=3)

    def tolerance(self, value: float) -> None:
        """The line of what is called OK."""
        label = f"tolerance {value:g}"
        self.axes.axhline(value, color="0.4", linewidth=1, dashes=(6, 2), label=label)

    def finish(self, steps: Array) -> None:
        """Both axes, their titles, and what the marks at the ends stand for."""
        axes = self.axes
        # First the ends: to set the scale looks for some in the data, which may have one value.
        axes.set_ylim(self.low / 2, self.high * 2)
        axes.set_yscale("log")
        axes.set_xlim(steps[0] - 0.5, steps[-1] + 0.5)
        for seen, marker, label in (
            (self._zeros, "v", "exactly 0"),
            (self._infinite, "X", "not finite"),
            (self._beyond, "X", "beyond the axis"),
        ):
            if seen:
                axes.plot([], [], marker, color="0.3", label=label)
        whole_numbers(axes)
        axes.set_title("Difference by step", fontsize=10)
        axes.set_xlabel("step (updates)")
        axes.grid(True, which="major", color="0.92")
