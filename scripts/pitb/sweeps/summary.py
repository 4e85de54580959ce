"""What people read of a sweep: verdicts by optimizer and by axis, the worst points, two plots."""

import csv
import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.compare import ERROR, MISMATCH, OK
from pitb.files import write_text
from pitb.plots import bars, style
from pitb.plots.log_axis import limits
from pitb.sweeps import runs as runs_table
from pitb.sweeps.outcomes import SKIPPED, VERDICTS
from pitb.sweeps.runs import POINT

WORST = 10
"""Points that the summary lists."""
FEW = 12
"""Values of an axis that are listed one by one; of others there are the quarters."""
MOST_PANELS = 6

WORDS = {
    "en": {
        "title": "Sweep {name}",
        "total": "{runs} runs: {counts}. Tolerance and quantities stand in the sweep's file.",
        "by": "Verdicts by {axis}",
        "value": "value",
        "runs": "runs",
        "nonfinite": "not finite",
        "median": "median of the largest differences",
        "largest": "largest difference",
        "worst": "The largest differences",
        "run": "run",
        "verdict": "verdict",
        "where": "where",
        "first": "first step beyond the tolerance",
        "ends_pytorch": "first not finite: PyTorch",
        "ends_burn": "first not finite: burn",
        "reasons": "Errors and declared skips",
        "reason": "reason",
        "closer": "Closer",
        "extract": "One run of it as two traces, which every command takes:",
        "none": "none",
    },
    "zh": {
        "title": "扫描 {name}",
        "total": "共 {runs} 次运行：{counts}。容差与所比较的量写在扫描文件里。",
        "by": "按 {axis} 的判定",
        "value": "取值",
        "runs": "运行数",
        "nonfinite": "非有限",
        "median": "最大差的中位数",
        "largest": "最大差",
        "worst": "差别最大的点",
        "run": "运行",
        "verdict": "判定",
        "where": "位置",
        "first": "首次超出容差的步",
        "ends_pytorch": "首次非有限的步：PyTorch",
        "ends_burn": "首次非有限的步：burn",
        "reasons": "错误与声明的跳过",
        "reason": "原因",
        "closer": "细看",
        "extract": "取出其中一次运行的两份轨迹，供各命令读取：",
        "none": "无",
    },
}
Array = NDArray[Any]


@dataclass
class Table:
    """The runs, column by column."""

    name: str
    columns: dict[str, Array]
    options: list[str]
    """The columns of PyTorch's options that the sweep gives."""

    @property
    def axes(self) -> list[str]:
        """What takes more than one value, the optimizer first."""
        known = [*POINT, *self.options]
        found = [name for name in known if len(self.values(name)) > 1]
        return list(dict.fromkeys(["optimizer", *found]))

    def values(self, name: str) -> list[Any]:
        """The values of a column, sorted, without nulls."""
        return sorted({item for item in self.columns[name].tolist() if not _missing(item)})

    def counts(self, chosen: Array) -> dict[str, int]:
        """Runs by verdict."""
        verdicts = self.columns["verdict"][chosen]
        return {verdict: int((verdicts == verdict).sum()) for verdict in VERDICTS}

    def line(self, chosen: Array) -> list[Any]:
        """Runs, verdicts, runs that are not finite, median and largest difference."""
        largest = self.columns["max_abs"][chosen]
        largest = largest[~np.isnan(largest)]
        ends = [self.columns[f"first_nonfinite_{side}"][chosen] > 0 for side in ("pytorch", "burn")]
        nonfinite = int((ends[0] | ends[1]).sum())
        middle = float(np.median(largest)) if len(largest) else math.nan
        most = float(largest.max()) if len(largest) else math.nan
        counts = self.counts(chosen)
        return [int(chosen.sum()), *counts.values(), nonfinite, middle, most]


def _missing(item: Any) -> bool:
    return item is None or (isinstance(item, float) and math.isnan(item))


