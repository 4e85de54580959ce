"""The pictures of one comparison: the losses of both sides, the differences by step, and the map of
differences by step and tensor.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import problems
from pitb.compare import Comparison, Row
from pitb.plots import style
from pitb.plots.heat_map import heat_map, height
from pitb.plots.log_axis import FURTHEST, Lines, limits
from pitb.trace import Trace

Array = NDArray[np.float64]
CROSS_ENTROPY = ("mlp", "tied", "single", "embedding", "conv")
"""Models whose loss is the mean cross entropy."""
WIDE_RANGE = 1e3
"""The ratio of the largest to the smallest loss beyond which the axis is logarithmic."""


def losses(path: Path, a: Trace, b: Trace) -> None:
    """Draw the loss of both runs, by the update before which it was computed.

    Raises:
        PitbError: The picture cannot be written.
    """
    with style.drawing(path, (style.WIDTH, 3.6), f"Loss of {a.run} and {b.run}") as figure:
        axes = figure.subplots()
        style.titled(figure, "Loss", a.run, b.run)
        curves = [(run, *_losses(run)) for run in (a, b)]
        drawn = [curve for curve in curves if curve[1].size]
        if not drawn:
            style.say(axes, "neither run records a loss")
            return
        seen = np.concatenate([values[np.isfinite(values)] for _, _, values in drawn])
        if seen.size and seen.min() > 0 and seen.max() / seen.min() > WIDE_RANGE:
            axes.set_yscale("log")
        for index, (run, steps, values) in enumerate(drawn):
            _curve(axes, run.run, steps, values, index)
        if any(not np.isfinite(values).all() for _, _, values in drawn):
            axes.plot([], [], "X", color="0.3", label="not finite, or beyond the axis")
        axes.set_xlabel("step (updates); the loss is that before the update")
        axes.set_ylabel(f"loss ({_unit(a)})")
        axes.grid(True, color="0.92")
        style.whole_numbers(axes)
        style.legend_below(axes)


def _losses(run: Trace) -> tuple[Array, Array]:
    """Steps and losses; one beyond what an axis can show is NaN."""
    entries = [entry for entry in run.entries if entry.quantity == "loss" and entry.count == 1]
    values = np.array([run.of(entry)[0] for entry in entries])
    steps = np.array([float(entry.step) for entry in entries])
    return steps, np.where(np.abs(values) <= 10.0**FURTHEST, values, np.nan)


def _curve(axes: Any, name: str, steps: Array, values: Array, index: int) -> None:
    """One run's losses: the second one is drawn thinner, on top, so that both are seen."""
    found = style.look(2 * index)
    axes.plot(
        steps,
        values,
        label=name,
        color=found.colour,
        linestyle=found.dash,
        linewidth=(3.0, 1.2)[index],
        alpha=(0.45, 1.0)[index],
        marker=found.marker,
        markersize=(7, 4)[index],
        markevery=max(1, len(steps) // 20),
    )
    beyond = ~np.isfinite(values)
    # At the head of the axes, whatever its range.
    axes.plot(
        steps[beyond],
        np.full(beyond.sum(), 0.98),
        "X",
        color=found.colour,
        transform=axes.get_xaxis_transform(),
    )


def _unit(run: Trace) -> str:
    """Of a run's loss."""
    name = (run.metadata.get("model") or {}).get("name")
    known = name in problems.names() and problems.problem(name).model in CROSS_ENTROPY
    return "nats, mean cross entropy" if known else "in units of the model's own"


def differences(path: Path, found: Comparison, floor: Array | None) -> None:
    """Draw the largest difference of each quantity by step, with tolerance and rounding floor.

    Args:
        path: An SVG or PNG file.
        found: The comparison.
        floor: Of the parameters by update from 0, shape (steps + 1,); None where none is known.

    Raises:
        PitbError: The picture cannot be written.
    """
    title = f"Difference by step of {found.a} and {found.b}"
    with style.drawing(path, (style.WIDTH, 4.2), title) as figure:
        axes = figure.subplots()
        style.titled(figure, "", found.a, found.b)
        if not found.rows:
            style.say(axes, f"not compared: {found.error or 'nothing was'}")
            return
        steps = np.arange(1.0, max(row.step for row in found.rows) + 1)
        shown = {name: _by_step(found.rows, name, len(steps)) for name in _quantities(found)}
        tolerance = np.array([found.tolerance])
        below = _floor(floor, len(steps))
        drawn = Lines(axes, limits([*shown.values(), below, tolerance]))
        for index, (name, values) in enumerate(shown.items()):
            drawn.add(steps, values, name, style.look(index))
        if floor is not None:
            drawn.floor(steps, below)
        drawn.tolerance(found.tolerance)
        for side, run, dots in (("a", found.a, (1, 2)), ("b", found.b, (4, 2))):
            first = found.first_not_finite.get(side)
            if first is not None:
                label = f"{run}: not finite from step {first['step']}"
                axes.axvline(first["step"], color="0.3", linewidth=1, dashes=dots, label=label)
        drawn.finish(steps)
        axes.set_ylabel("largest absolute difference\n(units of the quantity)")
        style.legend_below(axes)


def _quantities(found: Comparison) -> list[str]:
    return list(dict.fromkeys(row.quantity for row in found.rows))


def _by_step(rows: list[Row], quantity: str, steps: int) -> Array:
    """The largest difference of a quantity after each update; NaN where there is none."""
    values = np.full(steps, math.nan)
    for row in rows:
        if row.quantity == quantity and row.step > 0:
            values[row.step - 1] = np.fmax(values[row.step - 1], row.max_abs)
    return values


def _floor(floor: Array | None, steps: int) -> Array:
    """By step from 1; the loss after the last update has the last one."""
    if floor is None or len(floor) < 2:
        return np.full(steps, math.nan)
    return np.concatenate([floor[1:], np.full(steps, floor[-1])])[:steps]


def tensors(path: Path, found: Comparison) -> None:
    """Draw the map of the largest difference by step and tensor.

    Raises:
        PitbError: The picture cannot be written.
    """
    rows = [row for row in found.rows if row.tensor] or found.rows
    quantities = {row.quantity for row in rows}
    alone = len(quantities) == 1 and rows[0].tensor
    names = {
        (row.quantity, row.tensor): row.tensor if alone else f"{row.quantity} {row.tensor}".strip()
        for row in rows
    }
    size = (style.WIDTH, 1.5 + height(len(names)))
    with style.drawing(path, size, f"Differences of tensors of {found.a} and {found.b}") as figure:
        axes = figure.subplots()
        style.titled(figure, "", found.a, found.b)
        if not rows:
            style.say(axes, f"not compared: {found.error or 'nothing was'}")
            return
        values = np.full((len(names), max(row.step for row in rows)), math.nan)
        places = {key: place for place, key in enumerate(names)}
        for row in rows:
            values[places[row.quantity, row.tensor], row.step - 1] = row.max_abs
        heat_map(figure, axes, list(names.values()), values, "Difference by step and tensor")
