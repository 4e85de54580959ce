"""The PyTorch side of the worked example in docs/recording.md: a small network on real digits.

``data`` writes what both sides train on, ``train`` trains and records.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from pitb.errors import run_main
from pitb.record import record

BATCH = 64
STEPS = 200


class Digits(nn.Module):
    """Two layers: 8 x 8 pixels in, ten classes out."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


def write_data(path: Path) -> None:
    """Write pixels, classes, the rows of each batch, and the initial parameters, as JSON: every
    float32 is exact in it.
    """
    torch.manual_seed(0)
    model = Digits()
    x, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0)
    batches = [rows.choice(len(x), BATCH, replace=False).tolist() for _ in range(STEPS)]
    data = {
        "x": (x / 16).tolist(),  # 0 to 1, exact
        "y": y.tolist(),
        "batches": batches,
        "parameters": {
            name: {"shape": list(p.shape), "values": p.detach().flatten().tolist()}
            for name, p in model.named_parameters()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data) + "\n", encoding="utf-8")


def train(path: Path, folder: Path, every: int) -> None:
    """Train on the data of ``path`` and record into ``folder``."""
    data = json.loads(path.read_text(encoding="utf-8"))
    all_x, all_y = torch.tensor(data["x"]), torch.tensor(data["y"])
    model = Digits()
    model.load_state_dict(
        {
            name: torch.tensor(item["values"]).reshape(item["shape"])
            for name, item in data["parameters"].items()
        }
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    with record(model, optimizer, folder, every=every, overwrite=True) as recorder:
        for rows in data["batches"]:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(all_x[rows]), all_y[rows])
            recorder.loss(loss).backward()
            optimizer.step()
        with torch.no_grad():
            recorder.loss(nn.functional.cross_entropy(model(all_x), all_y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("data", "train"))
    parser.add_argument("data", type=Path, help="the JSON file with the data")
    parser.add_argument("--trace", type=Path, help="folder for the trace")
    parser.add_argument("--every", type=int, default=20, help="record every n-th update")
    arguments = parser.parse_args()
    if arguments.what == "data":
        write_data(arguments.data)
        return
    if arguments.trace is None:
        parser.error("train needs --trace")
    torch.set_num_threads(1)  # the number of threads changes sums
    train(arguments.data, arguments.trace, arguments.every)


if __name__ == "__main__":
    run_main(main)
