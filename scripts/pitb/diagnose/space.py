"""What an optimizer may be: its hyper-parameters, flags and choices of equation.

Nothing is listed here: hyper-parameters and defaults are the registry's and the recorded
libraries', choices are those that the reference reads when it makes two updates.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from pitb import libraries
from pitb.breadth.cases import SETS
from pitb.breadth.defaults import burn_default
from pitb.breadth.mutants import alternatives
from pitb.reference import lbfgs
from pitb.reference.descriptions import DESCRIPTIONS, describe
from pitb.reference.equations import Equations
from pitb.reference.optimizers import FUNCTIONS, GROUP_STEP, Scalars
from pitb.registry import IMPLEMENTATION, Optimizer, by_pytorch_name

SIDES = tuple(DESCRIPTIONS)
SNAPSHOT = "max_lr_snapshot"
"""Follows from the rates, so that it is never searched for."""
OWN_LIMIT = "max_grad_norm"
"""The limit of the global norm that timm's LAMB keeps; the training loop applies it."""
WEIGHTS = ("betas", "alpha", "momentum")
"""Hyper-parameters that weigh an average, so that they are less than 1."""
Options = dict[str, Any]


@dataclass(frozen=True)
class Hypothesis:
    """One configuration, and the library whose description it began as."""

    optimizer: str
    side: str
    options: Options
    equations: Equations
    clip: Options | None = None
    """Clipping by the training loop, where the trace does not hold what it left."""

    def value(self, name: str) -> Any:
        """The value of a hyper-parameter, ``betas[0]``, or of ``clip.max_norm``."""
        if name.startswith("clip."):
            return (self.clip or {})[name[5:]]
        base, _, index = name.partition("[")
        found = self.options[base]
        return found[int(index[:-1])] if index else found

    def having(self, name: str, value: Any) -> "Hypothesis":
        """The same with one hyper-parameter changed."""
        if name.startswith("clip."):
            return replace(self, clip={**(self.clip or {}), name[5:]: value})
        base, _, index = name.partition("[")
        if index:
            items = list(self.options[base])
            items[int(index[:-1])] = value
            value = items
        return replace(self, options={**self.options, base: value})

    def but(self, **choices: Any) -> "Hypothesis":
        """The same with choices of equation changed."""
        return replace(self, equations=self.equations.but(**choices))

    def choosing(self, name: str, value: Any) -> "Hypothesis":
        """The same with one choice changed, also one of L-BFGS's, ``lbfgs.displacement``."""
        return replace(self, equations=self.equations.with_value(name, value))

    @property
    def joint(self) -> bool:
        """Whether all tensors are updated as one vector."""
        return self.optimizer not in FUNCTIONS

    @property
    def function(self) -> Any:
        """What computes an update: two optimizers of one function are one."""
        return FUNCTIONS.get(self.optimizer, lbfgs.step)

    @property
    def entry(self) -> Optimizer:
        """Its line of the list of optimizers."""
        return by_pytorch_name(self.optimizer)


def defaults(optimizer: str, side: str) -> Options:
    """Every option at the default of one side, by PyTorch's names, but how it is computed."""
    entry = by_pytorch_name(optimizer)
    found = {
        name: list(value) if isinstance(value, list) else value
        for name, value in libraries.pytorch_defaults(optimizer).items()
        if name != "lr" and name not in IMPLEMENTATION
    }
    if side == "pytorch":
        return found
    found |= dict(entry.neutral)
    fields = libraries.burn_fields(entry.burn_config)
    for item in entry.hyperparameters:
        value = burn_default(libraries.recorded()["burn"], entry, item)
        if value is not None or item.values:
            base, _, index = item.pytorch.partition("[")
            if index:
                found[base][int(index[:-1])] = value
            else:
                found[base] = value
    for name in entry.burn_only:
        if not name.endswith("clipping"):
            part: Any = fields
            for step in name.split("."):
                part = part[step]
            found[name] = part
    return found


def base(optimizer: str, side: str) -> Hypothesis:
    """A library's optimizer as it comes."""
    return Hypothesis(optimizer, side, defaults(optimizer, side), describe(side, optimizer))


def bases() -> Iterator[Hypothesis]:
    """All that can be replayed, as both libraries describe them."""
    for optimizer in FUNCTIONS:
        for side in SIDES:
            yield base(optimizer, side)


def joint_bases() -> Iterator[Hypothesis]:
    """L-BFGS as both libraries describe it, with one evaluation of the loss in an update: that can
    be replayed from one gradient."""
    for side in SIDES:
        yield base("LBFGS", side).having("max_iter", 1)


