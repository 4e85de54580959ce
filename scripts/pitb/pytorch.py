"""The PyTorch side: a run from its specification to its trace, and the evidence of the pages."""

import inspect
import math
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

import pitb
from pitb import a1, torch_checkpoint, trace
from pitb.errors import PitbError, nearest
from pitb.problems import Problem, problem
from pitb.recordable import states
from pitb.registry import optimizers, plain, published_optimizers
from pitb.torch_models import Evaluation, Model

Spec = dict[str, Any]
MAX_STEPS = 2**31 - 2
"""A trace counts steps in int32, and has one more for the loss of the trained model."""
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def train_all(
    specs: list[Spec],
    traces: Path,
    after: Callable[[Spec, trace.Trace], None] | None = None,
) -> None:
    """Train each of ``specs`` and write its trace to ``<traces>/<id>.parquet``.

    All are checked before the first is trained, so that a mistake in the last one does not cost
    the time of the others; also what they resume from, unless an earlier one of them saves it.
    ``after`` is told of each run once its trace is written.

    Raises:
        PitbError: A specification asks for what PyTorch does not have, is there twice, or resumes
            from what is no checkpoint of its run.
    """
    seen: set[str] = set()
    saved: set[str] = set()
    for spec in specs:
        check(spec)
        if spec["id"] in seen:
            raise PitbError(f"run {spec['id']} is listed twice")
        seen.add(spec["id"])
        if spec.get("resume") is not None and str(spec["resume"]) not in saved:
            _check_resumed(spec)
        saved.add(str(spec.get("save")))
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
        PitbError: The specification asks for what PyTorch does not have, or what it resumes from
            or saves cannot be read or written.
    """
    defaults = check(spec)
    training = _training(spec)
    metadata = _metadata(spec, training.model, defaults)
    try:
        training.start()
        training.record()
    except PitbError:
        raise
    except Exception as error:  # whatever PyTorch raises is a result, not a fault of ours
        first = (str(error).splitlines() or [""])[0]
        metadata["error"] = f"{type(error).__name__}: {first}"
    return training.recorder.trace(metadata)


def _training(spec: Spec) -> "_Training":
    dtype = DTYPES[spec.get("dtype", "float32")]
    return _Training(spec, Model(problem(spec.get("problem", a1.NAME)), dtype))


def _check_resumed(spec: Spec) -> None:
    """Take a run up, to see whether it can be.

    Raises:
        PitbError: It cannot; names the file.
    """
    try:
        _training(spec).start()
    except PitbError:
        raise
    except Exception:  # what PyTorch raises will be the outcome of the run
        return


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
    """``opt.defaults`` of every optimizer of the pages, constructed with nothing set."""
    found = {}
    for entry in published_optimizers():
        constructor = getattr(torch.optim, entry.pytorch)
        found[entry.pytorch] = plain(constructor([nn.Parameter(torch.zeros(1))]).defaults)
    return found


@cache
def center_product() -> str:
    """Whether ``addcmul``, with which RMSprop centers, rounds the product before it adds it here.

    Returns:
        A value of :attr:`~pitb.reference.equations.Equations.center_product`.

    Raises:
        PitbError: It does so for some sizes of tensors, for which there is no description.
    """
    fused = set()
    for size in (1, 3, 15, 64):
        root = torch.full((size,), 2e19)  # whose square is beyond float32
        sums = torch.addcmul(torch.full((size,), 1e38), root, root, value=-1)
        fused |= set(torch.isfinite(sums).tolist())
    if len(fused) > 1:
        raise PitbError("addcmul rounds the product of some elements and not of others here")
    return "wide" if fused == {True} else "dtype"


def check(spec: Spec) -> dict[str, Any]:
    """Check what a run asks for; return the optimizer's ``opt.defaults`` with its options set.

    Raises:
        PitbError: The optimizer or an option is unknown, or a value is not of the option's type
            or range; names the line, where the run has one.
    """
    if not re.fullmatch(r"pytorch/[A-Za-z0-9_-]+", str(spec["id"])):  # it becomes a file's name
        message = f"run id {spec['id']!r} is not of the form pytorch/<name>"
        raise PitbError(f"{message}, of letters, digits, - and _")
    if not math.isfinite(spec["lr"]) or spec["steps"] < 1:
        raise _error(spec, "", f"lr {spec['lr']} and steps {spec['steps']} must be finite and 1 up")
    if spec["steps"] > MAX_STEPS:
        raise _error(spec, "", f"steps is {spec['steps']}; it must be {MAX_STEPS} or less")
    if spec.get("dtype", "float32") not in DTYPES:
        raise _error(spec, "", f"dtype {spec['dtype']!r} is none of {', '.join(DTYPES)}")
    _check_keys(spec)
    found = problem(spec.get("problem", a1.NAME))
    _check_loop(spec, found)
    named = found.tensors
    groups = spec.get("groups", [])
    for name in [*spec.get("frozen", []), *(n for group in groups for n in group["parameters"])]:
        if name not in named:
            message = f"{found.name} has no parameter {name!r}; nearest: {nearest(name, named)!r}"
            raise _error(spec, "", message)
    for group in groups:
        _checked_options(spec, group["optimizer"], group.get("options") or {}, group["lr"])
    resolved = _checked_options(spec, spec["optimizer"], spec.get("options") or {}, spec["lr"])
    for name in (spec["optimizer"], *(group["optimizer"] for group in groups)):
        if found.model == "prescribed" and _needs_loss(_constructor(spec, name)[0]):
            raise _error(spec, "", f"{name} needs a loss, and a prescribed model has none")
    return resolved


KEYS = frozenset(
    {
        *("id", "program", "sources", "optimizer", "options", "lr", "steps", "problem", "dtype"),
        *("frozen", "groups", "clip", "accumulate", "scheduler", "observe"),
        *("save", "resume", "resume_step", "initial_state"),
    }
)
"""What a run can say."""
GROUP_KEYS = frozenset({"parameters", "optimizer", "options", "lr"})
CLIPS: dict[str, set[str]] = {
    "global": {"scope", "max_norm", "norm_type", "error_if_nonfinite", "first_step"},
    "per-parameter": {"scope", "max_norm", "norm_type", "error_if_nonfinite", "first_step"},
    "value": {"scope", "clip_value", "first_step"},
}
"""What clipping can say, by its scope."""


def _check_keys(spec: Spec) -> None:
    """Every key is known; what is not would be dropped."""
    for keys, allowed, of in (
        (spec, KEYS, "a run"),
        *((group, GROUP_KEYS, "a group") for group in spec.get("groups") or ()),
    ):
        for key in keys:
            if key not in allowed:
                near = nearest(key, sorted(allowed))
                raise _error(spec, "", f"{of} has no key {key!r}; nearest: {near!r}")
    for group in spec.get("groups") or ():
        for key in ("parameters", "optimizer", "lr"):
            if key not in group:
                raise _error(spec, "", f"a group lacks the key {key!r}")
    clip = spec.get("clip")
    if not clip:
        return
    if clip.get("scope") not in CLIPS:
        near = nearest(str(clip.get("scope")), list(CLIPS))
        raise _error(spec, "", f"clip has no scope {clip.get('scope')!r}; nearest: {near!r}")
    wanted = CLIPS[clip["scope"]]
    for key in clip:
        if key not in wanted:
            near = nearest(key, sorted(wanted))
            message = f"clip of scope {clip['scope']} has no key {key!r}; nearest: {near!r}"
            raise _error(spec, "", message)
    limit = "clip_value" if clip["scope"] == "value" else "max_norm"
    for key, value in ((limit, clip.get(limit)), ("norm_type", clip.get("norm_type", 2.0))):
        if not _is_positive(value):
            raise _error(spec, "", f"{key} of clip is {value!r}, not a number above 0")


def _is_positive(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and float(value) > 0
    except (TypeError, ValueError):
        return False


def _check_loop(spec: Spec, found: Problem) -> None:
    """What the training loop is asked for can be done on the problem."""
    parts = spec.get("accumulate", 1)
    rows = len(found.inputs["y"]) if "y" in found.inputs else 1
    if not isinstance(parts, int) or parts < 1 or rows % parts:
        raise _error(spec, "", f"accumulate is {parts!r}, which does not divide {rows} rows")
    step = spec.get("resume_step")
    if (spec.get("resume") is None) != (step is None):
        raise _error(spec, "", "resume and resume_step are given together or not at all")
    if step is not None and not 0 < step < spec["steps"]:
        raise _error(spec, "", f"resume_step is {step}, not between 0 and {spec['steps']} steps")


def _checked_options(spec: Spec, name: Any, options: dict[str, Any], lr: float) -> dict[str, Any]:
    constructor, shown = _constructor(spec, name)
    signature = inspect.signature(constructor).parameters
    allowed = [option for option in list(signature)[1:] if option != "lr"]
    for key, value in options.items():
        if key not in allowed:
            near = nearest(key, allowed)
            message = f"{shown} has no option {key!r}; nearest: {near!r}"
            raise _error(spec, key, message)
        # PyTorch takes any object for true, also the word no.
        kinds = f"{signature[key].annotation} {type(signature[key].default).__name__}"
        if isinstance(value, bool) != ("bool" in kinds) and value is not None:
            kind = "true or false" if "bool" in kinds else "a number"
            raise _error(spec, key, f"{key} of {shown} is {value!r}, not {kind}")
        if isinstance(value, str) and "str" not in kinds:
            raise _error(spec, key, f"{key} of {shown} is {value!r}, not a number")
    try:
        # A matrix, which every optimizer takes.
        optimizer = constructor([nn.Parameter(torch.zeros(1, 1))], lr=lr, **options)
    except Exception as error:  # whatever a constructor raises of its arguments
        raise _error(spec, "", f"{shown} refuses its options: {error}") from None
    return dict(optimizer.defaults)


def _constructor(spec: Spec, name: Any) -> tuple[Any, str]:
    """The class of an optimizer, of torch.optim's or of where the list has it, and its name."""
    constructor = getattr(torch.optim, str(name), None)
    if isinstance(constructor, type) and issubclass(constructor, torch.optim.Optimizer):
        return constructor, f"torch.optim.{name}"
    for entry in optimizers():
        if entry.pytorch == name:
            return entry.constructor(), f"{entry.module}.{name}"
    known = [n for n in dir(torch.optim) if n[0].isupper()]
    near = nearest(str(name), [*known, *(entry.pytorch for entry in optimizers())])
    raise _error(spec, "", f"torch.optim has no optimizer {name!r}; nearest: {near!r}")


