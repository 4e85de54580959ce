"""Bars: what remains of a difference when defaults are aligned, and counts by kind."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pitb.compare import Comparison
from pitb.plots import style
from pitb.plots.log_axis import FURTHEST, limits

ROOM = 0.35
"""Of a logarithmic axis that is left free beyond the longest bar, for its number."""

HATCHES = ("", "///", "", "xx")
"""Of the areas of `style.FILLS`."""


def remaining(path: Path, run: str, found: Sequence[Comparison]) -> None:
    """Draw, for each run that ``run`` is compared with, the largest difference of each quantity.

    Where the runs align one default at a time, the bars say what each alone leaves.

    Raises:
        PitbError: The picture cannot be written.
    """
    quantities = list(dict.fromkeys(row.quantity for item in found for row in item.rows))
    size = (style.WIDTH, 2.0 + len(found) * (0.25 + 0.22 * max(len(quantities), 1)))
    with style.drawing(path, size, f"What remains of the difference from {run}") as figure:
        axes = figure.subplots()
        style.titled(figure, "Largest difference over all steps from", run)
        tolerances = sorted({item.tolerance for item in found})
        largest = [[_largest(item, name) for item in found] for name in quantities]
        low, high = limits([np.array([*np.ravel(largest), *tolerances])])
        low /= 10  # the shortest bar has a length, too
        high = _axis(axes, math.log10(low), math.log10(high))
        width = 0.8 / max(len(quantities), 1)
        for index, values in enumerate(largest):
            places = np.arange(len(found)) - 0.4 + (index + 0.5) * width
            _series(axes, places, values, (low, high), width, quantities[index], index)
        for place, item in enumerate(found):
            if not item.rows:
                axes.text(low, place, " not compared", va="center", fontsize=style.TICKS)
        for tolerance in tolerances:
            axes.axvline(
                tolerance, color="0.4", dashes=(6, 2), linewidth=1, label=f"tolerance {tolerance:g}"
            )
        axes.set_yticks(range(len(found)), [style.shortened(item.b) for item in found])
        axes.tick_params(labelsize=style.TICKS)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.set_xlabel("largest absolute difference\n(units of the quantity)")
        axes.grid(True, axis="x", color="0.92")
        axes.set_axisbelow(True)
        style.legend_below(axes)


def _largest(found: Comparison, quantity: str) -> float:
    """NaN where the comparison has none."""
    values = [row.max_abs for row in found.rows if row.quantity == quantity]
    return max(values, default=math.nan)


def _axis(axes: Any, low: float, high: float) -> float:
    """A logarithmic axis between two powers of ten, with room for numbers beyond the second.

    Returns:
        Where bars that have no end, end.
    """
    high = min(high, (FURTHEST + ROOM * low) / (1 + ROOM))
    axes.set_xscale("log")
    axes.set_xlim(10.0**low, 10.0 ** (high + ROOM * (high - low)))
    return float(10.0**high)


def _series(
    axes: Any,
    places: Any,
    values: Sequence[float],
    ends: tuple[float, float],
    width: float,
    label: str,
    index: int,
) -> None:
    """The bars of one quantity, each with its number."""
    low, high = ends
    look = style.look(index)
    drawn = [low if not value > low else min(value, high) for value in values]
    axes.barh(
        places,
        [value - low for value in drawn],
        height=0.9 * width,
        left=low,
        label=label,
        color="white" if look.hatch else "0.75",
        edgecolor=look.colour,
        hatch=look.hatch,
    )
    for place, value, end in zip(places, values, drawn, strict=True):
        if not math.isnan(value):
            # On white, since the line of the tolerance may run through it.
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.3}
            where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(_number(value), (end, place), fontsize=7, bbox=behind, **where)


def _number(value: float) -> str:
    if value == 0:
        return "exactly 0"
    return f"{value:.2e}" if math.isfinite(value) else "not finite"


def counts(
    path: Path,
    title: str,
    rows: Mapping[str, Mapping[str, int]],
    kinds: Mapping[str, int],
    unit: str,
) -> None:
    """Draw a bar for each row, made up of the counts of its kinds.

    Args:
        path: An SVG or PNG file.
        title: What is counted; the totals are written below it.
        rows: By name, the count of each kind.
        kinds: In the order in which they stand in a bar, and the place of each in `style.FILLS`.
        unit: Of the counts.

    Raises:
        PitbError: The picture cannot be written.
    """
    totals = {kind: sum(row.get(kind, 0) for row in rows.values()) for kind in kinds}
    said = ", ".join(f"{count} {kind}" for kind, count in totals.items())
    with style.drawing(path, (style.WIDTH, 1.8 + 0.2 * len(rows)), title) as figure:
        axes = figure.subplots()
        style.titled(figure, title, f"{sum(totals.values())}: {said}")
        if not rows:
            style.say(axes, "nothing to count")
            return
        ends = np.zeros(len(rows))
        for kind, fill in kinds.items():
            values = np.array([row.get(kind, 0) for row in rows.values()], dtype=float)
            colour, hatch = style.FILLS[fill], HATCHES[fill]
            axes.barh(
                range(len(rows)),
                values,
                left=ends,
                label=kind,
                color=colour,
                edgecolor="black",
                hatch=hatch,
                linewidth=0.6,
            )
            ends += values
        for place, end in enumerate(ends):
            axes.text(end, place, f" {end:.0f}", va="center", fontsize=7)
        axes.set_yticks(range(len(rows)), [style.shortened(name) for name in rows])
        axes.tick_params(labelsize=style.TICKS)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, max(float(ends.max()), 1.0) * 1.1)
        style.whole_numbers(axes)
        axes.set_xlabel(unit)
        style.legend_below(axes)
