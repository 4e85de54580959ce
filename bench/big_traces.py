"""Compare two large traces, each way in a process of its own; prints JSON.

Without a way, all are measured in turn on files that are made for it and deleted. The time is that
from the call to the answer, the less of two calls: what is imported before, that the process
starts, and that memory is new to it, counts for nobody. The peak memory is the whole process's. The
files stand in the system's cache for all.

``python bench/big_traces.py --parameters 10000000 --turns 3``
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
STEPS = 10
TOLERANCE = 1e-6
CALLS = 2
"""In a process; the first has to wait for memory, of which the ways need from 50 MB to 6 GB."""
SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
"""Values in a trace, for the cost of each."""
SQL = "select max(abs(a.value - b.value)) from read_parquet(?) a positional join read_parquet(?) b"
SQL_PER_TENSOR = """
select step, quantity, tensor, count(*), arg_max({{'index': index, 'a': x, 'b': y}}, d), max(d),
    {ulps} max(case when d = 0 then 0 else d / greatest(abs(x), abs(y)) end), sqrt(avg(d * d)),
    bool_and(same)
from (select *, abs(x - y) as d, {bits} from (
    select a.step, a.quantity, a.tensor, a.index, a.value as x, b.value as y,
        a.step = b.step and a.quantity = b.quantity and a.tensor = b.tensor
            and a.index = b.index as same
    from read_parquet(?) a positional join read_parquet(?) b))
group by step, quantity, tensor
"""
WITHOUT_ULPS = SQL_PER_TENSOR.format(ulps="", bits="")
"""What pitb says of each tensor, but for units in the last place; all columns are checked."""
ORDERED = "case when {0} < 0 then -2147483648 - {0}::bigint else {0} end"
"""A float32's bits as a number that ascends as the floats do."""
ALL = SQL_PER_TENSOR.format(
    ulps=f"max(abs({ORDERED.format('i')} - {ORDERED.format('j')})),",
    bits="x::float::bit::integer as i, y::float::bit::integer as j",
)
"""All that pitb says of each tensor."""
Way = Callable[[], Callable[[Path], float]]


def pitb(compiled_code: bool = True) -> Callable[[Path], float]:
    from pitb import compare
    from pitb.stream import compiled

    if not compiled_code:
        compiled.library = lambda: None
    elif compiled.library() is None:
        raise SystemExit("error: the library native/pitb-compare is not built; `make` builds it")

    def call(folder: Path) -> float:
        found = compare.compare_files(folder / "a.parquet", folder / "b.parquet", TOLERANCE)
        return found.worst

    return call


def whole_column() -> Callable[[Path], float]:
    import numpy as np
    import pyarrow.parquet as pq

    def call(folder: Path) -> float:
        a, b = (
            pq.read_table(folder / f"{name}.parquet", columns=["value"])["value"].to_numpy()
            for name in "ab"
        )
        return float(np.abs(a - b).max())

    return call


def duckdb(query: str = SQL) -> Callable[[Path], float]:
    import duckdb as library

    def call(folder: Path) -> float:
        connection = library.connect(config={"threads": 2})
        files = [str(folder / f"{name}.parquet") for name in "ab"]
        rows = connection.execute(query, files).fetchall()
        return float(rows[0][0] if query == SQL else max(row[5] for row in rows if row[0] > 0))

    return call


def check_same_answer(folder: Path) -> None:
    """Check that DuckDB's answer is pitb's, each number of each tensor; RMSEs but for rounding.

    Raises:
        SystemExit: It is another.
    """
    import duckdb as library

    from pitb import compare

    files = [str(folder / f"{name}.parquet") for name in "ab"]
    theirs = {row[:3]: row[3:] for row in library.execute(ALL, files).fetchall()}
    for row in compare.compare_files(*map(Path, files), TOLERANCE).rows:
        found = theirs[row.step, row.quantity, row.tensor]
        worst = {"index": row.worst_index, "a": row.a, "b": row.b}
        exact = (row.n, worst, row.max_abs, row.max_ulp, row.relative)
        if found[:5] != exact or abs(found[5] - row.rmse) > 1e-9 * row.rmse or not found[6]:
            raise SystemExit(f"error: DuckDB answers {found}, and pitb {row}")


