"""Writes two traces of a made-up model, of any size and in bounded memory, for what is measured.

The parameters of B part from those of A by roundings at first, then by more with each step, so
that hardly a value after the start is the same. ``python bench/big_trace.py 10000000 10 a b``
writes ten million parameters at 10 steps, 100 million values in each file.
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from pitb import trace  # noqa: E402
from pitb.stream import writing  # noqa: E402
from pitb.trace import Entry  # noqa: E402

Array = NDArray[np.float64]
LAYERS = (("fc1.weight", 0.4), ("fc1.bias", 0.001), ("fc2.weight", 0.5), ("fc2.bias", 0.001))
"""Tensors, and their shares of the parameters; the last takes what is left."""


def contents(parameters: int, steps: int) -> list[Entry]:
    """The start and steps of a training: ``steps`` states of all parameters, and the losses."""
    sizes = [math.ceil(share * parameters) for _, share in LAYERS]
    shapes = [(size,) for size in sizes] + [(parameters - sum(sizes),)]
    names = [*(name for name, _ in LAYERS), "fc3.weight"]
    found: list[Entry] = []
    row = 0

    def add(step: int, quantity: str, tensor: str, shape: tuple[int, ...]) -> None:
        nonlocal row
        found.append(Entry(step, quantity, tensor, shape, "float32", row))
        row += found[-1].count

    for step in range(steps):
        if step:
            add(step, "loss", "", ())
        for name, shape in zip(names, shapes, strict=True):
            add(step, "param", name, shape)
    return found


def write(path: Path, parameters: int, steps: int, apart: float, **options: Any) -> int:
    """Write one trace; returns its number of values.

    Args:
        path: Where to.
        parameters: Of the model.
        steps: States that are recorded, the start being the first.
        apart: By which part of it, at most, a value differs after each step; 0 for A.
        options: Of `pitb.stream.writing.write`.
    """
    entries = contents(parameters, steps)

    def fill(entry: Entry, start: int, out: Array) -> None:
        # Each million from a seed of its own, so that a row group need not begin where it does.
        block = 1 << 20
        for first in range(start // block * block, start + len(out), block):
            made = np.random.default_rng([entry.first_row % 2**32, first]).random(
                min(block, entry.count - first), dtype=np.float32
            )
            begin, end = max(first, start), min(first + block, start + len(out))
            chosen = made[begin - first : end - first] - np.float32(0.5)
            if apart and entry.step:
                noise = np.float32(apart * entry.step) * (np.float32(1) + chosen)
                chosen = chosen * (np.float32(1) + noise)
            out[begin - start : end - start] = chosen

    metadata = {
        "schema": trace.SCHEMA_VERSION,
        "run": path.stem,
        "configuration": {"optimizer": "AdamW", "steps": steps - 1},
    }
    writing.write(path, entries, metadata, fill, **options)
    return entries[-1].first_row + entries[-1].count


def write_trained(path: Path, parameters: int, steps: int, dampening: float = 0.0) -> int:
    """Write the trace of a training in float32, gradients and parameters; returns its values.

    SGD with a momentum of 0.9 gets gradients that follow from where an element stands and the step.

    Args:
        path: Where to.
        parameters: Of the model.
        steps: Updates.
        dampening: Of the momentum.
    """
    step_0 = [entry for entry in contents(parameters, 1) if entry.quantity == "param"]
    entries: list[Entry] = []
    row = 0
    for step in range(steps + 1):
        for quantity in ("grad", "param") if step else ("param",):
            for one in step_0:
                entries.append(Entry(step, quantity, one.tensor, one.shape, one.dtype, row))
                row += one.count
    places = {entry.tensor: entry.first_row for entry in step_0}

    def gradient(tensor: str, index: Array, step: int) -> NDArray[np.float32]:
        angle = (index + places[tensor]) * 0.7548776662466927 % 1.0 + 0.37 * step
        return (np.sin(6.283185307179586 * angle) * 0.1).astype(np.float32)

    def fill(entry: Entry, start: int, out: Array) -> None:
        block = 1 << 16
        for first in range(0, len(out), block):
            part = out[first : first + block]
            index = np.arange(start + first, start + first + len(part), dtype=np.float64)
            if entry.quantity == "grad":
                part[:] = gradient(entry.tensor, index, entry.step)
                continue
            value = gradient(entry.tensor, index, 0)
            velocity = np.zeros_like(value)
            for step in range(1, entry.step + 1):
                new = gradient(entry.tensor, index, step)
                kept = np.float32(1 - dampening if step > 1 else 1)
                velocity = velocity * np.float32(0.9) + kept * new
                value = value - np.float32(0.1) * velocity
            part[:] = value

    options = {"momentum": 0.9, "dampening": dampening}
    metadata = {
        "schema": trace.SCHEMA_VERSION,
        "run": f"pytorch/{path.stem}",
        "side": "pytorch",
        "dtype": "float32",
        "model": {"name": "made-up"},
        "configuration": {"optimizer": "SGD", "lr": 0.1, "options": options, "steps": steps},
    }
    writing.write(path, entries, metadata, fill)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parameters", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("a", type=Path)
    parser.add_argument("b", type=Path)
    arguments = parser.parse_args()
    for path, apart in ((arguments.a, 0.0), (arguments.b, 1e-6)):
        print(path, write(path, arguments.parameters, arguments.steps, apart), "values")


if __name__ == "__main__":
    main()
