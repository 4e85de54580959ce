"""A small sweep in a folder of its own, on the built programs."""

import time

from clones import check_whole, fraction, killed_midway, result_bytes, snakemake

TARGET = "results/sweeps/small/summary.md"
SWEEP = """name: small
batches: 2
tolerance: 1e-5
design:
  - grid: {optimizer: [SGD, AdamW], lr: [0.01, 0.1], burn: [aligned, defaults], steps: [3]}
  - list:
      - {optimizer: Adam, lr: 0.1, dtype: float64, steps: 3}
      - {optimizer: Adam, lr: 0.1, problem: nan, steps: 5}
      - {optimizer: SGD, lr: 1e30}
      - {optimizer: SGD, lr: 0.1, options: {maximize: true}}
      - {optimizer: Adam, lr: 0.1, options: {betas: [1.5, 0.9]}}
      - {optimizer: Muon, lr: 0.1}
"""
"""Of each kind of run and verdict some."""
EDITED = SWEEP.replace("lr: 1e30", "lr: 1e29")
"""The same with one run edited, which changes one batch."""
MOMENTS = 8
SEED = 3020
IN_CI = 3


def moment(number):
    """A moment to kill at, as a part of the whole duration: one in each eighth."""
    return fraction(number, MOMENTS, SEED)


def put(folder, text=SWEEP):
    """Write the sweep into a folder, which may be new."""
    path = folder / "config/sweeps/small.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


def arguments(root, folder):
    """What a call of Snakemake needs to work in a folder that is not the project's."""
    return ("-s", root / "Snakefile", "--directory", folder)


def train(root, folder):
    """Train the sweep, undisturbed: the bytes that it comes to, and the seconds that takes."""
    begun = time.monotonic()
    code, printed = snakemake(folder, *arguments(root, folder), TARGET)
    assert code == 0, printed
    return sweep_bytes(folder), time.monotonic() - begun


def sweep_bytes(folder):
    """Every file of the sweep's results, by its path."""
    return result_bytes(folder, ("sweeps",))


def kill_and_go_on(root, folder, seconds, expected, begin=None, before=None):
    """Kill the sweep after some time, and go on as the documents say: the end is as expected.

    The folder is new, or what ``begin`` makes of it; ``before`` has the bytes that are there then.
    """
    words = (*arguments(root, folder), TARGET)
    killed_midway(folder, begin or (lambda: put(folder)), seconds, *words)
    check_whole(sweep_bytes(folder), expected, before or {})
    for word in ("--unlock", "--rerun-incomplete"):
        code, printed = snakemake(folder, *words, word)
        assert code == 0, printed
    found = sweep_bytes(folder)
    assert sorted(found) == sorted(expected)
    assert found == expected
