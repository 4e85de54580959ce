"""Write the trace of a million parameters over 20 steps of AdamW, for the measurement."""

import sys
from pathlib import Path

import numpy as np

from pitb import trace
from pitb.diagnose import space
from pitb.reference.optimizers import FUNCTIONS, GROUP_STEP, Scalars

STEPS = 20
SHAPES = {"fc1.weight": (784, 1024), "fc1.bias": (1024,), "fc2.weight": (200, 1024)}
RATE = 1e-3


def main() -> None:
    generator = np.random.default_rng(0)
    hypothesis = space.base("AdamW", "pytorch")
    scalars = Scalars(hypothesis.options, hypothesis.equations)
    parameters = {
        name: generator.normal(0, 0.05, shape).astype(np.float32) for name, shape in SHAPES.items()
    }
    states: dict[str, dict[str, object]] = {name: {} for name in SHAPES}
    recorder = trace.Recorder()
    for name, value in parameters.items():
        recorder.add(0, "param", value, "float32", name)
    for step in range(1, STEPS + 1):
        for name, value in parameters.items():
            gradient = generator.normal(0, 0.01, value.shape).astype(np.float32)
            recorder.add(step, "grad", gradient, "float32", name)
            states[name][GROUP_STEP] = step
            new = FUNCTIONS["AdamW"](
                value, gradient, states[name], RATE, scalars, hypothesis.equations
            )
            parameters[name] = np.asarray(new, dtype=np.float32)
        recorder.add(step, "lr", RATE, "float64")
        for name, value in parameters.items():
            recorder.add(step, "param", value, "float32", name)
    metadata = {"schema": trace.SCHEMA_VERSION, "run": "reference/wide"}
    trace.write(recorder.trace(metadata), Path(sys.argv[1]))


if __name__ == "__main__":
    main()
