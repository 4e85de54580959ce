"""The picture of an explanation: difference by step, and by step and tensor."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.explain.explanation import Explanation
from pitb.plots import style
from pitb.plots.heat_map import MOST_LABELS, heat_map, height
from pitb.plots.log_axis import Lines, limits
from pitb.plots.style import check_path

__all__ = ["MOST_LABELS", "check_path", "curves", "heat_map", "limits", "lines", "plot"]

Array = NDArray[np.float64]


def plot(found: Explanation, path: Path) -> None:
    """Write the picture; the same explanation gives the same bytes.

    Raises:
        PitbError: matplotlib is missing, the suffix is another, or the file cannot be written.
    """
    names, values = found.tensors
    below = height(len(names))
    title = f"A: {found.a.label}\nB: {found.b.label}\nproblem {found.problem}"
    with style.drawing(path, (9, 3.9 + below), title.replace("\n", ", ")) as figure:
        upper, lower = figure.subplots(2, 1, gridspec_kw={"height_ratios": [3.5, below]})
        figure.suptitle(title, fontsize=10, wrap=True)
        lines(upper, found)
        heat_map(figure, lower, names, values)


def curves(found: Explanation) -> list[tuple[str, Array]]:
    """What the upper panel shows, by step from 1: of the traces, or else of the reference."""
    real = found.recorded
    values = found.factorial.every_step.values if real is None else real.distance.values
    source = "reference" if real is None else "traces"
    shown = [(f"parameters, {source}", values[1:, 0])]
    if not np.isnan(values[1:, 2]).all():
        shown.append((f"loss, {source}", values[1:, 2]))
    if real is not None:
        shown.append(("parameters, reference", found.factorial.every_step.values[1:, 0]))
    return shown


def lines(axes: Any, found: Explanation) -> None:
    """Difference by step on a logarithmic axis, with the floor and the tolerance."""
    floor = found.factorial.floor_every_step[1:, 0]
    shown = curves(found)
    ends = limits([*(values for _, values in shown), floor, np.array([found.tolerance])])
    steps = np.arange(1.0, len(floor) + 1)
    drawn = Lines(axes, ends)
    for index, (label, values) in enumerate(shown):
        drawn.add(steps, values, label, style.look(index))
    drawn.floor(steps, floor)
    drawn.tolerance(found.tolerance)
    drawn.finish(steps)
    axes.set_ylabel("largest absolute difference\n(units of the parameters, of the loss)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize=8, frameon=False)