def is_number(value: Any) -> bool:
    """Whether an option is a quantity, and neither a flag nor a count."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or value == 0


def numbers(hypothesis: Hypothesis, deep: bool = True) -> list[str]:
    """The continuous hyper-parameters that the reference reads as things stand.

    Unless ``deep``, coefficients of a polynomial are left out: freed too early they imitate
    anything.
    """
    found = []
    read = reads(hypothesis)[1]
    for name, value in hypothesis.options.items():
        if name == SNAPSHOT or (name not in read and name != OWN_LIMIT):
            continue
        if not deep and np.isneginf(bounds(name)[0]) and bounds(name)[1] == np.inf:
            continue
        if isinstance(value, list):
            found += [f"{name}[{i}]" for i, item in enumerate(value) if is_number(item)]
        elif is_number(value):
            found.append(name)
    if hypothesis.clip is not None:
        found += [f"clip.{name}" for name in ("max_norm", "clip_value") if name in hypothesis.clip]
    return found


def bounds(name: str) -> tuple[float, float]:
    """The values that a continuous hyper-parameter can have."""
    base_name = name.partition("[")[0]
    if base_name in WEIGHTS:
        return 0.0, 1.0 - 1e-9
    if "dampening" in base_name:
        return 0.0, 1.0
    if base_name == "ns_coefficients":
        return -np.inf, np.inf
    if base_name == "beta2_decay":
        return -np.inf, 0.0
    return 0.0, np.inf


def is_flag(value: Any) -> bool:
    """Whether an option is on or off."""
    return isinstance(value, bool)


def option_alternatives(hypothesis: Hypothesis) -> Iterator[tuple[str, Hypothesis]]:
    """Every hypothesis with one flag, count or word changed."""
    read = reads(hypothesis)[1] | {"maximize", OWN_LIMIT}
    values = {item.pytorch: item.values for item in hypothesis.entry.hyperparameters}
    for name, value in hypothesis.options.items():
        if name not in read or name == SNAPSHOT:
            continue
        others: list[Any] = []
        if is_flag(value):
            others = [not value]
        elif name == OWN_LIMIT:
            others = [None] if value is not None else [1.0]
        elif values.get(name):
            tried = (chosen.options.get(name) for chosen in SETS[hypothesis.optimizer])
            words = {word or None for word in values[name]} | {word for word in tried if word}
            others = [word for word in sorted(words, key=str) if not _same_word(word, value)]
        elif isinstance(value, int) and not is_number(value):
            others = [other for other in range(1, value + 4) if other != value]
        for other in others:
            yield name, hypothesis.having(name, other)


def _same_word(a: Any, b: Any) -> bool:
    standard = (None, "original")
    return bool(a == b) or (a in standard and b in standard)


def choice_alternatives(
    hypothesis: Hypothesis, absent: bool = False
) -> Iterator[tuple[str, Hypothesis]]:
    """Every hypothesis with one choice of equation changed; ``absent`` says whether a tensor has
    no gradient at some step, so that it matters what becomes of that."""
    eq = hypothesis.equations
    choices = reads(hypothesis)[0] | ({"absent_gradient"} if absent else set())
    if hypothesis.clip is not None and "max_norm" in hypothesis.clip:
        choices.add("clip_denominator")
    for name in sorted(choices - {"float32", "lbfgs", "gradient_layout"}):
        if name == "step_counter" and not absent:
            continue
        of, _, inner = name.rpartition(".")
        for value in alternatives(lbfgs.Choices if of else Equations, inner):
            if value != eq.value(name):
                yield name, hypothesis.choosing(name, value)
    if "float32" in choices:
        for kept in dict.fromkeys(describe(side, hypothesis.optimizer).float32 for side in SIDES):
            if kept != eq.float32:
                yield "float32", hypothesis.but(float32=kept)


def differences(a: Equations, b: Equations) -> list[str]:
    """The choices in which two sets of them differ, each of L-BFGS's by itself."""
    found = [name for name in a.differences(b) if name != "lbfgs"]
    inner = [f"lbfgs.{name}" for name in lbfgs.Choices.__dataclass_fields__]
    return found + [name for name in inner if a.value(name) != b.value(name)]


class _Spy(Equations):
    """Equations that note which choices are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in Equations.__dataclass_fields__:
            _READ.add(name)
        return super().__getattribute__(name)


class _SpyChoices(lbfgs.Choices):
    """L-BFGS's choices that note which of them are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in lbfgs.Choices.__dataclass_fields__:
            _READ.add(f"lbfgs.{name}")
        return super().__getattribute__(name)


