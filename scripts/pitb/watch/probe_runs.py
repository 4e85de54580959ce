"""Runs by the small probes, where a version's API no longer compiles the project's programs.

A probe knows linear layers alone, and gradients that are prescribed or those of the cross entropy
of two layers; what a run asks for beyond that is refused, in words. It records no states.
"""

import math
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pitb
from pitb import a1, trace
from pitb.defaults import as_f32
from pitb.errors import PitbError
from pitb.files import read_json, write_json
from pitb.problems import Problem, is_linear, problem
from pitb.watch.calls import call

Spec = dict[str, Any]
Array = NDArray[Any]
MODELS = ("mlp", "prescribed")
BEYOND = {
    "clip": "clipping by the training loop",
    "groups": "groups of parameters",
    "scheduler": "a schedule",
    "resume": "a run that is taken up again",
    "save": "a run that is interrupted",
}
"""Keys of a run that no probe knows, in words."""
LIMIT = 300
"""Seconds that a probe may take for all runs of an optimizer."""


class Refused(PitbError):
    """A version does not do a run: it lacks what the run asks for, or a probe fails at it."""


def options(defaults: Mapping[str, Any], spec: Spec, config: str) -> dict[str, Any]:
    """Every field of burn's configuration, those of the run merged into the version's defaults.

    Args:
        defaults: By configuration ``fields``, as the version prints them.
        spec: The run.
        config: Name of the configuration.

    Raises:
        Refused: The version has no such field.
    """
    return _merged(defaults, defaults[config]["fields"], spec["options"], config)


def _merged(
    defaults: Mapping[str, Any], into: Mapping[str, Any], given: Mapping[str, Any], where: str
) -> dict[str, Any]:
    found = dict(into)
    for name, value in given.items():
        if name not in found:
            raise Refused(f"this version's {where} has no field {name}")
        own = found[name]
        if own is None and name == "momentum" and isinstance(value, Mapping):
            if "MomentumConfig" not in defaults:
                raise Refused(f"nothing prints this version's fields of {where}.{name}")
            own = defaults["MomentumConfig"]["fields"]  # which null hides
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            value = _merged(defaults, own, value, f"{where}.{name}")
        found[name] = value
    return found


def kept(asked: Any, read: Any) -> bool:
    """Whether burn read what it was asked for; numbers as f32, which most of its fields are."""
    if isinstance(asked, Mapping):
        return isinstance(read, Mapping) and all(
            name in read and kept(value, read[name]) for name, value in asked.items()
        )
    if isinstance(asked, (list, tuple)):
        return isinstance(read, list) and len(asked) == len(read) and all(map(kept, asked, read))
    if isinstance(asked, bool) or isinstance(read, bool) or asked is None or read is None:
        return bool(asked == read)
    if isinstance(asked, (int, float)) and isinstance(read, (int, float)):
        return asked == read or as_f32(float(asked)) == as_f32(float(read)) != 0
    return bool(asked == read)


def of(spec: Spec) -> Problem:
    """The problem of a run, its inputs and biases computed in f32 where the run says so."""
    found = problem(spec.get("problem", a1.NAME))
    if spec.get("initial_state", "float64") == "float64":
        return found
    if found.name != a1.NAME:
        raise PitbError("no probe computes the initial state of another problem than a1 in f32")
    return Problem(
        found.name, found.model, _biases_in_f32(found.parameters), _inputs_in_f32(found.inputs)
    )


def _inputs_in_f32(inputs: Mapping[str, Array]) -> dict[str, Array]:
    x = inputs["x"]
    places = np.arange(x.size, dtype=np.float32)
    values = np.float32(0.1) * places - np.float32(0.5)
    return {**inputs, "x": values.astype(np.float64).reshape(x.shape)}


def _biases_in_f32(parameters: Mapping[str, Array]) -> dict[str, Array]:
    found = dict(parameters)
    for name, step in (("fc1.bias", 0.01), ("fc2.bias", -0.02)):
        places = np.arange(found[name].size, dtype=np.float32)
        found[name] = (np.float32(step) * places).astype(np.float64)
    return found


