"""A run of the reference side, from its specification to its trace."""

import itertools
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import pitb
from pitb import trace
from pitb.problems import Problem, is_linear, problem
from pitb.reference import clipping, lbfgs, models
from pitb.reference.equations import Equations
from pitb.reference.optimizers import FUNCTIONS, GROUP_STEP, Scalars

Array = NDArray[Any]
Tensors = dict[str, Array]


@dataclass(frozen=True)
class Group:
    """Parameters with an optimizer, options, rate and clipping of their own."""

    optimizer: str
    """PyTorch's name."""
    options: dict[str, Any]
    """Every option, by PyTorch's names; burn's for what PyTorch lacks."""
    equations: Equations
    lr: float = 0.0
    parameters: tuple[str, ...] = ()
    """Empty: those that no other group has."""
    clip: dict[str, Any] | None = None
    """Clipping by the optimizer itself, of each tensor."""


@dataclass(frozen=True)
class Run:
    """What the reference trains."""

    name: str
    problem: str
    groups: tuple[Group, ...]
    """The first is for all parameters that no later one names; the last one wins."""
    steps: int = 10
    dtype: str = "float64"
    frozen: tuple[str, ...] = ()
    clip: dict[str, Any] | None = None
    """Clipping by the training loop."""
    rates: tuple[float, ...] = ()
    """The rate of each update, where a scheduler makes it; otherwise the groups' own."""
    accumulate: int = 1
    resume_step: int = 0
    """After how many updates the run is interrupted; 0 for never."""
    states: bool = True
    """Whether states are recorded."""
    library_dtype: str = ""
    """The dtype of the library's run that this one describes."""
    nudge: float = 0.0
    """By how much, relatively, every parameter is moved before and after each update, with signs
    that change from element to element: what roundings do, only larger."""
    phase: int = 0
    """Where the signs begin."""

    @property
    def equations(self) -> Equations:
        """The equations of the first group, which hold for what no group has of its own."""
        return self.groups[0].equations


@dataclass
class _Training:
    run: Run
    problem: Problem
    parameters: Tensors
    recorder: trace.Recorder
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    group_steps: dict[int, int] = field(default_factory=dict)
    lbfgs: dict[str, Any] = field(default_factory=dict)
    evaluations: int = 0
    loaded: bool = False
    """Whether L-BFGS goes on from a state that was loaded in another dtype."""
    came_apart: bool = False
    """Whether burn has put new tensors in the places of a tied one."""


def train(run: Run) -> trace.Trace:
    """Train ``run``; floating point exceptions are data, as on the other sides."""
    found = problem(run.problem)
    dtype = np.dtype(run.dtype)
    parameters = {name: value.astype(dtype) for name, value in found.parameters.items()}
    for second, first in found.tied:
        if run.equations.tied == "first-only":
            parameters[second] = parameters[first].copy()
    if found.tied and run.equations.tied == "first-only":
        parameters = _in_order(parameters, found)
    recorder = trace.Recorder() if found.chosen is None else _Recorder(found)
    training = _Training(run, found, parameters, recorder)
    error = None
    with np.errstate(all="ignore"):
        try:
            _record(training)
        except (ValueError, UnboundLocalError) as failure:
            error = f"{type(failure).__name__}: {failure}"
    metadata = _metadata(run, found)
    if error is not None:
        metadata["error"] = error
    return training.recorder.trace(metadata)


class _Recorder(trace.Recorder):
    """Records the chosen elements alone of parameters, and of what has as many elements as one."""

    def __init__(self, of: Problem) -> None:
        super().__init__()
        self._chosen = of.chosen or {}
        self._sizes = {name: value.size for name, value in of.parameters.items()}

    def add(
        self, step: int, quantity: str, values: ArrayLike, dtype: str, tensor: str = ""
    ) -> None:
        array = np.asarray(values)
        if array.size == self._sizes.get(tensor):
            array = array.reshape(-1)[self._chosen[tensor]]
        super().add(step, quantity, array, dtype, tensor)


def _nudge(training: _Training, step: int) -> None:
    if not training.run.nudge:
        return
    for name, value in training.parameters.items():
        # Thue and Morse's signs, which no oscillation of the run falls into step with.
        signs = _signs(step + training.run.phase, value.size)
        moved = value * (1.0 + training.run.nudge * signs.reshape(value.shape))
        training.parameters[name] = np.asarray(moved, dtype=value.dtype)


def _signs(start: int, size: int) -> Array:
    """1 where a number from ``start`` on has an even number of bits that are 1, else -1."""
    bits = np.arange(start, start + size, dtype=np.uint64)
    for shift in (32, 16, 8, 4, 2, 1):
        bits ^= bits >> np.uint64(shift)
    return 1.0 - 2.0 * (bits & np.uint64(1))


