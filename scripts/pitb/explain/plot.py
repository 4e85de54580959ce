"""The picture of an explanation: difference by step, and by step and tensor.

Read also in grey and by those who see no colours: lines differ in their markers and dashes, and the
map's colours rise evenly in brightness. What is exactly zero has no place on a logarithmic axis: it
stands at the foot of it, and says so.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.errors import PitbError
from pitb.explain.explanation import Explanation
from pitb.files import replacing

Array = NDArray[np.float64]
SUFFIXES = (".svg", ".png")
FURTHEST = 250
"""The largest power of ten at either end of an axis, beyond which it overflows."""
MOST_LABELS = 40
"""Tensors that are named beside the map; of more, every second, third, ..."""
STYLES = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"))
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73")
"""Of Okabe and Ito's palette."""


def check_path(path: Path) -> None:
    """Refuse a file of another kind before anything is computed.

    Raises:
        PitbError: It is neither SVG nor PNG, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise PitbError(f"{path} is neither .svg nor .png, which is what a plot is written as")
    _pyplot()


def _pyplot() -> Any:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PitbError(
            "a plot needs matplotlib, which is not installed here: pip install 'pitb[plot]'"
        ) from None
    return matplotlib, Figure


def plot(found: Explanation, path: Path) -> None:
    """Write the picture; the same explanation gives the same bytes.

    Raises:
        PitbError: matplotlib is missing, the suffix is another, or the file cannot be written.
    """
    check_path(path)
    matplotlib, figure_class = _pyplot()
    settings = {"svg.hashsalt": "pitb", "svg.fonttype": "path", "font.size": 9}
    names, values = found.tensors
    with matplotlib.rc_context(settings):
        rows = min(max(len(names), 4), 60)
        figure = figure_class(figsize=(9, 4.5 + 0.18 * rows), layout="constrained")
        upper, lower = figure.subplots(
            2, 1, gridspec_kw={"height_ratios": [3.5, 0.6 + 0.18 * rows]}
        )
        title = f"A: {found.a.label}\nB: {found.b.label}\nproblem {found.problem}"
        figure.suptitle(title, fontsize=10, wrap=True)
        lines(upper, found)
        heat_map(figure, lower, names, values)
        kind = path.suffix.lower().removeprefix(".")
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=150, metadata=metadata)


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
    low, high = limits([*(values for _, values in shown), floor, np.array([found.tolerance])])
    steps = np.arange(1, len(floor) + 1)
    every = max(1, len(steps) // 20)
    zeros = infinite = False
    for (label, values), (marker, dash), colour in zip(
        shown, STYLES[: len(shown)], COLOURS[: len(shown)], strict=True
    ):
        zero, beyond = values == 0, np.isinf(values)
        usual = np.where(zero | beyond, np.nan, np.clip(values, low, high))
        axes.plot(
            steps,
            usual,
            marker=marker,
            linestyle=dash,
            color=colour,
            label=label,
            markevery=every,
            markersize=4,
        )
        axes.plot(steps[zero], np.full(zero.sum(), low), "v", color=colour, markersize=5)
        axes.plot(steps[beyond], np.full(beyond.sum(), high), "X", color=colour, markersize=6)
        zeros, infinite = zeros or bool(zero.any()), infinite or bool(beyond.any())
    axes.fill_between(steps, low, np.maximum(floor, low), color="0.85", label="rounding floor")
    if len(steps) == 1:  # an area of one step has no width
        axes.axhline(max(float(floor[0]), low), color="0.6", linewidth=3)
    axes.axhline(
        found.tolerance,
        color="0.4",
        linewidth=1,
        dashes=(6, 2),
        label=f"tolerance {found.tolerance:g}",
    )
    axes.set_yscale("log")
    axes.set_ylim(low / 2, high * 2)
    axes.set_xlim(0.5, len(steps) + 0.5)
    if zeros:
        axes.plot([], [], "v", color="0.3", label="exactly 0")
    if infinite:
        axes.plot([], [], "X", color="0.3", label="not finite")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Difference by step", fontsize=10)
    axes.set_xlabel("step (updates)")
    axes.set_ylabel("largest absolute difference\n(units of the parameters, of the loss)")
    axes.grid(True, which="major", color="0.92")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, fontsize=8, frameon=False)


def limits(values: Sequence[Array]) -> tuple[float, float]:
    """The ends of a logarithmic axis: the powers of ten around all that is finite and above 0, as
    far as an axis can reach.
    """
    seen = np.concatenate([item[np.isfinite(item) & (item > 0)] for item in values])
    if not seen.size:
        return 1e-12, 1.0
    low, high = (math.floor(math.log10(seen.min())), math.ceil(math.log10(seen.max())))
    low = min(max(low, -FURTHEST), FURTHEST - 1)
    return 10.0**low, 10.0 ** max(min(high, FURTHEST), low + 1)


def heat_map(figure: Any, axes: Any, names: Sequence[str], values: Array) -> None:
    """The largest difference of each tensor after each step; zeros are white, what is not finite is
    crossed, and what is missing is hatched.
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
    axes.set_yticks(range(0, len(names), every), list(names)[::every], fontsize=7)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(
        "Parameters by step and tensor (white: exactly 0; ×: not finite; –: missing)", fontsize=10
    )
    axes.set_xlabel("step (updates)")
    axes.set_ylabel("tensor")
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("largest difference", fontsize=8)
    if not usual.any() and not np.isinf(values).any():
        axes.text(
            0.5,
            0.5,
            "no difference at any step",
            transform=axes.transAxes,
            ha="center",
            va="center",
        )
