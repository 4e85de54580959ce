"""What recording costs a PyTorch training of a million parameters; prints it as JSON.

Two trainings of the same model, one recorded every 10th step, go on in turn, a hundred steps each.
A turn ends when its parts are written. Memory is the most that the process has held, after the
first turns and after the last.
"""

import argparse
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from pitb.record import Recorder, record

STEPS = 100


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 14 * 14, 78), nn.ReLU()),
        nn.Linear(78, 10),
    )


MODELS = {"mlp": (mlp, (784,)), "cnn": (cnn, (1, 28, 28))}


class Training:
    """A training that goes on."""

    def __init__(self, name: str, batch: int) -> None:
        make, shape = MODELS[name]
        torch.manual_seed(0)
        self.model = make()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.x = torch.randn(batch, *shape)
        self.y = torch.randint(0, 10, (batch,))

    def go(self, steps: int, recorder: Recorder | None) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(self.x), self.y)
            if recorder is not None:
                recorder.loss(loss)
            loss.backward()
            self.optimizer.step()
        if recorder is not None:
            recorder.wait()
        return time.perf_counter() - start


def peak() -> float:
    """Most memory that the process has held, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--tensors", nargs="+")
    arguments = parser.parse_args()
    plain, recorded = (Training(arguments.model, arguments.batch) for _ in range(2))
    parent = Path(tempfile.mkdtemp())
    turns = []
    peaks = []
    try:
        for training in (plain, recorded):
            training.go(10, None)
        chosen = {"tensors": arguments.tensors}
        with record(recorded.model, recorded.optimizer, parent / "t", every=10, **chosen) as it:
            recorded.go(20, it)
            for _ in range(arguments.turns):
                without = plain.go(arguments.steps, None)
                turns.append((recorded.go(arguments.steps, it), without))
                peaks.append(peak())
        size = sum(path.stat().st_size for path in (parent / "t").iterdir())
    finally:
        shutil.rmtree(parent)
    ratios = [a / b for a, b in turns]
    made = 20 + arguments.steps * arguments.turns
    found = {
        "model": arguments.model,
        "batch": arguments.batch,
        "tensors": arguments.tensors,
        "parameters": sum(p.numel() for p in plain.model.parameters()),
        "step_ms": round(1e3 * statistics.median(b for _, b in turns) / arguments.steps, 2),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "repeats": arguments.turns,
        "memory_first_mb": round(peaks[0], 1),
        "memory_last_mb": round(peaks[-1], 1),
        "written_mb_per_step": round(size / made / 1e6, 2),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
