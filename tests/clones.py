"""Copies of the project in which the pipeline is run for real, from the programs that are built."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from pitb.cargo import PROGRAMS
from pitb.stream import compiled

PROBES = ("noassign", "discard", "must-use")
RESULTS = ("traces", "comparisons", "tables", "evidence", "ledger.*", "comparisons.*")
"""What must come out the same, below the folder of results."""


def snakemake(folder, *arguments, cores=2, cwd=None):
    command = [sys.executable, "-m", "snakemake", "--cores", str(cores), *map(str, arguments)]
    ended = subprocess.run(
        command, cwd=cwd or folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return ended.returncode, ended.stdout


def make(project, target):
    """A call of make as by hand, also where make runs these tests; its environment is this one.

    It is never set up anew: that would clear the environment in which these tests run.
    """
    if not (project / ".venv").exists():
        (project / ".venv").symlink_to(sys.prefix)
    outside = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", "-o", "setup", target], cwd=project, env=outside, capture_output=True, text=True
    )


def fraction(number, moments, seed):
    """A seeded moment of a run, as a part of its whole duration: one in each of so many parts."""
    return (number + random.Random(seed + number).random()) / moments


def killed(folder, seconds, *arguments):
    """Run the pipeline and kill its whole group after some time; whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "2", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    running = process.poll() is None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        pytest.fail("a process of the run has survived")
    return running


def killed_midway(folder, begin, seconds, *arguments):
    """Kill a run after some time, in a folder that ``begin`` makes as it was before the run.

    Earlier where the run has already ended, on a machine less busy than before.
    """
    running = False
    while not running:
        shutil.rmtree(folder, ignore_errors=True)
        begin()
        running = killed(folder, seconds, *arguments)
        print(f"{folder.name}: killed after {seconds:.2f} s: {running}")
        seconds *= 0.8


def check_whole(left, *expected):
    """What a kill has left is whole, as one of the runs has it; other files begin with a dot."""
    for name, content in left.items():
        if "/." not in f"/{name}":
            assert content in [run.get(name) for run in expected], name


def result_bytes(folder, names=RESULTS):
    """Every file that must come out the same, by its path."""
    return files_below(folder / "results", *names)


def files_below(folder, *patterns):
    """The bytes of the files, also in folders, that some patterns name, by their paths."""
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    inner = [path.rglob("*") if path.is_dir() else [path] for path in found]
    files = [path for paths in inner for path in paths if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def stamps(folder):
    """When each file below a folder was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def copy_project(root, folder, evidence=None):
    """Copy what git tracks, with the programs that are built already.

    What the compiler says is copied too, from where it was made: asking it again would build the
    workspace again.
    """
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    copies = {root / name: folder / name for name in tracked.stdout.split("\0") if name}
    for name in (*PROGRAMS, compiled.LIBRARY.name):
        copies[root / "target/release" / name] = folder / "target/release" / name
    for name in PROBES if evidence else ():
        path = f"results/evidence/{name}.json"
        copies[evidence / path] = folder / path
    for source, copy in copies.items():
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
