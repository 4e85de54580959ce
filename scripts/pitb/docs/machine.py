"""What pages on files and rules can name: versions, the trace's columns, the ledger's rules."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from pitb import config, ledger, libraries, trace
from pitb.bundle import recompute
from pitb.docs.content import Content
from pitb.errors import PitbError
from pitb.files import read_json, read_text
from pitb.labels import both
from pitb.results import trace_path
from pitb.tables import label, line
from pitb.watch import changes

COLUMNS = {
    "step": both(
        "the k-th update; 0 is the state before the first", "第 k 次更新；0 是第一次之前的状态"
    ),
    "quantity": both("what was recorded, see below", "记录的是什么，见下"),
    "tensor": both(
        "PyTorch's `state_dict` name; `x`, `y` for inputs; empty for a single number",
        "PyTorch 的 `state_dict` 名字；输入为 `x`、`y`；单个数为空",
    ),
    "index": both(
        "position in the flattened tensor, row-major, in PyTorch's layout on every side",
        "在展平的张量里的位置，按行，两侧都用 PyTorch 的布局",
    ),
    "value": both("the number; every float32 is exact in it", "数值；每个 float32 都能精确表示"),
}
HEAD = {
    "column": both("column", "列"),
    "type": both("type", "类型"),
    "null": both("may be null", "可为空"),
    "meaning": both("meaning", "含义"),
    "no": both("no", "否"),
    "yes": both("yes", "是"),
    "kind": both("kind", "种类"),
    "number": both("figures", "数字个数"),
    "agrees": both("agree", "一致"),
}
STEPS = 10
"""Of the longest runs of the pages."""
EXAMPLE = "burn/rmsprop"
"""The run whose metadata the page on traces shows."""
SHOWN_KEYS = ("schema", "run", "side", "configuration", "dtype")


def _head(language: str, *keys: str) -> list[str]:
    return [line(HEAD[key][language] for key in keys), line("---" for _ in keys)]


def trace_columns(root: Path, language: str) -> str:
    """The columns of a trace, from its schema."""
    if set(COLUMNS) != set(trace.schema().names):
        raise PitbError(f"the columns of a trace are {', '.join(trace.schema().names)}")
    lines = _head(language, "column", "type", "null", "meaning")
    for field in trace.schema():
        null = HEAD["yes" if field.nullable else "no"][language]
        lines.append(line([f"`{field.name}`", _type(field.type), null,
                           COLUMNS[field.name][language]]))  # fmt: skip
    return "\n".join(lines)


def _type(kind: pa.DataType) -> str:
    return str(kind)


def dtypes(root: Path, language: str) -> str:
    """The element types that a trace's metadata can name."""
    return ("、" if language == "zh" else ", ").join(f"`{name}`" for name in trace.DTYPES)


def quantities(root: Path, language: str) -> str:
    """The quantities that the traces of the pages hold, with the steps at which they do."""
    found: dict[str, set[int]] = {}
    for side, name in (("pytorch", "rmsprop"), ("burn", "rmsprop"), ("pytorch", "clip-global")):
        for entry in trace.read(root / "results" / trace_path(f"{side}/{name}")).entries:
            found.setdefault(entry.quantity, set()).add(entry.step)
    return ("、" if language == "zh" else ", ").join(f"`{name}`" for name in found)


def metadata(root: Path, language: str) -> str:
    """Part of the metadata of a trace of the results, as JSON."""
    found = trace.read(root / "results" / trace_path(EXAMPLE)).metadata
    text = json.dumps({key: found[key] for key in SHOWN_KEYS}, indent=2)
    return f"```json\n{text}\n```"


def contents_entries(root: Path, language: str) -> str:
    """The first of what a trace's metadata lists."""
    found = trace.read(root / "results" / trace_path(EXAMPLE)).entries[:4]
    keys = ("step", "quantity", "tensor", "shape", "dtype", "first_row")
    lines = [line(f"`{key}`" for key in keys), line("---" for _ in keys)]
    for entry in found:
        shape = "[" + ", ".join(map(str, entry.shape)) + "]"
        cells = (entry.step, entry.quantity, entry.tensor, shape, entry.dtype, entry.first_row)
        lines.append(line(map(str, cells)))
    return "\n".join(lines)