def read(path: Path, about: dict[str, Any]) -> Table:
    """The table of a sweep's runs, of which the plan says what it is ``about``."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, use_threads=False)
    columns = {}
    for key in table.column_names:
        column = table.column(key)
        values = column.to_pylist() if column.null_count else column.to_numpy()
        columns[key] = np.array(values, dtype=object) if column.null_count else values
    return Table(about["sweep"], columns, runs_table.axes(about, columns))


def groups(table: Table, axis: str) -> list[tuple[str, Array]]:
    """The values of an axis and which runs have each; quarters where there are many."""
    column = table.columns[axis]
    values = table.values(axis)
    if len(values) <= FEW or isinstance(values[0], str):
        return [(_shown(value), column == value) for value in values[: 2 * FEW]]
    known = np.array([not _missing(item) for item in column.tolist()])
    numbers = np.array([math.nan if _missing(x) else float(x) for x in column.tolist()])
    ends = np.unique(np.quantile(numbers[known], [0, 0.25, 0.5, 0.75, 1]))
    found = []
    for low, high in itertools.pairwise(ends):
        last = high == ends[-1]
        inside = known & (numbers >= low) & ((numbers <= high) if last else (numbers < high))
        found.append((f"{low:.3g} … {high:.3g}", inside))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value) or "-"


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:.2e}" if math.isfinite(value) else "not finite"


def csv_text(table: Table) -> str:
    """Verdicts by axis and value, in full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["axis", "value", "runs", *VERDICTS, "not_finite", "median_max_abs", "max_abs"])
    for axis in table.axes:
        for value, chosen in groups(table, axis):
            writer.writerow([axis, value, *table.line(chosen)])
    return out.getvalue()


def markdown(table: Table, language: str) -> str:
    """The summary in one language."""
    words = WORDS[language]
    everything = np.ones(len(table.columns["run"]), dtype=bool)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in table.counts(everything).items())
    lines = [f"# {words['title'].format(name=table.name)}", ""]
    lines += [words["total"].format(runs=len(everything), counts=counts), ""]
    heads = [words["value"], words["runs"], *VERDICTS, words["nonfinite"]]
    heads += [words["median"], words["largest"]]
    for axis in table.axes:
        lines += [f"## {words['by'].format(axis=f'`{axis}`')}", ""]
        rows = []
        for value, chosen in groups(table, axis):
            *numbers, middle, most = table.line(chosen)
            rows.append([value, *map(str, numbers), _number(middle), _number(most)])
        lines += [*_table(heads, rows), ""]
    lines += [f"## {words['worst']}", ""]
    heads = [words["run"], words["verdict"], words["largest"], words["where"], words["first"]]
    heads += [words["ends_pytorch"], words["ends_burn"]]
    lines += [*_table(heads, _worst_rows(table)), ""]
    lines += [f"## {words['reasons']}", "", *_reasons(table, words), ""]
    lines += [
        f"## {words['closer']}",
        "",
        words["extract"],
        "",
        "```sh",
        *_snippet(table),
        "```",
        "",
    ]
    return "\n".join(lines)


def _order(table: Table) -> Array:
    """The runs that were compared, the largest difference first, then by name."""
    largest = table.columns["max_abs"].astype(float)
    known = np.flatnonzero(~np.isnan(largest))
    names = table.columns["run"][known].astype(str)
    return known[np.lexsort((names, -largest[known]))]


def _worst_rows(table: Table) -> list[list[str]]:
    rows = []
    for i in _order(table)[:WORST]:
        get = {key: column[i] for key, column in table.columns.items()}
        where = f"{get['worst_quantity']} {get['worst_tensor']}".strip()
        first, *ends = (
            str(get[name]) if get[name] > 0 else ""
            for name in ("first_mismatch", "first_nonfinite_pytorch", "first_nonfinite_burn")
        )
        rows.append(
            [
                f"`{get['run']}`",
                get["verdict"],
                _number(float(get["max_abs"])),
                f"{where}, {get['worst_step']}",
                first,
                *ends,
            ]
        )
    return rows


