"""The readers of sweeps, for fuzzing.py: what reads the changed file, and the file as it was.

What they read is a sweep of three runs, made without training: both sides have the same values.
"""

import shutil
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pitb import compare, trace
from pitb.sweeps import dataset, design, extract, judge, outcomes, plan, runs

SWEEP = """name: input
about: three runs
tolerance: 0
quantities:
- loss
- param
batch_size: 64
design:
- grid:
    optimizer:
    - SGD
    lr:
    - 0.1
    - 0.2
    options:
      momentum:
      - 0.9
    dtype:
    - float32
- random:
    n: 1
    seed: 1
    axes:
      optimizer:
        choice:
        - Adam
      lr:
        log_uniform:
        - 1e-3
        - 1
- list:
  - optimizer: SGD
    lr: 0.1
    options:
      momentum: 0.9
    clip: null
"""
BATCH = "0of1"


def values(lr):
    recorder = trace.Recorder()
    recorder.add(0, "input", [0.25, 0.5], "float32", "x")
    recorder.add(0, "param", np.ones(4), "float32", "w")
    for step in (1, 2):
        recorder.add(step, "loss", 0.5 / step, "float32")
        recorder.add(step, "param", np.array([1.0, -2.5, 3e-5, 4e8]) * (step + lr), "float32", "w")
    return recorder.trace({"configuration": {"options": {"momentum": lr}}, "dtype": "float32"})


def write_side(points, side, path):
    with dataset.writing(path, side) as writer:
        for name, point in points.items():
            if point.optimizer == "SGD":
                writer.add(name, values(point.lr))
            else:
                writer.refuse(name, "it cannot")
    return path


@cache
def whole(folder):
    """The folder of a sweep's results as they should be; the sweep and its batch."""
    file = folder / "whole/input.yaml"
    file.parent.mkdir()
    file.write_text(SWEEP, encoding="utf-8")
    sweep = plan.write(file, file.parent)
    batch = plan.read_batch(file.parent / "plan", BATCH)
    for side in plan.SIDES:
        write_side(sweep.points, side, file.parent / f"traces/{side}-{BATCH}.parquet")
    sides = (dataset.read(file.parent / f"traces/{side}-{BATCH}.parquet") for side in plan.SIDES)
    found, _ = judge.judge(batch, *sides)
    outcomes.write_outcomes(found, file.parent / f"outcomes/{BATCH}.parquet")
    runs.write(file.parent, file.parent / "runs.parquet")
    return file.parent, sweep, batch


def of(name):
    """The bytes of a file of that folder."""
    return lambda folder: (whole(folder)[0] / name).read_bytes()


def put(path, name):
    """The folder with the changed bytes in the place of one of its files."""
    changed = path.parent / "changed"
    if not changed.exists():
        shutil.copytree(whole(path.parent)[0], changed)
    shutil.copy(path, changed / name)
    return changed


def read_batch(path):
    found = plan.read_batch(put(path, f"plan/{BATCH}.json") / "plan", BATCH)
    for key in ("points", "tolerance", "quantities"):
        assert found[key] == whole(path.parent)[2][key], f"a wrong OK of {key}"


def read_places(path):
    _, sweep, _ = whole(path.parent)
    found = plan.read_places(sweep, put(path, f"plan/{plan.PLACES}"))
    assert list(plan.batches(sweep, found)) == [BATCH]


def read_about(path):
    plan.read_about(put(path, "plan/sweep.json") / "plan")


def read_traces(path):
    folder, _, batch = whole(path.parent)
    found = dataset.read(path)
    rows, _ = judge.judge(batch, dataset.read(folder / f"traces/pytorch-{BATCH}.parquet"), found)
    fine = {row.run for row in rows if row.verdict == compare.OK}
    try:
        table = pq.ParquetFile(path).read().to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return  # pyarrow reads no such file, so it cannot say
    for name in fine:
        right = values(batch["points"][name].lr)
        wanted = np.concatenate([right.of(e) for e in right.entries if e.step > 0])
        held = [row["value"] for row in table if row["run"] == name and row["step"] > 0]
        assert held == wanted.tolist(), f"a wrong OK of {name}"


def read_together(path):
    dict(dataset.read_together(path))


def together(folder):
    """A file as ``optdef --batch`` writes it."""
    one, other = trace.Recorder(), values(0.1)
    for entry in other.entries * 2:
        one.add(entry.step, entry.quantity, other.of(entry), entry.dtype, entry.tensor)
    made = [{"run": f"burn/{i}", "entries": len(other.entries)} for i in range(2)]
    path = folder / "together"
    trace.write(one.trace({"schema": 1, "runs": [*made, {"run": "c", "refused": "no"}]}), path)
    return path.read_bytes()


def read_outcomes(path):
    folder = put(path, f"outcomes/{BATCH}.parquet")
    runs.write(folder, folder / "runs.parquet")


def read_runs(path):
    folder = put(path, "runs.parquet")
    for name in whole(path.parent)[1].points:
        extract.find(folder, name)


def read_sweep(path):
    found = design.read(path)
    assert len(found.points) <= found.written, "a wrong OK of the number of runs"


READERS = {
    "sweep": (read_sweep, lambda _: SWEEP.encode()),
    "sweep-batch": (read_batch, of(f"plan/{BATCH}.json")),
    "sweep-places": (read_places, of(f"plan/{plan.PLACES}")),
    "sweep-about": (read_about, of("plan/sweep.json")),
    "sweep-traces": (read_traces, of(f"traces/burn-{BATCH}.parquet")),
    "sweep-together": (read_together, together),
    "sweep-outcomes": (read_outcomes, of(f"outcomes/{BATCH}.parquet")),
    "sweep-runs": (read_runs, of("runs.parquet")),
}
SUFFIXES = {"sweep": ".yaml"}
