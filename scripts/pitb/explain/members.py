"""An optimizer of either library, with its options by PyTorch's names and its equations."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pitb import a1, libraries
from pitb.breadth import runs
from pitb.breadth.cases import Case
from pitb.breadth.defaults import burn_default
from pitb.errors import PitbError, nearest
from pitb.reference.descriptions import FLAGS
from pitb.reference.equations import Equations
from pitb.registry import (
    IMPLEMENTATION,
    Hyperparameter,
    Optimizer,
    Options,
    by_burn_name,
    by_pytorch_name,
    max_eval_of,
    misfit,
    set_option,
)

Spec = Mapping[str, Any]
CLIP_KEYS = {
    "global": ("max_norm", "norm_type", "error_if_nonfinite", "first_step"),
    "per-parameter": ("max_norm", "norm_type", "error_if_nonfinite", "first_step"),
    "value": ("clip_value", "first_step"),
}
"""What a clip can say, by its scope."""
CLIP_DEFAULTS = {"norm_type": 2.0, "error_if_nonfinite": False, "first_step": 1}
OWN_CLIPS = {"Norm": ("per-parameter", "max_norm"), "Value": ("value", "clip_value")}
"""The clips of burn's optimizers as the training loop calls them: scope and key."""


@dataclass(frozen=True)
class Member:
    """An optimizer, its options, rate and own clipping, for some of the parameters or for all."""

    entry: Optimizer
    options: Options
    """Every option by PyTorch's names; burn's for what PyTorch lacks."""
    equations: Equations
    lr: float
    moot: frozenset[str] = frozenset()
    """Options of a part that burn has at null, and so has no value of."""
    how: Options = field(default_factory=dict)
    """Options that choose how PyTorch computes, not what."""
    clip: Options | None = None
    """The optimizer's own clipping."""
    parameters: tuple[str, ...] = ()

    def value(self, name: str) -> Any:
        """The value of an option, also of ``betas[0]``."""
        base, _, index = name.partition("[")
        value = self.options[base]
        return value[int(index[:-1])] if index else value


def check_keys(found: Any, known: Sequence[str], what: str) -> None:
    """Refuse a key that is not known.

    Raises:
        PitbError: Names the nearest.
    """
    if not isinstance(found, Mapping):
        raise PitbError(f"{what} is {found!r}, but must be keys and values")
    for key in found:
        if key not in known:
            raise PitbError(f"{what} has no key {key!r}; nearest: {nearest(str(key), known)!r}")


