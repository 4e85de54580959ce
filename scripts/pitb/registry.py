"""The one list of optimizers, hyper-parameters and states, and of their names on both sides."""

import importlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from pitb import libraries
from pitb.errors import PitbError, nearest

Options = dict[str, Any]
IMPLEMENTATION = ("foreach", "fused", "capturable", "differentiable")
"""Options that choose how PyTorch computes a formula, not which: burn needs no counterpart."""


@dataclass(frozen=True)
class Hyperparameter:
    """One hyper-parameter under both names."""

    pytorch: str
    """PyTorch's name; ``betas[0]`` is the first of a tuple."""
    burn: str
    """Path into burn's configuration; dots reach into nested ones."""
    label: str
    off: float | None = None
    """The value that switches it off, as null does in burn; None where it has no such value."""
    when: str | None = None
    """The burn sub-configuration whose own defaults hold where that part is on."""
    needs: Mapping[str, Any] = field(default_factory=dict)
    """Values of other hyper-parameters at which a difference in its default shows."""
    values: Mapping[str, str] = field(default_factory=dict)
    """PyTorch's words for its values to burn's; the empty one stands for None."""

    @property
    def pytorch_name(self) -> str:
        """The option that holds it, ``betas`` of ``betas[0]``."""
        return self.pytorch.partition("[")[0]

    def of(self, options: Mapping[str, Any]) -> Any:
        """Its value in PyTorch's options."""
        value = options[self.pytorch_name]
        index = self.pytorch.partition("[")[2].rstrip("]")
        return value[int(index)] if index else value


@dataclass(frozen=True)
class Optimizer:
    """One optimizer under both names."""

    pytorch: str
    burn: str
    family: str
    hyperparameters: tuple[Hyperparameter, ...]
    pytorch_only: tuple[str, ...]
    """Options that burn has no counterpart of."""
    burn_only: tuple[str, ...]
    """Fields that PyTorch has no counterpart of."""
    state: Mapping[str, str]
    """PyTorch's state names to burn's."""
    state_vector: Mapping[str, str] = field(default_factory=dict)
    """The same for parameters of one dimension alone."""
    state_matrix: Mapping[str, str] = field(default_factory=dict)
    """For those of more dimensions that burn stores as PyTorch does."""
    state_transposed: Mapping[str, str] = field(default_factory=dict)
    """For matrices that burn stores transposed."""
    state_alone: tuple[str, ...] = ()
    """States that one side alone keeps, without the other lacking anything."""
    module: str = "torch.optim"
    """Where Python has it."""
    neutral: Mapping[str, Any] = field(default_factory=dict)
    """Values at which options of ``pytorch_only`` do nothing, where those are not the defaults."""
    published: bool = False
    """Whether the published page compares it."""
    matrices_only: bool = False
    """Whether it refuses parameters that are not matrices."""

    @property
    def burn_config(self) -> str:
        """Name of burn's configuration, ``RmsPropConfig``."""
        return f"{self.burn}Config"

    @property
    def key(self) -> str:
        """Its name in those of runs and files."""
        return self.pytorch.lower()

    def constructor(self) -> Any:
        """The class of the Python side; imports its module, which takes seconds."""
        return getattr(importlib.import_module(self.module), self.pytorch)

    def mapped(self) -> set[str]:
        """PyTorch's options that burn has a counterpart of."""
        return {item.pytorch_name for item in self.hyperparameters}

    def to_burn(self, options: Mapping[str, Any], left: Sequence[str] = ()) -> Options:
        """burn's options that mean the same as PyTorch's.

        Args:
            options: Every option of the optimizer, as ``opt.defaults`` has them.
            left: Hyper-parameters, by PyTorch's names, that are left at burn's defaults.

        Raises:
            PitbError: An option is unknown, or is set to what burn cannot do; names it.
        """
        known = (*self.mapped(), *self.pytorch_only, "lr")
        for name, value in options.items():
            if name not in known:
                near = nearest(name, list(known))
                raise PitbError(f"{self.pytorch} has no option {name!r}; nearest: {near!r}")
            if name in left or name not in self.pytorch_only:
                continue
            if not self._does_nothing(name, value):
                raise PitbError(f"burn's {self.burn} cannot do {name}={value!r}")
        names = [*(item.pytorch for item in self.hyperparameters), *self.pytorch_only]
        for name in left:
            if name not in names:
                near = nearest(name, names)
                raise PitbError(f"{self.pytorch} has no {name!r} to leave; nearest: {near!r}")
        found: Options = {}
        for item in self.hyperparameters:
            if item.pytorch not in left:
                _put(found, item, item.of(options), self)
        return found

    def beyond_burn(self, options: Mapping[str, Any]) -> Options:
        """Which of PyTorch's options are set to what burn cannot do, as they would be set in burn:
        by burn's name of a field where it has one.

        Args:
            options: Every option of the optimizer, as ``opt.defaults`` has them.
        """
        found: Options = {}
        for name, value in options.items():
            if name in self.pytorch_only and not self._does_nothing(name, value):
                found[name] = value
        for item in self.hyperparameters:
            value = item.of(options)
            try:
                _put({}, item, value, self)
            except PitbError:
                field, _, part = item.burn.partition(".")
                found[field] = {part: value} if part else value
        return found

    def _does_nothing(self, name: str, value: Any) -> bool:
        if name in IMPLEMENTATION:
            return True
        if name in self.neutral:
            return bool(value == self.neutral[name])
        return value is None or bool(value == libraries.pytorch_defaults(self.pytorch).get(name))

    def defaults(self) -> Options:
        """``opt.defaults`` of the Python side as installed, its tuples as lists."""
        return self.resolved({})

    def resolved(self, options: Mapping[str, Any]) -> Options:
        """``opt.defaults`` with some options set, which others may follow (``max_eval``); as given
        where the Python side refuses their combination.
        """
        return dict(_resolved(self.module, self.pytorch, json.dumps(dict(options))))


