"""What ``make bench`` measured of large traces and of batches of sweeps, as tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pitb.files import read_json
from pitb.sweeps.design import BATCH_SIZE
from pitb.trace import ENCODINGS

UNMEASURED = {"en": "Not measured yet.", "zh": "尚未测量。"}
WAYS = {
    "en": ("way", "time", "times pitb's (least to most)", "peak memory"),
    "zh": ("做法", "时间", "为 pitb 的几倍（最小到最大）", "峰值内存"),
}
FLAT = {
    "en": ("parameters", "steps", "values", "time", "for each value (least to most)",
           "for each further value", "processor time of each", "peak memory",
           "times pitb's: whole column", "times pitb's: Python alone"),
    "zh": ("参数个数", "步数", "数值个数", "时间", "每个数值（最小到最大）", "每多一个数值",
           "每个数值的处理器时间", "峰值内存", "整列读取为 pitb 的几倍",
           "只用 Python 为 pitb 的几倍"),
}  # fmt: skip
EXPLAINED = {
    "en": ("said to be of", "values", "time", "peak memory"),
    "zh": ("说成是", "数值个数", "时间", "峰值内存"),
}
GROUPS = {
    "en": ("rows of a row group", "page", "compression", "`index`", "`value`", "file",
           "pitb compares", "peak memory", "pyarrow's whole column"),
    "zh": ("行组的行数", "页", "压缩", "`index`", "`value`", "文件", "pitb 比较", "峰值内存",
           "pyarrow 整列读取"),
}  # fmt: skip

BATCHES = {
    "en": ("most in a batch", "batches", "all of it (least to most)", "processor time",
           "most memory"),
    "zh": ("每批最多", "批数", "全部用时（最小到最大）", "处理器时间", "最多内存"),
}  # fmt: skip
DEFAULT = {"en": " (default)", "zh": "（默认）"}


def big_traces(root: Path, language: str) -> str:
    """Every way to compare two large traces, side by side."""
    found = _found(root)
    rows = [
        (
            way,
            f"{item['s']} s",
            f"{item['times_ours']} ({item['times_ours_min']}–{item['times_ours_max']})",
            f"{item['peak_mb']} MB",
        )
        for way, item in found.get("ways", {}).items()
    ]
    return _table(WAYS, rows, language)


def flatness(root: Path, language: str, axis: str) -> str:
    """What a value costs by the size of a trace, as ``steps`` or ``parameters`` become more."""
    items = _found(root).get("flatness", {}).get(axis, [])
    rows = [
        (
            f"{item['parameters']:,}",
            f"{item['steps']:,}",
            f"{item['values']:,}",
            f"{item['s']:.4f} s",
            f"{item['ns']} ns ({item['ns_min']}–{item['ns_max']})",
            _further(item, before),
            f"{item['processor_ns']} ns",
            f"{item['peak_mb']} MB",
            str(item["whole_column_times"]),
            str(item["python_times"]),
        )
        for before, item in zip([None, *items], items, strict=False)
    ]
    return _table(FLAT, rows, language)


def _further(item: dict[str, Any], before: dict[str, Any] | None) -> str:
    """What each value costs that a trace has more than the smaller one in the line before."""
    if before is None:
        return "–"
    return f"{1e9 * (item['s'] - before['s']) / (item['values'] - before['values']):.1f} ns"


def explained(root: Path, language: str) -> str:
    """What it takes to explain two large traces."""
    rows = [
        (item["optimizer"], f"{item['values']:,}", f"{item['s']} s", f"{item['peak_mb']} MB")
        for item in _found(root).get("explained", [])
    ]
    return _table(EXPLAINED, rows, language)


def row_groups(root: Path, language: str) -> str:
    """Sizes of row groups and pages, compressions, and encodings of two columns."""
    rows = [
        (
            f"{item['rows']:,}",
            f"{(item['page_bytes'] or 8 * item['rows']) / 1e6:.1f} MB",
            item["compression"],
            *({**ENCODINGS, **item.get("encodings", {})}[name] for name in ("index", "value")),
            f"{item['mb']} MB",
            f"{item['s']} s",
            f"{item['peak_mb']} MB",
            f"{item['pyarrow_s']} s",
        )
        for item in _found(root).get("row_groups", [])
    ]
    return _table(GROUPS, rows, language)


def batch_sizes(root: Path, language: str) -> str:
    """A sweep by the size of its batches."""
    found = read_json(root / "bench/bench.json").get("batch_sizes", {})
    rows = [
        (
            f"{item['batch_size']:,}{DEFAULT[language] * (item['batch_size'] == BATCH_SIZE)}",
            f"{item['batches']:,}",
            f"{item['seconds']} s{_range(item)}",
            f"{item['processor_s']} s",
            f"{item['peak_gb']} GB",
        )
        for item in found.get("sizes", [])
    ]
    return _table(BATCHES, rows, language)


def _range(item: dict[str, Any]) -> str:
    """From least to most, where it was measured more than once."""
    least, most = item["seconds_min"], item["seconds_max"]
    return f" ({least}–{most})" if least != most else ""


def _found(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(root / "bench/bench.json").get("big_traces", {})
    return found


def _table(head: Mapping[str, tuple[str, ...]], rows: list[Any], language: str) -> str:
    if not rows:
        return UNMEASURED[language]
    lines = [head[language], ("---",) * len(head[language]), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