def _in_order(parameters: Tensors, found: Problem) -> Tensors:
    """With each second name right before the bias of its layer, as a ``state_dict`` has it."""
    order: list[str] = []
    seconds = {second for second, _ in found.tied}
    for name in found.parameters:
        layer = name.rpartition(".")[0]
        order += [
            second for second in seconds if second.startswith(f"{layer}.") and second not in order
        ]
        order.append(name)
    return {name: parameters[name] for name in order}


def _record(training: _Training) -> None:
    run, recorder = training.run, training.recorder
    for name, value in training.problem.inputs.items():
        dtype = "int64" if value.dtype == np.int64 else run.dtype
        recorder.add(0, "input", value, dtype, name)
    _nudge(training, 0)
    _add_all(training, 0, "param", _named(training))
    for step in range(1, run.steps + 1):
        if run.resume_step and step == run.resume_step + 1:
            _take_up(training)
        if run.groups[0].optimizer == "LBFGS":
            _step_lbfgs(training, step)
        else:
            _step(training, step)
        _nudge(training, step)
        _add_all(training, step, "param", _named(training))
        if run.states:
            _add_states(training, step)
    if training.problem.model != "prescribed":
        loss = models.evaluate(training.problem, training.parameters).loss
        recorder.add(run.steps + 1, "loss", loss, run.dtype)


_LOADED = "the loaded state is float32, and the gradients are float64"


def _take_up(training: _Training) -> None:
    """What becomes of the states when a run is taken up again."""
    if training.run.equations.resumed_state == "reset":
        training.states.clear()
        training.group_steps.clear()
        training.lbfgs.clear()
    if training.run.library_dtype != "float64":
        return
    # Fail where states come back in another dtype than the gradients have.
    tensors = [v for state in training.states.values() for v in state.values() if np.ndim(v)]
    if training.run.equations.resumed_dtype == "default":
        if tensors:
            raise ValueError(_LOADED)
        training.loaded = bool(training.lbfgs)
        training.lbfgs = {key: _narrowed(value) for key, value in training.lbfgs.items()}


def _narrowed(value: Any) -> Any:
    """A vector, or a list of them, rounded to float32; numbers stay as they are."""
    if isinstance(value, list):
        return [_narrowed(item) for item in value]
    return value.astype(np.float32).astype(np.float64) if np.ndim(value) else value


def _named(training: _Training) -> Tensors:
    """The parameters under all their names."""
    found = dict(training.parameters)
    missing = [pair for pair in training.problem.tied if pair[0] not in found]
    if not missing:
        return found
    for second, first in missing:
        found[second] = found[first]
    return _in_order(found, training.problem)


def _step(training: _Training, step: int) -> None:
    run = training.run
    gradients = _gradients(training, step)
    if run.clip is not None:
        whole = _whole_norms(training, step)
        gradients, norms = clipping.clip(gradients, run.clip, run.equations, whole)
        for name, value in norms.items():
            training.recorder.add(step, "grad_norm", value, run.dtype, name)
        _add_all(training, step, "clipped_grad", gradients)
    limit = run.groups[0].options.get("max_grad_norm")
    if limit is not None:  # timm's LAMB clips by itself, and adds nothing to the denominator
        gradients = clipping.within_norm(gradients, limit)
    members = {name: _group_of(run, name) for name in training.parameters}
    for index in dict.fromkeys(members.values()):
        training.group_steps[index] = training.group_steps.get(index, 0) + 1
    gradients = _own_clipping(training, step, gradients, members)
    for name, parameter in training.parameters.items():
        group = run.groups[members[name]]
        eq = group.equations
        if name in run.frozen and eq.frozen == "kept":
            continue
        if name in dict(training.problem.tied) and eq.tied == "first-only":
            continue
        gradient = gradients.get(name)
        if gradient is None:
            if eq.absent_gradient == "skipped":
                continue
            gradient = np.zeros_like(parameter)
        if eq.gradient_layout == "transposed" and gradient.ndim == 2:
            square = gradient.shape[0] == gradient.shape[1]
            gradient = gradient.T if square else gradient.T.reshape(gradient.shape)
        if group.options.get("maximize", False):
            gradient = -gradient
        state = training.states.setdefault(name, {})
        state[GROUP_STEP] = training.group_steps[members[name]]
        scalars = Scalars(group.options, eq, transposed=is_linear(name))
        function = FUNCTIONS[group.optimizer]
        rate = _rate(run, group, step)
        updated = function(parameter, gradient, state, rate, scalars, eq)
        del state[GROUP_STEP]
        training.parameters[name] = np.asarray(updated, dtype=parameter.dtype)
    training.recorder.add(step, "lr", _rate(run, run.groups[0], step), "float64")


