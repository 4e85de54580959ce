"""Where the tensors of one step of A1 go on PyTorch's side, and what the wrong model does."""

import copy
from typing import Any

import torch
from torch import nn

from pitb import pytorch

LEARNING_RATE = 0.1


def moves() -> dict[str, Any]:
    """What the page prints of PyTorch's side, as data. Lists are text, as Python prints them."""
    return {"step": _step(), "wrong_model": _wrong_model()}


def console(found: dict[str, Any]) -> str:
    """The console output of the page, rendered from `moves`."""
    step, wrong = found["step"], found["wrong_model"]
    lines = [
        f"fc2.bias before          {step['before']}",
        f"fc2.bias.grad            {step['gradient']}",
        f"fc2.bias after step      {step['after']}",
        f"alias taken before step  {step['alias_after']}",
        f"clone taken before step  {step['clone_after']}",
        f"same object, same buffer: {step['same_object']} {step['same_buffer']}",
        f"other fc2.bias changed by opt.step(): {wrong['changed']}",
        f"model params have grad: {wrong['have_grad']}",
    ]
    return "\n".join(lines)


def _bias(model: nn.Module) -> nn.Parameter:
    return dict(model.named_parameters())["fc2.bias"]


def _step() -> dict[str, Any]:
    model = pytorch.mlp()
    x, y = pytorch.batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    alias = _bias(model)
    clone = alias.detach().clone()
    pointer = alias.data_ptr()
    before = alias.tolist()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    bias = _bias(model)
    assert bias.grad is not None
    return {
        "before": str(before),
        "gradient": str(bias.grad.tolist()),
        "after": str(bias.tolist()),
        "alias_after": str(alias.tolist()),
        "clone_after": str(clone.tolist()),
        "same_object": str(alias is bias),
        "same_buffer": str(pointer == bias.data_ptr()),
    }


def _wrong_model() -> dict[str, Any]:
    """An optimizer over one model, a backward pass through a copy of it."""
    model = pytorch.mlp()
    x, y = pytorch.batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    other = copy.deepcopy(model)
    before = _bias(other).detach().clone()
    optimizer.zero_grad()
    nn.functional.cross_entropy(other(x), y).backward()
    optimizer.step()
    return {
        "changed": str(not torch.equal(before, _bias(other).detach())),
        "have_grad": str([parameter.grad is not None for parameter in model.parameters()]),
    }