def request(spec: Spec, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A run as a probe reads it: layers in burn's layout, no names.

    Args:
        spec: The run, as burn's programs read it.
        asked: Every field of the configuration.

    Raises:
        PitbError: No probe knows what it asks for.
    """
    for key, what in BEYOND.items():
        if spec.get(key):
            raise PitbError(f"no probe knows {what}")
    if spec.get("clipping_by", "builder") not in ("builder", "config"):
        raise PitbError("a probe clips as the configuration does, in no other way")
    if spec.get("accumulate", 1) != 1 or not spec.get("observe", True):
        raise PitbError("no probe accumulates gradients or leaves updates unobserved")
    found = of(spec)
    if found.model not in MODELS or found.tied:
        raise PitbError(f"no probe knows the model of the problem {found.name}")
    layers = layers_of(found)
    made: dict[str, Any] = {
        "id": spec["id"],
        "options": asked,
        "lr": spec["lr"],
        "steps": spec["steps"],
        "dtype": spec.get("dtype", "float32"),
        "layers": [_layer(found, name) for name in layers],
        "frozen": [
            [f"{name}.{kind}" in spec.get("frozen", ()) for kind in KINDS] for name in layers
        ],
        "gradients": None,
    }
    if found.model == "prescribed":
        made["gradients"] = [
            [[_stored(f"{name}.{kind}", step.get(f"{name}.{kind}")) for kind in KINDS]
             for name in layers]
            for step in found.gradients
        ]  # fmt: skip
    else:
        x, y = found.inputs["x"], found.inputs["y"]
        made |= {"rows": len(y), "x": _numbers(x), "y": y.tolist()}
    return made


KINDS = ("weight", "bias")


def layers_of(found: Problem) -> list[str]:
    """The names of a problem's layers.

    Raises:
        PitbError: It has a tensor that is none of a linear layer.
    """
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in found.parameters))
    for name in layers:
        tensors = {key for key in found.parameters if key.rpartition(".")[0] == name}
        if tensors != {f"{name}.{kind}" for kind in KINDS} or not is_linear(f"{name}.weight"):
            raise PitbError(f"no probe knows the tensors of the problem {found.name}")
    return layers


def _layer(found: Problem, name: str) -> dict[str, Any]:
    weight, bias = (found.parameters[f"{name}.{kind}"] for kind in KINDS)
    return {
        "inputs": weight.shape[1],
        "outputs": weight.shape[0],
        "weight": _numbers(weight.T),
        "bias": _numbers(bias),
    }


def _stored(name: str, value: Array | None) -> list[Any] | None:
    if value is None:
        return None
    return _numbers(value.T if name.endswith(".weight") else value)


def _numbers(values: Array) -> list[Any]:
    """Flat; what JSON has no number for is text that Rust reads."""
    flat = [float(value) for value in np.asarray(values, dtype=np.float64).reshape(-1)]
    return [value if math.isfinite(value) else str(value) for value in flat]


def run(program: Path, requests: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a probe makes of runs, by their ids.

    Raises:
        Refused: It complains or leaves nothing.
        PitbError: It cannot be started, or the machine ended it.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "runs.json", Path(folder) / "outcome.json"
        write_json(asked, {"runs": list(requests)}, indent=None)
        ended = call([program.resolve(), asked, answered], LIMIT)
        if ended.code != 0 or not answered.is_file():
            said = (ended.complained.strip().splitlines() or ["it says nothing"])[-1]
            raise Refused(f"{program.name} ended with code {ended.code}: {said}")
        return {item["id"]: item for item in read_json(answered)["runs"]}


def as_trace(
    spec: Spec, asked: Mapping[str, Any], answer: Mapping[str, Any], version: str
) -> trace.Trace:
    """The trace of a run, as the project's programs would have written it, without states.

    Raises:
        Refused: The version read other options than it was asked for.
    """
    found = of(spec)
    dtype = spec.get("dtype", "float32")
    steps = list(answer["steps"])
    if steps and not kept(asked, steps[0]):
        raise Refused(f"burn {version} reads {steps[0]} where it was asked for {dict(asked)}")
    recorder = trace.Recorder()
    for name, value in found.inputs.items():
        kind = "int64" if value.dtype == np.int64 else dtype
        recorder.add(0, "input", value, kind, name)
    for name, value in found.parameters.items():
        recorder.add(0, "param", value, dtype, name)
    for number, seen in enumerate(steps[1:], start=1):
        if "logits" in seen:
            classes = len(found.parameters[f"{layers_of(found)[1]}.bias"])
            logits = _floats(seen["logits"]).reshape(-1, classes)
            recorder.add(number, "logits", logits, dtype)
            recorder.add(number, "loss", _floats(seen["loss"])[0], dtype)
        for quantity, key in (("grad", "grads"), ("param", "params")):
            for name, value in _tensors(found, seen.get(key) or []):
                recorder.add(number, quantity, value, dtype, name)
    if answer["last"] is not None:
        recorder.add(spec["steps"] + 1, "loss", _floats(answer["last"])[0], dtype)
    metadata: dict[str, Any] = {
        "schema": trace.SCHEMA_VERSION,
        "run": spec["id"],
        "side": "burn",
        "configuration": {
            "optimizer": spec["optimizer"],
            "options": dict(asked),
            "lr": spec["lr"],
            "steps": spec["steps"],
            "clip": None,
            "initial_state": spec.get("initial_state", "float64"),
        },
        "model": found.described(),
        "dtype": dtype,
        "versions": {"pitb": pitb.__version__, "burn": version, "program": "probe"},
    }
    if answer["error"] is not None:
        metadata["error"] = answer["error"]
    return recorder.trace(metadata)


def _tensors(found: Problem, layers: list[Any]) -> Iterable[tuple[str, Array]]:
    """Names and values in PyTorch's layout; a tensor without a gradient is left out."""
    for name, values in zip(layers_of(found), layers, strict=False):
        for kind, value in zip(KINDS, values, strict=True):
            tensor = f"{name}.{kind}"
            if value is None:
                continue
            shape = found.parameters[tensor].shape
            array = _floats(value)
            yield tensor, array.reshape(shape[::-1]).T if kind == "weight" else array


def _floats(values: Iterable[Any]) -> Array:
    return np.array([float(value) for value in values], dtype=np.float64)