def ledger_kinds(root: Path, language: str) -> str:
    """How many published figures there are of each kind, and how many agree."""
    rows = ledger.read(root / "results/ledger.csv")
    counts = Counter(row.kind for row in rows)
    agree = Counter(row.kind for row in rows if row.status == ledger.AGREES)
    lines = _head(language, "kind", "number", "agrees")
    lines += [line([f"`{kind}`", str(counts[kind]), str(agree[kind])]) for kind in ledger.KINDS]
    return "\n".join(lines)


def comparisons(root: Path, language: str) -> Content:
    """Every comparison of the pipeline with its verdict."""
    reader = csv.DictReader(io.StringIO(read_text(root / "results/comparisons.csv"), newline=""))
    columns = ("a", "b", "verdict", "worst", "tolerance")
    lines = [line(label(key, language) for key in columns), line("---" for _ in columns)]
    for row in reader:
        worst = f"{float(row['worst']):.2e}"
        lines.append(line([row["a"], row["b"], row["verdict"], worst, row["tolerance"]]))
    return Content("\n".join(lines), roundings=ledger.SLACK * STEPS)


def _version(library: str) -> str:
    return str(libraries.recorded()["versions"][library])


def digits_count(root: Path, of: str) -> str:
    """How many images, batches, or rows of a batch the digits have."""
    found = read_json(root / "results/digits/data.json")
    counts = {"images": found["x"], "batches": found["batches"], "rows": found["batches"][0]}
    return str(len(counts[of]))


def recorded_numbers(root: Path) -> int:
    """How many numbers for each parameter a recorded update of AdamW holds."""
    entries = trace.read(root / "results/digits/traces/pytorch").entries
    last = max(entry.step for entry in entries if entry.quantity == "grad")
    update = [e for e in entries if e.step in (last - 1, last)]
    parameters = sum(e.count for e in update if e.quantity == "grad")
    return sum(e.count for e in update if e.shape) // parameters


def _watched(root: Path) -> Any:
    return read_json(root / "bench/watched.json")


def watched(root: Path, language: str) -> str:
    """What other versions change, as it was kept when it was last watched."""
    return "\n".join(changes.sections(_watched(root), language, level=3))


def watched_call(root: Path, language: str) -> str:
    """The call that watched them, and where and when it was."""
    found = _watched(root)
    named = " ".join(f"--{item['library']} {item['version']}" for item in found["versions"])
    own = ", ".join(f"{library} {version}" for library, version in found["own"].items())
    where = (found["machine"], f"rustc {found['rustc']}", f"Python {found['python']}")
    return WATCHED[language].format(
        named=named, own=own, date=found["date"], where=", ".join(where)
    )


WATCHED = both(
    "`pitb watch {named}` printed this on {date}, on {where}, compared with {own}.",
    "这是 `pitb watch {named}` 在 {date} 打印的：{where}，对照的是 {own}。",
)
NUMBER_BYTES = 8
"""Of a value in a trace."""

CONTENTS = {
    "digits-images": lambda root, language: digits_count(root, "images"),
    "digits-batches": lambda root, language: digits_count(root, "batches"),
    "digits-rows": lambda root, language: digits_count(root, "rows"),
    "recorded-numbers": lambda root, language: str(recorded_numbers(root)),
    "recorded-mb": lambda root, language: f"{recorded_numbers(root) * NUMBER_BYTES} MB",
    "version-pytorch": lambda root, language: _version("torch"),
    "version-burn": lambda root, language: _version("burn"),
    "tolerance": lambda root, language: f"{_tolerance(root):g}",
    "verify-sums": lambda root, language: f"{recompute.SUM_RELATIVE:g}",
    "ledger-slack": lambda root, language: f"{ledger.SLACK:g}",
    "ledger-ulps": lambda root, language: str(ledger.VALUE_ULPS),
    "ledger-tolerance": lambda root, language: f"{ledger.PAGE_TOLERANCE:g}",
    "ledger-kinds": ledger_kinds,
    "comparisons": comparisons,
    "watched": watched,
    "watched-call": watched_call,
    "trace-columns": trace_columns,
    "trace-dtypes": dtypes,
    "trace-quantities": quantities,
    "trace-metadata": metadata,
    "trace-contents": contents_entries,
}


def _tolerance(root: Path) -> float:
    found = config.load([root / "config/config.yaml"], root / "config/schema.json", {})
    return float(found.tolerance)