def polars() -> Callable[[Path], float]:
    import polars as pl

    def call(folder: Path) -> float:
        a, b = (
            pl.read_parquet(folder / f"{name}.parquet", columns=["value"])["value"] for name in "ab"
        )
        return float((a - b).abs().max())  # type: ignore[arg-type]

    return call


def _numpy(end: str, mode: str | None, asserting: bool = False) -> Callable[[Path], float]:
    import numpy as np

    def call(folder: Path) -> float:
        a, b = (np.load(folder / f"{name}.{end}", mmap_mode=mode) for name in "ab")  # type: ignore[call-overload]
        if end == "npz":
            a, b = a["value"], b["value"]
        if asserting:
            np.testing.assert_allclose(a, b, rtol=0, atol=1)
        return float(np.abs(a - b).max())

    return call


def torch() -> Callable[[Path], float]:
    import torch as library

    library.set_num_threads(2)

    def call(folder: Path) -> float:
        a, b = (library.load(folder / f"{name}.pt") for name in "ab")
        library.testing.assert_close(a, b, rtol=0, atol=1)
        return float((a - b).abs().max())

    return call


WAYS: dict[str, Way] = {
    "pitb": pitb,
    "pitb, Python alone": lambda: pitb(compiled_code=False),
    "whole column": whole_column,
    "npy, mmap": lambda: _numpy("npy", "r"),
    "npz": lambda: _numpy("npz", None),
    "npy, assert_allclose": lambda: _numpy("npy", None, asserting=True),
    "torch, assert_close": torch,
    "polars": polars,
    "duckdb, maximum alone": duckdb,
    "duckdb, without ulps": lambda: duckdb(WITHOUT_ULPS),
    "duckdb, the same answer": lambda: duckdb(ALL),
}


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives in a process of its own: a child's peak memory counts what its parent held
    when it was started, so this process stays small.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def make(folder: Path, parameters: int, every: bool, steps: int = STEPS) -> int:
    """Write the traces, and the same numbers in the other formats where they are asked for."""
    import big_trace
    import numpy as np

    for name, distance in (("a", 0.0), ("b", 1e-6)):
        values = big_trace.write(folder / f"{name}.parquet", parameters, steps, distance)
    if every:
        from pitb.stream import opening

        for name in "ab":
            held = np.asarray(opening.open_trace(folder / f"{name}.parquet").values)
            np.save(folder / f"{name}.npy", held)
            np.savez(folder / f"{name}.npz", value=held)
            import torch as library

            library.save(library.from_numpy(held), folder / f"{name}.pt")
    return values


def make_grouped(folder: Path, parameters: int, rows: int, options: dict[str, Any]) -> int:
    """Write the traces with row groups of a size; gives the bytes of one."""
    import big_trace

    for name, distance in (("a", 0.0), ("b", 1e-6)):
        path = folder / f"{name}.parquet"
        big_trace.write(path, parameters, STEPS, distance, rows=rows, **options)
    return path.stat().st_size


def one(way: str, folder: Path, repeats: int) -> dict[str, Any]:
    """This process's measurement: the least time of some calls, and its peak memory."""
    import psutil

    from pitb.stream import statistics as _  # noqa: F401  imported before, as the others' are

    call = (WAYS | EXPLAIN)[way]()
    seconds, processor = [], []
    for _turn in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        worst = call(folder)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    memory = psutil.Process().memory_info()
    peak = getattr(memory, "peak_wset", None)
    if peak is None:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024
    later = slice(1, None) if repeats > 1 else slice(None)
    return {
        "s": min(seconds),
        "mean_s": statistics.fmean(seconds[later]),
        "mean_processor_s": statistics.fmean(processor[later]),
        "worst": worst,
        "peak": peak,
    }


