"""The plainest way to compare: one process, every pair of the pages, the largest difference.

``python plain_compare.py pytorch.npz FOLDER``, where FOLDER holds burn's traces.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

PAIRS = {
    "sgd": ["sgd", "sgd-f32-inputs"],
    "sgdm": ["sgdm", "sgdm-aligned"],
    "adamw": ["adamw", "adamw-aligned", "adamw-only-eps", "adamw-only-wd"],
    "rmsprop": ["rmsprop", "rmsprop-aligned", "rmsprop-only-eps", "rmsprop-only-mom"],
    "adagrad": ["adagrad", "adagrad-aligned"],
    "clip-global": ["clip-norm", "clip-global"],
    "clip-per-parameter": ["clip-norm"],
}


def main():
    pytorch = np.load(sys.argv[1])
    for name, others in PAIRS.items():
        keys = [key.split(" ", 2) for key in pytorch.files if key.startswith(f"{name} ")]
        for other in others:
            table = pq.read_table(Path(sys.argv[2]) / f"{other}.parquet")
            step, quantity, tensor = (
                table[column].to_numpy() for column in ("step", "quantity", "tensor")
            )
            value = table["value"].to_numpy()
            worst = 0.0
            for _, k, what in keys:
                if what == "loss":
                    rows = (step == int(k)) & (quantity == "loss")
                else:
                    rows = (step == int(k)) & (quantity == "param") & (tensor == what)
                a = np.ravel(pytorch[f"{name} {k} {what}"])
                worst = max(worst, float(np.abs(a - value[rows]).max()))
            print(f"{name} {other} {worst:.2e} {'OK' if worst <= 1e-6 else 'MISMATCH'}")


main()
