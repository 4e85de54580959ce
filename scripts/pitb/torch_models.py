"""The problems as PyTorch modules."""

from typing import NamedTuple

import torch
from torch import nn

from pitb.problems import Problem


class Evaluation(NamedTuple):
    """What a forward pass gives."""

    loss: torch.Tensor
    logits: torch.Tensor | None


class Model(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """A module with the parameters of a problem under their names, and its loss."""

    def __init__(self, problem: Problem, dtype: torch.dtype = torch.float32) -> None:
        """Build the layers of ``problem`` with its initial parameters, in ``dtype``."""
        super().__init__()
        self.problem = problem
        shapes = {name: value.shape for name, value in problem.parameters.items()}
        for name, shape in shapes.items():
            layer, _, kind = name.rpartition(".")
            if layer == "":
                self.register_parameter(name, nn.Parameter(torch.empty(shape, dtype=dtype)))
            elif kind == "weight":
                self.add_module(layer, _layer(layer, shape, dtype))
        for second, first in problem.tied:
            layer, kind = second.rsplit(".", 1)
            if not hasattr(self, layer):
                weight = self.get_parameter(first)
                self.add_module(layer, _layer(layer, tuple(weight.shape), dtype))
            setattr(self.get_submodule(layer), kind, self.get_parameter(first))
        values = {
            name: torch.from_numpy(value).to(dtype) for name, value in problem.parameters.items()
        }
        for second, first in problem.tied:
            values[second] = values[first]
        self.load_state_dict(values)
        self.inputs = {
            name: value if value.dtype == torch.int64 else value.to(dtype)
            for name, value in ((n, torch.from_numpy(v)) for n, v in problem.inputs.items())
        }

    def named(self) -> dict[str, nn.Parameter]:
        """All parameters by name, a tied one under each of its names."""
        return dict(self.named_parameters(remove_duplicate=False))

    def evaluate(self, start: int = 0, end: int | None = None) -> Evaluation:
        """Loss, and logits where there are some, over the rows ``start`` to ``end``."""
        inputs = self.inputs
        if self.problem.model == "quadratic":
            x = self.get_parameter("x")
            return Evaluation(0.5 * (x @ (inputs["A"] @ x)) - inputs["b"] @ x, None)
        if self.problem.model == "rosenbrock":
            x = self.get_parameter("x")
            valley, slope = x[1:] - x[:-1] ** 2, 1 - x[:-1]
            return Evaluation((100 * valley**2 + slope**2).sum(), None)
        if self.problem.model == "pieces":
            x = self.get_parameter("x")
            a, b, c = inputs["pieces"][int((inputs["ends"] < x).sum())]
            return Evaluation((a * x**2 + b * x + c).sum(), None)
        logits = self(inputs["x"][start:end])
        return Evaluation(nn.functional.cross_entropy(logits, inputs["y"][start:end]), logits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, shape (rows, classes)."""
        layer = self.get_submodule
        model = self.problem.model
        if model in ("mlp", "tied"):
            return _as_tensor(layer("fc2")(torch.relu(layer("fc1")(x))))
        if model == "embedding":
            x = layer("embedding")(x).mean(dim=1)
        elif model == "conv":
            x = torch.relu(layer("conv")(x)).flatten(start_dim=1)
        return _as_tensor(layer("fc")(x))


def _as_tensor(value: torch.Tensor) -> torch.Tensor:
    return value


def _layer(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> nn.Module:
    if name == "embedding":
        return nn.Embedding(shape[0], shape[1], dtype=dtype)
    if name == "conv":
        return nn.Conv2d(shape[1], shape[0], (shape[2], shape[3]), dtype=dtype)
    return nn.Linear(shape[1], shape[0], dtype=dtype)