def measured(way: str, folder: Path, repeats: int) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--folder", folder, "--repeats", repeats]
    # NumPy's threads for matrices, which no way needs, are busy for a while when they are started.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def side_by_side(parameters: int, turns: int) -> dict[str, Any]:
    """All ways in turn on the same numbers; ratios turn by turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = apart(make, folder, parameters, True)
        apart(check_same_answer, folder)
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for turn in range(turns + 1):
            for way in WAYS:
                result = measured(way, folder, CALLS)
                if turn:  # the first brings the files into the cache
                    found[way].append(result)
                    print(f"  {way}: {result['s']:.2f} s", file=sys.stderr)
    answers = {result["worst"] for results in found.values() for result in results}
    if len(answers) != 1:
        raise SystemExit(f"error: the ways do not give one answer: {sorted(answers)}")
    ways = {}
    for way, results in found.items():
        pairs = zip(results, found["pitb"], strict=True)
        ratios = [theirs["s"] / ours["s"] for theirs, ours in pairs]
        ways[way] = {
            "s": round(statistics.median(result["s"] for result in results), 3),
            "times_ours": round(statistics.median(ratios), 2),
            "times_ours_min": round(min(ratios), 2),
            "times_ours_max": round(max(ratios), 2),
            "peak_mb": round(max(result["peak"] for result in results) / 1e6),
        }
    return {"values": values, "ways": ways, "repeats": turns}


def make_trained(folder: Path, parameters: int) -> int:
    """Write two trainings that differ in one hyper-parameter; gives the values of each."""
    import big_trace

    for name, dampening in (("a", 0.0), ("b", 0.1)):
        values = big_trace.write_trained(folder / f"{name}.parquet", parameters, STEPS, dampening)
    return values


def explain(optimizer: str = "SGD") -> Callable[[Path], float]:
    from dataclasses import replace

    from pitb.explain import explanation, sources

    def said(path: Path, options: dict[str, float]) -> sources.Source:
        """The trace as one of ``optimizer``, which changes what is trained to explain it."""
        found = sources.read(str(path))
        if optimizer == "SGD" or found.trace is None:
            return found
        told = {**found.trace.configuration, "optimizer": optimizer, "options": options}
        metadata = {**found.trace.metadata, "configuration": told}
        return sources.of_trace(replace(found.trace, metadata=metadata))

    def call(folder: Path) -> float:
        a = said(folder / "a.parquet", {})
        found = explanation.explain(a, said(folder / "b.parquet", {"weight_decay": 0.1}))
        expected = "dampening" if optimizer == "SGD" else "weight_decay"
        assert [effect.name for effect in found.factorial.effects] == [expected]
        return float(found.divergence.by_stage["parameter"].step)

    return call


EXPLAIN = {f"explain {name}": partial(explain, name) for name in ("SGD", "Lamb", "Adafactor")}
"""SGD updates each number by itself; the others take whole tensors."""


def explained(parameters: int, turns: int) -> list[dict[str, Any]]:
    """What it takes to explain two large traces, parameters and gradients."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        values = apart(make_trained, Path(name), parameters)
        for way in EXPLAIN:
            results = [measured(way, Path(name), 1) for _ in range(turns)]
            seconds = statistics.median(result["s"] for result in results)
            peak = max(result["peak"] for result in results)
            found.append(
                {
                    "optimizer": way.split()[1],
                    "values": values,
                    "s": round(seconds, 2),
                    "peak_mb": round(peak / 1e6),
                }
            )
            print(f"  {found[-1]}", file=sys.stderr)
    return found


