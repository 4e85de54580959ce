"""Measure the pipeline side by side with the plainest way to do the same; write bench/bench.json.

What is measured is the wall time of whole processes, the two ways in turn, and the ratio pair by
pair. ``python bench/run.py pipeline`` measures one thing alone; the cold builds take the longest.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
PROGRAMS = ROOT / "target/release"
OUT = ROOT / "bench/bench.json"
console = Console(stderr=True)

BARE = """[package]
name = "bare"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
BURN

PROFILE
"""


def timed(*command: Any, **options: Any) -> float:
    """Wall time of a command, in seconds; its output is shown where it fails."""
    return timed_output(*command, **options)[0]


def timed_output(*command: Any, **options: Any) -> tuple[float, str]:
    """The same, and what it printed; the ``options`` are those of ``subprocess.run``."""
    start = time.perf_counter()
    ended = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    seconds = time.perf_counter() - start
    if ended.returncode != 0:
        console.print(ended.stdout)
        raise SystemExit(f"error: this failed: {' '.join(map(str, command))}")
    return seconds, ended.stdout


def in_turn(ours: Callable[[], float], other: Callable[[], float], repeats: int) -> dict[str, Any]:
    """Both ways in turn; the medians, and the median of the ratios pair by pair."""
    pairs = []
    for number in range(1, repeats + 1):
        pairs.append((ours(), other()))
        console.print(f"  {number} of {repeats}: {pairs[-1][0]:.2f} s, {pairs[-1][1]:.2f} s")
    ratios = [a / b for a, b in pairs]
    return {
        "ours_s": round(statistics.median(a for a, _ in pairs), 2),
        "other_s": round(statistics.median(b for _, b in pairs), 2),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_min": round(min(ratios), 2),
        "ratio_max": round(max(ratios), 2),
        "repeats": repeats,
    }


def build(folder: Path, repeats: int) -> dict[str, Any]:
    """A cold build of the workspace against that of a crate that only depends on burn."""
    from pitb import cargo

    bare, workspace = folder / "bare", folder / "workspace"
    (bare / "src").mkdir(parents=True)
    manifest = (ROOT / "Cargo.toml").read_text()
    burn = re.search(r"^burn = .*$", manifest, re.MULTILINE)
    profile = re.search(r"^\[profile\.release\][^\[]*", manifest, re.MULTILINE)
    assert burn is not None
    assert profile is not None  # with another, burn takes another time to build
    (bare / "Cargo.toml").write_text(BARE.replace("BURN", burn[0]).replace("PROFILE", profile[0]))
    (bare / "src/main.rs").write_text("fn main() {}\n")
    shutil.copy(ROOT / "Cargo.lock", bare)  # the same versions; cargo drops what is not needed
    crates = [path.relative_to(ROOT) for path in cargo.members(ROOT)]
    for name in ("Cargo.toml", "Cargo.lock", *crates, "scripts/pitb/optimizers.json"):
        target = workspace / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)

    def cold(source: Path, *extra: str) -> float:
        target = folder / "target"
        shutil.rmtree(target, ignore_errors=True)
        return timed("cargo", "build", "--release", *extra, "--target-dir", target, cwd=source)

    for source in (bare, workspace):
        timed("cargo", "fetch", cwd=source)
    return in_turn(lambda: cold(workspace, "--locked", "--workspace"), lambda: cold(bare), repeats)


def snakemake(folder: Path, *arguments: Any) -> float:
    """A call of the pipeline in a working folder of its own."""
    command = (sys.executable, "-m", "snakemake", "--cores", "all", "-s", ROOT / "Snakefile")
    return timed(*command, "--directory", folder, *arguments)


def pipeline(folder: Path, repeats: int) -> dict[str, Any]:
    """Everything from built programs against training and comparing by hand."""
    plain_runs = folder / "runs.json"

    def ours() -> float:
        work = Path(tempfile.mkdtemp(dir=folder))
        seconds = snakemake(work)
        if not plain_runs.exists():
            batches = work.glob("results/batches/burn-*.json")
            runs = [run for path in batches for run in json.loads(path.read_text())["runs"]]
            plain_runs.write_text(json.dumps({"runs": runs}))
        return seconds

    def plain() -> float:
        work = Path(tempfile.mkdtemp(dir=folder))
        trained = work / "pytorch.npz"
        return (
            timed(sys.executable, ROOT / "bench/plain_pytorch.py", trained)
            + timed(PROGRAMS / "optdef", "--runs", plain_runs, "--traces", work)
            + timed(sys.executable, ROOT / "bench/plain_compare.py", trained, work / "burn")
        )

    console.print("  once each to warm up")
    ours()
    plain()
    return in_turn(ours, plain, repeats)


def margin(folder: Path, repeats: int, side: str, optimizer: str) -> dict[str, Any]:
    """What one more run costs: the pipeline with 1 and with 201 runs of one side."""

    def sweep(count: int) -> float:
        work = Path(tempfile.mkdtemp(dir=folder))
        runs: dict[str, dict[str, Any]] = {
            "pytorch": {"x": {"optimizer": "AdamW", "lr": 0.01, "steps": 10}},
            "burn": {"x": {"optimizer": "AdamW", "lr": 0.01, "steps": 10}},
        }
        for number in range(count - 1):
            lr = 0.001 * (number + 1)
            runs[side][f"run-{number}"] = {"optimizer": optimizer, "lr": lr, "steps": 10}
        config = {
            "tolerance": 1e-6,
            "threads": 1,
            "batch_size": 250,
            "pages": [],
            "runs": runs,
            "comparisons": [],
        }
        path = work / "config/config.yaml"
        path.parent.mkdir()
        path.write_text(json.dumps(config))  # JSON is YAML too
        return snakemake(work, f"results/traces/{side}/x.parquet")

    sweep(1)
    more, fewer = 201, 1
    costs = []
    for number in range(1, repeats + 1):
        costs.append(1000 * (sweep(more) - sweep(fewer)) / (more - fewer))
        console.print(f"  {number} of {repeats}: {costs[-1]:.1f} ms")
    return {
        "ms": round(statistics.median(costs), 1),
        "ms_min": round(min(costs), 1),
        "ms_max": round(max(costs), 1),
        "repeats": repeats,
    }


def peak_memory(command: tuple[Any, ...]) -> tuple[float, float]:
    """Wall time of a command in seconds, and the most memory in bytes that its processes held
    together: proportional where the system tells what they share, resident elsewhere.
    """
    start, most = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
        whole = psutil.Process(process.pid)
        while process.poll() is None:
            held = 0
            with contextlib.suppress(psutil.Error):
                for one in (whole, *whole.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        memory = one.memory_full_info()
                        held += getattr(memory, "pss", memory.rss)
            most = max(most, held)
            time.sleep(0.2)
        if process.returncode != 0:
            output.seek(0)
            console.print(output.read())
            raise SystemExit(f"error: this failed: {' '.join(map(str, command))}")
    return time.perf_counter() - start, most


def breadth(folder: Path, repeats: int) -> dict[str, Any]:
    """The whole of the breadth from built programs: time and memory, and its limits."""
    command = (sys.executable, "-m", "snakemake", "--cores", "all", "-s", ROOT / "Snakefile")
    found = []
    for number in range(1, repeats + 1):
        work = Path(tempfile.mkdtemp(dir=folder))
        found.append(peak_memory((*command, "--directory", work, "breadth")))
        console.print(f"  {number} of {repeats}: {found[-1][0]:.0f} s, {found[-1][1] / 1e9:.2f} GB")
    return {
        "minutes": round(statistics.median(seconds for seconds, _ in found) / 60, 1),
        "gb": round(max(most for _, most in found) / 1e9, 2),
        "limit": "15 min, 3 GB",
        "repeats": repeats,
    }


def recording(model: str, batch: int, repeats: int, *extra: str) -> dict[str, Any]:
    """What recording costs a PyTorch training; see bench/recording.py."""
    command = [sys.executable, ROOT / "bench/recording.py", "--model", model, "--batch", batch]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    ended = subprocess.run(
        list(map(str, [*command, "--turns", repeats, *extra])),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {"side": "PyTorch", **json.loads(ended.stdout)}


def recording_burn(repeats: int) -> dict[str, Any]:
    """The same of a burn training; see crates/pitb-record/examples/cost.rs."""
    timed("cargo", "build", "--release", "--locked", "-p", "pitb-record", "--examples", cwd=ROOT)
    ended = subprocess.run(
        [ROOT / "target/release/examples/cost", str(repeats)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(ended.stdout)
    rounded = {key: round(value, 3) for key, value in found.items() if isinstance(value, float)}
    return {"side": "burn", **found, **rounded}


def diagnosis(folder: Path, repeats: int, wide: bool) -> dict[str, Any]:
    """One call of ``pitb diagnose``: its wall time and its peak memory.

    Of A1's ten steps, or of a million parameters over 20 steps, which AdamW's own function makes.
    """
    path = ROOT / "results/traces/burn/adamw.parquet"
    if wide:
        path = folder / "wide.parquet"
        timed(sys.executable, ROOT / "bench/wide_trace.py", path)
    command = (sys.executable, "-m", "pitb", "diagnose", path)  # which fails if nothing explains it
    found = []
    for number in range(1, repeats + 1):
        found.append(peak_memory(command))
        console.print(f"  {number} of {repeats}: {found[-1][0]:.1f} s, {found[-1][1] / 1e9:.2f} GB")
    return {
        "s": round(statistics.median(seconds for seconds, _ in found), 2),
        "s_max": round(max(seconds for seconds, _ in found), 2),
        "peak_gb": round(max(most for _, most in found) / 1e9, 2),
        "repeats": repeats,
    }


def recovery(folder: Path, repeats: int) -> dict[str, Any]:
    """The share of the runs whose configuration is found again, of a sample of the breadth."""
    timed(
        sys.executable, ROOT / "scripts/diagnose_runs.py", "--pages", ROOT / "results/traces",
        "--breadth", ROOT / "results/breadth-slice", "--sample", "5", "--out", folder / "diagnose",
    )  # fmt: skip
    return {"summary": (folder / "diagnose/summary.txt").read_text().strip(), "repeats": repeats}


def swept(*arguments: Any) -> dict[str, Any]:
    """What bench/sweeps.py says."""
    ended = subprocess.run(
        list(map(str, [sys.executable, ROOT / "bench/sweeps.py", *arguments])),
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


BATCH_SIZES = (64, 128, 256, 512, 1024)


def batch_sizes(repeats: int, runs: int = 5000) -> dict[str, Any]:
    """One sweep cut into batches of several sizes."""
    return {**swept(runs, "--turns", repeats, "--batch-size", *BATCH_SIZES), "repeats": repeats}


def sweep(runs: int, repeats: int) -> dict[str, Any]:
    """A sweep of A1 on both sides, from built programs; see bench/sweeps.py."""
    found = []
    for number in range(1, repeats + 1):
        found.append(swept(runs))
        console.print(f"  {number} of {repeats}: {found[-1]['said']}, {found[-1]['seconds']} s")
    slowest: dict[str, Any] = max(found, key=lambda item: item["seconds"])
    return {**slowest, "repeats": repeats}


def big_traces(repeats: int) -> dict[str, Any]:
    """Two traces of 100 million values each, compared in every way; see bench/big_traces.py."""
    command = [sys.executable, ROOT / "bench/big_traces.py", "--turns", repeats]
    ended = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


MEASUREMENTS: dict[str, tuple[str, Callable[[Path, int], dict[str, Any]], int]] = {
    "pipeline": ("everything from built programs, against by hand", pipeline, 5),
    "margin_pytorch": (
        "one more run on PyTorch's side",
        lambda folder, repeats: margin(folder, repeats, "pytorch", "AdamW"),
        5,
    ),
    "margin_burn": (
        "one more run on burn's side",
        lambda folder, repeats: margin(folder, repeats, "burn", "AdamW"),
        5,
    ),
    "breadth": ("the whole of the breadth from built programs", breadth, 1),
    "record_pytorch": (
        "recording all tensors on PyTorch's side, of a step that is short for its parameters",
        lambda _, repeats: recording("mlp", 256, repeats),
        10,
    ),
    "record_pytorch_chosen": (
        "recording the last layer and the biases of it",
        lambda _, repeats: recording("mlp", 256, repeats, "--tensors", "4.*", "*.bias"),
        10,
    ),
    "record_pytorch_cnn": (
        "recording all tensors of a convolutional network",
        lambda _, repeats: recording("cnn", 64, repeats, "--steps", "50"),
        5,
    ),
    "record_burn": (
        "recording all tensors on burn's side",
        lambda _, repeats: recording_burn(repeats),
        10,
    ),
    "diagnose_a1": (
        "a diagnosis of A1's ten steps",
        lambda folder, repeats: diagnosis(folder, repeats, wide=False),
        3,
    ),
    "diagnose_wide": (
        "a diagnosis of a million parameters over 20 steps",
        lambda folder, repeats: diagnosis(folder, repeats, wide=True),
        1,
    ),
    "big_traces": (
        "two traces of 100 million values, compared in every way",
        lambda _, repeats: big_traces(repeats),
        3,
    ),
    "diagnose_share": ("the share of configurations found again", recovery, 1),
    "sweep_5000": ("a sweep of 5,000 runs", lambda _, repeats: sweep(5000, repeats), 1),
    "sweep_20000": ("a sweep of 20,000 runs", lambda _, repeats: sweep(20000, repeats), 1),
    "sweep_100000": ("a sweep of 100,000 runs", lambda _, repeats: sweep(100_000, repeats), 1),
    "batch_sizes": (
        "sizes of batches of a sweep, side by side",
        lambda _, repeats: batch_sizes(repeats),
        3,
    ),
    "build": ("a cold build, against one of a crate that only depends on burn", build, 2),
}


LONG = ("sweep_100000",)
"""Half an hour and more: by name alone."""


def machine() -> dict[str, Any]:
    """Where this was measured."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "rustc": rustc.stdout.split()[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = f"of {', '.join(MEASUREMENTS)} (default: all but {', '.join(LONG)})"
    parser.add_argument("only", nargs="*", help=every)
    parser.add_argument("--repeats", type=int, help="instead of each measurement's own number")
    arguments = parser.parse_args()
    for name in arguments.only:
        if name not in MEASUREMENTS:
            parser.error(f"unknown measurement {name!r}; there are {', '.join(MEASUREMENTS)}")
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in arguments.only or [name for name in MEASUREMENTS if name not in LONG]:
        title, measure, repeats = MEASUREMENTS[name]
        console.print(f"[bold]{name}[/bold]: {title}")
        with tempfile.TemporaryDirectory() as folder:
            found[name] = {**measure(Path(folder), arguments.repeats or repeats), **machine()}
        OUT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
