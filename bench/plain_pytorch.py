"""The plainest way to train all PyTorch runs of the pages: one process, a loop, one npz file.

It shares nothing with the pipeline but the problem; `make bench` measures the pipeline against it.
"""

import sys

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


def model():
    net = nn.Sequential()
    net.add_module("fc1", nn.Linear(4, 8))
    net.add_module("relu", nn.ReLU())
    net.add_module("fc2", nn.Linear(8, 3))
    k32, k24 = np.arange(1, 33), np.arange(1, 25)
    values = {
        "fc1.weight": 0.5 * np.sin(k32).reshape(8, 4),
        "fc1.bias": 0.01 * np.arange(8),
        "fc2.weight": 0.5 * np.cos(k24).reshape(3, 8),
        "fc2.bias": -0.02 * np.arange(3),
    }
    net.load_state_dict({name: torch.tensor(v, dtype=torch.float32) for name, v in values.items()})
    return net


def clip_globally(net):
    nn.utils.clip_grad_norm_(net.parameters(), 0.1)


def clip_each(net):
    for parameter in net.parameters():
        nn.utils.clip_grad_norm_([parameter], 0.1)


RUNS = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), 1, None),
    "sgdm": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 10, None),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.01), 10, None),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, lr=0.01), 10, None),
    "adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.1), 10, None),
    "clip-global": (lambda p: torch.optim.SGD(p, lr=0.1), 1, clip_globally),
    "clip-per-parameter": (lambda p: torch.optim.SGD(p, lr=0.1), 1, clip_each),
}


def main():
    x = torch.tensor(0.1 * np.arange(16) - 0.5, dtype=torch.float32).reshape(4, 4)
    y = torch.tensor([0, 2, 1, 2])
    saved = {}
    for name, (make, steps, clip) in RUNS.items():
        net = model()
        optimizer = make(net.parameters())
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            if clip:
                clip(net)
            optimizer.step()
            saved[f"{name} {step} loss"] = loss.item()
            for parameter, value in net.named_parameters():
                saved[f"{name} {step} {parameter}"] = value.detach().numpy().copy()
    np.savez(sys.argv[1], **saved)


main()
