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
                block, dtype=np.float32
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