def number(value: Any, name: str) -> float:
    """A finite number.

    Raises:
        PitbError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PitbError(f"{name} is {value!r}, not a number")
    if not math.isfinite(value):
        raise PitbError(f"{name} is {value!r}, not a finite number")
    return float(value)


def member_of(side: str, spec: Spec, dtype: str, late: bool = False) -> Member:
    """An optimizer as a run, or a group of it, has it.

    Args:
        side: pytorch or burn.
        spec: ``optimizer``, ``options``, ``lr``, and ``parameters`` of a group.
        dtype: The run's.
        late: Whether its own clipping begins at the second update.

    Raises:
        PitbError: Something of it is not known.
    """
    name = spec.get("optimizer")
    if name is None:
        raise PitbError("the key 'optimizer' is missing")
    make: Callable[[str, Options], Member] = _of_pytorch if side == "pytorch" else _of_burn
    member = make(str(name), dict(spec.get("options") or {}))
    lr = spec.get("lr")
    if lr is None:
        if side == "burn":
            raise PitbError("the key 'lr' is missing, and burn has no default of it")
        lr = libraries.pytorch_defaults(member.entry.pytorch)["lr"]
    rate = number(lr, "lr")
    options = dict(member.options)
    eps = options.get("eps")
    if isinstance(eps, list) and eps[0] is None:  # what Adafactor then takes
        options["eps"] = [float(np.finfo(dtype).eps), *eps[1:]]
    case = Case(member.entry.pytorch, "explain", a1.NAME, dtype, rate, options)
    equations = runs.equations_of(case, side)
    for choice, (heeding, flag, value) in FLAGS.items():
        if flag in member.entry.burn_only and side == "pytorch":
            options[flag] = value
            equations = equations.with_value(choice, heeding)
    options.pop("decoupled_weight_decay", None)  # which is the choice `decay` now
    clip = member.clip
    if clip is not None and late:
        clip = {**clip, "first_step": 2}
    return Member(
        entry=member.entry,
        options=options,
        equations=equations,
        lr=rate,
        moot=member.moot,
        how=member.how,
        clip=clip,
        parameters=tuple(spec.get("parameters", ())),
    )


def _of_pytorch(name: str, given: Options) -> Member:
    entry = by_pytorch_name(name)
    standard = libraries.pytorch_defaults(name)
    parameters = [item["name"] for item in libraries.recorded()["pytorch"][name]["parameters"][1:]]
    known = [key for key in dict.fromkeys([*parameters, *standard]) if key != "lr"]
    shown = f"{entry.module}.{name}"
    for key, value in given.items():
        if key not in known:
            raise PitbError(f"{shown} has no option {key!r}; nearest: {nearest(key, known)!r}")
        _check_like(value, standard.get(key), key, shown)
    options = {key: value for key, value in standard.items() if key != "lr"} | given
    if "max_eval" not in given and "max_eval" in options:
        options["max_eval"] = None  # the default that is recorded is that of the default max_iter
    _let_follow(options)
    how = {key: options.pop(key) for key in IMPLEMENTATION if key in options}
    return Member(entry, options, Equations(), 0.0, how=how)


def _let_follow(options: Options) -> None:
    """Leave open what both libraries take from another option where it is not set.

    That is ``max_eval``, 5/4 of ``max_iter``, and timm's ``max_lr_snapshot``, the rate. So a trace,
    which has them resolved, says no more than the run that it is of.
    """
    if options.get("max_eval") == max_eval_of(options.get("max_iter", 0)):
        options["max_eval"] = None
    if "max_lr_snapshot" in options:
        options["max_lr_snapshot"] = None


def _check_like(value: Any, standard: Any, option: str, shown: str) -> None:
    """Refuse what can be no value of an option whose default is ``standard``."""
    if value is None and not isinstance(standard, (bool, list)):
        return
    wrong = misfit(value, standard) if isinstance(standard, (int, float, list)) else None
    if wrong is not None:
        place, item, must = wrong
        raise PitbError(f"{option}{place} of {shown} is {item!r}, not {must}")


def _of_burn(name: str, given: Options) -> Member:
    entry = by_burn_name(name)
    fields = _merged_fields(entry, given)
    recorded = {**libraries.recorded()["burn"], entry.burn_config: {"fields": fields}}
    moot = set()
    for item in entry.hyperparameters:
        part, _, rest = item.burn.partition(".")
        if item.when is not None and isinstance(fields[part], Mapping):
            recorded[item.when] = {"fields": fields[part]}
        if rest and fields[part] is None and item.off is None:
            moot.add(item.pytorch)
    standard = libraries.pytorch_defaults(entry.pytorch)
    options = {
        key: copy.deepcopy(entry.neutral.get(key, value))
        for key, value in standard.items()
        if key != "lr" and key not in IMPLEMENTATION
    }
    for item in entry.hyperparameters:
        set_option(options, item.pytorch, _value_of(recorded, entry, item))
    _let_follow(options)
    clip = None
    for path in entry.burn_only:
        part, _, rest = path.partition(".")
        value = fields[part]
        if path.endswith("clipping"):
            clip = _own_clip(value, f"{path} of burn's {entry.burn_config}")
        elif rest:
            options[path] = (value or {}).get(rest, 0.0)
        else:
            options[path] = value
    if "decoupled_weight_decay" in standard:
        options["decoupled_weight_decay"] = standard["decoupled_weight_decay"]
    return Member(entry, options, Equations(), 0.0, frozenset(moot), clip=clip)


def _value_of(recorded: Mapping[str, Any], entry: Optimizer, item: Hyperparameter) -> Any:
    try:
        return burn_default(recorded, entry, item)
    except (KeyError, TypeError):
        part = item.burn.partition(".")[0]
        found = recorded[entry.burn_config]["fields"][part]
        allowed = ", ".join(dict.fromkeys(item.values.values())) or "a table with all its keys"
        shown = f"{item.burn} of burn's {entry.burn_config}"
        raise PitbError(f"{shown} is {found!r}; allowed: {allowed}") from None


def _merged_fields(entry: Optimizer, given: Options) -> Options:
    """burn's fields at their defaults but for those given, merged as burn's side merges them."""
    fields: Options = copy.deepcopy(libraries.burn_fields(entry.burn_config))
    shown = f"burn's {entry.burn_config}"
    parts: dict[str, dict[str, Any]] = {}
    for item in (*(h.burn for h in entry.hyperparameters), *entry.burn_only):
        part, _, rest = item.partition(".")
        if rest:
            parts.setdefault(part, {})[rest] = None
    defaults = {
        item.burn.partition(".")[0]: libraries.burn_fields(item.when)
        for item in entry.hyperparameters
        if item.when is not None
    }
    for key, value in given.items():
        if key not in fields:
            raise PitbError(f"{shown} has no field {key!r}; nearest: {nearest(key, fields)!r}")
        if key in parts and value is not None:
            known = [*parts[key]]
            check_keys(value, known, f"{key} of {shown}")
            for inner, item in value.items():
                _check_like(item, (defaults.get(key) or {}).get(inner), f"{key}.{inner}", shown)
            fields[key] = {**defaults.get(key, {}), **(fields[key] or {}), **value}
            for inner in known:
                if inner not in fields[key]:
                    raise PitbError(f"{key} of {shown} lacks the key {inner!r}")
        else:
            _check_like(value, fields[key], key, shown)
            fields[key] = value
    return fields


def _own_clip(value: Any, what: str) -> Options | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or len(value) != 1:
        raise PitbError(f"{what} is {value!r}; allowed: {{Norm: number}} or {{Value: number}}")
    ((kind, limit),) = value.items()
    if kind not in OWN_CLIPS:
        raise PitbError(f"{what} has no kind {kind!r}; nearest: {nearest(str(kind), OWN_CLIPS)!r}")
    scope, key = OWN_CLIPS[kind]
    return checked_clip({"scope": scope, key: limit})


def checked_clip(clip: Any) -> Options:
    """A clip with all that it leaves to defaults.

    Raises:
        PitbError: A key or a value is not known.
    """
    check_keys(clip, ["scope", *dict.fromkeys(sum(CLIP_KEYS.values(), ()))], "clip")
    scope = clip.get("scope")
    if scope not in CLIP_KEYS:
        allowed, near = ", ".join(CLIP_KEYS), nearest(str(scope), CLIP_KEYS)
        raise PitbError(f"clip.scope is {scope!r}; allowed: {allowed} (nearest: {near})")
    known = CLIP_KEYS[scope]
    check_keys({k: v for k, v in clip.items() if k != "scope"}, known, f"clip of scope {scope}")
    limit = known[0]
    if limit not in clip:
        raise PitbError(f"clip of scope {scope} lacks the key {limit!r}")
    if number(clip[limit], f"clip.{limit}") <= 0:
        raise PitbError(f"clip.{limit} is {clip[limit]!r}, not a number above 0")
    return {key: CLIP_DEFAULTS[key] for key in known if key in CLIP_DEFAULTS} | dict(clip)
