"""The PyTorch side: a run from its specification to its trace, and the evidence of the pages."""

import inspect
import math
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import pitb
from pitb import a1, trace
from pitb.errors import PitbError, nearest
from pitb.registry import optimizers

Spec = dict[str, Any]


def train_all(
    specs: list[Spec],
    traces: Path,
    after: Callable[[Spec, trace.Trace], None] | None = None,
) -> None:
    """Train each of ``specs`` and write its trace to ``<traces>/<id>.parquet``.

    All are checked before the first is trained, so that a mistake in the last one does not cost
    the time of the others. ``after`` is told of each run once its trace is written.

    Raises:
        PitbError: A specification asks for what PyTorch does not have.
    """
    for spec in specs:
        check(spec)
    for spec in specs:
        recorded = train(spec)
        if recorded.error is not None:
            print(f"{spec['id']}: ended early: {recorded.error}", flush=True)
        trace.write(recorded, traces / f"{spec['id']}.parquet")
        if after is not None:
            after(spec, recorded)


def train(spec: Spec) -> trace.Trace:
    """Train one run. An exception of PyTorch's ends the run and stands in the metadata.

    Raises:
        PitbError: The specification asks for what PyTorch does not have.
    """
    recorder = trace.Recorder()
    model = mlp()
    metadata = _metadata(spec, model, check(spec))
    try:
        constructor = getattr(torch.optim, spec["optimizer"])
        optimizer = constructor(model.parameters(), lr=spec["lr"], **(spec.get("options") or {}))
        _record(spec, model, optimizer, recorder)
    except Exception as error:  # whatever PyTorch raises is a result, not a fault of ours
        first = (str(error).splitlines() or [""])[0]
        metadata["error"] = f"{type(error).__name__}: {first}"
    return recorder.trace(metadata)


def mlp() -> nn.Module:
    """The model of A1 with its initial parameters."""
    model = nn.Sequential()
    model.add_module("fc1", nn.Linear(4, 8))
    model.add_module("relu", nn.ReLU())
    model.add_module("fc2", nn.Linear(8, 3))
    values = {name: torch.from_numpy(array) for name, array in a1.parameters().items()}
    model.load_state_dict(values)
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """x, float32 of shape (4, 4), and y, int64 of shape (4,)."""
    x, y = a1.inputs()
    return torch.from_numpy(x), torch.from_numpy(y)


def defaults() -> dict[str, Any]:
    """``opt.defaults`` of every optimizer in the registry, constructed with nothing set."""
    found = {}
    for entry in optimizers():
        constructor = getattr(torch.optim, entry.pytorch)
        found[entry.pytorch] = _plain(constructor([nn.Parameter(torch.zeros(1))]).defaults)
    return found


def check(spec: Spec) -> dict[str, Any]:
    """Check what a run asks for; return the optimizer's ``opt.defaults`` with its options set.

    Raises:
        PitbError: The optimizer or an option is unknown, or a value is not of the option's type
            or range; names the line, where the run has one.
    """
    if not re.fullmatch(r"pytorch/[A-Za-z0-9_-]+", str(spec["id"])):  # it becomes a file's name
        message = f"run id {spec['id']!r} is not of the form pytorch/<name>"
        raise PitbError(f"{message}, of letters, digits, - and _")
    name, options = spec["optimizer"], spec.get("options") or {}
    if not math.isfinite(spec["lr"]) or spec["steps"] < 1:
        raise _error(spec, "", f"lr {spec['lr']} and steps {spec['steps']} must be finite and 1 up")
    constructor = getattr(torch.optim, str(name), None)
    known = isinstance(constructor, type) and issubclass(constructor, torch.optim.Optimizer)
    if not known or constructor is None:
        near = nearest(str(name), [n for n in dir(torch.optim) if n[0].isupper()])
        raise _error(spec, "", f"torch.optim has no optimizer {name!r}; nearest: {near!r}")
    signature = inspect.signature(constructor).parameters
    allowed = [option for option in list(signature)[1:] if option != "lr"]
    for key, value in options.items():
        if key not in allowed:
            near = nearest(key, allowed)
            message = f"torch.optim.{name} has no option {key!r}; nearest: {near!r}"
            raise _error(spec, key, message)
        # PyTorch takes any object for true, also the word no.
        kinds = f"{signature[key].annotation} {type(signature[key].default).__name__}"
        if isinstance(value, bool) != ("bool" in kinds) and value is not None:
            kind = "true or false" if "bool" in kinds else "a number"
            raise _error(spec, key, f"{key} of torch.optim.{name} is {value!r}, not {kind}")
        if isinstance(value, str) and "str" not in kinds:
            raise _error(spec, key, f"{key} of torch.optim.{name} is {value!r}, not a number")
    try:
        # A matrix, which every optimizer takes.
        optimizer = constructor([nn.Parameter(torch.zeros(1, 1))], lr=spec["lr"], **options)
    except Exception as error:  # whatever a constructor raises of its arguments
        raise _error(spec, "", f"torch.optim.{name} refuses its options: {error}") from None
    return dict(optimizer.defaults)