def _put(found: Options, item: Hyperparameter, value: Any, optimizer: Optimizer) -> None:
    """Set one of burn's fields to PyTorch's ``value``."""
    path = item.burn.split(".")
    if value is None and item.off is None and not item.values:
        raise PitbError(f"burn's {optimizer.burn} cannot do {item.pytorch}=None")
    if item.values:
        word = "" if value is None else value
        if word not in item.values:
            raise PitbError(f"burn's {optimizer.burn} cannot do {item.pytorch}={value!r}")
        value = item.values[word]
    if len(path) == 1:
        if value is None and item.off is not None:
            value = item.off
        found[path[0]] = value
    elif item.off is not None and value in (None, item.off):
        found[path[0]] = None  # null switches an optional part off, and hides the rest of it
    elif found.get(path[0], {}) is not None:
        found.setdefault(path[0], {})[path[1]] = value


@cache
def _resolved(module: str, name: str, options: str) -> Mapping[str, Any]:
    import torch

    constructor = getattr(importlib.import_module(module), name)
    given = json.loads(options)
    parameters = [torch.nn.Parameter(torch.zeros(1, 1))]
    try:
        found: Options = plain(constructor(parameters, **given).defaults)
    except Exception:  # whatever a constructor raises of a combination
        found = plain(constructor(parameters).defaults) | given
    return found


def plain(value: Any) -> Any:
    """As JSON has it: tuples become lists, tensors numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


@cache
def optimizers() -> tuple[Optimizer, ...]:
    """All optimizers of burn, with their counterparts in Python."""
    text = resources.files("pitb").joinpath("optimizers.json").read_text(encoding="utf-8")
    return tuple(
        Optimizer(
            **{
                **entry,
                "hyperparameters": tuple(
                    Hyperparameter(**item) for item in entry["hyperparameters"]
                ),
                "pytorch_only": tuple(entry["pytorch_only"]),
                "burn_only": tuple(entry["burn_only"]),
                "state_alone": tuple(entry.get("state_alone", ())),
            }
        )
        for entry in json.loads(text)["optimizers"]
    )


@cache
def published_optimizers() -> tuple[Optimizer, ...]:
    """Those that the published page compares."""
    return tuple(optimizer for optimizer in optimizers() if optimizer.published)


def by_burn_name(name: str) -> Optimizer:
    """The optimizer that burn calls ``name``.

    Raises:
        PitbError: There is none; names the nearest.
    """
    return _named("burn", name, "burn has no optimizer {!r}")


def set_option(options: Options, name: str, value: Any) -> None:
    """Set one of PyTorch's options in place, ``betas[0]`` in a list of its own."""
    base, _, index = name.partition("[")
    if index:
        options[base] = list(options[base])
        options[base][int(index[:-1])] = value
    else:
        options[base] = value


def max_eval_of(max_iter: int) -> int:
    """What torch.optim.LBFGS and burn's take for ``max_eval`` where it is left: 5/4, rounded down.

    Source: ``torch/optim/lbfgs.py``, ``LBFGS.__init__``.
    """
    return max_iter * 5 // 4


def misfit(value: Any, default: Any) -> tuple[str, Any, str] | None:
    """Why a value can be none of an option with that default, or None where it can.

    Returns:
        The place in it, ``[0]`` or nothing; what stands there; and what must.
    """
    if isinstance(default, bool):
        return None if isinstance(value, bool) else ("", value, "true or false")
    if isinstance(default, (int, float)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return "", value, "a number"
        return None if math.isfinite(value) else ("", value, "a finite number")
    if isinstance(default, list):
        if not isinstance(value, (list, tuple)) or len(value) != len(default):
            return "", value, f"a list of {len(default)} numbers"
        for place, (item, wanted) in enumerate(zip(value, default, strict=True)):
            found = misfit(item, wanted)
            if found is not None:
                return f"[{place}]{found[0]}", found[1], found[2]
        return None
    return ("", value, "one value") if isinstance(value, (list, dict)) else None


def by_pytorch_name(name: str) -> Optimizer:
    """The optimizer that Python calls ``name``.

    Raises:
        PitbError: There is none; names the nearest.
    """
    return _named("pytorch", name, "no optimizer {!r} is known")


def _named(library: str, name: str, unknown: str) -> Optimizer:
    """The optimizer of that name in one library, or an error in the words of ``unknown``."""
    for optimizer in optimizers():
        if getattr(optimizer, library) == name:
            return optimizer
    near = nearest(name, [getattr(optimizer, library) for optimizer in optimizers()])
    raise PitbError(f"{unknown.format(name)}; nearest: {near!r}")
