"""A map of differences: a row for each tensor, a column for each step."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.plots.log_axis import limits
from pitb.plots.style import shortened, whole_numbers

Array = NDArray[np.float64]
MOST_LABELS = 40
"""Tensors that are named beside the map; of more, every second, third, ..."""


def height(tensors: int) -> float:
    """Of a map of so many tensors, in inches; rows of many get thinner."""
    return 0.6 + 0.18 * min(max(tensors, 4), 60)


def heat_map(
    figure: Any,
    axes: Any,
    names: Sequence[str],
    values: Array,
    title: str = "Parameters by step and tensor",
) -> None:
    """The largest difference of each tensor after each step, ``values`` of shape (tensors, steps).

    Colours rise evenly in brightness. Zeros are white, what is not finite is crossed, and what is
    missing (NaN) has a dash.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    low, high = limits([values.reshape(-1)])
    colours = colormaps["cividis"].with_extremes(bad="white")
    usual = np.isfinite(values) & (values > 0)
    extent = (0.5, values.shape[1] + 0.5, len(names) - 0.5, -0.5)
    image = axes.imshow(
        np.ma.masked_where(~usual, values),
        aspect="auto",
        interpolation="nearest",
        cmap=colours,
        norm=LogNorm(low, high),
        extent=extent,
    )
    for where, marker in ((np.isinf(values), "x"), (np.isnan(values), "_")):
        rows, columns = np.nonzero(where)
        if rows.size:
            axes.scatter(columns + 1, rows, marker=marker, color="0.2", s=14, linewidths=0.8)
    axes.set_xlim(*extent[:2])
    axes.set_ylim(*extent[2:])
    every = math.ceil(max(len(names), 1) / MOST_LABELS)
    shown = [shortened(name) for name in names][::every]
    axes.set_yticks(range(0, len(names), every), shown, fontsize=7)
    whole_numbers(axes)
    axes.set_title(f"{title}\nwhite: exactly 0; ×: not finite; –: missing", fontsize=9, pad=9)
    axes.set_xlabel("step (updates)")
    axes.set_ylabel("tensor")
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("largest absolute difference\n(units of the tensor)", fontsize=8)
    if not usual.any() and not np.isinf(values).any():
        axes.text(
            0.5,
            0.5,
            "no difference at any step",
            transform=axes.transAxes,
            ha="center",
            va="center",
        )
