"""The PyTorch side: a run from its specification to its trace, and the evidence of the pages."""

import inspect
import platform
from collections.abc import Callable
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

    All optimizers are constructed once before the first run is trained, so that a mistake in
    the last specification does not cost the time of the others. ``after`` is told of each run
    before its trace is written.

    Raises:
        PitbError: A specification asks for what PyTorch does not have.
    """
    for spec in specs:
        _optimizer(spec, [nn.Parameter(torch.zeros(1))])
    for spec in specs:
        recorded = train(spec)
        if recorded.error is not None:
            print(f"{spec['id']}: ended early: {recorded.error}", flush=True)
        if after is not None:
            after(spec, recorded)
        trace.write(recorded, traces / f"{spec['id']}.parquet")


def train(spec: Spec) -> trace.Trace:
    """Train one run. An exception of PyTorch's ends the run and stands in the metadata."""
    recorder = trace.Recorder()
    model = mlp()
    optimizer = _optimizer(spec, model.parameters())
    metadata = _metadata(spec, model, optimizer)
    try:
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


def _optimizer(spec: Spec, parameters: Any) -> torch.optim.Optimizer:
    where = f"{spec['source']}: run {spec['id']}" if "source" in spec else f"run {spec['id']}"
    name = spec["optimizer"]
    constructor = getattr(torch.optim, name, None)
    known = isinstance(constructor, type) and issubclass(constructor, torch.optim.Optimizer)
    if not known or constructor is None:
        near = nearest(name, [n for n in dir(torch.optim) if n[0].isupper()])
        raise PitbError(f"{where}: torch.optim has no optimizer {name!r}; nearest: {near!r}")
    options = spec.get("options", {})
    known_options = list(inspect.signature(constructor).parameters)[1:]
    for key in options:
        if key not in known_options or key == "lr":
            near = nearest(key, [option for option in known_options if option != "lr"])
            raise PitbError(f"{where}: torch.optim.{name} has no option {key!r}; nearest: {near!r}")
    try:
        optimizer = constructor(parameters, lr=spec["lr"], **options)
    except (TypeError, ValueError) as error:
        raise PitbError(f"{where}: torch.optim.{name} refuses its options: {error}") from None
    assert isinstance(optimizer, torch.optim.Optimizer)
    return optimizer


def _record(
    spec: Spec, model: nn.Module, optimizer: torch.optim.Optimizer, recorder: trace.Recorder
) -> None:
    x, y = batch()
    named = dict(model.named_parameters())
    recorder.add(0, "input", x.numpy(), "float32", "x")
    recorder.add(0, "input", y.numpy(), "int64", "y")
    _add_all(recorder, 0, "param", named)
    for step in range(1, spec["steps"] + 1):
        optimizer.zero_grad()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        recorder.add(step, "logits", logits.detach().numpy(), "float32")
        recorder.add(step, "loss", loss.item(), "float32")
        loss.backward()
        gradients = {name: p.grad for name, p in named.items() if p.grad is not None}
        _add_all(recorder, step, "grad", gradients)
        if spec.get("clip"):
            _clip(spec["clip"], named, step, recorder)
            _add_all(recorder, step, "clipped_grad", gradients)
        recorder.add(step, "lr", float(optimizer.param_groups[0]["lr"]), "float64")
        optimizer.step()
        _add_all(recorder, step, "param", named)
        _add_states(recorder, step, named, optimizer)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(x), y)
    recorder.add(spec["steps"] + 1, "loss", loss.item(), "float32")


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


def _metadata(spec: Spec, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    named = dict(model.named_parameters())
    options = {key: value for key, value in _plain(optimizer.defaults).items() if key != "lr"}
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