def _needs_loss(constructor: Any) -> bool:
    """Whether a step of the optimizer must be given a closure that computes the loss."""
    closure = inspect.signature(constructor.step).parameters["closure"]
    return closure.default is inspect.Parameter.empty


def _error(spec: Spec, option: str, message: str) -> PitbError:
    sources = spec.get("sources", {})
    source = sources.get(f"options.{option}") or sources.get("options")
    return PitbError(f"{f'{source}: ' if source else ''}run {spec['id']}: {message}")


@dataclass
class _Training:
    """A run in progress."""

    spec: Spec
    model: Model
    recorder: trace.Recorder = field(default_factory=trace.Recorder)
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    schedulers: list[Any] = field(default_factory=list)
    first_step: int = 1

    @property
    def problem(self) -> Problem:
        return self.model.problem

    def start(self) -> None:
        """Make the optimizers, one for each class of them, and load a state where one is given."""
        spec, named = self.spec, self.model.named()
        for name in spec.get("frozen", []):
            named[name].requires_grad_(False)
        classes: dict[Any, list[dict[str, Any]]] = {}
        owner = {
            name: index
            for index, group in enumerate(spec.get("groups", []))
            for name in group["parameters"]
        }
        unique = dict(self.model.named_parameters())
        for index, group in [(-1, spec), *enumerate(spec.get("groups", []))]:
            members = [
                parameter
                for name, parameter in unique.items()
                if owner.get(name, -1) == index and parameter.requires_grad
            ]
            constructor, _ = _constructor(spec, group["optimizer"])
            options = {"params": members, "lr": group["lr"], **(group.get("options") or {})}
            if members:
                classes.setdefault(constructor, []).append(options)
        self.optimizers = []
        for constructor, groups in classes.items():
            if len(groups) == 1:
                options = dict(groups[0])
                self.optimizers.append(constructor(options.pop("params"), **options))
            else:
                self.optimizers.append(constructor(groups))
        if spec.get("scheduler") is not None:
            from pitb import schedulers

            self.schedulers = [
                schedulers.pytorch_scheduler(spec["scheduler"], optimizer)
                for optimizer in self.optimizers
            ]
        if spec.get("resume") is not None:
            self._load(Path(spec["resume"]))

    def record(self) -> None:
        """Train to the end, and record every step."""
        spec, model = self.spec, self.model
        named = model.named()
        observed = spec.get("observe", True)
        for name, value in model.inputs.items() if self.first_step == 1 else ():
            self.recorder.add(0, "input", value.numpy(), _dtype(value), name)
        self._add_all(self.first_step - 1, "param", named)
        for step in range(self.first_step, spec["steps"] + 1):
            evaluate = _Evaluation(self, step, first=observed)
            if len(self.optimizers) == 1:
                # Most optimizers evaluate once; L-BFGS does so as often as it wants to.
                self.optimizers[0].step(evaluate)
            else:
                evaluate()
                for optimizer in self.optimizers:
                    optimizer.step()
            if observed:
                rate = float(self.optimizers[0].param_groups[0]["lr"])
                self.recorder.add(step, "lr", rate, "float64")
            for scheduler in self.schedulers:
                scheduler.step()
            if observed or step == spec["steps"]:
                self._add_all(step, "param", named)
            if observed:
                self._add_states(step, named, evaluate.count)
        if observed and self.problem.model != "prescribed":
            with torch.no_grad():
                loss = self.evaluate().loss
            self.recorder.add(spec["steps"] + 1, "loss", loss.item(), _dtype(loss))
        if spec.get("save") is not None:
            self._save(Path(spec["save"]))

    def evaluate(self) -> Evaluation:
        """Loss and logits over the batch, added up over micro-batches where the run has some;
        calls ``backward`` for each where gradients are on.
        """
        parts = self.spec.get("accumulate", 1)
        if parts == 1:
            found = self.model.evaluate()
            if torch.is_grad_enabled():
                found.loss.backward()
            return found
        rows = len(self.model.inputs["y"]) // parts
        losses, logits = [], []
        for part in range(parts):
            found = self.model.evaluate(part * rows, (part + 1) * rows)
            loss = found.loss / parts
            if torch.is_grad_enabled():
                loss.backward()
            losses.append(loss.detach())
            if found.logits is not None:
                logits.append(found.logits.detach())
        return Evaluation(torch.stack(losses).sum(), torch.cat(logits))

    def prescribe(self, step: int) -> None:
        """Set the gradients that the problem gives for an update."""
        given = self.problem.gradient(step)
        for name, parameter in self.model.named().items():
            if name in given and parameter.requires_grad:
                # A copy, since clipping works in place.
                parameter.grad = torch.tensor(given[name], dtype=parameter.dtype)

    def _add_all(self, step: int, quantity: str, tensors: dict[str, Any]) -> None:
        add_all(self.recorder, step, quantity, tensors)

    def _add_states(self, step: int, named: dict[str, nn.Parameter], evaluations: int) -> None:
        """States sorted by name, so that both sides write them in one order."""
        for state, name, value in states(named, self.optimizers):
            self.recorder.add(step, f"state.{state}", value.numpy(), _dtype(value), name)
        if isinstance(self.optimizers[0], torch.optim.LBFGS):
            self.recorder.add(step, "state.evaluations", evaluations, "int64")

    def _save(self, path: Path) -> None:
        try:
            torch_checkpoint.save(path, self._parts(), self.spec["steps"])
        except PitbError as error:
            raise _error(self.spec, "", str(error)) from None

    def _load(self, path: Path) -> None:
        step = self.spec["resume_step"]
        try:
            torch_checkpoint.load(path, self._parts(), step)
        except PitbError as error:
            raise _error(self.spec, "", str(error)) from None
        self.first_step = step + 1

    def _parts(self) -> torch_checkpoint.Parts:
        dtype = self.spec.get("dtype", "float32")
        return torch_checkpoint.Parts(self.model, dtype, self.optimizers, self.schedulers)