JOINT_OPTIONS = frozenset({"history_size", "tolerance_grad", "tolerance_change"})
"""What L-BFGS reads where an update is one evaluation."""


class _SpiedOptions(Options):
    def __getitem__(self, name: str) -> Any:
        _READ_OPTIONS.add(name)
        return super().__getitem__(name)


_READ: set[str] = set()
_READ_OPTIONS: set[str] = set()


def reads(hypothesis: Hypothesis) -> tuple[set[str], set[str]]:
    """The choices of equation and the options that the reference reads in two updates."""
    choices, options, _ = _traits(*_key(hypothesis))
    return set(choices), set(options)


def is_elementwise(hypothesis: Hypothesis) -> bool:
    """Whether each number is updated as if it were alone: tried, not declared."""
    return bool(_traits(*_key(hypothesis))[2])


def _key(hypothesis: Hypothesis) -> tuple[str, tuple[tuple[str, Any], ...], Equations]:
    """What the course of a function depends on: which options are on, not how large they are."""
    shown: list[tuple[str, Any]] = []
    for name, value in hypothesis.options.items():
        if isinstance(value, list):
            shown.append((name, tuple(None if item is None else float(item) for item in value)))
        elif isinstance(value, float):
            shown.append((name, 0.5 if value else 0.0))
        else:
            shown.append((name, value))
    # Lists keep their values, which Newton-Schulz needs; averages do not branch on theirs.
    shown = [(name, (0.5,) * len(value) if name == "betas" else value) for name, value in shown]
    return hypothesis.optimizer, tuple(shown), hypothesis.equations


@cache
def _traits(
    optimizer: str, options: tuple[tuple[str, Any], ...], eq: Equations
) -> tuple[frozenset[str], frozenset[str], bool]:
    if optimizer not in FUNCTIONS:
        return _joint_choices(eq), JOINT_OPTIONS, False
    given = {name: list(v) if isinstance(v, tuple) else v for name, v in options}
    if optimizer == "Adafactor":
        given["eps"] = [1e-30 if given["eps"][0] is None else given["eps"][0], given["eps"][1]]
    if SNAPSHOT in given:
        given[SNAPSHOT] = 0.1
    _READ.clear()
    _READ_OPTIONS.clear()
    generator = np.random.default_rng(0)
    p, *gradients = (generator.normal(size=(3, 4)) for _ in range(3))
    spied = _Spy(**{name: getattr(eq, name) for name in Equations.__dataclass_fields__})
    _READ.clear()
    whole = _two(optimizer, p, gradients, _SpiedOptions(given), spied)
    found, read = frozenset(_READ), frozenset(_READ_OPTIONS)
    if by_pytorch_name(optimizer).matrices_only:
        return found, read, False
    alone = [
        _two(
            optimizer,
            p[i : i + 1, j : j + 1],
            [g[i : i + 1, j : j + 1] for g in gradients],
            given,
            eq,
        )
        for i, j in PLACES
    ]
    beside = [whole[i, j] for i, j in PLACES]
    same = np.allclose(np.array(alone).reshape(-1), beside, rtol=1e-9, atol=1e-12)
    return found, read, bool(same)


def _joint_choices(eq: Equations) -> frozenset[str]:
    """The choices that L-BFGS reads in four updates of one evaluation each, but those of what only
    a later evaluation would show."""
    fields = lbfgs.Choices.__dataclass_fields__
    choices = _SpyChoices(**{name: getattr(eq.lbfgs, name) for name in fields})
    state: dict[str, Any] = {}
    x, *gradients = np.random.default_rng(0).normal(size=(5, 6))
    _READ.clear()
    for gradient in gradients:
        evaluate = partial(_given, gradient)
        x = lbfgs.step(x, evaluate, state, lr=0.1, max_iter=1, history_size=2, choices=choices)
    return frozenset(_READ - {"lbfgs.last_evaluation", "lbfgs.prev_loss"})


def _given(gradient: Any, x: Any) -> tuple[float, Any]:
    return 0.0, gradient


PLACES = ((0, 0), (1, 2), (2, 3))
"""Numbers that are updated alone, to see whether others matter to them."""


def _two(optimizer: str, p: Any, gradients: list[Any], options: Options, eq: Equations) -> Any:
    state: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for step, gradient in enumerate(gradients, 1):
            state[GROUP_STEP] = step
            p = FUNCTIONS[optimizer](p, gradient, state, 0.1, Scalars(options, eq), eq)
    return p