def _reasons(table: Table, words: dict[str, str]) -> list[str]:
    counted: dict[tuple[str, str], int] = {}
    verdicts, reasons = table.columns["verdict"], table.columns["reason"]
    for verdict, reason in zip(verdicts.tolist(), reasons.tolist(), strict=True):
        if verdict in (ERROR, SKIPPED):
            counted[(verdict, reason)] = counted.get((verdict, reason), 0) + 1
    if not counted:
        return [words["none"]]
    order = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[: 4 * WORST]
    rows = [[verdict, str(count), reason.replace("|", "\\|")] for (verdict, reason), count in order]
    return _table([words["verdict"], words["runs"], words["reason"]], rows)


def _snippet(table: Table) -> list[str]:
    order = _order(table)
    run = table.columns["run"][order[0]] if len(order) else "RUN"
    folder = f"results/sweeps/{table.name}"
    out = f"{folder}/extracted"
    return [
        f"pitb sweep extract {folder} {run}",
        f"pitb compare {out}/pytorch/{run}.parquet {out}/burn/{run}.parquet",
        f"pitb explain {out}/pytorch/{run}.parquet {out}/burn/{run}.parquet",
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def draw_verdicts(table: Table, path: Path) -> None:
    """Draw the verdicts by optimizer."""
    rows = {value: table.counts(chosen) for value, chosen in groups(table, "optimizer")}
    kinds = {OK: 0, MISMATCH: 1, ERROR: 3, SKIPPED: 2}
    bars.counts(path, f"Verdicts of the sweep {table.name}", rows, kinds, "runs")


def draw_differences(table: Table, path: Path) -> None:
    """Draw the largest difference of each run against each numeric axis.

    What is exactly 0 stands at the lower end. What is not finite stands at the upper as a cross,
    also where it is so on one side alone, which is an error.
    """
    axes = [name for name in table.axes if _numeric(table, name)][:MOST_PANELS]
    title = f"Largest differences of the sweep {table.name}"
    size = (style.WIDTH, 1.2 + 2.3 * max(len(axes), 1))
    with style.drawing(path, size, title) as figure:
        style.titled(figure, title)
        if not axes:
            style.say(figure.subplots(), "no axis of numbers takes more than one value")
            return
        largest = table.columns["max_abs"].astype(float)
        low, high = limits([largest])
        infinite = np.isinf(largest)
        drawn = np.clip(np.where(infinite, high, largest), low, high)
        panels = np.atleast_1d(figure.subplots(len(axes), 1))
        for panel, name in zip(panels, axes, strict=True):
            numbers = np.array(
                [math.nan if _missing(x) else float(x) for x in table.columns[name].tolist()]
            )
            for index, verdict in enumerate((OK, MISMATCH)):
                chosen = (table.columns["verdict"] == verdict) & ~np.isnan(numbers) & ~infinite
                look = style.look(index + 1)
                panel.plot(
                    numbers[chosen],
                    drawn[chosen],
                    linestyle="",
                    marker=look.marker,
                    markersize=3,
                    markerfacecolor="none",
                    color=look.colour,
                    label=verdict,
                    rasterized=True,
                )
            if infinite.any():
                panel.plot(
                    numbers[infinite],
                    drawn[infinite],
                    linestyle="",
                    marker="X",
                    markersize=4,
                    color="0.3",
                    label="not finite",
                    rasterized=True,
                )
            positive = numbers[~np.isnan(numbers)]
            if len(positive) and positive.min() > 0 and positive.max() / positive.min() > 50:
                panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_ylim(low / 2, high * 2)
            panel.set_xlabel(name)
            panel.set_ylabel("largest difference")
            panel.tick_params(labelsize=style.TICKS)
            panel.grid(True, color="0.92")
        style.legend_below(panels[0])


def _numeric(table: Table, name: str) -> bool:
    return all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in table.values(name))


def write(runs: Path, about: dict[str, Any], folder: Path) -> None:
    """Write all that people read of the runs in ``runs``, of which the plan says ``about``.

    Raises:
        PitbError: A file cannot be written.
    """
    table = read(runs, about)
    draw_verdicts(table, folder / "plots" / "verdicts.svg")
    draw_differences(table, folder / "plots" / "differences.svg")
    write_text(folder / "summary.csv", csv_text(table))
    write_text(folder / "summary.zh.md", markdown(table, "zh"))
    write_text(folder / "summary.md", markdown(table, "en"))