def _own_clipping(
    training: _Training, step: int, gradients: Tensors, members: dict[str, int]
) -> Tensors:
    """The gradients as the optimizers' own clipping leaves them."""
    for index, group in enumerate(training.run.groups):
        if group.clip is not None and _clips(group, step):
            mine = {name: g for name, g in gradients.items() if members[name] == index}
            whole = _whole_norms(training, step)
            gradients = gradients | clipping.own_clip(mine, group.clip, group.equations, whole)
    return gradients


def _whole_norms(training: _Training, step: int) -> clipping.Norms | None:
    norms = training.problem.norms
    return None if norms is None else lambda name, p: norms(step, name, p)


def _clips(group: Group, step: int) -> bool:
    """Whether an optimizer's own clipping is on at ``step``."""
    if group.clip is None:
        return False
    first = group.clip.get("first_step", 1)
    return step >= first and (first == 1 or group.equations.late_clipping == "heard")


def _group_of(run: Run, name: str) -> int:
    named = [i for i, group in enumerate(run.groups) if name in group.parameters]
    return named[-1] if named else 0


def _rate(run: Run, group: Group, step: int) -> float:
    if not run.rates:
        return group.lr
    shift = {"on-time": 0, "late": -1, "early": 1}[group.equations.rate]
    return run.rates[min(max(step - 1 + shift, 0), len(run.rates) - 1)]


def _gradients(training: _Training, step: int) -> Tensors:
    """The gradients of an update; loss, logits and they are recorded."""
    run, found = training.run, training.problem
    if found.model == "prescribed":
        dtype = np.dtype(run.dtype)
        gradients = {name: value.astype(dtype) for name, value in found.gradient(step).items()}
    else:
        evaluation = _evaluate(training, training.parameters)
        if evaluation.logits is not None:
            training.recorder.add(step, "logits", evaluation.logits, run.dtype)
        training.recorder.add(step, "loss", evaluation.loss, run.dtype)
        gradients = evaluation.gradients
    if found.tied and run.equations.tied == "first-only":
        shared = _shared(training, gradients, still_one=step == 1)
        gradients = {name: g for name, g in shared.items() if name not in dict(found.tied)}
    if run.frozen and run.equations.frozen == "kept":
        gradients = {name: value for name, value in gradients.items() if name not in run.frozen}
    _add_all(training, step, "grad", gradients)
    return gradients


def _shared(training: _Training, gradients: Tensors, still_one: bool) -> Tensors:
    """The gradients of tensors under two names as burn finds them.

    There is one id for two parameters, and the gradient that was registered last is the one that
    is found. Before the first update they are still one tensor.
    """
    for second, first in training.problem.tied:
        shared = gradients[first] + gradients[second] if still_one else gradients[second]
        gradients = {**gradients, first: shared, second: shared}
    return gradients


def _evaluate(training: _Training, parameters: Tensors) -> models.Evaluation:
    """The loss over the batch, cut into micro-batches where the run accumulates."""
    run, found = training.run, training.problem
    if run.accumulate == 1:
        return models.evaluate(found, parameters)
    parts = []
    for part in range(run.accumulate):
        rows = len(found.inputs["y"]) // run.accumulate
        cut = {name: value[part * rows : (part + 1) * rows] for name, value in found.inputs.items()}
        parts.append(models.evaluate(_with_inputs(found, cut), parameters))
    share = 1.0 if run.equations.accumulation == "sum" else 1.0 / run.accumulate
    counted = parts[-1:] if run.equations.accumulation == "last" else parts
    return models.Evaluation(
        loss=sum(part.loss for part in parts) / run.accumulate,
        gradients={
            name: np.asarray(sum(part.gradients[name] * share for part in counted))
            for name in parts[0].gradients
        },
        logits=np.concatenate([part.logits for part in parts if part.logits is not None]),
    )


def _with_inputs(found: Problem, inputs: Tensors) -> Problem:
    return Problem(found.name, found.model, found.parameters, inputs)


