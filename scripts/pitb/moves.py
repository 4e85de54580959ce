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
    parameter = _bias(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    before, address = parameter.tolist(), parameter.data_ptr()
    copied = parameter.detach().clone()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    bias = _bias(model)
    assert bias.grad is not None
    return {
        "before": str(before),
        "gradient": str(bias.grad.tolist()),
        "after": str(bias.tolist()),
        "alias_after": str(parameter.tolist()),
        "clone_after": str(copied.tolist()),
        "same_object": str(parameter is bias),
        "same_buffer": str(address == bias.data_ptr()),
    }


def _wrong_model() -> dict[str, Any]:
    """An optimizer over one model, a backward pass through a copy of it."""
    model = pytorch.mlp()
    x, y = pytorch.batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    twin = copy.deepcopy(model)
    initial = {name: value.clone() for name, value in twin.state_dict().items()}
    loss = nn.functional.cross_entropy(twin(x), y)
    loss.backward()
    optimizer.step()
    changed = not torch.equal(initial["fc2.bias"], twin.state_dict()["fc2.bias"])
    return {
        "changed": str(changed),
        "have_grad": str([parameter.grad is not None for parameter in model.parameters()]),
    }
