"""One point of a sweep: its options resolved, its name, and what each side trains for it."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from pitb import a1, libraries
from pitb.errors import PitbError, nearest
from pitb.problems import problem
from pitb.registry import Optimizer, by_pytorch_name, max_eval_of, misfit, set_option

Options = dict[str, Any]
ALIGNED, DEFAULTS = "aligned", "defaults"
"""What burn's side has: the same options as PyTorch's, or its own defaults where none is given."""
DIGITS = 8
"""Hexadecimal digits of the digest that a name ends with."""
LONGEST = 100
"""Characters of a name before its digest."""


@dataclass(frozen=True)
class Point:
    """One configuration, trained on both sides."""

    optimizer: str
    """PyTorch's name."""
    lr: float
    steps: int = 10
    problem: str = a1.NAME
    dtype: str = "float32"
    burn: str = ALIGNED
    clip: Options | None = None
    """Clipping by the training loop of both sides."""
    options: Options = field(default_factory=dict)
    """By PyTorch's names, ``betas[0]`` being one of a list; the others are at the defaults."""
    burn_options: Options = field(default_factory=dict)
    """Fields of burn's configuration that its side alone has, by their paths."""

    @property
    def entry(self) -> Optimizer:
        """Its line of the list of optimizers."""
        return by_pytorch_name(self.optimizer)

    @cached_property
    def resolved(self) -> Options:
        """Every option of PyTorch's side but the rate."""
        found = {
            key: value
            for key, value in libraries.pytorch_defaults(self.optimizer).items()
            if key != "lr"
        }
        for name, value in self.options.items():
            set_option(found, name, value)
        if "max_iter" in self.options and "max_eval" not in self.options:
            # The one follows the other in torch.optim.LBFGS.
            found["max_eval"] = max_eval_of(self.options["max_iter"])
        return found

    @cached_property
    def left(self) -> tuple[str, ...]:
        """Hyper-parameters that are left at burn's defaults, by PyTorch's names."""
        if self.burn == ALIGNED:
            return ()
        given = set(self.options)
        both = [*(item.pytorch for item in self.entry.hyperparameters), *self.entry.pytorch_only]
        return tuple(n for n in both if n not in given and n.partition("[")[0] not in given)

    @cached_property
    def digest(self) -> str:
        """Of all that is trained: the same whatever way the same configuration was written."""
        whole = [
            *(self.optimizer, self.lr, self.steps, self.problem, self.dtype, self.clip),
            *(self.resolved, sorted(self.left), self.burn_options),
        ]
        text = json.dumps(_canonical(whole), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def name(self) -> str:
        """What differs from PyTorch's defaults, in short, and the first digits of the digest."""
        defaults = libraries.pytorch_defaults(self.optimizer)
        parts = [self.optimizer.lower(), f"lr{_short(self.lr)}"]
        for key, value in self.resolved.items():
            if _canonical(value) != _canonical(defaults.get(key)):
                parts.append(f"{_letters(key)}{'' if value is True else _short(value)}")
        if self.left:
            parts.append("burn")
        for key, value in sorted(self.burn_options.items()):
            parts.append(f"burn.{key}{_short(value)}")
        if self.clip:
            parts.append(f"clip{_short(self.clip.get('max_norm', self.clip.get('clip_value')))}")
        if self.problem != a1.NAME:
            parts.append(self.problem)
        if self.dtype != "float32":
            parts.append(self.dtype.replace("float", "f"))
        if self.steps != 10:
            parts.append(f"{self.steps}steps")
        text = re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(parts))[:LONGEST]
        return f"{text}-{self.digest[:DIGITS]}"

    def _common(self, side: str) -> Options:
        return {
            "id": f"{side}/{self.digest[:32]}",
            "lr": self.lr,
            "steps": self.steps,
            "problem": self.problem,
            "dtype": self.dtype,
            "clip": dict(self.clip) if self.clip else None,
        }

    def pytorch_spec(self) -> Options:
        """What PyTorch trains.

        Raises:
            PitbError: It cannot; says why.
        """
        self._check_tensors()
        names = dict.fromkeys(name.partition("[")[0] for name in self.options)
        options = {name: self.resolved[name] for name in names}
        return {**self._common("pytorch"), "optimizer": self.optimizer, "options": options}

    def burn_spec(self) -> Options:
        """What burn trains.

        Raises:
            PitbError: It cannot; says why.
        """
        self._check_tensors()
        options = self.entry.to_burn(self.resolved, self.left)
        for path, value in self.burn_options.items():
            outer, _, inner = path.rpartition(".")
            fields = options.setdefault(outer, {}) if outer else options
            if not isinstance(fields, dict):
                raise PitbError(f"burn's {outer} is off, so that {path} cannot be set")
            fields[inner] = value
        return {**self._common("burn"), "optimizer": self.entry.burn, "options": options}

    def _check_tensors(self) -> None:
        if not self.entry.matrices_only:
            return
        for name, value in problem(self.problem).parameters.items():
            if value.ndim != 2:
                raise PitbError(f"{self.optimizer} takes matrices alone, and {name} is none")


def _canonical(value: Any) -> Any:
    """A value of which 1 and 1.0 are one."""
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


@cache
def _letters(option: str) -> str:
    """An option in short: ``wd`` of weight_decay, ``mom`` of momentum."""
    words = option.split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else option[:3]


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "-".join(map(_short, value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).lower()
    return re.sub(r"e([-+])0*", lambda found: "e" + found[1].strip("+"), f"{value:g}")


def check_option(entry: Optimizer, name: str, value: Any) -> str | None:
    """What is wrong with an option of PyTorch's side, in words, or None."""
    defaults = libraries.pytorch_defaults(entry.pytorch)
    base, _, index = name.partition("[")
    known = [key for key in defaults if key != "lr"]
    if base not in known:
        return f"{entry.pytorch} has no option {base!r}; nearest: {nearest(base, known)!r}"
    default = defaults[base]
    if index:
        places = len(default) if isinstance(default, list) else 0
        if not re.fullmatch(r"[0-9]\]", index) or int(index[0]) >= places:
            return f"{base} of {entry.pytorch} has no element [{index}"
        default = default[int(index[0])]
    found = misfit(value, default)
    if found is None:
        return None
    place, item, must = found
    shown = json.dumps(item, ensure_ascii=False)
    return f"{name}{place} of {entry.pytorch} is {shown}, but must be {must}"