def add_all(recorder: trace.Recorder, step: int, quantity: str, tensors: dict[str, Any]) -> None:
    """Record tensors under their names."""
    for name, tensor in tensors.items():
        recorder.add(step, quantity, tensor.detach().numpy(), _dtype(tensor), name)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@dataclass
class _Evaluation:
    """Forward, backward and clipping at one step; the first one is recorded."""

    training: _Training
    step: int
    first: bool = True
    count: int = 0
    """Of evaluations so far."""

    def __call__(self) -> torch.Tensor:
        training, step = self.training, self.step
        self.count += 1
        training.model.zero_grad()
        recorder = training.recorder if self.first else trace.Recorder()
        self.first = False
        loss = torch.zeros(())
        if training.problem.model == "prescribed":
            training.prescribe(step)
        else:
            # An optimizer calls its closure with gradients on; by hand they are on anyway.
            with torch.enable_grad():
                found = training.evaluate()
            loss = found.loss
            if found.logits is not None:
                logits = found.logits.detach()
                recorder.add(step, "logits", logits.numpy(), _dtype(logits))
            recorder.add(step, "loss", loss.item(), _dtype(loss))
        unique = dict(training.model.named_parameters())
        gradients = {name: p.grad for name, p in unique.items() if p.grad is not None}
        add_all(recorder, step, "grad", gradients)
        clip = training.spec.get("clip")
        if clip and step >= clip.get("first_step", 1):
            _clip(clip, unique, step, recorder)
            add_all(recorder, step, "clipped_grad", gradients)
        return loss