def _step_lbfgs(training: _Training, step: int) -> None:
    """All parameters that are trained, as one vector."""
    run, group = training.run, training.run.groups[0]
    # burn flattens all parameters, also those that are not trained.
    whole = bool(run.frozen) and group.equations.flat_gradient == "left-out"
    names = [name for name in training.parameters if whole or name not in run.frozen]
    shapes = [training.parameters[name].shape for name in names]
    first = True
    ends = [*itertools.accumulate(math.prod(shape) for shape in shapes)]
    inner = ends[:-1]
    spans = [slice(i, j) for i, j in zip([0, *inner], [*inner, None], strict=True)]
    dtype = np.dtype(run.dtype)

    def split(x: Array) -> Tensors:
        return {
            name: x[span].reshape(shape).astype(dtype)
            for name, span, shape in zip(names, spans, shapes, strict=True)
        }

    def joined(tensors: Tensors) -> Array:
        found = [
            tensors[name] if name in tensors else np.zeros_like(training.parameters[name])
            for name in names
        ]
        return np.concatenate([tensor.reshape(-1) for tensor in found])

    def evaluate(x: Array) -> tuple[float, Array]:
        nonlocal first
        training.evaluations += 1
        if run.nudge:
            x = x * (1.0 + run.nudge * _signs(training.evaluations + run.phase, x.size))
        evaluation = _evaluate(training, training.parameters | split(x))
        gradients = evaluation.gradients
        if training.problem.tied and run.equations.tied == "first-only":
            gradients = _shared(training, gradients, still_one=first and not training.came_apart)
        gradients = {
            name: gradients[name] for name in names if name in gradients and name not in run.frozen
        }
        if first:
            if evaluation.logits is not None:
                training.recorder.add(step, "logits", evaluation.logits, run.dtype)
            training.recorder.add(step, "loss", evaluation.loss, run.dtype)
            _add_all(training, step, "grad", gradients)
        if run.clip is not None:
            gradients, _ = clipping.clip(gradients, run.clip, run.equations)
        first = False
        # It is where a step is taken that they do not fit.
        fits = len(gradients) == len(names) or training.evaluations == before + 1
        if group.equations.flat_gradient == "left-out" and not fits:
            absent = ", ".join(name for name in names if name not in gradients)
            raise ValueError(f"the flat gradient lacks {absent} and does not fit the parameters")
        sign = -1.0 if group.options.get("maximize", False) else 1.0
        return sign * float(evaluation.loss), sign * joined(gradients)

    options = {key: value for key, value in group.options.items() if key not in ("maximize", "lr")}
    before, iterations = training.evaluations, training.lbfgs.get("n_iter", 0)
    x = lbfgs.step(
        joined({name: training.parameters[name] for name in names}),
        evaluate,
        training.lbfgs,
        lr=_rate(run, group, step),
        choices=group.equations.lbfgs,
        **options,
    )
    if training.loaded and training.lbfgs.get("n_iter", 0) > iterations:
        raise ValueError(_LOADED)  # it is not looked at where the gradient is small enough
    if run.states:
        _add_lbfgs_states(training, step, split, training.evaluations - before)
    training.parameters |= split(x)
    training.came_apart |= training.evaluations > before + 1
    training.recorder.add(step, "lr", _rate(run, group, step), "float64")


def _add_all(training: _Training, step: int, quantity: str, tensors: Tensors) -> None:
    for name, value in tensors.items():
        training.recorder.add(step, quantity, value, training.run.dtype, name)


def _add_states(training: _Training, step: int) -> None:
    found: dict[str, dict[str, Any]] = {}
    seconds = dict(training.problem.tied)
    for name in _named(training):
        kept = name if name in training.parameters else seconds[name]
        for state, value in training.states.get(kept, {}).items():
            found.setdefault(state, {})[name] = value
    for state, values in sorted(found.items()):
        for name, value in values.items():
            dtype = "int64" if state == "step" else training.run.dtype
            training.recorder.add(step, f"state.{state}", value, dtype, name)


def _add_lbfgs_states(
    training: _Training, step: int, split: Callable[[Array], Tensors], evaluations: int
) -> None:
    """The one state of all parameters: vectors cut into tensors; of the history its length and the
    newest pair.
    """
    numbers: dict[str, Any] = {"evaluations": evaluations}
    vectors: dict[str, Array] = {}
    for name, value in training.lbfgs.items():
        if name in ("old_dirs", "old_stps") and value is not None:
            numbers[f"{name}.len"] = len(value)
            vectors |= {name: value[-1]} if value else {}
        elif name != "ro" and value is not None:
            (vectors if np.ndim(value) else numbers)[name] = value
    for name in sorted(numbers | vectors):
        tensors = split(vectors[name]) if name in vectors else {"": numbers[name]}
        for tensor, value in tensors.items():
            dtype = "int64" if isinstance(value, int) else training.run.dtype
            training.recorder.add(step, f"state.{name}", value, dtype, tensor)


def _metadata(run: Run, found: Problem) -> dict[str, Any]:
    return {
        "schema": trace.SCHEMA_VERSION,
        "run": f"reference/{run.name}",
        "side": "reference",
        "configuration": {
            "optimizer": run.groups[0].optimizer,
            "options": run.groups[0].options,
            "lr": run.groups[0].lr,
            "steps": run.steps,
            "clip": run.clip,
            "initial_state": "float64",
        },
        "model": found.described(),
        "dtype": run.dtype,
        "versions": {
            "pitb": pitb.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "target": f"{platform.machine()}-{platform.system().lower()}",
        },
    }