def _error(spec: Spec, option: str, message: str) -> PitbError:
    sources = spec.get("sources", {})
    source = sources.get(f"options.{option}") or sources.get("options")
    return PitbError(f"{f'{source}: ' if source else ''}run {spec['id']}: {message}")


def _record(
    spec: Spec, model: nn.Module, optimizer: torch.optim.Optimizer, recorder: trace.Recorder
) -> None:
    x, y = batch()
    named = dict(model.named_parameters())
    recorder.add(0, "input", x.numpy(), "float32", "x")
    recorder.add(0, "input", y.numpy(), "int64", "y")
    _add_all(recorder, 0, "param", named)
    for step in range(1, spec["steps"] + 1):
        evaluate = _Evaluation(spec, model, recorder, step, x, y)
        # Most optimizers evaluate once; L-BFGS does so as often as it wants to.
        optimizer.step(evaluate)
        recorder.add(step, "lr", float(optimizer.param_groups[0]["lr"]), "float64")
        _add_all(recorder, step, "param", named)
        _add_states(recorder, step, named, optimizer)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(x), y)
    recorder.add(spec["steps"] + 1, "loss", loss.item(), "float32")


@dataclass
class _Evaluation:
    """Forward, backward and clipping at one step; the first one is recorded."""

    spec: Spec
    model: nn.Module
    recorder: trace.Recorder
    step: int
    x: torch.Tensor
    y: torch.Tensor
    first: bool = True

    def __call__(self) -> torch.Tensor:
        self.model.zero_grad()
        recorder, step = self.recorder if self.first else trace.Recorder(), self.step
        self.first = False
        named = dict(self.model.named_parameters())
        logits = self.model(self.x)
        loss = nn.functional.cross_entropy(logits, self.y)
        recorder.add(step, "logits", logits.detach().numpy(), "float32")
        recorder.add(step, "loss", loss.item(), "float32")
        loss.backward()
        gradients = {name: p.grad for name, p in named.items() if p.grad is not None}
        _add_all(recorder, step, "grad", gradients)
        if self.spec.get("clip"):
            _clip(self.spec["clip"], named, step, recorder)
            _add_all(recorder, step, "clipped_grad", gradients)
        return loss


def _clip(
    clip: dict[str, Any], named: dict[str, nn.Parameter], step: int, recorder: trace.Recorder
) -> None:
    """Clip in place by ``torch.nn.utils.clip_grad_norm_``; record the norms it returns."""
    if clip["scope"] == "global":
        total = nn.utils.clip_grad_norm_(named.values(), clip["max_norm"])
        recorder.add(step, "grad_norm", total.item(), "float32")
        return
    for name, parameter in named.items():
        norm = nn.utils.clip_grad_norm_([parameter], clip["max_norm"])
        recorder.add(step, "grad_norm", norm.item(), "float32", name)


def _add_all(recorder: trace.Recorder, step: int, quantity: str, tensors: dict[str, Any]) -> None:
    for name, tensor in tensors.items():
        recorder.add(step, quantity, tensor.detach().numpy(), "float32", name)


def _add_states(
    recorder: trace.Recorder,
    step: int,
    named: dict[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
) -> None:
    """States sorted by name, so that both sides write them in one order."""
    states: dict[str, list[tuple[str, Any]]] = {}
    for name, parameter in named.items():
        for state, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, (torch.Tensor, int, float)) and not isinstance(value, bool):
                states.setdefault(state, []).append((name, value))
    for state, values in sorted(states.items()):
        for name, value in values:
            array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
            recorder.add(step, f"state.{state}", array, str(array.dtype), name)


def _metadata(spec: Spec, model: nn.Module, defaults: dict[str, Any]) -> dict[str, Any]:
    named = dict(model.named_parameters())
    options = {key: value for key, value in _plain(defaults).items() if key != "lr"}
    return {
        "schema": trace.SCHEMA_VERSION,
        "run": spec["id"],
        "side": "pytorch",
        "configuration": {
            "optimizer": spec["optimizer"],
            "options": options,
            "lr": spec["lr"],
            "steps": spec["steps"],
            "clip": spec.get("clip"),
            "initial_state": "float64",
        },
        "model": {
            "name": a1.NAME,
            "parameters": sum(parameter.numel() for parameter in named.values()),
            "tensors": [{"name": name, "shape": list(p.shape)} for name, p in named.items()],
        },
        "dtype": "float32",
        "threads": torch.get_num_threads(),
        "versions": {
            "pitb": pitb.__version__,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
            "target": f"{platform.machine()}-{platform.system().lower()}",
        },
    }


def _plain(value: Any) -> Any:
    """As JSON has it: tuples become lists, tensors numbers."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return value
