"""What a sweep of A1 on both sides costs: time and memory of the whole, and the time to its DAG.

``python bench/sweeps.py 5000`` measures one sweep and prints JSON; bench/run.py keeps it. With
``--batch-size 64 512`` it measures the same sweep with each of these sizes in turn.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
from run import ROOT, peak_memory

SWEEP = """name: bench
design:
  - random:
      n: {runs}
      seed: 1
      axes:
        optimizer: {{choice: [SGD, Adam, AdamW, RMSprop, Adagrad]}}
        lr: {{log_uniform: [1e-4, 1e-1]}}
        options:
          weight_decay: {{uniform: [0, 0.3]}}
"""


def processor_seconds() -> float:
    """What ended processes have used, which tells more than the clock where others run, too."""
    found = psutil.Process().cpu_times()
    return float(found.children_user + found.children_system)


def measure(runs: int, size: int | None = None) -> dict[str, Any]:
    """Train and compare a sweep of ``runs`` runs of ten steps in a folder of its own."""
    from pitb.sweeps.design import BATCH_SIZE

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        path = work / "config/sweeps/bench.yaml"
        path.parent.mkdir(parents=True)
        chosen = f"batch_size: {size}\n" if size else ""
        path.write_text(SWEEP.format(runs=runs) + chosen, encoding="utf-8")
        command = (sys.executable, "-m", "snakemake", "--cores", "all")
        command += ("-s", ROOT / "Snakefile", "--directory", work)
        target = "results/sweeps/bench/summary.md"
        dag = peak_memory((*command, "-n", target))
        before = processor_seconds()
        seconds, most = peak_memory((*command, target))
        used = processor_seconds() - before
        said = (work / "results/logs/summarise_sweep_bench.log").read_text(encoding="utf-8").strip()
        files = [item for item in (work / "results/sweeps").rglob("*") if item.is_file()]
        return {
            "runs": runs,
            "batch_size": size or BATCH_SIZE,
            "batches": len(list((work / "results/sweeps/bench/outcomes").glob("*.parquet"))),
            "dag_s": round(dag[0], 2),
            "seconds": round(seconds, 1),
            "processor_s": round(used, 1),
            "peak_gb": round(most / 1e9, 2),
            "disk_gb": round(sum(item.stat().st_size for item in files) / 1e9, 3),
            "said": said.rpartition("\n")[2],
        }


def measure_sizes(runs: int, sizes: list[int], turns: int) -> dict[str, Any]:
    """The same sweep cut into batches of these sizes, one after the other in each turn.

    Of a size: the median, least and most wall time of the turns, and the most memory. Verdicts
    must not depend on it.
    """
    found: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
    said: set[str] = set()
    for _ in range(turns):
        for size, measured in found.items():
            measured.append(measure(runs, size))
            said.add(measured[-1]["said"])
            print(json.dumps(measured[-1]), file=sys.stderr)
    if len(said) != 1:
        raise SystemExit(f"error: sizes of batches differ in their verdicts: {sorted(said)}")
    rows = [
        {
            "batch_size": size,
            "batches": measured[0]["batches"],
            "seconds": round(statistics.median(item["seconds"] for item in measured), 1),
            "seconds_min": min(item["seconds"] for item in measured),
            "seconds_max": max(item["seconds"] for item in measured),
            "processor_s": round(statistics.median(item["processor_s"] for item in measured), 1),
            "peak_gb": max(item["peak_gb"] for item in measured),
        }
        for size, measured in found.items()
    ]
    return {"runs": runs, "said": said.pop(), "sizes": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, help="how many runs")
    parser.add_argument("--batch-size", type=int, nargs="+", help="sizes to compare")
    parser.add_argument("--turns", type=int, default=1, help="turns of the sizes (default: 1)")
    arguments = parser.parse_args()
    if arguments.batch_size:
        found = measure_sizes(arguments.runs, arguments.batch_size, arguments.turns)
    else:
        found = measure(arguments.runs)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "scripts"))
    main()