def _clip(
    clip: dict[str, Any], named: dict[str, nn.Parameter], step: int, recorder: trace.Recorder
) -> None:
    """Clip in place by ``torch.nn.utils``; record the norms it returns."""
    if clip["scope"] == "value":
        nn.utils.clip_grad_value_(named.values(), clip["clip_value"])
        return
    options = {
        "norm_type": float(clip.get("norm_type", 2.0)),
        "error_if_nonfinite": clip.get("error_if_nonfinite", False),
    }
    if clip["scope"] == "global":
        total = nn.utils.clip_grad_norm_(named.values(), clip["max_norm"], **options)
        recorder.add(step, "grad_norm", total.item(), _dtype(total))
        return
    for name, parameter in named.items():
        norm = nn.utils.clip_grad_norm_([parameter], clip["max_norm"], **options)
        if parameter.grad is not None:
            recorder.add(step, "grad_norm", norm.item(), _dtype(norm), name)


def _metadata(spec: Spec, model: Model, defaults: dict[str, Any]) -> dict[str, Any]:
    named = model.named()
    options = {key: value for key, value in plain(defaults).items() if key != "lr"}
    added = ("frozen", "groups", "accumulate", "scheduler", "resume_step")
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
            **{key: spec[key] for key in added if spec.get(key)},
        },
        "model": {
            "name": model.problem.name,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "tensors": [{"name": name, "shape": list(p.shape)} for name, p in named.items()],
        },
        "dtype": spec.get("dtype", "float32"),
        "threads": torch.get_num_threads(),
        "versions": {
            "pitb": pitb.__version__,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
            "target": f"{platform.machine()}-{platform.system().lower()}",
        },
    }