def flatness(turns: int, sizes: tuple[int, ...] = SIZES) -> dict[str, list[dict[str, Any]]]:
    """What a value costs pitb by the number of values of a trace, the plainest way beside it.

    Traces get larger in two ways: the same model is recorded for more steps, or a larger one for
    as many. All sizes take turns, since a machine has its faster and its slower minutes. Of a turn
    the mean of the calls after the first counts, since of many the least would be less than of few.
    """
    least = sizes[0] // STEPS
    axes = {
        "steps": [(least, size // least) for size in sizes],
        "parameters": [(size // STEPS, STEPS) for size in sizes],
    }
    found = {}
    for axis, shapes in axes.items():
        with tempfile.TemporaryDirectory() as name:
            folders = [Path(name) / str(number) for number in range(len(shapes))]
            values = []
            for folder, (parameters, steps) in zip(folders, shapes, strict=True):
                folder.mkdir()
                values.append(apart(make, folder, parameters, False, steps))
            results: list[list[dict[str, dict[str, Any]]]] = [[] for _ in shapes]
            for _turn in range(turns):
                for folder, size, result in zip(folders, sizes, results, strict=True):
                    # A process is busy with itself in its first milliseconds.
                    calls = 1 + max(1, 10_000_000 // size)
                    ways = ("pitb", "pitb, Python alone", "whole column")
                    result.append({way: measured(way, folder, calls) for way in ways})
        found[axis] = [
            _cost(parameters, steps, count, result)
            for (parameters, steps), count, result in zip(shapes, values, results, strict=True)
        ]
        print("\n".join(f"  {item}" for item in found[axis]), file=sys.stderr)
    return found


def _cost(
    parameters: int, steps: int, values: int, turns: list[dict[str, dict[str, Any]]]
) -> dict[str, Any]:
    ours = [turn["pitb"] for turn in turns]
    seconds = [item["mean_s"] for item in ours]
    processor = statistics.median(item["mean_processor_s"] for item in ours)
    whole, python = (
        statistics.median(turn[way]["mean_s"] for turn in turns)
        for way in ("whole column", "pitb, Python alone")
    )
    return {
        "parameters": parameters,
        "steps": steps,
        "values": values,
        "s": round(statistics.median(seconds), 5),
        "ns": round(1e9 * statistics.median(seconds) / values, 1),
        "ns_min": round(1e9 * min(seconds) / values, 1),
        "ns_max": round(1e9 * max(seconds) / values, 1),
        "processor_ns": round(1e9 * processor / values, 1),
        "peak_mb": round(max(item["peak"] for item in ours) / 1e6),
        "whole_column_times": round(whole / statistics.median(seconds), 2),
        "python_times": round(python / statistics.median(seconds), 2),
    }


def row_groups(parameters: int, turns: int) -> list[dict[str, Any]]:
    """Sizes of row groups and pages, compressions, encodings: the file, and the time to compare."""
    from pitb.trace import ENCODINGS

    split, plain = {"value": "BYTE_STREAM_SPLIT"}, {"index": "PLAIN"}
    found = []
    for rows, page, compression, encodings in (
        (1 << 17, None, "none", {}), (1 << 20, None, "none", {}), (1 << 20, 1 << 20, "none", {}),
        (1 << 23, None, "none", {}), (1 << 20, None, "zstd", {}), (1 << 20, None, "snappy", {}),
        (1 << 20, None, "none", plain), (1 << 20, None, "none", split),
        (1 << 20, None, "zstd", split),
    ):  # fmt: skip
        options: dict[str, Any] = {} if page is None else {"data_page_size": page}
        options["column_encoding"] = ENCODINGS | encodings
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            size = apart(
                make_grouped, folder, parameters, rows, {**options, "compression": compression}
            )
            results = [measured("pitb", folder, 2) for _ in range(turns)]
            readers = [measured("whole column", folder, 2) for _ in range(turns)]
        found.append(
            {
                "rows": rows,
                "page_bytes": page,
                "compression": compression,
                "encodings": ENCODINGS | encodings,
                "mb": round(size / 1e6, 1),
                "s": round(statistics.median(result["s"] for result in results), 3),
                "peak_mb": round(max(result["peak"] for result in results) / 1e6),
                "pyarrow_s": round(statistics.median(result["s"] for result in readers), 3),
            }
        )
        print(f"  {found[-1]}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=SIZES[-1] // STEPS)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--way", choices=[*WAYS, *EXPLAIN])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--no-more", action="store_true", help="neither flatness nor row groups")
    parser.add_argument("--flatness", action="store_true", help="what a value costs, and no more")
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(one(arguments.way, arguments.folder, arguments.repeats)))
        return
    if arguments.flatness:
        print(json.dumps({"flatness": flatness(arguments.turns)}))
        return
    found = side_by_side(arguments.parameters, arguments.turns)
    if not arguments.no_more:
        found["flatness"] = flatness(arguments.turns)
        found["explained"] = explained(arguments.parameters // 2, arguments.turns)
        found["row_groups"] = row_groups(arguments.parameters // 10, arguments.turns)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
